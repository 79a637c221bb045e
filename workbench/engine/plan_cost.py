"""Estimates of the calls, time, tokens and cost of a plan, and what the models of an agent cost."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from workbench.engine.plan import Plan, PlannedCase, get_user_options, is_scripted
from workbench.llm.prompt_templates import OwnPrice, Prices, Tokens, UnknownPrice, count_tokens
from workbench.model.identity import CaseKey, JobKey
from workbench.model.results import CaseResult, CaseStatus, Execution, TokenUsage
from workbench.model.target import AgentKind, ModelMode
from workbench.model.text import pluralise
from workbench.model.trace import Span, SpanKind
from workbench.simulation.users import NO_LIMIT
from workbench.store.errors import shown_path
from workbench.store.history.history_queries import StoredJob
from workbench.store.settings import JudgeSettings

if TYPE_CHECKING:
    from workbench.metrics.registry import AskedModel

# The cost of a plan: calls of agents and judges, and time and tokens from earlier runs.

_FREE_KINDS = frozenset({AgentKind.FUNCTION, AgentKind.RECORDED})

_RAN = frozenset({CaseStatus.PASSED, CaseStatus.FAILED, CaseStatus.NOT_EVALUATED, CaseStatus.ERROR})

FEW_JOBS = 10
"""The number of jobs with a model that need no confirmation."""

_MOST_SAMPLED = 40
"""The number of cases to read tokens from: reading traces is slow."""


@dataclass(frozen=True)
class Estimate:
    """An amount for the whole plan, extrapolated from `known` of its `of` cases."""

    amount: float
    known: int
    of: int


@dataclass(frozen=True, kw_only=True)
class JudgeCost:
    """The calls to one judge model. Replies from the cache cost nothing.

    `open_ended` cases are not counted in `calls`, as the number of their turns is unknown. `tokens` and `dollars` are
    None if earlier runs have no data. `price_unknown` is the reason if the price is unknown.
    """

    model: str
    calls: int
    open_ended: int = 0
    tokens: Estimate | None = None
    dollars: Estimate | None = None
    price_unknown: str | None = None


@dataclass(frozen=True, kw_only=True)
class UserCost:
    """The calls to a model that plays users. `at_most` is the total maximum, None if a conversation has no limit."""

    model: str
    conversations: int
    at_most: int | None


@dataclass(frozen=True, kw_only=True)
class Replays:
    """How many jobs have a recording of their agent's model calls, `of` so many that may have one.

    `unit` is what is counted: cases, or jobs if they are repeated. `source` is the file of the recordings, empty for
    those of the project. In the mode REPLAY no model is asked.
    """

    mode: ModelMode
    recorded: int
    of: int
    unit: str = "case"
    source: str = ""

    def __str__(self) -> str:
        """Return sentences: `5 of 7 cases have a recording: models are asked live only where a request differs`."""
        place = f" in {self.source}" if self.source else ""
        has = "has" if self.recorded == 1 else "have"
        known = f"{self.recorded:,} of {pluralise(self.of, self.unit)} {has} a recording{place}"
        if self.mode is ModelMode.REPLAY:
            return f"{known}: no model is asked, and a request that is not recorded ends its case in ERROR"
        rest = "" if self.recorded == self.of else " or is not recorded"
        return f"{known}: models are asked live only where a request differs{rest}"


@dataclass(frozen=True)
class EarlierJobs:
    """The jobs of each case in its newest run: one that asked its models live, and one that replayed model calls."""

    live: Mapping[CaseKey, Sequence[StoredJob]] = field(default_factory=dict)
    replayed: Mapping[CaseKey, Sequence[StoredJob]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class PlanCost:
    """The cost of a plan.

    `jobs` are cases times repeats that have to run, `reused` those with a current result. `agent_turns` are the known
    turns of agents; `model_jobs` and `model_turns` are the part of agents with a model. The number of turns of
    `open_ended` jobs is unknown. `judge_calls` are by criterion, `judges` and `users` by model. `live_jobs` are those
    of agents that ask their models, `live_model_jobs` the part with a model; `seconds` and `tokens` are theirs.
    `replayed_seconds` are those of jobs with a recording. They are None if earlier runs of the same kind have no data.
    `replays` is None if nothing is replayed.
    """

    cases: int
    repeats: int
    jobs: int
    reused: int
    agent_turns: int
    model_jobs: int
    model_turns: int
    judge_calls: Mapping[str, int] = field(default_factory=dict)
    judges: Sequence[JudgeCost] = ()
    open_ended: int = 0
    users: Sequence[UserCost] = ()
    live_jobs: int = 0
    live_model_jobs: int = 0
    seconds: Estimate | None = None
    tokens: Estimate | None = None
    replays: Replays | None = None
    replayed_seconds: Estimate | None = None


def is_costly(plan: Plan) -> bool:
    """Return whether a run needs confirmation: repeats, judges, simulated users, or many jobs with a model.

    It reads no turns: of a hundred thousand cases that takes seconds.
    """
    fresh = [planned for key, planned in plan.jobs if key not in plan.stored]
    agents = [planned for planned in fresh if planned.needs_agent]
    if plan.limits.runs > 1 or sum(planned.target.kind not in _FREE_KINDS for planned in agents) > FEW_JOBS:
        return True
    asks_models = any(_iterate_asked_models(fresh)) or any(_estimate_users(agents))
    return asks_models and plan.options.judge_replay is None


def build_prices(settings: JudgeSettings) -> Prices:
    """Return the prices of models, including those of the settings."""
    return Prices({model: OwnPrice(price.input, price.output) for model, price in settings.prices.items()})


ReadResult = Callable[[StoredJob], CaseResult | None]
"""Reads the result of a job; None if it is no longer stored."""


def estimate_cost(
    plan: Plan,
    *,
    earlier: EarlierJobs | None = None,
    read_result: ReadResult = lambda _job: None,
    recorded: Collection[JobKey] | None = None,
    prices: Prices | None = None,
) -> PlanCost:
    """Estimate the cost of a plan from earlier jobs of its cases and from a sample of their results.

    `recorded` are the jobs whose model calls can be replayed; None if nothing is replayed. Without `prices`, the cost
    of judges is unknown.
    """
    earlier = earlier or EarlierJobs()
    fresh = [(key, planned) for key, planned in plan.jobs if key not in plan.stored]
    agents = [planned for _, planned in fresh if planned.needs_agent]
    replayed = [planned for key, planned in fresh if planned.needs_agent and recorded is not None and key in recorded]
    never_asks = plan.models is not None and plan.models.mode is ModelMode.REPLAY
    live = [
        planned
        for key, planned in fresh
        if planned.needs_agent
        and (recorded is None or key not in recorded)
        # Without a recording it asks no model or ends in an error, whose time is unknown.
        and not (never_asks and planned.target.has_recorded_models)
    ]
    backed = [planned for planned in agents if planned.target.kind not in _FREE_KINDS]
    asks_judges = plan.options.judge_replay is None
    questions = tuple(_list_questions(planned for _, planned in fresh)) if asks_judges else ()
    judged = list(dict.fromkeys(question.case for question in questions))
    asking = [planned for planned in live if planned.target.kind not in _FREE_KINDS]
    asked = list(dict.fromkeys(planned.key for planned in asking))
    return PlanCost(
        cases=len(plan.cases),
        repeats=plan.limits.runs,
        jobs=len(fresh),
        reused=plan.total - len(fresh),
        agent_turns=plan.agent_turns,
        model_jobs=len(backed),
        model_turns=sum(planned.turns or 0 for planned in backed),
        judge_calls=_sum_calls(questions, lambda question: question.metric),
        judges=_estimate_judges(
            questions, _sample_results(judged, {**earlier.replayed, **earlier.live}, read_result), prices
        ),
        open_ended=sum(planned.turns is None for planned in agents),
        users=tuple(_estimate_users(agents)) if asks_judges else (),
        live_jobs=len(live),
        live_model_jobs=len(asking),
        seconds=_estimate_seconds(live, earlier.live, lanes=plan.limits.concurrency),
        tokens=_estimate_tokens(asking, _sample_results(asked, earlier.live, read_result)),
        replays=None if recorded is None else _count_replays(plan, agents, recorded=len(replayed)),
        replayed_seconds=_estimate_seconds(replayed, earlier.replayed, lanes=plan.limits.concurrency),
    )


def _count_replays(plan: Plan, agents: Sequence[PlannedCase], *, recorded: int) -> Replays | None:
    """Count the jobs whose model calls may be replayed; None if there are none, and no recording was asked for."""
    total = sum(planned.target.has_recorded_models for planned in agents)
    if plan.models is None or not total:
        return None
    if not recorded and plan.models.replay is None and plan.models.mode is not ModelMode.REPLAY:
        return None  # all models are asked, if there are any
    unit = "case" if plan.limits.runs == 1 else "job"
    source = "" if plan.models.replay is None else shown_path(plan.models.replay.path)
    return Replays(mode=plan.models.mode, recorded=recorded, of=total, unit=unit, source=source)


def _estimate_users(jobs: Iterable[PlannedCase]) -> Iterator[UserCost]:
    """Estimate the calls to models that play users. Scripts do not count."""
    limits: dict[str, list[int]] = {}
    are_scripted = cache(is_scripted)
    for planned in jobs:
        if planned.scenario is None:
            continue
        options = get_user_options(planned.config)
        if not are_scripted(planned.target, options.model):
            limits.setdefault(options.model, []).append(options.limit)
    for model, each in limits.items():
        # The starting prompt is the first turn, and no call follows the last.
        at_most = None if NO_LIMIT in each else sum(limit - 1 for limit in each)
        yield UserCost(model=model, conversations=len(each), at_most=at_most)


class _Question(NamedTuple):
    """The calls of a criterion to a model for one case."""

    case: CaseKey
    metric: str
    model: str
    calls: int


def _list_questions(jobs: Iterable[PlannedCase]) -> Iterator[_Question]:
    for planned, (metric, judge, model) in _iterate_asked_models(jobs):
        yield _Question(planned.key, metric, model, judge.count_calls(planned.turns or 0))


def _iterate_asked_models(jobs: Iterable[PlannedCase]) -> Iterator[tuple[PlannedCase, AskedModel]]:
    are_scripted = cache(is_scripted)
    for planned in jobs:
        kept = {metric.name for metric in planned.reused_results}
        for asked in planned.criteria.asked_models:
            if asked.metric not in kept and not are_scripted(planned.target, asked.model):
                yield planned, asked


def _sum_calls(questions: Iterable[_Question], name: Callable[[_Question], str]) -> Mapping[str, int]:
    calls: dict[str, int] = {}
    for question in questions:
        calls[name(question)] = calls.get(name(question), 0) + question.calls
    return calls


def _estimate_judges(
    questions: Sequence[_Question], results: Mapping[CaseKey, Sequence[CaseResult]], prices: Prices | None
) -> Sequence[JudgeCost]:
    if not questions:
        return ()
    usual = dict(_average_tokens(results))
    cases = len({question.case for question in questions})
    judges = []
    for model, calls in _sum_calls(questions, lambda question: question.model).items():
        by_metric = _sum_calls((each for each in questions if each.model == model), lambda question: question.metric)
        unknown = None if prices is None else prices.explain_unknown(model)
        tokens = dollars = None
        if usual.keys() >= by_metric.keys():
            known = len(results.keys() & {question.case for question in questions})
            given = sum(usual[metric].input * count for metric, count in by_metric.items())
            made = sum(usual[metric].output * count for metric, count in by_metric.items())
            tokens = Estimate(given + made, known=known, of=cases)
            if prices is not None and unknown is None:
                cost = sum(prices.cost(model, usual[metric]) * count for metric, count in by_metric.items())
                dollars = Estimate(float(cost), known=known, of=cases)
        judges.append(
            JudgeCost(
                model=model,
                calls=calls,
                open_ended=len({each.case for each in questions if each.model == model and not each.calls}),
                tokens=tokens,
                dollars=dollars,
                price_unknown=unknown,
            )
        )
    return judges


def _average_tokens(results: Mapping[CaseKey, Sequence[CaseResult]]) -> Iterator[tuple[str, Tokens]]:
    """Yield the mean tokens of earlier replies, by criterion."""
    measured: dict[str, list[Tokens]] = {}
    for result in chain.from_iterable(results.values()):
        for metric in result.metrics:
            samples = (score.judgement.calls for score in metric.per_invocation if score.judgement is not None)
            tokens = [known for each in chain.from_iterable(samples) if (known := count_tokens(each.usage)) is not None]
            measured.setdefault(metric.name, []).extend(tokens)
    for metric_name, each in measured.items():
        if each:
            means = (round(sum(side) / len(each)) for side in zip(*each, strict=True))
            yield metric_name, Tokens(*means)


def _estimate_seconds(
    jobs: Sequence[PlannedCase], earlier: Mapping[CaseKey, Sequence[StoredJob]], *, lanes: int
) -> Estimate | None:
    """Estimate the time of all jobs on parallel lanes; at least that of the longest job."""
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


def _sample_results(
    keys: Sequence[CaseKey], earlier: Mapping[CaseKey, Sequence[StoredJob]], read_result: ReadResult
) -> Mapping[CaseKey, Sequence[CaseResult]]:
    """Read the results of an even sample of the cases that ran before."""
    ran = [key for key in keys if key in earlier]
    sample = ran[:: max(1, -(-len(ran) // _MOST_SAMPLED))]
    results = ((key, [read_result(job) for job in earlier[key]]) for key in sample)
    return {key: found for key, each in results if (found := [result for result in each if result is not None])}


def _estimate_tokens(jobs: Sequence[PlannedCase], results: Mapping[CaseKey, Sequence[CaseResult]]) -> Estimate | None:
    """Estimate the tokens of all jobs by the mean of known results."""
    keys = {planned.key for planned in jobs}
    used = [mean for key in keys & results.keys() if (mean := _mean_tokens(results[key])) is not None]
    return Estimate(len(jobs) * sum(used) / len(used), known=len(used), of=len(keys)) if used else None


def _mean_tokens(results: Sequence[CaseResult]) -> float | None:
    """Return the mean tokens of a repeat; None if no model reported them."""
    spent = [
        sum(turn.usage.total_tokens for turn in result.execution.turns if turn.usage is not None)
        for result in results
        if any(turn.usage is not None for turn in result.execution.turns)
    ]
    return sum(spent) / len(spent) if spent else None


# What the models of an agent cost, from the trace.

_COUNTS = {
    "prompt": ("prompt", "prompt_token_count", "promptTokenCount"),
    "tool_use_prompt": ("tool_use_prompt", "tool_use_prompt_token_count", "toolUsePromptTokenCount"),
    "candidates": ("candidates", "candidates_token_count", "candidatesTokenCount"),
    "thoughts": ("thoughts", "thoughts_token_count", "thoughtsTokenCount"),
    "cached": ("cached", "cached_content_token_count", "cachedContentTokenCount"),
    "total": ("total", "total_token_count", "totalTokenCount"),
}
"""Names of counts in the spans of adapters, and in replies of google.genai."""


def calculate_agent_cost(execution: Execution, prices: Prices) -> Decimal | None:
    """Return the cost of an agent's model calls in US dollars, by the prices of now; None if it is unknown.

    It is known if its spans report all tokens of its turns, and if the price of each of their models is known.
    """
    by_id = {span.id: span for span in execution.spans}
    replies: list[tuple[str, Tokens]] = []
    for span in execution.spans:
        # A call inside another is the same call, reported by a framework and by its client.
        if span.kind is SpanKind.MODEL and all(around.kind is not SpanKind.MODEL for around in _walk_up(span, by_id)):
            tokens = count_tokens(_read_usage(span))
            if tokens is not None:
                replies.append((_find_model(span), tokens))
    used = [count_tokens(turn.usage) for turn in execution.turns]
    if not replies or _sum_tokens(used) != _sum_tokens(tokens for _, tokens in replies):
        return None
    try:
        return sum((prices.cost(model, tokens) for model, tokens in replies), Decimal(0))
    except UnknownPrice:
        return None


def _walk_up(span: Span, by_id: Mapping[str, Span]) -> Iterator[Span]:
    seen = {span.id}  # parents as an agent reports them may form a circle
    around = by_id.get(span.parent_id or "")
    while around is not None and around.id not in seen:
        yield around
        seen.add(around.id)
        around = by_id.get(around.parent_id or "")


def _read_usage(span: Span) -> TokenUsage | None:
    response = span.response if isinstance(span.response, dict) else {}
    places = (span.attributes.get("usage"), response.get("usage_metadata"), response.get("usageMetadata"))
    usage = next((place for place in places if isinstance(place, dict)), None)
    if usage is None:
        return None
    found = {part: next((usage[name] for name in names if name in usage), None) for part, names in _COUNTS.items()}
    return TokenUsage(**{part: count for part, count in found.items() if type(count) is int})


def _find_model(span: Span) -> str:
    """Return the name of the model of a call. Spans of ADK and LangChain are named like it."""
    request = span.request if isinstance(span.request, dict) else {}
    names = (span.attributes.get("model"), request.get("model"), span.name)
    return next((name for name in names if name and isinstance(name, str)), "")


def _sum_tokens(counts: Iterable[Tokens | None]) -> int:
    return sum(tokens.input + tokens.output for tokens in counts if tokens is not None)
