"""Datasets in memory: pandas frames, dicts of columns, lists of rows."""

from __future__ import annotations

import json
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest

from workbench.model.trace import ToolCall
from workbench.store.datasets.dataset_files import dataset_from_columns, dataset_from_frame, dataset_from_rows
from workbench.store.errors import StoreError

CALLS = [{"tool_name": "set", "tool_input": {"device": "d2"}}]


@pytest.mark.needs_pandas
def test_a_frame_with_any_index_becomes_rows_of_json_values() -> None:
    import numpy
    import pandas

    frame = pandas.DataFrame(
        {
            "prompt": ["a", "b", "c", None],
            "response": ["x", float("nan"), pandas.NA, "y"],
            "predicted_trajectory": [CALLS, numpy.array(CALLS, dtype=object), json.dumps(CALLS), numpy.nan],
            "count": numpy.array([1, 2, 3, 4], dtype="int64"),
            "share": numpy.array([0.5, numpy.nan, 1.0, 2.0], dtype="float32"),
            "when": [datetime(2026, 1, 2), pandas.NaT, pandas.NaT, pandas.NaT],
            "vector": [numpy.array([1.5, 2.5])] * 4,
        },
        index=[7, 7, 3, 0],
    )

    dataset = dataset_from_frame(frame[frame["count"] > 1])

    first, second, third = dataset.rows
    assert [row.number for row in dataset.rows] == [1, 2, 3]
    assert [row.prompt for row in dataset.rows] == ["b", "c", None]
    assert [row.response for row in dataset.rows] == [None, None, "y"]
    assert first.predicted_trajectory == second.predicted_trajectory == [ToolCall("set", {"device": "d2"})]
    assert third.predicted_trajectory is None
    assert not any(row.problems for row in dataset.rows)
    assert json.loads(json.dumps(third.columns, allow_nan=False)) == third.columns
    assert (third.columns["count"], third.columns["share"], third.columns["vector"]) == (4, 2.0, [1.5, 2.5])
    assert first.columns["share"] is None


@pytest.mark.needs_pandas
def test_an_invalid_row_of_a_frame_is_reported_and_others_are_read() -> None:
    import pandas

    frame = pandas.DataFrame({"prompt": ["a", 5, "c"], "reference_trajectory": [[], [], str(CALLS)]}, index=[4, 6, 9])

    first, second, third = dataset_from_frame(frame).rows

    assert first.problems == ()
    assert [str(problem) for problem in (*second.problems, *third.problems)] == [
        "data frame: row 2 (index 6): prompt: found a number, expected text",
        "data frame: row 3 (index 9): reference_trajectory: found the repr of a Python value, expected JSON: write "
        "the cells with json.dumps (pandas.DataFrame.to_csv does not), or the dataset as .jsonl",
    ]


@pytest.mark.needs_pandas
def test_a_frame_with_duplicate_columns_is_refused() -> None:
    import pandas

    with pytest.raises(StoreError, match="data frame: found the column 'a' twice"):
        dataset_from_frame(pandas.DataFrame([[1, 2]], columns=["a", "a"]))


def test_columns_and_rows_in_memory_give_the_same_dataset() -> None:
    columns: dict[str, Any] = {"prompt": ["a", "b"], "answer": ["x", None], "cost": [Decimal("1.5"), {1: (2,)}]}
    rows = [{name: values[index] for name, values in columns.items()} for index in range(2)]

    column_dataset = dataset_from_columns(columns, columns={"response": "answer"})

    assert column_dataset == dataset_from_rows(rows, columns={"response": "answer"})
    assert [row.response for row in column_dataset.rows] == ["x", None]
    assert [row.columns["cost"] for row in column_dataset.rows] == [1.5, {"1": [2]}]


def test_an_invalid_row_or_column_in_memory_is_reported() -> None:
    rows: list[Any] = [{"prompt": "a"}, 7]

    _, second = dataset_from_rows(rows, name="my rows").rows

    assert [str(problem) for problem in second.problems] == [
        "my rows: row 2: found int, expected a mapping, the columns of a row"
    ]
    with pytest.raises(StoreError, match="dataset: b: found 1 row, expected 2 rows, as in a"):
        dataset_from_columns({"a": [1, 2], "b": [1]})


def test_a_value_that_cannot_be_read_is_a_problem_of_its_row_only() -> None:
    class Silent:
        def __str__(self) -> str:
            raise ValueError("no word")

    nested: list[Any] = []
    nested.append(nested)
    rows: list[dict[str, Any]] = [{"prompt": "a", "note": Silent()}, {"prompt": "b", "note": [nested]}, {"prompt": "c"}]

    first, second, third = dataset_from_rows(rows).rows

    assert (first.prompt, second.prompt, third.prompt, third.problems) == ("a", "b", "c", ())
    assert [str(problem) for problem in (*first.problems, *second.problems)] == [
        "dataset: row 1: note: found a Silent that raises ValueError, expected a JSON value or text",
        "dataset: row 2: note: found a value that is nested too deeply, expected a JSON value",
    ]


def test_a_missing_mapped_column_is_reported_with_the_nearest_one() -> None:
    with pytest.raises(StoreError, match="expected 'anser', which is mapped to response; did you mean 'answer'"):
        dataset_from_rows([{"answer": "a"}], columns={"response": "anser"})
