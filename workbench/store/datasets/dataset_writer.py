"""Writing of datasets in each format that can be read.

NaN and infinities become null. Lone surrogates, which JSON can escape and UTF-8 cannot encode, become question marks.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from workbench.store.datasets.dataset_rows import ID, MEASURES, TEXTS
from workbench.store.errors import StoreError

Rows = Sequence[Mapping[str, Any]]
Loss = tuple[str, int]
"""What a format cannot represent of a row, in words, and the number of the row from 1."""


def encode_rows(path: Path, rows: Rows) -> bytes:
    """Encode rows in the format of the file's suffix. Raises StoreError for an unknown suffix or an invalid value."""
    writer = _WRITERS.get(path.suffix.lower())
    if writer is None:
        raise StoreError(path, f"is no dataset: expected a name that ends in {', '.join(_WRITERS)}")
    return writer(path, [replace_unwritable(row) for row in rows])


def replace_unwritable(value: Any) -> Any:
    """Replace everything in a JSON value that JSON and UTF-8 cannot represent."""
    text = json.dumps(value, ensure_ascii=False).encode("utf-8", "replace").decode()
    return json.loads(text, parse_constant=lambda _: None)


def find_json_losses(value: Any) -> Iterator[str]:
    """Yield descriptions of the changes by `replace_unwritable`."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except ValueError:
        yield "numbers that are none (NaN, Infinity) become null"
        text = json.dumps(value, ensure_ascii=False)
    if not text.isascii() and text != text.encode("utf-8", "replace").decode():
        yield "halves of characters become question marks"


def find_losses(path: Path, rows: Rows) -> Iterator[Loss]:
    """Yield the losses of writing these rows and reading them again."""
    suffix = path.suffix.lower()
    for number, row in enumerate(rows, start=1):
        for name, value in row.items():
            yield from ((f"{what}: {replace_unwritable(name)}", number) for what in find_json_losses({name: value}))
            if suffix == ".csv":
                yield from ((what, number) for what in _find_csv_losses(name, value))
            elif suffix == ".parquet" and isinstance(value, list | dict) and not _is_read_from_text(name):
                yield f"lists and objects become text: {name}", number


def _find_csv_losses(name: str, value: Any) -> Iterator[str]:
    if value == "":
        yield f"empty text becomes a missing value: {name}"
    elif isinstance(value, bool | int | float) and name != ID and (name not in MEASURES or isinstance(value, bool)):
        yield f"numbers and truth values become text: {name}"
    elif (
        isinstance(value, str) and name not in (*TEXTS, ID) and value[:1] in ("[", "{") and not _is_read_from_text(name)
    ):
        try:
            json.loads(value)
        except (ValueError, RecursionError):
            return
        yield f"text that is JSON becomes what it says: {name}"


def _is_read_from_text(name: str) -> bool:
    """True if JSON text of a list is read as a list."""
    return name.endswith(("trajectory", "messages"))


def _encode_lines(_: Path, rows: Rows) -> bytes:
    return "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows).encode()


def _encode_json(_: Path, rows: Rows) -> bytes:
    return (json.dumps(rows, ensure_ascii=False, indent=2) + "\n").encode()


def _encode_csv(_: Path, rows: Rows) -> bytes:
    stream = io.StringIO(newline="")
    names = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.writer(stream)  # ends lines as RFC 4180: with "\n" alone, a "\r" in a cell would not be quoted
    writer.writerow(names)
    for row in rows:
        cells = [_format_cell(row.get(name)) for name in names]
        writer.writerow(cells)
    return stream.getvalue().encode()


def _format_cell(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _encode_parquet(path: Path, rows: Rows) -> bytes:
    from workbench.store.datasets.table_files import encode_parquet

    return encode_parquet(path, rows)


_WRITERS: Mapping[str, Callable[[Path, Rows], bytes]] = {
    ".jsonl": _encode_lines,
    ".csv": _encode_csv,
    ".json": _encode_json,
    ".parquet": _encode_parquet,
}
