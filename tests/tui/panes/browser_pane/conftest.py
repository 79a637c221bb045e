"""A project whose sets the tests of the browser pane show and edit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def project(make_project: Callable[..., Path], make: Any) -> Path:
    """Create two sets: one of three cases, one of a single case."""

    def case(eval_id: str, prompt: str, tool: str = "ping") -> dict[str, Any]:
        return {"eval_id": eval_id, "conversation": [make.turn(prompt, "pong [/b]", (tool, {"n": 1}))]}

    return make_project(
        lamps=[case("on", "Turn on the lamp"), case("off", "Turn off the LAMP"), case("dim", "Darker", "set_level")],
        other=[case("far", "Hi")],
    )
