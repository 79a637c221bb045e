"""Results written to a file, in the formats of `workbench report`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.engine.expected import ExpectedCases
from workbench.model.keys import JobKey
from workbench.model.results import CaseResult
from workbench.store.files import write_atomic
from workbench.store.history import History
from workbench.tui.gateway.counting_results import EarlierVerdicts, counting_results

if TYPE_CHECKING:
    from workbench.engine.workspace import Workspace
    from workbench.report.run_report import RunReport

NEWEST = "newest-results"
"""The run id of a document that holds the newest results of cases, whichever runs they are of."""


def export(
    workspace: Workspace,
    path: Path,
    report_format: str,
    jobs: Sequence[JobKey],
    *,
    run_id: str | None,
    earlier: EarlierVerdicts,
) -> None:
    """Write these results in their order; without a run those that count of each case. Raises StoreError."""
    from workbench.report.formats import write_report

    with workspace.history() as history:
        results = _results(history, jobs, run_id, earlier)
        report = _report(workspace, history, results, run_id)
    write_atomic(path, write_report(report, report_format).encode("utf-8", errors="replace"))


def _results(
    history: History, jobs: Sequence[JobKey], run_id: str | None, earlier: EarlierVerdicts
) -> list[CaseResult]:
    found: Iterable[CaseResult]
    if run_id is not None:
        found = history.results(run_id)
    else:
        counting = counting_results(history, dict.fromkeys(job.case for job in jobs).keys(), earlier)
        found = (result for results in counting.values() for result in results)
    places = {job: place for place, job in enumerate(jobs)}
    kept = [(places[job], result) for result in found if (job := _job(result)) in places]
    return [result for _, result in sorted(kept, key=lambda pair: pair[0])]


def _report(workspace: Workspace, history: History, results: Sequence[CaseResult], run_id: str | None) -> RunReport:
    from workbench.engine.summary import summarise, verdict_of
    from workbench.report.run_report import RunReport, report_of, reported_cases

    cases = reported_cases(results, ExpectedCases(workspace.document))
    summary = summarise(map(verdict_of, results))
    if run_id is None:
        return RunReport(run_id=NEWEST, started_at=datetime.now(UTC), summary=summary, cases=cases)
    return report_of(history.run(run_id), cases, summary=summary)


def _job(result: CaseResult) -> JobKey:
    return JobKey(case=result.case, repeat=result.repeat)
