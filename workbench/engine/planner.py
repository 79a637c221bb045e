"""Makes plans from selections."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from pathlib import Path

from workbench.agents.worker_host import find_table_error
from workbench.engine.plan import (
    NoCases,
    Plan,
    PlanError,
    PlannedCase,
    RunOptions,
    Selection,
    SetContext,
    check_script,
    complete_config,
    explain_unscorable_scenarios,
    find_config_problems,
    find_useless_thresholds,
    get_user_options,
    is_scripted,
    resolve_limits,
)
from workbench.engine.plan_cost import build_prices
from workbench.engine.recorded_data import check_columns, make_recorded_target, plan_recordings
from workbench.llm.gemini import find_unknown_keys
from workbench.llm.model_types import Ask
from workbench.metrics.registry import PreparedCriteria, check_inputs, prepare
from workbench.model.criteria import EvalConfig, default_config
from workbench.model.evalset import EvalCase, Quarantine
from workbench.model.facts import pause_gc
from workbench.model.identity import CaseInSet, CaseKey, JobKey, group_cases_by_name
from workbench.model.results import CaseResult, Execution, Failure, FailureKind, MetricStatus
from workbench.model.target import AgentKind, ModelMode, Target
from workbench.model.text import join_some, pluralise, shorten, suggest_name
from workbench.model.tool_simulation import Environment
from workbench.simulation.model_requests import RequestRules
from workbench.simulation.replayed_models import ModelPlan
from workbench.simulation.simulated_tools import CaseTools, ToolPlan, ToolRecording
from workbench.simulation.users import check_scenario
from workbench.store.datasets.dataset_files import Recorded, RecordedCase, read_recorded
from workbench.store.errors import NotLoaded, StoreError, shown_path
from workbench.store.evalsets.adk_rules import format_problems
from workbench.store.evalsets.case_reader import CaseEntry
from workbench.store.evalsets.config_files import JsonFile, load_environment, parse_config, read_json
from workbench.store.evalsets.evalset_document import EvalSetDocument
from workbench.store.evalsets.quarantine import Quarantines, read_quarantines
from workbench.store.evalsets.validation import check_config
from workbench.store.files import CRITERIA_FILES, find_root, find_special_kind, is_pipe, real_path
from workbench.store.history.history import LATEST, History
from workbench.store.json.json_path import parse_place
from workbench.store.model_answers import Recording
from workbench.store.project_discovery import EvalSetEntry, Project, find_criteria_file, find_missing_files
from workbench.store.settings import FILE_NAME, LoadedSettings

# Plans for tools, from targets and options.


class ToolPlanner:
    """Plans the tools of all targets of a run. If there are `problems`, the plans must not be used."""

    def __init__(self, options: RunOptions, *, model: str) -> None:
        """`model` is the default model of simulated tools."""
        self._options = options
        self._model = model
        self._environments: dict[Path, Environment | None] = {}
        self.problems: list[str] = []
        self._replay = None if options.replay_tools is None else self._read_recording(options.replay_tools)
        if options.record_tools is not None:
            self._check_record(options.record_tools)

    def plan(self, target: Target) -> ToolPlan | None:
        """Plan the tools of one target; None if they are called normally."""
        options = self._options
        path = options.simulate_tools or target.simulate_tools
        if (path or options.replay_tools or options.record_tools) is None or target.kind is AgentKind.RECORDED:
            return None
        if not target.runs_in_worker:
            self.problems.append(
                f"{target.name}: workbench cannot simulate, record or replay the tools of an agent of kind "
                f"{target.kind.value}, because they run elsewhere"
            )
            return None
        functions = self.list_functions(target)
        environment = None if path is None else self._environment(path)
        named = functions or environment is not None or (self._replay is not None and self._replay.tools)
        if options.record_tools is not None and target.kind is AgentKind.FUNCTION and not named:
            self.problems.append(
                f"{FILE_NAME}: targets.{target.name}.tools: found nothing, expected the functions that are tools "
                '(["module:function"]), whose calls are recorded'
            )
        return ToolPlan(
            environment=environment,
            replay=self._replay,
            unrecorded=options.unrecorded,
            record=options.record_tools,
            functions=functions,
            files=tuple(real_path(Path(file)) for file in (path, options.replay_tools) if file is not None),
            scripted=environment is not None and environment.needs_model and is_scripted(target, environment.model),
        )

    def list_functions(self, target: Target) -> dict[str, str]:
        """Map the names of a function agent's tools to their functions."""
        found: dict[str, str] = {}
        for place in target.tools:
            name = place.rpartition(":")[2].rpartition(".")[2]
            if found.setdefault(name, place) != place:
                self.problems.append(
                    f"{FILE_NAME}: targets.{target.name}.tools: found {found[name]!r} and {place!r}, expected one tool "
                    f"called {name}: their calls could not be distinguished"
                )
        return found

    def _environment(self, path: Path) -> Environment | None:
        if path not in self._environments:
            self._environments[path] = self._read_environment(path)
        return self._environments[path]

    def _read_environment(self, path: Path) -> Environment | None:
        try:
            environment, problems = load_environment(path)
        except StoreError as error:
            self.problems.append(str(error))
            return None
        self.problems += map(str, problems)
        place = "simulation_model_configuration"
        unknown = find_unknown_keys(environment.configuration, model=environment.model or self._model, place=place)
        self.problems += (f"{environment.source}: {problem}" for problem in unknown)
        return environment if environment.model else environment.model_copy(update={"model": self._model})

    def _read_recording(self, path: Path) -> ToolRecording | None:
        try:
            return ToolRecording.read(path)
        except StoreError as error:
            self.problems.append(str(error))
            return None

    def _check_record(self, path: Path) -> None:
        """Check that the file to write is new or a recording."""
        if path.exists():
            self._read_recording(path)
        elif not path.parent.is_dir():
            self.problems.append(f"{shown_path(path)}: there is no folder {shown_path(path.parent)}")


