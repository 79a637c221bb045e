"""A question that is answered with one line of text."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input, Static

from workbench.tui.keys import dialog_bindings
from workbench.tui.screens.dialog import Dialog
from workbench.tui.state.pieces import safe
from workbench.tui.widgets.key_line import KeyLine

Check = Callable[[str], str | None]
"""Says in a sentence what is wrong with a text; None where nothing is."""


class AskScreen(Dialog[str | None]):
    """Asks for a name, a path or the like; gives None where the user changes their mind."""

    PLACES: ClassVar[tuple[str, ...]] = ("ask",)
    BINDINGS: ClassVar[list[BindingType]] = [*dialog_bindings("ask")]

    def __init__(self, question: str, *, value: str = "", check: Check, warn: Check | None = None) -> None:
        """What `check` says refuses an answer; what `warn` says is shown, and the answer taken."""
        super().__init__()
        self._question = question
        self._value = value
        self._check = check
        self._warn = warn

    def compose(self) -> ComposeResult:
        """The question, the line, and what is wrong with what stands in it."""
        with Vertical(classes="dialog dialog-wide"):
            yield Static(Content(safe(self._question)))
            yield Input(self._value, compact=True)
            yield Static(Content(""), classes="dialog-problem")
            yield KeyLine(enter="done")

    @on(Input.Changed)
    def _on_changed(self, message: Input.Changed) -> None:
        problem = self._check(message.value) if message.value else None  # an empty line is only refused on enter
        warning = self._warn(message.value) if problem is None and message.value and self._warn is not None else None
        shown = self.query_one(".dialog-problem", Static)
        shown.set_class(warning is not None, "-warning")
        shown.update(Content(safe(problem or warning or "")))

    @on(Input.Submitted)
    def _on_submitted(self, message: Input.Submitted) -> None:
        problem = self._check(message.value)
        if problem is None:
            self.dismiss(message.value)
        else:
            self.query_one(".dialog-problem", Static).update(Content(safe(problem)))

    def action_cancel(self) -> None:
        """Close without an answer."""
        self.dismiss(None)
