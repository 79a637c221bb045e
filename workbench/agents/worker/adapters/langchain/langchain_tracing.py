"""LangChain agents: spans, tools, descriptions, and interception of tool calls."""

from __future__ import annotations

import functools
import json
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from langchain_core.callbacks.base import BaseCallbackHandler
from langchain_core.runnables import Runnable
from langchain_core.runnables.config import var_child_runnable_config
from langchain_core.tools import BaseTool

from ... import faults
from ...responses import clean_docstring, order_like_messages, redact_schema
from ...tool_interception import MARK
from ..base import MOST_STEPS, LoadError
from ..object_json import as_json
from .langchain_messages import add_usage, read_tool_response

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..base import InterceptedTools

# Callbacks: spans, model calls with their tokens, tools.

INTERRUPTED = "workbench.interrupted"
"""The attribute of a step that stopped at an interrupt. It begins again when the graph is resumed."""

_HIDDEN = "langsmith:hidden"
_NO_TOOLS = ("_Exception", "invalid_tool")
"""Tools that an AgentExecutor runs for unreadable output or unknown tools: its steps report them."""


@dataclass(eq=False, kw_only=True)
class _Run:
    """A step that has begun. A step without a span uses that of the nearest step around it."""

    kind: str
    name: str
    span_id: str | None
    in_tool: bool
    start: float
    request: Any = None
    attributes: dict[str, Any] = field(default_factory=dict)
    tool: dict[str, Any] | None = None  # its call, if kept