def create_standalone_tools(
    target: Target, *, model: str, ask: Ask, replay: ToolRecording | None = None
) -> CaseTools | None:
    """Create the simulated tools of a target without a case, with their own state. Raises PlanError.

    Calls are first answered from the recording `replay`, if it is given.
    """
    planner = ToolPlanner(RunOptions(), model=model)
    plan = planner.plan(target)
    if replay is not None:
        plan = replace(plan or ToolPlan(functions=planner.list_functions(target)), replay=replay, unrecorded="call")
    if planner.problems:
        raise PlanError(*planner.problems)
    nowhere = JobKey(case=CaseKey(target=target.name, eval_set="", eval_id=""))
    return None if plan is None else CaseTools(plan, nowhere, ask=ask)


def find_tool_problems(targets: Iterable[Target]) -> Sequence[str]:
    """Find problems in the files that define simulated tools."""
    planner = ToolPlanner(RunOptions(), model="")
    for target in targets:
        planner.plan(target)
    return tuple(dict.fromkeys(planner.problems))


# Baselines of pairwise judge metrics: executions of earlier runs.

OpenHistory = Callable[[], History | None]
"""Opens the history of a project, which the caller closes; None if there is none yet."""

_Place = tuple[str, str, int]
_Repeats = Sequence[Execution]  # the repeats of a case in one run, in order
_Executions = Mapping[_Place, Sequence[_Repeats]]

_RUNS_LOOKED_AT = 20
_MOST_RUNS = 1_000
_KEPT = 2
"""Executions of a case to read: two, because the newest may be the one to judge."""


def add_baselines(
    cases: Sequence[PlannedCase], open_history: OpenHistory, *, before: str | None = None
) -> tuple[PlannedCase, ...]:
    """Return the cases with the baselines of their judge metrics. "latest" is a run older than `before`.

    Cases match regardless of the target. The first repeat is the baseline. An execution is never compared with itself.
    Raises PlanError for an unknown run, and StoreError.
    """
    wanted = {id(case.config): _find_baseline_runs(case.config) for case in cases}
    names = {run: metric for runs in wanted.values() for metric, run in runs.items()}
    if not names:
        return tuple(cases)
    history = open_history()
    try:
        places = {_place(case.key) for case in cases}
        found = {run: _read_executions(history, run, metric, places, before) for run, metric in names.items()}
    finally:
        if history is not None:
            history.close()
    return tuple(
        replace(case, baselines={m: _find_baselines(case, found[run]) for m, run in wanted[id(case.config)].items()})
        for case in cases
    )


def _find_baselines(case: PlannedCase, found: _Executions) -> Sequence[Execution]:
    """Return the executions of other runs than the one to judge, as far as it is known."""
    runs = found.get(_place(case.key), ())
    if case.executed is not None:
        runs = [run for run in runs if all(each.turns != case.executed.turns for each in run)]
    return [run[0] for run in runs]


