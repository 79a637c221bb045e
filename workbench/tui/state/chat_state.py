"""State of the chats: sessions, their lines, and saving them as eval cases."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any

from workbench.model.evalset import Content, EvalCase, Invocation, InvocationEvents, SessionInput
from workbench.model.identity import CaseKey
from workbench.model.results import CaseResult, CaseStatus, Execution, Failure, TurnResult
from workbench.model.run_events import ChatEnded, ChatEvent, StateSeen, StepSeen, TurnAnswered, TurnBegan, TurnFailed
from workbench.model.text import format_duration, mask_named_secrets, redact
from workbench.model.trace import Span, SpanKind, ToolCall, find_simulators
from workbench.model.turn_diff import make_side
from workbench.report.text_report import failure_texts
from workbench.tui.state.browser_list import ListedSet
from workbench.tui.state.case_filter import find_free_name
from workbench.tui.state.editor_state import Invalid, TextForm, read
from workbench.tui.state.text_layout import (
    BLANK,
    Block,
    Line,
    Paragraph,
    Style,
    StyledText,
    plural,
    render_blocks,
    safe,
    safe_line,
)

if TYPE_CHECKING:
    from workbench.engine.chat_session import ChatBranch
    from workbench.tui.backend.document_calls import ExpectedTurns


# One session with an agent, built from its events.


class ChatPhase(StrEnum):
    """Progress of a turn."""

    UNDER_WAY = "under way"
    ANSWERED = "answered"
    FAILED = "failed"
    CANCELLED = "stopped"


@dataclass(slots=True)
class ChatTurn:
    """One turn. `began` is a time of the caller's monotonic clock; `version` grows with every change.

    `steps` are those of the agent, by id, in the order of their start. `state` is the session state after the turn.
    `live_parts` say what of a replayed turn was not replayed.
    """

    number: int
    content: Content
    at: datetime
    began: float
    phase: ChatPhase = ChatPhase.UNDER_WAY
    steps: dict[str, Span] = field(default_factory=dict)
    result: TurnResult | None = None
    failure: Failure | None = None
    duration_seconds: float | None = None
    state: dict[str, Any] | None = None
    is_replayed: bool = False
    live_parts: Sequence[str] = ()
    version: int = 0

    @property
    def active_tool(self) -> str:
        """Name of the innermost running tool; empty if none is known."""
        tools = [step.name for step in self.steps.values() if step.kind is SpanKind.TOOL and step.is_running]
        return tools[-1] if tools else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchOrigin:
    """Where a session branched: the turns that it begins with, and the case that they are from.

    `case` is None if they are from a chat that did not branch from a case. `expected` is what the case expects of them.
    """

    branch: ChatBranch
    case: CaseKey | None = None
    expected: ExpectedTurns | None = None

    def limit_turns(self, count: int) -> BranchOrigin:
        """Return the origin of a branch that begins with only so many of its turns."""
        expected = None if self.expected is None else replace(self.expected, turns=self.expected.turns[:count])
        return replace(self, branch=self.branch.limit_turns(count), expected=expected)

    @property
    def title(self) -> str:
        """Short description, safe to show."""
        source = "this chat" if self.case is None else safe_line(self.case.eval_id)
        count = len(self.branch.turns)
        return f"branch of {source} after turn {count}" if count else f"branch of {source} before turn 1"


@dataclass
class ChatConversation:
    """A session from its first turn to its end, as far as known. `session_input` is its initial state.

    `origin` is set for a branch.
    """

    target: str
    number: int
    session_input: SessionInput
    origin: BranchOrigin | None = None
    turns: list[ChatTurn] = field(default_factory=list)
    ended: ChatEnded | None = None
    _pending_messages: list[Content] = field(default_factory=list)  # sent, but their turns have not begun

    def add_message(self, content: Content) -> None:
        """Queue a message after those that are already queued."""
        self._pending_messages.append(content)

    def apply(self, event: ChatEvent, *, now: float) -> None:
        if isinstance(event, TurnBegan):
            if self._pending_messages:
                self._pending_messages.pop(0)
            self.turns.append(ChatTurn(event.turn, event.content, event.at, now, is_replayed=event.is_replayed))
        elif isinstance(event, StepSeen):
            self._touch_turn(event.span.turn).steps[event.span.id] = event.span
        elif isinstance(event, TurnAnswered):
            turn = self._touch_turn(event.turn)
            turn.phase, turn.result, turn.live_parts = ChatPhase.ANSWERED, event.result, event.live_parts
            turn.duration_seconds = event.result.duration_seconds
        elif isinstance(event, StateSeen):
            self._touch_turn(event.turn).state = event.state
        elif isinstance(event, TurnFailed):
            turn = self._touch_turn(event.turn)
            turn.phase = ChatPhase.CANCELLED if event.status is CaseStatus.CANCELLED else ChatPhase.FAILED
            turn.failure, turn.duration_seconds = event.failure, event.duration_seconds
            turn.live_parts = event.live_parts
        else:
            self.ended = event

    @property
    def is_busy(self) -> bool:
        """True if the agent still has to answer."""
        return self.ended is None and (bool(self._pending_messages) or self.active_turn is not None)

    @property
    def is_replaying(self) -> bool:
        """True while turns of a branch are replayed."""
        count = 0 if self.origin is None else len(self.origin.branch.turns)
        return self.is_busy and (len(self.turns) < count or (len(self.turns) == count and self.active_turn is not None))

    @property
    def active_turn(self) -> ChatTurn | None:
        """Turn that the agent is working on."""
        return self.turns[-1] if self.turns and self.turns[-1].phase is ChatPhase.UNDER_WAY else None

    @property
    def pending_count(self) -> int:
        """Number of queued messages."""
        return len(self._pending_messages)

    @property
    def user_messages(self) -> Sequence[Content]:
        """All messages, sent and queued, in order."""
        return [*(turn.content for turn in self.turns), *self._pending_messages]

    @property
    def answered_turns(self) -> Sequence[ChatTurn]:
        """Turns with an answer: all but perhaps the last."""
        return [turn for turn in self.turns if turn.phase is ChatPhase.ANSWERED]

    @property
    def failed_turn(self) -> ChatTurn | None:
        """Turn that ended without an answer, which also ended the session."""
        last = self.turns[-1] if self.turns else None
        return last if last is not None and last.phase in (ChatPhase.FAILED, ChatPhase.CANCELLED) else None

    @property
    def has_failed(self) -> bool:
        """True if a turn or the session ended in an error."""
        failures = (self.failed_turn and self.failed_turn.failure, self.ended and self.ended.failure)
        return any(failure is not None for failure in failures)

    def find_state_before_turn(self, number: int) -> dict[str, Any]:
        if number == 0:
            return self.session_input.state
        return self.turns[number - 1].state or {}

    @property
    def final_state(self) -> dict[str, Any] | None:
        """Session state after the last answer."""
        answered = self.answered_turns
        return answered[-1].state if answered else None

    def make_result(self) -> CaseResult:
        """Make a case result of the session, for a case that no file contains."""
        lost = self.failed_turn
        ended = self.ended or ChatEnded()
        seconds = sum(turn.duration_seconds or 0.0 for turn in self.turns)
        failure = lost.failure if lost is not None else ended.failure
        return CaseResult(
            case=CaseKey(target=self.target, eval_set="", eval_id=f"chat {self.number}"),
            eval_set_id="",
            status=CaseStatus.NOT_EVALUATED,
            duration_seconds=seconds,
            agent_seconds=seconds,
            failure=failure,
            execution=Execution(
                turns=tuple(turn.result for turn in self.answered_turns if turn.result is not None),
                spans=tuple(step for turn in self.turns for step in turn.steps.values() if not step.is_running),
                final_state=self.final_state,
                failure=failure,
                duration_seconds=seconds,
                stdout_tail=ended.stdout_tail,
                stderr_tail=ended.stderr_tail,
            ),
        )

    def _touch_turn(self, number: int) -> ChatTurn:
        turn = self.turns[number]
        turn.version += 1
        return turn


# Chat state of each agent: session, draft and earlier prompts.


@dataclass
class PromptHistory:
    """Earlier prompts, for sending again. The unsent draft comes after the newest."""

    _prompts: list[str] = field(default_factory=list)
    _index: int = 0  # of the shown prompt; len(_prompts): the draft
    _typed: str = ""

    def add(self, prompt: str) -> None:
        """Add a prompt; a duplicate moves to the end."""
        if prompt in self._prompts:
            self._prompts.remove(prompt)
        self._prompts.append(prompt)
        self._index, self._typed = len(self._prompts), ""

    def has(self, prompt: str) -> bool:
        return prompt in self._prompts

    def show_previous(self, shown: str) -> str | None:
        """Return the prompt before the shown one; None if there are no more."""
        if self._index == 0:
            return None
        self._keep_typed(shown)
        self._index -= 1
        return self._prompts[self._index]

    def show_next(self, shown: str) -> str | None:
        """Return the prompt after the shown one, finally the draft; None if that is shown."""
        if self._index >= len(self._prompts):
            return None
        self._keep_typed(shown)
        self._index += 1
        return self._prompts[self._index] if self._index < len(self._prompts) else self._typed

    def _keep_typed(self, shown: str) -> None:
        if self._index >= len(self._prompts):
            self._typed = shown


@dataclass
class TargetChat:
    """Chat with one agent. `session_input` is for the next session; `chosen` is the turn under the cursor."""

    target: str
    conversation: ChatConversation | None = None
    session_input: SessionInput = field(default_factory=SessionInput)
    draft: str = ""
    prompts: PromptHistory = field(default_factory=PromptHistory)
    chosen: int | None = None
    is_opening: bool = False  # a session is being opened
    problem: str = ""  # why no session could be opened
    saved_turns: int = 0  # turns of this session that were saved as an eval case

    def start(self, conversation: ChatConversation) -> None:
        """Replace the session by a new one."""
        self.discard()
        self.conversation = conversation

    def discard(self) -> None:
        self.conversation, self.chosen, self.problem, self.saved_turns = None, None, "", 0

    @property
    def unsaved_turns(self) -> int:
        """Number of answered turns that would be lost with the session: all but those that were only replayed."""
        answered = self.conversation.answered_turns if self.conversation is not None else ()
        return sum(not turn.is_replayed for turn in answered) if len(answered) > self.saved_turns else 0

    @property
    def is_busy(self) -> bool:
        """True if the agent still has to answer."""
        return self.is_opening or (self.conversation is not None and self.conversation.is_busy)

    @property
    def has_begun(self) -> bool:
        """True if a message was sent in this session: its initial state can then not be changed."""
        return self.conversation is not None and bool(self.conversation.user_messages)

    def list_all_messages(self) -> list[Content]:
        """List the messages to repeat in a new session that tries the last turn again."""
        return list(self.conversation.user_messages) if self.conversation is not None else []

    def list_answered_messages(self) -> list[Content]:
        """List the messages to repeat in a new session before a new message."""
        return [turn.content for turn in self.conversation.answered_turns] if self.conversation is not None else []

    def get_answer(self) -> str | None:
        """Return the agent's answer in the chosen turn, else the last one; None if it did not answer."""
        if self.conversation is None or not self.conversation.answered_turns:
            return None
        turn = self.conversation.answered_turns[-1] if self.chosen is None else self.conversation.turns[self.chosen]
        return None if turn.result is None else turn.result.invocation.response_text(thoughts=False)

    def restore_draft(self) -> bool:
        """Put the last message of a failed session back into an empty input. Return whether that was done.

        A message that a branch replays does not return, nor one of a case that was not sent.
        """
        conversation = self.conversation
        if conversation is None or conversation.failed_turn is None or self.draft.strip():
            return False
        said = conversation.user_messages
        text, replayed = said[-1].text(), 0 if conversation.origin is None else len(conversation.origin.branch.turns)
        if len(said) <= replayed or (conversation.pending_count and not self.prompts.has(text)):
            return False
        self.draft = text
        return True

    def move_cursor(self, by: int) -> None:
        """Move the cursor by a number of turns; after the last turn none is chosen."""
        count = len(self.conversation.turns) if self.conversation is not None else 0
        place = (count if self.chosen is None else self.chosen) + by
        self.chosen = None if place >= count or count == 0 else max(place, 0)


