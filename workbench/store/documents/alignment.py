"""Comparing JSON values as JSON: numbers keep their kind, the order of keys means nothing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Any, NamedTuple

from workbench.store.documents.places import to_snake

_MOST_COMPARISONS = 1_000_000


class Block(NamedTuple):
    """A stretch of two lists: `old[old_start:old_end]` became `new[new_start:new_end]`, or is it, where `equal`."""

    equal: bool
    old_start: int
    old_end: int
    new_start: int
    new_end: int


def canonical(value: Any) -> str:
    """A text that two values share exactly if they are the same JSON. 1, 1.0 and true are three values, NaN is one."""
    return json.dumps(value, sort_keys=True)


def same(one: Any, other: Any) -> bool:
    """Whether two values are the same JSON."""
    return type(one) is type(other) and canonical(one) == canonical(other)


def align(old: Sequence[Any], new: Sequence[Any]) -> list[Block]:
    """How one list became another, keys being the same in either style."""
    old_texts = [canonical(_in_snake_case(item)) for item in old]
    new_texts = [canonical(_in_snake_case(item)) for item in new]
    if len(old_texts) * len(new_texts) > _MOST_COMPARISONS:
        start = common_prefix(old_texts, new_texts)
        end = common_prefix(old_texts[start:][::-1], new_texts[start:][::-1])
        old_end, new_end = len(old) - end, len(new) - end
        return [
            Block(True, 0, start, 0, start),
            Block(False, start, old_end, start, new_end),
            Block(True, old_end, len(old), new_end, len(new)),
        ]
    matcher = SequenceMatcher(None, old_texts, new_texts, autojunk=False)
    return [Block(code[0] == "equal", *code[1:]) for code in matcher.get_opcodes()]


def common_prefix(one: Sequence[Any], other: Sequence[Any]) -> int:
    """The length of the longest common beginning; compares slices, so it is quick on long texts."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _in_snake_case(value: Any) -> Any:
    if isinstance(value, dict):
        return {to_snake(key): _in_snake_case(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_in_snake_case(item) for item in value]
    return value
