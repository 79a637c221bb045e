"""Events of the watch, and reasons in words."""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from pydantic import AwareDatetime

from workbench.agents.worker.recording.definitions import DOCSTRING
from workbench.agents.worker.recording.fingerprints import ABSENT
from workbench.engine.plan import PlannedCase
from workbench.engine.run import Run, Verdict, summarise, verdict_of
from workbench.model.base import Fact
from workbench.model.evalset import EvalCase
from workbench.model.identity import Dependency, DependencyKind, JobKey
from workbench.model.results import CaseResult, MetricScores, ModelSpending, merge_by_model
from workbench.model.run_events import Notice, RunEvent, RunSummary
from workbench.model.text import neutralise, pluralise
from workbench.store.history.history_queries import StoredVerdict
from workbench.watch.file_watcher import Change
from workbench.watch.selector import Action, Decision, Reason, VerdictKey, Why, get_path, get_verdict_key, rank_row
from workbench.watch.snapshot import SOURCE_KINDS, BrokenSource, Question, Snapshot

# What a watch tells whoever listens, in the order in which it became true.


class WatchStarted(Fact):
    """Watching has begun. `mode` says how changes are noticed, `reason` why not otherwise; `total` counts jobs."""

    kind: Literal["watch_started"] = "watch_started"
    total: int
    files: int
    folders: int
    mode: str
    reason: str = ""


class ChangeSeen(Fact):
    """Something was saved. Of `total` jobs `run` run the agent, `judged` only judge again, `waiting` need source that
    cannot be compiled; the verdicts of the others hold. `reason` says why, `paths` are relative to the root. `held`
    says why what runs the agent does not do so by itself; empty where it does. `is_used` is false where it is nothing
    that cases have ever used, and no source: a log, it may be."""

    kind: Literal["change_seen"] = "change_seen"
    at: AwareDatetime
    paths: tuple[str, ...]
    run: int
    judged: int
    waiting: int
    total: int
    reason: str
    held: str = ""
    is_used: bool = True


class VerdictKnown(Fact):
    """A verdict on how things are now, of a case that was run or judged again just now.

    `case` is the case that it is about, as it is now. `holds` is false where it says nothing that could hold: there was
    no answer, or something changed time and again while the case ran.
    """

    kind: Literal["verdict"] = "verdict"
    result: CaseResult
    case: EvalCase | None = None
    holds: bool = True
    seconds_since_save: float | None = None  # None where no save made work of it


class SourceBroken(Fact):
    """A source file that cases need cannot be compiled: their old verdicts are stale until it can. Said once."""

    kind: Literal["source_broken"] = "source_broken"
    path: str
    line: int | None
    message: str
    cases: int


class AllKnown(Fact):
    """Nothing is running or waiting: this is how all cases stand. `stale` have no verdict that holds.

    `models` of the summary are what the runs of the watch have asked since this was told last.
    """

    kind: Literal["all_known"] = "all_known"
    summary: RunSummary
    stale: int


WatchFact = WatchStarted | ChangeSeen | VerdictKnown | SourceBroken | AllKnown | Notice
"""What can be written down."""


@dataclass(frozen=True)
class VerdictsReused:
    """Verdicts of earlier runs hold (again), each for the job that it is keyed by; `planned` has all jobs as they are.

    There may be thousands of them, so that what the agents did is left in the history: see `results_of`.
    """

    verdicts: Mapping[JobKey, StoredVerdict]
    planned: Mapping[JobKey, PlannedCase]


@dataclass(frozen=True)
class WatchRunStarted:
    """A run of these jobs has begun, for whoever wants to follow it."""

    run: Run
    jobs: tuple[JobKey, ...]
    reason: str


@dataclass(frozen=True)
class DecisionsMade:
    """How every case stands after the last change: which verdicts hold, and why others do not.

    `work` is what is run or judged again because of it, or would be if the watch were not paused; `held` what is not
    run by itself, because it is too much. `broken` are the files that cannot be compiled and that cases wait for.
    """

    decisions: tuple[Decision, ...]
    work: tuple[Decision, ...] = ()
    broken: tuple[BrokenSource, ...] = ()
    held: frozenset[JobKey] = frozenset()


@dataclass(frozen=True)
class WatchRunEvent:
    """What a run of the watch has told. A verdict that it brings, where it still holds, is told before it."""

    run_id: str
    event: RunEvent


