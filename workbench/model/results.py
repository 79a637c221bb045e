"""Results: executions of agents, scores of metrics, agreement of judges, cost of models."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from typing import Annotated, Any, NamedTuple, TypeVar

from pydantic import AfterValidator, AliasChoices, BeforeValidator, Field

from workbench.model.evalset import (
    Content,
    EvalCase,
    FunctionCall,
    IntermediateData,
    Invocation,
    Part,
    Quarantine,
)
from workbench.model.facts import Fact, cache_by_identity, make_fast_constructor
from workbench.model.identity import CaseKey, Dependencies
from workbench.model.text import redact, shorten
from workbench.model.trace import Span, ToolCall

# Results: the execution of a case and its scores


class Score(NamedTuple):
    """The score of one invocation: a number, or None with the reason.

    `hint` warns people if the number is right by its definition and still misleading.
    """

    value: float | None
    reason: str | None = None
    hint: str | None = None

    @classmethod
    def undefined(cls, reason: str) -> Score:
        """Return a score that does not exist (0/0, nothing to compare). It is left out of the mean."""
        return cls(None, reason)


class MetricStatus(StrEnum):
    """How one metric judged one case."""

    PASSED = "PASSED"
    FAILED = "FAILED"
    ERROR = "ERROR"
    UNDEFINED = "UNDEFINED"
    INFORMATIONAL = "INFORMATIONAL"


class CaseStatus(StrEnum):
    """How one execution of a case ended."""

    PASSED = "PASSED"
    FAILED = "FAILED"
    ERROR = "ERROR"
    NOT_EVALUATED = "NOT_EVALUATED"
    SKIPPED = "SKIPPED"
    CANCELLED = "CANCELLED"


class FailureKind(StrEnum):
    """The part that failed. Only INFRASTRUCTURE failures are retried."""

    AGENT = "agent"  # the agent's code raised, exited, or returned a value of the wrong type
    TIMEOUT = "timeout"  # the case exceeded its time limit
    CRASH = "crash"  # the agent's process died
    INFRASTRUCTURE = "infrastructure"  # 429, 5xx or no connection
    METRIC = "metric"  # a metric raised
    FILE = "file"  # the case cannot be read, or another case of its set has the same id
    SETUP = "setup"  # the agent could not be found, imported or started, or its model has no key
    UNSUPPORTED = "unsupported"  # the case or criterion needs a feature that is missing
    USER = "user"  # the simulated user failed: no key, unknown model, unusable reply
    TOOL = "tool"  # a simulated tool failed: no key, a reply that is not JSON, a call that was not recorded
    REPLAY = "replay"  # a model call of the agent is not in the recording that must answer it


_Redacted = Annotated[str, AfterValidator(redact)]


class Failure(Fact):
    """Why a case ended in ERROR: one sentence and, if available, details. Secrets are redacted."""

    kind: FailureKind
    message: _Redacted
    turn: int | None = None  # counted from 0; None if no turn had started
    traceback: _Redacted | None = None
    stderr_tail: _Redacted | None = None


class TokenUsage(Fact):
    """Tokens of one turn, summed over its model calls. None means unknown, which is not 0."""

    prompt: int | None = None
    tool_use_prompt: int | None = None
    candidates: int | None = None
    thoughts: int | None = None
    cached: int | None = None
    total: int | None = None

    @property
    def total_tokens(self) -> int:
        """The total that the model reported, or the sum of its parts."""
        if self.total is not None:
            return self.total
        return (self.prompt or 0) + (self.tool_use_prompt or 0) + (self.candidates or 0) + (self.thoughts or 0)


class TurnResult(Fact):
    """One turn as the agent did it; `invocation.user_content` is its input.

    `calls_unknown` says why it is unknown which tools were called: their report did not arrive, or it does not exist.
    `arguments_unknown` says why only the names of the calls are known. `calls_unknown_by_design`: the agent has no way
    to report calls, so it is no outage that they are unknown. `pending` is what the agent waits for at the end of the
    turn, such as the question of an interrupt; the next turn answers it. `notes` are remarks on the turn, such as an
    error that a framework logged and from which it went on.
    """

    invocation: Invocation
    duration_seconds: float
    inference_calls: int | None = None  # None if the adapter cannot see model calls
    usage: TokenUsage | None = None
    calls_unknown: str | None = None
    arguments_unknown: str | None = None
    pending: str | None = None
    notes: tuple[str, ...] = ()
    calls_unknown_by_design: bool = Field(
        default=False, validation_alias=AliasChoices("calls_unknown_by_design", "calls_untold")
    )

    @property
    def has_no_call_report(self) -> bool:
        """True if the agent reports no calls at all; False if it does, even if this report was lost."""
        return self.calls_unknown_by_design or self.invocation.intermediate_data is None


class ConversationEnd(StrEnum):
    """Why a conversation with a simulated user ended."""

    STOP_SIGNAL = "stop_signal"  # the user sent the stop signal
    LIMIT = "limit"  # the maximum number of turns was reached


class SimulatedConversation(Fact):
    """A conversation in which a model played the user of a scenario.

    `persona` is an id. `limit` is the maximum number of turns (None: no limit). `cached` counts those of the `calls`
    that came from the cache. `scripted`: a script replied instead of a model. `end`: None if the agent or the user
    failed before the end.
    """

    model: str
    persona: str | None = None
    end: ConversationEnd | None = None
    limit: int | None = None
    calls: int = 0
    cached: int = 0
    scripted: bool = False


def _read_difference(value: object) -> object:
    """Ignore the sentence that older versions stored."""
    return None if isinstance(value, str) else value


def add_costs(*costs: float | None) -> float | None:
    """Return the sum of the known costs; None if none is known."""
    known = [cost for cost in costs if cost is not None]
    return sum(known) if known else None


class RequestDifference(Fact):
    """The first request of a case that differs from its recording, and the part that differs.

    `call` numbers the model calls of the case from 1, `turn` its turns from 0. `what` is the part that differs, such as
    `instruction, line 4`; None if the request was not made when the case was recorded. `before` and `now` are the
    texts, without the equal lines around them; None where there is none. With `is_json` they are JSON values, such as
    a number. `hint` says what to declare if the difference looks like a date or a random id. `error` says how an equal
    request ended when it was recorded, if it got no answer that can be replayed. `uncovered` is the library that makes
    the request if it can be neither recorded nor replayed. `unnamed` is the address of a request that looks like one to
    a model, if no endpoint covers it.
    """

    call: int
    turn: int
    what: str | None = None
    before: str | None = None
    now: str | None = None
    is_json: bool = False
    hint: str | None = None
    error: str | None = None
    uncovered: str | None = None
    unnamed: str | None = None

    def __str__(self) -> str:
        """Return the difference as a sentence. Of several lines it has the first."""
        if self.what is None:
            return self.heading
        before, now = map(self._quote, (self.before, self.now))
        return f"{self.heading}: {before} became {now}" + (f" ({self.hint})" if self.hint else "")

    def _quote(self, text: str | None) -> str:
        if text is None:
            return "nothing"
        return shorten(text if self.is_json else json.dumps(text.split("\n")[0], ensure_ascii=False), 80)

    @property
    def is_of_one_call(self) -> bool:
        """True if the other calls are answered as if this one was not made."""
        return self.uncovered is not None or self.unnamed is not None

    @property
    def heading(self) -> str:
        """The sentence without the texts."""
        call = f"model call {self.call} of turn {self.turn + 1}" if self.turn else f"model call {self.call}"
        if self.uncovered is not None:
            return f"{call} is made with {self.uncovered}, which can be neither recorded nor replayed"
        if self.unnamed is not None:
            return f"{call} looks like a request to a model, but [replay] endpoints do not cover {self.unnamed}"
        if self.error is not None:
            error = shorten(self.error.split("\n")[0], 120)
            return f"{call} ended in an error when it was recorded ({error}), which cannot be replayed"
        if self.what is None:
            return f"{call} was not made when the case was recorded"
        return f"{call} differs from the recording: {self.what} changed"


class ModelCalls(Fact):
    """How many calls of the agent's models were made (`live`) and answered from a recording (`replayed`).

    `saved_seconds` is how long the models took for the replayed answers, `saved_cost` what these cost in US dollars:
    None if no price is known. `difference` is the first request that differs from the recording, from which on models
    were asked. `recording` identifies the recorded calls that a branch of the execution replays: a hash of those that
    answered it, or of its own if a model was asked. It is None for a sum of several executions.
    """

    live: int = 0
    replayed: int = 0
    saved_seconds: float = 0.0
    saved_cost: float | None = None
    difference: Annotated[RequestDifference | None, BeforeValidator(_read_difference)] = None
    recording: str | None = None

    def __bool__(self) -> bool:
        """True if a model was called."""
        return bool(self.live or self.replayed)

    def add(self, other: ModelCalls) -> ModelCalls:
        """Return the sums of both."""
        return ModelCalls(
            live=self.live + other.live,
            replayed=self.replayed + other.replayed,
            saved_seconds=self.saved_seconds + other.saved_seconds,
            saved_cost=add_costs(self.saved_cost, other.saved_cost),
        )


class Execution(Fact):
    """One run of the agent on one case, with the turns that were finished before a failure, if any.

    `duration_seconds` covers import, start, users and turns. `unfinished_seconds` is the time of a turn that did not
    finish. `simulation` is set if a model played the user. `node` is the node of the cluster on which the agent ran,
    None on this machine. `dependencies`: None if unknown; the history stores them separately.
    """

    turns: tuple[TurnResult, ...] = ()
    final_state: dict[str, Any] | None = None
    spans: tuple[Span, ...] = ()
    duration_seconds: float = 0.0
    unfinished_seconds: float = 0.0
    failure: Failure | None = None
    stdout_tail: str = ""
    stderr_tail: str = ""
    simulation: SimulatedConversation | None = None
    model_calls: ModelCalls | None = None
    node: str | None = None
    dependencies: Dependencies | None = Field(default=None, exclude=True, repr=False)

    @property
    def is_replayed(self) -> bool:
        """True if recorded answers replaced answers of the agent's models."""
        return self.model_calls is not None and self.model_calls.replayed > 0

    @property
    def agent_seconds(self) -> float:
        """The time of the agent's turns."""
        return sum((turn.duration_seconds for turn in self.turns), self.unfinished_seconds)


