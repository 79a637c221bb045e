"""Columns under other names: which of a dataset's columns is the prompt, the response, the reference, ..."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path

from workbench.model.text import did_you_mean
from workbench.store.datasets.rows import ID, LATENCY, MESSAGES, REFERENCE_MESSAGES, TEXTS, TRAJECTORIES, Fault, Record
from workbench.store.errors import StoreError

KNOWN = (*TEXTS, *TRAJECTORIES, ID, LATENCY, MESSAGES, REFERENCE_MESSAGES)
"""The columns that have a meaning here; all others are whatever metrics make of them."""

Columns = Mapping[str, str]
"""For columns that are known here the names that they have in the dataset, such as `{"response": "answer"}`."""


class InvalidColumns(ValueError):
    """Columns that cannot be meant; the text is what was expected instead."""


def read_columns(texts: Iterable[str]) -> dict[str, str]:
    """Columns as they are typed: `response=answer,reference=ground_truth`. Raises InvalidColumns."""
    columns: dict[str, str] = {}
    for pair in (pair.strip() for text in texts for pair in text.split(",") if pair.strip()):
        known, equals, name = (part.strip() for part in pair.partition("="))
        if not equals or not name:
            raise InvalidColumns("COLUMN=NAME, such as response=answer")
        if known in columns:
            raise InvalidColumns(f"{known} once")
        columns[known] = name
    check_columns(columns)
    return columns


def check_columns(columns: Columns) -> None:
    """Raise InvalidColumns where one is named that has no meaning here."""
    for known in columns:
        if known not in KNOWN:
            raise InvalidColumns(f"one of {', '.join(KNOWN)} before the name{did_you_mean(known, KNOWN)}")


def with_columns(records: Iterable[Record], columns: Columns, *, source: Path | str) -> Iterator[Record]:
    """The records with what they have under other names also under the known ones.

    Raises StoreError at the end where no record has a column that is named.
    """
    seen: set[str] = set()
    for record in records:
        seen.update(record.columns)
        found = {known: record.columns[name] for known, name in columns.items() if name in record.columns}
        yield record._replace(columns={**record.columns, **found}, error=partial(_error, record, columns))
    missing = [(known, name) for known, name in columns.items() if name not in seen]
    if seen and missing:
        known, name = missing[0]
        raise StoreError(
            source,
            found=f"the columns {', '.join(sorted(seen)[:8])}",
            expected=f"{name!r}, which was named for {known}{did_you_mean(name, seen)}",
        )


def _error(record: Record, columns: Columns, fault: Fault) -> StoreError:
    """The error at the name that the column has in the dataset."""
    return record.error(fault._replace(column=columns.get(fault.column, fault.column)))
