"""The lines that `workbench watch` prints: for people, or as JSON."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from itertools import islice
from typing import Any

from pydantic import BaseModel

from workbench.cli.output import stdout_style
from workbench.cli.streams import message, write_document, write_lines
from workbench.model.events import Notice, QuotaWait
from workbench.model.keys import JobKey
from workbench.model.results import CaseStatus, MetricStatus
from workbench.model.text import counted, one_line
from workbench.report.explain import explain, explain_at_length
from workbench.report.json_format import case_line, dump
from workbench.report.judging import missing_samples_lines
from workbench.report.run_report import ReportedCase
from workbench.report.spending import quota_wait_text, spending_line
from workbench.report.wording import PARTLY_JUDGED, SYMBOLS, counts_text, duration_text, time_taken
from workbench.store.history import History
from workbench.watch.affected import results_of
from workbench.watch.events import (
    AllKnown,
    ChangeSeen,
    Decided,
    RunBegun,
    RunTold,
    SourceBroken,
    VerdictKnown,
    VerdictsHold,
    WatchEvent,
    WatchStarted,
)

_MOST_PATHS = 3
_WRITTEN_TOGETHER = 100  # lines: the reader is woken for each writing


class Lines(ABC):
    """Prints what a watch tells.

    Not that something was saved which nobody has ever used, nor how things stand where that was said last: these lines
    may go into a file of the project themselves, or somebody may write a log there.
    """

    _last: AllKnown | None = None  # without what was spent; None where something else was told after it

    def show(self, event: WatchEvent) -> None:
        """Print one event."""
        if isinstance(event, RunTold) and isinstance(event.event, QuotaWait):
            self._print(event.event)
        if isinstance(event, RunBegun | RunTold | Decided) or (isinstance(event, ChangeSeen) and not event.is_used):
            return
        if not isinstance(event, AllKnown) or event.summary.models or _standing(event) != self._last:
            self._print(event)
        self._last = _standing(event) if isinstance(event, AllKnown) else None

    @abstractmethod
    def _print(self, event: WatchEvent | QuotaWait) -> None: ...


class JsonLines(Lines):
    """One object a line, with its `kind`; a verdict has the case as `workbench run --format json` writes it."""

    def __init__(self, *, open_history: Callable[[], History]) -> None:
        """Of verdicts that hold, what the agents did is read from the history."""
        self._open_history = open_history

    def _print(self, event: WatchEvent | QuotaWait) -> None:
        if isinstance(event, VerdictKnown):
            case = ReportedCase(event.result, event.case)
            write_document(_verdict("executed", case, holds=event.holds, seconds=event.seconds_since_save))
        elif isinstance(event, VerdictsHold):
            with self._open_history() as history:
                lines = (
                    _verdict("stored", ReportedCase(result, event.planned[job].case), holds=True, seconds=None)
                    for job, result in results_of(history, event.verdicts)
                )
                while several := "".join(islice(lines, _WRITTEN_TOGETHER)):
                    write_document(several)
        elif isinstance(event, BaseModel):
            _write(event.model_dump(mode="json"))


class TextLines(Lines):
    """Lines for people: verdicts and changes to standard output, what went wrong beside the cases to standard error."""

    def __init__(self, *, plain: bool, verbose: bool, said: Iterable[str]) -> None:
        """`said` are problems that were told before anything was watched: the watch will tell some of them too."""
        self._style = stdout_style(plain=plain, verbose=verbose)
        self._said = set(said)

    def _print(self, event: WatchEvent | QuotaWait) -> None:
        if isinstance(event, QuotaWait):
            message(f"{event.model}: {quota_wait_text(event.seconds)}")
        elif isinstance(event, Notice):
            if event.message not in self._said:
                message(event.message)
            self._said.discard(event.message)  # where it is wrong again later, that is news
        else:
            write_lines(self._lines(event))

    def _lines(self, event: WatchEvent) -> Iterator[str]:
        if isinstance(event, WatchStarted):
            how = f" ({event.reason})" if event.reason else ""
            files, folders = counted(event.files, "file"), counted(event.folders, "folder")
            yield self._style.paint(f"watching {files} in {folders}{how}; Ctrl-C ends", "2")
        elif isinstance(event, ChangeSeen):
            yield self._style.paint(f"{_time()}  {one_line(_change(event))}", "1")
        elif isinstance(event, SourceBroken):
            place = event.path if event.line is None else f"{event.path}:{event.line}"
            waits = "1 case waits" if event.cases == 1 else f"{event.cases} cases wait"
            yield self._style.paint(one_line(f"! {place} cannot be compiled: {event.message} ({waits})"), "35")
        elif isinstance(event, VerdictKnown):
            yield from self._verdict(event)
        elif isinstance(event, VerdictsHold):
            for job, verdict in event.verdicts.items():
                partly = (PARTLY_JUDGED,) if verdict.job.misses_samples else ()
                yield self._headline(verdict.job.status, job, "(stored)", *partly)
        elif isinstance(event, AllKnown):
            stale = f", {event.stale} without a verdict that holds" if event.stale else ""
            total = counted(event.summary.total, "case")
            yield self._style.paint(f"{_time()}  {total}: {counts_text(event.summary)}{stale}", "2")
            for spent in event.summary.models:
                yield self._style.paint(f"          {one_line(spending_line(spent))}", "2")

    def _verdict(self, event: VerdictKnown) -> Iterator[str]:
        result = event.result
        times = [time_taken(result.agent_seconds)]
        if event.seconds_since_save is not None:
            times.append(f"({duration_text(event.seconds_since_save)} after the save)")
        yield self._headline(result.status, JobKey(case=result.case, repeat=result.repeat), *times)
        case = ReportedCase(result, event.case)
        passed = [metric for metric in case.judged if metric.status is MetricStatus.PASSED]
        yield from (f"    {line}" for line in missing_samples_lines(passed))
        if result.status is not CaseStatus.PASSED:
            yield from (f"    {line}" for line in explain(case))
            if self._style.verbose:
                yield from (f"    {line}" for line in explain_at_length(case))

    def _headline(self, status: CaseStatus, job: JobKey, *more: str) -> str:
        words = "  ".join((f"{SYMBOLS[status]} {status.value}", one_line(_name(job)), *more))
        return self._style.paint(words, _COLOURS.get(status, "0"))


_COLOURS = {CaseStatus.PASSED: "32", CaseStatus.FAILED: "31", CaseStatus.ERROR: "35", CaseStatus.NOT_EVALUATED: "33"}


def _standing(event: AllKnown) -> AllKnown:
    """How all cases stand, without what it took to know that."""
    return event.model_copy(update={"summary": event.summary.model_copy(update={"models": ()})})


def _verdict(source: str, case: ReportedCase, *, holds: bool, seconds: float | None) -> str:
    told = {"kind": "verdict", "source": source, "holds": holds, "seconds_since_save": seconds}
    return case_line(case, told)


def _write(data: dict[str, Any]) -> None:
    write_document(dump(data) + "\n")


def _name(job: JobKey) -> str:
    repeat = f" [{job.repeat + 1}]" if job.repeat else ""
    return f"{job.case}{repeat}"


def _change(event: ChangeSeen) -> str:
    shown = ", ".join(event.paths[:_MOST_PATHS])
    more = f" and {len(event.paths) - _MOST_PATHS} more" if len(event.paths) > _MOST_PATHS else ""
    parts = []
    if event.run:
        parts.append(f"{event.run} of {event.total} run")
    if event.judged:
        parts.append(f"{event.judged} of {event.total} only judged")
    if event.waiting:
        parts.append(f"{event.waiting} of {event.total} wait")
    what = "; ".join(parts) or f"concerns none of {counted(event.total, 'case')}"
    why = f": {event.reason}" if event.reason else ""
    if event.held:
        why += f". None of it runs by itself: {event.held}; `workbench run --affected` runs it"
    return f"{shown or 'the project'}{more} saved - {what}{why}"


def _time() -> str:
    return f"{datetime.now():%H:%M:%S}"
