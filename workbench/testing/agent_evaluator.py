"""ADK's `AgentEvaluator`, as tests call it."""

from __future__ import annotations

import csv
import importlib
import json
import statistics
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Any, NamedTuple

from workbench.engine.plan import Plan, PlanError, RunOptions
from workbench.engine.project_selection import make_project
from workbench.engine.workspace import Workspace
from workbench.model.criteria import EvalConfig, InvalidConfig, default_config, read_config
from workbench.model.evalset import Invocation
from workbench.model.identity import CaseKey
from workbench.model.results import CaseStatus, MetricResult, MetricStatus, has_judgements, is_quarantined
from workbench.model.run_events import Notice
from workbench.model.target import AgentKind, Target
from workbench.model.text import neutralise, pluralise, redact, score_text
from workbench.model.turn_diff import format_calls
from workbench.report.report_formats import cell_text
from workbench.report.run_report import (
    SYMBOLS,
    ReportedCase,
    describe_quarantine,
    has_upper_limit,
    judging_lines,
    missing_samples_lines,
)
from workbench.report.text_report import (
    TableStyle,
    VerdictTable,
    aligned_lines,
    describe_metric,
    explain,
    list_reasons,
    make_safe,
    row_name,
    width_of_names,
)
from workbench.store.errors import StoreError, os_errors
from workbench.store.evalsets.adk_rules import format_problems
from workbench.store.evalsets.config_files import load_config
from workbench.store.evalsets.evalset_document import EvalSetDocument
from workbench.store.evalsets.new_evalsets import migrate, migrate_with_session
from workbench.store.files import EVAL_SET_SUFFIX, TEST_SUFFIX, make_relative_name
from workbench.store.project_discovery import EvalSetEntry, Project, find_adk_criteria
from workbench.store.settings import LoadedSettings
from workbench.testing.pytest_session import ALL_REQUIRED, session
from workbench.testing.shared_resources import apply_model_calls, shared_workspaces

# The CSV file of `output_file`: the columns of ADK, a row for each metric of each turn of each run.

_COLUMNS = (
    "eval_set_id", "eval_id", "metric_name", "threshold", "score", "eval_status", "prompt", "expected_response",
    "actual_response", "expected_tool_calls", "actual_tool_calls",
)  # fmt: skip

_Row = tuple[str | float | None, ...]


def append_csv(file: Path, cases: Iterable[ReportedCase]) -> None:
    """Append the rows of these cases to a file; a new file gets a header. Raises StoreError."""
    with os_errors("write", file):
        file.parent.mkdir(parents=True, exist_ok=True)
        is_new = not file.exists() or not file.stat().st_size
        with file.open("a", newline="", encoding="utf-8") as stream:
            writer = csv.writer(stream, lineterminator="\n")
            if is_new:
                writer.writerow(_COLUMNS)
            for case in cases:
                writer.writerows(_rows(case))


def _rows(case: ReportedCase) -> Iterator[_Row]:
    result = case.result
    head = (cell_text(result.eval_set_id), cell_text(result.case.eval_id))
    turns = [turn.invocation for turn in result.execution.turns]
    expected = list((case.expected.conversation if case.expected is not None else None) or ())
    for metric in result.metrics:
        per_turn = [score.score for score in metric.per_invocation]
        for number, score in enumerate(per_turn or [metric.score]):
            of_turn = slice(number, number + 1) if per_turn else slice(None)
            metric_cells = (cell_text(metric.name), metric.threshold, score, _status(metric, score))
            yield (*head, *metric_cells, *_turn_cells(expected[of_turn], turns[of_turn]))
    if result.failure is not None:
        yield (*head, "", None, None, CaseStatus.ERROR.value, *_turn_cells(expected, turns))


def _status(metric: MetricResult, score: float | None) -> str:
    """Return the status of one turn: a status of ADK, or ERROR."""
    if metric.status is MetricStatus.ERROR:
        return metric.status.value
    if metric.threshold is None:
        return MetricStatus.INFORMATIONAL.value
    if score is None or metric.score is None:
        return CaseStatus.NOT_EVALUATED.value
    is_passed = score <= metric.threshold if has_upper_limit(metric) else score >= metric.threshold
    return (MetricStatus.PASSED if is_passed else MetricStatus.FAILED).value


