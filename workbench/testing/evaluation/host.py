"""Where the agent and the metric functions of a task run: in the caller's process, as the objects that they are."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from copy import deepcopy
from typing import Any

from workbench.agents.host import (
    AgentError,
    CustomScoreAnswer,
    CustomScoreRequest,
    OnSpan,
    SessionEnd,
    SessionRequest,
)
from workbench.agents.scores import read_scores
from workbench.agents.worker.adapters import function
from workbench.agents.worker.faults import describe_failure
from workbench.agents.worker.scoring import RowMetric
from workbench.model.agent import AgentDescription, AgentPart
from workbench.model.evalset import Content, Invocation
from workbench.model.results import Failure, FailureKind, TurnResult
from workbench.model.trace import Span
from workbench.model.trajectory import trajectory_of
from workbench.testing.evaluation.calling import Calls, FunctionRaised
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

    async def open(self, request: SessionRequest, *, on_span: OnSpan) -> CallingSession:
        """See `AgentHost.open`."""
        assert self._agent is not None  # a plan without agent has no case that needs one
        return CallingSession(self._agent, self._calls, request, on_span=on_span)

    async def score(self, request: CustomScoreRequest) -> CustomScoreAnswer:
        """See `AgentHost.score`."""
        metric = RowMetric(request.metric, self._functions[request.metric])
        try:
            # Copies: what one function does to its row is nothing to the next one, nor to the result.
            instances = [deepcopy(_instance(request, number)) for number in range(len(request.actual))]
            told = await self._calls.call(metric.score, {"metric": request.metric, "instances": instances})
            return read_scores(told, None)
        except Exception as raised:  # the function is the caller's: whatever it raises costs this row
            error = _raised(raised)
            failed = describe_failure(error)
            message = f"{request.metric}: {failed['message']}"
            raise AgentError(
                Failure(kind=FailureKind.METRIC, message=message, traceback=failed["traceback"])
            ) from error

    async def close(self) -> None:
        """See `AgentHost.close`."""
        self._calls.close()


class CallingSession:
    """One prompt. The `AgentSession` of `CallingHost`."""

    def __init__(self, agent: Agent, calls: Calls, request: SessionRequest, *, on_span: OnSpan) -> None:
        self._agent = agent
        self._calls = calls
        self._on_span = on_span
        self._loop = asyncio.get_running_loop()
        self._tells_trajectory = False
        # Functions answer here as they do in workers, and leave the same trace.
        self._session = function.Session(
            name=getattr(agent, "__name__", "agent"),
            call=self._call,
            request={
                "app_name": request.app_name,
                "user_id": request.user_id,
                "session_id": request.session_id,
                "state": dict(request.state),
                "collect_spans": request.collect_spans,
            },
            emit_span=self._tell_from_thread,
            describe=dict,
        )

    @property
    def dependencies(self) -> None:
        """See `AgentSession.dependencies`: in the caller's process nobody can tell what an agent depends on."""
        return None

    async def turn(self, content: Content, *, turn: int) -> TurnResult:
        """See `AgentSession.turn`.

        An agent that says nothing of a trajectory has none, which is not the same as one that called no tool.
        """
        try:
            told = await self._calls.call(self._session.turn, content.model_dump(mode="json", exclude_none=True), turn)
            for span in told.pop("spans"):
                self._on_span(Span.model_validate(span))
            if not self._tells_trajectory:
                told["invocation"]["intermediate_data"] = None
            return TurnResult.model_validate(told)
        except Exception as raised:  # the agent is the caller's: whatever it raises costs this row
            error = _raised(raised)
            raise AgentError(Failure.model_validate({**describe_failure(error), "turn": turn})) from error

    async def state(self) -> dict[str, Any] | None:
        """See `AgentSession.state`."""
        return self._session.state()

    async def describe(self) -> AgentDescription:
        """See `AgentSession.describe`."""
        return AgentDescription(agents=(AgentPart(name=getattr(self._agent, "__name__", "agent")),))

    async def finish(self) -> SessionEnd:
        """See `AgentSession.finish`."""
        return SessionEnd(final_state=self._session.state())

    async def kill(self) -> SessionEnd:
        """See `AgentSession.kill`: a call cannot be ended, and is left alone."""
        return SessionEnd()

    def _call(self, prompt: str, _session: object) -> Any:
        value = self._agent(prompt)
        return self._noted_later(value) if hasattr(type(value), "__await__") else self._noted(value)

    async def _noted_later(self, value: Awaitable[Any]) -> Any:
        return self._noted(await value)

    def _noted(self, value: Any) -> Any:
        self._tells_trajectory = isinstance(value, dict) and value.get("predicted_trajectory") is not None
        return value

    def _tell_from_thread(self, span: dict[str, Any]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: the call was given up long ago
            self._loop.call_soon_threadsafe(self._tell, span)

    def _tell(self, span: dict[str, Any]) -> None:
        self._on_span(Span.model_validate(span))


def _raised(error: Exception) -> BaseException:
    """What a function of the caller raised; an error about what it gave is that error itself."""
    return error.error if isinstance(error, FunctionRaised) else error


def _instance(request: CustomScoreRequest, number: int) -> dict[str, Any]:
    """The row that a metric function gets."""
    actual = request.actual[number]
    expected = request.expected[number] if request.expected and number < len(request.expected) else None
    return {
        **request.columns,
        "prompt": actual.user_content.text() or None,
        "response": _text(actual),
        "predicted_trajectory": _trajectory(actual),
        "reference": _text(expected),
        "reference_trajectory": _trajectory(expected),
    }


def _text(invocation: Invocation | None) -> str | None:
    return None if invocation is None or invocation.final_response is None else invocation.final_response.text()


def _trajectory(invocation: Invocation | None) -> list[dict[str, Any]] | None:
    if invocation is None or invocation.intermediate_data is None:
        return None
    return [{"tool_name": call.name, "tool_input": call.args or {}} for call in trajectory_of(invocation)]
