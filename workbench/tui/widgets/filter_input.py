"""The line in which the user writes what the cases to list have in their ids."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.message import Message
from textual.widgets import Input, Label


class FilterInput(Input):
    """Where it is written. Enter keeps the filter, escape ends it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "submit", "keep the filter"),
        Binding("down", "submit", show=False),
        Binding("escape", "leave", "list all"),
    ]

    @dataclass
    class Left(Message):
        """The user is done with filtering, and everything is to be listed."""

    def __init__(self) -> None:
        super().__init__(placeholder="text in the id", compact=True, select_on_focus=False)

    def action_leave(self) -> None:
        """Empty the line and leave it."""
        self.value = ""
        self.post_message(self.Left())


class FilterLine(Horizontal):
    """The line with its name before it: hidden while nothing is filtered."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self.display = False

    def compose(self) -> ComposeResult:
        """The name and where to write."""
        yield Label("filter:", markup=False)
        yield FilterInput()

    def open(self) -> None:
        """Show the line and let the user write."""
        self.display = True
        self.query_one(FilterInput).focus()

    @on(FilterInput.Blurred)
    def _on_blurred(self, message: FilterInput.Blurred) -> None:
        self.display = bool(message.value)
