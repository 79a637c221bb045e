"""Rows of values: single fields of the format, and the user's own JSON key by key."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from workbench.tui.state.editor.rows import Input, Kind, Place, Row, Spot

DEEPEST = 40
"""How many levels of the user's JSON have rows of their own. What is deeper is shown and edited as JSON in one row."""

_WORDS = {
    "creation_timestamp": "created",
    "inline_data": "inline data",
    "file_data": "file",
    "executable_code": "code",
    "code_execution_result": "result of code",
    "app_details": "app details",
    "thought_signature": "thought signature",
}


def field(spot: Spot, *, label: str, depth: int, input: Input) -> Iterator[Row]:
    """A value that the format defines; shown as the user's own JSON where it is of another type than it should be."""
    if _fits(spot.value, input):
        yield Row(
            place=spot.place,
            kind=Kind.FIELD,
            depth=depth,
            label=label,
            value=spot.value,
            edits=spot.place,
            input=input,
            json=spot.place,
        )
    else:
        yield from free(spot, label=label, depth=depth, kind=Kind.FIELD)


def free(spot: Spot, *, label: str | None = None, depth: int, kind: Kind = Kind.FREE, level: int = 0) -> Iterator[Row]:
    """The user's own JSON: an object key by key, a list item by item."""
    value = spot.value
    shown = label if label is not None else label_of(spot.place)
    has_rows = isinstance(value, dict | list) and bool(value) and level < DEEPEST
    yield Row(
        place=spot.place,
        kind=kind,
        depth=depth,
        label=shown,
        value=value,
        edits=None if has_rows else spot.place,
        input=Input.JSON if isinstance(value, dict | list) else Input.VALUE,
        json=spot.place,
    )
    if has_rows:
        yield from members(spot, depth=depth + 1, level=level + 1)


def members(spot: Spot, *, depth: int, level: int = 0) -> Iterator[Row]:
    """What an object or list of the user's holds, without a row for itself."""
    steps: Any = spot.value if isinstance(spot.value, dict) else range(len(spot.value))
    for step in steps:
        yield from free(spot.at(step), depth=depth, level=level)


def texts(spot: Spot, *, label: str, noun: str, depth: int) -> Iterator[Row]:
    """A list of texts, each a row."""
    if not isinstance(spot.value, list) or not spot.value:
        yield from free(spot, label=label, depth=depth, kind=Kind.FIELD)
        return
    for index in range(len(spot.value)):
        yield from field(spot.at(index), label=noun, depth=depth, input=Input.TEXT)


def label_of(place: Place) -> str:
    """What to call a value by its last step: items count from 1."""
    step = place[-1]
    return f"[{step + 1}]" if isinstance(step, int) else _WORDS.get(step, step)


def _fits(value: Any, input: Input) -> bool:
    if input is Input.NUMBER:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, str)
