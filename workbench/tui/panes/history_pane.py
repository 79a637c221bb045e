"""History pane: earlier runs of a case, set or target, and comparison of two runs."""

from __future__ import annotations

import asyncio

from textual import on, work
from textual.app import ComposeResult

from workbench.model.identity import CaseKey
from workbench.report.bisect_report import BisectStep
from workbench.report.run_report import time_text
from workbench.store.errors import StoreError
from workbench.store.history.history_queries import StoredJob
from workbench.tui.backend.run_calls import read_case_history
from workbench.tui.screen_context import CaseWanted, Pane, ScreenContext, SessionWanted
from workbench.tui.state.browser_list import RowKey
from workbench.tui.state.browser_state import PinnedResult, Subject
from workbench.tui.state.case_scores import describe_unreadable_history
from workbench.tui.state.diff_lines import DiffSource
from workbench.tui.state.history_state import CURRENT, ComparedCases, ExecutionRows, GroupRuns
from workbench.tui.state.text_layout import BLANK, Paragraph, Style, safe_line
from workbench.tui.widgets.key_line import report_errors, say
from workbench.tui.widgets.row_lists import RowList, RowsAndText


class HistoryPane(Pane):
    """One row for each execution of a case, or for each run of a set or target."""

    TAB = "History"
    HELP = (
        "Every run of the case, newest first: its status, scores and criteria, and later changes (△). "
        f"{CURRENT} marks the current verdict. Enter shows that result in the other tabs, escape returns to the "
        "newest. For an eval set or an agent, its runs; enter shows one as a table. m marks a run, = compares another "
        "with it. b finds the commit that turned the case red."
    )
    PLACES = ("history",)

    def __init__(self, context: ScreenContext, *, id: str) -> None:
        super().__init__(context, id=id)
        self._place: RowKey | None = None  # row whose history is shown or read
        self._seen = -1  # number of results of the row, or of this session, when it was read
        self._shown: ExecutionRows | GroupRuns | None = None

    def compose(self) -> ComposeResult:
        yield RowsAndText()

    def show(self, subject: Subject) -> None:
        """Read the history of the selected row, unless it is shown and has no new results."""
        if subject.row is None:
            self.hide()
            self._shown = None
            self.query_one(RowsAndText).show_text([Paragraph.from_text("No case is selected.", Style.MUTED)])
            return
        place = subject.row.key
        if subject.row.case is not None:
            seen = subject.record.result_number if subject.record is not None else 0
        else:
            seen = -1 if self.context.state.is_running else self.context.state.board.result_count
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
        """Mark the executions that gave the current verdicts. Return True if that changed the marks."""
        shown, record = self._shown, subject.record
        if not isinstance(shown, ExecutionRows) or record is None:
            return False
        before = shown.current, shown.is_stale
        places = (outcome.location for outcome in record.verdicts.values())
        shown.current = frozenset(place for place in places if place is not None)
        shown.is_stale = bool(subject.stale_reasons)
        return before != (shown.current, shown.is_stale)

    def focus_first(self) -> None:
        self.query_one(RowsAndText).focus_first()

    def hide(self) -> None:
        """Stop reading. The pane reads again when it is opened."""
        self.workers.cancel_group(self, "history")
        self._place = None

    def copyable(self) -> str | None:
        """Return the id of the run under the cursor."""
        run = self._shown.selected_run if self._shown is not None else None
        return None if run is None else run.run_id

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002
        if action in ("mark", "compare", "open_table"):
            return True if self._shown is not None and len(self._shown) else None
        if action == "bisect":
            return True if isinstance(self._shown, ExecutionRows) and len(self._shown) else None
        return True

    @on(RowList.Entered)
    def _on_entered(self, message: RowList.Entered) -> None:
        message.stop()
        if isinstance(self._shown, GroupRuns):
            self.action_open_table()
        elif self._shown is not None and self._shown.selected_job is not None:
            self._pin_execution(self._shown.selected_job)

    def action_mark(self) -> None:
        shown = self._shown
        if shown is None or shown.selected_run is None:
            return
        run_id = shown.selected_run.run_id
        shown.marked = None if shown.marked == run_id else run_id
        self.query_one(RowsAndText).show(shown, from_top=False)

    def action_compare(self) -> None:
        shown = self._shown
        run = shown.selected_run if shown is not None else None
        if shown is None or run is None:
            return
        if shown.marked is not None and shown.marked != run.run_id:
            self._compare(*shown.sort_runs(shown.marked, run.run_id))
        elif shown.older_run is not None:
            self._compare(shown.older_run.run_id, run.run_id)
        else:
            say(self, "there is no earlier run to compare with; mark another one with m")

    def action_open_table(self) -> None:
        from workbench.tui.dialogs.results_screen import TableScreen  # keeps the start fast

        run = self._shown.selected_run if self._shown is not None else None
        if run is not None:
            self.app.push_screen(TableScreen(self.context, run_id=run.run_id), self._select_case)

    @work(group="bisect", exclusive=True, description="bisect")
    async def action_bisect(self) -> None:
        from workbench.tui.dialogs.results_screen import BisectScreen, ask_repeats  # keeps the start fast

        case = self.context.state.selected_case
        repeats = None if case is None else await ask_repeats(self.app, self.context, case)
        if case is not None and repeats is not None:
            self.app.push_screen(BisectScreen(case, self.context, repeats=repeats, show_step=self._show_step))

    def _select_case(self, case: CaseKey | None) -> None:
        if case is not None:
            self.post_message(CaseWanted(case, tab="diff"))

    @work(group="history", exclusive=True, description="read")
    async def _read(self, place: RowKey) -> None:
        target, eval_set, case = place
        backend = self.context.backend
        try:
            if case is not None:
                self._show_history(
                    ExecutionRows(await backend.call(lambda workspace: read_case_history(workspace, case)))
                )
            else:
                parts = await backend.history.read_runs(target, eval_set or None)
                sets = {each.relative for each in self.context.state.browser.sets if each.target == target}
                self._show_history(GroupRuns(parts, target=target, eval_set=eval_set or None, eval_sets=sets))
        except StoreError as error:
            self._shown = None
            self.query_one(RowsAndText).show_text(describe_unreadable_history(str(error)))

    def _show_history(self, rows: ExecutionRows | GroupRuns) -> None:
        old, self._shown = self._shown, rows
        self._mark_current(self.context.state.subject())
        self.refresh_bindings()
        if not len(rows):
            self.query_one(RowsAndText).show_text(
                [
                    Paragraph.from_text("There is no history yet: nothing has run under this name.", Style.STRONG),
                    BLANK,
                    Paragraph.from_text("r runs the selection; every result is stored from then on.", Style.MUTED),
                ]
            )
            return
        if old is not None:
            rows.marked = old.marked
            grown = len(rows) - len(old) if old.cursor else 0  # the newest stays the newest
            rows.move_to(old.cursor + grown)
        self.query_one(RowsAndText).show(rows, from_top=old is None)

    @work(group="look", exclusive=True, description="pin execution")
    async def _pin_execution(self, job: StoredJob) -> None:
        """Show a stored result in the other tabs, compared with the selected case; a row with its stored reference."""
        read = self.context.state.loaded_case
        selected = self.context.state.selected_case  # the execution may be of a time when the case had another name
        case = read.case if read is not None and read.key == selected else None
        with report_errors(self):
            result = await self.context.backend.history.read_result(job.run_id, job.key)
            if self.context.state.selected_case != selected:
                return  # the user selected another case
            if result is None:
                say(self, "the result is no longer in the history", severity="warning")
                return
            if not result.execution.turns and result.failure is None:
                say(self, "trace and answers of this run are no longer stored; only the newest executions have them")
            title = f"run {safe_line(job.run_id)}, {time_text(job.finished_at)}"
            result = result.model_copy(update={"case": selected or job.case})
            self.post_message(SessionWanted(PinnedResult(title, result.expected_by_row or case, result), tab="diff"))

    @work(group="look", exclusive=True, description="show commit")
    async def _show_step(self, step: BisectStep) -> None:
        """Show what the selected case did in a commit, over the list of commits."""
        from workbench.tui.panes.diff_pane import WholeScreen  # keeps the start fast

        result = await asyncio.to_thread(step.samples[-1].read_result)
        if result is None or not result.execution.turns:
            say(self, "trace and answers of this run are no longer stored; only the newest executions have them")
        if result is None:
            return
        read = self.context.state.loaded_case
        case = read.case if read is not None and read.key == result.case else None
        commit = f"commit {step.commit.short}  {safe_line(step.commit.subject)}"
        head = Paragraph.from_text(commit, Style.HEADING), BLANK
        self.app.push_screen(WholeScreen(DiffSource(case=case, turns=result.execution.turns, result=result, head=head)))

    @work(group="compare", exclusive=True, description="compare")
    async def _compare(self, before: str, after: str) -> None:
        with report_errors(self):
            comparison = await self.context.backend.history.compare_runs(before, after)
            if comparison is not None:
                # Imported here to keep the start fast.
                from workbench.tui.dialogs.results_screen import ComparingScreen

                self.app.push_screen(ComparingScreen(ComparedCases(comparison), self.context), self._select_case)
