"""A conversation as lines: what was said, what the agent did meanwhile, what each turn took."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from workbench.model.evalset import Content, Invocation, InvocationEvents
from workbench.model.results import Failure
from workbench.model.text import mask_named, redact
from workbench.model.trace import Span, SpanKind, simulated_calls
from workbench.model.trajectory import ToolCall
from workbench.report.explain import failure_texts
from workbench.report.turns import side_of
from workbench.tui.state.amounts import duration
from workbench.tui.state.blocks import BLANK, Block, Whole
from workbench.tui.state.chat.conversation import ChatTurn, Conversation, Phase
from workbench.tui.state.layout import lay_out
from workbench.tui.state.pieces import Line, Piece, Tone, plural, safe, safe_line

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
        ending = lay_out(ending_blocks(self._conversation), width=width, side_by_side=False)
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
            known = turn.version, width, lay_out(blocks, width=width, side_by_side=False)
            self._known[turn.number] = known
        return known[2]


def turn_blocks(turn: ChatTurn, *, agent: str) -> Iterator[Block]:
    """One turn, with an empty line behind it."""
    yield Whole(
        (
            Piece("you", Tone.HEADING),
            Piece(f"  turn {turn.number + 1} · {turn.at.astimezone():%H:%M:%S}", Tone.MUTED),
        )
    )
    yield Whole.of(safe(_text(turn.content)), indent=_INDENT)
    if turn.result is None:
        yield from _newest(_steps_so_far(turn))
    else:
        yield from _first(_what_was_done(turn, turn.result.invocation))
        yield Whole.of(safe_line(agent), Tone.HEADING)
        response = turn.result.invocation.final_response
        spoken = _text(response) if response is not None else ""
        yield Whole.of(safe(spoken), indent=_INDENT) if spoken else _note("no final response")
    yield from _end(turn)
    yield BLANK


def ending_blocks(conversation: Conversation) -> Iterator[Block]:
    """Where the session is over: why, where no turn says it, and how it can go on."""
    if conversation.ended is None:
        return
    if conversation.ended.failure is not None:
        yield from _failure(conversation.ended.failure)
    yield Whole.of("The session is over.", Tone.STRONG)
    yield Whole.of("· retry says everything again in a new session, the last turn too", Tone.MUTED, hang=2)
    if answered := len(conversation.answered):
        before = f"the {plural(answered, 'answered turn')} again in a new session, then what you send"
        yield Whole.of(f"· enter says {before}", Tone.MUTED, hang=2)
    yield Whole.of("· a new session forgets what was said", Tone.MUTED, hang=2)


def tokens_of(turn: ChatTurn) -> int | None:
    """What the turn took of tokens; None where that is not known."""
    usage = turn.result.usage if turn.result is not None else None
    return usage.spent if usage is not None else None


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
    side = side_of(invocation)
    simulated = simulated_calls(turn.steps.values(), side.calls, turn=turn.number)
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
    for said in side.said:
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
    yield _call(step.name, step.request if isinstance(step.request, Mapping) else None, step.simulated_by)
    yield from _came_of(step, phase)


def _came_of(step: Span, phase: Phase) -> Iterator[Block]:
    if step.error:
        yield Whole.of(f"! {safe(redact(step.error))}", Tone.ERROR, indent=2 * _INDENT, hang=2)
    elif not step.is_under_way:
        yield _gave(step.response)
    elif phase is Phase.UNDER_WAY:
        yield Whole.of("… at work", Tone.RUNNING, indent=2 * _INDENT)
    else:
        yield Whole.of("did not come back", Tone.WARNING, indent=2 * _INDENT)


def _end(turn: ChatTurn) -> Iterator[Block]:
    took = duration(turn.duration_seconds) if turn.duration_seconds is not None else ""
    if turn.phase is Phase.ANSWERED:
        facts = [took]
        if (tokens := tokens_of(turn)) is not None:
            facts.append(plural(tokens, "token"))
        if turn.result is not None and turn.result.inference_calls is not None:
            facts.append(plural(turn.result.inference_calls, "model call"))
        yield _note(" · ".join(facts))
    elif turn.phase is Phase.CANCELLED:
        yield Whole.of(f"■ stopped after {took}", Tone.WARNING)
    elif turn.phase is Phase.FAILED and turn.failure is not None:
        yield from _failure(turn.failure)


def _failure(failure: Failure) -> Iterator[Block]:
    yield Whole((Piece(f"! {failure.kind.value} error  ", Tone.ERROR), Piece(safe(redact(failure.message)))))
    for name, text in failure_texts(failure):
        yield Whole.of(name, Tone.HEADING, indent=_INDENT)
        yield Whole.of(safe(redact(text)), Tone.MUTED, indent=2 * _INDENT)


def _call(name: str, args: Mapping[str, Any] | None, source: str | None) -> Whole:
    """A call; `source` is who answered it in place of the tool."""
    given = "  ".join(f"{key}={_json(value, key)}" for key, value in (args or {}).items())
    simulated = f"  (simulated: {safe_line(source)})" if source else ""
    return Whole(
        (
            Piece("→ ", Tone.MUTED),
            Piece(safe_line(name) or "(no name)", Tone.KEY),
            Piece(f"  {_short(given)}"),
            Piece(simulated, Tone.WARNING),
        ),
        indent=_INDENT,
        hang=4,
    )


def _gave(response: Any) -> Whole:
    return Whole.of(f"← {_short(_json(response))}", Tone.MUTED, indent=2 * _INDENT, hang=2)


def _said(author: str, text: str) -> Iterator[Block]:
    yield Whole.of(safe_line(author), Tone.STRONG, indent=_INDENT)
    yield Whole.of(safe(text), indent=2 * _INDENT)


def _note(text: str) -> Whole:
    return Whole.of(text, Tone.MUTED, indent=_INDENT)


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
    return redact(json.dumps(mask_named(value, name), ensure_ascii=False))


def _short(text: str) -> str:
    hidden = len(text) - _MOST_OF_VALUE
    return safe(text if hidden <= 0 else f"{text[:_MOST_OF_VALUE]} … {plural(hidden, 'more character')} in the trace")
