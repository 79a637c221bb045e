"""`tool_trajectory_avg_score`: ADK's metric on tool calls.

Definition: google-adk 2.13, `evaluation/trajectory_evaluator.py`. The scores are those of ADK, with two surprises:
absent arguments differ from `{}`, and 1, 1.0 and true are equal. A hint says if absent arguments decided a turn. The
option `args_match` (see `call_matching`) is an addition, and compares values in `python_form`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from workbench.metrics.call_matching import (
    ONLY_NAMES_HINT,
    EmptyForAbsent,
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
from workbench.metrics.metric_types import Definition, Judge, MetricInfo, Options, describe
from workbench.model.results import Score

NAME = "tool_trajectory_avg_score"

_MATCHED, _DIFFERENT = Score(1.0), Score(0.0)
_ABSENT_ARGUMENTS = (
    "The calls differ only in arguments that are absent on one side and {} on the other, which ADK does not take as "
    "equal."
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


def _score(turn: Turn, match: Match, pairing: Pairing) -> Score:
    """Return 1 if the calls match, else 0."""
    nothing = explain_missing_calls(turn)
    if nothing is not None:
        return nothing
    if match(pairing, turn):
        return _MATCHED
    check_arguments_known(turn, is_better_by_name=lambda: match(NameEquality(), turn))
    hint = _hint(turn, match) if isinstance(pairing, PythonEquality) else None
    return Score(0.0, hint=hint) if hint else _DIFFERENT


def _hint(turn: Turn, match: Match) -> str | None:
    """Explain why calls that look equal did not match, if absent arguments are the reason."""
    if any(not call.args for call in (*(turn.predicted or ()), *(turn.reference or ()))):
        if match(EmptyForAbsent(), turn):
            return _ABSENT_ARGUMENTS
        if has_only_names(turn.reference or ()) and match(NameEquality(), turn):
            return ONLY_NAMES_HINT
    return None


def _prepare(options: Options) -> Sequence[Judge]:
    match = _read_match_type(options)
    ignore_args = options.flag("ignore_args")
    rules = read_rules(options, ignore_args=ignore_args, form=python_form)
    pairing: Pairing = RuledArguments(rules) if rules else NameEquality() if ignore_args else PythonEquality()
    details = options.collect("match_type", "ignore_args", "args_match")
    return [make_call_judge(NAME, lambda turn: _score(turn, match, pairing), rules, details=details)]


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


METRICS = (
    Definition(
        info=MetricInfo(
            name=NAME,
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
        prepare=_prepare,
    ),
)
