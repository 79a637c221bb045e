"""The steps of a session as a tree: times, tokens, messages, linked events, and search."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple, TypeVar

from workbench.model.evalset import Content, FunctionCall, IntermediateData, Invocation, InvocationEvents
from workbench.model.results import TurnResult
from workbench.model.text import format_duration, redact
from workbench.model.trace import Span, SpanKind
from workbench.tui.state.text_layout import Line, Style, StyledText, safe_line

# Facts of one span: its symbol, the name of its kind, its tokens.

SYMBOLS: Mapping[SpanKind, str] = {
    SpanKind.INVOCATION: "◎",
    SpanKind.AGENT: "◆",
    SpanKind.MODEL: "✦",
    SpanKind.TOOL: "ƒ",
    SpanKind.USER: "☺",
    SpanKind.OTHER: "·",
}
"""Symbols of one cell."""

KIND_NAMES: Mapping[SpanKind, str] = {
    SpanKind.INVOCATION: "invocation",
    SpanKind.AGENT: "agent",
    SpanKind.MODEL: "model call",
    SpanKind.TOOL: "tool call",
    SpanKind.USER: "simulated user",
    SpanKind.OTHER: "other step",
}

_TOTALS = ("total", "total_token_count", "totalTokenCount", "total_tokens")
_PARTS = (
    "prompt_token_count", "tool_use_prompt_token_count", "candidates_token_count", "thoughts_token_count",
    "promptTokenCount", "candidatesTokenCount", "thoughtsTokenCount",
    "prompt", "tool_use_prompt", "candidates", "thoughts",
    "prompt_tokens", "completion_tokens", "input_tokens", "output_tokens",
)  # fmt: skip
_OPEN_TELEMETRY = ("gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens")


def count_tokens(span: Span) -> int | None:
    """Count the tokens of this step without its children; None if it reports none."""
    for place in _usages(span):
        for name in _TOTALS:
            if (total := _count(place.get(name))) is not None:
                return total
        part_counts = [count for name in _PARTS if (count := _count(place.get(name))) is not None]
        if part_counts:
            return sum(part_counts)
    part_counts = [count for name in _OPEN_TELEMETRY if (count := _count(span.attributes.get(name))) is not None]
    return sum(part_counts) if part_counts else None


def _usages(span: Span) -> list[Mapping[str, Any]]:
    places = [span.attributes.get("usage")]
    if isinstance(span.response, dict):
        places += [span.response.get(name) for name in ("usage_metadata", "usageMetadata", "usage")]
    return [place for place in places if isinstance(place, dict)]


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


# The tree of spans by turn, with sums of times and tokens.

_Number = TypeVar("_Number", int, float)


class SpanKey(NamedTuple):
    """The key of a span in a session. Ids are unique only within a turn. The row of a turn has the id ""."""

    turn: int
    id: str = ""


@dataclass(slots=True, eq=False)
class SpanNode:
    """A span and its children.

    `own_seconds` is its time without that of its children. `tokens` includes all spans below. Both are None if unknown.
    `slow` means that its own time is a large part of its turn.
    """

    span: Span
    key: SpanKey
    parent: SpanNode | None = None
    depth: int = 0
    children: list[SpanNode] = field(default_factory=list)
    own_seconds: float | None = None
    own_tokens: int | None = None
    tokens: int | None = None
    below: int = 0
    errors_below: int = 0
    slow: bool = False

    @property
    def path(self) -> list[SpanNode]:
        """The spans from the outermost one to this one."""
        found = [self]
        while found[-1].parent is not None:
            found.append(found[-1].parent)
        return found[::-1]


@dataclass(slots=True, eq=False)
class TurnNode:
    """The steps of one user message. `start` and `end` are those of its steps, None without times."""

    index: int
    roots: list[SpanNode] = field(default_factory=list)
    result: TurnResult | None = None
    start: float | None = None
    end: float | None = None
    tokens: int | None = None
    steps: int = 0
    errors: int = 0

    @property
    def key(self) -> SpanKey:
        return SpanKey(self.index)

    @property
    def seconds(self) -> float | None:
        """The duration of the turn, measured by the worker, else computed from its steps."""
        if self.result is not None:
            return self.result.duration_seconds
        return None if self.start is None or self.end is None else self.end - self.start


_SLOW_SHARE = 0.4  # of the turn
_LEAST_STEPS_FOR_SLOW = 4  # with fewer steps a mark would not help: one of them always takes the most


class TraceTree:
    """The steps of one session.

    `errors` are the failed steps in order. `slowest` has the most time of its own, None below two timed steps.
    `start` and `end` are those of all steps; `seconds` and `tokens` are sums over the turns. All are None if unknown.
    """

    def __init__(self, spans: Iterable[Span], turns: Sequence[TurnResult] = ()) -> None:
        latest = {SpanKey(span.turn, span.id): span for span in spans}
        self.nodes: dict[SpanKey, SpanNode] = {key: SpanNode(span, key) for key, span in latest.items()}
        _connect(self.nodes)
        self.turns = _turns(self.nodes.values(), turns)
        for turn in self.turns:
            _sum_turn(turn)
        self.ordered = [node for turn in self.turns for node in preorder(turn.roots)]
        self.errors = [node for node in self.ordered if node.span.error is not None]
        timed = [node for node in self.ordered if node.own_seconds is not None]
        self.slowest = max(timed, key=lambda node: node.own_seconds or 0.0) if len(timed) > 1 else None
        self.start = min((turn.start for turn in self.turns if turn.start is not None), default=None)
        self.end = max((turn.end for turn in self.turns if turn.end is not None), default=None)
        self.seconds = _sum(turn.seconds for turn in self.turns)
        self.tokens = _sum(turn.tokens for turn in self.turns)


def preorder(roots: Sequence[SpanNode]) -> Iterator[SpanNode]:
    """Yield the nodes and all below them, parents before children."""
    waiting = list(reversed(roots))
    while waiting:
        node = waiting.pop()
        yield node
        waiting += reversed(node.children)


def _connect(nodes: Mapping[SpanKey, SpanNode]) -> None:
    """Connect each node with its parent, unless this would create a cycle."""
    for node in nodes.values():
        parent = nodes.get(SpanKey(node.key.turn, node.span.parent_id)) if node.span.parent_id else None
        node.parent = parent
    _open_circles(nodes.values())
    for node in nodes.values():
        if node.parent is not None:
            node.parent.children.append(node)


def _open_circles(nodes: Iterable[SpanNode]) -> None:
    """Break cycles: if spans are each other's parents, remove the parent of one of them."""
    sound: set[SpanKey] = set()
    for node in nodes:
        walked: set[SpanKey] = set()
        at: SpanNode | None = node
        while at is not None and at.key not in sound:
            walked.add(at.key)
            if at.parent is not None and at.parent.key in walked:
                at.parent = None
            at = at.parent
        sound |= walked


