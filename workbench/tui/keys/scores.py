"""Keys of the pane `scores`."""

from __future__ import annotations

from workbench.tui.keys.actions import KeyAction, KeyPlace

PLACE = KeyPlace(
    "scores",
    "In the scores",
    (
        KeyAction(
            "scores_open",
            "scores",
            "right,l",
            "open_row",
            "open",
            footer=True,
            explanation="read about the criterion; in a set, list its worst cases, or go to the case",
        ),
        KeyAction(
            "scores_judge",
            "scores",
            "J",
            "judge_again",
            "judge again",
            explanation="ask the judges anew about the case, without running the agent, and say how far they agree",
        ),
    ),
)
