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

_LEAST_NAME = 4
"""Characters of a name below which it says nothing."""


class TabBar(Widget):
    """Tabs, numbered from 1."""

    COMPONENT_CLASSES: ClassVar[set[str]] = TONE_CLASSES

    @dataclass
    class Chosen(Message):
        """The user clicked on the tab with this index."""

        index: int

    def __init__(self, names: Sequence[str], *, id: str) -> None:
        super().__init__(id=id)
        self._names = list(names)
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
        labels = labels_for(self._names, open_index=self._open, marked=self._marked, width=self.size.width)
        return tuple(Piece(label, Tone.TAB if i == self._open else Tone.MUTED) for i, label in enumerate(labels))


def labels_for(names: Sequence[str], *, open_index: int, marked: Collection[int], width: int) -> list[str]:
    """What stands on the tabs: all of the names, else less of them, and where that is no help numbers alone.

    The number says which key opens a tab; the name of the one that is open is always whole.
    """
    marks = ["*" if index in marked else "" for index in range(len(names))]
    for least in range(max(map(len, names)), _LEAST_NAME - 1, -1):
        shown = [name if i == open_index else name[:least] for i, name in enumerate(names)]
        for gap in (" ", ""):
            labels = [f" {i} {name}{mark or gap}" for i, (name, mark) in enumerate(zip(shown, marks, strict=True), 1)]
            if sum(map(len, labels)) <= width:
                return labels
    numbers = [f" {i} {name}" if i - 1 == open_index else f" {i}" for i, name in enumerate(names, 1)]
    return [f"{label}{mark or ' '}" for label, mark in zip(numbers, marks, strict=True)]