def _turns(nodes: Iterable[SpanNode], results: Sequence[TurnResult]) -> list[TurnNode]:
    turns = {index: TurnNode(index, result=result) for index, result in enumerate(results)}
    for node in nodes:
        turn = turns.setdefault(node.key.turn, TurnNode(node.key.turn))
        if node.parent is None:
            turn.roots.append(node)
    return [turns[index] for index in sorted(turns)]


def _sum_turn(turn: TurnNode) -> None:
    turn.roots.sort(key=_start_time)
    ordered: list[SpanNode] = []
    waiting = list(reversed(turn.roots))
    while waiting:
        node = waiting.pop()
        ordered.append(node)
        node.children.sort(key=_start_time)
        for child in reversed(node.children):
            child.depth = node.depth + 1
            waiting.append(child)
    for node in reversed(ordered):
        _sum_node(node)
    starts = [node.span.start for node in ordered if node.span.start is not None]
    ends = [node.span.end if node.span.end is not None else node.span.start for node in ordered]
    turn.start = min(starts, default=None)
    turn.end = max((end for end in ends if end is not None), default=None)
    turn.steps = len(ordered)
    turn.errors = sum(node.span.error is not None for node in ordered)
    usage = turn.result.usage if turn.result is not None else None
    turn.tokens = usage.total_tokens if usage is not None else _sum(root.tokens for root in turn.roots)
    _mark_slow(ordered)


