"""Inputs and outputs of LangChain agents: forms of runnables, results of turns, messages."""

from __future__ import annotations

import asyncio
import json
import re
import typing
from collections.abc import Iterable
from typing import Any

from ...wire import CUSTOM, UNNAMED_ARGUMENT, describe, parse_text
from ..base import AgentFault, LoadError
from ..object_json import as_json

# Forms of runnables.

_INPUT_KEYS = ("input", "question", "query", "prompt", "text", "message", "user_input", "human_input", "topic")
_HISTORY_KEYS = ("chat_history", "history")
_MESSAGES = "messages"


class RunnableForm:
    """How one session calls one runnable. `state` is the session's initial state."""

    def __init__(self, runnable: Any, state: dict[str, Any]) -> None:
        self._runnable = runnable
        self._state = state
        self._history: list[Any] = []
        self.asks = False
        """The last turn ended at an interrupt that has a question; False at a breakpoint."""
        self.inner: set[Any] = set()
        """Ids of the calls that wait in subgraphs: their messages come with the result of a later turn."""

    def build_input(self, message: Any, text: str) -> Any:
        """Build the input for a user message, given as a HumanMessage and as its text."""
        raise NotImplementedError

    async def run(self, given: Any, config: dict[str, Any]) -> Any:
        return await self._runnable.ainvoke(given, config)

    def add_turn(self, messages: list[Any], _result: Any) -> None:
        """Take the messages of a turn, the user's first, and the result of the runnable."""
        self._history = [*self._history, *messages]  # a new list, because the runnable may keep its input

    async def find_pending(self, _result: Any, _config: dict[str, Any]) -> list[str]:
        """Return what the agent waits for after a turn, one text for each interrupt. The next turn answers the first.

        Raises AgentFault if the conversation cannot be resumed.
        """
        return []

    async def state(self, _config: dict[str, Any]) -> dict[str, Any] | None:
        """Return the conversation state as JSON without messages, or None."""
        return None


class _Graph(RunnableForm):
    """A compiled graph. With a checkpointer it stores its state itself; otherwise it gets its previous output again."""

    def __init__(self, runnable: Any, state: dict[str, Any]) -> None:
        super().__init__(runnable, state)
        self._remembers = bool(getattr(runnable, "checkpointer", None))
        # No result shows that the graph stopped.
        if not self._remembers and (stops := _list_breakpoints(runnable)):
            raise AgentFault(
                f"the graph has a breakpoint at {', '.join(stops)}, and the next turn cannot continue it without a "
                "checkpointer: compile it with one, such as InMemorySaver",
                kind="unsupported",
            )
        self._keys = _read_graph_keys(runnable)
        self._values = {key: value for key, value in state.items() if key in self._keys}
        self._text_key = ""
        self._waits = False
        self._interrupts: list[Any] = []  # those that wait; none at a breakpoint
        if _MESSAGES not in self._keys:
            self._text_key = _choose_text_key(self._keys, taken=state)

    def build_input(self, message: Any, text: str) -> Any:
        if self._waits:
            return _build_resumption(self._interrupts[0], text) if self._interrupts else None
        if self._text_key:
            said: dict[str, Any] = {self._text_key: text}
            said.update((key, self._history) for key in _HISTORY_KEYS if key in self._keys)
        else:
            said = {_MESSAGES: [*([] if self._remembers else self._history), message]}
        carried = {key: value for key, value in self._values.items() if key in self._keys and key not in said}
        return {**carried, **said}

    async def run(self, given: Any, config: dict[str, Any]) -> Any:
        if self._remembers and _is_synchronous(self._runnable.checkpointer):
            return await asyncio.to_thread(self._runnable.invoke, given, config)
        return await super().run(given, config)

    def add_turn(self, messages: list[Any], result: Any) -> None:
        if isinstance(result, dict) and isinstance(result.get(_MESSAGES), list) and not self._text_key:
            self._history = result[_MESSAGES]  # the graph may have shortened it
        else:
            super().add_turn(messages, result)
        if self._remembers:
            self._values = {}
        elif isinstance(result, dict):
            self._values.update((key, value) for key, value in result.items() if key not in (_MESSAGES, self._text_key))

    async def find_pending(self, result: Any, config: dict[str, Any]) -> list[str]:
        self._interrupts = list(result.get(_INTERRUPTS) or ()) if isinstance(result, dict) else []
        pending = [_describe_interrupt(item) for item in self._interrupts]
        if pending and not self._remembers:
            raise AgentFault(
                "the graph stopped at an interrupt, and the next turn cannot resume it without a checkpointer: compile "
                f"it with one, such as InMemorySaver; it asks: {pending[0][:500]}",
                kind="unsupported",
            )
        if not pending and self._remembers:  # at a breakpoint, also one of a subgraph, the result has no sign of it
            steps = (await self._read_snapshot(config)).next
            pending = [f"The graph stopped at {', '.join(steps)}. The next turn continues it."] if steps else []
        self._waits, self.asks = bool(pending), bool(self._interrupts)
        self.inner = _list_open_calls(await self._read_snapshot(config, subgraphs=True)) if pending else set()
        return pending

    async def _read_snapshot(self, config: dict[str, Any], *, subgraphs: bool = False) -> Any:
        if _is_synchronous(self._runnable.checkpointer):
            return await asyncio.to_thread(self._runnable.get_state, config, subgraphs=subgraphs)
        return await self._runnable.aget_state(config, subgraphs=subgraphs)

    async def state(self, config: dict[str, Any]) -> dict[str, Any] | None:
        values = self._values
        if self._remembers and not values and self._history:
            snapshot = await self._read_snapshot(config)
            values = snapshot.values if isinstance(snapshot.values, dict) else {}
        return {str(key): as_json(value) for key, value in values.items() if key not in (_MESSAGES, self._text_key)}


