"""The result of `workbench bisect`: the commit that turned a case red, as text and as a versioned JSON document."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from workbench.model.evalset import EvalCase
from workbench.model.identity import CaseKey
from workbench.model.results import CaseResult, CaseStatus
from workbench.model.text import join_some, neutralise, pluralise, redact, redacted_line
from workbench.report.report_formats import SCHEMA_VERSION, difference_records
from workbench.report.run_report import ReportedCase
from workbench.report.text_report import aligned_lines

_LONGEST_DIFF = 200  # lines of the text; JSON has all
_MOST_NAMED = 5
_REASON = 160  # characters


class Commit(NamedTuple):
    """A commit; `parents` are ids, and `date` is the author's, in ISO 8601."""

    id: str
    parents: tuple[str, ...]
    author: str
    date: str
    subject: str

    @property
    def short(self) -> str:
        """The first ten digits of its id."""
        return self.id[:10]


class SampleSource(StrEnum):
    """Where a sample comes from."""

    KNOWN = "known"  # a stored verdict that is current in the commit
    SCORED = "scored"  # a stored execution that is current in the commit, scored again
    EXECUTED = "executed"


class CommitOutcome(StrEnum):
    """The outcome of a commit."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


class Used(NamedTuple):
    """The parts of a repository that executions used, relative to its top folder.

    `folders` are those that they listed, `trees` those in which every file counts. `unfollowed` describes uses that
    could not be followed: then any file may count. `whole` are files in which everything counts. `parts` are the used
    functions and definitions of Python modules, each as `file::name`; `file::*` for all definitions.
    """

    files: frozenset[str] = frozenset()
    folders: frozenset[str] = frozenset()
    trees: frozenset[str] = frozenset()
    unfollowed: frozenset[str] = frozenset()
    whole: frozenset[str] = frozenset()
    parts: frozenset[str] = frozenset()

    def add(self, other: Used) -> Used:
        """Return what both used."""
        return Used(*(left | right for left, right in zip(self, other, strict=True)))

    def has(self, name: str, *, changes_names: bool) -> bool:
        """True if a file counts. `changes_names` is true if it exists only before or only after a commit."""
        parents = {str(folder) for folder in PurePosixPath(name).parents}
        return name in self.files or bool(parents & self.trees) or (changes_names and bool(parents & self.folders))

    def list_parts(self, name: str) -> frozenset[str] | None:
        """Return the names that were used of a Python module; None if everything in the file counts."""
        parents = {str(folder) for folder in PurePosixPath(name).parents}
        if self.unfollowed or name in self.whole or parents & self.trees or not name.endswith(".py"):
            return None
        split_parts = (each.rpartition("::") for each in self.parts)
        return frozenset(part for file, _, part in split_parts if file == name) or None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The verdict of one repeat of the case in a commit.

    `run_id` is its run, in the history of the project or in that of earlier searches. `execution` identifies the
    execution: equal commits share it. `read_result` returns None if the trace is no longer stored. `read_used` returns
    what the execution used of the repository.
    """

    status: CaseStatus
    source: SampleSource
    run_id: str
    execution: tuple[str, str, int]
    read_result: Callable[[], CaseResult | None]
    read_used: Callable[[], Used]
    is_replayed: bool = False  # the agent got recorded answers of its models


@dataclass(frozen=True, slots=True, kw_only=True)
class BisectStep:
    """An examined commit. `reason` says why it was skipped. `suspects` is the number of suspects that remain after it;
    None before the search between two commits."""

    commit: Commit
    outcome: CommitOutcome
    samples: Sequence[Sample] = ()
    reason: str = ""
    suspects: int | None = None

    @property
    def passed(self) -> int:
        return sum(sample.status is CaseStatus.PASSED for sample in self.samples)

    @property
    def replayed(self) -> int:
        """The number of samples that rest on recorded answers of models."""
        return sum(sample.is_replayed for sample in self.samples)

    @property
    def source(self) -> SampleSource | None:
        """Where its last sample comes from; None without samples."""
        return self.samples[-1].source if self.samples else None