def lacks_baseline(case: PlannedCase, result: CaseResult) -> bool:
    """Whether a metric found no latest run to compare with. Its verdict is stale once there is one."""
    if not case.config.judge_metrics:  # the fast path for ten thousand cases
        return False
    latest = {metric for metric, run in _find_baseline_runs(case.config).items() if run == LATEST}
    for metric in result.metrics:
        if metric.name not in latest or metric.status is not MetricStatus.UNDEFINED:
            continue
        found = case.baselines.get(metric.name, ())
        if metric in case.reused_results or all(each.turns == result.execution.turns for each in found):
            return True
    return False


def _find_baseline_runs(config: EvalConfig) -> Mapping[str, str]:
    """Return the baseline run of each metric that compares with a run."""
    runs: dict[str, str] = {}
    for criterion in config.criteria:
        metric = config.judge_metrics.get(criterion.metric)
        if metric is not None and metric.baseline is not None and metric.baseline.run is not None:
            runs[criterion.metric] = metric.baseline.run
    return runs


def _read_executions(
    history: History | None, run: str, metric: str, places: set[_Place], before: str | None
) -> _Executions:
    if history is None:
        if run == LATEST:
            return {}
        raise PlanError(
            f"judge_metrics.{metric}.baseline: found the run {run!r}, expected one of the history: it is empty"
        )
    try:
        ids = _list_newest_runs(history, before) if run == LATEST else [history.run(run).run_id]
    except StoreError as error:
        raise PlanError(f"judge_metrics.{metric}.baseline: {error}") from error
    found: dict[_Place, list[_Repeats]] = {place: [] for place in places}
    open_places = set(places)
    for run_id in ids:
        if not open_places:
            break
        repeats: dict[_Place, list[Execution]] = {}
        for result in sorted(history.results(run_id), key=lambda result: result.repeat):
            place = _place(result.case)
            if place in open_places and result.execution.turns:
                repeats.setdefault(place, []).append(result.execution)
        for place, done in repeats.items():
            known = [each.turns for run in found[place] for each in run]
            if all(each.turns not in known for each in done):  # a run that only judged repeats the same execution
                found[place].append(done)
        open_places = {place for place in open_places if len(found[place]) < _KEPT}
    return found


def _list_newest_runs(history: History, before: str | None) -> Sequence[str]:
    """List the ids of the newest runs, newest first; with `before`, only older runs."""
    if before is None:
        return [run.run_id for run in history.runs(limit=_RUNS_LOOKED_AT)]
    ids = [run.run_id for run in history.runs(limit=_MOST_RUNS)]
    first = ids.index(before) + 1 if before in ids else 0
    return ids[first : first + _RUNS_LOOKED_AT]


def _place(key: CaseKey) -> _Place:
    return key.eval_set, key.eval_id, key.occurrence


# The planner: finds cases, their criteria, and problems.


