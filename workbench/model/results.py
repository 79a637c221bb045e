"""Results: what an agent did, how each metric judged it, how far judges agree, what models cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from enum import StrEnum
from typing import Annotated, Any, NamedTuple

from pydantic import AfterValidator, AliasChoices, Field

from workbench.model.base import Fact, cache_by_identity, make_fast_constructor
from workbench.model.evalset import Content, EvalCase, FunctionCall, IntermediateData, Invocation, Part
from workbench.model.identity import CaseKey, Dependencies
from workbench.model.text import redact
from workbench.model.trace import Span, ToolCall

# Results: what an agent did in a case and how that was judged.


class Score(NamedTuple):
    """What a metric gives for one invocation: a number, or None with the reason.

    `hint` is a sentence for people where the number is right by its definition and still misleads.
    """

    value: float | None
    reason: str | None = None
    hint: str | None = None

    @classmethod
    def undefined(cls, reason: str) -> Score:
        """A score that does not exist (0/0, nothing to compare): it leaves the mean."""
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
    """What could not do its work. Only INFRASTRUCTURE failures are tried again."""

    AGENT = "agent"  # the agent's code raised, exited, or gave something of the wrong shape
    TIMEOUT = "timeout"  # the case took longer than it may
    CRASH = "crash"  # the process of the agent died
    INFRASTRUCTURE = "infrastructure"  # 429, 5xx, a connection: neither the agent's fault nor an answer
    METRIC = "metric"  # a metric raised
    FILE = "file"  # the case cannot be read, or shares its id with another of its set
    SETUP = "setup"  # the agent could not be found, imported or started, or its model has no key
    UNSUPPORTED = "unsupported"  # the case or criterion needs something that is not there
    USER = "user"  # the simulated user could not go on: no key, no such model, no answer that can be used
    TOOL = "tool"  # what answers in place of a tool could not: no key, prose, a call that was not recorded


_Redacted = Annotated[str, AfterValidator(redact)]


class Failure(Fact):
    """Why a case ended in ERROR, for people: one sentence, and more for those who ask. Secrets are redacted."""

    kind: FailureKind
    message: _Redacted
    turn: int | None = None  # counted from 0; None where no turn had begun
    traceback: _Redacted | None = None
    stderr_tail: _Redacted | None = None


class TokenUsage(Fact):
    """Tokens of one turn, summed over its model calls. None is unknown, which is not 0."""

    prompt: int | None = None
    tool_use_prompt: int | None = None
    candidates: int | None = None
    thoughts: int | None = None
    cached: int | None = None
    total: int | None = None

    @property
    def total_tokens(self) -> int:
        """All tokens: the total that the model gave, else the sum of its parts."""
        if self.total is not None:
            return self.total
        return (self.prompt or 0) + (self.tool_use_prompt or 0) + (self.candidates or 0) + (self.thoughts or 0)


class TurnResult(Fact):
    """One turn as the agent did it; `invocation.user_content` is its input.

    `calls_unknown` says why it is unknown which tools were called: their report did not arrive, or there is none.
    `arguments_unknown` says why only the names of the calls are known. `calls_unknown_by_design`: the agent has no way
    to report calls, so it is no outage that they are unknown.
    """

    invocation: Invocation
    duration_seconds: float
    inference_calls: int | None = None  # None where the adapter cannot see model calls
    usage: TokenUsage | None = None
    calls_unknown: str | None = None
    arguments_unknown: str | None = None
    calls_unknown_by_design: bool = Field(
        default=False, validation_alias=AliasChoices("calls_unknown_by_design", "calls_untold")
    )

    @property
    def has_no_call_report(self) -> bool:
        """True if the agent reports no calls at all; False if it does, even if this report was lost."""
        return self.calls_unknown_by_design or self.invocation.intermediate_data is None


class ConversationEnd(StrEnum):
    """What ended a conversation with a simulated user."""

    STOP_SIGNAL = "stop_signal"  # the user said that it is over
    LIMIT = "limit"  # it had as many turns as it may have


class SimulatedConversation(Fact):
    """How a model played the user of a scenario.

    `persona` is its id, `limit` how many turns the conversation might have (None: any number). Of the `calls` of the
    model so many were `cached`; `scripted`: no model was asked, a script answered. `end` is None where the agent or the
    user failed before the conversation was over.
    """

    model: str
    persona: str | None = None
    end: ConversationEnd | None = None
    limit: int | None = None
    calls: int = 0
    cached: int = 0
    scripted: bool = False


class Execution(Fact):
    """One run of the agent on one case: the turns that were finished, even if a later one was not.

    `duration_seconds` is the time of everything: import, start, users and turns. `unfinished_seconds` is the time of a
    turn that did not finish.
    `simulation` is there where a model played the user. `dependencies` is what it depended on, where its process could
    tell; the history keeps that apart.
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
    dependencies: Dependencies | None = Field(default=None, exclude=True, repr=False)

    @property
    def agent_seconds(self) -> float:
        """The time of the agent's turns."""
        return sum((turn.duration_seconds for turn in self.turns), self.unfinished_seconds)


