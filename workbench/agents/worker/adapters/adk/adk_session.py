"""Sessions with ADK agents, on in-memory services that end with them, and the warm-up of the framework."""

from __future__ import annotations

import time
import traceback
import uuid
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

from ... import faults
from ..base import AgentFault, EmitSpan, Session, classify_status
from ..object_json import as_json
from .adk_agents import describe_agent
from .adk_tracing import Trace, TurnEvents, build_app_details

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..base import InterceptedTools


# What `adk eval` uses for a case without session_input.
DEFAULT_APP_NAME = "EvaluationGenerator"
DEFAULT_USER_ID = "test_user_id"

_TEMPORARY = "temp:"
_NOT_OF_THE_AGENT = frozenset({"__llm_request_key__"})  # left behind by ADK's own evaluation plugin


class AdkSession(Session):
    """A runner with its own services.

    `release` is called when the session is over; it returns True if the agent's tools and plugins may be closed.
    `stack` is the exit stack of the agent, or None.
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
        self._pending: dict[str, str] = {}  # names of the calls that wait for an answer of the user, by id

    async def turn(self, content: dict[str, Any], index: int) -> dict[str, Any]:
        """Run the agent on one user content. See `Session.turn`."""
        from ...logged_errors import collect_logged_errors

        message = _parse_user_content(content)
        self._address_answers(message)
        self._trace.begin_turn(index)
        events = TurnEvents()
        logged = collect_logged_errors()
        sent_at, started = time.time(), time.perf_counter()
        try:
            stream = self._runner.run_async(
                user_id=self._session.user_id, session_id=self._session.id, new_message=message
            )
            async with aclosing(stream):
                async for event in stream:
                    _check_toolsets(logged.lost_toolsets)
                    events.add(event)
                    for call in event.get_function_calls() if event.long_running_tool_ids else ():
                        if call.id in event.long_running_tool_ids:
                            self._pending[call.id] = call.name
            duration = time.perf_counter() - started
            _check_answered(events)
        except BaseException as error:  # including cancellation. A failed session is not closed
            self._release()
            unfit = events.explain_unfit_result() if "serializ" in faults.summarize(error) else None
            if unfit:
                raise AgentFault(unfit) from error
            raise
        finally:
            self._trace.end_turn()
        calls, usage = self._trace.inference_calls, self._trace.usage
        if not calls:
            calls, usage = events.model_calls, events.usage
        details = build_app_details(events.authors, self._trace.requests)
        return {
            "invocation": events.build_invocation(user_content=message, sent_at=sent_at, app_details=details),
            "duration_seconds": duration,
            "inference_calls": calls,
            "usage": usage or None,
            "calls_unknown": events.calls_unknown,
            "notes": [*logged.list_notes(), *events.list_notes()],
        }

    def _address_answers(self, message: Any) -> None:
        """Give the answers of the user the ids of the calls that wait for them: ids are new in each session."""
        for part in message.parts or ():
            answer = part.function_response
            if answer is not None and answer.id not in self._pending:
                answer.id = next((key for key, name in self._pending.items() if name == answer.name), answer.id)
            if answer is not None:
                self._pending.pop(answer.id, None)

    async def state(self) -> dict[str, Any]:
        """Return the state of the session service without temporary keys. See `Session.state`."""
        session = await self._runner.session_service.get_session(
            app_name=self._session.app_name, user_id=self._session.user_id, session_id=self._session.id
        )
        return {
            key: as_json(value)
            for key, value in (session.state if session else {}).items()
            if not key.startswith(_TEMPORARY) and key not in _NOT_OF_THE_AGENT
        }

    def describe(self) -> dict[str, Any]:
        return describe_agent(self._agent)

    async def close(self) -> dict[str, Any]:
        """Read the final state and close the runner. See `Session.close`."""
        state = await self.state()
        try:
            if self._release():
                await self._runner.close()
            if self._stack is not None:
                await self._stack.aclose()
        except Exception:  # tools and plugins of the user: errors on closing do not affect the answers
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
    tools: InterceptedTools | None = None,
) -> AdkSession:
    """Open a session for `app`, or for `agent` if there is no app."""
    from google.adk.apps.app import App
    from google.adk.artifacts.in_memory_artifact_service import InMemoryArtifactService
    from google.adk.memory.in_memory_memory_service import InMemoryMemoryService
    from google.adk.runners import Runner
    from google.adk.sessions.in_memory_session_service import InMemorySessionService

    from .adk_agents import AdkToolCalls
    from .adk_plugin import TracePlugin

    app_name = session.get("app_name") or DEFAULT_APP_NAME
    trace = Trace(
        emit_span if session.get("collect_spans", True) else None, announce=session.get("announce_spans", False)
    )
    watch = TracePlugin(trace, None if tools is None else AdkToolCalls(tools))
    if app is None:
        # Without validation, as ADK wraps a bare agent: the name may be invalid for an App.
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
        app=watched,  # named like the session's app: 1.x refuses a different name
        session_service=services,
        artifact_service=InMemoryArtifactService(),
        memory_service=InMemoryMemoryService(),
    )
    root = agent if app is None else app.root_agent
    return AdkSession(runner=runner, session=opened, agent=root, trace=trace, release=release, stack=stack)


def _parse_user_content(content: dict[str, Any]) -> Any:
    from google.genai import types

    try:
        return types.Content.model_validate(content)
    except ValueError as error:
        raise AgentFault(f"google.genai cannot read the user content: {error}", kind="unsupported") from None


def _check_toolsets(lost: list[str]) -> None:
    """Raise AgentFault if a toolset could not be loaded: the agent would answer as if it never had its tools."""
    if lost:
        raise AgentFault(lost[0])


def _check_answered(events: TurnEvents) -> None:
    """Raise AgentFault if the turn has no events, or an error of the model instead of an answer."""
    if events.invocation_id is None:
        raise AgentFault("the agent yielded no events: expected at least one in every turn")
    error = events.error
    if error is None:
        return
    code = str(getattr(error.error_code, "value", error.error_code))
    message = f"{error.author}: the model answered with error {code}: {error.error_message or 'no message'}"
    raise AgentFault(message, kind=classify_status(code))


# Warm-up: a dummy run makes google-adk import its late modules before processes fork.


def run_dummy() -> None:
    """Run one turn of an agent with a model and a tool, on an event loop that is closed afterwards."""
    import asyncio

    asyncio.run(_run_dummy())


async def _run_dummy() -> None:
    from google.adk.agents import LlmAgent
    from google.adk.models import BaseLlm, LlmResponse
    from google.genai import types

    class DummyModel(BaseLlm):  # type: ignore[misc]  # google.adk is untyped here: it may not be installed
        """Calls the tool, then answers. No network."""

        model: str = "dummy"

        async def generate_content_async(self, llm_request: Any, *_: Any, **__: Any) -> AsyncGenerator[Any, None]:
            called = any(part.function_response for content in llm_request.contents for part in content.parts or ())
            call = types.Part(function_call=types.FunctionCall(name="dummy_tool", args={"number": 1}))
            part = types.Part(text="done") if called else call
            usage = types.GenerateContentResponseUsageMetadata(prompt_token_count=1, total_token_count=1)
            yield LlmResponse(content=types.Content(role="model", parts=[part]), usage_metadata=usage)

    agent = LlmAgent(name="dummy", model=DummyModel(), tools=[dummy_tool])
    session = await open_session({"app_name": "dummy"}, _drop, app=None, agent=agent, release=lambda: True, stack=None)
    await session.turn({"role": "user", "parts": [{"text": "hello"}]}, 0)
    await session.close()


async def dummy_tool(number: int) -> dict[str, int]:
    """Return the number."""
    return {"number": number}


def _drop(_span: dict[str, Any]) -> None:
    """Drop a span. With it the dummy run also imports what emits spans."""
