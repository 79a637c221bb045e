"""The chat: its turns, the prompt, and the session."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, ClassVar

from textual import on, work
from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content as StyledText
from textual.message import Message
from textual.timer import Timer
from textual.widgets import Input, Static, TextArea

from workbench.model.evalset import Content, EvalCase, SessionInput
from workbench.model.identity import CaseKey
from workbench.model.run_events import TurnFailed
from workbench.store.errors import FileChanged, StoreError
from workbench.store.filetypes import derive_set_name
from workbench.tui.backend.chat_calls import (
    CannotChat,
    find_agent,
    find_new_sets,
    open_chat,
    read_set_facts,
    save_chat_case,
)
from workbench.tui.dialogs.conflict_screen import ConflictScreen
from workbench.tui.dialogs.dialogs import AskScreen, ChooseScreen, ConfirmScreen, Dialog
from workbench.tui.keys import bindings, dialog_bindings
from workbench.tui.panes.pane import Pane
from workbench.tui.screen_messages import ProjectChanged, ScreenContext, SessionWanted
from workbench.tui.state.browser_state import Pinned, Subject
from workbench.tui.state.chat_state import (
    ChatLines,
    Conversation,
    Shelf,
    TargetChat,
    greeting,
    new_case_id,
    new_set_name,
    problem_of_case_id,
    problem_of_set_name,
    read_state,
    shelves,
    standing_line,
    warning_of_set_name,
)
from workbench.tui.state.text_layout import plural, safe, safe_line
from workbench.tui.widgets.inputs import KeyLine, say
from workbench.tui.widgets.row_lists import ClickableLines, LayOut, StatusLine

if TYPE_CHECKING:
    from workbench.engine.chat_session import Chat, NewCase


# The questions that are asked before a chat is written down as an eval case.


class NotKept(Exception):
    """The user changed their mind."""


async def keep(app: App[None], context: ScreenContext, conversation: Conversation, *, chosen: int | None) -> CaseKey:
    """Ask what has to be known and write the case, whose key is given.

    Raises NotKept and StoreError; then the set is as it was.
    """
    first = await _ask_first(app, conversation, chosen)
    shelf = await _ask_shelf(app, context, conversation)
    is_new_set = shelf.eval_set is None
    eval_set = shelf.eval_set or await _ask_new_set(app, context, conversation)
    taken: frozenset[str] = frozenset()
    holds_state = True
    if not is_new_set:
        facts = await context.backend.call(lambda workspace: read_set_facts(workspace, eval_set))
        taken, holds_state = facts.eval_ids, facts.holds_final_state
    eval_id = await _ask_id(app, shelf, taken)
    final_state = await _ask_final_state(app, conversation) if holds_state else None
    case = _case(conversation, first=first, eval_id=eval_id, final_state=final_state)
    if is_new_set:
        set_id = derive_set_name(PurePosixPath(eval_set))
        await context.backend.edit(lambda workspace: workspace.documents.create_set(eval_set, eval_set_id=set_id))
    try:
        await context.backend.edit(lambda workspace: save_chat_case(workspace, eval_set, case))
    except FileChanged:
        if not await app.push_screen_wait(ConflictScreen(context.backend, eval_set)):
            raise
    return CaseKey(target=await _agent_of(context, eval_set, conversation), eval_set=eval_set, eval_id=eval_id)


async def _ask_first(app: App[None], conversation: Conversation, chosen: int | None) -> int:
    """The turn that the case begins with: the first, or the chosen one."""
    count = len(conversation.answered)
    if not chosen or chosen >= count:
        return 0
    rest = f"from turn {chosen + 1} on, in the state before it"
    return chosen * _answer(await app.push_screen_wait(ChooseScreen("Keep", [f"all {count} turns", rest], chosen=1)))


async def _ask_shelf(app: App[None], context: ScreenContext, conversation: Conversation) -> Shelf:
    state = context.state
    found = shelves(
        state.browser.files, target=conversation.target, eval_set=state.selected_set, case=state.selected_case
    )
    question = f"Keep the chat with {safe_line(conversation.target)} as an eval case"
    shelf = found[_answer(await app.push_screen_wait(ChooseScreen(question, [item.label for item in found])))]
    if shelf.replaces is not None:
        sure = f"Replace the case {safe_line(shelf.replaces.eval_id)}? Undo brings it back."
        if not await app.push_screen_wait(ConfirmScreen(sure)):
            raise NotKept
    return shelf


async def _ask_new_set(app: App[None], context: ScreenContext, conversation: Conversation) -> str:
    sets, target = context.state.browser.files, conversation.target
    places = await context.backend.call(find_new_sets)
    answer = await app.push_screen_wait(
        AskScreen(
            "File of the new eval set, relative to the project",
            value=new_set_name(sets, target=target, places=places),
            check=lambda name: problem_of_set_name(name, sets=sets),
            warn=lambda name: warning_of_set_name(name, target=target, places=places),
        )
    )
    return _given(answer)


async def _ask_id(app: App[None], shelf: Shelf, taken: frozenset[str]) -> str:
    if shelf.replaces is not None:
        return shelf.replaces.eval_id
    answer = await app.push_screen_wait(
        AskScreen(
            "Id of the case",
            value=new_case_id(taken),
            check=lambda eval_id: problem_of_case_id(eval_id, taken=taken),
        )
    )
    return _given(answer)


async def _ask_final_state(app: App[None], conversation: Conversation) -> dict[str, object] | None:
    state = conversation.final_state
    if not state:
        return None
    named = safe_line(", ".join(state), width=120)
    choices = ["no", f"yes: {plural(len(state), 'key')} ({named})"]
    answer = await app.push_screen_wait(ChooseScreen("Expect the final state of the session, too?", choices))
    return state if _answer(answer) else None


async def _agent_of(context: ScreenContext, eval_set: str, conversation: Conversation) -> str:
    """The agent that the set belongs to; empty for none."""
    try:
        return await context.backend.call(lambda workspace: find_agent(workspace, eval_set)) or ""
    except StoreError:  # of the settings: told where the project is looked at again, and the case is written
        return conversation.target


def _case(conversation: Conversation, *, first: int, eval_id: str, final_state: dict[str, object] | None) -> NewCase:
    from workbench.engine.chat_session import NewCase  # with the engine: not before it is needed

    started = conversation.session_input
    return NewCase(
        eval_id=eval_id,
        turns=[turn.result for turn in conversation.answered[first:] if turn.result is not None],
        session_input=SessionInput(
            app_name=started.app_name, user_id=started.user_id, state=conversation.state_before(first)
        ),
        final_state=final_state,
    )


def _answer(index: int | None) -> int:
    if index is None:
        raise NotKept
    return index


def _given(text: str | None) -> str:
    if text is None:
        raise NotKept
    return text


# The input of the chat: enter sends, up and down bring back what was said before.


class Prompt(TextArea):
    """Some lines of text to be said."""

    PLACES: ClassVar[tuple[str, ...]] = ("chat_prompt",)
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("chat_prompt")]

    @dataclass
    class Sent(Message):
        """The user wants to say what stands in the input."""

        text: str

    @dataclass
    class EarlierWanted(Message):
        """The user wants to see what was said before what stands in the input."""

    @dataclass
    class LaterWanted(Message):
        """The user wants to see what was said after what stands in the input."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id, compact=True, placeholder="say something; enter sends, ctrl+j makes a new line")

    def show(self, text: str) -> None:
        """Replace what stands in the input, with the cursor behind it."""
        if text != self.text:
            self.load_text(text)
            self.move_cursor(self.document.end)

    def action_send(self) -> None:
        """Say it."""
        self.post_message(self.Sent(self.text))

    def action_new_line(self) -> None:
        """Break the line."""
        self.insert("\n")

    def action_earlier(self) -> None:
        """In the first line go back in what was said, else go up."""
        if self._row == 0:
            self.post_message(self.EarlierWanted())
        else:
            self.action_cursor_up()

    def action_later(self) -> None:
        """In the last line go forward in what was said, else go down."""
        if self._row >= self.wrapped_document.height - 1:
            self.post_message(self.LaterWanted())
        else:
            self.action_cursor_down()

    @property
    def _row(self) -> int:
        """The row of the cursor, as the text is wrapped."""
        return self.wrapped_document.location_to_offset(self.cursor_location).y


