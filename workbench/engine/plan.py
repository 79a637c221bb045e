"""`Plan`: the cases of a run, with criteria, users and environment."""

from __future__ import annotations

import hashlib
import marshal
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import unquote, urlsplit

from pydantic import Field

from workbench.agents.worker import dotenv
from workbench.agents.worker.responses import is_plain
from workbench.agents.worker.responses import names_secret as may_name_secret
from workbench.llm.model_replay import read_script
from workbench.llm.model_types import has_key
from workbench.metrics.judges import judge_prompts
from workbench.metrics.registry import PreparedCriteria, find_info, with_judge, with_scorer
from workbench.model.criteria import Criterion, EvalConfig, InvalidConfig
from workbench.model.evalset import ConversationScenario, EvalCase, Quarantine
from workbench.model.facts import Fact, LazyField, LazyValue
from workbench.model.identity import CaseKey, JobKey
from workbench.model.results import (
    CaseResult,
    ConversationEnd,
    Execution,
    Failure,
    FailureKind,
    MetricResult,
    ModelSpending,
)
from workbench.model.target import Executor, Isolation, ModelMode, Target, Unrecorded
from workbench.model.text import add_secrets, is_secret_key, one_line, pluralise
from workbench.simulation.replayed_models import ModelPlan
from workbench.simulation.simulated_tools import ToolPlan
from workbench.simulation.user_templates import PROMPTS
from workbench.simulation.users import (
    SECTION,
    Ask,
    FixedConversation,
    SimulatedUser,
    User,
    UserOptions,
    read_user_options,
)
from workbench.store.datasets.dataset_files import RecordedCase
from workbench.store.errors import StoreError
from workbench.store.settings import RaySettings, Settings

# Plans: cases, repeats and criteria. A plan says what a run will do.

_MOST_BROKEN = 20
RESUME_ADVICE = "continue with `workbench run --resume`"
RERUN_ADVICE = "run it again"
"""Advice in messages, for which the screen names a key."""

_MOST_RUNS = 10_000  # repeats of a case: a plan lists each


class PlanError(Exception):
    """The command, a configuration or a file is wrong. Each problem is one sentence."""

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class NoCases(PlanError):
    """The selection is valid and contains no case (yet)."""


class Selection(Fact):
    """Cases to run: a set by its path relative to the root, and the cases in it (None: all).

    Cases are named by id, or `id#2` for the second case with the same id, as in `cases_by_name`.
    """

    eval_set: str
    cases: tuple[str, ...] | None = None


class RunOptions(Fact):
    """Options of a run. None means the value of the settings.

    `retries` are further attempts after infrastructure errors. `resume` is the id of a run to resume ("latest": the
    newest interrupted one); its verdicts are reused if neither the cases nor their criteria have changed.

    `models` says where answers of the agents' models come from; None means the settings, and without these
    `models_by_default`. With `fresh` they are asked again, and the new calls are recorded.

    `record` is a file that gets all calls of models, `replay` a file that answers them: those of agents, and those of
    judges, simulated users and simulated tools, unless `record_calls` and `replay_calls` name other files for these.
    `record_tools` gets the calls of the agents' tools, `replay_tools` answers them; `unrecorded` says what happens to a
    call that is not in that file. All may be the same file.

    `simulate_tools` takes precedence over the targets.

    `use_cache` reuses replies of models to equal requests. `max_model_calls` and `max_model_cost` (US dollars) limit
    the calls to models. With `require_all_samples`, a verdict of too few samples changes the exit status.

    `adk_results` lets full runs of ADK agents also write the result files for `adk web`; None: as `[run] adk_results`
    says. Without `scores` agents run and nothing is judged. Without `history` no result is stored. `judges_again` is
    the run whose answers are judged once more; `judgement` is the number of this judgement, so that models give new
    opinions.
    """

    config: Path | None = None
    runs: int | None = None
    concurrency: int | None = None
    timeout_seconds: float | None = None
    isolation: Isolation | None = None
    executor: Executor | None = None
    retries: int = 2
    resume: str | None = None
    command: str = ""
    use_cache: bool = True
    scores: bool = True
    models: ModelMode | None = None
    models_by_default: ModelMode = ModelMode.LIVE
    fresh: bool = False
    record: Path | None = None
    replay: Path | None = None
    record_calls: Path | None = None
    replay_calls: Path | None = None
    simulate_tools: Path | None = None
    record_tools: Path | None = None
    replay_tools: Path | None = None
    unrecorded: Unrecorded = "error"
    max_model_calls: int | None = None
    max_model_cost: float | None = None
    require_all_samples: bool | None = None
    adk_results: bool | None = None
    history: bool = True
    judges_again: str | None = None
    judgement: int = 0

    @property
    def rejects_replays(self) -> bool:
        """True if earlier verdicts on replayed answers do not count: the models or a file must give the answers."""
        return self.fresh or self.models is ModelMode.LIVE or self.replay is not None

    @property
    def judge_record(self) -> Path | None:
        """The file that gets the calls to judges, simulated users and simulated tools."""
        return self.record_calls or self.record

    @property
    def judge_replay(self) -> Path | None:
        """The file that answers these calls."""
        return self.replay_calls or self.replay


