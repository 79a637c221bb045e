"""The types of metrics: options, definition, judges and results."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple, TypeGuard

from pydantic.alias_generators import to_camel

from workbench.metrics.case_view import CaseView, Turn
from workbench.metrics.text_process import TextScore, TextTask
from workbench.model.criteria import Criterion, InvalidConfig
from workbench.model.results import InvocationScore, MetricResult, MetricStatus, RubricScore, Score, SentenceScore
from workbench.model.text import redact

# Options of a criterion. Every problem is collected with its place.

# Options that ADK's criterion type allows for every metric. Metrics without a judge ignore them.
TOLERATED = ("include_intermediate_responses_in_final", "judge_model_options")

THRESHOLD = "threshold"


def find_misspelt_threshold(criterion: Criterion) -> list[InvalidConfig]:
    """Find an option of a custom metric that is a misspelt `threshold`. A custom metric may have any option.

    Without its threshold the metric could never fail.
    """
    if criterion.threshold is not None:
        return []
    return [
        InvalidConfig(
            place=f"criteria.{criterion.metric}.{name}",
            found=f"the unknown option {name!r} ({describe(value)})",
            expected=f"{THRESHOLD!r} (did you mean that?)",
        )
        for name, value in criterion.options.items()
        if difflib.get_close_matches(name.casefold(), [THRESHOLD], n=1, cutoff=0.8)
    ]


def check_threshold_range(criterion: Criterion, lowest: Any, highest: Any) -> list[InvalidConfig]:
    """Find a threshold that no score can reach, or a negative one that every score reaches.

    `lowest` and `highest` bound the scores; a value that is no number is no bound. A threshold between 0 and the lowest
    grade (of a metric with grades from 1 to 5) is allowed.
    """
    threshold = criterion.threshold
    if threshold is None:
        return []
    upper = highest if is_number(highest) else math.inf
    lower = min(lowest, 0.0) if is_number(lowest) else -math.inf
    if lower <= threshold <= upper:
        return []
    expected = f"a number of at least {lower:g}" if math.isinf(upper) else f"a number of at most {upper:g}"
    if not math.isinf(upper) and not math.isinf(lower):
        expected = f"a number from {lowest:g} to {upper:g}, the range of the metric"
    place = f"criteria.{criterion.metric}.{THRESHOLD}"
    return [InvalidConfig(place=place, found=f"the threshold {threshold:.10g}", expected=expected)]


def find_nearest(name: str, known_names: Iterable[str]) -> str | None:
    """Return the known name that is most similar to `name`; None if none is close."""
    folded = {candidate.casefold(): candidate for candidate in known_names}
    matches = difflib.get_close_matches(name.casefold(), folded, n=1, cutoff=0.6)
    return folded[matches[0]] if matches else None


def describe(value: Any) -> str:
    """Describe a value for a message: the kind of objects and lists, else the shortened value."""
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, list | tuple):
        return "a list"
    if value is None:
        return "null"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


class Options:
    """The options of one criterion, read by name in snake_case or camelCase.

    A wrong value becomes a problem and the default is used, so that one pass finds all problems. `finish` adds a
    problem for each option that was not read. `judge` is the default judge model; empty if it is not known yet.
    """

    def __init__(self, criterion: Criterion, *, judge: str = "") -> None:
        self.metric = criterion.metric
        self.judge = judge
        self.place = f"criteria.{criterion.metric}"
        self.problems: list[InvalidConfig] = []
        self._values = criterion.options
        self._names_read: set[str] = set(TOLERATED)

    def refuse(self, place: str, *, found: str, expected: str) -> None:
        """Add a problem. `place` is relative to the criterion."""
        self.problems.append(InvalidConfig(place=f"{self.place}.{place}", found=found, expected=expected))

    def raw(self, name: str) -> Any:
        """Return the value as written; None if it is missing."""
        self._names_read.add(name)
        return self._values.get(name, self._values.get(to_camel(name)))

    def collect(self, *names: str) -> dict[str, Any]:
        """Return those of these options that are set, as written, for the details of a result."""
        return {name: value for name in names if (value := self.raw(name)) is not None}

    def flag(self, name: str, *, default: bool = False) -> bool:
        value = self.raw(name)
        if isinstance(value, bool):
            return value
        if value is not None:
            self.refuse(name, found=describe(value), expected="true or false")
        return default

    def choice(self, name: str, choices: Sequence[str], *, default: str) -> str:
        """Read one of these words, in any case."""
        value = self.raw(name)
        if value is None:
            return default
        if isinstance(value, str) and value.strip().casefold() in choices:
            return value.strip().casefold()
        self.refuse(name, found=describe(value), expected=f"one of {', '.join(choices)}")
        return default

    def names(self, name: str) -> tuple[str, ...]:
        """Read a list of texts, or a single text; empty if it is missing."""
        value = self.raw(name)
        if value is None:
            return ()
        values = [value] if isinstance(value, str) else value
        if isinstance(values, list | tuple) and all(isinstance(item, str) and item for item in values):
            return tuple(dict.fromkeys(values))
        self.refuse(name, found=describe(value), expected="a name or a list of names")
        return ()

    def finish(self) -> list[InvalidConfig]:
        """Return all problems, with one for each unknown option."""
        readable = self._names_read | {to_camel(name) for name in self._names_read}
        known_options = sorted({*self._names_read.difference(TOLERATED), THRESHOLD})
        for name, value in self._values.items():
            if name in readable:
                continue
            guess = find_nearest(name, known_options)
            hint = f"{guess!r} (did you mean that?)" if guess else f"one of {', '.join(known_options)}"
            self.refuse(name, found=f"the unknown option {name!r} ({describe(value)})", expected=hint)
        return self.problems


def is_number(value: Any) -> TypeGuard[int | float]:
    """True if a JSON value is a finite number. A boolean is no number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


