"""Sessions with A2A agents: the agent card, the conversation, and the content of answers.

Data is JSON as the protocol spells it (camelCase keys). Tool calls are data parts that ADK's converter marks with
`metadata.adk_type`: `function_call` or `function_response`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import uuid
from collections.abc import Iterator
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any
from urllib.parse import urlsplit

import httpx
from a2a.client import A2AClientError, Client, ClientCallContext, ClientConfig, ClientFactory
from a2a.client.card_resolver import parse_agent_card
from a2a.types import AgentCard, CancelTaskRequest, GetTaskRequest, SendMessageRequest
from a2a.utils.errors import A2AError
from google.protobuf.json_format import Error as ProtobufError
from google.protobuf.json_format import MessageToDict, ParseDict, ParseError

from ...responses import read_answer
from .. import base
from ..base import USAGE_FIELDS, AgentFault, LoadError, classify_status, to_camel
from ..external_session import ExternalSession, Variables, describe_json

# The agent card and the client, one for all sessions of a process.

_PLACES = ("/.well-known/agent-card.json", "/.well-known/agent.json")  # the current one, and that of A2A 0.2
_BINDINGS = ["JSONRPC", "HTTP+JSON"]
_CONNECT_SECONDS = 15.0  # the answer may take as long as the case
_CARD_SECONDS = 15.0  # to connect, and for the next piece of the card
_CANCEL_SECONDS = 10.0  # for the agent to answer that it cancelled a task
_CANCEL_PATIENCE = 0.2  # of these, for a session to wait: less than it has to end after a cancellation


class Peer:
    """The connection to the agent. The card is fetched once, by the first session that needs it."""

    def __init__(self, target: dict[str, Any], variables: Variables, *, url: str, headers: dict[str, str]) -> None:
        """`url` and `headers` are filled in from `variables`."""
        self.target = target
        self.variables = variables
        self.card: dict[str, Any] = {}
        """The card as JSON, after it was fetched."""
        self._url = url
        self._headers = headers
        self._client: Client | None = None
        self._connecting: asyncio.Task[Client] | None = None
        self._cancelling: set[asyncio.Task[None]] = set()

    async def connect(self) -> Client:
        """Return the client. Raises LoadError or AgentFault if the card is unavailable or useless.

        Sessions that wait at the same time share one attempt and its failure; the next session tries again.
        """
        if self._client is not None:
            return self._client
        if self._connecting is None or self._connecting.done():
            self._connecting = asyncio.ensure_future(self._connect())
            self._connecting.add_done_callback(
                lambda task: task.cancelled() or task.exception()
            )  # all waiters may be gone
        return await asyncio.shield(self._connecting)

    async def cancel_task(self, task_id: str) -> None:
        """Ask the agent to cancel a task that is no longer needed. It may refuse.

        Returns soon, whatever the agent does: a cancelled session has little time to end.
        """
        if self._client is None:
            return
        asking = asyncio.ensure_future(self._cancel(self._client, task_id))
        self._cancelling.add(asking)
        asking.add_done_callback(self._cancelling.discard)
        await asyncio.wait({asking}, timeout=_CANCEL_PATIENCE)

    async def _cancel(self, client: Client, task_id: str) -> None:
        with contextlib.suppress(Exception):  # the task may be over or unknown; nothing depends on it
            await asyncio.wait_for(client.cancel_task(CancelTaskRequest(id=task_id)), _CANCEL_SECONDS)

    async def _connect(self) -> Client:
        # Redirections are not followed: headers may hold keys that are only for this address. Cookies are refused: all
        # sessions share the client and must not influence each other.
        http = httpx.AsyncClient(
            headers=self._headers,
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
            timeout=httpx.Timeout(None, connect=_CONNECT_SECONDS),
            limits=httpx.Limits(max_connections=None),
        )
        try:
            self._client = await self._create_client(http)
        except BaseException:  # including cancellation: close the connections here
            await http.aclose()
            raise
        return self._client

    async def _create_client(self, http: httpx.AsyncClient) -> Client:
        place, document = await self._fetch(http)
        try:
            card = parse_agent_card(document)
        except ParseError as error:
            raise LoadError(f"{place} holds no agent card: {error}") from None
        if self._headers:
            self._drop_other_origins(card, place)
        config = ClientConfig(httpx_client=http, supported_protocol_bindings=_BINDINGS)
        try:
            client = ClientFactory(config).create(card)
        except ValueError:
            found = ", ".join(f"{each.protocol_binding} {each.protocol_version}" for each in card.supported_interfaces)
            expected = f"expected {' or '.join(_BINDINGS)} of version 0.3 or newer"
            if any(each.protocol_binding == "GRPC" for each in card.supported_interfaces):
                expected += "; gRPC is not supported, so let the agent also serve one of these"
            raise LoadError(f"{place}: found {found or 'no interface'}, {expected}") from None
        self.card = MessageToDict(card)
        return client

    def _drop_other_origins(self, card: AgentCard, place: str) -> None:
        """Remove interfaces of other origins: the server of a card must not decide who gets the target's keys."""
        interfaces = list(card.supported_interfaces)
        own = [each for each in interfaces if _parse_origin(each.url) == _parse_origin(self._url)]
        if interfaces and not own:
            raise LoadError(
                f"{place} names {self.variables.conceal(interfaces[0].url)}, which has another scheme, host or "
                "port than target: the target's headers are sent only there"
            )
        del card.supported_interfaces[:]
        card.supported_interfaces.extend(own)

    async def _fetch(self, http: httpx.AsyncClient) -> tuple[str, Any]:
        """Return the location for messages (without filled-in values) and the card."""
        shown, url = self.target["location"].rstrip("/"), self._url.rstrip("/")
        is_card = urlsplit(url).path.endswith(".json")
        for place in ("",) if is_card else _PLACES:
            response = await self._get(http, url + place, shown + place)
            if response.status_code != 404:
                return shown + place, _parse_card(response, shown + place)
        places = shown if is_card else " and ".join(shown + place for place in _PLACES)
        raise LoadError(f"there is no agent card: {places} answered 404")

    async def _get(self, http: httpx.AsyncClient, url: str, shown: str) -> httpx.Response:
        try:
            return await http.get(url, timeout=_CARD_SECONDS)
        except httpx.InvalidURL:
            raise LoadError(f"{shown}: found no URL, expected one once its variables are filled in") from None
        except httpx.RequestError as error:
            reason = self.variables.conceal(str(error)) or type(error).__name__
            raise AgentFault(f"the agent card {shown} cannot be fetched: {reason}", kind="infrastructure") from None


