"""Labels that people gave to answers, to hold a judge against: rows of JSONL, CSV or JSON."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

from workbench.store.datasets.reading import read_records
from workbench.store.datasets.rows import Fault, Record, kind_of
from workbench.store.errors import StoreError

_COLUMNS = ("eval_id", "label", "eval_set", "repeat", "turn", "criterion", "rubric")

LabelValue = str | float


class Label(NamedTuple):
    """What somebody said about an answer.

    `turn` and `repeat` count from 1; what is None was not said. `label` is a number or a word. `row` counts rows from
    1; `error` is a fault of this row.
    """

    eval_id: str
    label: LabelValue
    eval_set: str | None
    repeat: int | None
    turn: int | None
    criterion: str | None
    rubric: str | None
    row: int
    error: Callable[[Fault], StoreError]


def read_labels(path: Path) -> list[Label]:
    """The labels of a file; further columns are notes. Raises StoreError with the row that cannot be read."""
    labels = [_label(record, row=row) for row, record in enumerate(read_records(path), start=1)]
    if not labels:
        raise StoreError(path, found="no rows", expected="rows with eval_id and label")
    return labels


def _label(record: Record, *, row: int) -> Label:
    _refuse_misspelt(record)
    return Label(
        eval_id=_name(record, "eval_id"),
        label=_value(record),
        eval_set=_optional_name(record, "eval_set"),
        repeat=_count(record, "repeat"),
        turn=_count(record, "turn"),
        criterion=_optional_name(record, "criterion"),
        rubric=_optional_name(record, "rubric"),
        row=row,
        error=record.error,
    )


def _refuse_misspelt(record: Record) -> None:
    """Columns that are all but ours: a label under another name would be none."""
    absent = [name for name in _COLUMNS if name not in record.columns]
    for name in record.columns:
        meant = [] if name in _COLUMNS else get_close_matches(name.casefold(), absent, n=1, cutoff=0.8)
        if meant:
            raise record.error(Fault(name, f"the unknown column {name!r}", f"{meant[0]!r} (did you mean that?)"))


def _name(record: Record, column: str) -> str:
    name = _optional_name(record, column)
    if name is None:
        raise record.error(Fault(column, "nothing", "the id of a case"))
    return name


def _optional_name(record: Record, column: str) -> str | None:
    value = record.columns.get(column)
    if value is None or value == "":
        return None
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise record.error(Fault(column, kind_of(value), "text"))


def _count(record: Record, column: str) -> int | None:
    value: Any = record.columns.get(column)
    if value is None or value == "":
        return None
    if isinstance(value, str) and value.strip().isdecimal():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    raise record.error(Fault(column, repr(value), "a whole number from 1 on"))


def _value(record: Record) -> LabelValue:
    value = record.columns.get("label")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return float(value)
    if isinstance(value, str) and value.strip():
        try:
            return float(value)
        except ValueError:
            return value.strip()
    raise record.error(Fault("label", "nothing" if value in (None, "") else kind_of(value), "a verdict or a rating"))
