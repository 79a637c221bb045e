"""The adapter for agents of Agent Engine: objects with `query`, apps of ADK, and deployed agents.

`location` is `module:name`, or the resource name of a deployed agent: `projects/P/locations/L/reasoningEngines/ID`.
Sessions and spans are those of a function that calls the object. google.auth and httpx are imported where they are
used: they come with the extra `vertex`, and with google-genai.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import re
import uuid
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from ..loading import find_object
from ..wire import describe
from . import base
from .base import USAGE_FIELDS, AgentFault, LoadError, classify_status, make_not_installed_error, to_camel
from .function import FunctionSession
from .langchain.langchain_messages import read_messages, read_steps, sum_usage
from .object_json import as_json

# Answers, in the shape that a function may return.

_SHAPES = (
    'text, a dict with "output" and "intermediate_steps", one with "response" and "predicted_trajectory", or one with '
    '"messages"'
)
_ANSWER_KEYS = ("response", "predicted_trajectory", "messages")
_OF_EXECUTOR = frozenset({"steps", "actions", "messages"})
_ERROR_KEYS = {"code", "message", "status", "details"}
_MESSAGE_CLASSES = {"AIMessage": "ai", "HumanMessage": "human", "ToolMessage": "tool", "SystemMessage": "system"}
_MESSAGE_ROLES = {"user": "human", "assistant": "ai", "model": "ai", "function": "tool"}
_ITEMS = ("reasoning", "mcp_list_tools", "mcp_approval_request")
"""Items of OpenAI's Responses that are neither messages nor calls nor results of calls."""
_KEYS_OF_RESULTS = ("function_response", "functionResponse", "toolResult")  # Gemini, Bedrock
_IDS_OF_CALLS = ("id", "toolUseId", "tool_use_id")
_MAY_BE_CALLS = re.compile("tool|function|call", re.IGNORECASE)
_FIELDS = frozenset(
    {
        "tool_calls", "invalid_tool_calls", "function_call", "tool_call_id", "tool_call_chunks", "tool_choice",
        "tool_plan",
    }
)  # fmt: skip
"""Fields of a message about calls that are read elsewhere or contain nothing new."""


def read_output(output: Any, *, is_stream: bool) -> dict[str, Any]:
    """Read the result of `query`, or the chunks of a stream. Raises AgentFault with the actual and the possible
    shapes."""
    if is_stream:
        # The service reports an error in a separate chunk, whatever the agent streams.
        _refuse_error([chunk for chunk in output if isinstance(chunk, dict)])
        if output and all(isinstance(chunk, dict) and (_is_event(chunk) or _find_error(chunk)) for chunk in output):
            return read_events(output)
        output = _join_chunks(output)
    if isinstance(output, str):
        return {"response": output}
    if isinstance(output, dict):
        if "predicted_trajectory" in output or "response" in output:
            return output
        if "output" in output or "intermediate_steps" in output:
            return _read_steps_output(output)
        if isinstance(output.get("messages"), list):
            return _read_message_list(output["messages"])
    raise AgentFault(f"the agent returned {describe(output)}, expected {_SHAPES}")


def read_events(events: list[Any]) -> dict[str, Any]:
    """Read the events of an ADK app as JSON. Raises AgentFault if there are none, or one reports an error."""
    converted = [as_json(event) for event in events]
    odd = next((event for event in converted if not isinstance(event, dict)), None)
    if odd is not None or not converted:
        found = "no events" if not converted else describe(odd)
        raise AgentFault(f"the agent streamed {found}, expected events of ADK")
    _refuse_error(converted)
    uses, responses, texts = [], [], []
    usage: dict[str, int] = {}
    state: dict[str, Any] = {}
    for event in converted:
        actions = event.get("actions") or {}
        state.update(_get(actions, "state_delta") or {})
        if event.get("partial") or event.get("author") == "user":
            continue
        counts = _get(event, "usage_metadata") or {}
        for name, field in USAGE_FIELDS.items():
            count = _get(counts, field)
            if isinstance(count, int):
                usage[name] = usage.get(name, 0) + count
        parts = (event.get("content") or {}).get("parts") or []
        calls = [call for part in parts if (call := _get(part, "function_call"))]
        answers = [answer for part in parts if (answer := _get(part, "function_response"))]
        uses += [{"id": call.get("id"), "name": call.get("name"), "args": call.get("args") or {}} for call in calls]
        responses += [{name: answer.get(name) for name in ("id", "name", "response")} for answer in answers]
        text = "\n".join(part["text"] for part in parts if part.get("text") and not part.get("thought"))
        if text:
            author = str(event.get("author") or "agent")
            texts.append({"author": author, "text": text, "final": not calls and not answers})
    final = next((item for item in reversed(texts) if item["final"]), None)
    return {
        "response": None if final is None else final["text"],
        "predicted_trajectory": uses,
        "tool_responses": responses,
        "intermediate_responses": [item for item in texts if item is not final],
        "usage": usage or None,
        "state": {key: value for key, value in state.items() if not key.startswith("temp:")} or None,
    }