# Text of a chat before the first message: initial state of the session, and possible actions.


def describe_new_chat(chat: TargetChat, case: EvalCase | None, *, find_key: Callable[[str], str]) -> Iterator[Block]:
    """Describe a chat without a session. `case` is the selected one."""
    if not chat.target:
        yield Paragraph.from_text("There is no agent to talk to here.", Style.STRONG)
        yield Paragraph.from_text("Select an agent, or an eval set or case of one.", Style.MUTED)
        return
    yield Paragraph.from_text(f"Talk to {safe_line(chat.target)}", Style.STRONG)
    yield Paragraph.from_text(
        "Each session runs in its own process and uses the current code of the agent.", Style.MUTED
    )
    yield BLANK
    given = chat.session_input
    state = redact(json.dumps(mask_named_secrets(given.state), ensure_ascii=False)) if given.state else "empty"
    facts = ("app", given.app_name or "named like the agent"), ("user", given.user_id or "the default one")
    for name, value in (*facts, ("state", state)):
        yield Paragraph.from_fact(name, safe(value), column=7)
    yield Paragraph.from_text(f"· {find_key('chat_session_input')} changes how the session starts", Style.MUTED)
    if case is not None and case.conversation:
        turns = plural(len(case.conversation), "turn")
        hint = f"· {find_key('chat_load_case')} sends the {turns} of {safe_line(case.eval_id)} first"
        yield Paragraph.from_text(hint, Style.MUTED)