class JudgeSample(Fact):
    """One opinion of a judge model.

    `score` is None where it gave none that could be read (`problem` says why) or where it is not about one thing, as
    with rubrics; `label` is what the score stands for, where that has a name. `prompt` is what was asked where that is
    not the prompt of the judgement. `reply` is what the model said, word for word; `cached`: it said so in an earlier
    run; `scripted`: no model was asked, a script answered. `outage`: the model gave no answer, or was not asked
    (`unasked`): a budget was used up, or a record of calls lacks this one.
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
    """One rubric by the majority of the samples: 1 for yes, 0 for no, None where no sample says. `rationale` is that of
    the first sample of the majority; `yes` and `no` count samples."""

    rubric_id: str
    text: str
    score: float | None
    rationale: str = ""
    yes: int = 0
    no: int = 0


SUPPORTED_LABELS = frozenset({"supported", "not_applicable"})
"""Labels of sentences that may stand; those with any other label may not."""


class SentenceScore(Fact):
    """One sentence of a response by the majority of samples: 1 where it may stand, 0 where not, None where none says.

    `response` counts what the agent said in the turn from 1; the final response is the last. `rationale` and `evidence`
    (what was quoted from the context) are those of the first sample with this label; `votes` counts samples by label.
    """

    sentence: str
    response: int
    score: float | None
    label: str | None = None
    rationale: str = ""
    evidence: str = ""
    votes: dict[str, int] = Field(default_factory=dict)


class Preparation(Fact):
    """What a judge was asked before its samples, so that all of them are about the same sentences or properties.

    `tries` end with the first reply that could be read, if there was one.
    """

    prompt: str
    tries: tuple[JudgeSample, ...] = ()


class Judgement(Fact):
    """What a judge model was asked about one turn, or about a whole conversation, and what it said.

    `prompt` is empty where the preparation failed, so that no sample was asked. `lowest` and `best` are the lowest and
    the highest score that a sample can give (None: any); `spread` is the standard deviation of their scores, where
    there are two or more that are not votes.
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
        """How many samples the verdict rests on: of rubrics or sentences the fewest that speak of any one of them."""
        if self.rubrics:
            return min(rubric.yes + rubric.no for rubric in self.rubrics)
        if self.sentences:
            return min(sum(sentence.votes.values()) for sentence in self.sentences)
        return sum(sample.score is not None for sample in self.samples)

    @property
    def calls(self) -> tuple[JudgeSample, ...]:
        """Everything that was asked, in order."""
        return (*(self.preparation.tries if self.preparation is not None else ()), *self.samples)


class InvocationScore(Fact):
    """One metric on one turn; `score` is None exactly when `reason` says why. `judgement`: where a model judged."""

    score: float | None
    reason: str | None = None
    hint: str | None = None
    judgement: Judgement | None = None


class SampleCount(NamedTuple):
    """How many of the samples that a judge was asked for a verdict rests on, on which turn (counted from 1)."""

    read: int
    asked: int
    turn: int


