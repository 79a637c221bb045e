"""Table of all keys, by place, and what is made from it: bindings, the check of `[keys]`, and names for help.

To add a key, add a line here and an `action_` method to the widget that has the bindings of the place. Textual is
imported when it is needed: the schema of the settings is made of the table alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from workbench.model.text import suggest_name

if TYPE_CHECKING:
    from textual.binding import Binding, BindingType


# A place is a part of the screen with its own keys. Help shows the places in this order.


@dataclass(frozen=True, slots=True)
class KeyAction:
    """An action that a key performs.

    `id` is its name in `[keys]` of the settings. `where` is the place whose widget must have the focus. `keys` are
    separated by commas. `description` is short enough for the footer; `footer` shows it there. `explanation` is for
    help and palette. If an action `yields`, an action nearer to the focus may use the same key and takes precedence.
    """

    id: str
    keys: str
    action: str
    description: str
    explanation: str = ""
    footer: bool = False
    priority: bool = False
    yields: bool = False
    where: str = ""

    @property
    def help(self) -> str:
        """The explanation, or the description if the explanation is empty."""
        return self.explanation or self.description


@dataclass(frozen=True, slots=True)
class KeyPlace:
    """A part of the screen with its own keys.

    `made_of` lists shared places whose keys also work in it. A modal place covers the main screen and disables the
    keys of that screen.
    """

    name: str
    title: str
    actions: tuple[KeyAction, ...]
    made_of: tuple[str, ...] = ("rows", "lines")
    is_modal: bool = False


_key = KeyAction
_footer = partial(KeyAction, footer=True)


def _place(
    name: str,
    title: str,
    *,
    actions: tuple[KeyAction, ...],
    made_of: tuple[str, ...] = ("rows", "lines"),
    is_modal: bool = False,
) -> KeyPlace:
    return KeyPlace(name, title, tuple(replace(action, where=name) for action in actions), made_of, is_modal)


# fmt: off
def _differences(place: str) -> tuple[KeyAction, ...]:
    """Return the keys that all diff views share."""
    return (
        _key(f"{place}_next", "},J", "step(1)", "next", "go to the next difference"),
        _key(f"{place}_previous", "{,K", "step(-1)", "previous", "go to the previous difference"),
        _footer(f"{place}_level", "d", "cycle_level", "more/less",
                "fold turns without differences, show only differences, or show everything"),
    )


_PLACES = (
    _place("app", "Everywhere", actions=(
        _footer("help", "question_mark,f1", "app.help", "help", "show the keys that work here"),
        _footer("palette", "ctrl+p", "command_palette", "palette",
                "find actions, cases, eval sets, agents, tools, runs, settings and themes by their letters",
                priority=True),
        _key("palette_colon", "colon", "command_palette", "palette", "the same, where no text is typed", yields=True),
        _footer("quit", "q", "quit", "quit", "close workbench"),
        _key("suspend", "ctrl+z", "suspend_process", "back to the shell; fg returns"),
    )),
    _place("tour", "During the tour", actions=(
        # Keys that text fields do not use. Other actions may get the same keys and take precedence.
        _key("tour_skip", "f8", "skip_step", "skip the step", "go to the next step of the tour", yields=True),
        _key("tour_end", "f4", "end_tour", "end the tour", "close the panel of the tour; the step is kept",
             yields=True),
    )),
    _place("screen", "In the main screen", actions=(
        # F9 also works in text fields.
        _footer("run_case", "r,f9", "run_selected", "run",
                "run the marked cases, else the selected case, or the listed cases of the selected set or agent"),
        _footer("run_all", "R", "run_all", "all", "run every case that is listed"),
        _key("run_fresh", "alt+l", "run_fresh", "run live",
             "run as above, but ask the agents' models again and record their answers: nothing is replayed"),
        _key("record_samples", "alt+m", "record_samples", "record samples",
             "record n samples: run live n times, keep the answers of each as a repeat, and show how many passed"),
        _key("simulate", "alt+s", "simulate", "simulate",
             "play the selected scenarios without judging; the next run judges these conversations"),
        _key("keep_conversation", "alt+k", "keep_conversation", "save talk",
             "save the conversation of a simulated user as a fixed case of its eval set"),
        _key("generate", "alt+g", "generate", "write scenarios",
             "let a model write scenarios for the selected eval set or agent, then review them"),
        _key("coverage", "alt+v", "coverage", "coverage",
             "show which parts of agents and their code no case reaches, and the cases that reach each"),
        _key("shrink", "alt+h", "shrink", "shrink",
             "find what the failure of the selected case needs: the smallest conversation, state and expected calls"),
        _key("why", "alt+y", "why", "which lines matter",
             "find which parts of the agent's instruction matter for the selected case, by leaving out one at a time"),
        _key("import", "alt+i", "import", "import sessions",
             "choose sessions of production in a file, and keep them as cases of the selected eval set"),
        _key("add_target", "alt+n", "add_target", "add an agent",
             "add an agent to workbench.toml: its kind, name, location and eval sets"),
        _footer("run_failed", "f", "run_failed", "failed", "run the marked cases that did not pass, else those listed"),
        _footer("cancel_run", "x", "cancel_run", "stop", "stop the run; finished results stay"),
        _footer("resume_run", "alt+x", "resume_run", "resume",
                "continue the run that was stopped last; cases that it finished are not run again"),
        _key("cancel_case", "X", "cancel_case", "stop case",
             "stop the marked cases, else the selected one, running or waiting; the others continue", yields=True),
        _footer("watch", "w", "toggle_watch", "watch",
                "turn watch on: every save runs the cases that it affects; if it is on, pause or resume it"),
        _footer("new_case", "N", "new_case", "new case", "add a case after the selected one"),
        _footer("new_set", "ctrl+n", "new_set", "new set", "add an eval set without cases", yields=True),
        _key("watch_off", "alt+w", "end_watch", "watch off", "turn watch off, and stop its runs"),
        _key("flaky_cases", "alt+q", "open_flaky", "flaky cases",
             "list the cases whose verdict changed while nothing that they use did, and those in quarantine"),
        _key("run_held", "alt+r", "run_held", "run held back",
             "run the cases that the watch holds back because a change affects more than the settings allow"),
        # Actions nearer to the focus, such as ending a search, take precedence.
        _key("back", "escape", "back", "back",
             "back to the newest result, to all panes, to the eval sets; never stops a run", yields=True),
        _footer("next_failing", "n", "next_failing", "next failing", "go to the next case that did not pass"),
        _key("previous_failing", "p", "previous_failing", "previous", "go to the previous case that did not pass"),
        _footer("edit", "e", "edit", "edit", "edit the case"),
        _footer("accept", "a", "accept", "accept",
                "go to the diff; there, accept the actual side of a difference as the new expectation"),
        _footer("review", "v", "review", "review", "go through the cases that did not pass: accept, skip or edit each"),
        _key("branch", "B", "branch", "branch",
             "chat from a turn of the case's last run on: the turns up to it are replayed, the next message is live",
             yields=True),
        _key("plan_run", "C", "plan_selected", "plan",
             "show the duration and cost of the selected case, eval set or agent before it runs"),
        _footer("criteria", "c", "criteria", "criteria",
                "choose the criteria of the selected case, eval set or agent"),
        _key("next_repeat", "]", "step_repeat(1)", "next repeat of the case"),
        _key("previous_repeat", "[", "step_repeat(-1)", "previous repeat of the case"),
        _key("tab_case", "1", "open_tab('case')", "case", "read and edit the case"),
        _key("tab_diff", "2", "open_tab('diff')", "diff", "expected and actual side by side"),
        _key("tab_trace", "3", "open_tab('trace')", "trace", "the steps of the agent"),
        _key("tab_scores", "4", "open_tab('scores')", "scores", "the result of each criterion"),
        _key("tab_history", "5", "open_tab('history')", "history", "the results of earlier runs"),
        _key("tab_chat", "6", "open_tab('chat')", "chat", "talk to the agent"),
        _footer("project", "0", "toggle_project", "project",
                "show the whole project: all agents with their failing cases and last runs; again: the selected row"),
        _key("go_left", "h", "go_left", "eval sets", "go back to the eval sets", yields=True),
        _key("next_pane", "tab", "app.focus_next", "other pane"),
        _key("previous_pane", "shift+tab", "app.focus_previous", "other pane, backwards"),
        _footer("zoom", "z", "zoom", "zoom", "show only the focused pane, or all panes again"),
        _key("widen", "ctrl+right", "widen(4)", "more columns for the eval sets"),
        _key("narrow", "ctrl+left", "widen(-4)", "fewer columns for the eval sets"),
        _footer("run_pane", "o", "toggle_drawer('run')", "run pane", "show or hide the progress of the run"),
        _footer("problems_pane", "!", "toggle_drawer('problems')", "problems",
                "show or hide the problems, with file and place, and the last messages"),
        _key("watch_pane", "O", "toggle_drawer('watch')", "watch pane",
             "show or hide the saved files, the cases that they ran, and why"),
        _footer("results_table", "t", "open_table", "table",
                "the newest results as a table: of the eval set, its agent, or everything"),
        _footer("copy", "y", "copy", "copy",
                "copy the mouse selection, else the text that is shown or under the cursor"),
        _key("save", "ctrl+s", "save", "save", "save the edits of the eval set"),
        _key("undo", "u", "undo", "undo", "undo the last edit of the eval set"),
        _key("redo", "U", "redo", "redo", "redo the edit that was undone last"),
        _key("edit_text", "E", "edit_text", "in editor",
             "edit the text of the case in your own editor ($VISUAL or $EDITOR)"),
        _key("reload", "f5", "reload", "check for changed eval sets"),
    )),
    _place("list", "In the eval sets", made_of=("rows",), actions=(
        _footer("filter", "slash", "filter", "filter",
                "list only cases with a text in id, user messages or tool names; in:, status:, tool: and is: too"),
        _footer("list_end_filter", "escape", "end_filter", "all cases", "end the filter"),
        _key("list_status", "F", "status", "next status filter",
             "list only failing, passed, not run, stale, marked, or again all cases"),
        _key("list_sort", "S", "sort", "next order",
             "sort the cases: as in the file, by id, worst, slowest or newest first"),
        _key("list_fold", "left,h", "fold", "fold, or go up"),
        _key("list_unfold", "right,l", "unfold", "unfold, or go in"),
        _key("list_mark", "space", "mark", "mark",
             "mark the case, or all listed cases of the set or agent; again: unmark"),
        _key("list_mark_range", "M", "mark_range", "mark to here", "mark every case from the last mark to the cursor"),
        _key("list_mark_listed", "plus,A", "mark_listed", "mark all", "mark every listed case; again: unmark them"),
        _key("list_clear_marks", "minus", "clear_marks", "clear marks"),
        _key("list_rename", "i,f2", "rename", "rename",
             "change the id of the selected case, or the file name of the selected eval set"),
        _key("list_duplicate", "d", "duplicate", "duplicate", "copy the selected case or eval set"),
        _key("list_move_up", "K,alt+up", "move_case(-1)", "move up", "move the case up in its file"),
        _key("list_move_down", "J,alt+down", "move_case(1)", "move down", "move the case down in its file"),
        _key("list_move", "m", "move_to_set", "move to",
             "move the marked cases, else the selected one, to another eval set"),
        _key("list_delete", "D,delete", "delete", "delete",
             "delete the marked cases, else the selected case or eval set; undo brings it back"),
    )),
    _place("editor", "In the case", actions=(
        _footer("editor_add", "plus,i", "add", "add",
                "add a value to the row, after it, or to its parent: a turn, a call, an argument, …"),
        _footer("editor_duplicate", "d", "duplicate", "duplicate"),
        _footer("editor_delete", "D,delete", "delete", "delete"),
        _key("editor_move_down", "J,alt+down", "move_row(1)", "move down", "move the row down"),
        _key("editor_move_up", "K,alt+up", "move_row(-1)", "move up", "move the row up"),
        _footer("editor_json", "b", "edit_json", "as JSON",
                "edit the value of the row as JSON: all arguments of a call, a turn, a state"),
        _key("editor_rename", "m", "rename", "rename", "rename an argument or key"),
        _key("editor_external", "ctrl+e", "edit_external", "$EDITOR", "edit the row in $EDITOR"),
        _key("editor_accept_case", "A", "accept_case", "accept case", "accept all that the agent did in its last run"),
        _key("editor_next_turn", "}", "step_turn(1)", "next turn"),
        _key("editor_previous_turn", "{", "step_turn(-1)", "previous turn"),
    )),
    _place("diff", "In the diff", made_of=("lines",), actions=(
        # Same as `accept` of the screen; listed here so that it comes first.
        _footer("diff_accept", "a", "accept_hunk", "accept", "accept the difference under the cursor", yields=True),
        _key("diff_accept_turn", "T", "accept_turn", "accept turn", "accept this whole turn"),
        _footer("diff_accept_case", "A", "accept_case", "accept case", "accept all differences of the case"),
        *_differences("diff"),
        _key("diff_whole", "W,enter", "open_whole", "whole text",
             "show all texts in full, and all frames of a traceback"),
    )),
    _place("trace", "In the trace", actions=(
        _footer("trace_search", "slash", "search", "search",
                "search names, requests and responses; escape ends it"),
        _key("trace_next_match", ">", "go_to_match(1)", "next match"),
        _key("trace_previous_match", "<", "go_to_match(-1)", "previous match"),
        _key("trace_end_search", "escape", "end_search", "end the search", "while a search is active"),
        _footer("trace_next_error", "full_stop", "go_to_error(1)", "next error"),
        _key("trace_previous_error", "semicolon", "go_to_error(-1)", "previous error"),
        _footer("trace_slowest", "m", "go_to_slowest", "slowest", "go to the step with the longest time of its own"),
        _key("trace_errors_only", "i", "toggle_errors_only", "list only steps with an error, or all"),
        _key("trace_kind", "K", "next_kind", "list only agents, model calls, tool calls, or all"),
        _key("trace_scale", "b", "toggle_scale", "bars within their turn, or within the session"),
        _footer("trace_next_tab", "d", "step_tab(1)", "detail", "the next of event, request, response and graph"),
        _key("trace_previous_tab", "D", "step_tab(-1)", "the previous of event, request, response, graph"),
        _key("trace_more_tree", "ctrl+down", "resize(1)", "more room for the tree"),
        _key("trace_less_tree", "ctrl+up", "resize(-1)", "less room for the tree"),
    )),
    _place("scores", "In the scores", actions=(
        _footer("scores_open", "right,l", "open_row", "open",
                "read about the criterion; in a set, list its worst cases, or go to the case"),
        _key("scores_judge", "J", "judge_again", "judge again",
             "judge the case again without running the agent, and show how far the judgements agree"),
    )),
    _place("history", "In the history", actions=(
        _footer("history_mark", "m", "mark", "mark", "mark the run under the cursor, to compare another one with it"),
        _footer("history_compare", "=", "compare", "compare",
                "compare the run under the cursor with the marked one, or with the one before it"),
        _footer("history_table", "T", "open_table", "table", "the results of the run under the cursor as a table"),
        _footer("history_bisect", "b", "bisect", "bisect", "find the commit that turned the case red"),
    )),
    _place("bisect", "Searching for a commit", is_modal=True, actions=(
        _footer("bisect_close", "escape", "close", "back", "back to the history; a search that runs is stopped"),
    )),
    _place("shrink", "Searching for the smallest failing case", is_modal=True, actions=(
        _footer("shrink_keep", "s,ctrl+s", "keep", "keep as case",
                "keep the smallest case as a new case of the eval set, under a name of your choice"),
        _footer("shrink_stop", "x", "stop", "stop", "stop the search; its smallest case so far is the result"),
        _footer("shrink_start", "r", "start", "again", "continue a search that ended early; otherwise begin again"),
        _footer("shrink_budget", "b", "set_budget", "budget",
                "set the maximum number of executions, also while the search runs; continue if it was used up"),
        _footer("shrink_criterion", "c", "choose_criterion", "criterion",
                "choose which failed criterion must still fail, and begin again"),
        _footer("shrink_close", "escape", "close", "back",
                "back to the main screen; the search continues, and its result stays until workbench is closed"),
    )),
    _place("why", "Searching in the instruction", is_modal=True, actions=(
        _footer("why_stop", "x", "stop", "stop", "stop the search; what is known so far is the result"),
        _footer("why_start", "r", "start", "again",
                "continue with what has too few executions, as far as the budget suffices; otherwise begin again"),
        _footer("why_parts", "l", "switch_parts", "lines",
                "begin again with single lines instead of paragraphs, or with paragraphs instead of lines"),
        _footer("why_budget", "b", "set_budget", "budget",
                "set the maximum number of executions, also while the search runs; continue if it was used up"),
        _footer("why_repeats", "n", "set_repeats", "repeats",
                "set how often the case runs with the whole instruction, and without each part"),
        _footer("why_close", "escape", "close", "back",
                "back to the main screen; the search continues, and its result stays until workbench is closed"),
    )),
    _place("table", "In the results table", made_of=("rows",), is_modal=True, actions=(
        _key("table_left", "left,h", "move_column(-1)", "column to the left"),
        _key("table_right", "right,l", "move_column(1)", "column to the right"),
        _footer("table_sort", "s", "sort", "sort",
                "sort by the column; again: in reverse; a third time: unsorted"),
        _footer("table_filter", "slash", "filter", "filter",
                "list only rows with these words in id, status, response, trajectory or failure"),
        _footer("table_columns", "c", "choose_columns", "columns", "choose which columns are shown"),
        _footer("table_repeats", "r", "toggle_repeats", "repeats", "one row for each repeat, or for each case"),
        _footer("table_scope", "a", "widen", "more", "the set, then its agent, then everything"),
        _footer("table_copy", "y", "copy_row", "copy", "copy the row"),
        _key("table_branch", "B", "branch", "branch",
             "chat from a turn of the case on: the turns up to it are replayed, the next message is live"),
        _key("table_shrink", "alt+h", "shrink", "shrink", "find what the failure of the case needs"),
        _key("table_why", "alt+y", "why", "which lines matter",
             "find which parts of the agent's instruction matter for the case"),
        _footer("table_export", "e", "export", "export", "write the rows to a CSV, Markdown, HTML or JSON file"),
        _footer("table_close", "escape,t", "close", "back", "end the filter, then go back"),
    )),
    _place("chat", "In the chat", made_of=("lines",), actions=(
        _footer("chat_new_session", "ctrl+n", "new_session", "new session",
                "end this session and start a new one, with the current code of the agent"),
        _footer("chat_stop", "ctrl+g", "stop_turn", "stop",
                "stop the current turn; its message returns to the input"),
        _footer("chat_retry", "ctrl+r", "retry", "retry",
                "send all messages again in a new session, including the last one"),
        _footer("chat_save", "ctrl+o", "save_case", "save as case",
                "save the chat, all of it or from the chosen turn on, as an eval case"),
        _footer("chat_trace", "ctrl+t", "show_trace", "trace", "see every step"),
        _key("chat_load_case", "ctrl+l", "load_case", "replay case",
             "start a session like the selected case, send its turns, and continue by hand"),
        _key("chat_branch", "B,f3", "branch", "branch",
             "replay the chat up to a turn, by default the chosen one, in a new session, and continue from there"),
        _key("chat_stop_replay", "escape", "stop_replay", "stop", "while the turns of a branch are replayed"),
        _key("chat_session_input", "f2", "edit_session_input", "session",
             "app, user and state at the start of the session, before the first message"),
        _footer("chat_details", "alt+t", "toggle_details", "details", "show or hide traceback and stderr of a failure",
                priority=True),
        _key("chat_previous_turn", "alt+up,{", "choose_turn(-1)", "previous turn", "choose a turn"),
        _key("chat_next_turn", "alt+down,}", "choose_turn(1)", "next turn",
             "choose the next turn; after the last one, none"),
        _key("chat_write", "i", "write", "write", "go to the input"),
    )),
    _place("run", "In the run", made_of=("rows",), actions=(
        _footer("run_stop_case", "d,delete,X", "stop_case", "stop case",
                "stop the selected case, running or waiting; the others continue"),
        _footer("run_again", "plus", "run_again", "again",
                "queue the selected case again, or all cases with the selected kind of failure"),
    )),
    _place("watch", "In the watch", made_of=("rows",), actions=(
        _footer("watch_open_file", "F", "open_file", "file in editor",
                "open the file that cannot be compiled in your editor, at its line"),
    )),
    _place("plan", "In the plan of a run", made_of=("rows",), is_modal=True, actions=(
        _footer("plan_less", "left,h", "step(-1)", "less", "a smaller value of the setting"),
        _footer("plan_more", "right,l", "step(1)", "more", "a larger value of the setting"),
        _footer("plan_type", "e", "type_value", "type", "type the value of the setting"),
        _footer("plan_criteria", "c", "criteria", "criteria", "choose the criteria of the run"),
        _key("plan_filter", "slash", "filter", "filter", "list only settings with these letters"),
        _footer("plan_close", "escape,n", "close", "not now", "do not run"),
    )),
    _place("criteria", "In the criteria", made_of=("rows",), is_modal=True, actions=(
        _footer("criteria_toggle", "space", "switch", "on/off", "judge by this metric"),
        _key("criteria_less", "left,h", "step(-1)", "less", "a lower threshold, or the option's previous value"),
        _footer("criteria_more", "right,l", "step(1)", "value", "a higher threshold, or the option's next value"),
        _footer("criteria_preset", "p", "preset", "preset", "criteria for a purpose"),
        _footer("criteria_search", "slash", "filter", "search", "find a metric"),
        _footer("criteria_reset", "b", "reset", "as in file", "back to the criteria in the file"),
        _footer("criteria_run", "r", "run", "run", "run once with these criteria"),
        _footer("criteria_keep", "ctrl+s", "keep", "save", "save them to the file"),
        _footer("criteria_undo", "u", "undo", "undo", "undo the last save"),
        _footer("criteria_close", "escape", "close", "close", "close; the choice stays"),
    )),
    _place("problems", "In the problems", actions=(
        _footer("problems_filter", "slash", "filter", "filter", "list only problems with these letters"),
        _key("problems_end_filter", "escape", "end_filter", "list all problems", "while a filter is active"),
        _footer("problems_open_file", "F", "open_file", "file in editor",
                "open the file of the problem in your editor, at its line"),
    )),
    _place("chat_prompt", "In the input of the chat", made_of=("chat",), actions=(
        _footer("chat_send", "enter", "send", "send", priority=True),
        _footer("chat_new_line", "ctrl+j,alt+enter,shift+enter", "new_line", "new line",
                "a line break; many terminals send alt+enter and shift+enter as enter"),
        _key("chat_earlier", "up", "earlier", "earlier message", "in the first line: the earlier message"),
        _key("chat_later", "down", "later", "later message",
             "in the last line: the later message, and then the typed text"),
    )),
    _place("comparing", "Comparing two runs", is_modal=True, actions=(
        _footer("comparing_flips", "f", "toggle_flips", "flips",
                "list only regressions, fixes and flaky cases, or all cases again"),
        _footer("comparing_swap", "x", "swap", "swap", "exchange the earlier and the later run"),
        _footer("comparing_filter", "slash", "filter", "filter", "list only cases with these letters"),
        _footer("comparing_close", "escape", "close", "back", "back to the history"),
    )),
    _place("flaky", "In the flaky cases", is_modal=True, actions=(
        _footer("flaky_quarantine", "x", "quarantine", "quarantine",
                "put the case into quarantine, so that its FAILED fails no run, or end its quarantine"),
        _footer("flaky_case", "c", "open_case", "case", "go to the case"),
        _footer("flaky_filter", "slash", "filter", "filter", "list only cases with these letters"),
        _footer("flaky_close", "escape", "close", "back", "back to the main screen"),
    )),
    _place("coverage", "In the coverage", is_modal=True, actions=(
        _footer("coverage_gaps", "f", "toggle_gaps", "gaps",
                "list only parts that no case reaches, or all parts again"),
        _footer("coverage_generate", "g", "generate", "write scenarios",
                "let a model write scenarios for what no case reaches in the row",
                priority=True, yields=True),  # before `g` of the rows, where no text is typed
        _footer("coverage_filter", "slash", "filter", "filter", "list only rows with these letters"),
        _footer("coverage_close", "escape", "close", "back"),
    )),
    _place("chat_session", "In the dialog of a chat's session", made_of=(), is_modal=True, actions=(
        _footer("chat_session_done", "ctrl+s", "done", "done", priority=True),
        _footer("chat_session_cancel", "escape", "close", "cancel"),
    )),
    _place("typing", "While a value is typed", made_of=(), is_modal=True, actions=(
        _footer("typing_apply", "enter,ctrl+enter", "apply", "apply", "apply the typed text to the case"),
        _footer("typing_new_line", "ctrl+j,alt+enter,shift+enter", "new_line", "new line",
                "a line break; many terminals send alt+enter and shift+enter as enter"),
        _footer("typing_form", "ctrl+t", "next_form", "type", "another type of value"),
        _footer("typing_original", "ctrl+o", "original", "original"),
        _footer("typing_external", "ctrl+e", "external", "$EDITOR"),
        _key("typing_save", "ctrl+s", "apply_and('save')", "apply and save the set"),
        _footer("typing_leave", "escape", "leave", "leave", "back to the rows; the typed text is kept as a draft"),
        _footer("typing_run", "f9", "apply_and('run_selected')", "run", "apply and run the case"),
    )),
    _place("whole", "In the whole text", is_modal=True, actions=(
        *_differences("whole"),
        _footer("whole_close", "escape,W", "close", "back"),
    )),
    _place("review", "In the review", is_modal=True, actions=(
        _footer("review_accept", "a", "accept_hunk", "accept", "accept this difference"),
        _footer("review_accept_case", "A", "accept_case", "accept all", "accept the whole case and go to the next"),
        _footer("review_skip", "s,n", "skip", "skip", "skip this case"),
        _footer("review_back", "p", "back", "previous", "the previous case"),
        _footer("review_edit", "e", "edit", "edit", "end the review and edit this case"),
        _footer("review_undo", "u", "undo", "undo", "undo the last acceptance"),
        *_differences("review"),
        _footer("review_quit", "escape", "quit", "quit", "end the review"),
    )),
    _place("conflict", "Where an eval set changed on disk or was deleted", is_modal=True, actions=(
        _footer("conflict_mine", "m", "keep_mine", "keep mine", "replace the version on disk with yours"),
        _footer("conflict_theirs", "t", "take_theirs", "take theirs",
                "use the version on disk; undo restores yours"),
        _footer("conflict_both", "b", "keep_both", "keep both",
                "merge your changes into the version on disk; possible if both changed no case in common"),
        _footer("conflict_merge", "e", "merge", "both in editor",
                "edit both versions as one text in your editor, and write the result"),
        _footer("conflict_later", "escape", "close", "decide later"),
    )),
    _place("recovery", "Where unsaved edits were found", is_modal=True, actions=(
        _footer("recovery_restore", "r", "restore", "restore"),
        _footer("recovery_look", "d", "look", "difference"),
        _footer("recovery_discard", "x", "discard", "discard"),
        _key("recovery_filter", "slash", "filter", "filter", "list only eval sets with these letters"),
        _footer("recovery_later", "escape", "close", "decide later"),
    )),
    _place("versions", "Where two versions are compared", is_modal=True, actions=(
        _footer("versions_close", "escape", "close", "back"),
    )),
    _place("trace_tree", "In the tree of steps", made_of=("rows", "trace"), actions=(
        _key("trace_tree_fold", "left,h", "fold('fold')", "fold, or go to the parent"),
        _key("trace_tree_unfold", "right,l", "fold('unfold')", "unfold, or go in"),
        _key("trace_tree_fold_all", "H", "fold('fold_all')", "fold everything"),
        _key("trace_tree_unfold_all", "L", "fold('unfold_all')", "unfold everything"),
    )),
    _place("trace_detail", "In the detail of a step", made_of=("lines", "trace"), actions=(
        _key("trace_detail_fold", "left,h", "fold", "fold the part that contains the line"),
        _key("trace_detail_open", "right,l", "open", "open the part on the line, or show more of it"),
    )),
    _place("writing", "While scenarios are written", made_of=(), is_modal=True, actions=(
        _footer("writing_stop", "x", "stop", "stop"),
    )),
    _place("scenarios", "In scenarios that a model has written", is_modal=True, actions=(
        _key("scenarios_keep", "x", "mark", "keep/leave out", "keep this scenario, or leave it out; so does enter"),
        _footer("scenarios_all", "A", "mark_all_or_none", "all/none",
                "keep all listed scenarios, or none if all are kept"),
        _footer("scenarios_edit", "e,E", "edit", "edit",
                "edit this scenario in your own editor ($VISUAL or $EDITOR) before it is kept"),
        _footer("scenarios_filter", "slash", "filter", "filter", "list only scenarios with these letters"),
        _footer("scenarios_save", "ctrl+s,s", "save", "save", "add the scenarios that are kept to the eval set"),
        _footer("scenarios_close", "escape,q", "close", "cancel"),
    )),
    _place("import", "In sessions to import", is_modal=True, actions=(
        _key("import_mark", "x", "mark", "mark", "mark this session, or remove its mark; so does enter"),
        _footer("import_all", "A", "mark_all_or_none", "all/none", "mark all listed sessions; none if all are"),
        _footer("import_redact", "r", "redact", "redact", "replace the matches of a pattern by [redacted]"),
        _footer("import_filter", "slash", "filter", "filter", "list only sessions with these letters"),
        _footer("import_save", "ctrl+s,s", "save", "save", "add the marked sessions to the eval set"),
        _footer("import_close", "escape,q", "close", "cancel"),
    )),
    _place("confirm", "In a question", made_of=(), is_modal=True, actions=(
        _footer("confirm_yes", "y,enter", "answer(True)", "yes"),
        _footer("confirm_no", "n,escape,q", "answer(False)", "no"),
    )),
    _place("choose", "In a choice", made_of=("rows",), is_modal=True, actions=(
        _footer("choose_cancel", "escape,q", "close", "cancel"),
        _footer("choose_filter", "slash", "filter", "filter",
                "list only choices with these letters; a letter that is no key starts the filter too"),
    )),
    _place("ask", "In a question with a typed answer", made_of=(), is_modal=True, actions=(
        _footer("ask_cancel", "escape", "close", "cancel"),
    )),
    _place("finding", "While a search text is typed", made_of=(), is_modal=True, actions=(
        _footer("finding_done", "enter,down", "submit", "done", yields=True),
        _footer("finding_leave", "escape", "leave", "list all", yields=True),
    )),
    _place("filtering", "While a filter is typed", made_of=("finding",), is_modal=True, actions=(
        _key("filtering_up", "up", "move(-1)", "up", "the row above in the list"),
        _key("filtering_down", "down", "move(1)", "down", "the row below in the list"),
        _key("filtering_page_up", "pageup", "page(-1)", "page up", "a page up in the list"),
        _key("filtering_page_down", "pagedown", "page(1)", "page down", "a page down in the list"),
    )),
    _place("finder", "In the palette", made_of=("filtering", "finding"), is_modal=True, actions=(
        _footer("finder_close", "escape", "close", "close", priority=True),
    )),
    _place("help", "In this help", made_of=("lines",), is_modal=True, actions=(
        _footer("help_close", "escape,q", "close", "close"),
        _footer("help_filter", "slash", "filter", "filter",
                "list only keys with these letters; a letter that is no key starts the filter too"),
    )),
    _place("rows", "In a list", made_of=(), actions=(
        _key("rows_up", "up,k", "move(-1)", "up"),
        _key("rows_down", "down,j", "move(1)", "down"),
        _key("rows_page_up", "pageup,ctrl+u", "page(-1)", "page up"),
        _key("rows_page_down", "pagedown,ctrl+d", "page(1)", "page down"),
        _key("rows_first", "g,home", "first", "first row"),
        _key("rows_last", "G,end", "last", "last row"),
        _key("rows_enter", "enter", "enter", "open the row"),
    )),
    _place("lines", "In a text", made_of=(), actions=(
        _key("lines_up", "up,k", "scroll_up", "scroll up"),
        _key("lines_down", "down,j", "scroll_down", "scroll down"),
        _key("lines_page_up", "pageup,ctrl+u", "page_up", "page up"),
        _key("lines_page_down", "pagedown,ctrl+d,space", "page_down", "page down"),
        _key("lines_first", "g,home", "scroll_home", "to the top"),
        _key("lines_last", "G,end", "scroll_end", "to the end"),
    )),
)
# fmt: on

PLACES: Mapping[str, KeyPlace] = {place.name: place for place in _PLACES}
"""All places, by name."""

KEY_ACTIONS = tuple(action for place in _PLACES for action in place.actions)
"""All actions of all places."""


# Key bindings of widgets, validation of `[keys]` in the settings, and display names of keys.

_HEARD_IN_DIALOGS = frozenset({"help", "palette"})
_MODIFIERS = frozenset({"ctrl", "alt", "shift", "super", "meta", "hyper"})
_PUNCTUATION = {
    " ": "space", "?": "question_mark", "/": "slash", ".": "full_stop", ",": "comma", ":": "colon", ";": "semicolon",
    "-": "minus", "+": "plus", "*": "asterisk", "=": "equals_sign", "[": "left_square_bracket",
    "]": "right_square_bracket", "<": "less_than_sign", ">": "greater_than_sign", "!": "exclamation_mark",
}  # fmt: skip
_BY_ID = {item.id: item for item in KEY_ACTIONS}


class KeyHolder:
    """Base of the application, screens and widgets that have keys: their bindings are those of the first place.

    Help and palette also name the keys of the other `PLACES`. `SHARED_KEYS` are ids of actions of the application.
    """

    PLACES: ClassVar[tuple[str, ...]] = ()
    SHARED_KEYS: ClassVar[tuple[str, ...]] = ()
    BINDINGS: ClassVar[list[BindingType]]

    def __init_subclass__(cls, **options: Any) -> None:
        own = vars(cls)
        if own.get("PLACES") and "BINDINGS" not in own:
            cls.BINDINGS = [*bindings(cls.PLACES[0]), *(_binding(key_action(each)) for each in cls.SHARED_KEYS)]
        super().__init_subclass__(**options)


def bindings(place: str) -> Sequence[BindingType]:
    return [_binding(item) for item in PLACES[place].actions]


def list_actions(place: str) -> frozenset[str]:
    """List the names of the actions of a place, without their arguments."""
    return frozenset(item.action.partition("(")[0] for item in PLACES[place].actions)


def key_action(action_id: str) -> KeyAction:
    """Return the action with this id. Raise KeyError if the id is unknown."""
    return _BY_ID[action_id]


def check_keys(wanted: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the valid entries of `[keys]` in the settings, and an error message for each invalid one, both by action.

    Unknown actions, unknown keys, and keys of another action in the same place are invalid. Textual would ignore the
    first two. The third would silently replace the other action.
    """
    from workbench.tui.state.text_layout import safe_line

    usable: dict[str, str] = {}
    problems: dict[str, str] = {}
    for action_id, keys in wanted.items():
        if action_id not in _BY_ID:
            problems[action_id] = f"[keys] {safe_line(action_id)}: no such action{suggest_name(action_id, _BY_ID)}"
            continue
        unknown = [key for key in _split(keys) if not _is_key(key)]
        if unknown or not keys.strip():
            problems[action_id] = f"[keys] {action_id}: {safe_line(', '.join(unknown)) or 'nothing'} is not a key"
            continue
        usable[action_id] = ",".join(_split(keys))
    for action_id, other, key in list(_clashes(usable)):
        if usable.pop(action_id, None) is not None:
            problems[action_id] = f"[keys] {action_id}: {key} is already the key of {other}; the default key stays"
    return usable, problems