# Saving a chat as an eval case: locations, and the id of the case.

_LONGEST_ID = 200


@dataclass(frozen=True, slots=True)
class SaveLocation:
    """Location of a saved chat: an eval set, or a new one if `eval_set` is None. `replaces` is the case to replace."""

    label: str
    eval_set: str | None = None
    replaces: CaseKey | None = None


def list_save_locations(
    sets: Sequence[ListedSet], *, target: str, eval_set: str | None, case: CaseKey | None
) -> list[SaveLocation]:
    """List all locations, nearest first: the selected set, the selected case, other sets of the agent, a new set,
    other sets.
    """
    target_of = {listed.relative: listed.target for listed in sets if not listed.problem}
    near = [name for name in target_of if name == eval_set]
    own = [name for name, owner in target_of.items() if owner == target and name not in near]
    others = [name for name in target_of if name not in near and name not in own]
    found = [SaveLocation(f"in {safe_line(name)}", name) for name in near]
    if case is not None and case.eval_set in near and not case.occurrence:
        found.append(SaveLocation(f"replacing the case {safe_line(case.eval_id)}", case.eval_set, case))
    found += [SaveLocation(f"in {safe_line(name)}", name) for name in own]
    found.append(SaveLocation("in a new eval set"))
    return [
        *found,
        *(SaveLocation(f"in {safe_line(name)} · of {_format_owner(target_of[name])}", name) for name in others),
    ]


