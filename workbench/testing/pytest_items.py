"""Pytest items for eval sets and cases, their reports, the hooks of the session, and the runs of its cases."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from workbench.engine.plan import NoCases, Plan, PlanError, PlannedCase, RunOptions, Selection
from workbench.engine.project_selection import add_sets, find_common_root
from workbench.engine.run import Run
from workbench.engine.workspace import Workspace
from workbench.model.identity import JobKey
from workbench.model.results import CaseResult, CaseStatus
from workbench.model.run_events import CaseFinished, Notice, RunEvent
from workbench.model.text import neutralise, one_line, redact, suggest_name
from workbench.report.run_report import (
    SYMBOLS,
    ReportedCase,
    describe_model_calls,
    missing_samples_lines,
    quarantine_lines,
    samples_text,
    set_heading,
)
from workbench.report.text_report import (
    ShownSetupFailures,
    aligned_lines,
    explain,
    explain_at_length,
    explain_in_one_line,
    list_reasons,
    spending_line,
)
from workbench.store.errors import StoreError
from workbench.store.evalsets.evalset_document import EvalSetDocument
from workbench.store.project_discovery import Project, discover
from workbench.store.settings import load_settings
from workbench.testing.pytest_session import (
    ALL_REQUIRED,
    RECORD_OPTION,
    WORKER_SUMMARY,
    ModelRecording,
    get_model_calls,
    path_option,
    read_models,
    read_runs,
    read_timeout,
    requires_all_samples,
    text_option,
)
from workbench.testing.shared_resources import apply_model_calls, shared_workspaces

# Items, their reports and the hooks.

_HOOKS = pytest.StashKey["SessionHooks"]()


class EvalSetFile(pytest.File):
    """An eval set: one item for each case and repeat."""

    def collect(self) -> list[EvalCaseItem | UnusableSetItem | _OuterName]:
        """Return the cases in the order of the file, after an item for problems of the set outside of its cases.

        If no case can run and the command line names a case, the file has a collection error instead. The same is true
        for a name that no case has.
        """
        items = list(self._iter_items())
        item_names = {name: None for item in items for name in (item.name, item.name.split("[")[0])}
        cases = [name for name in item_names if not name.startswith("(")]
        named = self._list_named_items()
        unknown_names = [name for name in named if name not in item_names]
        if unknown_names:
            messages = (f"{self.nodeid}: no eval case {name!r}{suggest_name(name, cases)}" for name in unknown_names)
            raise self.CollectError(_make_safe("\n".join(messages)))
        return [
            _OuterName.wrap(item) if item.name in named or item.name.split("[")[0] in named else item for item in items
        ]

    def _iter_items(self) -> Iterator[EvalCaseItem | UnusableSetItem]:
        runs = _get_hooks(self.session).runs
        try:
            plan = runs.plan(self.path)
        except NoCases:  # like a module without tests
            return
        except (PlanError, StoreError) as error:
            if self._list_named_items():
                raise self.CollectError(_make_safe(str(error))) from None
            yield self._make_unusable_item("(unusable)", str(error))
            return
        if plan.problems:
            yield self._make_unusable_item("(problems)", "\n".join(plan.problems))
        has_repeats = plan.limits.runs > 1
        for case in plan.cases:
            for repeat in range(plan.limits.runs):
                name = one_line(case.key.eval_id) or "(no id)"
                name += f"#{case.key.occurrence + 1}" if case.key.occurrence else ""
                name += f"[{repeat + 1}]" if has_repeats else ""
                job = JobKey(case=case.key, repeat=repeat)
                required = plan.limits.require_all_samples
                yield EvalCaseItem.from_parent(
                    self, name=name, runs=runs, job=job, planned_case=case, requires_all_samples=required
                )

    def _make_unusable_item(self, name: str, problems: str) -> UnusableSetItem:
        item = UnusableSetItem.from_parent(self, name=name, problems=_make_safe(problems))
        _get_hooks(self.session).unusable[item.nodeid] = item
        return item

    def _list_named_items(self) -> list[str]:
        """Return the names of items of this file on the command line."""
        folder = self.config.invocation_params.dir
        arguments = (argument.partition("::") for argument in self.config.args)
        return [
            name
            for file, separator, name in arguments
            if separator and os.path.abspath(folder / file) == str(self.path)  # noqa: PTH100 - links stay as they are
        ]


class _OuterName(pytest.Collector):
    """A part of the name of an item. pytest looks for `FILE::a::b` as an item `b` in a collector `a`."""

    def __init__(self, *, item: EvalCaseItem | UnusableSetItem, **others: Any) -> None:
        super().__init__(**others)
        self._item = item

    @classmethod
    def wrap(cls, item: EvalCaseItem | UnusableSetItem) -> EvalCaseItem | UnusableSetItem | _OuterName:
        """Return the item, in a collector if pytest splits its name."""
        base, bracket, rest = item.name.partition("[")  # pytest splits nothing after a bracket
        first, separator, others = base.partition("::")
        if not separator:
            return item
        item.name = f"{others}{bracket}{rest}"
        assert item.parent is not None
        return cls.from_parent(item.parent, name=first, item=item)

    def collect(self) -> list[EvalCaseItem | UnusableSetItem | _OuterName]:
        """Return the item below the first part of its name."""
        return [self.wrap(self._item)]


class UnusableSetItem(pytest.Item):
    """The problems of an eval set outside of its cases; `problems` has a line for each.

    It cannot be deselected: a session with cases of this set must not pass.
    """

    def __init__(self, *, problems: str, **others: Any) -> None:
        super().__init__(**others)
        self.problems = problems

    def setup(self) -> None:
        """Fail, so that pytest reports an error."""
        pytest.fail(self.problems, pytrace=False)

    def runtest(self) -> None:
        """Never called: `setup` fails."""

    def reportinfo(self) -> tuple[os.PathLike[str], None, str]:
        """Return the file, no line, and the name of the item in headings."""
        return self.path, None, self.nodeid


class CaseNotPassed(pytest.fail.Exception):  # type: ignore[misc,name-defined] # mypy takes it for a variable
    """A case did not pass. As a `pytest.fail.Exception` it makes pytest skip the slow search for source lines."""

    def __init__(self, case: ReportedCase) -> None:
        super().__init__(case.result.status.value, pytrace=False)
        self.case = case


class EvalCaseItem(pytest.Item):
    """One repeat of one case. The runs execute in the background; the item waits for its result."""

    def __init__(
        self, *, runs: SessionRuns, job: JobKey, planned_case: PlannedCase, requires_all_samples: bool, **others: Any
    ) -> None:
        super().__init__(**others)
        self.job = job
        self.planned_case = planned_case
        self._runs = runs
        self._requires_all_samples = requires_all_samples
        self._is_error = False
        self.case: ReportedCase | None = None

    @property
    def job_in_file(self) -> JobInFile:
        """The job with the file of its eval set."""
        return JobInFile(self.path, self.job)

    def setup(self) -> None:
        """Wait for the result. An ERROR is raised here, because pytest reports exceptions in setup as errors.

        The case is the test, so --setup-only and --setup-plan run nothing.
        """
        if self.config.getoption("setuponly", False):  # --setup-plan sets it, too
            return
        try:
            if self.case is not None:  # a plugin such as pytest-rerunfailures runs the item again
                self._runs.run_again(self.job_in_file)
                self.user_properties.clear()
            result = self._runs.wait_for_result(self.job_in_file)
        except (PlanError, StoreError) as error:
            pytest.fail(_make_safe(str(error)), pytrace=False)
        self.case = ReportedCase(result, self.planned_case.case)
        self.user_properties += _list_properties(self.case, run_id=self._runs.get_run_id(self.job))
        if result.status in (CaseStatus.SKIPPED, CaseStatus.CANCELLED):
            pytest.skip(result.status.value.lower())
        missing = missing_samples_lines(self.case.deciding_metrics)
        self._is_error = result.status is CaseStatus.ERROR
        if self._is_error:
            raise CaseNotPassed(self.case)
        if missing and result.status is CaseStatus.PASSED and self._requires_all_samples:
            self._is_error = True
            pytest.fail(_make_safe("\n".join((*missing, ALL_REQUIRED))), pytrace=False)
        self._runs.note_missing_samples(self.nodeid, missing)

    def runtest(self) -> None:
        """Fail if the case did not pass."""
        assert self.case is not None  # pytest sets up first
        if self.case.result.is_quarantined:  # with --runxfail this does nothing
            pytest.xfail(_make_safe(explain_in_one_line(self.case)))
        if self.case.result.status is not CaseStatus.PASSED:
            raise CaseNotPassed(self.case)

    def get_phase_seconds(self, phase: str) -> float:
        """Return the duration of the case for the phase with the verdict, and 0 for other phases."""
        if self.case is None:
            return 0.0
        return self.case.result.duration_seconds if phase == ("setup" if self._is_error else "call") else 0.0

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Explain the failure without a traceback of our own code."""
        if isinstance(excinfo.value, CaseNotPassed):
            case, verbose = excinfo.value.case, self.config.option.verbose > 0
            same_failure = self._runs.setup_failures.find(case, self.nodeid)
            return CaseRepr(excinfo, case, path=self._shown_path(), verbose=verbose, same_failure=same_failure)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[os.PathLike[str], None, str]:
        """Return the file, no line, and the name of the item in headings."""
        return self.path, None, self.nodeid

    def _shown_path(self) -> str:
        return self.nodeid.partition("::")[0]


