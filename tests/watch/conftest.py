"""A project for tests of watch mode; those that need another kind make their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.watch.watched import AGENT, TOOLS, Folder


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    made = Folder(tmp_path)
    made.write("agent.py", AGENT)
    made.write("tools.py", TOOLS)
    made.cases(up_1="up one", up_2="up two", down="down")
    return made