class Limits(Fact):
    """The resolved options of a run. `max_model_calls` and `max_model_cost` are None if there is no limit."""

    runs: int
    concurrency: int
    timeout_seconds: float
    isolation: Isolation
    executor: Executor = "local"
    ray: RaySettings | None = Field(default=None, exclude=True)
    """The cluster that runs the agents; None if they run on this machine."""
    retries: int
    max_model_calls: int | None = None
    max_model_cost: float | None = None
    require_all_samples: bool = False


def resolve_limits(settings: Settings, options: RunOptions) -> Limits:
    """Resolve the options; the settings provide defaults. Raises PlanError."""
    run, judge = settings.run, settings.judge
    executor = options.executor or run.executor
    limits = Limits(
        runs=options.runs if options.runs is not None else run.runs,
        concurrency=options.concurrency if options.concurrency is not None else run.concurrency,
        timeout_seconds=options.timeout_seconds if options.timeout_seconds is not None else run.timeout_seconds,
        isolation=options.isolation if options.isolation is not None else run.isolation,
        retries=options.retries,
        executor=executor,
        ray=run.ray if executor == "ray" else None,
        max_model_calls=options.max_model_calls if options.max_model_calls is not None else judge.max_calls,
        max_model_cost=options.max_model_cost if options.max_model_cost is not None else judge.max_cost,
        require_all_samples=(
            options.require_all_samples if options.require_all_samples is not None else judge.require_all_samples
        ),
    )
    for name in ("runs", "concurrency", "timeout_seconds"):
        if not getattr(limits, name) > 0:
            raise PlanError(f"{name}: found {getattr(limits, name)}, expected more than 0")
    if limits.runs > _MOST_RUNS:
        raise PlanError(f"runs: found {limits.runs}, expected at most {_MOST_RUNS}")
    return limits


_NO_BASELINES: Mapping[str, Sequence[Execution]] = MappingProxyType({})  # shared by all cases


@dataclass(frozen=True)
class PlannedCase:
    """A case as of planning, or the problem that prevents its run.

    `recorded` is a recorded execution: it is judged, and no agent runs. `columns` are those of the dataset row of the
    case. `baselines` are executions of earlier runs, the newest first, by the judge metric that compares with them.
    `executed` is the execution of the repeat `repeat` in an earlier run. It is judged again, except for the metrics in
    `reused_results`, which are still current. `tools` is set if tools are simulated, replayed or recorded.
    `quarantine` may have expired; see `current_quarantine`.

    `execution_hash` covers everything that reaches the agent, `scoring_hash` the expectations and criteria. A stored
    result is reused only if both are equal. `case` and `recorded` may be lazy.
    """

    key: CaseKey
    eval_set_id: str
    target: Target
    criteria: PreparedCriteria
    case: LazyField[EvalCase | None] = LazyField(None)  # noqa: RUF009 - a descriptor
    problem: Failure | None = None
    recorded: LazyField[Execution | None] = LazyField(None)  # noqa: RUF009 - as above
    columns: Mapping[str, Any] = field(default_factory=dict)
    baselines: Mapping[str, Sequence[Execution]] = field(default_factory=lambda: _NO_BASELINES)
    execution_hash: str = ""
    scoring_hash: str = ""
    executed: Execution | None = None
    repeat: int | None = None  # None: planned for every repeat
    reused_results: tuple[MetricResult, ...] = ()
    tools: ToolPlan | None = None
    quarantine: Quarantine | None = None

    @property
    def current_quarantine(self) -> Quarantine | None:
        """The quarantine of the case as it is today."""
        return None if self.quarantine is None else self.quarantine.at_day(date.today())

    @property
    def config(self) -> EvalConfig:
        return self.criteria.config

    @property
    def expected_by_row(self) -> EvalCase | None:
        """The expectation of a dataset row, to store with its result; see CaseResult."""
        return self.case if self.columns else None

    @property
    def needs_agent(self) -> bool:
        return self.problem is None and not self.is_recorded and self.executed is None

    @property
    def has_case(self) -> bool:
        """Whether there is a case, with prompts or expectations."""
        return _CASE.get_unevaluated(self) is not None

    @property
    def scenario(self) -> ConversationScenario | None:
        """The scenario of a simulated user; None for fixed conversations."""
        held = _CASE.get_unevaluated(self)  # only fixed conversations are lazy
        return None if held is None or isinstance(held, LazyValue) else held.conversation_scenario

    @property
    def is_recorded(self) -> bool:
        """Whether the execution was recorded elsewhere."""
        return _RECORDED.get_unevaluated(self) is not None

    @property
    def turns(self) -> int | None:
        """The number of turns; None if it is unknown before the run."""
        if self.executed is not None:
            return len(self.executed.turns)
        return None if self.case is None or self.case.conversation is None else len(self.case.conversation)


