"""History: what became of a case, a set or a target in earlier runs; any two of them side by side."""

from __future__ import annotations

from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import BindingType

from workbench.model.identity import CaseKey
from workbench.report.run_report import time_text
from workbench.store.errors import StoreError
from workbench.store.history.history_queries import StoredJob, StoredRun
from workbench.tui.backend.run_calls import read_case_history
from workbench.tui.keys import bindings
from workbench.tui.panes.pane import Pane
from workbench.tui.screen_messages import CaseWanted, ScreenContext, SessionWanted
from workbench.tui.state.browser_list import Place
from workbench.tui.state.browser_state import Pinned, Subject
from workbench.tui.state.case_scores import unreadable_blocks
from workbench.tui.state.history_state import CURRENT, Executions, GroupRuns
from workbench.tui.state.text_layout import BLANK, Paragraph, Style, safe_line
from workbench.tui.widgets.inputs import say
from workbench.tui.widgets.row_lists import RowList, RowsAndText


class HistoryPane(Pane):
    """One row for each execution of a case, or for each run of a set or target."""

    TAB = "History"
    HELP = (
        "What became of the case in every run, newest first: how it ended, its scores, what it was judged by, and what "
        f"has changed since (△); {CURRENT} marks the verdict that counts now. Enter looks at that result in the other "
        "tabs, escape returns to the newest. Of an eval set or an agent, its runs; enter shows one as a table. m marks "
        "a run, = compares another with it."
    )
    PLACES: ClassVar[tuple[str, ...]] = ("history",)
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("history")]

    def __init__(self, context: ScreenContext, *, id: str) -> None:
        super().__init__(context, id=id)
        self._place: Place | None = None  # what is shown or read
        self._seen = -1  # how many results of it, or of this session, there were when it was read
        self._shown: Executions | GroupRuns | None = None

    def compose(self) -> ComposeResult:
        """Executions or runs, and text."""
        yield RowsAndText()

    def show(self, subject: Subject) -> None:
        """Read the history of what is selected where it has not been read, or where there is more of it by now."""
        if subject.row is None:
            self.hide()
            self._shown = None
            self.query_one(RowsAndText).show_text([Paragraph.from_text("No case is selected.", Style.MUTED)])
            return
        place = subject.row.place
        if subject.row.case is not None:
            seen = subject.record.ended if subject.record is not None else 0
        else:
            seen = -1 if self.context.state.is_running else self.context.state.board.results
        if (place, seen) == (self._place, self._seen):
            if self._mark_current(subject) and self._shown is not None:
                self.query_one(RowsAndText).show(self._shown, from_top=False)
            return
        if place != self._place:
            self._shown = None
            self.query_one(RowsAndText).show_text([Paragraph.from_text("reading the history …", Style.MUTED)])
        self._place, self._seen = place, seen
        self._read(place)

    def _mark_current(self, subject: Subject) -> bool:
        """Mark the executions whose verdicts count now. Return True if others were marked before."""
        shown, record = self._shown, subject.record
        if not isinstance(shown, Executions) or record is None:
            return False
        before = shown.current, shown.is_stale
        places = (outcome.place for outcome in record.verdicts.values())
        shown.current = frozenset(place for place in places if place is not None)
        shown.is_stale = bool(subject.why_stale)
        return before != (shown.current, shown.is_stale)

    def focus_first(self) -> None:
        """The rows."""
        self.query_one(RowsAndText).focus_first()

    def hide(self) -> None:
        """Read nothing while nobody looks; what changed meanwhile is read when the pane is opened again."""
        self.workers.cancel_group(self, "history")
        self._place = None

    def copyable(self) -> str | None:
        """The id of the run under the cursor."""
        run = self._shown.selected_run if self._shown is not None else None
        return None if run is None else run.run_id

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002
        """Marking and comparing need a run under the cursor."""
        if action in ("mark", "compare", "open_table"):
            return True if self._shown is not None and len(self._shown) else None
        return True

    @on(RowList.Entered)
    def _on_entered(self, message: RowList.Entered) -> None:
        message.stop()
        if isinstance(self._shown, GroupRuns):
            self.action_open_table()
        elif self._shown is not None and self._shown.selected is not None:
            self._look_at(self._shown.selected)

    def action_mark(self) -> None:
        """Mark the run under the cursor, or take the mark away."""
        shown = self._shown
        if shown is None or shown.selected_run is None:
            return
        run_id = shown.selected_run.run_id
        shown.marked = None if shown.marked == run_id else run_id
        self.query_one(RowsAndText).show(shown, from_top=False)

    def action_compare(self) -> None:
        """Compare the run under the cursor with the marked one, or with the one before it."""
        shown = self._shown
        run = shown.selected_run if shown is not None else None
        if shown is None or run is None:
            return
        if shown.marked is not None and shown.marked != run.run_id:
            self._compare(*shown.in_order(shown.marked, run.run_id))
        elif shown.older_run is not None:
            self._compare(shown.older_run.run_id, run.run_id)
        else:
            say(self, "there is no earlier run to compare with; mark another one with m")

    def action_open_table(self) -> None:
        """The results of the run under the cursor as a table."""
        run = self._shown.selected_run if self._shown is not None else None
        if run is not None:
            self._open_table(run)

    def _open_table(self, run: StoredRun) -> None:
        from workbench.tui.dialogs.results_screen import TableScreen  # seldom needed, and never at the start

        screen = TableScreen(self.context, run_id=run.run_id, title=f"run {safe_line(run.run_id)}")
        self.app.push_screen(screen, self._go_to)

    def _go_to(self, case: CaseKey | None) -> None:
        if case is not None:
            self.post_message(CaseWanted(case, tab="diff"))

    @work(group="history", exclusive=True)
    async def _read(self, place: Place) -> None:
        target, eval_set, case = place
        backend = self.context.backend
        try:
            if case is not None:
                self._take(Executions(await backend.call(lambda workspace: read_case_history(workspace, case))))
            else:
                parts = await backend.history.read_runs(target, eval_set or None)
                self._take(GroupRuns(parts, target=target, eval_set=eval_set or None))
        except StoreError as error:
            self._shown = None
            self.query_one(RowsAndText).show_text(unreadable_blocks(str(error)))

    def _take(self, rows: Executions | GroupRuns) -> None:
        old, self._shown = self._shown, rows
        self._mark_current(self.context.state.subject())
        self.refresh_bindings()
        if not len(rows):
            self.query_one(RowsAndText).show_text(
                [
                    Paragraph.from_text("There is no history yet: nothing has run under this name.", Style.STRONG),
                    BLANK,
                    Paragraph.from_text("r runs what is selected; every result is kept from then on.", Style.MUTED),
                ]
            )
            return
        if old is not None:
            rows.marked = old.marked
            grown = len(rows) - len(old) if old.cursor else 0  # the newest stays the newest
            rows.move_to(old.cursor + grown)
        self.query_one(RowsAndText).show(rows, from_top=old is None)

    @work(group="look", exclusive=True)
    async def _look_at(self, job: StoredJob) -> None:
        """Show a stored result in the other tabs, held against the case that is selected now; a row as it was then."""
        read = self.context.state.read
        case = read.case if read is not None and read.key == job.case else None
        try:
            result = await self.context.backend.history.read_result(job.run_id, job.key)
        except StoreError as error:
            say(self, str(error), severity="error")
            return
        if self.context.state.selected_case != job.case:
            return  # the user has gone on to another case
        if result is None:
            say(self, "the result is no longer in the history", severity="warning")
            return
        if not result.execution.turns and result.failure is None:
            say(self, "what the agent did then has been forgotten: only the newest executions keep it")
        title = f"run {safe_line(job.run_id)}, {time_text(job.finished_at)}"
        self.post_message(SessionWanted(Pinned(title, result.expected_by_row or case, result), tab="diff"))

    @work(group="compare", exclusive=True)
    async def _compare(self, before: str, after: str) -> None:
        try:
            comparison = await self.context.backend.history.compare_runs(before, after)
        except StoreError as error:
            say(self, str(error), severity="error")
            return
        if comparison is not None:
            # Seldom needed, and never at the start.
            from workbench.tui.dialogs.results_screen import ComparingScreen
            from workbench.tui.state.history_state import ComparedCases

            self.app.push_screen(ComparingScreen(ComparedCases(comparison), self.context), self._go_to)