class _Executor(RunnableForm):
    """An AgentExecutor. Its intermediate steps are the trajectory, so they are always requested."""

    def __init__(self, runnable: Any, state: dict[str, Any]) -> None:
        if not runnable.return_intermediate_steps:
            runnable = runnable.model_copy(update={"return_intermediate_steps": True})
        super().__init__(runnable, state)

    def build_input(self, _message: Any, text: str) -> Any:
        if self._runnable.memory is not None:  # it stores the history and takes one input
            return {"input": text}
        return {**self._state, "input": text, "chat_history": self._history}


class _Messages(RunnableForm):
    """A chat model, or a chain that begins with one: it gets all messages of the conversation."""

    def build_input(self, message: Any, _text: str) -> Any:
        return [*self._history, message]


class _Keys(RunnableForm):
    """A chain that takes a dict: one key gets the text, others the history or values of the session state."""

    def __init__(self, runnable: Any, state: dict[str, Any], keys: dict[str, bool]) -> None:
        super().__init__(runnable, state)
        self._keys = keys
        self._text_key = (
            "input" if not keys else _MESSAGES if _MESSAGES in keys else _choose_text_key(keys, taken=state)
        )

    def build_input(self, message: Any, text: str) -> Any:
        given = {key: value for key, value in self._state.items() if key in self._keys}
        given.update((key, self._history) for key in _HISTORY_KEYS if key in self._keys)
        given[self._text_key] = [*self._history, message] if self._text_key == _MESSAGES else text
        return given


class _Text(RunnableForm):
    """Any other runnable: it gets the text."""

    def build_input(self, _message: Any, text: str) -> Any:
        return text


def choose_form(runnable: Any, session: dict[str, Any]) -> RunnableForm:
    """Return the form for a runnable. Raises LoadError if its input is unclear."""
    state = session.get("state") or {}
    if is_graph(runnable):
        return _Graph(runnable, state)
    if _has_class_named(runnable, "AgentExecutor"):
        return _Executor(runnable, state)
    schema = _read_schema(runnable)
    if schema.get("type") == "object":
        properties = schema.get("properties") or {}
        return _Keys(runnable, state, {key: _is_text_schema(value) for key, value in properties.items()})
    if any(item.get("type") == "array" for item in (schema, *schema.get("anyOf", ()))):
        return _Messages(runnable, state)
    return _Text(runnable, state)


