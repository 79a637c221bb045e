"""Probable mistakes in a dataset: reported with row and reason, without false alarms."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from workbench.store.datasets.dataset_files import dataset_from_rows, read_dataset
from workbench.store.datasets.dataset_lint import lint

GOOD: dict[str, Any] = {"prompt": "a", "reference": "b", "reference_trajectory": ["set_light"]}


def lint_rows(*rows: dict[str, Any], tools: set[str] | None = None) -> list[tuple[int | None, str, str]]:
    return [(item.row, item.rule, item.message) for item in lint(dataset_from_rows(rows), tools=tools)]


def test_a_sound_dataset_has_no_findings() -> None:
    rows = [{**GOOD, "prompt": str(number), "context": "[sic]"} for number in range(3)]

    assert lint_rows(*rows, tools={"set_light"}) == []
    assert lint(dataset_from_rows([])) == []


@pytest.mark.parametrize(
    ("row", "rule", "message"),
    [
        ({"prompt": 5}, "unreadable", "row 2: prompt: found a number, expected text"),
        ({"reference": None}, "missing-reference", "reference is missing; other rows have it"),
        ({"reference_trajectory": None}, "missing-reference", "reference_trajectory is missing; other rows have it"),
        ({"reference_trajectory": ""}, "missing-reference", "reference_trajectory is missing; other rows have it"),
        ({"prompt": None}, "missing-value", "prompt is missing; other rows have it"),
        ({"reference_trajectory": []}, "empty-trajectory", "reference_trajectory is empty: recall has no score"),
        ({"context": "[{'a': 1}]"}, "python-repr", "context: found the repr of a Python value, which stays text; "),
        ({"eval_id": "row_1"}, "duplicate-id", "duplicate eval_id 'row_1', also in row 1"),
        ({"prompt": "a"}, "duplicate-row", "the same as row 1"),
        ({"reference_trajectory": ["set_lihgt"]}, "similar-tool", "reference_trajectory: 'set_lihgt' is in no"),
    ],
)
def test_each_finding_names_its_row_and_the_reason(row: dict[str, Any], rule: str, message: str) -> None:
    ((number, found_rule, found_message),) = lint_rows(GOOD, {**GOOD, "prompt": "c", **row}, {**GOOD, "prompt": "d"})

    assert (number, found_rule) == (2, rule)
    assert found_message.startswith(message)


def test_a_cell_with_a_python_repr_has_its_own_rule() -> None:
    row = {**GOOD, "prompt": "c", "reference_trajectory": str([{"name": "set_light"}])}

    assert [item[:2] for item in lint_rows(GOOD, row)] == [(2, "python-repr")]


def test_unknown_tools_are_reported_with_the_nearest_one() -> None:
    row = {**GOOD, "prompt": "c", "predicted_trajectory": ["set_lights", "set_lights"]}

    assert lint_rows(GOOD, row, tools={"set_light"})[1:] == [
        (2, "unknown-tool", "predicted_trajectory: the agent has no tool 'set_lights'; did you mean 'set_light'?"),
        (2, "similar-tool", "predicted_trajectory: 'set_lights' is in no other trajectory, but 'set_light' is in 2"),
    ]


def test_a_dataset_without_references_has_one_finding() -> None:
    assert lint_rows({"prompt": "a"}, {"prompt": "b"}) == [
        (
            None,
            "missing-reference",
            "no row has a reference or a reference_trajectory: metrics that need one have no score",
        )
    ]


def test_conversations_that_lose_content_as_a_row_are_reported() -> None:
    messages = [{"role": "user", "content": [{"type": "image_url"}, {"type": "text", "text": "a"}]}, ["ai", "b"]]

    (first, second) = lint_rows(
        {"messages": [*messages, ["human", "c"], ["ai", "d"]], "reference": "d", "predicted_trajectory": ["f"]}
    )

    assert first == (1, "several-turns", "messages: 2 turns, judged as one")
    assert second == (1, "left-out", "messages: parts other than text are left out (image_url)")


def test_findings_have_the_line_of_their_row(tmp_path: Path) -> None:
    path = tmp_path / "d.jsonl"
    path.write_text("\n\n".join(map(json.dumps, [GOOD, {**GOOD, "prompt": 7}, GOOD])))

    assert [(item.row, item.line, item.column) for item in lint(read_dataset(path))] == [(2, 3, 12), (3, 5, None)]
