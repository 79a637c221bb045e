"""Keys of the criteria picker."""

from __future__ import annotations

from workbench.tui.keys.actions import KeyAction, KeyPlace

PLACE = KeyPlace(
    "criteria",
    "In the criteria",
    (
        KeyAction(
            "criteria_toggle", "criteria", "space", "switch", "on/off", footer=True, explanation="judge by this metric"
        ),
        KeyAction(
            "criteria_less",
            "criteria",
            "left,h",
            "step(-1)",
            "less",
            explanation="a lower threshold, or the option's previous value",
        ),
        KeyAction(
            "criteria_more",
            "criteria",
            "right,l",
            "step(1)",
            "value",
            footer=True,
            explanation="a higher threshold, or the option's next value",
        ),
        KeyAction(
            "criteria_preset", "criteria", "p", "preset", "preset", footer=True, explanation="criteria for a purpose"
        ),
        KeyAction("criteria_search", "criteria", "slash", "search", "search", footer=True, explanation="find a metric"),
        KeyAction(
            "criteria_reset",
            "criteria",
            "b",
            "reset",
            "as in file",
            footer=True,
            explanation="back to what the file says",
        ),
        KeyAction(
            "criteria_run", "criteria", "r", "run", "run", footer=True, explanation="run with these criteria, this once"
        ),
        KeyAction(
            "criteria_keep", "criteria", "ctrl+s", "keep", "keep", footer=True, explanation="write them into the file"
        ),
        KeyAction(
            "criteria_undo", "criteria", "u", "undo", "undo", footer=True, explanation="take back what was written last"
        ),
        KeyAction(
            "criteria_close", "criteria", "escape", "close", "close", footer=True, explanation="close; the choice stays"
        ),
    ),
    made_of=("rows",),
    is_modal=True,
)
