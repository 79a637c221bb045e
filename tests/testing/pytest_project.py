"""Projects with a function agent, tested by separate pytest processes."""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command_line import AGENT, SETTINGS, TRAJECTORY_ONLY
from tests.testing.forked_pytest import PLAIN, ForkedPytest


@dataclass(frozen=True)
class PytestProject:
    """A folder with the agent of the command-line tests, its criteria, and eval sets.

    Without `forked` each run starts a new interpreter.
    """

    pytester: pytest.Pytester
    forked: ForkedPytest | None

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
        if self.forked is None:
            return self.pytester.runpytest_subprocess(*PLAIN, *arguments)
        outputs = [self.root / "stdout", self.root / "stderr"]
        started = time.monotonic()
        status = self.forked.run(
            [f"--basetemp={self.root / 'runpytest'}", *PLAIN, *arguments],
            folder=self.root,
            environment={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(filter(None, [str(self.root), os.environ.get("PYTHONPATH")])),
            },
            outputs=outputs,
        )
        out, error = (path.read_text(encoding="utf-8").splitlines() for path in outputs)
        print(*out, *error, sep="\n")  # for the report of a failure
        return pytest.RunResult(status, out, error, time.monotonic() - started)

    def read_statuses(self, *arguments: str) -> dict[str, str]:
        """Return the outcome of each test by node id."""
        lines = self.pytest("-rA", "-q", *arguments).outlines
        words = ("PASSED", "FAILED", "ERROR", "SKIPPED")
        found = (line.split(" ", 1) for line in lines if line.startswith(words))
        return {rest.split(" - ")[0]: word for word, rest in found}


@pytest.fixture
def empty_project(
    pytester: pytest.Pytester, forked_pytest: ForkedPytest | None, monkeypatch: pytest.MonkeyPatch
) -> PytestProject:
    """Return a project in an empty folder."""
    monkeypatch.setenv("COLUMNS", "300")  # the short summary has reasons only on a wide terminal
    return PytestProject(pytester, forked_pytest)


@pytest.fixture
def project(empty_project: PytestProject) -> PytestProject:
    """Create a project with an agent that follows its prompts."""
    pytest_project = empty_project
    pytest_project.write("workbench.toml", SETTINGS)
    pytest_project.write("home/agent.py", AGENT)
    pytest_project.write("home/test_config.json", TRAJECTORY_ONLY)
    return pytest_project