def is_graph(runnable: Any) -> bool:
    """Return True for a compiled graph of LangGraph, including `create_agent`. An entrypoint counts as a function."""
    return _has_class_named(runnable, "Pregel") and hasattr(runnable, "builder")


def _list_breakpoints(graph: Any) -> list[str]:
    """Return the nodes at which a graph, or one in it, stops: its `interrupt_before` and `interrupt_after`."""
    found: dict[str, None] = {}
    for each in (graph, *(subgraph for _, subgraph in graph.get_subgraphs(recurse=True))):
        for nodes in (each.interrupt_before_nodes, each.interrupt_after_nodes):
            found.update(dict.fromkeys(["every node"] if nodes == "*" else nodes))
    return list(found)


def _has_class_named(value: Any, name: str) -> bool:
    return any(base.__name__ == name for base in type(value).__mro__)


def _is_synchronous(checkpointer: Any) -> bool:
    """Return True if a checkpointer has no asynchronous methods, such as the one for SQLite."""
    own = next((base for base in type(checkpointer).__mro__ if "aget_tuple" in vars(base)), None)
    return own is None or own.__name__ in (
        "BaseCheckpointSaver",
        "SqliteSaver",
        "PostgresSaver",
        "ShallowPostgresSaver",
    )


def _read_schema(runnable: Any) -> dict[str, Any]:
    try:
        schema = runnable.get_input_jsonschema()
    except Exception:  # custom types without a JSON schema
        return {}
    return schema if isinstance(schema, dict) else {}


def _read_graph_keys(graph: Any) -> dict[str, bool]:
    """Return the keys that a graph takes, and whether each takes text. Its JSON schema fails for TypedDicts of
    `typing`."""
    schema = getattr(graph.builder, "input_schema", None)
    try:
        hints = typing.get_type_hints(schema)
    except Exception:  # names that do not exist at run time
        hints = dict(getattr(schema, "__annotations__", {}))
    keys = {key: hint is Any or hint is str or str in typing.get_args(hint) for key, hint in hints.items()}
    return keys or {_MESSAGES: False}  # unknown: nearly every graph has messages


def _is_text_schema(schema: dict[str, Any]) -> bool:
    kinds = {item.get("type") for item in schema.get("anyOf", (schema,))}
    return "string" in kinds or kinds == {None}


def _choose_text_key(keys: dict[str, bool], *, taken: dict[str, Any]) -> str:
    """Return the key for the user's text: the only one that takes text, or one with a usual name. Raises LoadError."""
    texts = [key for key, fits in keys.items() if fits and key not in taken and key not in _HISTORY_KEYS]
    usual = next((key for key in _INPUT_KEYS if key in texts), None)
    if usual is not None or len(texts) == 1:
        return usual or texts[0]
    raise LoadError(
        f"the agent's input has no key for the user's text: found the keys {', '.join(keys) or '(none)'}, expected "
        f"messages, one text, or one named {', '.join(_INPUT_KEYS[:3])}; put a function before it that builds its input"
    )


# Interrupts: a graph stops and asks, the next turn answers.

_INTERRUPTS = "__interrupt__"
_JSON_WORDS = {"true": True, "false": False, "null": None}
_DECISIONS = (
    "approve, reject, reject: REASON, or the JSON of the decisions, such as "
    '{"decisions": [{"type": "edit", "edited_action": {"name": "...", "args": {...}}}]}'
)


def _describe_interrupt(interrupt: Any) -> str:
    """Return what an interrupt asks: its text, the descriptions of the calls to review, or its value as JSON."""
    value = as_json(getattr(interrupt, "value", interrupt))
    if isinstance(value, str):
        return value
    requests = _read_requests(value)
    texts = [item["description"] for item in requests if isinstance(item.get("description"), str)]
    if requests and len(texts) == len(requests):
        return "\n\n".join(texts)
    return json.dumps(value, ensure_ascii=False)


def _read_requests(value: Any) -> list[dict[str, Any]]:
    """Return the calls that the middleware for a human in the loop wants reviewed; empty for any other interrupt."""
    requests = value.get("action_requests") if isinstance(value, dict) and "review_configs" in value else None
    return [item for item in requests if isinstance(item, dict)] if isinstance(requests, list) else []


