"""TOML files edited with every comment kept, and the layout of the screen."""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from platformdirs import user_state_path
from pydantic import ValidationError

from workbench.model.base import Fact
from workbench.model.identity import CaseKey
from workbench.store.errors import StoreError
from workbench.store.evalsets.case_reader import find_unusable, may_be_unusable
from workbench.store.files import decode_utf8, make_folder, read_bytes, remove_leftovers, write_atomic

# TOML files with the lines on which their keys stand, which the standard library's reader does not tell.

Place = Sequence[str | int]
"""Keys, and indexes of lists, from the top of the file down to a value."""

_POSITION = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")


class TomlFile:
    """A file as read. One that does not exist is empty."""

    def __init__(self, path: Path, text: str | None) -> None:
        self.path = path
        self.exists = text is not None
        self._lines = (text or "").split("\n")
        self.data: dict[str, Any] = tomllib.loads(text or "")

    def has(self, place: Place) -> bool:
        """Whether the file says anything of a place."""
        return _has_place(place, self.data)

    def find_line(self, place: Place) -> int:
        """The line, from 1, of the statement that defines a place, or of the nearest table around it.

        The reader itself is asked: the statement is the one with which the place appears when the file is read line by
        line. Only errors are worth that.
        """
        while place and not self.has(place):
            place = place[:-1]
        without, whole = 0, len(self._lines)
        while True:
            middle = (without + whole) // 2
            between = sorted(range(without + 1, whole), key=lambda end: abs(end - middle))
            parsed = next(((end, data) for end in between if (data := self._parse_first(end)) is not None), None)
            if parsed is None:
                return without + 1
            end, data = parsed
            if _has_place(place, data):
                whole = end
            else:
                without = end

    def _parse_first(self, lines: int) -> dict[str, Any] | None:
        """The data of the first lines, or None where a statement is cut."""
        try:
            return tomllib.loads("\n".join(self._lines[:lines]))
        except tomllib.TOMLDecodeError:
            return None


def read_toml(path: Path) -> TomlFile:
    """Read a file that need not exist. Raises StoreError where it cannot be read or is not TOML."""
    if not path.exists():
        return TomlFile(path, None)
    data, _ = read_bytes(path)
    text = decode_utf8(path, data).removeprefix("\ufeff")
    try:
        file = TomlFile(path, text)
    except tomllib.TOMLDecodeError as error:
        raise _make_toml_error(path, str(error)) from None
    except RecursionError:
        raise StoreError(path, found="a value nested too deeply", expected="at most some hundred levels") from None
    except ValueError:  # Python refuses to read integers of more than 4300 digits
        raise StoreError(path, found="an integer of over 4300 digits", expected="at most 308 digits") from None
    unusable = next(find_unusable(file.data), None) if may_be_unusable(text) else None
    if unusable is not None:
        place = ".".join(map(str, unusable.place))
        line = file.find_line(unusable.place)
        raise StoreError(path, line=line, place=place, found=unusable.found, expected=unusable.expected)
    return file


def _make_toml_error(path: Path, message: str) -> StoreError:
    position = _POSITION.search(message)
    line, column = (int(number) if number else None for number in position.groups()) if position else (None, None)
    return StoreError(path, f"is not TOML: {_POSITION.sub('', message)}", line=line, column=column)


def _has_place(place: Place, data: Any) -> bool:
    for step in place:
        try:
            data = data[step]
        except (KeyError, IndexError, TypeError):
            return False
    return True


# How the screen was left in each project, kept in the user's folder for the state of programs.


class Layout(Fact):
    """How the screen was left.

    `left_width` is in cells, None as the stylesheet has it. `theme` is None where none was chosen on the screen.
    `watching`: whether watch was on, paused or not.
    `folded` are targets (with an empty eval set) and eval sets; `selected` is a target, the path of one of its sets
    (empty for the target itself), and the case, None for what is above a case.
    """

    tab: str = "diff"
    drawer: str | None = None
    left_width: int | None = None
    theme: str | None = None
    watching: bool = False
    folded: tuple[tuple[str, str], ...] = ()
    selected: tuple[str, str, CaseKey | None] | None = None


class Layouts:
    """The layouts of all projects, below one folder."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or user_state_path("workbench", appauthor=False) / "layouts"

    def load(self, root: Path) -> Layout:
        """How a project was left; the default where that is not known."""
        try:
            return Layout.model_validate_json(self._file(root).read_bytes())
        except (OSError, ValidationError):
            return Layout()

    def save(self, root: Path, layout: Layout) -> None:
        """Keep how a project is left; where it cannot be kept, the next session begins as the first one did."""
        with suppress(StoreError):
            make_folder(self._folder)
            remove_leftovers([self._folder])
            write_atomic(self._file(root), layout.model_dump_json().encode())

    def _file(self, root: Path) -> Path:
        digest = hashlib.sha256(str(root.resolve()).encode("utf-8", "surrogateescape")).hexdigest()[:16]
        return self._folder / f"{digest}.json"