def _is_event(chunk: dict[str, Any]) -> bool:
    return "author" in chunk and ("content" in chunk or "actions" in chunk or _get(chunk, "error_code") is not None)


def _refuse_error(events: list[dict[str, Any]]) -> None:
    """Raise AgentFault for an error without content after it. With content, a retry or fallback has succeeded."""
    error = None
    for event in events:
        error = None if _get(event.get("content"), "parts") else _find_error(event) or error
    if error is not None:
        code, text = error
        raise AgentFault(f"the agent answered with error {code}: {text}", kind=classify_status(code))


def _find_error(chunk: dict[str, Any]) -> tuple[str, str] | None:
    """Return code and message of an error in a chunk: an ADK event, or an error of Google's services."""
    code, text = _get(chunk, "error_code"), _get(chunk, "error_message")
    if code is None:
        error = chunk.get("error", chunk if chunk.keys() <= _ERROR_KEYS else None)
        if isinstance(error, dict) and isinstance(error.get("message"), str):
            code, text = error.get("code", error.get("status")), error["message"]
        elif isinstance(error, str) and len(chunk) == 1:  # a node of a graph writes no text
            code, text = "without a code", error
    return None if isinstance(code, dict) or code is None else (str(code), str(text or "no message"))


def _read_steps_output(output: dict[str, Any]) -> dict[str, Any]:
    steps_data = output.get("intermediate_steps")
    steps = read_steps(steps_data)
    said = output.get("output")
    if isinstance(said, list):  # content in blocks, as some models give it
        odd = next((index for index, block in enumerate(said) if not isinstance(block, (str, dict))), None)
        if odd is not None:
            raise AgentFault(f'"output[{odd}]" is {describe(said[odd])}, expected text or a block with text')
        said = "".join(block if isinstance(block, str) else str(block.get("text", "")) for block in said)
    if said is not None and not isinstance(said, str):
        raise AgentFault(f'"output" is {describe(said)}, expected a str')
    return {
        "response": said,
        "predicted_trajectory": None if steps_data is None else steps["tool_uses"],
        "tool_responses": steps["tool_responses"],
    }


def _read_message_list(messages: list[Any]) -> dict[str, Any]:
    """Read the messages of a graph after the user's last one."""
    read = [message for index, item in enumerate(messages) for message in _parse_message(item, index)]
    asked = max((index for index, item in enumerate(read) if item.type == "human"), default=-1)
    new = read[asked + 1 :]
    if not new:
        raise AgentFault("the agent ended the turn without a message of its own")
    answer = read_messages(new)
    return {**answer, "predicted_trajectory": answer.pop("tool_uses"), "usage": sum_usage(new)}


def _parse_message(message: Any, index: int) -> list[_Message]:
    """Parse a message in JSON: LangChain's serialised form with everything under `kwargs`, or plain keys.

    Tool results inside it become messages of their own: other SDKs put them into messages of the user.
    """
    data = message.get("kwargs", message) if isinstance(message, dict) else None
    data = _normalize_content(data) if isinstance(data, dict) else None
    if data is None or not isinstance(data["content"], (str, list, type(None))):
        raise AgentFault(f'"messages[{index}]" is {describe(message)}, expected a message with content')
    place = message.get("id")
    kind = _MESSAGE_CLASSES.get(str(place[-1]).removesuffix("Chunk")) if isinstance(place, list) and place else None
    read = _Message(data, kind)
    odd = next((key for key in data if data[key] and key not in _FIELDS and _MAY_BE_CALLS.search(str(key))), None)
    if read.type not in ("human", "system", "tool") and odd is not None:
        raise AgentFault(f'"messages[{index}].{odd}" is {describe(data[odd])}, expected calls in "tool_calls"')
    if read.type == "ai" or not isinstance(read.content, list):
        return [read]
    results = [_parse_tool_result(block) for block in read.content]
    read.content = [block for block, result in zip(read.content, results, strict=True) if result is None]
    found = [_Message(result, "tool") for result in results if result is not None]
    return [*found, read] if read.content or not found else found


