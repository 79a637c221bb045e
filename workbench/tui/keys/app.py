"""Keys of the whole application."""

from __future__ import annotations

from workbench.tui.keys.actions import KeyAction, KeyPlace

HELP = KeyAction(
    "help", "app", "question_mark,f1", "app.help", "help", footer=True, explanation="what can be done here"
)
"""Heard in dialogs too, which hear no other key of the application."""

QUIT = KeyAction("quit", "app", "q", "quit", "quit", footer=True, explanation="close workbench")

PLACE = KeyPlace(
    "app",
    "Everywhere",
    (
        HELP,
        KeyAction(
            "palette",
            "app",
            "ctrl+p",
            "command_palette",
            "palette",
            footer=True,
            priority=True,
            explanation="choose from everything that can be done here",
        ),
        QUIT,
        KeyAction("suspend", "app", "ctrl+z", "suspend_process", "back to the shell; fg returns"),
    ),
)
