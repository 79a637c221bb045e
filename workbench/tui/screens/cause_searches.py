"""Searches for the cause of a failure with variants of one case, and their screens.

One search finds the smallest variant that fails the same way, the other the parts of the instruction that matter.
"""

from __future__ import annotations

import asyncio
import contextlib
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from textual import on, work
from textual.app import ComposeResult
from textual.screen import Screen
from textual.widget import Widget

from workbench.engine.plan import PlanError, Selection
from workbench.engine.set_files import insert_small_case, suggest_small_id
from workbench.model.identity import CaseKey
from workbench.store.errors import FileChanged, StoreError
from workbench.tui.backend.run_calls import make_ablation, make_shrinker
from workbench.tui.dialogs.dialogs import AskScreen, ChooseScreen, ConfirmScreen, ResultScreen, ask_number
from workbench.tui.panes.diff_pane import WholeScreen
from workbench.tui.screen_context import Controller, DocumentsChanged, SaveWanted, ScreenContext, background
from workbench.tui.screens.plan_screen import PlanScreen
from workbench.tui.state.case_filter import check_case_id
from workbench.tui.state.case_status import Badge
from workbench.tui.state.cause_search import MOST_EXECUTIONS, CaseChange, SearchSteps, find_change, list_influences
from workbench.tui.state.text_layout import Style, safe_line
from workbench.tui.state.variant_steps import (
    EFFECT_SYMBOLS,
    VARIANT_SYMBOLS,
    AblationSteps,
    ShrinkSteps,
    explain_no_ablation,
    explain_unshrinkable,
)
from workbench.tui.widgets.key_line import KeyLine, StatusLine, say
from workbench.tui.widgets.row_lists import RowList, RowsAndText

if TYPE_CHECKING:
    from workbench.engine.ablation import Ablation
    from workbench.engine.case_variants import Variant
    from workbench.engine.shrinking import Shrinker, ShrinkStep
    from workbench.engine.workspace import Workspace

# The searches: each runs on a thread of its own.

_LONGEST_NAME = 40  # characters of a case in a message

Steps = TypeVar("Steps", bound=SearchSteps[Any])
Engine = TypeVar("Engine", bound="Shrinker | Ablation")
Report = Callable[[Callable[[], None]], None]


