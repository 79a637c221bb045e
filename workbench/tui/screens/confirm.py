"""A question that is answered with yes or no."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static

from workbench.tui.keys import dialog_bindings
from workbench.tui.screens.dialog import Dialog
from workbench.tui.widgets.key_line import KeyLine


class ConfirmScreen(Dialog[bool]):
    """Asks one question; anything but yes is no."""

    PLACES: ClassVar[tuple[str, ...]] = ("confirm",)
    BINDINGS: ClassVar[list[BindingType]] = [*dialog_bindings("confirm")]

    def __init__(self, question: str) -> None:
        super().__init__()
        self._question = question

    def compose(self) -> ComposeResult:
        """The question and the keys that answer it."""
        with Vertical(classes="dialog"):
            yield Static(Content(self._question))
            yield KeyLine()

    def action_answer(self, yes: bool) -> None:
        """Close with the answer."""
        self.dismiss(yes)
