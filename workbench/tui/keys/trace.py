"""Keys of the trace: of the whole pane, of the tree of steps, and of the detail of one."""

from __future__ import annotations

from workbench.tui.keys.actions import KeyAction, KeyPlace

PLACE = KeyPlace(
    "trace",
    "In the trace",
    (
        KeyAction(
            "trace_search",
            "trace",
            "slash",
            "search",
            "search",
            footer=True,
            explanation="look for a text in names, requests and responses; escape ends it",
        ),
        KeyAction("trace_next_match", "trace", ">", "go_to_match(1)", "next step that was found"),
        KeyAction("trace_previous_match", "trace", "<", "go_to_match(-1)", "previous step that was found"),
        KeyAction(
            "trace_end_search",
            "trace",
            "escape",
            "end_search",
            "end the search",
            explanation="while something is looked for",
        ),
        KeyAction("trace_next_error", "trace", "full_stop", "go_to_error(1)", "next error", footer=True),
        KeyAction("trace_previous_error", "trace", "semicolon", "go_to_error(-1)", "previous error"),
        KeyAction(
            "trace_slowest",
            "trace",
            "m",
            "go_to_slowest",
            "slowest",
            footer=True,
            explanation="go to the step that took the most time by itself",
        ),
        KeyAction("trace_errors_only", "trace", "i", "toggle_errors_only", "list only steps with an error, or all"),
        KeyAction("trace_kind", "trace", "K", "next_kind", "list only agents, model calls, tool calls, or all"),
        KeyAction("trace_scale", "trace", "b", "toggle_scale", "bars within their turn, or within the session"),
        KeyAction(
            "trace_next_tab",
            "trace",
            "d",
            "step_tab(1)",
            "detail",
            footer=True,
            explanation="the next of event, request, response and graph",
        ),
        KeyAction(
            "trace_previous_tab", "trace", "D", "step_tab(-1)", "the previous of event, request, response, graph"
        ),
        KeyAction("trace_more_tree", "trace", "ctrl+down", "resize(1)", "more room for the tree"),
        KeyAction("trace_less_tree", "trace", "ctrl+up", "resize(-1)", "less room for the tree"),
    ),
)

TREE = KeyPlace(
    "trace_tree",
    "In the tree of steps",
    (
        KeyAction("trace_tree_fold", "trace_tree", "left,h", "fold('fold')", "fold, or go to what is around"),
        KeyAction("trace_tree_unfold", "trace_tree", "right,l", "fold('unfold')", "unfold, or go in"),
        KeyAction("trace_tree_fold_all", "trace_tree", "H", "fold('fold_all')", "fold everything"),
        KeyAction("trace_tree_unfold_all", "trace_tree", "L", "fold('unfold_all')", "unfold everything"),
    ),
    made_of=("rows", "trace"),
)

DETAIL = KeyPlace(
    "trace_detail",
    "In the detail of a step",
    (
        KeyAction("trace_detail_fold", "trace_detail", "left,h", "fold", "fold what the line belongs to"),
        KeyAction(
            "trace_detail_open", "trace_detail", "right,l", "open", "open what is on the line, or show more of it"
        ),
    ),
    made_of=("lines", "trace"),
)
