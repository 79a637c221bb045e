"""A value of JSON as an indented tree to read: one line for each key, long texts wrapped below it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from workbench.model.text import REDACTED, names_secret, redact
from workbench.tui.state.blocks import Block, Whole
from workbench.tui.state.pieces import Piece, Tone, safe, safe_line

_MOST_LINES = 2_000


def value_blocks(value: Mapping[str, Any], *, indent: int) -> list[Block]:
    """The members of an object. What is left out of a very large one is counted."""
    blocks: list[Block] = []
    left_out = 0
    for block in _members(value, indent=indent):
        if len(blocks) < _MOST_LINES:
            blocks.append(block)
        else:
            left_out += 1
    if left_out:
        blocks.append(Whole.of(f"… {left_out:,} more lines are not shown", Tone.MUTED, indent=indent))
    return blocks


def _members(value: Any, *, indent: int) -> Iterator[Block]:
    items = value.items() if isinstance(value, Mapping) else enumerate(value, start=1)
    for key, member in items:
        name = f"{key}." if isinstance(key, int) else safe_line(str(key))
        if isinstance(member, Mapping | list | tuple) and member:
            yield Whole.of(name, Tone.KEY, indent=indent)
            yield from _members(member, indent=indent + 2)
        else:
            shown = REDACTED if isinstance(member, str) and names_secret(name) else _text(member)
            yield Whole((Piece(f"{name}  ", Tone.KEY), Piece(shown)), indent=indent, hang=2)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return safe(redact(value)) or '""'
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return "none"
    if isinstance(value, float):
        return f"{value:.6g}"
    return safe(redact(str(value)))