# Definitions of metrics, and the judges that score by one criterion.


@dataclass(frozen=True, kw_only=True)
class MetricInfo:
    """The description of a metric for users.

    `lowest` and `highest` bound its scores (None: unbounded). `needs` lists requirements besides the turns: "text" (the
    text helper), "worker" (the target's worker), "judge" (a judge model). `fits_scenarios`: it can score conversations
    with a simulated user, which have no expected turns. `columns`: it can score a recorded row only if the row has one
    of these; empty if there is no such rule. `informational`: always reported, and has a threshold only if a criterion
    sets one. `options` maps the name of each option to its meaning and default. `choices` has the values of options
    that allow only some, the default first.
    """

    name: str
    family: str
    purpose: str
    when: str
    lowest: float | None = 0.0
    highest: float | None = 1.0
    lower_is_better: bool = False
    needs_reference: bool = True
    needs: frozenset[str] = frozenset()
    fits_scenarios: bool = False
    columns: Sequence[str] = ()
    informational: bool = False
    options: Mapping[str, str] = field(default_factory=dict)
    choices: Mapping[str, Sequence[str | bool]] = field(default_factory=dict)


class CaseScore(NamedTuple):
    """The score of a whole case, with details."""

    score: Score
    details: Mapping[str, Any] = {}


class TextQuestion(NamedTuple):
    """Texts to compare for one turn, and the function that turns the answers into its score."""

    tasks: Sequence[TextTask]
    read: Callable[[Sequence[TextScore]], Score]


@dataclass(frozen=True, kw_only=True)
class TurnJudge:
    """Scores each turn separately. `name` is the name of the result, usually that of the metric.

    The score of the case is the mean over the turns with a score. With `missing_is_zero`, turns without a score count
    as 0 if another turn has one. `check` returns a hint on a case with a score; it may raise. With `may_take_long` the
    judge runs in a thread.
    """

    name: str
    score: Callable[[Turn], Score]
    details: Mapping[str, Any] = field(default_factory=dict)
    missing_is_zero: bool = False
    check: Callable[[CaseView], str | None] | None = None
    may_take_long: bool = False


@dataclass(frozen=True, kw_only=True)
class TextJudge:
    """Scores each turn by comparing texts in the helper process. `ask` returns a Score if no comparison is needed."""

    name: str
    ask: Callable[[Turn], TextQuestion | Score]


@dataclass(frozen=True, kw_only=True)
class CaseJudge:
    name: str
    score: Callable[[CaseView], CaseScore]


class SentenceLabel(NamedTuple):
    """The label of one sentence in one sample."""

    label: str
    rationale: str = ""
    evidence: str = ""


