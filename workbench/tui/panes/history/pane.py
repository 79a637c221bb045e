"""The pane `history`."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import BindingType

from workbench.tui.keys import bindings
from workbench.tui.panes.plain import PlainPane


class HistoryPane(PlainPane):
    """The pane `history`."""

    TAB = "History"
    PLACES: ClassVar[tuple[str, ...]] = ("history",)
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("history")]