class SearchController(Controller, Generic[Steps, Engine]):
    """Searches with variants of one case, one search at a time, on a thread of its own.

    The search continues while its screen is closed. Its result stays until another search begins.
    """

    KEY: ClassVar[str]
    """Id of the key that opens the screen."""
    RUNNING: ClassVar[str]
    """Says that the search runs, for a name of a case."""
    TITLE: ClassVar[str]
    """What is searched, above the plan of the search."""

    def __init__(self, widget: Widget, context: ScreenContext) -> None:
        super().__init__(widget, context)
        self.on_change: Callable[[], None] = lambda: None
        self._steps: Steps | None = None
        self._engine: Engine | None = None
        self._ended = asyncio.Event()  # set while no search runs
        self._ended.set()
        self._changes: list[Callable[[], None]] = []  # of the options, for the search that begins next
        self._is_shown = False

    @property
    def steps(self) -> Steps:
        """What the search has found so far. Only called after `open`."""
        assert self._steps is not None
        return self._steps

    @abstractmethod
    def _make_steps(self, case: CaseKey) -> Steps: ...

    @abstractmethod
    def _explain_refusal(self, case: CaseKey) -> str:
        """Explain why there is nothing to search for a case; empty if there is."""

    @abstractmethod
    def _make_screen(self) -> Screen[None]: ...

    @abstractmethod
    def _make_engine(self, workspace: Workspace, steps: Steps) -> Engine: ...

    @abstractmethod
    def _search_blocking(self, engine: Engine, steps: Steps, report: Report) -> Callable[[], None]:
        """Search on this thread. `report` applies changes on the event loop; so is the returned one, the last."""

    @background(group="open_search", exclusive=True)
    async def open(self, case: CaseKey) -> None:
        """Show the search or the result for this case, or begin a search. A search for another case continues."""
        await self._compare_with_set()
        steps = self._steps
        if steps is not None and steps.is_running and steps.case != case:
            say(self.widget, f"{self._say_running(steps)}; x stops that search", severity="warning")
        elif steps is None or steps.case != case or not (steps.is_running or steps.has_result):
            reason = self._explain_refusal(case)
            if reason and (steps is None or not steps.is_lost):
                say(self.widget, reason, severity="warning")
                return
            if not reason and await self._may_discard("Discard it and begin with another case? n shows it"):
                steps = self._make_steps(case)
                if not await self._confirm_cost(steps):
                    return
                self._steps = steps
                self._begin()
        self._is_shown = True
        self.app.push_screen(self._make_screen())

    def start(self) -> None:
        """Continue a search that ended early; otherwise begin again."""
        if not self.steps.can_start:
            return
        if self._engine is not None and self.steps.can_continue:
            self._engine.executor.reopen()
            self.steps.begin(is_continued=True)
            self._ended.clear()
            self._search()
        else:
            self._start_again()

    def stop(self) -> None:
        """Stop the search; what it has found so far is the result."""
        if self._steps is not None and self._steps.is_running:
            self._steps.is_stopping = True
            if self._engine is not None:
                self._engine.executor.cancel()
            self.on_change()

    def set_budget(self, budget: int) -> None:
        """Set the maximum number of executions; continue if it was used up."""
        could_continue = self.steps.can_continue
        self.steps.budget = budget
        self._adopt_limits()
        if self.steps.can_continue and not could_continue:
            self.start()
        self.on_change()

    def _adopt_limits(self) -> None:
        if self._engine is not None:
            self._engine.budget = self.steps.budget

    def say_what_stays(self) -> None:
        """Show a message about a search or a result that stays when its screen is closed."""
        self._is_shown = False
        if self.steps.is_running:
            say(self.widget, f"{self._say_running(self.steps)}; {self._name_way_back()}")

    def _say_running(self, steps: Steps) -> str:
        return self.RUNNING.format(_name(steps.case))

    def _name_way_back(self) -> str:
        """Say how the user opens the screen again: from another case if the case is gone."""
        place = "any" if self.steps.is_lost else "the"
        return f"{self.state.find_key(self.KEY)} on {place} case shows it"

    async def may_leave(self) -> bool:
        if self._steps is not None and self._steps.is_running:
            return await self._confirm(f"{self._say_running(self._steps)}. Stop that and quit?")
        return True

    def on_sets_changed(self, eval_sets: frozenset[str]) -> None:
        """Show what an edit, an undo or a reload means for the search and its result."""
        if self._steps is not None and self._steps.case.eval_set in eval_sets:
            self._compare_later()

    @background(group="compare_searched_case")
    async def _compare_later(self) -> None:
        await self._compare_with_set()
        self.on_change()

    async def _compare_with_set(self) -> None:
        """Note if the case was edited or removed."""
        steps, engine = self._steps, self._engine
        if steps is None or engine is None:
            return
        try:
            ids, unsaved, data = await self.backend.call(lambda workspace: _read_set(workspace, steps.case))
        except StoreError:  # the list of sets shows the problem
            return
        self._note_ids(steps, ids, unsaved)
        if engine is self._engine:
            steps.change = find_change(engine.executor.data, data)

    def _note_ids(self, steps: Steps, ids: set[str], unsaved: AbstractSet[str]) -> None:
        """Note which cases the set of the case has now."""

    async def _may_discard(self, question: str) -> bool:  # noqa: ARG002
        """Ask about a result that would be lost."""
        return True

    async def _confirm_cost(self, steps: Steps) -> bool:
        """Show what the executions of the search may cost. Return False if the user does not want it."""
        case = steps.case
        selection = Selection(eval_set=case.eval_set, cases=(case.name,))
        try:
            planned = await self.backend.runs.plan([selection], runs=steps.budget)
        except (PlanError, StoreError) as error:
            say(self.widget, str(error), severity="error")
            return False
        if not planned.asks:
            return True
        title = f"{self.TITLE}: {_name(case)}?"
        screen = PlanScreen(self.context, planned, title=title, enter="search", executions="executions at most")
        chosen = await self.app.push_screen_wait(screen)
        if chosen is None:
            return False
        steps.budget = chosen.plan.limits.runs
        return True

    async def _confirm(self, question: str) -> bool:
        return await self.app.push_screen_wait(ConfirmScreen(question))

    @background(group="start_search", exclusive=True)
    async def _start_again(self, change: Callable[[], None] = lambda: None) -> None:
        """Begin again after a `change` of the options. A search that runs is stopped first.

        Another call replaces one that waits for that; its change counts, too.
        """
        if not await self._may_discard("Discard it and begin again?"):
            return
        self._changes.append(change)
        self.stop()
        await self._ended.wait()  # not the worker: it would be cancelled together with this one
        while self._changes:
            self._changes.pop(0)()
        if await self._confirm_cost(self.steps):
            self._begin()

    def close(self) -> None:
        """Stop the search, and remove its recordings of model calls. A process whose terminal is gone ends at once."""
        if self._engine is not None:
            self._engine.executor.cancel()
            self._engine.executor.close()

    def _begin(self) -> None:
        if self._engine is not None:
            self._engine.executor.close()
            self._engine = None
        self.steps.notes = list_influences(self.state, self.steps.case)
        self.steps.begin()
        self._ended.clear()
        self._search()

    @background(group="search")
    async def _search(self) -> None:
        """Search on a thread until everything was tried, the budget is used up, or the user stops it."""
        try:
            await self._search_and_say()
        finally:
            self._ended.set()

    async def _search_and_say(self) -> None:
        steps, loop = self.steps, asyncio.get_running_loop()
        self.on_change()

        def apply(change: Callable[[], None]) -> None:
            change()
            if self._engine is not None:
                steps.changed_files = self._engine.executor.changed_files
            self.on_change()

        def report(change: Callable[[], None]) -> None:
            with contextlib.suppress(RuntimeError):  # the application has ended
                loop.call_soon_threadsafe(apply, change)

        try:
            if self._engine is None:
                self._engine = await self.backend.call(lambda workspace: self._make_engine(workspace, steps))
                steps.notes = (*steps.notes, *self._engine.executor.notices)
            if steps.is_stopping:  # meanwhile
                self._engine.executor.cancel()
            self._adopt_limits()
            finish = await asyncio.to_thread(self._search_blocking, self._engine, steps, report)
            finish()
            await self._compare_with_set()
        except (PlanError, StoreError) as error:
            found = None if self._engine is None else self._engine.make_result(is_interrupted=True)
            steps.fail(str(error), found)
        except asyncio.CancelledError:
            if self._engine is not None:
                self._engine.executor.cancel()
            raise
        self.on_change()
        if not self._is_shown:
            say(self.widget, f"{_name(steps.case)}: {steps.describe_end()}; {self._name_way_back()}")

    def show_whole(self) -> None:
        """Show the selected execution over the list, in full."""
        source = self.steps.make_source()
        if source is not None:
            self.app.push_screen(WholeScreen(source))


