"""Datasets as Parquet files, from pyarrow and from pandas."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from workbench.model.trace import ToolCall
from workbench.store.datasets.dataset_files import read_dataset
from workbench.store.errors import StoreError

pytestmark = pytest.mark.needs_pandas

ROWS: list[dict[str, Any]] = [
    {"prompt": "a", "predicted_trajectory": [{"tool_name": "set", "tool_input": {"device": "d2"}}], "cost": 1.5},
    {"prompt": None, "predicted_trajectory": [{"tool_name": "heat", "tool_input": {"degrees": 3}}], "cost": None},
]


def test_arguments_that_parquet_adds_to_calls_are_removed(tmp_path: Path) -> None:
    import pandas

    frame = pandas.DataFrame(ROWS, index=[5, 9])
    frame.to_parquet(tmp_path / "d.parquet")

    first, second = read_dataset(tmp_path / "d.parquet").rows

    assert first.predicted_trajectory == [ToolCall("set", {"device": "d2"})]
    assert second.predicted_trajectory == [ToolCall("heat", {"degrees": 3})]
    assert (first.prompt, second.prompt, first.columns["cost"], second.columns["cost"]) == ("a", None, 1.5, None)
    assert set(first.columns) == set(ROWS[0])


def test_an_invalid_row_is_reported_with_its_number(tmp_path: Path) -> None:
    import pandas

    path = tmp_path / "d.parquet"
    pandas.DataFrame({"prompt": ["a", "b"], "reference_trajectory": ["[]", "nothing"]}).to_parquet(path)

    first, second = read_dataset(path).rows

    assert first.reference_trajectory == []
    assert [str(problem) for problem in second.problems] == [
        f"{path}: row 2: reference_trajectory: found text, expected a list of tool calls or the JSON text of one"
    ]


@pytest.mark.parametrize("content", [b"", b"PAR1", b'{"prompt": "a"}'])
def test_an_invalid_parquet_file_is_one_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "d.parquet"
    path.write_bytes(content)

    with pytest.raises(StoreError, match="is not a readable Parquet file"):
        read_dataset(path)
