"""Carries out a plan for the command line: shows progress, prints results as they come, gives the exit status.

Shared by `run`, `eval`, `score` and `demo`, which differ in how they make the plan.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.cli.interrupt import graceful_interrupt
from workbench.cli.output import (
    TEXT,
    DocumentPrinter,
    LinePrinter,
    Printer,
    TablePrinter,
    format_for,
    require_writable,
    save_pieces,
    save_report,
    stdout_style,
    table_lines,
)
from workbench.cli.progress import Progress
from workbench.cli.spool import JsonSpool
from workbench.cli.streams import message
from workbench.model.events import (
    AgentsImporting,
    CaseFinished,
    CaseStarted,
    ModelsAsked,
    Notice,
    QuotaWait,
    RunFinished,
    RunStarted,
)
from workbench.model.keys import JobKey
from workbench.report.run_report import CaseOutcome, ReportedCase, RunReport, StreamedRun, outcome_of
from workbench.report.spending import quota_wait_text
from workbench.report.table import Style, VerdictTable, width_of_names

if TYPE_CHECKING:
    from workbench.engine.plan import Plan, PlannedCase
    from workbench.engine.run import Run
    from workbench.engine.workspace import Workspace

WRONG = 2
JSON = "json"


@dataclass(frozen=True, kw_only=True)
class Display:
    """How the results are to be shown, as the options say."""

    report_format: str | None = None
    output: Path | None = None
    plain: bool = False
    verbose: bool = False
    details: bool = False
    """Whether the command prints more about each case after the run."""

    @property
    def document_format(self) -> str:
        """The format of the document that is written to `output`, or else to standard output."""
        return format_for(self.report_format, self.output)

    @property
    def stdout_format(self) -> str:
        """What standard output shows: the document, unless that goes to a file."""
        return self.document_format if self.output is None else TEXT

    @property
    def needs_cases(self) -> bool:
        """Whether all cases have to be in memory at the end; otherwise each is printed and freed when it ends."""
        if self.details or self.document_format == JSON:
            return self.details
        return self.output is not None or self.stdout_format not in (TEXT, "jsonl")


def command_line() -> str:
    """The command as it was typed, to be kept with the run; addresses without what gives access to them."""
    from workbench.store.datasets.remote import is_address, shown_address

    return shlex.join(["workbench", *(shown_address(word) if is_address(word) else word for word in sys.argv[1:])])


def carry_out(plan: Plan, workspace: Workspace, display: Display) -> tuple[StreamedRun | RunReport, int]:
    """Run a plan to its end. Returns what happened, with its cases only if `display` needs them, and the exit status.

    Raises PlanError where the results could not be written to where they are to go.
    """
    from workbench.engine.run import Holds

    if display.output is not None:
        require_writable(display.output)
    names = [name_of(case, repeat) for case, repeat in _rows(plan)]
    printer = _printer(plan, display, names=names)
    spool = JsonSpool() if display.output is not None and display.document_format == JSON else None
    progress = Progress(total=plan.total, shown=sys.stderr.isatty() and not display.plain)
    run = workspace.start(plan, holds=Holds.VERDICTS)
    report = _follow(run, printer, progress, keeps_cases=display.needs_cases, spool=spool)
    status = run.exit_status
    if spool is not None:
        assert display.output is not None
        if not save_pieces(spool.pieces(report), JSON, display.output):
            status = WRONG
    elif display.output is not None:
        assert isinstance(report, RunReport)
        style = Style(verbose=display.verbose)
        table = "\n".join(table_lines(report, style=style, name_width=width_of_names(names))) + "\n"
        if not save_report(report, display.document_format, display.output, table_text=table):
            status = WRONG
    return report, status


def _facts_of(run: Run, *, started_at: datetime | None, finished: RunFinished) -> dict[str, Any]:
    """The fields of RunFacts for a finished run."""
    from workbench.engine.versions import versions

    return {
        "run_id": run.run_id,
        "started_at": started_at,
        "duration_seconds": finished.duration_seconds,
        "interrupted": finished.interrupted,
        "command": run.plan.options.command,
        "summary": finished.summary,
        "criteria": {case.key.eval_set: case.config for case in run.plan.cases},
        "options": run.plan.limits.model_dump(mode="json"),
        "versions": versions(),
    }


def name_of(case: PlannedCase, repeat: int) -> str:
    """What the row of a planned case is called."""
    return case.key.name + (f" [{repeat + 1}]" if repeat else "")


def _follow(
    run: Run, printer: Printer, progress: Progress, *, keeps_cases: bool, spool: JsonSpool | None
) -> StreamedRun | RunReport:
    """Listen to a run until it ends."""
    collected = _Collected(run.plan, keeps_cases=keeps_cases)
    started_at: datetime | None = None
    finished: RunFinished | None = None

    def announce(text: str) -> None:
        with progress.hidden():
            message(text)

    with progress, graceful_interrupt(run.cancel, announce=announce):
        for event in run.iter_events():
            match event:
                case RunStarted():
                    started_at = event.at
                case Notice():
                    announce(event.message)
                case CaseStarted():
                    progress.started(str(event.case))
                case AgentsImporting():
                    progress.importing(event.targets)
                case ModelsAsked():
                    progress.asked(event.models)
                case QuotaWait():
                    progress.waits(event.seconds)
                    if not progress.is_shown:
                        announce(f"{event.model}: {quota_wait_text(event.seconds)}")
                case CaseFinished():
                    case = collected.add(event)
                    with progress.hidden():
                        printer.finished(case)
                    if spool is not None:
                        spool.finished(case)
                    progress.finished(event.status)
                case RunFinished():
                    finished = event
    assert finished is not None  # the last event of every run
    report = collected.report(_facts_of(run, started_at=started_at, finished=finished))
    printer.closed(report)
    return report


class _Collected:
    """What the report of a run needs of the cases that ended: with `keeps_cases` all of it, else their outcomes."""

    def __init__(self, plan: Plan, *, keeps_cases: bool) -> None:
        self._plan = plan
        self._keeps_cases = keeps_cases
        self._planned = {case.key: case for case in plan.cases}
        self._cases: dict[JobKey, ReportedCase] = {}
        self._outcomes: dict[JobKey, CaseOutcome] = {}

    def add(self, event: CaseFinished) -> ReportedCase:
        """Collect a case that ended, and return it to be printed."""
        job = JobKey(case=event.case, repeat=event.repeat)
        planned = self._planned[event.case]
        # What a row expected comes with its result, and need not be made again.
        case = ReportedCase(event.result, event.result.expected_by_row or planned.case)
        if self._keeps_cases:
            self._cases[job] = case
        else:
            self._outcomes[job] = outcome_of(case, planned.config)
        return case

    def report(self, facts: Mapping[str, Any]) -> StreamedRun | RunReport:
        """The report of the run, in the order of the plan; `facts` are the fields of RunFacts."""
        jobs = [job for job, _ in self._plan.jobs]
        if self._keeps_cases:
            return RunReport(**facts, cases=[self._cases[job] for job in jobs if job in self._cases])
        return StreamedRun(**facts, outcomes=[self._outcomes[job] for job in jobs if job in self._outcomes])


def _printer(plan: Plan, display: Display, *, names: Sequence[str]) -> Printer:
    match display.stdout_format:
        case "text":
            criteria = {case.key.eval_set: case.config for case in plan.cases}
            style = stdout_style(plain=display.plain, verbose=display.verbose)
            table = VerdictTable(style=style, name_width=width_of_names(names), criteria=criteria)
            return TablePrinter(table, [(case.key, repeat) for case, repeat in _rows(plan)])
        case "jsonl":
            return LinePrinter()
        case "json":
            return JsonSpool()
        case other:
            return DocumentPrinter(other)


def _rows(plan: Plan) -> list[tuple[PlannedCase, int]]:
    """The rows of the table: set by set, the repeats of a case below each other."""
    sets: dict[str, list[PlannedCase]] = {}
    for case in plan.cases:
        sets.setdefault(case.key.eval_set, []).append(case)
    return [
        (case, repeat)
        for cases in sets.values()
        for case in cases
        for repeat in (range(plan.limits.runs) if case.repeat is None else (case.repeat,))
    ]
