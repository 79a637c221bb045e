"""Which spans became an event of their turn, told from what is recorded: ids, and where there are none, equal content.

An adapter may say it itself (`event_id`). Else a tool call is found among the calls of the invocation, by its id or as
the next one with the same name and arguments, and an agent's answer is the final response where both are the same text.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from workbench.model.evalset import FunctionCall, IntermediateData, Invocation, InvocationEvents
from workbench.model.text import redact
from workbench.model.trace import Span, SpanKind
from workbench.tui.state.trace.tree import Node, SpanKey, TurnNode, preorder


def linked_events(turn: TurnNode) -> Mapping[SpanKey, str]:
    """For each span of the turn that became an event, which, in words. Text is as it was recorded."""
    links: dict[SpanKey, str] = {}
    invocation = turn.result.invocation if turn.result is not None else None
    calls = _Calls(invocation)
    for node in preorder(turn.roots):
        link = _told(node.span, invocation) or calls.take(node.span) or _answer(node, invocation)
        if link:
            links[node.key] = link
    return links


class _Calls:
    """The tool calls of a turn, each of which stands for one span only."""

    def __init__(self, invocation: Invocation | None) -> None:
        calls = list(_calls(invocation)) if invocation is not None else []
        numbered = list(enumerate(calls, start=1))
        self._by_id: dict[str, list[int]] = {}  # a model may give two calls the same id
        for number, call in numbered:
            if call.id:
                self._by_id.setdefault(call.id, []).append(number)
        self._without_id = [(number, call) for number, call in numbered if not call.id]
        self._next = 0  # of those without an id: while spans come in the order of the calls nothing is looked up
        self._by_content: dict[str, list[int]] | None = None

    def take(self, span: Span) -> str | None:
        """Which call a tool span stands for, in words."""
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


def _told(span: Span, invocation: Invocation | None) -> str | None:
    event_id = span.attributes.get("event_id")
    if not isinstance(event_id, str):
        return None
    what = "the final response" if span.attributes.get("is_final_response") is True else "an event"
    own = span.attributes.get("invocation_id")
    if invocation is not None and own != invocation.invocation_id:
        return f"{what} of a nested run, id {event_id}"
    return f"{what} of this turn, id {event_id}"


def _answer(node: Node, invocation: Invocation | None) -> str | None:
    span = node.span
    if span.kind is not SpanKind.AGENT or not isinstance(span.response, str) or invocation is None:
        return None
    final = invocation.final_response
    if final is None or span.response not in (final.text(), redact(final.text())):  # spans that are stored are redacted
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
