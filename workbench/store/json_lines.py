"""Files of JSON lines that the program writes for itself: read line by line, with the place of what is wrong in one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from pydantic import BaseModel

from workbench.store.documents.cases import InvalidData, validated
from workbench.store.documents.frame import kind_of
from workbench.store.documents.places import Place, format_place, locate
from workbench.store.errors import StoreError
from workbench.store.files import decode_utf8, read_bytes

Model = TypeVar("Model", bound=BaseModel)


class JsonLine(NamedTuple):
    """A line that is an object of the format that was asked for. `number` counts lines from 1."""

    path: Path
    number: int
    text: str
    data: dict[str, Any]

    def error(self, place: Place, *, found: str, expected: str) -> StoreError:
        """A fault at a place in the line."""
        column = locate(self.text, place) + 1
        return StoreError(
            self.path, place=format_place(place), line=self.number, column=column, found=found, expected=expected
        )

    def read(self, model: type[Model]) -> Model:
        """The line as a type. Raises StoreError."""
        try:
            return validated(model, self.data)
        except InvalidData as invalid:
            fault = invalid.faults[0]
            raise self.error(fault.place, found=fault.found, expected=fault.expected) from None


def read_json_lines(path: Path, *, format: str, what: str) -> Iterator[JsonLine]:
    """The lines of a file, but for blank ones. Each must be an object whose `format` is this.

    `what` is what a line holds, in words for messages. Raises StoreError.
    """
    expected = f"{what} ({format})"
    data, _ = read_bytes(path)
    for number, text in enumerate(decode_utf8(path, data).split("\n"), start=1):  # texts may hold other ends of lines
        if not text.strip():
            continue
        try:
            found = json.loads(text)
        except json.JSONDecodeError as error:
            wrong = f"a line that is no JSON ({error.msg})"
            raise StoreError(path, line=number, column=error.pos + 1, found=wrong, expected=expected) from None
        except RecursionError:
            raise StoreError(path, line=number, found="a line that is nested too deeply", expected=expected) from None
        if not isinstance(found, dict):
            raise StoreError(path, line=number, found=kind_of(found), expected=expected)
        line = JsonLine(path, number, text, found)
        if found.get("format") != format:
            told = repr(found["format"]) if "format" in found else "nothing"
            raise line.error(("format",) if "format" in found else (), found=told, expected=f"the format of {expected}")
        yield line
