"""Keys of the pane `history`."""

from __future__ import annotations

from workbench.tui.keys.actions import KeyPlace

PLACE = KeyPlace("history", "In the history", ())
