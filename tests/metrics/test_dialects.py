"""The rules of ADK, Vertex AI and agentevals on the same calls."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.metrics.dialects import Calls, compare_turns, make_calls, make_invocation
from workbench.metrics.case_view import CaseView, JudgedCase
from workbench.metrics.dialects import (
    ABSENT_ARGUMENTS,
    DUPLICATES,
    PYTHON_EQUALITY,
    WHOLE_CONVERSATION,
    DialectComparison,
    compare_dialects,
)
from workbench.model.evalset import EvalCase
from workbench.model.results import Execution, TurnResult


def collect_scores(comparisons: tuple[DialectComparison, ...]) -> dict[str, float | None]:
    return {
        " ".join(filter(None, (reading.dialect, reading.rule, reading.variant))): reading.score.value
        for comparison in comparisons
        for reading in comparison.readings
    }


def collect_causes(comparisons: tuple[DialectComparison, ...]) -> set[str]:
    return {cause for comparison in comparisons for cause in comparison.causes}


@pytest.mark.parametrize(
    ("actual", "expected", "strict", "unordered", "subset", "superset"),
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
def test_the_four_rules_of_agentevals_give_their_scores(
    actual: str, expected: str, strict: int, unordered: int, subset: int, superset: int
) -> None:
    scores = collect_scores(compare_turns((make_calls(actual), make_calls(expected))).whole_case)

    assert [scores[f"agentevals {rule}"] for rule in ("strict", "unordered", "subset", "superset")] == [
        strict,
        unordered,
        subset,
        superset,
    ]


async def test_the_rules_of_agentevals_are_criteria(config: Any, judge: Any, turn: Any) -> None:
    names = [f"trajectory_{rule}_match" for rule in ("strict", "unordered", "subset", "superset")]

    results = await judge(
        config(dict.fromkeys(names, 1.0)), actual=[turn(calls=["b", "a"])], expected=[turn(calls=["a", "b"])]
    )

    assert [results[name].score for name in names] == [0, 1, 1, 1]


async def test_criteria_of_agentevals_accept_rules_for_arguments(config: Any, judge: Any, turn: Any) -> None:
    actual = {"name": "search", "args": {"query": "x", "limit": 5}}
    expected = {"name": "search", "args": {"query": "x"}}

    results = await judge(
        config({"trajectory_strict_match": {"threshold": 1.0, "args_match": {"tools": {"search": "superset"}}}}),
        actual=[turn(calls=[actual])],
        expected=[turn(calls=[expected])],
    )

    assert results["trajectory_strict_match"].score == 1.0


@pytest.mark.parametrize("name", ["tool_trajectory_avg_score", "trajectory_strict_match", "trajectory_unordered_match",
                                  "trajectory_subset_match", "trajectory_superset_match"])  # fmt: skip
@pytest.mark.parametrize(
    "rules",
    [None, "exact", "subset", "superset", *({"tools": {"f": {"arguments": {"x": rule}}}} for rule in (
        "exact", "subset", "superset", {"absolute": 0}
    ))],
)  # fmt: skip
async def test_adk_and_agentevals_treat_true_and_1_as_equal_under_every_rule(
    config: Any, judge: Any, turn: Any, name: str, rules: Any
) -> None:
    actual, expected = {"x": True, "y": [1, {"z": False}]}, {"x": 1, "y": [1.0, {"z": 0}]}
    options = {} if rules is None else {"args_match": rules}

    results = await judge(
        config({name: {"threshold": 1.0, **options}}),
        actual=[turn(calls=[("f", actual)])],
        expected=[turn(calls=[("f", expected)])],
    )

    assert results[name].score == 1.0


@pytest.mark.parametrize("rules", [None, "exact", "subset", "superset"])
async def test_vertex_treats_true_and_1_as_different_under_every_rule(
    config: Any, judge: Any, turn: Any, rules: Any
) -> None:
    options = {} if rules is None else {"args_match": rules}

    results = await judge(
        config({"trajectory_exact_match": {"threshold": 1.0, **options}}),
        actual=[turn(calls=[("f", {"x": True})])],
        expected=[turn(calls=[("f", {"x": 1})])],
    )

    assert results["trajectory_exact_match"].score == 0.0


def test_no_cause_is_given_if_all_dialects_agree() -> None:
    case_dialects = compare_turns((make_calls("abc"), make_calls("ac")))

    assert case_dialects.disagreements == 0
    assert (
        collect_scores(case_dialects.whole_case)["ADK IN_ORDER"]
        == collect_scores(case_dialects.whole_case)["Vertex in_order_match"]
        == 1
    )


def test_duplicate_calls_separate_the_two_ways_of_counting() -> None:
    case_dialects = compare_turns((make_calls("a"), make_calls("aa")))

    whole_scores = collect_scores(case_dialects.whole_case)
    assert whole_scores["Vertex any_order_match one for one"] == 0
    assert whole_scores["Vertex any_order_match by membership"] == 1
    assert (whole_scores["Vertex recall one for one"], whole_scores["Vertex recall by membership"]) == (0.5, 1)
    assert collect_causes(case_dialects.whole_case) == {DUPLICATES}


def test_only_adk_distinguishes_absent_from_empty_arguments() -> None:
    case_dialects = compare_turns(([("a", {})], [("a", None)]))

    whole_scores = collect_scores(case_dialects.whole_case)
    assert (whole_scores["ADK EXACT"], whole_scores["Vertex exact_match"], whole_scores["agentevals strict"]) == (
        0,
        1,
        1,
    )
    assert collect_causes(case_dialects.whole_case) == {ABSENT_ARGUMENTS}


def test_only_vertex_distinguishes_true_from_1() -> None:
    case_dialects = compare_turns(([("a", {"x": True})], [("a", {"x": 1})]))

    whole_scores = collect_scores(case_dialects.whole_case)
    assert (whole_scores["ADK EXACT"], whole_scores["Vertex exact_match"], whole_scores["agentevals strict"]) == (
        1,
        0,
        1,
    )
    assert collect_causes(case_dialects.whole_case) == {PYTHON_EQUALITY}


def test_agentevals_compares_all_turns_as_one_trajectory() -> None:
    case_dialects = compare_turns((make_calls("a"), make_calls("b")), (make_calls("b"), make_calls("a")))

    whole_scores = collect_scores(case_dialects.whole_case)
    assert whole_scores["agentevals superset"] == 1
    assert whole_scores["agentevals strict"] == 0
    assert whole_scores["ADK ANY_ORDER"] == 0
    assert collect_causes(case_dialects.whole_case) == {WHOLE_CONVERSATION}
    assert all(not comparison.causes for turn in case_dialects.turns for comparison in turn)


def test_undefined_scores_are_left_out_of_the_mean() -> None:
    case_dialects = compare_turns((make_calls(""), make_calls("a")), (make_calls("a"), make_calls("a")))

    assert collect_scores(case_dialects.turns[0])["Vertex precision one for one"] is None
    assert collect_scores(case_dialects.whole_case)["Vertex precision one for one"] == 1


def test_an_unfinished_turn_has_no_comparison() -> None:
    expected = [make_invocation(make_calls("a")), make_invocation(make_calls("b"))]
    actual_turns = (TurnResult(invocation=make_invocation(make_calls("a")), duration_seconds=0.0),)
    case = EvalCase(eval_id="case", conversation=expected)

    case_dialects = compare_dialects(
        CaseView(JudgedCase(case=case, expected=expected, execution=Execution(turns=actual_turns)))
    )

    assert [bool(turn) for turn in case_dialects.turns] == [True, False]


ARGUMENTS = st.none() | st.dictionaries(st.sampled_from("xy"), st.sampled_from([1, 1.0, True, "1", None]), max_size=2)
CALLS = st.lists(st.tuples(st.sampled_from("abc"), ARGUMENTS), max_size=5)


@given(st.lists(st.tuples(CALLS, CALLS), min_size=1, max_size=3))
def test_every_disagreement_has_a_cause(turns: list[tuple[Calls, Calls]]) -> None:
    case_dialects = compare_turns(*turns)

    for comparison in (
        comparison for comparisons in (*case_dialects.turns, case_dialects.whole_case) for comparison in comparisons
    ):
        values = {reading.score.value for reading in comparison.readings}
        assert (len(values) > 1) == bool(comparison.causes), comparison