def _parse_origin(url: str) -> tuple[str, str, int | None]:
    try:
        parts = httpx.URL(url)
    except httpx.InvalidURL:
        return "", url, None
    return parts.scheme, parts.host, parts.port


def _parse_card(response: httpx.Response, shown: str) -> Any:
    """Parse the JSON of a response. Raises LoadError or AgentFault for anything else."""
    status = response.status_code
    if status >= 300:
        message = f"the agent card {shown} cannot be fetched: answered {status}"
        if classify_status(status) == "infrastructure":
            raise AgentFault(message, kind="infrastructure")
        hint = ", a redirection: set target to the URL it leads to" if status < 400 else ""
        raise LoadError(message + hint)
    try:
        document = response.json()
    except ValueError:
        kind = response.headers.get("content-type", "").partition(";")[0] or "something"
        raise LoadError(f"{shown} is not an agent card: found {kind}, expected JSON") from None
    if not isinstance(document, dict) or "name" not in document:
        raise LoadError(f"{shown} is not an agent card: expected an object with a name")
    return document


# The content of a turn.

FINISHED = ("TASK_STATE_COMPLETED", "TASK_STATE_INPUT_REQUIRED")
"""States in which a turn has an answer; with the second the next turn belongs to the same task."""
UNDER_WAY = ("TASK_STATE_SUBMITTED", "TASK_STATE_WORKING")
"""States in which the agent still works."""
_REFUSED = {
    "TASK_STATE_FAILED": "failed",
    "TASK_STATE_REJECTED": "was rejected",
    "TASK_STATE_CANCELED": "was cancelled",
}
_INPUT_REQUIRED = "TASK_STATE_INPUT_REQUIRED"
_AUTH_REQUIRED = "TASK_STATE_AUTH_REQUIRED"
_TOKENS = "adk_usage_metadata"


