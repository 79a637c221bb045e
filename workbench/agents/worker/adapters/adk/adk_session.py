"""One conversation with an ADK agent, on services that live in memory and end with it."""

from __future__ import annotations

import time
import traceback
import uuid
from collections.abc import Callable
from contextlib import aclosing
from typing import Any

from ...steps import as_json
from ..base import AgentFault, EmitSpan, Session
from .adk_tools import description_of
from .adk_tracing import Trace, TurnEvents, app_details_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from workbench.agents.worker.asking import Tools


# What `adk eval` uses for a case without session_input.
DEFAULT_APP_NAME = "EvaluationGenerator"
DEFAULT_USER_ID = "test_user_id"

_TEMPORARY = "temp:"
_NOT_OF_THE_AGENT = frozenset({"__llm_request_key__"})  # left behind by ADK's own evaluation plugin
_PASSING_CODES = frozenset({"408", "429", "RESOURCE_EXHAUSTED", "UNAVAILABLE", "INTERNAL", "DEADLINE_EXCEEDED"})


class AdkSession(Session):
    """A runner with services of its own.

    `release` is called when the session is over, and tells whether the agent's tools and plugins may be closed with it;
    `stack` is the exit stack that came with the agent, or None.
    """

    def __init__(
        self, *, runner: Any, session: Any, agent: Any, trace: Trace, release: Callable[[], bool], stack: Any
    ) -> None:
        self._agent = agent
        self._runner = runner
        self._session = session
        self._trace = trace
        self._release = release
        self._stack = stack

    async def turn(self, content: dict[str, Any], index: int) -> dict[str, Any]:
        """Run the agent on one user content. See `Session.turn`."""
        message = _user_content(content)
        self._trace.begin_turn(index)
        events = TurnEvents()
        told_at, started = time.time(), time.perf_counter()
        try:
            stream = self._runner.run_async(
                user_id=self._session.user_id, session_id=self._session.id, new_message=message
            )
            async with aclosing(stream):
                async for event in stream:
                    events.add(event)
            duration = time.perf_counter() - started
            _check_answered(events)
        except BaseException:  # cancelled, too. A session that failed is not closed: its process ends, or serves others
            self._release()
            raise
        finally:
            self._trace.end_turn()
        calls, usage = self._trace.inference_calls, self._trace.usage
        if not calls:
            calls, usage = events.model_calls, events.usage
        details = app_details_of(events.authors, self._trace.requests)
        return {
            "invocation": events.invocation(user_content=message, told_at=told_at, app_details=details),
            "duration_seconds": duration,
            "inference_calls": calls,
            "usage": usage or None,
            "calls_unknown": events.calls_unknown,
        }

    async def state(self) -> dict[str, Any]:
        """What the session service holds, without what ends with a turn. See `Session.state`."""
        session = await self._runner.session_service.get_session(
            app_name=self._session.app_name, user_id=self._session.user_id, session_id=self._session.id
        )
        return {
            key: as_json(value)
            for key, value in (session.state if session else {}).items()
            if not key.startswith(_TEMPORARY) and key not in _NOT_OF_THE_AGENT
        }

    def describe(self) -> dict[str, Any]:
        """See `Session.describe`."""
        return description_of(self._agent)

    async def close(self) -> dict[str, Any]:
        """Read the final state and close the runner. See `Session.close`."""
        state = await self.state()
        try:
            if self._release():
                await self._runner.close()
            if self._stack is not None:
                await self._stack.aclose()
        except Exception:  # tools and plugins of the user: by now all is answered, and a bad end is no bad answer
            traceback.print_exc()
        return {"final_state": state}


async def open_session(
    session: dict[str, Any],
    emit_span: EmitSpan,
    *,
    app: Any,
    agent: Any,
    release: Callable[[], bool],
    stack: Any,
    tools: Tools | None = None,
) -> AdkSession:
    """Open a fresh session for `app`, or for `agent` where there is no app."""
    from google.adk.apps.app import App
    from google.adk.artifacts.in_memory_artifact_service import InMemoryArtifactService
    from google.adk.memory.in_memory_memory_service import InMemoryMemoryService
    from google.adk.runners import Runner
    from google.adk.sessions.in_memory_session_service import InMemorySessionService

    from .adk_plugin import WatchPlugin
    from .adk_tools import ToolCalls

    app_name = session.get("app_name") or DEFAULT_APP_NAME
    trace = Trace(
        emit_span if session.get("collect_spans", True) else None, announce=session.get("announce_spans", False)
    )
    watch = WatchPlugin(trace, None if tools is None else ToolCalls(tools))
    if app is None:
        # Unchecked, as ADK itself wraps a bare agent: the name need not be one that a new App may have.
        watched = App.model_construct(name=app_name, root_agent=agent, plugins=[watch])
    else:
        watched = app.model_copy(update={"name": app_name, "plugins": [watch, *app.plugins]})
    services = InMemorySessionService()
    opened = await services.create_session(
        app_name=app_name,
        user_id=session.get("user_id") or DEFAULT_USER_ID,
        state=session.get("state") or {},
        session_id=session.get("session_id") or f"adk-eval-session-{uuid.uuid4()}",
    )
    runner = Runner(
        app=watched,  # its name is the session's: 1.x refuses another one beside it
        session_service=services,
        artifact_service=InMemoryArtifactService(),
        memory_service=InMemoryMemoryService(),
    )
    root = agent if app is None else app.root_agent
    return AdkSession(runner=runner, session=opened, agent=root, trace=trace, release=release, stack=stack)


def _user_content(content: dict[str, Any]) -> Any:
    from google.genai import types

    try:
        return types.Content.model_validate(content)
    except ValueError as error:
        raise AgentFault(f"the user content is none that google.genai reads: {error}", kind="unsupported") from None


def _check_answered(events: TurnEvents) -> None:
    """Raise AgentFault where the turn brought nothing, or an error of the model instead of an answer."""
    if events.invocation_id is None:
        raise AgentFault("the agent yielded no events: expected at least one in every turn")
    error = events.error
    if error is None:
        return
    code = str(getattr(error.error_code, "value", error.error_code))
    message = f"{error.author}: the model answered with error {code}: {error.error_message or 'no message'}"
    is_passing = code in _PASSING_CODES or (code.isdecimal() and 500 <= int(code) <= 599)
    raise AgentFault(message, kind="infrastructure" if is_passing else "agent")