class Planner:
    """Plans runs of one project."""

    def __init__(
        self,
        project: Project,
        loaded: LoadedSettings,
        *,
        open_document: Callable[[str], EvalSetDocument],
        open_history: OpenHistory,
        recorded: Callable[[str], Recorded],
    ) -> None:
        """`recorded` reads the set of a recorded target."""
        self._open_history = open_history
        self._recorded = recorded
        self._project = project
        self._loaded = loaded
        self._open_document = open_document
        self._entries = {entry.relative: entry for entry in project.eval_sets}
        self._config_files: dict[str, JsonFile] = {}
        """The configuration files as last read, by `source`."""

    def plan(
        self,
        selections: Sequence[Selection],
        options: RunOptions,
        *,
        config: EvalConfig | None = None,
        usual: Mapping[str, EvalConfig] | None = None,
    ) -> Plan:
        """Plan these cases; selections of the same set are merged. Raises PlanError, also if there are no cases.

        `config` replaces every configuration file. `usual` (by set) replaces those that the options do not name.
        """
        if options.adk_results is None:
            options = options.model_copy(update={"adk_results": self._loaded.settings.run.adk_results})
        plan, unreadable, unread = self._plan(selections, options, config=config, usual=usual)
        if unreadable and not plan.cases:
            raise PlanError(*unreadable)
        if not plan.cases and not unread:
            names = ", ".join(dict.fromkeys(selection.eval_set for selection in selections))
            raise NoCases(f"nothing to run: there is no eval case in {names or 'the project'}")
        return plan

    def plan_existing_cases(self, selections: Sequence[Selection], options: RunOptions) -> Plan:
        """Plan these cases. There may be none, as cases may be added later. Raises PlanError."""
        return self._plan(selections, options, config=None)[0]

    def _plan(
        self,
        selections: Sequence[Selection],
        options: RunOptions,
        *,
        config: EvalConfig | None,
        usual: Mapping[str, EvalConfig] | None = None,
    ) -> tuple[Plan, Sequence[str], Sequence[str]]:
        """Return the plan, why sets are missing in it, and notices about datasets that were not fetched."""
        wanted = _merge_selections(selections)
        unknown = [self._describe_unknown_set(name) for name in wanted if name not in self._entries]
        if unknown:
            raise PlanError(*unknown)
        kept = {name: usual[name] for name in wanted if usual and name in usual and options.config is None}
        read = {name: self._entries[name] for name in wanted if name not in kept}
        configs, problems = self._prepare_configs(read, options, given=config)
        if problems and not configs and not kept:
            raise PlanError(*problems)
        configs = {**{name: prepare(config) for name, config in kept.items()}, **configs}
        if not options.scores:
            unique = {id(each): each.config for each in configs.values()}
            nothing = {key: prepare(config.model_copy(update={"criteria": ()})) for key, config in unique.items()}
            configs = {name: nothing[id(each)] for name, each in configs.items()}
        wanted = {name: ids for name, ids in wanted.items() if name in configs}
        tools = self._plan_tools(wanted, options)
        cases: list[PlannedCase] = []
        if config is None:
            problems += self._find_config_errors({configs[name].config.source for name in wanted if name in read})
        unread: list[str] = []
        without_effect: list[str] = []
        whole: set[str] = set()
        for name, ids in wanted.items():
            try:
                found = list(self._plan_set(self._entries[name], ids, configs[name], tools[name]))
                refused: Sequence[str] = ()
                if options.scores:
                    self._refuse_unknown_inputs(configs[name].config, found)
                    found, refused = _drop_unscorable_scenarios(found, configs[name].config, name=name)
                    problems.extend(refused)
                else:
                    found = [replace(case, scoring_hash="") for case in found]
            except NotLoaded:
                unread.append(f"{name}: not fetched; its rows are not listed")
                continue
            except (StoreError, PlanError) as error:
                problems.append(str(error))
                continue
            problems.extend(self._find_set_errors(name, found))
            quarantines = self._read_quarantines(name)
            problems.extend(map(str, quarantines.problems))
            if quarantines.cases or quarantines.changed:
                without_effect.extend(quarantines.describe_stale(name, self.cases_by_name(name)))
            cases.extend(add_quarantines(found, quarantines.cases))
            if ids is None and not refused:
                whole.add(name)
        plan = Plan(
            root=self._project.root,
            cases=add_baselines(cases, self._open_history, before=options.judges_again),
            limits=resolve_limits(self._loaded.settings, options),
            options=options,
            notices=(
                *(self._build_notices({name: each.config for name, each in configs.items()}) if options.scores else ()),
                *_report_scripted_models(cases),
                *_describe_tools(cases),
                *unread,
                *without_effect,
            ),
            problems=(*self._find_setting_problems({case.target.name: case.target for case in cases}), *problems),
            whole_sets=frozenset(whole),
            selections=tuple(selections),
            models=self._plan_models(options),
        )
        return plan, problems, unread

    def plan_recorded(
        self,
        path: Path | str,
        options: RunOptions,
        *,
        expected: Path | None,
        columns: Mapping[str, str] | None,
        config: EvalConfig | None,
    ) -> Plan:
        """Plan to judge a dataset, or recorded sessions against the `expected` eval set; both may have quarantines.

        `path` may be an address; `columns` maps the columns of the dataset (see `read_dataset`). `config` replaces the
        configuration file of the options, which replaces the one beside or above the expected set or the dataset.
        Raises PlanError and StoreError.
        """
        file = None
        if config is None:
            judged = path if expected is None else expected
            file = options.config
            if file is None and isinstance(judged, Path) and not is_pipe(judged):
                file = find_criteria_file(judged, None, root=self._project.root)
            config = self.read_config(file)
        recorded = read_recorded(path, expected=expected, columns=columns)
        # Functions of the user are imported from the project of the criteria that name them.
        functions = self._project.root if file is None else find_root(file.parent)
        target = make_recorded_target(recorded.path, root=self._project.root, functions=functions)
        plan = self.plan_rows(recorded, options, target=target, config=config)
        check_columns(recorded, config, mapping="`--columns COLUMN=NAME`")
        notices = self._build_notices({target.name: config})
        if not any(case.has_case for case in plan.cases):
            notices += (
                f"{shown_path(recorded.path)}: no expected sessions are given; metrics that need them have no score",
            )
        return _add_row_quarantines(replace(plan, notices=notices), recorded, expected)

    def plan_rows(self, recorded: Recorded, options: RunOptions, *, target: Target, config: EvalConfig) -> Plan:
        """Plan to judge recorded rows, or the answers of the target's agent if it has one. Raises PlanError."""
        criteria = self._prepare(config)
        with pause_gc():
            cases = tuple(plan_recordings(recorded, name=target.name, target=target, criteria=criteria))
        if not cases:
            raise PlanError(f"{shown_path(recorded.path)}: nothing to judge: it has no rows")
        self._refuse_unknown_inputs(criteria.config, cases)
        return Plan(
            root=self._project.root,
            cases=add_baselines(cases, self._open_history, before=options.judges_again),
            limits=resolve_limits(self._loaded.settings, options).model_copy(update={"runs": 1}),
            options=options,
            problems=recorded.problems,
        )

    def _find_setting_problems(self, targets: Mapping[str, Target]) -> Iterator[str]:
        """Yield problems in the settings that may change a verdict: unknown keys, missing files."""
        yield from self._loaded.problems
        yield from self._project.unusable.values()
        for target in self._project.targets.values():
            if target.name not in targets and not target.path.is_dir():  # its sets may now belong to another agent
                yield from find_missing_files(target)
        for target in targets.values():
            yield from find_missing_files(target)
            wrong = find_table_error(target)
            if wrong is not None:
                yield self._loaded.add_location(("targets", target.name, target.kind.value), wrong)
            is_missing = target.scripted_models is not None and not target.scripted_models.is_file()  # already reported
            if not is_missing and (problem := check_script(target)) is not None:
                yield problem

    def _prepare_configs(
        self, entries: Mapping[str, EvalSetEntry], options: RunOptions, *, given: EvalConfig | None
    ) -> tuple[dict[str, PreparedCriteria], list[str]]:
        """Prepare the criteria of each set; also return what is wrong with the files that cannot be used."""
        if given is not None:
            return dict.fromkeys(entries, self._prepare(given)), []
        read: dict[str, PreparedCriteria | None] = {}
        configs: dict[str, PreparedCriteria] = {}
        problems: list[str] = []
        for name, entry in entries.items():
            path = options.config or entry.config
            key = str(path)
            if key not in read:
                try:
                    read[key] = self._prepare(self.read_config(path))
                except PlanError as error:
                    read[key] = None
                    problems += error.problems
            found = read[key]
            if found is not None:
                configs[name] = found
        return configs, problems

    def read_config(self, path: Path | None) -> EvalConfig:
        """Read the criteria in a file; without one, the defaults of ADK. Raises PlanError."""
        if path is None:
            return default_config()
        try:
            loaded = read_json(path)
            config = parse_config(loaded)
        except StoreError as error:
            raise PlanError(str(error)) from error
        self._config_files[config.source] = loaded
        return config

    def _locate(self, config: EvalConfig, place: str) -> str:
        """Return the file of a place in a config, with line and column if they are known."""
        loaded = self._config_files.get(config.source)
        if loaded is None:
            return config.source
        line, column = loaded.position(parse_place(place))
        return f"{config.source}:{line}:{column}"

    def _prepare(self, config: EvalConfig) -> PreparedCriteria:
        """Complete a config with the models of the settings and prepare its criteria. Raises PlanError."""
        criteria = prepare(complete_config(config, self._loaded.settings))
        problems = [f"{self._locate(config, each.place)}: {each}" for each in find_config_problems(criteria)]
        if problems:
            raise PlanError(*problems)
        return criteria

    def _refuse_unknown_inputs(self, config: EvalConfig, cases: Sequence[PlannedCase]) -> None:
        """Raise PlanError if a judge metric needs inputs that these cases do not have."""
        if not config.judge_metrics or not cases:
            return
        columns = {name for case in cases for name in case.columns}
        problems = [f"{self._locate(config, problem.place)}: {problem}" for problem in check_inputs(config, columns)]
        if problems:
            raise PlanError(*problems)

    def _find_config_errors(self, sources: Set[str]) -> Iterator[str]:
        """Yield errors in configurations that ADK would refuse and this program accepts."""
        for source in sorted(sources & self._config_files.keys()):
            errors = check_config(self._config_files[source])
            yield from format_problems(problem for problem in errors if problem.severity == "error")

    def _build_notices(self, configs: Mapping[str, EvalConfig]) -> tuple[str, ...]:
        assumed = sorted(name for name, config in configs.items() if config.is_default)
        files = (entry.config for name in configs if (entry := self._entries.get(name)) is not None)
        used = {file.parent: file.name for file in files if file is not None and file.name in CRITERIA_FILES}
        shadowed = tuple(
            f"{shown_path(file)} judges nothing: {used[file.parent]} beside it comes first"
            for file in self._project.unused_criteria
            if file.parent in used
        )
        generous = shadowed + tuple(
            f"{self._locate(config, place)}: {place}: {criterion.threshold:g} is below every possible score (lowest: "
            f"{lowest:g}), so every case passes"
            for config in {id(config): config for config in configs.values()}.values()
            for criterion, lowest in find_useless_thresholds(config)
            for place in (f"criteria.{criterion.metric}.threshold",)
        )
        if not assumed:
            return generous
        criteria = ", ".join(f"{c.metric} >= {c.threshold}" for c in default_config().criteria)
        usual = {path for name in assumed if (path := self._find_usual_criteria(name)) is not None}
        taken = f"; `workbench run` takes {join_some(sorted(map(shown_path, usual)), 3)}" if usual else ""
        text = f"{join_some(assumed, 3)}: no criteria are configured; using the default ones: {criteria}{taken}"
        return (text, *generous)

    def _find_usual_criteria(self, name: str) -> Path | None:
        """Return the criteria file that a run takes for a set that has none by the rule of ADK."""
        entry = self._entries.get(name)
        if entry is None or entry.config is not None:
            return None
        return find_criteria_file(entry.path, None, root=self._project.root)

    def _plan_tools(self, names: Iterable[str], options: RunOptions) -> dict[str, ToolPlan | None]:
        """Plan the tools of each set's agent. Raises PlanError with all problems."""
        planned: dict[str | None, ToolPlan | None] = {None: None}
        entries = {name: self._entries[name].target for name in names}
        planner = ToolPlanner(options, model=self._loaded.settings.simulation.model)
        for target in dict.fromkeys(entries.values()):
            if target is not None:
                planned[target] = planner.plan(self._project.targets[target])
        if planner.problems:
            raise PlanError(*dict.fromkeys(planner.problems))
        return {name: planned[target] for name, target in entries.items()}

    def _plan_models(self, options: RunOptions) -> ModelPlan | None:
        """Plan the model calls of agents; None if nothing is recorded or replayed. Raises PlanError."""
        settings = self._loaded.settings.replay
        mode = ModelMode(options.models or settings.models or options.models_by_default)
        if options.replay is not None and options.models is None:
            mode = ModelMode.REPLAY
        if options.record is not None and options.models is None:
            mode = ModelMode.LIVE
        if options.fresh:
            mode = ModelMode.AUTO
        if mode is ModelMode.LIVE and options.record is None:
            return None
        try:
            replay = None if options.replay is None else Recording(options.replay)
            if options.record is not None and options.record.exists():
                Recording(options.record)  # another file must not be overwritten
        except StoreError as error:
            raise PlanError(str(error)) from None
        rules = RequestRules(volatile_fields=settings.volatile_fields, volatile_texts=settings.volatile_texts)
        return ModelPlan(
            mode=mode,
            rules=rules,
            endpoints=settings.endpoints,
            replay=replay,
            record=options.record,
            fresh=options.fresh,
            prices=build_prices(self._loaded.settings.judge),
        )

    def _plan_set(
        self, entry: EvalSetEntry, ids: frozenset[str] | None, criteria: PreparedCriteria, tools: ToolPlan | None
    ) -> Iterator[PlannedCase]:
        target = self._get_target(entry)
        if target.kind is AgentKind.RECORDED:
            recorded = self._recorded(entry.relative)
            chosen = _choose_cases(ids, recorded.cases, name=entry.relative)
            mapping = f'`columns = {{COLUMN = "NAME"}}` of a recorded target in {FILE_NAME}'
            check_columns(recorded, criteria.config, mapping=mapping)
            yield from plan_recordings(recorded, name=entry.relative, target=target, criteria=criteria, chosen=chosen)
            return
        document = self._open_document(entry.relative)
        context = SetContext(eval_set_id=document.eval_set_id, target=target, criteria=criteria, tools=tools)
        for item in _choose_entries(ids, document, name=entry.relative):
            key = CaseKey(target=target.name, eval_set=entry.relative, eval_id=item.eval_id, occurrence=item.occurrence)
            case, problem = _read_case(document, item.index, name=entry.relative, config=criteria.config)
            count = len(document.case_index.find(item.eval_id))
            if count > 1:
                shown = shorten(repr(item.eval_id), 300)
                message = f"duplicate eval_id {shown} ({count} times); make it unique"
                problem = Failure(kind=FailureKind.FILE, message=f"{entry.relative}: {message}")
            yield context.plan_case(key, case, problem=problem, remake=document.lazy_case(item.index))

    def _find_set_errors(self, name: str, planned: Sequence[PlannedCase]) -> Sequence[str]:
        """Return errors in the file of a set, without those that stop cases: their results report these."""
        if self._is_recorded(self._entries[name]):
            return self._recorded(name).problems
        document = self._open_document(name)
        errors = [error for error in document.errors if not error.stops_case]
        if not errors:
            return ()
        chosen = {(case.key.eval_id, case.key.occurrence) for case in planned}
        indexes = {item.index for item in document.entries if (item.eval_id, item.occurrence) in chosen}
        return format_problems(error for error in errors if error.case is None or error.case in indexes)

    def _read_quarantines(self, name: str) -> Quarantines:
        """Read the quarantines of a set; remote ones have none."""
        entry = self._entries[name]
        if entry.address is not None:
            return Quarantines({})
        document = None if self._is_recorded(entry) else self._open_document(name)
        return read_quarantines(self._project.root / name, cases_of=self.cases_by_name(name), document=document)

    @property
    def root(self) -> Path:
        return self._project.root

    @property
    def eval_sets(self) -> frozenset[str]:
        return frozenset(self._entries)

    def cases_by_name(self, eval_set: str) -> Mapping[str, Set[CaseInSet]]:
        """Map the possible names of cases to the cases of a set. Raises PlanError and StoreError."""
        entry = self._entries.get(eval_set)
        if entry is not None and self._is_recorded(entry):
            return _index_by_name(self._recorded(eval_set).cases)
        return _index_by_name(self._open_document(eval_set).entries)

    def _is_recorded(self, entry: EvalSetEntry) -> bool:
        return entry.target is not None and self._project.targets[entry.target].kind is AgentKind.RECORDED

    def _get_target(self, entry: EvalSetEntry) -> Target:
        if entry.target is None:
            reason = entry.unpaired_reason or "no agent belongs to it"
            raise PlanError(f"{entry.relative}: {reason}")
        return self._project.targets[entry.target]

    def _describe_unknown_set(self, name: str) -> str:
        if kind := find_special_kind(self._project.root / name):
            return f"{name}: found {kind}, expected a file"
        return f"{name}: no such eval set in {self._project.root}{suggest_name(name, self._entries)}"