class JudgeSample(Fact):
    """One reply of a judge model.

    `score`: None if the reply had no readable score (`problem` says why), or if it scores several things, such as
    rubrics. `label` is the name of the score, if it has one. `prompt` is set if it differs from the prompt of the
    judgement. `reply` is the text of the model; `cached`: it came from an earlier run; `scripted`: a script replied
    instead of a model. `outage`: the model did not reply, or was not asked (`unasked`), because a budget was used up or
    a record of calls lacks this one.
    """

    score: float | None = None
    label: str = ""
    rationale: str = ""
    prompt: str | None = None
    reply: str = ""
    problem: str | None = None
    outage: bool = False
    unasked: bool = False
    cached: bool = False
    scripted: bool = False
    seconds: float = 0.0
    usage: TokenUsage | None = None


class RubricScore(Fact):
    """One rubric by the majority of the samples: 1 for yes, 0 for no, None if no sample rates it.

    `rationale` is that of the first sample of the majority; `yes` and `no` count samples.
    """

    rubric_id: str
    text: str
    score: float | None
    rationale: str = ""
    yes: int = 0
    no: int = 0


SUPPORTED_LABELS = frozenset({"supported", "not_applicable"})
"""Labels of sentences that count as supported; all other labels do not."""


class SentenceScore(Fact):
    """One sentence of a response by the majority of samples: 1 if supported, 0 if not, None if no sample rates it.

    `response` numbers the agent's messages in the turn from 1; the final response is the last. `rationale` and
    `evidence` (a quotation from the context) are those of the first sample with this label. `votes` counts samples by
    label.
    """

    sentence: str
    response: int
    score: float | None
    label: str | None = None
    rationale: str = ""
    evidence: str = ""
    votes: dict[str, int] = Field(default_factory=dict)


