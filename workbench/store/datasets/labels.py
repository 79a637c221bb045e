"""Labels that people gave to answers, to hold a judge against: rows of JSONL, CSV or JSON."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

from workbench.store.datasets.reading import read_records
from workbench.store.datasets.rows import Fault, Record, kind_of
from workbench.store.errors import StoreError, raise_all

_COLUMNS = ("eval_id", "label", "eval_set", "repeat", "turn", "criterion", "rubric")
_NEEDED = ("eval_id", "label")
_ALSO_CALLED = {
    "eval_id": ("id", "case", "case_id", "evalid", "eval", "eval_case", "name"),
    "label": ("verdict", "rating", "score", "grade", "human", "human_label", "value"),
}
"""Under which names other tools have what we need."""

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
    """The labels of a file; further columns are notes. Raises StoreError with every row that cannot be read."""
    labels: list[Label] = []
    errors: list[StoreError] = []
    told: set[Fault] = set()
    for row, record in enumerate(read_records(path), start=1):
        fault = _fault_of_columns(record)
        if fault is not None:
            if fault not in told:  # the header of a table says it for every row
                told.add(fault)
                errors.append(record.error(fault))
            continue
        try:
            labels.append(_label(record, row=row))
        except StoreError as error:
            errors.append(error)
    raise_all(errors)
    if not labels:
        raise StoreError(path, found="no rows", expected="rows with eval_id and label")
    return labels


def _label(record: Record, *, row: int) -> Label:
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


def _fault_of_columns(record: Record) -> Fault | None:
    """What is wrong with the names of the columns: a label under another name would be none."""
    absent = [name for name in _COLUMNS if name not in record.columns]
    unknown = [name for name in record.columns if name not in _COLUMNS]
    for name in unknown:
        meant = get_close_matches(name.casefold(), absent, n=1, cutoff=0.8)
        if meant:
            return Fault(name, f"the unknown column {name!r}", f"{meant[0]!r} (did you mean that?)")
    for name in _NEEDED:
        if name in absent and unknown:
            meant = [each for each in unknown if each.casefold() in _ALSO_CALLED[name]]
            found = f"the unknown column {meant[0]!r}" if meant else f"only {', '.join(map(repr, record.columns))}"
            return Fault(meant[0] if meant else name, found, f"{name!r}{' (did you mean that?)' if meant else ''}")
    return None


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
