"""Keys of the pane `diff`."""

from __future__ import annotations

from workbench.tui.keys.actions import KeyPlace

PLACE = KeyPlace("diff", "In the diff", ())
