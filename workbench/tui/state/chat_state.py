"""The chat: what was said in it, how that is shown, and what can be done with it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from functools import partial
from itertools import chain
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from workbench.model.evalset import Content, EvalCase, Invocation, InvocationEvents, SessionInput
from workbench.model.identity import CaseKey
from workbench.model.results import CaseResult, CaseStatus, Execution, Failure, TurnResult
from workbench.model.run_events import ChatEnded, ChatEvent, StateSeen, StepSeen, TurnAnswered, TurnBegan, TurnFailed
from workbench.model.text import mask_named_secrets, redact
from workbench.model.trace import Span, SpanKind, ToolCall, find_simulators
from workbench.report.text_report import failure_texts
from workbench.report.turn_diff import make_side
from workbench.store.filetypes import EVAL_SET_SUFFIX, EVAL_SET_SUFFIXES, derive_set_name
from workbench.store.settings import FILE_NAME
from workbench.tui.state.browser_list import ListedSet
from workbench.tui.state.case_filter import free_name
from workbench.tui.state.text_layout import (
    BLANK,
    Block,
    Line,
    Paragraph,
    Style,
    StyledText,
    format_duration,
    plural,
    render_blocks,
    safe,
    safe_line,
)

if TYPE_CHECKING:
    from workbench.store.project_discovery import NewSets


# One session with an agent as its events tell it.


class Phase(StrEnum):
    """How far a turn has come."""

    UNDER_WAY = "under way"
    ANSWERED = "answered"
    FAILED = "failed"
    CANCELLED = "stopped"


@dataclass(slots=True)
class ChatTurn:
    """One turn. `began` is of the caller's monotonic clock; `version` grows with every change.

    `steps` are the agent's, by their id, in the order in which they began; `state` is what the session held afterwards.
    """

    number: int
    content: Content
    at: datetime
    began: float
    phase: Phase = Phase.UNDER_WAY
    steps: dict[str, Span] = field(default_factory=dict)
    result: TurnResult | None = None
    failure: Failure | None = None
    duration_seconds: float | None = None
    state: dict[str, Any] | None = None
    version: int = 0

    @property
    def tool_under_way(self) -> str:
        """The tool that works now, the innermost; empty where none is seen to."""
        tools = [step.name for step in self.steps.values() if step.kind is SpanKind.TOOL and step.is_running]
        return tools[-1] if tools else ""


@dataclass
class Conversation:
    """A session from its first turn to its end, as far as it has come. `session_input` is how it started."""

    target: str
    number: int
    session_input: SessionInput
    turns: list[ChatTurn] = field(default_factory=list)
    ended: ChatEnded | None = None
    _waiting: list[Content] = field(default_factory=list)  # told, and not yet begun

    def tell(self, content: Content) -> None:
        """This is to be said after what is to be said already."""
        self._waiting.append(content)

    def take(self, event: ChatEvent, *, now: float) -> None:
        """Take one event of the session."""
        if isinstance(event, TurnBegan):
            if self._waiting:
                self._waiting.pop(0)
            self.turns.append(ChatTurn(event.turn, event.content, event.at, now))
        elif isinstance(event, StepSeen):
            self._turn(event.span.turn).steps[event.span.id] = event.span
        elif isinstance(event, TurnAnswered):
            turn = self._turn(event.turn)
            turn.phase, turn.result = Phase.ANSWERED, event.result
            turn.duration_seconds = event.result.duration_seconds
        elif isinstance(event, StateSeen):
            self._turn(event.turn).state = event.state
        elif isinstance(event, TurnFailed):
            turn = self._turn(event.turn)
            turn.phase = Phase.CANCELLED if event.status is CaseStatus.CANCELLED else Phase.FAILED
            turn.failure, turn.duration_seconds = event.failure, event.duration_seconds
        else:
            self.ended = event

    @property
    def is_busy(self) -> bool:
        """Whether an answer is awaited."""
        return self.ended is None and (bool(self._waiting) or self.under_way is not None)

    @property
    def under_way(self) -> ChatTurn | None:
        """The turn that the agent is working on."""
        return self.turns[-1] if self.turns and self.turns[-1].phase is Phase.UNDER_WAY else None

    @property
    def waiting(self) -> int:
        """How many turns are still to be said."""
        return len(self._waiting)

    @property
    def said(self) -> Sequence[Content]:
        """Everything that was said or was to be said, in order."""
        return [*(turn.content for turn in self.turns), *self._waiting]

    @property
    def answered(self) -> Sequence[ChatTurn]:
        """The turns that have an answer: all but perhaps the last."""
        return [turn for turn in self.turns if turn.phase is Phase.ANSWERED]

    @property
    def lost(self) -> ChatTurn | None:
        """The turn that ended without an answer, and the session with it."""
        last = self.turns[-1] if self.turns else None
        return last if last is not None and last.phase in (Phase.FAILED, Phase.CANCELLED) else None

    def state_before(self, number: int) -> dict[str, Any]:
        """What the session held before a turn."""
        if number == 0:
            return self.session_input.state
        return self.turns[number - 1].state or {}

    @property
    def final_state(self) -> dict[str, Any] | None:
        """What the session held after the last answer."""
        answered = self.answered
        return answered[-1].state if answered else None

    def result(self) -> CaseResult:
        """The session as the result of a case that no file has."""
        lost = self.lost
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
                turns=tuple(turn.result for turn in self.answered if turn.result is not None),
                spans=tuple(step for turn in self.turns for step in turn.steps.values() if not step.is_running),
                final_state=self.final_state,
                failure=failure,
                duration_seconds=seconds,
                stdout_tail=ended.stdout_tail,
                stderr_tail=ended.stderr_tail,
            ),
        )

    def _turn(self, number: int) -> ChatTurn:
        turn = self.turns[number]
        turn.version += 1
        return turn


# What the chat pane keeps for each agent: the session, what is typed, what was typed before.


@dataclass
class PromptHistory:
    """What was said before, to be said again. What was typed and not sent waits behind the newest."""

    _prompts: list[str] = field(default_factory=list)
    _place: int = 0  # of the one that is shown; behind the last: what is typed
    _typed: str = ""

    def add(self, prompt: str) -> None:
        """Something was said; saying the same again makes no second entry."""
        if prompt in self._prompts:
            self._prompts.remove(prompt)
        self._prompts.append(prompt)
        self._place, self._typed = len(self._prompts), ""

    def earlier(self, shown: str) -> str | None:
        """The prompt before the one that is shown; None where there is none."""
        if self._place == 0:
            return None
        self._keep(shown)
        self._place -= 1
        return self._prompts[self._place]

    def later(self, shown: str) -> str | None:
        """The prompt after the one that is shown, at last what was typed; None where that is shown."""
        if self._place >= len(self._prompts):
            return None
        self._keep(shown)
        self._place += 1
        return self._prompts[self._place] if self._place < len(self._prompts) else self._typed

    def _keep(self, shown: str) -> None:
        if self._place >= len(self._prompts):
            self._typed = shown


@dataclass
class TargetChat:
    """The chat with one agent. `session_input` is for the next session; `chosen` is the turn under the cursor."""

    target: str
    conversation: Conversation | None = None
    session_input: SessionInput = field(default_factory=SessionInput)
    draft: str = ""
    prompts: PromptHistory = field(default_factory=PromptHistory)
    chosen: int | None = None
    is_opening: bool = False  # a session is being opened
    problem: str = ""  # why none could be
    kept_turns: int = 0  # of this session, as an eval case

    def begin(self, conversation: Conversation) -> None:
        """Another session takes the place of the one there was."""
        self.give_up()
        self.conversation = conversation

    def give_up(self) -> None:
        """There is no session any more."""
        self.conversation, self.chosen, self.problem, self.kept_turns = None, None, "", 0

    @property
    def not_kept(self) -> int:
        """How many answered turns would be gone with the session."""
        answered = len(self.conversation.answered) if self.conversation is not None else 0
        return answered if answered > self.kept_turns else 0

    @property
    def is_busy(self) -> bool:
        """Whether an answer is awaited."""
        return self.is_opening or (self.conversation is not None and self.conversation.is_busy)

    @property
    def has_begun(self) -> bool:
        """Whether something was said in this session, so that how it starts is settled."""
        return self.conversation is not None and bool(self.conversation.said)

    def again(self) -> list[Content]:
        """What is said where the session starts again with its last turn tried once more."""
        return list(self.conversation.said) if self.conversation is not None else []

    def before_lost(self) -> list[Content]:
        """What is said where a session starts again for something new to be said after its answered turns."""
        return [turn.content for turn in self.conversation.answered] if self.conversation is not None else []

    def answer(self) -> str | None:
        """What the agent said in the chosen turn, else last; None where it said nothing."""
        if self.conversation is None or not self.conversation.answered:
            return None
        turn = self.conversation.answered[-1] if self.chosen is None else self.conversation.turns[self.chosen]
        response = turn.result.invocation.final_response if turn.result is not None else None
        return response.text(thoughts=False) if response is not None else None

    def take_back(self, turn: ChatTurn) -> bool:
        """What was said in a turn that failed is in the input again, unless something else is; whether that is so."""
        text = turn.content.text()
        if turn.phase not in (Phase.FAILED, Phase.CANCELLED) or self.draft.strip():
            return False
        self.draft = text
        return True

    def choose(self, by: int) -> None:
        """Move the cursor by turns; behind the last turn there is none chosen."""
        count = len(self.conversation.turns) if self.conversation is not None else 0
        place = (count if self.chosen is None else self.chosen) + by
        self.chosen = None if place >= count or count == 0 else max(place, 0)


# What stands in a chat before anything was said: how the session will start, and what can be done.


def greeting(chat: TargetChat, case: EvalCase | None) -> Iterator[Block]:
    """The blocks of a chat without a session; `case` is the selected one."""
    if not chat.target:
        yield Paragraph.from_text("There is no agent to talk to here.", Style.STRONG)
        yield Paragraph.from_text("Select an agent, or an eval set or case of one.", Style.MUTED)
        return
    yield Paragraph.from_text(f"Talk to {safe_line(chat.target)}", Style.STRONG)
    yield Paragraph.from_text(
        "Each session has a process of its own and the code of the agent as it is then.", Style.MUTED
    )
    yield BLANK
    given = chat.session_input
    yield _fact("app", given.app_name or "named like the agent")
    yield _fact("user", given.user_id or "the default one")
    yield _fact(
        "state", redact(json.dumps(mask_named_secrets(given.state), ensure_ascii=False)) if given.state else "empty"
    )
    yield Paragraph.from_text("· f2 changes how the session starts", Style.MUTED)
    if case is not None and case.conversation:
        turns = plural(len(case.conversation), "turn")
        yield Paragraph.from_text(f"· ctrl+l says the {turns} of {safe_line(case.eval_id)} first", Style.MUTED)


def _fact(name: str, value: str) -> Paragraph:
    return Paragraph((StyledText(f"{name:<7}", Style.KEY), StyledText(safe(value))), hang=7)


# Where a chat is kept as an eval case: the choices, and what is wrong with names as they are typed.

_ID = re.compile(r"[A-Za-z0-9_]+")
_LONGEST_ID = 200
_NAME = "chats"  # of a new set


@dataclass(frozen=True, slots=True)
class Shelf:
    """A place for a case: in a set, or in a new one (`eval_set` is None); `replaces` is the case that goes."""

    label: str
    eval_set: str | None = None
    replaces: CaseKey | None = None


def shelves(sets: Sequence[ListedSet], *, target: str, eval_set: str | None, case: CaseKey | None) -> list[Shelf]:
    """Every place there is, the nearest first: the selected set, the case there, the agent's, a new one, all others."""
    target_of = {listed.relative: listed.target for listed in sets if not listed.problem}
    near = [name for name in target_of if name == eval_set]
    own = [name for name, owner in target_of.items() if owner == target and name not in near]
    others = [name for name in target_of if name not in near and name not in own]
    found = [Shelf(f"in {safe_line(name)}", name) for name in near]
    if case is not None and case.eval_set in near and not case.occurrence:
        found.append(Shelf(f"in place of the case {safe_line(case.eval_id)}", case.eval_set, case))
    found += [Shelf(f"in {safe_line(name)}", name) for name in own]
    found.append(Shelf("in a new eval set"))
    return [*found, *(Shelf(f"in {safe_line(name)} · of {_owner(target_of[name])}", name) for name in others)]


