"""The initial state of a session as it is typed: JSON, with the place where it is none."""

from __future__ import annotations

import json
from typing import Any


def read_state(text: str) -> tuple[dict[str, Any], str]:
    """The state that a text stands for, and what is wrong with it: empty where nothing is. No text is no state."""
    if not text.strip():
        return {}, ""
    try:
        value = json.loads(text, parse_constant=_refuse)
    except _NoJson as error:
        return {}, f"found {error}, expected a value that JSON has"
    except json.JSONDecodeError as error:
        return {}, f"line {error.lineno}, column {error.colno}: {error.msg}"
    except RecursionError:
        return {}, "it is nested too deeply to be read"
    if not isinstance(value, dict):
        return {}, f"found {type(value).__name__}, expected an object: {{...}}"
    return value, ""


class _NoJson(ValueError):
    """A constant that Python reads and JSON does not know."""


def _refuse(constant: str) -> None:
    raise _NoJson(constant)
