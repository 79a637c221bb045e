"""The last picture of a project: what the screen showed last, painted at the next start until the screen is ready.

Importing Textual and opening a project take a second. The picture appears before both, so this module imports neither.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from platformdirs import user_state_path

from workbench.model.text import neutralise
from workbench.store.errors import StoreError
from workbench.store.files import PRIVATE, make_private_folder, make_project_name, write_atomic

ENTER_ALTERNATE, _LEAVE_ALTERNATE = "\x1b[?1049h", "\x1b[?1049l"
_HIDE_CURSOR, _SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"
OPENING = " opening the project …"


class Pictures:
    """The last pictures of all projects, in the user's state folder: one line of text with styles for each row."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or user_state_path("workbench", appauthor=False) / "pictures"

    def load(self, root: Path, *, columns: int, rows: int) -> Sequence[str]:
        """Return the rows of the picture of a project; empty without one of this size."""
        try:
            size, *lines = self._file(root).read_text("utf-8").split("\n")
        except (OSError, ValueError):
            return ()
        return lines if size == _format_size(columns, rows) and len(lines) == rows else ()

    def save(self, root: Path, lines: Sequence[str], *, columns: int) -> None:
        """Replace the picture of a project. If this fails, the next start shows the previous one."""
        data = "\n".join([_format_size(columns, len(lines)), *lines])
        with suppress(StoreError):
            make_private_folder(self._folder)
            write_atomic(self._file(root), data.encode(errors="replace"), mode=PRIVATE)

    def _file(self, root: Path) -> Path:
        return self._folder / f"{make_project_name(root)}.txt"


class EarlyScreen:
    """The terminal from the start of the program until Textual takes it over.

    Keys that are typed meanwhile are not echoed. They stay in the input of the terminal, where Textual finds them.
    """

    def __init__(self, root: Path, *, pictures: Pictures | None = None) -> None:
        self._root = root
        self._pictures = pictures or Pictures()
        self._attributes: list[Any] | None = None
        self.is_shown = False

    def __enter__(self) -> Self:
        """Show the picture of the project, or else its path."""
        if "TEXTUAL_DRIVER" not in os.environ:  # else something other than this terminal shows the screen
            with suppress(ImportError, OSError):  # Windows; no terminal
                self._silence_keys()
                self._paint()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the terminal back as it was, if Textual has not taken it over."""
        if self.is_shown:
            self.is_shown = False
            _write(_SHOW_CURSOR + _LEAVE_ALTERNATE)
        if self._attributes is not None:
            self._set_attributes(self._attributes)
            self._attributes = None

    def hand_over(self) -> list[Any] | None:
        """Leave the terminal to Textual. Return its attributes from before, which Textual must restore at the end."""
        attributes, self._attributes, self.is_shown = self._attributes, None, False
        return attributes

    def _silence_keys(self) -> None:
        import termios

        try:
            attributes = termios.tcgetattr(0)
        except termios.error:
            return
        self._attributes = [*attributes[:-1], list(attributes[-1])]
        attributes[0] &= ~(termios.ICRNL | termios.IXON)  # Enter is not ctrl+j; ctrl+s does not stop the output
        attributes[3] &= ~(termios.ECHO | termios.ICANON | termios.IEXTEN)
        no_key = bytes([os.fpathconf(0, "PC_VDISABLE")])
        attributes[6][termios.VSUSP] = attributes[6][termios.VQUIT] = no_key  # only ctrl+c ends the program here
        self._set_attributes(attributes)

    def _set_attributes(self, attributes: list[Any]) -> None:
        import termios

        with suppress(termios.error):
            termios.tcsetattr(0, termios.TCSANOW, attributes)

    def _paint(self) -> None:
        columns, rows = shutil.get_terminal_size()  # as Textual finds it
        lines = self._pictures.load(self._root, columns=columns, rows=rows)
        if not lines:
            path = neutralise(str(self._root.absolute()))
            lines = [f" workbench  {path}"[:columns], "", OPENING]
        placed = (f"\x1b[{number};1H{line}" for number, line in enumerate(lines, 1))
        self.is_shown = True
        _write(ENTER_ALTERNATE + _HIDE_CURSOR + "\x1b[H" + "".join(placed))


def _write(text: str) -> None:
    """Write to the stream that Textual writes to."""
    stream = sys.__stderr__
    if stream is not None:
        with suppress(OSError, ValueError):
            stream.write(text)
            stream.flush()


def _format_size(columns: int, rows: int) -> str:
    """Return the size and what decides which colours are used."""
    colours = [os.environ.get(name, "") for name in ("TERM", "COLORTERM", "NO_COLOR")]
    return f"{columns}x{rows} {colours}"