def _normalize_content(data: dict[str, Any]) -> dict[str, Any] | None:
    """Return a message with its content under `content`: OpenAI's Responses and Gemini's `parts` differ."""
    kind = data.get("type")
    if isinstance(kind, str) and "role" not in data:
        if kind.endswith("_call_output"):
            return {"role": "tool", "tool_call_id": data.get("call_id"), "content": data.get("output")}
        if kind.endswith("_call") or kind in _ITEMS:
            return {"role": "assistant", "content": [] if kind in _ITEMS else [data]}
    content = data.get("content")
    holder = content if isinstance(content, dict) else data
    if isinstance(holder.get("parts"), list) and not isinstance(content, list):
        return {**data, **holder, "content": holder["parts"]}
    return data if "content" in data else None


def _parse_tool_result(block: Any) -> dict[str, Any] | None:
    """Return the tool result in a block of a message as a message of its own, or None."""
    if not isinstance(block, dict):
        return None
    keyed = next((block[key] for key in _KEYS_OF_RESULTS if isinstance(block.get(key), dict)), None)
    if keyed is None and block.get("type") != "tool_result":
        return None
    result = block if keyed is None else keyed
    content = result.get("response", result.get("content"))
    return {
        "content": json.dumps(content, ensure_ascii=False) if isinstance(content, dict) else content,
        "name": result.get("name"),
        "tool_call_id": next((result[key] for key in _IDS_OF_CALLS if key in result), None),
        "status": "error" if result.get("is_error") else result.get("status", "success"),
    }


class _Message:
    """A message with the attributes of LangChain's; `kind` is its type if known."""

    def __init__(self, data: dict[str, Any], kind: str | None) -> None:
        names = [data[key] for key in ("role", "type") if isinstance(data.get(key), str)]
        self.type = kind or next(
            (_MESSAGE_ROLES[name] for name in names if name in _MESSAGE_ROLES), "".join(names[-1:])
        )
        self.content = data["content"]
        self.name = data.get("name")
        more = data.get("additional_kwargs")
        holders = (data, more if isinstance(more, dict) else {})
        self.tool_calls: list[Any] = next((each["tool_calls"] for each in holders if each.get("tool_calls")), [])
        if not self.tool_calls:  # OpenAI's before there were tools
            self.tool_calls = [each["function_call"] for each in holders if each.get("function_call")][:1]
        self.invalid_tool_calls = data.get("invalid_tool_calls") or []
        self.tool_call_id = data.get("tool_call_id")
        self.status = data.get("status", "success")
        self.usage_metadata = data.get("usage_metadata")


def _join_chunks(chunks: list[Any]) -> Any:
    """Combine the chunks of a stream into an answer."""
    if all(isinstance(chunk, str) for chunk in chunks):
        return "".join(chunks) if chunks else None
    if not all(isinstance(chunk, dict) for chunk in chunks):
        return chunks
    if any("steps" in chunk or "output" in chunk or "actions" in chunk for chunk in chunks):  # of an AgentExecutor
        said = next((chunk["output"] for chunk in reversed(chunks) if "output" in chunk), None)
        return {"output": said, "intermediate_steps": _collect_steps(chunks)}
    # A node of a graph may have any name, but what it writes is a dict, which an answer is not.
    if len(chunks) == 1 and any(not isinstance(chunks[0].get(key, {}), dict) for key in _ANSWER_KEYS):
        return chunks[0]
    # A graph: what each node wrote.
    written = [part for chunk in chunks for part in chunk.values() if isinstance(part, dict)]
    messages = [message for part in written for message in part.get("messages") or ()]
    return {"messages": messages} if messages else chunks[0] if len(chunks) == 1 else chunks


