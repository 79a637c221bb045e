"""Screen of the search for the commit that turned a case red: its steps as they come, and the result."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import BindingType

from workbench.model.identity import CaseKey
from workbench.report.bisect_report import BisectReport, Step
from workbench.store.errors import StoreError
from workbench.tui.backend.run_calls import make_bisection
from workbench.tui.dialogs.dialogs import ResultScreen
from workbench.tui.keys import bindings
from workbench.tui.screen_context import ScreenContext
from workbench.tui.state.history_state import BisectSteps
from workbench.tui.state.text_layout import Paragraph, Style, safe
from workbench.tui.widgets.inputs import KeyLine, say
from workbench.tui.widgets.row_lists import RowList, RowsAndText, StatusLine

if TYPE_CHECKING:
    from workbench.watch.bisection import Bisection

_HEAD_LINES = 2


class BisectScreen(ResultScreen[Step | None]):
    """Searches as long as it is open. The result is the commit whose result the user wants to see."""

    HELP: ClassVar[str] = (
        "Looks for the commit that turned the case red, in a git worktree of its own: your files never change. A "
        "commit in which everything that an earlier execution used is the same has that verdict, and nothing runs. "
        "Enter shows what the case did in the commit under the cursor. Escape stops the search; its verdicts so far "
        "are stored."
    )
    PLACES: ClassVar[tuple[str, ...]] = ("bisect",)
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("bisect")]

    def __init__(self, case: CaseKey, context: ScreenContext) -> None:
        super().__init__()
        self._steps = BisectSteps(case)
        self._case = case
        self._screen_context = context
        self._bisection: Bisection | None = None

    def compose(self) -> ComposeResult:
        """Yield the header lines, the steps with the details of the selected one, and the keys."""
        for number in range(_HEAD_LINES):
            yield StatusLine(id=f"bisect-{number}")
        yield RowsAndText()
        yield KeyLine()

    def on_mount(self) -> None:
        """Start the search."""
        self._show(from_top=True)
        self._search()

    def on_unmount(self) -> None:
        """Stop the search. Its thread removes the worktree."""
        if self._bisection is not None:
            self._bisection.cancel()

    def action_close(self) -> None:
        """Close the screen, which stops the search."""
        self.dismiss(None)

    @on(RowList.Entered)
    def _on_entered(self) -> None:
        step = self._steps.selected_step
        if step is None:
            return
        if step.samples:
            self.dismiss(step)
        else:
            say(self, "this commit has no verdict, so there is nothing to show", severity="warning")

    @work(group="bisect", exclusive=True, description="bisect")
    async def _search(self) -> None:
        from workbench.engine.plan import PlanError  # imported here to keep the start fast
        from workbench.watch.commit_verdicts import BisectInterrupted

        loop = asyncio.get_running_loop()

        def show(step: Step) -> None:
            with contextlib.suppress(RuntimeError):  # the screen was closed
                loop.call_soon_threadsafe(self._add, step)

        try:
            self._bisection = await self._screen_context.backend.call(
                lambda workspace: make_bisection(workspace, self._case, show=show)
            )
            self._finish(await asyncio.to_thread(self._bisection.run))
        except (PlanError, StoreError) as error:
            self._steps.problem = str(error)
            self._show(from_top=True)
        except BisectInterrupted:
            return

    def _add(self, step: Step) -> None:
        self._steps.add(step)
        self._show(from_top=False)

    def _finish(self, report: BisectReport) -> None:
        self._steps.finish(report)
        self._show(from_top=True)

    def _show(self, *, from_top: bool) -> None:
        if not self.is_attached:  # closed while the search was stopping
            return
        for number, line in enumerate(self._steps.header_lines()):
            self.query_one(f"#bisect-{number}", StatusLine).show(line)
        body = self.query_one(RowsAndText)
        if len(self._steps):
            had_rows = body.query_one(RowList).has_focus
            body.show(self._steps, from_top=from_top)
            if not had_rows:
                body.focus_first()
        else:
            text = self._steps.problem or "looking at the newest commit …"
            body.show_text([Paragraph.from_text(safe(text), Style.ERROR if self._steps.problem else Style.MUTED)])
            body.focus_first()
