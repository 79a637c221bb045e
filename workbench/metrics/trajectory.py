"""Trajectory metrics of ADK, Vertex AI and agentevals, which compare tool calls with the expected calls.

The last part has the evaluators of agentevals as functions, for tests in Python.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, TypedDict

from workbench.metrics.call_matching import (
    MODES,
    ONLY_NAMES_HINT,
    ArgumentRules,
    CallRule,
    CanonicalEquality,
    EmptyForAbsent,
    FunctionRule,
    KeysRule,
    MemberPairing,
    Membership,
    NameEquality,
    Pairing,
    PythonEquality,
    RuledArguments,
    RuleError,
    check_arguments_known,
    explain_missing_calls,
    has_only_names,
    make_call_judge,
    python_form,
    read_argument_rules,
    read_rules,
    replace_unknown_arguments,
)
from workbench.metrics.case_view import Turn, canonical
from workbench.metrics.metric_types import Definition, Judge, MetricInfo, Options, TurnJudge, describe
from workbench.model.criteria import Criterion
from workbench.model.results import MetricResult, Score
from workbench.model.trace import FRAMEWORK_CALLS, ToolCall, Trajectory
from workbench.model.turn_diff import Difference, DifferenceKind, TurnComparison, find_value_differences

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


def strict_match(pairing: Pairing, turn: Turn) -> bool:
    """True if the same calls were made in the same order, and no others."""
    return pairing.is_exact(turn)


def _in_order(pairing: Pairing, turn: Turn) -> bool:
    """True if all expected calls were made in their order, with others anywhere."""
    return pairing.is_in_order(turn)


def superset_match(pairing: Pairing, turn: Turn) -> bool:
    """True if all expected calls were made, each as often as expected, in any order, with others anywhere."""
    return pairing.count_matched(turn) == len(turn.reference or ())


Match = Callable[[Pairing, Turn], bool]
MATCH_TYPES: Mapping[str, Match] = {"EXACT": strict_match, "IN_ORDER": _in_order, "ANY_ORDER": superset_match}


def _score_match(
    turn: Turn, match: Match, pairing: Pairing, *, explain: Callable[[Turn, Match], str | None] | None
) -> Score:
    """Return 1 if the calls match, else 0 with the hint that `explain` gives."""
    undefined = explain_missing_calls(turn)
    if undefined is not None:
        return undefined
    if match(pairing, replace_unknown_arguments(turn)):
        return _ONE
    check_arguments_known(turn, is_better_by_name=lambda: match(NameEquality(), turn))
    hint = None if explain is None else explain(turn, match)
    return Score(0.0, hint=hint) if hint else _ZERO


def _explain_adk_mismatch(pairing: Pairing, turn: Turn, match: Match) -> str | None:
    """Explain why calls that look equal did not match, or name the option under which the calls match."""
    if isinstance(pairing, PythonEquality) and any(
        not call.args for call in (*(turn.predicted or ()), *(turn.reference or ()))
    ):
        if match(EmptyForAbsent(), turn):
            return _ABSENT_ARGUMENTS
        if only_names := _explain_only_names(turn, match):
            return only_names
    return None if isinstance(pairing, RuledArguments) else _suggest_option(pairing, turn, match)


_CONFIRMATION = "adk_request_confirmation"
_HOW_TO_CONFIRM = (
    f'A next turn of the case confirms: {{"function_response": {{"name": "{_CONFIRMATION}", "response": '
    '{"confirmed": true}}}} as the part of its user content.'
)


def _suggest_option(pairing: Pairing, turn: Turn, match: Match) -> str | None:
    expected = {call.name for call in turn.reference or ()}
    made = dict.fromkeys(call.name for call in turn.predicted or () if call.name in FRAMEWORK_CALLS - expected)
    if made and match(pairing, turn.without_tools(made)):
        hint = (
            f"Only calls that the framework itself makes were not expected: ignore_tools leaves out {', '.join(made)}."
        )
        return f"{hint} {_HOW_TO_CONFIRM}" if _CONFIRMATION in made else hint
    if expected and _in_order(pairing, turn):
        return "All expected calls were made in their order, and others: match_type IN_ORDER allows that."
    if expected and superset_match(pairing, turn):
        others = ", and others" if len(turn.predicted or ()) > len(turn.reference or ()) else ""
        return f"All expected calls were made, in another order{others}: match_type ANY_ORDER allows that."
    if strict_match(NameEquality(), turn) and _differ_in_wording(turn):
        return (
            "Only the wording of arguments differs: args_match says which arguments count, ignore_args that none does."
        )
    return None


def _differ_in_wording(turn: Turn) -> bool:
    """True if calls of the same tools differ only in texts of several words."""
    return all(
        isinstance(text, str) and len(text.split()) > 1
        for call, wanted in zip(turn.predicted or (), turn.reference or (), strict=True)
        for _, _, *texts in find_value_differences(wanted.args, call.args)
        for text in texts
    )


def _explain_only_names(turn: Turn, match: Match) -> str | None:
    return ONLY_NAMES_HINT if has_only_names(turn.reference or ()) and match(NameEquality(), turn) else None


def _prepare_adk_metric(options: Options) -> Sequence[Judge]:
    match = _read_match_type(options)
    ignore_args = options.flag("ignore_args")
    rules = read_rules(options, ignore_args=ignore_args, form=python_form)
    pairing: Pairing = RuledArguments(rules) if rules else NameEquality() if ignore_args else PythonEquality()
    score = partial(_score_match, match=match, pairing=pairing, explain=partial(_explain_adk_mismatch, pairing))
    return [make_call_judge(options, score, rules, details=options.collect("match_type"))]


def _read_match_type(options: Options) -> Match:
    value = options.raw("match_type")
    if value is None:
        return strict_match
    match = MATCH_TYPES.get(_name_match_type(value) or "")
    if match is None:
        options.refuse("match_type", found=describe(value), expected=f"one of {', '.join(MATCH_TYPES)}")
    return match or strict_match


def _name_match_type(value: Any) -> str | None:
    """Return the name of a match type in any spelling of ADK: in any case, with blanks or hyphens, or its number."""
    if isinstance(value, str):
        return value.strip().upper().replace("-", "_").replace(" ", "_")
    is_number = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < len(MATCH_TYPES)
    return tuple(MATCH_TYPES)[value] if is_number else None


_ARGUMENT_OPTIONS = {
    "ignore_args": "compare names alone (default false)",
    "args_match": "rules for arguments by tool (exact, ignore, subset, superset, regex, tolerance, any)",
    "ignore_tools": "leave out the calls of these tools on both sides, such as set_model_response",
}


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
                **_ARGUMENT_OPTIONS,
            },
            choices={"match_type": tuple(MATCH_TYPES), "ignore_args": (False, True)},
        ),
        prepare=_prepare_adk_metric,
    ),
)


# Differences that cost no points: each match type ignores some.

_ARGUMENT_KINDS = frozenset(
    {DifferenceKind.ARGUMENT_MISSING, DifferenceKind.ARGUMENT_EXTRA, DifferenceKind.ARGUMENT_CHANGED}
)
_FORGIVEN: Mapping[str, frozenset[DifferenceKind]] = {
    "IN_ORDER": frozenset({DifferenceKind.CALL_EXTRA}),
    "trajectory_in_order_match": frozenset({DifferenceKind.CALL_EXTRA}),
    "ANY_ORDER": frozenset({DifferenceKind.CALL_EXTRA, DifferenceKind.CALL_MOVED}),
    "trajectory_any_order_match": frozenset({DifferenceKind.CALL_EXTRA, DifferenceKind.CALL_MOVED}),
    "trajectory_precision": frozenset({DifferenceKind.CALL_MISSING, DifferenceKind.CALL_MOVED}),
    "trajectory_recall": frozenset({DifferenceKind.CALL_EXTRA, DifferenceKind.CALL_MOVED}),
    "trajectory_unordered_match": frozenset({DifferenceKind.CALL_MOVED}),
    "trajectory_subset_match": frozenset({DifferenceKind.CALL_MISSING, DifferenceKind.CALL_MOVED}),
    "trajectory_superset_match": frozenset({DifferenceKind.CALL_EXTRA, DifferenceKind.CALL_MOVED}),
}
"""The differences in calls that each match type ignores."""


def forgives_difference(metric: MetricResult, difference: Difference, comparison: TurnComparison | None) -> bool:
    """Return whether a metric ignores a difference in calls or arguments by its own rules.

    `comparison` is that of the turn; without it, rules for arguments do not count.
    """
    details = metric.details
    if difference.tool in _read_names(details.get("ignore_tools")):
        return True
    if "tool_name" in details:  # the metric scores whether this tool was called at all
        return difference.kind is not DifferenceKind.CALL_MISSING or difference.tool != details["tool_name"]
    if difference.kind in _ARGUMENT_KINDS:
        return bool(details.get("ignore_args")) or _do_arguments_match(metric, difference, comparison)
    match_type = _name_match_type(details.get("match_type")) or metric.name
    return difference.kind in _FORGIVEN.get(match_type, frozenset())


def _read_names(value: Any) -> Sequence[str]:
    """Return the names in an option that was written as a name or a list of names."""
    return [value] if isinstance(value, str) else value or ()


def _do_arguments_match(metric: MetricResult, difference: Difference, comparison: TurnComparison | None) -> bool:
    """Return whether the two calls are equal in the form of the metric, by its rules for arguments if it has any."""
    expected, actual = difference.expected_call, difference.actual_call
    if comparison is None or expected is None or actual is None:
        return False
    form = python_form if metric.name in _COMPARED_AS_PYTHON else canonical
    options = Options(Criterion(metric="", options={"args_match": metric.details.get("args_match", "exact")}))
    rules = read_argument_rules(options, form)
    expected_call, actual_call = comparison.expected.calls[expected], comparison.actual.calls[actual]
    try:
        return rules is not None and rules.fits(ToolCall(*actual_call), ToolCall(*expected_call))
    except RuleError:
        return False


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


def _share(matched_calls: int, calls: Trajectory) -> Score:
    return _ONE if matched_calls == len(calls) else Score(matched_calls / len(calls))


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
        undefined = explain_missing_calls(turn)
        if undefined is not None:
            return undefined
        turn_score = formula(replace_unknown_arguments(turn), pairing, count)
        if turn_score is _ONE:
            return turn_score
        check_arguments_known(turn, is_better_by_name=lambda: formula(turn, NameEquality(), count) != turn_score)
        if turn_score.value is not None and turn_score.value < 1.0 and has_only_names(turn.reference or ()):
            by_name = formula(turn, NameEquality(), count)
            return turn_score._replace(hint=ONLY_NAMES_HINT) if by_name != turn_score else turn_score
        return turn_score

    # The result must show how duplicates were counted, and how arguments were compared.
    return [make_call_judge(options, score, rules, details={"membership": True} if membership else {})]


def _prepare_single_tool_use(options: Options) -> Sequence[Judge]:
    """Make a judge for each tool: `trajectory_single_tool_use(tool)` for a list, else named like the metric."""
    names = options.names("tool_name")
    value = options.raw("tool_name")
    if not names and not options.problems:
        options.refuse("tool_name", found=describe(value), expected="the name of a tool or a list of names")
    return [
        TurnJudge(
            name=options.metric if isinstance(value, str) else f"{options.metric}({name})",
            score=lambda turn, name=name: single_tool_use(turn.predicted, name),  # type: ignore[misc]
            details={"tool_name": name},
        )
        for name in names
    ]


_VERTEX_OPTIONS = {
    "membership": "check each call separately, so that one call can match several equal ones (default false)",
    **_ARGUMENT_OPTIONS,
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


def unordered_match(pairing: Pairing, turn: Turn) -> bool:
    """True if the same calls were made in any order, and no others."""
    predicted, reference = len(turn.predicted or ()), len(turn.reference or ())
    return predicted == reference and pairing.count_matched(turn) == predicted


def subset_match(pairing: Pairing, turn: Turn) -> bool:
    """True if only expected calls were made. Expected calls may be missing."""
    return pairing.count_matched(turn) == len(turn.predicted or ())


def _prepare_agentevals_metric(options: Options, match: Match) -> Sequence[Judge]:
    ignore_args = options.flag("ignore_args")
    rules = read_rules(options, ignore_args=ignore_args, form=python_form)
    pairing: Pairing = RuledArguments(rules) if rules else NameEquality() if ignore_args else EmptyForAbsent()
    score = partial(_score_match, match=match, pairing=pairing, explain=_explain_only_names)
    return [make_call_judge(options, score, rules, details={})]


def _define_agentevals_metric(name: str, match: Match, *, purpose: str, when: str) -> Definition:
    info = MetricInfo(
        name=name,
        family="trajectory",
        purpose=purpose,
        when=when,
        options=_ARGUMENT_OPTIONS,
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

_COMPARED_AS_PYTHON = frozenset(definition.info.name for definition in (*_ADK_METRICS, *_AGENTEVALS_METRICS))
"""The metrics that compare arguments in `python_form`."""


# Evaluators with the names and arguments of agentevals 0.0.9.


class EvaluatorResult(TypedDict):
    """The result of an evaluator. `key` is the name of the metric."""

    key: str
    score: bool | float
    comment: str | None
    metadata: dict[str, Any] | None


ArgumentMatch = str | Sequence[str] | Callable[[dict[str, Any], dict[str, Any]], Any]
"""How the arguments of a tool are compared: a mode, the names of the arguments that count, or `f(actual, expected)`."""

_TRAJECTORY_MATCHES: Mapping[str, Match] = {
    "strict": strict_match,
    "unordered": unordered_match,
    "subset": subset_match,
    "superset": superset_match,
}
_ROLES = {"human": "user", "ai": "assistant", "AIMessageChunk": "assistant", "HumanMessageChunk": "user"}


def create_trajectory_match_evaluator(
    *,
    trajectory_match_mode: str = "strict",
    tool_args_match_mode: str = "exact",
    tool_args_match_overrides: Mapping[str, ArgumentMatch] | None = None,
) -> Callable[..., EvaluatorResult]:
    """Make an evaluator that compares the tool calls of two lists of messages.

    `trajectory_match_mode` is strict (the same messages by role, each with the same calls in any order), unordered,
    subset or superset. `tool_args_match_mode` is exact, ignore, subset or superset. `tool_args_match_overrides` has
    other rules by tool. Functions always get the arguments of the actual call first. Messages are those of OpenAI or
    LangChain, in a list or under `messages`. Raises ValueError for other values.
    """
    match = _choose(_TRAJECTORY_MATCHES, trajectory_match_mode, "trajectory_match_mode")
    if not isinstance(tool_args_match_overrides, Mapping | None):
        raise ValueError(f"tool_args_match_overrides: found {describe(tool_args_match_overrides)}, expected an object")  # noqa: TRY004
    rules = ArgumentRules(
        default=_make_rule(tool_args_match_mode, "tool_args_match_mode", modes_only=True),
        tools={
            tool: _make_rule(rule, f"tool_args_match_overrides[{tool!r}]")
            for tool, rule in (tool_args_match_overrides or {}).items()
        },
        form=python_form,
    )
    pairing = RuledArguments(rules)

    def evaluate(*, outputs: Any, reference_outputs: Any, **_more: Any) -> EvaluatorResult:
        actual = _read_messages(outputs, "outputs")
        expected = _read_messages(reference_outputs, "reference_outputs")
        if match is strict_match:
            is_match = _is_same_conversation(pairing, actual, expected)
        else:
            is_match = match(pairing, _make_turn(_join_calls(actual), _join_calls(expected)))
        return _make_result(f"trajectory_{trajectory_match_mode}_match", is_match)

    return evaluate


def graph_trajectory_strict_match(*, outputs: Any, reference_outputs: Any, **_more: Any) -> EvaluatorResult:
    """Compare the nodes that a graph visited: 1 if each turn has the same steps in the same order.

    Both sides are `{"inputs", "results", "steps"}`, or have this under `outputs`, as
    `extract_langgraph_trajectory_from_thread` returns it. Raises ValueError for other values.
    """
    actual, expected = read_graph_trajectory(outputs, "outputs"), read_graph_trajectory(reference_outputs, "reference")
    return _make_result("graph_trajectory_strict_match", actual["steps"] == expected["steps"])


def read_graph_trajectory(value: Any, place: str) -> dict[str, list[Any]]:
    """Return `inputs`, `results` and `steps` of a graph trajectory. Raises ValueError."""
    outer = value if isinstance(value, Mapping) else {}
    inner = outer["outputs"] if isinstance(outer.get("outputs"), Mapping) else outer
    steps = inner.get("steps")
    if not isinstance(steps, list | tuple) or not all(isinstance(turn, list | tuple) for turn in steps):
        raise ValueError(
            f'{place}: found {describe(value)}, expected {{"results": [...], "steps": [["__start__", "agent"], ...]}}'
        )
    inputs = inner.get("inputs") or outer.get("inputs")
    return {
        "inputs": list(inputs or [None] * len(steps)),
        "results": list(inner.get("results") or ()),
        "steps": [list(turn) for turn in steps],
    }


def extract_langgraph_trajectory_from_thread(graph: Any, config: Any) -> dict[str, Any]:
    """Return the graph trajectory of a thread from the history of its checkpointer: `inputs`, and under `outputs` the
    `results` and `steps` of each turn.

    `__start__` is the entry of a turn, and `__interrupt__` marks the node at which it stopped. Nodes of subgraphs have
    the name of the subgraph in front. Raises ValueError for a thread that the checkpointer does not know.
    """
    _check_config(config)
    return extract_langgraph_trajectory_from_snapshots(_list_snapshots(graph, config))


async def aextract_langgraph_trajectory_from_thread(graph: Any, config: Any) -> dict[str, Any]:
    """Do as `extract_langgraph_trajectory_from_thread`, for a checkpointer that has only asynchronous methods."""
    _check_config(config)
    return extract_langgraph_trajectory_from_snapshots(await _alist_snapshots(graph, config))


def extract_langgraph_trajectory_from_snapshots(snapshots: Iterable[Any]) -> dict[str, Any]:
    """Do as `extract_langgraph_trajectory_from_thread`, for the snapshots of a thread, the newest first."""
    inputs: list[Any] = []
    results: list[Any] = []
    steps: list[list[str]] = []
    newest_first = list(snapshots)
    if not newest_first:
        raise ValueError("snapshots: found none, expected those of a thread that the checkpointer knows")
    for snapshot, earlier in zip(newest_first, [*newest_first[1:], None], strict=True):
        waits = any(task.interrupts for task in snapshot.tasks)
        if waits or not snapshot.next:  # the end of a turn
            results.append({} if waits else _summarise_values(snapshot.values))
            steps.append([])
        if not steps:  # the graph is in the middle of its newest turn
            continue
        namespace = str(snapshot.config.get("configurable", {}).get("checkpoint_ns", ""))
        subgraph = f"{namespace.partition(':')[0]}:" if ":" in namespace else ""
        for task in snapshot.tasks:
            steps[-1] += ["__interrupt__"] if task.interrupts else []
            steps[-1].append(f"{subgraph}{task.name}")
        if snapshot.metadata is not None and snapshot.metadata.get("source") == "input":
            inputs.extend({task.name: task.result} for task in snapshot.tasks)
        elif earlier is not None and any(task.interrupts for task in earlier.tasks):
            inputs.append("__resuming__")
    return {
        "inputs": inputs[::-1],
        "outputs": {"inputs": [], "results": results[::-1], "steps": [turn[::-1] for turn in reversed(steps)]},
    }


def _check_config(config: Any) -> None:
    configurable = config.get("configurable") if isinstance(config, Mapping) else None
    if not isinstance(configurable, Mapping) or configurable.get("thread_id") is None:
        raise ValueError(f'config: found {describe(config)}, expected {{"configurable": {{"thread_id": "..."}}}}')


def _list_snapshots(graph: Any, config: Any) -> list[Any]:
    snapshots: list[Any] = []
    for snapshot in graph.get_state_history(config):
        for inner in _list_subgraphs(snapshot):
            snapshots += _list_snapshots(graph, inner)
        snapshots.append(snapshot)
    return snapshots


async def _alist_snapshots(graph: Any, config: Any) -> list[Any]:
    snapshots: list[Any] = []
    async for snapshot in graph.aget_state_history(config):
        for inner in _list_subgraphs(snapshot):
            snapshots += await _alist_snapshots(graph, inner)
        snapshots.append(snapshot)
    return snapshots


def _list_subgraphs(snapshot: Any) -> list[Any]:
    """Return the configurations of the threads of subgraphs."""
    states = [task.state for task in snapshot.tasks if isinstance(task.state, Mapping)]
    return [state for state in states if state.get("configurable", {}).get("checkpoint_ns")]


def _summarise_values(values: Any) -> Any:
    """Return the result of a turn: the state of the graph, or only the last of its messages."""
    messages = values.get("messages") if isinstance(values, Mapping) else None
    if not isinstance(messages, list) or not messages:
        return values
    return {"messages": [_convert_message(messages[-1])]}


def _convert_message(message: Any) -> Any:
    """Return a message of LangChain in the form of OpenAI; any other value is returned as it is."""
    if not hasattr(message, "content") or not hasattr(message, "type"):
        return message
    converted: dict[str, Any] = {"role": _ROLES.get(message.type, message.type), "content": message.content}
    if getattr(message, "tool_call_id", None):
        converted["tool_call_id"] = message.tool_call_id
    if getattr(message, "tool_calls", None):
        converted["tool_calls"] = [
            {
                "type": "function",
                "id": call.get("id"),
                "function": {"name": call["name"], "arguments": json.dumps(call["args"], ensure_ascii=False)},
            }
            for call in message.tool_calls
        ]
    return converted


Messages = list[tuple[str, list[ToolCall]]]
"""Roles of messages, each with its calls."""


def _read_messages(value: Any, place: str) -> Messages:
    messages = value.get("messages", [value]) if isinstance(value, Mapping) else value
    if not isinstance(messages, list | tuple):
        raise ValueError(f"{place}: found {describe(value)}, expected a list of messages")  # noqa: TRY004
    calls_by_message = []
    for number, item in enumerate(messages):
        message = _convert_message(item)
        role = message.get("role") if isinstance(message, Mapping) else None
        if not isinstance(role, str):
            raise ValueError(f"{place}[{number}]: found {describe(item)}, expected a message with a role")  # noqa: TRY004
        tool_calls = message.get("tool_calls") or ()
        if not isinstance(tool_calls, list | tuple):
            raise ValueError(f"{place}[{number}].tool_calls: found {describe(tool_calls)}, expected a list")  # noqa: TRY004
        calls = [_read_call(call, f"{place}[{number}].tool_calls") for call in tool_calls]
        calls_by_message.append((_ROLES.get(role, role), calls))
    return calls_by_message


def _read_call(call: Any, place: str) -> ToolCall:
    function = call.get("function", call) if isinstance(call, Mapping) else None
    name = function.get("name") if isinstance(function, Mapping) else None
    args = function.get("arguments", function.get("args")) if isinstance(function, Mapping) else None
    try:
        args = json.loads(args) if isinstance(args, str) else args
    except ValueError:
        raise ValueError(f"{place}: the arguments of {name} are not JSON") from None
    if not isinstance(name, str) or not isinstance(args, Mapping | None):
        expected = '{"function": {"name", "arguments"}}'
        raise ValueError(f"{place}: found {describe(call)}, expected {expected}")  # noqa: TRY004
    return ToolCall(name=name, args=None if args is None else dict(args))


def _is_same_conversation(pairing: Pairing, actual: Messages, expected: Messages) -> bool:
    return len(actual) == len(expected) and all(
        role == expected_role and unordered_match(pairing, _make_turn(calls, expected_calls))
        for (role, calls), (expected_role, expected_calls) in zip(actual, expected, strict=True)
    )


def _join_calls(messages: Messages) -> list[ToolCall]:
    return list(chain.from_iterable(calls for _, calls in messages))


def _make_turn(predicted: Sequence[ToolCall], reference: Sequence[ToolCall]) -> Turn:
    return Turn.from_calls(predicted=list(predicted), reference=list(reference))


def _make_rule(value: Any, place: str, *, modes_only: bool = False) -> CallRule:
    if isinstance(value, str):
        return CallRule(mode=_choose({mode: mode for mode in MODES}, value, place))
    if callable(value) and not modes_only:
        return FunctionRule(function=value)
    if isinstance(value, list | tuple) and not modes_only and all(isinstance(name, str) for name in value):
        return KeysRule.of_keys(value)
    expected = f"one of {', '.join(MODES)}" + ("" if modes_only else ", a list of arguments, or a function")
    raise ValueError(f"{place}: found {describe(value)}, expected {expected}")


def _choose(choices: Mapping[str, Any], name: Any, place: str) -> Any:
    if not isinstance(name, str) or name not in choices:
        raise ValueError(f"{place}: found {describe(name)}, expected one of {', '.join(choices)}")
    return choices[name]


def _make_result(key: str, score: bool) -> EvaluatorResult:
    return {"key": key, "score": score, "comment": None, "metadata": None}
