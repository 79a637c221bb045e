"""Results as files, here or elsewhere: the table as JSONL or CSV, and the numbers as JSON."""

from __future__ import annotations

import csv
import io
import json
import math
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from workbench.model.text import mask_named, redact
from workbench.store.datasets.remote import address_below, check_address, is_address, put
from workbench.store.errors import StoreError
from workbench.store.files import make_folder, write_atomic
from workbench.testing.evaluation.problems import EvaluationError

if TYPE_CHECKING:
    from workbench.testing.evaluation.result import EvalResult

_TABLE = "eval_results.jsonl"
_SUMMARY = "summary_metrics.json"


def check_output(folder: str, *, file_name: str | None) -> None:
    """Refuse what `write_result` cannot write, before anything runs for it. Raises EvaluationError."""
    if is_address(folder):
        try:
            check_address(folder)
        except StoreError as error:
            raise EvaluationError(f"output_uri_prefix: {error}") from None
    if file_name and PurePath(file_name).suffix not in (".jsonl", ".csv"):
        raise EvaluationError(f"output_file_name: found {file_name!r}, expected a name that ends in .jsonl or .csv")


def write_result(result: EvalResult, folder: str, *, file_name: str | None) -> None:
    """Write the table as `file_name` (`.jsonl`, the default, or `.csv`) and the numbers beside it.

    `folder` is a path or an address. Cells that are no text or number are JSON; keys are redacted. Raises StoreError.
    """
    table = PurePath(file_name or _TABLE)
    text = _as_csv(result) if table.suffix == ".csv" else _as_lines(result)
    numbers = {name: None if math.isnan(value) else value for name, value in result.summary_metrics.items()}
    _write(folder, table, text.encode("utf-8", "backslashreplace"))
    _write(folder, table.with_name(_SUMMARY), (json.dumps(numbers, indent=2) + "\n").encode())


def _write(folder: str, name: PurePath, data: bytes) -> None:
    if is_address(folder):
        put(address_below(folder, name.as_posix()), data)
        return
    path = Path(folder) / name
    make_folder(path.parent)
    write_atomic(path, data)


def _as_lines(result: EvalResult) -> str:
    return "".join(redact(json.dumps(mask_named(row), ensure_ascii=False)) + "\n" for row in result.rows)


def _as_csv(result: EvalResult) -> str:
    out = io.StringIO(newline="")
    writer = csv.writer(out)  # ends lines as RFC 4180 has it: with "\n" alone a "\r" in a cell would not be quoted
    columns = list(result.rows[0])
    writer.writerow(map(redact, columns))
    writer.writerows([_cell(row[name]) for name in columns] for row in result.rows)
    return out.getvalue()


def _cell(value: Any) -> str | int | float:
    """A value as datasets are read: text as it is, also what a spreadsheet would take for a formula."""
    if value is None:
        return ""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    return redact(value if isinstance(value, str) else json.dumps(mask_named(value), ensure_ascii=False))
