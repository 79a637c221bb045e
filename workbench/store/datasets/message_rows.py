"""Conversations as lists of messages of OpenAI, Anthropic and LangChain: reading and writing."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from workbench.model.trace import CUSTOM, UNNAMED_ARGUMENT, ToolCall

# Types of values for messages


def describe_kind(value: Any) -> str:
    """Describe the type of a value in terms of JSON."""
    names = {type(None): "null", bool: "true or false", dict: "an object", list: "a list", str: "text"}
    return names.get(type(value), "a number")


# Reading: the turns of a conversation with their tool calls

Role = Literal["system", "user", "assistant", "tool"]

_ROLES: Mapping[str, Role] = {
    "system": "system", "developer": "system",
    "user": "user", "human": "user",
    "assistant": "assistant", "ai": "assistant", "model": "assistant",
    "tool": "tool", "function": "tool",
}  # fmt: skip
_CONTENT_FIELDS = frozenset(
    {
        "content", "parts", "tool_calls", "toolCalls", "toolInvocations", "function_call", "additional_kwargs",
        "invalid_tool_calls",
    }
)  # fmt: skip
_MAY_BE_CALLS = re.compile("tool|function|call", re.IGNORECASE)
_NO_CALL_FIELDS = frozenset({"tool_call_id", "toolCallId", "tool_call_chunks", "tool_choice", "tool_plan"})
_NAMED_FIELDS = frozenset(
    {"attachments", "experimental_attachments", "annotations", "citations", "sources", "files", "images"}
)
"""Fields of a message whose items may have names, but are no calls."""
_TOOL_NAMES = frozenset({"name", "toolName", "tool_name", "tool", "function"})
_ARGUMENTS = frozenset({"args", "input", "arguments", "parameters", "tool_input", "toolInput"})
_IDS = ("id", "tool_call_id", "toolCallId", "toolUseId", "tool_use_id", "call_id")

_KEYED = {
    "toolUse": "tool_use", "toolResult": "tool_result",  # Bedrock
    "function_call": "tool_use", "functionCall": "tool_use",  # Gemini
    "function_response": "tool_result", "functionResponse": "tool_result",
    "executable_code": "executable_code", "executableCode": "executable_code",
    "code_execution_result": "code_execution_result", "codeExecutionResult": "code_execution_result",
}  # fmt: skip
_CALLS = frozenset(
    {
        "tool_use", "server_tool_use", "mcp_tool_use",  # Anthropic
        "tool_call", "server_tool_call", "invalid_tool_call", "function_call", "custom_tool_call",  # LangChain, OpenAI
        "tool-call", "tool-invocation", "dynamic-tool",  # AI SDK
    }
)  # fmt: skip
_RESULTS = frozenset({"tool_result", "server_tool_result", "tool-result", "tool-error"})
_TEXTS = frozenset({"", "text", "output_text", "input_text", "text-plain", "summary_text"})
_NO_CALLS = frozenset(
    {
        "thinking", "redacted_thinking", "refusal", "media", "document", "file", "step-start", "container_upload",
        "thought", "inline_data", "inlineData", "file_data", "fileData", "thought_signature", "thoughtSignature",
        "cachePoint", "citationsContent", "guardContent", "reasoningContent", "tool_call_chunk",
        "tool-approval-request", "mcp_list_tools", "mcp_approval_request",
    }
)  # fmt: skip
"""Parts of an assistant's message, by type or key, that are no tool calls."""
_CODE_EXECUTION = "code_execution"  # Gemini's tool for running code of the model
_OTHERS = ("reasoning", "image", "audio", "video", "input_", "output_", "source", "data-")
_CLASS = re.compile(r"(System|Human|AI|Tool|Function)Message(Chunk)?")


class MessageError(ValueError):
    """A value is no list of messages. `place` is the path inside it, such as `[2].tool_calls`."""

    def __init__(self, *, place: str, found: str, expected: str) -> None:
        super().__init__(f"{place}: found {found}, expected {expected}")
        self.place = place
        self.found = found
        self.expected = expected


class ToolResult(NamedTuple):
    """The result of a tool; `name`: None if neither the message nor a call with its id has it."""

    name: str | None
    content: str


