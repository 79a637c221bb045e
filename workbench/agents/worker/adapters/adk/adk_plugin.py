"""The plugin that observes a run, and the interception of models.

Callbacks of the plugin report to `Trace` and return None, so that the agent is not affected.

Only intercepted tool calls get an answer here. The module imports google.adk, and is imported when a session is opened.
AgentTool passes the plugins of its caller to its own runner, so nested agents are observed too, inside the span of
their tool. With `include_plugins=False` that span is all.
"""

from __future__ import annotations

import functools
import json
import os
import re
import sys
import time
from collections.abc import AsyncGenerator, Callable
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.models import LlmResponse
from google.adk.plugins.base_plugin import BasePlugin

from ...model_interception import find_session, inside_call
from ...recording.recorder import quiet
from ...tool_interception import MARK
from ..object_json import as_json
from .adk_agents import AdkToolCalls, describe_structure
from .adk_tracing import OpenSpan, Trace

_SECRET_CONFIG = {"http_options"}  # holds headers and with them keys


class TracePlugin(BasePlugin):  # type: ignore[misc]  # google.adk is untyped here: it may not be installed
    """Reports runs, agents, model calls and tool calls to a `Trace`."""

    def __init__(self, trace: Trace, calls: AdkToolCalls | None = None) -> None:
        """`calls` intercepts tool calls, if set."""
        super().__init__(name="workbench_watch")
        self._trace = trace
        self._calls = calls

    async def before_run_callback(self, *, invocation_context: Any) -> None:
        _call_quietly(self._begin_run, invocation_context)

    async def after_run_callback(self, *, invocation_context: Any) -> None:
        _call_quietly(self._end_span, "invocation", invocation_context)

    async def on_run_error_callback(self, *, invocation_context: Any, error: Exception) -> None:
        _call_quietly(self._end_span, "invocation", invocation_context, error)

    async def before_agent_callback(self, *, agent: Any, callback_context: Any) -> None:
        _call_quietly(self._begin_agent, agent, callback_context)

    async def after_agent_callback(self, *, callback_context: Any, **_: Any) -> None:
        _call_quietly(self._end_span, "agent", _get_invocation_context(callback_context))

    async def on_agent_error_callback(self, *, callback_context: Any, error: Exception, **_: Any) -> None:
        _call_quietly(self._end_span, "agent", _get_invocation_context(callback_context), error)

    async def before_model_callback(self, *, callback_context: Any, llm_request: Any) -> None:
        _call_quietly(self._begin_model, callback_context, llm_request)

    async def after_model_callback(self, *, callback_context: Any, llm_response: Any) -> None:
        _call_quietly(self._end_answered_model, callback_context, llm_response)

    async def on_model_error_callback(self, *, callback_context: Any, error: Exception, **_: Any) -> None:
        _call_quietly(self._end_failed_model, callback_context, error)

    async def before_tool_callback(self, *, tool: Any, tool_args: dict[str, Any], tool_context: Any) -> Any:
        _call_quietly(self._begin_tool, tool, tool_args, tool_context)
        if self._calls is None:
            return None
        source, answer = await self._calls.decide(tool, tool_args, tool_context)
        _call_quietly(self._note_source, tool_context, source)
        return answer

    async def after_tool_callback(self, *, tool_context: Any, result: Any, **_: Any) -> None:
        if self._calls is not None:
            self._calls.report_result(tool_context, result)
        _call_quietly(self._end_answered_tool, tool_context, result)

    async def on_tool_error_callback(self, *, tool_context: Any, error: BaseException, **_: Any) -> None:
        if self._calls is not None:
            self._calls.report_error(tool_context, error)
        _call_quietly(self._note_tool_error, tool_context, error)

    async def on_event_callback(self, *, event: Any, **_: Any) -> None:
        _call_quietly(self._take_event, event)

    def _begin_run(self, invocation_context: Any) -> None:
        span = self._trace.begin("invocation", "invocation", owner=invocation_context)
        span.attributes = {"invocation_id": invocation_context.invocation_id}
        if self._trace.wants_details:
            span.request = as_json(invocation_context.user_content)
            _call_quietly(self._note_structure, span, invocation_context.agent)

    def _begin_agent(self, agent: Any, callback_context: Any) -> None:
        invocation_context = _get_invocation_context(callback_context)
        span = self._trace.begin("agent", agent.name, owner=invocation_context)
        span.attributes = {"type": type(agent).__name__, "invocation_id": invocation_context.invocation_id}
        if invocation_context.branch:
            span.attributes["branch"] = invocation_context.branch
        self._trace.announce(span)

    def _begin_model(self, callback_context: Any, llm_request: Any) -> None:
        invocation_context = _get_invocation_context(callback_context)
        span = self._trace.begin(
            "model", llm_request.model or "model", owner=invocation_context, within=invocation_context
        )
        span.request = llm_request  # converted at the end, because other callbacks may change it
        span.attributes = {"agent": callback_context.agent_name, "invocation_id": invocation_context.invocation_id}
        self._trace.announce(span)

    def _end_answered_model(self, callback_context: Any, llm_response: Any) -> None:
        span = self._trace.find("model", _get_invocation_context(callback_context))
        if span is None:
            return
        if llm_response.partial:
            self._trace.touch(span)
            return
        if _REPLAYED in vars(llm_response):
            span.attributes[MARK] = "replayed"
        self._trace.count_model_call(callback_context.agent_name, span.request, llm_response.usage_metadata)
        self._end_model(span, llm_response, end=self._trace.end_until_event)

    def _end_failed_model(self, callback_context: Any, error: BaseException) -> None:
        span = self._trace.find("model", _get_invocation_context(callback_context))
        if span is not None:
            self._end_model(span, None, end=self._trace.end, error=_describe(error))

    def _end_model(
        self, span: OpenSpan, llm_response: Any, *, end: Callable[..., None], error: str | None = None
    ) -> None:
        response = None
        request, span.request = span.request, None
        if self._trace.wants_details:
            span.request = {
                "model": request.model,
                "config": as_json(request.config.model_dump(exclude_none=True, exclude=_SECRET_CONFIG)),
                "contents": as_json(request.contents),
            }
            response = as_json(llm_response)
        if llm_response is not None and llm_response.error_code:
            error = f"{llm_response.error_code}: {llm_response.error_message or 'no message'}"
        end(span, response=response, error=error)

    def _begin_tool(self, tool: Any, tool_args: dict[str, Any], tool_context: Any) -> None:
        span = self._trace.begin("tool", tool.name, owner=tool_context, within=_get_invocation_context(tool_context))
        span.attributes = {"type": type(tool).__name__, "function_call_id": tool_context.function_call_id}
        if self._trace.wants_details:
            span.request = as_json(tool_args)
            self._trace.announce(span, request=span.request)

    def _note_source(self, tool_context: Any, source: str | None) -> None:
        span = self._trace.find("tool", tool_context)
        if span is not None and source is not None:
            span.attributes[MARK] = source

    def _end_answered_tool(self, tool_context: Any, result: Any) -> None:
        span = self._trace.find("tool", tool_context)
        if span is None:
            return
        if self._trace.wants_details and (actions := _summarize_actions(tool_context.actions)):
            span.attributes["actions"] = actions
        self._trace.end(span, response=as_json(result) if self._trace.wants_details else None)

    def _note_tool_error(self, tool_context: Any, error: BaseException) -> None:
        """Note an error. A callback may still turn it into an answer, so the span ends with that or with the turn."""
        span = self._trace.find("tool", tool_context)
        if span is not None:
            span.error = _describe(error)
            self._trace.touch(span)

    def _take_event(self, event: Any) -> None:
        """End spans whose own callbacks are skipped because another callback answered."""
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
        if answers or self._trace.note_event(event.author, event.invocation_id, self._collect_event_facts(event)):
            return
        for span in list(self._trace.open_spans("model")):
            spoken = (span.attributes["agent"], span.attributes["invocation_id"], span.owner.branch)
            if spoken == (event.author, event.invocation_id, event.branch):
                span.attributes.update(self._collect_event_facts(event), answered_by="callback")
                self._end_model(span, event, end=self._trace.end)

    def _collect_event_facts(self, event: Any) -> dict[str, Any]:
        """Return the facts of a model call's event for the trace."""
        if not self._trace.wants_details:
            return {}
        facts: dict[str, Any] = {"event_id": event.id}
        if event.is_final_response():
            facts["is_final_response"] = True
        if actions := _summarize_actions(event.actions):
            facts["actions"] = actions
        return facts

    def _note_structure(self, span: OpenSpan, agent: Any) -> None:
        span.attributes["agents"] = describe_structure(getattr(agent, "root_agent", agent))

    def _end_span(self, kind: str, owner: Any, error: BaseException | None = None) -> None:
        span = self._trace.find(kind, owner)
        if span is not None:
            self._trace.end(span, error=_describe(error) if error is not None else None)


