"""Keys of the pane `history`, and of the screen in which two runs are compared."""

from __future__ import annotations

from workbench.tui.keys.actions import KeyAction, KeyPlace

PLACE = KeyPlace(
    "history",
    "In the history",
    (
        KeyAction(
            "history_mark",
            "history",
            "m",
            "mark",
            "mark",
            footer=True,
            explanation="mark the run under the cursor, to compare another one with it",
        ),
        KeyAction(
            "history_compare",
            "history",
            "=",
            "compare",
            "compare",
            footer=True,
            explanation="compare the run under the cursor with the marked one, or with the one before it",
        ),
        KeyAction(
            "history_table",
            "history",
            "T",
            "open_table",
            "table",
            footer=True,
            explanation="the results of the run under the cursor as a table",
        ),
    ),
)

COMPARING = KeyPlace(
    "comparing",
    "Comparing two runs",
    (
        KeyAction("comparing_flips", "comparing", "f", "toggle_flips", "flips", footer=True,
                  explanation="list only regressions, fixes and flaky cases, or all cases again"),
        KeyAction("comparing_swap", "comparing", "x", "swap", "swap", footer=True,
                  explanation="exchange the earlier and the later run"),
        KeyAction("comparing_close", "comparing", "escape", "close", "back", footer=True,
                  explanation="back to the history"),
    ),
    is_modal=True,
)  # fmt: skip