def _sum_node(node: SpanNode) -> None:
    node.own_tokens = count_tokens(node.span)
    node.tokens = node.own_tokens
    if node.children:  # most are leaves, and there may be thousands
        node.tokens = _sum((node.own_tokens, *(child.tokens for child in node.children)))
        node.below = sum(1 + child.below for child in node.children)
        node.errors_below = sum((child.span.error is not None) + child.errors_below for child in node.children)
    if node.span.duration is not None:
        node.own_seconds = max(node.span.duration - _sum_child_seconds(node), 0.0)


def _sum_child_seconds(node: SpanNode) -> float:
    """Sum the time of the children. Children at the same time count once."""
    covered = 0.0
    until = node.span.start or 0.0
    for child in node.children:  # sorted by their start
        if child.span.start is None or child.span.end is None:
            continue
        covered += max(child.span.end - max(child.span.start, until), 0.0)
        until = max(until, child.span.end)
    return covered


def _mark_slow(nodes: Sequence[SpanNode]) -> None:
    timed = [node for node in nodes if node.own_seconds is not None]
    total = sum(node.own_seconds or 0.0 for node in timed)
    if len(timed) >= _LEAST_STEPS_FOR_SLOW:
        for node in timed:
            node.slow = (node.own_seconds or 0.0) > _SLOW_SHARE * total


def _start_time(node: SpanNode) -> float:
    return node.span.start if node.span.start is not None else float("inf")


def _sum(values: Iterable[_Number | None]) -> _Number | None:
    known = [value for value in values if value is not None]
    return sum(known[1:], known[0]) if known else None


# The time axis: the positions of bars, and the times above them.

_LABEL_WIDTH = 9  # cells of a time on the axis, with a gap


@dataclass(frozen=True, slots=True)
class Axis:
    """A period over `width` cells, in seconds since the start of the session."""

    start: float
    end: float
    width: int

    def cells(self, start: float, end: float) -> tuple[int, int]:
        """Return the first cell of a period and the cell after its last: at least one cell, within the axis."""
        span = self.end - self.start
        if span <= 0:
            return 0, self.width
        first = math.floor((start - self.start) / span * self.width)
        after = math.ceil(round((end - self.start) / span * self.width, 6))
        first = min(max(first, 0), max(self.width - 1, 0))
        return first, min(max(after, first + 1), self.width)

    def bar(self, start: float, end: float, *, fill: str) -> str:
        """Draw the bar of a period in a line of `width` cells."""
        first, after = self.cells(start, end)
        return f"{' ' * first}{fill * (after - first)}{' ' * (self.width - after)}"

    def labels(self) -> str:
        """Draw the times above the bars: in round steps, or the end of the axis if there is room for no step."""
        span = self.end - self.start
        if span <= 0 or self.width < _LABEL_WIDTH:
            return " " * self.width
        step = _round_step(span * _LABEL_WIDTH / self.width)
        line = ""
        for number in range(int(span / step) + 1):
            text = f"├{_label(number * step)}"
            place = round(number * step / span * self.width)
            if place + len(text) <= self.width:
                line = f"{line.ljust(place)}{text}"
        end = f" {format_duration(span)}┤"
        if len(line) == len("├0") <= self.width - len(end):
            return line.ljust(self.width - len(end)) + end
        return line.ljust(self.width)


def _label(seconds: float) -> str:
    """Format a round time: "0", "5 s", "0.5 ms"."""
    if not seconds:
        return "0"
    number, _, unit = format_duration(seconds).partition(" ")
    return f"{float(number):g} {unit}" if unit in ("µs", "ms", "s") else format_duration(seconds)


