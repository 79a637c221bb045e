"""What an A2A agent did in one turn, gathered from its messages, the updates of its task, and the artefacts.

Everything is JSON as the protocol spells it (camelCase keys). Calls of tools are data parts that ADK's converter marks:
`metadata.adk_type` is `function_call` or `function_response`.
"""

from __future__ import annotations

import json
from typing import Any

from ..base import AgentFault
from ..foreign import in_json

FINISHED = ("TASK_STATE_COMPLETED", "TASK_STATE_INPUT_REQUIRED")
"""States in which a turn has an answer; in the second the next turn belongs to the same task."""
UNDER_WAY = ("TASK_STATE_SUBMITTED", "TASK_STATE_WORKING")
"""States in which the agent goes on by itself."""
_REFUSED = {
    "TASK_STATE_FAILED": "failed",
    "TASK_STATE_REJECTED": "was rejected",
    "TASK_STATE_CANCELED": "was cancelled",
}
_INPUT_REQUIRED = "TASK_STATE_INPUT_REQUIRED"
_AUTH_REQUIRED = "TASK_STATE_AUTH_REQUIRED"
_TOKENS = "adk_usage_metadata"
_USAGE = {
    "prompt": "promptTokenCount",
    "tool_use_prompt": "toolUsePromptTokenCount",
    "candidates": "candidatesTokenCount",
    "thoughts": "thoughtsTokenCount",
    "cached": "cachedContentTokenCount",
    "total": "totalTokenCount",
}


class Said:
    """What an agent said at once: parts with the name of who did, and the tokens that it told of."""

    def __init__(self, parts: list[dict[str, Any]], metadata: dict[str, Any], *, between: str) -> None:
        """`between` stands between texts of several parts."""
        self.parts = parts
        self.metadata = metadata
        self.author = str(metadata.get("adk_author") or "agent")
        self._between = between

    @property
    def text(self) -> str:
        """Its text, thoughts left out."""
        texts = (part["text"] for part in self.parts if part.get("text") and not _meta(part).get("adk_thought"))
        return self._between.join(texts) or _json_text(self.parts)


class Turn:
    """What comes of one user message. `known` has what earlier turns told: the parts of messages by their id, those of
    artefacts by task and id, and the tokens of tasks."""

    def __init__(self, known: dict[Any, Any]) -> None:
        self._known = known
        self._messages: dict[str, Said] = {}
        self._artefacts: dict[tuple[str, str], Said] = {}  # by the task, too: the id is unique only in there
        self._order: list[Said] = []
        self._usage: dict[str, int] = {}
        self._usage_of_tasks: dict[tuple[str, str], Any] = {}
        self._status: Said | None = None
        self._is_of_adk = False
        self.state = ""
        self.context_id = ""
        self.task_id = ""

    @property
    def is_open(self) -> bool:
        """Whether there is a task that the agent works at, or waits with."""
        return bool(self.task_id) and self.state in (*UNDER_WAY, _INPUT_REQUIRED, _AUTH_REQUIRED)

    @property
    def tells_calls(self) -> bool:
        """Whether no call means that no tool was called: what ADK serves tells of each, and marks all that it says."""
        return self._is_of_adk

    def take(self, event: dict[str, Any]) -> None:
        """One event of a stream, or the one answer where there is no stream: it has one of four keys."""
        if "message" in event:
            self._belongs(event["message"])
            self._take_message(event["message"], event["message"])
            self.state = "TASK_STATE_COMPLETED"
            self.task_id = ""
        elif "task" in event:
            self.take_task(event["task"])
        elif "statusUpdate" in event:
            update = event["statusUpdate"]
            self._belongs(update)
            self._take_status(update.get("status") or {}, _meta(update))
        elif "artifactUpdate" in event:
            update = event["artifactUpdate"]
            self._belongs(update)
            artefact = update.get("artifact") or {}
            told = {**artefact, "metadata": {**_meta(artefact), **_meta(update)}}  # ADK names the author in the update
            self._take_artefact(told, append=bool(update.get("append")))
            self._count(_meta(update))

    def take_task(self, task: dict[str, Any]) -> None:
        """A task as it is now: what it holds and was said before is not new."""
        self._belongs({**task, "taskId": task.get("id", "")})
        for message in task.get("history") or ():
            if message.get("role") == "ROLE_AGENT":
                self._take_message(message, message)
        for artefact in task.get("artifacts") or ():
            if self._known.get((self.task_id, artefact.get("artifactId", ""))) != artefact.get("parts"):
                self._take_artefact(artefact, append=False)
        # What a task tells of tokens it tells again whenever it is asked for.
        self._usage_of_tasks["usage of", self.task_id] = _meta(task).get(_TOKENS)
        told = {key: value for key, value in _meta(task).items() if key != _TOKENS}
        self._take_status(task.get("status") or {}, told)

    def answer(self) -> dict[str, Any]:
        """The turn in the shape that `answers.read_answer` reads. Raises AgentFault where it brought no answer."""
        self._refuse()
        uses, responses = _calls_in(self._order)
        response, final = self._response(has_calls=bool(uses))
        if response is None and not uses and self.state == _INPUT_REQUIRED:
            raise AgentFault("the agent's task asks for input (input-required), and does not say for which")
        if response is None and not uses:
            raise AgentFault("the agent ended the turn without text, data or calls of tools")
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

    def _refuse(self) -> None:
        said = self._status.text if self._status is not None else ""
        reason = f": {said}" if said else ""
        if self.state in _REFUSED:
            raise AgentFault(f"the agent's task {_REFUSED[self.state]}{reason}")
        if self.state == _AUTH_REQUIRED:
            message = "the agent wants other credentials than the target's headers have (auth-required)"
            raise AgentFault(message + reason, kind="setup")
        if not self.state:
            raise AgentFault("the agent gave neither a message nor a task with a state")
        if self.state not in FINISHED:
            raise AgentFault(f"the agent left its task in the state {self.state}{reason}")

    def _response(self, *, has_calls: bool) -> tuple[str | None, list[Said]]:
        """The text of the answer, and what it was made of: artefacts, else the last message."""
        artefacts = [said for said in self._artefacts.values() if said.text]
        if self.state == _INPUT_REQUIRED and self._status is not None and self._status.text:
            return self._status.text, [self._status]
        if has_calls:  # each event of the agent is an artefact then: the last one with text is the answer
            artefacts = artefacts[-1:]
        if artefacts:
            return "\n".join(said.text for said in artefacts), artefacts
        last = next((said for said in reversed(self._order) if said.text), None)
        return (None, []) if last is None else (last.text, [last])

    def _belongs(self, told: dict[str, Any]) -> None:
        self.context_id = told.get("contextId") or self.context_id
        self.task_id = told.get("taskId") or self.task_id
        self._is_of_adk = self._is_of_adk or _is_marked(told)

    def _take_status(self, status: dict[str, Any], metadata: dict[str, Any]) -> None:
        self.state = status.get("state") or self.state
        message = status.get("message")
        if message:
            self._status = self._take_message(message, {"metadata": {**_meta(message), **metadata}})
        elif _TOKENS in metadata:
            self._count(metadata)

    def _take_message(self, message: dict[str, Any], told: dict[str, Any]) -> Said:
        key = message.get("messageId") or f"#{len(self._order)}"
        said = Said(message.get("parts") or [], _meta(told), between="\n")
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
            # Parts of an artefact are as a rule chunks of one text, which servers do not put together.
            said = self._artefacts[key] = Said(list(parts), _meta(artefact), between="")
            self._order.append(said)
        elif append:
            before.parts += parts
        else:
            before.parts = list(parts)

    def _count(self, metadata: dict[str, Any]) -> None:
        counts = metadata.get(_TOKENS)
        if not isinstance(counts, dict) or metadata.get("adk_partial"):
            return
        for name, key in _USAGE.items():
            count = counts.get(key)
            if isinstance(count, (int, float)):  # numbers of the protocol have no integers
                self._usage[name] = self._usage.get(name, 0) + int(count)


