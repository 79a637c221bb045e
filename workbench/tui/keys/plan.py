"""Keys of the plan that is shown before a run."""

from __future__ import annotations

from workbench.tui.keys.actions import KeyAction, KeyPlace

PLACE = KeyPlace(
    "plan",
    "In the plan of a run",
    (
        KeyAction(
            "plan_less", "plan", "left,h", "step(-1)", "less", footer=True, explanation="a smaller value of the setting"
        ),
        KeyAction(
            "plan_more", "plan", "right,l", "step(1)", "more", footer=True, explanation="a larger value of the setting"
        ),
        KeyAction(
            "plan_type", "plan", "e", "type_value", "type", footer=True, explanation="type the value of the setting"
        ),
        KeyAction(
            "plan_criteria",
            "plan",
            "c",
            "criteria",
            "criteria",
            footer=True,
            explanation="choose what the run is judged by",
        ),
        KeyAction("plan_close", "plan", "escape,n", "close", "not now", footer=True, explanation="do not run"),
    ),
    made_of=("rows",),
    is_modal=True,
)