class MetricResult(Fact):
    """One metric on one case.

    `score` is the mean over the turns that have one, null with `reason` where there is none. `scored` of `total` turns
    were scored. For a metric that judges the case as a whole `per_invocation` is empty and `total` is 1. `dependencies`
    is what a custom metric depended on besides.
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
    dependencies: Dependencies | None = Field(default=None, exclude=True, repr=False)

    @property
    def fewest_samples(self) -> SampleCount | None:
        """The turn whose verdict rests on the smallest share of its samples; None if no verdict rests on samples."""
        counts = (
            SampleCount(turn.judgement.samples_read, len(turn.judgement.samples), number)
            for number, turn in enumerate(self.per_invocation, start=1)
            if turn.judgement is not None and turn.judgement.samples and turn.score is not None
        )
        return min(counts, key=lambda count: count.read / count.asked, default=None)

    @property
    def missing_samples(self) -> SampleCount | None:
        """The same, or None if all samples could be read."""
        count = self.fewest_samples
        return count if count is not None and count.read < count.asked else None

    @property
    def has_outage(self) -> bool:
        """Whether it has no score because a judge could not be reached: asked again it may well have one."""
        return self.status is MetricStatus.ERROR and any(
            sample.outage
            for score in self.per_invocation
            if score.judgement is not None and score.score is None
            for sample in score.judgement.calls
        )


MetricScores = tuple[tuple[str, float | None], ...]
"""The metrics of a case by name with what each scored, None where it had no score: what of them counts in a summary."""


class CaseResult(Fact):
    """One case of one repeat, executed and judged.

    `agent_seconds` is the time of the agent's turns, `duration_seconds` that of the whole execution: see `Execution`.
    `expected_by_row` is what the row of a dataset expected, if anything: no eval set has it, and the row may be gone by
    now. None of any other case.
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

    @property
    def is_row(self) -> bool:
        """Whether it is of the row of a dataset, where no trajectory means that nothing is known of one."""
        return self.expected_by_row is not None

    def has_known_calls(self, turn: TurnResult) -> bool:
        """Whether anybody knows which tools were called in one of its turns."""
        return turn.calls_unknown is None and not (self.is_row and turn.invocation.intermediate_data is None)

    @property
    def is_recorded(self) -> bool:
        """Whether it is of a row that was judged as it stands. An agent that was asked took some time."""
        return self.is_row and not self.execution.duration_seconds

    @property
    def has_outage(self) -> bool:
        """Whether a judge could not be reached: judged again it may have a verdict."""
        return self.status is CaseStatus.ERROR and any(
            metric.status is MetricStatus.ERROR and metric.has_outage for metric in self.metrics
        )


def decide_case_status(metrics: tuple[MetricResult, ...], *, failure: Failure | None = None) -> CaseStatus:
    """ERROR if anything errored, else FAILED if a metric failed, else PASSED if one passed, else NOT_EVALUATED."""
    return _combine_statuses(metrics) if failure is None else CaseStatus.ERROR


def has_judgements(metrics: Iterable[MetricResult]) -> bool:
    """Whether a model judged: its prompts are long, and no other case has the same."""
    return any(score.judgement is not None for metric in metrics for score in metric.per_invocation)


@cache_by_identity(maxsize=256, skip_if=has_judgements)
def has_missing_samples(metrics: tuple[MetricResult, ...]) -> bool:
    """Return True if a verdict rests on fewer samples of a judge than were asked for."""
    return any(metric.missing_samples is not None for metric in metrics)


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


# How far opinions agree: the samples of one judgement, several judgements, a judge and people.


class Agreement(NamedTuple):
    """The `share` of the votes of samples that say what most of them say; of grades also the `spread` (see Judgement).

    Of rubrics every verdict on each is a vote, of sentences whether each may stand.
    """

    share: float
    votes: int
    spread: float | None = None


def measure_agreement(judgement: Judgement) -> Agreement | None:
    """How far the samples of a judgement agree; None where fewer than two say anything."""
    counts = _count_votes(judgement)
    votes = sum(sum(each) for each in counts)
    if not votes:
        return None
    share = sum(max(each) for each in counts) / votes
    return Agreement(share, votes, judgement.spread)


