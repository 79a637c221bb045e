"""The pytest plugin: eval sets collected as items, and run together."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from workbench.engine.plan import NoCases, Plan, PlanError, PlannedCase, RunOptions, Selection
from workbench.engine.run import Run
from workbench.engine.workspace import Workspace, root_of, with_named_sets
from workbench.model.identity import JobKey
from workbench.model.results import CaseResult, CaseStatus
from workbench.model.run_events import CaseFinished, Notice, RunEvent
from workbench.model.text import did_you_mean, neutralise, one_line, redact
from workbench.report.run_report import SYMBOLS, ReportedCase, missing_samples_lines, samples_text
from workbench.report.text_report import (
    ShownSetupFailures,
    aligned_lines,
    explain,
    explain_at_length,
    reasons,
    spending_line,
)
from workbench.store.errors import StoreError
from workbench.store.evalsets.evalset_document import EvalSetDocument
from workbench.store.files import relative_name
from workbench.store.project_discovery import Project, discover
from workbench.store.settings import load_settings
from workbench.testing.pytest_session import (
    ALL_REQUIRED,
    RECORD_OPTION,
    REQUIRE_OPTION,
    ModelCalls,
    session,
    shared_workspaces,
    with_calls,
)

# The pytest plugin: eval cases as tests, and recorded answers of models for tests that evaluate agents.

_SUFFIXES = (".evalset.json", ".test.json")
_MARKER = "workbench_calls"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of the command line; those that a project may have for good are in its configuration file too."""
    group = parser.getgroup("workbench", "eval sets of agents as tests")
    group.addoption(
        "--workbench",
        action="store_true",
        dest="workbench_collect",
        help="Collect the eval cases of *.evalset.json and *.test.json (of files that are named they always are).",
    )
    parser.addini("workbench_collect", "Collect the eval cases of eval sets.", type="bool", default=False)
    text = "Report a case as an error if a verdict on it rests on fewer samples of a judge than num_samples."
    group.addoption(REQUIRE_OPTION, action="store_true", dest="workbench_require_all_samples", help=text)
    parser.addini("workbench_require_all_samples", text, type="bool", default=False)
    for name, metavar, text in (
        ("target", "NAME", "The agent, instead of the one that belongs to the eval set."),
        ("config", "FILE", "Criteria for all eval sets, instead of their own."),
        ("runs", "N", "Run each case so many times."),
        ("timeout", "SECONDS", "How long one case may take."),
        (
            "calls",
            "FILE",
            "File with the answers of models that judge or play users: none of them is asked.",
        ),
    ):
        group.addoption(f"--workbench-{name}", dest=f"workbench_{name}", metavar=metavar, help=text)
        parser.addini(f"workbench_{name}", text)
    group.addoption(
        RECORD_OPTION,
        action="store_true",
        dest="workbench_record",
        help="Ask the models, and write their answers to the file of --workbench-calls, or of the marker.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known, and refuse what cannot be."""
    config.addinivalue_line(
        "markers",
        f"{_MARKER}(file): models that judge or play users answer from this file, relative to the test's; "
        f"{RECORD_OPTION} writes it",
    )
    if config.getoption("workbench_record") and _is_distributed(config):
        raise pytest.UsageError(f"{RECORD_OPTION}: several processes cannot record into one file; leave -n out")
    session.depth += 1


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtestloop() -> Generator[None, object, object]:
    """End every process of ours before pytest-cov combines what they have measured."""
    try:
        return (yield)
    finally:
        workspaces = sys.modules.get("workbench.testing.pytest_session")
        if workspaces is not None and session.depth == 1:
            workspaces.shared_workspaces.close()


def pytest_unconfigure() -> None:
    """End every process of ours."""
    session.depth = max(session.depth - 1, 0)  # one that could not be configured is not counted
    workspaces = sys.modules.get("workbench.testing.pytest_session")
    if workspaces is not None and not session.is_open:
        workspaces.shared_workspaces.close()


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> EvalSetFile | None:
    """The eval set that a file is. One that was named is always taken for one; others where the project says so."""
    if not file_path.name.endswith(_SUFFIXES):
        return None
    if not parent.session.isinitpath(file_path):
        config = parent.config
        if not (config.getoption("workbench_collect") or config.getini("workbench_collect")):
            return None
        from workbench.store.filetypes import is_eval_set

        if not is_eval_set(file_path):
            return None

    # Not below its folder: where that is a package pytest would import it, and with it the agent.
    return EvalSetFile.from_parent(parent.session, path=file_path)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Say where models answer from in this test, how long a case of it may take, and which verdicts count."""
    session.calls = calls_of(item)
    session.timeout_seconds = number_option(item.config, "timeout", float, "a number of seconds above 0")
    session.require_all_samples = requires_all_samples(item.config)


def calls_of(item: pytest.Item | pytest.Session) -> ModelCalls:
    """Where models answer from: the file of the marker, else that of the session."""
    config = item.config
    record = bool(config.getoption("workbench_record"))
    marker = item.get_closest_marker(_MARKER)
    if marker is not None:
        if len(marker.args) != 1:
            raise pytest.UsageError(f"{_MARKER}: found {len(marker.args)} arguments, expected one file")
        return ModelCalls(item.path.parent / marker.args[0], record)
    return ModelCalls(path_option(config, "calls"), record)


def text_option(config: pytest.Config, name: str) -> str | None:
    """An option: as the command line says, else the configuration file of pytest, else None."""
    given: str | None = config.getoption(f"workbench_{name}")
    return given or config.getini(f"workbench_{name}") or None


def number_option(config: pytest.Config, name: str, read: type[int] | type[float], expected: str) -> int | float | None:
    """An option that is a number above 0. Raises UsageError for what is none."""
    text = text_option(config, name)
    try:
        value = None if text is None else read(text)
    except ValueError:
        value = 0
    if value is not None and not 0 < value < float("inf"):
        raise pytest.UsageError(f"--workbench-{name}: found {text!r}, expected {expected}")
    return value


def requires_all_samples(config: pytest.Config) -> bool | None:
    """True if no verdict may lack samples of a judge; None if the settings of the project decide."""
    name = "workbench_require_all_samples"
    return bool(config.getoption(name) or config.getini(name)) or None


def path_option(config: pytest.Config, name: str) -> Path | None:
    """A file: relative to the working directory on the command line, to pytest's root in its configuration file."""
    given: str | None = config.getoption(f"workbench_{name}")
    if given:
        return config.invocation_params.dir / given
    configured = config.getini(f"workbench_{name}")
    return config.rootpath / configured if configured else None


def _is_distributed(config: pytest.Config) -> bool:
    """Whether pytest-xdist spreads the tests over processes."""
    return hasattr(config, "workerinput") or config.getoption("dist", "no") != "no"


# What a pytest session runs: all its eval cases at once, in the background, while pytest asks for one after the
# other.


class SessionRuns:
    """The plans and runs of one session."""

    def __init__(self, config: pytest.Config) -> None:
        """Raises UsageError where an option is no number."""
        self._target = text_option(config, "target")
        self._options = _options(config)
        self._alone = hasattr(config, "workerinput")
        self._stack = ExitStack()
        self._projects: dict[Path, _OpenProject] = {}
        self._roots: dict[Path, Path] = {}
        self._chosen: Sequence[EvalCaseItem] = ()
        self._started: dict[JobKey, _Started | PlanError | StoreError] = {}
        self._notices: dict[str, None] = {}
        self._partly_judged: list[str] = []
        self.setup_failures = ShownSetupFailures()
        self.unusable: dict[str, UnusableSetItem] = {}
        """The sets that cannot be used, by the node id of their item."""

    def plan(self, file: Path) -> Plan:
        """What running a set would do, with what is wrong beside its cases in `problems`.

        Raises PlanError and StoreError with everything that is wrong if no case can run, and NoCases if it is empty.
        """
        opened = self._project_of(file)
        project = with_named_sets(opened.project, [file], target=self._target)
        relative = relative_name(file.resolve(), project.root)
        plan = opened.workspace.plan_documents(project, {relative: EvalSetDocument.open(file)}, self._options)
        opened.plans[relative] = plan
        return plan

    def choose(self, items: Sequence[EvalCaseItem]) -> None:
        """Note the items that will run."""
        self._chosen = items

    def result_of(self, item: EvalCaseItem) -> CaseResult:
        """The result of a case, as soon as it is there. Raises PlanError and StoreError where it cannot be run."""
        if item.job not in self._started:
            together = [item] if self._alone else [each for each in self._chosen if self._is_with(each, item)]
            self._start(item, [each.job for each in together])
        started = self._started[item.job]
        if isinstance(started, (PlanError, StoreError)):
            raise started
        return started.result_of(item.job, self._notices)

    def run_id_of(self, item: EvalCaseItem) -> str:
        """The run that has the result of a case."""
        started = self._started[item.job]
        assert isinstance(started, _Started)  # it had a result
        return started.run.run_id

    def note_missing_samples(self, name: str, lines: Iterable[str]) -> None:
        """Let the summary say which verdicts on the case with this name lack samples of a judge."""
        self._partly_judged += (f"samples missing: {name}: {line}" for line in lines)

    def summary_lines(self) -> list[str]:
        """What to say at the end of the session."""
        runs = {id(each): each.run for each in self._started.values() if isinstance(each, _Started)}.values()
        lines = [*self._notices, *self._partly_judged]
        for run in runs:
            lines += [spending_line(spent) for spent in run.models]
            lines.append(f"run {run.run_id} in {run.plan.root}: see `workbench report {run.run_id}`")
        return lines

    def close(self) -> bool:
        """Stop what still runs, and let go of everything. Whether what was recorded could be kept."""
        for started in self._started.values():
            if isinstance(started, _Started) and not started.run.is_over:
                started.run.close()
        try:
            self._stack.close()
        except StoreError as error:
            self._notices[str(error)] = None
            return False
        return True

    def _project_of(self, file: Path) -> _OpenProject:
        root = self._root_of(file)
        if root not in self._projects:
            loaded = load_settings(root)
            workspace = self._stack.enter_context(shared_workspaces.use(root, loaded))
            self._projects[root] = _OpenProject(discover(root, loaded), workspace)
        return self._projects[root]

    def _root_of(self, file: Path) -> Path:
        """The project that an eval set belongs to; looked for once."""
        if file not in self._roots:
            self._roots[file] = root_of([file])
        return self._roots[file]

    def _is_with(self, one: EvalCaseItem, other: EvalCaseItem) -> bool:
        """Whether two cases belong to the same run."""
        return self._root_of(one.path) == self._root_of(other.path)

    def _start(self, item: EvalCaseItem, jobs: Sequence[JobKey]) -> None:
        """Run these cases, of which `item` is one, after those that ran alone before."""
        opened = self._project_of(item.path)
        before = {} if opened.last is None else opened.last.results
        started: _Started | PlanError | StoreError
        try:
            calls = _calls_of_session(item.session)
            joined = _joined(opened.plans.values(), [*before, *jobs])
            if opened.last is not None:
                opened.last.hear_end(self._notices)
                last = opened.last.run
                joined = replace(joined, resumes=last.run_id, stored=before, spent=last.models)
            plan = self._stack.enter_context(with_calls(joined, calls))
            run = opened.workspace.start(plan)
            started = _Started(run, run.iter_events(), dict(before))
            opened.last = started if self._alone else None
            self._notices.update(dict.fromkeys(plan.notices))
        except (PlanError, StoreError) as error:
            started = error
        self._started.update(dict.fromkeys(jobs, started))


@dataclass
class _OpenProject:
    """One project: `plans` are by eval set, `last` is the run that goes on where cases run alone."""

    project: Project
    workspace: Workspace
    plans: dict[str, Plan] = field(default_factory=dict)
    last: _Started | None = None


@dataclass(frozen=True)
class _Started:
    """A run that goes on, and what was heard of it."""

    run: Run
    events: Iterator[RunEvent]
    results: dict[JobKey, CaseResult]

    def result_of(self, job: JobKey, notices: dict[str, None]) -> CaseResult:
        """Listen until the result of a job is there: every one has a CaseFinished, whatever happens."""
        while job not in self.results:
            self._hear(next(self.events), notices)
        return self.results[job]

    def hear_end(self, notices: dict[str, None]) -> None:
        """Listen until the run is over, and stored."""
        for event in self.events:
            self._hear(event, notices)

    def _hear(self, event: RunEvent, notices: dict[str, None]) -> None:
        match event:
            case CaseFinished():
                self.results[JobKey(case=event.case, repeat=event.repeat)] = event.result
            case Notice(severity="warning" | "error"):
                notices[event.message] = None


def _joined(plans: Iterable[Plan], jobs: Iterable[JobKey]) -> Plan:
    """One plan for these jobs of several plans of a project."""
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


def _calls_of_session(session: pytest.Session) -> ModelCalls:
    """Where models answer from. Raises PlanError where they are to be recorded, and no file is named."""
    calls = calls_of(session)
    if calls.record and calls.file is None:
        raise PlanError(f"{RECORD_OPTION}: no file is named; expected --workbench-calls FILE too")
    return calls


def _options(config: pytest.Config) -> RunOptions:
    return RunOptions.model_validate(
        {
            "config": path_option(config, "config"),
            "runs": number_option(config, "runs", int, "a number of at least 1"),
            "timeout_seconds": number_option(config, "timeout", float, "a number of seconds above 0"),
            "require_all_samples": requires_all_samples(config),
            "command": "pytest",
            "adk_results": False,
        }
    )


# Eval sets and their cases as pytest collects, runs and reports them.

_RUNS = pytest.StashKey[SessionRuns]()


class EvalSetFile(pytest.File):
    """An eval set: one item for each case and repeat."""

    def collect(self) -> list[EvalCaseItem | UnusableSetItem]:
        """The cases in the order of the file, after an item for what is wrong with the set besides them.

        Where no case can run and one was named, there would be no such item: the error is that of the file then. So is
        a name that no case has.
        """
        items = list(self._items())
        known = {name: None for item in items for name in (item.name, item.name.split("[")[0])}
        cases = [name for name in known if not name.startswith("(")]
        unknown = [name for name in self._named() if name not in known]
        if unknown:
            why = (f"{self.nodeid}: no eval case {name!r}{did_you_mean(name, cases)}" for name in unknown)
            raise self.CollectError(_safe("\n".join(why)))
        return items

    def _items(self) -> Iterator[EvalCaseItem | UnusableSetItem]:
        runs = _runs_of(self.config)
        try:
            plan = runs.plan(self.path)
        except NoCases:  # as a module without tests
            return
        except (PlanError, StoreError) as error:
            if self._named():
                raise self.CollectError(_safe(str(error))) from None
            yield self._unusable("(unusable)", str(error))
            return
        if plan.problems:
            yield self._unusable("(problems)", "\n".join(plan.problems))
        several = plan.limits.runs > 1
        for case in plan.cases:
            for repeat in range(plan.limits.runs):
                name = one_line(case.key.eval_id) or "(no id)"
                name += f"#{case.key.occurrence + 1}" if case.key.occurrence else ""
                name += f"[{repeat + 1}]" if several else ""
                job = JobKey(case=case.key, repeat=repeat)
                required = plan.limits.require_all_samples
                yield EvalCaseItem.from_parent(
                    self, name=name, runs=runs, job=job, planned=case, requires_all_samples=required
                )

    def _unusable(self, name: str, why: str) -> UnusableSetItem:
        runs = _runs_of(self.config)
        item = UnusableSetItem.from_parent(self, name=name, why=_safe(why))
        runs.unusable[item.nodeid] = item
        return item

    def _named(self) -> list[str]:
        """The items of this file that the command line names."""
        folder = self.config.invocation_params.dir
        named = (argument.partition("::") for argument in self.config.args)
        return [
            name
            for file, separator, name in named
            if separator and os.path.abspath(folder / file) == str(self.path)  # noqa: PTH100 - links stay as they are
        ]


class UnusableSetItem(pytest.Item):
    """What is wrong with an eval set besides its cases, of which perhaps none can run. `why`: a line for each problem.

    Nothing deselects it: a session that was to run some of its cases does not pass.
    """

    def __init__(self, *, why: str, **others: Any) -> None:
        super().__init__(**others)
        self.why = why

    def setup(self) -> None:
        """An error, as of a case that could not run."""
        pytest.fail(self.why, pytrace=False)

    def runtest(self) -> None:
        """Never called: `setup` fails."""

    def reportinfo(self) -> tuple[os.PathLike[str], None, str]:
        """File, no line, and what the item is called in headings."""
        return self.path, None, self.nodeid


class CaseNotPassed(pytest.fail.Exception):  # type: ignore[misc,name-defined] # mypy takes it for a variable
    """A case did not pass. pytest looks for no source to show with it, which would take longer than many a case."""

    def __init__(self, case: ReportedCase) -> None:
        super().__init__(case.result.status.value, pytrace=False)
        self.case = case


class EvalCaseItem(pytest.Item):
    """One case of one repeat. Its run is one of many that go on in the background; here its result is waited for."""

    def __init__(
        self, *, runs: SessionRuns, job: JobKey, planned: PlannedCase, requires_all_samples: bool, **others: Any
    ) -> None:
        super().__init__(**others)
        self.job = job
        self.planned = planned
        self._runs = runs
        self._requires_all_samples = requires_all_samples
        self._is_error = False
        self.case: ReportedCase | None = None

    def setup(self) -> None:
        """Wait for the result. An ERROR is an error of the set-up for pytest, which tells it from a failure so."""
        try:
            result = self._runs.result_of(self)
        except (PlanError, StoreError) as error:
            pytest.fail(_safe(str(error)), pytrace=False)
        self.case = ReportedCase(result, self.planned.case)
        self.user_properties += _properties(self.case, run_id=self._runs.run_id_of(self))
        if result.status in (CaseStatus.SKIPPED, CaseStatus.CANCELLED):
            pytest.skip(result.status.value.lower())
        missing = missing_samples_lines(self.case.judged)
        self._is_error = result.status is CaseStatus.ERROR
        if self._is_error:
            raise CaseNotPassed(self.case)
        if missing and result.status is CaseStatus.PASSED and self._requires_all_samples:
            self._is_error = True
            pytest.fail(_safe("\n".join((*missing, ALL_REQUIRED))), pytrace=False)
        self._runs.note_missing_samples(self.nodeid, missing)

    def runtest(self) -> None:
        """Fail where the case did not pass."""
        assert self.case is not None  # pytest sets up first
        if self.case.result.status is not CaseStatus.PASSED:
            raise CaseNotPassed(self.case)

    def seconds_in(self, phase: str) -> float:
        """How long the case took, in the phase that has the verdict."""
        if self.case is None:
            return 0.0
        return self.case.result.duration_seconds if phase == ("setup" if self._is_error else "call") else 0.0

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """What went wrong, without a traceback of ours."""
        if isinstance(excinfo.value, CaseNotPassed):
            case, verbose = excinfo.value.case, self.config.option.verbose > 0
            shown = self._runs.setup_failures.find(case, self.nodeid)
            return CaseRepr(excinfo, case, path=self._shown_path(), verbose=verbose, shown=shown)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[os.PathLike[str], None, str]:
        """File, no line, and what the item is called in headings."""
        return self.path, None, f"{self._shown_path()}::{self.name}"

    def _shown_path(self) -> str:
        return self.nodeid.partition("::")[0]


class CaseRepr:
    """Why a case did not pass, in place of the traceback that pytest shows. `reprcrash` has the short summary.

    `verbose`: with what the agent wrote and the traceback of its exception. `shown`: the item that shows the same setup
    failure. `reprtraceback` has the lines, because pytest-xdist sends only the attributes.
    """

    def __init__(
        self,
        excinfo: pytest.ExceptionInfo[BaseException],
        case: ReportedCase,
        *,
        path: str,
        verbose: bool,
        shown: str | None,
    ) -> None:
        status = case.result.status
        lines = _explained(case) if shown is None else [f"setup: see {_safe(shown)}"]
        summary = f"{status.value}: {lines[0]}" if lines else status.value
        lines += _at_length(case, verbose=verbose)
        self._lines = [f"{SYMBOLS[status]} {status.value}", *(f"  {line}" for line in lines)]
        excinfo.traceback = excinfo.traceback[-1:]  # formatting all of it would take longer than many a case
        given: Any = excinfo.getrepr(style="native")  # pytest exports none of the types of its parts
        self.reprtraceback = given.reprtraceback
        self.reprtraceback.reprentries[0].lines = [f"{line}\n" for line in self._lines]
        self.sections = given.sections
        self.reprcrash = given.reprcrash
        self.reprcrash.path, self.reprcrash.lineno, self.reprcrash.message = path, 0, summary

    def __str__(self) -> str:
        return "\n".join(self._lines)

    def toterminal(self, tw: Any) -> None:
        """Write it: `-` and `+` in the colours of a diff."""
        for number, line in enumerate(self._lines):
            sign = line.strip()[:2]
            tw.line(line, red=number == 0 or sign == "- ", green=sign == "+ ", bold=number == 0)


class SessionHooks:
    """What is hooked in once an eval set was collected."""

    def __init__(self, runs: SessionRuns) -> None:
        self._runs = runs
        self._is_kept = True

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> Generator[None]:
        """Bring back what is wrong with sets if it was deselected: a wanted case may be missing because of it."""
        yield
        items += [item for item in self._runs.unusable.values() if item not in items]

    @pytest.hookimpl(tryfirst=True)
    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        """What is brought back is not counted among the deselected."""
        if isinstance(items, list):
            items[:] = [item for item in items if not isinstance(item, UnusableSetItem)]

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Note what was chosen of what was collected."""
        self._runs.choose([item for item in session.items if isinstance(item, EvalCaseItem)])

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """An ERROR is told without a traceback, too. The time is the case's, not how long pytest has waited for it."""
        report = yield
        if isinstance(item, EvalCaseItem):
            if call.excinfo is not None and isinstance(call.excinfo.value, CaseNotPassed):
                report.longrepr = item.repr_failure(call.excinfo)
            report.duration = item.seconds_in(call.when)
        return report

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtestloop(self) -> Generator[None, object, object]:
        """Stop what still runs: after -x, or Ctrl-C."""
        try:
            return (yield)
        finally:
            self._is_kept = self._runs.close()

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Let recorded calls that could not be kept be no success.

        Nor are unusable sets where they are only collected.
        """
        if session.config.option.collectonly and self._runs.unusable and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        if not (self._runs.close() and self._is_kept):
            session.exitstatus = pytest.ExitCode.USAGE_ERROR

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Where the results are, what models cost, and what should be known besides."""
        lines = self._runs.summary_lines()
        if terminalreporter.config.option.collectonly:
            lines += [f"{item.nodeid}: {item.why}" for item in self._runs.unusable.values()]
        if lines:
            terminalreporter.section("workbench")
            for line in lines:
                terminalreporter.write_line(_safe(line))


def _runs_of(config: pytest.Config) -> SessionRuns:
    runs = config.stash.get(_RUNS, None)
    if runs is None:
        runs = config.stash[_RUNS] = SessionRuns(config)
        config.pluginmanager.register(SessionHooks(runs), "workbench-session")
    return runs


def _explained(case: ReportedCase) -> list[str]:
    """Why it did not pass, with expected and actual aligned where they can be."""
    aligned = list(aligned_lines(case)) if case.result.status is CaseStatus.FAILED else []
    return [*reasons(case), *aligned] if aligned else explain(case)


def _at_length(case: ReportedCase, *, verbose: bool) -> list[str]:
    """The rest, of a case that could not run; without `verbose` a line says how to see it."""
    lines = explain_at_length(case) if case.result.status is CaseStatus.ERROR else []
    return lines if verbose or not lines else ["(-v shows tracebacks, and what the agent wrote)"]


def _properties(case: ReportedCase, *, run_id: str) -> Iterator[tuple[str, object]]:
    """For JUnit and other reports: the run, the agent, the status, and every score."""
    yield "run_id", run_id
    yield "target", _safe(case.result.case.target)
    yield "status", case.result.status.value
    for metric in case.result.metrics:
        yield _safe(metric.name), metric.status.value if metric.score is None else metric.score
        if (text := samples_text(metric)) is not None:
            yield _safe(f"{metric.name}: samples"), text


def _safe(text: str) -> str:
    return neutralise(redact(text))
