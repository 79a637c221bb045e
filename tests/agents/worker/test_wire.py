"""Messages between a worker and the engine: their lines, and values that JSON cannot hold."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import pytest

from workbench.agents.channel import PROTOCOL
from workbench.agents.worker import wire
from workbench.agents.worker.wire import describe, encode, explain_unfit, make_json_safe


def test_engine_and_worker_have_the_same_protocol_version() -> None:
    assert wire.PROTOCOL == PROTOCOL


def test_the_reader_of_the_worker_splits_data_into_messages() -> None:
    reader = wire.LineReader()

    assert reader.feed(b'{"a"') == []
    assert reader.feed(b":1}\n{}\n{") == [{"a": 1}, {}]
    assert reader.feed(b"}\n") == [{}]


def test_values_that_json_cannot_hold_are_reported_or_become_text() -> None:
    loop: list[Any] = []
    loop.append(loop)

    assert explain_unfit({"a": [1, "x", None, 1.5, True]}, "v") is None
    assert explain_unfit({"a": [1, {2}]}, "v") == "v.a[1] is a set, which JSON cannot hold"
    assert explain_unfit({(1,): 2}, "v") == "v has a tuple as a key, expected a str"
    assert explain_unfit(loop, "v") == "v" + "[0]" * 101 + " is nested more than 100 levels deep"
    assert explain_unfit(float("inf"), "v") == "v is inf, which JSON cannot hold"
    assert make_json_safe({1: {2}, "x": float("nan"), "y": b"z"}) == {"1": [2], "x": "nan", "y": "b'z'"}
    assert json.loads(wire.encode({"type": "span", "span": loop}))["type"] == "span"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "None"),
        (3, "an int (3)"),
        ("x" * 100, "a str ('" + "x" * 56 + "...)"),
        ({}, "an empty dict"),
        ({"b": 1, "a": 2}, "a dict with the keys a, b"),
        (Fraction(1, 2), "a fractions.Fraction"),
    ],
)
def test_values_are_described_in_readable_text(value: Any, text: str) -> None:
    assert describe(value) == text


@pytest.mark.parametrize(("kind", "arrives"), [("dependencies", "a/\udcff"), ("turn", "a/\ufffd")])
def test_only_dependencies_keep_names_of_files_that_are_not_utf_8(kind: str, arrives: str) -> None:
    assert json.loads(encode({"type": kind, "names": ["a/\udcff"]}))["names"] == [arrives]
