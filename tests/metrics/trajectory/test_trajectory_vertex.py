"""The trajectory metrics of Vertex: the worked examples, and cases that the definitions leave open."""

from __future__ import annotations

import itertools
import json
import statistics
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.metrics.call_matching import CanonicalEquality, Membership
from workbench.metrics.case_view import Turn
from workbench.metrics.trajectory import any_order_match, exact_match, in_order_match, precision, recall
from workbench.model.evalset import Invocation
from workbench.model.results import MetricStatus, TurnResult

FIVE = ("exact_match", "in_order_match", "any_order_match", "precision", "recall")
CRITERIA = {f"trajectory_{name}": None for name in FIVE}

DEVICE_2 = {"tool_name": "set_device_info", "tool_input": {"device_id": "device_2", "updates": {"status": "OFF"}}}
DEVICE_3 = {"tool_name": "set_device_info", "tool_input": {"device_id": "device_3", "updates": {"status": "OFF"}}}
USER_Y = {"tool_name": "get_user_preferences", "tool_input": {"user_id": "user_y"}}
USER_Z = {"tool_name": "get_user_preferences", "tool_input": {"user_id": "user_z"}}
TEMPERATURE = {"tool_name": "set_temperature", "tool_input": {"location": "Living Room", "temperature": 23}}
DOCUMENTED = [([DEVICE_3], [DEVICE_2]), ([USER_Z, TEMPERATURE], [USER_Y, TEMPERATURE])]

# Predicted, reference, then exact, in order, any order, precision, recall: (one for one, by membership) if they differ.
WORKED = [
    (*DOCUMENTED[0], 0, 0, 0, 0, 0),
    (*DOCUMENTED[1], 0, 0, 0, 0.5, 0.5),
    ("abc", "ac", 0, 1, 1, 2 / 3, 1),
    ("ca", "ac", 0, 0, 1, 1, 1),
    ("aa", "a", 0, 1, 1, (0.5, 1), 1),
    ("a", "aa", 0, 0, (0, 1), 1, (0.5, 1)),
    ("aab", "ab", 0, 1, 1, (2 / 3, 1), 1),
    ("", "a", 0, 0, 0, None, 0),
    ("a", "", 0, 1, 1, 0, None),
    ("", "", 1, 1, 1, None, None),
]


@pytest.mark.parametrize("membership", [False, True])
@pytest.mark.parametrize("row", WORKED, ids=lambda row: f"{row[0]} for {row[1]}"[:40])
async def test_the_scores_equal_those_of_the_worked_examples(
    row: tuple[Any, ...], membership: bool, config: Any, judge: Any, turn: Any
) -> None:
    predicted, reference, *values = row
    criteria = {name: {"membership": membership} for name in CRITERIA}

    results = await judge(
        config(criteria), actual=[turn(calls=list(predicted))], expected=[turn(calls=list(reference))]
    )

    expected = [value[membership] if isinstance(value, tuple) else value for value in values]
    assert [results[name].score for name in CRITERIA] == pytest.approx(expected)


async def test_an_undefined_score_has_a_reason_and_is_left_out_of_the_mean(config: Any, judge: Any, turn: Any) -> None:
    results = await judge(
        config({"trajectory_precision": 0.5, "trajectory_recall": 0.5}),
        actual=[turn(calls=[]), turn(calls=["a", "b"])],
        expected=[turn(calls=["a"]), turn(calls=["a"])],
    )

    precision_result = results["trajectory_precision"]
    assert (precision_result.score, precision_result.scored, precision_result.total) == (0.5, 1, 2)
    assert precision_result.per_invocation[0].reason == "no tool was called"
    assert results["trajectory_recall"].score == 0.5
    assert results["trajectory_recall"].scored == 2


async def test_recall_without_expected_calls_is_undefined_not_zero(config: Any, judge: Any, turn: Any) -> None:
    results = await judge(config({"trajectory_recall": 1.0}), actual=[turn(calls=["a"])], expected=[turn(calls=[])])

    assert results["trajectory_recall"].status is MetricStatus.UNDEFINED
    assert results["trajectory_recall"].reason == "no tool call was expected"


