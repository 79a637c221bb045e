"""Events of the watch, reasons in words, and the reporter that sends both."""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import AwareDatetime, Field

from workbench.agents.worker.recording.definitions import DOCSTRING
from workbench.agents.worker.recording.fingerprints import ABSENT
from workbench.engine.plan import PlannedCase
from workbench.engine.run import Run, Verdict, make_verdict, summarise
from workbench.model.evalset import EvalCase, Quarantine
from workbench.model.facts import Fact
from workbench.model.identity import ENDED_EARLY, CaseKey, Dependency, DependencyKind, JobKey
from workbench.model.results import CaseResult, MetricScores, ModelCalls, ModelSpending, is_quarantined, merge_by_model
from workbench.model.run_events import Notice, RunEvent, RunSummary
from workbench.model.text import neutralise, one_line, pluralise, redact
from workbench.store.history.history_queries import StoredVerdict
from workbench.watch.selector import Action, Decision, Reason, VerdictKey, Why, get_path, get_verdict_key, rank_row
from workbench.watch.snapshot import SOURCE_KINDS, BrokenSource, Question, Snapshot

if TYPE_CHECKING:
    from workbench.watch.file_watcher import FileChange

# Events, sent in the order in which they became true.


class WatchStarted(Fact):
    """The watch has started.

    `mode` says how changes are noticed; `reason` explains a mode other than events. `total` counts jobs.
    """

    kind: Literal["watch_started"] = "watch_started"
    total: int
    files: int
    folders: int
    mode: str
    reason: str = ""


class ChangeSeen(Fact):
    """Files changed, and the watch has decided on every job.

    Of `total` jobs, `run` run the agent, `judged` are only scored again, and `waiting` need source that does not
    compile. The other verdicts are current. `paths` are relative to the root. `quarantines` has a line for each case
    whose quarantine began, ended or changed; this runs nothing, and the verdicts of these cases are reported again.
    """

    kind: Literal["change_seen"] = "change_seen"
    at: AwareDatetime
    paths: tuple[str, ...]
    removed: frozenset[str] = Field(default=frozenset(), exclude=True)  # the paths that no longer exist
    run: int
    judged: int
    waiting: int
    total: int
    reason: str
    held: str = ""  # why jobs that run the agent wait for the user; empty if they start
    is_used: bool = True  # False: neither source nor used by any case, for example a log
    times: int = 1  # number of equal changes without effect that this event reports
    quarantines: tuple[str, ...] = ()

    @property
    def verb(self) -> str:
        """What happened to the files, in one word."""
        return "deleted" if self.paths and self.removed.issuperset(self.paths) else "saved"

    @property
    def has_effect(self) -> bool:
        """Whether any job runs, is scored or waits because of it, a quarantine changed, or there is a problem."""
        return bool(self.run or self.judged or self.waiting or self.quarantines or self.reason)


class VerdictKnown(Fact):
    """A case was run or scored just now, and this is its result."""

    kind: Literal["verdict"] = "verdict"
    result: CaseResult
    case: EvalCase | None = None  # as it is now
    holds: bool = True
    """False if the result is no current verdict: no answer, or files kept changing while the case ran."""
    seconds_since_save: float | None = None  # None if no save caused the run


class SourceBroken(Fact):
    """A source file does not compile; `cases` cases that use it wait. Sent once for each content of the file."""

    kind: Literal["source_broken"] = "source_broken"
    path: str  # relative to the root if below it
    line: int | None
    message: str
    cases: int

    @property
    def place(self) -> str:
        """File and line."""
        return self.path if self.line is None else f"{self.path}:{self.line}"


class AllKnown(Fact):
    """No job runs or waits. `stale` counts jobs without a current verdict.

    `summary.models` is the spending of the watch since the last such event.
    """

    kind: Literal["all_known"] = "all_known"
    summary: RunSummary
    stale: int


WatchFact = WatchStarted | ChangeSeen | VerdictKnown | SourceBroken | AllKnown | Notice
"""Events that can be written as JSON."""


@dataclass(frozen=True)
class VerdictsReused:
    """Verdicts of earlier runs are current, keyed by the job they apply to. `planned` has the same jobs as planned now.

    Executions stay in the history because there may be thousands; `read_results` reads them.
    """

    verdicts: Mapping[JobKey, StoredVerdict]
    planned: Mapping[JobKey, PlannedCase]


