"""A diff on the screen: a line that says where one is, and the lines of both sides."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.containers import Vertical

from workbench.engine.accepting import Hunk
from workbench.tui.state.diff.content import diff_of
from workbench.tui.state.diff.layout import DiffLines, lay_out_diff
from workbench.tui.state.diff.source import DiffContent, DiffSource
from workbench.tui.state.diff.view import DiffState, is_large
from workbench.tui.state.layout import SIDE_BY_SIDE_FROM
from workbench.tui.state.pieces import Piece, Tone
from workbench.tui.widgets.clickable_lines import ClickableLines
from workbench.tui.widgets.lines import StatusLine

_Shape = tuple[int, bool]  # a width in cells, and whether both sides stand side by side
_WAIT = DiffLines([(Piece("comparing …", Tone.MUTED),)], [None])


class DiffView(Vertical):
    """Shows one source after the other. A large one is compared and laid out beside the event loop."""

    PLACES: ClassVar[tuple[str, ...]] = ()

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self.state = DiffState()
        self._lines = DiffLines()
        self._laid_out: tuple[DiffContent, _Shape] | None = None
        self._wanted: DiffSource | None = None
        self._about: object = None
        self._goes_to_end = False

    def compose(self) -> ComposeResult:
        """Where one is, and the lines."""
        yield StatusLine(id="diff-status")
        yield ClickableLines(id="diff-lines")

    def show(self, source: DiffSource, *, about: object) -> None:
        """Show a diff; the place in it stays where it is `about` the same as before."""
        wanted = self.state.wants(source) or self.state.source
        if wanted == self._wanted:
            return
        self._wanted, self._about = wanted, about
        if wanted == self.state.source:  # another one was about to come in its place
            self.workers.cancel_group(self, "compare")
            self._take(self.state.source, self.state.content)
        elif is_large(wanted):
            self._compare(wanted)
        else:
            self.workers.cancel_group(self, "compare")
            self._take(wanted, diff_of(wanted))

    def step(self, by: int) -> bool:
        """Go to the next difference, or the one before; False where there is none."""
        moved = self.state.step(by)
        self._show_cursor()
        return moved

    def cycle_level(self) -> None:
        """Show more or less of what is as expected."""
        self.state.cycle_level()
        self.show(self.state.source, about=self._about)

    def focus_lines(self) -> None:
        """Put the focus on the lines."""
        self.query_one(ClickableLines).focus()

    @property
    def current(self) -> Hunk | None:
        """The difference that the cursor is on; None while another diff is about to come in place of the one shown."""
        return self.state.current if self._wanted is self.state.source else None

    @on(ClickableLines.Clicked)
    def _on_clicked(self, message: ClickableLines.Clicked) -> None:
        message.stop()
        owner = self._lines.owners[message.line] if message.line < len(self._lines) else None
        if owner is not None and self.state.go_to(owner):
            self._show_cursor()

    # A worker is described by its arguments as text unless told otherwise, which takes long for a long session.
    @work(group="compare", exclusive=True, description="compare")
    async def _compare(self, source: DiffSource) -> None:
        self.query_one(ClickableLines).show(lambda _: _WAIT, from_top=True)
        content = await asyncio.to_thread(diff_of, source)
        width = self.query_one(ClickableLines).scrollable_content_region.width
        if width:
            await self._lay_out(content, self._shape(width))
        self._take(source, content)

    def _take(self, source: DiffSource, content: DiffContent) -> None:
        view = self.query_one(ClickableLines)
        # Whoever looks at the end of a conversation goes on doing so while it grows.
        grows = source.is_scenario and (source.is_live or self.state.source.is_live)
        at_end = grows and (self._goes_to_end or view.scroll_offset.y >= view.max_scroll_y)
        stays = self.state.take(source, content, about=self._about)
        self._wanted = source
        view.show(self._lines_for, from_top=not stays)
        self._show_cursor(scroll=stays)
        if stays and at_end:
            self._goes_to_end = True
            self.call_after_refresh(self._go_to_end)  # the scroll bar may only be about to come

    def _go_to_end(self) -> None:
        self._goes_to_end = False
        self.query_one(ClickableLines).scroll_end(animate=False, immediate=True)

    def _shape(self, width: int) -> _Shape:
        return width, self.screen.size.width >= SIDE_BY_SIDE_FROM

    def _lines_for(self, width: int) -> DiffLines:
        """The lines for a width; of a large diff they come a moment later."""
        content, shape = self.state.content, self._shape(width)
        if not self._has(content, shape):
            if is_large(self.state.source):
                self._lay_out_again(content, shape)
                return _WAIT
            self._keep(content, shape, lay_out_diff(content, width=width, side_by_side=shape[1]))
        return self._lines.with_cursor(self.state.cursor)

    @work(group="lay-out", exclusive=True, description="lay out")
    async def _lay_out_again(self, content: DiffContent, shape: _Shape) -> None:
        await self._lay_out(content, shape)
        self._show_cursor()

    async def _lay_out(self, content: DiffContent, shape: _Shape) -> None:
        width, side_by_side = shape
        lines = await asyncio.to_thread(lay_out_diff, content, width=width, side_by_side=side_by_side)
        self._keep(content, shape, lines)

    def _has(self, content: DiffContent, shape: _Shape) -> bool:
        return self._laid_out is not None and self._laid_out[0] is content and self._laid_out[1] == shape

    def _keep(self, content: DiffContent, shape: _Shape, lines: DiffLines) -> None:
        self._laid_out, self._lines = (content, shape), lines

    def _show_cursor(self, *, scroll: bool = True) -> None:
        """Mark the difference under the cursor, bring it into sight, and tell of it above."""
        self.query_one(StatusLine).show(self.state.status())
        view = self.query_one(ClickableLines)
        view.show(self._lines_for, from_top=False)
        span = None if self.state.cursor is None else self._lines.span_of(self.state.cursor)
        if span is not None and scroll:
            view.bring_into_sight(span[1])
            view.bring_into_sight(span[0])