def is_unsure(metric: MetricResult) -> bool:
    """Whether samples of a judge disagree on a case: another draw of them may decide otherwise.

    Grades disagree where some would pass by themselves and others would not.
    """
    return any(_has_disagreement(turn, metric.threshold) for turn in metric.per_invocation)


def cohen_kappa(pairs: Sequence[tuple[Hashable, Hashable]]) -> float | None:
    """Agreement of two raters beyond chance; None where there is nothing rated, or only one rating was ever given."""
    if not pairs:
        return None
    first, second = (Counter(side) for side in zip(*pairs, strict=True))
    observed = sum(one == other for one, other in pairs) / len(pairs)
    expected = sum(first[rating] * second[rating] for rating in first) / len(pairs) ** 2
    return _correct_for_chance(observed, expected)


def weighted_kappa(pairs: Sequence[tuple[float, float]]) -> float | None:
    """Agreement of two raters beyond chance where a larger difference weighs more: by its square.

    J. Cohen, "Weighted kappa", Psychological Bulletin 70 (1968), 213-220. None as for `cohen_kappa`.
    """
    if not pairs:
        return None
    first, second = (Counter(side) for side in zip(*pairs, strict=True))
    observed = sum((one - other) ** 2 for one, other in pairs) / len(pairs)
    by_chance = sum(
        (one - other) ** 2 * count * another for one, count in first.items() for other, another in second.items()
    )
    expected = by_chance / len(pairs) ** 2
    return None if expected == 0.0 else 1.0 - observed / expected


def fleiss_kappa(items: Sequence[Sequence[Hashable]]) -> float | None:
    """Agreement of several raters beyond chance; every item has a rating of each of them.

    None where there is nothing rated by two, or only one rating was ever given.
    """
    observed = observed_agreement(items)
    if observed is None:
        return None
    given = Counter(rating for item in items for rating in item)
    total = given.total()
    return _correct_for_chance(observed, sum((count / total) ** 2 for count in given.values()))


def observed_agreement(items: Sequence[Sequence[Hashable]]) -> float | None:
    """The share of all pairs of raters that give an item the same rating, mean over the items; None without pairs."""
    raters = len(items[0]) if items else 0
    if raters < 2:
        return None
    same = [sum(count * (count - 1) for count in Counter(item).values()) for item in items]
    return sum(same) / (len(items) * raters * (raters - 1))


def _correct_for_chance(observed: float, expected: float) -> float | None:
    # Where only one rating is ever given, chance explains everything: 0/0.
    return None if expected >= 1.0 else (observed - expected) / (1.0 - expected)


def _count_votes(judgement: Judgement) -> list[Sequence[int]]:
    """For each matter that at least two samples speak of how often each verdict was given."""
    if judgement.rubrics:
        counts: list[Sequence[int]] = [(rubric.yes, rubric.no) for rubric in judgement.rubrics]
    elif judgement.sentences:
        counts = [_count_support(sentence) for sentence in judgement.sentences]
    else:
        counts = [tuple(Counter(_get_scores(judgement)).values())]
    return [each for each in counts if sum(each) > 1]


def _count_support(sentence: SentenceScore) -> tuple[int, int]:
    standing = sum(count for label, count in sentence.votes.items() if label in SUPPORTED_LABELS)
    return standing, sum(sentence.votes.values()) - standing


def _get_scores(judgement: Judgement) -> list[float]:
    return [sample.score for sample in judgement.samples if sample.score is not None]


def _has_disagreement(turn: InvocationScore, threshold: float | None) -> bool:
    judgement = turn.judgement
    if judgement is None or turn.score is None:
        return False
    if judgement.spread is not None and threshold is not None:
        return len({score >= threshold for score in _get_scores(judgement)}) > 1
    return any(max(each) < sum(each) for each in _count_votes(judgement))


# What asking models has taken: calls, tokens and, where prices are known, money.


