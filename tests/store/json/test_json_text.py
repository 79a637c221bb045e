"""Tolerant JSON: comments, trailing commas, and limits of depth."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.store.json.json_text import MOST_LEVELS, BrokenJson, decode, decode_tolerantly, mask

TOKENS = st.sampled_from(
    [
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        '"',
        "\\",
        "/",
        "//",
        "/*",
        "*/",
        "#",
        "\n",
        "\r\n",
        " ",
        "a",
        "1",
        "é",
        "🫖",
        "null",
    ]
)


@given(st.lists(TOKENS, max_size=30).map("".join))
def test_masking_keeps_every_offset_and_leaves_strict_json_unchanged(text: str) -> None:
    masked = mask(text)

    assert len(masked.text) == len(text)
    assert all(new in (old, " ") for old, new in zip(text, masked.text, strict=True))
    try:
        data = decode(text)
    except BrokenJson as broken:
        assert 0 <= broken.offset <= len(text)
    else:
        assert masked.is_strict and json.loads(text) == data


def nest_lists(levels: int) -> str:
    return "[" * levels + "]" * levels


def call_deep_in_stack(call: Callable[[], Any]) -> Any:
    """Call a function with 600 of 1,000 stack frames in use."""

    def descend(frames: int) -> Any:
        return call() if not frames else descend(frames - 1)

    depth = 0
    frame = sys._getframe()
    while frame.f_back is not None:
        depth, frame = depth + 1, frame.f_back
    return descend(600 - depth)


@pytest.mark.parametrize("levels", [MOST_LEVELS + 1, 700, 985, 100_000])
@pytest.mark.parametrize("text", ["{}", "[1, {}] // a comment"])
def test_json_nested_too_deeply_is_refused_at_any_stack_depth(text: str, levels: int) -> None:
    levels -= text.count("[")

    def read_refusal() -> str:
        with pytest.raises(BrokenJson) as caught:
            decode_tolerantly(text.replace("{}", nest_lists(levels)))
        return str(caught.value)

    place = text.index("{}") + MOST_LEVELS - text.count("[")
    assert read_refusal() == call_deep_in_stack(read_refusal)
    assert read_refusal() == f"at {place}: found a value nested deeper than 200 levels, expected at most 200 levels"


def test_json_with_many_brackets_and_few_levels_is_read() -> None:
    text = json.dumps([[{"[" * 300: "[{" * 300}] * 300, *[{}] * 300, json.loads(nest_lists(MOST_LEVELS - 1))])

    assert call_deep_in_stack(lambda: decode(text)) == json.loads(text)