_CASE: LazyField[EvalCase | None] = vars(PlannedCase)["case"]
_RECORDED: LazyField[Execution | None] = vars(PlannedCase)["recorded"]


class Shard(Fact):
    """Which part of a run a run is, stored with it. `number` counts from 1 to `count`.

    The other fields must be equal in all shards of a run. `cases` is a hash of the cases of the whole run with their
    repeats, `split` a hash of the shard of each case. `files` are hashes of the eval sets and the settings by their
    path in the project, `commit` is that of git, None if it is unknown. `problems` are those of the plan.
    """

    number: int
    count: int
    cases: str
    split: str
    files: dict[str, str]
    commit: str | None = None
    problems: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"


@dataclass(frozen=True)
class Plan:
    """Cases x repeats x criteria.

    `notices` are shown before the run. `problems` are errors in files and settings that drop cases or may change
    verdicts: the other cases run, and the command ends with status 2. `whole_sets` are the sets that run completely,
    `selections` the selected cases.

    If the plan resumes a run, `resumes` is its id, `stored` its results that are still current, and `spent` its calls
    to models, if they count on the budget of this run. `taken_from` has the run and job of results in `stored` that
    come from other runs, so that the history counts them in this run too. `models` is None if the calls of the agents'
    models are not intercepted. `shard` is set if this is a part of a plan, which may be empty. `instructions` replace
    those of agents: see `SessionRequest`.
    """

    root: Path
    cases: tuple[PlannedCase, ...]
    limits: Limits
    options: RunOptions
    notices: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    whole_sets: frozenset[str] = frozenset()
    selections: tuple[Selection, ...] = ()
    resumes: str | None = None
    stored: dict[JobKey, CaseResult] = field(default_factory=dict)
    spent: tuple[ModelSpending, ...] = ()
    taken_from: Mapping[JobKey, tuple[str, JobKey]] = field(default_factory=dict)
    models: ModelPlan | None = None
    shard: Shard | None = None
    instructions: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def file_problems(self) -> Sequence[str]:
        """The `problems` and the first unreadable cases. They make a run of this plan end with status 2."""
        problems = (case.problem for case in self.cases if case.problem is not None)
        broken = list(dict.fromkeys(problem.message for problem in problems if problem.kind is FailureKind.FILE))
        more = len(broken) - _MOST_BROKEN
        rest = [f"and {more:,} more broken cases"] if more > 0 else []
        return [*self.problems, *broken[:_MOST_BROKEN], *rest]

    @cached_property
    def jobs(self) -> Sequence[tuple[JobKey, PlannedCase]]:
        """All jobs, the first repeat of all cases before the second of any."""
        return [
            (JobKey(case=case.key, repeat=number), case)
            for number in range(self.limits.runs)
            for case in self.cases
            if case.repeat is None or case.repeat == number
        ]

    @cached_property
    def criteria(self) -> Sequence[PreparedCriteria]:
        """The criteria of all cases, each once."""
        return list({id(case.criteria): case.criteria for case in self.cases}.values())

    def with_options(self, **options: Any) -> Plan:
        """Return the plan with other options of these names, which planning does not look at."""
        return replace(self, options=self.options.model_copy(update=options))

    @property
    def total(self) -> int:
        """The number of jobs."""
        return len(self.jobs)

    @property
    def agent_turns(self) -> int:
        """The number of turns of agents, as far as it is known before the run."""
        fresh = (case.turns or 0 for key, case in self.jobs if case.needs_agent and key not in self.stored)
        return sum(fresh)


