"""The points that differences cost, and cut texts."""

from __future__ import annotations

from typing import Any

import pytest

from tests.tui.state.differences import make_difference, render
from workbench.model.results import (
    CaseStatus,
    InvocationScore,
    MetricResult,
    MetricStatus,
)
from workbench.tui.state.diff_content import make_diff
from workbench.tui.state.diff_lines import DiffSource
from workbench.tui.state.diff_state import DiffState, lay_out_diff
from workbench.tui.state.text_layout import cut_parts


def make_metric(name: str, score: float, threshold: float = 1.0, **details: Any) -> MetricResult:
    status = MetricStatus.PASSED if score >= threshold else MetricStatus.FAILED
    per_turn = (InvocationScore(score=score),)
    return MetricResult(
        name=name, score=score, threshold=threshold, status=status, per_invocation=per_turn, details=details
    )


def test_a_criterion_that_lost_points_is_named_at_its_first_difference(make: Any) -> None:
    expected = make.turn("Go", "On it, one moment please.", ("a", {"n": 1}), ("b", {}))
    actual = make.turn("Go", "On it, two moments please.", ("a", {"n": 2}))

    diff = make_difference(
        make,
        expected,
        actual,
        make_metric("tool_trajectory_avg_score", 0.0),
        make_metric("response_match_score", 0.85, 0.8),
    )

    assert [[note.text for note in cost.notes] for cost in diff.costs] == [
        ["tool_trajectory_avg_score 0.00 < 1.00"],
        [],
        ["response_match_score 0.85 ≥ 0.80"],
    ]
    assert [cost.is_free for cost in diff.costs] == [False, False, True]
    lines = [
        "".join(piece.text for piece in line).rstrip() for line in lay_out_diff(diff, width=90, side_by_side=False)
    ]
    assert " a -   n  1" in lines and "   +   n  2" in lines
    assert " b - On it, one moment please." in lines
    after_turn = lines.index("", lines.index(" b - On it, one moment please."))
    assert lines[after_turn - 2 : after_turn] == [
        "     a tool_trajectory_avg_score 0.00 < 1.00",
        "     b response_match_score 0.85 ≥ 0.80",
    ]


@pytest.mark.parametrize(
    ("width", "expected"),
    [
        (57, "difference 1 of 1  tool_trajectory_avg_score 0.00 < 1.00"),
        (55, "1 of 1  tool_trajectory_avg_score 0.00 < 1.00"),
        (44, "difference 1 of 1  tool_trajectory_avg_score"),
        (43, "1 of 1  tool_trajectory_avg_score"),
        (30, "1 of 1  …_trajectory_avg_score"),
    ],
)
def test_the_status_of_a_difference_names_its_criterion_in_whole_words(make: Any, width: int, expected: str) -> None:
    turns = [make.turn("Go", "", ("a", {"n": n})) for n in (1, 2)]
    result = make.result(
        make.key("a"), CaseStatus.FAILED, turns[1], metrics=(make_metric("tool_trajectory_avg_score", 0.0),)
    )
    source = DiffSource(case=make.case("a", turns[0]), turns=result.execution.turns, result=result)
    state = DiffState()
    state.show(source, make_diff(source), about="a")

    status = "".join(piece.text for piece in cut_parts(state.status(width), width))

    assert status == expected


def test_the_gutter_has_the_letters_of_all_criteria_or_is_left_out(make: Any) -> None:
    expected, actual = make.turn("Go", "", ("a", {"n": 1})), make.turn("Go", "", ("a", {"n": 2}))
    names = ["tool_trajectory_avg_score", *(f"trajectory_{kind}" for kind in ("precision", "recall", "exact_match"))]

    def find_gutters(*metrics: MetricResult) -> list[str]:
        lines = lay_out_diff(make_difference(make, expected, actual, *metrics), width=90, side_by_side=True)
        shown = ["".join(piece.text for piece in line) for line in lines]
        return [line.partition("-   n")[0] for line in shown if "-   n" in line]

    assert find_gutters(*(make_metric(name, 0.0) for name in names[:2])) == [" ab "]
    assert find_gutters(*(make_metric(name, 0.0) for name in names)) == [" ab… "]
    assert find_gutters(make_metric("tool_trajectory_avg_score", 1.0)) == [" "]


