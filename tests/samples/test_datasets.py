"""The datasets of the Vertex samples: same rows in each form, and consistent with the agents."""

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
DATASET_COLUMNS = ["prompt", "reference_trajectory", "reference"]
RECORDED_COLUMNS = [*DATASET_COLUMNS, "response", "predicted_trajectory", "note"]


def read_json_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def read_csv(path: Path) -> list[dict[str, Any]]:
    """Read the rows of a CSV file with trajectories in JSON."""
    with path.open(encoding="utf-8", newline="") as file:
        return [
            {name: json.loads(cell) if name.endswith("trajectory") else cell for name, cell in row.items()}
            for row in csv.DictReader(file)
        ]


@pytest.mark.parametrize("name", AGENTS)
def test_a_dataset_has_the_same_rows_in_every_form(name: str) -> None:
    folder = SAMPLES / name

    rows = json.loads((folder / "eval_dataset.json").read_text(encoding="utf-8"))

    assert [list(row) for row in rows] == [DATASET_COLUMNS] * len(rows)
    assert read_json_lines(folder / "eval_dataset.jsonl") == rows == read_csv(folder / "eval_dataset.csv")


@pytest.mark.parametrize("name", AGENTS)
def test_a_recording_has_the_rows_of_the_dataset_in_every_form(name: str) -> None:
    folder = SAMPLES / name

    rows = read_json_lines(folder / "recorded.jsonl")

    assert read_csv(folder / "recorded.csv") == rows
    assert [list(row) for row in rows] == [RECORDED_COLUMNS] * len(rows)
    assert [{key: row[key] for key in DATASET_COLUMNS} for row in rows] == read_json_lines(
        folder / "eval_dataset.jsonl"
    )


@pytest.mark.parametrize("name", AGENTS)
def test_the_agent_answers_each_row_with_its_reference(
    name: str, load_agent: Callable[[str], Any], ask: Callable[..., Any]
) -> None:
    agent = load_agent(AGENTS[name])

    for row in read_json_lines(SAMPLES / name / "eval_dataset.jsonl"):
        answer = ask(agent, row["prompt"])

        assert answer.response == row["reference"]
        assert answer.calls == read_trajectory(row["reference_trajectory"])


@pytest.mark.parametrize("name", AGENTS)
def test_a_recording_has_a_note_on_each_wrong_row(name: str) -> None:
    for row in read_json_lines(SAMPLES / name / "recorded.jsonl"):
        is_correct = row["response"] == row["reference"] and row["predicted_trajectory"] == row["reference_trajectory"]

        assert is_correct or row["note"]


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
async def test_a_recorded_row_has_the_scores_of_its_note(name: str, prompt: str, scores: list[float | None]) -> None:
    row = next(row for row in read_json_lines(SAMPLES / name / "recorded.jsonl") if row["prompt"].startswith(prompt))
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
