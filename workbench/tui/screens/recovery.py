"""Unsaved edits that an earlier session left: restored, looked at, thrown away, or left for later."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static

from workbench.engine.documents import FoundEdits
from workbench.store.errors import StoreError
from workbench.tui.gateway.documents import Documents
from workbench.tui.keys import dialog_bindings
from workbench.tui.screens.confirm import ConfirmScreen
from workbench.tui.screens.dialog import Dialog
from workbench.tui.screens.versions import VersionsScreen
from workbench.tui.state.pieces import safe_line
from workbench.tui.state.recovery import RecoveryList
from workbench.tui.widgets.key_line import KeyLine
from workbench.tui.widgets.lines_view import LinesView
from workbench.tui.widgets.row_list import RowList
from workbench.tui.widgets.saying import say


class RecoveryScreen(Dialog[Sequence[str]]):
    """Gives the eval sets whose edits were restored."""

    HELP: ClassVar[str] = (
        "Edits that an earlier session did not save. Restoring brings them back as unsaved edits; throwing "
        "them away leaves the file as it is."
    )
    CSS_PATH = "documents.tcss"
    PLACES: ClassVar[tuple[str, ...]] = ("recovery",)
    BINDINGS: ClassVar[list[BindingType]] = [*dialog_bindings("recovery")]

    def __init__(self, documents: Documents, found: Sequence[FoundEdits]) -> None:
        super().__init__()
        self._documents = documents
        self._list = RecoveryList(found, datetime.now().astimezone())
        self._restored: list[str] = []

    def compose(self) -> ComposeResult:
        """What was found, what of it is selected, and the keys."""
        with Vertical(classes="dialog recovery"):
            yield Static(Content("An earlier session ended with unsaved edits. They have been kept:"))
            yield RowList(id="recovery-list")
            yield LinesView(id="recovery-detail")
        yield KeyLine()

    def on_mount(self) -> None:
        """Show the list."""
        rows = self.query_one(RowList)
        rows.add_class("recovery-list")
        self.query_one(LinesView).add_class("recovery-detail")
        rows.focus()
        self._show()

    @on(RowList.Steered)
    def _on_steered(self, message: RowList.Steered) -> None:
        message.steer(self._list)
        self._show()

    @on(RowList.Entered)
    def _on_entered(self) -> None:
        self.action_look()

    @work(group="recovery")
    async def action_restore(self) -> None:
        """Take up the selected edits, unsaved."""
        selected = self._list.selected
        if selected is None:
            return
        try:
            self._restored.append(await self._documents.restore(selected.recovery))
        except StoreError as error:
            say(self, str(error), severity="error")
            return
        self._decided()

    @work(group="recovery")
    async def action_look(self) -> None:
        """Show how the selected edits differ from the file."""
        selected = self._list.selected
        if selected is None:
            return
        try:
            versions = await self._documents.recovered_versions(selected.recovery)
        except StoreError as error:
            say(self, str(error), severity="error")
            return
        title = f"{selected.eval_set}: the unsaved edits beside the file as it is"
        self.app.push_screen(VersionsScreen(title, versions, ours="unsaved edits", theirs="on disk"))

    @work(group="recovery")
    async def action_discard(self) -> None:
        """Throw the selected edits away, after asking."""
        selected = self._list.selected
        if selected is None:
            return
        question = f"Throw away the unsaved edits of {safe_line(selected.eval_set)}? They cannot be had back."
        if not await self.app.push_screen_wait(ConfirmScreen(question)):
            return
        try:
            await self._documents.discard(selected.recovery)
        except StoreError as error:
            say(self, str(error), severity="error")
            return
        self._decided()

    def action_later(self) -> None:
        """Leave what is left for later."""
        self.dismiss(self._restored)

    def _decided(self) -> None:
        self._list.remove_selected()
        if len(self._list):
            self._show()
        else:
            self.dismiss(self._restored)

    def _show(self) -> None:
        rows = self.query_one(RowList)
        rows.styles.height = min(len(self._list), 12)
        rows.show(self._list)
        self.query_one(LinesView).show_blocks(self._list.detail(), from_top=True)