def propose_case_id(taken: Collection[str], origin: BranchOrigin | None) -> str:
    """Propose an unused id for a case made from a chat, named like the case from which the chat branched."""
    if origin is not None and origin.case is not None:
        return find_free_name(f"{origin.case.eval_id}_branch", taken)
    number = 1
    while (eval_id := f"chat_{number}") in taken:
        number += 1
    return eval_id


def check_new_case_id(eval_id: str, *, taken: Collection[str]) -> str | None:
    """Check the id of a new case and return the problem; None if it is valid."""
    if not eval_id.strip():
        return "a case needs an id"
    if eval_id != eval_id.strip() or not eval_id.isprintable():
        return "expected an id without blanks around it and without invisible characters"
    if len(eval_id) > _LONGEST_ID:
        return f"expected an id of at most {_LONGEST_ID} characters"
    if eval_id in taken:
        return "duplicate id: the set already has a case with this id"
    return None


def _format_owner(target: str) -> str:
    return safe_line(target) or "no agent"


# A conversation as lines: messages, tool calls, and duration and tokens of each turn.

_MOST_OF_VALUE = 2_000
"""Maximum characters of arguments and responses of tools. The trace shows them completely."""

_MOST_STEPS = 400
"""Maximum calls and messages of a turn, so that a turn of thousands is laid out without a pause."""