def _turn_cells(expected: Sequence[Invocation], actual: Sequence[Invocation]) -> Iterator[str]:
    yield _text(turn.user_content.text(thoughts=False) for turn in actual or expected)
    yield _text(turn.response_text(thoughts=False) or "" for turn in expected)
    yield _text(turn.response_text(thoughts=False) or "" for turn in actual)
    yield _text(format_calls(turn) for turn in expected)
    yield _text(format_calls(turn) for turn in actual)


def _text(texts: Iterable[str]) -> str:
    return cell_text("\n".join(texts))


# Search of the agent module on `sys.path`, without importing it.


class AgentPlace(NamedTuple):
    """The folder of an agent, and the folder from which its modules are imported."""

    folder: Path
    import_root: Path


def find_agent_module(name: str) -> AgentPlace:
    """Find the folder of `package` (with a module `agent`) or of `package.agent`.

    Raises ModuleNotFoundError for a missing module, and ValueError for one that cannot contain an agent.
    """
    __tracebackhide__ = True
    importlib.invalidate_caches()
    parts = name.split(".")
    search: Sequence[str] | None = None
    spec: ModuleSpec | None = None
    for number, part in enumerate(parts, start=1):
        spec = None if number > 1 and search is None else _find_spec(part, search)
        if spec is None:
            missing = ".".join(parts[:number])
            raise ModuleNotFoundError(
                f"agent_module {name!r}: there is no module {missing!r} on sys.path; expected a package with a module "
                "`agent`, importable from the tests (see `pythonpath` in pytest's documentation)",
                name=missing,
            )
        search = None if spec.submodule_search_locations is None else list(spec.submodule_search_locations)
    assert spec is not None  # a text that is split has a part
    if search is not None:
        return _find_import_root(Path(search[0]), parts)
    if parts[-1] == "agent" and spec.origin is not None and len(parts) > 1:
        return _find_import_root(Path(spec.origin).parent, parts[:-1])
    raise ValueError(
        f"agent_module {name!r}: found the file {spec.origin}, expected a package with a module `agent`, "
        "or a module called `agent` in a package"
    )


def name_agent_module(agent: Any) -> str:
    """Return the name of the module that binds an agent or App as `root_agent` or `app`; a name stays as it is.

    Agents run in processes of their own, so an object alone cannot be tested. Raises ValueError if no module binds it.
    """
    __tracebackhide__ = True
    if isinstance(agent, str):
        return agent
    for name, module in sorted(sys.modules.items()):
        is_agent = name.endswith(".agent") or hasattr(module, "__path__")
        if is_agent and any(vars(module).get(each) is agent for each in ("root_agent", "app")):
            return name
    raise ValueError(
        f"agent_module: found an object of type {type(agent).__name__}, which no module called `agent` binds as "
        "root_agent or app; expected the name of its package, because agents run in processes of their own"
    )


def _find_spec(part: str, search: Sequence[str] | None) -> ModuleSpec | None:
    """Find the spec of a module by the last part of its name, in the folders of its package or at the top level."""
    if search is not None:
        return PathFinder.find_spec(part, search)
    if not part:
        return None
    # Editable installations have their own finders.
    specs = (finder.find_spec(part, None) for finder in sys.meta_path if hasattr(finder, "find_spec"))
    return next((spec for spec in specs if spec is not None), None)


def _find_import_root(folder: Path, package: Sequence[str]) -> AgentPlace:
    root = folder
    for name in reversed(package):
        if root.name != name:  # package and folder have different names: only the adapter knows how to import it
            return AgentPlace(folder, folder.parent)
        root = root.parent
    return AgentPlace(folder, root)


# The verdict on a case from repeated runs, as in ADK's AgentEvaluator, and its message.

_SCORES_SHOWN = 8
"""Maximum number of scores in a line."""

_BAD = (CaseStatus.ERROR, CaseStatus.FAILED, CaseStatus.NOT_EVALUATED)


class EvaluationIncomplete(AssertionError):
    """No case failed, but some could not be evaluated: an agent, a metric or the infrastructure did not work."""


