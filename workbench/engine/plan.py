"""Plans: which cases run how often, judged by what. A plan says what a run will do before it does it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from workbench.model.base import Fact
from workbench.model.criteria import EvalConfig
from workbench.model.evalset import ConversationScenario, EvalCase, Invocation
from workbench.model.keys import CaseKey, JobKey
from workbench.model.remade import Recipe, Remade
from workbench.model.results import CaseResult, Execution, Failure, FailureKind, MetricResult
from workbench.model.spending import ModelSpending
from workbench.model.target import Isolation, Target, Unrecorded

if TYPE_CHECKING:
    # Importing these takes time, in which the agents' interpreters could start already.
    from workbench.simulation.tools.plan import ToolPlan
    from workbench.store.settings import Settings

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


def limits_of(settings: Settings, options: RunOptions) -> Limits:
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
    config: EvalConfig
    case: Remade[EvalCase | None] = Remade(None)  # noqa: RUF009 - a descriptor
    problem: Failure | None = None
    recorded: Remade[Execution | None] = Remade(None)  # noqa: RUF009 - as above
    columns: Mapping[str, Any] = field(default_factory=dict)
    baselines: Mapping[str, Sequence[Execution]] = field(default_factory=lambda: _NO_BASELINES)
    execution_hash: str = ""
    scoring_hash: str = ""
    executed: Execution | None = None
    repeat: int | None = None  # None: it is for every repeat
    kept: tuple[MetricResult, ...] = ()
    tools: ToolPlan | None = None

    @property
    def expected(self) -> Sequence[Invocation]:
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
        return _CASE.held_by(self) is not None

    @property
    def scenario(self) -> ConversationScenario | None:
        """What a simulated user is to do; None for fixed conversations."""
        held = _CASE.held_by(self)  # only fixed conversations are made anew
        return None if held is None or isinstance(held, Recipe) else held.conversation_scenario

    @property
    def is_recorded(self) -> bool:
        """Whether what the agent did was recorded elsewhere."""
        return _RECORDED.held_by(self) is not None

    @property
    def turns(self) -> int | None:
        """How many turns it has; None where that is not known beforehand."""
        if self.executed is not None:
            return len(self.executed.turns)
        return None if self.case is None or self.case.conversation is None else len(self.case.conversation)


_CASE: Remade[EvalCase | None] = vars(PlannedCase)["case"]
_RECORDED: Remade[Execution | None] = vars(PlannedCase)["recorded"]


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

    @property
    def total(self) -> int:
        """How many jobs there are."""
        return len(self.jobs)

    @property
    def agent_turns(self) -> int:
        """How many times an agent will be spoken to, as far as that is known beforehand."""
        fresh = (case.turns or 0 for key, case in self.jobs if case.needs_agent and key not in self.stored)
        return sum(fresh)


def with_executed(plan: Plan, executed: Mapping[JobKey, Execution]) -> Plan:
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