def keys_of(item: KeyAction, keymap: Mapping[str, str]) -> str:
    """Return the keys of an action as the user writes them."""
    return ", ".join(_shown(key) for key in _split(keymap.get(item.id, item.keys)))


def find_first_key(action_id: str, keymap: Mapping[str, str]) -> str:
    """Return the first key of an action as the user writes it."""
    return _shown(_split(keymap.get(action_id, _BY_ID[action_id].keys))[0])


def find_character(key: str) -> str | None:
    """Return the character that a key types; None if it types none."""
    character = _shown(key)
    return character if len(character) == 1 else None


def _binding(item: KeyAction) -> Binding:
    from textual.binding import Binding

    return Binding(item.keys, item.action, item.description, show=item.footer, priority=item.priority, id=item.id)


def _clashes(changed: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    for item in KEY_ACTIONS:
        if item.id not in changed:
            continue
        for other in KEY_ACTIONS:
            if other is item or item.yields or other.yields or not _meet(item, other):
                continue
            taken = {_name(key) for key in _split(changed.get(other.id, other.keys))}
            for key in _split(changed[item.id]):
                if _name(key) in taken:
                    yield item.id, other.id, key


def _meet(item: KeyAction, another: KeyAction) -> bool:
    """Return True if the keys of both actions can be active at the same time."""
    one, other = item.where, another.where
    if one == other or _HEARD_IN_DIALOGS.intersection((item.id, another.id)):
        return True
    if "app" in (one, other):
        return not PLACES[other if one == "app" else one].is_modal
    for name, around in ((one, other), (other, one)):
        if around == "screen":
            return not PLACES[name].is_modal
        if around in PLACES[name].made_of:
            return True
    return False


def _split(keys: str) -> list[str]:
    """Split keys at commas; a lone comma is the comma key."""
    if keys.strip() == ",":
        return ["comma"]
    return [key if key == " " else key.strip() for key in keys.split(",") if key]


def _is_key(key: str) -> bool:
    from textual.keys import Keys

    *modifiers, last = key.split("+") if len(key) > 1 else [key]
    named = {member.value for member in Keys} | set(_PUNCTUATION.values())
    return _MODIFIERS.issuperset(modifiers) and (len(last) == 1 or last in named or key in named)


def _name(key: str) -> str:
    return _PUNCTUATION.get(key, key)


def _shown(key: str) -> str:
    written = {name: character for character, name in _PUNCTUATION.items() if character != " "}
    return written.get(key, key)