class CaseRepr:
    """The explanation of a failed case, shown instead of a traceback. `reprcrash` has the short summary.

    `verbose`: with the output of the agent and the traceback of its exception. `same_failure`: the item that shows the
    same setup failure. `reprtraceback` has the lines, because pytest-xdist sends only the attributes.
    """

    def __init__(
        self,
        excinfo: pytest.ExceptionInfo[BaseException],
        case: ReportedCase,
        *,
        path: str,
        verbose: bool,
        same_failure: str | None,
    ) -> None:
        status = case.result.status
        lines = _explain(case) if same_failure is None else [f"setup: see {_make_safe(same_failure)}"]
        summary = f"{status.value}: {lines[0]}" if lines else status.value
        lines += _explain_at_length(case, verbose=verbose)
        self._lines = [f"{SYMBOLS[status]} {status.value}", *(f"  {line}" for line in lines)]
        excinfo.traceback = excinfo.traceback[-1:]  # formatting all of it is slow
        native: Any = excinfo.getrepr(style="native")  # pytest exports none of the types of its parts
        self.reprtraceback = native.reprtraceback
        self.reprtraceback.reprentries[0].lines = [f"{line}\n" for line in self._lines]
        self.sections = native.sections
        self.reprcrash = native.reprcrash
        self.reprcrash.path, self.reprcrash.lineno, self.reprcrash.message = path, 0, summary

    def __str__(self) -> str:
        return "\n".join(self._lines)

    def toterminal(self, tw: Any) -> None:
        """Write the lines, those with `-` and `+` in the colours of a diff."""
        for number, line in enumerate(self._lines):
            sign = line.strip()[:2]
            tw.line(line, red=number == 0 or sign == "- ", green=sign == "+ ", bold=number == 0)


