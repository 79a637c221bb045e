"""Objects of agents, models and tools as JSON data."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import date
from enum import Enum
from typing import Any

from workbench.agents.worker.adapters.object_json import as_json


class Color(Enum):
    RED = "red"


@dataclass
class Reply:
    color: Color
    data: bytes
    day: date


class Silent:
    def __str__(self) -> str:
        raise ValueError("no text")


def test_any_object_becomes_json_data() -> None:
    endless: list[Any] = []
    endless.append(endless)

    assert as_json(Reply(Color.RED, b"\xff\xfe", date(2026, 1, 2))) == {
        "color": "red",
        "data": "__4=",
        "day": "2026-01-02",
    }
    assert as_json({Color.RED: None, 1: Silent()}) == {"red": None, "1": "<Silent>"}
    assert json.dumps(as_json(endless)).count("[") == 64