def _describe_tools(cases: Iterable[PlannedCase]) -> Iterator[str]:
    plans = {case.target.name: case.tools for case in cases if case.tools is not None}
    for target, plan in plans.items():
        if plan.notice is not None:
            yield f"{target}: {plan.notice}"


def _merge_selections(selections: Sequence[Selection]) -> dict[str, frozenset[str] | None]:
    merged: dict[str, frozenset[str] | None] = {}
    for selection in selections:
        ids = None if selection.cases is None else frozenset(selection.cases)
        known = merged.get(selection.eval_set, frozenset())
        merged[selection.eval_set] = None if ids is None or known is None else known | ids
    return merged


def _drop_unscorable_scenarios(
    cases: Sequence[PlannedCase], config: EvalConfig, *, name: str
) -> tuple[list[PlannedCase], Sequence[str]]:
    """Drop the scenarios if no criterion can judge them, because playing them would be useless; also say why."""
    scenarios = [case for case in cases if case.scenario is not None]
    why = explain_unscorable_scenarios(config) if scenarios else None
    if why is None:
        return list(cases), ()
    refused = {case.key for case in scenarios}
    return [case for case in cases if case.key not in refused], [
        f"{name}: {pluralise(len(refused), 'scenario')}: {why}"
    ]


def _report_scripted_models(cases: Iterable[PlannedCase]) -> Iterator[str]:
    """Yield a notice for each model without an API key that a script replaces."""
    asked: dict[tuple[str, str], PlannedCase] = {}  # one notice for each target and model
    for case in cases:
        if case.target.scripted_models is None:
            continue
        models = [*case.criteria.judge_models]
        if case.scenario is not None:
            models.append(get_user_options(case.config).model)
        for model in models:
            asked.setdefault((case.target.name, model), case)
    for (name, model), case in asked.items():
        if case.target.scripted_models is not None and is_scripted(case.target, model):
            script = case.target.scripted_models.name
            yield f"{name}: no API key for {model}; using scripted replies from {script}"


