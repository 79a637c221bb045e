"""Keys of the main screen: heard wherever the focus is in it, unless a part of it has the key for itself."""

from __future__ import annotations

from workbench.tui.keys.actions import KeyAction, KeyPlace


def _tab(number: int, tab: str, what: str) -> KeyAction:
    return KeyAction(f"tab_{tab}", "screen", str(number), f"open_tab('{tab}')", tab, explanation=what)


PLACE = KeyPlace(
    "screen",
    "In the main screen",
    (
        KeyAction(
            "run_case",
            "screen",
            "r",
            "run_selected",
            "run",
            footer=True,
            explanation="run the marked cases, else the selected one, or what is listed of the selected set or agent",
        ),
        KeyAction(
            "plan_run",
            "screen",
            "C",
            "plan_selected",
            "plan",
            explanation="see what running the selected case, eval set or agent takes, before it runs",
        ),
        KeyAction(
            "criteria",
            "screen",
            "c",
            "criteria",
            "criteria",
            explanation="choose what the selected case, eval set or agent is judged by",
        ),
        KeyAction("run_all", "screen", "R", "run_all", "all", footer=True, explanation="run every case that is listed"),
        KeyAction(
            "run_failed",
            "screen",
            "f",
            "run_failed",
            "failed",
            footer=True,
            explanation="run the marked cases that did not pass, else those listed",
        ),
        KeyAction(
            "cancel_run",
            "screen",
            "x",
            "cancel_run",
            "stop",
            footer=True,
            explanation="stop the run; what has finished stays",
        ),
        KeyAction(
            "back",
            "screen",
            "escape",
            "back",
            "back",
            explanation="back to the newest result, to all panes, to the eval sets; stop the run",
        ),
        KeyAction(
            "next_failing",
            "screen",
            "n",
            "next_failing",
            "next",
            footer=True,
            explanation="go to the next case that did not pass",
        ),
        KeyAction(
            "previous_failing",
            "screen",
            "p",
            "previous_failing",
            "previous",
            explanation="go to the previous case that did not pass",
        ),
        KeyAction("next_repeat", "screen", "]", "step_repeat(1)", "next repeat of the case"),
        KeyAction("previous_repeat", "screen", "[", "step_repeat(-1)", "previous repeat of the case"),
        _tab(1, "case", "read and edit the case"),
        _tab(2, "diff", "expected beside actual"),
        _tab(3, "trace", "what the agent did, step by step"),
        _tab(4, "scores", "how each criterion judged"),
        _tab(5, "history", "how earlier runs ended"),
        _tab(6, "chat", "talk to the agent"),
        KeyAction("next_pane", "screen", "tab", "app.focus_next", "other pane"),
        KeyAction("previous_pane", "screen", "shift+tab", "app.focus_previous", "other pane, backwards"),
        KeyAction(
            "zoom", "screen", "z", "zoom", "zoom", explanation="give the focused pane the whole screen, or end that"
        ),
        KeyAction("widen", "screen", "ctrl+right", "widen(4)", "more columns for the eval sets"),
        KeyAction("narrow", "screen", "ctrl+left", "widen(-4)", "fewer columns for the eval sets"),
        KeyAction("run_pane", "screen", "o", "toggle_drawer('run')", "show or hide what the run is doing"),
        KeyAction("problems_pane", "screen", "!", "toggle_drawer('problems')", "show or hide the problems"),
        KeyAction(
            "results_table",
            "screen",
            "t",
            "open_table",
            "table",
            explanation="the newest results as a table: of the eval set, its agent, or everything",
        ),
        KeyAction("copy", "screen", "y", "copy", "copy what is selected or shown"),
        KeyAction("undo", "screen", "u", "undo", "undo", explanation="take back the last edit of the eval set"),
        KeyAction("redo", "screen", "U", "redo", "redo", explanation="do again what was taken back last"),
        KeyAction("save", "screen", "ctrl+s", "save", "save", explanation="save the edits of the eval set"),
        KeyAction("edit", "screen", "e", "edit", "edit", footer=True, explanation="edit the case"),
        KeyAction(
            "accept",
            "screen",
            "a",
            "accept",
            "accept",
            footer=True,
            explanation="go to the diff; there, take the actual side of a difference as the new expectation",
        ),
        KeyAction(
            "review",
            "screen",
            "v",
            "review",
            "review",
            footer=True,
            explanation="go through the cases that did not pass: accept, skip or edit each",
        ),
        KeyAction(
            "edit_text",
            "screen",
            "E",
            "edit_text",
            "in editor",
            explanation="edit the text of the case in your own editor ($VISUAL or $EDITOR)",
        ),
        KeyAction("reload", "screen", "f5", "reload", "look for changed eval sets"),
    ),
)