def _build_resumption(interrupt: Any, text: str) -> Any:
    """Build the command that answers one interrupt, with the text of the user or the JSON in it."""
    from langgraph.types import Command

    answer = _parse_answer(text)
    requests = _read_requests(as_json(interrupt.value))
    if requests:
        answer = _read_decisions(answer, len(requests))
    return Command(resume={interrupt.id: answer})


def _parse_answer(text: str) -> Any:
    """Parse an object, a list, true, false or null. Any other text is itself: most questions expect a text."""
    stripped = text.strip()
    if stripped in _JSON_WORDS:
        return _JSON_WORDS[stripped]
    if stripped.startswith(("{", "[")):
        try:
            return json.loads(stripped)
        except (ValueError, RecursionError):
            return text
    return text


def _read_decisions(answer: Any, count: int) -> dict[str, Any]:
    """Return the decisions about `count` calls. Raises AgentFault: a guess might approve what the user refused."""
    if isinstance(answer, str):
        word, _, reason = answer.strip().partition(":")
        decision = {"type": word.strip().rstrip(".").lower()}
        if decision["type"] == "reject" and reason.strip():
            decision["message"] = reason.strip()
        if decision["type"] == "reject" or (decision["type"] == "approve" and not reason):
            return {"decisions": [decision] * count}
    if isinstance(answer, dict) and isinstance(answer.get("decisions"), list):
        return answer
    calls = "1 call" if count == 1 else f"{count} calls"
    raise AgentFault(f"the agent waits for the review of {calls}: found {describe(answer)}, expected {_DECISIONS}")


# Results of turns, in the shape of `read_answer`.

_OUTPUT_KEYS = ("output", "response", "answer", "result", "text", "generation", "content")
_KEYS_OF_CALLS = ("toolUse", "functionCall", "function_call")  # Bedrock, Gemini
_IN_TOOL_CALLS = frozenset({"tool_use", "tool_call", "function_call", "custom_tool_call", "invalid_tool_call"})
"""Types of content blocks that repeat `tool_calls`."""
_NO_CALLS = frozenset(
    {
        "", "text", "output_text", "refusal", "thinking", "redacted_thinking", "thought", "citation", "search_result",
        "document", "file", "media", "resource", "resource_link", "non_standard", "container_upload",
        "inline_data", "inlineData", "file_data", "fileData",
        "tool_result", "toolResult", "function_response", "functionResponse",
        "tool_call_chunk", "server_tool_call_chunk", "server_tool_result", "mcp_list_tools", "mcp_approval_request",
    }
)  # fmt: skip
"""Types or keys of content blocks that are no calls even if they have a name."""
_OTHERS = ("text-", "reasoning", "image", "audio", "video", "input_")
_NAMES_OF_TOOLS = frozenset({"name", "tool", "toolName", "tool_name"})
_MAY_BE_CALL = re.compile("tool|function|call|invoke", re.IGNORECASE)
_SHAPES = f"messages, text, or a dict with messages or one of {', '.join(_OUTPUT_KEYS[:4])}"


class Known:
    """The messages of earlier turns: their ids, and how many there were, because some graphs give them no ids."""

    def __init__(self) -> None:
        self._ids: set[str] = set()
        self._count = 0

    def add_turn(self, messages: list[Any], result: Any) -> None:
        """Take the messages of a turn and the result with all messages."""
        self._ids.update(str(item.id) for item in messages if getattr(item, "id", None))
        everything = result.get(_MESSAGES) if isinstance(result, dict) else None
        self._count = len(everything) if isinstance(everything, list) else 0

    def select_new(self, messages: list[Any]) -> list[Any]:
        """Return the messages that no earlier turn had."""
        return [
            item
            for place, item in enumerate(messages)
            if (item.id not in self._ids if getattr(item, "id", None) else place >= self._count)
        ]