_INDENT = 2


class ChatLines:
    """Lines of a conversation. A turn is laid out again only if it or the width changed."""

    def __init__(self, conversation: ChatConversation) -> None:
        self._conversation = conversation
        self._has_details = False
        self._known: dict[int, tuple[int, int, Sequence[Line]]] = {}

    def make_lines(self, width: int) -> list[Line]:
        """Make all lines for a width in cells."""
        blocks = describe_end(self._conversation, with_details=self._has_details)
        ending = render_blocks(blocks, width=width, side_by_side=False)
        return [*(line for lines in self._lay_out_turns(width) for line in lines), *ending]

    def toggle_details(self) -> None:
        """Show or hide traceback and standard error of the failure."""
        self._has_details = not self._has_details
        self._known.clear()

    def find_first_line(self, number: int, width: int) -> int:
        """Return the index of the first line of a turn."""
        return sum(len(lines) for lines in self._lay_out_turns(width)[:number])

    def find_turn(self, line: int, width: int) -> int | None:
        """Find the turn that a line belongs to; None after the last turn."""
        for number, lines in enumerate(self._lay_out_turns(width)):
            line -= len(lines)
            if line < 0:
                return number
        return None

    def _lay_out_turns(self, width: int) -> list[Sequence[Line]]:
        return [self._lay_out_turn(turn, width) for turn in self._conversation.turns]

    def _lay_out_turn(self, turn: ChatTurn, width: int) -> Sequence[Line]:
        known = self._known.get(turn.number)
        if known is None or known[:2] != (turn.version, width):
            blocks = describe_turn(turn, agent=self._conversation.target, with_details=self._has_details)
            known = turn.version, width, render_blocks(blocks, width=width, side_by_side=False)
            self._known[turn.number] = known
        return known[2]


def describe_turn(turn: ChatTurn, *, agent: str, with_details: bool) -> Iterator[Block]:
    """Describe one turn, followed by an empty line."""
    replayed = "replaying" if turn.phase is ChatPhase.UNDER_WAY else "replayed"
    yield Paragraph(
        (
            StyledText("you", Style.HEADING),
            StyledText(f"  turn {turn.number + 1} · {turn.at.astimezone():%H:%M:%S}", Style.MUTED),
            StyledText(f" · {replayed}" if turn.is_replayed and not turn.live_parts else "", Style.KEY),
            StyledText(" · asked again" if turn.live_parts else "", Style.WARNING),
        )
    )
    yield Paragraph.from_text(safe(_extract_text(turn.content)), indent=_INDENT)
    if turn.result is None:
        yield from _limit_newest(_list_current_steps(turn))
    else:
        yield from _limit_first(_list_finished_steps(turn, turn.result.invocation))
        yield Paragraph.from_text(safe_line(_find_speaker(turn) or agent), Style.HEADING)
        response = turn.result.invocation.final_response
        spoken = _extract_text(response) if response is not None else ""
        yield Paragraph.from_text(safe(spoken), indent=_INDENT) if spoken else _format_note("no final response")
    yield from _format_turn_end(turn, with_details=with_details)
    yield BLANK


def describe_end(conversation: ChatConversation, *, with_details: bool) -> Iterator[Block]:
    """Describe why the session ended, unless a turn shows it, and how to continue."""
    if conversation.ended is None:
        if not conversation.user_messages:
            yield Paragraph.from_text("A fresh session. The next message is its first turn.", Style.MUTED)
        return
    if conversation.ended.failure is not None:
        yield from _format_failure(conversation.ended.failure, with_details=with_details)
    yield Paragraph.from_text("The session is over.", Style.STRONG)
    yield Paragraph.from_text("· retry repeats all messages, also the last one, in a new session", Style.MUTED, hang=2)
    answered = plural(len(conversation.answered_turns), "answered turn")
    sent = f"{answered} in a new session, then your message" if conversation.answered_turns else "only your message"
    yield Paragraph.from_text(f"· enter sends {sent}", Style.MUTED, hang=2)
    yield Paragraph.from_text("· a new session starts without these messages", Style.MUTED, hang=2)