class CallbackTracer(BaseCallbackHandler):  # type: ignore[misc]  # langchain_core is untyped here: it may not be installed
    """Observes every step of one session. `emit` gets each span when it has ended; None if no spans are needed.

    With `announce` it also gets spans when they begin, without an end. Times are seconds since this was created.
    """

    run_inline = True  # synchronously and in order

    def __init__(self, emit: Callable[[dict[str, Any]], None] | None, *, announce: bool, name: str) -> None:
        self._emit = emit
        self._announce = announce and emit is not None
        self._name = name
        self._zero = time.perf_counter()
        self._runs: dict[Any, _Run] = {}
        self._parents: dict[Any, Any] = {}
        self._count = 0
        self._lock = threading.Lock()
        self.begin_turn(0)

    def begin_turn(self, turn: int) -> None:
        """Reset the sums of a turn."""
        self._turn = turn
        self.outermost: str | None = None
        """The span that contains all others of the turn, once it has begun."""
        self.model_calls = 0
        self.usage: dict[str, int] = {}
        self.tools_ran = 0
        """Number of tool calls, without nested ones; `tools` keeps the first MOST_STEPS."""
        self._tools: list[dict[str, Any]] = []
        self._asked: list[list[tuple[Any, str]]] = []  # ids and names of the calls in each model message

    @property
    def tools(self) -> list[dict[str, Any]]:
        """Tools that ran, without nested ones: `id` (of the model's call, or None), `name`, `args`, `response` (None if
        it raised), `is_retry` (repeats an earlier call), `is_waiting` (stopped at an interrupt, and will run again).

        They are in the order in which they began. Calls of one model message are in its order, because their threads
        begin in any order.
        """
        with self._lock:
            tools, asked = list(self._tools), list(self._asked)
        left: dict[tuple[Any, str], dict[int, deque[int]]] = {}  # by call: the places in each message that asks for it
        for message, calls in enumerate(asked):
            for index, call in enumerate(calls):
                left.setdefault(call, {}).setdefault(message, deque()).append(index)
        places: dict[int, list[tuple[int, int]]] = {}  # by message: the place in it, and among the tools
        ran_before: set[tuple[Any, str, str]] = set()
        for number, tool in enumerate(tools):
            messages = left.get((tool["id"], tool["name"]), {})
            # Ids may repeat in later messages: use the latest message before the tool began.
            asks = next((message for message in reversed(messages) if message < tool["messages"]), None)
            ran = (tool["id"], tool["name"], format_args(tool["args"]))
            tool["is_retry"] = asks is None and tool["id"] is not None and ran in ran_before
            ran_before.add(ran)
            if asks is not None:
                places.setdefault(asks, []).append((messages[asks].popleft(), number))
                if not messages[asks]:
                    del messages[asks]
        return order_like_messages(tools, places)

    def end_turn(self) -> None:
        """Close steps whose end was not seen."""
        for run_id in reversed(list(self._runs)):
            self._end_run(run_id)
        self._parents.clear()

    def note(self, run_id: Any, **attributes: Any) -> None:
        run = self._runs.get(run_id)
        if run is not None:
            run.attributes.update(attributes)

    def on_chain_start(
        self, _serialized: Any, inputs: Any, *, run_id: Any, parent_run_id: Any = None, **facts: Any
    ) -> None:
        name = str(facts.get("name") or "")
        metadata = facts.get("metadata") or {}
        if parent_run_id is None:
            kind, name = "agent", self._name
        elif _HIDDEN in (facts.get("tags") or ()):
            kind = ""
        elif metadata.get("langgraph_node") == name:
            kind = "other"
        elif name in ("LangGraph", "AgentExecutor") or name == metadata.get("lc_agent_name"):
            kind = "agent"
        else:  # internal steps of a chain
            kind = ""
        self._begin_run(run_id, parent_run_id, kind, name, inputs if kind == "agent" else None)

    def on_chain_end(self, outputs: Any, *, run_id: Any, **_: Any) -> None:
        run = self._runs.get(run_id)
        self._end_run(run_id, response=outputs if run is not None and run.kind == "agent" else None)

    def on_chain_error(self, error: BaseException, *, run_id: Any, **_: Any) -> None:
        self._end_run(run_id, error=error)

    def on_chat_model_start(
        self, _serialized: Any, messages: Any, *, run_id: Any, parent_run_id: Any = None, **facts: Any
    ) -> None:
        request = {"messages": messages[0] if len(messages) == 1 else messages}
        self._begin_model(run_id, parent_run_id, request, facts)

    def on_llm_start(
        self, _serialized: Any, prompts: Any, *, run_id: Any, parent_run_id: Any = None, **facts: Any
    ) -> None:
        self._begin_model(run_id, parent_run_id, {"prompt": prompts[0] if len(prompts) == 1 else prompts}, facts)

    def on_llm_end(self, response: Any, *, run_id: Any, **_: Any) -> None:
        generations = [item for batch in response.generations for item in batch]
        messages = [item.message for item in generations if hasattr(item, "message")]
        tokens: dict[str, int] = {}
        for usage in [getattr(message, "usage_metadata", None) for message in messages] if messages else []:
            add_usage(tokens, usage)
        if not tokens:
            add_usage(tokens, _read_older_usage(response.llm_output))
        with self._lock:
            self.model_calls += 1
            for message in messages:
                calls = getattr(message, "tool_calls", None) or ()
                self._asked.append([(call.get("id"), str(call.get("name"))) for call in calls])
            for name, count in tokens.items():
                self.usage[name] = self.usage.get(name, 0) + count
        self.note(run_id, **({"usage": tokens} if tokens else {}))
        given = messages or [item.text for item in generations]
        self._end_run(run_id, response=given[0] if len(given) == 1 else given)

    def on_llm_error(self, error: BaseException, *, run_id: Any, **_: Any) -> None:
        self._end_run(run_id, error=error)

    def on_tool_start(
        self, serialized: Any, input_str: str, *, run_id: Any, parent_run_id: Any = None, **facts: Any
    ) -> None:
        name = str((serialized or {}).get("name") or facts.get("name") or "tool")
        inputs = facts.get("inputs")
        args = as_json(inputs) if isinstance(inputs, dict) else {"input": input_str}
        call_id = facts.get("tool_call_id")
        self._begin_run(run_id, parent_run_id, "tool", name, args)
        run = self._runs[run_id]
        if call_id:
            run.attributes["function_call_id"] = call_id
        if not run.in_tool and name not in _NO_TOOLS:
            with self._lock:
                self.tools_ran += 1
                if self.tools_ran <= MOST_STEPS:
                    messages = len(self._asked)
                    call = {"id": call_id, "name": name, "args": args, "response": None}
                    run.tool = {**call, "messages": messages, "is_waiting": False}
                    self._tools.append(run.tool)

    def on_tool_end(self, output: Any, *, run_id: Any, **_: Any) -> None:
        response = read_tool_response(output)
        run = self._runs.get(run_id)
        if run is not None and run.tool is not None:
            run.tool["response"] = response
        self._end_run(run_id, response=response)

    def on_tool_error(self, error: BaseException, *, run_id: Any, **_: Any) -> None:
        run = self._runs.get(run_id)
        if run is not None and run.tool is not None:
            run.tool["is_waiting"] = _is_interrupt(error)
        self._end_run(run_id, error=error)

    def on_retriever_start(
        self, _serialized: Any, query: str, *, run_id: Any, parent_run_id: Any = None, **facts: Any
    ) -> None:
        self._begin_run(run_id, parent_run_id, "other", str(facts.get("name") or "retriever"), query)

    def on_retriever_end(self, documents: Sequence[Any], *, run_id: Any, **_: Any) -> None:
        self._end_run(run_id, response=documents)

    def on_retriever_error(self, error: BaseException, *, run_id: Any, **_: Any) -> None:
        self._end_run(run_id, error=error)

    def _begin_model(self, run_id: Any, parent_run_id: Any, request: dict[str, Any], facts: dict[str, Any]) -> None:
        options = facts.get("invocation_params") or {}
        metadata = facts.get("metadata") or {}
        model = metadata.get("ls_model_name") or options.get("model") or options.get("model_name") or facts.get("name")
        if options.get("tools"):
            request["tools"] = options["tools"]
        self._begin_run(run_id, parent_run_id, "model", str(model or "model"), request)

    def _begin_run(self, run_id: Any, parent_run_id: Any, kind: str, name: str, request: Any) -> None:
        parent = self._runs.get(parent_run_id)
        with self._lock:
            self._count += 1
            span_id = f"s{self._count}"
        around = None if parent is None else parent.span_id
        self._parents[span_id] = around
        if parent is None and kind and self.outermost is None:
            self.outermost = span_id
        run = _Run(
            kind=kind,
            name=name,
            span_id=span_id if kind else around,
            in_tool=parent is not None and (parent.in_tool or parent.kind == "tool"),
            start=self._get_time(),
        )
        if kind and self._emit is not None:
            run.request = _convert_value(request)
        self._runs[run_id] = run
        if kind and self._announce:
            self._emit_span(run)

    def _end_run(self, run_id: Any, *, response: Any = None, error: BaseException | None = None) -> None:
        run = self._runs.pop(run_id, None)
        if run is None or not run.kind or self._emit is None:
            return
        if error is not None and _is_interrupt(error):
            run.attributes[INTERRUPTED], error = True, None
        text = None if error is None else f"{type(error).__name__}: {error}"
        self._emit_span(run, end=self._get_time(), response=_convert_value(response), error=text)

    def _emit_span(self, run: _Run, **outcome: Any) -> None:
        assert self._emit is not None
        self._emit(
            {
                "id": run.span_id,
                "parent_id": self._parents.get(run.span_id),
                "turn": self._turn,
                "kind": run.kind,
                "name": run.name,
                "start": round(run.start, 6),
                "request": run.request,
                "attributes": run.attributes,
                **outcome,
            }
        )

    def _get_time(self) -> float:
        return time.perf_counter() - self._zero


