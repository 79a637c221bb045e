"""A project whose agent the tests of the chat pane talk to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.tui.panes.chat_pane.talking import AGENT, case


@pytest.fixture
def project(make_project: Any) -> Path:
    one = case("one", "first of the case", "second of the case", session_input={"state": {"count": 40}})
    path: Path = make_project(agent=AGENT, criteria={"tool_trajectory_avg_score": 1.0}, lights=[one])
    return path