def new_set_name(sets: Sequence[ListedSet], *, target: str, places: NewSets) -> str:
    """A free name for a new set of the agent: beside one of its sets, else where its settings look for them.

    Where nothing new can be the agent's it is beside the first of its sets all the same.
    """
    taken = {listed.relative for listed in sets}
    stems = {relative.removesuffix(EVAL_SET_SUFFIX) for relative in taken}
    folders = dict.fromkeys(PurePosixPath(listed.relative).parent for listed in sets if listed.target == target)
    beside = [f"{free_name(str(folder / _NAME), stems)}{EVAL_SET_SUFFIX}" for folder in folders or [PurePosixPath()]]
    names = (_NAME, *(f"{_NAME}_{number}" for number in range(2, len(taken) + 2)))
    elsewhere = (path for name in names for path in places.suggest_paths(target, name=name))
    for path in chain(beside, elsewhere):
        if problem_of_set_name(path, sets=sets) is None and places.pair(path).target == target:
            return path
    return beside[0]


def warning_of_set_name(name: str, *, target: str, places: NewSets) -> str | None:
    """What is to be known of a new set with this path where it would not be the agent's; None where it would."""
    pairing = places.pair(name)
    if pairing.target == target:
        return None
    owner = f"the agent {pairing.target}" if pairing.target else "no agent"
    if places.has_listed_sets(target):
        return f"it will belong to {owner}: {FILE_NAME} does not list it under eval_sets of {target}"
    return f"it will belong to {owner}" if pairing.target else f"it will belong to {owner}: {pairing.reason}"


