"""Keys of small dialogs, of help, and of lines in which one writes what to look for."""

from __future__ import annotations

from workbench.tui.keys.actions import KeyAction, KeyPlace

CONFIRM = KeyPlace(
    "confirm",
    "In a question",
    (
        KeyAction("confirm_yes", "confirm", "y,enter", "answer(True)", "yes", footer=True),
        KeyAction("confirm_no", "confirm", "n,escape,q", "answer(False)", "no", footer=True),
    ),
    made_of=(),
    is_modal=True,
)

CHOOSE = KeyPlace(
    "choose",
    "In a choice",
    (KeyAction("choose_cancel", "choose", "escape,q", "cancel", "never mind", footer=True),),
    made_of=("rows",),
    is_modal=True,
)

ASK = KeyPlace(
    "ask",
    "In a question that is answered in writing",
    (KeyAction("ask_cancel", "ask", "escape", "cancel", "never mind", footer=True),),
    made_of=(),
    is_modal=True,
)

HELP = KeyPlace(
    "help",
    "In this help",
    (KeyAction("help_close", "help", "escape,q", "close", "close", footer=True),),
    made_of=("lines",),
    is_modal=True,
)

FINDING = KeyPlace(
    "finding",
    "While writing what to look for",
    (
        KeyAction("finding_done", "finding", "enter,down", "submit", "done", footer=True),
        KeyAction("finding_leave", "finding", "escape", "leave", "list all", footer=True),
    ),
    made_of=(),
    is_modal=True,
)