class SessionHooks:
    """The hooks that are registered when the first eval set is collected."""

    def __init__(self, runs: SessionRuns) -> None:
        self.runs = runs
        self.unusable: dict[str, UnusableSetItem] = {}
        """The items of unusable sets, by node id."""

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> Generator[None]:
        """Restore deselected items of unusable sets: a selected case may be missing because of their problems."""
        yield
        items += [item for item in self.unusable.values() if item not in items]

    @pytest.hookimpl(tryfirst=True)
    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        """Do not count restored items as deselected."""
        if isinstance(items, list):
            items[:] = [item for item in items if not isinstance(item, UnusableSetItem)]

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.runs.choose([item.job_in_file for item in session.items if isinstance(item, EvalCaseItem)])

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Report an ERROR without traceback, too. The duration is that of the case, not the time of waiting for it."""
        report = yield
        if isinstance(item, EvalCaseItem):
            if call.excinfo is not None and isinstance(call.excinfo.value, CaseNotPassed):
                report.longrepr = item.repr_failure(call.excinfo)
            report.duration = item.get_phase_seconds(call.when)
        return report

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtestloop(self) -> Generator[None, object, object]:
        """Stop running cases after -x or Ctrl-C."""
        try:
            return (yield)
        finally:
            self.runs.close()

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail the session if collected sets are unusable."""
        if session.config.option.collectonly and self.unusable and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        self.runs.close()
        output: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
        if output is not None:  # a process of pytest-xdist has no terminal
            output[WORKER_SUMMARY] = [[_make_safe(line) for line in part] for part in self.runs.list_summary()]

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Write notices, model costs, and where the results are stored."""
        lines = [line for part in self.runs.list_summary() for line in part]
        if terminalreporter.config.option.collectonly:
            lines += [f"{item.nodeid}: {item.problems}" for item in self.unusable.values()]
        if lines:
            terminalreporter.section("workbench")
            for line in lines:
                terminalreporter.write_line(_make_safe(line))


def _get_hooks(session: pytest.Session) -> SessionHooks:
    stash = session.config.stash
    hooks = stash.get(_HOOKS, None)
    if hooks is None:
        hooks = stash[_HOOKS] = SessionHooks(SessionRuns(session))
        session.config.pluginmanager.register(hooks, "workbench-session")
    return hooks


def _explain(case: ReportedCase) -> list[str]:
    """Explain why a case did not pass, with aligned expected and actual side if possible."""
    aligned = list(aligned_lines(case)) if case.result.status is CaseStatus.FAILED else []
    return [*quarantine_lines(case.result), *list_reasons(case), *aligned] if aligned else explain(case)


def _explain_at_length(case: ReportedCase, *, verbose: bool) -> list[str]:
    """Return tracebacks and output of a case in ERROR; without `verbose` only a hint how to see them."""
    lines = explain_at_length(case) if case.result.status is CaseStatus.ERROR else []
    return lines if verbose or not lines else ["(-v shows tracebacks, and what the agent wrote)"]


def _list_properties(case: ReportedCase, *, run_id: str) -> Iterator[tuple[str, object]]:
    """Yield properties for JUnit and other reports: run, agent, status and every score."""
    yield "run_id", run_id
    yield "target", _make_safe(case.result.case.target)
    yield "status", case.result.status.value
    for line in quarantine_lines(case.result):
        yield "quarantine", _make_safe(line)
    for metric in case.result.metrics:
        yield _make_safe(metric.name), metric.status.value if metric.score is None else metric.score
        if (text := samples_text(metric)) is not None:
            yield _make_safe(f"{metric.name}: samples"), text


def _make_safe(text: str) -> str:
    return neutralise(redact(text))


# The runs of a session: all eval cases run in the background while pytest executes its items in order. A process of
# pytest-xdist gets its items step by step: there each requested case extends the same run, so that the history has one
# run for each process.


@dataclass(frozen=True)
class JobInFile:
    """One repeat of one case of the eval set in a file."""

    file: Path
    job: JobKey


class SessionRuns:
    """The plans and runs of one session."""

    def __init__(self, session: pytest.Session) -> None:
        """Read the options. `pytest_configure` has refused wrong ones."""
        self._session = session
        self._target = text_option(session.config, "target")
        self._options = _read_options(session.config)
        self._is_xdist_worker = hasattr(session.config, "workerinput")
        self._stack = ExitStack()
        self._projects: dict[Path, _OpenProject] = {}
        self._roots: dict[Path, Path] = {}
        self._selected_jobs: Sequence[JobInFile] = ()
        self._runs_by_job: dict[JobKey, _StartedRun | PlanError | StoreError] = {}
        self._notices: dict[str, None] = {}
        self._partly_judged: list[str] = []
        self.setup_failures = ShownSetupFailures()

    def plan(self, file: Path) -> Plan:
        """Plan a set. Problems outside of its cases are in `problems` of the plan.

        Raises PlanError and StoreError with all problems if no case can run, and NoCases for an empty set.
        """
        opened = self._open_project(file)
        project = add_sets(opened.project, [file], target=self._target)
        relative = project.name_set(file)
        plan = opened.workspace.plan_documents(project, {relative: EvalSetDocument.open(file)}, self._options)
        opened.plans[relative] = plan
        return plan

    def choose(self, jobs: Sequence[JobInFile]) -> None:
        self._selected_jobs = jobs

    def wait_for_result(self, requested: JobInFile) -> CaseResult:
        """Wait for the result of a job. Raises PlanError and StoreError if it cannot run."""
        if requested.job not in self._runs_by_job:
            same_run = (
                [requested]
                if self._is_xdist_worker
                else [each for each in self._selected_jobs if self._is_same_run(each, requested)]
            )
            self._start(requested.file, [each.job for each in same_run])
        started = self._runs_by_job[requested.job]
        if isinstance(started, (PlanError, StoreError)):
            raise started
        return started.wait_for_result(requested.job, self._notices)

    def run_again(self, requested: JobInFile) -> None:
        """Run a job that has a result anew, in a run of its own."""
        self._start(requested.file, [requested.job])

    def get_run_id(self, job: JobKey) -> str:
        started = self._runs_by_job[job]
        assert isinstance(started, _StartedRun)  # it had a result
        return started.run.run_id

    def note_missing_samples(self, name: str, lines: Iterable[str]) -> None:
        """Add lines about missing samples of the case with this name to the summary."""
        self._partly_judged += (f"samples missing: {name}: {line}" for line in lines)

    def list_summary(self) -> tuple[list[str], list[str]]:
        """Return lines for the end of the session: notices, and what is true of the runs of this process."""
        # With pytest-xdist a run is extended: the last one has the costs of all.
        started_runs = [each for each in self._runs_by_job.values() if isinstance(each, _StartedRun)]
        runs = {each.run.run_id: each.run for each in started_runs}.values()
        stored = {each.run.run_id for each in started_runs if each.is_stored}
        lines = list(self._partly_judged)
        for run in runs:
            lines += [spending_line(spending) for spending in run.models]
            lines += [describe_model_calls(run.model_calls)] if run.model_calls else []
            where = f"see `workbench report {run.run_id}`" if run.run_id in stored else "not stored in the history"
            lines.append(f"run {run.run_id} in {run.plan.root}: {where}")
        return list(self._notices), lines

    def close(self) -> None:
        """End the runs, and read what they report at their end."""
        for started in self._runs_by_job.values():
            if isinstance(started, _StartedRun):
                if not started.run.is_over:
                    started.run.close()
                started.wait_for_end(self._notices)
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
        earlier = {} if opened.last_run is None else opened.last_run.results
        earlier_results = {job: result for job, result in earlier.items() if job not in jobs}
        started: _StartedRun | PlanError | StoreError
        try:
            calls = _get_session_calls(self._session)
            joined = _join_plans(opened.plans.values(), [*earlier_results, *jobs])
            if opened.last_run is not None:
                opened.last_run.wait_for_end(self._notices)
                last_run = opened.last_run.run
                joined = replace(joined, resumes=last_run.run_id, stored=earlier_results, spent=last_run.models)
            plan = apply_model_calls(joined, calls)
            run = opened.workspace.start(plan)
            started = _StartedRun(run, run.iter_events(), dict(earlier_results))
            opened.last_run = started if self._is_xdist_worker else None
            headings = (set_heading(each.key.target, each.key.eval_set, each.config) for each in plan.cases)
            self._notices.update(dict.fromkeys((*headings, *plan.notices)))
        except (PlanError, StoreError) as error:
            started = error
        self._runs_by_job.update(dict.fromkeys(jobs, started))


@dataclass
class _OpenProject:
    """One project with its plans by eval set. `last_run` is the run to extend, if cases run one by one."""

    project: Project
    workspace: Workspace
    plans: dict[str, Plan] = field(default_factory=dict)
    last_run: _StartedRun | None = None


@dataclass
class _StartedRun:
    """A started run with its events and the results so far. `is_stored`: the history has some of its own."""

    run: Run
    events: Iterator[RunEvent]
    results: dict[JobKey, CaseResult]
    is_stored: bool = False

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
                self.is_stored = self.is_stored or (event.in_history and event.source == "executed")
            case Notice(severity="warning" | "error"):
                notices[event.message] = None


def _join_plans(plans: Iterable[Plan], jobs: Iterable[JobKey]) -> Plan:
    """Join several plans of a project into one plan for these jobs."""
    plans = list(plans)
    repeats_by_case: dict[object, list[int]] = {}
    for job in jobs:
        repeats_by_case.setdefault(job.case, []).append(job.repeat)
    cases, selections, whole_sets, notices = [], [], set[str](), dict[str, None]()
    for plan in plans:
        plan_cases = [case for case in plan.cases if case.key in repeats_by_case]
        if not plan_cases:
            continue
        notices.update(dict.fromkeys(plan.notices))
        is_complete = all(len(repeats_by_case[case.key]) == plan.limits.runs for case in plan_cases)
        if is_complete and len(plan_cases) == len(plan.cases):
            whole_sets |= plan.whole_sets
        name, ids = plan_cases[0].key.eval_set, tuple(case.key.eval_id for case in plan_cases)
        selections.append(Selection(eval_set=name, cases=ids))
        for case in plan_cases:
            repeats = repeats_by_case[case.key]
            is_whole = len(repeats) == plan.limits.runs
            cases += [case] if is_whole else [replace(case, repeat=repeat) for repeat in repeats]
    return replace(
        plans[0],
        cases=tuple(cases),
        selections=tuple(selections),
        whole_sets=frozenset(whole_sets),
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
            "runs": read_runs(config),
            "timeout_seconds": read_timeout(config),
            "require_all_samples": requires_all_samples(config),
            "command": "pytest",
            "adk_results": False,
        }
    )