def count_tokens(turn: ChatTurn) -> int | None:
    """Return the tokens that the turn used; None if unknown."""
    usage = turn.result.usage if turn.result is not None else None
    return usage.total_tokens if usage is not None else None


_Step = Callable[[], Iterable[Block]]
"""Makes the blocks of a call or message, only when it is shown."""


def _limit_first(steps: Iterable[_Step]) -> Iterator[Block]:
    """Make the blocks of the first steps of an answered turn."""
    every = list(steps)
    for step in every[:_MOST_STEPS]:
        yield from step()
    if (hidden := len(every) - _MOST_STEPS) > 0:
        yield _format_note(f"… {plural(hidden, 'more step')}: the trace has all of them")


def _limit_newest(steps: Iterable[_Step]) -> Iterator[Block]:
    """Make the blocks of the last steps of a turn in progress."""
    every = list(steps)
    if (hidden := len(every) - _MOST_STEPS) > 0:
        yield _format_note(f"… {plural(hidden, 'earlier step')}: the trace has all of them")
    for step in every[-_MOST_STEPS:]:
        yield from step()


def _find_speaker(turn: ChatTurn) -> str:
    """Return the agent whose model said the final response, which may be a sub-agent; empty if it is unknown."""
    spoken = (
        step for step in turn.steps.values() if step.kind is SpanKind.MODEL and _extract_model_text(step.response)
    )
    last = next(reversed(list(spoken)), None)
    name = None if last is None else last.attributes.get("agent")
    return name if isinstance(name, str) else ""


def _list_finished_steps(turn: ChatTurn, invocation: Invocation) -> Iterator[_Step]:
    """List tool calls with responses, and messages of other agents, in the order of the answered turn."""
    side = make_side(invocation)
    simulated = find_simulators(turn.steps.values(), side.calls, turn=turn.number)
    calls = iter(zip(side.calls, side.responses, simulated, strict=True))
    if isinstance(invocation.intermediate_data, InvocationEvents):
        for event in invocation.intermediate_data.invocation_events:
            for part in (event.content.parts or ()) if event.content is not None else ():
                if part.function_call is not None:
                    yield partial(_format_finished_call, *next(calls))
                elif part.text and part.text.strip() and not part.thought:
                    yield partial(_format_message, event.author, part.text)
        return
    for call, response, source in calls:
        yield partial(_format_finished_call, call, response, source)
    for said in side.messages:
        yield partial(_format_message, said.author, said.text)


def _list_current_steps(turn: ChatTurn) -> Iterator[_Step]:
    """List the steps of a turn in progress or of a failed turn, from its spans."""
    for step in turn.steps.values():
        if step.kind is SpanKind.TOOL:
            yield partial(_format_current_call, step, turn.phase)
        elif step.kind is SpanKind.MODEL and (text := _extract_model_text(step.response)):
            yield partial(_format_message, str(step.attributes.get("agent", step.name)), text)


def _format_finished_call(call: ToolCall, response: Mapping[str, Any] | None, source: str | None) -> Iterator[Block]:
    receiver = (call.args or {}).get("agent_name") if call.name == "transfer_to_agent" else None
    if isinstance(receiver, str):
        yield Paragraph(
            (StyledText("⇒ transfer to ", Style.MUTED), StyledText(safe_line(receiver), Style.KEY)), indent=_INDENT
        )
        return
    yield _format_call(call.name, call.args, source)
    if response is not None:
        yield _format_response(response)


def _format_current_call(step: Span, phase: ChatPhase) -> Iterator[Block]:
    yield _format_call(step.name, step.request if isinstance(step.request, Mapping) else None, step.simulator)
    yield from _format_call_result(step, phase)


