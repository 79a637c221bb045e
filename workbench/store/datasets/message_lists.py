"""Conversations written as message lists: as OpenAI has them, and as LangChain does."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from workbench.model.trajectory import ToolCall
from workbench.store.datasets.messages import Conversation, Role


def openai_messages(conversation: Conversation) -> list[dict[str, Any]]:
    """The messages as OpenAI has them; ids of calls are numbers."""
    return [_openai(message) for message in _messages_of(conversation)]


def langchain_messages(conversation: Conversation) -> list[dict[str, Any]]:
    """The messages as LangChain's `messages_from_dict` reads them; ids of calls are numbers."""
    return [_langchain(message) for message in _messages_of(conversation)]


class _Message(NamedTuple):
    role: Role
    text: str
    calls: Sequence[tuple[str, ToolCall]] = ()
    call_id: str = ""
    tool: str | None = None


def _messages_of(conversation: Conversation) -> Iterable[_Message]:
    """The messages of a conversation: what was said on the way, the calls, their results, the answer."""
    if conversation.system is not None:
        yield _Message("system", conversation.system)
    number = 0
    for turn in conversation.turns:
        if turn.prompt is not None:
            yield _Message("user", turn.prompt)
        for text in turn.said:
            yield _Message("assistant", text)
        calls = [(f"call_{number + index}", call) for index, call in enumerate(turn.calls or (), start=1)]
        number += len(calls)
        if calls:
            yield _Message("assistant", "", calls)
        open_calls = list(calls)
        for result in turn.results:
            place = next((i for i, (_, call) in enumerate(open_calls) if result.name in (None, call.name)), None)
            call_id, tool = ("", result.name)
            if place is not None:
                call_id, call = open_calls.pop(place)
                tool = call.name
            yield _Message("tool", result.content, call_id=call_id, tool=tool)
        if turn.answer is not None:
            yield _Message("assistant", turn.answer)


def _openai(message: _Message) -> dict[str, Any]:
    written: dict[str, Any] = {"role": message.role, "content": message.text}
    if message.calls:
        written["content"] = None
        written["tool_calls"] = [
            {
                "id": call_id,
                "type": "function",
                "function": {"name": call.name, "arguments": json.dumps(call.args or {}, ensure_ascii=False)},
            }
            for call_id, call in message.calls
        ]
    if message.role == "tool":
        written["tool_call_id"] = message.call_id
        if message.tool is not None:
            written["name"] = message.tool
    return written


def _langchain(message: _Message) -> dict[str, Any]:
    kinds: Mapping[Role, str] = {"system": "system", "user": "human", "assistant": "ai", "tool": "tool"}
    data: dict[str, Any] = {"content": message.text, "type": kinds[message.role]}
    if message.calls:
        data["tool_calls"] = [
            {"name": call.name, "args": dict(call.args or {}), "id": call_id, "type": "tool_call"}
            for call_id, call in message.calls
        ]
    if message.role == "tool":
        data["tool_call_id"] = message.call_id
        data["name"] = message.tool
    return {"type": kinds[message.role], "data": data}
