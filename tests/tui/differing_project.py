"""A project whose cases differ from their expectations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

AGENT = """
def answer(prompt):
    if prompt == "die":
        raise ValueError("no such lamp")
    calls = [{"tool_name": "look", "tool_input": {}}, {"tool_name": "set", "tool_input": {"n": 2, "m": [1]}}]
    return {"response": f"It is done: {prompt}", "predicted_trajectory": calls}
"""


def turn(make: Any, prompt: str, response: str | None = None, *calls: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    return make.turn(prompt, response or f"It is done: {prompt}", *calls)


RIGHT: tuple[tuple[str, dict[str, Any]], ...] = (("look", {}), ("set", {"n": 2, "m": [1]}))


def make_differing_project(make: Any, make_project: Any) -> Path:
    """Make a project; `make` and `make_project` are the fixtures."""
    cases = [
        {
            "eval_id": "one",
            "conversation": [turn(make, "on", "It was done: on", ("look", {}), ("set", {"n": 1, "m": [1]}))],
        },
        {"eval_id": "two", "conversation": [turn(make, "hi", None, *RIGHT), turn(make, "off", None, ("look", {}))]},
        {"eval_id": "broken", "conversation": [turn(make, "die")]},
        {"eval_id": "right", "conversation": [turn(make, "on", None, *RIGHT)]},
    ]
    criteria = {"tool_trajectory_avg_score": 1.0, "exact_match": 1.0}
    return make_project(agent=AGENT, criteria=criteria, lights=cases)


def read_calls(project: Path, case: int, turn: int = 0) -> Any:
    data = json.loads((project / "lights.evalset.json").read_text())
    return data["eval_cases"][case]["conversation"][turn]["intermediate_data"]["tool_uses"]


async def open_diff(screen: Any, *, case: str = "one") -> None:
    """Run everything, and focus the diff of a case."""
    await screen.until("lights", "right")
    await screen.press("R")
    await screen.until("✗ one", "! broken", "finished")
    await screen.press("n")
    await screen.until("one · lights", "difference 1 of")
    if case == "two":
        await screen.press("n")
        await screen.until("two · lights", "turn 2")
    await screen.press("2")
