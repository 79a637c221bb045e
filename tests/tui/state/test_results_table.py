"""Replayed model calls in the table: a mark in the status, and a column that is only shown if there are any."""

from __future__ import annotations

from typing import Any

from workbench.model.results import CaseStatus, Execution, MetricResult, MetricStatus, ModelCalls
from workbench.tui.state.results_table import ResultTable, make_table_row


def draw_rows(table: ResultTable, width: int = 200) -> list[str]:
    return ["".join(piece.text for piece in table.line(index, width)) for index in range(len(table))]


def make_rows(make: Any, *calls: ModelCalls | None) -> list[Any]:
    plain = make.result(make.key("a"), CaseStatus.PASSED)
    results = [
        plain.model_copy(update={"repeat": number, "execution": Execution(model_calls=each)})
        for number, each in enumerate(calls)
    ]
    return [make_table_row(each, None) for each in results]


def test_a_row_marks_replayed_model_calls_and_counts_them(make: Any) -> None:
    table = ResultTable()
    table.add(make_rows(make, ModelCalls(live=1, replayed=2)))
    table.arrange()

    assert "✓ passed ↺ " in draw_rows(table)[0]
    assert "2 of 3 replayed" in draw_rows(table)[0]


def test_a_row_of_repeats_sums_their_model_calls(make: Any) -> None:
    table = ResultTable()
    table.add(make_rows(make, ModelCalls(replayed=2), ModelCalls(live=2)))
    table.arrange()

    assert "✓ 2/2 ↺ " in draw_rows(table)[0]
    assert "2 of 4 replayed" in draw_rows(table)[0]


def test_without_model_calls_there_is_no_column_for_them(make: Any) -> None:
    table = ResultTable()
    table.add(make_rows(make, None, ModelCalls()))
    table.arrange()
    assert "model calls" not in [column.title for column in table.columns]

    table.add(make_rows(make, ModelCalls(live=1)))
    table.arrange()
    assert "model calls" in [column.title for column in table.columns]


def test_scores_whose_squares_are_infinite_have_a_mean_only(make: Any) -> None:
    result = make.result(make.key("a"), CaseStatus.PASSED)
    scores = [
        MetricResult(name="big", score=score, threshold=0.5, status=MetricStatus.PASSED) for score in (1e200, 1.0)
    ]
    results = [
        result.model_copy(update={"case": make.key(str(n)), "metrics": (each,)}) for n, each in enumerate(scores)
    ]
    table = ResultTable()
    table.add([make_table_row(each, None) for each in results])
    table.arrange()

    lines = ["".join(piece.text for piece in line) for line in table.format_statistics(200)]

    assert lines[0].lstrip().startswith("mean")
