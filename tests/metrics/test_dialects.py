"""The rules of ADK, Vertex AI and agentevals on the same calls."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.metrics.case_view import CaseView, JudgedCase
from workbench.metrics.dialects import (
    ABSENT_ARGUMENTS,
    DUPLICATES,
    PYTHON_EQUALITY,
    WHOLE_CONVERSATION,
    compare_dialects,
)
from workbench.model.evalset import EvalCase, Invocation
from workbench.model.results import Execution, TurnResult
from workbench.report.dialect_report import POLICIES, CaseDialects, DialectComparison

Calls = list[tuple[str, dict[str, Any] | None]]


def invocation(calls: Calls) -> Invocation:
    uses = [{"name": name, "args": args} for name, args in calls]
    return Invocation.model_validate({"user_content": {"parts": []}, "intermediate_data": {"tool_uses": uses}})


def dialects(*turns: tuple[Calls, Calls]) -> CaseDialects:
    """Turns of (made, expected)."""
    expected = [invocation(wanted) for _, wanted in turns]
    made = tuple(TurnResult(invocation=invocation(calls), duration_seconds=0.0) for calls, _ in turns)
    case = EvalCase(eval_id="case", conversation=expected)
    return compare_dialects(CaseView(JudgedCase(case=case, expected=expected, execution=Execution(turns=made))))


def letters(text: str) -> Calls:
    return [(letter, {}) for letter in text]


def scores(comparisons: tuple[DialectComparison, ...]) -> dict[str, float | None]:
    return {
        " ".join(filter(None, (each.dialect, each.rule, each.variant))): each.score.value
        for comparison in comparisons
        for each in comparison.readings
    }


def causes(comparisons: tuple[DialectComparison, ...]) -> set[str]:
    return {cause for comparison in comparisons for cause in comparison.causes}


@pytest.mark.parametrize(
    ("made", "expected", "strict", "unordered", "subset", "superset"),
    [
        ("ba", "ab", 0, 1, 1, 1),
        ("aa", "a", 0, 0, 0, 1),
        ("a", "aa", 0, 0, 1, 0),
        ("ab", "a", 0, 0, 0, 1),
        ("a", "ab", 0, 0, 1, 0),
        ("x", "y", 0, 0, 0, 0),
        ("", "", 1, 1, 1, 1),
        ("", "a", 0, 0, 1, 0),
        ("a", "", 0, 0, 0, 1),
    ],
)
def test_agentevals(made: str, expected: str, strict: int, unordered: int, subset: int, superset: int) -> None:
    found = scores(dialects((letters(made), letters(expected))).whole)

    assert [found[f"agentevals {rule}"] for rule in ("strict", "unordered", "subset", "superset")] == [
        strict,
        unordered,
        subset,
        superset,
    ]


async def test_the_rules_of_agentevals_are_criteria(config: Any, judge: Any, turn: Any) -> None:
    names = [f"trajectory_{rule}_match" for rule in ("strict", "unordered", "subset", "superset")]

    judged = await judge(
        config(dict.fromkeys(names, 1.0)), actual=[turn(calls=["b", "a"])], expected=[turn(calls=["a", "b"])]
    )

    assert [judged[name].score for name in names] == [0, 1, 1, 1]


async def test_criteria_of_agentevals_take_rules_for_arguments(config: Any, judge: Any, turn: Any) -> None:
    made = {"name": "search", "args": {"query": "x", "limit": 5}}
    expected = {"name": "search", "args": {"query": "x"}}

    judged = await judge(
        config({"trajectory_strict_match": {"threshold": 1.0, "args_match": {"tools": {"search": "superset"}}}}),
        actual=[turn(calls=[made])],
        expected=[turn(calls=[expected])],
    )

    assert judged["trajectory_strict_match"].score == 1.0


@pytest.mark.parametrize("name", ["tool_trajectory_avg_score", "trajectory_strict_match", "trajectory_unordered_match",
                                  "trajectory_subset_match", "trajectory_superset_match"])  # fmt: skip
@pytest.mark.parametrize(
    "rules",
    [None, "exact", "subset", "superset", *({"tools": {"f": {"arguments": {"x": rule}}}} for rule in (
        "exact", "subset", "superset", {"absolute": 0}
    ))],
)  # fmt: skip
async def test_true_and_1_are_equal_to_python_however_arguments_are_compared(
    config: Any, judge: Any, turn: Any, name: str, rules: Any
) -> None:
    made, expected = {"x": True, "y": [1, {"z": False}]}, {"x": 1, "y": [1.0, {"z": 0}]}
    options = {} if rules is None else {"args_match": rules}

    judged = await judge(
        config({name: {"threshold": 1.0, **options}}),
        actual=[turn(calls=[("f", made)])],
        expected=[turn(calls=[("f", expected)])],
    )

    assert judged[name].score == 1.0


@pytest.mark.parametrize("rules", [None, "exact", "subset", "superset"])
async def test_true_and_1_differ_to_vertex_however_arguments_are_compared(
    config: Any, judge: Any, turn: Any, rules: Any
) -> None:
    options = {} if rules is None else {"args_match": rules}

    judged = await judge(
        config({"trajectory_exact_match": {"threshold": 1.0, **options}}),
        actual=[turn(calls=[("f", {"x": True})])],
        expected=[turn(calls=[("f", {"x": 1})])],
    )

    assert judged["trajectory_exact_match"].score == 0.0


def test_where_all_dialects_agree_no_cause_is_given() -> None:
    found = dialects((letters("abc"), letters("ac")))

    assert found.disagreements == 0
    assert scores(found.whole)["ADK IN_ORDER"] == scores(found.whole)["Vertex in_order_match"] == 1


def test_duplicates_part_the_two_ways_of_counting() -> None:
    found = dialects((letters("a"), letters("aa")))

    whole = scores(found.whole)
    assert whole["Vertex any_order_match one for one"] == 0
    assert whole["Vertex any_order_match by membership"] == 1
    assert (whole["Vertex recall one for one"], whole["Vertex recall by membership"]) == (0.5, 1)
    assert causes(found.whole) == {DUPLICATES}


def test_absent_arguments_differ_from_empty_ones_to_adk_alone() -> None:
    found = dialects(([("a", {})], [("a", None)]))

    whole = scores(found.whole)
    assert (whole["ADK EXACT"], whole["Vertex exact_match"], whole["agentevals strict"]) == (0, 1, 1)
    assert causes(found.whole) == {ABSENT_ARGUMENTS}


def test_true_is_one_to_those_who_compare_as_python_does() -> None:
    found = dialects(([("a", {"x": True})], [("a", {"x": 1})]))

    whole = scores(found.whole)
    assert (whole["ADK EXACT"], whole["Vertex exact_match"], whole["agentevals strict"]) == (1, 0, 1)
    assert causes(found.whole) == {PYTHON_EQUALITY}


def test_several_turns_are_one_trajectory_to_agentevals() -> None:
    found = dialects((letters("a"), letters("b")), (letters("b"), letters("a")))

    whole = scores(found.whole)
    assert whole["agentevals superset"] == 1
    assert whole["agentevals strict"] == 0
    assert whole["ADK ANY_ORDER"] == 0
    assert causes(found.whole) == {WHOLE_CONVERSATION}
    assert all(not comparison.causes for turn in found.turns for comparison in turn)


def test_undefined_scores_leave_the_mean() -> None:
    found = dialects((letters(""), letters("a")), (letters("a"), letters("a")))

    assert scores(found.turns[0])["Vertex precision one for one"] is None
    assert scores(found.whole)["Vertex precision one for one"] == 1


def test_a_turn_that_was_not_finished_compares_with_nothing() -> None:
    expected = [invocation(letters("a")), invocation(letters("b"))]
    made = (TurnResult(invocation=invocation(letters("a")), duration_seconds=0.0),)
    case = EvalCase(eval_id="case", conversation=expected)

    found = compare_dialects(CaseView(JudgedCase(case=case, expected=expected, execution=Execution(turns=made))))

    assert [bool(turn) for turn in found.turns] == [True, False]


def test_too_many_calls_for_a_moment_are_not_compared() -> None:
    many = letters("a" * 1_001)
    expected = [invocation(many)]
    made = (TurnResult(invocation=invocation(many), duration_seconds=0.0),)
    case = EvalCase(eval_id="case", conversation=expected)

    found = compare_dialects(CaseView(JudgedCase(case=case, expected=expected, execution=Execution(turns=made))))

    assert found == CaseDialects(reason="too many calls to compare in a moment")


def test_a_case_whose_agent_finished_no_turn_compares_nothing() -> None:
    expected = [invocation(letters("a"))]
    case = EvalCase(eval_id="case", conversation=expected)

    found = compare_dialects(CaseView(JudgedCase(case=case, expected=expected, execution=Execution())))

    assert found == CaseDialects(reason="the agent finished no turn")


ARGUMENTS = st.none() | st.dictionaries(st.sampled_from("xy"), st.sampled_from([1, 1.0, True, "1", None]), max_size=2)
CALLS = st.lists(st.tuples(st.sampled_from("abc"), ARGUMENTS), max_size=5)


@given(st.lists(st.tuples(CALLS, CALLS), min_size=1, max_size=3))
def test_every_disagreement_has_a_cause(turns: list[tuple[Calls, Calls]]) -> None:
    found = dialects(*turns)

    for comparison in (comparison for comparisons in (*found.turns, found.whole) for comparison in comparisons):
        values = {reading.score.value for reading in comparison.readings}
        assert (len(values) > 1) == bool(comparison.causes), comparison


def test_each_dialect_says_what_it_does() -> None:
    named = {reading.dialect for comparison in dialects(([], [])).whole for reading in comparison.readings}

    assert named == {policy.dialect for policy in POLICIES}