class Preparation(Fact):
    """The request before the samples, so that all samples rate the same sentences or properties.

    `tries` end with the first reply that could be read, if any.
    """

    prompt: str
    tries: tuple[JudgeSample, ...] = ()


class Judgement(Fact):
    """The request to a judge model about one turn or a whole conversation, with its samples.

    `prompt` is empty if the preparation failed, so that no sample was requested. `lowest` and `best` are the lowest and
    the highest possible score of a sample (None: no limit). `spread` is the standard deviation of two or more ratings;
    votes have none.
    """

    model: str
    prompt: str
    system: str | None = None
    samples: tuple[JudgeSample, ...] = ()
    rubrics: tuple[RubricScore, ...] = ()
    sentences: tuple[SentenceScore, ...] = ()
    preparation: Preparation | None = None
    lowest: float | None = 0.0
    best: float | None = 1.0
    spread: float | None = None

    @property
    def samples_read(self) -> int:
        """The number of readable samples; of rubrics or sentences the smallest number for any of them."""
        if self.rubrics:
            return min(rubric.yes + rubric.no for rubric in self.rubrics)
        if self.sentences:
            return min(sum(sentence.votes.values()) for sentence in self.sentences)
        return sum(sample.score is not None for sample in self.samples)

    @property
    def calls(self) -> tuple[JudgeSample, ...]:
        """All requests to the model, in order."""
        return (*(self.preparation.tries if self.preparation is not None else ()), *self.samples)


