"""Keys of the lists and texts that several places are made of."""

from __future__ import annotations

from workbench.tui.keys.actions import KeyAction, KeyPlace

ROWS = KeyPlace(
    "rows",
    "In a list",
    (
        KeyAction("rows_up", "rows", "up,k", "move(-1)", "up"),
        KeyAction("rows_down", "rows", "down,j", "move(1)", "down"),
        KeyAction("rows_page_up", "rows", "pageup,ctrl+u", "page(-1)", "page up"),
        KeyAction("rows_page_down", "rows", "pagedown,ctrl+d", "page(1)", "page down"),
        KeyAction("rows_first", "rows", "g,home", "first", "first row"),
        KeyAction("rows_last", "rows", "G,end", "last", "last row"),
        KeyAction("rows_enter", "rows", "enter", "enter", "open the row"),
    ),
    made_of=(),
)

LINES = KeyPlace(
    "lines",
    "In a text",
    (
        KeyAction("lines_up", "lines", "up,k", "scroll_up", "scroll up"),
        KeyAction("lines_down", "lines", "down,j", "scroll_down", "scroll down"),
        KeyAction("lines_page_up", "lines", "pageup,ctrl+u", "page_up", "page up"),
        KeyAction("lines_page_down", "lines", "pagedown,ctrl+d,space", "page_down", "page down"),
        KeyAction("lines_first", "lines", "g,home", "scroll_home", "to the top"),
        KeyAction("lines_last", "lines", "G,end", "scroll_end", "to the end"),
    ),
    made_of=(),
)
