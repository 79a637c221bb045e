"""Trajectory matches as agentevals names them: strict, unordered, subset, superset.

Definitions: agentevals 0.0.9, `trajectory/{strict,unordered,subset,superset}.py`. agentevals compares lists of
messages; here each turn is judged by its calls. Each call is used once. With `args_match` the largest assignment is
searched; agentevals takes the first call that fits and so misses some. `args_match` replaces `tool_args_match_mode`
and `tool_args_match_overrides`, always from the view of the actual call: agentevals swaps the sides in *subset*, and
checks both directions in *unordered*. Values are compared by Python's `==`, as in agentevals.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from workbench.metrics.call_matching import (
    ONLY_NAMES_HINT,
    EmptyForAbsent,
    NameEquality,
    Pairing,
    RuledArguments,
    check_arguments_known,
    explain_missing_calls,
    has_only_names,
    make_call_judge,
    python_form,
    read_rules,
)
from workbench.metrics.case_view import Turn
from workbench.metrics.metric_types import Definition, Judge, MetricInfo, Options
from workbench.model.results import Score


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


Match = Callable[[Pairing, Turn], bool]

_MATCHED, _DIFFERENT = Score(1.0), Score(0.0)


def _prepare(options: Options, match: Match) -> Sequence[Judge]:
    ignore_args = options.flag("ignore_args")
    rules = read_rules(options, ignore_args=ignore_args, form=python_form)
    pairing: Pairing = RuledArguments(rules) if rules else NameEquality() if ignore_args else EmptyForAbsent()

    def score(turn: Turn) -> Score:
        nothing = explain_missing_calls(turn)
        if nothing is not None:
            return nothing
        if match(pairing, turn):
            return _MATCHED
        check_arguments_known(turn, is_better_by_name=lambda: match(NameEquality(), turn))
        if has_only_names(turn.reference or ()) and match(NameEquality(), turn):
            return Score(0.0, hint=ONLY_NAMES_HINT)
        return _DIFFERENT

    return [make_call_judge(options.metric, score, rules, details=options.collect("ignore_args", "args_match"))]


_OPTIONS = {
    "ignore_args": "compare names alone (default false)",
    "args_match": "rules for arguments by tool (exact, ignore, subset, superset, regex, tolerance, any)",
}


def _define(name: str, match: Match, *, purpose: str, when: str) -> Definition:
    info = MetricInfo(
        name=name,
        family="trajectory",
        purpose=purpose,
        when=when,
        options=_OPTIONS,
        choices={"ignore_args": (False, True)},
    )
    return Definition(info=info, prepare=lambda options: _prepare(options, match))


METRICS = (
    _define(
        "trajectory_strict_match",
        strict_match,
        purpose="Whether exactly the expected tool calls were made, in order, as agentevals compares them.",
        when="Tests that come from agentevals; else trajectory_exact_match.",
    ),
    _define(
        "trajectory_unordered_match",
        unordered_match,
        purpose="Whether exactly the expected tool calls were made, in any order.",
        when="Every call matters and none may be added, but not their order.",
    ),
    _define(
        "trajectory_subset_match",
        subset_match,
        purpose="Whether no tool call was made beyond the expected ones.",
        when="The reference is the most that an agent may do.",
    ),
    _define(
        "trajectory_superset_match",
        superset_match,
        purpose="Whether all expected tool calls were made, in any order; others are allowed.",
        when="The reference is the least that an agent must do.",
    ),
)