def _call_quietly(report: Callable[..., None], *args: Any) -> None:
    try:
        report(*args)
    except Exception:  # an unexpected framework state must not affect the run
        return


def _get_invocation_context(context: Any) -> Any:
    """Return the invocation context itself, one object per run of an agent; the public getter returns copies.

    In a version of ADK without the private attribute, spans of models and agents end with the turn.
    """
    return getattr(context, "_invocation_context", context)


def _describe(error: BaseException) -> str:
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _summarize_actions(actions: Any) -> dict[str, Any]:
    """Return the side effects of an event or tool, such as changed state or a transfer."""
    data = as_json(actions)
    return {name: value for name, value in data.items() if value not in ({}, [], False)} if data else {}


# Interception of models: requests and responses of ADK in place of those of HTTP, so that models of LiteLLM and models
# without a network count as well.

_REPLAYED = "workbench_replayed"  # no field of a response, so that nothing shows it

_wrapped: set[type] = set()


def wrap_models(roots: list[str]) -> None:
    """Wrap the class of each model when an agent uses it. `roots` are the folders of the agent's own code."""
    if getattr(LlmAgent.canonical_model.fget, "__wrapped__", None) is not None:
        return
    get_model = LlmAgent.canonical_model.fget

    @functools.wraps(get_model)
    def get_wrapped_model(self: Any) -> Any:
        model = get_model(self)
        _wrap_class(type(model), roots)
        return model

    LlmAgent.canonical_model = property(get_wrapped_model)


