"""Keys of the plan that is shown before a run."""

from __future__ import annotations

from workbench.tui.keys.actions import KeyAction, KeyPlace

PLACE = KeyPlace(
    "plan",
    "In the plan of a run",
    (
        KeyAction("plan_less", "plan", "left,h", "step(-1)", "less", explanation="a smaller value of the setting"),
        KeyAction("plan_more", "plan", "right,l", "step(1)", "more", explanation="a larger value of the setting"),
        KeyAction("plan_type", "plan", "e", "type_value", "type", explanation="type the value of the setting"),
        KeyAction("plan_criteria", "plan", "c", "criteria", "criteria", explanation="choose what the run is judged by"),
        KeyAction("plan_close", "plan", "escape,n", "close", "not now", explanation="do not run"),
    ),
    made_of=("rows",),
    is_modal=True,
)