def _round_step(least: float) -> float:
    """Return the smallest number of the form 1, 2 or 5 times a power of ten that is at least `least`."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least * (1 - 1e-9))


# The messages of each turn: of the user, and of the agent.

_WIDTH = 300  # characters of one message


class Messages:
    """The messages of each turn: from its result, else its case, else the request of its outermost span."""

    def __init__(self, turns: Sequence[TurnNode], prompts: Sequence[str]) -> None:
        self._user: dict[int, str] = {}
        self._agent: dict[int, str] = {}
        for turn in turns:
            self._user[turn.index] = _line(_prompt(turn, prompts))
            self._agent[turn.index] = _line(_response_text(turn))

    def user(self, turn: int) -> str:
        """Return the user message as safe text for one line."""
        return self._user.get(turn, "")

    def line(self, turn: int, *, is_answer: bool) -> Line:
        """Return both messages of a turn as a line. The answer is highlighted if `is_answer`, else the user message."""
        user, agent = (Style.MUTED, Style.STRONG) if is_answer else (Style.STRONG, Style.MUTED)
        said = self._user.get(turn) or "(no text)"
        answered = self._agent.get(turn)
        mark = (" ", "▸") if is_answer else ("▸", " ")
        pieces = [StyledText(f"{mark[0]} user: {safe_line(said, width=60 if answered else 200)}", user)]
        if answered:
            pieces.append(StyledText(f"  {mark[1]} agent: {answered}", agent))
        return tuple(pieces)


def _prompt(turn: TurnNode, prompts: Sequence[str]) -> str:
    if turn.result is not None:
        return turn.result.invocation.user_content.text_with_markers()
    if turn.index < len(prompts):
        return prompts[turn.index]
    return next((text for node in turn.roots if (text := _extract_text(node.span.request))), "")


def _response_text(turn: TurnNode) -> str:
    final = turn.result.invocation.final_response if turn.result is not None else None
    return final.text(thoughts=False) if final is not None else ""


def _extract_text(request: Any) -> str:
    """Return the text of a user message that an agent received: a text, or parts."""
    if isinstance(request, str):
        return request
    if not isinstance(request, dict):
        return ""
    try:
        return Content.model_validate(request).text()
    except ValueError:  # the request is not a message
        return ""


def _line(text: str) -> str:
    return safe_line(redact(text), width=_WIDTH)


# Links from spans to the events of their turn, by recorded ids, or by equal content without ids.


def linked_events(turn: TurnNode) -> Mapping[SpanKey, str]:
    """Describe the event of each span that became one. The texts are not redacted."""
    links: dict[SpanKey, str] = {}
    invocation = turn.result.invocation if turn.result is not None else None
    calls = _Calls(invocation)
    for node in preorder(turn.roots):
        link = _describe_event(node.span, invocation) or calls.take(node.span) or _describe_answer(node, invocation)
        if link:
            links[node.key] = link
    return links


class _Calls:
    """The tool calls of a turn. Each call is linked to one span."""

    def __init__(self, invocation: Invocation | None) -> None:
        calls = list(_calls(invocation)) if invocation is not None else []
        numbered = list(enumerate(calls, start=1))
        self._by_id: dict[str, list[int]] = {}  # a model may use an id for two calls
        for number, call in numbered:
            if call.id:
                self._by_id.setdefault(call.id, []).append(number)
        self._without_id = [(number, call) for number, call in numbered if not call.id]
        self._next = 0  # the next call without id: while spans are in the order of the calls, no search is needed
        self._by_content: dict[str, list[int]] | None = None

    def take(self, span: Span) -> str | None:
        """Describe the call of a tool span, and remove the call. Return None if there is no such call."""
        if span.kind is not SpanKind.TOOL:
            return None
        call_id = span.attributes.get("function_call_id")
        same = self._by_id.get(call_id) if isinstance(call_id, str) else None
        number = same.pop(0) if same else self._take_by_content(span)
        return None if number is None else f"tool call {number} of this turn"

    def _take_by_content(self, span: Span) -> int | None:
        if self._by_content is None:
            if self._next < len(self._without_id):
                number, call = self._without_id[self._next]
                if call.name == span.name and (call.args or {}) == (span.request or {}):
                    self._next += 1
                    return number
            self._by_content = {}
            for number, call in self._without_id[self._next :]:
                self._by_content.setdefault(_content(call.name, call.args), []).append(number)
        same = self._by_content.get(_content(span.name, span.request)) if self._by_content else None
        return same.pop(0) if same else None


def _content(name: str | None, args: Any) -> str:
    return f"{name}{json.dumps(args or {}, sort_keys=True, default=str)}"


def _describe_event(span: Span, invocation: Invocation | None) -> str | None:
    event_id = span.attributes.get("event_id")
    if not isinstance(event_id, str):
        return None
    what = "the final response" if span.attributes.get("is_final_response") is True else "an event"
    own = span.attributes.get("invocation_id")
    if invocation is not None and own != invocation.invocation_id:
        return f"{what} of a nested run, id {event_id}"
    return f"{what} of this turn, id {event_id}"


def _describe_answer(node: SpanNode, invocation: Invocation | None) -> str | None:
    span = node.span
    if span.kind is not SpanKind.AGENT or not isinstance(span.response, str) or invocation is None:
        return None
    final = invocation.final_response
    if final is None or span.response not in (final.text(), redact(final.text())):  # stored spans are redacted
        return None
    return "the final response of this turn"


def _calls(invocation: Invocation) -> Iterator[FunctionCall]:
    data = invocation.intermediate_data
    if isinstance(data, IntermediateData):
        yield from data.tool_uses
    elif isinstance(data, InvocationEvents):
        for event in data.invocation_events:
            for part in event.content.parts or () if event.content is not None else ():
                if part.function_call is not None:
                    yield part.function_call


# The search for a text in the spans of a session, in small steps.


class Where(StrEnum):
    """The part of a span that contains a match."""

    NAME = "name"
    ERROR = "error"
    ATTRIBUTES = "attributes"
    REQUEST = "request"
    RESPONSE = "response"


class Match(NamedTuple):
    """A match in a part of a span."""

    key: SpanKey
    where: Where


class Search:
    """Searches names, errors, attributes, requests and responses for a text, ignoring case."""

    def __init__(self, text: str, nodes: Sequence[SpanNode]) -> None:
        self.text = text
        self.matches: list[Match] = []
        self.is_done = False
        self._work = self._search(text.casefold(), nodes)

    def step(self, characters: int) -> None:
        """Search at least `characters` more characters. `is_done` becomes true at the end."""
        looked = 0
        for count in self._work:
            looked += count
            if looked >= characters:
                return
        self.is_done = True

    def _search(self, needle: str, nodes: Sequence[SpanNode]) -> Iterator[int]:
        for node in nodes:
            for where, value in _parts(node):
                for text in texts(value):
                    yield len(text) + 20  # an empty text takes some time too
                    if needle in text.casefold():
                        self.matches.append(Match(node.key, where))
                        break


def texts(value: Any) -> Iterator[str]:
    """Yield all keys, texts, numbers and constants of a JSON value as texts, in order."""
    waiting = [iter((value,))]
    while waiting:
        item = next(waiting[-1], _END)
        if item is _END:
            waiting.pop()
        elif isinstance(item, str):
            yield item
        elif isinstance(item, dict):
            waiting.append(part for pair in item.items() for part in pair)
        elif isinstance(item, list | tuple):
            waiting.append(iter(item))
        elif item is not None:
            yield str(item).lower() if isinstance(item, bool) else str(item)


_END = object()


def _parts(node: SpanNode) -> Iterator[tuple[Where, Any]]:
    span = node.span
    yield Where.NAME, span.name
    yield Where.ERROR, span.error
    yield Where.ATTRIBUTES, {name: value for name, value in span.attributes.items() if name != "agents"}
    yield Where.REQUEST, span.request
    yield Where.RESPONSE, span.response