def set_quarantine(result: CaseResult, planned: PlannedCase | None) -> CaseResult:
    """Return a stored result with the present quarantine of its case."""
    now = None if planned is None else planned.current_quarantine
    return result if result.quarantine == now else result.model_copy(update={"quarantine": now})


def set_executions(plan: Plan, executed: Mapping[JobKey, Execution]) -> Plan:
    """Return the plan with the executions of these jobs, which are then only judged."""
    of_repeats = {job.case for job in executed}
    cases: list[PlannedCase] = []
    for case in plan.cases:
        if case.key not in of_repeats or not case.needs_agent:
            cases.append(case)
            continue
        for repeat in range(plan.limits.runs) if case.repeat is None else (case.repeat,):
            known = executed.get(JobKey(case=case.key, repeat=repeat))
            cases.append(replace(case, repeat=repeat, executed=known))
    return replace(plan, cases=tuple(cases))


# The criteria of a plan: default models, and checks.

_WORKS = '{"criteria": {"hallucinations_v1": {"threshold": 0.5}, "safety_v1": {"threshold": 0.8}}}'


def complete_config(config: EvalConfig, settings: Settings) -> EvalConfig:
    """Return the config with the models of judges and users and with the quorum, from the settings."""
    config = with_scorer(with_judge(config, settings.judge.model), settings.judge.scorer)
    return config.model_copy(update={"user_model": settings.simulation.model, "quorum": settings.judge.quorum})


def find_useless_thresholds(config: EvalConfig) -> Iterator[tuple[Criterion, float]]:
    """Yield criteria with a threshold that every score reaches, and the lowest score of their metric."""
    for criterion in config.criteria:
        info = find_info(criterion.metric, config)
        lowest = None if info is None else info.lowest
        if criterion.threshold is not None and lowest is not None and criterion.threshold < lowest:
            yield criterion, lowest


def find_config_problems(criteria: PreparedCriteria) -> Iterator[InvalidConfig]:
    """Yield the problems of criteria, and of the options for simulated users, in a config that names its models."""
    config = criteria.config
    yield from criteria.find_problems()
    yield from read_user_options(config, default_model=config.user_model)[1]


def explain_unscorable_scenarios(config: EvalConfig) -> str | None:
    """Return why no criterion can judge a conversation with a simulated user; None if one can."""
    for criterion in config.criteria:
        info = find_info(criterion.metric, config)
        if criterion.metric in config.custom_metrics or (info is not None and info.fits_scenarios):
            return None
    named = ", ".join(criterion.metric for criterion in config.criteria) or "none"
    where = "the default criteria" if config.is_default else f"the criteria in {one_line(config.source)}"
    return (
        f"a conversation with a simulated user has no expected turns, but {where} need them: {named}; "
        f"criteria that work: {_WORKS}"
    )


# The environment variables of a target, and the secrets among them.

_SHORTEST = 6  # characters of a secret: shorter ones occur in other words
_SHORTEST_WORD = 12  # of letters alone, or of digits alone
_SHORTEST_KEY = 16  # of a value that only looks like a key
_SECRETS = ("TOKEN", "SECRET", "PASSWORD")  # suffixes of names that always hold secrets
_NO_SECRETS = ("FILE", "PATH", "DIR", "FOLDER", "CREDENTIALS")  # suffixes of names that hold the path of a secret


def read_environment(target: Target) -> Mapping[str, str]:
    """Return the variables for models: those of this process, then those of the target's `.env`."""
    files = [] if target.env_file is None else [str(target.env_file)]
    return dotenv.effective(files, os.environ)


def mask_secrets(targets: Iterable[Target]) -> None:
    """Mask the secrets of this environment and of the targets' `.env` files in everything shown or stored."""
    add_secrets(_find_secrets(os.environ))
    for file in {target.env_file for target in targets if target.env_file is not None}:
        given = dotenv.effective([str(file)], {})
        add_secrets(_find_secrets(given))
        add_secrets(value for value in given.values() if _looks_like_key(value))


def _find_secrets(variables: Mapping[str, str]) -> Iterator[str]:
    """Yield the values of variables with names of secrets, and passwords in addresses."""
    for name, value in variables.items():
        if _is_secret(name, value):
            yield value
        if "@" in value and (password := _find_password(value)):
            yield password


