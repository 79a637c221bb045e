"""The case, to read and to edit: its values as rows, and a box in which one of them is typed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content
from textual.widgets import Static

from workbench.model.keys import CaseKey
from workbench.store.errors import StoreError
from workbench.tui.external_editor import edit_text
from workbench.tui.gateway.editing import Outdated, Refused
from workbench.tui.hub import Hub
from workbench.tui.keys import bindings
from workbench.tui.messages import DocumentsChanged, ProjectChanged
from workbench.tui.panes.case.editor_box import EditorBox
from workbench.tui.panes.case.outline_list import OutlineList
from workbench.tui.panes.case.typed_text import TypedText
from workbench.tui.panes.pane import Pane
from workbench.tui.screens.ask import AskScreen
from workbench.tui.screens.choose import ChooseScreen
from workbench.tui.state.editor.desk import Desk
from workbench.tui.state.editor.draft import MOST_TYPED, Draft, Form, Invalid
from workbench.tui.state.editor.opened import Opened
from workbench.tui.state.editor.opened import Subject as Edited
from workbench.tui.state.editor.operations import (
    Edit,
    Impossible,
    RenameKey,
    Slot,
    copy_of_item,
    copy_under_key,
    keys_beside,
    move,
    removal,
    slot_as_json,
    slot_of,
)
from workbench.tui.state.editor.rows import Kind, Place, Row
from workbench.tui.state.layout import lay_out
from workbench.tui.state.pieces import Line, safe
from workbench.tui.state.subject import ReadCase, Subject
from workbench.tui.widgets.lines_view import LinesView
from workbench.tui.widgets.row_list import RowList
from workbench.tui.widgets.saying import say

_CALM = 0.15  # seconds without a key before what is typed is held against the whole case

Make = Callable[[Row, Opened], Edit]
"""Makes an edit of the selected row. Raises Impossible."""


class CasePane(Pane):
    """A case, or what a set says of itself, row by row; for agents, and where nothing is selected, what is known."""

    TAB = "Case"
    HELP = (
        "Every value of the case is a row: enter edits it, + adds what makes sense there, u takes the last edit back. "
        "Edits are marked with * until ctrl+s saves them; nothing that cannot be read is ever put into the case. "
        "What is typed and not applied is kept, marked with ~."
    )
    PLACES: ClassVar[tuple[str, ...]] = ("editor",)
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("editor")]

    def __init__(self, hub: Hub, *, id: str) -> None:
        super().__init__(hub, id=id)
        self.desk = Desk()
        self._wanted: Edited | None = None
        self._read: ReadCase | None = None
        self._failure = ""
        self._edits = asyncio.Lock()

    def compose(self) -> ComposeResult:
        """What is wrong, the rows, what is known of a set or agent, the box."""
        yield Static(id="case-problem")
        yield OutlineList(self.desk.view, id="case-rows")
        yield LinesView(id="case-facts")
        yield EditorBox()

    def show(self, subject: Subject) -> None:
        """Show what is selected, or what has become of it."""
        wanted = _edited(subject)
        self.set_class(wanted is None, "-plain")
        self.set_class(wanted is not None and wanted.case is None, "-set")
        if wanted is None or wanted.case is None:
            self._show_facts(is_other=wanted != self._wanted)
        is_news = wanted != self._wanted or wanted is None or wanted.case is None or subject.read is not self._read
        self._wanted, self._read = wanted, subject.read
        if wanted is None:
            self.desk.close()
            self._failure = ""
            self._show_desk()
        elif is_news:
            self._reopen()

    def focus_first(self) -> None:
        """What is being typed, else the rows."""
        if self.desk.typing is not None:
            self.query_one(EditorBox).focus_text()
        elif self._wanted is None:
            self.query_one("#case-facts", LinesView).focus()
        else:
            self.query_one(OutlineList).focus()

    def copyable(self) -> str | None:
        """The value of the selected row: a text as it is, anything else as JSON."""
        row = self.desk.row
        if row is None:
            return None
        return row.value if isinstance(row.value, str) else json.dumps(row.value, ensure_ascii=False, indent=2)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002
        """The keys of the rows make sense where there are rows, and nothing is being typed."""
        if action not in _ROW_ACTIONS:
            return True
        box = self.query_one(EditorBox)
        is_typing = self.app.focused is not None and box in self.app.focused.ancestors
        if self.desk.opened is None or is_typing or self.desk.opened.data is None:
            return False
        row = self.desk.row
        return action == "add" if row is None else action != "rename" or row.is_key

    # Reading.

    @work(group="reopen", exclusive=True)
    async def _reopen(self) -> None:
        await self._look_again()

    async def _look_again(self) -> None:
        """Show the case as it is in its document now."""
        wanted = self._wanted
        if wanted is None:
            return
        try:
            opened = await self.hub.gateway.editing.open(wanted, self.desk.opened)
        except StoreError as error:
            if wanted == self._wanted:
                self.desk.close()
                self._failure = str(error)
                self._show_desk()
            return
        if wanted == self._wanted:
            self._failure = ""
            self.desk.open(opened)
            self._show_desk()

    # Showing.

    def _show_desk(self) -> None:
        notes = [self._failure and f"! {self._failure}", *self.desk.notes]
        text = "\n".join(safe(note) for note in notes if note)
        self.query_one("#case-problem", Static).update(Content(text))
        self.set_class(bool(text), "-problem")
        rows = self.query_one(OutlineList)
        is_typing = self.desk.typing is not None
        had_focus = self.query_one(EditorBox).has_focus_within
        self.set_class(is_typing, "-typing")
        if not is_typing and had_focus:
            rows.focus()
        rows.show_view()
        if is_typing and self.desk.was_changed_meanwhile:
            self.query_one(EditorBox).show_problem("this was changed meanwhile; applying replaces it")
        self.refresh_bindings()

    def _show_facts(self, *, is_other: bool) -> None:
        blocks = self.hub.state.detail().blocks

        def lay_out_blocks(width: int) -> list[Line]:
            return lay_out(blocks, width=width, side_by_side=False)

        self.query_one("#case-facts", LinesView).show(lay_out_blocks, from_top=is_other)

    # The rows.

    @on(RowList.Moved, "#case-rows")
    def _on_moved(self, message: RowList.Moved) -> None:
        self.desk.view.move(message.by)
        self._after_cursor()

    @on(RowList.WentTo, "#case-rows")
    def _on_went_to(self, message: RowList.WentTo) -> None:
        self.desk.view.move_to_line(message.index)
        self._after_cursor()

    @on(RowList.Entered, "#case-rows")
    def _on_entered(self) -> None:
        row, opened = self.desk.row, self.desk.opened
        if row is not None and opened is not None:
            self._begin(slot_of(row, opened.data))

    def action_step_turn(self, by: int) -> None:
        """Go to another turn."""
        self.desk.view.step(Kind.TURN, by)
        self._after_cursor()

    def action_edit_json(self) -> None:
        """Edit what the row stands for as JSON."""
        row, opened = self.desk.row, self.desk.opened
        if row is not None and opened is not None:
            self._begin(slot_as_json(row, opened.data))

    def action_delete(self) -> None:
        """Delete what the row stands for."""
        self._edit_row(lambda row, _: removal(row), verb="delete")

    def action_move_row(self, by: int) -> None:
        """Move the row in its list."""
        self._edit_row(lambda row, opened: move(row, opened.data, by=by), verb="move")

    @work(group="ask")
    async def action_duplicate(self) -> None:
        """Repeat an item after itself, or a key under another name."""
        row, opened = self.desk.row, self.desk.opened
        if row is None or opened is None:
            return
        if not row.is_key:
            self._edit_row(lambda row, opened: copy_of_item(row, opened.data), verb="duplicate")
            return
        key = await self._ask_key("The key of the copy", opened, row.place[:-1], value=str(row.place[-1]))
        if key is not None:
            self._edit_row(lambda row, opened: copy_under_key(row, opened.data, key), verb="duplicate")

    @work(group="ask")
    async def action_rename(self) -> None:
        """Give a key of the user's another name."""
        row, opened = self.desk.row, self.desk.opened
        if row is None or opened is None or not row.is_key:
            return
        key = await self._ask_key("The new key", opened, row.place[:-1], value=str(row.place[-1]))
        if key is not None:
            self._edit_row(lambda row, _: RenameKey(row.place, key), verb="rename")

    @work(group="ask")
    async def action_add(self) -> None:
        """Choose what to add, and type it."""
        possible, opened = self.desk.additions(), self.desk.opened
        if not possible or opened is None:
            say(self, "there is nothing to add here")
            return
        index: int | None = 0
        if len(possible) > 1:
            index = await self.app.push_screen_wait(ChooseScreen("Add", [item.label for item in possible]))
        if index is None:
            return
        addition = possible[index]
        slot = addition.slot
        if addition.needs_key:
            key = await self._ask_key(f"The name of the new {addition.label}", opened, slot.place)
            if key is None:
                return
            slot = addition.with_key(key)
        self._begin(slot)

    def action_edit_external(self) -> None:
        """Edit the row in the user's own editor."""
        row, opened = self.desk.row, self.desk.opened
        if row is not None and opened is not None:
            self._edit_outside(self.desk.draft_for_editor(slot_of(row, opened.data)))

    # Typing.

    def _begin(self, slot: Slot) -> None:
        draft = self.desk.begin(slot)
        if draft.is_too_long:
            self.desk.leave()
            say(self, f"more than {MOST_TYPED:,} characters: ctrl+e edits them in $EDITOR", severity="warning")
            return
        self._show_typing()
        self.query_one(EditorBox).focus_text()

    def _show_typing(self) -> None:
        self._show_desk()
        if self.desk.typing is not None:
            self.query_one(EditorBox).show(self.desk.typing)
            self._judge(self.desk.typing)

    @on(EditorBox.Typed)
    def _on_typed(self, message: EditorBox.Typed) -> None:
        draft = self.desk.type(message.text)
        if draft is not None:
            self._judge(draft)

    @on(TypedText.FormWanted)
    def _on_form_wanted(self) -> None:
        self.desk.next_form()
        self._show_typing()

    @on(TypedText.OriginalWanted)
    def _on_original_wanted(self) -> None:
        self.desk.restore()
        self._show_typing()

    @on(TypedText.Left)
    def _on_left(self) -> None:
        if self.desk.leave():
            say(self, "what you typed is kept as a draft (~); enter on its row goes on with it")
        self.query_one(OutlineList).focus()
        self._show_desk()

    @on(TypedText.ApplyWanted)
    def _on_apply_wanted(self, message: TypedText.ApplyWanted) -> None:
        self._apply(then_save=message.then_save)

    @on(TypedText.ExternalWanted)
    def _on_external_wanted(self) -> None:
        draft = self.desk.typing
        if draft is not None:
            self.desk.leave()
            self._edit_outside(draft)

    def _judge(self, draft: Draft) -> None:
        """Say what is wrong with what is typed: by itself at once, in the case as soon as the user pauses."""
        problem = _problem_of(draft)
        if problem is None and self.desk.was_changed_meanwhile:
            problem = "this was changed meanwhile; applying replaces it"
        self.query_one(EditorBox).show_problem(problem or "")
        if problem is None and not draft.is_untouched:
            self._judge_in_case(draft)

    @work(group="judge", exclusive=True)
    async def _judge_in_case(self, draft: Draft) -> None:
        await asyncio.sleep(_CALM)
        opened = self.desk.opened
        if draft != self.desk.typing or opened is None:
            return
        try:
            fault = await self.hub.gateway.editing.fault(opened, draft.slot.edit(draft.value(), opened.data))
        except (StoreError, Outdated, Invalid):
            return  # the same is said when it is applied
        if draft == self.desk.typing and fault is not None:
            self.query_one(EditorBox).show_problem(fault)

    # Editing.

    @work(group="edit")
    async def _apply(self, *, then_save: bool) -> None:
        draft = self.desk.typing
        if draft is None:
            return
        try:
            value = draft.value()
        except Invalid as invalid:
            self.query_one(EditorBox).show_problem(str(invalid))
            return
        if not draft.is_untouched or draft.slot.index is not None or draft.slot.hole is not None:
            problem = await self._put(draft.slot, value)
            if problem is not None:
                self.query_one(EditorBox).show_problem(problem)
                return
        self.desk.leave()
        self._show_desk()
        if then_save:
            await self.run_action("screen.save")

    @work(group="ask")
    async def _edit_outside(self, draft: Draft) -> None:
        """Edit a draft in the user's own editor; where it cannot be applied it is kept."""
        suffix = ".json" if draft.form is Form.JSON else ".txt"
        edited = await edit_text(self.app, draft.text, suffix=suffix, check=lambda text: _problem_of(draft.typed(text)))
        if edited is None:
            self._show_desk()
            return
        draft = draft.typed(edited)
        problem = await self._put(draft.slot, draft.value())
        if problem is not None:
            self.desk.take(draft)
            self._show_desk()
            say(self, f"{problem}; what you typed is kept as a draft", severity="error")

    async def _put(self, slot: Slot, value: object) -> str | None:
        """Put a typed value where it goes; gives what keeps it from that."""
        verb = "change" if slot.index is None and slot.hole is None else "add"
        return await self._make(lambda _, opened: slot.edit(value, opened.data), f"{verb} {slot.title}", slot=slot)

    @work(group="edit")
    async def _edit_row(self, make: Make, *, verb: str) -> None:
        row = self.desk.row
        if row is None:
            return
        problem = await self._make(make, f"{verb} {row.label}", slot=None)
        if problem is not None:
            say(self, problem, severity="warning")

    async def _make(self, make: Make, label: str, *, slot: Slot | None) -> str | None:
        """Make one edit after the other, each of what the one before left; gives what keeps it from being made."""
        async with self._edits:
            opened, row = self.desk.opened, self.desk.row
            if opened is None or (row is None and slot is None):
                return "there is nothing to edit"
            try:
                edit = make(row or _NO_ROW, opened)
                await self.hub.gateway.editing.make(opened, edit, label=safe(label))
            except Outdated:
                await self._look_again()
                return "the file was changed meanwhile; it is shown as it is now: look, and do it again"
            except (Refused, Impossible, StoreError) as error:
                return str(error)
            became = _became(opened, edit)
            self.desk.put(slot, edit, became=became)
            eval_set = opened.subject.eval_set
            if became != opened.subject:
                self._wanted = became
                self.post_message(ProjectChanged(select=became.case))
            else:
                self.post_message(DocumentsChanged(frozenset([eval_set])))
            await self._look_again()
        return None

    async def _ask_key(self, question: str, opened: Opened, place: Place, *, value: str = "") -> str | None:
        taken = keys_beside(opened.data, place)

        def check(key: str) -> str | None:
            if not key:
                return "expected a name"
            return f"there is {key!r} already" if key in taken else None

        key: str | None = await self.app.push_screen_wait(AskScreen(question, value=value, check=check))
        return key

    def _after_cursor(self) -> None:
        self.query_one(OutlineList).show_view()
        self.refresh_bindings()


