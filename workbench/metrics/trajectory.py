"""Trajectory metrics of ADK, Vertex AI and agentevals, which compare tool calls with the expected calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from workbench.metrics.call_matching import (
    ONLY_NAMES_HINT,
    CanonicalEquality,
    EmptyForAbsent,
    MemberPairing,
    Membership,
    NameEquality,
    Pairing,
    PythonEquality,
    RuledArguments,
    check_arguments_known,
    explain_missing_calls,
    has_only_names,
    make_call_judge,
    python_form,
    read_rules,
)
from workbench.metrics.case_view import Turn
from workbench.metrics.metric_types import Definition, Judge, MetricInfo, Options, TurnJudge, describe
from workbench.model.results import Score
from workbench.model.trace import Trajectory

_ONE, _ZERO = Score(1.0), Score(0.0)


# ADK: `tool_trajectory_avg_score`, defined by google-adk 2.13, `evaluation/trajectory_evaluator.py`.
#
# The scores are those of ADK, with two surprises: absent arguments differ from `{}`, and 1, 1.0 and true are equal. A
# hint says if absent arguments decided a turn. The option `args_match` (see `call_matching`) is an addition, and
# compares values in `python_form`.

_ADK_METRIC = "tool_trajectory_avg_score"

_ABSENT_ARGUMENTS = (
    "The calls differ only in arguments that are absent on one side and {} on the other, which ADK treats as different."
)


def _exact(pairing: Pairing, turn: Turn) -> bool:
    """True if the same calls were made in the same order, and no others."""
    return pairing.is_exact(turn)


def _in_order(pairing: Pairing, turn: Turn) -> bool:
    """True if all expected calls were made in their order, with others anywhere."""
    return pairing.is_in_order(turn)


def _any_order(pairing: Pairing, turn: Turn) -> bool:
    """True if all expected calls were made, each as often as expected, in any order, with others anywhere."""
    return pairing.count_matched(turn) == len(turn.reference or ())


Match = Callable[[Pairing, Turn], bool]
MATCH_TYPES: Mapping[str, Match] = {"EXACT": _exact, "IN_ORDER": _in_order, "ANY_ORDER": _any_order}


def _score_like_adk(turn: Turn, match: Match, pairing: Pairing) -> Score:
    """Return 1 if the calls match, else 0."""
    nothing = explain_missing_calls(turn)
    if nothing is not None:
        return nothing
    if match(pairing, turn):
        return _ONE
    check_arguments_known(turn, is_better_by_name=lambda: match(NameEquality(), turn))
    hint = _explain_adk_mismatch(turn, match) if isinstance(pairing, PythonEquality) else None
    return Score(0.0, hint=hint) if hint else _ZERO


def _explain_adk_mismatch(turn: Turn, match: Match) -> str | None:
    """Explain why calls that look equal did not match, if absent arguments are the reason."""
    if any(not call.args for call in (*(turn.predicted or ()), *(turn.reference or ()))):
        if match(EmptyForAbsent(), turn):
            return _ABSENT_ARGUMENTS
        if has_only_names(turn.reference or ()) and match(NameEquality(), turn):
            return ONLY_NAMES_HINT
    return None


def _prepare_adk_metric(options: Options) -> Sequence[Judge]:
    match = _read_match_type(options)
    ignore_args = options.flag("ignore_args")
    rules = read_rules(options, ignore_args=ignore_args, form=python_form)
    pairing: Pairing = RuledArguments(rules) if rules else NameEquality() if ignore_args else PythonEquality()
    details = options.collect("match_type", "ignore_args", "args_match")
    return [make_call_judge(_ADK_METRIC, lambda turn: _score_like_adk(turn, match, pairing), rules, details=details)]


def _read_match_type(options: Options) -> Match:
    """Read the match type in any spelling of ADK: a name in any case, with blanks or hyphens, or its number."""
    value = options.raw("match_type")
    if value is None:
        return _exact
    if isinstance(value, str):
        named = MATCH_TYPES.get(value.strip().upper().replace("-", "_").replace(" ", "_"))
        if named is not None:
            return named
    elif isinstance(value, int) and not isinstance(value, bool) and 0 <= value < len(MATCH_TYPES):
        return tuple(MATCH_TYPES.values())[value]
    options.refuse("match_type", found=describe(value), expected=f"one of {', '.join(MATCH_TYPES)}")
    return _exact


_ADK_METRICS = (
    Definition(
        info=MetricInfo(
            name=_ADK_METRIC,
            family="trajectory",
            purpose="Whether the agent made the expected tool calls: 1 or 0 for each turn, as ADK scores it.",
            when="The calls matter, not just the answer: regression tests of tool use.",
            options={
                "match_type": "EXACT (default): the same calls in order; IN_ORDER: all expected ones in order, others "
                "between; ANY_ORDER: all expected ones, others too",
                "ignore_args": "compare names alone (default false)",
                "args_match": "rules for arguments by tool (exact, ignore, subset, superset, regex, tolerance, any)",
            },
            choices={"match_type": tuple(MATCH_TYPES), "ignore_args": (False, True)},
        ),
        prepare=_prepare_adk_metric,
    ),
)


# Vertex AI: defined by its documentation, "Evaluate Gen AI agents".
#
# It does not define duplicates and empty lists. Here each call is used once, so that any-order match is 1 exactly
# when recall is 1 (for a non-empty reference). The option `membership` checks each call separately instead, which is
# the literal reading. 0/0 is undefined. Calls are compared in canonical form, or by the option `args_match` or
# `ignore_args`. Parity with the service is not claimed, because it cannot be tested.

Count = Callable[[MemberPairing, Turn], Membership]
"""Counts the calls of each side that the other side has."""

_NO_CALL = Score.undefined("no tool was called")
_NO_CALL_EXPECTED = Score.undefined("no tool call was expected")


def one_for_one(pairing: MemberPairing, turn: Turn) -> Membership:
    """Count matching calls, each used once."""
    matched = pairing.count_matched(turn)
    return Membership(matched, matched)


def by_membership(pairing: MemberPairing, turn: Turn) -> Membership:
    """Check each call separately, so that one call can match several equal ones."""
    return pairing.count_members(turn)


def exact_match(turn: Turn, pairing: MemberPairing, _count: Count) -> Score:
    """Return 1 if the same calls were made in the same order and no others, else 0."""
    return _ONE if pairing.is_exact(turn) else _ZERO


def in_order_match(turn: Turn, pairing: MemberPairing, _count: Count) -> Score:
    """Return 1 if all reference calls were made in their order, with others anywhere, else 0."""
    return _ONE if pairing.is_in_order(turn) else _ZERO


def any_order_match(turn: Turn, pairing: MemberPairing, count: Count) -> Score:
    """Return 1 if all reference calls were made, in any order, with others anywhere, else 0."""
    return _ONE if count(pairing, turn).reference == len(turn.reference or ()) else _ZERO


def precision(turn: Turn, pairing: MemberPairing, count: Count) -> Score:
    """Return the share of the predicted calls that the reference contains, in [0, 1]; undefined if no tool was called.

    A reference call can be used once: a second call of a tool that was expected once costs precision.
    """
    if not turn.predicted:
        return _NO_CALL
    return _share(count(pairing, turn).predicted, turn.predicted)


def recall(turn: Turn, pairing: MemberPairing, count: Count) -> Score:
    """Return the share of the reference calls that were made, in [0, 1]; undefined if no tool call was expected."""
    if not turn.reference:
        return _NO_CALL_EXPECTED
    return _share(count(pairing, turn).reference, turn.reference)


def _share(matched: int, calls: Trajectory) -> Score:
    return _ONE if matched == len(calls) else Score(matched / len(calls))


def single_tool_use(predicted: Trajectory | None, tool_name: str) -> Score:
    """Return 1 if the named tool was called at all, else 0. Order, number and arguments do not matter."""
    if predicted is None:
        return Score.undefined("the row has no predicted_trajectory")
    return _ONE if any(call.name == tool_name for call in predicted) else _ZERO


Formula = Callable[[Turn, MemberPairing, Count], Score]


def _prepare_vertex_metric(options: Options, formula: Formula) -> Sequence[Judge]:
    membership = options.flag("membership")
    ignore_args = options.flag("ignore_args")
    rules = read_rules(options, ignore_args=ignore_args)
    pairing: MemberPairing = RuledArguments(rules) if rules else NameEquality() if ignore_args else CanonicalEquality()
    count = by_membership if membership else one_for_one

    def score(turn: Turn) -> Score:
        nothing = explain_missing_calls(turn)
        if nothing is not None:
            return nothing
        given = formula(turn, pairing, count)
        if given is _ONE:
            return given
        check_arguments_known(turn, is_better_by_name=lambda: formula(turn, NameEquality(), count) != given)
        if given.value is not None and given.value < 1.0 and has_only_names(turn.reference or ()):
            by_name = formula(turn, NameEquality(), count)
            return given._replace(hint=ONLY_NAMES_HINT) if by_name != given else given
        return given

    # The result must show how duplicates were counted, and how arguments were compared.
    details: dict[str, Any] = {"membership": True} if membership else {}
    details |= options.collect("ignore_args", "args_match")
    return [make_call_judge(options.metric, score, rules, details=details)]


def _prepare_single_tool_use(options: Options) -> Sequence[Judge]:
    """Make a judge for each tool: `trajectory_single_tool_use(tool)` for a list, else named like the metric."""
    names = options.names("tool_name")
    written = options.raw("tool_name")
    if not names and not options.problems:
        options.refuse("tool_name", found=describe(written), expected="the name of a tool or a list of names")
    return [
        TurnJudge(
            name=options.metric if isinstance(written, str) else f"{options.metric}({name})",
            score=lambda turn, name=name: single_tool_use(turn.predicted, name),  # type: ignore[misc]
            details={"tool_name": name},
        )
        for name in names
    ]


_VERTEX_OPTIONS = {
    "membership": "check each call separately, so that one call can match several equal ones (default false)",
    "ignore_args": "compare names alone (default false)",
    "args_match": "rules for arguments by tool (exact, ignore, subset, superset, regex, tolerance, any)",
}
_VERTEX_CHOICES = {"membership": (False, True), "ignore_args": (False, True)}


def _define_vertex_metric(name: str, formula: Formula, *, purpose: str, when: str) -> Definition:
    info = MetricInfo(
        name=name, family="trajectory", purpose=purpose, when=when, options=_VERTEX_OPTIONS, choices=_VERTEX_CHOICES
    )
    return Definition(info=info, prepare=lambda options: _prepare_vertex_metric(options, formula))


_VERTEX_METRICS = (
    _define_vertex_metric(
        "trajectory_exact_match",
        exact_match,
        purpose="Whether exactly the expected tool calls were made, in order.",
        when="The path is fixed: every call and its place matter.",
    ),
    _define_vertex_metric(
        "trajectory_in_order_match",
        in_order_match,
        purpose="Whether all expected tool calls were made in order; others may come between.",
        when="Key steps must follow one another, detours are fine.",
    ),
    _define_vertex_metric(
        "trajectory_any_order_match",
        any_order_match,
        purpose="Whether all expected tool calls were made, in any order; others are allowed.",
        when="The calls matter, not their order.",
    ),
    _define_vertex_metric(
        "trajectory_precision",
        precision,
        purpose="Share of the tool calls made that was expected.",
        when="Needless or wrong calls cost something.",
    ),
    _define_vertex_metric(
        "trajectory_recall",
        recall,
        purpose="Share of the expected tool calls that was made.",
        when="Missing steps must be found.",
    ),
    Definition(
        info=MetricInfo(
            name="trajectory_single_tool_use",
            family="trajectory",
            purpose="Whether a given tool was called.",
            when="One tool is essential, whatever else happens.",
            needs_reference=False,
            fits_scenarios=True,
            options={"tool_name": "the tool, or a list of tools with one result each (required)"},
        ),
        prepare=_prepare_single_tool_use,
    ),
)


# agentevals 0.0.9: strict, unordered, subset, superset, defined by `trajectory/{strict,unordered,subset,superset}.py`.
#
# agentevals compares lists of messages; here each turn is judged by its calls. Each call is used once. With
# `args_match` the largest assignment is searched; agentevals takes the first call that fits and so misses some.
# `args_match` replaces `tool_args_match_mode` and `tool_args_match_overrides`, always from the view of the actual
# call: agentevals swaps the sides in *subset*, and checks both directions in *unordered*. Values are compared by
# Python's `==`, as in agentevals.


def strict_match(pairing: Pairing, turn: Turn) -> bool:
    """True if the same calls were made in the same order, and no others."""
    return pairing.is_exact(turn)


def unordered_match(pairing: Pairing, turn: Turn) -> bool:
    """True if the same calls were made in any order, and no others."""
    predicted, reference = len(turn.predicted or ()), len(turn.reference or ())
    return predicted == reference and pairing.count_matched(turn) == predicted


def subset_match(pairing: Pairing, turn: Turn) -> bool:
    """True if only expected calls were made. Expected calls may be missing."""
    return pairing.count_matched(turn) == len(turn.predicted or ())


def superset_match(pairing: Pairing, turn: Turn) -> bool:
    """True if all expected calls were made. Other calls are allowed."""
    return pairing.count_matched(turn) == len(turn.reference or ())


def _prepare_agentevals_metric(options: Options, match: Match) -> Sequence[Judge]:
    ignore_args = options.flag("ignore_args")
    rules = read_rules(options, ignore_args=ignore_args, form=python_form)
    pairing: Pairing = RuledArguments(rules) if rules else NameEquality() if ignore_args else EmptyForAbsent()

    def score(turn: Turn) -> Score:
        nothing = explain_missing_calls(turn)
        if nothing is not None:
            return nothing
        if match(pairing, turn):
            return _ONE
        check_arguments_known(turn, is_better_by_name=lambda: match(NameEquality(), turn))
        if has_only_names(turn.reference or ()) and match(NameEquality(), turn):
            return Score(0.0, hint=ONLY_NAMES_HINT)
        return _ZERO

    return [make_call_judge(options.metric, score, rules, details=options.collect("ignore_args", "args_match"))]


_AGENTEVALS_OPTIONS = {
    "ignore_args": "compare names alone (default false)",
    "args_match": "rules for arguments by tool (exact, ignore, subset, superset, regex, tolerance, any)",
}


def _define_agentevals_metric(name: str, match: Match, *, purpose: str, when: str) -> Definition:
    info = MetricInfo(
        name=name,
        family="trajectory",
        purpose=purpose,
        when=when,
        options=_AGENTEVALS_OPTIONS,
        choices={"ignore_args": (False, True)},
    )
    return Definition(info=info, prepare=lambda options: _prepare_agentevals_metric(options, match))


_AGENTEVALS_METRICS = (
    _define_agentevals_metric(
        "trajectory_strict_match",
        strict_match,
        purpose="Whether exactly the expected tool calls were made, in order, as agentevals compares them.",
        when="Tests that come from agentevals; else trajectory_exact_match.",
    ),
    _define_agentevals_metric(
        "trajectory_unordered_match",
        unordered_match,
        purpose="Whether exactly the expected tool calls were made, in any order.",
        when="Every call matters and none may be added, but not their order.",
    ),
    _define_agentevals_metric(
        "trajectory_subset_match",
        subset_match,
        purpose="Whether no tool call was made beyond the expected ones.",
        when="The reference is the most that an agent may do.",
    ),
    _define_agentevals_metric(
        "trajectory_superset_match",
        superset_match,
        purpose="Whether all expected tool calls were made, in any order; others are allowed.",
        when="The reference is the least that an agent must do.",
    ),
)


METRICS = (*_ADK_METRICS, *_VERTEX_METRICS, *_AGENTEVALS_METRICS)
