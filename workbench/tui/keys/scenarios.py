"""Keys of what a model writes: while it does, and where the user looks through the scenarios."""

from __future__ import annotations

from workbench.tui.keys.actions import KeyAction, KeyPlace

WRITING = KeyPlace(
    "writing",
    "While scenarios are written",
    (KeyAction("writing_stop", "writing", "x", "stop", "stop", footer=True),),
    made_of=(),
    is_modal=True,
)

PLACE = KeyPlace(
    "scenarios",
    "In scenarios that a model has written",
    (
        KeyAction(
            "scenarios_keep",
            "scenarios",
            "x",
            "keep_or_not",
            "keep/leave out",
            footer=True,
            explanation="keep this scenario, or leave it out; so does enter",
        ),
        KeyAction(
            "scenarios_all",
            "scenarios",
            "A",
            "keep_all_or_none",
            "all/none",
            footer=True,
            explanation="keep all scenarios; where all are kept, none",
        ),
        KeyAction(
            "scenarios_edit",
            "scenarios",
            "e,E",
            "edit",
            "edit",
            footer=True,
            explanation="edit this scenario in your own editor ($VISUAL or $EDITOR) before it is kept",
        ),
        KeyAction(
            "scenarios_save",
            "scenarios",
            "ctrl+s,s",
            "save",
            "save",
            footer=True,
            explanation="add the scenarios that are kept to the eval set",
        ),
        KeyAction("scenarios_close", "scenarios", "escape,q", "close", "never mind", footer=True),
    ),
    is_modal=True,
)