class Statement:
    """One statement of an agent: its parts, author, and reported tokens."""

    def __init__(self, parts: list[dict[str, Any]], metadata: dict[str, Any], *, between: str) -> None:
        """`between` separates the texts of several parts."""
        self.parts = parts
        self.metadata = metadata
        self.author = str(metadata.get("adk_author") or "agent")
        self._between = between

    @property
    def text(self) -> str:
        """Its text without thoughts."""
        texts = (
            part["text"] for part in self.parts if part.get("text") and not _read_metadata(part).get("adk_thought")
        )
        return self._between.join(texts) or _format_data(self.parts)


class A2aTurn:
    """The result of one user message, collected from messages, updates and artefacts.

    `known` holds reports of earlier turns: parts of messages by id, of artefacts by task and id, and tokens of tasks.
    """

    def __init__(self, known: dict[Any, Any]) -> None:
        self._known = known
        self._messages: dict[str, Statement] = {}
        self._artefacts: dict[tuple[str, str], Statement] = {}  # also by task: ids are unique only within a task
        self._order: list[Statement] = []
        self._usage: dict[str, int] = {}
        self._usage_of_tasks: dict[tuple[str, str], Any] = {}
        self._status: Statement | None = None
        self.reports_calls = False
        """True if an answer without calls means that no tool was called: ADK reports every call, and marks its
        messages."""
        self.state = ""
        self.context_id = ""
        self.task_id = ""

    @property
    def is_open(self) -> bool:
        """True if there is a task that the agent works on, or waits with."""
        return bool(self.task_id) and self.state in (*UNDER_WAY, _INPUT_REQUIRED, _AUTH_REQUIRED)

    def take(self, event: dict[str, Any]) -> None:
        """Take one event of a stream, or the single answer: it has one of four keys."""
        if "message" in event:
            self._note_context(event["message"])
            self._take_message(event["message"], event["message"])
            self.state = "TASK_STATE_COMPLETED"
            self.task_id = ""
        elif "task" in event:
            self.take_task(event["task"])
        elif "statusUpdate" in event:
            update = event["statusUpdate"]
            self._note_context(update)
            self._take_status(update.get("status") or {}, _read_metadata(update))
        elif "artifactUpdate" in event:
            update = event["artifactUpdate"]
            self._note_context(update)
            artefact = update.get("artifact") or {}
            merged = {
                **artefact,
                "metadata": {**_read_metadata(artefact), **_read_metadata(update)},
            }  # ADK names the author in the update
            self._take_artefact(merged, append=bool(update.get("append")))
            self._count(_read_metadata(update))

    def take_task(self, task: dict[str, Any]) -> None:
        """Take the current state of a task. Content of earlier turns is not new."""
        self._note_context({**task, "taskId": task.get("id", "")})
        for message in task.get("history") or ():
            if message.get("role") == "ROLE_AGENT":
                self._take_message(message, message)
        for artefact in task.get("artifacts") or ():
            if self._known.get((self.task_id, artefact.get("artifactId", ""))) != artefact.get("parts"):
                self._take_artefact(artefact, append=False)
        # Each poll of a task repeats its token counts.
        self._usage_of_tasks["usage of", self.task_id] = _read_metadata(task).get(_TOKENS)
        metadata = {key: value for key, value in _read_metadata(task).items() if key != _TOKENS}
        self._take_status(task.get("status") or {}, metadata)

    def answer(self) -> dict[str, Any]:
        """Build the turn in the shape of `read_answer`. Raises AgentFault if there is no answer."""
        self._raise_if_unanswered()
        uses, responses = _parse_calls(self._order)
        response, final = self._find_response(has_calls=bool(uses))
        if response is None and not uses and self.state == _INPUT_REQUIRED:
            raise AgentFault("the agent's task asks for input (input-required), but does not say which")
        if response is None and not uses:
            raise AgentFault("the agent ended the turn without text, data or tool calls")
        for key, counts in self._usage_of_tasks.items():
            if counts != self._known.get(key):
                self._count({_TOKENS: counts})
        self._known.update(self._usage_of_tasks)
        self._known.update((key, said.parts) for key, said in (*self._messages.items(), *self._artefacts.items()))
        in_answer = set(map(id, final))
        between = [said for said in self._order if id(said) not in in_answer and said.text]
        return {
            "response": response,
            "predicted_trajectory": uses,
            "tool_responses": responses,
            # The same text may come as a message and as an artefact.
            "intermediate_responses": [
                {"author": said.author, "text": said.text} for said in between if said.text != response
            ],
            "usage": self._usage or None,
        }

    def _raise_if_unanswered(self) -> None:
        said = self._status.text if self._status is not None else ""
        reason = f": {said}" if said else ""
        if self.state in _REFUSED:
            raise AgentFault(f"the agent's task {_REFUSED[self.state]}{reason}")
        if self.state == _AUTH_REQUIRED:
            message = "the agent requires credentials that the target's headers do not have (auth-required)"
            raise AgentFault(message + reason, kind="setup")
        if not self.state:
            raise AgentFault("the agent gave neither a message nor a task with a state")
        if self.state not in FINISHED:
            raise AgentFault(f"the agent left its task in the state {self.state}{reason}")

    def _find_response(self, *, has_calls: bool) -> tuple[str | None, list[Statement]]:
        """Return the text of the answer and its sources: artefacts, else the last message."""
        artefacts = [said for said in self._artefacts.values() if said.text]
        if self.state == _INPUT_REQUIRED and self._status is not None and self._status.text:
            return self._status.text, [self._status]
        if has_calls:  # each event of the agent is an artefact: the last one with text is the answer
            artefacts = artefacts[-1:]
        if artefacts:
            return "\n".join(said.text for said in artefacts), artefacts
        last = next((said for said in reversed(self._order) if said.text), None)
        return (None, []) if last is None else (last.text, [last])

    def _note_context(self, data: dict[str, Any]) -> None:
        self.context_id = data.get("contextId") or self.context_id
        self.task_id = data.get("taskId") or self.task_id
        self.reports_calls = self.reports_calls or _is_marked(data)

    def _take_status(self, status: dict[str, Any], metadata: dict[str, Any]) -> None:
        self.state = status.get("state") or self.state
        message = status.get("message")
        if message:
            self._status = self._take_message(message, {"metadata": {**_read_metadata(message), **metadata}})
        elif _TOKENS in metadata:
            self._count(metadata)

    def _take_message(self, message: dict[str, Any], source: dict[str, Any]) -> Statement:
        key = message.get("messageId") or f"#{len(self._order)}"
        said = Statement(message.get("parts") or [], _read_metadata(source), between="\n")
        if key in self._known or key in self._messages or said.metadata.get("adk_partial"):
            return self._messages.get(key, said)
        self._messages[key] = said
        self._order.append(said)
        self._count(said.metadata)
        return said

    def _take_artefact(self, artefact: dict[str, Any], *, append: bool) -> None:
        key = (self.task_id, artefact.get("artifactId") or f"#{len(self._order)}")
        parts = artefact.get("parts") or []
        before = self._artefacts.get(key)
        if before is None:
            # Parts of an artefact are usually chunks of one text, which servers do not join.
            said = self._artefacts[key] = Statement(list(parts), _read_metadata(artefact), between="")
            self._order.append(said)
        elif append:
            before.parts += parts
        else:
            before.parts = list(parts)

    def _count(self, metadata: dict[str, Any]) -> None:
        counts = metadata.get(_TOKENS)
        if not isinstance(counts, dict) or metadata.get("adk_partial"):
            return
        for name, field in USAGE_FIELDS.items():
            count = counts.get(to_camel(field))
            if isinstance(count, (int, float)):  # the protocol has no integers
                self._usage[name] = self._usage.get(name, 0) + int(count)


