"""The pane `scores`."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import BindingType

from workbench.tui.keys import bindings
from workbench.tui.panes.plain import PlainPane


class ScoresPane(PlainPane):
    """The pane `scores`."""

    TAB = "Scores"
    PLACES: ClassVar[tuple[str, ...]] = ("scores",)
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("scores")]
