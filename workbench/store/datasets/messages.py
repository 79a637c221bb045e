"""Message lists, as OpenAI and LangChain write them: the turns of a conversation with the tool calls in each.

Read are OpenAI's chat messages, Anthropic's, and LangChain's in each of the forms that it writes: `message_to_dict`,
`dumpd`, the fields of its types, and pairs of role and text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from workbench.model.trajectory import ToolCall
from workbench.store.datasets.kinds import kind_of

Role = Literal["system", "user", "assistant", "tool"]

_ROLES: Mapping[str, Role] = {
    "system": "system", "developer": "system",
    "user": "user", "human": "user",
    "assistant": "assistant", "ai": "assistant", "model": "assistant",
    "tool": "tool", "function": "tool",
}  # fmt: skip
_SAYING = frozenset({"content", "tool_calls", "function_call", "additional_kwargs"})
_CLASS = re.compile(r"(System|Human|AI|Tool|Function)Message(Chunk)?")


class MessageError(ValueError):
    """A value that is no list of messages; `place` is the path inside it, such as `[2].tool_calls`."""

    def __init__(self, *, place: str, found: str, expected: str) -> None:
        super().__init__(f"{place}: found {found}, expected {expected}")
        self.place = place
        self.found = found
        self.expected = expected


class ToolResult(NamedTuple):
    """What a tool gave back; `name` is None where neither the message nor a call of its id says it."""

    name: str | None
    content: str


@dataclass
class Turn:
    """What a user said, and what happened until the user spoke again.

    `answer` is the text of the last message, where that calls no tool; `said` are the texts before it. `calls` is None
    where nobody knows them. `left_out` names what of the messages is no text, such as `image_url`.
    """

    prompt: str | None = None
    calls: list[ToolCall] | None = field(default_factory=list)
    results: list[ToolResult] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    answer: str | None = None
    left_out: list[str] = field(default_factory=list)


@dataclass
class Conversation:
    """A list of messages; `system` are the instructions in it."""

    system: str | None = None
    turns: list[Turn] = field(default_factory=list)

    @property
    def prompt(self) -> str | None:
        """All that the user said."""
        return joined(turn.prompt for turn in self.turns)

    @property
    def answer(self) -> str | None:
        """The last answer."""
        return self.turns[-1].answer if self.turns else None

    @property
    def calls(self) -> list[ToolCall] | None:
        """The calls of all turns, in order; None where nobody knows those of any."""
        known = [turn.calls for turn in self.turns if turn.calls is not None]
        return [call for calls in known for call in calls] if known else None


def is_messages(value: Any) -> bool:
    """Whether a value begins as a list of messages does."""
    return isinstance(value, list) and bool(value) and _is_message(value[0])


def read_messages(value: Any) -> Conversation:
    """Read a list of messages, or the JSON text of one. Raises MessageError with the place that cannot be read."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            raise MessageError(place="", found="text", expected="a list of messages or the JSON text of one") from None
    if not isinstance(value, list) or not value:
        found = "an empty list" if value == [] else kind_of(value)
        raise MessageError(place="", found=found, expected="a list of messages")
    reader = _Reader()
    for index, message in enumerate(value):
        reader.take(message, place=f"[{index}]")
    return reader.conversation


class _Reader:
    def __init__(self) -> None:
        self.conversation = Conversation()
        self._names: dict[str, str] = {}
        self._speaking = False  # the user has begun a turn that nobody has answered yet

    def take(self, message: Any, *, place: str) -> None:
        role = _role_of(message)
        if role is None:
            raise MessageError(place=place, found=kind_of(message), expected="a message with a role")
        fields = _fields_of(message)
        content = _content_of(fields.get("content"), place=f"{place}.content")
        if role == "system":
            self.conversation.system = joined((self.conversation.system, content.text))
            return
        # Anthropic's results of tools come as a message of the user, who says nothing in it.
        speaks = role == "user" and (content.text is not None or not content.results)
        if not self.conversation.turns and (content.results or not speaks):
            self._begin_turn(None)
        for result in content.results:
            self._take_result(result.part, "tool_use_id", result.text)
        if speaks:
            self._begin_turn(content.text)
        turn = self.conversation.turns[-1]
        turn.left_out += content.left_out
        self._speaking = speaks
        if role == "assistant":
            self._take_answer(turn, fields, content, place=place)
        elif role == "tool" and not content.results:
            self._take_result(fields, "tool_call_id", content.text)

    def _take_result(self, fields: Mapping[str, Any], id_field: str, text: str | None) -> None:
        name = fields.get("name") or self._names.get(str(fields.get(id_field)))
        result = ToolResult(name if isinstance(name, str) else None, text or "")
        self.conversation.turns[-1].results.append(result)

    def _begin_turn(self, text: str | None) -> None:
        if self._speaking:
            turn = self.conversation.turns[-1]
            turn.prompt = joined((turn.prompt, text))
        else:
            self.conversation.turns.append(Turn(prompt=text, calls=None))  # known as soon as an assistant speaks

    def _take_answer(self, turn: Turn, fields: Mapping[str, Any], content: _Content, *, place: str) -> None:
        calls = list(_calls_of(fields, place=place)) or [_call_of(part, place=where) for where, part in content.calls]
        if turn.answer:
            turn.said.append(turn.answer)
        turn.answer = None if calls else content.text
        if calls and content.text:
            turn.said.append(content.text)
        turn.calls = [*(turn.calls or ()), *(call for _, call in calls)]
        for call_id, call in calls:
            self._names[call_id] = call.name


