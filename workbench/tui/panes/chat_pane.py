"""Chat pane: the turns of a session with the agent, and the prompt."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from textual import on, work
from textual.app import App, ComposeResult
from textual.containers import Vertical
from textual.content import Content as StyledText
from textual.message import Message
from textual.widgets import Input, Static, TextArea

from workbench.model.evalset import Content, EvalCase, SessionInput
from workbench.model.identity import CaseKey, JobKey
from workbench.model.results import CaseResult, Execution
from workbench.model.run_events import TurnFailed
from workbench.store.errors import FileChanged, StoreError
from workbench.store.files import derive_set_name
from workbench.tui.backend.document_calls import (
    CannotChat,
    find_agent,
    open_chat,
    prepare_branch,
    read_expected_turns,
    read_set_facts,
    save_chat_case,
)
from workbench.tui.dialogs.conflict_screen import ConflictScreen
from workbench.tui.dialogs.dialogs import AskScreen, ChooseScreen, ConfirmScreen, Dialog, ask_new_set
from workbench.tui.screen_context import (
    DocumentsChanged,
    Pane,
    ProjectChanged,
    RestingTimer,
    ScreenContext,
    SessionWanted,
)
from workbench.tui.state.browser_state import PinnedResult, Subject
from workbench.tui.state.case_status import CaseRecord
from workbench.tui.state.chat_state import (
    BranchOrigin,
    ChatConversation,
    ChatLines,
    SaveLocation,
    TargetChat,
    check_new_case_id,
    describe_new_chat,
    format_status,
    list_save_locations,
    parse_state,
    propose_case_id,
)
from workbench.tui.state.text_layout import plural, safe, safe_line
from workbench.tui.widgets.inputs import TextField
from workbench.tui.widgets.key_line import KeyLine, StatusLine, report_errors, say
from workbench.tui.widgets.row_lists import FollowingLines

if TYPE_CHECKING:
    from workbench.engine.chat_session import Chat, NewCase


# Saving a chat as an eval case, with questions to the user.


class NotSaved(Exception):
    """The user cancelled saving."""


async def save_chat(
    app: App[None], context: ScreenContext, conversation: ChatConversation, *, chosen: int | None
) -> CaseKey:
    """Ask for location and id, save the chat as a case, and return its key.

    Raises NotSaved and StoreError; the set is then unchanged.
    """
    first = await _ask_confirmation(app, conversation, chosen)
    shelf = await _ask_location(app, context, conversation)
    is_new_set = shelf.eval_set is None
    eval_set = shelf.eval_set or _parse_text(await ask_new_set(app, context, conversation.target))
    taken: frozenset[str] = frozenset()
    holds_state = True
    if not is_new_set:
        facts = await context.backend.call(lambda workspace: read_set_facts(workspace, eval_set))
        taken, holds_state = facts.eval_ids, facts.holds_final_state
    eval_id = await _ask_id(app, shelf, taken, conversation)
    final_state = await _ask_final_state(app, conversation) if holds_state else None
    case = _make_case(conversation, first=first, eval_id=eval_id, final_state=final_state)
    if is_new_set:
        set_id = derive_set_name(PurePosixPath(eval_set))
        await context.backend.edit(lambda workspace: workspace.documents.create_set(eval_set, eval_set_id=set_id))
    try:
        await context.backend.edit(lambda workspace: save_chat_case(workspace, eval_set, case))
    except FileChanged:
        if not await app.push_screen_wait(ConflictScreen(context.backend, eval_set)):
            raise
    return CaseKey(target=await _find_agent(context, eval_set, conversation), eval_set=eval_set, eval_id=eval_id)


async def _ask_confirmation(app: App[None], conversation: ChatConversation, chosen: int | None) -> int:
    """Ask for the first turn of the case: the first of the chat, or the chosen one."""
    count = len(conversation.answered_turns)
    if not chosen or chosen >= count:
        return 0
    rest = f"from turn {chosen + 1} on, with the state before it"
    return chosen * _parse_choice(
        await app.push_screen_wait(ChooseScreen("Save", [f"all {count} turns", rest], chosen=1))
    )


async def _ask_location(app: App[None], context: ScreenContext, conversation: ChatConversation) -> SaveLocation:
    state, origin = context.state, conversation.origin
    place, case = state.selected_set, state.selected_case
    if origin is not None and origin.case is not None:
        place, case = origin.case.eval_set, origin.case
    found = list_save_locations(state.browser.file_sets, target=conversation.target, eval_set=place, case=case)
    question = f"Save the chat with {safe_line(conversation.target)} as an eval case"
    shelf = found[_parse_choice(await app.push_screen_wait(ChooseScreen(question, [item.label for item in found])))]
    if shelf.replaces is not None:
        sure = f"Replace the case {safe_line(shelf.replaces.eval_id)}? Undo brings it back."
        if not await app.push_screen_wait(ConfirmScreen(sure)):
            raise NotSaved
    return shelf


async def _ask_id(app: App[None], shelf: SaveLocation, taken: frozenset[str], conversation: ChatConversation) -> str:
    if shelf.replaces is not None:
        return shelf.replaces.eval_id
    answer = await app.push_screen_wait(
        AskScreen(
            "Id of the case",
            value=propose_case_id(taken, conversation.origin),
            check=lambda eval_id: check_new_case_id(eval_id, taken=taken),
        )
    )
    return _parse_text(answer)


async def _ask_final_state(app: App[None], conversation: ChatConversation) -> dict[str, object] | None:
    state = conversation.final_state
    if not state:
        return None
    named = safe_line(", ".join(state), width=120)
    choices = ["no", f"yes: {plural(len(state), 'key')} ({named})"]
    answer = await app.push_screen_wait(ChooseScreen("Also expect the final state of the session?", choices))
    return state if _parse_choice(answer) else None


async def _find_agent(context: ScreenContext, eval_set: str, conversation: ChatConversation) -> str:
    """Return the agent of the set; empty if it has none."""
    try:
        return await context.backend.call(lambda workspace: find_agent(workspace, eval_set)) or ""
    except StoreError:  # an error in the settings is reported when the project is read again; the case is saved
        return conversation.target


def _make_case(
    conversation: ChatConversation, *, first: int, eval_id: str, final_state: dict[str, object] | None
) -> NewCase:
    from workbench.engine.chat_session import NewCase  # imports the engine, so only when needed

    started = conversation.session_input
    expected = None if conversation.origin is None else conversation.origin.expected
    return NewCase(
        eval_id=eval_id,
        turns=[turn.result for turn in conversation.answered_turns[first:] if turn.result is not None],
        session_input=SessionInput(
            app_name=started.app_name, user_id=started.user_id, state=conversation.find_state_before_turn(first)
        ),
        final_state=final_state,
        expected=() if expected is None else expected.turns[first:],
        expected_format=None if expected is None else expected.format,
    )


def _parse_choice(index: int | None) -> int:
    if index is None:
        raise NotSaved
    return index


def _parse_text(text: str | None) -> str:
    if text is None:
        raise NotSaved
    return text


# Branches: the turns of a recording that begin a new session.


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchSource:
    """What can be branched from: answered turns, and where their model calls are recorded. `title` is safe.

    `case` is the case that the turns are from, if any; `turn` is proposed as the last one to replay.
    """

    title: str
    target: str
    execution: Execution
    models: JobKey | Chat
    session_input: SessionInput
    case: CaseKey | None
    turn: int | None


def find_last_result(record: CaseRecord | None, repeat: int, stored: Sequence[CaseResult]) -> CaseResult | None:
    """Return the result of a repeat in the newest run; None if there is none.

    `stored` are the results that are not in memory.
    """
    if record is None or repeat not in record.outcomes:
        return None
    return record.outcomes[repeat].result or next((each for each in stored if each.repeat == repeat), None)


async def begin_branch(app: App[None], context: ScreenContext, source: BranchSource) -> BranchOrigin | None:
    """Ask how many turns are replayed, and before tools are called. Return None if the user cancels.

    Raises CannotChat and StoreError.
    """
    turns = source.execution.turns
    messages = [safe_line(turn.invocation.user_content.text(), width=60) for turn in turns]
    choices = [
        *(f"up to turn {number}: {text}" for number, text in enumerate(messages, start=1)),
        "no turn: a fresh session",
    ]
    last = len(turns) - 1 if source.turn is None else min(source.turn, len(turns) - 1)
    question = f"Branch of {source.title}: which turns are replayed before your message?"
    chosen = await app.push_screen_wait(ChooseScreen(question, choices, chosen=last))
    if chosen is None:
        return None
    count = (chosen + 1) % len(choices)
    prepared = await context.backend.call(
        lambda workspace: prepare_branch(workspace, source.target, source.execution, turns=count, source=source.models)
    )
    if prepared.warning:
        question = f"{prepared.warning[:1].upper()}{safe(prepared.warning[1:])}. Continue?"
        if not await app.push_screen_wait(ConfirmScreen(question)):
            return None
    return BranchOrigin(branch=prepared.branch, case=source.case)


# The input of the chat: enter sends, up and down show earlier prompts.


class Prompt(TextField):
    """Input of one message, with several lines."""

    PLACES = ("chat_prompt",)

    @dataclass
    class Sent(Message):
        """The user sends the text of the input."""

        text: str

    @dataclass
    class Browsed(Message):
        """The user wants the previous prompt (`is_back`) or the next one."""

        is_back: bool

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id, compact=True, placeholder="type a message; enter sends it")

    def show(self, text: str) -> None:
        """Replace the text of the input, with the cursor at its end."""
        if text != self.text:
            self.load_text(text)
            self.move_cursor(self.document.end)

    def action_send(self) -> None:
        self.post_message(self.Sent(self.text))

    def action_new_line(self) -> None:
        self.insert("\n")

    def action_earlier(self) -> None:
        if self._row == 0:
            self.post_message(self.Browsed(is_back=True))
        else:
            self.action_cursor_up()

    def action_later(self) -> None:
        if self._row >= self.wrapped_document.height - 1:
            self.post_message(self.Browsed(is_back=False))
        else:
            self.action_cursor_down()

    @property
    def _row(self) -> int:
        """Row of the cursor in the wrapped text."""
        return self.wrapped_document.location_to_offset(self.cursor_location).y


# The dialog to edit app, user and initial state of a session.


class SessionScreen(Dialog[SessionInput | None]):
    """Returns the input of the next session; None if the user cancels."""

    PLACES = ("chat_session",)

    def __init__(self, given: SessionInput, *, default_app: str, default_user: str) -> None:
        super().__init__()
        self._given = given
        self._default_app = default_app
        self._default_user = default_user

    def compose(self) -> ComposeResult:
        state: dict[str, Any] = self._given.state
        with Vertical(classes="dialog dialog-wide"):
            yield Static(StyledText("How the session starts"))
            yield Static(StyledText("app"), classes="session-label")
            yield Input(self._given.app_name, placeholder=self._default_app, compact=True, id="session-app")
            yield Static(StyledText("user"), classes="session-label")
            yield Input(self._given.user_id, placeholder=self._default_user, compact=True, id="session-user")
            yield Static(StyledText("initial state, a JSON object"), classes="session-label")
            text = json.dumps(state, ensure_ascii=False, indent=2) if state else ""
            yield TextField(text, compact=True, id="session-state", placeholder="{}")
            yield Static(StyledText(""), classes="dialog-problem")
        yield KeyLine()

    @on(TextArea.Changed)
    def _on_changed(self, message: TextArea.Changed) -> None:
        problem = parse_state(message.text_area.text)[1]
        self.query_one(".dialog-problem", Static).update(StyledText(safe(problem)))

    @on(Input.Submitted)
    def _on_submitted(self) -> None:
        self.focus_next()

    def action_done(self) -> None:
        area = self.query_one(TextArea)
        state, problem = parse_state(area.text)
        if problem:
            area.focus()
            return
        app, user = (self.query_one(f"#session-{name}", Input).value.strip() for name in ("app", "user"))
        self.dismiss(SessionInput(app_name=app, user_id=user, session_id=self._given.session_id, state=state))


# The pane: chat with the agent of the selected row, and save the chat as an eval case.

_TICK = 0.1  # seconds between two updates
_DEFAULT_USER = "test_user_id"  # default of the engine


class ChatPane(Pane):
    """Chats with agents, one for each. They continue while another row is selected."""

    TAB = "Chat"
    HELP = (
        "Chat with the agent of the selected row. It runs in its own process, with its code at the start of the "
        "session; tool calls are shown while they run. Save the chat as an eval case, all of it or from a chosen turn "
        "on; the case passes until the agent behaves differently. Escape goes back to the eval sets: the agent answers "
        "on, and the session stays."
    )
    PLACES = ("chat",)

    def __init__(self, context: ScreenContext, *, id: str) -> None:
        super().__init__(context, id=id)
        self._chats: dict[str, TargetChat] = {}
        self._sessions: dict[str, Chat] = {}
        self._lines: dict[str, ChatLines] = {}
        self._number = 0
        self._subject = Subject()
        self._target: str | None = None  # whose chat is shown
        self._changed = False
        self._is_shown = False
        self._updates: RestingTimer | None = None

    def compose(self) -> ComposeResult:
        yield FollowingLines(id="chat-talk")
        yield StatusLine(id="chat-standing")
        yield Prompt(id="chat-prompt")

    def on_mount(self) -> None:
        self._updates = RestingTimer(self, _TICK, self._tick)

    @property
    def must_stay(self) -> bool:
        """True while the user types for an agent that the project no longer has, also in another window."""
        return self._is_agent_gone and self.screen.focused in (None, self.query_one(Prompt))

    @property
    def _is_agent_gone(self) -> bool:
        project = self.context.state.project
        return bool(self._target) and project is not None and self._target not in project.targets

    def on_descendant_blur(self) -> None:
        """Show the selection when the user leaves the message to an agent that is gone."""
        if self._is_agent_gone and not self.must_stay:
            self.post_message(DocumentsChanged(frozenset()))

    def show(self, subject: Subject) -> None:
        """Show the chat with the agent of the selected row."""
        if self.must_stay:
            return
        before, self._subject = self._subject, subject
        self._is_shown = True
        self._update_soon()
        target = subject.row.target if subject.row is not None else ""
        if self.context.state.is_history_dataset(target):
            target = ""
        if target == self._target:
            if subject.loaded is not before.loaded and self._get_chat.conversation is None:
                self._show_talk(to_end=False)  # what can be said first is another case
            return
        self._target = target
        self.query_one(Prompt).show(self._get_chat.draft)
        self.query_one(Prompt).disabled = not target
        self._show_talk(to_end=True)

    def hide(self) -> None:
        """Stop updates; the sessions continue."""
        self._is_shown = False
        if self._updates is not None:
            self._updates.rest()

    def focus_first(self) -> None:
        """Focus the input, if there is an agent."""
        self.query_one(Prompt if self._target else FollowingLines).focus()

    def copyable(self) -> str | None:
        """Return the answer of the chosen turn, else the last one."""
        return self._get_chat.get_answer()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002
        chat = self._get_chat
        conversation = chat.conversation
        has_turns = conversation is not None and bool(conversation.turns)
        has_answers = conversation is not None and bool(conversation.answered_turns)
        possible = {
            "stop_turn": chat.is_busy,
            "retry": chat.has_begun and not chat.is_busy,
            "save_case": has_answers,
            "show_trace": has_turns,
            "choose_turn": has_turns,
            "branch": has_answers and not chat.is_busy,
            "toggle_details": conversation is not None and conversation.has_failed,
        }
        if action == "stop_replay":  # otherwise its key goes back
            return conversation is not None and conversation.is_replaying
        return True if possible.get(action, True) else None

    # The input.

    @on(TextArea.Changed, "#chat-prompt")
    def _on_typed(self, message: TextArea.Changed) -> None:
        self._get_chat.draft = message.text_area.text

    @on(Prompt.Browsed)
    def _on_browsed(self, message: Prompt.Browsed) -> None:
        prompts = self._get_chat.prompts
        self._show_prompt((prompts.show_previous if message.is_back else prompts.show_next)(self._get_chat.draft))

    def _say_busy(self) -> None:
        key = self.context.state.find_key("chat_stop")
        say(self, f"the agent has not answered yet; {key} stops it", severity="warning")

    @on(Prompt.Sent)
    def _on_sent(self, message: Prompt.Sent) -> None:
        chat = self._get_chat
        if not message.text.strip() or not chat.target:
            return
        if chat.is_busy:  # said in the footer, just below the message
            key = self.context.state.find_key("chat_stop")
            say(self, f"your message is kept: send it once the agent has answered; {key} stops the agent")
            return
        chat.prompts.add(message.text)
        self._show_prompt("")
        said = Content.of_text(message.text, role="user")
        session = self._sessions.get(chat.target)
        conversation = chat.conversation
        if conversation is None:
            self._open(chat, [said], chat.session_input)
        elif session is None or conversation.ended is not None:
            answered, origin = chat.list_answered_messages(), conversation.origin
            if origin is not None:  # a turn that could not be replayed is left out
                origin = origin.limit_turns(len(answered))
            self._open(chat, [*answered, said], conversation.session_input, origin)
        else:
            _send_message(conversation, session, [said])
        self._show_talk(to_end=True)

    def action_write(self) -> None:
        self.query_one(Prompt).focus()

    # The session.

    @work(group="chat_new")
    async def action_new_session(self) -> None:
        chat = self._get_chat
        if await self._confirm_discard(chat):
            self._end_session(chat)
            chat.discard()
            self._show_talk(to_end=True)

    def action_stop_turn(self) -> None:
        session = self._sessions.get(self._get_chat.target)
        if session is not None:
            session.cancel()

    def action_stop_replay(self) -> None:
        self.action_stop_turn()

    def action_retry(self) -> None:
        chat = self._get_chat
        if chat.conversation is None:
            return
        said = chat.list_all_messages()
        if said and chat.draft == said[-1].text():  # the message was put back into the input
            self._show_prompt("")
        self._open(chat, said, chat.conversation.session_input, chat.conversation.origin)

    @work(group="chat_new", description="branch a case")
    async def branch_case(self, key: CaseKey, *, turn: int | None, repeat: int | None) -> None:
        """Begin a session with turns of the last run of a case, by default up to this turn of the shown repeat."""
        board = self.context.state.board
        record = board.get_record(key)
        read = await self.context.backend.project.read_case(
            key, stored=record is not None and record.lacks_results, earlier=board.find_earlier_verdicts([key])
        )
        finished = [] if record is None else sorted(record.outcomes)
        if repeat is None:
            shown = self._subject.repeat if self._subject.key == key else None
            repeat = shown if shown in finished else next(iter(finished), 0)
        result = find_last_result(record, repeat, read.stored)
        title = safe_line(key.eval_id) + (f", repeat {repeat + 1}" if len({*finished, repeat}) > 1 else "")
        if read.case is None or result is None or not result.execution.turns:
            say(self, read.problem or f"{title} has no answered turn to replay; r runs it", severity="warning")
            return
        source = BranchSource(
            title=title,
            target=key.target,
            execution=result.execution,
            models=JobKey(case=key, repeat=result.repeat),
            session_input=read.case.session_input or SessionInput(),
            case=key,
            turn=turn,
        )
        await self._branch(source)

    @work(group="chat_new")
    async def action_branch(self) -> None:
        chat = self._get_chat
        conversation, session = chat.conversation, self._sessions.get(chat.target)
        if conversation is not None and session is not None and conversation.answered_turns:
            source = BranchSource(
                title="this chat",
                target=chat.target,
                execution=conversation.make_result().execution,
                models=session,
                session_input=conversation.session_input,
                case=None if conversation.origin is None else conversation.origin.case,
                turn=chat.chosen,
            )
            await self._branch(source)

    async def _branch(self, source: BranchSource) -> None:
        chat = self._chats.setdefault(source.target, TargetChat(source.target))
        if chat.is_busy:
            self._say_busy()
            return
        with report_errors(self, CannotChat):
            origin = await begin_branch(self.app, self.context, source)
            if origin is None or not await self._confirm_discard(chat):
                return
            if origin.case is not None:
                turns, case = origin.branch.turns, origin.case
                expected = await self.context.backend.call(
                    lambda workspace: read_expected_turns(workspace, case, turns)
                )
                origin = replace(origin, expected=expected)
            chat.draft = ""
            self._show_draft(chat)
            self.query_one(Prompt).focus()
            self._open(chat, [], source.session_input, origin)

    @work(group="chat_new")
    async def action_load_case(self) -> None:
        chat, case = self._get_chat, self._case
        if case is None or not case.conversation:
            say(self, "select a case with turns; a scenario has none", severity="warning")
        elif chat.is_busy:
            self._say_busy()
        elif await self._confirm_discard(chat):
            contents = [invocation.user_content for invocation in case.conversation]
            self._open(chat, contents, case.session_input or SessionInput())

    @work(group="chat_new")
    async def action_edit_session_input(self) -> None:
        chat = self._get_chat
        if chat.has_begun or chat.is_busy:
            key = self.context.state.find_key("chat_new_session")
            say(self, f"the session has begun; end it with {key} to edit its initial state", severity="warning")
            return
        screen = SessionScreen(chat.session_input, default_app=chat.target, default_user=_DEFAULT_USER)
        edited = await self.app.push_screen_wait(screen)
        if edited is not None:
            chat.session_input = edited
            self._show_talk(to_end=True)

    # Actions on turns.

    def action_choose_turn(self, by: int) -> None:
        self._get_chat.move_cursor(by)
        self._show_talk(to_end=self._get_chat.chosen is None)

    @on(FollowingLines.Clicked)
    def _on_clicked(self, message: FollowingLines.Clicked) -> None:
        chat, lines = self._get_chat, self._lines.get(self._get_chat.target)
        if lines is not None:
            number = lines.find_turn(message.line, self._width)
            chat.chosen = None if number == chat.chosen else number
            self._show_talk(to_end=False)

    def action_show_trace(self) -> None:
        conversation = self._get_chat.conversation
        if conversation is not None:
            title = f"chat {conversation.number} with {safe_line(conversation.target)}"
            self.post_message(SessionWanted(PinnedResult(title, None, conversation.make_result()), tab="trace"))

    def action_toggle_details(self) -> None:
        lines = self._lines.get(self._get_chat.target)
        if lines is not None:
            lines.toggle_details()
            self._show_talk(to_end=False)

    @work(group="chat_keep", exclusive=True)
    async def action_save_case(self) -> None:
        chat, conversation = self._get_chat, self._get_chat.conversation
        if conversation is None or not conversation.answered_turns:
            say(self, "there is no answered turn to save yet", severity="warning")
            return
        try:
            key = await save_chat(self.app, self.context, conversation, chosen=chat.chosen)
        except NotSaved:
            return
        except StoreError as error:
            say(self, str(error), severity="error")
            return
        chat.saved_turns = len(conversation.answered_turns)
        say(self, f"saved as {key}")
        if key.target != conversation.target:
            why = f"{key.eval_set} belongs to {key.target or 'no agent'}, not to {conversation.target}"
            say(self, f"{why}: list it in workbench.toml, [targets.NAME] eval_sets", severity="warning")
        self.post_message(ProjectChanged(select=key))  # a new case can be selected only once it is listed

    async def _confirm_discard(self, chat: TargetChat) -> bool:
        """Ask before ending a session with unsaved turns. Return whether it may end."""
        lost = chat.unsaved_turns
        if not lost:
            return True
        return await self.app.push_screen_wait(
            ConfirmScreen(f"End this session? {plural(lost, 'turn')} of it will be lost.")
        )

    @work(group="chat_open", description="open")
    async def _open(
        self,
        chat: TargetChat,
        messages: Sequence[Content],
        session_input: SessionInput,
        origin: BranchOrigin | None = None,
    ) -> None:
        """Replace the session by a new one, and send these messages. The first ones of a branch are replayed."""
        replayed = [] if origin is None else [turn.invocation.user_content for turn in origin.branch.turns]
        said = messages[len(replayed) :]
        branch = None if origin is None else origin.branch
        self._end_session(chat)
        chat.is_opening = True
        try:
            session = await self.context.backend.call(
                lambda workspace: open_chat(workspace, chat.target, session_input=session_input, branch=branch)
            )
        except (CannotChat, StoreError) as error:
            chat.problem = str(error)
            chat.draft = chat.draft or (said[-1].text() if said else "")
            self._show_draft(chat)
            return
        finally:
            chat.is_opening = False
            self._changed = True
            self._update_soon()
        self._number += 1
        conversation = ChatConversation(chat.target, self._number, session.session_input, origin)
        chat.start(conversation)
        self._sessions[chat.target] = session
        self._lines[chat.target] = ChatLines(conversation)
        for content in replayed:  # the session sends them itself
            conversation.add_message(content)
        _send_message(conversation, session, said)
        if chat is self._get_chat:
            self._show_talk(to_end=True)
        self._follow(chat, conversation, session)

    @work(group="chat_follow", description="follow")
    async def _follow(self, chat: TargetChat, conversation: ChatConversation, session: Chat) -> None:
        async for event in session.events():
            conversation.apply(event, now=time.monotonic())
            if isinstance(event, TurnFailed) and chat.conversation is conversation and chat.restore_draft():
                self._show_draft(chat)
            self._changed = True
            self._update_soon()

    def _end_session(self, chat: TargetChat) -> None:
        session = self._sessions.pop(chat.target, None)
        if session is not None:
            session.end()

    # Showing.

    @property
    def _get_chat(self) -> TargetChat:
        """The chat of the shown agent."""
        return self._chats.setdefault(self._target or "", TargetChat(self._target or ""))

    @property
    def _case(self) -> EvalCase | None:
        """The selected case, regardless of a pinned result."""
        return self._subject.loaded.case if self._subject.loaded is not None else None

    @property
    def _width(self) -> int:
        return self.query_one(FollowingLines).scrollable_content_region.width

    def _update_soon(self) -> None:
        if self._updates is not None and self._is_shown:
            self._updates.wake()

    def _tick(self) -> bool:
        if self._changed:
            self._show_talk(to_end=False)
        elif self._get_chat.is_busy:
            self._show_status()
        return self._get_chat.is_busy

    def _show_prompt(self, text: str | None) -> None:
        if text is not None:
            self.query_one(Prompt).show(text)
            self._get_chat.draft = text

    def _show_draft(self, chat: TargetChat) -> None:
        if chat is self._get_chat:
            self.query_one(Prompt).show(chat.draft)

    def _show_talk(self, *, to_end: bool) -> None:
        self._changed = False
        chat, view = self._get_chat, self.query_one(FollowingLines)
        lines = self._lines.get(chat.target) if chat.conversation is not None else None
        if lines is None:
            view.show_blocks(
                list(describe_new_chat(chat, self._case, find_key=self.context.state.find_key)), from_top=True
            )
        else:
            cursor = lines.find_first_line(chat.chosen, self._width) if chat.chosen is not None else None
            view.show(lines.make_lines, from_top=False, cursor=cursor)
            if to_end:
                view.go_to_end()
        self._show_status()
        self._update_soon()  # while it is busy
        self.refresh_bindings()

    def _show_status(self) -> None:
        line = format_status(self._get_chat, now=time.monotonic()) if self._target else ()
        self.query_one("#chat-standing", StatusLine).show(line)


def _send_message(conversation: ChatConversation, session: Chat, said: Sequence[Content]) -> None:
    for content in said:
        conversation.add_message(content)
        session.say(content)
