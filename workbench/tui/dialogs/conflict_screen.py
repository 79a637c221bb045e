"""Dialogs for conflicts with the file on disk, recovery of unsaved edits, and comparison of two versions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import ClassVar, Literal

from textual import on, work
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static

from workbench.engine.open_documents import FoundEdits
from workbench.engine.set_files import Versions
from workbench.store.errors import FileChanged, StoreError
from workbench.tui.backend.backend import Backend
from workbench.tui.dialogs.dialogs import ConfirmScreen, Dialog
from workbench.tui.external_editor import edit_text
from workbench.tui.state.diff_state import find_merge_mark, merged_text, version_blocks
from workbench.tui.state.finder import FilteredRows
from workbench.tui.state.problem_list import RecoveryList
from workbench.tui.state.text_layout import SIDE_BY_SIDE_FROM, Block, Line, render_blocks, safe, safe_line
from workbench.tui.widgets.inputs import Filtering, FilterLine
from workbench.tui.widgets.key_line import KeyLine, report_errors, say
from workbench.tui.widgets.row_lists import LinesView, RowList

# Comparison of two versions of an eval set.


class VersionsView(Vertical):
    """A title and the differences of two versions, side by side if the screen is wide enough."""

    def __init__(self, title: str) -> None:
        super().__init__()
        self._title = title

    def compose(self) -> ComposeResult:
        yield Static(Content(safe(self._title)), classes="versions-title")
        yield LinesView()

    def set_title(self, title: str) -> None:
        self.query_one(Static).update(Content(safe(title)))

    async def show(self, versions: Versions, *, ours: str, theirs: str) -> None:
        """Show the differences. `ours` and `theirs` are the headings of the versions."""
        self.show_blocks(await asyncio.to_thread(version_blocks, versions, ours=ours, theirs=theirs))

    def show_blocks(self, blocks: tuple[Block, ...]) -> None:
        """Show blocks from the top, and focus them."""

        def lay_out_blocks(width: int) -> list[Line]:
            return render_blocks(blocks, width=width, side_by_side=self.screen.size.width >= SIDE_BY_SIDE_FROM)

        self.query_one(LinesView).show(lay_out_blocks, from_top=True)
        self.query_one(LinesView).focus()


class VersionsScreen(Dialog[None]):
    """Dialog with the differences of two versions."""

    CSS_PATH = "documents.tcss"
    PLACES = ("versions",)

    def __init__(self, title: str, versions: Versions) -> None:
        super().__init__()
        self._title = title
        self._versions = versions

    def compose(self) -> ComposeResult:
        yield VersionsView(self._title)
        yield KeyLine()

    def on_mount(self) -> None:
        self._compare()

    @work(group="versions")
    async def _compare(self) -> None:
        await self.query_one(VersionsView).show(self._versions, ours="unsaved edits", theirs=_THEIRS)


# Conflict of unsaved edits with a change on disk: the user sees both versions and chooses.

_MINE = "yours, unsaved"
_THEIRS = "on disk"

Decision = Literal["written", "taken"]
"""The file was overwritten with the edits, or its content replaced the edits."""


class ConflictScreen(Dialog[Decision | None]):
    """Dialog that resolves a conflict. The result is the decision, or None if the user postponed it.

    It overwrites the file only if its content is the version that the user saw.
    """

    HELP: ClassVar[str] = (
        "Another program changed or deleted the eval set while it has unsaved edits. "
        "Nothing is written before you choose."
    )
    CSS_PATH = "documents.tcss"
    PLACES = ("conflict",)

    def __init__(self, backend: Backend, eval_set: str) -> None:
        super().__init__()
        self._backend = backend
        self._eval_set = eval_set
        self._versions: Versions | None = None
        self._is_deciding = False

    def compose(self) -> ComposeResult:
        yield VersionsView(self._title)
        yield KeyLine()

    def on_mount(self) -> None:
        """Read both versions."""
        self._read()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002
        """Disable taking or merging a deleted file, and keeping both versions if they have no automatic merge.

        Before both versions are shown, there is nothing to decide about.
        """
        if action in ("keep_mine", "take_theirs", "merge") and self._versions is None:
            return False
        if action in ("take_theirs", "merge"):
            return not self._is_deleted
        return action != "keep_both" or self._both is not None

    def action_keep_mine(self) -> None:
        self._decide(self._write_mine, "written")

    def action_take_theirs(self) -> None:
        self._decide(self._reload, "taken")

    def action_keep_both(self) -> None:
        self._decide(self._write_both, "written")

    def action_merge(self) -> None:
        self._decide(self._merge, "written")

    @property
    def _is_deleted(self) -> bool:
        return self._versions is not None and self._versions.theirs is None

    @property
    def _title(self) -> str:
        change = "was deleted" if self._is_deleted else "changed on disk"
        return f"{self._eval_set} {change} while it has unsaved edits. Nothing is written before you choose."

    @property
    def _both(self) -> bytes | None:
        """Content of the automatic merge; None without a merge."""
        merge = self._versions.merge if self._versions is not None else None
        return merge.content if merge is not None else None

    @work(group="read")
    async def _read(self) -> None:
        await self._show_versions()

    @work(group="decide", description="decide")
    async def _decide(self, carry_out: Callable[[Versions], Awaitable[bool | None]], decision: Decision) -> None:
        """Carry out a decision. If the file changed again, show the new version instead.

        Do nothing while another decision is carried out.
        """
        if self._versions is None or self._is_deciding:
            return
        self._is_deciding = True
        try:
            given_up = await carry_out(self._versions) is False
        except FileChanged:
            await self._show_versions()
            change = "was deleted meanwhile" if self._is_deleted else "changed again; this is the new version"
            say(self, f"the file {change}", severity="warning")
        except StoreError as error:
            say(self, str(error), severity="error")
        else:
            if not given_up:
                self.dismiss(decision)
        finally:
            self._is_deciding = False

    async def _show_versions(self) -> None:
        try:
            self._versions = await self._backend.call(lambda workspace: workspace.documents.versions(self._eval_set))
        except StoreError as error:
            say(self, str(error), severity="error")
            self.dismiss(None)
            return
        self.refresh_bindings()
        view = self.query_one(VersionsView)
        view.set_title(self._title)
        await view.show(self._versions, ours=_MINE, theirs=_THEIRS)

    async def _reload(self, _: Versions) -> None:
        await self._backend.edit(lambda workspace: workspace.documents.reload(self._eval_set))

    async def _write_mine(self, versions: Versions) -> None:
        await self._backend.edit(
            lambda workspace: workspace.documents.overwrite_version(self._eval_set, versions.theirs)
        )

    async def _write_both(self, versions: Versions) -> None:
        content = self._both
        if content is not None:
            await self._write_merged(content, versions)

    async def _merge(self, versions: Versions) -> bool:
        """Merge in the user's editor; return False if the user cancelled."""
        both = await asyncio.to_thread(merged_text, versions, ours=_MINE, theirs=_THEIRS)
        suffix = "".join(Path(self._eval_set).suffixes[-2:])
        fault_of = await self._backend.call(
            lambda workspace: workspace.documents.document(self._eval_set).find_fault_in_file
        )
        merged = await edit_text(
            self.app, both, suffix=suffix, check=lambda text: find_merge_mark(text) or fault_of(text)
        )
        if merged is None:
            return False
        await self._write_merged(merged.encode(), versions)
        return True

    async def _write_merged(self, content: bytes, versions: Versions) -> None:
        await self._backend.edit(
            lambda workspace: workspace.documents.edit(
                self._eval_set,
                lambda document: document.replace_content(content, label="merge"),
                label="merge with the file on disk",
            )
        )
        await self._write_mine(versions)


