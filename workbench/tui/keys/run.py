"""Keys of the pane `run`."""

from __future__ import annotations

from workbench.tui.keys.actions import KeyAction, KeyPlace

PLACE = KeyPlace(
    "run",
    "In the run",
    (
        KeyAction(
            "run_stop_case",
            "run",
            "d,delete,X",
            "stop_case",
            "stop case",
            footer=True,
            explanation="stop the selected case, running or waiting; the others go on",
        ),
        KeyAction(
            "run_again",
            "run",
            "plus",
            "run_again",
            "again",
            footer=True,
            explanation="queue the selected case again, or all that went wrong in the selected way",
        ),
    ),
    made_of=("rows",),
)