def _is_interrupt(error: BaseException) -> bool:
    """Return True for the exception with which LangGraph stops a step until it is resumed."""
    return any(kind.__name__ == "GraphInterrupt" for kind in type(error).__mro__)


def format_args(args: Any) -> str:
    """Return the arguments of a call as JSON; equal arguments give equal text."""
    return json.dumps(as_json(args), sort_keys=True)


def _convert_value(value: Any) -> Any:
    """Return the value as JSON; empty fields of messages are omitted."""
    if isinstance(value, dict):
        return {str(key): _convert_value(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_convert_value(item) for item in value]
    data = as_json(value)
    if isinstance(data, dict) and hasattr(value, "content"):
        return {key: item for key, item in data.items() if item not in ({}, [], "", None, False)}
    return data


def _read_older_usage(output: Any) -> dict[str, Any] | None:
    """Return tokens in the form of older models, whose messages have none."""
    usage = (output or {}).get("token_usage") or (output or {}).get("usage")
    if not isinstance(usage, dict):
        return None
    return {
        "input_tokens": usage.get("prompt_tokens", usage.get("input_tokens")),
        "output_tokens": usage.get("completion_tokens", usage.get("output_tokens")),
        "total_tokens": usage.get("total_tokens"),
    }


# Tools of a runnable, found without calling it.

# Attributes of chains, executors and graphs that hold their parts.
_PARTS = (
    "agent", "bound", "branches", "default", "deps", "fallbacks", "nodes", "runnable", "runnables", "steps", "steps__",
    "subgraphs", "tools", "tools_by_name",
)  # fmt: skip
_MOST = 5000  # objects to search; more than any agent has


def list_seen_tools(roots: Sequence[str]) -> set[str]:
    """Return the names of tools in the agent's own modules, if callbacks see them run.

    Before Python 3.11 an asynchronous node does not pass its callbacks on.
    """
    return {tool.name for tool in _find_module_tools(roots)} if sys.version_info >= (3, 11) else set()


def list_tools(runnable: Any) -> list[Any]:
    """List the tools below a runnable, each once. Tools used only inside functions are not found."""
    found = []
    seen: dict[int, Any] = {}  # held, so that identities stay unique
    waiting = [runnable]
    while waiting and len(seen) < _MOST:
        item = waiting.pop(0)
        if id(item) in seen:
            continue
        seen[id(item)] = item
        if isinstance(item, dict):
            waiting += item.values()
        elif isinstance(item, (list, tuple)):
            waiting += item
        elif isinstance(item, BaseTool):
            found.append(item)
        elif isinstance(item, Runnable) or type(item).__module__.split(".")[0].startswith(("langchain", "langgraph")):
            for name in _PARTS:
                try:
                    waiting.append(getattr(item, name, None))
                except Exception:  # a custom property may raise
                    continue
    return found


# Description.


def describe_agent(runnable: Any, *, name: str) -> dict[str, Any]:
    """Describe the agent. The instructions of its models are in the code of its nodes and prompts."""
    part = {
        "name": name,
        "type": type(runnable).__name__,
        "tools": [describe_tool(tool) for tool in list_tools(runnable)],
    }
    unknown = [f"the instructions of {name} are in its code"]
    return {"agents": [{key: value for key, value in part.items() if value}], "unknown": unknown}


def describe_tool(tool: Any) -> dict[str, Any]:
    """Return the declaration of a tool, as models get it."""
    declaration = {
        "name": tool.name,
        "description": clean_docstring(getattr(tool, "func", None), tool.description or ""),
    }
    try:
        schema = tool.tool_call_schema
        parameters = schema if isinstance(schema, dict) else schema.model_json_schema()
    except Exception:  # a custom schema
        return declaration
    return {**declaration, "parameters": redact_schema(parameters)}


# Interception of tool calls.

_current_calls: ContextVar[LangchainToolCalls | None] = ContextVar("workbench_langchain_tools", default=None)
_current_tool: ContextVar[Any] = ContextVar("workbench_langchain_tool", default=None)
_WRAPPED = "_workbench_wrapped"


class LangchainToolCalls:
    """Interception of the calls of one session."""

    def __init__(self, tools: InterceptedTools, runnable: Any, roots: list[str]) -> None:
        """Raises LoadError for a configured tool that the agent does not have."""
        self.tools = tools
        self._watch: CallbackTracer | None = None
        found = [*list_tools(runnable), *_find_module_tools(roots)]
        tools.require_known(dict.fromkeys(tool.name for tool in found))
        for tool in found:
            if tools.wants(tool.name):
                _wrap_tool(tool)

    def enter(self, watch: CallbackTracer) -> None:
        """Assign the calls of this task, and of those it starts, to this session."""
        self._watch = watch
        _current_calls.set(self)

    def close(self) -> None:
        _current_calls.set(None)

    def question(self, tool: Any, args: dict[str, Any]) -> tuple[str, dict[str, Any], dict[str, Any]] | None:
        """Return the request for a call; None if the call is not intercepted."""
        if not self.tools.wants(tool.name):
            return None
        named = {name: value for name, value in args.items() if name in tool.args}  # without injected arguments
        return tool.name, as_json(named), describe_tool(tool)

    def apply_answer(self, tool: Any, answer: dict[str, Any]) -> Any:
        """Return, or raise, the answer given instead of calling the tool."""
        run_id = getattr((var_child_runnable_config.get() or {}).get("callbacks"), "parent_run_id", None)
        if self._watch is not None:
            self._watch.note(run_id, **{MARK: answer["source"]})
        if answer.get("error") is not None:
            raise faults.decode_exception(answer["error"], tool.name)
        response = answer.get("response")
        return (response, None) if tool.response_format == "content_and_artifact" else response

    def report_result(self, tool: Any, answer: dict[str, Any], value: Any) -> None:
        is_pair = tool.response_format == "content_and_artifact" and isinstance(value, tuple) and len(value) == 2
        self.tools.report_outcome(answer, response=value[0] if is_pair else value)

    def report_error(self, answer: dict[str, Any], error: BaseException) -> None:
        """Report the exception of a tool that was called. One that stops at an interrupt has no outcome yet."""
        if not _is_interrupt(error):
            self.tools.report_outcome(answer, error=faults.encode_exception(error))


def _wrap_tool(tool: Any) -> None:
    """Make a tool ask before it runs, once. If `_arun` calls `_run`, that is the same call.

    These are private, but what LangChain documents for tools of one's own. The public `run` and `invoke` get arguments
    that are not validated yet, and would hide the call from callbacks.
    """
    if getattr(tool, _WRAPPED, False):
        return
    run, arun = getattr(tool, "_run", None), getattr(tool, "_arun", None)
    if run is None or arun is None:
        raise LoadError(f"calls of {tool.name} cannot be intercepted: this version of LangChain has no BaseTool._run")

    @functools.wraps(run)
    def run_or_ask(*args: Any, **kwargs: Any) -> Any:
        calls = _current_calls.get()
        question = None if calls is None or _current_tool.get() is tool else calls.question(tool, kwargs)
        if calls is None or question is None:
            return run(*args, **kwargs)
        answer = calls.tools.ask(*question)
        if answer["source"] is not None:
            return calls.apply_answer(tool, answer)
        inside = _current_tool.set(tool)
        try:
            value = run(*args, **kwargs)
        except BaseException as error:
            calls.report_error(answer, error)
            raise
        finally:
            _current_tool.reset(inside)
        calls.report_result(tool, answer, value)
        return value

    @functools.wraps(arun)
    async def arun_or_ask(*args: Any, **kwargs: Any) -> Any:
        calls = _current_calls.get()
        question = None if calls is None or _current_tool.get() is tool else calls.question(tool, kwargs)
        if calls is None or question is None:
            return await arun(*args, **kwargs)
        answer = await calls.tools.ask_later(*question)
        if answer["source"] is not None:
            return calls.apply_answer(tool, answer)
        inside = _current_tool.set(tool)
        try:
            value = await arun(*args, **kwargs)
        except BaseException as error:
            calls.report_error(answer, error)
            raise
        finally:
            _current_tool.reset(inside)
        calls.report_result(tool, answer, value)
        return value

    # Bypasses pydantic, whose models refuse unknown attributes.
    object.__setattr__(tool, "_run", run_or_ask)
    object.__setattr__(tool, "_arun", arun_or_ask)
    object.__setattr__(tool, _WRAPPED, True)


def _find_module_tools(roots: Sequence[str]) -> list[Any]:
    """Return the tools in the agent's own modules: nodes call tools that no graph contains."""
    folders = tuple(os.path.abspath(root) + os.sep for root in roots)
    found = {}
    for module in list(sys.modules.values()):
        path = getattr(module, "__file__", None)
        if isinstance(path, str) and path.startswith(folders):
            for value in list(vars(module).values()):
                if isinstance(value, BaseTool):
                    found[id(value)] = value
    return list(found.values())
