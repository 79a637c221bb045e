"""The line in which the user writes what the cases to list have in their ids."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import Input


class FilterInput(Input):
    """Hidden while nothing is filtered. Enter keeps the filter, escape ends it."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "end the filter"), Binding("down", "submit")]

    @dataclass
    class Left(Message):
        """The user is done with filtering, and everything is to be listed."""

    def __init__(self) -> None:
        super().__init__(placeholder="filter by id", compact=True, select_on_focus=False)
        self.display = False

    def open(self) -> None:
        """Show the line and let the user write."""
        self.display = True
        self.focus()

    def on_blur(self) -> None:
        """Take no room while nothing is filtered."""
        self.display = bool(self.value)

    def action_leave(self) -> None:
        """Empty the line and leave it."""
        self.value = ""
        self.post_message(self.Left())
