"""Keys of the pane `problems`."""

from __future__ import annotations

from workbench.tui.keys.actions import KeyPlace

PLACE = KeyPlace("problems", "In the problems", ())
