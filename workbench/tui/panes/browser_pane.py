"""Pane of the eval sets: targets, sets and cases, with a filter and operations on them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.message import Message
from textual.widget import Widget

from workbench.model.identity import CaseKey
from workbench.store.errors import FileChanged, StoreError
from workbench.store.files import EVAL_SET_SUFFIX
from workbench.tui.backend import document_calls
from workbench.tui.dialogs.dialogs import AskScreen, Check, ChooseScreen, ConfirmScreen
from workbench.tui.keys import bindings, list_actions
from workbench.tui.screen_context import (
    Controller,
    DocumentsChanged,
    ProjectChanged,
    RestingTimer,
    SaveWanted,
    ScreenContext,
    TabWanted,
)
from workbench.tui.state.browser_list import ListedSet, RowKey
from workbench.tui.state.browser_rows import format_border_subtitle, format_border_title
from workbench.tui.state.case_filter import (
    SYNTAX,
    Order,
    check_case_id,
    check_set_path,
    complete_set_path,
    cycle_status_filter,
    derive_set_id,
    find_free_name,
    propose_copy_path,
)
from workbench.tui.state.project_state import find_edit_obstacle, find_removal_obstacle, has_use
from workbench.tui.state.text_layout import plural, safe_line
from workbench.tui.widgets.inputs import FilterInput, FilterLine
from workbench.tui.widgets.key_line import report_errors, say
from workbench.tui.widgets.row_lists import CaseList, FramedBox

if TYPE_CHECKING:
    from workbench.engine.open_documents import OpenDocuments
    from workbench.store.evalsets.evalset_document import EvalSetDocument


# Operations on eval sets and cases. Each asks for its input, checks it, and saves at once.

_OF_MARKED = frozenset({"move_to_set", "delete"})
_OF_CASES = frozenset({"new_case", "rename", "duplicate", "move_case", *_OF_MARKED})


class CaseOperations(Controller):
    """Operations on the selected or marked rows."""

    def __init__(self, widget: Widget, context: ScreenContext) -> None:
        super().__init__(widget, context)
        self._browser = context.state.browser

    def find_obstacle(self, action: str) -> str:
        """Return why an operation cannot be applied to the selected or marked rows, in one sentence; empty if it
        can.
        """
        row = self._browser.selected_row
        if row is not None and row.case is None and action == "delete":
            return find_removal_obstacle(self._browser, row.target, row.eval_set)
        keys = self._get_targets() if action in _OF_MARKED else ()
        selected = [] if row is None or action not in _OF_CASES else [(row.target, row.eval_set)]
        return find_edit_obstacle(self._browser, {(key.target, key.eval_set) for key in keys} or selected)

    async def new_case(self) -> None:
        """Add a case to the selected set, after the selected case."""
        row, place = self._browser.selected_row, self._browser.set_of_new_case
        if row is None or place is None:
            self._warn(f"no eval set selected for the new case; {self.state.find_key('new_set')} adds one")
            return
        if self._is_refused("new_case"):
            return
        target, eval_set = place
        taken = self._list_ids(eval_set)
        question = f"Id of the new case in {eval_set}"
        eval_id = await self._ask(question, find_free_name("new_case", taken), lambda text: check_case_id(text, taken))
        if eval_id is None:
            return
        key = CaseKey(target=target, eval_set=eval_set, eval_id=eval_id)
        self._browser.select_when_listed(key)
        add = partial(document_calls.add_case, eval_id=eval_id, after=row.case)
        self.state.is_opening_prompt = True
        if await self._edit(eval_set, add, label=f"add {eval_id}"):
            self.post_message(TabWanted("case", types_prompt_of=key))
        else:
            self.state.is_opening_prompt = False

    async def new_set(self) -> None:
        """Add an eval set without cases."""
        row = self._browser.selected_row
        is_in_file = (
            row is not None and row.eval_set and not find_removal_obstacle(self._browser, row.target, row.eval_set)
        )
        folder = PurePosixPath(row.eval_set).parent if row is not None and is_in_file else PurePosixPath()
        taken = self._list_paths()
        proposed = str(folder / find_free_name("new", {path.removesuffix(EVAL_SET_SUFFIX) for path in taken}))
        typed_path = await self._ask(
            "File of the new eval set, relative to the project", proposed, lambda text: check_set_path(text, taken)
        )
        if typed_path is None:
            return
        path = complete_set_path(typed_path)
        await self._change_files(
            lambda documents: documents.create_set(path, eval_set_id=derive_set_id(path)),
            select=path,
            done=f"created {path}",
        )

    async def rename(self) -> None:
        """Rename the selected case or the file of the selected set."""
        await self._change_selected("rename", self._rename_set, self._rename_case)

    async def duplicate(self) -> None:
        """Copy the selected case under another id, or the selected set to another file."""
        await self._change_selected("duplicate", self._duplicate_set, self._duplicate_case)

    async def _change_selected(
        self,
        action: str,
        change_set: Callable[[str], Awaitable[None]],
        change_case: Callable[[CaseKey], Awaitable[None]],
    ) -> None:
        row = self._browser.selected_row
        if row is None or not row.eval_set:
            self._warn(f"select a case or an eval set to {action}")
        elif self._is_refused(action):
            return
        elif row.case is None:
            await change_set(row.eval_set)
        else:
            await change_case(row.case)

    async def move_case(self, by: int) -> None:
        """Move the selected case within its file."""
        row = self._browser.selected_row
        if row is None or row.case is None:
            self._warn("select a case to move")
        elif self._is_refused("move_case"):
            return
        elif self._browser.is_filtered or self._browser.order is not Order.FILE:
            self._warn(
                "cases can be moved only in file order and without a filter "
                f"({self.state.find_key('list_sort')} sorts; {self.state.find_key('list_end_filter')} ends a filter)"
            )
        else:
            move = partial(document_calls.move_case, key=row.case, by=by)
            await self._edit(row.eval_set, move, label=f"move {row.case.eval_id}")

    async def move_to_set(self) -> None:
        """Move the marked cases, or the selected one, to the end of another set."""
        keys = self._get_targets()
        if self._is_refused("move_to_set"):
            return
        others = sorted(name for name in self._list_paths() - {key.eval_set for key in keys} if name.endswith(".json"))
        if not keys or not others:
            self._warn("select or mark the cases to move" if others else "there is no other eval set to move to")
            return
        what = _name_cases(keys)
        chosen = await self.app.push_screen_wait(ChooseScreen(f"Move {what} to", others))
        if chosen is None:
            return
        if not await self._move(keys, others[chosen]):
            return
        self._browser.marks.clear()
        say(self.widget, f"moved {what} to {others[chosen]}; {self._undo_key} undoes it")

    @property
    def _undo_key(self) -> str:
        return self.state.find_key("undo")

    async def delete(self) -> None:
        """Delete the selected set, the marked cases, or the selected case."""
        if self._is_refused("delete"):
            return
        row = self._browser.selected_row
        if row is not None and row.case is None and row.eval_set:
            await self._delete_set(row.eval_set)
            return
        keys = self._get_targets()
        if not keys:
            self._warn("select a case or an eval set to delete, or mark cases")
            return
        if len(keys) > 1 and not await self._confirm(f"Delete {_name_cases(keys)}? {self._undo_key} undoes it."):
            return
        changes = [
            (name, partial(document_calls.delete_cases, keys=deleted)) for name, deleted in _group_by_set(keys).items()
        ]
        if not await self._edit_together(changes, label=f"delete {_name_cases(keys)}"):
            return
        say(self.widget, f"deleted {_name_cases(keys)}; {self._undo_key} undoes it")

    async def _rename_case(self, key: CaseKey) -> None:
        taken = self._list_ids(key.eval_set) - {key.eval_id}
        eval_id = await self._ask(f"New id of {key.eval_id}", key.eval_id, lambda text: check_case_id(text, taken))
        if eval_id is None or eval_id == key.eval_id:
            return
        self._browser.select_when_listed(CaseKey(target=key.target, eval_set=key.eval_set, eval_id=eval_id))
        rename = partial(document_calls.rename_case, key=key, eval_id=eval_id)
        await self._edit(key.eval_set, rename, label=f"rename {key.eval_id}")

    async def _rename_set(self, path: str) -> None:
        taken = self._list_paths() - {path}
        written = await self._ask(f"New file of {path}", path, lambda text: check_set_path(text, taken))
        if written is None or complete_set_path(written) == path:
            return
        new = complete_set_path(written)
        await self._change_files(
            lambda documents: documents.rename_set(path, new), select=new, done=f"renamed {path} to {new}"
        )

    async def _duplicate_case(self, key: CaseKey) -> None:
        taken = self._list_ids(key.eval_set)
        proposed = find_free_name(f"{key.eval_id}_copy", taken)
        eval_id = await self._ask(f"Id of the copy of {key.eval_id}", proposed, lambda text: check_case_id(text, taken))
        if eval_id is None:
            return
        self._browser.select_when_listed(CaseKey(target=key.target, eval_set=key.eval_set, eval_id=eval_id))
        duplicate = partial(document_calls.duplicate_case, key=key, eval_id=eval_id)
        await self._edit(key.eval_set, duplicate, label=f"duplicate {key.eval_id}")

    async def _duplicate_set(self, path: str) -> None:
        taken = self._list_paths()
        typed_path = await self._ask(
            f"File of the copy of {path}", propose_copy_path(path, taken), lambda text: check_set_path(text, taken)
        )
        if typed_path is None:
            return
        copy = complete_set_path(typed_path)
        await self._change_files(
            lambda documents: documents.duplicate_set(path, copy), select=copy, done=f"copied {path} to {copy}"
        )

    async def _delete_set(self, path: str) -> None:
        cases = plural(len(self._list_ids(path)), "case")
        if await self._confirm(f"Delete the file {safe_line(path)} with {cases}? {self._undo_key} undoes it."):
            done = f"deleted {path}; {self._undo_key} undoes it"
            await self._change_files(lambda documents: documents.delete_set(path), select=None, done=done)

    async def _move(self, keys: Sequence[CaseKey], target: str) -> bool:
        """Move cases to another set as one undo step. Return False if that fails; no file is then changed."""
        changes: list[tuple[str, Callable[[EvalSetDocument], None]]] = []
        taken: list[document_calls.CopiedCase] = []
        with report_errors(self.widget):
            for source, moved in _group_by_set(keys).items():
                taken += await self._take(source, moved)
                changes.append((source, partial(document_calls.delete_cases, keys=moved)))
            # The other set comes first: if the second write fails, each case is still in one file.
            changes.insert(0, (target, partial(document_calls.append_cases, cases=taken)))
            return await self._edit_together(changes, label=f"move {_name_cases(keys)} to {target}")
        return False

    async def _take(self, eval_set: str, keys: Sequence[CaseKey]) -> list[document_calls.CopiedCase]:
        return await self.backend.call(
            lambda workspace: document_calls.copy_cases(workspace.documents.document(eval_set), keys)
        )

    async def _edit_together(
        self, changes: Sequence[tuple[str, Callable[[EvalSetDocument], None]]], *, label: str
    ) -> bool:
        """Edit several sets as one undo step and save them. Return False if that fails; no file is then changed."""
        try:
            await self.backend.edit(lambda workspace: workspace.documents.edit_together(changes, label=label))
        except FileChanged:
            self._warn("another program changed a file; decide which version to keep, then repeat the action")
            changed = await self.backend.call(
                lambda workspace: [name for name, _ in changes if workspace.documents.get_status(name).changed_on_disk]
            )
            for name in changed:
                self.post_message(SaveWanted(name))
            return False
        except StoreError as error:
            say(self.widget, str(error), severity="error")
            return False
        self.post_message(DocumentsChanged(frozenset(name for name, _ in changes)))
        return True

    async def _edit(self, eval_set: str, change: Callable[[EvalSetDocument], None], *, label: str) -> bool:
        """Edit a set and save it. Return False if that fails."""
        try:
            await self.backend.edit(lambda workspace: workspace.documents.edit_and_save(eval_set, change, label=label))
        except FileChanged:  # the edit is made; the user decides which version of the file to save
            self.post_message(SaveWanted(eval_set))
            return False
        except StoreError as error:
            say(self.widget, str(error), severity="error")
            return False
        self.post_message(DocumentsChanged(frozenset([eval_set])))
        return True

    async def _change_files(self, work: Callable[[OpenDocuments], None], *, select: str | None, done: str) -> None:
        with report_errors(self.widget):
            await self.backend.edit(lambda workspace: work(workspace.documents))
            if select is not None:
                self._browser.select_when_listed(select)
            say(self.widget, done)
            self.post_message(ProjectChanged(select=select))

    async def _ask(self, question: str, value: str, check: Check) -> str | None:
        return await self.app.push_screen_wait(AskScreen(question, value=value, check=check))

    async def _confirm(self, question: str) -> bool:
        return await self.app.push_screen_wait(ConfirmScreen(question))

    def _get_targets(self) -> list[CaseKey]:
        """Return the marked cases, or the selected one."""
        row = self._browser.selected_row
        selected = [row.case] if row is not None and row.case is not None else []
        return list(self._browser.marks) or selected

    def _is_refused(self, action: str) -> bool:
        """Warn if an operation cannot be applied to the selected or marked rows, before asking anything."""
        reason = self.find_obstacle(action)
        if reason:
            self._warn(reason)
        return bool(reason)

    def _list_ids(self, eval_set: str) -> set[str]:
        return {row.case.eval_id for row in self._browser.iterate_case_rows() if row.case and row.eval_set == eval_set}

    def _list_paths(self) -> set[str]:
        return {listed.relative for listed in self._browser.file_sets}

    def _warn(self, message: str) -> None:
        say(self.widget, message, severity="warning")


def _group_by_set(keys: Sequence[CaseKey]) -> dict[str, list[CaseKey]]:
    by_set: dict[str, list[CaseKey]] = {}
    for key in keys:
        by_set.setdefault(key.eval_set, []).append(key)
    return by_set


def _name_cases(keys: Sequence[CaseKey]) -> str:
    return safe_line(keys[0].eval_id) if len(keys) == 1 else plural(len(keys), "case")


# The pane at the left of the main screen.

_ACTIONS = list_actions("list")
_CHUNK = 250  # contents that are taken over before key presses are processed
_RELIST = 0.5  # seconds between two updates of the list during a run or while cases are read
_RELIST_SHARE = 0.15  # of the time for these updates, which a hundred thousand cases make slow


class BrowserPane(FramedBox):
    """The list with its filter. It changes the state of the browser and posts a message if another row is selected."""

    HELP: ClassVar[str] = (
        "The eval sets of every agent, and the state of their cases. r runs, m moves and D deletes the marked cases; "
        "without marks, the selected row. R runs all listed cases, f those that did not pass. A verdict is stale (●) "
        "if the case or its criteria changed after it."
    )
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("list")]

    @dataclass
    class CursorMoved(Message):
        """Another row is selected, or the rows have changed."""

    @dataclass
    class Opened(Message):
        """The user opened the selected case."""

    @dataclass
    class AddressOpened(Message):
        """The user requested the rows of a remote dataset."""

        listed: ListedSet

    @dataclass
    class EditsRead(Message):
        """The cases with unsaved edits were read again."""

    def __init__(self, context: ScreenContext, *, id: str) -> None:
        super().__init__(id=id)
        self._screen_context = context
        self._browser = context.state.browser
        self._edits = CaseOperations(self, context)
        self._is_outdated = False
        self._updates: RestingTimer | None = None
        self._relist_after = 0.0

    def compose(self) -> ComposeResult:
        yield FilterLine("text in id, prompt or tool", self._follow_text, id="filter")
        yield CaseList(id="case-list", go=self._select_row)

    def on_mount(self) -> None:
        self._updates = RestingTimer(self, _RELIST, self._relist_if_outdated)

    def select(self, wanted: CaseKey | str) -> None:
        """Select a case, or the set with this path, once it is listed; end a filter that hides it."""
        self._browser.select_when_listed(wanted)
        self._end_hiding_filter()

    def go_to(self, key: RowKey) -> None:
        """Select a row; end a filter that hides it."""
        if not self._browser.select_row(key) and self._browser.is_filtered:
            self.list_matching("")
            self._browser.select_row(key)
        self._after_move()

    def list_matching(self, text: str) -> None:
        """List only the cases that match a filter."""
        self.query_one(FilterLine).write(text)
        self._browser.filter(text)
        self.refresh_bindings()  # one key ends the filter
        self._show_filter_help()
        self._after_move()

    def show(self) -> None:
        if self._end_hiding_filter():
            self.post_message(self.CursorMoved())
        self.write_on_border(format_border_title(self._browser), format_border_subtitle(self._browser))
        self.query_one(CaseList).show_state(self._screen_context.state)

    def focus_list(self) -> None:
        self.query_one(CaseList).focus()

    def mark_outdated(self) -> None:
        """Update the list soon if results can change filter or order."""
        if self._browser.needs_results:
            self._relist_soon()

    def _relist_soon(self) -> None:
        self._is_outdated = True
        if self._updates is not None:
            self._updates.wake()

    @work(group="contents", exclusive=True)
    async def read_contents(self) -> None:
        """Read changed cases and their unsaved edits, with pauses for other work."""
        await self._read_edited()
        for listed in self._browser.sets:
            async for contents in self._screen_context.backend.contents.read(listed):
                for start in range(0, len(contents), _CHUNK):
                    self._browser.update_contents(contents[start : start + _CHUNK])
                    await asyncio.sleep(0)
                self._relist_soon()
            if listed.history_run is None:
                self._browser.judges[listed.relative] = self._screen_context.backend.contents.get_judges(
                    listed.relative
                )
        self.post_message(self.EditsRead())

    async def _read_edited(self) -> None:
        changed = await self._screen_context.backend.call(document_calls.list_changed_cases)
        for listed in self._browser.file_sets:
            self._browser.set_edited_cases(listed.relative, changed.get(listed.relative))
        self._relist_soon()
        self.post_message(self.EditsRead())

    def _end_hiding_filter(self) -> bool:
        """End a filter that hides the row to be selected. Return whether there was one."""
        if not self._browser.has_hidden_selection:
            return False
        self.query_one(FilterLine).write("")
        self._browser.filter("")
        return True

    def _relist_if_outdated(self) -> bool:
        if not self._is_outdated:
            return False
        started = time.monotonic()
        if started < self._relist_after:
            return True
        self._is_outdated = False
        browser, selected = self._browser, self._browser.selected_row
        if browser.needs_results or browser.query.needs_contents or browser.query.traits:
            browser.refresh()
        self._show_filter_help()
        self.show()
        if browser.selected_row is not selected:
            self.post_message(self.CursorMoved())
        now = time.monotonic()
        self._relist_after = now + (now - started) / _RELIST_SHARE
        return True

    # Cursor and folds.

    def _select_row(self, index: int) -> None:
        self._browser.set_cursor(index)
        self._screen_context.state.show_project(is_shown=False)  # even if it is the same row
        self._screen_context.state.leave_row()
        self._after_move()

    @on(CaseList.WentTo)
    def _on_went_to(self, message: CaseList.WentTo) -> None:
        message.stop()
        self._select_row(message.index)

    @on(CaseList.Entered)
    def _on_entered(self, message: CaseList.Entered) -> None:
        message.stop()
        row = self._browser.selected_row
        if row is not None and row.case is None:
            self._on_toggled()
        else:
            self.post_message(self.Opened())

    @on(CaseList.Toggled)
    def _on_toggled(self) -> None:
        if not self._opens_address():
            self._browser.toggle_fold()
            self._after_move()

    def action_fold(self) -> None:
        self._browser.fold()
        self._after_move()

    def action_unfold(self) -> None:
        if not self._opens_address():
            self._browser.unfold()
            self._after_move()

    def _opens_address(self) -> bool:
        """Request the rows of the selected set if it is remote and not read yet. Return whether it is remote and
        unread.
        """
        row = self._browser.selected_row
        listed = None if row is None or row.case is not None else self._browser.get_set(row.target, row.eval_set)
        if listed is not None and listed.is_being_fetched:  # folding it would hide the rows when they arrive
            say(self, f"{listed.relative}: fetching its rows; they are listed when they arrive")
            return True
        if listed is None or not listed.can_be_fetched:
            return False
        self.post_message(self.AddressOpened(listed))
        return True

    def _after_move(self) -> None:
        self.post_message(self.CursorMoved())  # the screen then draws the list with everything else

    # Filter and order.

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002
        """Allow actions of the list only if it has the focus, so that the filter line gets its own keys."""
        if action == "end_filter" and not self._browser.is_filtered:
            return False
        return isinstance(self.screen.focused, CaseList) or action not in _ACTIONS

    def offers(self, action: str) -> bool:
        """True if an action can be applied to the selected row."""
        return has_use(action, self._screen_context.state) and not self._edits.find_obstacle(action)

    def action_filter(self) -> None:
        self._show_filter_help()
        self.query_one(FilterLine).open()

    def action_end_filter(self) -> None:
        self.query_one(FilterLine).write("")

    def action_status(self) -> None:
        line = self.query_one(FilterLine)
        line.write(cycle_status_filter(line.text))

    def action_sort(self) -> None:
        self._browser.sort(self._browser.order.next)
        self._after_move()

    def _follow_text(self, text: str) -> None:
        self._browser.filter(text)
        self.refresh_bindings()  # one key ends the filter
        self._show_filter_help()
        self.show()  # now, because the letter is painted before the screen draws the rest
        self._after_move()

    @on(FilterInput.Moved)
    def _on_filter_moved(self, message: FilterInput.Moved) -> None:
        message.stop()
        rows = self.query_one(CaseList)
        self._select_row(rows.source.cursor + (message.by or message.pages * rows.page_size))

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
        row = self._browser.selected_row
        self._browser.toggle_mark()
        if row is not None and row.case is not None:
            self._browser.select_case(row.case)  # a mark set by the mouse does not move the cursor
        self._after_move()

    def action_mark(self) -> None:
        self._browser.toggle_mark()
        self._after_move()

    def action_mark_range(self) -> None:
        self._browser.mark_range()
        self._after_move()

    def action_mark_listed(self) -> None:
        self._browser.mark_listed()
        self._after_move()

    def action_clear_marks(self) -> None:
        self._browser.marks.clear()
        self._after_move()

    # CaseOperations. Each asks what it has to know and then waits for the backend.

    def add_case(self) -> None:
        """Ask for the id of a new case of the selected set, and begin to edit it."""
        self._carry_out(self._edits.new_case)

    def add_set(self) -> None:
        """Ask for the file of a new eval set."""
        self._carry_out(self._edits.new_set)

    def action_rename(self) -> None:
        self._carry_out(self._edits.rename)

    def action_duplicate(self) -> None:
        self._carry_out(self._edits.duplicate)

    def action_move_case(self, by: int) -> None:
        self._carry_out(lambda: self._edits.move_case(by))

    def action_move_to_set(self) -> None:
        self._carry_out(self._edits.move_to_set)

    def action_delete(self) -> None:
        self._carry_out(self._edits.delete)

    @work(group="edits", description="carry out")
    async def _carry_out(self, edit: Callable[[], Awaitable[None]]) -> None:
        await edit()