def _collect_steps(chunks: list[dict[str, Any]]) -> list[Any] | None:
    """Return the steps that were streamed, or those at the end; None if the chunks cannot contain any."""
    steps = [  # LangChain serialises a step under `kwargs`
        step.get("kwargs", step) if isinstance(step, dict) else step
        for chunk in chunks
        for step in chunk.get("steps") or ()
    ]
    at_end = next((chunk["intermediate_steps"] for chunk in reversed(chunks) if "intermediate_steps" in chunk), None)
    if steps or at_end is None:
        # An AgentExecutor streams its steps, and has its messages in each chunk.
        return steps if any(not _OF_EXECUTOR.isdisjoint(chunk) for chunk in chunks) else None
    return at_end  # type: ignore[no-any-return]  # `read_steps` refuses anything but a list


def _get(data: Any, name: str) -> Any:
    """Return a value by its Python name, or by the camelCase name of Google's JSON."""
    return data.get(name, data.get(to_camel(name))) if isinstance(data, dict) else None


# Conversations: which method is called, with which arguments.

ASKED = ("query", "async_query", "stream_query", "async_stream_query")
"""Methods that answer; the first one that exists is called."""
CREATES = ("async_create_session", "create_session")
"""Methods with which an ADK app opens a session; such an app streams events."""
STREAMS = ("stream_query", "async_stream_query")


class Engine:
    """The methods of an agent."""

    async def parameters(self) -> dict[str, set[str]]:
        """Return the methods of the agent, each with the names of its parameters."""
        raise NotImplementedError

    async def call(self, method: str, arguments: dict[str, Any]) -> Any:
        """Call a method; return all chunks of a stream as a list."""
        raise NotImplementedError


class EngineConversation:
    """One conversation. `function.FunctionSession` calls `say`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._methods: dict[str, set[str]] = {}
        self._session_id = ""
        self.is_with_app = False
        """True after an ADK app has answered."""

    async def say(self, prompt: str, session: Any) -> dict[str, Any]:
        """Return the answer to a prompt, in a shape that a function may return."""
        if not self._methods:
            self._methods = await self._engine.parameters()
        creates = next((name for name in CREATES if name in self._methods), None)
        if creates is not None and "query" not in self._methods:
            return await self._say_to_app(creates, prompt, session)
        method = next((name for name in ASKED if name in self._methods), None)
        if method is None:
            raise LoadError(f"the agent has the methods {', '.join(self._methods) or '(none)'}, expected {ASKED[0]}")
        arguments: dict[str, Any] = {"input": prompt}
        if "config" in self._methods[method]:  # LangChain agents store the history under one of these
            self._session_id = self._session_id or str(uuid.uuid4())
            arguments["config"] = {"configurable": {"session_id": self._session_id, "thread_id": self._session_id}}
        return read_output(await self._engine.call(method, arguments), is_stream=method in STREAMS)

    async def _say_to_app(self, creates: str, prompt: str, session: Any) -> dict[str, Any]:
        streams = next((name for name in reversed(STREAMS) if name in self._methods), None)
        if streams is None:
            raise LoadError(f"the agent has {creates} and no {STREAMS[1]}, expected both or {ASKED[0]}")
        if not self._session_id:
            state = {"state": session.state} if session.state else {}
            created = await self._engine.call(creates, {"user_id": session.user_id, **state})
            found = created.get("id") if isinstance(created, dict) else getattr(created, "id", None)
            if not isinstance(found, str):
                raise LoadError(f"{creates} gave no session with an id")
            self._session_id, self.is_with_app = found, True
        arguments = {"user_id": session.user_id, "session_id": self._session_id, "message": prompt}
        return read_events(await self._engine.call(streams, arguments))


# The adapter, and agents in this process.

_DEPLOYED = "projects/"
_EXPECTED = f"an object with {', '.join(ASKED[:-1])} or {ASKED[-1]}, or a callable that returns one without arguments"


class Adapter(base.Adapter):
    """One such agent in one process."""

    def load(self) -> None:
        """Import the object and set it up, as Agent Engine does; a deployed agent is not called yet."""
        location = self.target["location"]
        if location.startswith(_DEPLOYED):
            self._engine: Engine = DeployedEngine(location)
            self._name, self._type = location.rpartition("/")[2], "deployed on Agent Engine"
            return
        found = _make_agent(find_object(location, self.import_roots(), wanted="the agent"), location)
        if callable(getattr(found, "set_up", None)):
            found.set_up()
        self._engine = LocalEngine(found)
        self._name, self._type = location.partition(":")[2], type(found).__name__

    def open(
        self, session: dict[str, Any], emit_span: base.EmitSpan, tools: base.InterceptedTools | None = None
    ) -> FunctionSession:
        interception = None
        if tools is not None:
            from ..tool_interception import open_session

            interception = open_session(tools, self.import_roots())
        return EngineSession(
            name=self._name,
            talk=EngineConversation(self._engine),
            request=session,
            emit_span=emit_span,
            interception=interception,
            describe=self._describe,
        )

    def _describe(self) -> dict[str, Any]:
        part = {"name": self._name, "type": self._type}
        return {"agents": [part], "unknown": [f"the instructions and tools of {self._name} are in its code"]}


class EngineSession(FunctionSession):
    """A conversation. Only an ADK app has a visible state."""

    def __init__(self, *, talk: EngineConversation, **options: Any) -> None:
        super().__init__(call=talk.say, **options)
        self._talk = talk

    def state(self) -> dict[str, Any] | None:
        return super().state() if self._talk.is_with_app else None


class LocalEngine(Engine):
    """An object in this process. Blocking methods run in a thread, as in Agent Engine.

    `in_thread` calls a function with its arguments and returns the result.
    """

    def __init__(self, agent: Any, *, in_thread: Callable[..., Awaitable[Any]] = asyncio.to_thread) -> None:
        self._agent = agent
        self._in_thread = in_thread

    async def parameters(self) -> dict[str, set[str]]:
        methods = {name: getattr(self._agent, name, None) for name in (*ASKED, *CREATES)}
        return {name: _list_parameters(method) for name, method in methods.items() if callable(method)}

    async def call(self, method: str, arguments: dict[str, Any]) -> Any:
        function = getattr(self._agent, method)
        if method in STREAMS:
            function = _collect(function)
        if not method.startswith("async_") and not inspect.iscoroutinefunction(function):
            given = await self._in_thread(function, **arguments)
        else:
            given = function(**arguments)
        return await given if inspect.isawaitable(given) else given


def _collect(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that collects all chunks of a stream in a list, in the thread in which it is called."""

    async def collect_later(stream: Any) -> list[Any]:
        return [chunk async for chunk in stream]

    def collect(**arguments: Any) -> Any:
        stream = function(**arguments)
        if hasattr(stream, "__aiter__"):
            return collect_later(stream)
        return stream if inspect.isawaitable(stream) else list(stream)

    return collect


