"""What kinds of runnable there are: what each is given of a conversation, and how it is called.

Knows no class of langgraph or langchain_classic, which need not be installed: what a runnable is shows in its bases.
"""

from __future__ import annotations

import asyncio
import typing
from typing import Any

from ...plain import as_json
from ..base import LoadError

_TEXT_KEYS = ("input", "question", "query", "prompt", "text", "message", "user_input", "human_input", "topic")
_HISTORY_KEYS = ("chat_history", "history")
_MESSAGES = "messages"


class Form:
    """How one session talks to one runnable. `state` is the session's initial state."""

    def __init__(self, runnable: Any, state: dict[str, Any]) -> None:
        self._runnable = runnable
        self._state = state
        self._history: list[Any] = []

    def given(self, message: Any, text: str) -> Any:
        """What the runnable gets for a user message, which is here as a HumanMessage and as its text."""
        raise NotImplementedError

    async def run(self, given: Any, config: dict[str, Any]) -> Any:
        """Call the runnable."""
        return await self._runnable.ainvoke(given, config)

    def heard(self, messages: list[Any], _result: Any) -> None:
        """What a turn brought: its messages, the user's first, and what the runnable gave."""
        self._history = [*self._history, *messages]  # a new list: the runnable may hold the one that it was given

    async def state(self, _config: dict[str, Any]) -> dict[str, Any] | None:
        """The state of the conversation as JSON data, without its messages; None where there is none."""
        return None


class _Graph(Form):
    """A compiled graph. With a checkpointer it remembers by itself; else it is given what it gave before."""

    def __init__(self, runnable: Any, state: dict[str, Any]) -> None:
        super().__init__(runnable, state)
        self._remembers = bool(getattr(runnable, "checkpointer", None))
        self._keys = _graph_keys(runnable)
        self._values = {key: value for key, value in state.items() if key in self._keys}
        self._text_key = ""
        if _MESSAGES not in self._keys:
            self._text_key = _text_key(self._keys, taken=state)

    def given(self, message: Any, text: str) -> Any:
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

    def heard(self, messages: list[Any], result: Any) -> None:
        if isinstance(result, dict) and isinstance(result.get(_MESSAGES), list) and not self._text_key:
            self._history = result[_MESSAGES]  # as the graph left it, which may have shortened it
        else:
            super().heard(messages, result)
        if self._remembers:
            self._values = {}
        elif isinstance(result, dict):
            self._values.update((key, value) for key, value in result.items() if key not in (_MESSAGES, self._text_key))

    async def state(self, config: dict[str, Any]) -> dict[str, Any] | None:
        values = self._values
        if self._remembers and not values and self._history:
            if _is_synchronous(self._runnable.checkpointer):
                snapshot = await asyncio.to_thread(self._runnable.get_state, config)
            else:
                snapshot = await self._runnable.aget_state(config)
            values = snapshot.values if isinstance(snapshot.values, dict) else {}
        return {str(key): as_json(value) for key, value in values.items() if key not in (_MESSAGES, self._text_key)}


class _Executor(Form):
    """An AgentExecutor. Its intermediate steps are the trajectory: they are asked for where its author did not."""

    def __init__(self, runnable: Any, state: dict[str, Any]) -> None:
        if not runnable.return_intermediate_steps:
            runnable = runnable.model_copy(update={"return_intermediate_steps": True})
        super().__init__(runnable, state)

    def given(self, _message: Any, text: str) -> Any:
        if self._runnable.memory is not None:  # it keeps the history by itself, and takes one input only
            return {"input": text}
        return {**self._state, "input": text, "chat_history": self._history}


class _Messages(Form):
    """A chat model, or a chain that begins with one: all messages of the conversation."""

    def given(self, message: Any, _text: str) -> Any:
        return [*self._history, message]