async def test_the_aggregates_equal_the_documented_ones(config: Any, judge: Any, turn: Any) -> None:
    criteria = {**CRITERIA, "trajectory_single_tool_use": {"tool_name": "set_device_info"}}
    rows = [
        await judge(config(criteria), actual=[turn(calls=predicted)], expected=[turn(calls=reference)])
        for predicted, reference in DOCUMENTED
    ]

    def aggregate(name: str) -> tuple[float, float]:
        scores = [row[f"trajectory_{name}"].score for row in rows]
        return round(statistics.mean(scores), 4), round(statistics.stdev(scores), 4)

    assert {name: aggregate(name) for name in (*FIVE, "single_tool_use")} == {
        "exact_match": (0, 0),
        "in_order_match": (0, 0),
        "any_order_match": (0, 0),
        "precision": (0.25, 0.3536),
        "recall": (0.25, 0.3536),
        "single_tool_use": (0.5, 0.7071),
    }


async def test_the_file_of_the_documentation_has_the_documented_rows(corpus: Path) -> None:
    lines = (corpus / "documentation" / "trajectories.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]

    assert [(row["predicted_trajectory"], row["reference_trajectory"]) for row in rows] == DOCUMENTED


async def test_single_tool_use_gives_one_result_for_each_tool_of_a_list(config: Any, judge: Any, turn: Any) -> None:
    criteria = {"trajectory_single_tool_use": {"threshold": 1, "tool_name": ["a", "b"]}}

    results = await judge(config(criteria), actual=[turn(calls=["a", "a"])])

    assert results["trajectory_single_tool_use(a)"].status is MetricStatus.PASSED
    assert results["trajectory_single_tool_use(b)"].status is MetricStatus.FAILED
    assert results["trajectory_single_tool_use(b)"].details == {"tool_name": "b"}


async def test_membership_is_visible_in_the_result(config: Any, judge: Any, turn: Any) -> None:
    criteria = {"trajectory_precision": {"membership": True}, "trajectory_recall": {}}

    results = await judge(config(criteria), actual=[turn(calls=["a"])], expected=[turn(calls=["a"])])

    assert results["trajectory_precision"].details == {"membership": True}
    assert results["trajectory_recall"].details == {}


@pytest.mark.parametrize(
    ("predicted", "reference", "equal"),
    [
        ({"x": 1, "y": 2}, {"y": 2, "x": 1}, True),
        ({"x": 23}, {"x": 23.0}, True),
        ({"x": 1}, {"x": True}, False),
        ({"x": 1}, {"x": "1"}, False),
        ({"x": None}, {}, False),
        (None, {}, True),
        ({"x": [1, 2]}, {"x": [2, 1]}, False),
        ({"x": {"a": [{"b": 1}]}}, {"x": {"a": [{"b": 1.0}]}}, True),
        ({"x": float("nan")}, {"x": float("nan")}, True),
        ({"x": []}, {"x": {}}, False),
        ({"x": "e\u0301"}, {"x": "\u00e9"}, False),
    ],
)
async def test_arguments_are_compared_as_json(
    *, predicted: Any, reference: Any, equal: bool, config: Any, judge: Any, turn: Any
) -> None:
    results = await judge(
        config({"trajectory_exact_match": 1}),
        actual=[turn(calls=[("f", predicted)])],
        expected=[turn(calls=[("f", reference)])],
    )

    assert results["trajectory_exact_match"].score == float(equal)


async def test_calls_in_the_spellings_of_adk_and_vertex_are_equal(config: Any, judge: Any, turn: Any) -> None:
    adk_turn = turn(calls=[{"name": "f", "args": {"x": 1}}, "g"])
    vertex_turn = turn(calls=[{"tool_name": "f", "tool_input": {"x": 1}}, {"tool_name": "g", "tool_input": {}}])

    results = await judge(config({"trajectory_exact_match": 1}), actual=[adk_turn], expected=[vertex_turn])

    assert results["trajectory_exact_match"].score == 1.0


async def test_a_reference_with_names_only_gets_a_hint_and_can_ignore_arguments(
    config: Any, judge: Any, turn: Any
) -> None:
    criteria = {"trajectory_exact_match": {}, "trajectory_recall": {"ignore_args": True}}

    results = await judge(config(criteria), actual=[turn(calls=[("f", {"x": 1})])], expected=[turn(calls=["f"])])

    assert results["trajectory_exact_match"].score == 0.0
    assert "ignore_args" in results["trajectory_exact_match"].hint
    assert results["trajectory_recall"].score == 1.0


async def test_a_row_without_a_trajectory_is_undefined_but_an_empty_one_is_not(
    config: Any, judge: Any, turn: Any
) -> None:
    row = {"prompt": "p", "predicted_trajectory": []}
    without_calls = turn().model_copy(update={"intermediate_data": None})

    results = await judge(
        config(CRITERIA | {"tool_trajectory_avg_score": 1}), actual=[turn()], expected=[without_calls], columns=row
    )

    assert {results[name].reason for name in CRITERIA} == {"the row has no reference_trajectory"}
    assert results["tool_trajectory_avg_score"].status is MetricStatus.UNDEFINED
    assert results["tool_call_count_v1"].score == 0.0


# Properties

calls = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from([None, {}, {"x": 1}, {"x": 1.0}, {"x": True}, {"y": [1, None]}])),
    max_size=7,
)