class ShrinkController(SearchController[ShrinkSteps, "Shrinker"]):
    """Searches for the smallest variant of a failing case."""

    KEY = "shrink"
    RUNNING = "{} is still being shrunk"
    TITLE = "shrink"

    def _make_steps(self, case: CaseKey) -> ShrinkSteps:
        return ShrinkSteps(case)

    def _explain_refusal(self, case: CaseKey) -> str:
        return explain_unshrinkable(self.state, case)

    def _make_screen(self) -> Screen[None]:
        return ShrinkScreen(self)

    def _make_engine(self, workspace: Workspace, steps: ShrinkSteps) -> Shrinker:
        return make_shrinker(
            workspace, steps.case, budget=steps.budget, criteria=steps.criteria, call=self.backend.call_from_thread
        )

    def _search_blocking(self, engine: Shrinker, steps: ShrinkSteps, report: Report) -> Callable[[], None]:
        def add(step: ShrinkStep) -> None:
            report(partial(steps.add, step, engine.test.failure))

        engine.report = add
        engine.announce = lambda text: report(partial(steps.announce, text))
        return partial(steps.finish, engine.shrink())

    def start_again(self, criteria: tuple[str, ...]) -> None:
        """Begin again with these criteria (none: all that fail), unless the user wants to keep the result first."""

        def change() -> None:
            self.steps.criteria = criteria

        if not self.steps.is_running:
            self._start_again(change)

    async def keep(self) -> None:
        """Ask for a name, and keep the smallest case as a case of the eval set."""
        steps, found = self.steps, self.steps.smaller_case
        if found is None:
            return
        case = steps.case
        try:
            taken = await self.backend.call(lambda workspace: _list_ids(workspace, case))
            question = f"Id of the smaller case in {safe_line(case.eval_set)}"
            value = suggest_small_id(case, taken)
            asked = AskScreen(question, value=value, check=lambda text: check_case_id(text, taken))
            answer = await self.app.push_screen_wait(asked)
            if answer is None:
                return
            eval_id: str = answer
            new = CaseKey(target=case.target, eval_set=case.eval_set, eval_id=eval_id)
            self.state.browser.select_when_listed(new)
            await self.backend.edit(
                lambda workspace: workspace.documents.edit_and_save(
                    case.eval_set,
                    lambda document: insert_small_case(document, found.data, eval_id, after=case),
                    label=f"keep {eval_id}",
                )
            )
        except FileChanged:  # the edit is unsaved; the user chooses between the versions
            self.post_message(SaveWanted(case.eval_set))
        except StoreError as error:
            say(self.app.screen, str(error), severity="error")
            return
        else:
            say(self.app.screen, f"kept as {_name(new)} in {safe_line(case.eval_set)}; u in the main screen undoes it")
        steps.kept_as = eval_id
        await self._compare_with_set()
        self.post_message(DocumentsChanged(frozenset([case.eval_set])))
        self.on_change()

    def say_what_stays(self) -> None:
        """Show a message about a search or a result that stays when its screen is closed."""
        super().say_what_stays()
        if self.steps.is_unkept and not self.steps.is_running:
            say(self.widget, f"the smaller case of {_name(self.steps.case)} is not kept yet; {self._name_way_back()}")

    async def may_leave(self) -> bool:
        """Ask about a search that runs, and about a result that is in no eval set."""
        if self._steps is not None and self._steps.is_running:
            return await super().may_leave()
        await self._compare_with_set()
        may_leave = await self._may_discard("Quit without it?")
        if not may_leave and not self._is_shown:
            self.say_what_stays()
        return may_leave

    def _note_ids(self, steps: ShrinkSteps, ids: set[str], unsaved: AbstractSet[str]) -> None:
        """Forget that the result was kept if that was undone."""
        if steps.kept_as not in ids:
            steps.kept_as = ""
        steps.is_unsaved = steps.kept_as in unsaved

    async def _may_discard(self, question: str) -> bool:
        if self._steps is None or not self._steps.is_unkept:
            return True
        return await self._confirm(f"The smaller case of {_name(self._steps.case)} is not kept. {question}")