def _format_call_result(step: Span, phase: ChatPhase) -> Iterator[Block]:
    if step.error:
        yield Paragraph.from_text(f"! {safe(redact(step.error))}", Style.ERROR, indent=2 * _INDENT, hang=2)
    elif not step.is_running:
        yield _format_response(step.response)
    elif phase is ChatPhase.UNDER_WAY:
        yield Paragraph.from_text("… running", Style.RUNNING, indent=2 * _INDENT)
    else:
        yield Paragraph.from_text("did not return", Style.WARNING, indent=2 * _INDENT)


def _format_turn_end(turn: ChatTurn, *, with_details: bool) -> Iterator[Block]:
    took = format_duration(turn.duration_seconds) if turn.duration_seconds is not None else ""
    if turn.phase is ChatPhase.ANSWERED:
        facts = [took]
        if (tokens := count_tokens(turn)) is not None:
            facts.append(plural(tokens, "token"))
        if turn.result is not None and turn.result.inference_calls is not None:
            facts.append(plural(turn.result.inference_calls, "model call"))
        yield _format_note(" · ".join(facts))
    elif turn.phase is ChatPhase.CANCELLED:
        yield Paragraph.from_text(f"■ stopped after {took}", Style.WARNING)
    elif turn.phase is ChatPhase.FAILED and turn.failure is not None:
        yield from _format_failure(turn.failure, with_details=with_details)
    for text in turn.live_parts:
        yield Paragraph.from_text(f"! {safe(redact(text))}", Style.WARNING, indent=_INDENT, hang=2)


def _format_failure(failure: Failure, *, with_details: bool) -> Iterator[Block]:
    yield Paragraph(
        (StyledText(f"! {failure.kind.value} error  ", Style.ERROR), StyledText(safe(redact(failure.message))))
    )
    given = {"traceback": failure.traceback, "stderr": failure.stderr_tail}
    if not with_details and any(given.values()):
        yield _format_note(f"alt+t shows {' and '.join(name for name, text in given.items() if text)}")
    for name, text in failure_texts(failure) if with_details else ():
        yield Paragraph.from_text(name, Style.HEADING, indent=_INDENT)
        yield Paragraph.from_text(safe(redact(text)), Style.MUTED, indent=2 * _INDENT)


def _format_call(name: str, args: Mapping[str, Any] | None, source: str | None) -> Paragraph:
    """Format a call; `source` is the simulator that answered instead of the tool."""
    given = "  ".join(f"{key}={_format_json(value, key)}" for key, value in (args or {}).items())
    simulated = f"  (simulated: {safe_line(source)})" if source else ""
    return Paragraph(
        (
            StyledText("→ ", Style.MUTED),
            StyledText(safe_line(name) or "(no name)", Style.KEY),
            StyledText(f"  {_shorten(given)}"),
            StyledText(simulated, Style.WARNING),
        ),
        indent=_INDENT,
        hang=4,
    )


def _format_response(response: Any) -> Paragraph:
    return Paragraph.from_text(f"← {_shorten(_format_json(response))}", Style.MUTED, indent=2 * _INDENT, hang=2)


def _format_message(author: str, text: str) -> Iterator[Block]:
    yield Paragraph.from_text(safe_line(author), Style.STRONG, indent=_INDENT)
    yield Paragraph.from_text(safe(text), indent=2 * _INDENT)


def _format_note(text: str) -> Paragraph:
    return Paragraph.from_text(text, Style.MUTED, indent=_INDENT)


def _extract_text(content: Content) -> str:
    """Extract the text of a message, with the number of parts that are not text."""
    others = sum(part.text is None for part in content.parts or ())
    return content.text(thoughts=False) + (f"\n({plural(others, 'part')} without text)" if others else "")


def _extract_model_text(response: Any) -> str:
    """Extract the text from the response of a model span."""
    content = response.get("content") if isinstance(response, Mapping) else None
    parts = content.get("parts") if isinstance(content, Mapping) else None
    if not isinstance(parts, list):
        return ""
    found = [part for part in parts if isinstance(part, Mapping) and not part.get("thought")]
    return "\n".join(part["text"] for part in found if isinstance(part.get("text"), str) and part["text"].strip())


