"""Plans what happens with calls of tools: what targets and options say, read and held against each other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from workbench.engine.plan import PlanError, RunOptions
from workbench.engine.users import is_scripted
from workbench.llm.configuration import unknown_keys
from workbench.llm.requests import Ask
from workbench.model.environment import Environment
from workbench.model.keys import CaseKey, JobKey
from workbench.model.target import AgentKind, Target
from workbench.simulation.tools.desk import CaseTools
from workbench.simulation.tools.plan import ToolPlan
from workbench.simulation.tools.recording import ToolRecording
from workbench.store.documents import load_environment
from workbench.store.errors import StoreError, shown_path
from workbench.store.settings import FILE_NAME


class ToolPlanner:
    """Makes the plans of all targets of a run. What is wrong is in `problems`; the plans must not be used then."""

    def __init__(self, options: RunOptions, *, model: str) -> None:
        """`model` answers where a file names none."""
        self._options = options
        self._model = model
        self._environments: dict[Path, Environment | None] = {}
        self.problems: list[str] = []
        self._replay = None if options.replay_tools is None else self._read_recording(options.replay_tools)
        if options.record_tools is not None:
            self._check_record(options.record_tools)

    def plan(self, target: Target) -> ToolPlan | None:
        """The plan for one target; None where its tools are simply called."""
        options = self._options
        path = options.simulate_tools or target.simulate_tools
        if (path or options.replay_tools or options.record_tools) is None or target.kind is AgentKind.RECORDED:
            return None
        if not target.runs_in_worker:
            self.problems.append(
                f"{target.name}: the tools of an agent of kind {target.kind.value} run where workbench does not see "
                "them: they can be neither simulated nor recorded nor replayed"
            )
            return None
        functions = self._functions(target)
        environment = None if path is None else self._environment(path)
        named = functions or environment is not None or (self._replay is not None and self._replay.tools)
        if options.record_tools is not None and target.kind is AgentKind.FUNCTION and not named:
            self.problems.append(
                f"{FILE_NAME}: targets.{target.name}.tools: found nothing, expected the functions that are tools "
                '(["module:function"]): nothing else says which calls are to be recorded'
            )
        return ToolPlan(
            environment=environment,
            replay=self._replay,
            unrecorded=options.unrecorded,
            record=options.record_tools,
            functions=functions,
            files=tuple(Path(file).resolve() for file in (path, options.replay_tools) if file is not None),
            scripted=environment is not None and environment.asks_model and is_scripted(target, environment.model),
        )

    def _functions(self, target: Target) -> dict[str, str]:
        """Where the tools of a function agent are, by their names."""
        found: dict[str, str] = {}
        for place in target.tools:
            name = place.rpartition(":")[2].rpartition(".")[2]
            if found.setdefault(name, place) != place:
                self.problems.append(
                    f"{FILE_NAME}: targets.{target.name}.tools: found {found[name]!r} and {place!r}, expected one tool "
                    f"called {name}: calls of the two could not be told apart"
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
        unknown = unknown_keys(environment.configuration, model=environment.model or self._model, place=place)
        self.problems += (f"{environment.source}: {problem}" for problem in unknown)
        return environment if environment.model else environment.model_copy(update={"model": self._model})

    def _read_recording(self, path: Path) -> ToolRecording | None:
        try:
            return ToolRecording.read(path)
        except StoreError as error:
            self.problems.append(str(error))
            return None

    def _check_record(self, path: Path) -> None:
        """A file that is something else must not be written to."""
        if path.exists():
            self._read_recording(path)
        elif not path.parent.is_dir():
            self.problems.append(f"{shown_path(path)}: there is no folder {shown_path(path.parent)}")


def tools_outside_runs(target: Target, *, model: str, ask: Ask) -> CaseTools | None:
    """What answers for a target's simulated tools where there is no case, with a state of its own. Raises PlanError."""
    planner = ToolPlanner(RunOptions(), model=model)
    plan = planner.plan(target)
    if planner.problems:
        raise PlanError(*planner.problems)
    nowhere = JobKey(case=CaseKey(target=target.name, eval_set="", eval_id=""))
    return None if plan is None else CaseTools(plan, nowhere, ask=ask)


def problems_of_tools(targets: Iterable[Target]) -> Sequence[str]:
    """What is wrong with the files that say which tools are simulated."""
    planner = ToolPlanner(RunOptions(), model="")
    for target in targets:
        planner.plan(target)
    return tuple(dict.fromkeys(planner.problems))