@dataclass(frozen=True)
class CaseVerdict:
    """One case over all its runs. `lines` explain why it did not pass; they are empty if it passed.

    `missing_samples` has a line for each metric and run with missing samples. `quarantine` says until when a FAILED
    does not count; None if it counts.
    """

    name: str
    status: CaseStatus
    lines: tuple[str, ...] = ()
    missing_samples: tuple[str, ...] = ()
    quarantine: str | None = None


def decide_case(name: str, runs: Sequence[ReportedCase], *, requires_all_samples: bool = False) -> CaseVerdict:
    """Decide on a case from its runs, at least one.

    With `requires_all_samples`, missing samples turn PASSED into ERROR.
    """
    errors = [run for run in runs if run.result.status in (CaseStatus.ERROR, CaseStatus.CANCELLED, CaseStatus.SKIPPED)]
    if errors:
        return CaseVerdict(name, CaseStatus.ERROR, tuple(_error_lines(errors, total=len(runs))))
    metrics: dict[str, list[MetricResult]] = {}
    for run in runs:
        for metric in run.deciding_metrics:
            metrics.setdefault(metric.name, []).append(metric)
    statuses, lines = set[CaseStatus](), list[str]()
    has_several_judges = sum(map(has_judgements, metrics.values())) > 1
    for metric_name, results in metrics.items():
        judge = f"{metric_name}: " if has_several_judges else ""
        status, line = _decide_metric(results)
        statuses.add(status)
        if status is not CaseStatus.PASSED:
            lines.append(line)
            lines += dict.fromkeys(make_safe(f"{judge}{each}") for result in results for each in judging_lines(result))
    if not metrics:
        lines += list_reasons(runs[0])
    status = next((each for each in (*_BAD, CaseStatus.PASSED) if each in statuses), CaseStatus.NOT_EVALUATED)
    if status is not CaseStatus.PASSED:
        lines += _difference_lines(runs)
    missing_samples = tuple(line for run in runs for line in missing_samples_lines(run.deciding_metrics))
    if status is CaseStatus.PASSED and missing_samples and requires_all_samples:
        return CaseVerdict(name, CaseStatus.ERROR, (*missing_samples, ALL_REQUIRED), missing_samples)
    quarantine = runs[-1].result.quarantine
    excuse = (
        describe_quarantine(status, quarantine)
        if quarantine is not None and is_quarantined(status, quarantine)
        else None
    )
    return CaseVerdict(name, status, tuple(lines), missing_samples, excuse)


def failure_message(verdicts: Sequence[CaseVerdict], *, agent: str, runs: int) -> str:
    """Return a message with every case that did not pass. Every line is safe to print."""
    bad = [verdict for verdict in verdicts if verdict.status is not CaseStatus.PASSED]
    counts = {
        "failed": CaseStatus.FAILED,
        "could not be evaluated (ERROR)": CaseStatus.ERROR,
        "not evaluated": CaseStatus.NOT_EVALUATED,
    }
    counts_by_status = [
        f"{number} {word}" for word, status in counts.items() if (number := sum(v.status is status for v in bad)) > 0
    ]
    lines = [
        f"{len(bad)} of {pluralise(len(verdicts), 'case')} of {make_safe(agent)} did not pass "
        f"({pluralise(runs, 'run')} each): {', '.join(counts_by_status)}"
    ]
    for verdict in bad:
        lines += ["", f"{SYMBOLS[verdict.status]} {verdict.status.value}  {make_safe(verdict.name)}"]
        lines += [f"  {line}" for line in verdict.lines]
    return "\n".join(lines)


def _decide_metric(results: Sequence[MetricResult]) -> tuple[CaseStatus, str]:
    """Decide one metric over all turns of all runs, and describe the result in a line."""
    scores = [score for result in results for score in _list_scores(result)]
    threshold = results[0].threshold
    if not scores or threshold is None:
        return CaseStatus.NOT_EVALUATED, f"{describe_metric(results[0])} (not evaluated)"
    mean = statistics.mean(scores)  # exact, so that the mean of equal scores is that score
    is_passed = mean <= threshold if any(map(has_upper_limit, results)) else mean >= threshold
    scored = [result for result in results if result.score is not None]
    if len(scores) == 1:
        line = describe_metric(scored[0])
    else:
        merged = results[0].model_copy(update={"score": mean, "reason": None, "hint": None, "scored": 1, "total": 1})
        shown = ", ".join(map(score_text, scores)) if len(scores) <= _SCORES_SHOWN else f"{len(scores)} turns"
        line = f"{describe_metric(merged)}, the mean of {shown}"
    return (CaseStatus.PASSED if is_passed else CaseStatus.FAILED), line


