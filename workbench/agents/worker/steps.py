"""Intermediate steps of LangChain agents, as objects or as the JSON that Agent Engine gives: calls and their results.

Each step is a pair of action and observation. An action is an AgentAction, a dict with `tool` and `tool_input`, or the
serialised form of LangChain, which has them under `kwargs`.
"""

from __future__ import annotations

from .adapters.base import AgentFault
from .plain import as_json
from .values import UNNAMED_ARGUMENT, describe, parse_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional, Tuple

_SHAPE = '[{"kwargs": {"tool": "...", "tool_input": {...}}}, observation]'
_NO_TOOL = "_Exception"
"""What an AgentExecutor notes in place of a tool where it could not read what the model wrote."""


def read_steps(steps: Any, place: str = "intermediate_steps") -> Dict[str, Any]:
    """`tool_uses` and `tool_responses` of the steps. Raises AgentFault where they cannot be read: none is lost."""
    if steps is None:
        steps = []
    if not isinstance(steps, (list, tuple)):
        raise AgentFault(f'"{place}" is {describe(steps)}, expected a list of steps such as {_SHAPE}')
    uses: List[Dict[str, Any]] = []
    responses: List[Dict[str, Any]] = []
    for index, step in enumerate(steps):
        name, args, call_id, observation = _read_step(step, f"{place}[{index}]")
        if name == _NO_TOOL:
            continue
        use = {"name": name, "args": args}
        uses.append(use if call_id is None else {"id": call_id, **use})
        response = as_json(observation)
        response = response if isinstance(response, dict) else {"result": response}
        responses.append({"id": call_id, "name": name, "response": response})
    return {"tool_uses": uses, "tool_responses": responses}


def _read_step(step: Any, place: str) -> Tuple[str, Dict[str, Any], Optional[str], Any]:
    if isinstance(step, dict) and "action" in step:
        step = (step["action"], step.get("observation"))
    if not isinstance(step, (list, tuple)) or len(step) != 2:
        raise AgentFault(f'"{place}" is {describe(step)}, expected {_SHAPE}')
    action, observation = step
    told = action.get("kwargs", action) if isinstance(action, dict) else action
    read = told.get if isinstance(told, dict) else lambda key, _told=told: getattr(_told, key, None)
    name, args, call_id = read("tool"), read("tool_input"), read("tool_call_id")
    if not isinstance(name, str):
        raise AgentFault(f'"{place}[0]" is {describe(action)}, expected {_SHAPE}')
    args = parse_text(args)
    if args is not None and not isinstance(args, dict):
        args = {UNNAMED_ARGUMENT: args}
    return name, as_json(args or {}), call_id if isinstance(call_id, str) else None, observation