class WaitingCalls:
    """Calls that wait behind an interrupt. The graph may replace their message, and so change or drop them."""

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []
        self._asked: dict[str, set[Any]] = {}  # ids of all calls of their messages, by the id of the message

    def keep(self, calls: list[dict[str, Any]], messages: list[Any]) -> None:
        """Take the calls that wait after a turn with these new messages."""
        waiting = {call["id"] for call in calls if call.get("id")}
        asked = {**self._asked, **{item.id: _list_call_ids(item) for item in messages if getattr(item, "id", None)}}
        self._asked = {message: ids for message, ids in asked.items() if ids & waiting}
        self.calls = calls

    def update(self, messages: list[Any], result: Any) -> set[Any]:
        """Change the calls to what they are after a turn. Return the ids of those that its new `messages` ask for
        instead: they are no longer in `calls`."""
        everything = result.get(_MESSAGES) if isinstance(result, dict) else None
        everything = everything if isinstance(everything, list) else []
        present = [item for item in everything if getattr(item, "id", None) in self._asked]
        uses = {item.id: read_messages([item])["tool_uses"] for item in present}
        waiting = {call["id"] for call in self.calls if call.get("id")}
        again = _find_repeated(messages, waiting)
        calls: list[dict[str, Any]] = []
        for call in self.calls:
            message = next((key for key, ids in self._asked.items() if key in uses and call.get("id") in ids), None)
            if message is None:
                calls.append(call)
                continue
            ids = self._asked[message]
            calls += [use for use in uses.pop(message) if use["id"] in waiting or use["id"] not in ids]
        self._asked.update((item.id, _list_call_ids(item)) for item in present)
        self.calls = [call for call in calls if call.get("id") not in again]
        return again


def _list_call_ids(message: Any) -> set[Any]:
    return {call.get("id") for call in getattr(message, "tool_calls", None) or () if call.get("id")}


def _list_open_calls(snapshot: Any) -> set[Any]:
    """Return the ids of calls without a result in the subgraphs below a graph."""
    found: set[Any] = set()
    for state in (task.state for task in snapshot.tasks if hasattr(task.state, "tasks")):
        messages = state.values.get(_MESSAGES) if isinstance(state.values, dict) else None
        messages = messages if isinstance(messages, list) else []
        asked = {call for item in messages for call in _list_call_ids(item)}
        found |= asked - {getattr(item, "tool_call_id", None) for item in messages}
        found |= _list_open_calls(state)
    return found


def _find_repeated(messages: list[Any], waiting: set[Any]) -> set[Any]:
    """Return the ids of waiting calls that a message asks for before they have a result."""
    answered: set[Any] = set()
    found: set[Any] = set()
    for item in messages:
        found |= (_list_call_ids(item) & waiting) - answered
        answered.add(getattr(item, "tool_call_id", None))
    return found


_STRUCTURED = "structured_response"
"""The key under which an agent of LangChain with `response_format` returns its structured output."""


def read_result(
    result: Any, *, said: Any, known: Known, is_graph: bool, pending: list[str]
) -> tuple[dict[str, Any], list[Any]]:
    """Read the result of a turn; return it with its new messages, the user's `said` first. If `pending` has what the
    agent waits for, this is the response.

    Raises AgentFault if the result cannot be read.
    """
    if pending:
        messages = result.get(_MESSAGES) if isinstance(result, dict) else None
        new = _select_new_messages(messages, said, known) if isinstance(messages, list) else []
        question = "\n\n".join(pending)
        return {**_make_waiting_answer(new, question), "pending": question}, [said, *new]
    if isinstance(result, dict):
        messages = result.get(_MESSAGES)
        if isinstance(messages, list):
            new = _select_new_messages(messages, said, known)
            if not new:
                raise AgentFault("the agent ended the turn without a message of its own")
            structured = result.get(_STRUCTURED)
            answer = read_messages(new)
            return (answer if structured is None else _use_structured(answer, structured)), [said, *new]
        answer = _read_dict(result, is_graph=is_graph)
    elif _is_message(result):
        return read_messages([result]), [said, result]
    elif isinstance(result, list) and result and all(map(_is_message, result)):
        return read_messages(result), [said, *result]
    else:
        answer = _make_answer(_read_text(result))
    from langchain_core.messages import AIMessage

    return answer, [said, AIMessage(content=answer["response"] or "")]