_ROW_ACTIONS = {"add", "duplicate", "delete", "move_row", "edit_json", "rename", "edit_external", "step_turn"}

_NO_ROW = Row(place=(), kind=Kind.FIELD, depth=0, label="", value=None)
"""Stands in where there are no rows, for edits that need none."""


def _edited(subject: Subject) -> Edited | None:
    """What can be edited of what is selected."""
    key = subject.key
    if key is not None:
        return Edited(key.eval_set, key)
    row = subject.row
    return Edited(row.eval_set, None) if row is not None and row.eval_set else None


def _problem_of(draft: Draft) -> str | None:
    """What is wrong with a draft by itself."""
    try:
        draft.value()
    except Invalid as invalid:
        return str(invalid)
    return None


def _became(opened: Opened, edit: Edit) -> Edited:
    """What is edited after an edit: the same case, by another id where that was changed."""
    case = opened.subject.case
    if case is None or not isinstance(opened.data, dict):
        return opened.subject
    id_key = next((key for key in ("eval_id", "evalId") if key in opened.data), "name")
    if edit.goes_to != (id_key,):
        return opened.subject
    new = edit.in_data(opened.data).get(id_key)
    if not isinstance(new, str) or new == case.eval_id:
        return opened.subject
    key = CaseKey(target=case.target, eval_set=case.eval_set, eval_id=new, occurrence=0)
    return Edited(opened.subject.eval_set, key)