def _read_case(
    document: EvalSetDocument, index: int, *, name: str, config: EvalConfig
) -> tuple[EvalCase | None, Failure | None]:
    try:
        case = document.case(index)
    except StoreError as error:
        return None, Failure(kind=FailureKind.FILE, message=error.format_with_name(name))
    if case.conversation_scenario is not None:
        problem = check_scenario(case.conversation_scenario, get_user_options(config))
        if problem is not None:
            return case, Failure(kind=FailureKind.FILE, message=f"{name}: {case.eval_id}: {problem}")
    return case, None


def add_quarantines(cases: Sequence[PlannedCase], quarantines: Mapping[str, Quarantine]) -> Sequence[PlannedCase]:
    """Return the cases of a set with their quarantines, by the names of cases."""
    if not quarantines:
        return cases
    return [
        case if (found := quarantines.get(case.key.name)) is None else replace(case, quarantine=found) for case in cases
    ]


def _add_row_quarantines(plan: Plan, recorded: Recorded, expected: Path | None) -> Plan:
    """Return a plan for rows with the quarantines beside the dataset, and those beside the expected eval set.

    An entry beside the dataset takes precedence.
    """
    cases, problems, notices = plan.cases, [*plan.problems], [*plan.notices]
    known = _index_by_name(recorded.cases)
    for path in (expected, recorded.path):
        if isinstance(path, Path):
            found = read_quarantines(path, cases_of=None if path is expected else known)
            problems += map(str, found.problems)
            notices += found.describe_stale(shown_path(path), found.cases if path is expected else known)
            cases = tuple(add_quarantines(cases, found.cases))
    return replace(plan, cases=cases, problems=tuple(problems), notices=tuple(notices))