def problem_of_set_name(name: str, *, sets: Sequence[ListedSet]) -> str | None:
    """What is wrong with the path of a new set, relative to the project; None where nothing is."""
    if not name.endswith(EVAL_SET_SUFFIXES):
        return "the name has to end in .evalset.json (or .test.json)"
    if name.startswith(("/", "\\")) or ".." in name.split("/"):
        return "the file has to be inside the project: a path relative to it"
    if not _ID.fullmatch(derive_set_name(PurePosixPath(name))):
        return "the name of a new set holds letters, digits and underscores only"
    if any(listed.relative == name for listed in sets):
        return "there is such an eval set already"
    return None


def new_case_id(taken: Collection[str]) -> str:
    """A free id for a case that was a chat."""
    number = 1
    while (eval_id := f"chat_{number}") in taken:
        number += 1
    return eval_id


def problem_of_case_id(eval_id: str, *, taken: Collection[str]) -> str | None:
    """What is wrong with the id of a new case; None where nothing is."""
    if not eval_id.strip():
        return "a case needs an id"
    if eval_id != eval_id.strip() or not eval_id.isprintable():
        return "an id has no blanks around it, and nothing that cannot be seen in it"
    if len(eval_id) > _LONGEST_ID:
        return f"an id has {_LONGEST_ID} characters at most"
    if eval_id in taken:
        return "the set has a case of this id already"
    return None