def _list_scores(result: MetricResult) -> list[float]:
    """Return the scores of one run: those of its turns, or that of the case if turns have none."""
    turns = [turn.score for turn in result.per_invocation if turn.score is not None]
    return turns or ([] if result.score is None else [result.score])


def _error_lines(errors: Sequence[ReportedCase], *, total: int) -> Iterator[str]:
    runs_by_lines: dict[tuple[str, ...], list[ReportedCase]] = {}
    for run in errors:
        runs_by_lines.setdefault(tuple(explain(run)) or (run.result.status.value,), []).append(run)
    for lines, runs in runs_by_lines.items():
        yield from _run_lines(runs, lines, total=total)


def _difference_lines(runs: Sequence[ReportedCase]) -> Iterator[str]:
    """Yield the aligned expected and actual side, once for runs with equal lines."""
    runs_by_lines: dict[tuple[str, ...], list[ReportedCase]] = {}
    for run in runs:
        if lines := tuple(aligned_lines(run)):
            runs_by_lines.setdefault(lines, []).append(run)
    for lines, same_runs in runs_by_lines.items():
        yield from _run_lines(same_runs, lines, total=len(runs))


def _run_lines(runs: Sequence[ReportedCase], lines: Sequence[str], *, total: int) -> Iterator[str]:
    """Yield lines, after the numbers of their runs unless they are about all runs."""
    if len(runs) < total:
        yield f"run {', '.join(str(run.result.repeat + 1) for run in runs)} of {total}:"
    yield from lines


# `AgentEvaluator` with the names of ADK. The agent runs in its own process, and every failure is reported.

NUM_RUNS = 2
"""Default number of runs per case."""