WatchEvent = WatchFact | VerdictsReused | WatchRunStarted | WatchRunEvent | DecisionsMade


# Why, in words: the reasons of decisions as people read them.

Kind = DependencyKind


def describe_reason(reason: Reason, *, root: Path, state: Snapshot | None = None) -> str:
    """One reason, in a few words; with `state` it is told whether something is new, gone or different."""
    if reason.row is None:
        return str(reason.why or Why.UNKNOWN)
    return neutralise(_describe_row(reason.row, root=root, state=state))


def summarise_reasons(decisions: Sequence[Decision], *, root: Path, state: Snapshot | None = None) -> str:
    """What made work of these cases: the most frequent reason first, `tools.py: refund() (8), $KEY (2)`.

    Equally frequent reasons are in the order of `rank_row`.
    """
    reasons = Counter(each.reasons[0] for each in decisions if each.action is not Action.NOTHING and each.reasons)
    counts: Counter[str] = Counter()
    for reason in sorted(reasons, key=lambda reason: rank_row(reason.row)):  # of thousands of cases there are a few
        counts[describe_reason(reason, root=root, state=state)] += reasons[reason]
    return ", ".join(f"{words} ({count})" if len(counts) > 1 else words for words, count in counts.most_common(3))


def describe_reach(row: Dependency, decisions: Iterable[Decision], *, total: int, root: Path, state: Snapshot) -> str:
    """A reason with how far it reaches: `tools.py: refund() changed <- 8 of 24 cases`."""
    concerned = sum(any(reason.row == row for reason in decision.reasons) for decision in decisions)
    words = describe_reason(Reason(row=row), root=root, state=state)
    return f"{words} <- {_name_relation(row)} {concerned} of {pluralise(total, 'case')}"


def _name_relation(row: Dependency) -> str:
    relations = {
        Kind.BLOCK: "called by",
        Kind.MODULE: "imported by",
        Kind.REST: "imported by",
        Kind.IMPORT: "looked for by",
        Kind.VARIABLE: "read by",
        Kind.FOLDER: "listed by",
    }
    return relations.get(Kind(row.kind), "used by") if row.kind in set(Kind) else "used by"


_NOUNS: dict[str, tuple[str, str]] = {
    Kind.MODULE: ("module", "modules"),
    Kind.REST: ("module without its definitions", "modules without their definitions"),
    Kind.NAME: ("name", "names"),
    Kind.BLOCK: ("function", "functions"),
    Kind.FILE: ("file", "files"),
    Kind.FOLDER: ("folder", "folders"),
    Kind.PROBE: ("path looked for", "paths looked for"),
    Kind.TIME: ("time of a file", "times of files"),
    Kind.MODE: ("mode of a file", "modes of files"),
    Kind.IMPORT: ("import", "imports"),
    Kind.VARIABLE: ("environment variable", "environment variables"),
    Kind.EARLY_VARIABLE: ("environment variable", "environment variables"),
    Kind.VARIABLES: ("set of variables", "sets of variables"),
    Kind.ENV_FILES: ("set of .env files", "sets of .env files"),
    Kind.INSTALLED: ("set of installed packages", "sets of installed packages"),
    Kind.INTERPRETER: ("Python version", "Python versions"),
    Kind.STATE: ("file it read and wrote", "files it read and wrote"),
    Kind.WRITTEN: ("file it wrote", "files it wrote"),
    Kind.FOUND: ("file from an earlier case", "files from earlier cases"),
    Kind.OPAQUE: ("thing that cannot be followed", "things that cannot be followed"),
    Kind.TREE: ("watched path", "watched paths"),
}


def name_kind(kind: str, *, count: int = 1) -> str:
    """What rows of a kind are called in front of users."""
    singular, plural = _NOUNS.get(kind, ("unknown dependency", "unknown dependencies"))
    return singular if count == 1 else plural


_WORDS: dict[str, str] = {
    Kind.FOLDER: "{where}: other files are in it",
    Kind.TIME: "{where} has another time of change",
    Kind.MODE: "{where} has another mode or owner",
    Kind.IMPORT: "{where}: an import of {name} may find something else",
    Kind.VARIABLE: "${key} has another value",
    Kind.EARLY_VARIABLE: "${key} has another value",
    Kind.VARIABLES: "{variables}",
    Kind.INSTALLED: "other packages are installed in {where}",
    Kind.INTERPRETER: "another version of Python, or of what is recorded",
    Kind.OPAQUE: "it uses what cannot be followed ({key}): any change counts",
}