def _use_structured(answer: dict[str, Any], structured: Any) -> dict[str, Any]:
    """Return the answer with the structured output as its response, and without the call by which the model gave it.

    The schema is offered to the model as a tool, which is never called: LangChain itself answers such a call.
    """
    dump = getattr(structured, "model_dump", None)
    value = dump(mode="json") if dump is not None else as_json(structured)
    schema = type(structured).__name__
    given = {use["id"] for use in answer["tool_uses"] if use["name"] == schema}
    answered = {item["id"] for item in answer["tool_responses"] if "Returning structured response" in str(item)}
    own = given | answered
    return {
        **answer,
        "response": json.dumps(value, ensure_ascii=False),
        "tool_uses": [use for use in answer["tool_uses"] if use["id"] not in own],
        "tool_responses": [item for item in answer["tool_responses"] if item["id"] not in own],
    }


def read_messages(messages: list[Any]) -> dict[str, Any]:
    """Read calls and results from a turn's messages; the agent's last message with text is the response."""
    uses, responses = [], []
    names = {}
    for message in messages:
        for call in getattr(message, "tool_calls", None) or ():
            use = _read_call(call)
            names[use["id"]] = use["name"]
            uses.append(use)
        if message.type != "tool":
            in_content = _read_content_calls(message)
            names.update((use["id"], use["name"]) for use in in_content)
            uses += in_content
        # A malformed call is a call too: its tool is known, its arguments are not.
        for call in getattr(message, "invalid_tool_calls", None) or ():
            uses.append({"id": call.get("id"), "name": call.get("name") or "", "args": None})
        if message.type == "tool":
            name = message.name or names.get(message.tool_call_id) or ""
            responses.append({"id": message.tool_call_id, "name": name, "response": read_tool_response(message)})
    # Agents of a team often address each other as human; the user's own message is not in the list.
    spoken = [item for item in messages if item.type in ("ai", "AIMessageChunk", "chat", "assistant", "human")]
    last = messages[-1]
    # A tool that ends the turn (return_direct) gives the response. Text beside calls is intermediate.
    texts = [item for item in spoken if read_message_text(item)]
    answers = [item for item in texts if item is last or not getattr(item, "tool_calls", None)]
    final = last if last.type == "tool" else answers[-1] if answers else None
    between = [item for item in texts if item is not final]
    return {
        "response": None if final is None else read_message_text(final),
        "tool_uses": uses,
        "tool_responses": responses,
        "intermediate_responses": [
            {"author": item.name or "agent", "parts": [{"text": read_message_text(item)}]} for item in between
        ],
        "usage": None,
    }


def read_tool_response(message: Any) -> dict[str, Any]:
    """Return a tool's response: the object in its message as JSON, else the value under `result` or `error`."""
    if not hasattr(message, "tool_call_id"):
        plain = as_json(message)
        return plain if isinstance(plain, dict) else {"result": plain}
    if getattr(message, "status", "success") == "error":
        return {"error": as_json(message.content)}
    content = message.content
    if isinstance(content, str) and content.lstrip().startswith("{"):
        try:
            return dict(json.loads(content))
        except ValueError:  # only looks like JSON
            pass
    return {"result": as_json(content)}


def _read_call(call: Any) -> dict[str, Any]:
    """Read a tool call of LangChain or of chat completions. Raises AgentFault for anything else."""
    data = call
    if isinstance(call, dict):
        data = next((call[key] for key in ("function", "custom") if isinstance(call.get(key), dict)), call)
    if not isinstance(data, dict) or not isinstance(data.get("name"), str):
        raise AgentFault(f'the agent\'s "tool_calls" have {describe(call)}, expected a call with a name')
    args = data.get("args", data.get("arguments"))
    if call.get("type") in CUSTOM and "input" in data:
        args = {UNNAMED_ARGUMENT: data["input"]}
    if isinstance(args, str):
        try:
            args = json.loads(args or "{}")
        except ValueError:  # malformed: the tool is known, its arguments are not
            return {"id": call.get("id"), "name": data["name"], "args": None}
    if not isinstance(args, (dict, type(None))):
        raise AgentFault(f"the arguments of {data['name']} are {describe(args)}, expected a dict")
    return {"id": call.get("id"), "name": data["name"], "args": as_json(args or {})}