class Opinion(NamedTuple):
    """One parsed reply of a judge model: a score, or scores of rubrics by id, or labels of sentences by number.

    `score` is None if the reply is unreadable; then `problem` describes the reply. `label` names the score, if it has a
    name.
    """

    score: float | None = None
    rationale: str = ""
    rubrics: Mapping[str, tuple[float | None, str]] = {}
    sentences: Mapping[int, SentenceLabel] = {}
    problem: str | None = None
    label: str = ""


class Conclusion(NamedTuple):
    """The result of all samples.

    `reason` explains a missing score; it is None if every sample failed. `spread`: see Judgement.
    """

    score: float | None
    reason: str | None = None
    rubrics: tuple[RubricScore, ...] = ()
    sentences: tuple[SentenceScore, ...] = ()
    spread: float | None = None


@dataclass(frozen=True, kw_only=True)
class ModelQuestion:
    """A question to a judge model: the prompt of each sample, how to read a reply, and how to conclude from all.

    `lowest` and `best` are the lowest and the highest possible score (None: any). `flipped` is the same question with
    the two responses swapped; every second sample uses it.
    """

    prompt: str
    reply_schema: Mapping[str, Any]
    read: Callable[[str], Opinion]
    conclude: Callable[[Sequence[Opinion]], Conclusion]
    lowest: float | None = 0.0
    best: float | None = 1.0
    system: str | None = None
    flipped: ModelQuestion | None = None


class UnreadableReply(ValueError):
    """A reply does not have the requested content. The message describes the reply."""


@dataclass(frozen=True, kw_only=True)
class PreparingQuestion:
    """A question before the samples: its reply determines what the samples are about.

    It is asked once, so that all samples judge the same things. After an unreadable reply it is asked again, at most
    as often as there are samples. `read` returns the question of the samples and raises UnreadableReply.
    """

    prompt: str
    reply_schema: Mapping[str, Any]
    read: Callable[[str], ModelQuestion]


@dataclass(frozen=True, kw_only=True)
class JudgeOptions:
    """`judge_model_options` of a criterion. None: the `model` of the settings, the `parallel` limit of the model."""

    model: str | None = None
    samples: int = 5
    parallel: int | None = None
    config: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ModelJudge:
    """Asks a model about each turn, or with `judges_conversation` about the conversation up to its last turn.

    `ask` returns a Score if no model is needed. `prepares`: `ask` returns a PreparingQuestion. `ask_end` asks about the
    end of the conversation: a score below the best replaces the judgement of the last turn. With `has_win_rates` the
    scores say which of two responses is better, and two more results have the win rates.
    """

    name: str
    options: JudgeOptions
    ask: Callable[[Turn, CaseView], ModelQuestion | PreparingQuestion | Score]
    judges_conversation: bool = False
    prepares: bool = False
    ask_end: Callable[[CaseView], ModelQuestion | Score] | None = None
    has_win_rates: bool = False

    def count_calls(self, turns: int) -> int:
        """Return the number of model calls for a case with `turns` turns, without retries."""
        return (min(turns, 1) if self.judges_conversation else turns) * (self.options.samples + self.prepares)


Judge = TurnJudge | TextJudge | CaseJudge | ModelJudge

Prepare = Callable[[Options], Sequence[Judge]]
"""Reads the options of a criterion, once, and returns its judges."""


@dataclass(frozen=True, kw_only=True)
class Definition:
    info: MetricInfo
    prepare: Prepare


# Results. They are constructed without validation: all values are ours, and validation is most of the cost of judging.


@dataclass(frozen=True, kw_only=True, eq=False)
class Rule:
    """Name and threshold of the results of one judge. Compared by identity, because it is a key of caches.

    `threshold` is None for an informational result. `missing_is_zero`: see TurnJudge.
    """

    name: str
    threshold: float | None = None
    lower_is_better: bool = False
    missing_is_zero: bool = False
    details: Mapping[str, Any] = field(default_factory=dict)

    def decide_status(self, score: float | None) -> MetricStatus:
        """Return UNDEFINED without score, INFORMATIONAL without threshold, else PASSED or FAILED.

        A score equal to the threshold passes.
        """
        if score is None:
            return MetricStatus.UNDEFINED
        if self.threshold is None:
            return MetricStatus.INFORMATIONAL
        passed = score <= self.threshold if self.lower_is_better else score >= self.threshold
        return MetricStatus.PASSED if passed else MetricStatus.FAILED


