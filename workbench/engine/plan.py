"""`Plan`: the cases of a run, with criteria, users and environment."""

from __future__ import annotations

import hashlib
import marshal
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from workbench.agents.worker import dotenv
from workbench.agents.worker.responses import is_plain
from workbench.agents.worker.responses import names_secret as may_name_secret
from workbench.llm.model_replay import read_script
from workbench.llm.model_types import has_key
from workbench.metrics.judges import judge_prompts
from workbench.metrics.registry import PreparedCriteria, find_info, with_judge, with_scorer
from workbench.model.base import Fact, LazyField, LazyValue
from workbench.model.criteria import Criterion, EvalConfig, InvalidConfig
from workbench.model.evalset import ConversationScenario, EvalCase, Invocation
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
from workbench.model.target import Isolation, Target, Unrecorded
from workbench.model.text import add_secrets, is_secret_key, one_line, pluralise
from workbench.simulation.simulated_tools import ToolPlan
from workbench.simulation.user_prompts import SECTION, UserOptions, read_user_options
from workbench.simulation.user_templates import PROMPTS
from workbench.simulation.users import Ask, FixedConversation, SimulatedUser, User
from workbench.store.datasets.dataset_reader import RecordedCase
from workbench.store.errors import StoreError
from workbench.store.settings import Settings

if TYPE_CHECKING:
    from workbench.simulation.simulated_tools import ToolPlan
    from workbench.store.settings import Settings


# Plans: which cases run how often, judged by what. A plan says what a run will do before it does it.

_MOST_BROKEN = 20
_MOST_RUNS = 10_000  # of a case: a plan lists each


class PlanError(Exception):
    """What was asked for cannot be planned: the command, a configuration or a file is wrong. One sentence a problem."""

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class NoCases(PlanError):
    """What was asked for is right, and there is no case of it (yet)."""


class Selection(Fact):
    """Cases to run: a set by its path relative to the root, of it these cases (None: all).

    Cases are called by their ids, or `id#2` for the second of an id, as in `cases_by_name`.
    """

    eval_set: str
    cases: tuple[str, ...] | None = None


class RunOptions(Fact):
    """How to run. None means: as the settings say.

    `retries` counts further attempts after infrastructure errors. `resume` names a run to go on with ("latest": the
    newest that was interrupted): its verdicts count where neither the cases nor their criteria have changed.
    `simulate_tools` counts before what targets say; `record_tools` and `replay_tools` are files of recorded calls, and
    `unrecorded` says what becomes of a call that is not in the latter.
    `use_cache`: what models answered in earlier runs counts, where they are asked the same. `max_model_calls` and
    `max_model_cost` (US dollars) are what they may be asked; with `require_all_samples` a verdict of fewer samples than
    asked for changes the exit status. `record_calls` is a file to write their calls to,
    `replay_calls` one that answers in place of them.
    `adk_results` lets full runs of ADK agents also write the result files that `adk web` shows. Without `scores` the
    agent runs, and nothing is judged; without `history` no result is kept. `judges_again` is the run whose answers are
    judged once more, `judgement` which time that is: each time models are asked for opinions of their own.
    """

    config: Path | None = None
    runs: int | None = None
    concurrency: int | None = None
    timeout_seconds: float | None = None
    isolation: Isolation | None = None
    retries: int = 2
    resume: str | None = None
    command: str = ""
    use_cache: bool = True
    scores: bool = True
    simulate_tools: Path | None = None
    record_tools: Path | None = None
    replay_tools: Path | None = None
    unrecorded: Unrecorded = "error"
    max_model_calls: int | None = None
    max_model_cost: float | None = None
    require_all_samples: bool | None = None
    record_calls: Path | None = None
    replay_calls: Path | None = None
    adk_results: bool = True
    history: bool = True
    judges_again: str | None = None
    judgement: int = 0


class Limits(Fact):
    """The options of a run with every gap filled; what judges may be asked is None where there is no limit."""

    runs: int
    concurrency: int
    timeout_seconds: float
    isolation: Isolation
    retries: int
    max_model_calls: int | None = None
    max_model_cost: float | None = None
    require_all_samples: bool = False