def _list_parameters(method: Any) -> set[str]:
    try:
        return set(inspect.signature(method).parameters)
    except ValueError:  # not written in Python: no signature
        return set()


def _make_agent(found: Any, location: str) -> Any:
    """Return the agent: the object, or the result of calling it. Raises LoadError if it is no agent."""
    made, place = found, location
    if isinstance(found, type) or (callable(found) and not is_agent(found)):
        made, place = found(), f"{location}()"
    if not is_agent(made):
        raise base.LoadError(f"{place} is {describe(made)}, expected {_EXPECTED}")
    return made


def is_agent(value: Any) -> bool:
    """Return True if a value has a method that answers."""
    return any(callable(getattr(value, name, None)) for name in ASKED)


# Deployed agents, called over REST.

_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_NO_CREDENTIALS = (
    "the agent {resource} needs credentials of Google Cloud: set GOOGLE_APPLICATION_CREDENTIALS in the environment or "
    "in the target's env_file, or run `gcloud auth application-default login`"
)
_YES = ("1", "true")
_CONNECT_SECONDS = 20.0  # an answer may take as long as the case


class DeployedEngine(Engine):
    """The methods of one deployed agent, fetched once."""

    def __init__(self, resource: str) -> None:
        try:
            import google.auth
            import httpx
        except ModuleNotFoundError:
            raise make_not_installed_error("google-auth with httpx", extra="vertex") from None
        self._auth = google.auth
        self._resource = resource
        self._url = f"{_build_base_url(resource, os.environ)}/v1/{resource}"
        self._client = httpx.AsyncClient(timeout=httpx.Timeout(None, connect=_CONNECT_SECONDS))
        self._transport_error = httpx.TransportError
        self._credentials: Any = None
        self._asking = asyncio.Lock()
        self._parameters: dict[str, set[str]] | None = None

    async def parameters(self) -> dict[str, set[str]]:
        async with self._asking:
            if self._parameters is None:
                self._parameters = _parse_methods(_parse_json(await self._send("GET", self._url), self._url))
        return self._parameters

    async def call(self, method: str, arguments: dict[str, Any]) -> Any:
        body = {"classMethod": method, "input": arguments}
        if method in STREAMS:
            url = f"{self._url}:streamQuery?alt=sse"
            return _parse_chunks(await self._send("POST", url, body), url)
        url = f"{self._url}:query"
        answer = _parse_json(await self._send("POST", url, body), url)
        return answer.get("output", answer) if isinstance(answer, dict) else answer

    async def _send(self, verb: str, url: str, body: dict[str, Any] | None = None) -> str:
        headers = await self._build_headers()
        try:
            response = await self._client.request(verb, url, json=body, headers=headers)
        except self._transport_error as error:
            message = f"{url} cannot be reached: {type(error).__name__}: {error}"
            raise AgentFault(message, kind="infrastructure") from error
        if response.status_code >= 300:  # redirections too: the key is only for this address
            raise _describe_refusal(response.status_code, response.text, self._resource)
        return response.text

    async def _build_headers(self) -> dict[str, str]:
        key = os.environ.get("GOOGLE_API_KEY")
        if key and os.environ.get("GOOGLE_GENAI_USE_VERTEXAI", "").lower() in _YES:
            return {"x-goog-api-key": key}
        try:
            return await asyncio.to_thread(self._authorize)
        except self._auth.exceptions.TransportError as error:
            raise AgentFault(f"Google Cloud cannot be asked for a token: {error}", kind="infrastructure") from error
        except self._auth.exceptions.GoogleAuthError as error:
            reason = str(error).partition("\n")[0]
            raise LoadError(f"{_NO_CREDENTIALS.format(resource=self._resource)} ({reason})") from None

    def _authorize(self) -> dict[str, str]:
        from google.auth.transport.requests import Request

        if self._credentials is None:
            self._credentials, _ = self._auth.default(scopes=[_SCOPE])
        if not self._credentials.valid:
            self._credentials.refresh(Request())
        headers: dict[str, str] = {}
        self._credentials.apply(headers)
        return headers


