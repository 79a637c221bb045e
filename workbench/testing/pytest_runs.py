"""The runs of a pytest session: all eval cases run in the background while pytest executes its items in order.

A process of pytest-xdist gets its items step by step. There each requested case extends the same run, so that the
history has one run for each process.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from workbench.engine.plan import Plan, PlanError, RunOptions, Selection
from workbench.engine.project_selection import add_sets, find_common_root
from workbench.engine.run import Run
from workbench.engine.workspace import Workspace
from workbench.model.identity import JobKey
from workbench.model.results import CaseResult
from workbench.model.run_events import CaseFinished, Notice, RunEvent
from workbench.report.run_report import describe_model_calls
from workbench.report.text_report import ShownSetupFailures, spending_line
from workbench.store.errors import StoreError
from workbench.store.evalsets.evalset_document import EvalSetDocument
from workbench.store.files import make_relative_name, real_path
from workbench.store.project_discovery import Project, discover
from workbench.store.settings import load_settings
from workbench.testing.pytest_session import (
    RECORD_OPTION,
    ModelRecording,
    get_model_calls,
    number_option,
    path_option,
    read_models,
    requires_all_samples,
    text_option,
)
from workbench.testing.shared_resources import apply_model_calls, shared_workspaces


@dataclass(frozen=True)
class JobInFile:
    """One repeat of one case of the eval set in a file."""

    file: Path
    job: JobKey


class SessionRuns:
    """The plans and runs of one session."""

    def __init__(self, session: pytest.Session) -> None:
        """Raises UsageError if a numeric option is no number."""
        self._session = session
        self._target = text_option(session.config, "target")
        self._options = _read_options(session.config)
        self._alone = hasattr(session.config, "workerinput")
        self._stack = ExitStack()
        self._projects: dict[Path, _OpenProject] = {}
        self._roots: dict[Path, Path] = {}
        self._chosen: Sequence[JobInFile] = ()
        self._started: dict[JobKey, _StartedRun | PlanError | StoreError] = {}
        self._notices: dict[str, None] = {}
        self._partly_judged: list[str] = []
        self.setup_failures = ShownSetupFailures()

    def plan(self, file: Path) -> Plan:
        """Plan a set. Problems outside of its cases are in `problems` of the plan.

        Raises PlanError and StoreError with all problems if no case can run, and NoCases for an empty set.
        """
        opened = self._open_project(file)
        project = add_sets(opened.project, [file], target=self._target)
        relative = make_relative_name(real_path(file), project.root)
        plan = opened.workspace.plan_documents(project, {relative: EvalSetDocument.open(file)}, self._options)
        opened.plans[relative] = plan
        return plan

    def choose(self, jobs: Sequence[JobInFile]) -> None:
        """Note the jobs that will be asked for."""
        self._chosen = jobs

    def wait_for_result(self, wanted: JobInFile) -> CaseResult:
        """Wait for the result of a job. Raises PlanError and StoreError if it cannot run."""
        if wanted.job not in self._started:
            together = [wanted] if self._alone else [each for each in self._chosen if self._is_same_run(each, wanted)]
            self._start(wanted.file, [each.job for each in together])
        started = self._started[wanted.job]
        if isinstance(started, (PlanError, StoreError)):
            raise started
        return started.wait_for_result(wanted.job, self._notices)

    def get_run_id(self, job: JobKey) -> str:
        """Return the id of the run with the result of a job."""
        started = self._started[job]
        assert isinstance(started, _StartedRun)  # it had a result
        return started.run.run_id

    def note_missing_samples(self, name: str, lines: Iterable[str]) -> None:
        """Add lines about missing samples of the case with this name to the summary."""
        self._partly_judged += (f"samples missing: {name}: {line}" for line in lines)

    def summary_lines(self) -> list[str]:
        """Return the lines for the end of the session."""
        runs = {id(each): each.run for each in self._started.values() if isinstance(each, _StartedRun)}.values()
        lines = [*self._notices, *self._partly_judged]
        for run in runs:
            lines += [spending_line(spent) for spent in run.models]
            lines += [describe_model_calls(run.model_calls)] if run.model_calls else []
            lines.append(f"run {run.run_id} in {run.plan.root}: see `workbench report {run.run_id}`")
        return lines

    def close(self) -> None:
        """Stop all runs and close all resources."""
        for started in self._started.values():
            if isinstance(started, _StartedRun) and not started.run.is_over:
                started.run.close()
        self._stack.close()

    def _open_project(self, file: Path) -> _OpenProject:
        root = self._find_root(file)
        if root not in self._projects:
            loaded = load_settings(root)
            workspace = self._stack.enter_context(shared_workspaces.use(root, loaded))
            self._projects[root] = _OpenProject(discover(root, loaded), workspace)
        return self._projects[root]

    def _find_root(self, file: Path) -> Path:
        """Find the project of an eval set, once."""
        if file not in self._roots:
            self._roots[file] = find_common_root([file])
        return self._roots[file]

    def _is_same_run(self, one: JobInFile, other: JobInFile) -> bool:
        """True if two jobs belong to the same run."""
        return self._find_root(one.file) == self._find_root(other.file)

    def _start(self, file: Path, jobs: Sequence[JobKey]) -> None:
        """Run these jobs of the project of a file. In a process of pytest-xdist this extends the previous run."""
        opened = self._open_project(file)
        before = {} if opened.last is None else opened.last.results
        started: _StartedRun | PlanError | StoreError
        try:
            calls = _get_session_calls(self._session)
            joined = _join_plans(opened.plans.values(), [*before, *jobs])
            if opened.last is not None:
                opened.last.wait_for_end(self._notices)
                last = opened.last.run
                joined = replace(joined, resumes=last.run_id, stored=before, spent=last.models)
            plan = apply_model_calls(joined, calls)
            run = opened.workspace.start(plan)
            started = _StartedRun(run, run.iter_events(), dict(before))
            opened.last = started if self._alone else None
            self._notices.update(dict.fromkeys(plan.notices))
        except (PlanError, StoreError) as error:
            started = error
        self._started.update(dict.fromkeys(jobs, started))


@dataclass
class _OpenProject:
    """One project with its plans by eval set. `last` is the run to extend, if cases run one by one."""

    project: Project
    workspace: Workspace
    plans: dict[str, Plan] = field(default_factory=dict)
    last: _StartedRun | None = None


@dataclass(frozen=True)
class _StartedRun:
    """A started run with its events and the results so far."""

    run: Run
    events: Iterator[RunEvent]
    results: dict[JobKey, CaseResult]

    def wait_for_result(self, job: JobKey, notices: dict[str, None]) -> CaseResult:
        """Read events until the job has a result: every job gets a CaseFinished event."""
        while job not in self.results:
            self._handle(next(self.events), notices)
        return self.results[job]

    def wait_for_end(self, notices: dict[str, None]) -> None:
        """Read events until the run is over and stored."""
        for event in self.events:
            self._handle(event, notices)

    def _handle(self, event: RunEvent, notices: dict[str, None]) -> None:
        match event:
            case CaseFinished():
                self.results[JobKey(case=event.case, repeat=event.repeat)] = event.result
            case Notice(severity="warning" | "error"):
                notices[event.message] = None


def _join_plans(plans: Iterable[Plan], jobs: Iterable[JobKey]) -> Plan:
    """Join several plans of a project into one plan for these jobs."""
    plans = list(plans)
    wanted: dict[object, list[int]] = {}
    for job in jobs:
        wanted.setdefault(job.case, []).append(job.repeat)
    cases, selections, whole, notices = [], [], set[str](), dict[str, None]()
    for plan in plans:
        chosen = [case for case in plan.cases if case.key in wanted]
        if not chosen:
            continue
        notices.update(dict.fromkeys(plan.notices))
        complete = all(len(wanted[case.key]) == plan.limits.runs for case in chosen)
        if complete and len(chosen) == len(plan.cases):
            whole |= plan.whole_sets
        name, ids = chosen[0].key.eval_set, tuple(case.key.eval_id for case in chosen)
        selections.append(Selection(eval_set=name, cases=ids))
        for case in chosen:
            repeats = wanted[case.key]
            is_whole = len(repeats) == plan.limits.runs
            cases += [case] if is_whole else [replace(case, repeat=repeat) for repeat in repeats]
    return replace(
        plans[0],
        cases=tuple(cases),
        selections=tuple(selections),
        whole_sets=frozenset(whole),
        notices=tuple(notices),
        problems=(),  # an item of the set reports them
    )


def _get_session_calls(session: pytest.Session) -> ModelRecording:
    """Return the model calls of the session. Raises PlanError if they are to be recorded without a file."""
    calls = get_model_calls(session)
    if calls.record and calls.file is None and path_option(session.config, "replay") is None:
        raise PlanError(f"{RECORD_OPTION}: no file is named; expected --workbench-calls or --workbench-replay FILE too")
    return calls


def _read_options(config: pytest.Config) -> RunOptions:
    file = path_option(config, "replay")
    return RunOptions.model_validate(
        {
            "models": read_models(config),
            "record" if config.getoption("workbench_record") else "replay": file,
            "config": path_option(config, "config"),
            "runs": number_option(config, "runs", int, "a number of at least 1"),
            "timeout_seconds": number_option(config, "timeout", float, "a number of seconds above 0"),
            "require_all_samples": requires_all_samples(config),
            "command": "pytest",
            "adk_results": False,
        }
    )
