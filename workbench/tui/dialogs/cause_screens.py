"""Screens of searches for a cause: the commit that turned a case red, its smallest variant, and the parts of the
instruction that matter."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

from textual import on, work
from textual.app import App, ComposeResult

from workbench.engine.plan import PlanError
from workbench.model.identity import CaseKey
from workbench.report.bisect_report import BisectReport, BisectStep, Commit
from workbench.store.errors import StoreError
from workbench.tui.backend.run_calls import make_bisection
from workbench.tui.dialogs.dialogs import AskScreen, ChooseScreen, ResultScreen
from workbench.tui.screen_context import ScreenContext
from workbench.tui.state.ablation_steps import EFFECT_SYMBOLS, AblationSteps
from workbench.tui.state.case_status import Badge
from workbench.tui.state.cause_search import (
    COMMIT_SYMBOLS,
    MOST_EXECUTIONS,
    UNSAVED_EDITS,
    VARIANT_SYMBOLS,
    BisectSteps,
    CaseChange,
    SearchSteps,
    ShrinkSteps,
    has_unsaved_edits,
)
from workbench.tui.state.text_layout import Paragraph, Style, StyledText, safe_line
from workbench.tui.widgets.key_line import KeyLine, StatusLine, say
from workbench.tui.widgets.row_lists import RowList, RowsAndText

if TYPE_CHECKING:
    from workbench.engine.case_variants import Variant
    from workbench.watch.bisection import Bisection

# The search for the commit that turned a case red.

_HEAD_LINES = 2
_LONGEST_NAME = 24  # characters of a case in a question
_MOST_REPEATS = 100
_LONGEST_NUMBER = 10  # digits
_CLOCK_SECONDS = 1.0


async def ask_repeats(app: App[object], case: CaseKey) -> int | None:
    """Ask how often each commit is executed at most. Return None if the user cancels."""
    name = safe_line(case.name, width=_LONGEST_NAME)
    question = f"Which commit broke {name}? Executions of each commit (more than 1 if it fails only sometimes)"
    return await _ask_number(app, question, value=1, most=_MOST_REPEATS)


async def _ask_number(app: App[object], question: str, *, value: int, most: int, least: int = 1) -> int | None:
    """Ask for a number. Return None if the user cancels."""

    def check(text: str) -> str | None:
        return explain_invalid_number(text, most=most, least=least)

    answer = await app.push_screen_wait(AskScreen(question, value=str(value), check=check))
    return None if answer is None else int(answer)


def explain_invalid_number(text: str, *, most: int, least: int = 1) -> str | None:
    """Describe the problem of a typed number from `least` to `most`; None if it has none."""
    number = text.strip()
    if number.isascii() and number.isdecimal() and len(number) < _LONGEST_NUMBER and least <= int(number) <= most:
        return None
    return f"found {number[:20]!r}, expected a number from {least:,} to {most:,}"


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
        for number in range(_HEAD_LINES):
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


# The searches with variants of one case.

_SEARCH_LINES = 3
Steps_co = TypeVar("Steps_co", bound=SearchSteps[Any], covariant=True)


class CauseSearch(Protocol[Steps_co]):
    """The search that a screen shows. It continues while the screen is closed."""

    on_change: Callable[[], None]
    """Called after each change of the steps."""

    @property
    def steps(self) -> Steps_co:
        """What the search has found so far."""

    def start(self) -> None:
        """Continue a search that ended early; otherwise begin again."""

    def stop(self) -> None:
        """Stop the search; what it has found so far is the result."""

    def set_budget(self, budget: int) -> None:
        """Set the maximum number of executions; continue if it was used up."""

    def say_what_stays(self) -> None:
        """Show a message about a search or a result that stays when its screen is closed."""


Search = TypeVar("Search", bound=CauseSearch[SearchSteps[Any]])


class SearchScreen(ResultScreen[None], Generic[Search]):
    """Shows a search that runs, or its result."""

    KEYS: ClassVar[tuple[str, ...]]
    """Ids of the keys that are shown first."""

    def __init__(self, search: Search, *, show_whole: Callable[[], object]) -> None:
        """Create the screen. `show_whole` shows the selected execution over it."""
        super().__init__()
        self._search = search
        self._show_whole = show_whole
        self._shown: Variant | None = None

    def compose(self) -> ComposeResult:
        for number in range(_SEARCH_LINES):
            yield StatusLine(id=f"search-{number}")
        yield StatusLine(id="search-note")
        yield RowsAndText(lambda: self._search.steps.selected_variant is not None)
        yield KeyLine(enter="diff", first=self.KEYS)

    def on_mount(self) -> None:
        self._search.on_change = self._refresh
        self._show(from_top=True)
        self.set_interval(_CLOCK_SECONDS, self._show_clock)

    def on_unmount(self) -> None:
        if self._search.on_change == self._refresh:  # the user may have opened the next screen already
            self._search.on_change = lambda: None

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002
        if action == "stop":
            return self._search.steps.is_running or None
        return (action != "start" or self._search.steps.can_start) or None

    def name_action(self, action: str) -> str:
        return "continue" if action == "start" and self._search.steps.can_continue else ""

    @on(RowList.Entered)
    def _on_entered(self) -> None:
        if self._search.steps.selected_variant is None:
            say(self, "this row has no execution, so there is no diff", severity="warning")
        else:
            self._show_whole()

    def action_stop(self) -> None:
        self._search.stop()

    def action_start(self) -> None:
        self._search.start()

    @work(group="ask", exclusive=True, description="ask for the budget")
    async def action_set_budget(self) -> None:
        question, budget = "Maximum executions of the agent", self._search.steps.budget
        least = self._search.steps.least_budget
        answer = await _ask_number(self.app, question, value=budget, most=MOST_EXECUTIONS, least=least)
        if answer is not None:
            self._search.set_budget(answer)

    def action_close(self) -> None:
        """Close the screen. The search continues."""
        self.dismiss(None)
        self._search.say_what_stays()

    def _refresh(self) -> None:
        self._show(from_top=False)

    def _show_clock(self) -> None:
        if self._search.steps.is_running:
            self._show_head()

    def _show_head(self) -> None:
        for number, line in enumerate(self._search.steps.header_lines()):
            self.query_one(f"#search-{number}", StatusLine).show(line)

    def _show(self, *, from_top: bool) -> None:
        if not self.is_attached:
            return
        steps = self._search.steps
        self._show_head()
        note = self.query_one("#search-note", StatusLine)
        note.display = bool(steps.note_line())
        note.show(steps.note_line())
        body = self.query_one(RowsAndText)
        if len(steps):
            had_rows = body.query_one(RowList).display
            is_new = steps.selected_variant is not self._shown
            self._shown = steps.selected_variant
            body.show(steps, from_top=from_top or is_new)
            if not had_rows:
                body.focus_first()
        else:
            body.show_text(steps.text_blocks())
            body.focus_first()
        self.refresh_bindings()


# The search for the smallest variant of a case that fails the same way.


class ShrinkSearch(CauseSearch[ShrinkSteps], Protocol):
    """The search for the smallest variant."""

    def start_again(self, criteria: tuple[str, ...]) -> None:
        """Begin again with these criteria (none: all that fail), unless the user wants to keep the result first."""

    async def keep(self) -> None:
        """Ask for a name, and keep the smallest case as a case of the eval set."""


class ShrinkScreen(SearchScreen[ShrinkSearch]):
    """Shows the variants of a failing case."""

    HELP: ClassVar[str] = (
        "Leaves out turns, then sentences of the user, keys of the initial state and expected calls, as long as the "
        "case fails by the same criteria and the same differences. Each row is a variant that was executed; enter "
        "shows its diff in full. Nothing changes until you keep the result as a new case. The search continues if you "
        "close the screen; the same key shows it again. Repeats and predicates are options of `workbench shrink`."
    )
    SYMBOLS: ClassVar[Sequence[Badge]] = (
        *(Badge(symbol, outcome.value, style) for outcome, (symbol, style) in VARIANT_SYMBOLS.items()),
        Badge("▸", "the smallest case", Style.STRONG),
    )
    PLACES = ("shrink",)
    KEYS = ("shrink_keep", "shrink_stop")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        steps = self._search.steps
        match action:
            case "keep":
                return steps.smaller_case is not None or None
            case "choose_criterion":
                has_case = steps.change is not CaseChange.REMOVED
                return (not steps.is_running and has_case and len(steps.failed_criteria) > 1) or None
            case _:
                return super().check_action(action, parameters)

    @work(group="keep", exclusive=True, description="keep the smaller case")
    async def action_keep(self) -> None:
        await self._search.keep()

    @work(group="ask", exclusive=True, description="ask for the criterion")
    async def action_choose_criterion(self) -> None:
        steps = self._search.steps
        names = steps.failed_criteria
        chosen = names.index(steps.criteria[0]) + 1 if steps.criteria and steps.criteria[0] in names else 0
        choices = ["all that fail", *names]
        answer = await self.app.push_screen_wait(ChooseScreen("What must still fail?", choices, chosen=chosen))
        if answer is not None:
            self._search.start_again((names[answer - 1],) if answer else ())


# The search for the parts of the instruction that matter.


class AblationSearch(CauseSearch[AblationSteps], Protocol):
    """The search for the parts of the instruction that matter."""

    def switch_parts(self) -> None:
        """Begin again with lines instead of paragraphs, or with paragraphs instead of lines."""

    def set_repeats(self, repeats: int) -> None:
        """Set the executions of each part; continue if some lack executions now."""


class AblationScreen(SearchScreen[AblationSearch]):
    """Shows the instruction of an agent, and which of its parts matter for a case."""

    HELP: ClassVar[str] = (
        "Runs the case with the whole instruction, then without each paragraph, or each line. A part matters if the "
        "verdict changes without it, a score leaves the range that it has with the whole instruction, or the case "
        "fails in another way. Enter shows "
        "the last execution in full. Nothing of the project is written, and nothing is in the history. The search "
        "continues if you close the screen; the same key shows it again. Criteria and models are options of "
        "`workbench why`."
    )
    SYMBOLS: ClassVar[Sequence[Badge]] = (
        *(Badge(symbol, effect.value, style) for effect, (symbol, style) in EFFECT_SYMBOLS.items() if symbol.strip()),
        Badge("▸", "the result", Style.STRONG),
    )
    PLACES = ("why",)
    KEYS = ("why_stop", "why_start")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "switch_parts":
            return self._search.steps.change is not CaseChange.REMOVED or None
        return super().check_action(action, parameters)

    def name_action(self, action: str) -> str:
        if action == "switch_parts":
            return "paragraphs" if self._search.steps.by_line else "lines"
        return super().name_action(action)

    def action_switch_parts(self) -> None:
        self._search.switch_parts()

    @work(group="ask", exclusive=True, description="ask for the repeats")
    async def action_set_repeats(self) -> None:
        steps = self._search.steps
        question, most = f"Executions without each {steps.unit}", min(_MOST_REPEATS, steps.budget - 1)
        answer = await _ask_number(self.app, question, value=steps.repeats, most=most)
        if answer is not None:
            self._search.set_repeats(answer)