_OF_VARIABLES = {
    "all": "environment variables have other values, and all of them are read",
    "proxies": "the variables for proxies have other values",
    "locale": "the variables for the time zone and the locale have other values",
}


def _describe_row(row: Dependency, *, root: Path, state: Snapshot | None) -> str:
    where = _shorten_path(get_path(row), root)
    if row.kind in SOURCE_KINDS:
        return _describe_source(row, where, state)
    if row.kind in (Kind.FILE, Kind.STATE, Kind.PROBE, Kind.TREE):
        if row.fingerprint == ABSENT:
            return f"{where} is new"
        return f"{where} changed" if os.path.lexists(get_path(row)) else f"{where} is gone"
    words = _WORDS.get(row.kind, f"something of an unknown kind ({row.kind}) changed")
    name = ", ".join(_find_changed_imports(row, state)) if row.kind == Kind.IMPORT else ""
    return words.format(where=where, key=row.key, name=name, variables=_OF_VARIABLES.get(row.key.split("\0")[0]))


def _find_changed_imports(row: Dependency, state: Snapshot | None) -> list[str]:
    """Of the modules that were looked for in a folder, those of which something else would be found now."""
    names = row.key.rpartition("::")[2].split(",")
    if state is None:
        return names
    now = state.answer(Question(row.kind, row.key, None)).split(",")
    return [name for name, then, is_now in zip(names, row.fingerprint.split(","), now, strict=False) if then != is_now]


def _describe_source(row: Dependency, where: str, state: Snapshot | None) -> str:
    broken = None if state is None else state.find_broken_source(get_path(row))
    if broken is not None:
        line = "" if broken.line is None else f":{broken.line}"
        return f"{where}{line} cannot be compiled: {broken.message}"
    if not Path(get_path(row)).exists():
        return f"{where} is gone"
    if row.kind in (Kind.MODULE, Kind.REST):
        return f"{where} changed outside of its functions"
    name = row.key.rpartition("::")[2].replace("<locals>.", "")
    if row.kind == Kind.BLOCK:
        return f"{where}: {name}() changed"
    name = name.removesuffix("()").removesuffix("?")
    if name == DOCSTRING:
        return f"{where}: its docstring changed"
    return f"{where}: {name} is new" if row.fingerprint == ABSENT else f"{where}: {name} changed"


def _shorten_path(path: str, root: Path) -> str:
    try:
        return "the project" if path == str(root) else Path(path).relative_to(root).as_posix()
    except ValueError:
        return path


# What a watch tells: in which words, and what of it was told already.

_WRONG = "something is wrong with it"  # what that is follows


