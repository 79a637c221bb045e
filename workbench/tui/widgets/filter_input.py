"""The line in which the user writes which cases to list."""

from __future__ import annotations

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widgets import Label, Static

from workbench.tui.widgets.find_input import FindInput


class FilterInput(FindInput):
    """Where it is written. Enter keeps the filter, escape ends it."""

    def __init__(self) -> None:
        super().__init__(placeholder="text in id, prompt or tool", compact=True, select_on_focus=False)

    def action_leave(self) -> None:
        """Empty the line and leave it."""
        self.value = ""
        super().action_leave()


class FilterLine(Vertical):
    """The line with its name before it and help below it: hidden while nothing is filtered."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self.display = False
        self._help = ""

    def compose(self) -> ComposeResult:
        """The name, where to write, and what can be written."""
        with Horizontal():
            yield Label("filter:", markup=False)
            yield FilterInput()
        yield Static(Content(""), id="filter-help")

    @property
    def text(self) -> str:
        """What is written."""
        return self.query_one(FilterInput).value

    def open(self) -> None:
        """Show the line and let the user write."""
        self.display = True
        self.query_one(FilterInput).focus()

    def write(self, text: str) -> None:
        """Put a text in place of what is written."""
        self.display = bool(text)
        self.query_one(FilterInput).value = text

    def show_help(self, text: str, *, problem: bool) -> None:
        """Say below the line what can be written, or what is wrong with what is. The text is never parsed as markup."""
        line = self.query_one("#filter-help", Static)
        line.set_class(problem, "-problem")
        if text != self._help:  # another help lays out the screen anew
            self._help = text
            line.update(Content(text))

    def on_descendant_focus(self) -> None:
        """Help is there while something is written."""
        self.add_class("-writing")

    @on(FilterInput.Blurred)
    def _on_blurred(self, message: FilterInput.Blurred) -> None:
        self.remove_class("-writing")
        self.display = bool(message.value)
