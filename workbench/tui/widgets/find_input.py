"""A line in which the user writes what to look for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from textual.binding import BindingType
from textual.message import Message
from textual.widgets import Input

from workbench.tui.keys import bindings


class FindInput(Input):
    """Enter goes on with what is found, escape leaves the line."""

    PLACES: ClassVar[tuple[str, ...]] = ("finding",)
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("finding")]

    @dataclass
    class Left(Message):
        """The user looks for nothing any more."""

    def action_leave(self) -> None:
        """Say that the user looks for nothing any more."""
        self.post_message(self.Left())
