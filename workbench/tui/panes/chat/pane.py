"""The pane `chat`."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import BindingType

from workbench.tui.keys import bindings
from workbench.tui.panes.plain import PlainPane


class ChatPane(PlainPane):
    """The pane `chat`."""

    TAB = "Chat"
    PLACES: ClassVar[tuple[str, ...]] = ("chat",)
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("chat")]
