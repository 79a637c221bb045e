"""Tools of ADK agents: how they are described, and how calls are answered for them."""

from __future__ import annotations

import inspect
from typing import Any

from ... import faults
from ...asking import Tools
from ...responses import docstring_to_tell, schema_to_tell
from ...steps import as_json
from .adk_loading import agents_of, names_below, structure_of, tool_name, tools_held_by, tools_of

# Calls of an ADK agent's tools that the engine wants to hear of: asked about before, told of after they were made.

_TOLD_ACTIONS = ("state_delta", "transfer_to_agent", "escalate", "skip_summarization")
_OF_THE_FRAMEWORK = frozenset({"transfer_to_agent", "exit_loop"})


def refuse_unknown_tools(tools: Tools, agent: Any) -> None:
    """Raise LoadError for a tool that is named and that none of the agents has.

    What a toolset holds is not known: with one, a tool that is not there may be of it.
    """
    known: dict[str, None] = {}
    for name, facts in structure_of(agent).items():
        known.update(dict.fromkeys(facts.get("tools", ())))
        known[name] = None  # agents are tools where a workflow or another agent uses them so
    if any(hasattr(tool, "get_tools") for tool in tools_of(agent)):
        return
    for name, place in tools.names.items():
        if place is not None and name not in known:
            raise tools.refuse_unknown(name, known, expected=f"one of the agent's tools ({', '.join(known)})")


class ToolCalls:
    """What becomes of the calls of one session."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools
        self._made: dict[int, tuple[Any, dict[str, Any]]] = {}  # by the identity of the context, which is held
        self._to_raise: dict[int, tuple[Any, BaseException]] = {}

    async def before(self, tool: Any, args: dict[str, Any], tool_context: Any) -> tuple[str | None, Any]:
        """Who answers in place of the tool, and with what; None and None where it is to be called."""
        if not self._tools.wants(tool.name, is_plain=_is_plain(tool)):
            return None, None
        answer = await self._tools.ask_later(tool.name, as_json(args), declaration_of(tool))
        if answer["source"] is None:
            self._made[id(tool_context)] = (tool_context, answer)
            return None, None
        _repeat_actions(tool_context, answer.get("actions") or {})
        if answer.get("error") is not None:
            self._have_raised(tool, tool_context, faults.made_of(answer["error"], tool.name))
            return answer["source"], None
        response = answer.get("response")
        # What is no object ADK wraps in one; None it would take for no answer at all.
        return answer["source"], {"result": None} if response is None else response

    def returned(self, tool_context: Any, result: Any) -> None:
        """A tool gave this."""
        _, answer = self._made.pop(id(tool_context), (None, None))
        if answer is not None:
            actions = as_json(tool_context.actions) or {}
            told = {name: actions[name] for name in _TOLD_ACTIONS if actions.get(name)}
            self._tools.tell(answer, response=as_json(result), actions=told)

    def failed(self, tool_context: Any, error: BaseException) -> None:
        """A tool raised this."""
        _, answer = self._made.pop(id(tool_context), (None, None))
        if answer is not None:
            self._tools.tell(answer, error=faults.as_data(error))

    def _have_raised(self, tool: Any, tool_context: Any, error: BaseException) -> None:
        """Have the tool itself raise, for this call: what a callback raises ADK takes for a fault of the callback."""
        self._to_raise[id(tool_context)] = (tool_context, error)
        run = tool.run_async
        if getattr(run, "raises_for", None) is self:
            return

        async def run_or_raise(*, args: dict[str, Any], tool_context: Any) -> Any:
            _, recorded = self._to_raise.pop(id(tool_context), (None, None))
            if recorded is not None:
                raise recorded
            return await run(args=args, tool_context=tool_context)

        run_or_raise.raises_for = self  # type: ignore[attr-defined]
        tool.run_async = run_or_raise


def _is_plain(tool: Any) -> bool:
    """Whether a tool does something itself: not where it hands over, or runs an agent whose tools are asked about."""
    return tool.name not in _OF_THE_FRAMEWORK and not hasattr(getattr(tool, "agent", None), "sub_agents")


def _repeat_actions(tool_context: Any, actions: dict[str, Any]) -> None:
    """Do to the session what the tool did when its call was recorded."""
    for key, value in (actions.get("state_delta") or {}).items():
        tool_context.state[key] = value
    for name in ("transfer_to_agent", "escalate", "skip_summarization"):
        if name in actions:
            setattr(tool_context.actions, name, actions[name])


def declaration_of(tool: Any) -> dict[str, Any]:
    """What a model is told of a tool."""
    try:
        told: dict[str, Any] = schema_to_tell(as_json(tool._get_declaration()) or {})
    except Exception:  # a tool of the user's may declare itself in its own way, or not at all
        told = {}
    declaration = {"name": tool.name, "description": tool.description or "", **told}
    if isinstance(declaration["description"], str):
        function = getattr(tool, "func", None)
        declaration["description"] = docstring_to_tell(function, declaration["description"])
    return declaration


# What an ADK agent and those below it are told and can call, read from the objects: nothing of them runs.

_INSTRUCTIONS = ("global_instruction", "static_instruction", "instruction")


def description_of(agent: Any) -> dict[str, Any]:
    """The agent and all below it, as the answer to `describe`."""
    untold: list[str] = []
    parts = [_part(item, untold) for item in agents_of(agent)]
    return {"agents": parts, "untold": untold}


def _part(agent: Any, untold: list[str]) -> dict[str, Any]:
    told = {
        "type": type(agent).__name__,
        "description": _text(getattr(agent, "description", None)),
        "instruction": _instruction(agent, untold),
        "tools": _declarations(agent, untold),
        "agents": names_below(agent),
    }
    return {"name": agent.name, **{name: value for name, value in told.items() if value}}


def _instruction(agent: Any, untold: list[str]) -> str:
    texts = []
    for name in _INSTRUCTIONS:
        value = getattr(agent, name, None)
        if callable(value):
            untold.append(f"{name} of {agent.name} is made by a function when a model is asked")
            value = inspect.getdoc(value)
        texts.append(_text(value))
    return "\n\n".join(text for text in texts if text)


def _text(value: Any) -> str:
    """A text, or those in a content of google.genai; what holds none has none."""
    if isinstance(value, str):
        return value
    parts = getattr(value, "parts", None) or ([value] if hasattr(value, "text") else value)
    if not isinstance(parts, (list, tuple)):
        return ""
    texts = (part if isinstance(part, str) else getattr(part, "text", None) for part in parts)
    return "\n".join(text for text in texts if isinstance(text, str))


def _declarations(agent: Any, untold: list[str]) -> list[dict[str, Any]]:
    told = []
    for tool in tools_held_by(agent):
        if hasattr(tool, "get_tools"):
            untold.append(f"{type(tool).__name__} of {agent.name} was not asked which tools it holds")
            continue
        try:
            told.append(as_json(declaration_of(_as_tool(tool))))
        except Exception:  # a tool of the user's own making; its name is all that is known
            told.append({"name": tool_name(tool)})
    return told


def _as_tool(tool: Any) -> Any:
    """A function among the tools as ADK makes a tool of it."""
    if hasattr(tool, "_get_declaration"):
        return tool
    from google.adk.tools.function_tool import FunctionTool

    return FunctionTool(func=tool)
