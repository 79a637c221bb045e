"""The chat: talk to the agent of the selected row, and keep what was said as an eval case."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.timer import Timer
from textual.widgets import TextArea

from workbench.model.chat import TurnFailed
from workbench.model.evalset import Content, EvalCase, SessionInput
from workbench.store.errors import StoreError
from workbench.tui.gateway.chats import CannotChat
from workbench.tui.hub import Hub
from workbench.tui.keys import bindings
from workbench.tui.messages import ProjectChanged, SessionWanted
from workbench.tui.panes.chat.keeping import NotKept, keep
from workbench.tui.panes.chat.prompt import Prompt
from workbench.tui.panes.chat.session_screen import SessionScreen
from workbench.tui.panes.chat.talk_view import TalkView
from workbench.tui.panes.pane import Pane
from workbench.tui.screens.confirm import ConfirmScreen
from workbench.tui.state.chat import ChatLines, Conversation, TargetChat
from workbench.tui.state.chat.greeting import greeting
from workbench.tui.state.chat.standing import standing_line
from workbench.tui.state.pieces import plural, safe_line
from workbench.tui.state.subject import Pinned, Subject
from workbench.tui.widgets.lines import StatusLine
from workbench.tui.widgets.saying import say

if TYPE_CHECKING:
    from workbench.engine.chat import Chat

_TICK = 0.1  # seconds between two looks at whether there is something new to show
_DEFAULT_USER = "test_user_id"  # as the engine has it, where nobody says who is talking


class ChatPane(Pane):
    """Conversations with agents, one for each. They go on while something else is looked at."""

    TAB = "Chat"
    HELP = (
        "Talk to the agent of the selected row. It runs in a process of its own, with its code as it is when the "
        "session begins; tool calls are shown while they happen. Keep the chat as an eval case, all of it or from a "
        "chosen turn on, and it passes until the agent does something else."
    )
    PLACES: ClassVar[tuple[str, ...]] = ("chat",)
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("chat")]

    def __init__(self, hub: Hub, *, id: str) -> None:
        super().__init__(hub, id=id)
        self._chats: dict[str, TargetChat] = {}
        self._sessions: dict[str, Chat] = {}
        self._lines: dict[str, ChatLines] = {}
        self._number = 0
        self._subject = Subject()
        self._target: str | None = None  # whose chat is shown
        self._changed = False
        self._timer: Timer | None = None

    def compose(self) -> ComposeResult:
        """What was said, how it stands, the input."""
        yield TalkView(id="chat-talk")
        yield StatusLine(id="chat-standing")
        yield Prompt(id="chat-prompt")

    def on_mount(self) -> None:
        """Look at what changes by itself, ten times a second."""
        self._timer = self.set_interval(_TICK, self._tick)

    def show(self, subject: Subject) -> None:
        """Show the chat with the agent of the selected row."""
        before, self._subject = self._subject, subject
        if self._timer is not None:
            self._timer.resume()
        target = subject.row.target if subject.row is not None else ""
        if self.hub.state.is_only_kept(target):
            target = ""
        if target == self._target:
            if subject.read is not before.read and self._chat.conversation is None:
                self._show_talk(to_end=False)  # what can be said first is another case
            return
        self._target = target
        self.query_one(Prompt).show(self._chat.draft)
        self.query_one(Prompt).disabled = not target
        self._show_talk(to_end=True)

    def hide(self) -> None:
        """Conversations go on; what is shown of them does not."""
        if self._timer is not None:
            self._timer.pause()

    def focus_first(self) -> None:
        """The input, where there is somebody to talk to."""
        self.query_one(Prompt if self._target else TalkView).focus()

    def copyable(self) -> str | None:
        """The answer of the chosen turn, else the last one."""
        return self._chat.answer()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002
        """Which actions make sense now: None shows one dimmed."""
        chat = self._chat
        has_turns = chat.conversation is not None and bool(chat.conversation.turns)
        possible = {
            "stop_turn": chat.is_busy,
            "retry": chat.has_begun and not chat.is_busy,
            "save_case": chat.conversation is not None and bool(chat.conversation.answered),
            "show_trace": has_turns,
            "choose_turn": has_turns,
        }
        return True if possible.get(action, True) else None

    # The input.

    @on(TextArea.Changed, "#chat-prompt")
    def _on_typed(self, message: TextArea.Changed) -> None:
        self._chat.draft = message.text_area.text

    @on(Prompt.EarlierWanted)
    def _on_earlier_wanted(self) -> None:
        self._show_prompt(self._chat.prompts.earlier(self._chat.draft))

    @on(Prompt.LaterWanted)
    def _on_later_wanted(self) -> None:
        self._show_prompt(self._chat.prompts.later(self._chat.draft))

    @on(Prompt.Sent)
    def _on_sent(self, message: Prompt.Sent) -> None:
        chat = self._chat
        if not message.text.strip() or not chat.target:
            return
        if chat.is_busy:
            say(self, "the agent has not answered yet; ctrl+g stops it", severity="warning")
            return
        chat.prompts.add(message.text)
        self._show_prompt("")
        said = Content.of_text(message.text, role="user")
        session = self._sessions.get(chat.target)
        conversation = chat.conversation
        if conversation is None:
            self._open(chat, [said], chat.session_input)
        elif session is None or conversation.ended is not None:
            self._open(chat, [*chat.before_lost(), said], conversation.session_input)
        else:
            _tell(conversation, session, [said])
        self._show_talk(to_end=True)

    def action_write(self) -> None:
        """Go to the input."""
        self.query_one(Prompt).focus()

    # The session.

    @work(group="chat_new")
    async def action_new_session(self) -> None:
        """End the session; the next begins with what is said next."""
        chat = self._chat
        if await self._may_give_up(chat):
            self._end(chat)
            chat.give_up()
            self._show_talk(to_end=True)

    def action_stop_turn(self) -> None:
        """Stop the turn under way."""
        session = self._sessions.get(self._chat.target)
        if session is not None:
            session.cancel()

    def action_retry(self) -> None:
        """Say everything again in a new session."""
        chat = self._chat
        if chat.conversation is None:
            return
        said = chat.again()
        if said and chat.draft == said[-1].text():  # it was put back to be said again
            self._show_prompt("")
        self._open(chat, said, chat.conversation.session_input)

    @work(group="chat_new")
    async def action_load_case(self) -> None:
        """Begin as the selected case does, and say its turns."""
        chat, case = self._chat, self._case
        if case is None or not case.conversation:
            say(self, "select a case with turns: a scenario has none of its own", severity="warning")
        elif chat.is_busy:
            say(self, "the agent has not answered yet; ctrl+g stops it", severity="warning")
        elif await self._may_give_up(chat):
            contents = [invocation.user_content for invocation in case.conversation]
            self._open(chat, contents, case.session_input or SessionInput())

    @work(group="chat_new")
    async def action_edit_session_input(self) -> None:
        """Edit how the session starts, until something is said in it."""
        chat = self._chat
        if chat.has_begun or chat.is_busy:
            say(self, "the session has begun; ctrl+n ends it, then its start can be edited", severity="warning")
            return
        screen = SessionScreen(chat.session_input, default_app=chat.target, default_user=_DEFAULT_USER)
        edited = await self.app.push_screen_wait(screen)
        if edited is not None:
            chat.session_input = edited
            self._show_talk(to_end=True)

    # What is done with what was said.

    def action_choose_turn(self, by: int) -> None:
        """Move the cursor from turn to turn."""
        self._chat.choose(by)
        self._show_talk(to_end=self._chat.chosen is None)

    @on(TalkView.Clicked)
    def _on_clicked(self, message: TalkView.Clicked) -> None:
        chat, lines = self._chat, self._lines.get(self._chat.target)
        if lines is not None:
            number = lines.turn_at(message.line, self._width)
            chat.chosen = None if number == chat.chosen else number
            self._show_talk(to_end=False)

    def action_show_trace(self) -> None:
        """See the steps of the session so far."""
        conversation = self._chat.conversation
        if conversation is not None:
            title = f"chat {conversation.number} with {safe_line(conversation.target)}"
            self.post_message(SessionWanted(Pinned(title, None, conversation.result()), tab="trace"))

    @work(group="chat_keep", exclusive=True)
    async def action_save_case(self) -> None:
        """Keep the chat as an eval case."""
        chat, conversation = self._chat, self._chat.conversation
        if conversation is None or not conversation.answered:
            say(self, "nothing was answered yet: there is nothing to keep", severity="warning")
            return
        try:
            key = await keep(self.app, self.hub, conversation, chosen=chat.chosen)
        except NotKept:
            return
        except StoreError as error:
            say(self, str(error), severity="error")
            return
        chat.kept_turns = len(conversation.answered)
        say(self, f"kept as {key}")
        if key.target != conversation.target:
            why = f"{key.eval_set} belongs to {key.target or 'no agent'}, not to {conversation.target}"
            say(self, f"{why}: name it in workbench.toml, [targets.NAME] eval_sets", severity="warning")
        self.post_message(ProjectChanged(select=key))  # a new case can be selected only once it is listed

    async def _may_give_up(self, chat: TargetChat) -> bool:
        """Whether the session may end: asked where something in it was not kept."""
        lost = chat.not_kept
        if not lost:
            return True
        return await self.app.push_screen_wait(
            ConfirmScreen(f"End this session? {plural(lost, 'turn')} of it will be gone.")
        )

    @work(group="chat_open")
    async def _open(self, chat: TargetChat, said: Sequence[Content], session_input: SessionInput) -> None:
        """Begin a session in place of the one there is, and say these things in it."""
        self._end(chat)
        chat.is_opening = True
        try:
            session = await self.hub.gateway.chats.open(chat.target, session_input=session_input)
        except (CannotChat, StoreError) as error:
            chat.problem = str(error)
            chat.draft = chat.draft or said[-1].text()
            self._show_draft(chat)
            return
        finally:
            chat.is_opening = False
            self._changed = True
        self._number += 1
        conversation = Conversation(chat.target, self._number, session.session_input)
        chat.begin(conversation)
        self._sessions[chat.target] = session
        self._lines[chat.target] = ChatLines(conversation)
        _tell(conversation, session, said)
        if chat is self._chat:
            self._show_talk(to_end=True)
        self._follow(chat, conversation, session)

    @work(group="chat_follow")
    async def _follow(self, chat: TargetChat, conversation: Conversation, session: Chat) -> None:
        async for event in session.events():
            conversation.take(event, now=time.monotonic())
            is_last = isinstance(event, TurnFailed) and not conversation.waiting
            if is_last and chat.conversation is conversation and chat.take_back(conversation.turns[-1]):
                self._show_draft(chat)
            self._changed = True

    def _end(self, chat: TargetChat) -> None:
        session = self._sessions.pop(chat.target, None)
        if session is not None:
            session.end()

    # Showing.

    @property
    def _chat(self) -> TargetChat:
        """The chat that is shown."""
        return self._chats.setdefault(self._target or "", TargetChat(self._target or ""))

    @property
    def _case(self) -> EvalCase | None:
        """The selected case, whatever session is looked at in place of its result."""
        return self._subject.read.case if self._subject.read is not None else None

    @property
    def _width(self) -> int:
        return self.query_one(TalkView).scrollable_content_region.width

    def _tick(self) -> None:
        if self._changed:
            self._show_talk(to_end=False)
        elif self._chat.is_busy:
            self._show_standing()

    def _show_prompt(self, text: str | None) -> None:
        if text is not None:
            self.query_one(Prompt).show(text)
            self._chat.draft = text

    def _show_draft(self, chat: TargetChat) -> None:
        if chat is self._chat:
            self.query_one(Prompt).show(chat.draft)

    def _show_talk(self, *, to_end: bool) -> None:
        self._changed = False
        chat, view = self._chat, self.query_one(TalkView)
        lines = self._lines.get(chat.target) if chat.conversation is not None else None
        if lines is None:
            view.show_blocks(list(greeting(chat, self._case)), from_top=True)
        else:
            cursor = lines.first_line(chat.chosen, self._width) if chat.chosen is not None else None
            view.show(lines.lay_out, from_top=False, cursor=cursor)
            if to_end:
                view.go_to_end()
        self._show_standing()
        self.refresh_bindings()

    def _show_standing(self) -> None:
        line = standing_line(self._chat, now=time.monotonic()) if self._target else ()
        self.query_one("#chat-standing", StatusLine).show(line)


def _tell(conversation: Conversation, session: Chat, said: Sequence[Content]) -> None:
    for content in said:
        conversation.tell(content)
        session.say(content)
