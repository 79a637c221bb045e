"""The search among commits for the first with a fault: which one to look at next, and how certain the answer is.

The graph is that of git: if a commit has the fault, all its descendants have it. With one execution for each commit a
verdict is final, as in `git bisect`. With several, each is a sample: the posterior over the commits is that of a change
from one unknown failure rate to a higher one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from workbench.engine.git_worktrees import choose_evenly


class Counts(NamedTuple):
    """Samples of a commit. They are fractions if several commits share the same executions."""

    passed: float = 0.0
    failed: float = 0.0

    @property
    def total(self) -> float:
        """The number of samples."""
        return self.passed + self.failed

    def add(self, other: Counts) -> Counts:
        """Return the samples of both."""
        return Counts(self.passed + other.passed, self.failed + other.failed)


class _Prior(NamedTuple):
    """A Beta distribution of a failure rate."""

    failed: float
    passed: float


# Most cases pass before the fault. After it they fail at any rate.
_BEFORE, _AFTER = _Prior(0.3, 3.0), _Prior(1.0, 1.0)
_NO_GAIN = 1e-9
_COMPARED = 256  # commits that are compared for the next sample, of thousands


class CommitSearch:
    """A search among commits. They are numbered from 0, parents before children; the last one is red.

    `parents` has the numbers of the parents of each commit, without those outside of the search. If `is_sampling`,
    verdicts are samples; otherwise one is final.
    """

    def __init__(
        self, parents: Sequence[Sequence[int]], *, is_sampling: bool = False, confidence: float = 0.95
    ) -> None:
        self._parents = parents
        self._ancestors: list[int] = []  # of each commit, with itself, as bits
        for number, of_commit in enumerate(parents):
            bits = 1 << number
            for parent in of_commit:
                bits |= self._ancestors[parent]
            self._ancestors.append(bits)
        self.is_sampling = is_sampling
        self._confidence = confidence
        self._counts: dict[int, Counts] = {}
        self._closed: set[int] = set()
        self._excluded = 0
        self._unchanged = 0
        self._good = Counts()

    def set_samples(self, commit: int, counts: Counts) -> None:
        """Set the samples of a commit."""
        self._counts[commit] = counts

    def set_good_samples(self, counts: Counts) -> None:
        """Set the samples of the commit before all others, which does not have the fault."""
        self._good = counts

    def close(self, commit: int) -> None:
        """Choose a commit no more: it has no verdict, or enough samples."""
        self._closed.add(commit)

    def exclude(self, commit: int) -> None:
        """Take a commit and its ancestors out of the search: they were red before it begins, and their samples tell
        nothing about the fault."""
        self._excluded |= self._ancestors[commit]

    def set_unchanged(self, commits: Iterable[int]) -> None:
        """Set the commits whose executions are those of all their parents: none of them can have the fault first."""
        self._unchanged = sum(1 << commit for commit in commits)

    def list_ancestors(self, commit: int) -> list[int]:
        """List a commit and its ancestors, oldest first."""
        return list_bits(self._ancestors[commit])

    def has_ancestor(self, commit: int, ancestor: int) -> bool:
        """True if the commits are equal, or one is an ancestor of the other."""
        return bool(self._ancestors[commit] >> ancestor & 1)

    @property
    def suspects(self) -> list[int]:
        """The commits that may have turned the case red, oldest first.

        With samples, the fewest commits that have the wanted probability together.
        """
        if not self.is_sampling:
            return list_bits(self._find_suspects())
        chances = self.posterior
        chosen: list[int] = []
        reached = 0.0
        for commit in sorted(range(len(chances)), key=lambda commit: -chances[commit]):
            if reached >= self._confidence:
                break
            chosen.append(commit)
            reached += chances[commit]
        return sorted(chosen)

    @property
    def posterior(self) -> list[float]:
        """The probability of each commit to have turned the case red."""
        size = len(self._ancestors)
        if not self.is_sampling:
            suspects = self._find_suspects()
            share = 1 / suspects.bit_count() if suspects else 0.0
            return [share if suspects >> commit & 1 else 0.0 for commit in range(size)]
        chances = [0.0] * size
        for commits, chance in self._weigh_groups():
            for commit in list_bits(commits):
                chances[commit] = chance
        return chances

    def _weigh_groups(self) -> list[tuple[int, float]]:
        """Group the commits, as bits, that no sample tells apart, with the probability of each commit of a group."""
        groups = [(1 << len(self._ancestors)) - 1 & ~self._find_impossible()]
        for commit in self._counts:
            inside = self._ancestors[commit]
            groups = [part for group in groups for part in (group & inside, group & ~inside) if part]
        logs = []
        for group in groups:
            before, after = self._split(group.bit_length() - 1)
            logs.append(_log_evidence(before, _BEFORE) + _log_evidence(after, _AFTER))
        highest = max(logs)
        weights = [math.exp(log - highest) for log in logs]
        total = sum(weight * group.bit_count() for weight, group in zip(weights, groups, strict=True))
        return [(group, weight / total) for weight, group in zip(weights, groups, strict=True)]

    def choose_next(self) -> int | None:
        """Return the commit to look at next; None if the search is over."""
        if not self.is_sampling:
            return self._choose_middle()
        chances = self.posterior
        likeliest = max(range(len(chances)), key=chances.__getitem__)
        if chances[likeliest] >= self._confidence:
            return self._choose_for_contrast(likeliest)
        return self._choose_most_informative(chances)

    def compute_contrast(self, first: int) -> float:
        """Return the probability that the case fails at another rate since a commit, and not always at the same one."""
        before, after = self._split(first)
        changed = _log_evidence(before, _BEFORE) + _log_evidence(after, _AFTER)
        return 1 / (1 + math.exp(_log_evidence(before.add(after), _AFTER) - changed))

    def _choose_for_contrast(self, first: int) -> int | None:
        """Choose the likeliest commit or a parent if it is the only possible one, but its samples prove no change."""
        if self.compute_contrast(first) >= self._confidence:
            return None
        return next((each for each in (first, *self._parents[first]) if each not in self._closed), None)

    def _find_impossible(self) -> int:
        """Return as bits the commits that cannot have the fault first."""
        impossible = self._excluded | self._unchanged
        return impossible if impossible.bit_count() < len(self._ancestors) else self._excluded

    def _find_suspects(self) -> int:
        """Return the suspects as bits: ancestors of all red commits, without those of green ones.

        A red commit that has a green descendant does not count: its fault was mended.
        """
        suspects = self._ancestors[-1] & ~self._excluded
        for commit, counts in self._counts.items():
            if not counts.failed and counts.passed:
                suspects &= ~self._ancestors[commit]
        for commit, counts in self._counts.items():
            if counts.failed and suspects >> commit & 1:
                suspects &= self._ancestors[commit]
        return suspects

    def _choose_middle(self) -> int | None:
        """Return the suspect that halves the suspects best, as `git bisect` does."""
        suspects = self._find_suspects()
        count = suspects.bit_count()
        best, most = None, 0
        for commit in list_bits(suspects):
            if commit in self._closed or commit in self._counts:
                continue
            below = (self._ancestors[commit] & suspects).bit_count()
            if (halved := min(below, count - below)) > most:
                best, most = commit, halved
        return best

    def _choose_most_informative(self, chances: Sequence[float]) -> int | None:
        """Return the commit whose next sample is expected to tell most about the suspects."""
        likeliest = max(range(len(chances)), key=chances.__getitem__)
        before, after = self._split(likeliest)
        low, high = _estimate_rate(before, _BEFORE), _estimate_rate(after, _AFTER)
        best, most = None, _NO_GAIN
        impossible, groups = self._find_impossible(), self._weigh_groups()
        likely = sorted(range(len(chances)), key=lambda commit: -chances[commit])[:_COMPARED]
        for commit in sorted({*likely, *choose_evenly(range(len(chances)), _COMPARED)}):
            if commit in self._closed or impossible >> commit & 1:
                continue
            has_fault = sum(chance * (group & self._ancestors[commit]).bit_count() for group, chance in groups)
            mixed = has_fault * high + (1 - has_fault) * low
            gain = _entropy(mixed) - has_fault * _entropy(high) - (1 - has_fault) * _entropy(low)
            if gain > most:
                best, most = commit, gain
        return best

    def _split(self, first: int) -> tuple[Counts, Counts]:
        """Return all samples without and with the fault, if the commit `first` brought it in."""
        before, after = self._good, Counts()
        for commit, counts in self._counts.items():
            if self._excluded >> commit & 1:
                continue
            if self._ancestors[commit] >> first & 1:
                after = after.add(counts)
            else:
                before = before.add(counts)
        return before, after


def list_bits(bits: int) -> list[int]:
    """List the numbers of the bits that are set."""
    found = []
    while bits:
        lowest = bits & -bits
        found.append(lowest.bit_length() - 1)
        bits ^= lowest
    return found


def share_samples(samples: Iterable[Iterable[tuple[object, bool]]]) -> list[Counts]:
    """Count the samples of commits, each given by its execution and whether it passed.

    An execution that is the verdict of several equal commits counts once: each of them gets an equal share.
    """
    listed = [list(of_commit) for of_commit in samples]
    uses: dict[object, int] = {}
    for of_commit in listed:
        for execution, _ in of_commit:
            uses[execution] = uses.get(execution, 0) + 1
    return [
        Counts(
            passed=sum(1 / uses[execution] for execution, has_passed in of_commit if has_passed),
            failed=sum(1 / uses[execution] for execution, has_passed in of_commit if not has_passed),
        )
        for of_commit in listed
    ]


def _log_evidence(counts: Counts, prior: _Prior) -> float:
    """Return the logarithm of the probability of samples, over all failure rates."""
    after = _log_beta(prior.failed + counts.failed, prior.passed + counts.passed)
    return after - _log_beta(prior.failed, prior.passed)


def _log_beta(one: float, other: float) -> float:
    return math.lgamma(one) + math.lgamma(other) - math.lgamma(one + other)


def _estimate_rate(counts: Counts, prior: _Prior) -> float:
    return (prior.failed + counts.failed) / (prior.failed + prior.passed + counts.total)


def _entropy(rate: float) -> float:
    return 0.0 if rate in (0.0, 1.0) else -(rate * math.log(rate) + (1 - rate) * math.log(1 - rate))