@dataclass
class MessageTurn:
    """A message of the user and the events until the next one.

    `answer` is the text of the last message, if it calls no tool; `said` are the texts before it. `calls`: None if
    unknown. `left_out` are types of content that is no text, such as `image_url`. `notes` say what else is unknown.
    """

    prompt: str | None = None
    calls: list[ToolCall] | None = field(default_factory=list)
    results: list[ToolResult] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    answer: str | None = None
    left_out: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass
class MessageConversation:
    """A conversation; `system` are its instructions."""

    system: str | None = None
    turns: list[MessageTurn] = field(default_factory=list)

    @property
    def prompt(self) -> str | None:
        """All messages of the user."""
        return join_texts(turn.prompt for turn in self.turns)

    @property
    def answer(self) -> str | None:
        """The last response."""
        return self.turns[-1].answer if self.turns else None

    @property
    def calls(self) -> list[ToolCall] | None:
        """The calls of all turns in order; None if they are unknown in all turns."""
        known = [turn.calls for turn in self.turns if turn.calls is not None]
        return [call for calls in known for call in calls] if known else None


def is_messages(value: Any) -> bool:
    """True if a value begins like a list of messages."""
    return isinstance(value, list) and bool(value) and _is_message(value[0])


def read_messages(value: Any) -> MessageConversation:
    """Read a list of messages, or its JSON text. Raises MessageError with the place of the fault."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            raise MessageError(place="", found="text", expected="a list of messages or the JSON text of one") from None
    if not isinstance(value, list) or not value:
        found = "an empty list" if value == [] else describe_kind(value)
        raise MessageError(place="", found=found, expected="a list of messages")
    reader = _Reader()
    for index, message in enumerate(value):
        reader.read_message(message, place=f"[{index}]")
    return reader.conversation


class _Reader:
    def __init__(self) -> None:
        self.conversation = MessageConversation()
        self._names: dict[str, str] = {}
        self._speaking = False  # the user's message has no reply yet

    def read_message(self, message: Any, *, place: str) -> None:
        message = _add_role(message)
        role = _get_role(message)
        if role is None:
            raise MessageError(place=place, found=describe_kind(message), expected="a message with a role")
        fields = _get_fields(message)
        if role == "assistant":
            _refuse_unknown(fields, place=place)
        content = _read_content(fields, role=role, place=place)
        if role == "system":
            self.conversation.system = join_texts((self.conversation.system, content.text))
            return
        # Anthropic sends tool results as a message of the user without text.
        speaks = role == "user" and (content.text is not None or not content.results)
        if not self.conversation.turns and (content.results or not speaks):
            self._begin_turn(None)
        if role != "assistant":
            self._add_results(content)
        if speaks:
            self._begin_turn(content.text)
        turn = self.conversation.turns[-1]
        turn.left_out += content.left_out
        self._speaking = speaks
        if role == "assistant":
            self._add_answer(turn, fields, content, place=place)
            self._add_results(content)  # of tools on the model's side
        elif role == "tool" and not content.results:
            name, call_id = fields.get("name"), str(fields.get("tool_call_id"))
            self._add_result(_Result(name if isinstance(name, str) else None, call_id, content.text))

    def _add_results(self, content: _Content) -> None:
        for result in content.results:
            self._add_result(result)

    def _add_result(self, result: _Result) -> None:
        tool_result = ToolResult(result.name or self._names.get(result.call_id), result.text or "")
        self.conversation.turns[-1].results.append(tool_result)

    def _begin_turn(self, text: str | None) -> None:
        if self._speaking:
            turn = self.conversation.turns[-1]
            turn.prompt = join_texts((turn.prompt, text))
        else:
            self.conversation.turns.append(MessageTurn(prompt=text, calls=None))  # known when an assistant speaks

    def _add_answer(self, turn: MessageTurn, fields: Mapping[str, Any], content: _Content, *, place: str) -> None:
        calls = _collect_calls(fields, content, place=place)
        if turn.answer:
            turn.said.append(turn.answer)
        # Text after the result of a tool on the model's side is the response.
        is_answer = not calls or bool(content.results)
        turn.answer = content.text if is_answer else None
        if content.text and not is_answer:
            turn.said.append(content.text)
        turn.calls = [*(turn.calls or ()), *(each.call for each in calls)]
        for ids, call in calls:
            self._names.update(dict.fromkeys(ids, call.name))


def _is_message(value: Any) -> bool:
    """True if a value has a role and content or calls: other objects may have a role or type, too."""
    if _get_role(value) is None:
        return False
    return not isinstance(value, Mapping) or not _CONTENT_FIELDS.isdisjoint(_get_fields(value))


def _add_role(message: Any) -> Any:
    """Convert an item of OpenAI's Responses to a message: calls, outputs and reasoning have a type and no role."""
    kind = message.get("type") if isinstance(message, Mapping) and "role" not in message else None
    if not isinstance(kind, str):
        return message
    if kind.endswith("_call_output"):
        return {"role": "tool", "content": [message]}
    if kind.endswith("_call") or kind in ("reasoning", "mcp_list_tools", "mcp_approval_request"):
        return {"role": "assistant", "content": [message]}
    return message


