"""Projects with a function agent, tested by separate pytest processes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import AGENT, SETTINGS, TRAJECTORY_ONLY, turn

__all__ = ["PLAIN", "PytestProject", "turn"]

_UNUSED_PLUGINS = ("anyio", "hypothesispytest", "langsmith_plugin", "syrupy", "textual-snapshot")
PLAIN = tuple(word for name in _UNUSED_PLUGINS for word in ("-p", f"no:{name}"))
"""Options for a separate pytest process without other plugins, which dominate its start time."""


@dataclass(frozen=True)
class PytestProject:
    """A folder with the agent of the command-line tests, its criteria, and eval sets."""

    pytester: pytest.Pytester

    @property
    def root(self) -> Path:
        return self.pytester.path

    def write(self, name: str, content: Any) -> Path:
        """Write a file: text unchanged, other values as JSON."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
        return path

    def add_set(self, name: str, **cases: list[dict[str, Any]]) -> Path:
        """Add an eval set with these cases by id."""
        data = [{"eval_id": eval_id, "conversation": turns} for eval_id, turns in cases.items()]
        return self.write(name, {"eval_set_id": Path(name).name.split(".")[0], "eval_cases": data})

    def pytest(self, *arguments: str) -> Any:
        """Run pytest in the project."""
        return self.run_with_cache("-p", "no:cacheprovider", *arguments)

    def run_with_cache(self, *arguments: str) -> Any:
        """Run pytest with its cache of the last failures."""
        return self.pytester.runpytest_subprocess(*PLAIN, *arguments)

    def read_statuses(self, *arguments: str) -> dict[str, str]:
        """Return the outcome of each test by node id."""
        lines = self.pytest("-rA", "-q", *arguments).outlines
        words = ("PASSED", "FAILED", "ERROR", "SKIPPED")
        found = (line.split(" ", 1) for line in lines if line.startswith(words))
        return {rest.split(" - ")[0]: word for word, rest in found}


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> PytestProject:
    """Create a project with an agent that follows its prompts."""
    monkeypatch.setenv("COLUMNS", "300")  # the short summary has reasons only on a wide terminal
    pytest_project = PytestProject(pytester)
    pytest_project.write("workbench.toml", SETTINGS)
    pytest_project.write("home/agent.py", AGENT)
    pytest_project.write("home/test_config.json", TRAJECTORY_ONLY)
    return pytest_project
