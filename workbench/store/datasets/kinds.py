"""Kinds of values, in words."""

from __future__ import annotations

from typing import Any


def kind_of(value: Any) -> str:
    """What a value is, in the words of JSON."""
    names = {type(None): "null", bool: "true or false", dict: "an object", list: "a list", str: "text"}
    return names.get(type(value), "a number")