def _format_json(value: Any, name: str = "") -> str:
    return redact(json.dumps(mask_named_secrets(value, name), ensure_ascii=False))


def _shorten(text: str) -> str:
    hidden = len(text) - _MOST_OF_VALUE
    return safe(text if hidden <= 0 else f"{text[:_MOST_OF_VALUE]} … {plural(hidden, 'more character')} in the trace")


# The initial state of a session as typed JSON, with the position of errors.


def parse_state(text: str) -> tuple[dict[str, Any], str]:
    """Parse a session state. Return it and an error message, empty if valid. Empty text is an empty state."""
    if not text.strip():
        return {}, ""
    try:
        value = read(text, TextForm.JSON)
    except Invalid as error:
        return {}, str(error)
    if not isinstance(value, dict):
        return {}, f"found {type(value).__name__}, expected an object: {{...}}"
    return value, ""


# Status line of a chat.

_SPINNER = "◐◓◑◒"
_SPINS = 4  # times a second


def format_status(chat: TargetChat, *, now: float) -> Line:
    """Format what the agent is doing, or what to do next. `now` is a time of the clock of `ChatTurn.began`."""
    conversation = chat.conversation
    if chat.problem:
        return (StyledText(f" ! {safe_line(redact(chat.problem))}", Style.ERROR),)
    if chat.is_opening or conversation is None:
        return (
            StyledText(
                " opening a session …" if chat.is_opening else " no session yet; a message begins one",
                Style.MUTED,
            ),
        )
    if conversation.is_busy:
        return _format_busy(conversation, now=now)
    if conversation.ended is not None:
        return _format_ended(conversation)
    return _format_idle(conversation)


def _format_busy(conversation: ChatConversation, *, now: float) -> Line:
    turn = conversation.active_turn
    elapsed = now - turn.began if turn is not None else 0.0
    if conversation.is_replaying and conversation.origin is not None:
        count, number = len(conversation.origin.branch.turns), turn.number + 1 if turn is not None else 1
        text = f" {_SPINNER[int(now * _SPINS) % len(_SPINNER)]} {elapsed:.1f} s  replaying turn {number} of {count}"
        return StyledText(text, Style.RUNNING), StyledText(" · escape stops it", Style.MUTED)
    doing = safe_line(turn.active_tool) if turn is not None else ""
    pieces = [StyledText(f" {_SPINNER[int(now * _SPINS) % len(_SPINNER)]} {elapsed:.1f} s", Style.RUNNING)]
    pieces.append(StyledText(f"  {doing}", Style.KEY) if doing else StyledText("  waiting for the agent", Style.MUTED))
    if conversation.pending_count:
        pieces.append(StyledText(f" · {plural(conversation.pending_count, 'turn')} to follow", Style.MUTED))
    return tuple(pieces)


def _format_ended(conversation: ChatConversation) -> Line:
    lost, ended = conversation.failed_turn, conversation.ended
    if lost is not None and lost.phase is ChatPhase.CANCELLED:
        return (StyledText(" ■ stopped: the session is over", Style.WARNING),)
    if lost is not None or (ended is not None and ended.failure is not None):
        return (StyledText(" ! the session is over", Style.ERROR),)
    return (StyledText(" the session is over", Style.MUTED),)


def _format_idle(conversation: ChatConversation) -> Line:
    facts = [] if conversation.origin is None else [conversation.origin.title]
    facts.append(plural(len(conversation.answered_turns), "turn"))
    spent = [tokens for turn in conversation.answered_turns if (tokens := count_tokens(turn)) is not None]
    if spent:
        facts.append(plural(sum(spent), "token"))
    took = sum(turn.duration_seconds or 0.0 for turn in conversation.answered_turns)
    if took:
        facts.append(format_duration(took))
    return (StyledText(f" {' · '.join(facts)}", Style.MUTED),)
