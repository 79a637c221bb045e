"""The case: its rows, and the text field for a value."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import TypeVar

from textual import on, work
from textual.app import ComposeResult
from textual.content import Content
from textual.geometry import Region
from textual.message import Message
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Static

from workbench.engine.plan import PlanError
from workbench.model.identity import CaseKey
from workbench.model.target import AgentDescription
from workbench.store.errors import StoreError
from workbench.tui.backend.document_calls import (
    EditRefused,
    Outdated,
    find_fault,
    find_known_calls,
    keep_typed_texts,
    make_edit,
    open_edited,
)
from workbench.tui.dialogs.dialogs import AskScreen, ChooseScreen
from workbench.tui.external_editor import edit_text
from workbench.tui.keys import list_actions
from workbench.tui.screen_context import (
    CaseWanted,
    Controller,
    DocumentsChanged,
    Pane,
    ProjectChanged,
    RestingTimer,
    ScreenContext,
    background,
)
from workbench.tui.state.browser_state import LoadedCase, Subject
from workbench.tui.state.call_line import KnownCalls
from workbench.tui.state.case_edits import (
    Edit,
    Impossible,
    RenameKey,
    Slot,
    check_key,
    copy_item,
    copy_under_key,
    find_json_slot,
    find_slot,
    make_move,
    make_removal,
)
from workbench.tui.state.case_outline import Input, OutlineKind, OutlineRow, Place
from workbench.tui.state.editor_state import (
    MOST_TYPED,
    CaseEditor,
    Draft,
    Edited,
    Invalid,
    OpenedDocument,
    TextForm,
    describe_drafts,
    dump_draft,
    find_edited,
    load_draft,
)
from workbench.tui.state.outline_view import OutlineView
from workbench.tui.state.text_layout import safe
from workbench.tui.widgets.inputs import EditorBox, TypedText
from workbench.tui.widgets.key_line import say
from workbench.tui.widgets.row_lists import LinesView, RowList

# Drafts in a file: text that was typed and not applied survives a crash.

_KEEP = 0.25  # seconds between two checks for changed drafts


class DraftKeeper(Controller):
    """Stores the drafts of an editor, and restores those of earlier sessions."""

    class Found(Message):
        """The editor has drafts of an earlier session."""

    def __init__(self, widget: Widget, context: ScreenContext, editor: CaseEditor) -> None:
        super().__init__(widget, context)
        self._editor = editor
        self._kept: list[tuple[Edited, Draft]] = []
        self._is_refused = False
        self._is_given_up = False

    async def forget(self) -> None:
        """Discard all drafts, because the user quits without them."""
        self._is_given_up = True
        await self._keep([])

    async def store(self) -> bool:
        """Store the drafts now, because the user quits. Return False if they cannot be stored."""
        await self._keep(self._editor.unapplied_drafts)
        return not self._is_refused

    @background(group="typed")
    async def start(self) -> None:
        """Show the drafts that earlier sessions left; from then on save those of this session."""
        try:
            texts = await self.backend.call(lambda workspace: workspace.typed_texts.adopt_abandoned())
            found = [load_draft(text) for text in texts]
        except StoreError as error:
            say(self.widget, f"text typed in an earlier session cannot be restored: {error}", severity="error")
            found = []
        drafts = [draft for draft in found if draft is not None]
        if drafts:
            self._editor.keep_recovered(drafts)
            self.post_message(self.Found())
        keeping = RestingTimer(self.widget, _KEEP, self._keep_if_other)
        self._editor.on_drafts_changed = keeping.wake
        keeping.wake()

    def _keep_if_other(self) -> bool:
        drafts = list(self._editor.unapplied_drafts)
        if drafts != self._kept and not self._is_given_up:
            self._kept = drafts
            self._keep_these(drafts)
        return False

    @background(group="typed", exclusive=True)
    async def _keep_these(self, drafts: Sequence[tuple[Edited, Draft]]) -> None:
        await self._keep(drafts)

    async def _keep(self, drafts: Sequence[tuple[Edited, Draft]]) -> None:
        try:
            texts = [dump_draft(edited, draft) for edited, draft in drafts]
            await self.backend.call(lambda workspace: keep_typed_texts(workspace, texts))
        except StoreError as error:
            if not self._is_refused:  # once, not at every key press
                say(self.widget, f"typed text cannot be stored, a crash would lose it: {error}", severity="error")
            self._is_refused = True
        else:
            self._is_refused = False


# The list of rows.


class OutlineList(RowList):
    """Draws the outline for the width of the list. A row may have several lines."""

    class Shifted(Message):
        """The rows are at other places of the screen."""

    def __init__(self, view: OutlineView, *, id: str) -> None:
        super().__init__(id=id)
        self._view = view
        self._is_typed_in = False

    @property
    def shows_focus(self) -> bool:
        """True if the list or the text field in one of its rows has the focus."""
        return self.has_focus or self._is_typed_in

    def show_typing(self, is_typed_in: bool) -> None:
        """Draw the cursor as focused while a text is typed in its row."""
        if is_typed_in != self._is_typed_in:
            self._is_typed_in = is_typed_in
            self.draw_changes()

    def show_view(self) -> None:
        self._view.fit(self.scrollable_content_region.width)
        self.show(self._view)

    def find_field(self, place: Place) -> Region | None:
        """Return where on the screen the value of a row is; None if the row is not visible or has several lines."""
        found, area = self._view.find_field(place), self.scrollable_content_region
        if found is None:
            return None
        line, column = found
        field = Region(area.x + column, area.y + line - self.scroll_offset.y, max(area.width - column, 0), 1)
        return field if area.contains_region(field) else None

    def on_resize(self) -> None:
        self.show_view()
        self.post_message(self.Shifted())

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Report that the rows moved."""
        super().watch_scroll_y(old_value, new_value)
        self.post_message(self.Shifted())


