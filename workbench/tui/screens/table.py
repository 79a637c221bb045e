"""The results table, over the main screen: a row for each case, columns that scroll, mean and deviation below."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.widgets import Input

from workbench.model.keys import CaseKey, JobKey
from workbench.model.text import counted
from workbench.store.errors import StoreError
from workbench.tui.gateway.export_paths import export_problem, format_of, is_there, path_of, suggested_path
from workbench.tui.hub import Hub
from workbench.tui.keys import bindings
from workbench.tui.panes.copying import copy
from workbench.tui.screens.ask import AskScreen
from workbench.tui.screens.choose import ChooseScreen
from workbench.tui.screens.confirm import ConfirmScreen
from workbench.tui.screens.dialog import ResultScreen
from workbench.tui.state.pieces import Piece, Tone
from workbench.tui.state.table.rows import TableRow
from workbench.tui.state.table.scope import Scope
from workbench.tui.state.table.table import ResultTable
from workbench.tui.widgets.key_line import KeyLine
from workbench.tui.widgets.lines import StatusLine
from workbench.tui.widgets.row_list import RowList
from workbench.tui.widgets.saying import say

_REFRESH = 0.5  # seconds between two looks at rows that are still being read
_LOOK = 1.0  # seconds between two looks at which verdicts are stale


class TableScreen(ResultScreen[CaseKey | None]):
    """The newest results of what is selected, or those of a stored run. Gives the case that the user goes to."""

    HELP: ClassVar[str] = (
        "The newest results, one row for each case: verdict, response, trajectory and scores, with mean and "
        "deviation below. Enter goes to the case."
    )
    PLACES: ClassVar[tuple[str, ...]] = ("table",)
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("table")]

    def __init__(self, hub: Hub, *, title: str = "", scope: Scope | None = None, run_id: str | None = None) -> None:
        """Give the `scope` of the newest results, or the id and title of a run."""
        super().__init__()
        self._hub = hub
        self._run_title = title
        self._scope = scope
        self._run_id = run_id
        self._table = ResultTable()
        self._is_reading = True
        self._problem = ""

    def compose(self) -> ComposeResult:
        """What is shown, the titles of the columns, the rows, and what stands below them."""
        yield StatusLine(id="table-title")
        yield Input(id="table-filter", placeholder="words that the rows must have", compact=True)
        yield StatusLine(id="table-head")
        yield RowList(id="table-rows")
        yield StatusLine(id="table-mean")
        yield StatusLine(id="table-deviation")
        yield KeyLine()

    def on_mount(self) -> None:
        """Begin to read."""
        self.query_one(Input).display = False
        self.query_one(RowList).focus()
        self._read()
        self.set_interval(_LOOK, self._arrange_if_stale)

    def on_resize(self) -> None:
        """Other columns fit now."""
        self._show()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002
        """A stored run has no wider scope; what needs a row needs one."""
        if action == "widen":
            return self._scope is not None
        return True

    @on(RowList.Steered)
    def _on_steered(self, message: RowList.Steered) -> None:
        message.steer(self._table)
        self.query_one(RowList).show(self._table)

    @on(RowList.Entered)
    def _on_entered(self) -> None:
        if self._table.selected is not None:
            self.dismiss(self._table.selected.case)

    @on(Input.Changed, "#table-filter")
    def _on_filter_changed(self, message: Input.Changed) -> None:
        self._table.filtered_by = message.value
        self._arrange()

    @on(Input.Submitted, "#table-filter")
    def _on_filter_submitted(self, message: Input.Submitted) -> None:
        message.input.display = bool(message.value)
        self.query_one(RowList).focus()

    def action_move_column(self, by: int) -> None:
        """Go to another column."""
        self._table.move_column(by)
        self._show()

    def action_sort(self) -> None:
        """Sort by the column under the cursor."""
        self._table.sort()
        self._show()

    def action_filter(self) -> None:
        """Write what the rows must have."""
        line = self.query_one(Input)
        line.display = True
        line.focus()

    def action_toggle_repeats(self) -> None:
        """One row for each repeat, or for each case."""
        self._table.by_repeat = not self._table.by_repeat
        self._arrange()

    def action_widen(self) -> None:
        """The agent of the set, then everything, then the set again."""
        if self._scope is not None:
            self._scope = self._scope.wider()
            self._read()

    def action_copy_row(self) -> None:
        """Copy the row under the cursor."""
        row = self._table.selected
        copy(self, self._table.text_of(row) if row is not None else None)

    def action_close(self) -> None:
        """End the filter; without one, back to the main screen."""
        line = self.query_one(Input)
        if line.has_focus or line.value:
            line.value = ""
            line.display = False
            self.query_one(RowList).focus()
        else:
            self.dismiss(None)

    @work(group="dialog", exclusive=True)
    async def action_choose_columns(self) -> None:
        """Show or hide columns, one after the other."""
        chosen: int | None = 0
        while chosen is not None:
            columns = self._table.all_columns
            choices = [f"{' ' if column.id in self._table.hidden else '✓'} {column.title}" for column in columns]
            question = "Columns: enter shows or hides one, escape is done"
            chosen = await self.app.push_screen_wait(ChooseScreen(question, choices, chosen=chosen))
            if chosen is not None:
                self._table.toggle_column(columns[chosen].id)
                self._show()

    @work(group="dialog", exclusive=True)
    async def action_export(self) -> None:
        """Write what is listed to a file; one that is there is only replaced where the user says so."""
        jobs = self._jobs()
        if not jobs:
            say(self, "there is nothing to export", severity="warning")
            return
        question = f"Export {counted(len(jobs), 'result')} to a file (.csv, .md, .json, .jsonl)"
        value = suggested_path(self._run_id)
        answer = await self.app.push_screen_wait(AskScreen(question, value=value, check=export_problem))
        if answer is None:
            return
        path = path_of(answer)
        if is_there(path) and not await self.app.push_screen_wait(ConfirmScreen("That file is there. Replace it?")):
            return
        try:
            earlier = self._hub.state.board.earlier_verdicts(job.case for job in jobs)
            await self._hub.gateway.archive.export(path, format_of(path), jobs, run_id=self._run_id, earlier=earlier)
        except StoreError as error:
            say(self, str(error), severity="error")
            return
        say(self, f"{counted(len(jobs), 'result')} written to {path}")

    def _jobs(self) -> list[JobKey]:
        """The results behind the rows that are listed, in their order."""
        return [JobKey(case=row.case, repeat=repeat) for row in self._table.rows for repeat in row.repeat_numbers]

    @work(group="read", exclusive=True)
    async def _read(self) -> None:
        """Read the rows in stretches, and show them as they come."""
        old, self._table = self._table, ResultTable()
        self._table.take_over(old)
        self._is_reading, self._problem = True, ""
        self._show()
        shown = time.monotonic()
        try:
            async for rows in self._stretches():
                self._table.add(rows)
                if time.monotonic() - shown > _REFRESH:
                    self._arrange()
                    shown = time.monotonic()
        except StoreError as error:
            self._problem = str(error)
            say(self, self._problem, severity="error")  # whole: a line of the screen may cut what to do about it
        self._is_reading = False
        self._arrange()

    def _stretches(self) -> AsyncIterator[list[TableRow]]:
        archive = self._hub.gateway.archive
        if self._run_id is not None:
            return archive.rows_of_run(self._run_id)
        cases = self._cases()
        return archive.rows(cases, earlier=self._hub.state.board.earlier_verdicts(cases))

    def _cases(self) -> Sequence[CaseKey]:
        return self._scope.cases(self._hub.state.browser) if self._scope is not None else ()

    def _arrange(self) -> None:
        self._mark_stale()
        self._table.arrange()
        self._show()

    def _mark_stale(self) -> bool:
        return self._run_id is None and self._table.mark_stale(self._hub.state.browser.freshness.stale)

    def _arrange_if_stale(self) -> None:
        if self._mark_stale():
            self._arrange()

    def _show(self) -> None:
        if not self.is_mounted:
            return
        rows = self.query_one(RowList)
        width = rows.scrollable_content_region.width
        self._table.fit_columns(width)
        self.query_one("#table-title", StatusLine).show(self._title())
        self.query_one("#table-head", StatusLine).show(self._table.head(width))
        mean, deviation = self._table.feet(width)
        self.query_one("#table-mean", StatusLine).show(mean)
        self.query_one("#table-deviation", StatusLine).show(deviation)
        rows.show(self._table)

    def _title(self) -> tuple[Piece, ...]:
        title = self._scope.title if self._scope is not None else self._run_title
        pieces = [Piece(f" results of {title}   ", Tone.STRONG), *self._table.counts()]
        if self._is_reading:
            pieces.append(Piece("   reading …", Tone.RUNNING))
        elif self._problem:
            pieces.append(Piece(f"   ! {self._problem}", Tone.ERROR))
        elif self._table.is_empty:
            pieces.append(Piece("   nothing of it has run yet; r in the main screen runs it", Tone.MUTED))
        elif not len(self._table):
            pieces.append(Piece("   no row has these words; escape lists all", Tone.MUTED))
        return tuple(pieces)
