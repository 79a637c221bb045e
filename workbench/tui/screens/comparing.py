"""Two runs side by side, over the main screen."""

from __future__ import annotations

from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import BindingType

from workbench.model.keys import CaseKey
from workbench.store.errors import StoreError
from workbench.tui.hub import Hub
from workbench.tui.keys import bindings
from workbench.tui.screens.dialog import ResultScreen
from workbench.tui.state.blocks import Whole
from workbench.tui.state.history.comparing import ComparedCases
from workbench.tui.state.pieces import Tone
from workbench.tui.widgets.key_line import KeyLine
from workbench.tui.widgets.lines import StatusLine
from workbench.tui.widgets.row_list import RowList
from workbench.tui.widgets.rows_and_text import RowsAndText
from workbench.tui.widgets.saying import say

_HEAD_LINES = 3


class ComparingScreen(ResultScreen[CaseKey | None]):
    """Cases with what became of them from the earlier run to the later. Gives the case that the user goes to."""

    HELP: ClassVar[str] = (
        "What became of each case from the earlier run to the later: regressions and fixes first, cases that only one "
        "run has last. Enter goes to the case, and opens and closes the row that stands for many."
    )
    PLACES: ClassVar[tuple[str, ...]] = ("comparing",)
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("comparing")]

    def __init__(self, cases: ComparedCases, hub: Hub) -> None:
        super().__init__()
        self._cases = cases
        self._hub = hub

    def compose(self) -> ComposeResult:
        """Both runs, the cases, and the text about one."""
        for number in range(_HEAD_LINES):
            yield StatusLine(id=f"comparing-{number}")
        yield RowsAndText()
        yield KeyLine()

    def on_mount(self) -> None:
        """Show the comparison."""
        self._show()
        self.query_one(RowsAndText).focus_first()

    @on(RowList.Entered)
    def _on_entered(self) -> None:
        if self._cases.selected is not None:
            self.dismiss(self._cases.selected.case)
            return
        self._cases.toggle_fold()
        self.query_one(RowsAndText).show(self._cases, from_top=False)

    def action_toggle_flips(self) -> None:
        """List only the cases whose verdict flipped, or all."""
        self._cases = ComparedCases(self._cases.comparison, only_flips=not self._cases.only_flips)
        self._show()

    def action_swap(self) -> None:
        """Exchange the runs."""
        self._swap()

    def action_close(self) -> None:
        """Back to the history."""
        self.dismiss(None)

    def _show(self) -> None:
        for number, line in enumerate(self._cases.head()):
            self.query_one(f"#comparing-{number}", StatusLine).show(line)
        body = self.query_one(RowsAndText)
        if len(self._cases):
            body.show(self._cases, from_top=True)
        else:
            empty = "No verdict flipped. f lists all cases." if self._cases.only_flips else "Neither run has a case."
            body.show_text([Whole.of(empty, Tone.STRONG), *self._cases.blocks()])

    @work(group="swap", exclusive=True)
    async def _swap(self) -> None:
        comparison = self._cases.comparison
        try:
            swapped = await self._hub.gateway.archive.compare(comparison.after.run_id, comparison.before.run_id)
        except StoreError as error:
            say(self, str(error), severity="error")
            return
        if swapped is not None:
            self._cases = ComparedCases(swapped, only_flips=self._cases.only_flips)
            self._show()
