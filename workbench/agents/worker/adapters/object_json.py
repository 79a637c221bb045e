"""Objects of agents, models and tools as JSON data.

A module of its own: its imports cost more than a trivial agent, and must come before the agent's folders count.
"""

from __future__ import annotations

import base64
import dataclasses
import enum

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_DEEPEST = 64  # levels; deeper data is cut, so that a structure that contains itself ends


def as_json(value: Any, *, depth: int = _DEEPEST) -> Any:
    """Convert an object to JSON data.

    pydantic models become objects without their empty fields; a None in a dictionary stays, because a null argument is
    an argument. Bytes become URL-safe base64 as in ADK, dates ISO 8601, sets lists, and other values their text. No
    value raises an exception.
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
        return {_convert_key(key): as_json(item, depth=depth - 1) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [as_json(item, depth=depth - 1) for item in value]
    if isinstance(value, (bytes, bytearray)):
        return base64.urlsafe_b64encode(value).decode("ascii")
    try:
        return _convert_object(value, depth=depth - 1)
    except Exception:  # a user's own __str__, serializer or isoformat may raise anything
        return f"<{type(value).__name__}>"


def _convert_object(value: Any, *, depth: int) -> Any:
    if not isinstance(value, type):
        if hasattr(value, "model_dump"):
            return as_json(value.model_dump(exclude_none=True), depth=depth)
        if dataclasses.is_dataclass(value):
            return {field.name: as_json(getattr(value, field.name), depth=depth) for field in dataclasses.fields(value)}
        if hasattr(value, "isoformat"):
            return value.isoformat()
    return str(value)


def _convert_key(key: Any) -> str:
    if isinstance(key, enum.Enum):
        key = key.value
    return key if isinstance(key, str) else str(key)
