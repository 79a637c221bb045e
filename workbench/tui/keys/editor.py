"""Keys of the pane `editor`."""

from __future__ import annotations

from workbench.tui.keys.actions import KeyPlace

PLACE = KeyPlace("editor", "In the case", ())