def _owner(target: str) -> str:
    return safe_line(target) or "no agent"


# A conversation as lines: what was said, what the agent did meanwhile, what each turn took.

_MOST_OF_VALUE = 2_000
"""Characters of what a tool was given or gave back. The trace shows all of it."""

_MOST_STEPS = 400
"""What is shown of the calls and words of a turn, so that a turn of thousands is laid out while one waits."""

_INDENT = 2


class ChatLines:
    """The lines of a conversation. Turns are laid out again only where they changed, or the width did."""

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation
        self._known: dict[int, tuple[int, int, Sequence[Line]]] = {}

    def lay_out(self, width: int) -> list[Line]:
        """All lines, for a width in cells."""
        ending = render_blocks(ending_blocks(self._conversation), width=width, side_by_side=False)
        return [*(line for lines in self._turns(width) for line in lines), *ending]

    def first_line(self, number: int, width: int) -> int:
        """The line at which a turn begins."""
        return sum(len(lines) for lines in self._turns(width)[:number])

    def turn_at(self, line: int, width: int) -> int | None:
        """The turn that a line belongs to; None behind the last."""
        for number, lines in enumerate(self._turns(width)):
            line -= len(lines)
            if line < 0:
                return number
        return None

    def _turns(self, width: int) -> list[Sequence[Line]]:
        return [self._turn(turn, width) for turn in self._conversation.turns]

    def _turn(self, turn: ChatTurn, width: int) -> Sequence[Line]:
        known = self._known.get(turn.number)
        if known is None or known[:2] != (turn.version, width):
            blocks = turn_blocks(turn, agent=self._conversation.target)
            known = turn.version, width, render_blocks(blocks, width=width, side_by_side=False)
            self._known[turn.number] = known
        return known[2]


