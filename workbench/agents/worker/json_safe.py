"""Values of agents that JSON must hold: described, checked and converted."""

from __future__ import annotations

import json
import math

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

UNNAMED_ARGUMENT = "__arg1"  # LangChain's name for the argument of a tool that takes one text, or another plain value
CUSTOM = ("custom", "custom_tool_call")  # OpenAI's types of calls whose `input` is such a text, and never JSON

_DEEPEST = 100  # levels of nesting, fewer than the engine's reader accepts
_LONGEST_NUMBER = 14_000  # bits of an integer


def _is_too_long(number: int) -> bool:
    """Return True if Python refuses to write the number in digits (from 4,300 digits, about 14,284 bits)."""
    return int.bit_length(number) > _LONGEST_NUMBER


def describe(value: Any) -> str:
    """Describe a value for a message: its type, and the value if it is short."""
    if value is None:
        return "None"
    kind = type(value)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    article = "an" if name[0] in "aeiou" else "a"
    if isinstance(value, dict):
        keys = ", ".join(sorted(str(key) for key in value)[:12])
        return f"a dict with the keys {keys}" if keys else "an empty dict"
    if kind in (bool, int, float, str, bytes):
        if kind is int and _is_too_long(value):
            return f"an int of more than {_LONGEST_NUMBER} bits"
        text = repr(value)
        return f"{article} {name} ({text if len(text) <= 60 else text[:57] + '...'})"
    return f"{article} {name}"


def parse_text(value: Any) -> Any:
    """Parse text that is JSON, such as tool inputs of Vertex AI, and turn empty text into None."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value or None


def explain_unfit(value: Any, place: str, depth: int = 0) -> str | None:
    """Return where and why JSON cannot hold a value, as one clause; None if it can."""
    if value is None or isinstance(value, (str, bool)):
        return None
    if isinstance(value, int):
        return (
            f"{place} is an int of more than {_LONGEST_NUMBER} bits, which JSON readers refuse"
            if _is_too_long(value)
            else None
        )
    if isinstance(value, float):
        return None if math.isfinite(value) else f"{place} is {value!r}, which JSON cannot hold"
    if depth > _DEEPEST:
        return f"{place} is nested more than {_DEEPEST} levels deep"
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, (str, int, float, bool, type(None))):
                return f"{place} has {describe(key)} as a key, expected a str"
            found = explain_unfit(item, f"{place}.{key}", depth + 1)
            if found:
                return found
        return None
    if isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            found = explain_unfit(item, f"{place}[{index}]", depth + 1)
            if found:
                return found
        return None
    return f"{place} is {describe(value)}, which JSON cannot hold"


def make_json_safe(value: Any, depth: int = 0) -> Any:
    """Replace what JSON cannot hold by text. For values that are shown, not judged (spans, session state)."""
    if value is None or isinstance(value, (str, bool)):
        return value
    if isinstance(value, int):
        return hex(value)[:1000] + "..." if _is_too_long(value) else value
    if isinstance(value, float):
        return value if math.isfinite(value) else repr(value)
    if depth <= _DEEPEST:
        if isinstance(value, dict):
            return {str(make_json_safe(key)): make_json_safe(item, depth + 1) for key, item in value.items()}
        if isinstance(value, (list, tuple, set, frozenset)):
            return [make_json_safe(item, depth + 1) for item in value]
    try:
        text = repr(value)
    except Exception:  # the agent's own __repr__
        text = f"<{type(value).__qualname__}>"
    return text if len(text) <= 1000 else text[:997] + "..."