class AblationController(SearchController[AblationSteps, "Ablation"]):
    """Searches for the parts of the instruction that matter for a case."""

    KEY = "why"
    RUNNING = "parts of the instruction are still left out for {}"
    TITLE = "which lines matter"

    def _make_steps(self, case: CaseKey) -> AblationSteps:
        return AblationSteps(case)

    def _explain_refusal(self, case: CaseKey) -> str:
        return explain_no_ablation(self.state, case)

    def _make_screen(self) -> Screen[None]:
        return AblationScreen(self)

    def _make_engine(self, workspace: Workspace, steps: AblationSteps) -> Ablation:
        return make_ablation(
            workspace,
            steps.case,
            by_line=steps.by_line,
            budget=steps.budget,
            repeats=steps.repeats,
            call=self.backend.call_from_thread,
        )

    def _search_blocking(self, engine: Ablation, steps: AblationSteps, report: Report) -> Callable[[], None]:
        engine.report_blocks = lambda blocks: report(partial(steps.set_parts, blocks))
        engine.report_whole = lambda whole: report(partial(steps.set_whole, whole))
        engine.report = lambda found: report(partial(steps.add, found))
        engine.announce = lambda text: report(partial(steps.try_part, text, engine.trying))
        engine.count = lambda _: report(steps.count_execution)
        return partial(steps.finish, engine.run())

    def _adopt_limits(self) -> None:
        super()._adopt_limits()
        if self._engine is not None:
            self._engine.repeats = self.steps.repeats

    def set_repeats(self, repeats: int) -> None:
        """Set the executions of each part; continue if some lack executions now."""
        self.steps.repeats = repeats
        self._adopt_limits()
        if self.steps.can_continue:
            self.start()
        self.on_change()

    def switch_parts(self) -> None:
        """Begin again with lines instead of paragraphs, or with paragraphs instead of lines."""

        def change() -> None:
            self.steps.by_line = not self.steps.by_line

        self._start_again(change)


