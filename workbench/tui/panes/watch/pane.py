"""The pane `watch`: what was saved, what that concerned and why, what waits."""

from __future__ import annotations

from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content
from textual.widgets import Static

from workbench.tui.external_editor import open_file
from workbench.tui.hub import Hub
from workbench.tui.keys import bindings
from workbench.tui.messages import CaseWanted
from workbench.tui.panes.rows_pane import RowsPane
from workbench.tui.state.watch.news import Broken
from workbench.tui.state.watch.rows import WatchRows, how_line, nothing_text
from workbench.tui.widgets.lines import StatusLine
from workbench.tui.widgets.row_list import RowList


class WatchPane(RowsPane):
    """The last changes, the newest first."""

    TAB = "Watch"
    HELP = (
        "What was saved while the watch was on: which cases it made run again or be judged again, why, how far each "
        "reason reaches, and how long the first verdict took. Above that stands what waits: for source that cannot be "
        "compiled, for a key where a change costs more than `[watch]` in the settings allows, or for the watch to be "
        "resumed. Enter goes to the case of a row, or opens the file that cannot be compiled in your editor."
    )
    PLACES: ClassVar[tuple[str, ...]] = ("watch",)
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("watch")]

    rows: WatchRows

    def __init__(self, hub: Hub, *, id: str) -> None:
        super().__init__(hub, id=id)
        self.rows = WatchRows()

    def compose(self) -> ComposeResult:
        """What the watch does, and the rows; or what to do where there are none."""
        yield StatusLine(id="watch-how")
        yield RowList(id="watch-rows")
        yield Static(id="watch-nothing")

    def copyable(self) -> str | None:
        """All rows."""
        return self.rows.text or None

    @on(RowList.Entered)
    def _on_entered(self) -> None:
        if self.rows.selected_case is not None:
            self.post_message(CaseWanted(self.rows.selected_case))
        else:
            self.action_open_file()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002
        """Only what cannot be compiled is opened."""
        return True if action != "open_file" or self.rows.selected_broken is not None else None

    def action_open_file(self) -> None:
        """Open the file that cannot be compiled in the user's editor."""
        if self.rows.selected_broken is not None:
            self._open(self.rows.selected_broken)

    @work(group="editor")
    async def _open(self, broken: Broken) -> None:
        await open_file(self.app, broken.path, line=broken.line)

    def show_rows(self) -> None:
        """Show the watch as it is now."""
        watch = self.hub.state.watch
        self.rows.show(watch, self.hub.state.board)
        is_empty = len(self.rows) == 0
        self.query_one("#watch-how", StatusLine).show(how_line(watch))
        rows, nothing = self.query_one(RowList), self.query_one("#watch-nothing", Static)
        nothing.display = is_empty
        rows.display = not is_empty
        if is_empty:
            nothing.update(Content(nothing_text(watch)))
        rows.show(self.rows)
