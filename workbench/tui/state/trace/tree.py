"""The tree of spans: what was inside what, turn by turn, with time and tokens rolled up.

Spans arrive when they end, the inner before the outer, and one that has begun may come again when it ends: the later
counts. A span whose parent is not there (yet) stands directly below its turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from workbench.model.results import TurnResult
from workbench.model.trace import Span
from workbench.tui.state.trace.facts import tokens_of

_Number = TypeVar("_Number", int, float)


class SpanKey(NamedTuple):
    """Which span of a session. Ids need only be unique within a turn; a turn's own row has the id ""."""

    turn: int
    id: str = ""


@dataclass(slots=True, eq=False)
class Node:
    """A span and what is below it.

    `own_seconds` is its time without what its children account for, `tokens` what it and all below it spent; both None
    where unknown. `slow` where it took a good part of its turn by itself.
    """

    span: Span
    key: SpanKey
    parent: Node | None = None
    depth: int = 0
    children: list[Node] = field(default_factory=list)
    own_seconds: float | None = None
    own_tokens: int | None = None
    tokens: int | None = None
    below: int = 0
    errors_below: int = 0
    slow: bool = False

    @property
    def path(self) -> list[Node]:
        """From the outermost span to this one."""
        found = [self]
        while found[-1].parent is not None:
            found.append(found[-1].parent)
        return found[::-1]


@dataclass(slots=True, eq=False)
class TurnNode:
    """The steps that one user message led to. `start` and `end` are those of its steps, None where none is timed."""

    index: int
    roots: list[Node] = field(default_factory=list)
    result: TurnResult | None = None
    start: float | None = None
    end: float | None = None
    tokens: int | None = None
    steps: int = 0
    errors: int = 0

    @property
    def key(self) -> SpanKey:
        """The key of the turn's own row."""
        return SpanKey(self.index)

    @property
    def seconds(self) -> float | None:
        """How long the turn took, as the agent's worker measured it, else as its steps show."""
        if self.result is not None:
            return self.result.duration_seconds
        return None if self.start is None or self.end is None else self.end - self.start


_SLOW_SHARE = 0.4  # of the turn
_LEAST_STEPS_FOR_SLOW = 4  # fewer are seen at a glance, and one of them always takes the most


class TraceTree:
    """The steps of one session.

    `errors` are the failed ones in order, `slowest` the one with the most time of its own (None below two with times).
    `start` and `end` are those of all steps; `seconds` and `tokens` add up the turns. All None where nothing is known.
    """

    def __init__(self, spans: Iterable[Span], turns: Sequence[TurnResult] = ()) -> None:
        latest = {SpanKey(span.turn, span.id): span for span in spans}
        self.nodes: dict[SpanKey, Node] = {key: Node(span, key) for key, span in latest.items()}
        _connect(self.nodes)
        self.turns = _turns(self.nodes.values(), turns)
        for turn in self.turns:
            _roll_up(turn)
        self.ordered = [node for turn in self.turns for node in preorder(turn.roots)]
        self.errors = [node for node in self.ordered if node.span.error is not None]
        timed = [node for node in self.ordered if node.own_seconds is not None]
        self.slowest = max(timed, key=lambda node: node.own_seconds or 0.0) if len(timed) > 1 else None
        self.start = min((turn.start for turn in self.turns if turn.start is not None), default=None)
        self.end = max((turn.end for turn in self.turns if turn.end is not None), default=None)
        self.seconds = _sum(turn.seconds for turn in self.turns)
        self.tokens = _sum(turn.tokens for turn in self.turns)


def preorder(roots: Sequence[Node]) -> Iterator[Node]:
    """The nodes and all below them, outer before inner."""
    waiting = list(reversed(roots))
    while waiting:
        node = waiting.pop()
        yield node
        waiting += reversed(node.children)


def _connect(nodes: Mapping[SpanKey, Node]) -> None:
    """Give every node its parent, unless that would close a circle."""
    for node in nodes.values():
        parent = nodes.get(SpanKey(node.key.turn, node.span.parent_id)) if node.span.parent_id else None
        node.parent = parent
    _open_circles(nodes.values())
    for node in nodes.values():
        if node.parent is not None:
            node.parent.children.append(node)


def _open_circles(nodes: Iterable[Node]) -> None:
    """Where spans name each other as parents, one of them loses its own."""
    sound: set[SpanKey] = set()
    for node in nodes:
        walked: set[SpanKey] = set()
        at: Node | None = node
        while at is not None and at.key not in sound:
            walked.add(at.key)
            if at.parent is not None and at.parent.key in walked:
                at.parent = None
            at = at.parent
        sound |= walked


def _turns(nodes: Iterable[Node], results: Sequence[TurnResult]) -> list[TurnNode]:
    turns = {index: TurnNode(index, result=result) for index, result in enumerate(results)}
    for node in nodes:
        turn = turns.setdefault(node.key.turn, TurnNode(node.key.turn))
        if node.parent is None:
            turn.roots.append(node)
    return [turns[index] for index in sorted(turns)]


def _roll_up(turn: TurnNode) -> None:
    turn.roots.sort(key=_began)
    ordered: list[Node] = []
    waiting = list(reversed(turn.roots))
    while waiting:
        node = waiting.pop()
        ordered.append(node)
        node.children.sort(key=_began)
        for child in reversed(node.children):
            child.depth = node.depth + 1
            waiting.append(child)
    for node in reversed(ordered):
        _sum_up(node)
    starts = [node.span.start for node in ordered if node.span.start is not None]
    ends = [node.span.end if node.span.end is not None else node.span.start for node in ordered]
    turn.start = min(starts, default=None)
    turn.end = max((end for end in ends if end is not None), default=None)
    turn.steps = len(ordered)
    turn.errors = sum(node.span.error is not None for node in ordered)
    usage = turn.result.usage if turn.result is not None else None
    turn.tokens = usage.spent if usage is not None else _sum(root.tokens for root in turn.roots)
    _mark_slow(ordered)


def _sum_up(node: Node) -> None:
    node.own_tokens = tokens_of(node.span)
    node.tokens = node.own_tokens
    if node.children:  # most are leaves, and there may be thousands
        node.tokens = _sum((node.own_tokens, *(child.tokens for child in node.children)))
        node.below = sum(1 + child.below for child in node.children)
        node.errors_below = sum((child.span.error is not None) + child.errors_below for child in node.children)
    if node.span.duration is not None:
        node.own_seconds = max(node.span.duration - _covered(node), 0.0)


def _covered(node: Node) -> float:
    """How much of a span its children account for: those at the same time count once."""
    covered = 0.0
    until = node.span.start or 0.0
    for child in node.children:  # sorted by their start
        if child.span.start is None or child.span.end is None:
            continue
        covered += max(child.span.end - max(child.span.start, until), 0.0)
        until = max(until, child.span.end)
    return covered


def _mark_slow(nodes: Sequence[Node]) -> None:
    timed = [node for node in nodes if node.own_seconds is not None]
    total = sum(node.own_seconds or 0.0 for node in timed)
    if len(timed) >= _LEAST_STEPS_FOR_SLOW:
        for node in timed:
            node.slow = (node.own_seconds or 0.0) > _SLOW_SHARE * total


def _began(node: Node) -> float:
    return node.span.start if node.span.start is not None else float("inf")


def _sum(values: Iterable[_Number | None]) -> _Number | None:
    known = [value for value in values if value is not None]
    return sum(known[1:], known[0]) if known else None