class Suspect(NamedTuple):
    """A commit that may have turned the case red, with its probability."""

    commit: Commit
    probability: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BisectReport:
    """The result of a search.

    `suspects` has one commit if it was found. `confidence` is None if each commit was executed once: then the verdicts
    are taken as final. `diff` is that of the found commit, limited to what the case used; `unused` are its other files,
    and `left_out` counts the hunks that are left out in files that it used. `before` and `after` are the nearest
    executions without and with the fault whose traces are stored. `unfollowed` describes what could not be followed.
    `doubt` says why a single suspect does not count as found. `other_failure` says since when the case fails in a
    different way than in the found commit, with no green commit between them.
    """

    case: CaseKey
    good: Commit
    bad: Commit
    commits: int
    repeats: int
    suspects: Sequence[Suspect]
    confidence: float | None
    steps: Sequence[BisectStep]
    executions: int
    notices: Sequence[str]
    doubt: str = ""
    other_failure: str = ""
    diff: str = ""
    unused: Sequence[str] = ()
    left_out: Mapping[str, int] = field(default_factory=dict)
    unfollowed: Sequence[str] = ()
    before: CaseResult | None = None
    after: CaseResult | None = None

    @property
    def found(self) -> Commit | None:
        """The commit that turned the case red; None if several are left, or it is in doubt."""
        return self.suspects[0].commit if len(self.suspects) == 1 and not self.doubt else None


# As text.


def step_line(step: BisectStep) -> str:
    return f"{step.commit.short}  {describe_step(step)}  {redacted_line(step.commit.subject)}"


def describe_step(step: BisectStep) -> str:
    """Describe the outcome of a commit, and its source."""
    if step.outcome is CommitOutcome.SKIPPED:
        return f"skipped: {redacted_line(step.reason)[:_REASON]}"
    parts = [step.outcome.value]
    if len(step.samples) > 1:
        parts = [f"{step.passed} of {len(step.samples)} passed"]
    if step.source is not None:
        parts.append(step.source.value)
    if step.replayed:
        parts.append("recorded answers of models")
    if step.suspects is not None:
        parts.append(f"{pluralise(step.suspects, 'commit')} left")
    return ", ".join(parts)


def bisect_lines(report: BisectReport) -> Iterator[str]:
    first_bad = report.found
    name = redacted_line(str(report.case))
    if first_bad is not None:
        yield f"{name} turned red in {first_bad.short}"
        yield f"  {_describe_commit(first_bad)}"
    elif report.doubt:
        yield f"{name} may have turned red in {report.suspects[0].commit.short}, or in several commits"
        yield f"  {_describe_commit(report.suspects[0].commit)}"
    else:
        yield f"{name} turned red in one of {pluralise(len(report.suspects), 'commit')}:"
        for suspect in report.suspects:
            chance = "" if report.confidence is None else f"{suspect.probability:.0%}  "
            yield f"  {chance}{suspect.commit.short}  {_describe_commit(suspect.commit)}"
    yield f"  {describe_certainty(report)}"
    yield f"  {describe_work(report)}"
    yield from (f"  {each.commit.short} {describe_step(each)}" for each in report.steps if each.reason)
    if first_bad is not None:
        yield from change_lines(report)


def describe_certainty(report: BisectReport) -> str:
    """Say how certain the result is."""
    if report.doubt:
        return f"not certain: {redacted_line(report.doubt)}"
    if report.confidence is not None:
        chance = "more than 99.9%" if report.confidence > 0.999 else f"{report.confidence:.1%}"
        return f"probability {chance}, from up to {report.repeats} samples of a commit"
    if report.found is None:
        return "the commits between them have no verdict"
    basis = "one execution a commit; its parents are green"
    if report.other_failure:
        return f"{basis}, but {report.other_failure}: it may have been mended between them"
    return f"{basis}. Certain if the case is not flaky (else use --repeats) and was not mended since"


def describe_work(report: BisectReport) -> str:
    """Say how many commits were searched, and how many executions that took."""
    counts = Counter(step.source for step in report.steps if step.source is not None)
    skipped = sum(step.outcome is CommitOutcome.SKIPPED for step in report.steps)
    parts = [
        f"{pluralise(report.commits, 'commit')} after {report.good.short} up to {report.bad.short}",
        pluralise(report.executions, "execution"),
        f"{pluralise(counts[SampleSource.KNOWN], 'verdict')} known",
    ]
    replayed = sum(step.replayed for step in report.steps)
    if replayed:
        parts.append(f"{pluralise(replayed, 'verdict')} on recorded answers of models")
    if counts[SampleSource.SCORED]:
        parts.append(f"{counts[SampleSource.SCORED]} scored again")
    if skipped:
        parts.append(f"{skipped} skipped")
    return ", ".join(parts)