def turn_blocks(turn: ChatTurn, *, agent: str) -> Iterator[Block]:
    """One turn, with an empty line behind it."""
    yield Paragraph(
        (
            StyledText("you", Style.HEADING),
            StyledText(f"  turn {turn.number + 1} · {turn.at.astimezone():%H:%M:%S}", Style.MUTED),
        )
    )
    yield Paragraph.from_text(safe(_text(turn.content)), indent=_INDENT)
    if turn.result is None:
        yield from _newest(_steps_so_far(turn))
    else:
        yield from _first(_what_was_done(turn, turn.result.invocation))
        yield Paragraph.from_text(safe_line(agent), Style.HEADING)
        response = turn.result.invocation.final_response
        spoken = _text(response) if response is not None else ""
        yield Paragraph.from_text(safe(spoken), indent=_INDENT) if spoken else _note("no final response")
    yield from _end(turn)
    yield BLANK


def ending_blocks(conversation: Conversation) -> Iterator[Block]:
    """Where the session is over: why, where no turn says it, and how it can go on."""
    if conversation.ended is None:
        return
    if conversation.ended.failure is not None:
        yield from _failure(conversation.ended.failure)
    yield Paragraph.from_text("The session is over.", Style.STRONG)
    yield Paragraph.from_text("· retry says everything again in a new session, the last turn too", Style.MUTED, hang=2)
    if answered := len(conversation.answered):
        before = f"the {plural(answered, 'answered turn')} again in a new session, then what you send"
        yield Paragraph.from_text(f"· enter says {before}", Style.MUTED, hang=2)
    yield Paragraph.from_text("· a new session forgets what was said", Style.MUTED, hang=2)


def tokens_of(turn: ChatTurn) -> int | None:
    """What the turn took of tokens; None where that is not known."""
    usage = turn.result.usage if turn.result is not None else None
    return usage.total_tokens if usage is not None else None


_Step = Callable[[], Iterable[Block]]
"""Makes the blocks of a call or of words on the way, where they are shown."""


def _first(steps: Iterable[_Step]) -> Iterator[Block]:
    """The first steps of an answered turn."""
    every = list(steps)
    for step in every[:_MOST_STEPS]:
        yield from step()
    if (hidden := len(every) - _MOST_STEPS) > 0:
        yield _note(f"… {plural(hidden, 'more step')}: the trace has all of them")


def _newest(steps: Iterable[_Step]) -> Iterator[Block]:
    """The last steps of a turn that goes on."""
    every = list(steps)
    if (hidden := len(every) - _MOST_STEPS) > 0:
        yield _note(f"… {plural(hidden, 'earlier step')}: the trace has all of them")
    for step in every[-_MOST_STEPS:]:
        yield from step()


def _what_was_done(turn: ChatTurn, invocation: Invocation) -> Iterator[_Step]:
    """Tool calls with what came back, and what others said, in the order in which the answered turn has them."""
    side = make_side(invocation)
    simulated = find_simulators(turn.steps.values(), side.calls, turn=turn.number)
    calls = iter(zip(side.calls, side.responses, simulated, strict=True))
    if isinstance(invocation.intermediate_data, InvocationEvents):
        for event in invocation.intermediate_data.invocation_events:
            for part in (event.content.parts or ()) if event.content is not None else ():
                if part.function_call is not None:
                    yield partial(_finished_call, *next(calls))
                elif part.text and part.text.strip() and not part.thought:
                    yield partial(_said, event.author, part.text)
        return
    for call, response, source in calls:
        yield partial(_finished_call, call, response, source)
    for said in side.messages:
        yield partial(_said, said.author, said.text)


