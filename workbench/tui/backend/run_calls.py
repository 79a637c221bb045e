"""Calls that plan, start and judge runs, choose criteria, and read and export earlier runs."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache, partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from workbench.engine.history_recorder import ExpectedCases
from workbench.engine.plan import Plan, PlanError, RunOptions, Selection, select_scenarios
from workbench.engine.plan_cost import build_prices, calculate_agent_cost, estimate_cost, is_costly
from workbench.engine.run import Holds, make_verdict, summarise
from workbench.metrics.registry import CaseFacts
from workbench.model.criteria import Criterion, EvalConfig
from workbench.model.facts import pause_gc
from workbench.model.identity import CaseKey, JobKey
from workbench.model.results import CaseResult, CaseStatus
from workbench.model.target import AgentKind, ModelMode
from workbench.report.comparison import compare_stored_runs
from workbench.report.report_formats import write_report
from workbench.report.run_report import NOT_GOOD, ReportedCase, RunReport, build_report, reported_cases
from workbench.report.text_report import explain_in_one_line
from workbench.store.errors import IsDataset, StoreError
from workbench.store.evalsets.config_files import ConfigDocument
from workbench.store.files import CRITERIA_FILES, write_atomic
from workbench.store.history.history import History
from workbench.store.history.history_queries import RunPart, StoredRun, StoredScores
from workbench.tui.backend.project_calls import (
    EarlierVerdicts,
    WorkspaceCall,
    has_history,
    is_history_dataset,
    read_current_results,
    read_earlier_scores,
)
from workbench.tui.state.browser_list import ListedSet
from workbench.tui.state.criteria_choice import CriteriaFile
from workbench.tui.state.group_scores import (
    MOST_FAILING,
    MOST_WHOLE_RUNS,
    WATCH_COMMAND,
    GroupReport,
    GroupSummary,
    ScoreCollector,
    is_whole_run,
    summarize_scores,
)
from workbench.tui.state.history_state import CaseHashes, CaseHistory
from workbench.tui.state.project_state import StoppedRun
from workbench.tui.state.results_table import TableRow, make_table_row
from workbench.tui.state.run_plan import PlannedRun

if TYPE_CHECKING:
    from workbench.engine.ablation import Ablation
    from workbench.engine.case_variants import Caller, CaseExecutor
    from workbench.engine.run import Run
    from workbench.engine.shrinking import Shrinker
    from workbench.engine.workspace import Workspace
    from workbench.model.target import Isolation
    from workbench.report.bisect_report import BisectStep
    from workbench.report.comparison import RunComparison
    from workbench.watch.bisection import Bisection


# Runs: planning with a cost estimate, start, and commands to active runs.

_RUN_COMMAND = "workbench (screen)"


class Runs:
    """Plans, starts and controls runs. Methods raise PlanError and StoreError."""

    def __init__(self, call: WorkspaceCall) -> None:
        self._call = call
        self._runs: dict[str, Run] = {}  # runs that accept commands, by id

    async def plan(
        self,
        selections: Sequence[Selection],
        options: RunOptions | None = None,
        config: EvalConfig | None = None,
        *,
        ask: bool = False,
        only_plays: bool = False,
        fresh: bool = False,
        runs: int | None = None,
    ) -> PlannedRun:
        """Plan a run, with the criteria in `config` if given. It needs confirmation if the settings or `ask` say so.

        With `only_plays`, plan only the scenarios, without scoring. With `fresh`, replay no model calls. `runs` is the
        number of repeats, None for that of the settings.
        """
        options = options or RunOptions(
            command=_RUN_COMMAND, scores=not only_plays, fresh=fresh, runs=runs, models_by_default=ModelMode.AUTO
        )

        def plan(workspace: Workspace) -> PlannedRun:
            from workbench.watch.selector import reuse_unjudged

            made = workspace.plan(selections, options, config=config)
            if not options.scores:
                made = select_scenarios(made)
            elif options.resume is None and not options.fresh:  # a resumed run has reused them already
                made = reuse_unjudged(workspace, made)
            confirm = workspace.settings.run.confirm
            asks = ask or confirm == "always" or (confirm == "costly" and is_costly(made))
            cost = workspace.estimate(made) if asks else None
            return PlannedRun(selections, options, config, made, cost, asks, folder=_current_folder(workspace.root))

        return await self._call(plan)

    async def find_stopped_run(self) -> StoppedRun | None:
        """Return the newest run if it was stopped before its end, else None. Raises StoreError."""

        def find(workspace: Workspace) -> StoppedRun | None:
            from workbench.engine.earlier_runs import find_stopped_run, get_selections

            if not has_history(workspace):
                return None
            with workspace.history() as history:
                run = find_stopped_run(history)
            if run is None:
                return None
            return StoppedRun(
                get_selections(run),
                RunOptions(command=_RUN_COMMAND, resume=run.run_id, models_by_default=ModelMode.AUTO),
            )

        return await self._call(find)

    async def start(self, planned: PlannedRun) -> tuple[Run, Sequence[JobKey]]:
        """Start a planned run. Return it with its jobs."""

        def start(workspace: Workspace) -> tuple[Run, Sequence[JobKey]]:
            run = workspace.start(planned.plan, holds=Holds.VERDICTS)
            return run, [job for job, _ in planned.plan.jobs]

        run, jobs = await self._call(start)
        self.track(run)
        return run, jobs

    def track(self, run: Run) -> None:
        """Accept commands for an active run, whatever started it."""
        self._runs = {name: other for name, other in self._runs.items() if not other.is_over}
        self._runs[run.run_id] = run

    def cancel(self, run_id: str, job: JobKey) -> None:
        """Stop one job of an active run; it ends CANCELLED."""
        if run_id in self._runs:
            self._runs[run_id].cancel(job)

    def requeue(self, run_id: str, jobs: Iterable[JobKey]) -> None:
        """Run jobs of an active run again, as part of it. Do nothing if the run is over."""
        if run_id in self._runs:
            self._runs[run_id].requeue(jobs)


def _current_folder(root: Path) -> Path:
    try:
        return Path.cwd()
    except OSError:  # the folder was deleted; paths are absolute then, so `root` works too
        return root


# Repeated judging: judge models score the stored answers of a case again, without agent runs.

_JUDGE_COMMAND = "workbench (screen): judged again"


@dataclass(frozen=True, slots=True)
class PlannedJudging:
    """A plan to judge a case again. `calls`: calls to judge models; `asks`: the settings require a confirmation."""

    plan: Plan
    run_id: str
    results: Sequence[CaseResult]
    calls: int
    asks: bool


@dataclass(frozen=True, slots=True)
class StartedJudging:
    """A run that judges a case again, with its jobs and its plan."""

    run: Run
    jobs: Sequence[JobKey]
    planned: PlannedJudging


def plan_judging(workspace: Workspace, case: CaseKey) -> PlannedJudging:
    """Plan to judge all repeats of the newest run of a case again. Raises PlanError and StoreError."""
    with workspace.history() as history:
        newest = history.list_executions(case, limit=1)
        for name in () if newest else workspace.find_former_names(history, [case]).get(case, ()):
            newest = newest or history.list_executions(name, limit=1)
        if not newest:
            raise PlanError("there is no stored answer of this case to judge")
        run, name = history.run(newest[0].job.run_id), newest[0].job.case
        found = history.latest_results([name]).get(name, [])
        results = [result.model_copy(update={"case": case}) for result in found]
    plan = workspace.plan_judging(run, results, RunOptions(command=_JUDGE_COMMAND))
    calls = sum(estimate_cost(plan).judge_calls.values())
    return PlannedJudging(plan, run.run_id, results, calls, asks=workspace.settings.run.confirm != "never")


def start_judging(workspace: Workspace, planned: PlannedJudging) -> StartedJudging:
    """Start a planned judging. Raises PlanError and StoreError."""
    return StartedJudging(workspace.start(planned.plan), [job for job, _ in planned.plan.jobs], planned)


async def describe_agreement(begun: StartedJudging) -> str | None:
    """Wait for the judging, and describe its agreement with the earlier one; None if it was stopped."""
    from workbench.report.judge_agreement import Judgements, compute_agreements, outcome_text

    async for _ in begun.run.events():
        pass
    if begun.run.interrupted:
        return None
    both = Judgements([begun.planned.run_id, begun.run.run_id], [begun.planned.results, begun.run.results()])
    return outcome_text(compute_agreements(both))


# Criteria of eval sets: read, write and undo; and the facts of the cases that metrics need.

_CASES_AT_ONCE = 250  # cases per call, so that other calls do not wait long for the thread


class CriteriaFiles:
    """The criteria files of a project. Methods raise StoreError."""

    def __init__(self, call: WorkspaceCall) -> None:
        self._call = call
        self._documents: dict[Path, ConfigDocument] = {}

    async def read(self, eval_sets: Sequence[str]) -> CriteriaFile:
        """Read the current criteria file of the first of these sets. It may not exist yet."""

        def read(workspace: Workspace) -> CriteriaFile:
            document = self._document(workspace, eval_sets[0])
            document.reload()
            return _describe_file(workspace, document, eval_sets)

        return await self._call(read)

    async def keep(self, eval_sets: Sequence[str], criteria: Sequence[Criterion]) -> CriteriaFile:
        """Write criteria into the file that was read. Raises FileChanged if it changed since."""

        return await self._write(eval_sets, lambda document: document.write_criteria(criteria))

    async def undo(self, eval_sets: Sequence[str]) -> CriteriaFile:
        """Undo the last write to the file. Raises FileChanged if it changed since."""

        return await self._write(eval_sets, lambda document: document.undo() if document.can_undo else None)

    async def _write(self, eval_sets: Sequence[str], change: Callable[[ConfigDocument], object]) -> CriteriaFile:
        def write(workspace: Workspace) -> CriteriaFile:
            document = self._document(workspace, eval_sets[0])
            existed = document.exists
            change(document)
            if document.exists != existed:
                workspace.refresh()
            return _describe_file(workspace, document, eval_sets)

        return await self._call(write)

    async def read_facts(self, selections: Sequence[Selection]) -> CaseFacts:
        """Count the selected cases by the data that metrics need. Skip cases that cannot be read."""
        total = CaseFacts()
        for selection in selections:
            start: int | None = 0
            while start is not None:
                facts, start = await self._call(_counting(selection, start))
                total += facts
        return total

    def _document(self, workspace: Workspace, eval_set: str) -> ConfigDocument:
        path = _get_config_path(workspace, eval_set)
        if path not in self._documents:
            self._documents[path] = ConfigDocument.open(path)
        return self._documents[path]


def _get_config_path(workspace: Workspace, eval_set: str) -> Path:
    entry = next((entry for entry in workspace.project.eval_sets if entry.relative == eval_set), None)
    if entry is None:
        raise StoreError(workspace.root / eval_set, "this eval set no longer exists")
    return entry.config or entry.path.parent / CRITERIA_FILES[0]


def _describe_file(workspace: Workspace, document: ConfigDocument, eval_sets: Sequence[str]) -> CriteriaFile:
    paths = {
        entry.relative: entry.config or entry.path.parent / CRITERIA_FILES[0] for entry in workspace.project.eval_sets
    }
    selected = {path for name, path in paths.items() if name in set(eval_sets)}
    path = document.path
    return CriteriaFile(
        path=str(path.relative_to(workspace.root) if path.is_relative_to(workspace.root) else path),
        exists=document.exists,
        config=document.config,
        also_judges=sum(file == path and name not in eval_sets for name, file in paths.items()),
        other_files=len(selected - {path}),
        can_undo=document.can_undo,
    )


def _counting(selection: Selection, start: int) -> Callable[[Workspace], tuple[CaseFacts, int | None]]:
    """Make a function that counts the next cases of a selection.

    It returns the facts and the next start index, None at the end.
    """

    def count(workspace: Workspace) -> tuple[CaseFacts, int | None]:
        facts = CaseFacts()
        try:
            document = workspace.document(selection.eval_set)
        except IsDataset:
            return _read_row_facts(workspace, selection), None
        except StoreError:
            return facts, None
        wanted = None if selection.cases is None else set(selection.cases)
        entries = document.entries[start : start + _CASES_AT_ONCE]
        for entry in entries:
            if wanted is not None and entry.eval_id not in wanted:
                continue
            try:
                facts += CaseFacts.from_case(document.case(entry.index))
            except StoreError:
                continue  # its row in the browser shows the problem
        end = start + _CASES_AT_ONCE
        return facts, end if end < len(document.entries) else None

    return count


def _read_row_facts(workspace: Workspace, selection: Selection) -> CaseFacts:
    """Count all selected rows of a dataset in one call."""
    rows = workspace.recordings.read(selection.eval_set).cases
    wanted = [row.case for row in rows if selection.cases is None or row.eval_id in selection.cases]
    return sum((CaseFacts.from_case(case) for case in wanted if case is not None), CaseFacts())


# Export of results to a file, in the formats of `workbench report`.

NEWEST = "newest-results"
"""Run id of an export that contains the newest results of cases from any run."""


def export(
    workspace: Workspace,
    path: Path,
    jobs: Sequence[JobKey],
    *,
    run_id: str | None,
    earlier: EarlierVerdicts,
) -> None:
    """Write these results of a run in their order; without `run_id`, the current results. Raises StoreError.

    `check_export_path` has accepted the path, whose ending says the format.
    """
    with workspace.history() as history:
        results = _results(history, jobs, run_id, earlier)
        report = _report(workspace, history, results, run_id)
    write_atomic(path, write_report(report, _FORMATS[path.suffix.lower()]).encode("utf-8", errors="replace"))


def _results(
    history: History, jobs: Sequence[JobKey], run_id: str | None, earlier: EarlierVerdicts
) -> list[CaseResult]:
    found: Iterable[CaseResult]
    if run_id is not None:
        found = history.results(run_id)
    else:
        counting = read_current_results(history, dict.fromkeys(job.case for job in jobs).keys(), earlier)
        found = (result for results in counting.values() for result in results)
    places = {job: place for place, job in enumerate(jobs)}
    kept = [(places[job], result) for result in found if (job := _job(result)) in places]
    return [result for _, result in sorted(kept, key=lambda pair: pair[0])]


def _report(workspace: Workspace, history: History, results: Sequence[CaseResult], run_id: str | None) -> RunReport:
    cases = reported_cases(results, ExpectedCases(workspace.document))
    summary = summarise(map(make_verdict, results))
    if run_id is None:
        return RunReport(run_id=NEWEST, started_at=datetime.now(UTC), summary=summary, cases=cases)
    return build_report(history.run(run_id), cases, summary=summary)


def _job(result: CaseResult) -> JobKey:
    return JobKey(case=result.case, repeat=result.repeat)


# Stored results: the history of a case, the runs of a set or target, and the comparison of two runs.

T = TypeVar("T")

MOST_EXECUTIONS = 200
"""Maximum number of executions shown for a case, newest first."""
MOST_RUNS = 50
"""Maximum number of runs shown for a set or target, newest first."""

# Per call, so that other calls do not wait long for the thread.
_ROWS_AT_ONCE = 100
_SCORES_AT_ONCE = 500
_REASONS_AT_ONCE = 5


class HistoryReader:
    """Reads the history of the project and never creates one. Methods raise StoreError if it cannot be read."""

    def __init__(self, call: WorkspaceCall) -> None:
        self._call = call

    async def read_runs(self, target: str, eval_set: str | None) -> list[RunPart]:
        """Read the newest runs of a target, or of one of its sets."""
        return await self._read([], lambda history: history.list_runs_of_target(target, eval_set, limit=MOST_RUNS))

    async def read_newest_runs(self) -> list[StoredRun]:
        return await self._read([], lambda history: history.runs(limit=MOST_RUNS))

    async def read_result(self, run_id: str, job: JobKey) -> CaseResult | None:
        """Read one stored result with its execution; None if the run has no such result."""
        return await self._read(None, lambda history: history.result(run_id, job))

    async def compare_runs(self, before: str, after: str) -> RunComparison | None:
        """Compare two runs; None if there is no history yet."""
        return await self._read(None, lambda history: _compare(history, before, after))

    async def read_spread(self, cases: Collection[CaseKey], *, earlier: EarlierVerdicts) -> GroupSummary:
        """Summarize the current scores of `cases` by metric. Cases that never ran have none."""
        async with self._open() as opened:
            if opened is None:
                return summarize_scores(())
            collector = await self._collect(opened[0], cases, earlier)
            return await self._call(lambda _: collector.summarize())

    async def read_report(
        self, target: str | None, eval_set: str | None, sets: Sequence[ListedSet], *, earlier: EarlierVerdicts
    ) -> GroupReport:
        """Read what the dashboard shows: the scores of these sets, why cases did not pass, and runs.

        The runs are the whole runs of a target or set; without a target, the newest runs.
        """
        reasons: dict[CaseKey, str] = {}
        async with self._open() as opened:
            if opened is None:
                return GroupReport(summarize_scores(()))
            history, expected = opened
            cases = await self._call(lambda _: {listed.relative: listed.case_keys for listed in sets if listed.cases})
            keys = await self._call(lambda _: list(chain.from_iterable(listed.case_keys for listed in sets)))
            collector = await self._collect(history, keys, earlier)
            summary = await self._call(lambda _: collector.summarize())
            costliest = [measured.case for measured in summary.costliest]
            dollars = await self._call(partial(_price, history, costliest, earlier)) if costliest else {}
            listed = (key for key in keys if key in collector.failing)
            failing = await self._call(lambda _: list(islice(listed, MOST_FAILING)))
            for start in range(0, len(failing), _REASONS_AT_ONCE):
                some = failing[start : start + _REASONS_AT_ONCE]
                reasons |= await self._call(partial(_explain, history, expected, some, earlier))
            runs = await self._call(
                lambda _: (
                    _list_newest_runs(history) if target is None else _list_whole_runs(history, target, eval_set, cases)
                )
            )
        return GroupReport(summary, reasons, runs, dollars)

    async def _collect(self, history: History, cases: Collection[CaseKey], earlier: EarlierVerdicts) -> ScoreCollector:
        """Collect current scores in many calls, so that other calls do not wait long for the thread."""
        collector = ScoreCollector()

        def begin(_: Workspace) -> Iterator[StoredScores]:
            return chain(_iterate_newest_scores(history, cases, earlier), read_earlier_scores(history, earlier))

        scores = await self._call(begin)

        def add_some(_: Workspace) -> bool:
            some = list(islice(scores, _SCORES_AT_ONCE))
            collector.add(some)
            return bool(some)

        while await self._call(add_some):
            pass
        return collector

    async def read_scores(self, cases: Collection[CaseKey], *, earlier: EarlierVerdicts) -> dict[str, list[float]]:
        """Read the scores of the current results of these cases, by metric. A score that is missing is left out."""

        def gather(history: History) -> dict[str, list[float]]:
            scores: dict[str, list[float]] = {}
            found = _iterate_newest_scores(history, cases, earlier)
            for stored in chain(found, read_earlier_scores(history, earlier)):
                for metric in stored.metrics:
                    if metric.score is not None:
                        scores.setdefault(metric.name, []).append(metric.score)
            return scores

        return await self._read({}, gather)

    async def read_rows(self, cases: Sequence[CaseKey], *, earlier: EarlierVerdicts) -> AsyncIterator[list[TableRow]]:
        """Read the current results of these cases as table rows, in batches."""
        async with self._open() as opened:
            if opened is None:
                return
            history, expected = opened
            waiting = iter(cases)
            read_live_jobs = cache(lambda: history.latest_jobs_by_source(is_replayed=False))  # for replayed rows only

            def list_samples(result: CaseResult) -> list[CaseStatus]:
                jobs = read_live_jobs().get(result.case, ()) if result.execution.is_replayed else ()
                return [job.status for job in jobs]

            def stretch(_: Workspace) -> list[TableRow]:
                found = read_current_results(history, list(islice(waiting, _ROWS_AT_ONCE)), earlier)
                results = chain.from_iterable(found.values())
                return [make_table_row(result, expected(result), list_samples(result)) for result in results]

            for _ in range(0, len(cases), _ROWS_AT_ONCE):
                yield await self._call(stretch)

    async def read_run_rows(self, run_id: str) -> AsyncIterator[list[TableRow]]:
        """Read the results of a stored run as table rows, in batches."""
        async with self._open() as opened:
            if opened is None:
                return
            history, expected = opened
            results = history.results(run_id)

            def stretch(_: Workspace) -> list[TableRow]:
                return [make_table_row(result, expected(result)) for result in islice(results, _ROWS_AT_ONCE)]

            while rows := await self._call(stretch):
                yield rows

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[tuple[History, ExpectedCases] | None]:
        """Open the history for several calls; None if there is none yet."""
        held: list[tuple[History, ExpectedCases]] = []  # also filled if the caller is cancelled meanwhile

        def open_history(workspace: Workspace) -> None:
            if has_history(workspace):
                held.append((workspace.history(), ExpectedCases(workspace.document)))

        def close_history(_: Workspace) -> None:
            for history, _expected in held:
                history.close()

        try:
            await self._call(open_history)
            yield held[0] if held else None
        finally:
            await self._call(close_history)

    async def _read(self, nothing: T, work: Callable[[History], T]) -> T:
        """Return the result of `work` on the history; `nothing` if there is no history yet."""

        def read(workspace: Workspace) -> T:
            if not has_history(workspace):
                return nothing
            with workspace.history() as history:
                return work(history)

        return await self._call(read)


def _iterate_newest_scores(
    history: History, cases: Collection[CaseKey], earlier: EarlierVerdicts
) -> Iterator[StoredScores]:
    """Yield the newest scores of these cases, except of those whose verdicts are `earlier`."""
    newest = frozenset(cases).difference(job.case for job in earlier)
    places = dict.fromkeys((case.target, case.eval_set) for case in cases)
    found = chain.from_iterable(history.latest_scores(*place) for place in places)
    return (stored for stored in found if stored.job.case in newest)


def _list_newest_runs(history: History) -> Sequence[RunPart]:
    """List the newest runs that scored cases, except those of a watch."""
    runs = history.runs(limit=MOST_RUNS)
    return [
        RunPart(run, run.summary)
        for run in runs
        if run.ended and run.options.get("scores", True) and run.command.partition(":")[0] != WATCH_COMMAND
    ]


def _list_whole_runs(
    history: History, target: str, eval_set: str | None, cases: Mapping[str, Sequence[CaseKey]]
) -> Sequence[RunPart]:
    names = {relative: frozenset(key.eval_id for key in keys) for relative, keys in cases.items()}
    return history.list_runs_of_target(
        target,
        eval_set,
        limit=MOST_WHOLE_RUNS,
        unless_command=WATCH_COMMAND,
        accept=lambda run: is_whole_run(run, names),
    )


def _explain(
    history: History, expected: ExpectedCases, cases: Sequence[CaseKey], earlier: EarlierVerdicts, _: Workspace
) -> dict[CaseKey, str]:
    """Explain in one line why each of these cases did not pass, by its first repeat that did not."""
    some = {job: place for job, place in earlier.items() if job.case in cases}
    reasons = {}
    for case, results in read_current_results(history, cases, some).items():
        bad = next((result for result in results if result.status in NOT_GOOD), None)
        if bad is not None:
            if bad.is_quarantined:  # the reason is only shown if the quarantine has ended since
                bad = bad.model_copy(update={"quarantine": None})
            reasons[case] = explain_in_one_line(ReportedCase(bad, expected(bad)))
    return reasons


def _price(
    history: History, cases: Sequence[CaseKey], earlier: EarlierVerdicts, workspace: Workspace
) -> dict[CaseKey, Decimal]:
    """Return what the models of the agent cost for each of these cases, of several repeats the mean, where known."""
    prices = build_prices(workspace.settings.judge)
    some = {job: place for job, place in earlier.items() if job.case in cases}
    dollars = {}
    for case, results in read_current_results(history, cases, some).items():
        found = [calculate_agent_cost(result.execution, prices) for result in results]
        known = [cost for cost in found if cost is not None]
        if found and len(known) == len(found):
            dollars[case] = sum(known, Decimal(0)) / len(known)
    return dollars


def read_case_history(workspace: Workspace, key: CaseKey) -> CaseHistory:
    """Read the executions of a case in every run, and its current hashes. Raises StoreError."""
    if not has_history(workspace):
        return CaseHistory(key)
    with workspace.history() as history:
        executions = history.list_executions(key, limit=MOST_EXECUTIONS)
        for name in workspace.find_former_names(history, [key]).get(key, ()):
            executions += history.list_executions(name, limit=MOST_EXECUTIONS - len(executions))
        ids = dict.fromkeys(stored.job.run_id for stored in executions)
        runs = {run_id: history.run(run_id) for run_id in ids}
    if is_history_dataset(workspace, key):
        return CaseHistory(key, tuple(executions), runs, is_from_history=True)
    target = workspace.project.targets.get(key.target)
    is_recorded = target is not None and target.kind is AgentKind.RECORDED
    return CaseHistory(key, tuple(executions), runs, _content_now(workspace, key), is_recorded=is_recorded)


def _content_now(workspace: Workspace, key: CaseKey) -> CaseHashes | None:
    """Return the current hashes of a case and its criteria; None if the case cannot run."""
    try:
        plan = workspace.plan([Selection(eval_set=key.eval_set, cases=(key.eval_id,))], RunOptions())
    except (PlanError, StoreError):
        return None
    planned = next((case for case in plan.cases if case.key == key), None)
    if planned is None or planned.problem is not None:
        return None
    return CaseHashes(planned.execution_hash, planned.scoring_hash)


def _compare(history: History, before: str, after: str) -> RunComparison:
    with pause_gc():
        return compare_stored_runs(history, before, after)


def make_bisection(
    workspace: Workspace, case: CaseKey, *, repeats: int, show: Callable[[BisectStep], None]
) -> Bisection:
    """Prepare the search for the commit that turned a case red, with at most `repeats` executions of each commit.

    Raises PlanError and StoreError.
    """
    from workbench.watch.bisection import Bisection, BisectOptions

    selection = Selection(eval_set=case.eval_set, cases=(case.eval_id,))
    # A replayed answer is no sample: it repeats one.
    options = RunOptions(command="bisect", models=ModelMode.LIVE if repeats > 1 else None)
    plan = workspace.plan([selection], options)
    planned = next((each for each in plan.cases if each.key == case), None)
    if planned is None:
        raise PlanError(f"{case}: the case no longer exists")
    return Bisection(workspace, dataclasses.replace(plan, cases=(planned,)), BisectOptions(repeats=repeats), show=show)


def make_shrinker(
    workspace: Workspace, case: CaseKey, *, budget: int, criteria: Sequence[str], call: Caller
) -> Shrinker:
    """Prepare the search for the smallest variant of a failing case. `call` calls the workspace from its thread.

    Raises PlanError and StoreError.
    """
    from workbench.engine.shrinking import FailureTest, Shrinker

    executor = _make_executor(workspace, case, call, isolation=None)
    return Shrinker(executor=executor, test=FailureTest(criteria=criteria), budget=budget)


def make_ablation(
    workspace: Workspace, case: CaseKey, *, by_line: bool, budget: int, repeats: int, call: Caller
) -> Ablation:
    """Prepare the search for the parts of the instruction that matter for a case, as `make_shrinker` does."""
    from workbench.engine.ablation import Ablation

    executor = _make_executor(workspace, case, call, isolation="case")
    return Ablation(executor=executor, by_line=by_line, budget=budget, repeats=repeats)


def _make_executor(workspace: Workspace, case: CaseKey, call: Caller, *, isolation: Isolation | None) -> CaseExecutor:
    from workbench.engine.case_variants import CaseExecutor

    options = RunOptions(command=_RUN_COMMAND, models_by_default=ModelMode.AUTO, isolation=isolation)
    return CaseExecutor(workspace, [Selection(eval_set=case.eval_set, cases=(case.eval_id,))], options, call=call)


# Path and format of an export. The file extension decides the format.

_FORMATS = {
    ".csv": "csv",
    ".md": "markdown",
    ".html": "html",
    ".json": "json",
    ".jsonl": "jsonl",
    ".xml": "junit",
}


def parse_export_path(text: str) -> Path:
    """Return the path in a text, with `~` expanded."""
    return Path(text.strip()).expanduser()


def check_export_path(text: str) -> str | None:
    """Describe the problem of an export path in a sentence; None if it has no problem."""
    path = parse_export_path(text)
    if not text.strip():
        return "expected the name of a file"
    if path.suffix.lower() not in _FORMATS:
        return f"expected a name that ends in one of {', '.join(_FORMATS)}"
    if path.is_dir():
        return "that is a folder; expected the name of a file"
    if not path.parent.is_dir():
        return f"there is no folder {path.parent}"
    return None
