"""What a metric is: facts about it, the options it reads, and the judge that it becomes for one criterion."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from workbench.metrics.options import Options
from workbench.metrics.subject import CaseView, Turn
from workbench.metrics.text_helper.tasks import TextScore, TextTask
from workbench.model.results import RubricScore, Score, SentenceScore


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

    def calls(self, turns: int) -> int:
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