@pytest.mark.parametrize(
    ("metric", "free"),
    [
        (make_metric("tool_trajectory_avg_score", 0.0), []),
        (
            make_metric("tool_trajectory_avg_score", 1.0),
            ["argument_changed", "call_extra", "call_missing", "call_moved"],
        ),
        (make_metric("tool_trajectory_avg_score", 0.0, match_type="IN_ORDER"), ["call_extra"]),
        (make_metric("tool_trajectory_avg_score", 0.0, match_type="any order"), ["call_extra", "call_moved"]),
        (make_metric("tool_trajectory_avg_score", 0.0, ignore_args=True), ["argument_changed"]),
        (
            make_metric("tool_trajectory_avg_score", 0.0, args_match={"tools": {"set": {"arguments": {"n": "any"}}}}),
            ["argument_changed"],
        ),
        (make_metric("trajectory_precision", 0.5), ["call_missing", "call_moved"]),
        (make_metric("trajectory_recall", 0.5), ["call_extra", "call_moved"]),
        (
            make_metric("trajectory_single_tool_use", 0.0, tool_name="other"),
            ["argument_changed", "call_extra", "call_missing", "call_moved"],
        ),
        (
            make_metric("response_match_score", 0.1),
            ["argument_changed", "call_extra", "call_missing", "call_moved"],
        ),
        (make_metric("metric_of_mine", 0.1), []),
    ],
)
def test_differences_that_the_criteria_ignore_are_free(make: Any, metric: MetricResult, free: list[str]) -> None:
    expected = make.turn("Go", None, ("moved", {}), ("x", {}), ("y", {}), ("set", {"n": 1}), ("missing", {}))
    actual = make.turn("Go", None, ("x", {}), ("y", {}), ("set", {"n": 2}), ("extra", {}), ("moved", {}))

    diff = make_difference(make, expected, actual, metric)

    assert len(diff.hunks) == 4
    assert sorted(h.difference.kind.value for h, c in zip(diff.hunks, diff.costs, strict=True) if c.is_free) == free


@pytest.mark.parametrize(
    ("metric", "free"),
    [
        (make_metric("tool_trajectory_avg_score", 0.0), ["argument_changed"]),
        (make_metric("tool_trajectory_avg_score", 0.0, args_match="subset"), ["argument_changed"]),
        (make_metric("trajectory_strict_match", 0.0), ["argument_changed"]),
        (make_metric("trajectory_exact_match", 0.0), []),
    ],
)
def test_true_for_1_is_free_for_the_criteria_that_compare_as_python(
    make: Any, metric: MetricResult, free: list[str]
) -> None:
    expected = make.turn("Go", None, ("set", {"n": 1}), ("missing", {}))
    diff = make_difference(make, expected, make.turn("Go", None, ("set", {"n": True})), metric)

    assert len(diff.hunks) == 2
    assert [h.difference.kind.value for h, c in zip(diff.hunks, diff.costs, strict=True) if c.is_free] == free


@pytest.mark.parametrize(("latency", "status"), [(0.5, MetricStatus.PASSED), (4.0, MetricStatus.FAILED)])
def test_a_measure_with_an_upper_limit_scores_no_difference(make: Any, latency: float, status: MetricStatus) -> None:
    metric = make_metric("latency", latency, threshold=2.0).model_copy(update={"status": status})

    diff = make_difference(make, make.turn("Go", "a"), make.turn("Go", "b"), metric)

    assert [cost.is_free for cost in diff.costs] == [True]


def test_no_difference_is_free_before_it_is_judged(make: Any) -> None:
    diff = make_difference(make, make.turn("Go", "a"), make.turn("Go", "b"))

    assert [cost.is_free for cost in diff.costs] == [False]


def test_a_cut_text_has_a_note_and_can_be_shown_whole(make: Any) -> None:
    long = "word " * 10_000
    expected, actual = make.turn("Go", long + "end"), make.turn("Go", long + "END")

    diff = make_difference(make, expected, actual)
    result = make.result(make.key("a"), CaseStatus.FAILED, actual, metrics=[])
    source = DiffSource(case=make.case("a", expected), turns=result.execution.turns, result=result, most=None)

    assert "30,003 more characters, some of them different: W shows all" in "\n".join(render(diff.blocks, width=200))
    assert "END" in "\n".join(render(make_diff(source).blocks))
