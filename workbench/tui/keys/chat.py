"""Keys of the pane `chat`."""

from __future__ import annotations

from workbench.tui.keys.actions import KeyPlace

PLACE = KeyPlace("chat", "In the chat", ())
