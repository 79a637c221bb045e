"""Keys of the chat: those of the whole pane, and those of the line in which one writes."""

from __future__ import annotations

from workbench.tui.keys.actions import KeyAction, KeyPlace

PLACE = KeyPlace(
    "chat",
    "In the chat",
    (
        KeyAction(
            "chat_new_session",
            "chat",
            "ctrl+n",
            "new_session",
            "new session",
            footer=True,
            explanation="end this session and start a new one, with the code of the agent as it is then",
        ),
        KeyAction(
            "chat_stop",
            "chat",
            "ctrl+g",
            "stop_turn",
            "stop",
            footer=True,
            explanation="stop the turn under way; what was said is in the input again",
        ),
        KeyAction(
            "chat_retry",
            "chat",
            "ctrl+r",
            "retry",
            "retry",
            footer=True,
            explanation="say everything again in a new session, the last turn too",
        ),
        KeyAction(
            "chat_save",
            "chat",
            "ctrl+o",
            "save_case",
            "keep as case",
            footer=True,
            explanation="write the chat, all of it or from the chosen turn on, as an eval case",
        ),
        KeyAction("chat_trace", "chat", "ctrl+t", "show_trace", "trace", footer=True, explanation="see every step"),
        KeyAction(
            "chat_load_case",
            "chat",
            "ctrl+l",
            "load_case",
            "say the case",
            explanation="start a session as the selected case does, say its turns, and go on by hand",
        ),
        KeyAction(
            "chat_session_input",
            "chat",
            "f2",
            "edit_session_input",
            "session",
            explanation="app, user and state that the session starts with, until something is said",
        ),
        KeyAction(
            "chat_previous_turn", "chat", "alt+up,{", "choose_turn(-1)", "previous turn", explanation="choose a turn"
        ),
        KeyAction(
            "chat_next_turn",
            "chat",
            "alt+down,}",
            "choose_turn(1)",
            "next turn",
            explanation="choose the next turn, behind the last none",
        ),
        KeyAction("chat_write", "chat", "i", "write", "write", explanation="go to the input"),
    ),
    made_of=("lines",),
)

PROMPT = KeyPlace(
    "chat_prompt",
    "In the input of the chat",
    (
        KeyAction("chat_send", "chat_prompt", "enter", "send", "send", footer=True, priority=True),
        KeyAction("chat_new_line", "chat_prompt", "alt+enter,ctrl+j,shift+enter", "new_line", "new line", footer=True),
        KeyAction(
            "chat_earlier",
            "chat_prompt",
            "up",
            "earlier",
            "what was said before",
            explanation="in the first line: what was said before",
        ),
        KeyAction(
            "chat_later",
            "chat_prompt",
            "down",
            "later",
            "what was said after",
            explanation="in the last line: what was said after, and then what was typed",
        ),
    ),
    made_of=("chat",),
)

SESSION = KeyPlace(
    "chat_session",
    "In the dialog of a chat's session",
    (
        KeyAction("chat_session_done", "chat_session", "ctrl+s", "done", "done", footer=True, priority=True),
        KeyAction("chat_session_cancel", "chat_session", "escape", "cancel", "never mind", footer=True),
    ),
    made_of=(),
    is_modal=True,
)