def _build_base_url(resource: str, environment: Mapping[str, str]) -> str:
    given = environment.get("GOOGLE_VERTEX_BASE_URL")
    if given:
        return given.rstrip("/")
    location = resource.split("/")[3]
    return f"https://{'' if location == 'global' else location + '-'}aiplatform.googleapis.com"


def _parse_methods(engine: Any) -> dict[str, set[str]]:
    spec = engine.get("spec") if isinstance(engine, dict) else None
    methods = (spec or {}).get("classMethods") or (spec or {}).get("class_methods") or []
    found = {}
    for method in methods:
        if isinstance(method, dict) and isinstance(method.get("name"), str):
            properties = (method.get("parameters") or {}).get("properties") or {}
            found[method["name"]] = set(properties)
    return found


def _parse_json(text: str, url: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise AgentFault(f"{url} answered {_shorten(text)}, expected JSON") from None


def _parse_chunks(text: str, url: str) -> list[Any]:
    """Parse the chunks of a stream: JSON lines, with or without frames of server-sent events."""
    lines = (line.strip() for line in text.splitlines())
    data = [line.partition(":")[2].strip() if line.startswith("data:") else line for line in lines]
    return [_parse_json(line, url) for line in data if line and not line.startswith((":", "event:", "id:", "retry:"))]


def _describe_refusal(status: int, text: str, resource: str) -> Exception:
    """Return why a request was refused, with the message of the service."""
    try:
        said = json.loads(text)
        said = said[0] if isinstance(said, list) else said
        reason = str(said["error"]["message"])
    except (ValueError, LookupError, TypeError):
        reason = _shorten(text)
    if status in (401, 403):
        return LoadError(f"Google Cloud refuses access to {resource} (HTTP {status}): {reason}")
    if status == 404:
        return LoadError(f"there is no agent {resource} (HTTP 404): {reason}")
    return AgentFault(f"the agent {resource} answered with HTTP {status}: {reason}", kind=classify_status(status))


def _shorten(text: str) -> str:
    short = " ".join(text[:400].split())
    return (short[:200] + "...") if len(short) > 200 else short or "nothing"