class InvocationScore(Fact):
    """One metric on one turn. Either `score` or `reason` is set. `judgement`: a model judged."""

    score: float | None
    reason: str | None = None
    hint: str | None = None
    judgement: Judgement | None = None


class SampleCount(NamedTuple):
    """The number of readable and of requested samples of a judge, and the turn (counted from 1)."""

    readable: int
    requested: int
    turn: int


class MetricResult(Fact):
    """One metric on one case.

    `score` is the mean over the scored turns, or None with a `reason`. `scored` of `total` turns were scored. A metric
    that rates the whole case has an empty `per_invocation`, and `total` is 1. `dependencies` are those of a custom
    metric, and `outage` means that it took too long, or that a service did not answer it.
    """

    name: str
    score: float | None
    threshold: float | None
    status: MetricStatus
    reason: str | None = None
    hint: str | None = None
    scored: int = 0
    total: int = 0
    per_invocation: tuple[InvocationScore, ...] = ()
    details: dict[str, Any] = Field(default_factory=dict)
    outage: bool = False
    dependencies: Dependencies | None = Field(default=None, exclude=True, repr=False)

    @property
    def fewest_samples(self) -> SampleCount | None:
        """The turn with the smallest share of readable samples; None if no verdict has samples."""
        counts = (
            SampleCount(turn.judgement.samples_read, len(turn.judgement.samples), number)
            for number, turn in enumerate(self.per_invocation, start=1)
            if turn.judgement is not None and turn.judgement.samples and turn.score is not None
        )
        return min(counts, key=lambda count: count.readable / count.requested, default=None)

    @property
    def missing_samples(self) -> SampleCount | None:
        """The turn with the smallest share of readable samples; None if all samples could be read."""
        count = self.fewest_samples
        return count if count is not None and count.readable < count.requested else None

    @property
    def has_outage(self) -> bool:
        """True if it has no score because a judge or another service gave no answer, so that a retry may succeed."""
        return self.status is MetricStatus.ERROR and (
            self.outage
            or any(
                sample.outage
                for score in self.per_invocation
                if score.judgement is not None and score.score is None
                for sample in score.judgement.calls
            )
        )


MetricScores = tuple[tuple[str, float | None], ...]
"""Metrics by name, each with its score or None: the part of a result that a summary counts."""


class CaseResult(Fact):
    """One case of one repeat, executed and scored.

    `agent_seconds` is the time of the agent's turns, `duration_seconds` that of the whole execution: see `Execution`.
    `expected_by_row` is set if the case is a row of a dataset: no eval set has the expectation, and the row may no
    longer exist. `quarantine` is that of the case when it ended, also an expired one.
    """

    case: CaseKey
    eval_set_id: str
    repeat: int = 0
    status: CaseStatus
    duration_seconds: float = 0.0
    agent_seconds: float = 0.0
    failure: Failure | None = None
    metrics: tuple[MetricResult, ...] = ()
    execution: Execution = Execution()
    expected_by_row: EvalCase | None = None
    quarantine: Quarantine | None = None

    @property
    def is_quarantined(self) -> bool:
        """True if it FAILED and this does not fail the run."""
        return is_quarantined(self.status, self.quarantine)

    @property
    def is_row(self) -> bool:
        """True if the case is a row of a dataset. A row without a trajectory has unknown calls."""
        return self.expected_by_row is not None

    def has_known_calls(self, turn: TurnResult) -> bool:
        """True if it is known which tools were called in a turn of this case."""
        return turn.calls_unknown is None and not (self.is_row and turn.invocation.intermediate_data is None)

    @property
    def is_recorded(self) -> bool:
        """True if recorded data were scored without running an agent: an agent takes some time."""
        return self.is_row and not self.execution.duration_seconds

    @property
    def has_outage(self) -> bool:
        """True if a judge could not be reached, so that scoring again may give a verdict."""
        return self.status is CaseStatus.ERROR and has_outage(self.metrics)