def _steps_so_far(turn: ChatTurn) -> Iterator[_Step]:
    """The same while the turn goes on, or where it failed, as the steps tell it."""
    for step in turn.steps.values():
        if step.kind is SpanKind.TOOL:
            yield partial(_call_so_far, step, turn.phase)
        elif step.kind is SpanKind.MODEL and (text := _words(step.response)):
            yield partial(_said, str(step.attributes.get("agent", step.name)), text)


def _finished_call(call: ToolCall, response: Mapping[str, Any] | None, source: str | None) -> Iterator[Block]:
    yield _call(call.name, call.args, source)
    if response is not None:
        yield _gave(response)


def _call_so_far(step: Span, phase: Phase) -> Iterator[Block]:
    yield _call(step.name, step.request if isinstance(step.request, Mapping) else None, step.simulator)
    yield from _came_of(step, phase)


def _came_of(step: Span, phase: Phase) -> Iterator[Block]:
    if step.error:
        yield Paragraph.from_text(f"! {safe(redact(step.error))}", Style.ERROR, indent=2 * _INDENT, hang=2)
    elif not step.is_running:
        yield _gave(step.response)
    elif phase is Phase.UNDER_WAY:
        yield Paragraph.from_text("… at work", Style.RUNNING, indent=2 * _INDENT)
    else:
        yield Paragraph.from_text("did not come back", Style.WARNING, indent=2 * _INDENT)


def _end(turn: ChatTurn) -> Iterator[Block]:
    took = format_duration(turn.duration_seconds) if turn.duration_seconds is not None else ""
    if turn.phase is Phase.ANSWERED:
        facts = [took]
        if (tokens := tokens_of(turn)) is not None:
            facts.append(plural(tokens, "token"))
        if turn.result is not None and turn.result.inference_calls is not None:
            facts.append(plural(turn.result.inference_calls, "model call"))
        yield _note(" · ".join(facts))
    elif turn.phase is Phase.CANCELLED:
        yield Paragraph.from_text(f"■ stopped after {took}", Style.WARNING)
    elif turn.phase is Phase.FAILED and turn.failure is not None:
        yield from _failure(turn.failure)


def _failure(failure: Failure) -> Iterator[Block]:
    yield Paragraph(
        (StyledText(f"! {failure.kind.value} error  ", Style.ERROR), StyledText(safe(redact(failure.message))))
    )
    for name, text in failure_texts(failure):
        yield Paragraph.from_text(name, Style.HEADING, indent=_INDENT)
        yield Paragraph.from_text(safe(redact(text)), Style.MUTED, indent=2 * _INDENT)


def _call(name: str, args: Mapping[str, Any] | None, source: str | None) -> Paragraph:
    """A call; `source` is who answered it in place of the tool."""
    given = "  ".join(f"{key}={_json(value, key)}" for key, value in (args or {}).items())
    simulated = f"  (simulated: {safe_line(source)})" if source else ""
    return Paragraph(
        (
            StyledText("→ ", Style.MUTED),
            StyledText(safe_line(name) or "(no name)", Style.KEY),
            StyledText(f"  {_short(given)}"),
            StyledText(simulated, Style.WARNING),
        ),
        indent=_INDENT,
        hang=4,
    )


def _gave(response: Any) -> Paragraph:
    return Paragraph.from_text(f"← {_short(_json(response))}", Style.MUTED, indent=2 * _INDENT, hang=2)


def _said(author: str, text: str) -> Iterator[Block]:
    yield Paragraph.from_text(safe_line(author), Style.STRONG, indent=_INDENT)
    yield Paragraph.from_text(safe(text), indent=2 * _INDENT)


def _note(text: str) -> Paragraph:
    return Paragraph.from_text(text, Style.MUTED, indent=_INDENT)


def _text(content: Content) -> str:
    """The words of a message; parts that are no text are counted, so that they are not overlooked."""
    others = sum(part.text is None for part in content.parts or ())
    return content.text(thoughts=False) + (f"\n({plural(others, 'part')} without text)" if others else "")


