"""Screen of the search for the commit that turned a case red: its steps as they come, and the result."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar

from textual import on, work
from textual.app import App, ComposeResult
from textual.binding import BindingType

from workbench.model.identity import CaseKey
from workbench.model.text import redact
from workbench.report.bisect_report import BisectReport, Outcome, Step, bisect_lines, describe_step, describe_work
from workbench.store.errors import StoreError
from workbench.tui.backend.run_calls import make_bisection
from workbench.tui.dialogs.dialogs import AskScreen, ResultScreen
from workbench.tui.keys import bindings
from workbench.tui.screen_context import ScreenContext
from workbench.tui.state.case_status import Badge
from workbench.tui.state.text_layout import (
    BLANK,
    Block,
    CursorRows,
    Line,
    Paragraph,
    Style,
    StyledText,
    cut_line,
    plural,
    safe,
    safe_line,
)
from workbench.tui.widgets.inputs import KeyLine, say
from workbench.tui.widgets.row_lists import RowList, RowsAndText, StatusLine

if TYPE_CHECKING:
    from workbench.watch.bisection import Bisection

# The search for the commit that turned a case red: a row for each commit that was looked at.

_OUTCOMES = {
    Outcome.PASSED: ("✓", Style.PASSED),
    Outcome.FAILED: ("✗", Style.FAILED),
    Outcome.SKIPPED: ("-", Style.MUTED),
}
_LONGEST_NAME = 24  # characters of a case in a question
_DIFF_STYLES = {"+": Style.ADDED, "-": Style.REMOVED, "@": Style.KEY}


class BisectSteps(CursorRows):
    """Rows of a list: first the result, once there is one, then the commits in the order in which they came."""

    def __init__(self, case: CaseKey) -> None:
        self._case = case
        self._steps: dict[str, Step] = {}
        self._report: BisectReport | None = None
        self.problem = ""

    def __len__(self) -> int:
        return len(self._steps) + (self._report is not None)

    def add(self, step: Step) -> None:
        """Add a commit, or what else is now known of one. The cursor follows the newest unless the user moved it."""
        is_at_end = self.cursor >= len(self) - 1
        self._steps[step.commit.id] = step
        if is_at_end:
            self.cursor = len(self) - 1

    def finish(self, report: BisectReport) -> None:
        """Add the result, and put the cursor on it."""
        self._report = report
        self.cursor = 0

    @property
    def selected_step(self) -> Step | None:
        """Commit under the cursor; None on the result."""
        number = self.cursor - (self._report is not None)
        return list(self._steps.values())[number] if 0 <= number < len(self._steps) else None

    @property
    def found_step(self) -> Step | None:
        """Commit that was found."""
        found = self._report.found if self._report is not None else None
        return None if found is None else self._steps.get(found.id)

    def line(self, index: int, width: int) -> Line:
        """Format one commit, or the result."""
        if self._report is not None and index == 0:
            return (StyledText(f" ▸ {self._result_text(self._report)}", Style.STRONG),)
        step = list(self._steps.values())[index - (self._report is not None)]
        symbol, style = _OUTCOMES[step.outcome]
        pieces = (
            StyledText(f" {symbol} ", style),
            StyledText(step.commit.short, Style.KEY),
            StyledText(f"  {describe_step(step)}", style),
            StyledText(f"  {safe_line(step.commit.subject)}", Style.MUTED),
        )
        return cut_line(pieces, width)

    def header_lines(self) -> list[Line]:
        """Format the case, and how far the search is."""
        if self._report is not None:
            done = describe_work(self._report)
        elif self.problem:
            done = "the search found nothing"
        else:
            left = next((step.suspects for step in reversed(self._steps.values()) if step.suspects is not None), None)
            searched = f", {plural(left, 'commit')} left" if left is not None else ""
            done = f"searching …   {plural(len(self._steps), 'commit')} looked at{searched}"
        name = StyledText(f" {safe_line(str(self._case))}", Style.STRONG)
        return [(name, StyledText("   which commit turned it red?", Style.MUTED)), (StyledText(f" {done}"),)]

    def blocks(self) -> list[Block]:
        """Describe the result, or the selected commit; before them what stopped the search."""
        blocks = self.problem_blocks()
        step = self.selected_step
        if step is not None:
            return [*blocks, *_describe_commit(step)]
        if self._report is not None:
            lines = list(bisect_lines(self._report))
            blocks += [*map(_format_diff_line, lines), *self._name_command(" ".join(lines))]
        return blocks

    def problem_blocks(self) -> list[Block]:
        """Describe what stopped the search."""
        if not self.problem:
            return []
        return [Paragraph.from_text(safe(self.problem), Style.ERROR), *self._name_command(self.problem), BLANK]

    def _name_command(self, text: str) -> Iterator[Block]:
        """Say how to set the options that a text advises: one of them is asked for, the others the command has."""
        if " --repeats" in text:
            words = "The number of repeats is asked for when you press escape, and then b again."
            yield Paragraph.from_text(words, Style.MUTED)
        if " --" in text.replace(" --repeats", ""):
            command = f"workbench bisect {self._case.eval_set}:{self._case.name}"
            yield Paragraph.from_text(f"Options are those of the command `{safe_line(command)}`.", Style.MUTED)

    @staticmethod
    def _result_text(report: BisectReport) -> str:
        found = report.found
        if report.doubt:
            return f"not certain: {report.suspects[0].commit.short}"
        if found is None:
            return f"one of {plural(len(report.suspects), 'commit')}"
        return f"{found.short}  {safe_line(found.subject)}"


def _describe_commit(step: Step) -> Iterator[Block]:
    commit = step.commit
    yield Paragraph.from_text(f"{commit.id}", Style.HEADING)
    yield Paragraph.from_text(f"{commit.date[:10]}  {safe_line(commit.author)}", Style.MUTED)
    yield Paragraph.from_text(safe_line(commit.subject))
    yield BLANK
    yield Paragraph.from_text(safe(redact(describe_step(step))), _OUTCOMES[step.outcome][1])
    if step.reason:
        yield Paragraph.from_text(safe(redact(step.reason)), indent=2)
    for sample in step.samples:
        text = f"{sample.status.value.lower()}, {sample.source.value}, run {safe_line(sample.run_id)}"
        yield Paragraph.from_text(text, Style.MUTED, indent=2)


def _format_diff_line(line: str) -> Block:
    """Format a line of the result, whose differences begin with a sign."""
    text = line.lstrip()
    style = _DIFF_STYLES.get(text[:1], Style.TEXT)
    return Paragraph.from_text(safe(text), style, indent=len(line) - len(text)) if text else BLANK


# The screen.

_HEAD_LINES = 2
MOST_REPEATS = 100


async def ask_repeats(app: App[object], case: CaseKey) -> int | None:
    """Ask how often each commit is executed at most. Return None if the user cancels."""
    name = safe_line(case.name, width=_LONGEST_NAME)
    question = f"Which commit broke {name}? Executions of each commit (more than 1 if it fails only sometimes)"
    answer = await app.push_screen_wait(AskScreen(question, value="1", check=explain_invalid_repeats))
    return None if answer is None else int(answer)


def explain_invalid_repeats(text: str) -> str | None:
    """Describe the problem of a typed number; None if it has none."""
    is_number = text.strip().isascii() and text.strip().isdecimal()
    return None if is_number and 1 <= int(text) <= MOST_REPEATS else f"expected a number from 1 to {MOST_REPEATS}"


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
        *(Badge(symbol, outcome.value, style) for outcome, (symbol, style) in _OUTCOMES.items()),
        Badge("▸", "the result", Style.STRONG),
    )
    PLACES: ClassVar[tuple[str, ...]] = ("bisect",)
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("bisect")]

    def __init__(
        self, case: CaseKey, context: ScreenContext, *, repeats: int, show_step: Callable[[Step], object]
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
        """Yield the header lines, the steps with the details of the selected one, and the keys."""
        for number in range(_HEAD_LINES):
            yield StatusLine(id=f"bisect-{number}")
        yield RowsAndText()
        yield KeyLine(enter="executions")

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
        step = self._steps.selected_step or self._steps.found_step
        if step is not None and step.samples:
            self._show_step(step)
        elif len(self._steps):
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
                lambda workspace: make_bisection(workspace, self._case, repeats=self._repeats, show=show)
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
            looking = Paragraph.from_text("looking at the newest commit …", Style.MUTED)
            body.show_text(self._steps.problem_blocks() or [looking])
            body.focus_first()
