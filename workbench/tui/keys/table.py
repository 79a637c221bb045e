"""Keys of the results table."""

from __future__ import annotations

from workbench.tui.keys.actions import KeyAction, KeyPlace

PLACE = KeyPlace(
    "table",
    "In the results table",
    (
        KeyAction("table_left", "table", "left,h", "move_column(-1)", "column to the left"),
        KeyAction("table_right", "table", "right,l", "move_column(1)", "column to the right"),
        KeyAction("table_sort", "table", "s", "sort", "sort", footer=True,
                  explanation="sort by the column; again, the other way round; a third time, not at all"),
        KeyAction("table_filter", "table", "slash", "filter", "filter", footer=True,
                  explanation="list only rows with these words in id, status, response, trajectory or failure"),
        KeyAction("table_columns", "table", "c", "choose_columns", "columns", footer=True,
                  explanation="choose which columns are shown"),
        KeyAction("table_repeats", "table", "r", "toggle_repeats", "repeats", footer=True,
                  explanation="one row for each repeat, or for each case"),
        KeyAction("table_scope", "table", "a", "widen", "more", footer=True,
                  explanation="the set, then its agent, then everything"),
        KeyAction("table_copy", "table", "y", "copy_row", "copy", footer=True, explanation="copy the row"),
        KeyAction("table_export", "table", "e", "export", "export", footer=True,
                  explanation="write the rows to a CSV, Markdown or JSON file"),
        KeyAction("table_close", "table", "escape,t", "close", "back", footer=True,
                  explanation="end the filter, then go back"),
    ),
    made_of=("rows",),
    is_modal=True,
)  # fmt: skip
