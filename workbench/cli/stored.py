"""Earlier runs, read from the history and put beside the eval sets as they are now."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.cli.streams import message
from workbench.store.errors import StoreError

if TYPE_CHECKING:
    from workbench.report.run_report import RunReport
    from workbench.store.history import History, StoredRun


@contextmanager
def open_history(root: Path) -> Iterator[History | None]:
    """The history of a project, None where nothing has run yet: looking must not create one."""
    from workbench.store.history import History
    from workbench.store.history.database import file_of

    if not file_of(root).exists():
        yield None
        return
    history = History.open(root)
    if (notice := history.take_notice()) is not None:
        message(notice)
    try:
        yield history
    finally:
        history.close()


def stored_runs(root: Path, *, limit: int) -> list[StoredRun]:
    """The newest runs, newest first."""
    with open_history(root) as history:
        return [] if history is None else history.runs(limit)


def stored_report(root: Path, run_id: str) -> RunReport:
    """A run as reports show it. Raises StoreError where there is no such run."""
    from workbench.engine.expected import ExpectedCases
    from workbench.engine.plan import Limits
    from workbench.report.run_report import ReportedCase, report_of
    from workbench.store.documents import EvalSetDocument
    from workbench.store.history.database import file_of

    with open_history(root) as history:
        if history is None:
            raise StoreError(file_of(root), "there are no runs yet")
        run = history.run(run_id)
        results = list(history.results(run.run_id))
    expected = ExpectedCases(lambda relative: EvalSetDocument.open(root / relative))
    cases = [ReportedCase(result, expected(result)) for result in results]
    cases.sort(key=lambda case: (case.result.case.eval_set, *expected.place(case.result.case), case.result.repeat))
    # Without what a run keeps for itself, to be gone on with.
    options = {name: value for name, value in run.options.items() if name in Limits.model_fields}
    return replace(report_of(run, cases, summary=run.summary), options=options)