def _is_secret(name: str, value: str) -> bool:
    """Whether a variable holds a secret that texts and arguments do not contain by chance.

    `PRIMARY_KEY=customer_id` does not: if the value consists of words, the name must be unambiguous.
    """
    if not may_name_secret(name) or name.upper().endswith(_NO_SECRETS) or value.startswith(("/", "./", "~/")):
        return False
    signs = "".join(value.split())
    if signs.isalpha() or signs.isdecimal():  # a word, which texts may contain
        return len(signs) >= _SHORTEST_WORD
    is_named = is_secret_key(name) or name.upper().endswith(_SECRETS)
    return len(value) >= _SHORTEST and (is_named or not is_plain(value))


def _looks_like_key(value: str) -> bool:
    """Whether a value is one long word of letters and digits, and no name, number, path or address."""
    return (
        len(value) >= _SHORTEST_KEY
        and not any(sign.isspace() or sign == "/" for sign in value)
        and not is_plain(value)
        and any(sign.isalpha() for sign in value)
        and any(sign.isdigit() for sign in value)
    )


def _find_password(address: str) -> str | None:
    try:
        password = urlsplit(address).password
    except ValueError:
        return None
    return unquote(password) if password is not None and len(password) >= _SHORTEST else None


# The user of a planned case.


def get_user_options(config: EvalConfig) -> UserOptions:
    """Return the options of simulated users."""
    return read_user_options(config, default_model=config.user_model)[0]


def select_scenarios(plan: Plan) -> Plan:
    """Return the scenarios of a plan, except those of targets with unreadable scripted models.

    Without its script, such a conversation would end after the first message. Raises NoCases if there are no scenarios,
    and PlanError if all have unreadable scripts.
    """
    cases = tuple(case for case in plan.cases if not case.has_case or case.scenario is not None)
    if not any(case.has_case for case in cases):
        raise NoCases("nothing to simulate: none of these eval cases is a conversation scenario")
    problems = {
        target.name: check_script(target) for target in {each.target.name: each.target for each in cases}.values()
    }
    cases = tuple(case for case in cases if problems[case.target.name] is None)
    if not cases:
        raise PlanError(*dict.fromkeys(problem for problem in problems.values() if problem is not None))
    return replace(plan, cases=cases, whole_sets=frozenset())


def is_scripted(target: Target, model: str) -> bool:
    """Whether a script answers for a model because there is no API key."""
    return target.scripted_models is not None and not has_key(model, read_environment(target))


def check_script(target: Target) -> str | None:
    """Return why the script of the target cannot be read; None if it can, or there is no script."""
    if target.scripted_models is None:
        return None
    try:
        read_script(target.scripted_models)
    except StoreError as error:
        return str(error)
    return None


def create_user(planned: PlannedCase, *, repeat: int, ask: Ask) -> User:
    """Create the user of a case: its fixed conversation, or a model that plays its scenario."""
    case = planned.case
    assert case is not None
    if case.conversation_scenario is None:
        return FixedConversation(case.conversation or ())
    return SimulatedUser(case.conversation_scenario, get_user_options(planned.config), ask=ask, sample=repeat)


def explain_turn_limit(case: CaseKey, execution: Execution) -> str | None:
    """Return the warning for a conversation that reached its limit of turns; None for any other."""
    simulation = execution.simulation
    if simulation is None or simulation.end is not ConversationEnd.LIMIT:
        return None
    turns = pluralise(simulation.limit or 0, "turn")
    return (
        f"{case}: the simulated user had not finished after {turns}, the limit; set "
        f"{SECTION}.max_allowed_invocations above the longest reasonable conversation"
    )


# Hashes of cases. A stored result is reused if they are equal.

_to_json = EvalCase.__pydantic_serializer__.to_json
_execution_to_json = Execution.__pydantic_serializer__.to_json


