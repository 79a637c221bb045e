"""Calls of LangChain tools that the engine wants to hear of: asked about before, told of after they were made.

The tools that a session's agent is made of, and those in the agent's own modules, get a `_run` and `_arun` of ours in
front of their own: whoever holds a tool gets the new behaviour. Sessions of one process are told apart by task.
"""

from __future__ import annotations

import functools
import os
import sys
from contextvars import ContextVar
from typing import Any

from langchain_core.runnables.config import var_child_runnable_config
from langchain_core.tools import BaseTool

from ... import raised
from ...asking import MARK, Tools
from ...plain import as_json
from .description import declaration_of
from .structure import tools_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .tracing import Watch

_here: ContextVar[ToolCalls | None] = ContextVar("workbench_langchain_tools", default=None)
_within: ContextVar[Any] = ContextVar("workbench_langchain_tool", default=None)
_WRAPPED = "_workbench_wrapped"


class ToolCalls:
    """What becomes of the calls of one session."""

    def __init__(self, tools: Tools, runnable: Any, roots: list[str]) -> None:
        """Raises LoadError for a tool that is named and that the agent has not."""
        self._tools = tools
        self._watch: Watch | None = None
        found = [*tools_of(runnable), *_tools_in_modules(roots)]
        known = dict.fromkeys(tool.name for tool in found)
        for name, place in tools.names.items():
            if place is not None and name not in known:
                raise tools.refuse_unknown(name, known, expected=f"one of the agent's tools ({', '.join(known)})")
        for tool in found:
            if tools.wants(tool.name):
                _ask_first(tool)

    def enter(self, watch: Watch) -> None:
        """What this task, and what it starts, calls from now on is this session's."""
        self._watch = watch
        _here.set(self)

    def close(self) -> None:
        """No more calls come."""
        _here.set(None)

    def question(self, tool: Any, args: dict[str, Any]) -> tuple[str, dict[str, Any], dict[str, Any]] | None:
        """What to ask about a call; None where nobody wants to hear of it."""
        if not self._tools.wants(tool.name):
            return None
        told = {name: value for name, value in args.items() if name in tool.args}  # without what LangChain puts in
        return tool.name, as_json(told), declaration_of(tool)

    def ask(self, question: tuple[str, dict[str, Any], dict[str, Any]]) -> dict[str, Any]:
        return self._tools.ask(*question)

    async def ask_later(self, question: tuple[str, dict[str, Any], dict[str, Any]]) -> dict[str, Any]:
        return await self._tools.ask_later(*question)

    def given(self, tool: Any, answer: dict[str, Any]) -> Any:
        """Another answered in place of the tool: what it gave, or raises what it raised."""
        run_id = getattr((var_child_runnable_config.get() or {}).get("callbacks"), "parent_run_id", None)
        if self._watch is not None:
            self._watch.note(run_id, **{MARK: answer["source"]})
        if answer.get("error") is not None:
            raise raised.made_of(answer["error"], tool.name)
        response = answer.get("response")
        return (response, None) if tool.response_format == "content_and_artifact" else response

    def returned(self, tool: Any, answer: dict[str, Any], value: Any) -> None:
        """The tool itself gave this."""
        is_pair = tool.response_format == "content_and_artifact" and isinstance(value, tuple) and len(value) == 2
        self._tools.tell(answer, response=value[0] if is_pair else value)

    def failed(self, answer: dict[str, Any], error: BaseException) -> None:
        """The tool itself raised this."""
        self._tools.tell(answer, error=raised.as_data(error))


def _ask_first(tool: Any) -> None:
    """Have a tool ask, once. Its own `_arun` may come back to `_run`: that is the same call."""
    if getattr(tool, _WRAPPED, False):
        return
    run, arun = tool._run, tool._arun

    @functools.wraps(run)
    def run_or_ask(*args: Any, **kwargs: Any) -> Any:
        calls = _here.get()
        question = None if calls is None or _within.get() is tool else calls.question(tool, kwargs)
        if calls is None or question is None:
            return run(*args, **kwargs)
        answer = calls.ask(question)
        if answer["source"] is not None:
            return calls.given(tool, answer)
        inside = _within.set(tool)
        try:
            value = run(*args, **kwargs)
        except BaseException as error:
            calls.failed(answer, error)
            raise
        finally:
            _within.reset(inside)
        calls.returned(tool, answer, value)
        return value

    @functools.wraps(arun)
    async def arun_or_ask(*args: Any, **kwargs: Any) -> Any:
        calls = _here.get()
        question = None if calls is None or _within.get() is tool else calls.question(tool, kwargs)
        if calls is None or question is None:
            return await arun(*args, **kwargs)
        answer = await calls.ask_later(question)
        if answer["source"] is not None:
            return calls.given(tool, answer)
        inside = _within.set(tool)
        try:
            value = await arun(*args, **kwargs)
        except BaseException as error:
            calls.failed(answer, error)
            raise
        finally:
            _within.reset(inside)
        calls.returned(tool, answer, value)
        return value

    # Past pydantic, whose models take no attribute that is no field.
    object.__setattr__(tool, "_run", run_or_ask)
    object.__setattr__(tool, "_arun", arun_or_ask)
    object.__setattr__(tool, _WRAPPED, True)


def _tools_in_modules(roots: list[str]) -> list[Any]:
    """The tools that the agent's own modules hold: functions of nodes call some that no graph shows."""
    folders = tuple(os.path.abspath(root) + os.sep for root in roots)
    found = {}
    for module in list(sys.modules.values()):
        path = getattr(module, "__file__", None)
        if isinstance(path, str) and path.startswith(folders):
            for value in list(vars(module).values()):
                if isinstance(value, BaseTool):
                    found[id(value)] = value
    return list(found.values())
