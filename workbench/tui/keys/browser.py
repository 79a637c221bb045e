"""Keys of the eval sets."""

from __future__ import annotations

from workbench.tui.keys.actions import KeyAction, KeyPlace


def _key(name: str, keys: str, description: str, explanation: str = "", *, action: str = "") -> KeyAction:
    return KeyAction(f"list_{name}", "list", keys, action or name, description, explanation=explanation)


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
            explanation="list only cases with a text in id, user messages or tool names; status:, tool: and is: too",
        ),
        _key(
            "status", "F", "next status filter", "list only failing, passed, not run, stale, marked, or again all cases"
        ),
        _key("sort", "S", "next order", "sort the cases: as in the file, by id, worst, slowest or newest first"),
        _key("fold", "left,h", "fold, or go up"),
        _key("unfold", "right,l", "unfold, or go in"),
        _key("mark", "space", "mark", "mark the case, or all that is listed of the set or agent; again: unmark"),
        _key("mark_range", "M", "mark to here", "mark every case from the last mark to the cursor"),
        _key("mark_listed", "plus,A", "mark all", "mark every listed case; again: unmark them"),
        _key("clear_marks", "minus", "clear marks"),
        _key("new_case", "N", "new case", "add a case behind the selected one"),
        _key("new_set", "ctrl+n", "new eval set"),
        _key(
            "rename", "i,f2", "rename", "give the selected case another id, or the selected eval set another file name"
        ),
        _key("duplicate", "d", "duplicate", "copy the selected case or eval set"),
        _key("move_up", "K,alt+up", "move up", "move the case up in its file", action="move_case(-1)"),
        _key("move_down", "J,alt+down", "move down", "move the case down in its file", action="move_case(1)"),
        _key("move", "m", "move to", "move the marked cases, else the selected one, to another eval set"),
        _key(
            "delete",
            "D,delete",
            "delete",
            "delete the marked cases, else the selected case or eval set; undo brings it back",
        ),
    ),
    made_of=("rows",),
)
