"""One conversation with an A2A agent: one context, and one task as long as the agent asks for more."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator
from typing import Any

import httpx
from a2a.client import A2AClientError, Client
from a2a.types import GetTaskRequest, SendMessageRequest
from a2a.utils.errors import A2AError
from google.protobuf.json_format import Error as ProtobufError
from google.protobuf.json_format import MessageToDict, ParseDict

from ...answers import read_answer
from .. import base
from ..foreign import ForeignSession
from .card import Peer
from .reading import Turn

_UNDER_WAY = ("TASK_STATE_SUBMITTED", "TASK_STATE_WORKING")
_FIRST_WAIT, _LONGEST_WAIT = 0.1, 2.0  # seconds between questions how a task is getting on


class A2aSession(ForeignSession):
    """Asks over the connections that the sessions of a process share."""

    def __init__(self, peer: Peer, client: Client, request: dict[str, Any], emit_span: base.EmitSpan) -> None:
        super().__init__(peer.target, request, emit_span)
        self._peer = peer
        self._client = client
        self._context_id = ""
        self._task_id = ""
        self._known: dict[Any, Any] = {}

    async def ask(self, content: dict[str, Any], prompt: str, index: int) -> dict[str, Any]:  # noqa: ARG002
        """See `ForeignSession.ask`. Raises AgentFault for whatever came instead of an answer."""
        message = {
            "messageId": uuid.uuid4().hex,
            "role": "ROLE_USER",
            "parts": [_part(part) for part in content.get("parts") or () if part],
            "contextId": self._context_id,
            "taskId": self._task_id,
        }
        request = ParseDict({"message": message}, SendMessageRequest())
        turn = Turn(self._known)
        try:
            await self._exchange(request, turn)
        except A2AError as error:
            raise self._fault(error) from None
        except (ProtobufError, ValueError, LookupError, TypeError) as error:  # of the library, which reads the answer
            reason = self._peer.variables.conceal(f"{type(error).__name__}: {error}")
            raise base.AgentFault(
                f"the agent {self._target['location']} gave no answer that is A2A: {reason}"
            ) from None
        variables = self._peer.variables
        try:
            answer = variables.conceal_secrets(read_answer(turn.answer()))
        except base.AgentFault as error:
            raise base.AgentFault(variables.conceal(str(error)), kind=error.kind) from None
        self._context_id = turn.context_id or self._context_id
        self._task_id = turn.task_id if turn.state == "TASK_STATE_INPUT_REQUIRED" else ""
        told = {"a2a.context_id": self._context_id, "a2a.task_id": turn.task_id, "a2a.task_state": turn.state}
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

    async def _exchange(self, request: SendMessageRequest, turn: Turn) -> None:
        """Send the message and take in what comes; where the agent goes on without a stream, ask until it is done."""
        async for event in self._client.send_message(request):
            turn.take(MessageToDict(event))
        wait = _FIRST_WAIT
        while turn.state in _UNDER_WAY and turn.task_id:
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
