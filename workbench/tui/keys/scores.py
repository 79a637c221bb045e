"""Keys of the pane `scores`."""

from __future__ import annotations

from workbench.tui.keys.actions import KeyPlace

PLACE = KeyPlace("scores", "In the scores", ())