def resolve_limits(settings: Settings, options: RunOptions) -> Limits:
    """The options, and what the settings say where they say nothing. Raises PlanError."""
    run, judge = settings.run, settings.judge
    limits = Limits(
        runs=options.runs if options.runs is not None else run.runs,
        concurrency=options.concurrency if options.concurrency is not None else run.concurrency,
        timeout_seconds=options.timeout_seconds if options.timeout_seconds is not None else run.timeout_seconds,
        isolation=options.isolation if options.isolation is not None else run.isolation,
        retries=options.retries,
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


_NO_BASELINES: Mapping[str, Sequence[Execution]] = MappingProxyType({})  # one for all cases


@dataclass(frozen=True)
class PlannedCase:
    """A case as it was when the plan was made, or the problem that keeps it from running.

    `recorded` is what the agent once did: such a case is judged, and no agent runs. `columns` are those of the dataset
    row it came from, `baselines` what agents did in earlier runs of it, the newest first, by the judge metric that
    compares with it. `executed` is what the agent did in an earlier run of ours, as its repeat `repeat`: that is judged
    anew, but for the results in `kept`, which still hold. `tools`: where tools are simulated, replayed or recorded.
    `execution_hash` covers what reaches the agent, `scoring_hash` what it is judged by besides: a stored result counts
    again only where both are the same. `case` and `recorded` may be made anew whenever they are asked for.
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
    repeat: int | None = None  # None: it is for every repeat
    reused_results: tuple[MetricResult, ...] = ()
    tools: ToolPlan | None = None

    @property
    def config(self) -> EvalConfig:
        """The configuration of the criteria."""
        return self.criteria.config

    @property
    def expected_turns(self) -> Sequence[Invocation]:
        """The turns as they should be: none where there is no fixed conversation."""
        return () if self.case is None else self.case.conversation or ()

    @property
    def expected_by_row(self) -> EvalCase | None:
        """What the row of a dataset expects, to be kept with its result; see CaseResult."""
        return self.case if self.columns else None

    @property
    def needs_agent(self) -> bool:
        """Whether an agent has to run for it."""
        return self.problem is None and not self.is_recorded and self.executed is None

    @property
    def has_case(self) -> bool:
        """Whether it is known what was expected, or what to ask."""
        return _CASE.get_unevaluated(self) is not None

    @property
    def scenario(self) -> ConversationScenario | None:
        """What a simulated user is to do; None for fixed conversations."""
        held = _CASE.get_unevaluated(self)  # only fixed conversations are made anew
        return None if held is None or isinstance(held, LazyValue) else held.conversation_scenario

    @property
    def is_recorded(self) -> bool:
        """Whether what the agent did was recorded elsewhere."""
        return _RECORDED.get_unevaluated(self) is not None

    @property
    def turns(self) -> int | None:
        """How many turns it has; None where that is not known beforehand."""
        if self.executed is not None:
            return len(self.executed.turns)
        return None if self.case is None or self.case.conversation is None else len(self.case.conversation)


_CASE: LazyField[EvalCase | None] = vars(PlannedCase)["case"]
_RECORDED: LazyField[Execution | None] = vars(PlannedCase)["recorded"]


@dataclass(frozen=True)
class Plan:
    """Cases x repeats x criteria.

    `notices` are for the user's eyes before the run. `problems` say what is wrong with files and settings, so that
    cases are missing or verdicts may not be as meant: what can run runs, and the command ends with status 2.
    `whole_sets` are the sets of which every case runs, `selections` what was asked for. Where the plan goes on with an
    earlier run, `resumes` is that run's id, `stored` holds its results that still count, and `spent` what its models
    were asked, where this run is to count that too, on its budget as well. Results in `stored` that are of other runs
    are in `taken_from`, with those runs and their jobs: the history counts them in this run too.
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

    @property
    def file_problems(self) -> Sequence[str]:
        """The `problems`, and why cases cannot be read: the first of them. A run of this plan ends with 2 for them."""
        problems = (case.problem for case in self.cases if case.problem is not None)
        broken = list(dict.fromkeys(problem.message for problem in problems if problem.kind is FailureKind.FILE))
        more = len(broken) - _MOST_BROKEN
        rest = [f"and {more:,} more broken cases"] if more > 0 else []
        return [*self.problems, *broken[:_MOST_BROKEN], *rest]

    @cached_property
    def jobs(self) -> Sequence[tuple[JobKey, PlannedCase]]:
        """Every case of every repeat, the first repeat of all cases before the second of any."""
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

    @property
    def total(self) -> int:
        """How many jobs there are."""
        return len(self.jobs)

    @property
    def agent_turns(self) -> int:
        """How many times an agent will be spoken to, as far as that is known beforehand."""
        fresh = (case.turns or 0 for key, case in self.jobs if case.needs_agent and key not in self.stored)
        return sum(fresh)


def set_executions(plan: Plan, executed: Mapping[JobKey, Execution]) -> Plan:
    """The plan in which these jobs are only judged: what their agents did is known."""
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


# The criteria of a plan: with the models that the settings name, and whether they can judge what they are to judge.

_WORKS = '{"criteria": {"hallucinations_v1": {"threshold": 0.5}, "safety_v1": {"threshold": 0.8}}}'


def complete_config(config: EvalConfig, settings: Settings) -> EvalConfig:
    """The config with the models that judge and play users where it names none, and the quorum of judges."""
    config = with_scorer(with_judge(config, settings.judge.model), settings.judge.scorer)
    return config.model_copy(update={"user_model": settings.simulation.model, "quorum": settings.judge.quorum})


def find_useless_thresholds(config: EvalConfig) -> Iterator[tuple[Criterion, float]]:
    """The criteria whose threshold every score reaches, with the lowest score of the metric."""
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
    """Why these criteria can judge no conversation with a simulated user, with some that can; None where one can."""
    for criterion in config.criteria:
        info = find_info(criterion.metric, config)
        if criterion.metric in config.custom_metrics or (info is not None and info.fits_scenarios):
            return None
    named = ", ".join(criterion.metric for criterion in config.criteria) or "none"
    where = "no configuration names criteria, and the default ones" if config.is_default else config.source
    return (
        f"a conversation with a simulated user has no expected turns, and {one_line(where)}: {named} need them; "
        f"criteria that work: {_WORKS}"
    )


# The variables with which models are asked for a target, and which of them are secrets.

_SHORTEST = 6  # characters of a secret: shorter ones stand in other words by chance
_SHORTEST_WORD = 12  # of letters alone, or of digits alone
_SHORTEST_KEY = 16  # of what nothing but its looks tells to be one
_SECRETS = ("TOKEN", "SECRET", "PASSWORD")  # ends of names that leave no doubt
_NO_SECRETS = ("FILE", "PATH", "DIR", "FOLDER", "CREDENTIALS")  # ends of names that hold the place of a secret


def read_environment(target: Target) -> Mapping[str, str]:
    """The variables that models are asked with: ours, and those of the target's `.env` that ours do not set."""
    files = [] if target.env_file is None else [str(target.env_file)]
    return dotenv.effective(files, os.environ)


def mask_secrets(targets: Iterable[Target]) -> None:
    """Mask the secrets in our environment and in the targets' `.env` files wherever they would be shown or stored."""
    add_secrets(_find_secrets(os.environ))
    for file in {target.env_file for target in targets if target.env_file is not None}:
        given = dotenv.effective([str(file)], {})
        add_secrets(_find_secrets(given))
        add_secrets(value for value in given.values() if _looks_like_key(value))


def _find_secrets(variables: Mapping[str, str]) -> Iterator[str]:
    """The values of variables whose names say that they are secrets, and passwords in addresses."""
    for name, value in variables.items():
        if _is_secret(name, value):
            yield value
        if "@" in value and (password := _find_password(value)):
            yield password


def _is_secret(name: str, value: str) -> bool:
    """Whether a variable of this name holds a secret that no text or argument has by chance.

    `PRIMARY_KEY=customer_id` is none: where the value reads like words, the name must leave no doubt.
    """
    if not may_name_secret(name) or name.upper().endswith(_NO_SECRETS) or value.startswith(("/", "./", "~/")):
        return False
    signs = "".join(value.split())
    if signs.isalpha() or signs.isdecimal():  # words, of which texts are full
        return len(signs) >= _SHORTEST_WORD
    is_named = is_secret_key(name) or name.upper().endswith(_SECRETS)
    return len(value) >= _SHORTEST and (is_named or not is_plain(value))


def _looks_like_key(value: str) -> bool:
    """Whether a value is one long word of letters and digits that is no name, number, path or address."""
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


# Who talks to the agent in a planned case, and what there is to say about it.


def get_user_options(config: EvalConfig) -> UserOptions:
    """How the users of scenarios are played."""
    return read_user_options(config, default_model=config.user_model)[0]


def select_scenarios(plan: Plan) -> Plan:
    """The part of a plan that simulated users play, without targets whose script of models cannot be read: the agent
    would be spoken to once, and nobody could go on.

    Raises NoCases where there is none, and PlanError where only such scripts leave nothing.
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
    """Whether a script answers for a model, because there is no key for it."""
    return target.scripted_models is not None and not has_key(model, read_environment(target))


def check_script(target: Target) -> str | None:
    """Why the script that answers for models without a key cannot be read; None where it can, or there is none."""
    if target.scripted_models is None:
        return None
    try:
        read_script(target.scripted_models)
    except StoreError as error:
        return str(error)
    return None


def create_user(planned: PlannedCase, *, repeat: int, ask: Ask) -> User:
    """The user of a case: what its conversation says, or a model that plays its scenario."""
    case = planned.case
    assert case is not None
    if case.conversation_scenario is None:
        return FixedConversation(case.conversation or ())
    return SimulatedUser(case.conversation_scenario, get_user_options(planned.config), ask=ask, sample=repeat)


def explain_turn_limit(case: CaseKey, execution: Execution) -> str | None:
    """What to say of a conversation that did not come to its end; None of every other."""
    simulation = execution.simulation
    if simulation is None or simulation.end is not ConversationEnd.LIMIT:
        return None
    turns = pluralise(simulation.limit or 0, "turn")
    return (
        f"{case}: the simulated user had not finished after {turns}, which is the limit; set "
        f"{SECTION}.max_allowed_invocations above the longest reasonable conversation"
    )


# What the cases of a set have in common, and the hashes by which a stored result is known to be of the same case.

_to_json = EvalCase.__pydantic_serializer__.to_json
_execution_to_json = Execution.__pydantic_serializer__.to_json


@dataclass(frozen=True)
class SetContext:
    """What the cases of one set have in common, with the hashes of it taken once."""

    eval_set_id: str
    target: Target
    criteria: PreparedCriteria
    tools: ToolPlan | None = None

    @cached_property
    def _target_hash(self) -> str:
        # What is not set leaves the hash what it was before it could be.
        unset = {name for name in ("options", "sub_agent") if not getattr(self.target, name)}
        no_matter = {*_CHANGES_NO_ANSWER, *unset}
        return _hash(self.target.model_dump_json(exclude=no_matter))

    @cached_property
    def _user_hash(self) -> str:
        """Of what plays the users of scenarios."""
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
        return _hash(config.model_dump_json(exclude=no_matter), judge_prompts.get_version(), scripted)

    @property
    def hashes(self) -> tuple[str, str]:
        """What tells the target, its tools and the criteria apart from any others that could change a verdict."""
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
        """A planned case, with the hashes by which a stored result is known to be of the same case.

        A case with a fixed conversation is not held where `remake` makes it anew.
        """
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
        # What tools answer is there only where something else than the tools does: older verdicts stay what they are.
        if self.tools is not None and (digest := self.tools.digest(key)):
            parts.append(digest)
        return f"{self._target_hash[:_TARGET_PART]}-{_hash(*parts)}"  # so that it can be told which of the two changed

    def hash_recorded_case(self, recorded: RecordedCase) -> tuple[str, str]:
        """The same two hashes for what was recorded: of all that is judged, and of that with the criteria.

        No agent runs, so that nothing is won by telling what was said from what was expected; and rows in which the
        same was said, which may be many, each keep their verdicts. Of a row the columns say all.
        """
        if recorded.columns:
            judged = _hash(self._target_hash, _dump_columns(recorded.columns))
        else:
            case = recorded.case
            expected = b"" if case is None else _to_json(case, exclude=_IS_NO_MATTER)
            judged = _hash(self._target_hash, _dump_execution(recorded.execution), expected)
        return judged, _hash(self._config_hash, judged)


_TARGET_PART = 8
"""So many characters at the beginning of an `execution_hash` are of the target's settings."""

_CHANGES_NO_ANSWER = {"eval_sets", "config", "watch", "rerun", "simulate_tools", "tools", "columns"}
"""What of a target an agent cannot see; what is simulated counts by what it says, not by the file that says it."""

_REACHES_AGENT: Any = {
    "conversation": {"__all__": {"user_content"}},
    "session_input": True,
    "conversation_scenario": True,
}
"""The part of a case that an agent can see: what is said to it and how its session starts."""

_IS_NO_MATTER: Any = {"eval_id", "creation_timestamp"}
"""The part of a case that can change no verdict on the same answers: its name and its age."""


def _dump_execution(execution: Execution) -> bytes:
    """What was recorded: as JSON, or as Python shows it where it is no JSON or nested too deeply."""
    try:
        return _execution_to_json(execution)
    except ValueError:
        return repr(execution).encode("utf-8", "backslashreplace")


def _dump_columns(columns: Mapping[str, Any]) -> bytes:
    """A row of JSON values; the same bytes for the same row, in a quarter of the time that writing JSON takes."""
    try:
        return marshal.dumps(dict(columns), _STABLE)
    except ValueError:  # nested too deeply
        return repr(columns).encode("utf-8", "backslashreplace")


_STABLE = 2
"""The version of marshal's format that has no references, which depend on more than the values."""


def _hash(*values: str | bytes) -> str:
    digest = hashlib.sha256()
    for value in values:
        digest.update(value if isinstance(value, bytes) else value.encode())
        digest.update(b"\0")
    return digest.hexdigest()[:32]
