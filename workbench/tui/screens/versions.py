"""Two versions of an eval set: to look at, or to choose from."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static

from workbench.engine.set_versions import Versions
from workbench.tui.keys import dialog_bindings
from workbench.tui.screens.dialog import Dialog
from workbench.tui.state.blocks import Block
from workbench.tui.state.layout import SIDE_BY_SIDE_FROM, lay_out
from workbench.tui.state.pieces import Line, safe
from workbench.tui.state.versions import version_blocks
from workbench.tui.widgets.key_line import KeyLine
from workbench.tui.widgets.lines_view import LinesView


class VersionsView(Vertical):
    """A sentence, and below it what differs: side by side where the screen is wide enough."""

    def __init__(self, title: str) -> None:
        super().__init__()
        self._title = title

    def compose(self) -> ComposeResult:
        """The sentence and the lines."""
        yield Static(Content(safe(self._title)), classes="versions-title")
        yield LinesView()

    async def show(self, versions: Versions, *, ours: str, theirs: str) -> None:
        """Compare the versions, which are called so, and show what differs."""
        self.show_blocks(await asyncio.to_thread(version_blocks, versions, ours=ours, theirs=theirs))

    def show_blocks(self, blocks: tuple[Block, ...]) -> None:
        """Show these blocks."""

        def lay_out_blocks(width: int) -> list[Line]:
            return lay_out(blocks, width=width, side_by_side=self.screen.size.width >= SIDE_BY_SIDE_FROM)

        self.query_one(LinesView).show(lay_out_blocks, from_top=True)
        self.query_one(LinesView).focus()


class VersionsScreen(Dialog[None]):
    """Shows what differs between two versions."""

    CSS_PATH = "documents.tcss"
    PLACES: ClassVar[tuple[str, ...]] = ("versions",)
    BINDINGS: ClassVar[list[BindingType]] = [*dialog_bindings("versions")]

    def __init__(self, title: str, versions: Versions, *, ours: str, theirs: str) -> None:
        super().__init__()
        self._title = title
        self._versions = versions
        self._ours = ours
        self._theirs = theirs

    def compose(self) -> ComposeResult:
        """The versions and the keys."""
        yield VersionsView(self._title)
        yield KeyLine()

    def on_mount(self) -> None:
        """Compare them."""
        self._compare()

    def action_close(self) -> None:
        """Close."""
        self.dismiss(None)

    @work(group="versions")
    async def _compare(self) -> None:
        await self.query_one(VersionsView).show(self._versions, ours=self._ours, theirs=self._theirs)
