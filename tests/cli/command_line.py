"""Projects for one test, and commands on them: in this process, or as processes of their own."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

AGENT = '''
import os, sys, time


def answer(prompt: str):
    """Does what the prompt says."""
    word, _, rest = prompt.partition(" ")
    if word == "raise":
        raise ValueError("kaboom")
    if word == "exit":
        os._exit(7)
    if word == "sleep":
        time.sleep(float(rest))
    if word == "loud":
        print("to stdout"); print("to stderr", file=sys.stderr)
    calls = [{"tool_name": "set_light", "tool_input": {"room": rest}}] if word == "light" else []
    return {"response": f"done: {rest}", "predicted_trajectory": calls}
'''

SETTINGS = """
[targets.home]
kind = "function"
target = "home.agent:answer"
"""

TRAJECTORY_ONLY = {"criteria": {"tool_trajectory_avg_score": 1.0}}


def turn(prompt: str, response: str | None = None, room: str | None = None) -> dict[str, Any]:
    """Return a turn that expects a response and a call of set_light for a room."""
    expected: dict[str, Any] = {"user_content": {"role": "user", "parts": [{"text": prompt}]}}
    if response is not None:
        expected["final_response"] = {"role": "model", "parts": [{"text": response}]}
    if room is not None:
        expected["intermediate_data"] = {"tool_uses": [{"name": "set_light", "args": {"room": room}}]}
    return expected


@dataclass(frozen=True)
class CommandResult:
    """The output and exit status of a command."""

    status: int
    out: str
    error: str

    @property
    def data(self) -> Any:
        """The output, parsed as JSON."""
        return json.loads(self.out)


class CommandLine:
    """A project in a folder, and commands in it."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self._monkeypatch = monkeypatch

    def write(self, name: str, content: str | bytes | Mapping[str, Any] | list[Any]) -> Path:
        """Write a file of the project; data other than text is written as JSON."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False, indent=2)
            path.write_text(text, encoding="utf-8")
        return path

    def add_set(self, name: str, cases: Mapping[str, list[dict[str, Any]]], **more: Any) -> Path:
        """Write an eval set."""
        entries = [{"eval_id": eval_id, "conversation": turns} for eval_id, turns in cases.items()]
        set_id = Path(name).name.split(".")[0]
        return self.write(name, {"eval_set_id": set_id, "eval_cases": entries, **more})

    def __call__(self, *arguments: str) -> CommandResult:
        """Run a command in this process, in the folder of the project."""
        from workbench.cli.main import main

        out, error = io.StringIO(), io.StringIO()
        self._monkeypatch.chdir(self.root)
        self._monkeypatch.setattr(sys, "argv", ["workbench", *arguments])
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
            status = main(list(arguments))
        return CommandResult(status, out.getvalue(), error.getvalue())

    def start(self, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        """Start a command as a process of its own."""
        return subprocess.Popen(
            [sys.executable, "-m", "workbench.cli.main", *arguments],
            cwd=self.root, env={**os.environ, **environment}, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8",
        )  # fmt: skip

    def process(self, *arguments: str, **environment: str) -> CommandResult:
        """Run a command as a process of its own."""
        process = self.start(*arguments, **environment)
        try:
            out, error = process.communicate(timeout=60)
        finally:
            process.kill()  # a process that hangs must not survive the test
        return CommandResult(process.returncode, out, error)


def make_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """Create a project with one function agent, and a set with a passing and a failing case."""
    root = tmp_path / "project"
    root.mkdir()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("workbench.engine.runner._backoff_seconds", lambda tries: 0.01)  # between tries; else seconds
    command = CommandLine(root, monkeypatch)
    command.write("workbench.toml", SETTINGS)
    command.write("home/__init__.py", "")
    command.write("home/agent.py", AGENT)
    command.write("home/test_config.json", TRAJECTORY_ONLY)
    command.add_set(
        "home/light.evalset.json",
        {"on": [turn("light kitchen", room="kitchen")], "off": [turn("light hall", room="bedroom")]},
    )
    return command


def get_statuses(result: CommandResult) -> dict[str, str]:
    return {case["eval_id"]: case["status"] for case in result.data["cases"]}
