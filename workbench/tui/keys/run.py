"""Keys of the pane `run`."""

from __future__ import annotations

from workbench.tui.keys.actions import KeyPlace

PLACE = KeyPlace("run", "In the run", ())
