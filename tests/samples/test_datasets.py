"""The datasets of the Vertex samples: the same rows in each form, and true to the agents."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from workbench.model.trajectory import read_trajectory

SAMPLES = Path(__file__).parents[2] / "sample_agents"
AGENTS = {
    "on_device": "on_device.agent:answer",
    "customer_support": "customer_support.agent:answer",
    "content_creation": "content_creation.agent:assistant",
}
ASKED = ["prompt", "reference_trajectory", "reference"]
RECORDED = [*ASKED, "response", "predicted_trajectory", "note"]


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def table(path: Path) -> list[dict[str, Any]]:
    """The rows of a CSV whose trajectories are JSON."""
    with path.open(encoding="utf-8", newline="") as file:
        return [
            {name: json.loads(cell) if name.endswith("trajectory") else cell for name, cell in row.items()}
            for row in csv.DictReader(file)
        ]


@pytest.mark.parametrize("name", AGENTS)
def test_a_dataset_is_the_same_in_every_form(name: str) -> None:
    folder = SAMPLES / name

    rows = json.loads((folder / "eval_dataset.json").read_text(encoding="utf-8"))

    assert [list(row) for row in rows] == [ASKED] * len(rows)
    assert lines(folder / "eval_dataset.jsonl") == rows == table(folder / "eval_dataset.csv")


@pytest.mark.parametrize("name", AGENTS)
def test_a_recording_is_the_same_in_every_form_and_has_the_rows_of_the_dataset(name: str) -> None:
    folder = SAMPLES / name

    rows = lines(folder / "recorded.jsonl")

    assert table(folder / "recorded.csv") == rows
    assert [list(row) for row in rows] == [RECORDED] * len(rows)
    assert [{key: row[key] for key in ASKED} for row in rows] == lines(folder / "eval_dataset.jsonl")


@pytest.mark.parametrize("name", AGENTS)
def test_the_agent_gives_the_reference_of_each_row(
    name: str, load_agent: Callable[[str], Any], ask: Callable[..., Any]
) -> None:
    agent = load_agent(AGENTS[name])

    for row in lines(SAMPLES / name / "eval_dataset.jsonl"):
        answer = ask(agent, row["prompt"])

        assert answer.response == row["reference"]
        assert answer.calls == read_trajectory(row["reference_trajectory"])


@pytest.mark.parametrize("name", AGENTS)
def test_a_recording_says_what_it_got_wrong(name: str) -> None:
    for row in lines(SAMPLES / name / "recorded.jsonl"):
        right = row["response"] == row["reference"] and row["predicted_trajectory"] == row["reference_trajectory"]

        assert right or row["note"]