def _calls_in(said: list[Said]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Calls of tools and their results, each once: ADK tells what its last message held again as an artefact."""
    uses: list[dict[str, Any]] = []
    responses: list[dict[str, Any]] = []
    seen: set[tuple[str, str]] = set()
    for part in (part for item in said for part in item.parts):
        data = part.get("data")
        kind = _kind(part)
        if kind not in ("function_call", "function_response"):
            continue
        if not isinstance(data, dict):
            raise AgentFault(f"the agent sent a {kind} with {in_json(data)} as data, expected an object with a name")
        told = uses if kind == "function_call" else responses
        call_id = data.get("id")
        if call_id is not None and (kind, str(call_id)) in seen:
            continue
        seen.add((kind, str(call_id)))
        found = {"id": call_id, "name": data.get("name")}
        told.append(
            {**found, "args": _whole(data.get("args") or {})}
            if told is uses
            else {**found, "response": _whole(data.get("response"))}
        )
    return uses, responses


def _is_marked(told: Any) -> bool:
    """Whether ADK has noted something of its own on what was said, or on a part of it."""
    if isinstance(told, list):
        return any(map(_is_marked, told))
    if not isinstance(told, dict):
        return False
    return any(key.startswith("adk_") for key in _meta(told)) or any(map(_is_marked, told.values()))


def _whole(value: Any) -> Any:
    """The value with whole numbers as such: data of the protocol knows only floating ones."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    if isinstance(value, dict):
        return {key: _whole(item) for key, item in value.items()}
    return [_whole(item) for item in value] if isinstance(value, list) else value


def _json_text(parts: list[dict[str, Any]]) -> str:
    """Data that is no call of a tool, as text: agents answer with it where a program is to read the answer.

    Keys are sorted: the protocol keeps no order.
    """
    told = [
        part["data"]
        for part in parts
        if "data" in part and not (_meta(part).get("adk_type") or _meta(part).get("type"))
    ]
    return "\n".join(json.dumps(_whole(data), ensure_ascii=False, sort_keys=True) for data in told)


def _kind(part: dict[str, Any]) -> Any:
    return _meta(part).get("adk_type") or _meta(part).get("type")


def _meta(told: dict[str, Any]) -> dict[str, Any]:
    metadata = told.get("metadata")
    return metadata if isinstance(metadata, dict) else {}
