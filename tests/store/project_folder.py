"""A project on disk, built file by file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from workbench.store.project_discovery import EvalSetEntry, Project, discover
from workbench.store.settings import load_settings

ADK_AGENT = "from google.adk.agents import Agent\n\nroot_agent = Agent(name='a', model='m')\n"


class ProjectFolder:
    """The files of a test's project."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def write(self, relative: str, text: str = "") -> Path:
        path = self.root / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def write_agent(self, folder: str) -> Path:
        self.write(f"{folder}/__init__.py", "from . import agent\n")
        return self.write(f"{folder}/agent.py", ADK_AGENT)

    def write_set(self, relative: str, *, app_names: tuple[str, ...] = ()) -> Path:
        cases = [
            {"eval_id": f"c{n}", "conversation": [], "session_input": {"app_name": name, "user_id": "u"}}
            for n, name in enumerate(app_names)
        ]
        return self.write(relative, json.dumps({"eval_set_id": "s", "eval_cases": cases}))

    def discover(self) -> Project:
        return discover(self.root, load_settings(self.root, user_file=self.root / "no-such.toml"))

    def entry(self, relative: str) -> EvalSetEntry:
        return next(entry for entry in self.discover().eval_sets if entry.relative == relative)


@pytest.fixture
def folder(tmp_path: Path) -> ProjectFolder:
    root = tmp_path / "project"
    root.mkdir()
    (root / "pyproject.toml").touch()
    return ProjectFolder(root)


@pytest.fixture
def is_agent(folder: ProjectFolder) -> Callable[..., bool]:
    """Return whether a folder `a` with these files is recognised as an ADK agent."""

    def check(agent: str | None = None, init: str | None = None, **others: str) -> bool:
        for name, text in {"agent": agent, "__init__": init, **others}.items():
            if text is not None:
                folder.write(f"a/{name}.py", text)
        return "a" in folder.discover().targets

    return check
