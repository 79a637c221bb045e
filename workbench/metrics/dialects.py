"""One trajectory in all dialects: the scores of ADK, Vertex AI and agentevals, and the causes of disagreements.

Rules that answer the same question are grouped. The dialects differ in the equality of calls, in counting duplicate
calls, and in combining turns (see `report.dialect_report`). The causes of a disagreement are the differences that
change a score.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from statistics import fmean
from typing import NamedTuple

from workbench.metrics.call_matching import CanonicalEquality, EmptyForAbsent, PythonEquality
from workbench.metrics.case_view import CaseView, Turn
from workbench.metrics.trajectory import (
    MATCH_TYPES,
    Count,
    Formula,
    Match,
    any_order_match,
    by_membership,
    exact_match,
    in_order_match,
    one_for_one,
    precision,
    recall,
    strict_match,
    subset_match,
    superset_match,
    unordered_match,
)
from workbench.model.results import Score

DUPLICATES = "a call occurs more often on one side: matched one for one it counts once, by membership each time"
ABSENT_ARGUMENTS = "arguments are absent on one side and {} on the other: only ADK treats them as different"
PYTHON_EQUALITY = "true and 1 are equal for ADK and agentevals, which compare as Python does, but not for Vertex"
WHOLE_CONVERSATION = "agentevals scores the turns as one trajectory, the others average them"

_PAIRS_AT_MOST = 1_000_000  # actual times expected calls of a case: more take seconds in the worst case


class DialectReading(NamedTuple):
    """The score of one rule of one dialect. `variant` separates readings of the same rule."""

    dialect: str
    rule: str
    score: Score
    variant: str = ""


class DialectComparison(NamedTuple):
    """Rules of several dialects that measure the same. `causes` say why they disagree; empty if they agree."""

    question: str
    readings: tuple[DialectReading, ...]
    causes: tuple[str, ...] = ()


class CaseDialects(NamedTuple):
    """The comparisons of each turn and of the whole case; a turn without two trajectories has none.

    `reason` is set if there are none at all.
    """

    turns: tuple[tuple[DialectComparison, ...], ...] = ()
    whole_case: tuple[DialectComparison, ...] = ()
    reason: str = ""

    @property
    def disagreements(self) -> int:
        """The number of comparisons that disagree, over the turns and the whole case."""
        return sum(bool(each.causes) for comparisons in (*self.turns, self.whole_case) for each in comparisons)


_ScoreTurn = Callable[[Turn], Score]


class _Rule(NamedTuple):
    """A rule of a dialect. `score_case` gets the scores of the turns and of all turns joined, and scores the case."""

    dialect: str
    name: str
    score_turn: _ScoreTurn
    variant: str = ""
    score_case: Callable[[Sequence[Score], Score], Score] = lambda turns, _joined: _compute_mean(turns)


class _Question(NamedTuple):
    """A question that all `rules` answer. `causes` are pairs of readings that differ for this cause only."""

    text: str
    rules: tuple[_Rule, ...]
    causes: tuple[tuple[str, _ScoreTurn, _ScoreTurn], ...]


def compare_dialects(view: CaseView) -> CaseDialects:
    """Score each turn and the case in every dialect, or give the reason why that is impossible.

    A turn with one trajectory only has no comparisons and does not count for the case.
    """
    turns_with_known_calls = [turn for turn in view.turns if _explain_unknown(turn) is None]
    comparable_turns = [
        turn for turn in turns_with_known_calls if turn.predicted is not None and turn.reference is not None
    ]
    pairs = sum(len(turn.predicted or ()) for turn in comparable_turns) * sum(
        len(turn.reference or ()) for turn in comparable_turns
    )
    if not comparable_turns:
        return CaseDialects(reason=_explain_no_comparison(view))
    if pairs > _PAIRS_AT_MOST:
        return CaseDialects(reason="too many calls to compare quickly")
    turns = tuple(tuple(_compare_turn(turn)) if turn in comparable_turns else () for turn in view.turns)
    return CaseDialects(turns=turns, whole_case=tuple(_compare_case(comparable_turns)))


def _explain_no_comparison(view: CaseView) -> str:
    """Explain why no turn has two trajectories."""
    if not view.turns:
        return "there are no turns"
    if all(turn.actual is None for turn in view.turns):
        return "the agent finished no turn"
    reason = next(filter(None, map(_explain_unknown, view.turns)), None)
    if reason is not None:
        return reason
    if all(turn.predicted is None for turn in view.turns):
        return "no predicted_trajectory"
    if all(turn.expected is None for turn in view.turns):
        return "no expected turn"
    return "no reference_trajectory"


def _explain_unknown(turn: Turn) -> str | None:
    """Explain why the calls or their arguments are unknown; None if they are known."""
    return turn.calls_unknown or turn.arguments_unknown


def _compare_turn(turn: Turn) -> Iterator[DialectComparison]:
    for question in _QUESTIONS:
        readings = tuple(
            DialectReading(rule.dialect, rule.name, rule.score_turn(turn), rule.variant) for rule in question.rules
        )
        yield _make_comparison(question, readings, _find_causes(question, [turn]))


def _compare_case(turns: Sequence[Turn]) -> Iterator[DialectComparison]:
    joined = Turn.from_calls(
        predicted=[call for turn in turns for call in turn.predicted or ()],
        reference=[call for turn in turns for call in turn.reference or ()],
    )
    for question in _QUESTIONS:
        readings = []
        causes = _find_causes(question, turns)
        for rule in question.rules:
            scores = [rule.score_turn(turn) for turn in turns]
            score = rule.score_case(scores, rule.score_turn(joined))
            readings.append(DialectReading(rule.dialect, rule.name, score, rule.variant))
            if score.value != _compute_mean(scores).value:
                causes.append(WHOLE_CONVERSATION)
        yield _make_comparison(question, tuple(readings), causes)


def _make_comparison(
    question: _Question, readings: tuple[DialectReading, ...], causes: Iterable[str]
) -> DialectComparison:
    differ = len({reading.score.value for reading in readings}) > 1
    return DialectComparison(question.text, readings, tuple(dict.fromkeys(causes)) if differ else ())


def _find_causes(question: _Question, turns: Sequence[Turn]) -> list[str]:
    return [
        cause for cause, left, right in question.causes if any(left(turn).value != right(turn).value for turn in turns)
    ]


def _compute_mean(scores: Sequence[Score]) -> Score:
    values = [score.value for score in scores if score.value is not None]
    return Score(fmean(values)) if values else scores[0]


def _use_joined(_turns: Sequence[Score], joined: Score) -> Score:
    return joined


def _use_worst_turn(turns: Sequence[Score], _joined: Score) -> Score:
    """Return the worst turn: messages are compared one by one, and calls cannot move between turns."""
    return min(turns, key=lambda score: score.value or 0.0)


def _make_adk_rule(name: str) -> _Rule:
    return _Rule("ADK", name, _make_match_reader(MATCH_TYPES[name], PythonEquality()))


def _make_vertex_rule(name: str, formula: Formula, count: Count = one_for_one, variant: str = "") -> _Rule:
    return _Rule("Vertex", name, lambda turn: formula(turn, CanonicalEquality(), count), variant)


def _make_agentevals_rule(name: str, match: Match) -> _Rule:
    score_case = _use_worst_turn if match is strict_match else _use_joined
    return _Rule("agentevals", name, _make_match_reader(match, EmptyForAbsent()), score_case=score_case)


def _make_match_reader(match: Match, pairing: PythonEquality) -> _ScoreTurn:
    return lambda turn: Score(float(match(pairing, turn)))


def _make_count_rules(name: str, formula: Formula) -> tuple[_Rule, _Rule]:
    return _make_vertex_rule(name, formula, variant="one for one"), _make_vertex_rule(
        name, formula, by_membership, "by membership"
    )


def _make_question(
    text: str, *rules: _Rule, match: Match | None = None, count_rules: tuple[_Rule, _Rule] | None = None
) -> _Question:
    """Make a question. `match` is its yes-or-no rule, if any; `count_rules` are two rules that count differently."""
    causes: list[tuple[str, _ScoreTurn, _ScoreTurn]] = []
    if match is not None:
        as_adk, empty_for_absent = (
            _make_match_reader(match, PythonEquality()),
            _make_match_reader(match, EmptyForAbsent()),
        )
        causes.append((ABSENT_ARGUMENTS, as_adk, empty_for_absent))
        causes.append((PYTHON_EQUALITY, empty_for_absent, lambda turn: Score(float(match(CanonicalEquality(), turn)))))
    if count_rules is not None:
        causes.append((DUPLICATES, count_rules[0].score_turn, count_rules[1].score_turn))
    return _Question(text, rules, tuple(causes))


_ANY_ORDER = _make_count_rules("any_order_match", any_order_match)
_PRECISION = _make_count_rules("precision", precision)
_RECALL = _make_count_rules("recall", recall)

_QUESTIONS = (
    _make_question(
        "the expected calls and no others, in order",
        _make_adk_rule("EXACT"),
        _make_vertex_rule("exact_match", exact_match),
        _make_agentevals_rule("strict", strict_match),
        match=strict_match,
    ),
    _make_question(
        "the expected calls and no others, in any order", _make_agentevals_rule("unordered", unordered_match)
    ),
    _make_question(
        "all expected calls in order, others between",
        _make_adk_rule("IN_ORDER"),
        _make_vertex_rule("in_order_match", in_order_match),
        match=MATCH_TYPES["IN_ORDER"],
    ),
    _make_question(
        "all expected calls in any order, others too",
        _make_adk_rule("ANY_ORDER"),
        *_ANY_ORDER,
        _make_agentevals_rule("superset", superset_match),
        match=superset_match,
        count_rules=_ANY_ORDER,
    ),
    _make_question("no calls but expected ones", _make_agentevals_rule("subset", subset_match)),
    _make_question("share of the calls made that was expected", *_PRECISION, count_rules=_PRECISION),
    _make_question("share of the expected calls that was made", *_RECALL, count_rules=_RECALL),
)
