"""`workbench bisect`: finds the commit that turned a case red, in a worktree of its own."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from workbench.engine.git_worktrees import CommitRange, Repository, Worktree, choose_evenly, find_middles
from workbench.engine.plan import Plan, PlanError
from workbench.engine.workspace import Workspace
from workbench.model.results import CaseResult, CaseStatus
from workbench.model.target import AgentKind
from workbench.model.text import pluralise
from workbench.report.bisect_report import BisectReport, BisectStep, Commit, CommitOutcome, Sample, Suspect, Used
from workbench.store.settings import FILE_NAME
from workbench.watch.commit_search import CommitSearch, Counts, share_samples
from workbench.watch.commit_verdicts import CommitVerdicts, Failure, KnownCommit, describe_failure, limit_diff

# The search for one case.

_LOOKED_UP = 64  # suspects whose verdicts are looked up before one runs
_FEW = 4  # the same, if there are hardly any verdicts
_MOST_BETWEEN = 32  # commits between those without a verdict that are looked at for a good one


@dataclass(frozen=True, slots=True, kw_only=True)
class BisectOptions:
    """Options of a search. `good` and `bad` are revisions. `as_committed` takes case, criteria and settings from each
    commit, not from the working tree."""

    good: str | None = None
    bad: str | None = None
    repeats: int = 1
    confidence: float = 0.95
    first_parent: bool = False
    as_committed: bool = False


class Bisection:
    """One search. `run` blocks; `cancel` may be called from any thread."""

    def __init__(
        self,
        workspace: Workspace,
        plan: Plan,
        options: BisectOptions,
        *,
        show: Callable[[BisectStep], None] = lambda _: None,
        notify: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`plan` has one case. `show` gets each commit once something is known of it, and `notify` sentences.
        `announce` of the search gets a commit before the case is executed in it.

        Raises PlanError if the case cannot be searched for.
        """
        self._case = plan.cases[0]
        if self._case.problem is not None:
            raise PlanError(self._case.problem.message)
        target = self._case.target
        if self._case.is_recorded or target.kind is AgentKind.RECORDED:
            raise PlanError(f"{self._case.key}: it was recorded; no agent runs, so no commit can have changed it")
        if target.is_remote:
            raise PlanError(
                f"{self._case.key}: its agent {target.name} runs elsewhere ({target.kind.value}), not from this "
                "repository; no commit can be checked out for it"
            )
        self._workspace = workspace
        self._plan = plan
        self._options = options
        self._show = show
        self._notify = notify
        self.announce: Callable[[Commit], None] = lambda _: None
        self._steps: list[BisectStep] = []
        self._notices: list[str] = []
        self._known: dict[str, KnownCommit] = {}
        self._verdicts: CommitVerdicts | None = None
        self._failures: dict[str, Failure | None] = {}
        self._bad_counts = Counts(failed=1)
        self._looked_up_first = _LOOKED_UP
        self._is_cancelled = threading.Event()

    def cancel(self) -> None:
        """Stop the search as soon as possible."""
        self._is_cancelled.set()
        if self._verdicts is not None:
            self._verdicts.cancel()

    def run(self) -> BisectReport:
        """Search. Raises PlanError, StoreError and BisectInterrupted; the worktree is gone then, too."""
        repository = Repository(self._workspace.root)
        repository.require_whole()
        target = self._case.target
        if not target.path.is_relative_to(repository.top):
            raise PlanError(f"{target.path}: the agent {target.name} is outside of the repository {repository.top}")
        bad = repository.require_commit(self._options.bad or "HEAD", option="--bad")
        good = None
        if self._options.good is not None:
            good = self._resolve_good(repository, self._options.good, bad)
        if repository.is_dirty:
            self._say(
                "the working tree has changes that are not committed: they stay as they are, and are not searched"
            )
        what = "the case, its criteria and the settings"
        self._say(f"{what} are those of {'each commit' if self._options.as_committed else 'the working tree'}")
        env_files = [each.env_file for each in self._workspace.project.targets.values() if each.env_file is not None]
        interpreters = [Path(sys.prefix)]
        if target.python is not None:
            interpreters.append(target.python.parent.parent)
        with Worktree(
            repository,
            self._workspace.root,
            linked=repository.list_untracked_env_files(env_files),
            interpreters=interpreters,
        ) as worktree:
            self._verdicts = CommitVerdicts(
                self._workspace, self._plan, worktree, as_committed=self._options.as_committed
            )
            if self._is_cancelled.is_set():
                self._verdicts.cancel()
            return self._search(repository, good, bad, self._verdicts)

    def _resolve_good(self, repository: Repository, revision: str, bad: str) -> str:
        """Return the commit before the search: the good one, or the commit in which it and the bad one part."""
        good = repository.require_commit(revision, option="--good")
        if good == bad:
            raise PlanError(f"--good and --bad are the same commit, {good[:10]}; there is nothing to search")
        base = repository.find_merge_base(good, bad)
        if base is None:
            raise PlanError(f"--good {good[:10]} and --bad {bad[:10]} have no common ancestor")
        if base == bad:
            raise PlanError(
                f"--good {good[:10]} is newer than --bad {bad[:10]}; expected the good commit before the bad one. "
                "Are they swapped?"
            )
        if base != good:
            self._say(f"--good {good[:10]} is no ancestor of --bad: the search begins where they part, {base[:10]}")
        return base

    def _search(self, repository: Repository, good: str | None, bad: str, verdicts: CommitVerdicts) -> BisectReport:
        newest = repository.read_commit(bad)
        self._looked_up_first = _LOOKED_UP if verdicts.has_passed else _FEW
        self._require_red(verdicts, newest, is_given=good is not None)
        self._bad_counts = _count(self._get(newest))
        if good is None:
            oldest = self._find_good(verdicts, repository.list_commits(bad, first_parent=True)[:-1])
        else:
            oldest = repository.read_commit(good)
            self._require_green(verdicts, oldest, newest)
        commits = repository.list_commits(bad, without=oldest.id, first_parent=self._options.first_parent)
        span = CommitRange(oldest, commits)
        search = self._narrow(repository, verdicts, span, _count)
        report = self._summarise(search, span, verdicts)
        if report.found is not None:
            report = replace(report, doubt=self._find_doubt(repository, verdicts, search, span, report.found))
        if (first := report.found) is None:
            return report
        if (failure := self._read_failure(newest)) is not None and self._differs(first, failure):
            report = self._follow_other_failure(repository, verdicts, report, failure)
        return self._add_changes(repository, search, span, replace(report, executions=verdicts.executions))

    def _narrow(
        self,
        repository: Repository,
        verdicts: CommitVerdicts,
        span: CommitRange,
        count: Callable[[KnownCommit], Counts],
    ) -> CommitSearch:
        """Look at commits until one suspect is left, or nothing more can be learned. `count` counts their verdicts."""
        search = CommitSearch(span.parents, is_sampling=self._options.repeats > 1, confidence=self._options.confidence)
        most = self._looked_up_first
        is_fresh = False  # with samples: no execution since the last look at commits without one
        while True:
            self._feed(search, span, count)
            if self._exclude_old_failures(repository, verdicts, search, span, count):
                continue
            chosen = search.choose_next()
            if chosen is None:
                return search
            known = self._get(span.commits[chosen])
            if not known.is_looked_up or (search.is_sampling and not is_fresh):
                is_fresh = True
                near = set(search.suspects)
                if search.is_sampling:
                    near.update(*(span.parents[number] for number in near))
                unknown = [number for number in sorted(near) if not self._get(span.commits[number]).is_looked_up]
                nearest = [*(choose_evenly(unknown, most) if most > 1 else ()), chosen]
                for number in dict.fromkeys(nearest):
                    self._look_up(verdicts, self._get(span.commits[number]))
                # Where hardly any commit has a verdict, looking for them takes longer than it saves.
                found = any(self._get(span.commits[number]).samples for number in nearest)
                most = _LOOKED_UP if found else max(most // 4, 1)
                continue
            self._execute(verdicts, known)
            if len(known.samples) == 1 and search.is_sampling:
                is_fresh = False  # others may be equal to it
                for commit in span.commits:
                    self._get(commit).is_looked_up = bool(self._get(commit).samples)
            self._feed(search, span, count)
            self._add_step(known, suspects=len(search.suspects))

    def _exclude_old_failures(
        self,
        repository: Repository,
        verdicts: CommitVerdicts,
        search: CommitSearch,
        span: CommitRange,
        count: Callable[[KnownCommit], Counts],
    ) -> bool:
        """Exclude red commits of branches that were red already where they left the ancestors of the good commit.

        Return True if there are any.
        """
        found = False
        waiting = [number for number in span.unchecked if count(self._get(span.commits[number])).failed]
        for number in sorted({*waiting}.intersection(search.suspects)) if waiting else ():
            span.unchecked.discard(number)
            for edge in sorted(span.list_edges(number)):
                known = self._sample_end(verdicts, repository.read_commit(edge), until=None)
                if self._has_fault(known, count):
                    search.exclude(number)
                    found = True
                    break
        return found

    def _has_fault(self, known: KnownCommit, count: Callable[[KnownCommit], Counts]) -> bool:
        """True for a red commit; with samples, for one that fails at least half as often as the bad commit."""
        counts, bad = count(known), self._bad_counts
        return counts.failed > 0 and 2 * counts.failed / counts.total >= bad.failed / bad.total

    def _find_doubt(
        self, repository: Repository, verdicts: CommitVerdicts, search: CommitSearch, span: CommitRange, first: Commit
    ) -> str:
        """Return why a commit may not have turned the case red: not all of its parents are green. Empty if they are.

        With samples, parents in the range have their share of the probability.
        """
        if not first.parents:
            return "it has no parent, so the case was never green before it"
        if search.is_sampling and search.compute_contrast(span.places[first.id]) < self._options.confidence:
            return "the samples before and after it differ so little that it may be flaky all the time; more --repeats"
        for parent in first.parents:
            if self._options.repeats > 1 and (parent in span.places or parent == span.oldest.id):
                continue
            known = self._sample_end(verdicts, repository.read_commit(parent), until=None)
            if known.outcome is CommitOutcome.SKIPPED:
                return f"its parent {parent[:10]} has no verdict: {known.reason.rstrip('.')}"
            if self._has_fault(known, _count):
                return f"the case fails in its parent {parent[:10]}, too"
        return ""

    def _follow_other_failure(
        self, repository: Repository, verdicts: CommitVerdicts, report: BisectReport, failure: Failure
    ) -> BisectReport:
        """Find the commit since which the case fails as it does today, if it failed otherwise in the found one.

        If its parents are green, it is the last one that turned the case red. Otherwise only the report names it.
        """
        first = report.suspects[0].commit
        commits = repository.list_commits(report.bad.id, without=first.id, first_parent=self._options.first_parent)
        span = CommitRange(first, commits)

        def count(known: KnownCommit) -> Counts:
            if not known.samples:
                return Counts()
            is_same = known.outcome is CommitOutcome.FAILED and self._read_failure(known.commit) == failure
            return Counts(failed=1) if is_same else Counts(passed=1)

        suspects = self._narrow(repository, verdicts, span, count).suspects
        last = commits[suspects[0]] if len(suspects) == 1 else None
        parents = () if last is None else last.parents
        outcomes = {self._sample_end(verdicts, repository.read_commit(each), until=None).outcome for each in parents}
        steps = self._list_last_steps()
        if last is not None and outcomes == {CommitOutcome.PASSED}:
            self._say(f"it turned red in {first.short}, too, in another way, and was mended before {last.short}")
            return replace(report, suspects=[Suspect(last, 1.0)], steps=steps, notices=tuple(self._notices))
        since = "later" if last is None else f"since {last.short}"
        return replace(report, steps=steps, other_failure=f"{since} it fails in another way than in {first.short}")

    def _differs(self, commit: Commit, failure: Failure) -> bool:
        own = self._read_failure(commit)
        return own is not None and own != failure

    def _read_failure(self, commit: Commit) -> Failure | None:
        """Return what is wrong in a red commit; None if its trace is not stored, or nothing can be compared with it.

        Texts of answers do not count: models word them anew each time.
        """
        if self._options.repeats > 1 or self._options.as_committed:
            return None
        if commit.id not in self._failures:
            failed = [each for each in self._get(commit).samples if each.status is CaseStatus.FAILED]
            result = _read_stored(failed)
            case = self._case.case
            self._failures[commit.id] = None if result is None or case is None else describe_failure(case, result)
        return self._failures[commit.id]

    def _feed(self, search: CommitSearch, span: CommitRange, count: Callable[[KnownCommit], Counts]) -> None:
        """Give the search all that is known."""
        everything = [self._get(span.oldest), *map(self._get, span.commits)]
        shared = share_samples(
            [(sample.execution, sample.status is CaseStatus.PASSED) for sample in known.samples] for known in everything
        )
        search.set_good_samples(shared[0])
        if search.is_sampling:
            search.set_unchanged(number for number, each in enumerate(span.commits) if self._is_unchanged(each))
        for number, (known, counts) in enumerate(zip(everything[1:], shared[1:], strict=True)):
            if known.samples:
                search.set_samples(number, counts if search.is_sampling else count(known))
            if known.reason or len(known.samples) >= self._options.repeats:
                search.close(number)

    def _is_unchanged(self, commit: Commit) -> bool:
        """True if the executions of a commit are those of all its parents."""
        first = {sample.execution for sample in self._get(commit).samples[:1]}
        if not first or not commit.parents:
            return False
        known = (self._known.get(parent) for parent in commit.parents)
        return all(each is not None and {sample.execution for sample in each.samples[:1]} == first for each in known)

    def _require_red(self, verdicts: CommitVerdicts, newest: Commit, *, is_given: bool) -> None:
        known = self._sample_end(verdicts, newest, until=CommitOutcome.FAILED)
        if known.outcome is CommitOutcome.SKIPPED:
            raise PlanError(
                f"{self._case.key}: no verdict at {_name(newest)}: {known.reason.rstrip('.')}. An ERROR is no verdict"
            )
        if known.outcome is CommitOutcome.PASSED:
            hint = "name a commit in which it fails with --bad"
            if self._options.repeats == 1:
                hint += ", or repeat it with --repeats 10 if it fails only sometimes"
            if is_given:
                hint += ". If it fails at --good, the two are swapped"
            times = "" if len(known.samples) == 1 else f" {len(known.samples)} times of {len(known.samples)}"
            raise PlanError(
                f"{self._case.key}: it passes{times} at {_name(newest)}, so there is nothing to find; {hint}"
            )

    def _require_green(self, verdicts: CommitVerdicts, oldest: Commit, newest: Commit) -> None:
        known = self._sample_end(verdicts, oldest, until=None)
        if known.outcome is CommitOutcome.SKIPPED:
            why = known.reason.rstrip(".")
            raise PlanError(
                f"{self._case.key}: no verdict at --good {_name(oldest)}: {why}. Name another commit, or leave out "
                "--good to search for one"
            )
        counts, bad = _count(known), _count(self._get(newest))
        if counts.failed and (self._options.repeats == 1 or counts.failed / counts.total >= bad.failed / bad.total):
            raise PlanError(
                f"{self._case.key}: it fails at --good {_name(oldest)}, too; name an older commit, or leave out --good "
                "to search for one"
            )

    def _find_good(self, verdicts: CommitVerdicts, earlier: Sequence[Commit]) -> Commit:
        """Find a commit in which the case passes: among known verdicts, going back in growing steps, then between them.

        With samples, two such commits in a row are needed, because a case that fails sometimes may pass by chance.
        """
        newest_first, green = earlier[::-1], 0
        needed = 1 if self._options.repeats == 1 else 2
        for commit in newest_first[:_LOOKED_UP] if verdicts.has_passed else ():
            known = self._get(commit)
            self._look_up(verdicts, known)
            if known.outcome is CommitOutcome.PASSED and len(known.samples) >= self._options.repeats:
                green += 1
                if green == needed:
                    return commit
        last_red, distance, green, place = -1, 1, 0, 0
        while place < len(newest_first):
            known = self._sample_end(verdicts, newest_first[place], until=CommitOutcome.FAILED)
            if known.outcome is CommitOutcome.PASSED:
                green += 1
                if green == needed or place == len(newest_first) - 1:
                    return newest_first[place]
            else:
                green, last_red = 0, place if known.outcome is CommitOutcome.FAILED else last_red
            if place == len(newest_first) - 1:
                break
            place = min(place + distance, len(newest_first) - 1)
            distance *= 2
        if (between := self._look_between(verdicts, newest_first, last_red)) is not None:
            return between
        reason = self._get(newest_first[-1]).reason if newest_first else ""
        looked_at = sum(known.outcome is not None for known in self._known.values())
        where = "" if last_red < 0 else f"; the oldest in which it fails is {_name(newest_first[last_red])}"
        ends = f"; the first commit has no verdict: {reason}" if reason else ""
        raise PlanError(
            f"{self._case.key}: no commit was found in which it passes, of {pluralise(len(earlier) + 1, 'commit')} "
            f"back to the first ({looked_at} looked at){where}{ends}. Name one with --good"
        )

    def _look_between(self, verdicts: CommitVerdicts, older: Sequence[Commit], red: int) -> Commit | None:
        """Look for a good commit between those without a verdict, which may be older than the agent."""
        seen = {place for place, commit in enumerate(older) if self._get(commit).outcome is not None}
        most = len(seen) + _MOST_BETWEEN
        while len(seen) < most and (places := find_middles(seen, after=red)):
            for place in places:
                pair = range(place, place + min(self._options.repeats, 2))
                seen.update(pair)
                outcomes = [
                    self._sample_end(verdicts, older[each], until=CommitOutcome.FAILED).outcome for each in pair
                ]
                if CommitOutcome.FAILED in outcomes:
                    red = pair[outcomes.index(CommitOutcome.FAILED)]
                    break
                if CommitOutcome.PASSED in outcomes:
                    return older[pair[outcomes.index(CommitOutcome.PASSED)]]
                if len(seen) >= most:
                    break
        return None

    def _sample_end(self, verdicts: CommitVerdicts, commit: Commit, *, until: CommitOutcome | None) -> KnownCommit:
        """Sample a commit at an end of the search as often as allowed, or until it has an outcome."""
        known = self._get(commit)
        if not known.is_looked_up:
            self._look_up(verdicts, known)
        while len(known.samples) < self._options.repeats and not known.reason:
            if until is not None and known.outcome is until:
                break
            self._execute(verdicts, known)
            self._add_step(known)
        return known

    def _execute(self, verdicts: CommitVerdicts, known: KnownCommit) -> None:
        self.announce(known.commit)
        verdicts.execute(known)

    def _get(self, commit: Commit) -> KnownCommit:
        return self._known.setdefault(commit.id, KnownCommit(commit))

    def _look_up(self, verdicts: CommitVerdicts, known: KnownCommit) -> None:
        if known.is_looked_up:
            return
        verdicts.look_up(known, repeats=self._options.repeats)
        if known.outcome is not None:
            self._add_step(known)

    def _add_step(self, known: KnownCommit, *, suspects: int | None = None) -> None:
        assert known.outcome is not None
        step = BisectStep(
            commit=known.commit,
            outcome=known.outcome,
            samples=tuple(known.samples),
            reason=known.reason,
            suspects=suspects,
        )
        self._steps.append(step)
        self._show(step)

    def _say(self, sentence: str) -> None:
        self._notices.append(sentence)
        self._notify(sentence)

    def _list_last_steps(self) -> tuple[BisectStep, ...]:
        return tuple({step.commit.id: step for step in self._steps}.values())

    def _summarise(self, search: CommitSearch, span: CommitRange, verdicts: CommitVerdicts) -> BisectReport:
        chances = search.posterior
        numbers = search.suspects
        if search.is_sampling and len(numbers) == 1:  # the others may only be excluded because they change nothing
            chances[numbers[0]] = min(chances[numbers[0]], search.compute_contrast(numbers[0]))
        suspects = [Suspect(span.commits[number], chances[number]) for number in numbers]
        return BisectReport(
            case=self._case.key,
            good=span.oldest,
            bad=span.commits[-1],
            commits=len(span.commits),
            repeats=self._options.repeats,
            suspects=suspects,
            confidence=sum(each.probability for each in suspects) if search.is_sampling else None,
            steps=self._list_last_steps(),
            executions=verdicts.executions,
            notices=tuple(self._notices),
        )

    def _add_changes(
        self, repository: Repository, search: CommitSearch, span: CommitRange, report: BisectReport
    ) -> BisectReport:
        """Add the diff of the found commit, and what the case did before and after it."""
        first = report.suspects[0].commit
        place = span.places[first.id]
        # The nearest commits with such a verdict: its parents and their ancestors, and itself and its descendants.
        earlier = [span.commits[number] for number in search.list_ancestors(place)[-2::-1]]
        outside = [repository.read_commit(each) for each in first.parents if each not in span.places]
        before = self._list_samples([*outside, *earlier, span.oldest], CaseStatus.PASSED)
        later = (each for number, each in enumerate(span.commits) if search.has_ancestor(number, place))
        after = self._list_samples(later, CaseStatus.FAILED)
        used = self._list_own_files(repository) if self._options.as_committed else Used()
        for sample in (*before[:1], *after[:1]):
            used = used.add(sample.read_used())
        changed = repository.list_changed_files(first)
        shown = [
            file for file in changed if any(used.has(each, changes_names=file.changes_names) for each in file.names)
        ]
        diffs: list[str] = []
        left_out: dict[str, int] = {}
        for file in shown:
            parts = None if used.unfollowed else used.list_parts(file.name)
            diff, count = repository.diff(first, [file]), 0
            if parts is not None:
                diff, count = limit_diff(diff, repository.read_sides(first, file), parts)
            diffs.append(diff)
            left_out |= {file.name: count} if count else {}
        return replace(
            report,
            diff="".join(diffs),
            unused=[file.name for file in changed if file not in shown],
            left_out=left_out,
            unfollowed=sorted(used.unfollowed),
            before=_read_stored(before),
            after=_read_stored(after),
        )

    def _list_own_files(self, repository: Repository) -> Used:
        """List the files that define the case, its criteria and the settings."""
        root, config = self._workspace.root, Path(self._case.config.source)  # relative to the current folder
        paths = (path.resolve() for path in (root / self._case.key.eval_set, root / FILE_NAME, config))
        inside = (path for path in paths if path.is_relative_to(repository.top))
        return Used(frozenset(path.relative_to(repository.top).as_posix() for path in inside))

    def _list_samples(self, commits: Iterable[Commit], status: CaseStatus) -> Sequence[Sample]:
        samples = (sample for commit in commits for sample in self._get(commit).samples)
        return [sample for sample in samples if sample.status is status]


def _read_stored(samples: Sequence[Sample]) -> CaseResult | None:
    """Return the first result whose trace is still stored: retention keeps the last few of a case."""
    results = (sample.read_result() for sample in samples)
    return next((result for result in results if result is not None and result.execution.turns), None)


def _count(known: KnownCommit) -> Counts:
    passed = sum(sample.status is CaseStatus.PASSED for sample in known.samples)
    return Counts(passed, len(known.samples) - passed)


def _name(commit: Commit) -> str:
    return f"{commit.short} ({commit.date[:10]})"