def _read_content_calls(message: Any) -> list[dict[str, Any]]:
    """Return calls that only the content has: tools that ran on the model's server, or messages of another SDK."""
    has_field = getattr(message, "tool_calls", None) or getattr(message, "invalid_tool_calls", None)
    uses = []
    for block in message.content if isinstance(message.content, list) else ():
        if not isinstance(block, dict):
            continue
        keyed = next((block[key] for key in _KEYS_OF_CALLS if isinstance(block.get(key), dict)), None)
        kind = "tool_use" if keyed is not None else str(block.get("type") or "")
        if has_field and kind in _IN_TOOL_CALLS:
            continue
        if not kind.endswith(("tool_use", "_call")):
            if _looks_like_a_call(block):
                raise AgentFault(f"the agent's message has {describe(block)} in its content, expected a known call")
            continue
        call = block if keyed is None else keyed
        name = call.get("name", kind.removesuffix("_call"))  # OpenAI's type names the tool: `web_search_call`
        args = next((call[key] for key in ("input", "args", "arguments", "action") if key in call), None)
        call_id = next((call[key] for key in ("call_id", "toolUseId", "id") if key in call), None)
        if kind in CUSTOM:
            uses.append(_read_call({"type": kind, "id": call_id, "name": name, "input": args}))
        else:
            uses.append(_read_call({"id": call_id, "name": name, "args": args}))
    return uses


def _looks_like_a_call(block: dict[str, Any]) -> bool:
    """Return True if an unknown block has a tool's name, or a type or key that suggests a call."""
    kinds = [str(block["type"])] if block.get("type") else [str(key) for key, value in block.items() if value]
    unknown = [kind for kind in kinds if kind not in _NO_CALLS and not kind.endswith(("_tool_result", "_call_output"))]
    unknown = [kind for kind in unknown if not kind.startswith(_OTHERS)]
    if not unknown:
        return False
    nested = [value for value in block.values() if isinstance(value, dict)]
    return any(map(_MAY_BE_CALL.search, unknown)) or any(_NAMES_OF_TOOLS & item.keys() for item in (block, *nested))


def read_message_text(message: Any) -> str:
    """Return the text of a message without thoughts."""
    content = message.content
    if isinstance(content, str):
        return content
    blocks = (block for block in content or () if not (isinstance(block, dict) and block.get("thought")))
    texts = (block.get("text") if isinstance(block, dict) else block for block in blocks)
    return "".join(text for text in texts if isinstance(text, str))


def sum_usage(messages: Iterable[Any]) -> dict[str, int] | None:
    """Sum the tokens of messages; None if none reports any."""
    total: dict[str, int] = {}
    for message in messages:
        add_usage(total, getattr(message, "usage_metadata", None))
    return total or None


def add_usage(total: dict[str, int], usage: Any) -> dict[str, int]:
    """Add LangChain's usage metadata to `total`; return the added counts."""
    if not isinstance(usage, dict):
        return {}
    reasoning = (usage.get("output_token_details") or {}).get("reasoning")
    output = usage.get("output_tokens")
    found = {
        "prompt": usage.get("input_tokens"),
        "candidates": output if output is None or not reasoning else output - reasoning,
        "thoughts": reasoning,
        "cached": (usage.get("input_token_details") or {}).get("cache_read"),
        "total": usage.get("total_tokens"),
    }
    added = {name: count for name, count in found.items() if isinstance(count, int)}
    for name, count in added.items():
        total[name] = total.get(name, 0) + count
    return added


def _is_message(value: Any) -> bool:
    return isinstance(getattr(value, "type", None), str) and hasattr(value, "content")


def _select_new_messages(messages: list[Any], said: Any, known: Known) -> list[Any]:
    """Return the messages after the user's; if that is missing from the list, those that are not known."""
    from langchain_core.messages import convert_to_messages

    if not all(map(_is_message, messages)):  # a graph may hold them as dicts
        try:
            messages = convert_to_messages(messages)
        except (ValueError, NotImplementedError, LookupError, TypeError) as error:  # of the library
            reason = f"{type(error).__name__}: {error}".partition("\n")[0]
            raise AgentFault(f"the agent's messages cannot be read: {reason}") from None
    place = next((index for index, item in enumerate(messages) if getattr(item, "id", None) == said.id), None)
    return known.select_new(messages) if place is None else messages[place + 1 :]


