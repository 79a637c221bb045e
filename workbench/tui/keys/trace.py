"""Keys of the pane `trace`."""

from __future__ import annotations

from workbench.tui.keys.actions import KeyPlace

PLACE = KeyPlace("trace", "In the trace", ())