# The dialog in which the start of a session is edited: app, user and initial state.


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
            yield Static(StyledText("How the session starts"))
            yield Static(StyledText("app"), classes="session-label")
            yield Input(self._given.app_name, placeholder=self._default_app, compact=True, id="session-app")
            yield Static(StyledText("user"), classes="session-label")
            yield Input(self._given.user_id, placeholder=self._default_user, compact=True, id="session-user")
            yield Static(StyledText("initial state, a JSON object"), classes="session-label")
            text = json.dumps(state, ensure_ascii=False, indent=2) if state else ""
            yield TextArea(text, compact=True, id="session-state", placeholder="{}")
            yield Static(StyledText(""), classes="dialog-problem")
        yield KeyLine()

    @on(TextArea.Changed)
    def _on_changed(self, message: TextArea.Changed) -> None:
        problem = read_state(message.text_area.text)[1]
        self.query_one(".dialog-problem", Static).update(StyledText(safe(problem)))

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


# What was said, to read: a click chooses a turn.


class TalkView(ClickableLines):
    """The lines of a conversation, kept at their end while it goes on unless the reader has left it."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._is_following = False  # new lines, and lines that wrap anew, then scroll to the end

    def show(self, lay_out: LayOut, *, from_top: bool, cursor: int | None = None) -> None:
        """Replace what is shown; what is read from its top is not followed to its end."""
        if from_top:
            self._is_following = False
        super().show(lay_out, from_top=from_top, cursor=cursor)

    def go_to_end(self) -> None:
        """Bring the last line into sight, and keep it there."""
        self.scroll_end(animate=False, force=True, immediate=True)
        self._is_following = True

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Only scrolling leaves the end or comes back to it, not that there are more lines."""
        super().watch_scroll_y(old_value, new_value)
        self._is_following = new_value >= self.max_scroll_y

    def _refresh_lines(self) -> None:
        super()._refresh_lines()
        if self._is_following:
            self.go_to_end()


# The chat: talk to the agent of the selected row, and keep what was said as an eval case.

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

    def __init__(self, context: ScreenContext, *, id: str) -> None:
        super().__init__(context, id=id)
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
        if self.context.state.is_only_kept(target):
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
            key = await keep(self.app, self.context, conversation, chosen=chat.chosen)
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
            session = await self.context.backend.call(
                lambda workspace: open_chat(workspace, chat.target, session_input=session_input)
            )
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
