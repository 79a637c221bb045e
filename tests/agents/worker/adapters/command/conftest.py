"""Programs that speak JSON lines, written for one test."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from typing import Any

import pytest

from workbench.model.target import AgentKind

HEAD = """
import json, os, sys, time

def say(**message):
    sys.stdout.write(json.dumps(message) + "\\n")
    sys.stdout.flush()

def turns():
    for line in sys.stdin:
        yield json.loads(line)

"""
Program = Callable[..., dict[str, Any]]


@pytest.fixture
def write_program(bench: Any) -> Program:
    """Return a function that writes a program and returns the arguments of `bench.host` for it."""

    def write(text: str, *arguments: str) -> dict[str, Any]:
        import textwrap

        bench.write("program.py", HEAD + textwrap.dedent(text))
        location = shlex.join([sys.executable, "-S", "program.py", *arguments])
        return {"name": "desk", "kind": AgentKind.COMMAND, "location": location}

    return write