@dataclass(frozen=True)
class WatchRunStarted:
    """The watch has started a run of these jobs."""

    run: Run
    jobs: tuple[JobKey, ...]
    reason: str


@dataclass(frozen=True)
class DecisionsMade:
    """The watch has decided on every job.

    `work` is what it runs or scores now, or would if it were not paused. `held` exceeds the limits for one change and
    waits for the user. `broken` are the source files that do not compile and that cases wait for. The quarantine of the
    jobs in `requarantined` began, ended or changed since the last change.
    """

    decisions: tuple[Decision, ...]
    work: tuple[Decision, ...] = ()
    broken: tuple[SourceBroken, ...] = ()
    held: frozenset[JobKey] = frozenset()
    requarantined: frozenset[JobKey] = frozenset()


@dataclass(frozen=True)
class WatchRunEvent:
    """An event of a run of the watch. If the event brings a current verdict, `VerdictKnown` precedes it."""

    run_id: str
    event: RunEvent


WatchEvent = WatchFact | VerdictsReused | WatchRunStarted | WatchRunEvent | DecisionsMade


# Reasons of decisions, in words for users.

Kind = DependencyKind


def describe_reason(reason: Reason, *, root: Path, state: Snapshot | None = None) -> str:
    """Return a reason in a few words. With `state`, the words say whether a value is new, removed or changed."""
    if reason.row is None:
        named = f": {one_line(reason.case, width=60)}" if reason.case else ""
        return f"{reason.why or Why.UNKNOWN}{named}"
    return neutralise(_describe_row(reason.row, root=root, state=state))


def summarise_reasons(decisions: Sequence[Decision], *, root: Path, state: Snapshot | None = None) -> str:
    """Return the most frequent reasons with their counts: `tools.py: refund() (8), $KEY (2)`.

    Reasons of equal frequency are in the order of `rank_row`.
    """
    reasons = Counter(each.reasons[0] for each in decisions if each.action is not Action.NOTHING and each.reasons)
    counts: Counter[str] = Counter()
    for reason in sorted(reasons, key=lambda reason: rank_row(reason.row)):  # a few, even for thousands of cases
        counts[describe_reason(reason, root=root, state=state)] += reasons[reason]
    return ", ".join(f"{words} ({count})" if len(counts) > 1 else words for words, count in counts.most_common(3))


def describe_reach(row: Dependency, decisions: Iterable[Decision], *, total: int, root: Path, state: Snapshot) -> str:
    """Return a reason and how many cases it affects: `tools.py: refund() changed <- called by 8 of 24 cases`.

    Cases may have seen different values of the same file or name.
    """
    rows = ([reason.row for reason in decision.reasons if reason.row is not None] for decision in decisions)
    affected = sum(any((each.kind, each.key) == (row.kind, row.key) for each in used) for used in rows)
    words = describe_reason(Reason(row=row), root=root, state=state)
    return f"{words} <- {_name_relation(row)} {affected} of {pluralise(total, 'case')}"


def _name_relation(row: Dependency) -> str:
    relations = {
        Kind.BLOCK: "called by",
        Kind.BRANCH: "reached by",
        Kind.MODULE: "imported by",
        Kind.REST: "imported by",
        Kind.IMPORT: "searched by",
        Kind.LIBRARIES: "imported by",
        Kind.VARIABLE: "read by",
        Kind.FOLDER: "listed by",
    }
    return relations.get(Kind(row.kind), "used by") if row.kind in set(Kind) else "used by"


