"""Keys of the whole application."""

from __future__ import annotations

from workbench.tui.keys.actions import KeyAction, KeyPlace

PLACE = KeyPlace(
    "app",
    "Everywhere",
    (
        KeyAction("help", "app", "question_mark", "help", "help", footer=True, explanation="what can be done here"),
        KeyAction("palette", "app", "ctrl+p", "command_palette", "palette", footer=True, priority=True),
        KeyAction("quit", "app", "q", "quit", "quit", footer=True, explanation="close workbench"),
        KeyAction("suspend", "app", "ctrl+z", "suspend_process", "back to the shell; fg returns"),
    ),
)