def is_quarantined(status: CaseStatus, quarantine: Quarantine | None) -> bool:
    """Return True for a FAILED that does not fail a run. An ERROR always counts."""
    return quarantine is not None and not quarantine.is_expired and status is CaseStatus.FAILED


def decide_case_status(metrics: tuple[MetricResult, ...], *, failure: Failure | None = None) -> CaseStatus:
    """Return ERROR after any failure, else FAILED if a metric failed, PASSED if one passed, else NOT_EVALUATED."""
    return _combine_statuses(metrics) if failure is None else CaseStatus.ERROR


def has_judgements(metrics: Iterable[MetricResult]) -> bool:
    """True if a model judged. Such metrics have long prompts, and no two cases share them."""
    return any(score.judgement is not None for metric in metrics for score in metric.per_invocation)


@cache_by_identity(maxsize=256, skip_if=has_judgements)
def has_missing_samples(metrics: tuple[MetricResult, ...]) -> bool:
    """True if a verdict has fewer samples of a judge than were requested."""
    return any(metric.missing_samples is not None for metric in metrics)


@cache_by_identity(maxsize=256, skip_if=has_judgements)
def has_outage(metrics: tuple[MetricResult, ...]) -> bool:
    """True if a metric has no score because a judge could not be reached."""
    return any(metric.has_outage for metric in metrics)


def has_unsure_metric(metrics: Sequence[MetricResult]) -> bool:
    """True if samples of a judge disagree on a case."""
    return has_judgements(metrics) and any(map(is_unsure, metrics))


@cache_by_identity(maxsize=256, skip_if=has_judgements)
def _combine_statuses(metrics: tuple[MetricResult, ...]) -> CaseStatus:
    statuses = {metric.status for metric in metrics}
    if MetricStatus.ERROR in statuses:
        return CaseStatus.ERROR
    if MetricStatus.FAILED in statuses:
        return CaseStatus.FAILED
    if MetricStatus.PASSED in statuses:
        return CaseStatus.PASSED
    return CaseStatus.NOT_EVALUATED


# Agreement: the samples of one judgement, several judgements, a judge and people


class Agreement(NamedTuple):
    """The `share` of samples that agree with the majority, and for ratings the `spread` (see Judgement).

    Every verdict on a rubric is a vote, and every verdict on whether a sentence is supported.
    """

    share: float
    votes: int
    spread: float | None = None


def measure_agreement(judgement: Judgement) -> Agreement | None:
    """Measure how far the samples of a judgement agree. Return None if fewer than two have a verdict."""
    counts = _count_votes(judgement)
    votes = sum(sum(each) for each in counts)
    if not votes:
        return None
    share = sum(max(each) for each in counts) / votes
    return Agreement(share, votes, judgement.spread)


def is_unsure(metric: MetricResult) -> bool:
    """True if samples of a judge disagree on a case, so that other samples may give another verdict.

    Ratings disagree if some would pass alone and others would not.
    """
    return any(_has_disagreement(turn, metric.threshold) for turn in metric.per_invocation)


_Ratings = TypeVar("_Ratings", bound=tuple[Hashable, ...])


def cohen_kappa(pairs: Sequence[_Ratings] | Mapping[_Ratings, int]) -> float | None:
    """Return the agreement of two raters beyond chance; None if there are no ratings, or all are the same.

    `pairs` has the two ratings of each item, or counts them, as for all statistics here.
    """
    counts = Counter(pairs)
    if not counts.total():
        return None
    first, second = _count_ratings(counts)
    observed = sum(count for (one, other), count in counts.items() if one == other) / counts.total()
    expected = sum(first[rating] * second[rating] for rating in first) / counts.total() ** 2
    return _correct_for_chance(observed, expected)


