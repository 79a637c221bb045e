"""Loading of an agent's code: its own names, and its newest source."""

from __future__ import annotations

import os
from typing import Any

import pytest


@pytest.mark.parametrize(
    "name",
    [
        "json",
        "socket",
        "protocol",
        "wire",
        "child",
        "values",
        "main",
        "adapters",
        "selectors",
        "ssl",
        "logging",
        "heapq",
    ],
)
async def test_a_file_of_the_agent_may_have_any_name(bench: Any, way: dict[str, Any], name: str) -> None:
    bench.write(f"{name}.py", f"WHO = 'my {name}'")
    bench.agent(f"import {name}\nasync def answer(prompt): return {name}.WHO")

    talk = await bench.talk_once("hi", **way)

    assert talk.error is None, talk.message
    assert talk.responses == [f"my {name}"]


async def test_an_agent_may_live_in_a_file_named_like_a_standard_module(bench: Any, way: dict[str, Any]) -> None:
    bench.write("json.py", "def answer(prompt): return prompt")

    talk = await bench.talk_once("hi", location="json:answer", **way)

    assert talk.error is None, talk.message
    assert talk.responses == ["hi"]


@pytest.mark.needs_fork
async def test_stale_bytecode_is_never_run_and_no_bytecode_is_written(bench: Any) -> None:
    bench.agent("import helper\ndef answer(prompt): return helper.WORD")
    helper = bench.write("helper.py", "WORD = 'old'")
    stamp = 1_700_000_000
    os.utime(helper, (stamp, stamp))
    import py_compile

    py_compile.compile(str(helper))
    helper.write_text("WORD = 'new'")
    os.utime(helper, (stamp, stamp))  # same size, same second: the bytecode looks fresh
    before = sorted(bench.folder.rglob("*.pyc"))

    talk = await bench.talk_once("hi")

    assert talk.responses == ["new"]
    assert sorted(bench.folder.rglob("*.pyc")) == before


LIBRARY = """
    import os
    PID = os.getpid()
"""
