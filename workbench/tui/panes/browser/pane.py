"""The left side of the main screen: which cases there are, and which of them the user means."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.message import Message

from workbench.model.keys import CaseKey
from workbench.store.errors import StoreError
from workbench.tui.hub import Hub
from workbench.tui.keys import bindings
from workbench.tui.panes.browser.edits import Edits
from workbench.tui.state.browser.listed import ListedSet
from workbench.tui.state.browser.query import SYNTAX, next_status_filter
from workbench.tui.widgets.case_list import CaseList
from workbench.tui.widgets.filter_input import FilterInput, FilterLine
from workbench.tui.widgets.saying import say

_RELIST = 0.5  # seconds between two listings of what a run or the reading of cases may have changed


class BrowserPane(Vertical):
    """The list with its filter. It changes the state of the browser, and says when another row is selected."""

    HELP: ClassVar[str] = (
        "The eval sets of every agent, and how their cases stand. Marked cases are what r runs, m moves and D deletes, "
        "whatever is listed; without marks it is the selected row. R runs everything that is listed, f what of it did "
        "not pass. A verdict is stale (●) where the case or its criteria have changed since."
    )
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("list")]

    @dataclass
    class CursorMoved(Message):
        """Another row is selected, or the rows are others."""

    @dataclass
    class Opened(Message):
        """The user wants to look at the selected case."""

    @dataclass
    class AddressOpened(Message):
        """The user wants the rows of a dataset elsewhere."""

        listed: ListedSet

    @dataclass
    class EditsRead(Message):
        """Which cases have unsaved edits is known anew."""

    def __init__(self, hub: Hub, *, id: str) -> None:
        super().__init__(id=id)
        self._hub = hub
        self._browser = hub.state.browser
        self._edits = Edits(self, hub)
        self._is_outdated = False

    def compose(self) -> ComposeResult:
        """The filter line and the list."""
        yield FilterLine(id="filter")
        yield CaseList(id="case-list", go=self._go_to_row)

    def on_mount(self) -> None:
        """Begin to follow what changes by itself."""
        self.set_interval(_RELIST, self._relist_if_outdated)

    def go_to(self, wanted: CaseKey | str) -> None:
        """Put the cursor on a case, or on the set of this path, once that is listed; a filter that hides it ends."""
        self._browser.expect(wanted)
        self._reveal()

    def show(self) -> None:
        """Draw the list as it is now."""
        if self._reveal():
            self.post_message(self.CursorMoved())
        self.query_one(CaseList).show_state(self._hub.state)

    def focus_list(self) -> None:
        """Put the focus on the list."""
        self.query_one(CaseList).focus()

    def results_changed(self) -> None:
        """A run has gone on: where filter or order depend on results, the list follows soon."""
        self._is_outdated = self._is_outdated or self._browser.needs_results

    @work(group="contents", exclusive=True)
    async def read_contents(self) -> None:
        """Read what has changed of the cases and of their unsaved edits, as other work leaves room for it."""
        await self._read_edited()
        for listed in self._browser.sets:
            async for contents in self._hub.gateway.contents.read(listed):
                self._browser.show_contents(contents)
                self._is_outdated = True
            if listed.kept is None:
                self._browser.judges[listed.relative] = self._hub.gateway.contents.judges_of(listed.relative)
        self.post_message(self.EditsRead())

    async def _read_edited(self) -> None:
        documents = self._hub.gateway.documents
        dirty = await documents.dirty()
        for listed in self._browser.files:
            if listed.relative not in dirty:
                self._browser.show_edited(listed.relative, None)
        for relative in dirty:
            try:
                standing = await documents.standing(relative)
            except StoreError:
                continue  # it is listed with what is wrong with it
            self._browser.show_edited(relative, standing.changed_cases)
        self._is_outdated = True
        self.post_message(self.EditsRead())

    def _reveal(self) -> bool:
        """End a filter that hides what is new, or what the user wants to go to. Gives whether there was one."""
        if not self._browser.hides_expected:
            return False
        self.query_one(FilterLine).write("")
        self._browser.filter("")
        return True

    def _relist_if_outdated(self) -> None:
        if not self._is_outdated:
            return
        self._is_outdated = False
        browser, selected = self._browser, self._browser.selected
        if browser.needs_results or browser.query.needs_contents or browser.query.traits:
            browser.refresh()
        self._show_filter_help()
        self.show()
        if browser.selected is not selected:
            self.post_message(self.CursorMoved())

    # Moving about.

    def _go_to_row(self, index: int) -> None:
        self._browser.move_to(index)
        self._hub.state.leave_row()
        self._after_move()

    @on(CaseList.WentTo)
    def _on_went_to(self, message: CaseList.WentTo) -> None:
        message.stop()
        self._go_to_row(message.index)

    @on(CaseList.Entered)
    def _on_entered(self, message: CaseList.Entered) -> None:
        message.stop()
        row = self._browser.selected
        if row is not None and row.case is None:
            self._on_toggled()
        else:
            self.post_message(self.Opened())

    @on(CaseList.Toggled)
    def _on_toggled(self) -> None:
        if not self._opens_address():
            self._browser.toggle()
            self._after_move()

    def action_fold(self) -> None:
        """Fold the selected row, or go up."""
        self._browser.fold()
        self._after_move()

    def action_unfold(self) -> None:
        """Unfold the selected row, or go in."""
        if not self._opens_address():
            self._browser.unfold()
            self._after_move()

    def _opens_address(self) -> bool:
        """Whether the selected set is one whose rows are still to be read, which is done then, or on their way."""
        row = self._browser.selected
        listed = None if row is None or row.case is not None else self._browser.eval_set(row.target, row.eval_set)
        if listed is not None and listed.is_being_fetched:  # folding it would hide the rows once they are there
            say(self, f"{listed.relative}: its rows are being fetched, and listed here as soon as they have come")
            return True
        if listed is None or not listed.is_to_be_read:
            return False
        self.post_message(self.AddressOpened(listed))
        return True

    def _after_move(self) -> None:
        self.post_message(self.CursorMoved())  # whoever hears it shows the list with all else

    # Filter and order.

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002
        """In the filter line only its own keys are heard, and shown in the footer."""
        return isinstance(self.screen.focused, CaseList) or action not in _ACTIONS

    def offers(self, action: str) -> bool:
        """Whether an action has a use for what is selected."""
        return not self._edits.why_not(action)

    def action_filter(self) -> None:
        """Let the user write which cases to list."""
        self._show_filter_help()
        self.query_one(FilterLine).open()

    def action_status(self) -> None:
        """List only cases of the next status."""
        line = self.query_one(FilterLine)
        line.write(next_status_filter(line.text))

    def action_sort(self) -> None:
        """List the cases in the next order."""
        self._browser.sort(self._browser.order.following)
        self._after_move()

    @on(FilterInput.Changed)
    def _on_filter_changed(self, message: FilterInput.Changed) -> None:
        message.stop()
        self._browser.filter(message.value)
        self._show_filter_help()
        self._after_move()

    @on(FilterInput.Submitted)
    @on(FilterInput.Left)
    def _on_filter_left(self) -> None:
        self.focus_list()

    def _show_filter_help(self) -> None:
        line, browser = self.query_one(FilterLine), self._browser
        if browser.query.problems:
            line.show_help(browser.query.problems[0], problem=True)
            return
        reading = ""
        total = sum(len(listed.cases or ()) for listed in browser.sets)
        if browser.query.needs_contents and browser.read_count < total:
            reading = f"reading the cases: {browser.read_count:,} of {total:,} … · "
        line.show_help(f"{reading}{SYNTAX}", problem=False)

    # Marks.

    @on(CaseList.Marked)
    def _on_marked(self) -> None:
        row = self._browser.selected
        self._browser.toggle_mark()
        if row is not None and row.case is not None:
            self._browser.go_to(row.case)  # where the mouse marks, the cursor stays
        self._after_move()

    def action_mark(self) -> None:
        """Mark the selected row."""
        self._browser.toggle_mark()
        self._after_move()

    def action_mark_range(self) -> None:
        """Mark from the last mark to the cursor."""
        self._browser.mark_range()
        self._after_move()

    def action_mark_listed(self) -> None:
        """Mark everything that is listed."""
        self._browser.mark_listed()
        self._after_move()

    def action_clear_marks(self) -> None:
        """Unmark everything."""
        self._browser.marks.clear()
        self._after_move()

    # Edits. Each asks what it has to know and then waits for the gateway.

    def action_new_case(self) -> None:
        """Add a case."""
        self._carry_out(self._edits.new_case)

    def action_new_set(self) -> None:
        """Add an eval set."""
        self._carry_out(self._edits.new_set)

    def action_rename(self) -> None:
        """Rename the selected case or set."""
        self._carry_out(self._edits.rename)

    def action_duplicate(self) -> None:
        """Copy the selected case or set."""
        self._carry_out(self._edits.duplicate)

    def action_move_case(self, by: int) -> None:
        """Move the selected case within its set."""
        self._carry_out(lambda: self._edits.move_within(by))

    def action_move(self) -> None:
        """Move cases to another set."""
        self._carry_out(self._edits.move_to_set)

    def action_delete(self) -> None:
        """Delete cases or a set."""
        self._carry_out(self._edits.delete)

    @work(group="edits")
    async def _carry_out(self, edit: Callable[[], Awaitable[None]]) -> None:
        await edit()


_ACTIONS = frozenset(
    {
        "filter",
        "status",
        "sort",
        "fold",
        "unfold",
        "mark",
        "mark_range",
        "mark_listed",
        "clear_marks",
        "new_case",
        "new_set",
        "rename",
        "duplicate",
        "move_case",
        "move",
        "delete",
    }
)
