"""Projects with a function agent, tested by pytest in processes of its own."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import AGENT, SETTINGS, TRAJECTORY_ONLY, turn

__all__ = ["PLAIN", "PytestProject", "turn"]

_NOT_NEEDED = ("anyio", "hypothesispytest", "langsmith_plugin", "syrupy", "textual-snapshot")
PLAIN = tuple(word for name in _NOT_NEEDED for word in ("-p", f"no:{name}"))
"""Options for pytest in a process of its own: other plugins take most of its time to start."""


@dataclass(frozen=True)
class PytestProject:
    """A folder with the agent of the command line's tests, its criteria, and eval sets."""

    pytester: pytest.Pytester

    @property
    def root(self) -> Path:
        return self.pytester.path

    def write(self, name: str, content: Any) -> Path:
        """Write a file: text as it is, anything else as JSON."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
        return path

    def add_set(self, name: str, **cases: list[dict[str, Any]]) -> Path:
        """An eval set with these cases by their id."""
        data = [{"eval_id": eval_id, "conversation": turns} for eval_id, turns in cases.items()]
        return self.write(name, {"eval_set_id": Path(name).name.split(".")[0], "eval_cases": data})

    def pytest(self, *arguments: str) -> Any:
        """Run pytest here."""
        return self.cached("-p", "no:cacheprovider", *arguments)

    def cached(self, *arguments: str) -> Any:
        """Run pytest with its cache, which knows what failed last."""
        return self.pytester.runpytest_subprocess(*PLAIN, *arguments)

    def status_lines(self, *arguments: str) -> dict[str, str]:
        """How each test ended, by its node id."""
        lines = self.pytest("-rA", "-q", *arguments).outlines
        words = ("PASSED", "FAILED", "ERROR", "SKIPPED")
        found = (line.split(" ", 1) for line in lines if line.startswith(words))
        return {rest.split(" - ")[0]: word for word, rest in found}


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> PytestProject:
    """A project whose agent does what prompts say."""
    monkeypatch.setenv("COLUMNS", "300")  # the short summary says why only where there is room
    made = PytestProject(pytester)
    made.write("workbench.toml", SETTINGS)
    made.write("home/agent.py", AGENT)
    made.write("home/test_config.json", TRAJECTORY_ONLY)
    return made
