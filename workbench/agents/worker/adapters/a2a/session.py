"""One conversation with an A2A agent: one context, and one task as long as the agent asks for more."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator
from typing import Any

import httpx
from a2a.client import A2AClientError, Client, ClientCallContext
from a2a.types import GetTaskRequest, SendMessageRequest
from a2a.utils.errors import A2AError
from google.protobuf.json_format import Error as ProtobufError
from google.protobuf.json_format import MessageToDict, ParseDict

from ...responses import read_answer
from .. import base
from ..foreign import ForeignSession
from .card import Peer
from .reading import UNDER_WAY, Turn

_UNTOLD = "the agent does not say which tools were called: A2A has no form for that, and only agents of ADK tell it"
_FIRST_WAIT, _LONGEST_WAIT = 0.1, 2.0  # seconds between questions how a task is getting on


class A2aSession(ForeignSession):
    """Asks over the connections that the sessions of a process share."""

    def __init__(self, peer: Peer, client: Client, request: dict[str, Any], emit_span: base.EmitSpan) -> None:
        super().__init__(peer.target, request, emit_span)
        self._peer = peer
        self._client = client
        self._context_id = ""
        self._task_id = ""
        self._open: set[str] = set()  # tasks that the agent works at, or waits with
        self._known: dict[Any, Any] = {}

    async def ask(self, content: dict[str, Any], prompt: str, index: int, traceparent: str) -> dict[str, Any]:  # noqa: ARG002
        """See `ForeignSession.ask`. Raises AgentFault for whatever came instead of an answer."""
        turn = Turn(self._known)
        try:
            request = self._message(content)
            answer = await self._answer(request, turn, traceparent)
        except BaseException:  # a cancellation or timeout included: nobody waits for the task any more
            self._note_task(turn)
            await self._cancel_tasks()
            raise
        self._note_task(turn)
        self._context_id = turn.context_id or self._context_id
        self._task_id = turn.task_id if turn.state == "TASK_STATE_INPUT_REQUIRED" else ""
        told = {
            "a2a.context_id": self._context_id,
            "a2a.task_id": turn.task_id,
            "a2a.task_state": turn.state,
            "traceparent": traceparent,
        }
        return {**answer, "attributes": {name: value for name, value in told.items() if value}}

    def state(self) -> Any:
        """None: A2A tells nothing of it. See `base.Session.state`."""
        return None

    def describe(self) -> dict[str, Any]:
        """What the card says. See `base.Session.describe`."""
        card = self._peer.card
        skills = (f"{skill.get('name')}: {skill.get('description')}" for skill in card.get("skills") or ())
        part = {
            "name": card.get("name") or self._target["name"],
            "type": "a2a",
            "description": "\n".join([card.get("description") or "", *skills]).strip(),
        }
        return {"agents": [part], "untold": ["its instructions and its tools: an agent card has only skills"]}

    async def close(self) -> dict[str, Any]:
        """Have the agent cancel what it still waits with. See `base.Session.close`."""
        await self._cancel_tasks()
        return await super().close()

    def _message(self, content: dict[str, Any]) -> SendMessageRequest:
        message = {
            "messageId": uuid.uuid4().hex,
            "role": "ROLE_USER",
            "parts": [_part(part) for part in content.get("parts") or () if part],
            "contextId": self._context_id,
            "taskId": self._task_id,
        }
        return ParseDict({"message": message}, SendMessageRequest())

    def _note_task(self, turn: Turn) -> None:
        """Keep in mind whether the task of a turn is open. One that was, and that the turn does not name, still is."""
        if turn.is_open:
            self._open.add(turn.task_id)
        else:
            self._open.discard(turn.task_id)

    async def _cancel_tasks(self) -> None:
        tasks, self._open = self._open, set()
        await asyncio.gather(*(self._peer.cancel_task(task_id) for task_id in tasks))

    async def _answer(self, request: SendMessageRequest, turn: Turn, traceparent: str) -> dict[str, Any]:
        """See `ask`."""
        variables = self._peer.variables
        try:
            await self._exchange(request, turn, traceparent)
        except A2AError as error:
            raise self._fault(error) from None
        except (ProtobufError, ValueError, LookupError, TypeError) as error:  # of the library, which reads the answer
            reason = variables.conceal(f"{type(error).__name__}: {error}")
            raise base.AgentFault(
                f"the agent {self._target['location']} gave no answer that is A2A: {reason}"
            ) from None
        try:
            answer: dict[str, Any] = variables.conceal_secrets(read_answer(turn.answer()))
            if not answer["tool_uses"] and not turn.tells_calls:
                answer |= {"tells_calls": False, "calls_untold": _UNTOLD}
        except base.AgentFault as error:
            raise base.AgentFault(variables.conceal(str(error)), kind=error.kind) from None
        return answer

    async def _exchange(self, request: SendMessageRequest, turn: Turn, traceparent: str) -> None:
        """Send the message and take in what comes; where the agent goes on without a stream, ask until it is done."""
        context = ClientCallContext(service_parameters={"traceparent": traceparent})
        async for event in self._client.send_message(request, context=context):
            turn.take(MessageToDict(event))
        wait = _FIRST_WAIT
        while turn.state in UNDER_WAY and turn.task_id:
            await asyncio.sleep(wait)
            wait = min(wait * 2, _LONGEST_WAIT)
            turn.take_task(MessageToDict(await self._client.get_task(GetTaskRequest(id=turn.task_id))))

    def _fault(self, error: A2AError) -> base.AgentFault:
        """An error of the protocol or the connection, in words."""
        place = self._target["location"]
        text = self._peer.variables.conceal(str(error)) or type(error).__name__
        for cause in _causes(error):
            if isinstance(cause, httpx.HTTPStatusError):
                status = cause.response.status_code
                kind = "infrastructure" if status in (408, 425, 429) or status >= 500 else "agent"
                return base.AgentFault(f"the agent {place} answered with HTTP {status}", kind=kind)
            if isinstance(cause, httpx.RequestError):
                reason = self._peer.variables.conceal(str(cause)) or type(cause).__name__
                return base.AgentFault(f"the agent {place} cannot be reached: {reason}", kind="infrastructure")
        if isinstance(error, A2AClientError):
            return base.AgentFault(f"the agent {place} gave no answer that is A2A: {text}")
        return base.AgentFault(f"the agent {place} answered with an error: {type(error).__name__}: {text}")


def _part(part: dict[str, Any]) -> dict[str, Any]:
    """A part of a user content as one of the protocol's."""
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


def _causes(error: BaseException) -> Iterator[BaseException]:
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__
