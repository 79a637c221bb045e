"""Rows: one prompt with what the agent did and should have done, whatever format the file had.

The names of the columns are those of the Vertex AI documentation, "Evaluate Gen AI agents".
"""

from __future__ import annotations

import ast
import json
import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from workbench.model.trajectory import ToolCall, TrajectoryError, read_trajectory, written
from workbench.store.datasets.kinds import kind_of
from workbench.store.datasets.messages import MessageError, is_messages, read_messages
from workbench.store.errors import StoreError

TEXTS = ("prompt", "response", "reference")
TRAJECTORIES = ("predicted_trajectory", "reference_trajectory")
ID = "eval_id"
LATENCY = "latency_in_seconds"
FAILURE = "failure"
MEASURES = (LATENCY, FAILURE)
"""The columns that are numbers."""

MESSAGES = "messages"
_CONTENTS = "contents"  # what Gemini calls them
REFERENCE_MESSAGES = "reference_messages"

AS_PYTHON_PRINTS = "a value as Python prints it"
_MOST_CALLS = 10_000  # as many as are kept of a turn of an agent (see limits.py of the worker)
_LONGEST_PYTHON = 1_000_000  # characters: what Python's parser makes of a text takes hundreds of times its room
REMEDY = "JSON: write the cells with json.dumps (pandas.DataFrame.to_csv does not), or the dataset as .jsonl"


class Row(NamedTuple):
    """One row. What the dataset does not have is None; an empty trajectory is one without calls.

    `number` counts rows from 1, `line` is where the row begins in the file (None in a file without rows of lines).
    `columns` holds everything as JSON values, the named columns included, also where a list of messages says them.
    `problems` keep the row from being judged; what else of it could be read is there.
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
    problems: tuple[StoreError, ...] = ()


@dataclass(frozen=True)
class Dataset:
    """The rows of a file; `source` is text where they come from elsewhere, as in StoreError."""

    source: Path | str
    rows: tuple[Row, ...]


class Fault(NamedTuple):
    """What is wrong with a value of a row; `inner` is the place inside the value, such as `[2].tool_input`."""

    column: str
    found: str
    expected: str
    inner: str = ""


class Record(NamedTuple):
    """A row as its format gives it; `error` says where in the file a fault is.

    `problems` are what the format itself could not read of the row; a column of which that is so is absent.
    """

    columns: dict[str, Any]
    line: int | None
    error: Callable[[Fault], StoreError]
    problems: tuple[StoreError, ...] = ()


def broken_record(problem: StoreError) -> Record:
    """A row of which nothing can be read."""
    return Record({}, problem.line, lambda _: problem, (problem,))


def row_of(record: Record, *, number: int) -> Row:
    """The row with its named columns read; what of them cannot be is a problem of the row."""
    columns = record.columns
    problems = list(record.problems)
    for name, value in columns.items():
        if _is_nan(value):
            columns[name] = None  # so pandas writes what is missing
    if MESSAGES not in columns and is_messages(columns.get(_CONTENTS)):
        columns[MESSAGES] = columns[_CONTENTS]
    _read_conversation(record, MESSAGES, problems, prompt="prompt", answer="response", calls="predicted_trajectory")
    _read_conversation(
        record, REFERENCE_MESSAGES, problems, prompt="prompt", answer="reference", calls="reference_trajectory"
    )
    return Row(
        number,
        record.line,
        _id(record, problems) or f"row_{number}",
        _text(record, "prompt", problems),
        _answer(record, "response", problems),
        _answer(record, "reference", problems),
        _trajectory(record, "predicted_trajectory", problems),
        _trajectory(record, "reference_trajectory", problems),
        columns,
        tuple(problems),
    )


def is_python(text: str) -> bool:
    """Whether a text is a list, dict or tuple as Python prints it; False for one that is too long to be looked into."""
    if text[:1] not in ("[", "{", "(") or len(text) > _LONGEST_PYTHON:
        return False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what Python thinks of escapes in it
            ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return False
    return True


def _read_conversation(
    record: Record, column: str, problems: list[StoreError], *, prompt: str, answer: str, calls: str
) -> None:
    """Take from a list of messages what the columns themselves do not say.

    A column that is no such list is any other column, unless nothing else says what happened. The JSON text of a list
    is that list, in the columns too.
    """
    columns = record.columns
    value = columns.get(column)
    if isinstance(value, str):
        value = columns[column] = _messages_in(value)
    if value is None or not (is_messages(value) or all(columns.get(name) is None for name in (prompt, answer, calls))):
        return
    try:
        conversation = read_messages(value)
    except MessageError as error:
        problems.append(record.error(Fault(column, error.found, error.expected, inner=error.place)))
        return
    known = conversation.calls
    said = (conversation.prompt, conversation.answer, None if known is None else written(known))
    for name, found in zip((prompt, answer, calls), said, strict=True):
        if columns.get(name) is None:
            columns[name] = found


def _messages_in(text: str) -> Any:
    """The list of messages that a text is; any other text as it is."""
    if not text.lstrip().startswith("["):
        return text
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value if is_messages(value) else text


def _id(record: Record, problems: list[StoreError]) -> str | None:
    value = record.columns.get(ID)
    if isinstance(value, dict | list):
        problems.append(record.error(Fault(ID, kind_of(value), "text or a number")))
        return None
    return None if value is None else str(value)


def _text(record: Record, column: str, problems: list[StoreError]) -> str | None:
    value = record.columns.get(column)
    if value is None or isinstance(value, str):
        return value
    problems.append(record.error(Fault(column, kind_of(value), "text")))
    return None


def _answer(record: Record, column: str, problems: list[StoreError]) -> str | None:
    """The text of an answer; of agents with structured output the JSON of a number, true, false or an object."""
    value = record.columns.get(column)
    if isinstance(value, int | float | dict):
        return json.dumps(value, ensure_ascii=False)
    return _text(record, column, problems)


def _trajectory(record: Record, column: str, problems: list[StoreError]) -> list[ToolCall] | None:
    """The calls; JSON text is parsed, and replaced in the columns by its value.

    More calls than are judged are a problem of the row, and are not kept.
    """
    value = record.columns.get(column)
    if value is None or value == "":
        return None
    try:
        calls = None if isinstance(value, list) and len(value) > _MOST_CALLS else read_trajectory(value)
    except TrajectoryError as error:
        if isinstance(value, str) and not error.place and is_python(value):
            problems.append(record.error(Fault(column, AS_PYTHON_PRINTS, REMEDY)))
            return None
        found = kind_of(_value_at(error.place, value))
        problems.append(record.error(Fault(column, found, error.expected, inner=error.place)))
        return None
    if calls is None or len(calls) > _MOST_CALLS:
        count = len(value if calls is None else calls)
        value = calls = record.columns[column] = None  # freed before the text is read again for the place
        problems.append(record.error(Fault(column, f"{count:,} calls", f"at most {_MOST_CALLS:,}")))
        return None
    if isinstance(value, str):
        record.columns[column] = json.loads(value)
    return calls


def _value_at(place: str, value: Any) -> Any:
    """The value at a place inside another, of which JSON text is looked into."""
    from workbench.store.documents.places import parse_place

    for step in parse_place(place):
        value = json.loads(value)[step] if isinstance(value, str) else value[step]
    return value


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)
