"""The detail of a step: names of the ways to look at it, and the lines of the one that is chosen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.binding import BindingType
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from workbench.tui.keys import bindings
from workbench.tui.state.pieces import Line, Piece, Tone
from workbench.tui.state.trace.detail import DetailTab, SpanDetail
from workbench.tui.widgets.lines import TONE_CLASSES, strip_of
from workbench.tui.widgets.lines_view import LinesView


class DetailTabs(Widget):
    """The ways to look at a step, the chosen one standing out."""

    COMPONENT_CLASSES: ClassVar[set[str]] = TONE_CLASSES

    @dataclass
    class Chosen(Message):
        """The user clicked on a way."""

        tab: DetailTab

    def __init__(self) -> None:
        super().__init__()
        self._open = DetailTab.EVENT

    def show(self, tab: DetailTab) -> None:
        """Let this one stand out."""
        if tab is not self._open:
            self._open = tab
            self.refresh()

    def render_line(self, y: int) -> Strip:
        """Draw the line."""
        return strip_of(self, self._line if y == 0 else (), width=self.size.width)

    def on_click(self, event: events.Click) -> None:
        """A click chooses."""
        end = 0
        for tab, piece in zip(DetailTab, self._line, strict=False):
            end += len(piece.text)
            if event.x < end:
                self.post_message(self.Chosen(tab))
                return

    @property
    def _line(self) -> Line:
        # Brackets too, so that it shows without colours.
        names = [f"[{tab}]" if tab is self._open else f" {tab} " for tab in DetailTab]
        tones = [Tone.STRONG if tab is self._open else Tone.MUTED for tab in DetailTab]
        return (*(Piece(name, tone) for name, tone in zip(names, tones, strict=True)), Piece("  d next", Tone.MUTED))


class DetailView(LinesView):
    """The lines, with a cursor on what can be opened and folded."""

    PLACES: ClassVar[tuple[str, ...]] = ("trace_detail", "lines")
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("trace_detail")]

    def __init__(self, detail: SpanDetail, *, id: str) -> None:
        super().__init__(id=id)
        self._detail = detail
        self._at = 0

    def show_detail(self, *, from_top: bool) -> None:
        """Lay out the detail as it is now."""
        if from_top:
            self._at = 0
        self.show(self._detail.lay_out, from_top=from_top)
        self._put_cursor(self._at, in_sight=not from_top and self.has_focus)

    def go_to(self, line: int) -> None:
        """Put the cursor on a line."""
        self._put_cursor(line, in_sight=True)

    def scroll_to_text(self, text: str) -> None:
        """Put the cursor on the first line that has a text in it, whatever its case."""
        wanted = text.casefold()
        lines = ("".join(piece.text for piece in self.lines[index]) for index in range(len(self.lines)))
        self.go_to(next((place for place, line in enumerate(lines) if wanted in line.casefold()), 0))

    def action_scroll_up(self) -> None:
        """One line up."""
        self.go_to(self._at - 1)

    def action_scroll_down(self) -> None:
        """One line down."""
        self.go_to(self._at + 1)

    def action_page_up(self) -> None:
        """A screenful up."""
        self.go_to(self._at - max(self.scrollable_content_region.height - 1, 1))

    def action_page_down(self) -> None:
        """A screenful down."""
        self.go_to(self._at + max(self.scrollable_content_region.height - 1, 1))

    def action_scroll_home(self) -> None:
        """To the first line."""
        self.go_to(0)

    def action_scroll_end(self) -> None:
        """To the last line."""
        self.go_to(len(self.lines) - 1)

    def action_open(self) -> None:
        """Open or fold what is on the line, or show more of it."""
        if self._detail.toggle(self._at):
            self.show_detail(from_top=False)

    def action_fold(self) -> None:
        """Fold what the line belongs to, and go there."""
        line = self._detail.fold(self._at)
        if line is not None:
            self._at = line
            self.show_detail(from_top=False)

    def on_focus(self) -> None:
        """The cursor shows where the keys go."""
        self._put_cursor(self._at, in_sight=True)

    def on_blur(self) -> None:
        """Without the focus there is no cursor."""
        self._put_cursor(self._at, in_sight=False)

    def on_click(self, event: events.Click) -> None:
        """A click puts the cursor on a line, a second one opens what is there."""
        offset = event.get_content_offset(self)
        if offset is None:
            return
        self.go_to(offset.y + self.scroll_offset.y)
        if event.chain > 1:
            self.action_open()

    def _put_cursor(self, line: int, *, in_sight: bool) -> None:
        self._at = min(max(line, 0), max(len(self.lines) - 1, 0))
        self._cursor = self._at if self.has_focus else None
        if in_sight:
            self.bring_into_sight(self._at)
        self.refresh()
