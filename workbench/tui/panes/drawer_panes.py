"""Panes of the drawer: run, watch and problems."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual import on, work
from textual.app import ComposeResult
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from workbench.tui.external_editor import open_file
from workbench.tui.screen_context import CaseWanted, Pane, RunWanted, ScreenContext
from workbench.tui.state.browser_state import Subject, make_selections
from workbench.tui.state.finder import FilteredRows
from workbench.tui.state.problem_list import ListedProblem, ProblemSource
from workbench.tui.state.run_progress import RunProgress, RunRows, format_summary
from workbench.tui.state.text_layout import ListRows
from workbench.tui.state.watch_state import WatchRows, draw_status, explain_empty
from workbench.tui.widgets.inputs import Filtering, FilterLine
from workbench.tui.widgets.key_line import StatusLine, say
from workbench.tui.widgets.row_lists import LinesView, RowList

if TYPE_CHECKING:
    from workbench.watch.watch_events import SourceBroken

# The base class: the rows do not depend on the selection.


class RowsPane(Pane):
    """A pane with one list of `rows`, which `show_rows` updates."""

    rows: ListRows

    def show_rows(self) -> None:
        """Show the current rows. Only called while the pane is mounted."""
        raise NotImplementedError

    def on_mount(self) -> None:
        self.show_rows()

    def show(self, subject: Subject) -> None:  # noqa: ARG002 - it is the same whatever is selected
        if self.is_mounted:
            self.show_rows()

    def focus_first(self) -> None:
        self.query_one(RowList).focus()

    @on(RowList.Steered)
    def _on_steered(self, message: RowList.Steered) -> None:
        message.steer(self.rows)
        self.query_one(RowList).show(self.rows)
        self.refresh_bindings()


# The run pane: progress, running jobs, failures and slow cases.


class RunPane(RowsPane):
    """The active run, or the last one of this session."""

    TAB = "Run"
    HELP = (
        "Progress of the run: each running case with its turn, failures grouped by reason, and at the end the slowest "
        "cases. Enter goes to the case of a row. A running or waiting case can be stopped; a running or finished one "
        "can be queued again."
    )
    PLACES = ("run",)

    rows: RunRows

    def __init__(self, context: ScreenContext, *, id: str) -> None:
        super().__init__(context, id=id)
        self.rows = RunRows()
        self._shown: RunProgress | None = None

    def compose(self) -> ComposeResult:
        yield StatusLine(id="run-how-far")
        yield StatusLine(id="run-counts")
        yield RowList(id="run-rows")
        yield Static(
            Content("Nothing has run in this session. r runs the selection, R everything, C shows the plan first."),
            id="run-nothing",
        )

    def copyable(self) -> str | None:
        """Return the case of the selected row."""
        job = self.rows.selected_job
        return None if job is None else str(job.case)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002
        if action == "stop_case":
            return True if self.rows.is_stoppable else None
        if action == "run_again":
            return None if self.rows.selected_job is None or self.rows.is_waiting else True
        return True

    @on(RowList.Entered)
    def _on_entered(self) -> None:
        job = self.rows.selected_job
        if job is not None:
            self.post_message(CaseWanted(job.case))

    def action_stop_case(self) -> None:
        progress, job = self._shown, self.rows.selected_job
        if progress is not None and job is not None:
            self.context.backend.runs.cancel(progress.run_id, job)

    def action_run_again(self) -> None:
        """Queue the selected case, or the selected group of failures, again. After the end of the run, start a new
        one.
        """
        progress, job = self._shown, self.rows.selected_job
        if progress is None or job is None:
            return
        jobs = self.rows.selected_failures or (job,)
        if progress.ended is None:
            finished = [key for key in jobs if progress.jobs.get_finished(key) is not None]
            self.context.state.board.begin_jobs(finished, kept_below=sys.maxsize)
            for key in jobs:
                progress.jobs.requeue(key)
            self.context.backend.runs.requeue(progress.run_id, jobs)
            self.show_rows()
            say(
                self,
                f"queued again: {jobs[0].case.eval_id}" if len(jobs) == 1 else f"queued again: {len(jobs):,} cases",
            )
            return
        self.post_message(RunWanted(make_selections((key.case for key in jobs), self.context.state.browser)))

    def show_rows(self) -> None:
        progress = self.context.state.progress
        if progress is not self._shown:
            self._shown, self.rows = progress, RunRows()
        for widget in self.query("#run-how-far, #run-counts, #run-rows"):
            widget.display = progress is not None
        self.query_one("#run-nothing").display = progress is None
        if progress is None:
            return
        now = time.monotonic()
        how_far, counts = format_summary(progress, now=now, width=self.size.width)
        self.query_one("#run-how-far", StatusLine).show(how_far)
        self.query_one("#run-counts", StatusLine).show(counts)
        self.rows.update(progress, now=now)
        self.query_one(RowList).show(self.rows)


# The watch pane: saved changes, the affected cases with reasons, and held cases.


class WatchPane(RowsPane):
    """The last changes, newest first."""

    TAB = "Watch"
    HELP = (
        "What was saved while the watch was on: which cases ran or were judged again, why, how far each "
        "reason reaches, and how long the first verdict took. Above that, the list shows waiting cases: until source "
        "compiles, until a key if a change costs more than `[watch]` in the settings allows, or until the watch "
        "resumes. Enter goes to the case of a row, or opens the file that cannot be compiled in your editor."
    )
    PLACES = ("watch",)

    rows: WatchRows

    def __init__(self, context: ScreenContext, *, id: str) -> None:
        super().__init__(context, id=id)
        self.rows = WatchRows(context.state.find_key)

    def compose(self) -> ComposeResult:
        yield StatusLine(id="watch-how")
        yield RowList(id="watch-rows")
        yield Static(id="watch-nothing")

    def copyable(self) -> str | None:
        return self.rows.text or None

    @on(RowList.Entered)
    def _on_entered(self) -> None:
        if self.rows.selected_case is not None:
            self.post_message(CaseWanted(self.rows.selected_case))
        else:
            self.action_open_file()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002
        return True if action != "open_file" or self.rows.selected_broken is not None else None

    def action_open_file(self) -> None:
        if self.rows.selected_broken is not None:
            self._open(self.rows.selected_broken)

    @work(group="editor", description="open")
    async def _open(self, broken: SourceBroken) -> None:
        await open_file(self.app, self.context.state.watch.root / broken.path, line=broken.line)

    def show_rows(self) -> None:
        watch = self.context.state.watch
        self.rows.show(watch, self.context.state.board)
        is_empty = len(self.rows) == 0
        self.query_one("#watch-how", StatusLine).show(draw_status(watch))
        rows, nothing = self.query_one(RowList), self.query_one("#watch-nothing", Static)
        nothing.display = is_empty
        rows.display = not is_empty
        if is_empty:
            nothing.update(Content(explain_empty(watch, self.context.state.find_key)))
        rows.show(self.rows)


# The problems pane: problems with file and position, and the messages of the screen.


class ProblemsPane(Pane, Filtering):
    """The list of problems and messages, and details of the selected one."""

    TAB = "Problems"
    HELP = (
        "All problems: in settings, themes, keys, eval sets, cases, the history; each with file and place. "
        "Enter goes to the case, shows both versions of an eval set that changed under unsaved edits, or opens the "
        "file in your editor at the line. Below the problems are the last messages of the screen, newest first."
    )
    PLACES = ("problems",)

    def __init__(self, context: ScreenContext, *, id: str) -> None:
        super().__init__(context, id=id)
        self.listed = FilteredRows(context.state.problems)

    @dataclass
    class ConflictOpened(Message):
        """The user wants to choose between the versions of this eval set."""

        eval_set: str

    @dataclass
    class RecoveriesOpened(Message):
        """The user wants to see unsaved edits of earlier sessions."""

    def compose(self) -> ComposeResult:
        yield FilterLine("letters of a problem or its file", self.follow_text)
        yield RowList(id="problems-list")
        yield LinesView(id="problems-detail")

    def show(self, subject: Subject) -> None:  # noqa: ARG002 - problems are the same whatever is selected
        self.listed.refresh()
        self.show_rows()

    def show_rows(self) -> None:
        problems = self.context.state.problems
        rows, detail = self.query_one(RowList), self.query_one(LinesView)
        rows.display = len(problems) > 0
        rows.show(self.listed)
        detail.show_blocks(problems.detail(), from_top=True)

    def focus_first(self) -> None:
        """Focus the list, or the text that replaces an empty list."""
        rows = self.query_one(RowList)
        (rows if rows.display else self.query_one(LinesView)).focus()

    def copyable(self) -> str | None:
        """Return the selected problem or message."""
        problem, message = self.context.state.problems.selected_problem, self.context.state.problems.selected_message
        if message is not None:
            return message.text
        return None if problem is None else ": ".join(filter(None, [problem.where, problem.place, problem.message]))

    @on(RowList.Entered)
    def _on_entered(self) -> None:
        problem = self.context.state.problems.selected_problem
        if problem is None:
            return
        if problem.conflict:
            self.post_message(self.ConflictOpened(problem.eval_set))
        elif problem.source is ProblemSource.RECOVERY:
            self.post_message(self.RecoveriesOpened())
        elif problem.case is not None:
            self.post_message(CaseWanted(problem.case, tab="case"))
        else:
            self._open(problem)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002
        return action != "end_filter" or self.query_one(FilterLine).display

    def action_end_filter(self) -> None:
        self.end_filter()

    def action_open_file(self) -> None:
        problem = self.context.state.problems.selected_problem
        if problem is not None:
            self._open(problem)

    @work(group="editor", description="open")
    async def _open(self, problem: ListedProblem) -> None:
        if problem.path is None or not problem.path.exists():
            say(self, "there is no file to open for this", severity="warning")
            return
        await open_file(self.app, problem.path, line=problem.line)