def weighted_kappa(pairs: Sequence[tuple[float, float]] | Mapping[tuple[float, float], int]) -> float | None:
    """Return the agreement of two raters beyond chance; differences weigh by their square.

    J. Cohen, "Weighted kappa", Psychological Bulletin 70 (1968), 213-220. None as for `cohen_kappa`.
    """
    counts = Counter(pairs)
    if not counts.total():
        return None
    first, second = _count_ratings(counts)
    observed = sum((one - other) ** 2 * count for (one, other), count in counts.items()) / counts.total()
    by_chance = sum((one - other) ** 2 * first[one] * second[other] for one in first for other in second)
    expected = by_chance / counts.total() ** 2
    return None if expected == 0.0 else 1.0 - observed / expected


def fleiss_kappa(items: Sequence[_Ratings] | Mapping[_Ratings, int]) -> float | None:
    """Return the agreement of several raters beyond chance; each of them has rated every item.

    None if no item has two ratings, or all ratings are the same.
    """
    observed = observed_agreement(items)
    if observed is None:
        return None
    rating_counts: Counter[Hashable] = Counter()
    for item, count in Counter(items).items():
        for rating in item:
            rating_counts[rating] += count
    total = rating_counts.total()
    return _correct_for_chance(observed, sum((count / total) ** 2 for count in rating_counts.values()))


def observed_agreement(items: Sequence[_Ratings] | Mapping[_Ratings, int]) -> float | None:
    """Return the share of pairs of raters that agree on an item, mean over the items; None without pairs."""
    counts = Counter(items)
    raters = len(next(iter(counts), ()))
    if raters < 2 or not counts.total():
        return None
    agreeing_pairs = sum(
        count * sum(votes * (votes - 1) for votes in Counter(item).values()) for item, count in counts.items()
    )
    return agreeing_pairs / (counts.total() * raters * (raters - 1))


def _count_ratings(counts: Counter[_Ratings]) -> tuple[Counter[Any], Counter[Any]]:
    """Return how often each rater gave each rating."""
    first, second = Counter[Any](), Counter[Any]()
    for (one, other), count in counts.items():
        first[one] += count
        second[other] += count
    return first, second


def _correct_for_chance(observed: float, expected: float) -> float | None:
    # If all ratings are the same, chance explains everything: 0/0.
    return None if expected >= 1.0 else (observed - expected) / (1.0 - expected)


def _count_votes(judgement: Judgement) -> list[Sequence[int]]:
    """Count the verdicts on each rubric, sentence or score that at least two samples rate."""
    if judgement.rubrics:
        counts: list[Sequence[int]] = [(rubric.yes, rubric.no) for rubric in judgement.rubrics]
    elif judgement.sentences:
        counts = [_count_support(sentence) for sentence in judgement.sentences]
    else:
        counts = [tuple(Counter(_get_scores(judgement)).values())]
    return [each for each in counts if sum(each) > 1]


def _count_support(sentence: SentenceScore) -> tuple[int, int]:
    supported = sum(count for label, count in sentence.votes.items() if label in SUPPORTED_LABELS)
    return supported, sum(sentence.votes.values()) - supported


def _get_scores(judgement: Judgement) -> list[float]:
    return [sample.score for sample in judgement.samples if sample.score is not None]


def _has_disagreement(turn: InvocationScore, threshold: float | None) -> bool:
    judgement = turn.judgement
    if judgement is None or turn.score is None:
        return False
    if judgement.spread is not None and threshold is not None:
        return len({score >= threshold for score in _get_scores(judgement)}) > 1
    return any(max(each) < sum(each) for each in _count_votes(judgement))


# Spending: calls, tokens and, if prices are known, cost