# The selected case or set as rows, without editing, which `CasePane` adds.

_LOW = 8  # lines

_ROW_ACTIONS = list_actions("editor")


class OutlinePane(Pane):
    """The rows of a case or set. For an agent, or without a selection, the known facts."""

    PLACES = ("editor",)

    def __init__(self, context: ScreenContext, *, id: str) -> None:
        super().__init__(context, id=id)
        self.editor = CaseEditor()
        self._edited: Edited | None = None
        self._read: LoadedCase | None = None
        self._failure = ""
        self._was_lost = False
        self._types_in_row = False
        self._descriptions: dict[str, Future[AgentDescription]] = {}  # by target

    def compose(self) -> ComposeResult:
        yield Static(id="case-problem")
        yield OutlineList(self.editor.view, id="case-rows")
        yield LinesView(id="case-facts")
        yield EditorBox()

    def show(self, subject: Subject) -> None:
        """Show the selection in its current state."""
        row = subject.row
        is_kept_set = (
            row is not None
            and row.case is None
            and self.context.state.browser.is_from_history(row.target, row.eval_set)
        )
        wanted = self._edited if self.must_stay else None if is_kept_set else find_edited_subject(subject)
        self.set_class(wanted is None, "-plain")
        self.set_class(wanted is not None and wanted.case is None, "-set")
        if wanted is None or wanted.case is None:
            facts = self.query_one("#case-facts", LinesView)
            facts.show_blocks(self.context.state.detail(), from_top=wanted != self._edited)
        is_news = wanted != self._edited or wanted is None or wanted.case is None or subject.loaded is not self._read
        self._edited, self._read = wanted, subject.loaded
        if wanted is None:
            self.editor.close()
            self._failure = ""
            self._show_editor()
        elif is_news:
            self._reopen()

    def on_resize(self) -> None:
        """Show either the rows or the box on a low screen, which has no room for both."""
        self.set_class(self.size.height < _LOW, "-low")

    def focus_first(self) -> None:
        """Focus the text field while the user types, else the rows or the facts."""
        if self.editor.typing is not None:
            self.query_one(EditorBox).focus_text()
        elif self._edited is None:
            self.query_one("#case-facts", LinesView).focus()
        else:
            self.query_one(OutlineList).focus()

    def find_turn_at_cursor(self) -> int | None:
        place = () if self.editor.row is None else self.editor.row.place
        turn = place[1] if len(place) > 1 and place[0] in ("conversation", "data") else None
        return turn if isinstance(turn, int) else None

    def copyable(self) -> str | None:
        """Return the value of the selected row: a text unchanged, any other value as JSON."""
        row = self.editor.row
        if row is None or row.kind is OutlineKind.GHOST:
            return None
        return row.value if isinstance(row.value, str) else json.dumps(row.value, ensure_ascii=False, indent=2)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002
        """Enable the keys of the rows if there are rows and the user is not typing."""
        if action not in _ROW_ACTIONS:
            return True
        box = self.query_one(EditorBox)
        is_typing = self.app.focused is not None and box in self.app.focused.ancestors
        if self.editor.opened is None or is_typing or self.editor.opened.data is None:
            return False
        row = self.editor.row
        if row is None or row.kind is OutlineKind.GHOST:
            return action in ("add", "step_turn", "accept_case")
        return action != "rename" or row.is_key

    def offers(self, action: str) -> bool:
        """Whether an action is useful for the open case."""
        is_read_only = self.editor.opened is not None and self.editor.opened.read_only
        return action == "step_turn" or action not in _ROW_ACTIONS or not is_read_only

    # Reading.

    @work(group="reopen", exclusive=True)
    async def _reopen(self) -> None:
        await self._reload()

    async def _reload(self) -> None:
        """Read the case from its document again and show it."""
        wanted = self._edited
        if wanted is None:
            return
        try:
            known = self.editor.opened
            opened = await self.context.backend.call(lambda workspace: open_edited(workspace, wanted, known))
        except StoreError as error:
            if wanted == self._edited:
                if not self.must_stay:
                    self.editor.close()
                    self._failure = str(error)
                self._show_editor()
            return
        if wanted == self._edited:
            self._failure = ""
            self.editor.open(opened)
            self._show_editor()
            self._after_opening(opened)

    @property
    def must_stay(self) -> bool:
        """True while the user types for a case or set that is gone, also in another window."""
        focused = self.screen.focused
        return bool(self._describe_loss()) and (focused is None or self.query_one(EditorBox) in focused.ancestors)

    def _describe_loss(self) -> str:
        """Say that the case or set for which a text is typed is gone; empty if it is there, or nothing is typed."""
        opened = self.editor.opened if self.editor.typing is not None else None
        return "" if opened is None else self.context.state.describe_loss(opened.edited.eval_set, opened.edited.case)

    def _find_obstacle(self) -> str:
        """Say what applying the typed text meets; empty if nothing."""
        if loss := self._describe_loss():
            return f"{loss}; {self.context.state.find_key('typing_leave')} keeps your text as a draft"
        return "this value changed meanwhile; applying replaces it" if self.editor.was_changed_meanwhile else ""

    def _after_opening(self, opened: OpenedDocument) -> None:
        """React to a case that was opened, or read again."""

    # Showing.

    def _show_editor(self) -> None:
        notes = [self._failure and f"! {self._failure}", *self.editor.notes]
        text = "\n".join(safe(note) for note in notes if note)
        self.query_one("#case-problem", Static).update(Content(text))
        self.set_class(bool(text), "-problem")
        rows = self.query_one(OutlineList)
        is_typing = self.editor.typing is not None
        had_focus = self.query_one(EditorBox).has_focus_within
        if not is_typing and had_focus:
            rows.focus()
        rows.show_view()
        self._place_box()
        obstacle = self._find_obstacle() if is_typing else ""
        if obstacle or self._was_lost:
            self.query_one(EditorBox).show_problem(obstacle)
        self._was_lost = bool(self._describe_loss())
        self.refresh_bindings()

    @on(OutlineList.Shifted)
    def _place_box(self) -> None:
        """Show the box in the row of its value; from when the text does not fit there, show it below the rows."""
        draft, place, box = self.editor.typing, self.editor.typing_place, self.query_one(EditorBox)
        rows = self.query_one(OutlineList)
        field = rows.find_field(place) if draft is not None and place is not None and self._types_in_row else None
        if draft is not None and field is not None and box.fits(draft, field.width):
            box.place_in(field, rows.scrollable_content_region)
        else:
            field = None
            box.place_below()
        self._types_in_row = field is not None
        self.set_class(draft is not None and field is None, "-typing")
        self.set_class(field is not None, "-typing-in-row")
        rows.show_typing(field is not None)

    # The rows.

    @on(RowList.Moved, "#case-rows")
    def _on_moved(self, message: RowList.Moved) -> None:
        self.editor.view.move(message.by)
        self._after_cursor()

    @on(RowList.WentTo, "#case-rows")
    def _on_line_clicked(self, message: RowList.WentTo) -> None:
        self.editor.view.move_to_line(message.index)
        self._after_cursor()

    def action_step_turn(self, by: int) -> None:
        self.editor.view.step(OutlineKind.TURN, by)
        self._after_cursor()

    def _after_cursor(self) -> None:
        self.query_one(OutlineList).show_view()
        self.refresh_bindings()


