"""Trajectory metrics of Vertex AI: the tool calls of the agent, compared with the expected calls.

Definitions: Vertex AI documentation, "Evaluate Gen AI agents". It does not define duplicates and empty lists. Here each
call is used once, so that any-order match is 1 exactly when recall is 1 (for a non-empty reference). The option
`membership` checks each call separately instead, which is the literal reading. 0/0 is undefined. Calls are compared in
canonical form, or by the option `args_match` or `ignore_args`. Parity with the service is not claimed, because it
cannot be tested.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from workbench.metrics.call_matching import (
    ONLY_NAMES_HINT,
    CanonicalEquality,
    MemberPairing,
    Membership,
    NameEquality,
    RuledArguments,
    check_arguments_known,
    explain_missing_calls,
    has_only_names,
    make_call_judge,
    read_rules,
)
from workbench.metrics.case_view import Turn
from workbench.metrics.metric_types import Definition, Judge, MetricInfo, Options, TurnJudge, describe
from workbench.model.results import Score
from workbench.model.trace import Trajectory

Count = Callable[[MemberPairing, Turn], Membership]
"""Counts the calls of each side that the other side has."""

_ONE, _ZERO = Score(1.0), Score(0.0)
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


def _prepare(options: Options, formula: Formula) -> Sequence[Judge]:
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


_OPTIONS = {
    "membership": "check each call separately, so that one call can match several equal ones (default false)",
    "ignore_args": "compare names alone (default false)",
    "args_match": "rules for arguments by tool (exact, ignore, subset, superset, regex, tolerance, any)",
}
_CHOICES = {"membership": (False, True), "ignore_args": (False, True)}


def _define(name: str, formula: Formula, *, purpose: str, when: str) -> Definition:
    info = MetricInfo(name=name, family="trajectory", purpose=purpose, when=when, options=_OPTIONS, choices=_CHOICES)
    return Definition(info=info, prepare=lambda options: _prepare(options, formula))


METRICS = (
    _define(
        "trajectory_exact_match",
        exact_match,
        purpose="Whether exactly the expected tool calls were made, in order.",
        when="The path is fixed: every call and its place matter.",
    ),
    _define(
        "trajectory_in_order_match",
        in_order_match,
        purpose="Whether all expected tool calls were made in order; others may come between.",
        when="Key steps must follow one another, detours are fine.",
    ),
    _define(
        "trajectory_any_order_match",
        any_order_match,
        purpose="Whether all expected tool calls were made, in any order; others are allowed.",
        when="What was done matters, not when.",
    ),
    _define(
        "trajectory_precision",
        precision,
        purpose="Which share of the tool calls made was expected.",
        when="Needless or wrong calls cost something.",
    ),
    _define(
        "trajectory_recall",
        recall,
        purpose="Which share of the expected tool calls was made.",
        when="Leaving out a step is the fault to find.",
    ),
    Definition(
        info=MetricInfo(
            name="trajectory_single_tool_use",
            family="trajectory",
            purpose="Whether a given tool was called at all.",
            when="One tool is essential, whatever else happens.",
            needs_reference=False,
            fits_scenarios=True,
            options={"tool_name": "the tool, or a list of tools with one result each (required)"},
        ),
        prepare=_prepare_single_tool_use,
    ),
)
