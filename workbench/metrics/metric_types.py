"""What a metric is: its definition, its options, its outcome."""

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

# Reading the options of a criterion: every mistake is kept with its place, none is passed over in silence.

# Options that ADK's own criterion type allows on every metric; they change nothing in those that use no judge.
TOLERATED = ("include_intermediate_responses_in_final", "judge_model_options")

THRESHOLD = "threshold"


def find_misspelt_threshold(criterion: Criterion) -> list[InvalidConfig]:
    """A problem where an option of a custom metric, which may have any, is all but called `threshold`.

    Without its threshold the metric could not fail, and nobody would see why.
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
    """A problem for a threshold that no score of the metric reaches, or a negative one that every score reaches.

    `lowest` and `highest` bound the scores; a value that is no number does not. A threshold from 0 up to the lowest
    grade of a metric such as 1 to 5 is allowed.
    """
    threshold = criterion.threshold
    if threshold is None:
        return []
    above = highest if is_number(highest) else math.inf
    below = min(lowest, 0.0) if is_number(lowest) else -math.inf
    if below <= threshold <= above:
        return []
    expected = f"a number of at least {below:g}" if math.isinf(above) else f"a number of at most {above:g}"
    if not math.isinf(above) and not math.isinf(below):
        expected = f"a number from {lowest:g} to {above:g}, the range of the metric"
    place = f"criteria.{criterion.metric}.{THRESHOLD}"
    return [InvalidConfig(place=place, found=f"the threshold {threshold:.10g}", expected=expected)]


def find_nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that `name` was most likely meant to be, or None where none is close."""
    folded = {candidate.casefold(): candidate for candidate in known}
    matches = difflib.get_close_matches(name.casefold(), folded, n=1, cutoff=0.6)
    return folded[matches[0]] if matches else None


def describe(value: Any) -> str:
    """What a value is, short enough for a message: its kind for objects and lists, else the value."""
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, list | tuple):
        return "a list"
    if value is None:
        return "null"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


class Options:
    """The options of one criterion, read by name in either key style.

    A wrong value becomes a problem and reads as its default, so that one reading finds all problems. Options that
    nobody has read by the time `finish` is called are problems too. `judge` is the model that judges where the
    criterion names none; empty where that is not known yet.
    """

    def __init__(self, criterion: Criterion, *, judge: str = "") -> None:
        self.metric = criterion.metric
        self.judge = judge
        self.place = f"criteria.{criterion.metric}"
        self.problems: list[InvalidConfig] = []
        self._values = criterion.options
        self._read: set[str] = set(TOLERATED)

    def refuse(self, place: str, *, found: str, expected: str) -> None:
        """Keep a problem; `place` is relative to the criterion."""
        self.problems.append(InvalidConfig(place=f"{self.place}.{place}", found=found, expected=expected))

    def raw(self, name: str) -> Any:
        """The value as written, None where there is none."""
        self._read.add(name)
        return self._values.get(name, self._values.get(to_camel(name)))

    def collect(self, *names: str) -> dict[str, Any]:
        """Those of these options that are there, as written: for the details of a result."""
        return {name: value for name in names if (value := self.raw(name)) is not None}

    def flag(self, name: str, *, default: bool = False) -> bool:
        """A boolean, the default where there is none."""
        value = self.raw(name)
        if isinstance(value, bool):
            return value
        if value is not None:
            self.refuse(name, found=describe(value), expected="true or false")
        return default

    def choice(self, name: str, choices: Sequence[str], *, default: str) -> str:
        """One of some words, compared without regard to case."""
        value = self.raw(name)
        if value is None:
            return default
        if isinstance(value, str) and value.strip().casefold() in choices:
            return value.strip().casefold()
        self.refuse(name, found=describe(value), expected=f"one of {', '.join(choices)}")
        return default

    def names(self, name: str) -> tuple[str, ...]:
        """A list of texts, or a single one; empty where there is none."""
        value = self.raw(name)
        if value is None:
            return ()
        values = [value] if isinstance(value, str) else value
        if isinstance(values, list | tuple) and all(isinstance(item, str) and item for item in values):
            return tuple(dict.fromkeys(values))
        self.refuse(name, found=describe(value), expected="a name or a list of names")
        return ()

    def finish(self) -> list[InvalidConfig]:
        """All problems, with one for each option that this metric does not have."""
        readable = self._read | {to_camel(name) for name in self._read}
        own = sorted({*self._read.difference(TOLERATED), THRESHOLD})
        for name, value in self._values.items():
            if name in readable:
                continue
            guess = find_nearest(name, own)
            hint = f"{guess!r} (did you mean that?)" if guess else f"one of {', '.join(own)}"
            self.refuse(name, found=f"the unknown option {name!r} ({describe(value)})", expected=hint)
        return self.problems