def find_edited_subject(subject: Subject) -> Edited | None:
    """Return the case or set that the selection can edit, None for other rows."""
    key = subject.key
    if key is not None:
        return Edited(key.eval_set, key)
    row = subject.row
    return Edited(row.eval_set, None) if row is not None and row.eval_set else None


# Editing: commands on rows, and typed values.

_CALM = 0.15  # seconds without a key before a draft is checked in the whole case

_PATIENCE = 2.0  # seconds for a case to open whose prompt is wanted

_NO_ROW = OutlineRow(place=(), kind=OutlineKind.FIELD, depth=0, label="", value=None)
"""The row for edits that need none, if there are no rows."""

_OTHER_CASE = "another case was selected meanwhile; nothing was changed"

Answer = TypeVar("Answer")
Make = Callable[[OutlineRow, OpenedDocument], Edit]
"""Return an edit of the selected row. Raises Impossible."""


class CasePane(OutlinePane):
    """The rows with their commands. Each edit is one step of undo, and unsaved until the user saves."""

    TAB = "Case"
    HELP = (
        "Every value of the case is a row: enter edits it, + adds a value there, u undoes the last edit. "
        "Edits are marked with * until ctrl+s saves them; a value that makes the case invalid is refused. "
        "Text that is typed and not applied is kept as a draft, marked with ~."
    )

    def __init__(self, context: ScreenContext, *, id: str) -> None:
        super().__init__(context, id=id)
        self._edits = asyncio.Lock()
        self._draft_keeper = DraftKeeper(self, context, self.editor)
        self._prompt_wanted: tuple[CaseKey, bool, float] | None = None  # case, whether to type, until when

    def go_to_prompt(self, case: CaseKey, *, types: bool) -> None:
        """Put the cursor on the first prompt once the case is open. With `types`, begin to edit it.

        A cursor that the user has moved already stays.
        """
        self._prompt_wanted = case, types, time.monotonic() + _PATIENCE
        if self.editor.opened is not None:
            self._after_opening(self.editor.opened)

    def _after_opening(self, opened: OpenedDocument) -> None:
        case, types, until = self._prompt_wanted or (None, False, 0.0)
        if time.monotonic() > until:
            self._prompt_wanted = None
        if self._prompt_wanted is None or opened.edited.case != case:
            return
        self._prompt_wanted = None
        if not self.editor.view.selected_index and self.editor.view.select_prompt():
            self._after_cursor()
            row = self.editor.row
            if types and row is not None and not opened.read_only:
                self._begin(find_slot(row, opened.data))
        self.context.state.is_opening_prompt = False

    def on_mount(self) -> None:
        """Find drafts of earlier sessions."""
        self._draft_keeper.start()

    @on(RowList.Entered, "#case-rows")
    def _on_entered(self) -> None:
        row, opened = self.editor.row, self.editor.opened
        if row is None or opened is None:
            return
        if row.place == self.editor.typing_place:
            self.query_one(EditorBox).focus_text()
            return
        addition = self.editor.find_ghost_addition()
        if addition is not None:
            self._begin_or_choose(addition.slot)
            return
        slot = find_slot(row, opened.data)
        waiting = self.editor.list_drafts(slot)
        if waiting:
            self._choose_draft(row, slot, waiting)
        else:
            self._begin_or_choose(slot)

    @work(group="ask", description="choose draft")
    async def _choose_draft(self, row: OutlineRow, slot: Slot, waiting: Sequence[Draft]) -> None:
        """Let the user continue a draft of the row, or edit the row itself."""
        choices = [f"continue {draft.slot.title}: {draft.text}" for draft in waiting]
        index = await self._ask(ChooseScreen(row.label, [*choices, f"edit {row.label}"]))
        if index is not None:
            self._begin(waiting[index].slot if index < len(waiting) else slot)

    def _begin_or_choose(self, slot: Slot) -> None:
        if slot.choices:
            self._choose_value(slot)
        else:
            self._begin(slot)

    @work(group="ask", description="choose value")
    async def _choose_value(self, slot: Slot) -> None:
        """Let the user choose one of the possible values."""
        labels = [f"{value}: {meaning}" for value, meaning in slot.choices]
        index = await self._ask(ChooseScreen(slot.title, labels))
        problem = None if index is None else await self._put(slot, slot.choices[index][0])
        if problem is not None:
            say(self, problem, severity="warning")

    def action_edit_json(self) -> None:
        row, opened = self.editor.row, self.editor.opened
        if row is not None and opened is not None:
            self._begin(find_json_slot(row, opened.data))

    def action_delete(self) -> None:
        self._edit_row(lambda row, _: make_removal(row), verb="delete", done="deleted {row}; {undo} undoes it")

    def action_move_row(self, by: int) -> None:
        self._edit_row(lambda row, opened: make_move(row, opened.data, by=by), verb="move")

    @work(group="ask")
    async def action_duplicate(self) -> None:
        row, opened = self.editor.row, self.editor.opened
        if row is None or opened is None or not self._may_edit():
            return
        if not row.is_key:
            self._edit_row(lambda row, opened: copy_item(row, opened.data), verb="duplicate")
            return
        key = await self._ask_key("The key of the copy", opened, row.place[:-1], value=str(row.place[-1]))
        if key is not None:
            self._edit_row(lambda row, opened: copy_under_key(row, opened.data, key), verb="duplicate")

    @work(group="ask")
    async def action_rename(self) -> None:
        row, opened = self.editor.row, self.editor.opened
        if row is None or opened is None or not row.is_key or not self._may_edit():
            return
        key = await self._ask_key("The new key", opened, row.place[:-1], value=str(row.place[-1]))
        if key is not None:
            self._edit_row(lambda row, _: RenameKey(row.place, key), verb="rename")

    @work(group="ask")
    async def action_add(self) -> None:
        if not self._may_edit():
            return
        possible, opened = self.editor.list_additions(), self.editor.opened
        if not possible or opened is None:
            say(self, "nothing can be added here")
            return
        index: int | None = 0
        if len(possible) > 1:
            index = await self._ask(ChooseScreen("Add", [item.label for item in possible]))
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
        row, opened = self.editor.row, self.editor.opened
        if row is not None and opened is not None and self._may_edit():
            self._edit_outside(self.editor.draft_for_editor(find_slot(row, opened.data)))

    async def may_leave(self) -> bool:
        """Ask what to do with unapplied drafts, if there are any. Return False if the user stays."""
        unapplied = self.editor.unapplied_drafts
        if not unapplied:
            return True
        choices = ["stay and continue", "quit and keep it for the next start", "quit and discard it"]
        answer = await self.app.push_screen_wait(
            ChooseScreen(f"Typed and not applied: {describe_drafts(unapplied)}", choices)
        )
        edited = unapplied[0][0]
        if answer == 0 and edited.case is not None:
            self.post_message(CaseWanted(edited.case, tab="case"))
        if answer == 1:
            return await self._draft_keeper.store()
        if answer == 2:
            await self._draft_keeper.forget()
        return answer == 2

    @on(DraftKeeper.Found)
    def _on_drafts_found(self) -> None:
        drafts, state = self.editor.unapplied_drafts, self.context.state
        case = drafts[0][0].case
        is_gone = case is not None and state.board.get_record(case) is None
        rest = f"; the case is gone, {state.find_key('quit')} offers to discard the text" if is_gone else ""
        named = f"{describe_drafts(drafts)}{rest}"
        say(self, f"typed in an earlier session, not applied (~): {named}", severity="warning")
        self._show_editor()

    # Typing.

    def _may_edit(self) -> bool:
        """Whether the open case can be edited. If not, show the reason."""
        reason = "" if self.editor.opened is None else self.editor.opened.read_only
        if reason:
            say(self, reason, severity="warning")
        return not reason

    def _begin(self, slot: Slot) -> None:
        if not self._may_edit():
            return
        draft = self.editor.begin(slot)
        if draft.is_too_long:
            self.editor.stop_typing()
            key = self.context.state.find_key("editor_external")
            say(self, f"more than {MOST_TYPED:,} characters: edit them in $EDITOR ({key})", severity="warning")
            return
        if slot.input is Input.CALL:
            self._find_known_calls()
        elif self._edited is not None and self._edited.case is not None and self._edited.case.target:
            self._describe_early(self._edited.case.target)
        self._types_in_row = slot.input is not Input.JSON
        self._show_typing()
        self.query_one(EditorBox).focus_text()

    @work(group="known-calls", exclusive=True)
    async def _find_known_calls(self) -> None:
        """Find what can complete a call: the calls of this set, the tools of its agent, then those of other agents."""
        opened = self.editor.opened
        if opened is None:
            return
        edited, backend = opened.edited, self.context.backend
        sets, target = self.context.state.browser.file_sets, "" if edited.case is None else edited.case.target
        own = dict.fromkeys([edited.eval_set, *(each.relative for each in sets if target and each.target == target)])
        others = [each.relative for each in sets if each.relative not in own]
        known = await backend.call(lambda workspace: find_known_calls(workspace, target, list(own), others))
        foreign, known.others = known.others, None  # they come after the tools of the case's own agent
        self._complete_by(known)
        if target:
            if not known.tools:
                say(self, f"reading the tools of {target} …")
            with contextlib.suppress(PlanError, StoreError):  # a run of the case says why
                described = await asyncio.wrap_future(await self._describe(target))
                known.add_data([tool for agent in described.agents for tool in agent.tools])
        known.others = foreign
        self._complete_by(known)

    async def _describe(self, target: str) -> Future[AgentDescription]:
        """Begin to describe an agent, unless that is under way."""
        known = self._descriptions.get(target)
        if known is None or known.done():
            known = await self.context.backend.call(lambda workspace: workspace.start_describing(target))
            self._descriptions[target] = known
        return known

    @work(group="describe", description="describe")
    async def _describe_early(self, target: str) -> None:
        """Import an agent while the user types a prompt: its tools complete the calls that follow."""
        with contextlib.suppress(PlanError, StoreError):
            await self._describe(target)

    def _complete_by(self, known: KnownCalls) -> None:
        if self.editor.typing is not None:
            self.query_one(EditorBox).show_known_calls(known)

    def _show_typing(self) -> None:
        if self.editor.typing is not None:
            self.query_one(EditorBox).show(self.editor.typing)
        self._show_editor()
        if self.editor.typing is not None:
            self._judge(self.editor.typing)

    @on(EditorBox.Typed)
    def _on_typed(self, message: EditorBox.Typed) -> None:
        draft = self.editor.set_text(message.text)
        if draft is not None:
            self._place_box()
            self._judge(draft)

    @on(TypedText.Commanded)
    def _on_commanded(self, message: TypedText.Commanded) -> None:
        match message.command:
            case "form":
                self.editor.next_form()
                self._show_typing()
            case "original":
                self.editor.restore()
                self._show_typing()
            case "external":
                draft = self.editor.typing
                if draft is not None:
                    self.editor.stop_typing()
                    self._edit_outside(draft)
            case "leave":
                if not self._describe_loss() and self.editor.stop_typing():
                    say(self, "your text is kept as a draft (~); enter on its row continues it")
                self.query_one(OutlineList).focus()
                self._show_editor()

    def on_descendant_blur(self) -> None:
        """Show the selection when the user leaves the text of a case that is gone."""
        opened, loss = self.editor.opened, self._describe_loss()
        if opened is not None and loss and not self.must_stay:
            if self.editor.stop_typing():
                say(self, f"{loss}; the text that you typed in it is kept as a draft (~)", severity="warning")
            self.post_message(DocumentsChanged(frozenset([opened.edited.eval_set])))

    async def action_accept_case(self) -> None:
        await self.run_action("screen.accept_case")

    @on(TypedText.ApplyWanted)
    def _on_apply_wanted(self, message: TypedText.ApplyWanted) -> None:
        self._apply(then=message.then)

    def _judge(self, draft: Draft) -> None:
        """Show errors of the typed text: its own at once, those in the case when the user pauses."""
        self.query_one(EditorBox).show_problem(problem := draft.problem or self._find_obstacle())
        if not problem and not draft.is_untouched:
            self._judge_in_case(draft)

    # Without a description, Textual would format the whole draft at every key.
    @work(group="judge", exclusive=True, description="judge")
    async def _judge_in_case(self, draft: Draft) -> None:
        await asyncio.sleep(_CALM)
        opened = self.editor.opened
        if draft != self.editor.typing or opened is None:
            return
        try:
            edit = draft.slot.edit(draft.value(), opened.data)
            fault = await self.context.backend.call(lambda workspace: find_fault(workspace, opened, edit))
        except (StoreError, Outdated, Invalid, Impossible):
            return  # applying the draft shows the same error
        if draft == self.editor.typing and fault is not None:
            self.query_one(EditorBox).show_problem(fault)

    # Editing.

    @work(group="edit", description="apply")
    async def _apply(self, *, then: str) -> None:
        draft = self.editor.typing
        if draft is None or self._describe_loss():
            return
        try:
            value = draft.value()
        except Invalid as invalid:
            self.query_one(EditorBox).show_problem(str(invalid))
            return
        if other := self.editor.describe_replaced(draft):
            self.editor.confirm_replacing(draft)
            self.query_one(EditorBox).show_problem(
                f"this value changed to {other}: press the same key again to replace it"
            )
            return
        if draft.is_new or not draft.is_untouched:
            problem = await self._put(draft.slot, value)
            if problem is not None and self.editor.typing == draft:
                self.query_one(EditorBox).show_problem(problem)
                return
            if problem is not None:
                say(self, f"{problem}; your text is kept as a draft", severity="warning")
                return
        if self.editor.typing == draft:
            self.editor.stop_typing()
        self._show_editor()
        if then:
            await self.run_action(f"screen.{then}")

    @work(group="ask", description="edit outside")
    async def _edit_outside(self, draft: Draft) -> None:
        """Edit a draft in the user's own editor. A draft that cannot be applied is kept."""
        suffix = ".json" if draft.form is TextForm.JSON else ".txt"
        meant = self._edited
        text = await edit_text(self.app, draft.text, suffix=suffix, check=lambda text: draft.with_text(text).problem)
        if text is None or meant is None:
            self._show_editor()
            return
        draft = draft.with_text(text)
        if self._edited != meant:
            problem: str | None = self.context.state.describe_loss(meant.eval_set, meant.case) or _OTHER_CASE
        elif other := self.editor.describe_replaced(draft):
            problem = f"this value changed to {other}"
        else:
            problem = await self._put(draft.slot, draft.value())
        if problem is not None:
            self.editor.keep_draft(meant, draft)
            self._show_editor()
            say(self, f"{problem}; your text is kept as a draft", severity="error")

    async def _put(self, slot: Slot, value: object) -> str | None:
        """Write a typed value into its slot. Return the reason if it is refused."""
        verb = "change" if slot.index is None and slot.hole is None else "add"
        return await self._make(lambda _, opened: slot.edit(value, opened.data), f"{verb} {slot.title}", slot=slot)

    @work(group="edit", description="edit row")
    async def _edit_row(self, make: Make, *, verb: str, done: str = "") -> None:
        row = self.editor.row
        if row is None:
            return
        problem = await self._make(make, f"{verb} {row.label}", slot=None)
        if problem is not None:
            say(self, problem, severity="warning")
        elif done:
            say(self, done.format(row=row.label, undo=self.context.state.find_key("undo")))

    async def _make(self, make: Make, label: str, *, slot: Slot | None) -> str | None:
        """Apply edits one after the other, each to the result of the last. Return the reason if the edit is refused."""
        meant = self._edited
        async with self._edits:
            opened, row = self.editor.opened, self.editor.row
            if meant is None or opened is None or (row is None and slot is None):
                return "nothing is open to edit"
            if opened.read_only:
                return opened.read_only
            if opened.edited != meant:  # the edit had to wait, and the user selected another case
                return _OTHER_CASE
            try:
                edit = make(row or _NO_ROW, opened)
                await self.context.backend.edit(lambda workspace: make_edit(workspace, opened, edit, label=safe(label)))
            except Outdated:
                await self._reload()
                loss = self.context.state.describe_loss(meant.eval_set, meant.case)
                return loss or "the file was changed meanwhile; its new content is shown: check it and repeat the edit"
            except (EditRefused, Impossible, StoreError) as error:
                return str(error)
            now = find_edited(opened, edit)
            self.editor.record_edit(meant, slot, edit, now=now)
            is_still_meant = self._edited == meant
            if now != meant:
                self._edited = now if is_still_meant else self._edited
                self.post_message(ProjectChanged(select=now.case if is_still_meant else None))
            else:
                self.post_message(DocumentsChanged(frozenset([now.eval_set])))
            await self._reload()
        return None

    async def _ask_key(self, question: str, opened: OpenedDocument, place: Place, *, value: str = "") -> str | None:
        def check(key: str) -> str | None:
            return check_key(key, opened.data, place)

        return await self._ask(AskScreen(question, value=value, check=check))

    async def _ask(self, dialog: Screen[Answer | None]) -> Answer | None:
        """Ask about the open case. Return None also if another case was selected meanwhile."""
        meant = self._edited
        answer: Answer | None = await self.app.push_screen_wait(dialog)
        if answer is None or self._edited == meant:
            return answer
        say(self, _OTHER_CASE, severity="warning")
        return None
