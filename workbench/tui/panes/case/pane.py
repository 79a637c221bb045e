"""The case, to read and to edit: its values as rows, and a box in which one of them is typed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from textual import on, work

from workbench.store.errors import StoreError
from workbench.tui.external_editor import edit_text
from workbench.tui.gateway.editing import Outdated, Refused
from workbench.tui.hub import Hub
from workbench.tui.messages import CaseWanted, DocumentsChanged, ProjectChanged
from workbench.tui.panes.case.draft_keeper import DraftKeeper
from workbench.tui.panes.case.editor_box import EditorBox
from workbench.tui.panes.case.outline_list import OutlineList
from workbench.tui.panes.case.outline_pane import OutlinePane
from workbench.tui.panes.case.typed_text import TypedText
from workbench.tui.screens.ask import AskScreen
from workbench.tui.screens.choose import ChooseScreen
from workbench.tui.state.editor.draft import MOST_TYPED, Draft, Form, Invalid
from workbench.tui.state.editor.opened import Edited, Opened, became
from workbench.tui.state.editor.operations import (
    Edit,
    Impossible,
    RenameKey,
    Slot,
    copy_of_item,
    copy_under_key,
    move,
    problem_of_key,
    removal,
    slot_as_json,
    slot_of,
)
from workbench.tui.state.editor.rows import Kind, Place, Row
from workbench.tui.state.pieces import safe
from workbench.tui.widgets.row_list import RowList
from workbench.tui.widgets.saying import say

_CALM = 0.15  # seconds without a key before what is typed is held against the whole case

_NO_ROW = Row(place=(), kind=Kind.FIELD, depth=0, label="", value=None)
"""Stands in where there are no rows, for edits that need none."""

Make = Callable[[Row, Opened], Edit]
"""Makes an edit of the selected row. Raises Impossible."""


class CasePane(OutlinePane):
    """The rows, and what is done with them: every edit is one step of undo, and unsaved until the user saves."""

    TAB = "Case"
    HELP = (
        "Every value of the case is a row: enter edits it, + adds what makes sense there, u takes the last edit back. "
        "Edits are marked with * until ctrl+s saves them; nothing that cannot be read is ever put into the case. "
        "What is typed and not applied is kept, marked with ~."
    )

    def __init__(self, hub: Hub, *, id: str) -> None:
        super().__init__(hub, id=id)
        self._edits = asyncio.Lock()

    @on(RowList.Entered, "#case-rows")
    def _on_entered(self) -> None:
        row, opened = self.desk.row, self.desk.opened
        if row is None or opened is None:
            return
        slot = slot_of(row, opened.data)
        waiting = self.desk.waiting(slot)
        if waiting:
            self._choose_draft(row, slot, waiting)
        else:
            self._begin_or_choose(slot)

    @work(group="ask")
    async def _choose_draft(self, row: Row, slot: Slot, waiting: Sequence[Draft]) -> None:
        """Go on with what was typed to be added to the row, or edit the row itself."""
        choices = [f"go on with {draft.slot.title}: {draft.text}" for draft in waiting]
        index = await self.app.push_screen_wait(ChooseScreen(row.label, [*choices, f"edit {row.label}"]))
        if index is not None:
            self._begin(waiting[index].slot if index < len(waiting) else slot)

    def _begin_or_choose(self, slot: Slot) -> None:
        if slot.choices:
            self._choose_value(slot)
        else:
            self._begin(slot)

    @work(group="ask")
    async def _choose_value(self, slot: Slot) -> None:
        """Put one of the values there that it may have."""
        labels = [f"{value}: {meaning}" for value, meaning in slot.choices]
        index = await self.app.push_screen_wait(ChooseScreen(slot.title, labels))
        problem = None if index is None else await self._put(slot, slot.choices[index][0])
        if problem is not None:
            say(self, problem, severity="warning")

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
        if row is None or opened is None or not self._may_edit():
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
        if row is None or opened is None or not row.is_key or not self._may_edit():
            return
        key = await self._ask_key("The new key", opened, row.place[:-1], value=str(row.place[-1]))
        if key is not None:
            self._edit_row(lambda row, _: RenameKey(row.place, key), verb="rename")

    @work(group="ask")
    async def action_add(self) -> None:
        """Choose what to add, and type it."""
        if not self._may_edit():
            return
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
        self._begin_or_choose(slot)

    def action_edit_external(self) -> None:
        """Edit the row in the user's own editor."""
        row, opened = self.desk.row, self.desk.opened
        if row is not None and opened is not None and self._may_edit():
            self._edit_outside(self.desk.draft_for_editor(slot_of(row, opened.data)))

    async def may_leave(self) -> bool:
        """Ask what becomes of text that is typed and not applied, where there is any. False where the user stays."""
        unapplied = self.desk.unapplied
        if not unapplied:
            return True
        choices = ["stay, and go on with it", "quit, and keep it for the next start", "quit without it"]
        answer = await self.app.push_screen_wait(ChooseScreen(f"Typed and not applied: {_named(unapplied)}", choices))
        edited = unapplied[0][0]
        if answer == 0 and edited.case is not None:
            self.post_message(CaseWanted(edited.case, tab="case"))
        if answer == 2:
            await self.query_one(DraftKeeper).forget()
        return answer in (1, 2)

    @on(DraftKeeper.Found)
    def _on_drafts_found(self) -> None:
        named = _named(self.desk.unapplied)
        say(self, f"an earlier session kept what was typed and not applied (~): {named}", severity="warning")
        self._show_desk()

    # Typing.

    def _may_edit(self) -> bool:
        """Whether what is open can be edited; says why not."""
        reason = "" if self.desk.opened is None else self.desk.opened.read_only
        if reason:
            say(self, reason, severity="warning")
        return not reason

    def _begin(self, slot: Slot) -> None:
        if not self._may_edit():
            return
        draft = self.desk.begin(slot)
        if draft.is_too_long:
            self.desk.leave()
            say(self, f"more than {MOST_TYPED:,} characters: edit them in $EDITOR (ctrl+e)", severity="warning")
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
        problem = draft.problem
        if problem is None and self.desk.was_changed_meanwhile:
            problem = "this was changed meanwhile; applying replaces it"
        self.query_one(EditorBox).show_problem(problem or "")
        if problem is None and not draft.is_untouched:
            self._judge_in_case(draft)

    # Described in a word: else the whole draft would be made a text of, with every key.
    @work(group="judge", exclusive=True, description="judge")
    async def _judge_in_case(self, draft: Draft) -> None:
        await asyncio.sleep(_CALM)
        opened = self.desk.opened
        if draft != self.desk.typing or opened is None:
            return
        try:
            fault = await self.hub.gateway.editing.fault(opened, draft.slot.edit(draft.value(), opened.data))
        except (StoreError, Outdated, Invalid, Impossible):
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
        if other := self.desk.replaces(draft):
            self.desk.go_on(draft)
            self.query_one(EditorBox).show_problem(f"meanwhile this became {other}: the same key again replaces that")
            return
        if draft.is_new or not draft.is_untouched:
            problem = await self._put(draft.slot, value)
            if problem is not None and self.desk.typing == draft:
                self.query_one(EditorBox).show_problem(problem)
                return
            if problem is not None:
                say(self, f"{problem}; what you typed is kept as a draft", severity="warning")
                return
        if self.desk.typing == draft:
            self.desk.leave()
        self._show_desk()
        if then_save:
            await self.run_action("screen.save")

    @work(group="ask")
    async def _edit_outside(self, draft: Draft) -> None:
        """Edit a draft in the user's own editor; where it cannot be applied it is kept."""
        suffix = ".json" if draft.form is Form.JSON else ".txt"
        edited = await edit_text(self.app, draft.text, suffix=suffix, check=lambda text: draft.typed(text).problem)
        if edited is None:
            self._show_desk()
            return
        draft = draft.typed(edited)
        other = self.desk.replaces(draft)
        problem = f"meanwhile this became {other}" if other else await self._put(draft.slot, draft.value())
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
        meant = self._edited
        async with self._edits:
            opened, row = self.desk.opened, self.desk.row
            if meant is None or opened is None or (row is None and slot is None):
                return "there is nothing to edit"
            if opened.read_only:
                return opened.read_only
            if opened.edited != meant:  # it had to wait, and the user has gone on
                return "something else was selected meanwhile; nothing was changed"
            try:
                edit = make(row or _NO_ROW, opened)
                await self.hub.gateway.editing.make(opened, edit, label=safe(label))
            except Outdated:
                await self._look_again()
                return "the file was changed meanwhile; it is shown as it is now: look, and do it again"
            except (Refused, Impossible, StoreError) as error:
                return str(error)
            now = became(opened, edit)
            self.desk.put(meant, slot, edit, now=now)
            is_still_meant = self._edited == meant
            if now != meant:
                self._edited = now if is_still_meant else self._edited
                self.post_message(ProjectChanged(select=now.case if is_still_meant else None))
            else:
                self.post_message(DocumentsChanged(frozenset([now.eval_set])))
            await self._look_again()
        return None

    async def _ask_key(self, question: str, opened: Opened, place: Place, *, value: str = "") -> str | None:
        def check(key: str) -> str | None:
            return problem_of_key(key, opened.data, place)

        key: str | None = await self.app.push_screen_wait(AskScreen(question, value=value, check=check))
        return key


def _named(drafts: Sequence[tuple[Edited, Draft]]) -> str:
    """What the first of some drafts is of, and how many more there are."""
    edited, draft = drafts[0]
    more = f" and {len(drafts) - 1:,} more" if len(drafts) > 1 else ""
    return f"{edited.case.eval_id if edited.case is not None else edited.eval_set}: {draft.slot.title}{more}"
