"""The calls of tools that a worker process asks about, and the answers on their way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from workbench.agents.channel import Message
from workbench.agents.host import AgentError, ToolAnswer, ToolCall, ToolDesk, ToolOutcome
from workbench.model.results import Failure, FailureKind


class AskedCalls:
    """The questions of one session: each is answered in a task of its own, as agents call tools side by side."""

    def __init__(self, session: int, desk: ToolDesk, *, give_up: Callable[[AgentError], None]) -> None:
        """`give_up` hears of a question that has no answer."""
        self._session = session
        self._desk = desk
        self._give_up = give_up
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def wanted(self) -> Mapping[str, Any]:
        """See `ToolDesk.wanted`."""
        return self._desk.wanted

    def hear(self, message: Message, send: Callable[[Message], None]) -> None:
        """A question, or what came of a call."""
        if message["type"] == "told":
            self._desk.told(message["ask"], _outcome(message))
            return
        call = ToolCall(
            number=message["ask"], tool=message["tool"], args=message["args"], declaration=message["declaration"]
        )
        task = asyncio.get_running_loop().create_task(self._answer(call, send))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def drop(self) -> None:
        """Nobody waits any more."""
        for task in list(self._tasks):
            if task is not asyncio.current_task():
                task.cancel()

    async def _answer(self, call: ToolCall, send: Callable[[Message], None]) -> None:
        try:
            answer = await self._desk.answer(call)
        except AgentError as error:
            self._give_up(error)
        except Exception as error:  # a fault of ours must end this case, and be seen
            message = f"workbench itself failed while it answered for the tool {call.tool}: {error!r}"
            self._give_up(AgentError(Failure(kind=FailureKind.CRASH, message=message)))
        else:
            send({"type": "answer", "session": self._session, "ask": call.number, **_as_message(answer)})


def _as_message(answer: ToolAnswer) -> Message:
    told: Message = {"source": answer.source, "tell": answer.tell}
    if answer.source is not None:
        outcome = answer.outcome
        told.update(response=outcome.response, error=outcome.error, actions=dict(outcome.actions))
    return told


def _outcome(message: Message) -> ToolOutcome:
    return ToolOutcome(
        response=message.get("response"),
        error=message.get("error"),
        actions=message.get("actions") or {},
        unfit=message.get("unfit"),
    )