class _Keys(Form):
    """A chain that takes a dict: one key has the text, others the history, or what the session's state has for them."""

    def __init__(self, runnable: Any, state: dict[str, Any], keys: dict[str, bool]) -> None:
        super().__init__(runnable, state)
        self._keys = keys
        self._text_key = "input" if not keys else _MESSAGES if _MESSAGES in keys else _text_key(keys, taken=state)

    def given(self, message: Any, text: str) -> Any:
        given = {key: value for key, value in self._state.items() if key in self._keys}
        given.update((key, self._history) for key in _HISTORY_KEYS if key in self._keys)
        given[self._text_key] = [*self._history, message] if self._text_key == _MESSAGES else text
        return given


class _Text(Form):
    """Anything else: the text."""

    def given(self, _message: Any, text: str) -> Any:
        return text


def form_of(runnable: Any, session: dict[str, Any]) -> Form:
    """How a session talks to a runnable. Raises LoadError where it cannot be told what that takes."""
    state = session.get("state") or {}
    if is_graph(runnable):
        return _Graph(runnable, state)
    if _is_a(runnable, "AgentExecutor"):
        return _Executor(runnable, state)
    schema = _schema(runnable)
    if schema.get("type") == "object":
        properties = schema.get("properties") or {}
        return _Keys(runnable, state, {key: _is_text_schema(value) for key, value in properties.items()})
    if any(item.get("type") == "array" for item in (schema, *schema.get("anyOf", ()))):
        return _Messages(runnable, state)
    return _Text(runnable, state)


def is_graph(runnable: Any) -> bool:
    """Whether it is a compiled graph of LangGraph, `create_agent`'s among them. An entrypoint is like any function."""
    return _is_a(runnable, "Pregel") and hasattr(runnable, "builder")


def _is_a(value: Any, name: str) -> bool:
    return any(base.__name__ == name for base in type(value).__mro__)


def _is_synchronous(checkpointer: Any) -> bool:
    """Whether a checkpointer has no asynchronous way, as the one for SQLite."""
    own = next((base for base in type(checkpointer).__mro__ if "aget_tuple" in vars(base)), None)
    return own is None or own.__name__ in (
        "BaseCheckpointSaver",
        "SqliteSaver",
        "PostgresSaver",
        "ShallowPostgresSaver",
    )


def _schema(runnable: Any) -> dict[str, Any]:
    try:
        schema = runnable.get_input_jsonschema()
    except Exception:  # types of the user's that have no JSON form
        return {}
    return schema if isinstance(schema, dict) else {}


def _graph_keys(graph: Any) -> dict[str, bool]:
    """The keys that a graph takes, and whether text fits each. (Its JSON schema fails for a TypedDict of `typing`.)"""
    schema = getattr(graph.builder, "input_schema", None)
    try:
        hints = typing.get_type_hints(schema)
    except Exception:  # names that are not there while the graph runs
        hints = dict(getattr(schema, "__annotations__", {}))
    keys = {key: hint is Any or hint is str or str in typing.get_args(hint) for key, hint in hints.items()}
    return keys or {_MESSAGES: False}  # nothing is told of them: nearly every graph has messages


def _is_text_schema(schema: dict[str, Any]) -> bool:
    kinds = {item.get("type") for item in schema.get("anyOf", (schema,))}
    return "string" in kinds or kinds == {None}


def _text_key(keys: dict[str, bool], *, taken: dict[str, Any]) -> str:
    """The key for what the user says: the only one that takes text, or one with a usual name. Raises LoadError."""
    texts = [key for key, fits in keys.items() if fits and key not in taken and key not in _HISTORY_KEYS]
    usual = next((key for key in _TEXT_KEYS if key in texts), None)
    if usual is not None or len(texts) == 1:
        return usual or texts[0]
    raise LoadError(
        f"what the user says has no place in the agent's input: found the keys {', '.join(keys) or '(none)'}, expected "
        f"messages, one text, or one named {', '.join(_TEXT_KEYS[:3])}; put a function before it that makes its input"
    )
