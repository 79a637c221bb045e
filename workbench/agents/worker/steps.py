"""Steps of agents as calls, and plain JSON out of whatever agents and models hand around."""

from __future__ import annotations

import base64
import dataclasses
import enum
from typing import Any

from .adapters.base import AgentFault
from .wire import UNNAMED_ARGUMENT, describe, parse_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional, Tuple


# Plain JSON data out of whatever agents, models and tools hand around.

_DEEPEST = 64  # levels; deeper data is cut rather than followed, so that a structure that holds itself comes to an end


def as_json(value: Any, *, depth: int = _DEEPEST) -> Any:
    """The value as JSON data.

    pydantic models become objects without their empty fields (a None inside a dictionary stays: a null argument is an
    argument), bytes URL-safe base64 as ADK writes them, dates ISO 8601, sets lists. What has no JSON form becomes its
    text. Never raises because of what it is given.
    """
    if value is None or isinstance(value, (str, bool)):
        return value.value if isinstance(value, enum.Enum) else value
    if isinstance(value, enum.Enum):
        return as_json(value.value, depth=depth)
    if isinstance(value, (int, float)):
        return value
    if depth <= 0:
        return "..."
    if isinstance(value, dict):
        return {_key(key): as_json(item, depth=depth - 1) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [as_json(item, depth=depth - 1) for item in value]
    if isinstance(value, (bytes, bytearray)):
        return base64.urlsafe_b64encode(value).decode("ascii")
    try:
        return _object(value, depth=depth - 1)
    except Exception:  # a user's own __str__, serializer or isoformat may raise anything
        return f"<{type(value).__name__}>"


def _object(value: Any, *, depth: int) -> Any:
    if not isinstance(value, type):
        if hasattr(value, "model_dump"):
            return as_json(value.model_dump(exclude_none=True), depth=depth)
        if dataclasses.is_dataclass(value):
            return {field.name: as_json(getattr(value, field.name), depth=depth) for field in dataclasses.fields(value)}
        if hasattr(value, "isoformat"):
            return value.isoformat()
    return str(value)


def _key(key: Any) -> str:
    if isinstance(key, enum.Enum):
        key = key.value
    return key if isinstance(key, str) else str(key)


# Intermediate steps of LangChain agents, as objects or as the JSON that Agent Engine gives: calls and their results.

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
