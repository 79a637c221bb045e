"""Faults in the rows of a dataset, and labels of people."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, NamedTuple

from workbench.model.text import pluralise, suggest_name
from workbench.store.datasets.dataset_files import read_records
from workbench.store.datasets.dataset_rows import (
    ID,
    MESSAGES,
    PYTHON_REPR,
    REFERENCE_MESSAGES,
    TEXTS,
    TRAJECTORIES,
    Dataset,
    Record,
    Row,
    ValueFault,
    is_python_literal,
)
from workbench.store.datasets.message_rows import describe_kind, is_messages, read_messages
from workbench.store.errors import StoreError, raise_all

# Probable mistakes in a dataset, found before it is used

Rule = Literal[
    "unreadable", "python-repr", "missing-reference", "missing-value", "empty-trajectory", "duplicate-id",
    "duplicate-row", "unknown-tool", "similar-tool", "several-turns", "left-out",
]  # fmt: skip

_REFERENCES = ("reference", "reference_trajectory")
_ALIKE = 0.8


@dataclass(frozen=True, kw_only=True)
class LintFinding:
    """A probable mistake in a row. `row` counts from 1; None means all rows.

    `rule` is a short name that is stable between versions; `line` and `column` count from 1.
    """

    rule: Rule
    message: str
    row: int | None = None
    eval_id: str | None = None
    line: int | None = None
    column: int | None = None


def lint(dataset: Dataset, *, tools: Collection[str] | None = None) -> list[LintFinding]:
    """Return all findings in the order of rows. `tools` are those of the agent, if known."""
    checks = (
        _find_unreadable_rows(dataset.rows),
        _find_missing_values(dataset.rows),
        _find_empty_trajectories(dataset.rows),
        _find_python_reprs(dataset.rows),
        _find_duplicates(dataset.rows),
        _find_unknown_tools(dataset.rows, tools),
        _find_similar_tools(dataset.rows),
        _check_conversations(dataset.rows),
    )
    found = [finding for check in checks for finding in check]
    return sorted(found, key=lambda finding: finding.row or 0)


def _make_finding(row: Row, rule: Rule, message: str) -> LintFinding:
    return LintFinding(rule=rule, message=message, row=row.number, eval_id=row.eval_id, line=row.line)


def _find_unreadable_rows(rows: Sequence[Row]) -> Iterator[LintFinding]:
    for row in rows:
        for problem in row.problems:
            yield LintFinding(
                rule="python-repr" if problem.found == PYTHON_REPR else "unreadable",
                message=f"{problem.place}: {problem.message}" if problem.place else problem.message,
                row=row.number,
                eval_id=row.eval_id,
                line=problem.line,
                column=problem.column,
            )


def _find_missing_values(rows: Sequence[Row]) -> Iterator[LintFinding]:
    """Find missing values that other rows have, and references that no row has."""
    columns = [name for name in (*TEXTS, *TRAJECTORIES) if any(_has_value(row, name) for row in rows)]
    if rows and not any(name in columns for name in _REFERENCES):
        message = "no row has a reference or a reference_trajectory: metrics that need one have no score"
        yield LintFinding(rule="missing-reference", message=message)
    for row in rows:
        if row.problems:
            continue
        for name in columns:
            if not _has_value(row, name):
                rule: Rule = "missing-reference" if name in _REFERENCES else "missing-value"
                yield _make_finding(row, rule, f"{name} is missing; other rows have it")


def _has_value(row: Row, name: str) -> bool:
    """True if a column has a value: a text may be empty, a trajectory may not be an empty text."""
    value = row.columns.get(name)
    return value is not None and (value != "" or name in TEXTS)


def _find_empty_trajectories(rows: Sequence[Row]) -> Iterator[LintFinding]:
    for row in rows:
        if row.reference_trajectory == []:
            yield _make_finding(row, "empty-trajectory", "reference_trajectory is empty: recall has no score")
        if row.predicted_trajectory == []:
            yield _make_finding(row, "empty-trajectory", "predicted_trajectory is empty: precision has no score")


def _find_python_reprs(rows: Sequence[Row]) -> Iterator[LintFinding]:
    """Find Python literals in other columns, which reach judges and custom metrics as text."""
    for row in rows:
        for name, value in row.columns.items():
            is_other = name not in TEXTS and name not in TRAJECTORIES
            if is_other and isinstance(value, str) and is_python_literal(value) and not _is_json(value):
                yield _make_finding(row, "python-repr", f"{name}: found {PYTHON_REPR}, which stays text; expected JSON")


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _find_duplicates(rows: Sequence[Row]) -> Iterator[LintFinding]:
    ids: dict[str, int] = {}
    contents: dict[str, int] = {}
    for row in rows:
        first = ids.setdefault(row.eval_id, row.number)
        if first != row.number:
            yield _make_finding(row, "duplicate-id", f"duplicate eval_id {row.eval_id!r}, also in row {first}")
        if row.problems:
            continue
        content = json.dumps({name: row.columns[name] for name in row.columns if name != ID}, sort_keys=True)
        first = contents.setdefault(content, row.number)
        if first != row.number:
            yield _make_finding(row, "duplicate-row", f"the same as row {first}")


def _find_unknown_tools(rows: Sequence[Row], tools: Collection[str] | None) -> Iterator[LintFinding]:
    if tools is None:
        return
    for row in rows:
        for column, names in _list_tools(row):
            for name in names:
                if name not in tools:
                    message = f"{column}: the agent has no tool {name!r}{suggest_name(name, tools)}"
                    yield _make_finding(row, "unknown-tool", message)


def _find_similar_tools(rows: Sequence[Row]) -> Iterator[LintFinding]:
    """Find tools that occur once with a name similar to that of another tool."""
    used = Counter(name for row in rows for _, names in _list_tools(row) for name in names)
    often = [name for name, times in used.items() if times > 1]
    for row in rows:
        for column, names in _list_tools(row):
            for name in names:
                near = get_close_matches(name, often, n=1, cutoff=_ALIKE) if used[name] == 1 else []
                if near:
                    message = f"{column}: {name!r} is in no other trajectory, but {near[0]!r} is in {used[near[0]]}"
                    yield _make_finding(row, "similar-tool", message)


def _list_tools(row: Row) -> Iterator[tuple[str, list[str]]]:
    """Yield the tool names of each trajectory, each once."""
    for column, calls in zip(TRAJECTORIES, (row.predicted_trajectory, row.reference_trajectory), strict=True):
        yield column, list(dict.fromkeys(call.name for call in calls or ()))


def _check_conversations(rows: Sequence[Row]) -> Iterator[LintFinding]:
    for row in rows:
        for column in (MESSAGES, REFERENCE_MESSAGES):
            if row.problems or not is_messages(row.columns.get(column)):
                continue
            turns = read_messages(row.columns[column]).turns
            if len(turns) > 1:
                message = f"{column}: {pluralise(len(turns), 'turn')}, judged as one"
                yield _make_finding(row, "several-turns", message)
            kinds = sorted({kind for turn in turns for kind in turn.left_out})
            if kinds:
                yield _make_finding(
                    row, "left-out", f"{column}: parts other than text are left out ({', '.join(kinds)})"
                )


# Labels of people for calibration: rows of JSONL, CSV or JSON

_COLUMNS = ("eval_id", "label", "eval_set", "repeat", "turn", "criterion", "rubric")
_NEEDED = ("eval_id", "label")
_ALSO_CALLED = {
    "eval_id": ("id", "case", "case_id", "evalid", "eval", "eval_case", "name"),
    "label": ("verdict", "rating", "score", "grade", "human", "human_label", "value"),
}
"""Names of the required columns in other tools."""

LabelValue = str | float


class Label(NamedTuple):
    """The label of a person for a response.

    `turn` and `repeat` count from 1; None means not given. `label` is a number or a word. `row` counts rows from 1;
    `error` makes the error of a fault in this row.
    """

    eval_id: str
    label: LabelValue
    eval_set: str | None
    repeat: int | None
    turn: int | None
    criterion: str | None
    rubric: str | None
    row: int
    error: Callable[[ValueFault], StoreError]


def read_labels(path: Path) -> list[Label]:
    """Read the labels of a file; other columns are notes. Raises StoreError with all invalid rows."""
    labels: list[Label] = []
    errors: list[StoreError] = []
    reported: set[ValueFault] = set()
    for row, record in enumerate(read_records(path), start=1):
        if record.problems:
            errors += record.problems
            continue
        fault = _check_columns(record)
        if fault is not None:
            if fault not in reported:  # the header of a table would repeat it for every row
                reported.add(fault)
                errors.append(record.error(fault))
            continue
        try:
            labels.append(
                Label(
                    eval_id=_read_name(record, "eval_id"),
                    label=_read_value(record),
                    eval_set=_read_optional_name(record, "eval_set"),
                    repeat=_read_count(record, "repeat"),
                    turn=_read_count(record, "turn"),
                    criterion=_read_optional_name(record, "criterion"),
                    rubric=_read_optional_name(record, "rubric"),
                    row=row,
                    error=record.error,
                )
            )
        except StoreError as error:
            errors.append(error)
    raise_all(errors)
    if not labels:
        raise StoreError(path, found="no rows", expected="rows with eval_id and label")
    return labels


def _check_columns(record: Record) -> ValueFault | None:
    """Return the fault in the names of columns: a label under another name would be missed."""
    absent = [name for name in _COLUMNS if name not in record.columns]
    unknown = [name for name in record.columns if name not in _COLUMNS]
    for name in unknown:
        meant = get_close_matches(name.casefold(), absent, n=1, cutoff=0.8)
        if meant:
            return ValueFault(name, f"the unknown column {name!r}", f"{meant[0]!r} (did you mean that?)")
    for name in _NEEDED:
        if name in absent and unknown:
            meant = [each for each in unknown if each.casefold() in _ALSO_CALLED[name]]
            found = f"the unknown column {meant[0]!r}" if meant else f"only {', '.join(map(repr, record.columns))}"
            return ValueFault(meant[0] if meant else name, found, f"{name!r}{' (did you mean that?)' if meant else ''}")
    return None


def _read_name(record: Record, column: str) -> str:
    name = _read_optional_name(record, column)
    if name is None:
        raise record.error(ValueFault(column, "nothing", "the id of a case"))
    return name


def _read_optional_name(record: Record, column: str) -> str | None:
    value = record.columns.get(column)
    if value is None or value == "":
        return None
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise record.error(ValueFault(column, describe_kind(value), "text"))


def _read_count(record: Record, column: str) -> int | None:
    value: Any = record.columns.get(column)
    if value is None or value == "":
        return None
    if isinstance(value, str) and value.strip().isdecimal():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    raise record.error(ValueFault(column, repr(value), "a whole number from 1 on"))


def _read_value(record: Record) -> LabelValue:
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
    raise record.error(
        ValueFault("label", "nothing" if value in (None, "") else describe_kind(value), "a verdict or a rating")
    )
