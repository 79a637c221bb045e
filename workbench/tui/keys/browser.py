"""Keys of the eval sets."""

from __future__ import annotations

from workbench.tui.keys.actions import KeyAction, KeyPlace

PLACE = KeyPlace(
    "list",
    "In the eval sets",
    (
        KeyAction(
            "filter",
            "list",
            "slash",
            "filter",
            "filter",
            footer=True,
            explanation="list only cases with a text in their id",
        ),
        KeyAction("list_fold", "list", "left,h", "fold", "fold, or go up"),
        KeyAction("list_unfold", "list", "right,l", "unfold", "unfold, or go in"),
        KeyAction("list_toggle", "list", "space", "toggle_fold", "fold or unfold"),
    ),
    made_of=("rows",),
)
