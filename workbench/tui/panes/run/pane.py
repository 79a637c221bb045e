"""The pane `run`."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import BindingType

from workbench.tui.keys import bindings
from workbench.tui.panes.plain import PlainPane


class RunPane(PlainPane):
    """The pane `run`."""

    TAB = "Run"
    PLACES: ClassVar[tuple[str, ...]] = ("run",)
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("run")]
