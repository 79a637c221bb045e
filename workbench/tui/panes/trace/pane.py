"""The pane `trace`."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import BindingType

from workbench.tui.keys import bindings
from workbench.tui.panes.plain import PlainPane


class TracePane(PlainPane):
    """The pane `trace`."""

    TAB = "Trace"
    PLACES: ClassVar[tuple[str, ...]] = ("trace",)
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("trace")]
