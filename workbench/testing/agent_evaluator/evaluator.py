"""ADK's AgentEvaluator as the workbench has it: same names, own processes, every failure told.

The agent runs in processes of its own, as everywhere here: what a test has patched in its process does not reach it;
environment variables that are set before do. Results are kept in the history of the project. What raises is hidden from
pytest (`__tracebackhide__`), which then shows the line of the test and the message.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workbench.engine.named import project_of
from workbench.engine.plan import Plan, PlanError, RunOptions
from workbench.engine.workspace import Workspace
from workbench.model.criteria import EvalConfig, InvalidConfig, default_config, read_config
from workbench.model.events import Notice
from workbench.model.keys import CaseKey
from workbench.model.results import CaseStatus
from workbench.model.target import AgentKind, Target
from workbench.model.text import neutralise, redact
from workbench.report.explain import safe
from workbench.report.run_report import ReportedCase
from workbench.report.table import Style, VerdictTable, row_name, width_of_names
from workbench.store.discovery import EvalSetEntry, Project
from workbench.store.discovery.project import criteria_beside
from workbench.store.documents import EvalSetDocument, format_problems, load_config, migrate, with_initial_session
from workbench.store.errors import StoreError
from workbench.store.files import relative_name
from workbench.store.names import EVAL_SET_SUFFIX, TEST_SUFFIX
from workbench.store.settings import LoadedSettings
from workbench.testing.agent_evaluator.csv_rows import append_csv
from workbench.testing.agent_evaluator.modules import find_agent_module
from workbench.testing.agent_evaluator.verdicts import EvaluationIncomplete, case_verdict, failure_message
from workbench.testing.model_calls import with_calls
from workbench.testing.session import session
from workbench.testing.workspaces import shared_workspaces

NUM_RUNS = 2
"""How often each case runs where a test does not say."""


class AgentEvaluator:
    """Evaluates agents in tests. Parameters have the names and meanings that they have in google-adk 2.13."""

    @staticmethod
    def find_config_for_test_file(test_file: str) -> EvalConfig:
        """The criteria in the `test_config.json` beside a test file, else the default ones.

        Raises ValueError where that file cannot be used.
        """
        __tracebackhide__ = True
        beside = criteria_beside(Path(test_file))
        with _WrongInput():
            return default_config() if beside is None else load_config(beside)

    @staticmethod
    async def evaluate(  # noqa: PLR0917 - as in ADK, by position too
        agent_module: str,
        eval_dataset_file_path_or_dir: str,
        num_runs: int = NUM_RUNS,
        agent_name: str | None = None,
        initial_session_file: str | None = None,
        print_detailed_results: bool = True,
        artifact_service: object = None,
        output_file: str | None = None,
        app_name: str | None = None,  # noqa: ARG004 - names results for a manager of results
        eval_set_results_manager: object = None,
    ) -> None:
        """Run every case of a file, or of all `*.test.json` below a folder, `num_runs` times, and judge it.

        `agent_module` is a package with a module `agent` (or that module), `agent_name` an agent in it to test in place
        of the root agent. Criteria are those of the set: the `test_config.json` beside it. `initial_session_file` is
        for files of the older format. `output_file` gets a CSV row for each metric of each turn.

        Raises AssertionError that tells all cases whose mean over the runs is not good enough, with expected and actual
        aligned; EvaluationIncomplete (one as well) where none fell short but some ended in ERROR; ValueError and
        ModuleNotFoundError for what is wrong with the arguments, files and configuration.
        """
        __tracebackhide__ = True
        _refuse(artifact_service, eval_set_results_manager, num_runs=num_runs)
        files = _test_files(Path(eval_dataset_file_path_or_dir))
        with _WrongInput():
            project, loaded = _project(agent_module, agent_name, files)
            initial = None if initial_session_file is None else Path(initial_session_file)
            documents = {entry.relative: _open(entry.path, initial) for entry in project.eval_sets}
        sets = _Sets(project, loaded, documents)
        await _evaluate(
            sets, agent_module, num_runs=num_runs, details=print_detailed_results, output_file=output_file, config=None
        )

    @staticmethod
    async def evaluate_eval_set(  # noqa: PLR0917
        agent_module: str,
        eval_set: Any,
        criteria: Mapping[str, float] | None = None,
        eval_config: Any = None,
        num_runs: int = NUM_RUNS,
        agent_name: str | None = None,
        print_detailed_results: bool = True,
        artifact_service: object = None,
        output_file: str | None = None,
        app_name: str | None = None,  # noqa: ARG004
        eval_set_results_manager: object = None,
    ) -> None:
        """As `evaluate`, for an eval set in memory: an EvalSet of ADK, or the data of one.

        `eval_config` is an EvalConfig, ours or ADK's, or its data; the older `criteria` has thresholds by metric.
        """
        __tracebackhide__ = True
        _refuse(artifact_service, eval_set_results_manager, num_runs=num_runs)
        with _WrongInput():
            config = _config({"criteria": dict(criteria)} if criteria else eval_config)
            project, loaded = _project(agent_module, agent_name, ())
            document = _document(eval_set)
        (target,) = project.targets
        entry = EvalSetEntry(
            path=project.root / document.path, relative=document.path.name, target=target, kind="evalset"
        )
        project = project.model_copy(update={"eval_sets": (entry,)})
        sets = _Sets(project, loaded, {entry.relative: document})
        await _evaluate(
            sets,
            agent_module,
            num_runs=num_runs,
            details=print_detailed_results,
            output_file=output_file,
            config=config,
        )

    @staticmethod
    def migrate_eval_data_to_new_schema(
        old_eval_data_file: str, new_eval_data_file: str, initial_session_file: str | None = None
    ) -> None:
        """Write a file of an older format in the current one. A file that is there is not overwritten.

        Raises ValueError where that cannot be done; warns of what the current format has no room for.
        """
        __tracebackhide__ = True
        if not old_eval_data_file or not new_eval_data_file:
            raise ValueError("old_eval_data_file and new_eval_data_file: found an empty name, expected two files")
        initial = None if initial_session_file is None else Path(initial_session_file)
        with _WrongInput():
            left = migrate(Path(old_eval_data_file), Path(new_eval_data_file), initial_session=initial)
        if left:
            warnings.warn(f"{old_eval_data_file}: not carried over: {', '.join(left)}", stacklevel=2)


@dataclass(frozen=True)
class _Sets:
    """What is evaluated: the documents by the names that they have in the project."""

    project: Project
    loaded: LoadedSettings
    documents: Mapping[str, EvalSetDocument]


async def _evaluate(
    sets: _Sets,
    agent_module: str,
    *,
    num_runs: int,
    details: bool,
    output_file: str | None,
    config: EvalConfig | None,
) -> None:
    __tracebackhide__ = True
    empty = {name: document for name, document in sets.documents.items() if not len(document)}
    if empty:
        errors = [line for document in empty.values() for line in format_problems(document.errors)]
        nothing = f"{', '.join(empty)}: no eval case in it, so that there is nothing to evaluate"
        raise ValueError("\n".join((*errors, nothing)))
    options = RunOptions(
        runs=num_runs,
        timeout_seconds=session.timeout_seconds,
        require_all_samples=session.require_all_samples,
        adk_results=False,
        command=f"AgentEvaluator {agent_module}",
    )
    with _WrongInput(), shared_workspaces.use(sets.project.root, sets.loaded) as workspace:
        plan = workspace.plan_documents(sets.project, sets.documents, options, config=config)
        with with_calls(plan, session.calls) as ready:
            cases = await _carry_out(ready, workspace)
        if output_file is not None:
            append_csv(Path(output_file), cases)
    if details:
        _print_details(plan, cases)
    problems = [redact(neutralise(problem)) for problem in plan.problems]
    runs: dict[CaseKey, list[ReportedCase]] = {}
    for case in cases:
        runs.setdefault(case.result.case, []).append(case)
    required = plan.limits.require_all_samples
    verdicts = [
        case_verdict(f"{key.eval_set}: {key.eval_id}", of_case, requires_all_samples=required)
        for key, of_case in runs.items()
    ]
    for verdict in verdicts:
        if verdict.missing_samples and not required:
            warnings.warn(f"{safe(verdict.name)}: {'; '.join(verdict.missing_samples)}", stacklevel=2)
    statuses = {verdict.status for verdict in verdicts}
    if statuses - {CaseStatus.PASSED}:
        message = failure_message(verdicts, agent=agent_module, runs=num_runs)
        fell_short = statuses & {CaseStatus.FAILED, CaseStatus.NOT_EVALUATED}
        raise (AssertionError if fell_short else EvaluationIncomplete)("\n".join((message, *problems)))
    if problems:
        raise ValueError("\n".join(problems))


async def _carry_out(plan: Plan, workspace: Workspace) -> list[ReportedCase]:
    """Run a plan, on whichever event loop this is. Gives the results in the order of the plan."""
    expected = {case.key: case.case for case in plan.cases}
    run = workspace.start(plan)
    try:
        async for event in run.events():
            if not isinstance(event, Notice) or event.message in plan.problems:  # problems are raised in the end
                continue
            if event.severity != "information":
                warnings.warn(redact(neutralise(event.message)), stacklevel=2)
    except BaseException:  # whatever ended the test: nobody waits for the rest
        run.cancel()
        raise
    return [ReportedCase(result, expected.get(result.case)) for result in run.results()]


def _print_details(plan: Plan, cases: Sequence[ReportedCase]) -> None:
    """The verdict table, for whoever looks at what the test has printed."""
    criteria = {case.key.eval_set: case.config for case in plan.cases}
    table = VerdictTable(
        style=Style(), name_width=width_of_names([row_name(case) for case in cases]), criteria=criteria
    )
    for notice in plan.notices:
        print(redact(neutralise(notice)))
    for case in sorted(cases, key=lambda case: list(criteria).index(case.result.case.eval_set)):
        for line in table.lines(case):
            print(line)


def _refuse(artifact_service: object, eval_set_results_manager: object, *, num_runs: int) -> None:
    __tracebackhide__ = True
    if num_runs < 1:
        raise ValueError(f"num_runs: found {num_runs}, expected at least 1")
    if artifact_service is not None:
        raise ValueError("artifact_service: the agent runs in a process of its own, which no object here reaches")
    if eval_set_results_manager is not None:
        raise ValueError("eval_set_results_manager: results are kept in the history of the project; leave it out")


def _test_files(path: Path) -> list[Path]:
    __tracebackhide__ = True
    if not path.is_dir():
        if not path.is_file():
            raise ValueError(f"{path}: there is no such file or folder")
        return [path]
    files = sorted(file for file in path.rglob(f"*{TEST_SUFFIX}") if file.is_file())
    if not files:
        raise ValueError(f"{path}: no *{TEST_SUFFIX} below this folder, so that there is nothing to evaluate")
    return files


def _project(agent_module: str, agent_name: str | None, files: Sequence[Path]) -> tuple[Project, LoadedSettings]:
    __tracebackhide__ = True
    place = find_agent_module(agent_module)
    project, loaded = project_of(place.folder, files)
    (target,) = project.targets.values()
    if target.name not in loaded.settings.targets:  # imported as the test would import it
        location = relative_name(place.folder, place.import_root)
        target = target.model_copy(update={"path": place.import_root, "location": location})
    if agent_name:
        target = _of_sub_agent(target, agent_name)
    sets = tuple(entry.model_copy(update={"target": target.name}) for entry in project.eval_sets)
    return project.model_copy(update={"targets": {target.name: target}, "eval_sets": sets}), loaded


def _of_sub_agent(target: Target, agent_name: str) -> Target:
    __tracebackhide__ = True
    if target.kind is not AgentKind.ADK:
        raise ValueError(f"agent_name: {target.name} is of the kind {target.kind}; only ADK agents have sub-agents")
    return target.model_copy(update={"name": f"{target.name}/{agent_name}", "sub_agent": agent_name})


def _open(file: Path, initial_session: Path | None) -> EvalSetDocument:
    __tracebackhide__ = True
    document = EvalSetDocument.open(file)
    return document if initial_session is None else with_initial_session(document, initial_session)


def _document(eval_set: Any) -> EvalSetDocument:
    """An eval set in memory as a document. Its name is its id."""
    __tracebackhide__ = True
    if hasattr(eval_set, "model_dump_json"):
        data = eval_set.model_dump_json(exclude_none=True).encode()
    elif isinstance(eval_set, Mapping):
        data = json.dumps(eval_set).encode()
    else:
        raise ValueError(f"eval_set: found a {type(eval_set).__name__}, expected an EvalSet or the data of one")
    document = EvalSetDocument(Path("eval_set"), data, None)
    return EvalSetDocument(Path(f"{document.eval_set_id.replace('/', '_')}{EVAL_SET_SUFFIX}"), data, None)


def _config(value: Any) -> EvalConfig:
    __tracebackhide__ = True
    if isinstance(value, EvalConfig):
        return value
    if hasattr(value, "model_dump"):
        # Criteria are subclasses with options of their own.
        value = value.model_dump(mode="json", exclude_none=True, serialize_as_any=True)
    if value is None:
        raise ValueError("eval_config: found nothing, expected an EvalConfig or the data of one")
    try:
        return read_config(value, source="eval_config")
    except InvalidConfig as invalid:
        raise ValueError(f"eval_config: {invalid}") from None


class _WrongInput:
    """What is wrong with files, settings and configuration, as an exception that every test may expect.

    No generator: pytest would show the frame of contextlib.
    """

    def __enter__(self) -> None:
        """Nothing is wrong yet."""

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        __tracebackhide__ = True
        if not isinstance(error, PlanError | StoreError):
            return
        raise ValueError(redact(neutralise(str(error)))) from None
