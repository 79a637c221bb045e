"""The line in which the user writes what to look for in the trace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from textual.binding import BindingType
from textual.message import Message
from textual.widgets import Input

from workbench.tui.keys import bindings


class SearchInput(Input):
    """Hidden while nothing is looked for. Enter goes to the first step found, escape ends the search."""

    PLACES: ClassVar[tuple[str, ...]] = ("finding",)
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("finding")]

    @dataclass
    class Left(Message):
        """The user looks for nothing any more."""

    def __init__(self) -> None:
        super().__init__(placeholder="text in names, requests, responses", compact=True, select_on_focus=True)
        self.display = False

    def open(self) -> None:
        """Show the line and let the user write."""
        self.display = True
        self.focus()

    def close(self) -> None:
        """Empty the line and hide it."""
        self.value = ""
        self.display = False

    def action_leave(self) -> None:
        """Say that the search is over."""
        self.post_message(self.Left())
