"""Projects for the commands of the documentation."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command_line import CommandLine, make_project, turn
from tests.docs.blocks import ROOT, Block, read_blocks


@pytest.fixture
def workbench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """Return a project with one function agent, and a set with a passing and a failing case."""
    return make_project(tmp_path, monkeypatch)


@pytest.fixture
def make_turn() -> Callable[..., dict[str, Any]]:
    return turn


@pytest.fixture
def empty_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """Return a command line in an empty folder."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "120")
    root = tmp_path / "project"
    root.mkdir()
    return CommandLine(root, monkeypatch)


@pytest.fixture
def readme_project(empty_project: CommandLine) -> CommandLine:
    """Return the project of the README after two runs."""
    write_files(empty_project, read_blocks(ROOT / "README.md"))
    for _ in range(2):
        assert empty_project("run", "home").status == 1
    return empty_project


def write_files(project: CommandLine, blocks: Iterable[Block]) -> None:
    """Write the blocks that belong to a named file."""
    for block in blocks:
        if block.file is not None:
            project.write(block.file, block.text)


def add_sample_agents(project: CommandLine) -> None:
    """Copy the sample agents into a project."""
    ignore = shutil.ignore_patterns(".workbench", ".adk", "__pycache__")
    shutil.copytree(ROOT / "sample_agents", project.root / "sample_agents", ignore=ignore)
