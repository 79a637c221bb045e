"""Keys of the case editor: on its rows, and while a value is typed."""

from __future__ import annotations

from workbench.tui.keys.actions import KeyAction, KeyPlace

PLACE = KeyPlace(
    "editor",
    "In the case",
    (
        KeyAction(
            "editor_add",
            "editor",
            "plus,i",
            "add",
            "add",
            footer=True,
            explanation="add something to the row, after it, or to what it is in: a turn, a call, an argument, …",
        ),
        KeyAction("editor_duplicate", "editor", "d", "duplicate", "duplicate", footer=True),
        KeyAction("editor_delete", "editor", "D,delete", "delete", "delete", footer=True),
        KeyAction(
            "editor_move_down", "editor", "J,alt+down", "move_row(1)", "move down", explanation="move the row down"
        ),
        KeyAction("editor_move_up", "editor", "K,alt+up", "move_row(-1)", "move up", explanation="move the row up"),
        KeyAction(
            "editor_json",
            "editor",
            "b",
            "edit_json",
            "as JSON",
            footer=True,
            explanation="edit what the row stands for as JSON: all arguments of a call, a turn, a state",
        ),
        KeyAction(
            "editor_rename", "editor", "m", "rename", "rename", explanation="give an argument or key another name"
        ),
        KeyAction(
            "editor_external", "editor", "ctrl+e", "edit_external", "$EDITOR", explanation="edit the row in $EDITOR"
        ),
        KeyAction("editor_next_turn", "editor", "}", "step_turn(1)", "next turn"),
        KeyAction("editor_previous_turn", "editor", "{", "step_turn(-1)", "previous turn"),
    ),
)

TYPING = KeyPlace(
    "typing",
    "While a value is typed",
    (
        KeyAction(
            "typing_apply",
            "typing",
            "ctrl+j,ctrl+enter",
            "apply",
            "apply",
            footer=True,
            explanation="put what is typed into the case; on a single line enter does so too",
        ),
        KeyAction(
            "typing_form", "typing", "ctrl+t", "next_form", "type", footer=True, explanation="another type of value"
        ),
        KeyAction("typing_original", "typing", "ctrl+o", "original", "as it was", footer=True),
        KeyAction("typing_external", "typing", "ctrl+e", "external", "$EDITOR", footer=True),
        KeyAction("typing_save", "typing", "ctrl+s", "apply_and_save", "apply and save the set"),
        KeyAction(
            "typing_leave",
            "typing",
            "escape",
            "leave",
            "leave",
            footer=True,
            explanation="back to the rows; what is typed is kept as a draft",
        ),
    ),
    is_modal=True,
)