class ModelSpending(Fact):
    """What was asked of one model in a run.

    `calls` are answers that the model gave, `cached` those that were known and cost nothing, `failed` tries that got
    no answer. Tokens are those of `calls` whose reply reports its usage (`calls_without_usage` replies do not),
    and of `failed` tries whose reply had no text. `cost` is in US dollars by list prices. None means unknown, and
    `cost_unknown` says why.
    """

    model: str
    calls: int = 0
    cached: int = 0
    failed: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    calls_without_usage: int = Field(default=0, validation_alias=AliasChoices("calls_without_usage", "untold"))
    cost: float | None = 0.0
    cost_unknown: str | None = None

    @property
    def tokens(self) -> int:
        """All tokens that are known of."""
        return self.input_tokens + self.output_tokens

    def add(self, more: ModelSpending) -> ModelSpending:
        """Both of the same model in one; what they cost is known where both costs are."""
        cost = None if self.cost is None or more.cost is None else self.cost + more.cost
        return ModelSpending(
            model=self.model,
            calls=self.calls + more.calls,
            cached=self.cached + more.cached,
            failed=self.failed + more.failed,
            input_tokens=self.input_tokens + more.input_tokens,
            output_tokens=self.output_tokens + more.output_tokens,
            calls_without_usage=self.calls_without_usage + more.calls_without_usage,
            cost=cost,
            cost_unknown=self.cost_unknown if self.cost_unknown is not None else more.cost_unknown,
        )


def merge_by_model(spendings: Iterable[ModelSpending]) -> tuple[ModelSpending, ...]:
    """What was asked of each model in several runs, in the order in which they were asked first."""
    found: dict[str, ModelSpending] = {}
    for each in spendings:
        found[each.model] = found[each.model].add(each) if each.model in found else each
    return tuple(found.values())


# A row of a dataset as what it stands for: a case of one turn, and what an agent did in it.

_OF_TURN = {"user_content", "final_response", "intermediate_data"}
_OF_EXECUTION = {"turns"}

_case = make_fast_constructor(EvalCase, {"eval_id", "conversation"})
_invocation = make_fast_constructor(Invocation, _OF_TURN)
_content = make_fast_constructor(Content, {"parts", "role"})
_part = make_fast_constructor(Part, {"text"})
_data = make_fast_constructor(IntermediateData, {"tool_uses"})
_call = make_fast_constructor(FunctionCall, {"name", "args"})
_result = make_fast_constructor(TurnResult, {"invocation", "duration_seconds"})
_execution = make_fast_constructor(Execution, _OF_EXECUTION)


def make_row_prompt(prompt: str | None) -> Content:
    """What the user said; without parts where the row has no prompt."""
    return _content({"parts": [] if prompt is None else [_part({"text": prompt})], "role": "user"})


def make_row_turn(user_content: Content, answer: str | None, calls: Iterable[ToolCall] | None) -> Invocation:
    """One of the two sides of a row with this prompt of `make_row_prompt`.

    None is what the row does not say, which no calls are not.
    """
    said = None if answer is None else _content({"parts": [_part({"text": answer})], "role": "model"})
    done = None
    if calls is not None:
        done = _data({"tool_uses": [_call({"id": None, "name": name, "args": args}) for name, args in calls]})
    return _invocation({"user_content": user_content, "final_response": said, "intermediate_data": done})


def make_row_case(eval_id: str, expected: Invocation) -> EvalCase:
    """What was expected."""
    return _case({"eval_id": eval_id, "conversation": [expected]})


def make_row_execution(actual: Invocation, *, seconds: float) -> Execution:
    """What the agent did, in so many seconds."""
    return _execution({"turns": (_result({"invocation": actual, "duration_seconds": seconds}),)})


def is_row_execution(execution: Execution) -> bool:
    """Whether nothing but a row is in it, as `make_row_execution` was given what `make_row_turn` made.

    False says nothing: what was copied, or read back, may be the same.
    """
    if execution.model_fields_set is not _OF_EXECUTION:
        return False
    return execution.turns[0].invocation.model_fields_set is _OF_TURN
