"""The dialog in which the start of a session is edited: app, user and initial state."""

from __future__ import annotations

import json
from typing import Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input, Static, TextArea

from workbench.model.evalset import SessionInput
from workbench.tui.keys import dialog_bindings
from workbench.tui.screens.dialog import Dialog
from workbench.tui.state.chat.session_form import read_state
from workbench.tui.state.pieces import safe
from workbench.tui.widgets.key_line import KeyLine


class SessionScreen(Dialog[SessionInput | None]):
    """Gives how the next session starts, None where the user changes their mind."""

    PLACES: ClassVar[tuple[str, ...]] = ("chat_session",)
    BINDINGS: ClassVar[list[BindingType]] = [*dialog_bindings("chat_session")]

    def __init__(self, given: SessionInput, *, default_app: str, default_user: str) -> None:
        super().__init__()
        self._given = given
        self._default_app = default_app
        self._default_user = default_user

    def compose(self) -> ComposeResult:
        """The fields, and what is wrong with the state as it stands."""
        state: dict[str, Any] = self._given.state
        with Vertical(classes="dialog dialog-wide"):
            yield Static(Content("How the session starts"))
            yield Static(Content("app"), classes="session-label")
            yield Input(self._given.app_name, placeholder=self._default_app, compact=True, id="session-app")
            yield Static(Content("user"), classes="session-label")
            yield Input(self._given.user_id, placeholder=self._default_user, compact=True, id="session-user")
            yield Static(Content("initial state, a JSON object"), classes="session-label")
            text = json.dumps(state, ensure_ascii=False, indent=2) if state else ""
            yield TextArea(text, compact=True, id="session-state", placeholder="{}")
            yield Static(Content(""), classes="dialog-problem")
        yield KeyLine()

    @on(TextArea.Changed)
    def _on_changed(self, message: TextArea.Changed) -> None:
        problem = read_state(message.text_area.text)[1]
        self.query_one(".dialog-problem", Static).update(Content(safe(problem)))

    @on(Input.Submitted)
    def _on_submitted(self) -> None:
        self.focus_next()

    def action_done(self) -> None:
        """Close with what stands in the fields, unless the state cannot be read."""
        area = self.query_one(TextArea)
        state, problem = read_state(area.text)
        if problem:
            area.focus()
            return
        app, user = (self.query_one(f"#session-{name}", Input).value.strip() for name in ("app", "user"))
        self.dismiss(SessionInput(app_name=app, user_id=user, session_id=self._given.session_id, state=state))

    def action_cancel(self) -> None:
        """Close and change nothing."""
        self.dismiss(None)
