"""TOML files with the lines of their keys, and the layout of the screen."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from platformdirs import user_state_path
from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from workbench.model.facts import Fact
from workbench.model.identity import CaseKey
from workbench.store.errors import StoreError
from workbench.store.evalsets.case_reader import find_unusable, may_be_unusable
from workbench.store.files import (
    decode_utf8,
    make_folder,
    make_project_name,
    read_bytes,
    remove_leftovers,
    write_atomic,
)

# TOML files with the lines of their keys, which the standard library does not report

Place = Sequence[str | int]
"""Keys and list indexes from the top of the file to a value."""

_POSITION = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")


class TomlFile:
    """A file that was read; a missing file is empty."""

    def __init__(self, path: Path, text: str | None) -> None:
        self.path = path
        self.exists = text is not None
        self._lines = (text or "").split("\n")
        self.data: dict[str, Any] = tomllib.loads(text or "")

    def has(self, place: Place) -> bool:
        """True if the file has a value at a place."""
        return _has_place(place, self.data)

    def find_line(self, place: Place) -> int:
        """Return the line (from 1) of the statement that defines a place, or the nearest table around it.

        The statement is the one after which the place exists when the first lines of the file are parsed. This is slow,
        and only used for errors.
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
        """Parse the first lines; None if they end within a statement."""
        try:
            return tomllib.loads("\n".join(self._lines[:lines]))
        except tomllib.TOMLDecodeError:
            return None


def read_toml(path: Path) -> TomlFile:
    """Read a file, which may be missing. Raises StoreError if it cannot be read or is not TOML."""
    if not path.exists():
        return TomlFile(path, None)
    data, _ = read_bytes(path)
    text = decode_utf8(path, data).removeprefix("\ufeff")
    try:
        file = TomlFile(path, text)
    except tomllib.TOMLDecodeError as error:
        raise _make_toml_error(path, str(error)) from None
    except RecursionError:
        raise StoreError(path, found="a value nested too deeply", expected="at most a few hundred levels") from None
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


# Layouts of the screen by project, in the user's state folder


class ScreenLayout(Fact):
    """The layout of the screen.

    `left_width` is in cells; None means the width of the stylesheet. `theme` is set if it was chosen on the screen.
    `watching`: watch was on, paused or not. `folded` are targets (with an empty eval set) and eval sets. `selected` is
    a target, the path of one of its sets (empty for the target itself), and the case or None. `recent` are the items
    chosen last in the palette, each as its kind and its identity. `tour` is the step that comes next in the tour.
    """

    tab: str = "diff"
    drawer: str | None = None
    left_width: int | None = None
    theme: str | None = None
    watching: bool = False
    folded: tuple[tuple[str, str], ...] = ()
    selected: tuple[str, str, CaseKey | None] | None = None
    recent: tuple[tuple[str, ...], ...] = ()
    tour: str = ""


class Layouts:
    """The layouts of all projects, below one folder."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or user_state_path("workbench", appauthor=False) / "layouts"

    def load(self, root: Path) -> ScreenLayout:
        """Return the layout of a project, or the default if it is unknown."""
        try:
            return ScreenLayout.model_validate_json(self._file(root).read_bytes())
        except (OSError, ValidationError):
            return ScreenLayout()

    def save(self, root: Path, layout: ScreenLayout) -> None:
        """Save the layout of a project. If this fails, the next session starts with the previous layout."""
        with suppress(StoreError, PydanticSerializationError):  # the latter for halves of characters in an id
            make_folder(self._folder)
            remove_leftovers([self._folder])
            write_atomic(self._file(root), layout.model_dump_json().encode())

    def _file(self, root: Path) -> Path:
        return self._folder / f"{make_project_name(root)}.json"
