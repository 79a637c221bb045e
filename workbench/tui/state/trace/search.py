"""Looking for a text in the spans of a session, a bounded piece of work at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from workbench.tui.state.trace.tree import Node, SpanKey


class Where(StrEnum):
    """In which part of a span a text was found."""

    NAME = "name"
    ERROR = "error"
    ATTRIBUTES = "attributes"
    REQUEST = "request"
    RESPONSE = "response"


class Match(NamedTuple):
    """A text was found in this part of this span."""

    key: SpanKey
    where: Where


class Search:
    """A text looked for in names, errors, attributes, requests and responses, whatever its case."""

    def __init__(self, text: str, nodes: Sequence[Node]) -> None:
        self.text = text
        self.matches: list[Match] = []
        self.is_done = False
        self._work = self._look(text.casefold(), nodes)

    def step(self, characters: int) -> None:
        """Look through at least so many characters more; `is_done` says when nothing is left."""
        looked = 0
        for count in self._work:
            looked += count
            if looked >= characters:
                return
        self.is_done = True

    def _look(self, needle: str, nodes: Sequence[Node]) -> Iterator[int]:
        for node in nodes:
            for where, value in _parts(node):
                for text in texts(value):
                    yield len(text) + 20  # the walk costs something for empty texts too
                    if needle in text.casefold():
                        self.matches.append(Match(node.key, where))
                        break


def texts(value: Any) -> Iterator[str]:
    """Every key, text, number and word in a JSON value, in order."""
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


def _parts(node: Node) -> Iterator[tuple[Where, Any]]:
    span = node.span
    yield Where.NAME, span.name
    yield Where.ERROR, span.error
    yield Where.ATTRIBUTES, {name: value for name, value in span.attributes.items() if name != "agents"}
    yield Where.REQUEST, span.request
    yield Where.RESPONSE, span.response