_NOUNS: dict[str, tuple[str, str]] = {
    Kind.MODULE: ("module", "modules"),
    Kind.REST: ("module without its definitions", "modules without their definitions"),
    Kind.NAME: ("name", "names"),
    Kind.BLOCK: ("function", "functions"),
    Kind.BRANCH: ("branch of a function", "branches of functions"),
    Kind.FILE: ("file", "files"),
    Kind.FOLDER: ("folder", "folders"),
    Kind.PROBE: ("path checked", "paths checked"),
    Kind.TIME: ("time of a file", "times of files"),
    Kind.MODE: ("mode of a file", "modes of files"),
    Kind.IMPORT: ("import", "imports"),
    Kind.VARIABLE: ("environment variable", "environment variables"),
    Kind.EARLY_VARIABLE: ("environment variable", "environment variables"),
    Kind.VARIABLES: ("set of variables", "sets of variables"),
    Kind.ENV_FILES: ("set of .env files", "sets of .env files"),
    Kind.INSTALLED: ("set of installed packages", "sets of installed packages"),
    Kind.LIBRARIES: ("imported library", "imported libraries"),
    Kind.INTERPRETER: ("Python version", "Python versions"),
    Kind.STATE: ("file it read and wrote", "files it read and wrote"),
    Kind.WRITTEN: ("file it wrote", "files it wrote"),
    Kind.FOUND: ("file from an earlier case", "files from earlier cases"),
    Kind.OPAQUE: ("input that cannot be tracked", "inputs that cannot be tracked"),
    Kind.TREE: ("watched path", "watched paths"),
}


def name_kind(kind: str, *, count: int = 1) -> str:
    """Return the name of a kind of rows, for users."""
    singular, plural = _NOUNS.get(kind, ("unknown dependency", "unknown dependencies"))
    return singular if count == 1 else plural


_WORDS: dict[str, str] = {
    Kind.FOLDER: "{where}: its list of files changed",
    Kind.TIME: "{where}: its modification time changed",
    Kind.MODE: "{where}: its mode or owner changed",
    Kind.IMPORT: "{where}: import of {name} may resolve differently",
    Kind.VARIABLE: "${key} changed",
    Kind.EARLY_VARIABLE: "${key} changed",
    Kind.INSTALLED: "installed packages changed in {where}",
    Kind.INTERPRETER: "the version of Python or of the recorder changed",
    Kind.OPAQUE: "it uses {key}, which cannot be tracked: every change affects it",
}

_VARIABLE_SETS = {
    "all": "environment variables changed, and the case reads all of them",
    "proxies": "the environment variables for proxies changed",
    "locale": "the environment variables for time zone and locale changed",
}


def _describe_row(row: Dependency, *, root: Path, state: Snapshot | None) -> str:
    where = _shorten_path(get_path(row), root)
    if row.kind in SOURCE_KINDS:
        return _describe_source(row, where, state)
    if row.kind in (Kind.FILE, Kind.STATE, Kind.PROBE, Kind.TREE):
        if row.fingerprint == ABSENT:
            return f"{where} is new"
        return f"{where} changed" if os.path.lexists(get_path(row)) else f"{where} is gone"
    if (row.kind, row.key) == (Kind.OPAQUE, ENDED_EARLY):
        return f"{row.key}, so what it used is unknown: every change affects it"
    if row.kind == Kind.VARIABLES:
        return _describe_variables(row, state)
    if row.kind == Kind.LIBRARIES:
        return _describe_libraries(row, state)
    words = _WORDS.get(row.kind, f"a dependency of the unknown kind {row.kind} changed")
    name = ", ".join(_find_changed_imports(row, state)) if row.kind == Kind.IMPORT else ""
    return words.format(where=where, key=row.key, name=name)


def _describe_variables(row: Dependency, state: Snapshot | None) -> str:
    changed = {} if state is None else state.find_changed_variables(row)
    named = [f"${name} {'changed' if word == 'changed' else f'is {word}'}" for name, word in changed.items()]
    what = row.key.split("\0")[0]
    if not named:
        return _VARIABLE_SETS[what]
    more = f" and {len(named) - 3} more" if len(named) > 3 else ""
    return ", ".join(named[:3]) + more + (", and the case reads all variables" if what == "all" else "")


def _describe_libraries(row: Dependency, state: Snapshot | None) -> str:
    files = [] if state is None else state.find_changed_library_files(row)
    if not files:
        return "a file of an installed library changed"
    more = f" and {len(files) - 1} more" if len(files) > 1 else ""
    return f"installed library: {files[0]}{more} changed"


def _find_changed_imports(row: Dependency, state: Snapshot | None) -> list[str]:
    """Return those modules looked up in a folder that would resolve differently now."""
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
    if row.kind == Kind.BRANCH:
        return f"{where}: {name.partition('.<')[0]}() changed in a branch"
    name = name.removesuffix("()").removesuffix("?")
    if name == DOCSTRING:
        return f"{where}: its docstring changed"
    return f"{where}: {name} is new" if row.fingerprint == ABSENT else f"{where}: {name} changed"