def _parse_calls(said: list[Statement]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return tool calls and their results, each once: ADK repeats its last message as an artefact."""
    uses: list[dict[str, Any]] = []
    responses: list[dict[str, Any]] = []
    seen: set[tuple[str, str]] = set()
    for part in (part for item in said for part in item.parts):
        data = part.get("data")
        kind = _read_kind(part)
        if kind not in ("function_call", "function_response"):
            continue
        if not isinstance(data, dict):
            raise AgentFault(
                f"the agent sent a {kind} with {describe_json(data)} as data, expected an object with a name"
            )
        target = uses if kind == "function_call" else responses
        call_id = data.get("id")
        if call_id is not None and (kind, str(call_id)) in seen:
            continue
        seen.add((kind, str(call_id)))
        found = {"id": call_id, "name": data.get("name")}
        target.append(
            {**found, "args": _restore_integers(data.get("args") or {})}
            if target is uses
            else {**found, "response": _restore_integers(data.get("response"))}
        )
    return uses, responses


def _is_marked(data: Any) -> bool:
    """Return True if ADK has marked a statement or a part of it."""
    if isinstance(data, list):
        return any(map(_is_marked, data))
    if not isinstance(data, dict):
        return False
    return any(key.startswith("adk_") for key in _read_metadata(data)) or any(map(_is_marked, data.values()))


def _restore_integers(value: Any) -> Any:
    """Convert floats that are whole numbers to int: the protocol only has floats."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    if isinstance(value, dict):
        return {key: _restore_integers(item) for key, item in value.items()}
    return [_restore_integers(item) for item in value] if isinstance(value, list) else value


def _format_data(parts: list[dict[str, Any]]) -> str:
    """Return data that is no tool call as text: agents answer with it if programs read the answer.

    Keys are sorted, because the protocol does not keep their order.
    """
    values = [part["data"] for part in parts if "data" in part and not _read_kind(part)]
    return "\n".join(json.dumps(_restore_integers(data), ensure_ascii=False, sort_keys=True) for data in values)


def _read_kind(part: dict[str, Any]) -> Any:
    return _read_metadata(part).get("adk_type") or _read_metadata(part).get("type")


def _read_metadata(data: dict[str, Any]) -> dict[str, Any]:
    metadata = data.get("metadata")
    return metadata if isinstance(metadata, dict) else {}


# The conversation.

_CALLS_UNKNOWN = (
    "the agent does not say which tools were called: A2A has no format for tool calls, and only ADK agents report them"
)
_FIRST_WAIT, _LONGEST_WAIT = 0.1, 2.0  # seconds between polls of a task


class A2aSession(ExternalSession):
    """One conversation: one context, and one task as long as the agent asks for more. Sessions share connections."""

    def __init__(self, peer: Peer, client: Client, request: dict[str, Any], emit_span: base.EmitSpan) -> None:
        super().__init__(peer.target, request, emit_span)
        self._peer = peer
        self._client = client
        self._context_id = ""
        self._task_id = ""
        self._open: set[str] = set()  # tasks that the agent works on or waits with
        self._known: dict[Any, Any] = {}

    async def ask(self, content: dict[str, Any], prompt: str, index: int, traceparent: str) -> dict[str, Any]:  # noqa: ARG002
        """See `ExternalSession.ask`. Raises AgentFault if there is no answer."""
        turn = A2aTurn(self._known)
        try:
            request = self._build_message(content)
            answer = await self._answer(request, turn, traceparent)
        except BaseException:  # including cancellation and timeout: the task is no longer needed
            self._note_task(turn)
            await self._cancel_tasks()
            raise
        self._note_task(turn)
        self._context_id = turn.context_id or self._context_id
        self._task_id = turn.task_id if turn.state == "TASK_STATE_INPUT_REQUIRED" else ""
        attributes = {
            "a2a.context_id": self._context_id,
            "a2a.task_id": turn.task_id,
            "a2a.task_state": turn.state,
            "traceparent": traceparent,
        }
        return {**answer, "attributes": {name: value for name, value in attributes.items() if value}}

    def state(self) -> Any:
        """Return None: A2A does not report state. See `base.Session.state`."""
        return None

    def describe(self) -> dict[str, Any]:
        """Describe the agent by its card. See `base.Session.describe`."""
        card = self._peer.card
        skills = (f"{skill.get('name')}: {skill.get('description')}" for skill in card.get("skills") or ())
        part = {
            "name": card.get("name") or self._target["name"],
            "type": "a2a",
            "description": "\n".join([card.get("description") or "", *skills]).strip(),
        }
        return {"agents": [part], "unknown": ["its instructions and its tools: an agent card has only skills"]}

    async def close(self) -> dict[str, Any]:
        """Ask the agent to cancel open tasks. See `base.Session.close`."""
        await self._cancel_tasks()
        return await super().close()

    def _build_message(self, content: dict[str, Any]) -> SendMessageRequest:
        message = {
            "messageId": uuid.uuid4().hex,
            "role": "ROLE_USER",
            "parts": [_convert_part(part) for part in content.get("parts") or () if part],
            "contextId": self._context_id,
            "taskId": self._task_id,
        }
        return ParseDict({"message": message}, SendMessageRequest())

    def _note_task(self, turn: A2aTurn) -> None:
        """Note whether the task of a turn is open. An open task that the turn does not name stays open."""
        if turn.is_open:
            self._open.add(turn.task_id)
        else:
            self._open.discard(turn.task_id)

    async def _cancel_tasks(self) -> None:
        tasks, self._open = self._open, set()
        await asyncio.gather(*(self._peer.cancel_task(task_id) for task_id in tasks))

    async def _answer(self, request: SendMessageRequest, turn: A2aTurn, traceparent: str) -> dict[str, Any]:
        variables = self._peer.variables
        try:
            await self._exchange(request, turn, traceparent)
        except A2AError as error:
            raise self._describe_error(error) from None
        except (ProtobufError, ValueError, LookupError, TypeError) as error:  # from the library that reads the answer
            reason = variables.conceal(f"{type(error).__name__}: {error}")
            raise base.AgentFault(
                f"the agent {self._target['location']} gave an answer that is not A2A: {reason}"
            ) from None
        try:
            answer: dict[str, Any] = variables.conceal_secrets(read_answer(turn.answer()))
            if not answer["tool_uses"] and not turn.reports_calls:
                answer |= {"reports_calls": False, "calls_unknown_by_design": _CALLS_UNKNOWN}
        except base.AgentFault as error:
            raise base.AgentFault(variables.conceal(str(error)), kind=error.kind) from None
        return answer

    async def _exchange(self, request: SendMessageRequest, turn: A2aTurn, traceparent: str) -> None:
        """Send the message and take the events. Poll an agent that continues without a stream until it is done."""
        context = ClientCallContext(service_parameters={"traceparent": traceparent})
        async for event in self._client.send_message(request, context=context):
            turn.take(MessageToDict(event))
        wait = _FIRST_WAIT
        while turn.state in UNDER_WAY and turn.task_id:
            await asyncio.sleep(wait)
            wait = min(wait * 2, _LONGEST_WAIT)
            turn.take_task(MessageToDict(await self._client.get_task(GetTaskRequest(id=turn.task_id))))

    def _describe_error(self, error: A2AError) -> base.AgentFault:
        """Return the failure for an error of the protocol or the connection."""
        place = self._target["location"]
        text = self._peer.variables.conceal(str(error)) or type(error).__name__
        for cause in _iter_causes(error):
            if isinstance(cause, httpx.HTTPStatusError):
                status = cause.response.status_code
                return base.AgentFault(f"the agent {place} answered with HTTP {status}", kind=classify_status(status))
            if isinstance(cause, httpx.RequestError):
                reason = self._peer.variables.conceal(str(cause)) or type(cause).__name__
                return base.AgentFault(f"the agent {place} cannot be reached: {reason}", kind="infrastructure")
        if isinstance(error, A2AClientError):
            return base.AgentFault(f"the agent {place} gave an answer that is not A2A: {text}")
        return base.AgentFault(f"the agent {place} answered with an error: {type(error).__name__}: {text}")


def _convert_part(part: dict[str, Any]) -> dict[str, Any]:
    """Convert a part of a user message to one of the protocol."""
    if part.get("text") is not None:
        return {"text": part["text"]}
    data = part.get("inline_data") or {}
    if data.get("data"):
        raw = data["data"].replace("-", "+").replace("_", "/")
        return {"raw": raw, "mediaType": data.get("mime_type") or ""}
    file = part.get("file_data") or {}
    if file.get("file_uri"):
        return {"url": file["file_uri"], "mediaType": file.get("mime_type") or ""}
    found = ", ".join(part)
    raise base.AgentFault(
        f"the user content has a part with {found}, expected text, data or a file", kind="unsupported"
    )


def _iter_causes(error: BaseException) -> Iterator[BaseException]:
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__