def change_lines(report: BisectReport) -> Iterator[str]:
    """Yield the changes of the commit that the case used, and the differences of its executions before and after."""
    yield ""
    if report.diff:
        lines = report.diff.splitlines()
        yield from (neutralise(redact(line)) for line in lines[:_LONGEST_DIFF])
        if len(lines) > _LONGEST_DIFF:
            yield f"… {pluralise(len(lines) - _LONGEST_DIFF, 'more line')}: git show {report.suspects[0].commit.short}"
    else:
        if report.unfollowed:
            parts = ", ".join(map(redacted_line, report.unfollowed[:_MOST_NAMED]))
            hint = f", but not everything that it used could be followed ({parts}): any file may count"
        else:
            hint = ": it may be flaky; try --repeats 10" if report.confidence is None else ""
        yield f"nothing that the case is known to use changed in this commit{hint}"
    if report.left_out:
        first_bad = report.suspects[0].commit
        hunks = pluralise(sum(report.left_out.values()), "hunk")
        names = ", ".join(map(redacted_line, list(report.left_out)[:_MOST_NAMED]))
        yield f"left out: {hunks} in code that the case did not use ({names}); all of it: git show {first_bad.short}"
    if report.unused:
        names = join_some(list(map(redacted_line, report.unused)), _MOST_NAMED)
        yield f"also changed, not {'known to be ' if report.unfollowed else ''}used by the case: {names}"
    yield ""
    executions = _compare(report)
    if executions is None:
        yield "what the case did before and after is not stored any more"
        return
    lines = list(aligned_lines(executions))
    yield "what the case did before (-) and after (+):" if lines else "the case did the same before and after"
    yield from (f"  {line}" for line in lines)


def _compare(report: BisectReport) -> ReportedCase | None:
    """Return the execution after as the result, and the one before as its expectation."""
    before, after = report.before, report.after
    if before is None or after is None:
        return None
    conversation = [turn.invocation for turn in before.execution.turns]
    expected = EvalCase(eval_id=report.case.eval_id, conversation=conversation)
    if before.execution.final_state is not None:
        expected = expected.model_copy(update={"final_session_state": before.execution.final_state})
    return ReportedCase(after, expected)


def _describe_commit(commit: Commit) -> str:
    return f"{commit.date[:10]}  {redacted_line(commit.author)}  {redacted_line(commit.subject)}"


# As JSON.


def bisect_record(report: BisectReport) -> Mapping[str, Any]:
    executions = _compare(report)
    return {
        "schema_version": SCHEMA_VERSION,
        "case": report.case.model_dump(),
        "good": _commit_record(report.good),
        "bad": _commit_record(report.bad),
        "first_bad": None if report.found is None else _commit_record(report.found),
        "suspects": [
            {**_commit_record(suspect.commit), "probability": suspect.probability} for suspect in report.suspects
        ],
        "doubt": report.doubt or report.other_failure or None,
        "confidence": report.confidence,
        "repeats": report.repeats,
        "commits": report.commits,
        "executions": report.executions,
        "notices": [redact(notice) for notice in report.notices],
        "steps": [_step_record(step) for step in report.steps],
        "diff": redact(report.diff),
        "unused": list(report.unused),
        "left_out": dict(report.left_out),
        "unfollowed": list(report.unfollowed),
        "differences": None if executions is None else difference_records(executions),
    }


def _commit_record(commit: Commit) -> dict[str, Any]:
    return {"id": commit.id, "author": commit.author, "date": commit.date, "subject": redact(commit.subject)}


def _step_record(step: BisectStep) -> dict[str, Any]:
    return {
        "commit": step.commit.id,
        "outcome": step.outcome.value,
        "passed": step.passed,
        "samples": len(step.samples),
        "replayed": step.replayed,
        "source": None if step.source is None else step.source.value,
        "runs": list(dict.fromkeys(sample.run_id for sample in step.samples)),
        "reason": redact(step.reason) or None,
    }
