"""Where the agent and the metric functions of a task run: in the caller's process, as the objects that they are."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any

from workbench.agents.host import (
    AgentError,
    CustomScoreAnswer,
    CustomScoreRequest,
    HeldUp,
    OnOpened,
    OnSpan,
    SessionEnd,
    SessionRequest,
)
from workbench.agents.scores import instance_of, read_scores
from workbench.agents.worker.faults import describe_failure
from workbench.agents.worker.scoring import RowMetric
from workbench.model.agent import AgentDescription, AgentPart
from workbench.model.evalset import Content
from workbench.model.results import Failure, FailureKind, TurnResult
from workbench.model.text import mask_data
from workbench.model.trace import Span
from workbench.testing.evaluation.calling import Calls, FunctionRaised, held_up, in_own_thread
from workbench.testing.evaluation.runnables import Agent


class CallingHost:
    """Calls what it is given. An `AgentHost` for one task; `close` leaves calls alone that do not come back."""

    def __init__(self, calls: Calls, *, agent: Agent | None, functions: Mapping[str, Callable[..., Any]]) -> None:
        """`functions` are the metric functions, by the name of their metric."""
        self._calls = calls
        self._agent = agent
        self._functions = functions

    def prepare(self, *, cases: int) -> None:
        """See `AgentHost.prepare`: there is nothing to start."""

    def renew(self) -> None:
        """See `AgentHost.renew`: the objects are as they are."""

    async def open(
        self, request: SessionRequest, *, on_span: OnSpan, on_opened: OnOpened = lambda: None
    ) -> CallingSession:
        """See `AgentHost.open`."""
        assert self._agent is not None  # a plan without agent has no case that needs one
        calls = self._calls.alone() if request.alone else self._calls
        on_opened()
        return CallingSession(self._agent, request, calls, on_span=on_span)

    async def score(self, request: CustomScoreRequest) -> CustomScoreAnswer:
        """See `AgentHost.score`."""
        metric = RowMetric(request.metric, self._functions[request.metric])
        try:
            # Copies: what one function does to its row is nothing to the next one, nor to the result.
            instances = [deepcopy(instance_of(request, number)) for number in range(len(request.actual))]
            told = await self._calls.call(metric.score, {"metric": request.metric, "instances": instances})
            return read_scores(told, None)
        except Exception as raised:  # the function is the caller's: whatever it raises costs this row
            error = _raised(raised)
            failed = describe_failure(error, raised_by="the metric")
            message = f"{request.metric}: {failed['message']}"
            raise AgentError(
                Failure(kind=FailureKind.METRIC, message=message, traceback=failed["traceback"])
            ) from error

    async def close(self) -> None:
        """See `AgentHost.close`."""
        self._calls.close()


class CallingSession:
    """One prompt. The `AgentSession` of `CallingHost`: what an adapter does in a worker, done here."""

    def __init__(self, agent: Agent, request: SessionRequest, calls: Calls, *, on_span: OnSpan) -> None:
        """Where `request` wants to be alone, `calls` are of this session only, and are closed with it."""
        self._agent = agent
        self._request = request
        self._calls = calls
        self._on_span = on_span
        self._loop = asyncio.get_running_loop()
        self._session: Any = None  # from the first turn on
        self._held_up: HeldUp | None = None

    @property
    def dependencies(self) -> None:
        """See `AgentSession.dependencies`: in the caller's process nobody can tell what an agent depends on."""
        return None

    async def turn(self, content: Content, *, turn: int, last: bool = False) -> TurnResult:  # noqa: ARG002 - ends at once
        """See `AgentSession.turn`."""
        try:
            if self._session is None:
                self._session = await self._done(self._open)
            said = content.model_dump(mode="json", exclude_none=True)
            told = mask_data(await self._calls.call(self._session.turn, said, turn))
            for span in told.pop("spans", ()):
                self._on_span(Span.model_validate(span))
            return TurnResult.model_validate(told)
        except asyncio.CancelledError as cancelled:
            self._held_up = held_up(cancelled)
            raise
        except AgentError:
            raise
        except Exception as raised:  # the agent is the caller's: whatever it raises costs this row
            error = _raised(raised)
            raise AgentError(Failure.model_validate({**describe_failure(error), "turn": turn})) from error

    async def state(self) -> dict[str, Any] | None:
        """See `AgentSession.state`."""
        state: dict[str, Any] | None = None if self._session is None else await self._done(self._session.state)
        return mask_data(state)  # type: ignore[no-any-return]

    async def describe(self) -> AgentDescription:
        """See `AgentSession.describe`."""
        return AgentDescription(agents=(AgentPart(name=self._agent.name),))

    async def finish(self) -> SessionEnd:
        """See `AgentSession.finish`."""
        if self._session is None:
            return SessionEnd()
        return SessionEnd(final_state=mask_data((await self._done(self._session.close))["final_state"]))

    async def stop(self) -> SessionEnd:
        """See `AgentSession.stop`."""
        return await self.kill()

    async def kill(self) -> SessionEnd:
        """See `AgentSession.kill`: a call cannot be ended, and is left alone."""
        if self._request.alone:
            await in_own_thread(self._calls.close)
        return SessionEnd(held_up=self._held_up)

    def _open(self) -> Any:
        """The session of the adapter, or what is to be awaited for it."""
        asked = {
            "app_name": self._request.app_name,
            "user_id": self._request.user_id,
            "session_id": self._request.session_id,
            "state": dict(self._request.state),
            "collect_spans": self._request.collect_spans,
        }
        return self._agent.open(asked, self._tell_from_thread)

    async def _done(self, ask: Callable[[], Any]) -> Any:
        """What the adapter gives for that, which never blocks. Raises AgentError."""
        try:
            return await self._calls.settle(ask())
        except Exception as raised:  # what is asked about is the caller's, and so are the objects in it
            error = _raised(raised)
            raise AgentError(Failure.model_validate(describe_failure(error))) from error

    def _tell_from_thread(self, span: dict[str, Any]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: the call was given up long ago
            self._loop.call_soon_threadsafe(self._tell, span)

    def _tell(self, span: dict[str, Any]) -> None:
        self._on_span(Span.model_validate(span))


def _raised(error: Exception) -> BaseException:
    """What a function of the caller raised; an error about what it gave is that error itself."""
    return error.error if isinstance(error, FunctionRaised) else error
