"""The names of the panes in one line, with the one that is open standing out."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from workbench.tui.state.pieces import Line, Piece, Tone
from workbench.tui.widgets.lines import TONE_CLASSES, strip_of


class TabBar(Widget):
    """Tabs, numbered from 1."""

    COMPONENT_CLASSES: ClassVar[set[str]] = TONE_CLASSES

    @dataclass
    class Chosen(Message):
        """The user clicked on the tab with this index."""

        index: int

    def __init__(self, names: Sequence[str], *, id: str) -> None:
        super().__init__(id=id)
        self._labels = [f" {number} {name} " for number, name in enumerate(names, start=1)]
        self._open = 0
        self._marked: Collection[int] = ()

    def show(self, index: int) -> None:
        """Let this tab stand out."""
        self._open = index
        self.refresh()

    def mark(self, indexes: Collection[int]) -> None:
        """Mark these tabs: what is in them is not saved."""
        if indexes != self._marked:
            self._marked = indexes
            self.refresh()

    def render_line(self, y: int) -> Strip:
        """Draw the line."""
        return strip_of(self, self._line if y == 0 else (), width=self.size.width)

    def on_click(self, event: events.Click) -> None:
        """A click opens a tab."""
        end = 0
        for index, piece in enumerate(self._line):
            end += len(piece.text)
            if event.x < end:
                self.post_message(self.Chosen(index))
                return

    @property
    def _line(self) -> Line:
        labels = self._labels
        if sum(map(len, labels)) > self.size.width:  # the number alone says which key opens it
            labels = [label if i == self._open else label[:3] for i, label in enumerate(labels)]
        labels = [f"{label.rstrip()}*" if i in self._marked else label for i, label in enumerate(labels)]
        return tuple(Piece(label, Tone.TAB if i == self._open else Tone.MUTED) for i, label in enumerate(labels))
