"""An eval set changed on disk while it has unsaved edits: both versions are shown, and the user chooses."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import ClassVar, Literal

from textual import work
from textual.app import ComposeResult
from textual.binding import BindingType

from workbench.engine.set_versions import Versions
from workbench.store.errors import FileChanged, StoreError
from workbench.tui.external_editor import edit_text
from workbench.tui.gateway.documents import Documents
from workbench.tui.keys import dialog_bindings
from workbench.tui.screens.dialog import Dialog
from workbench.tui.screens.versions import VersionsView
from workbench.tui.state.versions import mark_left, merged_text
from workbench.tui.widgets.key_line import KeyLine
from workbench.tui.widgets.saying import say

_MINE = "yours, not saved"
_THEIRS = "on disk"


Decision = Literal["written", "taken"]
"""The file was written, or taken as it is."""


class ConflictScreen(Dialog[Decision | None]):
    """Gives what was decided, None where nothing was. Only the version that was shown is ever written over."""

    HELP: ClassVar[str] = (
        "The eval set was changed by somebody else while it has edits of yours that are not saved. Nothing "
        "is written before you choose."
    )
    CSS_PATH = "documents.tcss"
    PLACES: ClassVar[tuple[str, ...]] = ("conflict",)
    BINDINGS: ClassVar[list[BindingType]] = [*dialog_bindings("conflict")]

    def __init__(self, documents: Documents, eval_set: str) -> None:
        super().__init__()
        self._documents = documents
        self._eval_set = eval_set
        self._versions: Versions | None = None
        self._is_deciding = False

    def compose(self) -> ComposeResult:
        """Both versions and the keys."""
        yield VersionsView(
            f"{self._eval_set} changed on disk while it has unsaved edits. Nothing is written before you choose."
        )
        yield KeyLine()

    def on_mount(self) -> None:
        """Read both versions."""
        self._read()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002
        """There is nothing to take of a file that is gone, and not always a way to have both."""
        if action == "take_theirs":
            return self._versions is None or self._versions.theirs is not None
        return action != "keep_both" or self._both is not None

    def action_keep_mine(self) -> None:
        """Write the edits in place of what is on disk."""
        self._decide(self._write_mine, "written")

    def action_take_theirs(self) -> None:
        """Take what is on disk; undo brings the edits back."""
        self._decide(lambda _: self._documents.reload(self._eval_set), "taken")

    def action_keep_both(self) -> None:
        """Make the edits in what is on disk, and write that."""
        self._decide(self._write_both, "written")

    def action_merge(self) -> None:
        """Make one text of both in the user's editor, and write that."""
        self._decide(self._merge, "written")

    def action_later(self) -> None:
        """Leave it undecided."""
        self.dismiss(None)

    @property
    def _both(self) -> bytes | None:
        """Both versions in one, where that is without question."""
        merge = self._versions.merge if self._versions is not None else None
        return merge.content if merge is not None else None

    @work(group="read")
    async def _read(self) -> None:
        await self._show_versions()

    @work(group="decide")
    async def _decide(self, carry_out: Callable[[Versions], Awaitable[bool | None]], decision: Decision) -> None:
        """Carry out what was chosen; where the file changed yet again, show that version first.

        Nothing is chosen before both versions are shown, nor while a choice is being carried out.
        """
        if self._versions is None or self._is_deciding:
            return
        self._is_deciding = True
        try:
            given_up = await carry_out(self._versions) is False
        except FileChanged:
            say(self, "the file changed again: this is how it is now", severity="warning")
            await self._show_versions()
        except StoreError as error:
            say(self, str(error), severity="error")
        else:
            if not given_up:
                self.dismiss(decision)
        finally:
            self._is_deciding = False

    async def _show_versions(self) -> None:
        try:
            self._versions = await self._documents.versions(self._eval_set)
        except StoreError as error:
            say(self, str(error), severity="error")
            self.dismiss(None)
            return
        self.refresh_bindings()
        await self.query_one(VersionsView).show(self._versions, ours=_MINE, theirs=_THEIRS)

    async def _write_mine(self, versions: Versions) -> None:
        await self._documents.save_over(self._eval_set, versions.theirs)

    async def _write_both(self, versions: Versions) -> None:
        content = self._both
        if content is not None:
            await self._write_merged(content, versions)

    async def _merge(self, versions: Versions) -> bool:
        """False where the user gave up."""
        both = await asyncio.to_thread(merged_text, versions, ours=_MINE, theirs=_THEIRS)
        suffix = "".join(Path(self._eval_set).suffixes[-2:])
        fault_of = await self._documents.look(self._eval_set, lambda document: document.fault_in_file)
        merged = await edit_text(self.app, both, suffix=suffix, check=lambda text: mark_left(text) or fault_of(text))
        if merged is None:
            return False
        await self._write_merged(merged.encode(), versions)
        return True

    async def _write_merged(self, content: bytes, versions: Versions) -> None:
        await self._documents.edit(
            self._eval_set,
            lambda document: document.replace_content(content, label="merge"),
            label="merge with the file on disk",
        )
        await self._documents.save_over(self._eval_set, versions.theirs)
