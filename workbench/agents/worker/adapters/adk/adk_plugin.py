"""The plugin that watches a run: every callback tells `Trace` and returns None, so that the agent never notices.

Only a call of a tool that is simulated gets an answer here, in place of the tool's.

Imports google.adk; imported only once a session is opened. AgentTool hands the plugins of its caller to the runner that
it makes, so nested agents are seen too, inside the span of their tool. With `include_plugins=False` that span is all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from google.adk.plugins.base_plugin import BasePlugin

from ...asking import MARK
from ...steps import as_json
from .adk_loading import structure_of
from .adk_tools import ToolCalls
from .adk_tracing import OpenSpan, Trace

_SECRET_CONFIG = {"http_options"}  # holds headers and with them keys


class WatchPlugin(BasePlugin):  # type: ignore[misc]  # google.adk is untyped here: it may not be installed
    """Reports runs, agents, model calls and tool calls to a `Trace`."""

    def __init__(self, trace: Trace, calls: ToolCalls | None = None) -> None:
        """`calls`: where the engine wants to hear of calls of tools before they are made."""
        super().__init__(name="workbench_watch")
        self._trace = trace
        self._calls = calls

    async def before_run_callback(self, *, invocation_context: Any) -> None:
        _quietly(self._run_began, invocation_context)

    async def after_run_callback(self, *, invocation_context: Any) -> None:
        _quietly(self._ended, "invocation", invocation_context)

    async def on_run_error_callback(self, *, invocation_context: Any, error: Exception) -> None:
        _quietly(self._ended, "invocation", invocation_context, error)

    async def before_agent_callback(self, *, agent: Any, callback_context: Any) -> None:
        _quietly(self._agent_began, agent, callback_context)

    async def after_agent_callback(self, *, callback_context: Any, **_: Any) -> None:
        _quietly(self._ended, "agent", _invocation_context(callback_context))

    async def on_agent_error_callback(self, *, callback_context: Any, error: Exception, **_: Any) -> None:
        _quietly(self._ended, "agent", _invocation_context(callback_context), error)

    async def before_model_callback(self, *, callback_context: Any, llm_request: Any) -> None:
        _quietly(self._model_began, callback_context, llm_request)

    async def after_model_callback(self, *, callback_context: Any, llm_response: Any) -> None:
        _quietly(self._model_answered, callback_context, llm_response)

    async def on_model_error_callback(self, *, callback_context: Any, error: Exception, **_: Any) -> None:
        _quietly(self._model_failed, callback_context, error)

    async def before_tool_callback(self, *, tool: Any, tool_args: dict[str, Any], tool_context: Any) -> Any:
        _quietly(self._tool_began, tool, tool_args, tool_context)
        if self._calls is None:
            return None
        source, answer = await self._calls.before(tool, tool_args, tool_context)
        _quietly(self._note_source, tool_context, source)
        return answer

    async def after_tool_callback(self, *, tool_context: Any, result: Any, **_: Any) -> None:
        if self._calls is not None:
            self._calls.returned(tool_context, result)
        _quietly(self._tool_answered, tool_context, result)

    async def on_tool_error_callback(self, *, tool_context: Any, error: BaseException, **_: Any) -> None:
        if self._calls is not None:
            self._calls.failed(tool_context, error)
        _quietly(self._tool_failed, tool_context, error)

    async def on_event_callback(self, *, event: Any, **_: Any) -> None:
        _quietly(self._event_seen, event)

    def _run_began(self, invocation_context: Any) -> None:
        span = self._trace.begin("invocation", "invocation", owner=invocation_context)
        span.attributes = {"invocation_id": invocation_context.invocation_id}
        if self._trace.wants_details:
            span.request = as_json(invocation_context.user_content)
            _quietly(self._note_structure, span, invocation_context.agent)

    def _agent_began(self, agent: Any, callback_context: Any) -> None:
        invocation_context = _invocation_context(callback_context)
        span = self._trace.begin("agent", agent.name, owner=invocation_context)
        span.attributes = {"type": type(agent).__name__, "invocation_id": invocation_context.invocation_id}
        if invocation_context.branch:
            span.attributes["branch"] = invocation_context.branch
        self._trace.announce(span)

    def _model_began(self, callback_context: Any, llm_request: Any) -> None:
        invocation_context = _invocation_context(callback_context)
        span = self._trace.begin(
            "model", llm_request.model or "model", owner=invocation_context, within=invocation_context
        )
        span.request = llm_request  # turned into JSON at the end: what other callbacks change in it counts
        span.attributes = {"agent": callback_context.agent_name, "invocation_id": invocation_context.invocation_id}
        self._trace.announce(span)

    def _model_answered(self, callback_context: Any, llm_response: Any) -> None:
        span = self._trace.find("model", _invocation_context(callback_context))
        if span is None:
            return
        if llm_response.partial:
            self._trace.touch(span)
            return
        self._trace.count_model_call(callback_context.agent_name, span.request, llm_response.usage_metadata)
        self._model_ended(span, llm_response, end=self._trace.end_until_event)

    def _model_failed(self, callback_context: Any, error: BaseException) -> None:
        span = self._trace.find("model", _invocation_context(callback_context))
        if span is not None:
            self._model_ended(span, None, end=self._trace.end, error=_describe(error))

    def _model_ended(
        self, span: OpenSpan, llm_response: Any, *, end: Callable[..., None], error: str | None = None
    ) -> None:
        response = None
        request, span.request = span.request, None
        if self._trace.wants_details:
            span.request = _request_as_json(request)
            response = as_json(llm_response)
        if llm_response is not None and llm_response.error_code:
            error = f"{llm_response.error_code}: {llm_response.error_message or 'no message'}"
        end(span, response=response, error=error)

    def _tool_began(self, tool: Any, tool_args: dict[str, Any], tool_context: Any) -> None:
        span = self._trace.begin("tool", tool.name, owner=tool_context, within=_invocation_context(tool_context))
        span.attributes = {"type": type(tool).__name__, "function_call_id": tool_context.function_call_id}
        if self._trace.wants_details:
            span.request = as_json(tool_args)
            self._trace.announce(span, request=span.request)

    def _note_source(self, tool_context: Any, source: str | None) -> None:
        span = self._trace.find("tool", tool_context)
        if span is not None and source is not None:
            span.attributes[MARK] = source

    def _tool_answered(self, tool_context: Any, result: Any) -> None:
        span = self._trace.find("tool", tool_context)
        if span is None:
            return
        if self._trace.wants_details and (actions := _told_actions(tool_context.actions)):
            span.attributes["actions"] = actions
        self._trace.end(span, response=as_json(result) if self._trace.wants_details else None)

    def _tool_failed(self, tool_context: Any, error: BaseException) -> None:
        """A callback may still turn the error into an answer, so the step goes on; else it ends with the turn."""
        span = self._trace.find("tool", tool_context)
        if span is not None:
            span.error = _describe(error)
            self._trace.touch(span)

    def _event_seen(self, event: Any) -> None:
        """Events end the steps whose own callbacks are left out when another callback answers in their place."""
        for span in self._trace.open_spans("agent"):
            if span.name == event.author and span.attributes["invocation_id"] == event.invocation_id:
                self._trace.touch(span)
                break
        if event.partial or not event.content:
            return
        answers = {response.id: response.response for response in event.get_function_responses() if response.id}
        for span in list(self._trace.open_spans("tool")) if answers else ():
            call_id = span.attributes["function_call_id"]
            if call_id in answers:
                self._trace.end(span, response=as_json(answers[call_id]) if self._trace.wants_details else None)
        if answers or self._trace.note_event(event.author, event.invocation_id, self._event_facts(event)):
            return
        for span in list(self._trace.open_spans("model")):
            spoken = (span.attributes["agent"], span.attributes["invocation_id"], span.owner.branch)
            if spoken == (event.author, event.invocation_id, event.branch):
                span.attributes.update(self._event_facts(event), answered_by="callback")
                self._model_ended(span, event, end=self._trace.end)

    def _event_facts(self, event: Any) -> dict[str, Any]:
        """What the trace tells of the event that came of a model call."""
        if not self._trace.wants_details:
            return {}
        facts: dict[str, Any] = {"event_id": event.id}
        if event.is_final_response():
            facts["is_final_response"] = True
        if actions := _told_actions(event.actions):
            facts["actions"] = actions
        return facts

    def _note_structure(self, span: OpenSpan, agent: Any) -> None:
        span.attributes["agents"] = structure_of(getattr(agent, "root_agent", agent))

    def _ended(self, kind: str, owner: Any, error: BaseException | None = None) -> None:
        span = self._trace.find(kind, owner)
        if span is not None:
            self._trace.end(span, error=_describe(error) if error is not None else None)


def _quietly(report: Callable[..., None], *args: Any) -> None:
    try:
        report(*args)
    except Exception:  # whatever is unforeseen in the framework costs a span, never the user's run
        return


def _invocation_context(context: Any) -> Any:
    """The invocation context itself, one object for each run of an agent; the public getter gives a copy each time."""
    return context._invocation_context


def _describe(error: BaseException) -> str:
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _told_actions(actions: Any) -> dict[str, Any]:
    """What an event or a tool did besides answering: state it changed, an agent it handed over to."""
    told = as_json(actions)
    return {name: value for name, value in told.items() if value not in ({}, [], False)} if told else {}


def _request_as_json(request: Any) -> dict[str, Any]:
    return {
        "model": request.model,
        "config": as_json(request.config.model_dump(exclude_none=True, exclude=_SECRET_CONFIG)),
        "contents": as_json(request.contents),
    }
