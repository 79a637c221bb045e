"""Screens of results: the results table, the comparison of two runs, and the commit that turned a case red."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, ClassVar

from textual import on, work
from textual.app import App, ComposeResult

from workbench.engine.plan import PlanError, Selection
from workbench.model.identity import CaseKey, JobKey
from workbench.model.text import pluralise
from workbench.report.bisect_report import BisectReport, BisectStep, Commit
from workbench.store.errors import StoreError
from workbench.tui.backend.run_calls import check_export_path, export, make_bisection, parse_export_path
from workbench.tui.dialogs.dialogs import AskScreen, ChooseScreen, ConfirmScreen, ResultScreen, ask_number
from workbench.tui.screen_context import ScreenContext
from workbench.tui.state.case_status import Badge
from workbench.tui.state.cause_search import COMMIT_SYMBOLS, UNSAVED_EDITS, BisectSteps, has_unsaved_edits
from workbench.tui.state.finder import FilteredRows
from workbench.tui.state.history_state import ComparedCases
from workbench.tui.state.results_table import ResultTable, Scope, TableRow
from workbench.tui.state.run_plan import describe_execution
from workbench.tui.state.text_layout import Line, Paragraph, Style, StyledText, safe_line
from workbench.tui.widgets.inputs import Filtering, FilterLine
from workbench.tui.widgets.key_line import KeyLine, StatusLine, copy, report_errors, say
from workbench.tui.widgets.row_lists import RowList, RowsAndText

if TYPE_CHECKING:
    from workbench.watch.bisection import Bisection

# Results table: a row for each case, scrolling columns, and mean and deviation below.

_REFRESH = 0.5  # seconds between updates while rows are read
_TABLE_STYLES = 1.0  # seconds between checks for stale verdicts


class TableScreen(ResultScreen[CaseKey | None], Filtering):
    """Table of the newest results of a scope, or of a stored run. The result is the case that the user opens."""

    HELP: ClassVar[str] = (
        "The newest results, one row for each case: verdict, response, trajectory and scores, with mean and "
        "deviation below. Enter goes to the case."
    )
    PLACES = ("table",)

    def __init__(self, context: ScreenContext, *, scope: Scope | None = None, run_id: str | None = None) -> None:
        """Create the table for the newest results in `scope`, or for the run with this id."""
        super().__init__()
        self._screen_context = context
        self._scope = scope
        self._run_id = run_id
        self._table = ResultTable()
        self._is_reading = True
        self._problem = ""
        self.search = ""
        """The search that the user wants for the case of the result: `shrink` or `why`."""
        self.branched_row: TableRow | None = None
        """The row of the case or repeat that the user wants to branch from."""

    def compose(self) -> ComposeResult:
        yield StatusLine(id="table-title")
        yield FilterLine("words that the rows must contain", self.follow_text, id="table-filter")
        yield StatusLine(id="table-head")
        yield RowList(id="table-rows")
        yield StatusLine(id="table-mean")
        yield StatusLine(id="table-deviation")
        yield KeyLine()

    def on_mount(self) -> None:
        self.query_one(RowList).focus()
        self._read()
        self.set_interval(_TABLE_STYLES, self._arrange_if_stale)

    def on_resize(self) -> None:
        self._show()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002
        """Disable what begins from newest results for a stored run."""
        if action in ("widen", "branch", "shrink", "why"):
            return self._scope is not None
        return True

    def steer_rows(self, message: RowList.Steered) -> None:
        message.steer(self._table)
        self.query_one(RowList).show(self._table)

    @on(RowList.Entered)
    def _on_entered(self) -> None:
        if self._table.selected_row is not None:
            self.dismiss(self._table.selected_row.case)

    def filter_rows(self, text: str) -> bool:
        """List the rows that contain some words. Return True: the title says if no row does."""
        self._table.filtered_by = text
        self._arrange()
        return True

    def action_move_column(self, by: int) -> None:
        self._table.move_column(by)
        self._show()

    def action_sort(self) -> None:
        self._table.sort()
        self._show()

    def action_toggle_repeats(self) -> None:
        self._table.by_repeat = not self._table.by_repeat
        self._arrange()

    def action_widen(self) -> None:
        if self._scope is not None:
            self._scope = self._scope.widen()
            self._read()

    def action_branch(self) -> None:
        self.branched_row = self._table.selected_row
        self._on_entered()

    def action_shrink(self) -> None:
        self.search = "shrink"
        self._on_entered()

    def action_why(self) -> None:
        self.search = "why"
        self._on_entered()

    def action_copy_row(self) -> None:
        row = self._table.selected_row
        copy(self, self._table.format_row(row) if row is not None else None)

    @work(group="dialog", exclusive=True)
    async def action_choose_columns(self) -> None:
        chosen: int | None = 0
        while chosen is not None:
            columns = self._table.all_columns
            choices = [f"{'·' if column.id in self._table.hidden else '✓'} {column.title}" for column in columns]
            question = "Columns: enter shows or hides one, escape is done"
            chosen = await self.app.push_screen_wait(ChooseScreen(question, choices, chosen=chosen))
            if chosen is not None:
                self._table.toggle_column(columns[chosen].id)
                self._show()

    @work(group="dialog", exclusive=True)
    async def action_export(self) -> None:
        jobs = self._jobs()
        if not jobs:
            say(self, "there is nothing to export", severity="warning")
            return
        question = f"Export {pluralise(len(jobs), 'result')} to a file (.csv, .md, .json, .jsonl)"
        value = f"{self._run_id or 'results'}.csv"
        answer = await self.app.push_screen_wait(AskScreen(question, value=value, check=check_export_path))
        if answer is None:
            return
        path = parse_export_path(answer)
        if path.exists() and not await self.app.push_screen_wait(ConfirmScreen("This file exists. Replace it?")):
            return
        with report_errors(self):
            earlier = self._screen_context.state.board.find_earlier_verdicts(job.case for job in jobs)
            await self._screen_context.backend.call(
                lambda workspace: export(workspace, path, jobs, run_id=self._run_id, earlier=earlier)
            )
            say(self, f"{pluralise(len(jobs), 'result')} written to {path}")

    def _jobs(self) -> list[JobKey]:
        """List the results of the listed rows, in their order."""
        return [JobKey(case=row.case, repeat=repeat) for row in self._table.rows for repeat in row.repeat_numbers]

    @work(group="read", exclusive=True)
    async def _read(self) -> None:
        """Read the rows in batches, and show each batch as it arrives."""
        old, self._table = self._table, ResultTable()
        self._table.copy_view(old)
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
            say(self, self._problem, severity="error")  # the full text; the title may cut off its advice
        self._is_reading = False
        self._arrange()

    def _stretches(self) -> AsyncIterator[list[TableRow]]:
        archive = self._screen_context.backend.history
        if self._run_id is not None:
            return archive.read_run_rows(self._run_id)
        cases = self._cases()
        return archive.read_rows(cases, earlier=self._screen_context.state.board.find_earlier_verdicts(cases))

    def _cases(self) -> Sequence[CaseKey]:
        return self._scope.list_cases(self._screen_context.state.browser) if self._scope is not None else ()

    def _arrange(self) -> None:
        self._mark_stale()
        self._table.arrange()
        self._show()

    def _mark_stale(self) -> bool:
        return self._run_id is None and self._table.mark_stale(self._screen_context.state.browser.freshness.stale_cases)

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
        self.query_one("#table-head", StatusLine).show(self._table.format_titles(width))
        statistics = self._table.format_statistics(width)
        for line, shown in zip_longest(self.query("#table-mean, #table-deviation").results(StatusLine), statistics):
            line.display = shown is not None
            line.show(shown or ())
        rows.show(self._table)

    def _title(self) -> Line:
        note = StyledText("")
        if self._is_reading:
            note = StyledText("   reading …", Style.RUNNING)
        elif self._problem:
            note = StyledText(f"   ! {self._problem}", Style.ERROR)
        elif self._table.is_empty:
            note = StyledText("   no case of it has run yet; r in the main screen runs it", Style.MUTED)
        elif not len(self._table):
            note = StyledText("   no row has these words; escape lists all", Style.MUTED)
        title = self._scope.title if self._scope is not None else f"run {safe_line(self._run_id or '')}"
        return self._table.format_title(title, note, self.size.width)


# Comparison of two runs.

_HEAD_LINES = 3


class ComparingScreen(ResultScreen[CaseKey | None], Filtering):
    """Changes of each case from an earlier run to a later one. The result is the case that the user opens."""

    HELP: ClassVar[str] = (
        "The change of each case from the earlier to the later run: regressions and fixes first, cases in only one run "
        "last. Enter goes to the case, and unfolds or folds a row of many cases."
    )
    PLACES = ("comparing",)

    def __init__(self, cases: ComparedCases, context: ScreenContext) -> None:
        super().__init__()
        self._cases = cases
        self.listed = FilteredRows(cases)
        self._screen_context = context

    def compose(self) -> ComposeResult:
        for number in range(_HEAD_LINES):
            yield StatusLine(id=f"comparing-{number}")
        yield FilterLine("letters of a case or of its change", self.follow_text)
        yield RowsAndText()
        yield KeyLine()

    def on_mount(self) -> None:
        self.show_rows()
        self.query_one(RowsAndText).focus_first()

    @on(RowList.Entered)
    def _on_entered(self) -> None:
        if self._cases.selected_case is not None:
            self.dismiss(self._cases.selected_case.case)
            return
        self._cases.toggle_fold()
        self.listed.refresh()
        self.query_one(RowsAndText).show(self.listed, from_top=False)

    def action_toggle_flips(self) -> None:
        self._replace(ComparedCases(self._cases.comparison, only_flips=not self._cases.only_flips))

    def show_rows(self) -> None:
        for number, line in enumerate(self._cases.header_lines()):
            self.query_one(f"#comparing-{number}", StatusLine).show(line)
        body = self.query_one(RowsAndText)
        if len(self._cases):
            body.show(self.listed, from_top=True)
        else:
            empty = "No verdict flipped. f lists all cases." if self._cases.only_flips else "Neither run has a case."
            body.show_text([Paragraph.from_text(empty, Style.STRONG), *self._cases.blocks()])

    @work(group="swap", exclusive=True)
    async def action_swap(self) -> None:
        comparison = self._cases.comparison
        with report_errors(self):
            swapped = await self._screen_context.backend.history.compare_runs(
                comparison.after.run_id, comparison.before.run_id
            )
            if swapped is not None:
                self._replace(ComparedCases(swapped, only_flips=self._cases.only_flips))

    def _replace(self, cases: ComparedCases) -> None:
        self._cases = cases
        self.listed = FilteredRows(cases)
        self.filter_rows(self.query_one(FilterLine).text)


# The search for the commit that turned a case red.

_BISECT_LINES = 2
_LONGEST_NAME = 24  # characters of a case in a question
_MOST_REPEATS = 100
_CLOCK_SECONDS = 1.0


async def ask_repeats(app: App[object], context: ScreenContext, case: CaseKey) -> int | None:
    """Ask how often each commit is executed at most, and say what that costs. Return None if the user cancels."""
    name = safe_line(case.name, width=_LONGEST_NAME)
    selection = Selection(eval_set=case.eval_set, cases=(case.name,))
    cost = ""
    with contextlib.suppress(PlanError, StoreError):  # the search shows the error
        cost = describe_execution(await context.backend.runs.plan([selection], ask=True))
    question = f"Which commit broke {name}? Executions of each commit (more than 1 if it fails only sometimes). {cost}"
    return await ask_number(app, question.strip(), value=1, most=_MOST_REPEATS)


class BisectScreen(ResultScreen[None]):
    """Searches as long as it is open."""

    HELP: ClassVar[str] = (
        "Looks for the commit that turned the case red, in a git worktree of its own: your files never change. A "
        "commit in which everything that an earlier execution used is the same has that verdict, and nothing runs. "
        "With several executions of each commit the most probable commit is found, for a case that fails sometimes. "
        "Enter shows what the case did in the commit under the cursor, or in the one that was found. Escape stops the "
        "search; its verdicts so far are stored."
    )
    SYMBOLS: ClassVar[Sequence[Badge]] = (
        *(Badge(symbol, outcome.value, style) for outcome, (symbol, style) in COMMIT_SYMBOLS.items()),
        Badge("▸", "the result", Style.STRONG),
    )
    PLACES = ("bisect",)

    def __init__(
        self, case: CaseKey, context: ScreenContext, *, repeats: int, show_step: Callable[[BisectStep], object]
    ) -> None:
        """Create the screen. `show_step` shows over it what the case did in a commit."""
        super().__init__()
        self._show_step = show_step
        self._repeats = repeats
        self._steps = BisectSteps(case)
        self._case = case
        self._screen_context = context
        self._bisection: Bisection | None = None

    def compose(self) -> ComposeResult:
        for number in range(_BISECT_LINES):
            yield StatusLine(id=f"bisect-{number}")
        yield StatusLine(id="bisect-note")
        yield RowsAndText()
        yield KeyLine(enter="executions")

    def on_mount(self) -> None:
        note = self.query_one("#bisect-note", StatusLine)
        note.display = has_unsaved_edits(self._screen_context.state, self._case)
        note.show((StyledText(f" {UNSAVED_EDITS}", Style.WARNING),))
        self._show(from_top=True)
        self.set_interval(_CLOCK_SECONDS, self._show_clock)
        self._search()

    def on_unmount(self) -> None:
        """Stop the search. Its thread removes the worktree."""
        if self._bisection is not None:
            self._bisection.cancel()

    @on(RowList.Entered)
    def _on_entered(self) -> None:
        step = self._steps.selected_step or self._steps.found_step
        if step is not None and step.samples:
            self._show_step(step)
        elif len(self._steps):
            say(self, "this commit has no verdict, so there is nothing to show", severity="warning")

    @work(group="bisect", exclusive=True, description="bisect")
    async def _search(self) -> None:
        from workbench.watch.commit_verdicts import BisectInterrupted

        loop = asyncio.get_running_loop()

        def show(step: BisectStep) -> None:
            with contextlib.suppress(RuntimeError):  # the screen was closed
                loop.call_soon_threadsafe(self._add, step)

        def announce(commit: Commit) -> None:
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(self._announce, commit)

        try:
            self._bisection = await self._screen_context.backend.call(
                lambda workspace: make_bisection(workspace, self._case, repeats=self._repeats, show=show)
            )
            self._bisection.announce = announce
            self._finish(await asyncio.to_thread(self._bisection.run))
        except (PlanError, StoreError) as error:
            self._steps.problem = str(error)
            self._show(from_top=True)
        except BisectInterrupted:
            return

    def _add(self, step: BisectStep) -> None:
        self._steps.add(step)
        self._show(from_top=False)

    def _announce(self, commit: Commit) -> None:
        self._steps.announce(commit)
        if self.is_attached:
            self._show_head()

    def _finish(self, report: BisectReport) -> None:
        self._steps.finish(report)
        self._show(from_top=True)

    def _show_clock(self) -> None:
        if self._steps.is_running:
            self._show_head()

    def _show_head(self) -> None:
        for number, line in enumerate(self._steps.header_lines()):
            self.query_one(f"#bisect-{number}", StatusLine).show(line)

    def _show(self, *, from_top: bool) -> None:
        if not self.is_attached:  # closed while the search was stopping
            return
        self._show_head()
        body = self.query_one(RowsAndText)
        if len(self._steps):
            had_rows = body.query_one(RowList).has_focus
            body.show(self._steps, from_top=from_top)
            if not had_rows:
                body.focus_first()
        else:
            looking = Paragraph.from_text("looking at the newest commit …", Style.MUTED)
            body.show_text(self._steps.problem_blocks() or [looking])
            body.focus_first()