def _make_waiting_answer(messages: list[Any], question: str) -> dict[str, Any]:
    """Return the answer of a turn that ends at an interrupt: what the agent said before it is an intermediate text."""
    if not messages:
        return _make_answer(question)
    answer = read_messages(messages)
    said = answer["response"] if messages[-1].type != "tool" else None
    if said:
        before = {"author": messages[-1].name or "agent", "parts": [{"text": said}]}
        answer["intermediate_responses"] = [*answer["intermediate_responses"], before]
    return {**answer, "response": question}


def _read_dict(result: dict[str, Any], *, is_graph: bool) -> dict[str, Any]:
    text = next((_read_text(result[key]) for key in _OUTPUT_KEYS if result.get(key) is not None), None)
    if text is None and is_graph:
        raise AgentFault(f"the agent gave {describe(result)}, expected {_SHAPES}")
    answer = _make_answer(_read_text(result) if text is None else text)
    if "intermediate_steps" in result:
        answer.update(read_steps(result["intermediate_steps"]))
    return answer


def _make_answer(text: str) -> dict[str, Any]:
    return {
        "response": text,
        "tool_uses": [],
        "tool_responses": [],
        "intermediate_responses": [],
        "usage": None,
    }


def _read_text(value: Any) -> str:
    """Return text as it is, and anything else, such as structured output, as JSON."""
    if _is_message(value):
        return read_message_text(value)
    if value is None:
        raise AgentFault(f"the agent gave None, expected {_SHAPES}")
    return value if isinstance(value, str) else json.dumps(as_json(value), ensure_ascii=False)


# Intermediate steps, as objects or as the JSON of Agent Engine.

_SHAPE = '[{"kwargs": {"tool": "...", "tool_input": {...}}}, observation]'
_NO_TOOL = "_Exception"
"""The tool name that an AgentExecutor uses if it could not parse the model's output."""


def read_steps(steps: Any) -> dict[str, Any]:
    """Read `tool_uses` and `tool_responses` from intermediate steps. Raises AgentFault if a step cannot be read."""
    if steps is None:
        steps = []
    if not isinstance(steps, (list, tuple)):
        raise AgentFault(f'"intermediate_steps" is {describe(steps)}, expected a list of steps such as {_SHAPE}')
    uses: list[dict[str, Any]] = []
    responses: list[dict[str, Any]] = []
    for index, step in enumerate(steps):
        name, args, call_id, observation = _read_step(step, f"intermediate_steps[{index}]")
        if name == _NO_TOOL:
            continue
        use = {"name": name, "args": args}
        uses.append(use if call_id is None else {"id": call_id, **use})
        response = as_json(observation)
        response = response if isinstance(response, dict) else {"result": response}
        responses.append({"id": call_id, "name": name, "response": response})
    return {"tool_uses": uses, "tool_responses": responses}


def _read_step(step: Any, place: str) -> tuple[str, dict[str, Any], str | None, Any]:
    if isinstance(step, dict) and "action" in step:
        step = (step["action"], step.get("observation"))
    if not isinstance(step, (list, tuple)) or len(step) != 2:
        raise AgentFault(f'"{place}" is {describe(step)}, expected {_SHAPE}')
    action, observation = step
    data = action.get("kwargs", action) if isinstance(action, dict) else action
    read = data.get if isinstance(data, dict) else lambda key, _data=data: getattr(_data, key, None)
    name, args, call_id = read("tool"), read("tool_input"), read("tool_call_id")
    if not isinstance(name, str):
        raise AgentFault(f'"{place}[0]" is {describe(action)}, expected {_SHAPE}')
    args = parse_text(args)
    if args is not None and not isinstance(args, dict):
        args = {UNNAMED_ARGUMENT: args}
    return name, as_json(args or {}), call_id if isinstance(call_id, str) else None, observation
