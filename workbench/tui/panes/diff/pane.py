"""The pane `diff`."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import BindingType

from workbench.tui.keys import bindings
from workbench.tui.panes.plain import PlainPane


class DiffPane(PlainPane):
    """The pane `diff`."""

    TAB = "Diff"
    PLACES: ClassVar[tuple[str, ...]] = ("diff",)
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("diff")]
