"""The pane `problems`."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import BindingType

from workbench.tui.keys import bindings
from workbench.tui.panes.plain import PlainPane


class ProblemsPane(PlainPane):
    """The pane `problems`."""

    TAB = "Problems"
    PLACES: ClassVar[tuple[str, ...]] = ("problems",)
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("problems")]
