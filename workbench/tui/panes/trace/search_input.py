"""The line in which the user writes what to look for in the trace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import Input


class SearchInput(Input):
    """Hidden while nothing is looked for. Enter goes to the first step found, escape ends the search."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "submit", "go to what was found"),
        Binding("down", "submit", show=False),
        Binding("escape", "leave", "end the search"),
    ]

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