def _get_role(message: Any) -> Role | None:
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


def _get_fields(message: Any) -> Mapping[str, Any]:
    if not isinstance(message, Mapping):
        return {"content": message[1]}
    for inner in ("kwargs", "data"):  # LangChain's dumpd and message_to_dict
        if "content" not in message and isinstance(message.get(inner), Mapping):
            fields: Mapping[str, Any] = message[inner]
            return fields
    return message


class _Result(NamedTuple):
    """The result of a tool; `name`: None if only the id of the call is known."""

    name: str | None
    call_id: str
    text: str | None


class _Call(NamedTuple):
    """A call; `ids` are its ids in other messages."""

    ids: tuple[str, ...]
    call: ToolCall


@dataclass
class _Content:
    """The content of a message: its text, its parts that are calls or results, and the types of others."""

    text: str | None = None
    calls: list[_Call] = field(default_factory=list)
    results: list[_Result] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)


def _read_content(fields: Mapping[str, Any], *, role: Role, place: str) -> _Content:
    """Read the content of a message; Gemini and the AI SDK name it `parts`."""
    key = next((key for key in ("content", "parts") if fields.get(key) is not None), "content")
    content = fields.get(key)
    if key == "content" and isinstance(content, str) and isinstance(fields.get("parts"), list):
        key, content = "parts", fields["parts"]  # the AI SDK repeats the text beside its parts
    place = f"{place}.{key}"
    if content is None or isinstance(content, str):
        read = _Content(content)
        read.results += [_read_result(each, read) for each in _list_finished_calls(fields)]
        return read
    if not isinstance(content, list):
        raise MessageError(place=place, found=describe_kind(content), expected="text, or a list of parts")
    read = _Content()
    texts: list[str] = []
    for index, part in enumerate(content):
        _read_part(part, read, texts, role=role, place=f"{place}[{index}]")
    read.text = "\n".join(texts) if texts else None
    return read


