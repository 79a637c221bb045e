"""From pieces to what Textual draws. Pieces become segments directly, so no text is ever parsed as markup."""

from __future__ import annotations

from typing import ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip
from textual.widget import Widget

from workbench.tui.state.layout import fit
from workbench.tui.state.pieces import Line, Tone

TONE_CLASSES = {f"tone--{tone.value}" for tone in Tone}
"""The component classes that the stylesheet gives the tones' looks through."""


def strip_of(widget: Widget, line: Line, *, width: int, uniform: Style | None = None) -> Strip:
    """The line as a strip of exactly `width` cells, in the tones of `widget`, or all in the `uniform` style."""
    line = fit(line, width)
    segments = [
        Segment(piece.text, uniform or widget.get_component_rich_style(f"tone--{piece.tone.value}"))
        for piece in line
        if piece.text
    ]
    used = sum(cell_len(piece.text) for piece in line)
    return Strip(segments, used).adjust_cell_length(width, uniform or widget.rich_style)


class StatusLine(Widget):
    """One line of pieces."""

    COMPONENT_CLASSES: ClassVar[set[str]] = TONE_CLASSES

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._line: Line = ()

    def show(self, line: Line) -> None:
        """Replace the line."""
        if line != self._line:
            self._line = line
            self.refresh()

    def render_line(self, y: int) -> Strip:
        """Draw the line."""
        return strip_of(self, self._line if y == 0 else (), width=self.size.width)
