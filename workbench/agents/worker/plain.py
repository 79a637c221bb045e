"""Plain JSON data out of whatever agents, models and tools hand around."""

from __future__ import annotations

import base64
import dataclasses
import enum
from typing import Any

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