class WatchReporter:
    """The events of one watch, in the order in which they became true."""

    def __init__(self, root: Path, state: Snapshot) -> None:
        self._root = root
        self._state = state
        self._events: asyncio.Queue[WatchEvent | None] = asyncio.Queue()
        self._broken: frozenset[BrokenSource] = frozenset()
        self.shown: dict[JobKey, VerdictKey] = {}
        """The verdict of each job that was told last."""
        self.known: dict[JobKey, Verdict] = {}
        """What of it counts in a summary."""
        self._spent: list[ModelSpending] = []
        self.problems: list[Notice] = []
        """What is wrong or missing beside the cases, and was not told yet."""

    async def events(self) -> AsyncIterator[WatchEvent]:
        """Everything that is told, until `end`."""
        while (event := await self._events.get()) is not None:
            yield event

    def end(self) -> None:
        """Nothing more will be told."""
        self._events.put_nowait(None)

    def tell(self, event: WatchEvent) -> None:
        """Tell something as it is."""
        self._events.put_nowait(event)

    def keep(self, jobs: Collection[JobKey]) -> None:
        """Forget what was told of jobs other than these."""
        for job in [job for job in self.shown if job not in jobs]:
            del self.shown[job]
            self.known.pop(job, None)

    def verdict(
        self, planned: PlannedCase, result: CaseResult, *, saved_at: float | None, place: VerdictKey, holds: bool = True
    ) -> None:
        """A verdict on how things are now; `saved_at` is when the save was seen that made work of it (monotonic)."""
        job = JobKey(case=result.case, repeat=result.repeat)
        self.shown[job] = place
        self.known[job] = verdict_of(result)
        since = None if saved_at is None else time.monotonic() - saved_at
        self.tell(
            VerdictKnown.construct_unvalidated(result=result, case=planned.case, holds=holds, seconds_since_save=since)
        )

    def verdicts_hold(self, verdicts: Mapping[JobKey, StoredVerdict], planned: Mapping[JobKey, PlannedCase]) -> None:
        """Verdicts of earlier runs hold. What their metrics scored is told to `count`, as reading it takes longer."""
        self.shown.update((job, get_verdict_key(verdict)) for job, verdict in verdicts.items())
        self.tell(VerdictsReused(verdicts, planned))

    def count(self, verdicts: Mapping[JobKey, StoredVerdict], scores: Mapping[JobKey, MetricScores]) -> None:
        """Let verdicts that hold count in summaries, those that are still the last that was told."""
        for job, verdict in verdicts.items():
            if self.shown.get(job) == get_verdict_key(verdict):
                failure = verdict.job.failure
                kind = None if failure is None else failure.kind
                self.known[job] = Verdict(
                    verdict.job.status, kind, scores.get(job, ()), is_partly_judged=verdict.job.misses_samples
                )

    def decided(self, decisions: Sequence[Decision], work: Sequence[Decision], *, held: Collection[JobKey]) -> None:
        """How every job stands, which of them are to be run or judged now, and which wait for the user's word."""
        broken = tuple(self._broken_for(decisions))
        self.tell(DecisionsMade(tuple(decisions), tuple(work), broken, frozenset(held)))

    def change(
        self, change: Change, decisions: Sequence[Decision], work: Sequence[Decision], *, held: str, is_used: bool
    ) -> None:
        """Something was saved, and this is to be done because of it; `held` is why it is not done by itself.

        `is_used`: it is source, or something that cases or their plan have used.
        """
        actions = [each.action for each in work]
        self.tell(
            ChangeSeen(
                at=datetime.now(UTC),
                paths=tuple(sorted(self._relative(path) for path in change.paths if path != self._root)),
                run=sum(action is not Action.JUDGE for action in actions),
                judged=actions.count(Action.JUDGE),
                waiting=sum(each.action is Action.WAIT for each in decisions),
                total=len(decisions),
                reason=self.reason(work) or (_WRONG if any(each.severity == "error" for each in self.problems) else ""),
                held=held,
                is_used=is_used or bool(work),
            )
        )

    def wrong(self, decisions: Sequence[Decision]) -> None:
        """Problems beside the cases, and each file that cannot be compiled, once until it is another text."""
        for problem in self.problems:
            self.tell(problem)
        self.problems.clear()
        found = self._broken_for(decisions)
        for broken, cases in found.items():
            if broken not in self._broken:
                shown = self._relative(broken.path)
                self.tell(SourceBroken(path=shown, line=broken.line, message=broken.message, cases=cases))
        self._broken = frozenset(found)

    def all_known(self, decisions: Sequence[Decision]) -> None:
        """Nothing is running or waiting."""
        stale = sum(each.action is not Action.NOTHING for each in decisions)
        summary = summarise(list(self.known.values())).model_copy(update={"models": merge_by_model(self._spent)})
        self._spent.clear()
        self.tell(AllKnown(summary=summary, stale=stale))

    def spent(self, models: Iterable[ModelSpending]) -> None:
        """A run of the watch is over, and this is what it asked models; told with how all cases stand."""
        self._spent.extend(models)

    def reason(self, decisions: Sequence[Decision]) -> str:
        """What made work of these, in words."""
        return summarise_reasons(decisions, root=self._root, state=self._state)

    def _broken_for(self, decisions: Iterable[Decision]) -> dict[BrokenSource, int]:
        """The files that cannot be compiled and that cases wait for, each with how many do."""
        concerned: dict[str, int] = {}
        for decision in decisions:
            if decision.action is Action.WAIT:
                for path in {get_path(reason.row) for reason in decision.reasons if reason.row is not None}:
                    concerned[path] = concerned.get(path, 0) + 1
        found = ((self._state.find_broken_source(path), cases) for path, cases in concerned.items())
        return {broken: cases for broken, cases in found if broken is not None}

    def _relative(self, path: object) -> str:
        return str(path).removeprefix(f"{self._root}/")