class ModelSpending(Fact):
    """The calls of one model in a run.

    `calls` are replies of the model. `cached` replies come from the cache, `replayed` ones from a recording; both are
    free and no `calls`. `failed` are tries without a reply. Tokens are those of `calls` whose reply reports its usage
    (`calls_without_usage` replies do not), and of `failed` tries whose reply had no text. `cost` is in US dollars by
    list prices. None means unknown, and `cost_unknown` says why.
    """

    model: str
    calls: int = 0
    cached: int = 0
    replayed: int = 0
    failed: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    calls_without_usage: int = Field(default=0, validation_alias=AliasChoices("calls_without_usage", "untold"))
    cost: float | None = 0.0
    cost_unknown: str | None = None

    @property
    def tokens(self) -> int:
        """All reported tokens."""
        return self.input_tokens + self.output_tokens

    def add(self, more: ModelSpending) -> ModelSpending:
        """Return the sum with the spending of the same model; the cost is known only if both are."""
        cost = None if self.cost is None or more.cost is None else self.cost + more.cost
        return ModelSpending(
            model=self.model,
            calls=self.calls + more.calls,
            cached=self.cached + more.cached,
            replayed=self.replayed + more.replayed,
            failed=self.failed + more.failed,
            input_tokens=self.input_tokens + more.input_tokens,
            output_tokens=self.output_tokens + more.output_tokens,
            calls_without_usage=self.calls_without_usage + more.calls_without_usage,
            cost=cost,
            cost_unknown=self.cost_unknown if self.cost_unknown is not None else more.cost_unknown,
        )


def merge_by_model(spendings: Iterable[ModelSpending]) -> tuple[ModelSpending, ...]:
    """Merge the spending of several runs by model, in the order of their first call."""
    merged: dict[str, ModelSpending] = {}
    for spending in spendings:
        merged[spending.model] = merged[spending.model].add(spending) if spending.model in merged else spending
    return tuple(merged.values())


# Rows of datasets as cases of one turn

_TURN_FIELDS = {"user_content", "final_response", "intermediate_data"}
_EXECUTION_FIELDS = {"turns"}

_case = make_fast_constructor(EvalCase, {"eval_id", "conversation"})
_invocation = make_fast_constructor(Invocation, _TURN_FIELDS)
_content = make_fast_constructor(Content, {"parts", "role"})
_part = make_fast_constructor(Part, {"text"})
_data = make_fast_constructor(IntermediateData, {"tool_uses"})
_call = make_fast_constructor(FunctionCall, {"name", "args"})
_result = make_fast_constructor(TurnResult, {"invocation", "duration_seconds"})
_execution = make_fast_constructor(Execution, _EXECUTION_FIELDS)


def make_row_prompt(prompt: str | None) -> Content:
    """Make the user's message; it has no parts if the row has no prompt."""
    return _content({"parts": [], "role": "user"}) if prompt is None else _make_text(prompt, "user")


def make_row_turn(user_content: Content, answer: str | None, calls: Iterable[ToolCall] | None) -> Invocation:
    """Make the expected or actual turn of a row; `user_content` is made by `make_row_prompt`.

    None means unknown; an empty list means no calls.
    """
    response = None if answer is None else _make_text(answer, "model")
    data = None
    if calls is not None:
        data = _data({"tool_uses": [_call({"id": None, "name": name, "args": args}) for name, args in calls]})
    return _invocation({"user_content": user_content, "final_response": response, "intermediate_data": data})


@lru_cache(maxsize=8)  # both sides of a row have the same prompt, and often the same answer
def _make_text(text: str, role: str) -> Content:
    return _content({"parts": [_part({"text": text})], "role": role})


def make_row_case(eval_id: str, expected: Invocation) -> EvalCase:
    """Make the case of an expected turn."""
    return _case({"eval_id": eval_id, "conversation": [expected]})


def make_row_execution(actual: Invocation, *, seconds: float) -> Execution:
    """Make the execution of an actual turn; `seconds` is its duration."""
    return _execution({"turns": (_result({"invocation": actual, "duration_seconds": seconds}),)})


def is_row_execution(execution: Execution) -> bool:
    """True if the execution was made by `make_row_execution` from a turn of `make_row_turn`.

    False is no proof of the contrary: a copy, or an execution that was read back, may be equal.
    """
    if execution.model_fields_set is not _EXECUTION_FIELDS:
        return False
    return execution.turns[0].invocation.model_fields_set is _TURN_FIELDS
