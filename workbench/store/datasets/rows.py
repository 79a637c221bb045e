"""Rows: one prompt with what the agent did and should have done, whatever format the file had.

The names of the columns are those of the Vertex AI documentation, "Evaluate Gen AI agents".
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from workbench.model.trajectory import ToolCall, TrajectoryError, read_trajectory
from workbench.store.errors import StoreError

TEXTS = ("prompt", "response", "reference")
TRAJECTORIES = ("predicted_trajectory", "reference_trajectory")
ID = "eval_id"


class Row(NamedTuple):
    """One row. What the dataset does not have is None; an empty trajectory is one without calls.

    `number` counts rows from 1, `line` is where the row begins in the file (None in a file without rows of lines).
    `columns` holds everything as JSON values, the named columns included.
    """

    number: int
    line: int | None
    eval_id: str
    prompt: str | None
    response: str | None
    reference: str | None
    predicted_trajectory: list[ToolCall] | None
    reference_trajectory: list[ToolCall] | None
    columns: Mapping[str, Any]


@dataclass(frozen=True)
class Dataset:
    """The rows of a file."""

    path: Path
    rows: tuple[Row, ...]


class Fault(NamedTuple):
    """What is wrong with a value of a row; `inner` is the place inside the value, such as `[2].tool_input`."""

    column: str
    found: str
    expected: str
    inner: str = ""


class Record(NamedTuple):
    """A row as its format gives it; `error` says where in the file a fault is."""

    columns: dict[str, Any]
    line: int | None
    error: Callable[[Fault], StoreError]


def row_of(record: Record, *, number: int) -> Row:
    """The row with its named columns read. Raises StoreError with the place of what cannot be."""
    columns = record.columns
    given = columns.get(ID)
    return Row(
        number,
        record.line,
        f"row_{number}" if given is None or given == "" else str(given),
        _text(record, "prompt"),
        _text(record, "response"),
        _text(record, "reference"),
        _trajectory(record, "predicted_trajectory"),
        _trajectory(record, "reference_trajectory"),
        columns,
    )


def kind_of(value: Any) -> str:
    """What a value is, in the words of JSON."""
    names = {type(None): "null", bool: "true or false", dict: "an object", list: "a list", str: "text"}
    return names.get(type(value), "a number")


def _text(record: Record, column: str) -> str | None:
    value = record.columns.get(column)
    if value is None or isinstance(value, str):
        return value
    if _is_nan(value):
        return None
    raise record.error(Fault(column, kind_of(value), "text"))


def _trajectory(record: Record, column: str) -> list[ToolCall] | None:
    """The calls; JSON text is read, and stands in the columns as what it says."""
    value = record.columns.get(column)
    if value is None or value == "" or _is_nan(value):
        return None
    try:
        calls = read_trajectory(value)
    except TrajectoryError as error:
        found = kind_of(_value_at(error.place, value))
        raise record.error(Fault(column, found, error.expected, inner=error.place)) from None
    if isinstance(value, str):
        record.columns[column] = [{"name": call.name, "args": call.args} for call in calls]
    return calls


def _value_at(place: str, value: Any) -> Any:
    """The value at a place inside another, of which JSON text is looked into."""
    from workbench.store.documents.places import parse_place

    for step in parse_place(place):
        value = json.loads(value)[step] if isinstance(value, str) else value[step]
    return value


def _is_nan(value: Any) -> bool:
    """pandas writes what is missing as NaN."""
    return isinstance(value, float) and math.isnan(value)