def _index_by_name(cases: Iterable[CaseEntry | RecordedCase]) -> Mapping[str, Set[CaseInSet]]:
    return group_cases_by_name((item.eval_id, item.occurrence) for item in cases)


def _choose_entries(names: frozenset[str] | None, document: EvalSetDocument, *, name: str) -> Sequence[CaseEntry]:
    """Return the entries of a document with these names, None for all, in the order of the file. Raises PlanError."""
    if names is None:
        return document.entries
    found = {each: document.case_index.find(each) for each in names}
    if not all(found.values()):
        try:
            _choose_cases(names, document.entries, name=name)  # raises PlanError with a suggestion
        except PlanError as error:  # what is wrong with the file may be why the case was not found
            lost = (problem for problem in document.errors if not problem.stops_case and problem.case is None)
            raise PlanError(*error.problems, *format_problems(lost)) from None
    chosen = {item.index: item for items in found.values() for item in items}
    return [chosen[index] for index in sorted(chosen)]


def _choose_cases(
    names: frozenset[str] | None, cases: Iterable[CaseEntry | RecordedCase], *, name: str
) -> frozenset[CaseInSet] | None:
    """Return the cases with these names, None for all. Raises PlanError for names unknown in the set `name`."""
    if names is None:
        return None
    known = _index_by_name(cases)
    missing = names.difference(known)
    if missing:
        raise PlanError(*(f"{name}: no eval case {each!r}{suggest_name(each, known)}" for each in sorted(missing)))
    return frozenset(case for each in names for case in known[each])