@lru_cache(maxsize=4096)  # most cases share a handful of results, and facts are frozen
def build_turns_result(rule: Rule, scores: tuple[Score, ...]) -> MetricResult:
    """Build the result of a metric that scores turns: the mean of the defined scores."""
    values = [score.value for score in scores if score.value is not None]
    mean = sum(values) / (len(scores) if rule.missing_is_zero else len(values)) if values else None
    return MetricResult.construct_unvalidated(
        name=rule.name,
        score=mean,
        threshold=rule.threshold,
        status=rule.decide_status(mean),
        reason=None if values else join_texts(score.reason for score in scores) or "the case has no turns",
        hint=join_texts(score.hint for score in scores),
        scored=len(values),
        total=len(scores),
        per_invocation=tuple(
            InvocationScore.construct_unvalidated(score=score.value, reason=score.reason, hint=score.hint)
            for score in scores
        ),
        details=dict(rule.details),
    )


def build_judged_result(rule: Rule, scores: tuple[InvocationScore, ...]) -> MetricResult:
    """Build the result of a metric that asks a model: the mean of all rubrics of all turns, or else of the turns.

    The result is an ERROR if a model was asked about a turn and the turn has no score.
    """
    judged = [score for score in scores if score.judgement is not None]
    missing_reasons = [score.reason for score in judged if score.score is None]
    rubrics = [rubric.score for score in judged if score.judgement for rubric in score.judgement.rubrics]
    values = [value for value in (rubrics or [score.score for score in scores]) if value is not None]
    mean = sum(values) / len(values) if values and not missing_reasons else None
    reasons = missing_reasons or [score.reason for score in scores]
    return MetricResult.construct_unvalidated(
        name=rule.name,
        score=mean,
        threshold=rule.threshold,
        status=MetricStatus.ERROR if missing_reasons else rule.decide_status(mean),
        reason=(join_texts(reasons) or "the case has no turns") if mean is None else None,
        hint=join_texts(score.hint for score in scores),
        scored=sum(score.score is not None for score in scores),
        total=len(scores),
        per_invocation=scores,
        details=dict(rule.details),
    )


def build_case_result(rule: Rule, score: Score, *, details: Mapping[str, Any] | None = None) -> MetricResult:
    if details or (score.value is not None and score.value % 1):  # seconds are never the same twice
        return _build_case_result(rule, score, details or {})
    return _build_shared_result(rule, score)


@lru_cache(maxsize=4096)  # as above
def _build_shared_result(rule: Rule, score: Score) -> MetricResult:
    return _build_case_result(rule, score, {})


def _build_case_result(rule: Rule, score: Score, details: Mapping[str, Any]) -> MetricResult:
    return MetricResult.construct_unvalidated(
        name=rule.name,
        score=score.value,
        threshold=rule.threshold,
        status=rule.decide_status(score.value),
        reason=score.reason,
        hint=score.hint,
        scored=0 if score.value is None else 1,
        total=1,
        per_invocation=(),
        details=dict(details),
    )


def build_error_result(
    rule: Rule, reason: str, *, total: int, details: Mapping[str, Any] | None = None
) -> MetricResult:
    return MetricResult.construct_unvalidated(
        name=rule.name,
        score=None,
        threshold=rule.threshold,
        status=MetricStatus.ERROR,
        reason=redact(reason),
        hint=None,
        scored=0,
        total=total,
        per_invocation=(),
        details=dict(details) if details else {},
    )


def build_win_rates(result: MetricResult) -> list[MetricResult]:
    """Build two results with the share of turns that each side of a comparison won. Their means are the win rates."""
    scores = [turn.score for turn in result.per_invocation if turn.score is not None]
    rates = []
    for side, won in (("candidate", 1.0), ("baseline", 0.0)):
        rate = Score.undefined(result.reason or "no turn was compared")
        if result.score is not None:
            rate = Score(scores.count(won) / len(scores))
        rates.append(build_case_result(Rule(name=f"{result.name}/{side}_model_win_rate"), rate))
    return rates


def join_texts(texts: Iterable[str | None]) -> str | None:
    """Join the distinct texts in order; None if there is none."""
    return "; ".join(dict.fromkeys(text for text in texts if text)) or None