# Recovery of unsaved edits of an earlier session.


class RecoveryScreen(Dialog[Sequence[str]], Filtering):
    """Dialog that restores or discards unsaved edits. The result is the eval sets with restored edits."""

    HELP: ClassVar[str] = (
        "Edits that an earlier session did not save. Restoring brings them back as unsaved edits; discarding them "
        "leaves the file unchanged."
    )
    CSS_PATH = "documents.tcss"
    PLACES = ("recovery",)

    def __init__(self, backend: Backend, found: Sequence[FoundEdits]) -> None:
        super().__init__()
        self._backend = backend
        self._list = RecoveryList(found, datetime.now().astimezone())
        self.listed = FilteredRows(self._list)
        self._restored: list[str] = []

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog recovery"):
            yield Static(Content("An earlier session ended with unsaved edits. They are stored:"))
            yield FilterLine("letters of an eval set", self.follow_text)
            yield RowList(id="recovery-list")
            yield LinesView(id="recovery-detail")
        yield KeyLine()

    def on_mount(self) -> None:
        rows = self.query_one(RowList)
        rows.add_class("recovery-list")
        self.query_one(LinesView).add_class("recovery-detail")
        rows.focus()
        self.show_rows()

    @on(RowList.Entered)
    def _on_entered(self) -> None:
        self.action_look()

    @work(group="recovery")
    async def action_restore(self) -> None:
        selected = self._list.selected_row
        if selected is None:
            return
        with report_errors(self):
            self._restored.append(
                await self._backend.edit(lambda workspace: workspace.documents.restore(selected.recovery))
            )
            self._remove_decided()

    @work(group="recovery")
    async def action_look(self) -> None:
        selected = self._list.selected_row
        if selected is None:
            return
        with report_errors(self):
            versions = await self._backend.call(
                lambda workspace: workspace.documents.recovered_versions(selected.recovery)
            )
            title = f"{selected.eval_set}: the unsaved edits and the file on disk"
            self.app.push_screen(VersionsScreen(title, versions))

    @work(group="recovery")
    async def action_discard(self) -> None:
        selected = self._list.selected_row
        if selected is None:
            return
        question = f"Discard the unsaved edits of {safe_line(selected.eval_set)}? This cannot be undone."
        if not await self.app.push_screen_wait(ConfirmScreen(question)):
            return
        with report_errors(self):
            await self._backend.call(lambda workspace: workspace.documents.discard(selected.recovery))
            self._remove_decided()

    def cancel(self) -> object:
        """Close the dialog. The remaining edits stay recoverable."""
        return self.dismiss(self._restored)

    def _remove_decided(self) -> None:
        self._list.remove_selected()
        self.listed.refresh()
        if len(self._list):
            self.show_rows()
        else:
            self.dismiss(self._restored)

    def show_rows(self) -> None:
        rows = self.query_one(RowList)
        rows.styles.height = min(len(self._list), 12)
        rows.show(self.listed)
        self.query_one(LinesView).show_blocks(self._list.detail(), from_top=True)
