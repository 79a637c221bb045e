"""All of a diff: every text in full, everything that is as expected included."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType

from workbench.tui.keys import dialog_bindings
from workbench.tui.panes.diff.diff_view import DiffView
from workbench.tui.screens.dialog import Dialog
from workbench.tui.state.diff.source import DiffSource, Level
from workbench.tui.widgets.key_line import KeyLine


class WholeScreen(Dialog[None]):
    """Shows one source without limits."""

    PLACES: ClassVar[tuple[str, ...]] = ("whole",)
    BINDINGS: ClassVar[list[BindingType]] = [*dialog_bindings("whole")]

    def __init__(self, source: DiffSource) -> None:
        super().__init__()
        self._source = replace(source, most=None)

    def compose(self) -> ComposeResult:
        """The diff and the keys."""
        yield DiffView(id="whole-diff")
        yield KeyLine()

    def on_mount(self) -> None:
        """Show all of it."""
        view = self.query_one(DiffView)
        view.state.level = Level.EVERYTHING
        view.show(self._source, about=self)
        view.focus_lines()

    def action_step(self, by: int) -> None:
        """Go to another difference."""
        self.query_one(DiffView).step(by)

    def action_cycle_level(self) -> None:
        """Show more or less of what is as expected."""
        self.query_one(DiffView).cycle_level()

    def action_close(self) -> None:
        """Go back."""
        self.dismiss(None)