CONTROLLERS: Mapping[str, type[SearchController[Any, Any]]] = {
    each.KEY: each for each in (ShrinkController, AblationController)
}
"""The kinds of searches, by the id of the key that opens their screen."""


def _list_ids(workspace: Workspace, case: CaseKey) -> set[str]:
    """List the ids of the cases in the set of a case. Raises StoreError."""
    return {entry.eval_id for entry in workspace.documents.document(case.eval_set).entries}


def _read_set(workspace: Workspace, case: CaseKey) -> tuple[set[str], AbstractSet[str], Mapping[str, Any] | None]:
    """Return the ids of the cases in the set of a case, those with unsaved edits, and the case; None if it is gone.

    Raises StoreError.
    """
    document = workspace.documents.document(case.eval_set)
    places = {(entry.eval_id, entry.occurrence): entry.index for entry in document.entries}
    place = places.get((case.eval_id, case.occurrence))
    data = None if place is None else document.raw_case(place)
    return {eval_id for eval_id, _ in places}, document.list_changed_cases(), data


def _name(case: CaseKey) -> str:
    return safe_line(case.name, width=_LONGEST_NAME)


# The screens: a search continues while its screen is closed.

_SEARCH_LINES = 3
_MOST_REPEATS = 100
_CLOCK_SECONDS = 1.0


class SearchScreen(ResultScreen[None]):
    """Shows a search that runs, or its result."""

    KEYS: ClassVar[tuple[str, ...]]
    """Ids of the keys that are shown first."""

    def __init__(self, search: SearchController[Any, Any]) -> None:
        super().__init__()
        self._search = search
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
            self._search.show_whole()

    def action_stop(self) -> None:
        self._search.stop()

    def action_start(self) -> None:
        self._search.start()

    @work(group="ask", exclusive=True, description="ask for the budget")
    async def action_set_budget(self) -> None:
        question, budget = "Maximum executions of the agent", self._search.steps.budget
        least = self._search.steps.least_budget
        answer = await ask_number(self.app, question, value=budget, most=MOST_EXECUTIONS, least=least)
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


class ShrinkScreen(SearchScreen):
    """Shows the variants of a failing case."""

    _search: ShrinkController

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


class AblationScreen(SearchScreen):
    """Shows the instruction of an agent, and which of its parts matter for a case."""

    _search: AblationController

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
        answer = await ask_number(self.app, question, value=steps.repeats, most=most)
        if answer is not None:
            self._search.set_repeats(answer)
