"""What a plan costs: how often agents and judges are called and, from what earlier runs took, time and tokens.

Functions are taken to be free: whoever wraps a model in one knows. Agents of every other kind call models.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from workbench.engine.plan import Plan, PlannedCase
from workbench.metrics.definition import MetricInfo
from workbench.metrics.registry import info_of
from workbench.model.criteria import Criterion
from workbench.model.keys import CaseKey
from workbench.model.results import CaseResult, CaseStatus
from workbench.model.target import AgentKind
from workbench.store.history import StoredJob

_FREE_KINDS = frozenset({AgentKind.FUNCTION, AgentKind.RECORDED})

_RAN = frozenset({CaseStatus.PASSED, CaseStatus.FAILED, CaseStatus.NOT_EVALUATED, CaseStatus.ERROR})

FEW_JOBS = 10
"""How many jobs of agents with a model nobody needs to be asked about."""

_MOST_SAMPLED = 40
"""How many cases are looked at for their tokens: their traces have to be read."""


@dataclass(frozen=True)
class Estimate:
    """An amount for the whole plan, scaled up from the `known` of its `of` cases."""

    amount: float
    known: int
    of: int


@dataclass(frozen=True, kw_only=True)
class PlanCost:
    """What carrying out a plan will take.

    `jobs` are cases times repeats that have to run, `kept` those whose earlier result still counts. `agent_turns` is
    how often an agent is spoken to, as far as that is known beforehand; `model_jobs` and `model_turns` are the part of
    both that goes to agents backed by a model. `judge_calls` are by criterion. `seconds` and `tokens` are None where
    earlier runs say nothing about any of the cases.
    """

    cases: int
    repeats: int
    jobs: int
    kept: int
    agent_turns: int
    model_jobs: int
    model_turns: int
    judge_calls: Mapping[str, int] = field(default_factory=dict)
    seconds: Estimate | None = None
    tokens: Estimate | None = None

    @property
    def is_costly(self) -> bool:
        """Whether to ask before it is carried out: repeats, judges, or more than a few jobs of agents with a model."""
        return bool(self.repeats > 1 or self.judge_calls or self.model_jobs > FEW_JOBS)


ReadResults = Callable[[Collection[CaseKey]], Mapping[CaseKey, Sequence[CaseResult]]]
"""Reads the results of some cases, by repeat, in the newest run in which each ran."""


def cost_of(
    plan: Plan,
    *,
    earlier: Mapping[CaseKey, Sequence[StoredJob]] | None = None,
    results_of: ReadResults = lambda _keys: {},
) -> PlanCost:
    """The cost of a plan, given how every case ended last and a way to read the results of some of them."""
    earlier = earlier or {}
    fresh = [planned for key, planned in plan.jobs if key not in plan.stored]
    agents = [planned for planned in fresh if planned.needs_agent]
    backed = [planned for planned in agents if planned.target.kind not in _FREE_KINDS]
    return PlanCost(
        cases=len(plan.cases),
        repeats=plan.limits.runs,
        jobs=len(fresh),
        kept=plan.total - len(fresh),
        agent_turns=plan.agent_turns,
        model_jobs=len(backed),
        model_turns=sum(planned.turns or 0 for planned in backed),
        judge_calls=_judge_calls(fresh),
        seconds=_seconds(agents, earlier, lanes=plan.limits.concurrency),
        tokens=_tokens(backed, earlier, results_of),
    )


def _judge_calls(jobs: Iterable[PlannedCase]) -> Mapping[str, int]:
    calls: dict[str, int] = {}
    for planned in jobs:
        for criterion in planned.config.criteria:
            info = info_of(criterion.metric, planned.config)
            if info is not None and "judge" in info.needs:
                turns = planned.turns or 0
                calls[criterion.metric] = calls.get(criterion.metric, 0) + turns * _samples(criterion, info)
    return calls


def _samples(criterion: Criterion, info: MetricInfo) -> int:
    options = criterion.options.get("judge_model_options") or criterion.options.get("judgeModelOptions")
    asked = options.get("num_samples", options.get("numSamples")) if isinstance(options, Mapping) else None
    return asked if isinstance(asked, int) and asked > 0 else info.samples


def _seconds(
    jobs: Sequence[PlannedCase], earlier: Mapping[CaseKey, Sequence[StoredJob]], *, lanes: int
) -> Estimate | None:
    """The time of all jobs, spread over the lanes; no shorter than the longest of them."""
    took: dict[CaseKey, float] = {}
    for key in {planned.key for planned in jobs}:
        ran = [job.duration_seconds for job in earlier.get(key, ()) if job.status in _RAN]
        if ran:
            took[key] = sum(ran) / len(ran)
    if not took:
        return None
    usual = sum(took.values()) / len(took)
    work = sum(took.get(planned.key, usual) for planned in jobs)
    seconds = max(work / min(lanes, len(jobs)), *took.values())
    return Estimate(seconds, known=len(took), of=len({planned.key for planned in jobs}))


def _tokens(
    jobs: Sequence[PlannedCase], earlier: Mapping[CaseKey, Sequence[StoredJob]], results_of: ReadResults
) -> Estimate | None:
    """The tokens of all jobs, by the mean of cases spread evenly over those that ran before."""
    keys = list(dict.fromkeys(planned.key for planned in jobs))
    ran = [key for key in keys if key in earlier]
    sample = ran[:: max(1, -(-len(ran) // _MOST_SAMPLED))]
    used = [mean for results in results_of(sample).values() if (mean := _mean_tokens(results)) is not None]
    return Estimate(len(jobs) * sum(used) / len(used), known=len(used), of=len(keys)) if used else None


def _mean_tokens(results: Sequence[CaseResult]) -> float | None:
    """The tokens of one repeat; None where no model told."""
    spent = [
        sum(turn.usage.spent for turn in result.execution.turns if turn.usage is not None)
        for result in results
        if any(turn.usage is not None for turn in result.execution.turns)
    ]
    return sum(spent) / len(spent) if spent else None
