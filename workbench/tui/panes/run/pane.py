"""The pane `run`: how far the run is, what it is doing, what went wrong and what took long."""

from __future__ import annotations

import time
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content
from textual.widgets import Static

from workbench.tui.hub import Hub
from workbench.tui.keys import bindings
from workbench.tui.messages import CaseWanted, RunWanted
from workbench.tui.panes.rows_pane import RowsPane
from workbench.tui.state.browser.wanted import selections_of
from workbench.tui.state.progress import RunProgress
from workbench.tui.state.run.rows import RunRows, summary_lines
from workbench.tui.widgets.lines import StatusLine
from workbench.tui.widgets.row_list import RowList
from workbench.tui.widgets.saying import say


class RunPane(RowsPane):
    """The run that is going on, or went last in this session."""

    TAB = "Run"
    HELP = (
        "The run as it goes on: how far it is, each case under way with its turn, what went wrong counted by kind, and "
        "afterwards what took longest. Enter goes to the case of a row; a case that runs or waits can be stopped, and "
        "one that runs or has ended queued again."
    )
    PLACES: ClassVar[tuple[str, ...]] = ("run",)
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("run")]

    rows: RunRows

    def __init__(self, hub: Hub, *, id: str) -> None:
        super().__init__(hub, id=id)
        self.rows = RunRows()
        self._shown: RunProgress | None = None

    def compose(self) -> ComposeResult:
        """Two lines that sum up, and the rows; or what to do where nothing has run."""
        yield StatusLine(id="run-how-far")
        yield StatusLine(id="run-counts")
        yield RowList(id="run-rows")
        yield Static(
            Content("Nothing has run in this session. r runs what is selected, R everything, C shows the plan first."),
            id="run-nothing",
        )

    def copyable(self) -> str | None:
        """What went wrong, or the id of the case of the selected row."""
        job = self.rows.selected_job
        return None if job is None else str(job.case)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002
        """Which actions make sense for the selected row."""
        if action == "stop_case":
            return True if self.rows.is_stoppable else None
        if action == "run_again":
            return None if self.rows.selected_job is None or self.rows.is_on_waiting else True
        return True

    @on(RowList.Entered)
    def _on_entered(self) -> None:
        job = self.rows.selected_job
        if job is not None:
            self.post_message(CaseWanted(job.case))

    def action_stop_case(self) -> None:
        """Stop the selected case, which then is not begun or goes no further."""
        progress, job = self._shown, self.rows.selected_job
        if progress is not None and job is not None:
            self.hub.gateway.runs.cancel(progress.run_id, job)

    def action_run_again(self) -> None:
        """Queue the selected case again, or all that went wrong in the selected way: a new run where it is over."""
        progress, job = self._shown, self.rows.selected_job
        if progress is None or job is None:
            return
        jobs = self.rows.selected_failures or (job,)
        if progress.ended is None:
            self.hub.state.expect(key for key in jobs if progress.jobs.finished_job(key) is not None)
            for key in jobs:
                progress.jobs.requeue(key)
            self.hub.gateway.runs.requeue(progress.run_id, jobs)
            self.show_rows()
            say(
                self,
                f"queued again: {jobs[0].case.eval_id}" if len(jobs) == 1 else f"queued again: {len(jobs):,} cases",
            )
            return
        self.post_message(RunWanted(selections_of((key.case for key in jobs), self.hub.state.browser)))

    def show_rows(self) -> None:
        """Show the run as it is now."""
        progress = self.hub.state.progress
        if progress is not self._shown:
            self._shown, self.rows = progress, RunRows()
        for widget in self.query("#run-how-far, #run-counts, #run-rows"):
            widget.display = progress is not None
        self.query_one("#run-nothing").display = progress is None
        if progress is None:
            return
        now = time.monotonic()
        how_far, counts = summary_lines(progress, now=now, width=self.size.width)
        self.query_one("#run-how-far", StatusLine).show(how_far)
        self.query_one("#run-counts", StatusLine).show(counts)
        self.rows.show(progress, now=now)
        self.query_one(RowList).show(self.rows)
