"""Results: what an agent did in a case and how that was judged.

Three things are kept apart everywhere: a score that is low (FAILED), a score that does not exist (UNDEFINED, with its
reason), and work that could not be done (ERROR, with its cause).
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, Any, NamedTuple

from pydantic import AfterValidator, Field

from workbench.model.base import Fact
from workbench.model.by_identity import by_identity
from workbench.model.dependencies import Dependencies
from workbench.model.evalset import EvalCase, Invocation
from workbench.model.keys import CaseKey
from workbench.model.text import redact
from workbench.model.trace import Span


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
    def spent(self) -> int:
        """All tokens: the total that the model gave, else the sum of its parts."""
        if self.total is not None:
            return self.total
        return (self.prompt or 0) + (self.tool_use_prompt or 0) + (self.candidates or 0) + (self.thoughts or 0)


class TurnResult(Fact):
    """One turn as the agent did it. `invocation.user_content` is what it was told.

    `calls_unknown`: why nobody knows which tools were called, where what was to tell it did not come;
    `arguments_unknown`: why of the calls nobody knows more than their names. `calls_untold`: the agent has no place to
    tell of calls in, so that it is no outage that they are unknown.
    """

    invocation: Invocation
    duration_seconds: float
    inference_calls: int | None = None  # None where the adapter cannot see model calls
    usage: TokenUsage | None = None
    calls_unknown: str | None = None
    arguments_unknown: str | None = None
    calls_untold: bool = False

    @property
    def is_untold(self) -> bool:
        """Whether nothing was to tell of calls, which is not the same as that what was to tell did not come."""
        return self.calls_untold or self.invocation.intermediate_data is None


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


STANDING = frozenset({"supported", "not_applicable"})
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
    def met_outage(self) -> bool:
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

    def knows_calls(self, turn: TurnResult) -> bool:
        """Whether anybody knows which tools were called in one of its turns."""
        return turn.calls_unknown is None and not (self.is_row and turn.invocation.intermediate_data is None)

    @property
    def is_recorded(self) -> bool:
        """Whether it is of a row that was judged as it stands. An agent that was asked took some time."""
        return self.is_row and not self.execution.duration_seconds

    @property
    def met_outage(self) -> bool:
        """Whether a judge could not be reached: judged again it may have a verdict."""
        return self.status is CaseStatus.ERROR and any(
            metric.status is MetricStatus.ERROR and metric.met_outage for metric in self.metrics
        )


def status_of_case(metrics: tuple[MetricResult, ...], *, failure: Failure | None = None) -> CaseStatus:
    """ERROR if anything errored, else FAILED if a metric failed, else PASSED if one passed, else NOT_EVALUATED."""
    return _status_of(metrics) if failure is None else CaseStatus.ERROR


def were_asked_of_models(metrics: Iterable[MetricResult]) -> bool:
    """Whether a model judged: its prompts are long, and no other case has the same."""
    return any(score.judgement is not None for metric in metrics for score in metric.per_invocation)


@by_identity(at_most=256, but=were_asked_of_models)
def misses_samples(metrics: tuple[MetricResult, ...]) -> bool:
    """Return True if a verdict rests on fewer samples of a judge than were asked for."""
    return any(metric.missing_samples is not None for metric in metrics)


@by_identity(at_most=256, but=were_asked_of_models)
def _status_of(metrics: tuple[MetricResult, ...]) -> CaseStatus:
    statuses = {metric.status for metric in metrics}
    if MetricStatus.ERROR in statuses:
        return CaseStatus.ERROR
    if MetricStatus.FAILED in statuses:
        return CaseStatus.FAILED
    if MetricStatus.PASSED in statuses:
        return CaseStatus.PASSED
    return CaseStatus.NOT_EVALUATED