def _wrap_class(kind: type, roots: list[str]) -> None:
    """Wrap the method of a class that asks the model."""
    if kind in _wrapped:
        return
    _wrapped.add(kind)
    generate = kind.generate_content_async  # type: ignore[attr-defined]
    is_own = _is_own(kind, roots)

    @functools.wraps(generate)
    async def ask_and_generate(self: Any, llm_request: Any, stream: bool = False) -> AsyncGenerator[Any, None]:
        models = find_session()
        if models is None or (is_own and not models.own_models):
            async for response in generate(self, llm_request, stream):
                yield response
            return
        answer = await models.ask_later(_describe_request(self, llm_request, stream=stream))
        if answer["source"] is not None:
            for _, data in answer["response"]["items"]:
                response = LlmResponse.model_validate_json(json.dumps(data))  # bytes are Base64 only in JSON
                vars(response)[_REPLAYED] = True  # the callback for the span may run in another task
                yield response
            return
        items: list[Any] = []
        started = time.perf_counter()
        responses = aiter(generate(self, llm_request, stream))
        outcome: dict[str, Any] = {"cut": True}
        try:
            while True:
                try:
                    with inside_call():
                        response = await anext(responses)
                except StopAsyncIteration:
                    break
                items.append((round(time.perf_counter() - started, 4), response))
                yield response
            outcome = {}
        except Exception as error:  # whatever the model raises is recorded, and raised to the agent
            outcome = {"error": f"{type(error).__name__}: {error}"}
            raise
        finally:
            if "cut" in outcome and items and not items[-1][1].partial:
                outcome = {}  # the response is complete: an agent that hands over does not ask for more
            seconds = round(time.perf_counter() - started, 6)
            models.report(answer, {"seconds": seconds, **_dump_responses(items), **outcome})
            if hasattr(responses, "aclose"):
                await responses.aclose()

    kind.generate_content_async = ask_and_generate  # type: ignore[attr-defined]


def _dump_responses(items: list[tuple[float, Any]]) -> dict[str, Any]:
    """Return the responses as data, or why that is impossible: the agent must not be disturbed."""
    try:
        return {"items": [[when, each.model_dump(mode="json", exclude_none=True)] for when, each in items]}
    except Exception as error:  # metadata may hold any object
        return {"error": f"the response could not be copied: {type(error).__name__}: {error}"}


_DESCRIBED = frozenset({"model", "contents", "config", "tools_dict", "live_connect_config"})
_UNSHOWN = re.compile(r"client|header|key|token|secret|auth|credential|password", re.IGNORECASE)


def _list_settings(owner: Any) -> dict[str, Any]:
    """Return what else a model or a request says about a call: fields with plain values, and arguments of LiteLLM."""
    found = {name: getattr(owner, name, None) for name in type(owner).model_fields if name not in _DESCRIBED}
    found |= getattr(owner, "_additional_args", None) or {}  # private: LiteLlm has no public way
    return {
        name: as_json(value)
        for name, value in found.items()
        if isinstance(value, (str, int, float, dict, list, tuple))
        and (not _UNSHOWN.search(name) or (isinstance(value, int) and not isinstance(value, str)))
    }


def _find_endpoint(model: Any) -> str | None:
    """Return the address that a model was given, if it was: it belongs to the request."""
    given = getattr(model, "base_url", None) or (getattr(model, "_additional_args", None) or {}).get("api_base")
    with quiet:  # the model reads these variables itself
        names = ("GOOGLE_GEMINI_BASE_URL", "GOOGLE_VERTEX_BASE_URL", "GOOGLE_GENAI_USE_VERTEXAI")
        found = [f"{name}={os.environ[name]}" for name in names if os.environ.get(name)]
    return " ".join(found) if given is None else str(given)


def _is_own(kind: type, roots: list[str]) -> bool:
    """True if the code of a model is the agent's own: it is under test itself, and costs nothing."""
    path = getattr(sys.modules.get(kind.__module__), "__file__", None) or ""
    return any(path.startswith(f"{root.rstrip('/')}/") for root in roots) and "site-packages" not in path


def _describe_request(model: Any, request: Any, *, stream: bool) -> dict[str, Any]:
    config = request.config.model_dump(exclude_none=True, exclude=_SECRET_CONFIG)
    body = {"model": request.model or model.model, "config": as_json(config), "contents": as_json(request.contents)}
    if endpoint := _find_endpoint(model):
        body["endpoint"] = endpoint
    if settings := {**_list_settings(model), **_list_settings(request)}:
        body["settings"] = settings
    kind = f"{type(model).__module__}.{type(model).__qualname__}"
    return {"method": "GENERATE", "url": f"adk:{kind}", "body": {**body, "stream": True} if stream else body}