def _words(response: Any) -> str:
    """What a model said, out of its response as a span has it."""
    content = response.get("content") if isinstance(response, Mapping) else None
    parts = content.get("parts") if isinstance(content, Mapping) else None
    if not isinstance(parts, list):
        return ""
    found = [part for part in parts if isinstance(part, Mapping) and not part.get("thought")]
    return "\n".join(part["text"] for part in found if isinstance(part.get("text"), str) and part["text"].strip())


def _json(value: Any, name: str = "") -> str:
    return redact(json.dumps(mask_named_secrets(value, name), ensure_ascii=False))


def _short(text: str) -> str:
    hidden = len(text) - _MOST_OF_VALUE
    return safe(text if hidden <= 0 else f"{text[:_MOST_OF_VALUE]} … {plural(hidden, 'more character')} in the trace")


# The initial state of a session as it is typed: JSON, with the place where it is none.


def read_state(text: str) -> tuple[dict[str, Any], str]:
    """The state that a text stands for, and what is wrong with it: empty where nothing is. No text is no state."""
    if not text.strip():
        return {}, ""
    try:
        value = json.loads(text, parse_constant=_refuse)
    except _NoJson as error:
        return {}, f"found {error}, expected a value that JSON has"
    except json.JSONDecodeError as error:
        return {}, f"line {error.lineno}, column {error.colno}: {error.msg}"
    except RecursionError:
        return {}, "it is nested too deeply to be read"
    if not isinstance(value, dict):
        return {}, f"found {type(value).__name__}, expected an object: {{...}}"
    return value, ""


class _NoJson(ValueError):
    """A constant that Python reads and JSON does not know."""


def _refuse(constant: str) -> None:
    raise _NoJson(constant)


# How a chat stands, in one line: at work, answered, over, or not begun.

_SPINNER = "◐◓◑◒"
_SPINS = 4  # times a second


def standing_line(chat: TargetChat, *, now: float) -> Line:
    """What the agent is doing, or what can be done next. `now` is of the clock that turns began by."""
    conversation = chat.conversation
    if chat.problem:
        return (StyledText(f" ! {safe_line(redact(chat.problem))}", Style.ERROR),)
    if chat.is_opening or conversation is None:
        return (
            StyledText(
                " opening a session …" if chat.is_opening else " no session yet; it begins with what you say",
                Style.MUTED,
            ),
        )
    if conversation.is_busy:
        return _at_work(conversation, now=now)
    if conversation.ended is not None:
        return _over(conversation)
    return _at_rest(conversation)


def _at_work(conversation: Conversation, *, now: float) -> Line:
    turn = conversation.under_way
    elapsed = now - turn.began if turn is not None else 0.0
    doing = safe_line(turn.tool_under_way) if turn is not None else ""
    pieces = [StyledText(f" {_SPINNER[int(now * _SPINS) % len(_SPINNER)]} {elapsed:.1f} s", Style.RUNNING)]
    pieces.append(StyledText(f"  {doing}", Style.KEY) if doing else StyledText("  waiting for the agent", Style.MUTED))
    if conversation.waiting:
        pieces.append(StyledText(f" · {plural(conversation.waiting, 'turn')} to follow", Style.MUTED))
    return tuple(pieces)


def _over(conversation: Conversation) -> Line:
    lost, ended = conversation.lost, conversation.ended
    if lost is not None and lost.phase is Phase.CANCELLED:
        return (StyledText(" ■ stopped: the session is over", Style.WARNING),)
    if lost is not None or (ended is not None and ended.failure is not None):
        return (StyledText(" ! the session is over", Style.ERROR),)
    return (StyledText(" the session is over", Style.MUTED),)


def _at_rest(conversation: Conversation) -> Line:
    facts = [plural(len(conversation.answered), "turn")]
    spent = [tokens for turn in conversation.answered if (tokens := tokens_of(turn)) is not None]
    if spent:
        facts.append(plural(sum(spent), "token"))
    took = sum(turn.duration_seconds or 0.0 for turn in conversation.answered)
    if took:
        facts.append(format_duration(took))
    return (StyledText(f" {' · '.join(facts)}", Style.MUTED),)
