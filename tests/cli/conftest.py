"""A project for one test, and commands on it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command_line import CommandLine, make_project, turn


@pytest.fixture
def workbench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """Create a project with one function agent, and a set with a passing and a failing case."""
    return make_project(tmp_path, monkeypatch)


@pytest.fixture
def make_turn() -> Callable[..., dict[str, Any]]:
    return turn