def compute_scores(predicted: Any, reference: Any, *, membership: bool = False) -> dict[str, float | None]:
    sides = [
        Invocation.model_validate(
            {
                "user_content": {"parts": []},
                "intermediate_data": {"tool_uses": [{"name": name, "args": args} for name, args in side]},
            }
        )
        for side in (predicted, reference)
    ]
    pair = Turn(expected=sides[1], result=TurnResult(invocation=sides[0], duration_seconds=0.0), is_row=False)

    def count(pairing: Any, turn: Turn) -> Membership:
        matches = pairing.count_matched(turn)
        return pairing.count_members(turn) if membership else Membership(matches, matches)

    formulas = (exact_match, in_order_match, any_order_match, precision, recall)
    return {formula.__name__: formula(pair, CanonicalEquality(), count).value for formula in formulas}


@given(calls, calls, st.booleans())
def test_precision_equals_recall_with_swapped_sides(left: Any, right: Any, membership: bool) -> None:
    one, other = compute_scores(left, right, membership=membership), compute_scores(right, left, membership=membership)

    assert one["precision"] == other["recall"]
    assert one["recall"] == other["precision"]


@given(calls, calls.filter(bool), st.booleans())
def test_any_order_match_is_one_exactly_if_recall_is_one(predicted: Any, reference: Any, membership: bool) -> None:
    scores = compute_scores(predicted, reference, membership=membership)

    assert (scores["any_order_match"] == 1) == (scores["recall"] == 1)


@given(calls, calls)
def test_exact_implies_in_order_implies_any_order(predicted: Any, reference: Any) -> None:
    scores = compute_scores(predicted, reference)

    assert scores["exact_match"] <= scores["in_order_match"] <= scores["any_order_match"]


@given(calls)
def test_a_trajectory_matches_itself(trajectory: Any) -> None:
    scores = compute_scores(trajectory, trajectory)

    assert set(scores.values()) <= {1.0, None}


@given(calls, calls, st.randoms(use_true_random=False))
def test_order_does_not_change_precision_recall_and_any_order(predicted: Any, reference: Any, random: Any) -> None:
    before = compute_scores(predicted, reference)
    random.shuffle(predicted)
    random.shuffle(reference)
    after = compute_scores(predicted, reference)

    assert [before[name] for name in FIVE[2:]] == [after[name] for name in FIVE[2:]]


@given(calls, calls, st.booleans())
def test_scores_are_between_zero_and_one_or_undefined(predicted: Any, reference: Any, membership: bool) -> None:
    scores = compute_scores(predicted, reference, membership=membership)

    assert all(value is None or 0 <= value <= 1 for value in scores.values())
    assert (scores["precision"] is None) == (not predicted)
    assert (scores["recall"] is None) == (not reference)


@given(calls, calls)
def test_one_for_one_counting_equals_the_best_assignment(predicted: Any, reference: Any) -> None:
    short, long = sorted((predicted[:5], reference[:5]), key=len)
    scores = compute_scores(short, long)
    keys = [[(name, json.dumps(args or {}).replace("1.0", "1")) for name, args in side] for side in (short, long)]
    best = max(
        sum(left == right for left, right in zip(keys[0], order, strict=False))
        for order in itertools.permutations(keys[1])
    )

    assert scores["precision"] == (best / len(short) if short else None)
