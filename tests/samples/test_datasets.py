"""The datasets of the Vertex samples: the same rows in each form, and true to the agents."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from workbench.metrics.case_view import JudgedCase
from workbench.metrics.evaluate import MetricServices, judge_case
from workbench.metrics.registry import prepare
from workbench.model.criteria import Criterion, EvalConfig
from workbench.model.evalset import Content, IntermediateData, Invocation
from workbench.model.results import Execution, TurnResult
from workbench.model.trace import read_trajectory

SAMPLES = Path(__file__).parents[2] / "sample_agents"
AGENTS = {
    "on_device": "on_device.agent:answer",
    "customer_support": "customer_support.agent:answer",
    "content_creation": "content_creation.agent:assistant",
}
TRAJECTORY_METRICS = ("exact_match", "in_order_match", "any_order_match", "precision", "recall")
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


@pytest.mark.parametrize(
    ("name", "prompt", "scores"),
    [
        ("on_device", "Turn off device_2", [0, 0, 0, 0, 0]),
        ("on_device", "I am user_y", [0, 0, 0, 0.5, 0.5]),
        ("on_device", "Play some jazz", [1, 1, 1, None, None]),
        ("customer_support", "Can you cancel", [0, 0, 1, 1, 1]),
        ("customer_support", "I am customer_23", [0, 1, 1, 0.5, 1]),
        ("content_creation", "Reschedule campaign X", [0, 0, 0, 0.5, 0.5]),
        ("content_creation", "Write a post for campaign Spring about tulips", [0, 0, 0, 1, 0.5]),
    ],
)
async def test_a_recording_scores_as_its_note_says(name: str, prompt: str, scores: list[float | None]) -> None:
    row = next(row for row in lines(SAMPLES / name / "recorded.jsonl") if row["prompt"].startswith(prompt))
    predicted, reference = (
        Invocation(
            user_content=Content.of_text(row["prompt"], role="user"),
            intermediate_data=IntermediateData.model_validate({"tool_uses": row[column]}),
        )
        for column in ("predicted_trajectory", "reference_trajectory")
    )
    subject = JudgedCase(
        case=None,
        expected=[reference],
        execution=Execution(turns=(TurnResult(invocation=predicted, duration_seconds=0),)),
        columns=row,
        recorded=True,
    )
    config = EvalConfig(criteria=tuple(Criterion(metric=f"trajectory_{metric}") for metric in TRAJECTORY_METRICS))

    results = await judge_case(subject, prepare(config), cast(MetricServices, None))

    assert [result.score for result in results[: len(scores)]] == scores
