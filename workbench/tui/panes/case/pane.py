"""The pane `case`."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import BindingType

from workbench.tui.keys import bindings
from workbench.tui.panes.plain import PlainPane


class CasePane(PlainPane):
    """The pane `case`."""

    TAB = "Case"
    PLACES: ClassVar[tuple[str, ...]] = ("editor",)
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("editor")]