def is_number(value: Any) -> TypeGuard[int | float]:
    """Whether a JSON value is a finite number; a boolean is none."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


# What a metric is: facts about it, the options it reads, and the judge that it becomes for one criterion.


@dataclass(frozen=True, kw_only=True)
class MetricInfo:
    """What people and pickers need to know about a metric.

    `lowest` and `highest` bound its scores (None: unbounded). `needs` names what must be there besides the turns:
    "text" (the text helper), "worker" (the target's worker), "judge" (a judge model).
    `fits_scenarios`: it says something about a conversation with a simulated user, which has no expected turns.
    `columns`: it says something of a recorded row only where that has one of these; empty where others decide.
    `informational`: always reported, and without a threshold unless a criterion gives it one. `options` maps the name
    of each option to its meaning and default; `choices` has the values of those options that allow only some, the
    default first.
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
    """What a metric gives for a case as a whole, with details for people and tools."""

    score: Score
    details: Mapping[str, Any] = {}


class TextQuestion(NamedTuple):
    """Texts to be compared for one turn, and how the answers become its score."""

    tasks: Sequence[TextTask]
    read: Callable[[Sequence[TextScore]], Score]


@dataclass(frozen=True, kw_only=True)
class TurnJudge:
    """Scores each turn by itself. `name` is what the result is called, mostly the metric's.

    The case takes the mean over the turns that have a score; with `missing_is_zero`, once one turn has a score, turns
    without one count as 0. `check` returns a hint on a case that has a score; it may raise. With `may_take_long` it is
    judged in a thread.
    """

    name: str
    score: Callable[[Turn], Score]
    details: Mapping[str, Any] = field(default_factory=dict)
    missing_is_zero: bool = False
    check: Callable[[CaseView], str | None] | None = None
    may_take_long: bool = False


@dataclass(frozen=True, kw_only=True)
class TextJudge:
    """Scores each turn by comparing texts in the helper process; a Score is an answer that needs no comparison."""

    name: str
    ask: Callable[[Turn], TextQuestion | Score]


@dataclass(frozen=True, kw_only=True)
class CaseJudge:
    """Scores the case as a whole."""

    name: str
    score: Callable[[CaseView], CaseScore]


class SentenceLabel(NamedTuple):
    """What one sample says about one sentence."""

    label: str
    rationale: str = ""
    evidence: str = ""


class Opinion(NamedTuple):
    """What one reply of a judge model says: about the matter, about each rubric by its id, or about each sentence by
    its number.

    `score` is None where the reply says nothing that can be read; `problem` says what was found instead. `label` names
    the score where it has a name.
    """

    score: float | None = None
    rationale: str = ""
    rubrics: Mapping[str, tuple[float | None, str]] = {}
    sentences: Mapping[int, SentenceLabel] = {}
    problem: str | None = None
    label: str = ""


class Conclusion(NamedTuple):
    """What the opinions of all samples come to.

    `reason` says why there is no score, where that is not because every sample failed. `spread`: see Judgement.
    """

    score: float | None
    reason: str | None = None
    rubrics: tuple[RubricScore, ...] = ()
    sentences: tuple[SentenceScore, ...] = ()
    spread: float | None = None


@dataclass(frozen=True, kw_only=True)
class ModelQuestion:
    """What a judge model is asked, once for each sample, how its reply is read, and what all replies come to.

    `lowest` and `best` are the lowest and the highest score that an opinion can have (None: any). `flipped` is the same
    question with the two things that it is about in the other order: every second sample is asked that.
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
    """A reply does not say what it was asked for; the message tells what was found instead."""


@dataclass(frozen=True, kw_only=True)
class PreparingQuestion:
    """What a judge model is asked before the samples: its reply settles what they are asked about.

    Asked once, so that all samples speak of the same things; where the reply is no use once more, at most as often as
    there are samples. `read` gives the question of the samples and raises UnreadableReply.
    """

    prompt: str
    reply_schema: Mapping[str, Any]
    read: Callable[[str], ModelQuestion]


@dataclass(frozen=True, kw_only=True)
class JudgeOptions:
    """`judge_model_options` of a criterion. `model` is None for the one in the settings; `parallel` for no limit but
    that of the model."""

    model: str | None = None
    samples: int = 5
    parallel: int | None = None
    config: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ModelJudge:
    """Has a model judge each turn, or with `whole` the conversation up to its last turn.

    A Score is an answer that needs no model. `prepares`: it asks a PreparingQuestion first. `ask_end` asks about how
    the conversation ended: where that is less than the best, it takes the place of the last turn's judgement. With
    `tells_wins` the scores say which of two responses is better, and two more results tell how often each was.
    """

    name: str
    options: JudgeOptions
    ask: Callable[[Turn, CaseView], ModelQuestion | PreparingQuestion | Score]
    whole: bool = False
    prepares: bool = False
    ask_end: Callable[[CaseView], ModelQuestion | Score] | None = None
    tells_wins: bool = False

    def count_calls(self, turns: int) -> int:
        """How often the model is asked about a case of so many turns, where nothing has to be asked again."""
        return (min(turns, 1) if self.whole else turns) * (self.options.samples + self.prepares)


Judge = TurnJudge | TextJudge | CaseJudge | ModelJudge

Prepare = Callable[[Options], Sequence[Judge]]
"""Reads the options of a criterion, once, and gives the judges of its results."""


@dataclass(frozen=True, kw_only=True)
class Definition:
    """A metric that can judge."""

    info: MetricInfo
    prepare: Prepare


# Results are constructed without validation: all values are ours, and validation is most of the cost of judging.


# From scores to results: the mean over turns, the verdict by the threshold, and what to say where there is none.


@dataclass(frozen=True, kw_only=True, eq=False)
class Rule:
    """How the results of one judge are called and decided. Compared by identity, so that results can be kept by it.

    `threshold` is None for an informational result. `missing_is_zero`: see TurnJudge.
    """

    name: str
    threshold: float | None = None
    lower_is_better: bool = False
    missing_is_zero: bool = False
    details: Mapping[str, Any] = field(default_factory=dict)

    def decide_status(self, score: float | None) -> MetricStatus:
        """UNDEFINED without score, INFORMATIONAL without threshold, else PASSED at it or on its better side."""
        if score is None:
            return MetricStatus.UNDEFINED
        if self.threshold is None:
            return MetricStatus.INFORMATIONAL
        passed = score <= self.threshold if self.lower_is_better else score >= self.threshold
        return MetricStatus.PASSED if passed else MetricStatus.FAILED


@lru_cache(maxsize=4096)  # most cases share a handful of results, and facts are frozen
def build_turns_result(rule: Rule, scores: tuple[Score, ...]) -> MetricResult:
    """The result of a metric that scores turns: the mean of the scores that are defined."""
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
    """The result of a metric that asks a model: the mean of the turns, or of all rubrics of all turns where there are.

    Where a model was asked and said nothing that counts, the metric could not do its work: it is an ERROR.
    """
    asked = [score for score in scores if score.judgement is not None]
    silent = [score.reason for score in asked if score.score is None]
    rubrics = [rubric.score for score in asked if score.judgement for rubric in score.judgement.rubrics]
    values = [value for value in (rubrics or [score.score for score in scores]) if value is not None]
    mean = sum(values) / len(values) if values and not silent else None
    reasons = silent or [score.reason for score in scores]
    return MetricResult.construct_unvalidated(
        name=rule.name,
        score=mean,
        threshold=rule.threshold,
        status=MetricStatus.ERROR if silent else rule.decide_status(mean),
        reason=(join_texts(reasons) or "the case has no turns") if mean is None else None,
        hint=join_texts(score.hint for score in scores),
        scored=sum(score.score is not None for score in scores),
        total=len(scores),
        per_invocation=scores,
        details=dict(rule.details),
    )


def build_case_result(rule: Rule, score: Score, *, details: Mapping[str, Any] | None = None) -> MetricResult:
    """The result of a metric that scores the case as a whole."""
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
    """The result of a metric that could not do its work on `total` turns."""
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
    """What share of the turns each side of a comparison won, as results of their own: their means are the win rates."""
    scores = [turn.score for turn in result.per_invocation if turn.score is not None]
    rates = []
    for side, won in (("candidate", 1.0), ("baseline", 0.0)):
        rate = Score.undefined(result.reason or "no turn was compared")
        if result.score is not None:
            rate = Score(scores.count(won) / len(scores))
        rates.append(build_case_result(Rule(name=f"{result.name}/{side}_model_win_rate"), rate))
    return rates


def join_texts(texts: Iterable[str | None]) -> str | None:
    """The different texts, in order, as one; None if there is none."""
    return "; ".join(dict.fromkeys(text for text in texts if text)) or None
