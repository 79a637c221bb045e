"""The workspace: one open project, as all front ends use it."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

from workbench.agents.agent_host import ToolResponder
from workbench.agents.installed_libraries import InstalledLibraries
from workbench.engine.acceptance import Acceptances
from workbench.engine.chat_session import Chat, ChatBranch, ChatError, start_chat
from workbench.engine.earlier_runs import (
    FormerNames,
    find_run_to_resume,
    get_replay_file,
    get_selections,
    make_judging_options,
    plan_judging,
    plan_rescoring,
    restore_options,
    resume_plan,
)
from workbench.engine.open_documents import OpenDocuments, Renames
from workbench.engine.plan import Plan, PlanError, RunOptions, Selection, mask_secrets, resolve_limits
from workbench.engine.plan_cost import EarlierJobs, PlanCost, build_prices, estimate_cost
from workbench.engine.planner import Planner, create_standalone_tools, find_tool_problems
from workbench.engine.recorded_data import Recordings
from workbench.engine.run import Holds, Run
from workbench.engine.run_resources import Resources, find_agents, open_standalone_ask
from workbench.engine.runner import OpenHost, start_run
from workbench.engine.shards import get_shard, take_shard
from workbench.engine.verdict_index import StoredVerdicts, Verdicts
from workbench.model.criteria import EvalConfig
from workbench.model.evalset import ConversationScenario, EvalCase, ScenarioRequest, SessionInput
from workbench.model.identity import CaseInSet, CaseKey, JobKey
from workbench.model.results import CaseResult, Execution
from workbench.model.target import AgentDescription, ModelMode, Target
from workbench.model.text import suggest_name
from workbench.simulation.model_requests import RequestRules
from workbench.simulation.replayed_models import CaseModels, ModelPlan, hash_calls
from workbench.store.datasets.dataset_files import Recorded
from workbench.store.errors import StoreError
from workbench.store.evalsets.evalset_document import EvalSetDocument
from workbench.store.evalsets.recovery import TypedTexts
from workbench.store.files import find_root, real_path, remove_leftovers
from workbench.store.history.history import History
from workbench.store.history.history_queries import StoredJob, StoredRun
from workbench.store.history.history_schema import get_history_path
from workbench.store.model_answers import (
    RECORDINGS,
    CallKind,
    RecordedModelCall,
    RecordedModels,
    Recording,
    RecordingStore,
)
from workbench.store.project_discovery import Project, discover
from workbench.store.settings import LoadedSettings, Settings, load_settings

if TYPE_CHECKING:
    from concurrent.futures import Future

    from workbench.agents.agent_host import AgentHost
    from workbench.engine.scenario_generation import AskOptions, Generation


class Workspace:
    """One project: its settings, targets, eval sets, history and runs.

    Opening is cheap: processes, threads and the history are opened by the first run. Agents stay warm between runs
    until `close`, which ends all processes.
    """

    def __init__(
        self,
        project: Project,
        loaded: LoadedSettings,
        *,
        narrow: Callable[[Project], Project] = lambda project: project,
        resources: Resources | None = None,
    ) -> None:
        """`narrow` restricts a refreshed project to the part that this workspace shows. The workspace takes over
        `resources`, which may have started already."""
        self._project = project
        remove_leftovers(_list_written_folders(project))
        mask_secrets(project.targets.values())
        self._narrow = narrow
        self._loaded = loaded
        self.recordings = Recordings(lambda: self._project)
        """The recorded sessions and dataset rows of recorded targets."""
        self._recorded = self.recordings.fetch
        self.documents = OpenDocuments(
            project.root, is_dataset=self.recordings.is_dataset, note_renames=self._store_renames
        )
        """The open eval sets, with unsaved edits."""
        self.typed_texts = TypedTexts(project.root)
        """Typed texts that are not applied yet. They survive a crash."""
        self.acceptances = Acceptances(self)
        """Accepts executions as expectations."""
        self._documents_lock = threading.Lock()
        self._resources = resources or Resources(project.root)
        self._runs: list[Run] = []
        self._chats: list[Chat] = []
        self._generations: list[Generation] = []
        self._verdicts = StoredVerdicts(project.root)

    @classmethod
    def open(cls, path: Path) -> Workspace:
        """Open the project around a path. Raises StoreError if its settings cannot be read."""
        path = real_path(path)
        if not path.exists():
            raise StoreError(path, "there is no such file or folder")
        loaded = load_settings(find_root(path))
        return cls(discover(path, loaded), loaded)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def root(self) -> Path:
        """The folder of the project, to which the names of eval sets are relative."""
        return self._project.root

    @property
    def project(self) -> Project:
        return self._project

    @property
    def settings(self) -> Settings:
        return self._loaded.settings

    @property
    def problems(self) -> tuple[str, ...]:
        return (*self._loaded.problems, *self._project.problems)

    def stay_offline(self, is_offline: bool = True) -> None:
        """Do not fetch datasets from addresses for plans; plans then have a notice instead of the rows."""
        self._recorded = self.recordings.read if is_offline else self.recordings.fetch

    def find_tool_problems(self) -> Sequence[str]:
        return find_tool_problems(self._project.targets.values())

    def refresh(self) -> None:
        """Read the settings again and discover the project again."""
        self._loaded = load_settings(self.root)
        # Keep the root: its marker file may be missing for a moment.
        self._project = self._narrow(discover(self.root, self._loaded, root=self.root))
        mask_secrets(self._project.targets.values())

    def document(self, relative: str) -> EvalSetDocument:
        """Return an eval set with its unsaved edits, or as on disk now. Raises StoreError."""
        with self._documents_lock:
            return self.documents.document_on_disk(relative)

    def plan(self, selections: Sequence[Selection], options: RunOptions, *, config: EvalConfig | None = None) -> Plan:
        """Plan a run of these cases; without selections, of the cases of the run to resume.

        `config` replaces every configuration file. Raises PlanError, and StoreError if the history of the run to resume
        cannot be read.
        """
        if options.resume is None:
            return self._planner().plan(selections, options, config=config)
        with self.history() as history:
            wanted = {selection.eval_set for selection in selections}
            run = find_run_to_resume(history, options.resume, eval_sets=wanted)
            planned = self._planner().plan(
                selections or get_selections(run), restore_options(options, run), config=config
            )
            resumed = resume_plan(planned, history, run, rejects_replays=options.rejects_replays)
            return replace(resumed, shard=get_shard(run))

    def take_shard(self, plan: Plan, number: int, count: int) -> Plan:
        """Return a shard of a plan, split by the durations in the history; see `take_shard`. Raises StoreError."""
        history = self._open_history()
        if history is None:
            return take_shard(plan, number, count, {})
        with history:
            return take_shard(plan, number, count, history.compute_durations())

    def start_interpreters(self, selections: Sequence[Selection], options: RunOptions) -> None:
        """Start the interpreters for these cases while the plan is made. Planning reports problems.

        See `Resources.start_interpreters`.
        """
        with contextlib.suppress(PlanError):
            agents = find_agents(self._project, selections)
            self._resources.start_interpreters(agents, resolve_limits(self.settings, options))

    def plan_documents(
        self,
        project: Project,
        documents: Mapping[str, EvalSetDocument],
        options: RunOptions,
        *,
        config: EvalConfig | None = None,
    ) -> Plan:
        """Plan all cases of these documents, which need not be on disk.

        `documents` are by name. `project` has their targets and criteria and may be another than the open one. `config`
        replaces every configuration file. Raises PlanError.
        """
        mask_secrets(project.targets.values())
        planner = Planner(
            project,
            self._loaded,
            open_document=documents.__getitem__,
            open_history=self._open_history,
            recorded=Recordings(lambda: project).fetch,
        )
        return planner.plan([Selection(eval_set=name) for name in documents], options, config=config)

    def plan_existing_cases(self, selections: Sequence[Selection], options: RunOptions) -> Plan:
        """Plan these cases as saved. There may be none, as cases may be added later. Raises PlanError."""
        return self._planner(open_document=self._open_saved_document).plan_existing_cases(selections, options)

    def cases_by_name(self, eval_set: str) -> Mapping[str, Set[CaseInSet]]:
        """Map the possible names of cases to the cases of a set. Raises PlanError and StoreError."""
        return self._planner().cases_by_name(eval_set)

    def find_former_names(self, history: History, cases: Sequence[CaseKey]) -> dict[CaseKey, list[CaseKey]]:
        """Return under which names cases of one set ran before they were renamed, the newest first.

        Cases without such names, or that cannot be planned, are left out. Raises StoreError for the history.
        """
        target, eval_set = cases[0].target, cases[0].eval_set
        used = history.list_used_names(target, eval_set)
        try:
            listed = {(entry.eval_id, entry.occurrence) for entry in self.document(eval_set).entries}
            gone = [name for name in used if (name.eval_id, name.occurrence) not in listed]
            if not gone:
                return {}
            ids = tuple(dict.fromkeys(case.eval_id for case in cases))
            plan = self.plan([Selection(eval_set=eval_set, cases=ids)], RunOptions())
        except (PlanError, StoreError):  # the set is a dataset or invalid, or a case was deleted
            return {}
        names, wanted = FormerNames(used, gone, history.get_renames(eval_set)), set(cases)
        found = {
            planned.key: names.find(planned.key, (planned.execution_hash, planned.scoring_hash))
            for planned in plan.cases
            if planned.key in wanted
        }
        return {key: former for key, former in found.items() if former}

    def _store_renames(self, eval_set: str, renames: Renames) -> None:
        """Store that cases were renamed, so that their results are found although their inputs changed as well."""
        if get_history_path(self.root).exists():
            with contextlib.suppress(StoreError), self.history() as history:  # without it, only equal inputs are found
                history.store_renames(eval_set, renames)

    def find_renamed_jobs(
        self, history: History, latest: Mapping[CaseKey, Sequence[StoredJob]]
    ) -> dict[CaseKey, Sequence[StoredJob]]:
        """Return the latest jobs of cases that did not run since they were renamed. Raises StoreError."""
        ran: dict[tuple[str, str], set[tuple[str, int]]] = {}
        for key in latest:
            ran.setdefault((key.target, key.eval_set), set()).add((key.eval_id, key.occurrence))
        found: dict[CaseKey, Sequence[StoredJob]] = {}
        for (target, eval_set), names in ran.items():
            try:
                entries = self.document(eval_set).entries
            except StoreError:  # a dataset, or a set that was deleted or is invalid
                continue
            listed = {(entry.eval_id, entry.occurrence) for entry in entries}
            new = [CaseKey(target=target, eval_set=eval_set, eval_id=i, occurrence=n) for i, n in listed - names]
            if new and names - listed:
                for key, former in self.find_former_names(history, new).items():
                    found[key] = next((latest[name] for name in former if name in latest), ())
        return {key: jobs for key, jobs in found.items() if jobs}

    def estimate(self, plan: Plan) -> PlanCost:
        """Estimate the cost of a plan from earlier runs; an unreadable history is ignored."""
        recorded, prices = self._list_recorded_jobs(plan), build_prices(self.settings.judge)
        if not get_history_path(self.root).exists():
            # Opening the history would create the file, and planning must not write.
            return estimate_cost(plan, recorded=recorded, prices=prices)
        try:
            with self.history() as history:
                earlier = EarlierJobs(
                    live=history.latest_jobs_by_source(is_replayed=False),
                    replayed=history.latest_jobs_by_source(is_replayed=True),
                )
                return estimate_cost(
                    plan,
                    earlier=earlier,
                    read_result=lambda job: history.result(job.run_id, job.key),
                    recorded=recorded,
                    prices=prices,
                )
        except StoreError:  # the run itself will report it
            return estimate_cost(plan, recorded=recorded, prices=prices)

    def _list_recorded_jobs(self, plan: Plan) -> Collection[JobKey] | None:
        """List the jobs whose model calls a run of the plan replays; None if it replays nothing."""
        models = plan.models
        if models is None or models.mode is ModelMode.LIVE or models.fresh:
            return None
        if models.replay is not None:
            return {name.job for name in models.replay.blocks if name.part is CallKind.MODELS and name.job is not None}
        if not (get_history_path(self.root).parent / RECORDINGS).exists():
            return ()
        try:
            with contextlib.closing(RecordingStore(self.root)) as store:
                return store.list_jobs()
        except StoreError:  # the run itself will report it
            return ()

    def plan_recorded(
        self,
        path: Path | str,
        options: RunOptions,
        *,
        expected: Path | None = None,
        columns: Mapping[str, str] | None = None,
        config: EvalConfig | None = None,
    ) -> Plan:
        """Plan to judge a dataset; no agent runs. See `Planner.plan_recorded`. Raises PlanError and StoreError."""
        return self._planner().plan_recorded(path, options, expected=expected, columns=columns, config=config)

    def plan_rows(self, recorded: Recorded, options: RunOptions, *, target: Target, config: EvalConfig) -> Plan:
        """Plan to judge rows, after a run of the target's agent if it has one. See `Planner.plan_rows`."""
        return self._planner().plan_rows(recorded, options, target=target, config=config)

    def plan_rescoring(
        self,
        results: Sequence[CaseResult],
        *,
        judged: Mapping[CaseKey, EvalCase],
        criteria: Mapping[str, EvalConfig],
    ) -> Plan:
        """Plan to score these results by the current cases and criteria; no agent runs. See `plan_rescoring`.

        Raises PlanError.
        """
        return plan_rescoring(self._planner(), results, judged=judged, criteria=criteria)

    def plan_judging(
        self, run: StoredRun, results: Sequence[CaseResult], options: RunOptions, *, time: int = 1
    ) -> Plan:
        """Plan a new judgement of these results of a run, number `time`; no agent runs.

        Raises PlanError and StoreError.
        """
        return plan_judging(self._planner(), run, results, make_judging_options(run, options, time=time))

    def _open_saved_document(self, relative: str) -> EvalSetDocument:
        with self._documents_lock:
            return self.documents.saved_document(relative)

    def _planner(self, open_document: Callable[[str], EvalSetDocument] | None = None) -> Planner:
        return Planner(
            self._project,
            self._loaded,
            open_document=open_document or self.document,
            open_history=self._open_history,
            recorded=self._recorded,
        )

    def _open_history(self) -> History | None:
        """Open the history if its file exists: planning must not create it."""
        return self.history() if get_history_path(self.root).exists() else None

    def start(self, plan: Plan, *, holds: Holds = Holds.EVERYTHING, host: OpenHost | None = None) -> Run:
        """Start a run of a plan. It runs with or without listeners.

        `host` opens what runs agents and metric functions instead of processes of this workspace. Raises
        StoreError if the file of model calls cannot be used.
        """
        run = start_run(
            plan,
            holds=holds,
            host=host,
            root=self.root,
            judge=self.settings.judge,
            resources=self._resources,
            verdicts=self._verdicts,
        )
        self._runs = [
            *(other for other in self._runs if not other.is_over),
            run,
        ]  # runs hold their results: drop finished ones
        return run

    def prepare_agents(self, plan: Plan) -> None:
        """Import the agents of a plan in advance, so that its runs start at once. Returns before that is done."""
        self._resources.thread.call(self._resources.prepare_text, plan)
        self._resources.thread.call(self._resources.hosts.warm, plan)

    def chat(self, target: str, *, session_input: SessionInput | None = None, branch: ChatBranch | None = None) -> Chat:
        """Open a manual chat with the agent of a target, which may begin with a branch. Raises ChatError."""
        found = self._project.targets.get(target)
        if found is None:
            raise ChatError(f"there is no target {target!r}{suggest_name(target, self._project.targets)}")
        chat = start_chat(
            found,
            session_input or SessionInput(),
            hosts=self._resources.hosts,
            settings=self.settings.run,
            thread=self._resources.thread,
            tools=self._create_chat_tools(found, branch),
            models=self._create_chat_models(found, branch),
            branch=branch,
        )
        self._chats = [*(other for other in self._chats if not other.is_over), chat]
        return chat

    def list_tools(self, target: str) -> frozenset[str]:
        """List the names of an agent's tools, from a description by its process. Blocking.

        Raises PlanError if there is no such target or its tools are unknown.
        """
        from workbench.engine.scenario_generation import NotDescribed, list_tools

        try:
            return list_tools(self.describe_agent(target))
        except NotDescribed as error:
            raise PlanError(str(error)) from error

    def describe_agent(self, target: str) -> AgentDescription:
        """Describe an agent by its process, without a run. Blocking.

        Raises PlanError if there is no such target or the agent cannot be described.
        """
        return self.start_describing(target).result()

    def start_describing(self, target: str) -> Future[AgentDescription]:
        """Begin to describe an agent. Any thread may wait for the result, and cancel it.

        It raises PlanError as `describe_agent` does, and CancelledError also if this workspace was closed meanwhile.
        """
        found, host = self._find_host(target)
        return self._resources.thread.submit(self._describe(found, host))

    def start_importing(self, target: str) -> Future[list[str]]:
        """Begin to import an agent: describe it, then explain as `AgentHost.explain_imports`. Raises PlanError."""
        from workbench.agents.agent_host import AgentError

        found, host = self._find_host(target)

        async def explain() -> list[str]:
            await self._describe(found, host)
            try:
                return await host.explain_imports()
            except AgentError as error:
                raise PlanError(f"{found.name}: {error.failure.message}") from error

        return self._resources.thread.submit(explain())

    def _find_host(self, target: str) -> tuple[Target, AgentHost]:
        found = self._project.targets.get(target)
        if found is None:
            raise PlanError(f"there is no target {target!r}{suggest_name(target, self._project.targets)}")
        run = self.settings.run
        hosts = self._resources.hosts
        return found, hosts.get_host(found, isolation=run.isolation, concurrency=run.concurrency, ray=run.cluster)

    async def _describe(self, target: Target, host: AgentHost) -> AgentDescription:
        from workbench.engine.scenario_generation import NotDescribed, describe_agent

        try:
            return await describe_agent(target, host, timeout_seconds=self.settings.run.timeout_seconds)
        except NotDescribed as error:
            raise PlanError(str(error)) from error

    def generate(
        self, target: str, wanted: ScenarioRequest, *, known: Sequence[ConversationScenario], options: AskOptions
    ) -> Generation:
        """Let a model write scenarios for the agent of a target. See `start_generation`, also for errors."""
        from workbench.engine.scenario_generation import (
            start_generation,  # imported when the first model is asked
        )

        generation = start_generation(
            self._project.targets,
            target,
            wanted,
            known,
            hosts=self._resources.hosts,
            judges=self._resources.open_judges,
            settings=self.settings,
            options=options,
            thread=self._resources.thread,
        )
        self._generations = [*(other for other in self._generations if not other.done.done()), generation]
        return generation

    def _create_chat_tools(self, target: Target, branch: ChatBranch | None) -> ToolResponder | None:
        """Create the simulated and replayed tools of a chat, with their own state and account. Raises ChatError."""
        ask = open_standalone_ask(target, self.settings.judge, judges=self._resources.open_judges)
        replay = branch.tool_recording if branch is not None and branch.turns and target.runs_in_worker else None
        try:
            return create_standalone_tools(target, model=self.settings.simulation.model, ask=ask, replay=replay)
        except PlanError as error:
            raise ChatError(str(error)) from error

    def _create_chat_models(self, target: Target, branch: ChatBranch | None) -> CaseModels | None:
        """Create what records the model calls of a chat, and replays those of a branch; None for agents elsewhere."""
        settings = self.settings.replay
        if not target.has_recorded_models or (branch is None and settings.models == "live"):
            return None
        plan = ModelPlan(
            mode=ModelMode.AUTO,
            prices=build_prices(self.settings.judge),
            rules=RequestRules(volatile_fields=settings.volatile_fields, volatile_texts=settings.volatile_texts),
            endpoints=settings.endpoints,
            turns=0 if branch is None else len(branch.turns),
        )

        async def read() -> Sequence[RecordedModels]:
            return () if branch is None or branch.models is None else (branch.models,)

        return CaseModels(plan, JobKey(CaseKey(target=target.name, eval_set="", eval_id="")), read)

    def read_model_calls(self, job: JobKey, execution: Execution) -> RecordedModels | None:
        """Read the recorded model calls of an execution; None if they are not recorded, or were replaced since.

        Raises StoreError.
        """
        calls = execution.model_calls
        if calls is None or calls.recording is None:
            return None
        known = itertools.chain(self.iter_stored_calls(job), self._iter_replayed_file(job))
        return next((recorded for recorded in known if hash_calls(recorded.calls) == calls.recording), None)

    def iter_stored_calls(self, job: JobKey) -> Iterator[RecordedModels]:
        """Yield the model calls that the project has of a repeat, the newest first. Raises StoreError."""
        if not (get_history_path(self.root).parent / RECORDINGS).exists():
            return
        with contextlib.closing(RecordingStore(self.root)) as store:
            yield from store.read(job)

    def _iter_replayed_file(self, job: JobKey) -> Iterator[RecordedModels]:
        """Yield the model calls of a repeat in the file that answered its newest run, if it can be read now."""
        history = self._open_history()
        if history is None:
            return
        with history:
            runs = [each.job.run_id for each in history.list_executions(job.case) if each.job.key == job][:1]
            files = [file for run_id in runs if (file := get_replay_file(history.run(run_id))) is not None]
        for file in files:
            with contextlib.suppress(StoreError):
                if (recorded := Recording(file).read(CallKind.MODELS, job, RecordedModelCall)) is not None:
                    yield recorded

    def history(self) -> History:
        """Open the stored results for reading; the caller closes them. Raises StoreError."""
        return History.open(self.root)

    def read_new_verdicts(self) -> bool:
        """Add to `verdicts` those that other processes have stored since. Return True if there are any."""
        return self._verdicts.read_new()

    def look_for_new_verdicts(self) -> bool:
        """As `read_new_verdicts`, but cheap if other processes have stored nothing since the last call."""
        return self._verdicts.look_for_new()

    @property
    def libraries(self) -> InstalledLibraries:
        """The state of the installed libraries that agents use."""
        return self._resources.hosts.libraries

    @property
    def verdicts(self) -> Verdicts:
        """The verdicts that may be current, updated by runs. Raises StoreError if they cannot be read."""
        return self._verdicts.read()

    def close(self) -> None:
        """Stop all runs and chats, and end every process."""
        if self._resources.are_idle:
            return
        for chat in self._chats:
            chat.end()
        for generation in self._generations:
            generation.close()
        for run in self._runs:
            run.close()
        for chat in self._chats:
            chat.close()
        self._generations.clear()
        self._runs.clear()
        self._chats.clear()
        self._resources.close()


def _list_written_folders(project: Project) -> set[Path]:
    """List the folders of the project in which this program saves files."""
    own = project.root / ".workbench"
    sets = {entry.path.parent for entry in project.eval_sets}
    configs = {entry.config.parent for entry in project.eval_sets if entry.config is not None}
    return {real_path(folder) for folder in (project.root, own, own / "recovery", *sets, *configs)}