def _is_message(value: Any) -> bool:
    """Whether a value has a role and also something that was said or done: other things have a role, or a type, too."""
    if _role_of(value) is None:
        return False
    return not isinstance(value, Mapping) or not _SAYING.isdisjoint(_fields_of(value))


def _role_of(message: Any) -> Role | None:
    if isinstance(message, list | tuple):
        is_pair = len(message) == 2 and all(isinstance(item, str) for item in message)
        return _ROLES.get(message[0]) if is_pair else None
    if not isinstance(message, Mapping):
        return None
    if message.get("type") == "constructor" and isinstance(message.get("id"), list) and message["id"]:
        name = str(message["id"][-1])
    else:
        name = str(message.get("role") or message.get("type"))
    match = _CLASS.fullmatch(name)
    return _ROLES.get(match[1].lower() if match else name.lower())


def _fields_of(message: Any) -> Mapping[str, Any]:
    if not isinstance(message, Mapping):
        return {"content": message[1]}
    for inner in ("kwargs", "data"):  # LangChain's dumpd, and its message_to_dict
        if "content" not in message and isinstance(message.get(inner), Mapping):
            fields: Mapping[str, Any] = message[inner]
            return fields
    return message


class _Result(NamedTuple):
    """A part of a content that is what a tool gave back."""

    part: Mapping[str, Any]
    text: str | None


@dataclass
class _Content:
    """What a content is: its text, its parts that are calls (with their places) or results, and the kinds of others.

    Where a message has a field for its calls, as LangChain's do, the parts that are calls say the same again.
    """

    text: str | None = None
    calls: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    results: list[_Result] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)


def _content_of(content: Any, *, place: str) -> _Content:
    if content is None or isinstance(content, str):
        return _Content(content)
    if not isinstance(content, list):
        raise MessageError(place=place, found=kind_of(content), expected="text, or a list of parts")
    read = _Content()
    texts: list[str] = []
    for index, part in enumerate(content):
        kind = part.get("type") if isinstance(part, Mapping) else None
        text = part if isinstance(part, str) else part.get("text") if isinstance(part, Mapping) else None
        if kind in ("tool_use", "tool_call"):
            read.calls.append((f"{place}[{index}]", part))
        elif kind == "tool_result":
            inner = _content_of(part.get("content"), place=f"{place}[{index}].content")
            read.results.append(_Result(part, inner.text))
            read.left_out += inner.left_out
        elif isinstance(text, str):
            texts.append(text)
        else:
            read.left_out.append(str(kind or "part"))
    read.text = "\n".join(texts) if texts else None
    return read


def _calls_of(fields: Mapping[str, Any], *, place: str) -> Iterable[tuple[str, ToolCall]]:
    """The calls of a message with their ids."""
    place = f"{place}.tool_calls"
    calls = fields.get("tool_calls")
    more = fields.get("additional_kwargs")
    if not calls and isinstance(more, Mapping):
        calls = more.get("tool_calls")
    if not calls and isinstance(fields.get("function_call"), Mapping):  # OpenAI's before there were tools
        calls, place = [{"function": fields["function_call"]}], place.replace("tool_calls", "function_call")
    if calls is None:
        return
    if not isinstance(calls, list):
        raise MessageError(place=place, found=kind_of(calls), expected="a list of tool calls")
    for index, call in enumerate(calls):
        yield _call_of(call, place=f"{place}[{index}]")


def _call_of(call: Any, *, place: str) -> tuple[str, ToolCall]:
    if not isinstance(call, Mapping):
        raise MessageError(place=place, found=kind_of(call), expected="a tool call")
    inner = call.get("function") if isinstance(call.get("function"), Mapping) else call
    assert isinstance(inner, Mapping)
    name = inner.get("name")
    if not isinstance(name, str):
        raise MessageError(place=place, found=kind_of(name), expected="a tool call with a name")
    key = next((key for key in ("args", "input") if key in inner), "arguments")
    args = inner.get(key)
    if isinstance(args, str):
        try:
            args = json.loads(args) if args.strip() else {}
        except (ValueError, RecursionError):
            raise MessageError(place=place, found="text that is no JSON", expected=f"{key} as JSON") from None
    if args is not None and not isinstance(args, Mapping):
        raise MessageError(place=place, found=kind_of(args), expected=f"{key} that are an object")
    return str(call.get("id")), ToolCall(name, args)


def joined(texts: Iterable[str | None]) -> str | None:
    """The texts that are there, with an empty line between."""
    there = [text for text in texts if text is not None]
    return "\n\n".join(there) if there else None