class AgentEvaluator:
    """Evaluates agents in tests. Parameters have the names and meanings of google-adk 2.13."""

    @staticmethod
    def find_config_for_test_file(test_file: str) -> EvalConfig:
        """Return the criteria in the `test_config.json` beside a test file, else the default ones.

        Raises ValueError if that file is invalid.
        """
        __tracebackhide__ = True
        criteria_file = find_adk_criteria(Path(test_file), None)
        with _InputErrors():
            return default_config() if criteria_file is None else load_config(criteria_file)

    @staticmethod
    async def evaluate(  # noqa: PLR0917 - as in ADK, by position too
        agent_module: Any,
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

        `agent_module` is the name of a package with a module `agent` (or of that module), or the agent or App that such
        a module binds; `agent_name` is an agent in it to test instead of the root agent. The criteria are in the
        `test_config.json` beside the set. `initial_session_file` is for files in the older format. `output_file` gets a
        CSV row for each metric of each turn.

        Raises AssertionError with all cases whose mean over the runs misses a threshold, with expected and actual side
        aligned. Raises EvaluationIncomplete, an AssertionError, if no case failed but some ended in ERROR. Raises
        ValueError and ModuleNotFoundError for wrong arguments, files and configuration.
        """
        __tracebackhide__ = True
        _check_arguments(artifact_service, eval_set_results_manager, num_runs=num_runs)
        agent_module = name_agent_module(agent_module)
        files = _find_test_files(Path(eval_dataset_file_path_or_dir))
        with _InputErrors():
            project, loaded = _find_project(agent_module, agent_name, files)
            session_file = None if initial_session_file is None else Path(initial_session_file)
            documents = {entry.relative: _open_document(entry.path, session_file) for entry in project.eval_sets}
        sets = _EvalSets(project, loaded, documents)
        await _evaluate(
            sets, agent_module, num_runs=num_runs, details=print_detailed_results, output_file=output_file, config=None
        )

    @staticmethod
    async def evaluate_eval_set(  # noqa: PLR0917
        agent_module: Any,
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
        """Do as `evaluate`, for an eval set in memory: an EvalSet of ADK, or its data.

        `eval_config` is an EvalConfig, ours or ADK's, or its data; the older `criteria` has thresholds by metric.
        """
        __tracebackhide__ = True
        _check_arguments(artifact_service, eval_set_results_manager, num_runs=num_runs)
        agent_module = name_agent_module(agent_module)
        with _InputErrors():
            config = _read_config({"criteria": dict(criteria)} if criteria else eval_config)
            project, loaded = _find_project(agent_module, agent_name, ())
            document = _make_document(eval_set)
        (target,) = project.targets
        entry = EvalSetEntry(
            path=project.root / document.path, relative=document.path.name, target=target, kind="evalset"
        )
        project = project.model_copy(update={"eval_sets": (entry,)})
        sets = _EvalSets(project, loaded, {entry.relative: document})
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
        """Convert a file of an older format to the current one. An existing file is not overwritten.

        Raises ValueError if that is impossible. Warns of data for which the current format has no field.
        """
        __tracebackhide__ = True
        if not old_eval_data_file or not new_eval_data_file:
            raise ValueError("old_eval_data_file and new_eval_data_file: found an empty name, expected two files")
        session_file = None if initial_session_file is None else Path(initial_session_file)
        with _InputErrors():
            lost_data = migrate(Path(old_eval_data_file), Path(new_eval_data_file), initial_session=session_file)
        if lost_data:
            warnings.warn(f"{old_eval_data_file}: not carried over: {', '.join(lost_data)}", stacklevel=2)


@dataclass(frozen=True)
class _EvalSets:
    """The documents to evaluate, by their names in the project."""

    project: Project
    loaded: LoadedSettings
    documents: Mapping[str, EvalSetDocument]


async def _evaluate(
    sets: _EvalSets,
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
        message = f"{', '.join(empty)}: found no eval case, expected at least one"
        raise ValueError("\n".join((*errors, message)))
    options = RunOptions(
        runs=num_runs,
        timeout_seconds=session.timeout_seconds,
        require_all_samples=session.require_all_samples,
        adk_results=False,
        command=f"AgentEvaluator {agent_module}",
    )
    with _InputErrors(), shared_workspaces.use(sets.project.root, sets.loaded) as workspace:
        plan = workspace.plan_documents(sets.project, sets.documents, options, config=config)
        cases = await _run_plan(apply_model_calls(plan, session.calls), workspace)
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
        decide_case(f"{key.eval_set}: {key.eval_id}", case_runs, requires_all_samples=required)
        for key, case_runs in runs.items()
    ]
    for verdict in verdicts:
        if verdict.quarantine is not None:
            warnings.warn(f"{make_safe(verdict.name)}: FAILED, {verdict.quarantine}", stacklevel=2)
        if verdict.missing_samples and not required:
            warnings.warn(f"{make_safe(verdict.name)}: {'; '.join(verdict.missing_samples)}", stacklevel=2)
    verdicts = [verdict for verdict in verdicts if verdict.quarantine is None]
    statuses = {verdict.status for verdict in verdicts}
    if statuses - {CaseStatus.PASSED}:
        message = failure_message(verdicts, agent=agent_module, runs=num_runs)
        failed_statuses = statuses & {CaseStatus.FAILED, CaseStatus.NOT_EVALUATED}
        raise (AssertionError if failed_statuses else EvaluationIncomplete)("\n".join((message, *problems)))
    if problems:
        raise ValueError("\n".join(problems))


async def _run_plan(plan: Plan, workspace: Workspace) -> list[ReportedCase]:
    """Run a plan on the current event loop, and return the results in the order of the plan."""
    expected = {case.key: case.case for case in plan.cases}
    run = workspace.start(plan)
    try:
        async for event in run.events():
            if not isinstance(event, Notice) or event.message in plan.problems:  # problems are raised at the end
                continue
            if event.severity != "information":
                warnings.warn(redact(neutralise(event.message)), stacklevel=2)
    except BaseException:  # the test ended early, so the other cases are not needed
        run.cancel()
        raise
    return [ReportedCase(result, expected.get(result.case)) for result in run.results()]


def _print_details(plan: Plan, cases: Sequence[ReportedCase]) -> None:
    criteria = {case.key.eval_set: case.config for case in plan.cases}
    table = VerdictTable(
        style=TableStyle(), name_width=width_of_names([row_name(case) for case in cases]), criteria=criteria
    )
    for notice in plan.notices:
        print(redact(neutralise(notice)))
    for case in sorted(cases, key=lambda case: list(criteria).index(case.result.case.eval_set)):
        for line in table.lines(case):
            print(line)


def _check_arguments(artifact_service: object, eval_set_results_manager: object, *, num_runs: int) -> None:
    __tracebackhide__ = True
    if num_runs < 1:
        raise ValueError(f"num_runs: found {num_runs}, expected at least 1")
    if artifact_service is not None:
        raise ValueError("artifact_service: the agent runs in its own process and cannot use this object; leave it out")
    if eval_set_results_manager is not None:
        raise ValueError("eval_set_results_manager: results are stored in the history of the project; leave it out")


def _find_test_files(path: Path) -> list[Path]:
    __tracebackhide__ = True
    if not path.is_dir():
        if not path.is_file():
            raise ValueError(f"{path}: there is no such file or folder")
        return [path]
    files = sorted(file for file in path.rglob(f"*{TEST_SUFFIX}") if file.is_file())
    if not files:
        raise ValueError(f"{path}: found no *{TEST_SUFFIX} below this folder, expected at least one")
    return files


def _find_project(agent_module: str, agent_name: str | None, files: Sequence[Path]) -> tuple[Project, LoadedSettings]:
    __tracebackhide__ = True
    place = find_agent_module(agent_module)
    project, loaded = make_project(place.folder, files)
    (target,) = project.targets.values()
    if target.name not in loaded.settings.targets:  # import it as the test would
        location = make_relative_name(place.folder, place.import_root)
        target = target.model_copy(update={"path": place.import_root, "location": location})
    if agent_name:
        target = _select_sub_agent(target, agent_name)
    sets = tuple(entry.model_copy(update={"target": target.name}) for entry in project.eval_sets)
    return project.model_copy(update={"targets": {target.name: target}, "eval_sets": sets}), loaded


def _select_sub_agent(target: Target, agent_name: str) -> Target:
    __tracebackhide__ = True
    if target.kind is not AgentKind.ADK:
        raise ValueError(f"agent_name: {target.name} is of the kind {target.kind}; only ADK agents have sub-agents")
    return target.model_copy(update={"name": f"{target.name}/{agent_name}", "sub_agent": agent_name})


def _open_document(file: Path, initial_session: Path | None) -> EvalSetDocument:
    __tracebackhide__ = True
    document = EvalSetDocument.open(file)
    return document if initial_session is None else migrate_with_session(document, initial_session)


def _make_document(eval_set: Any) -> EvalSetDocument:
    """Make a document from an eval set in memory. Its name is its id."""
    __tracebackhide__ = True
    if hasattr(eval_set, "model_dump_json"):
        data = eval_set.model_dump_json(exclude_none=True).encode()
    elif isinstance(eval_set, Mapping):
        data = json.dumps(eval_set).encode()
    else:
        raise ValueError(f"eval_set: found a {type(eval_set).__name__}, expected an EvalSet or its data")
    document = EvalSetDocument(Path("eval_set"), data, None)
    return EvalSetDocument(Path(f"{document.eval_set_id.replace('/', '_')}{EVAL_SET_SUFFIX}"), data, None)


def _read_config(value: Any) -> EvalConfig:
    __tracebackhide__ = True
    if isinstance(value, EvalConfig):
        return value
    if hasattr(value, "model_dump"):
        # Criteria are subclasses with additional fields.
        value = value.model_dump(mode="json", exclude_none=True, serialize_as_any=True)
    if value is None:
        raise ValueError("eval_config: found nothing, expected an EvalConfig or its data")
    try:
        return read_config(value, source="eval_config")
    except InvalidConfig as invalid:
        raise ValueError(f"eval_config: {invalid}") from None


class _InputErrors:
    """Converts errors of files, settings and configuration to ValueError.

    It is no generator, because pytest would show the frame of contextlib.
    """

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        __tracebackhide__ = True
        if not isinstance(error, PlanError | StoreError):
            return
        raise ValueError(redact(neutralise(str(error)))) from None
