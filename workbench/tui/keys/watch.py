"""Keys of the pane `watch`."""

from __future__ import annotations

from workbench.tui.keys.actions import KeyAction, KeyPlace

PLACE = KeyPlace(
    "watch",
    "In the watch",
    (
        KeyAction(
            "watch_open_file",
            "watch",
            "F",
            "open_file",
            "file in editor",
            footer=True,
            explanation="open the file that cannot be compiled in your editor, at its line",
        ),
    ),
    made_of=("rows",),
)