def _list_finished_calls(fields: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the finished calls of a message of the AI SDK 4, which has them beside its text."""
    invocations = fields.get("toolInvocations")
    for each in invocations if isinstance(invocations, list) else ():
        if isinstance(each, Mapping) and each.get("result") is not None:
            yield each


def _read_part(part: Any, read: _Content, texts: list[str], *, role: Role, place: str) -> None:
    """Add a part of a content. Raises MessageError for an unknown part of an assistant, which may be a tool call."""
    if isinstance(part, str):
        texts.append(part)
        return
    if not isinstance(part, Mapping):
        raise MessageError(place=place, found=describe_kind(part), expected="text, or a part that is an object")
    # Bedrock and Gemini use the type of a part as its key.
    key = next((key for key in _KEYED if isinstance(part.get(key), Mapping)), None)
    kind, inner = (_KEYED[key], part[key]) if key is not None else (str(part.get("type") or ""), part)
    if kind == "tool-invocation" and isinstance(part.get("toolInvocation"), Mapping):
        inner = part["toolInvocation"]
    if kind == "executable_code" and role == "assistant":
        code = {name: inner[name] for name in ("language", "code") if name in inner}
        read.calls.append(_Call(_get_ids(inner), ToolCall(_CODE_EXECUTION, code)))
    elif kind == "code_execution_result":
        read.results.append(_read_result(inner, read)._replace(name=_CODE_EXECUTION))
    elif kind in _RESULTS or kind.endswith(("_tool_result", "_call_output")):
        read.results.append(_read_result(inner, read))
    elif kind not in _NO_CALLS and (kind in _CALLS or _is_named_tool(kind) or kind.endswith("_call")):
        read.calls.append(_read_call(inner, place=place, kind=kind))
        if any(inner.get(key) is not None for key in ("output", "result", "errorText")):
            read.results.append(_read_result(inner, read))
    elif isinstance(part.get("text"), str) and kind in _TEXTS and not part.get("thought"):
        if role == "assistant":
            _refuse_unknown_fields(part, place=place)
        texts.append(part["text"])
    elif role != "assistant" or kind in _NO_CALLS or not _NO_CALLS.isdisjoint(part) or kind.startswith(_OTHERS):
        read.left_out.append(kind or next(iter(part), "part"))
    else:
        raise MessageError(
            place=place, found=f"a part {_describe_part(kind, part)}", expected="text, a tool call, or a tool result"
        )


def _describe_part(kind: str, part: Mapping[str, Any]) -> str:
    return f"of the unknown type {kind!r}" if kind else f"with {', '.join(map(str, part)) or 'nothing in it'}"


def _is_named_tool(kind: str) -> bool:
    """True for a part of the AI SDK whose type names its tool, such as `tool-weather`."""
    return kind.startswith("tool-")


def _read_result(part: Mapping[str, Any], read: _Content) -> _Result:
    name = part.get("name") or part.get("toolName")
    value = next((part[key] for key in ("content", "output", "result", "response", "errorText") if key in part), None)
    ids = _get_ids(part)
    return _Result(name if isinstance(name, str) else None, ids[0] if ids else "", _format_result(value, read.left_out))


def _format_result(value: Any, left_out: list[str]) -> str | None:
    """Format a result as text: the texts of its parts, else JSON. Types of other parts are added to `left_out`."""
    if value is None or isinstance(value, str):
        return value
    parts = [part for part in value if isinstance(part, Mapping)] if isinstance(value, list) else []
    texts = [part.get("text", part.get("json")) for part in parts]
    if all(text is None for text in texts):
        return json.dumps(value, ensure_ascii=False)
    left_out += [str(part.get("type") or "part") for part, text in zip(parts, texts, strict=True) if text is None]
    known = [text for text in texts if text is not None]
    return "\n".join(text if isinstance(text, str) else json.dumps(text, ensure_ascii=False) for text in known)


def _get_ids(call: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(str(call[key]) for key in _IDS if call.get(key) is not None)


def _collect_calls(fields: Mapping[str, Any], content: _Content, *, place: str) -> list[_Call]:
    """Collect the calls of a message. In LangChain's form its parts may repeat the calls of its own field."""
    calls = [*_read_field_calls(fields, place=place)]
    known = {each for call in calls for each in call.ids}
    more = [call for call in content.calls if not calls or (call.ids and known.isdisjoint(call.ids))]
    return [*calls, *more]


def _read_field_calls(fields: Mapping[str, Any], *, place: str) -> Iterable[_Call]:
    additional = fields.get("additional_kwargs")
    places = [(fields, ""), (additional if isinstance(additional, Mapping) else {}, ".additional_kwargs")]
    for holder, where in places:
        for key in ("tool_calls", "toolCalls", "toolInvocations"):
            if holder.get(key):
                yield from _read_calls(holder[key], place=f"{place}{where}.{key}")
                yield from _read_calls(fields.get("invalid_tool_calls") or [], place=f"{place}.invalid_tool_calls")
                return
        if isinstance(holder.get("function_call"), Mapping):  # OpenAI's form before tools existed
            yield _read_call(holder["function_call"], place=f"{place}{where}.function_call[0]")
            return
    yield from _read_calls(fields.get("invalid_tool_calls") or [], place=f"{place}.invalid_tool_calls")


def _read_calls(calls: Any, *, place: str) -> Iterable[_Call]:
    if not isinstance(calls, list):
        raise MessageError(place=place, found=describe_kind(calls), expected="a list of tool calls")
    for index, call in enumerate(calls):
        yield _read_call(call, place=f"{place}[{index}]")


def _read_call(call: Any, *, place: str, kind: str = "") -> _Call:
    if not isinstance(call, Mapping):
        raise MessageError(place=place, found=describe_kind(call), expected="a tool call")
    inner = next((call[key] for key in ("function", "custom") if isinstance(call.get(key), Mapping)), call)
    name = inner.get("name", inner.get("toolName"))
    if name is None and kind not in _CALLS:  # the type names the tool: `tool-weather`, `web_search_call`
        name = kind.removeprefix("tool-") if _is_named_tool(kind) else kind.removesuffix("_call") or None
    if not isinstance(name, str):
        raise MessageError(place=place, found=describe_kind(name), expected="a tool call with a name")
    key = next((key for key in ("args", "input", "arguments", "action") if key in inner), "arguments")
    args = inner.get(key)
    if call.get("type") in CUSTOM and key == "input":
        return _Call(_get_ids(call), ToolCall(name, {UNNAMED_ARGUMENT: args}))
    is_invalid = ".invalid_tool_calls" in place  # the tool is known, its arguments are not
    if isinstance(args, str) and not is_invalid:
        try:
            args = json.loads(args) if args.strip() else {}
        except (ValueError, RecursionError):
            raise MessageError(place=place, found="text that is not JSON", expected=f"{key} as JSON") from None
    if is_invalid:
        args = None
    if args is not None and not isinstance(args, Mapping):
        raise MessageError(place=place, found=describe_kind(args), expected=f"{key} as an object")
    return _Call(_get_ids(call), ToolCall(name, args))


def _refuse_unknown(fields: Mapping[str, Any], *, place: str) -> None:
    """Raise MessageError for a message of an assistant that may have calls in unknown places."""
    if _CONTENT_FIELDS.isdisjoint(fields):
        found = f"a message with {', '.join(map(str, fields))}"
        raise MessageError(
            place=place, found=found, expected="content, parts or tool_calls in a message of the assistant"
        )
    _refuse_unknown_fields(fields, place=place)


def _refuse_unknown_fields(fields: Mapping[str, Any], *, place: str) -> None:
    """Raise MessageError for a field of an assistant's message, or of its text, that may have calls."""
    for key, value in fields.items():
        if value and key not in _CONTENT_FIELDS and _MAY_BE_CALLS.search(str(key)) and key not in _NO_CALL_FIELDS:
            raise MessageError(
                place=f"{place}.{key}", found=describe_kind(value), expected="calls in tool_calls or content"
            )
        if key not in _CONTENT_FIELDS and key not in _NAMED_FIELDS and _looks_like_calls(value):
            found = "objects that look like tool calls"
            raise MessageError(place=f"{place}.{key}", found=found, expected="calls in tool_calls or content")


def _looks_like_calls(value: Any) -> bool:
    """True for a list of objects with names of tools, or for objects with a name and arguments."""
    if isinstance(value, list):
        return any(isinstance(item, Mapping) and not _TOOL_NAMES.isdisjoint(item) for item in value)
    if not isinstance(value, Mapping):
        return False
    found = (item for item in (value, *value.values()) if isinstance(item, Mapping))
    return any(not _TOOL_NAMES.isdisjoint(item) and not _ARGUMENTS.isdisjoint(item) for item in found)


def join_texts(texts: Iterable[str | None]) -> str | None:
    """Join the texts that are not None with empty lines."""
    there = [text for text in texts if text is not None]
    return "\n\n".join(there) if there else None


# Messages in the values of traces, whose form depends on the program


def find_messages(value: Any, depth: int = 0) -> list[Any]:
    """Return the messages in a value of a trace: a list of them, one, or an object or a JSON text that contains some.

    Return an empty list if there are none. Parts of the GenAI conventions become those of message lists.
    """
    if isinstance(value, str):
        document = parse_text(value)
        return [] if document is value else find_messages(document, depth)
    if depth > _DEEPEST:
        return []
    if isinstance(value, list):
        if is_messages([value[0] if value else None]) or (value and has_parts(value[0])):
            return [_convert_message(each) for each in value]
        return find_messages(value[0], depth + 1) if len(value) == 1 else []
    if not isinstance(value, Mapping):
        return []
    for key in ("messages", "contents", "choices", "generations"):
        if found := _find_in(value.get(key), depth):
            return found
    if is_messages([value]) or has_parts(value):
        return [_convert_message(value)]
    for key in ("message", "content", "input", "output", "inputs", "outputs", "return_value"):
        if found := find_messages(value.get(key), depth + 1):
            return found
    return []


_DEEPEST = 6


def _find_in(value: Any, depth: int) -> list[Any]:
    """Return the messages of a list whose items are messages, or have one each as the choices of OpenAI do."""
    if not isinstance(value, list):
        return []
    if found := find_messages(value, depth + 1):
        return found
    return find_messages(value[0], depth + 1) if value else []


def has_parts(value: Any) -> bool:
    """True for a message of the GenAI conventions, or of Gemini."""
    return isinstance(value, Mapping) and isinstance(value.get("parts"), list) and isinstance(value.get("role"), str)


def _convert_message(message: Any) -> Any:
    """Convert a message of the GenAI conventions: its parts have `content` where lists of messages have `text`."""
    if not isinstance(message, Mapping) or not isinstance(message.get("parts"), list):
        return message
    return {**message, "parts": [_convert_part(part) for part in message["parts"]]}


def _convert_part(part: Any) -> Any:
    kind = part.get("type") if isinstance(part, Mapping) else None
    if kind == "text" and isinstance(part.get("content"), str):
        return {"type": "text", "text": part["content"]}
    if kind == "tool_call_response":
        return {**part, "type": "tool_result"}
    return {"type": "media"} if kind in ("blob", "uri", "file") else part


def parse_text(value: Any) -> Any:
    """Return the value of a text that is a JSON list or object; anything else unchanged."""
    if not isinstance(value, str) or not value.lstrip().startswith(("[", "{")):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


PROMPT_KEYS = ("input", "question", "query", "prompt", "text", "message", "user_input", "user_message")
"""The keys of a text that a user wrote, in the input of a step."""

REPLY_KEYS = ("output", "answer", "response", "text", "result", "content", "return_value")
"""The keys of a text that an agent gave, in the output of a step."""


def find_text(value: Any, keys: Sequence[str]) -> str | None:
    """Return the text of an input or output without messages; None if it is not certain which text that is."""
    if isinstance(value, str):
        document = parse_text(value)
        return (value or None) if document is value else find_text(document, keys)
    if not isinstance(value, Mapping):
        return None
    if isinstance(value.get("args"), list) and "kwargs" in value:  # what decorators record of a call
        given = [*value["args"], *(value["kwargs"].values() if isinstance(value["kwargs"], Mapping) else ())]
        return given[0] if len(given) == 1 and isinstance(given[0], str) else None
    texts = [value[key] for key in keys if isinstance(value.get(key), str)]
    return texts[0] if len(texts) == 1 else None


# Writing of conversations as messages of OpenAI and LangChain


def to_openai_messages(conversation: MessageConversation) -> list[dict[str, Any]]:
    """Return the messages in OpenAI's format; ids of calls are numbered."""
    return [_to_openai(message) for message in _iterate_messages(conversation)]


def to_langchain_messages(conversation: MessageConversation) -> list[dict[str, Any]]:
    """Return the messages in the format of LangChain's `messages_from_dict`; ids of calls are numbered."""
    return [_to_langchain(message) for message in _iterate_messages(conversation)]


class _Message(NamedTuple):
    role: Role
    text: str
    calls: Sequence[tuple[str, ToolCall]] = ()
    call_id: str = ""
    tool: str | None = None


def _iterate_messages(conversation: MessageConversation) -> Iterable[_Message]:
    """Yield the messages of a conversation: intermediate texts, calls, results, response."""
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


def _to_openai(message: _Message) -> dict[str, Any]:
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


def _to_langchain(message: _Message) -> dict[str, Any]:
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
