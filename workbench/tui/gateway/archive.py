"""What was stored of earlier runs: one case over its runs, the runs of a set or target, two runs side by side."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from workbench.engine.expected import ExpectedCases
from workbench.engine.plan import PlanError, RunOptions, Selection
from workbench.model.keys import CaseKey, JobKey
from workbench.model.results import CaseResult
from workbench.model.target import AgentKind
from workbench.store.errors import StoreError
from workbench.store.garbage import without_collecting
from workbench.store.history import History, RunPart
from workbench.store.history.database import file_of
from workbench.tui.gateway.counting_results import EarlierVerdicts, counting_results, earlier_scores
from workbench.tui.gateway.exporting import export
from workbench.tui.gateway.kept import is_kept
from workbench.tui.gateway.thread import Call
from workbench.tui.state.history.executions import CaseHistory, ContentKeys
from workbench.tui.state.scores.spread import GroupSpread, spread_of
from workbench.tui.state.table.rows import TableRow, table_row

if TYPE_CHECKING:
    from workbench.engine.workspace import Workspace
    from workbench.report.comparing import RunComparison

T = TypeVar("T")

MOST_EXECUTIONS = 200
"""How many of its newest executions are shown of a case."""
MOST_RUNS = 50
"""How many of its newest runs are shown of a set or target."""

_ROWS_AT_ONCE = 100  # rows of a table that are read before others may use the thread


class Archive:
    """The history of the project. Methods raise StoreError where it cannot be read; nothing here makes a new one."""

    def __init__(self, call: Call) -> None:
        self._call = call

    async def case(self, key: CaseKey) -> CaseHistory:
        """What became of a case in every run, and the hashes of what it is now."""
        return await self._call(lambda workspace: _case_history(workspace, key))

    async def runs(self, target: str, eval_set: str | None) -> list[RunPart]:
        """The newest runs of a target, or of one of its sets."""
        return await self._read([], lambda history: history.runs_of(target, eval_set, limit=MOST_RUNS))

    async def result(self, run_id: str, job: JobKey) -> CaseResult | None:
        """One stored result with what the agent did; None where the run has none of it."""
        return await self._read(None, lambda history: history.result(run_id, job))

    async def compare(self, before: str, after: str) -> RunComparison | None:
        """Two runs; None where nothing has been stored yet."""
        return await self._read(None, lambda history: _compared(history, before, after))

    async def spread(
        self, target: str, eval_set: str | None, cases: Iterable[CaseKey], *, earlier: EarlierVerdicts
    ) -> GroupSpread:
        """The scores that count of those of `cases` that ran, gathered by metric."""

        def gather(history: History) -> GroupSpread:
            listed = frozenset(cases)
            newest = listed.difference(job.case for job in earlier)
            found = (stored for stored in history.latest_scores(target, eval_set) if stored.job.case in newest)
            return spread_of(chain(found, earlier_scores(history, earlier)))

        return await self._read(spread_of(()), gather)

    async def rows(self, cases: Sequence[CaseKey], *, earlier: EarlierVerdicts) -> AsyncIterator[list[TableRow]]:
        """The results that count of these cases as rows of a table, in stretches."""
        opened = await self._call(lambda w: (w.history(), ExpectedCases(w.document)) if _is_there(w) else None)
        if opened is None:
            return
        history, expected = opened
        waiting = iter(cases)

        def stretch(_: Workspace) -> list[TableRow]:
            found = counting_results(history, list(islice(waiting, _ROWS_AT_ONCE)), earlier)
            return [table_row(result, expected(result)) for results in found.values() for result in results]

        try:
            for _ in range(0, len(cases), _ROWS_AT_ONCE):
                yield await self._call(stretch)
        finally:
            await self._call(lambda _: history.close())

    async def rows_of_run(self, run_id: str) -> AsyncIterator[list[TableRow]]:
        """The results of a stored run as rows of a table, in stretches."""
        history, expected = await self._call(lambda w: (w.history(), ExpectedCases(w.document)))
        try:
            results = history.results(run_id)

            def stretch(_: Workspace) -> list[TableRow]:
                return [table_row(result, expected(result)) for result in islice(results, _ROWS_AT_ONCE)]

            while rows := await self._call(stretch):
                yield rows
        finally:
            await self._call(lambda _: history.close())

    async def export(
        self,
        path: Path,
        report_format: str,
        jobs: Sequence[JobKey],
        *,
        run_id: str | None,
        earlier: EarlierVerdicts,
    ) -> None:
        """Write these results, of a run or those that count, as a report that replaces the file."""
        await self._call(lambda workspace: export(workspace, path, report_format, jobs, run_id=run_id, earlier=earlier))

    async def _read(self, nothing: T, work: Callable[[History], T]) -> T:
        """What `work` finds in the history, `nothing` where there is none yet."""

        def read(workspace: Workspace) -> T:
            if not _is_there(workspace):
                return nothing
            with workspace.history() as history:
                return work(history)

        return await self._call(read)


def _is_there(workspace: Workspace) -> bool:
    """Whether anything was stored: opening would make a history, and looking at a project must not write to it."""
    return file_of(workspace.root).exists()


def _case_history(workspace: Workspace, key: CaseKey) -> CaseHistory:
    if not _is_there(workspace):
        return CaseHistory(key)
    with workspace.history() as history:
        executions = history.executions_of(key, limit=MOST_EXECUTIONS)
        ids = dict.fromkeys(stored.job.run_id for stored in executions)
        runs = {run_id: history.run(run_id) for run_id in ids}
    if is_kept(workspace, key):
        return CaseHistory(key, tuple(executions), runs, is_kept=True)
    target = workspace.project.targets.get(key.target)
    is_recorded = target is not None and target.kind is AgentKind.RECORDED
    return CaseHistory(key, tuple(executions), runs, _content_now(workspace, key), is_recorded=is_recorded)


def _content_now(workspace: Workspace, key: CaseKey) -> ContentKeys | None:
    """The hashes of the case and its criteria as they are now; None where it could not run."""
    try:
        plan = workspace.plan([Selection(eval_set=key.eval_set, cases=(key.eval_id,))], RunOptions())
    except (PlanError, StoreError):
        return None
    planned = next((case for case in plan.cases if case.key == key), None)
    if planned is None or planned.problem is not None:
        return None
    return ContentKeys(planned.execution_hash, planned.scoring_hash)


def _compared(history: History, before: str, after: str) -> RunComparison:
    from workbench.report.comparing import compare_stored

    with without_collecting():
        return compare_stored(history, before, after)
