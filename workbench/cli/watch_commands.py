"""The commands `watch`, `explain` and `coverage`."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import signal
import zlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from pydantic import BaseModel

from workbench.cli.console import INTERRUPTED, READER_GONE, WRONG, has_reader, message, write_document, write_lines
from workbench.cli.printers import choose_format, output_document, stdout_style
from workbench.cli.shared_options import (
    Execution,
    build_command_line,
    case_options,
    config_option,
    execution_options,
    judging_options,
    models_option,
    output_option,
    verbose_option,
    what_argument,
)
from workbench.engine.plan import NoCases, RunOptions, set_quarantine
from workbench.model.facts import pause_gc
from workbench.model.identity import DependencyKind, JobKey
from workbench.model.results import CaseStatus, MetricStatus, is_quarantined
from workbench.model.run_events import Notice, QuotaWait
from workbench.model.target import ModelMode
from workbench.model.text import REDACTED, join_some, may_be_masked, neutralise, one_line, pluralise
from workbench.report.report_formats import case_line, dump
from workbench.report.run_report import (
    PARTLY_JUDGED,
    REPLAY_MARK,
    ReportedCase,
    agent_time_text,
    counts_text,
    describe_model_calls,
    describe_quarantine,
    describe_samples,
    describe_sources,
    difference_lines,
    duration_text,
    find_live_samples,
    missing_samples_lines,
    name_repeat,
    quarantine_lines,
    set_heading,
    status_text,
)
from workbench.report.text_report import explain as explain_result
from workbench.report.text_report import explain_at_length, quota_wait_text, spending_line
from workbench.store.errors import StoreError
from workbench.store.files import describe_program, real_path
from workbench.store.history.history import History
from workbench.store.model_answers import ReplyStore
from workbench.watch.selector import Action, decide_plan, make_snapshot, read_results
from workbench.watch.watch_events import (
    AllKnown,
    ChangeSeen,
    DecisionsMade,
    SourceBroken,
    VerdictKnown,
    VerdictsReused,
    WatchEvent,
    WatchRunEvent,
    WatchRunStarted,
    WatchStarted,
    describe_reason,
    name_kind,
)

if TYPE_CHECKING:
    from workbench.engine.plan import Plan, Selection
    from workbench.engine.plan_cost import PlanCost
    from workbench.engine.workspace import Workspace
    from workbench.model.evalset import Quarantine
    from workbench.model.identity import Dependency
    from workbench.watch.selector import Decision
    from workbench.watch.snapshot import Snapshot
    from workbench.watch.watch_session import WatchSession


# `workbench watch`

T = TypeVar("T")

_LOOK_FOR_READER = 1.0  # seconds


@click.command()
@case_options
@config_option
@execution_options
@judging_options
@models_option
@click.option(
    "--format",
    "report_format",
    type=click.Choice(("text", "jsonl")),
    default="text",
    help="Text, or one JSON object a line.",
)
@click.option("--plain", is_flag=True, help="No colours.")
@verbose_option
def watch(
    *,
    what: tuple[str, ...],
    cases: tuple[str, ...],
    target: str | None,
    config: Path | None,
    execution: Execution,
    judging: Execution,
    models: str | None,
    report_format: str,
    plain: bool,
    verbose: bool,
) -> int:
    """Watch the project and run what a change affects.

    At the start, current verdicts of earlier runs are shown as stored, and the other cases run. Then every save runs
    the cases it affects, and no others. If only expected values changed, cases are judged again without running the
    agent. The arguments are those of `workbench run`. A project without cases is watched until it has some. Ctrl-C
    ends the watch.
    """
    from workbench.cli.run_commands import open_workspace, select_cases
    from workbench.engine.project_selection import is_marked
    from workbench.watch.watch_plan import drop_remote_sets
    from workbench.watch.watch_session import WatchSession

    workspace, named = open_workspace(what, target=target)
    options = RunOptions.model_validate(
        {
            "config": None if config is None else real_path(config),  # absolute, as paths of changes are
            **execution,
            **judging,
            "models": models,
            "models_by_default": ModelMode.AUTO,
            "command": build_command_line(),
        }
    )

    def select(space: Workspace) -> Sequence[Selection]:
        return select_cases(space, named, cases=cases)

    def refuse_mistakes(look: Callable[[], object]) -> None:
        """Raise errors of the selection; a project may have no cases yet."""
        try:
            look()
        except NoCases:
            is_project = is_marked(workspace.root) or workspace.project.targets
            if what or cases or target or not is_project:
                raise

    def refuse_nothing() -> None:
        refuse_mistakes(lambda: workspace.plan(drop_remote_sets(select(workspace), workspace.project), options))

    with workspace:
        reported = workspace.problems
        for problem in reported:
            message(problem)
        refuse_mistakes(lambda: select(workspace))  # early; the watch finds further mistakes when it plans
        session = WatchSession(workspace, select, options, off_loop=_in_thread)
        printer: WatchPrinter = WatchTextPrinter(plain=plain, verbose=verbose, reported=reported)
        if report_format == "jsonl":
            printer = WatchJsonPrinter(workspace.root, open_history=workspace.history)
        _listen(session, printer, workspace, refuse_nothing=refuse_nothing)
    return INTERRUPTED if has_reader() else READER_GONE


async def _in_thread(function: Callable[[], T]) -> T:
    return await asyncio.to_thread(function)


def _listen(
    session: WatchSession, printer: WatchPrinter, workspace: Workspace, *, refuse_nothing: Callable[[], None]
) -> None:
    """Print events until Ctrl-C or SIGTERM, or until the reader of the output is gone.

    `refuse_nothing` is called if there is no case at the start, and may raise.
    """

    async def listen() -> None:
        async for event in session.events():
            if isinstance(event, WatchStarted) and not event.total:
                refuse_nothing()
            elif isinstance(event, WatchStarted):
                printer.show_plan(session.plan, await _in_thread(lambda: workspace.estimate(session.plan)))
            printer.show(event)

    async def until_stopped() -> None:
        def look_for_reader() -> None:
            if has_reader():
                asyncio.get_running_loop().call_later(_LOOK_FOR_READER, look_for_reader)
            else:
                listening.cancel()

        listening = asyncio.ensure_future(listen())
        for number in (signal.SIGINT, signal.SIGTERM):
            with contextlib.suppress(NotImplementedError):  # Windows raises KeyboardInterrupt
                asyncio.get_running_loop().add_signal_handler(number, listening.cancel)
        look_for_reader()
        with contextlib.suppress(asyncio.CancelledError):
            await listening

    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(until_stopped())


# The output of `workbench watch`, as text or JSON.

_MOST_PATHS = 3
_MOST_QUARANTINES = 20
_WRITTEN_TOGETHER = 100  # lines written at once on average, because each write wakes the reader
_WORTH_CACHING = 1_000  # verdicts; the lines of fewer are made at once
_LINES = "lines.db"
MakeLines = Callable[[Sequence[JobKey]], Mapping[JobKey, str]]

_MAKERS_OF_LINES = ("model/*.py", "report/*.py", "store/**/*.py", "cli/watch_commands.py")
_REPEAT_SECONDS = 60  # from one line about a change without effect to the next one about an equal change


class RepeatedChanges:
    """Merges equal changes without effect, such as those of a file that another program writes all the time."""

    def __init__(self) -> None:
        self._shown_at: dict[tuple[str, ...], datetime] = {}  # by paths
        self._hidden: dict[tuple[str, ...], ChangeSeen] = {}  # since then

    def merge(self, event: ChangeSeen) -> ChangeSeen | None:
        """Return the change to show, which may stand for several; None if it is too early for one."""
        paths, hidden = event.paths, self._hidden.pop(event.paths, None)
        event = event if hidden is None else event.model_copy(update={"times": hidden.times + 1})
        if paths in self._shown_at and (event.at - self._shown_at[paths]).total_seconds() < _REPEAT_SECONDS:
            self._hidden[paths] = event
            return None
        self._shown_at[paths] = event.at
        return event

    def take_hidden(self) -> Iterable[ChangeSeen]:
        """Return the changes that were not shown, and begin anew."""
        hidden, self._hidden, self._shown_at = self._hidden.values(), {}, {}
        return hidden


class WatchPrinter(ABC):
    """Prints the events of a watch.

    Skips changes of unused files, and a summary equal to the last line: the output itself, or a log, may be written to
    a file of the project. Merges equal changes without effect.
    """

    def __init__(self) -> None:
        self._last: AllKnown | None = None  # without spending; None after any other line
        self._repeated = RepeatedChanges()

    def show(self, event: WatchEvent) -> None:
        if isinstance(event, WatchRunEvent) and isinstance(event.event, QuotaWait):
            self._print(event.event)
        if isinstance(event, WatchRunStarted | WatchRunEvent | DecisionsMade) or (
            isinstance(event, ChangeSeen) and not event.is_used
        ):
            return
        if isinstance(event, ChangeSeen) and not event.has_effect:
            merged = self._repeated.merge(event)
            if merged is None:
                return
            event = merged
        elif not isinstance(event, AllKnown):
            for hidden in self._repeated.take_hidden():
                self._print(hidden)
        if not isinstance(event, AllKnown) or event.summary.models or _drop_spending(event) != self._last:
            self._print(event)
        self._last = _drop_spending(event) if isinstance(event, AllKnown) else None

    def show_plan(self, plan: Plan, cost: PlanCost) -> None:  # noqa: B027 - a stream of events has no line for it
        """Show which criteria judge each set, and what the models may cost."""

    @abstractmethod
    def _print(self, event: WatchEvent | QuotaWait) -> None: ...


class LineCache:
    """The lines of stored verdicts that the last start of a watch has made.

    The key of a line is a hash of all that it is made of: the result, the case as it is now, and the program. So a
    line never differs from what would be made. Several lines are stored as one text. If the file cannot be used,
    nothing is cached.
    """

    def __init__(self, root: Path) -> None:
        self._program = _hash(describe_program(*_MAKERS_OF_LINES))
        self._used: list[str] = []
        self._store: ReplyStore | None = None
        with contextlib.suppress(StoreError):
            self._store = ReplyStore(root, file_name=_LINES)

    def get_or_make(self, event: VerdictsReused, jobs: Sequence[JobKey], make: MakeLines) -> str:
        """Return the lines of several verdicts; `make` makes those that are not stored."""
        names = [_identify(job) for job in jobs]
        keys = [self._make_key(event, job, name) for job, name in zip(jobs, names, strict=True)]
        name = _hash("".join(names))
        stored = self._read(name)
        made = make([job for job, key in zip(jobs, keys, strict=True) if key not in stored])
        found = zip(keys, jobs, strict=True)
        lines = {key: line for key, job in found if (line := stored.get(key) or made.get(job))}
        # A line with a masked text depends on the secrets that are known now.
        constant = {key: line for key, line in lines.items() if REDACTED not in line}
        if constant.keys() != stored.keys():
            self._write(name, constant)
        self._used.append(name)
        return "".join(lines.values())

    def close(self) -> None:
        """Delete the lines that were not used, and close the file."""
        self._try(lambda store: store.drop_others(self._used))
        if self._store is not None:
            self._store.close()

    def _try(self, action: Callable[[ReplyStore], T]) -> T | None:
        """Return the result of an action; None if it fails. The file is then not used again: a lock takes long."""
        if self._store is not None:
            try:
                return action(self._store)
            except StoreError:
                self._store.close()
                self._store = None
        return None

    def _make_key(self, event: VerdictsReused, job: JobKey, name: str) -> str:
        verdict, planned = event.verdicts[job], event.planned[job]
        stored = verdict.job
        origin = None if stored.key == job else _identify(stored.key)
        # Also the same in later runs that reuse the result.
        result = f"{verdict.execution} {stored.finished_at.timestamp()} {stored.status} {stored.duration_seconds}"
        state = f"{planned.execution_hash} {planned.scoring_hash} {planned.current_quarantine!r}"
        return _hash(f"{self._program} {name} {origin} {result} {state}")

    def _read(self, name: str) -> dict[str, str]:
        text = None
        with contextlib.suppress(UnicodeDecodeError, zlib.error):
            text = self._try(lambda store: store.get(name))
        if text is None or may_be_masked(text):
            return {}
        keys, *lines = text.split("\n")
        return {key: f"{line}\n" for key, line in zip(keys.split(), lines, strict=True)}

    def _write(self, name: str, lines: Mapping[str, str]) -> None:
        text = f"{' '.join(lines)}\n{''.join(lines.values())}".removesuffix("\n")
        self._try(lambda store: store.put(name, text))


class WatchJsonPrinter(WatchPrinter):
    """Prints one object a line, with its `kind`; a verdict has its case as in `workbench run --format json`."""

    def __init__(self, root: Path, *, open_history: Callable[[], History]) -> None:
        """`open_history` is used to read the executions of reused verdicts of the project at `root`."""
        super().__init__()
        self._root = root
        self._open_history = open_history

    def _print(self, event: WatchEvent | QuotaWait) -> None:
        if isinstance(event, VerdictKnown):
            case = ReportedCase(event.result, event.case)
            write_document(_format_verdict("executed", case, holds=event.holds, seconds=event.seconds_since_save))
        elif isinstance(event, VerdictsReused):
            self._print_stored(event)
        elif isinstance(event, BaseModel):
            _write(event.model_dump(mode="json"))

    def _print_stored(self, event: VerdictsReused) -> None:
        try:
            opened = self._open_history()
        except StoreError as error:  # as on a full disk
            self._print_unreadable(len(event.verdicts), str(error))
            return
        lost: list[JobKey] = []
        with opened as history:

            def make(jobs: Sequence[JobKey]) -> dict[JobKey, str]:
                lines = {}
                for job, result in read_results(history, {job: event.verdicts[job] for job in jobs}):
                    planned = event.planned[job]
                    case = ReportedCase(set_quarantine(result, planned), planned.case)
                    lines[job] = _format_verdict("stored", case, holds=True, seconds=None)
                lost.extend(job for job in jobs if job not in lines)
                return lines

            if len(event.verdicts) < _WORTH_CACHING:
                for jobs in _split_jobs(event.verdicts):
                    write_document("".join(make(jobs).values()))
            else:
                with contextlib.closing(LineCache(self._root)) as cache:
                    for jobs in _split_jobs(event.verdicts):
                        write_document(cache.get_or_make(event, jobs, make))
        if lost:
            self._print_unreadable(len(lost), "the history no longer has these results")

    def _print_unreadable(self, count: int, why: str) -> None:
        text = f"{pluralise(count, 'stored verdict')} cannot be shown: {why}"
        _write(Notice(severity="error", message=text).model_dump(mode="json"))


def _split_jobs(jobs: Iterable[JobKey]) -> Iterator[list[JobKey]]:
    """Split jobs into parts of about `_WRITTEN_TOGETHER`. A new or missing job changes only its own part."""
    part: list[JobKey] = []
    for job in jobs:
        part.append(job)
        if zlib.crc32(_identify(job).encode()) % _WRITTEN_TOGETHER == 0:
            yield part
            part = []
    if part:
        yield part


def _identify(job: JobKey) -> str:
    case = job.case
    return repr((case.target, case.eval_set, case.eval_id, case.occurrence, job.repeat))


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


class WatchTextPrinter(WatchPrinter):
    """Prints text: verdicts and changes to standard output, problems to standard error."""

    def __init__(self, *, plain: bool, verbose: bool, reported: Iterable[str]) -> None:
        """`reported` are problems that were printed before the watch started, which reports some of them again."""
        super().__init__()
        self._style = stdout_style(plain=plain, verbose=verbose)
        self._reported = set(reported)

    def show_plan(self, plan: Plan, cost: PlanCost) -> None:
        from workbench.cli.run_commands import format_cost

        first_cases = {(case.key.target, case.key.eval_set): case for case in reversed(plan.cases)}
        headings = [set_heading(*place, case.config) for place, case in sorted(first_cases.items())]
        write_lines([self._style.paint(one_line(heading), "2") for heading in headings])
        if cost.judges or cost.users:
            message("if all cases run:", prefix="")
            for line in format_cost(cost):
                message(f"  {line}", prefix="")

    def _print(self, event: WatchEvent | QuotaWait) -> None:
        if isinstance(event, QuotaWait):
            message(f"{event.model}: {quota_wait_text(event.seconds)}")
        elif isinstance(event, Notice):
            if event.message not in self._reported:
                message(event.message)
            self._reported.discard(event.message)  # report it if it occurs again later
        else:
            write_lines(self._lines(event))

    def _lines(self, event: WatchEvent) -> Iterator[str]:
        if isinstance(event, WatchStarted):
            how = f" ({event.reason})" if event.reason else ""
            files, folders = pluralise(event.files, "file"), pluralise(event.folders, "folder")
            yield self._style.paint(f"watching {files} in {folders}{how}; Ctrl-C ends", "2")
        elif isinstance(event, ChangeSeen):
            yield self._style.paint(f"{event.at.astimezone():%H:%M:%S}  {one_line(_format_change(event))}", "1")
            yield from (f"    {one_line(line)}" for line in event.quarantines[:_MOST_QUARANTINES])
            if (more := len(event.quarantines) - _MOST_QUARANTINES) > 0:
                yield f"    and {more:,} more"
        elif isinstance(event, SourceBroken):
            place = event.path if event.line is None else f"{event.path}:{event.line}"
            waits = "1 case waits" if event.cases == 1 else f"{event.cases} cases wait"
            yield self._style.paint(one_line(f"! {place} cannot be compiled: {event.message} ({waits})"), "35")
        elif isinstance(event, VerdictKnown):
            yield from self._verdict(event)
        elif isinstance(event, VerdictsReused):
            for job, verdict in event.verdicts.items():
                notes = [REPLAY_MARK] if verdict.job.is_replayed else []
                notes += [PARTLY_JUDGED] if verdict.job.misses_samples else []
                quarantine = event.planned[job].current_quarantine
                notes += [describe_quarantine(verdict.job.status, quarantine)] if quarantine is not None else []
                yield self._headline(verdict.job.status, quarantine, job, "(stored)", *notes)
        elif isinstance(event, AllKnown):
            stale = f", {event.stale} without a current verdict" if event.stale else ""
            total = pluralise(event.summary.total, "case")
            yield self._style.paint(f"{_format_now()}  {total}: {counts_text(event.summary)}{stale}", "2")
            for spent in event.summary.models:
                yield self._style.paint(f"          {one_line(spending_line(spent))}", "2")
            calls = event.summary.model_calls
            if calls:
                yield self._style.paint(f"          {describe_model_calls(calls)}", "2")

    def _verdict(self, event: VerdictKnown) -> Iterator[str]:
        result = event.result
        times = [agent_time_text(result.agent_seconds)]
        if event.seconds_since_save is not None:
            times.append(f"({duration_text(event.seconds_since_save)} after the save)")
        calls = result.execution.model_calls
        sources = [describe_sources(calls)] if calls else []
        job = JobKey(case=result.case, repeat=result.repeat)
        yield self._headline(result.status, result.quarantine, job, *times, *sources)
        case = ReportedCase(result, event.case)
        passed = [metric for metric in case.deciding_metrics if metric.status is MetricStatus.PASSED]
        yield from (f"    {line}" for line in missing_samples_lines(passed))
        if result.status is CaseStatus.PASSED:
            yield from (f"    {line}" for line in quarantine_lines(result))
        else:
            yield from (f"    {line}" for line in explain_result(case))
            if self._style.verbose:
                yield from (f"    {line}" for line in explain_at_length(case))

    def _headline(self, status: CaseStatus, quarantine: Quarantine | None, job: JobKey, *more: str) -> str:
        words = "  ".join((status_text(status, quarantine), one_line(name_repeat(job.case, job.repeat)), *more))
        is_excused = is_quarantined(status, quarantine)
        return self._style.paint(words, _COLOURS.get(CaseStatus.NOT_EVALUATED if is_excused else status, "0"))


_COLOURS = {CaseStatus.PASSED: "32", CaseStatus.FAILED: "31", CaseStatus.ERROR: "35", CaseStatus.NOT_EVALUATED: "33"}


def _drop_spending(event: AllKnown) -> AllKnown:
    """Return the event without the spending on models."""
    return event.model_copy(update={"summary": event.summary.model_copy(update={"models": ()})})


def _format_verdict(source: str, case: ReportedCase, *, holds: bool, seconds: float | None) -> str:
    extra = {"kind": "verdict", "source": source, "holds": holds, "seconds_since_save": seconds}
    return case_line(case, extra)


def _write(data: dict[str, Any]) -> None:
    write_document(dump(data) + "\n")


def _format_change(event: ChangeSeen) -> str:
    shown = join_some(event.paths, _MOST_PATHS)
    parts = []
    if event.run:
        parts.append(f"{event.run} of {event.total} run")
    if event.judged:
        parts.append(f"{event.judged} of {event.total} only judged")
    if event.waiting:
        parts.append(f"{event.waiting} of {event.total} wait")
    if event.quarantines:
        parts.append(f"changes the quarantine of {pluralise(len(event.quarantines), 'case')}")
    what = "; ".join(parts) or f"affects none of {pluralise(event.total, 'case')}"
    what += f" ({event.times} times)" if event.times > 1 else ""
    why = f": {event.reason}" if event.reason else ""
    if event.held:
        why += f". Not run automatically: {event.held}; `workbench run --affected` runs it"
    return f"{shown or 'the project'} {event.verb} - {what}{why}"


def _format_now() -> str:
    return f"{datetime.now():%H:%M:%S}"


# `workbench explain`


@click.command()
@case_options
@click.option("--verbose", is_flag=True, help="List everything that the verdict depends on.")
def explain(*, what: tuple[str, ...], cases: tuple[str, ...], target: str | None, verbose: bool) -> int:
    """Explain why a case would or would not run after the last changes.

    The arguments are those of `workbench run`. Nothing runs. A verdict stays current until something changes that the
    case used: code that ran, modules, files, folders, environment variables, packages, or the case itself.
    """
    from workbench.cli.run_commands import make_plan, open_workspace, select_cases

    workspace, named = open_workspace(what, target=target)
    with workspace:
        workspace.stay_offline()
        plan = make_plan(workspace, select_cases(workspace, named, cases=cases), RunOptions())
        problems = plan.file_problems
        for text in (*plan.notices, *problems):
            message(text)
        state = make_snapshot(workspace)
        for decision in decide_plan(workspace, plan, state=state):
            write_lines(explain_decision(workspace, decision, state, verbose=verbose))
    return WRONG if problems else 0


def explain_decision(workspace: Workspace, decision: Decision, state: Snapshot, *, verbose: bool) -> Iterator[str]:
    """Yield the lines of `workbench explain` about one case. `state` is that of the decision."""
    does = {
        Action.NOTHING: "would not run: its verdict is current",
        Action.JUDGE: "would only be judged again",
        Action.RUN: "would run",
        Action.WAIT: "waits: its source cannot be compiled",
        Action.LEAVE: "would not run in watch mode; `workbench run --affected` runs it",
    }
    is_recorded = decision.planned.is_recorded
    would = "would be judged" if is_recorded and decision.action is Action.JUDGE else does[decision.action]
    yield f"{one_line(name_repeat(decision.job.case, decision.job.repeat))}: {would}"
    if (quarantine := decision.planned.current_quarantine) is not None:
        yield f"  {describe_quarantine(None, quarantine)}"
    for reason in decision.reasons:
        yield neutralise(f"  because {describe_reason(reason, root=workspace.root, state=state)}")
    verdict = decision.verdict
    if verdict is None:
        return
    ended = f"{verdict.job.finished_at.astimezone():%Y-%m-%d %H:%M:%S}"
    partly = f", {PARTLY_JUDGED}" if verdict.job.misses_samples else ""
    yield neutralise(f"  last verdict: {verdict.job.status.value}, {ended}, run {verdict.job.run_id}{partly}")
    with workspace.history() as history:
        result = history.result(verdict.job.run_id, decision.job)
        samples = find_live_samples(history.list_executions(decision.job.case))
    calls = None if result is None else result.execution.model_calls
    if calls:
        yield neutralise(f"  {describe_model_calls(calls)}")
        lines = [] if calls.difference is None else difference_lines(calls.difference)
        yield from (f"  {neutralise(line)}" for line in (*lines, *describe_samples(samples)))
    number = verdict.scoring_dependencies if is_recorded else verdict.dependencies
    rows = () if number is None else workspace.verdicts.list_rows(number)
    nothing = "nothing except the recording and its criteria" if is_recorded else "unknown"
    yield from _format_dependencies(workspace, rows, nothing=nothing, verbose=verbose)


def _format_dependencies(workspace: Workspace, rows: Sequence[int], *, nothing: str, verbose: bool) -> Iterator[str]:
    """Yield the number of rows of each kind; with `verbose`, all rows."""
    prefix = f"{workspace.root}/"
    kinds_of: dict[str, str] = {}
    found: set[tuple[str, str]] = set()  # a variable that was read twice counts once
    for row in map(workspace.verdicts.row, rows):
        noun = name_kind(row.kind)
        kinds_of[noun] = row.kind
        found.update((noun, key) for key in _list_keys(row, prefix))
    counts = Counter(noun for noun, _ in found)
    kinds = ", ".join(f"{count} {name_kind(kinds_of[noun], count=count)}" for noun, count in sorted(counts.items()))
    yield f"  it depends on: {kinds or nothing}"
    if verbose:
        width = max(map(len, counts), default=0)
        yield from (neutralise(f"    {noun:<{width}}  {key}") for noun, key in sorted(found))


def _list_keys(row: Dependency, prefix: str) -> list[str]:
    """Return what a row is about: one text, except for imported libraries."""
    key = row.key.replace(prefix, "")
    if row.kind == DependencyKind.VARIABLES:
        what, *own = key.split("\0")
        return [f"{what} except {', '.join(own)}" if own else what]
    if row.kind not in (DependencyKind.IMPORT, DependencyKind.LIBRARIES):
        return [key]
    folder, _, names = key.rpartition("::")
    if row.kind == DependencyKind.LIBRARIES:
        return [f"{folder}/{name}" for name in names.split(",")]
    return [f"{names.replace(',', ', ')} searched in {folder}"]


# `workbench coverage`

_COVERAGE_FORMATS = ("text", "json", "markdown")


@click.command()
@what_argument
@click.option(
    "--format",
    "report_format",
    type=click.Choice(_COVERAGE_FORMATS),
    help="Default: text, or the format that the name of --output ends with. markdown: for a comment on a pull request.",
)
@output_option
@click.option("--all", "show_all", is_flag=True, help="Also list reached parts, and the cases that reach each.")
def coverage(*, what: tuple[str, ...], report_format: str | None, output: Path | None, show_all: bool) -> int:
    """Show which parts of agents and their code no case reaches.

    The arguments are those of `workbench run`. Default: all cases. Nothing runs: the records of earlier runs say which
    agents, nodes, transfers, tools, instructions, personas, callbacks, prompt files and functions each case reached.
    It also shows which tools no case expects, and argument values that only one expected call has.

    A part is not reached only if all cases that could reach it have a current record. Cases that never ran, and cases
    that changed since or whose code did, are listed, and what only they could reach is unknown.
    """
    from workbench.cli.history_commands import open_history
    from workbench.cli.run_commands import make_plan, open_workspace, select_cases
    from workbench.report.coverage_report import coverage_lines, coverage_markdown, coverage_record
    from workbench.watch.case_coverage import measure_coverage

    chosen = choose_format(report_format, output)
    if chosen not in _COVERAGE_FORMATS:
        raise click.UsageError(f"--output {output}: a coverage is no {chosen}; expected .json, .md or a text file")
    workspace, named = open_workspace(what, target=None)
    with workspace, open_history(workspace.root), pause_gc():  # a damaged file is reported first
        workspace.stay_offline()
        plan = make_plan(workspace, select_cases(workspace, named, cases=()), RunOptions())
        for problem in plan.file_problems:
            message(problem)
        measured = measure_coverage(workspace, plan, targets=() if named else workspace.project.targets.values())
    if chosen == "json":
        document = dump(coverage_record(measured), indent=2) + "\n"
    elif chosen == "markdown":
        document = coverage_markdown(measured)
    else:
        document = "\n".join(coverage_lines(measured, show_all=show_all)) + "\n"
    return 0 if output_document(document, chosen, output) and not plan.file_problems else WRONG