@dataclass(frozen=True)
class SetContext:
    """The common properties of the cases of a set, with their hashes."""

    eval_set_id: str
    target: Target
    criteria: PreparedCriteria
    tools: ToolPlan | None = None

    @cached_property
    def _target_hash(self) -> str:
        # An unset option is left out, so that hashes of versions without the option stay valid.
        unset = {name for name in ("options", "sub_agent") if not getattr(self.target, name)}
        no_matter = {*_CHANGES_NO_ANSWER, *unset}
        return _hash(self.target.model_dump_json(exclude=no_matter))

    @cached_property
    def _user_hash(self) -> str:
        """The hash of everything that shapes simulated users."""
        options = get_user_options(self.criteria.config)
        return _hash(repr(options), PROMPTS.version, repr(is_scripted(self.target, options.model)))

    @cached_property
    def _config_hash(self) -> str:
        config = self.criteria.config
        no_matter = {"source", "user_simulator_config", "user_model"}
        if not config.judge_metrics:  # keeps the hashes of versions that did not know judge metrics
            no_matter.add("judge_metrics")
        if not config.judge:
            return _hash(config.model_dump_json(exclude={*no_matter, "judge", "quorum"}))
        scripted = repr(any(is_scripted(self.target, model) for model in self.criteria.judge_models))
        return _hash(config.model_dump_json(exclude=no_matter), judge_prompts.PROMPTS.version, scripted)

    @property
    def hashes(self) -> tuple[str, str]:
        """The hashes of the target with its tools, and of the criteria."""
        nowhere = CaseKey(target=self.target.name, eval_set="", eval_id="")
        tools = "" if self.tools is None else self.tools.digest(nowhere)
        return _hash(self._target_hash, self._user_hash, tools), self._config_hash

    def plan_case(
        self,
        key: CaseKey,
        case: EvalCase | None,
        *,
        problem: Failure | None = None,
        remake: LazyValue[EvalCase] | None = None,
    ) -> PlannedCase:
        """Plan a case and compute its hashes. If `remake` is given, a fixed conversation is held lazily."""
        held: EvalCase | LazyValue[EvalCase | None] | None = case
        if remake is not None and case is not None and case.conversation_scenario is None:
            held = remake
        return PlannedCase(
            key=key,
            eval_set_id=self.eval_set_id,
            target=self.target,
            criteria=self.criteria,
            case=held,
            problem=problem,
            tools=self.tools,
            execution_hash="" if case is None else self._execution_hash(key, case),
            scoring_hash="" if case is None else _hash(self._config_hash, _to_json(case, exclude=_IS_NO_MATTER)),
        )

    def _execution_hash(self, key: CaseKey, case: EvalCase) -> str:
        parts: list[str | bytes] = [self._target_hash, _to_json(case, include=_REACHES_AGENT)]
        if case.conversation_scenario is not None:
            parts.append(self._user_hash)
        # Only if something replaces the tools, so that older verdicts stay valid.
        if self.tools is not None and (digest := self.tools.digest(key)):
            parts.append(digest)
        return f"{self._target_hash[:_TARGET_PART]}-{_hash(*parts)}"  # shows which of the two changed

    def hash_recorded_case(self, recorded: RecordedCase) -> tuple[str, str]:
        """Return the execution hash and the scoring hash of a recorded case.

        No agent runs, so the first covers the execution and the expectations. A row is defined by its columns.
        """
        if recorded.columns:
            judged = _hash(self._target_hash, _dump_columns(recorded.columns))
        else:
            case = recorded.case
            expected = b"" if case is None else _to_json(case, exclude=_IS_NO_MATTER)
            judged = _hash(self._target_hash, _dump_execution(recorded.execution), expected)
        return judged, _hash(self._config_hash, judged)


_TARGET_PART = 8
"""The length of the prefix of an `execution_hash` that covers the settings of the target."""

_CHANGES_NO_ANSWER = {"eval_sets", "config", "watch", "rerun", "simulate_tools", "tools", "columns"}
"""The fields of a target that do not affect its answers. Simulations are hashed by content, not by file."""

_REACHES_AGENT: Any = {
    "conversation": {"__all__": {"user_content"}},
    "session_input": True,
    "conversation_scenario": True,
}
"""The part of a case that reaches the agent: user messages and the initial session."""

_IS_NO_MATTER: Any = {"eval_id", "creation_timestamp"}
"""The part of a case that does not affect verdicts."""


def _dump_execution(execution: Execution) -> bytes:
    """Dump an execution as JSON, or as `repr` if it is not JSON or too deeply nested."""
    try:
        return _execution_to_json(execution)
    except ValueError:
        return repr(execution).encode("utf-8", "backslashreplace")


def _dump_columns(columns: Mapping[str, Any]) -> bytes:
    """Dump a row of JSON values deterministically, in a quarter of the time of JSON."""
    try:
        return marshal.dumps(dict(columns), _STABLE)
    except ValueError:  # nested too deeply
        return repr(columns).encode("utf-8", "backslashreplace")


_STABLE = 2
"""The version of marshal's format without references, which would depend on object identities."""


def _hash(*values: str | bytes) -> str:
    parts = [value if isinstance(value, bytes) else value.encode() for value in values]
    return hashlib.sha256(b"\0".join((*parts, b""))).hexdigest()[:32]
