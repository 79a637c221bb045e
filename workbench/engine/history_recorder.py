"""Results written into the history while a run goes on."""

from __future__ import annotations

import contextlib
import platform
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import workbench
from workbench.engine.earlier_runs import JUDGEMENT, dump_resume_options
from workbench.engine.plan import PlannedCase
from workbench.engine.planner import lacks_baseline
from workbench.engine.run import Holds, Run
from workbench.model.evalset import EvalCase
from workbench.model.identity import CaseKey, JobKey
from workbench.model.results import CaseResult, CaseStatus
from workbench.model.run_events import RunFinished
from workbench.model.target import AgentKind
from workbench.model.text import redact
from workbench.store.errors import DamagedFile, StoreError, shown_path
from workbench.store.history.history import History
from workbench.store.history.history_queries import ResultToStore, RunRecord, StoredVerdict
from workbench.store.history.history_schema import SCORES_OPTION, SHARD_OPTION, is_denied

if TYPE_CHECKING:
    from workbench.store.evalsets.evalset_document import EvalSetDocument


# Versions that can change a score without a change in the project.

# Libraries that compute scores, and the framework of agents in our own interpreter.
_PACKAGES = ("google-adk", "rouge-score", "sacrebleu")


@cache
def find_versions() -> dict[str, str]:
    """Find the versions of workbench, Python, and installed packages, by name."""
    found = {"workbench": workbench.__version__, "python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


# Stores results in the history, and as result files of ADK.

Written = TypeVar("Written")


class HistoryRecorder:
    """Stores results as they come. Used on the engine's thread only.

    A history that cannot be written costs no verdict: the run is warned once, and continues without. If the file is
    deleted while the run goes on, a new file gets the run with its results so far; if it proves damaged, a new file
    gets those that follow.
    """

    def __init__(
        self,
        root: Path,
        *,
        warn: Callable[[str], None],
        lose: Callable[[str], None],
        stored: Callable[[Iterable[tuple[StoredVerdict, CaseResult]]], None],
    ) -> None:
        """`warn` gets messages for the user; `lose` those that mean that results are not kept.

        `stored` receives the stored results lazily.
        """
        self._root = root
        self._warn = warn
        self._lose = lose
        self._stored = stored
        self._history: History | None = None
        self._has_results = False  # in the history, of this run
        self._run_id = ""
        self._record: RunRecord | None = None
        self._unjudged: dict[JobKey, tuple[StoredVerdict, CaseResult]] = {}
        self._replays = False

    def begin(self, run: Run) -> None:
        self._run_id = run.run_id
        self._replays = run.plan.options.judge_replay is not None
        if not run.plan.options.history:
            return
        self._record = _make_record(run, self._root)
        self._has_results = bool(run.plan.stored)
        try:
            self._history = self._open()
        except StoreError as error:
            self._stop_storing(error)
            return
        self._write(lambda history: history.reuse_results(self._run_id, run.plan.taken_from))
        if run.plan.stored:
            quarantines = {job: case.current_quarantine for job, case in run.plan.jobs if job in run.plan.stored}
            self._write(lambda history: history.set_quarantines(self._run_id, quarantines))

    def keep_unjudged(self, results: Iterable[tuple[PlannedCase, CaseResult]]) -> None:
        """Store executions before they are judged, so that a later run can judge them."""
        if self._history is None:
            return
        jobs = [ResultToStore(result, execution_key=planned.execution_hash) for planned, result in results]
        verdicts = self._write(lambda history: history.store_unjudged(self._run_id, jobs))
        if verdicts is None:
            return
        self._unjudged |= {
            _make_job_key(job.result): (each, job.result) for each, job in zip(verdicts, jobs, strict=True)
        }

    def keep(self, results: Sequence[tuple[JobKey, PlannedCase, CaseResult]]) -> Sequence[bool]:
        """Store results before they are shown; return for each whether it is stored.

        A cancelled job is not stored, except for an execution that was stored before judging.
        """
        nothing = [False] * len(results)
        if self._history is None:
            return nothing
        unjudged = {}
        if self._unjudged:
            unjudged = {key: self._unjudged.pop(key) for key, _, _ in results if key in self._unjudged}
        jobs = [
            ResultToStore(
                result,
                execution_key=planned.execution_hash,
                # Without the key the verdict is never reused; the execution is judged again.
                scoring_key="" if result.has_outage or self._is_replayed(result) else planned.scoring_hash,
                lacks_baseline=lacks_baseline(planned, result),
                is_rescored=not planned.needs_agent or key in unjudged,
                is_recorded=planned.is_recorded and planned.problem is None,
            )
            for key, planned, result in results
            if result.status is not CaseStatus.CANCELLED
        ]
        verdicts = self._write(lambda history: history.finish_jobs(self._run_id, jobs))
        if verdicts is None:
            return nothing
        self._has_results = True
        if unjudged:
            cancelled = (key for key, _, result in results if result.status is CaseStatus.CANCELLED)
            self._stored([unjudged[key] for key in cancelled if key in unjudged])
        self._stored((verdict, job.result) for verdict, job in zip(verdicts, jobs, strict=True))
        return [result.status is not CaseStatus.CANCELLED for _, _, result in results]

    def end(self, run: Run, finished: RunFinished) -> None:
        """Store the end of the run; write ADK's result files for complete sets of ADK agents if that is wanted."""
        if run.plan.options.adk_results and not finished.interrupted:
            self._write_adk_results(run)
        self._write(
            lambda history: history.end_run(
                self._run_id,
                finished.summary,
                duration_seconds=finished.duration_seconds,
                interrupted=finished.interrupted,
            )
        )
        if self._history is not None:
            self._check_file()

    def tidy(self) -> None:
        """Remove old data after the run; a later run retries what fails."""
        if self._history is not None:
            with contextlib.suppress(StoreError):
                self._history.delete_old_results(self._run_id)
            self._history.close()

    def _is_replayed(self, result: CaseResult) -> bool:
        """Whether replayed calls of models shaped the result, which is then valid for this run only."""
        if not self._replays:
            return False
        asked = any(score.judgement is not None for metric in result.metrics for score in metric.per_invocation)
        return asked or result.execution.simulation is not None

    def _open(self) -> History:
        """Open the history, a new one if it proves damaged, and begin this run in it. Raises StoreError."""
        try:
            return self._begin_run()
        except DamagedFile:
            return self._begin_run()

    def _begin_run(self) -> History:
        assert self._record is not None
        history = History.open(self._root)
        try:
            if (notice := history.pop_notice()) is not None:
                self._warn(notice)
                self._report_lost_results()
            history.begin_run(self._record)
        except StoreError:
            history.close()
            raise
        return history

    def _write(self, action: Callable[[History], Written]) -> Written | None:
        """Write to the history, to a new one if its file is gone or damaged; None if nothing was written."""
        if self._history is None:
            return None
        try:
            if self._history.is_gone:
                self._move_to_new_file()
            try:
                return action(self._history)
            except DamagedFile:
                self._history = self._open()
                return action(self._history)
        except StoreError as error:
            self._stop_storing(error)
            return None

    def _move_to_new_file(self) -> None:
        """Continue in a new file: the open one has no name any more, but can still be read."""
        assert self._history is not None
        with self._history as gone:
            self._history = new = self._open()
            try:
                new.copy_jobs(gone, self._run_id)
            except DamagedFile:
                self._report_lost_results()
        self._warn(
            f"{shown_path(new.path)} was deleted or replaced during this run: the run is stored in a new file; "
            "earlier runs are lost"
        )

    def _check_file(self) -> None:
        """Read the run as another process would: the open connection need not notice damage from outside."""
        try:
            with History.open(self._root) as reader:
                if (notice := reader.pop_notice()) is not None:
                    self._warn(notice)
                reader.run(self._run_id)
        except StoreError as error:
            self._stop_storing(error)

    def _report_lost_results(self) -> None:
        if self._has_results:
            self._lose("the earlier results of this run are in the damaged history, not in the new one")

    def _stop_storing(self, error: StoreError) -> None:
        message = f"the results of this run are not stored in the history: {error}"
        if is_denied(error):  # a read-only project promises no history
            self._warn(message)
        else:
            self._lose(message)
        if self._history is not None:
            self._history.close()
            self._history = None

    def _write_adk_results(self, run: Run) -> None:
        wanted = {
            case.key.eval_set: case
            for case in run.plan.cases
            if case.target.kind is AgentKind.ADK and case.key.eval_set in run.plan.whole_sets
        }
        if not wanted:
            return
        if run.holds is Holds.VERDICTS and self._history is None:
            self._warn("no result file for adk web was written: the results of this run are not in the history")
            return
        from workbench.report.adk_results import write_adk_results

        try:
            results = self._whole_results(run, frozenset(wanted))
            for name, of_set in results.items():
                planned = wanted[name]
                write_adk_results(
                    planned.target.path / planned.target.location,
                    of_set,
                    config=planned.config,
                    expected={c.key: c.case for c in run.plan.cases if c.case is not None and c.key.eval_set == name},
                    run_id=self._run_id,
                )
        except StoreError as error:
            self._warn(f"no result file for adk web was written: {error}")

    def _whole_results(self, run: Run, eval_sets: frozenset[str]) -> Mapping[str, Sequence[CaseResult]]:
        """Return the results of these sets with their executions, from the history if the run has dropped them."""
        whole: Iterable[CaseResult] = run.results()
        if run.holds is Holds.VERDICTS:
            stored = () if self._history is None else self._history.results(self._run_id)
            by_job = {_make_job_key(result): result for result in stored if result.case.eval_set in eval_sets}
            whole = [by_job[key] for key, _ in run.plan.jobs if key in by_job]
        results: dict[str, list[CaseResult]] = {}
        for result in whole:
            if result.case.eval_set in eval_sets:
                results.setdefault(result.case.eval_set, []).append(result)
        return results


def _make_job_key(result: CaseResult) -> JobKey:
    return JobKey(case=result.case, repeat=result.repeat)


def _make_record(run: Run, root: Path) -> RunRecord:
    plan = run.plan
    return RunRecord(
        run_id=run.run_id,
        started_at=datetime.now(UTC),
        root=root,
        command=redact(plan.options.command),
        targets=tuple(sorted({case.target.name for case in plan.cases})),
        criteria={case.key.eval_set: case.config for case in plan.cases},
        options={
            **plan.limits.model_dump(mode="json"),
            **dump_resume_options(plan),
            JUDGEMENT: plan.options.judgement,
            SCORES_OPTION: plan.options.scores,
            **({} if plan.shard is None else {SHARD_OPTION: plan.shard.model_dump(mode="json")}),
        },
        versions=find_versions(),
        total=plan.total,
    )


# The cases of stored results: rows as they were stored, other cases from the current sets.

_Places = dict[tuple[str, int], int]


class ExpectedCases:
    """Finds the cases of results, opening each set once. Missing and broken cases are None."""

    def __init__(self, open_document: Callable[[str], EvalSetDocument]) -> None:
        """`open_document` opens the set of this name, relative to the project; it raises StoreError."""
        self._open_document = open_document
        self._sets: dict[str, tuple[EvalSetDocument, _Places] | None] = {}

    def __call__(self, result: CaseResult) -> EvalCase | None:
        """Return the case of a result; None if it no longer exists."""
        if result.expected_by_row is not None:
            return result.expected_by_row
        key = result.case
        found = self._set(key.eval_set)
        index = None if found is None else found[1].get((key.eval_id, key.occurrence))
        if found is None or index is None:
            return None
        try:
            return found[0].case(index)
        except StoreError:
            return None

    def place(self, key: CaseKey) -> tuple[int, str]:
        """Return a sort key: the position in the set; for missing cases, the end and the id."""
        found = self._set(key.eval_set)
        places = {} if found is None else found[1]
        return places.get((key.eval_id, key.occurrence), len(places)), key.eval_id

    def _set(self, relative: str) -> tuple[EvalSetDocument, _Places] | None:
        if relative not in self._sets:
            try:
                document = self._open_document(relative)
            except StoreError:
                self._sets[relative] = None
            else:
                places = {(entry.eval_id, entry.occurrence): entry.index for entry in document.entries}
                self._sets[relative] = (document, places)
        return self._sets[relative]


# Ids of runs: short, and sorted by time.


def new_run_id(now: datetime) -> str:
    """Make an id such as `20261121-140207-5f3a`: local time, and random digits for runs in the same second."""
    return f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
