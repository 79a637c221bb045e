"""What is selected, as rows: read, shown, and moved in. `CasePane` adds the editing."""

from __future__ import annotations

import json
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content
from textual.widgets import Static

from workbench.store.errors import StoreError
from workbench.tui.hub import Hub
from workbench.tui.keys import bindings
from workbench.tui.panes.case.draft_keeper import DraftKeeper
from workbench.tui.panes.case.editor_box import EditorBox
from workbench.tui.panes.case.outline_list import OutlineList
from workbench.tui.panes.pane import Pane
from workbench.tui.state.editor.desk import Desk
from workbench.tui.state.editor.opened import Edited
from workbench.tui.state.editor.rows import Kind
from workbench.tui.state.pieces import safe
from workbench.tui.state.subject import ReadCase, Subject
from workbench.tui.widgets.lines_view import LinesView
from workbench.tui.widgets.row_list import RowList

_LOW = 8  # lines

_ROW_ACTIONS = {"add", "duplicate", "delete", "move_row", "edit_json", "rename", "edit_external", "step_turn"}


class OutlinePane(Pane):
    """A case, or what a set says of itself, row by row; for agents, and where nothing is selected, what is known."""

    PLACES: ClassVar[tuple[str, ...]] = ("editor",)
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("editor")]

    def __init__(self, hub: Hub, *, id: str) -> None:
        super().__init__(hub, id=id)
        self.desk = Desk()
        self._edited: Edited | None = None
        self._read: ReadCase | None = None
        self._failure = ""

    def compose(self) -> ComposeResult:
        """What is wrong, the rows, what is known of a set or agent, the box."""
        yield Static(id="case-problem")
        yield OutlineList(self.desk.view, id="case-rows")
        yield LinesView(id="case-facts")
        yield EditorBox()
        yield DraftKeeper(self.hub.gateway.typed_texts, self.desk)

    def show(self, subject: Subject) -> None:
        """Show what is selected, or what has become of it."""
        row = subject.row
        is_kept_set = row is not None and row.case is None and self.hub.state.browser.is_kept(row.target, row.eval_set)
        wanted = None if is_kept_set else _edited_of(subject)
        self.set_class(wanted is None, "-plain")
        self.set_class(wanted is not None and wanted.case is None, "-set")
        if wanted is None or wanted.case is None:
            self._show_facts(is_other=wanted != self._edited)
        is_news = wanted != self._edited or wanted is None or wanted.case is None or subject.read is not self._read
        self._edited, self._read = wanted, subject.read
        if wanted is None:
            self.desk.close()
            self._failure = ""
            self._show_desk()
        elif is_news:
            self._reopen()

    def on_resize(self) -> None:
        """On the lowest screens there is room for the rows or for the box, not for both."""
        self.set_class(self.size.height < _LOW, "-low")

    def focus_first(self) -> None:
        """What is being typed, else the rows."""
        if self.desk.typing is not None:
            self.query_one(EditorBox).focus_text()
        elif self._edited is None:
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

    def offers(self, action: str) -> bool:
        """Whether an action has a use for what is open."""
        return action == "step_turn" or action not in _ROW_ACTIONS or not self._is_read_only

    @property
    def _is_read_only(self) -> bool:
        return self.desk.opened is not None and bool(self.desk.opened.read_only)

    # Reading.

    @work(group="reopen", exclusive=True)
    async def _reopen(self) -> None:
        await self._look_again()

    async def _look_again(self) -> None:
        """Show the case as it is in its document now."""
        wanted = self._edited
        if wanted is None:
            return
        try:
            opened = await self.hub.gateway.editing.open(wanted, self.desk.opened)
        except StoreError as error:
            if wanted == self._edited:
                self.desk.close()
                self._failure = str(error)
                self._show_desk()
            return
        if wanted == self._edited:
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
        self.query_one("#case-facts", LinesView).show_blocks(self.hub.state.detail(), from_top=is_other)

    # The rows.

    @on(RowList.Moved, "#case-rows")
    def _on_moved(self, message: RowList.Moved) -> None:
        self.desk.view.move(message.by)
        self._after_cursor()

    @on(RowList.WentTo, "#case-rows")
    def _on_went_to(self, message: RowList.WentTo) -> None:
        self.desk.view.move_to_line(message.index)
        self._after_cursor()

    def action_step_turn(self, by: int) -> None:
        """Go to another turn."""
        self.desk.view.step(Kind.TURN, by)
        self._after_cursor()

    def _after_cursor(self) -> None:
        self.query_one(OutlineList).show_view()
        self.refresh_bindings()


def _edited_of(subject: Subject) -> Edited | None:
    """What can be edited of what is selected."""
    key = subject.key
    if key is not None:
        return Edited(key.eval_set, key)
    row = subject.row
    return Edited(row.eval_set, None) if row is not None and row.eval_set else None