def _shorten_path(path: str, root: Path) -> str:
    try:
        return "the project" if path == str(root) else Path(path).relative_to(root).as_posix()
    except ValueError:
        return path


def _describe_quarantine(case: CaseKey, now: Quarantine | None) -> str:
    words = "no longer in quarantine, so its verdict counts again" if now is None else str(now)
    return redact(f"{case.eval_set}:{case.name}: {words}")


# The reporter sends events, and remembers which verdicts and problems it has sent.

_PROBLEM_FOLLOWS = "a changed file has a problem"  # a notice with the details follows


class WatchReporter:
    """Queues the events of one watch in the order in which they became true."""

    def __init__(self, root: Path, state: Snapshot) -> None:
        self._root = root
        self._state = state
        self._events: asyncio.Queue[WatchEvent | None] = asyncio.Queue()
        self._broken: frozenset[BrokenSource] = frozenset()
        self.shown: dict[JobKey, VerdictKey] = {}
        """The verdict that was reported last, for each job."""
        self.verdicts: dict[JobKey, Verdict] = {}
        """The same verdicts as they count in a summary."""
        self._spent: list[ModelSpending] = []
        self._model_calls: ModelCalls | None = None
        self._quarantines: dict[JobKey, Quarantine | None] = {}
        self._changed_quarantines: dict[JobKey, Quarantine | None] = {}  # not reported yet
        self.problems: list[Notice] = []
        """Problems of files and settings that are not reported yet."""

    async def events(self) -> AsyncIterator[WatchEvent]:
        """Yield the events until `close`."""
        while (event := await self._events.get()) is not None:
            yield event

    def close(self) -> None:
        """End the events."""
        self._events.put_nowait(None)

    def report(self, event: WatchEvent) -> None:
        """Send an event."""
        self._events.put_nowait(event)

    def forget_other_jobs(self, jobs: Collection[JobKey]) -> None:
        """Forget the verdicts of all jobs except these."""
        for job in [job for job in self.shown if job not in jobs]:
            del self.shown[job]
            self.verdicts.pop(job, None)
        for job in [job for job in self._quarantines if job not in jobs]:
            del self._quarantines[job]

    def note_quarantines(self, decisions: Iterable[Decision]) -> None:
        """Compare quarantines with those of the last call: verdicts of jobs with different ones are reported again."""
        for each in decisions:
            now = each.planned.current_quarantine
            if self._quarantines.get(each.job, now) != now:
                self._changed_quarantines[each.job] = now
                self.shown.pop(each.job, None)
            self._quarantines[each.job] = now

    def take_changed_quarantines(self) -> tuple[str, ...]:
        """Describe the changed quarantines that are not reported yet; they then are."""
        by_case = {job.case: now for job, now in self._changed_quarantines.items()}
        self._changed_quarantines.clear()
        return tuple(_describe_quarantine(case, now) for case, now in by_case.items())

    def report_verdict(
        self, planned: PlannedCase, result: CaseResult, *, saved_at: float | None, key: VerdictKey, holds: bool = True
    ) -> None:
        """Report a new result. `saved_at` is the monotonic time of the save that caused it, or None."""
        job = JobKey(case=result.case, repeat=result.repeat)
        self.shown[job] = key
        self.verdicts[job] = make_verdict(result)
        since = None if saved_at is None else time.monotonic() - saved_at
        self.report(
            VerdictKnown.construct_unvalidated(result=result, case=planned.case, holds=holds, seconds_since_save=since)
        )

    def report_reused(self, verdicts: Mapping[JobKey, StoredVerdict], planned: Mapping[JobKey, PlannedCase]) -> None:
        """Report that verdicts of earlier runs are current. `count_verdicts` adds their scores later."""
        self.shown.update((job, get_verdict_key(verdict)) for job, verdict in verdicts.items())
        self.report(VerdictsReused(verdicts, planned))

    def count_verdicts(self, verdicts: Mapping[JobKey, StoredVerdict], scores: Mapping[JobKey, MetricScores]) -> None:
        """Count verdicts in summaries, except those that a later report has replaced."""
        for job, verdict in verdicts.items():
            if self.shown.get(job) == get_verdict_key(verdict):
                failure = verdict.job.failure
                kind = None if failure is None else failure.kind
                self.verdicts[job] = Verdict(
                    verdict.job.status,
                    kind,
                    scores.get(job, ()),
                    is_partly_judged=verdict.job.misses_samples,
                    case=job.case,
                )

    def report_decisions(
        self, decisions: Sequence[Decision], work: Sequence[Decision], *, held: Collection[JobKey]
    ) -> None:
        """Report the decisions on all jobs, the work that follows from them, and the jobs that wait for the user."""
        broken = tuple(self._make_event(source, cases) for source, cases in self._find_broken(decisions).items())
        changed = frozenset(self._changed_quarantines)
        self.report(DecisionsMade(tuple(decisions), tuple(work), broken, frozenset(held), changed))

    def report_change(
        self,
        change: FileChange,
        decisions: Sequence[Decision],
        work: Sequence[Decision],
        *,
        removed: Collection[Path],
        held: str,
        is_used: bool,
    ) -> None:
        """Report a change and the work it causes. `held` says why that work waits for the user, or is empty."""
        actions = [each.action for each in work]
        has_errors = any(each.severity == "error" for each in self.problems)
        quarantines = self.take_changed_quarantines()
        self.report(
            ChangeSeen(
                at=datetime.now(UTC),
                paths=tuple(sorted(self._make_relative(path) for path in change.paths if path != self._root)),
                removed=frozenset(self._make_relative(path) for path in removed),
                run=sum(action is not Action.JUDGE for action in actions),
                judged=actions.count(Action.JUDGE),
                waiting=sum(each.action is Action.WAIT for each in decisions),
                total=len(decisions),
                reason=self.summarise(work) or (_PROBLEM_FOLLOWS if has_errors else ""),
                held=held,
                is_used=is_used or bool(work) or bool(quarantines),
                quarantines=quarantines,
            )
        )

    def report_problems(self, decisions: Sequence[Decision]) -> None:
        """Report pending problems, and source files that do not compile unless already reported with this content."""
        for problem in self.problems:
            self.report(problem)
        self.problems.clear()
        found = self._find_broken(decisions)
        for source, cases in found.items():
            if source not in self._broken:
                self.report(self._make_event(source, cases))
        self._broken = frozenset(found)

    def report_idle(self, decisions: Sequence[Decision]) -> None:
        """Report that no job runs or waits."""
        stale = sum(each.action is not Action.NOTHING for each in decisions)
        spent = {"models": merge_by_model(self._spent), "model_calls": self._model_calls}
        for each in decisions:  # a quarantine may have begun or ended since the verdict
            if (verdict := self.verdicts.get(each.job)) is not None:
                is_excused = is_quarantined(verdict.status, each.planned.current_quarantine)
                if is_excused != verdict.is_quarantined:
                    self.verdicts[each.job] = verdict._replace(is_quarantined=is_excused)
        summary = summarise(list(self.verdicts.values())).model_copy(update=spent)
        self._spent.clear()
        self._model_calls = None
        self.report(AllKnown(summary=summary, stale=stale))

    def add_spending(self, summary: RunSummary) -> None:
        """Add the model calls of a finished run to the next `AllKnown`."""
        self._spent.extend(summary.models)
        if summary.model_calls:
            self._model_calls = summary.model_calls.add(self._model_calls or ModelCalls())

    def summarise(self, decisions: Sequence[Decision]) -> str:
        """Return the reasons of these decisions in words."""
        return summarise_reasons(decisions, root=self._root, state=self._state)

    def _find_broken(self, decisions: Iterable[Decision]) -> dict[BrokenSource, int]:
        """Return the source files that do not compile, each with the number of jobs that wait for it."""
        waiting: dict[str, int] = {}
        for decision in decisions:
            if decision.action is Action.WAIT:
                for path in {get_path(reason.row) for reason in decision.reasons if reason.row is not None}:
                    waiting[path] = waiting.get(path, 0) + 1
        found = ((self._state.find_broken_source(path), cases) for path, cases in waiting.items())
        return {source: cases for source, cases in found if source is not None}

    def _make_event(self, source: BrokenSource, cases: int) -> SourceBroken:
        path = self._make_relative(source.path)
        return SourceBroken(path=path, line=source.line, message=source.message, cases=cases)

    def _make_relative(self, path: object) -> str:
        return str(path).removeprefix(f"{self._root}/")
