"""Keys of the pane `problems`."""

from __future__ import annotations

from workbench.tui.keys.actions import KeyAction, KeyPlace

PLACE = KeyPlace(
    "problems",
    "In the problems",
    (
        KeyAction(
            "problems_open_file",
            "problems",
            "F",
            "open_file",
            "file in editor",
            footer=True,
            explanation="open the file of the problem in your editor, at its line",
        ),
    ),
)
