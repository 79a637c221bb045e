"""`workbench dialects`: scores the same calls by the rules of other frameworks, for a dataset or a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.cli.command_line import CommandLine, turn

ROWS: list[dict[str, Any]] = [
    {"eval_id": "twice", "predicted_trajectory": ["a"], "reference_trajectory": ["a", "a"]},
    {"eval_id": "same", "predicted_trajectory": ["a"], "reference_trajectory": ["a"]},
    {"eval_id": "none", "prompt": "hello", "response": "hi"},
]


def write_rows(workbench: CommandLine) -> str:
    path = workbench.root / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return str(path)


def test_disagreements_of_dialects_are_explained(workbench: CommandLine) -> None:
    result = workbench("dialects", write_rows(workbench))

    assert result.status == 1
    assert "Vertex any_order_match 0 one for one, 1 by membership" in result.out
    assert "a call occurs more often on one side" in result.out
    assert "none\n  not compared: no predicted_trajectory" in result.out
    assert "duplicates: unspecified" in result.out
    assert result.out.endswith("3 cases, the dialects disagree on 1, 1 not compared\n")


def test_a_scored_row_without_a_trajectory_is_not_compared(workbench: CommandLine) -> None:
    rows = write_rows(workbench)
    workbench.write("half.jsonl", json.dumps({"prompt": "hi", "response": "x", "predicted_trajectory": ["a"]}))
    workbench("score", "half.jsonl", "--metric", "trajectory_recall=1", "--metric", "failure")

    half = workbench("dialects", "latest")
    workbench("score", rows, "--metric", "trajectory_recall=1")
    whole = workbench("dialects", "latest", "--case", "none")

    assert "not compared: no reference_trajectory" in half.out
    assert half.out.endswith("1 case, the dialects disagree on 0, 1 not compared\n")
    assert "not compared: no predicted_trajectory" in whole.out


def test_disagreements_are_listed_alone_on_request(workbench: CommandLine) -> None:
    result = workbench("dialects", write_rows(workbench), "--disagreements")

    assert "twice" in result.out
    assert "same\n" not in result.out
    assert "exact_match" not in result.out


def test_the_calls_of_a_stored_run_are_compared(workbench: CommandLine) -> None:
    workbench("run", "home")

    result = workbench("dialects", "latest", "--case", "on", "--format", "json")

    assert result.status == 0
    assert result.data["schema_version"] == 1
    assert list(result.data["policies"]) == ["ADK", "Vertex", "agentevals"]
    (case,) = result.data["cases"]
    assert (case["eval_id"], case["disagreements"]) == ("on", 0)
    readings = case["whole"][0]["readings"]
    assert [(reading["dialect"], reading["rule"], reading["score"]) for reading in readings] == [
        ("ADK", "EXACT", 1.0),
        ("Vertex", "exact_match", 1.0),
        ("agentevals", "strict", 1.0),
    ]


def test_an_unreadable_row_is_reported_and_the_others_are_compared(workbench: CommandLine) -> None:
    path = write_rows(workbench)
    with Path(path).open("a") as file:
        file.write('{"predicted_trajectory": 3, "reference_trajectory": []}\n')

    result = workbench("dialects", path)

    assert result.status == 2
    assert "rows.jsonl:4" in result.error
    assert "3 cases, the dialects disagree on 1" in result.out


def test_an_unreadable_row_can_be_selected_by_its_id(workbench: CommandLine) -> None:
    path = write_rows(workbench)
    with Path(path).open("a") as file:
        file.write('{"eval_id": "bad", "predicted_trajectory": 3, "reference_trajectory": []}\n')

    bad, same = (workbench("dialects", path, "--case", name) for name in ("bad", "same"))

    assert bad.status == 2
    assert "rows.jsonl:4" in bad.error and "has no case" not in bad.error
    assert (same.status, same.error) == (0, "")


def test_a_missing_case_gets_a_suggestion(workbench: CommandLine) -> None:
    result = workbench("dialects", write_rows(workbench), "--case", "twic")

    assert result.status == 2
    assert "has no case 'twic'; did you mean 'twice'?" in result.error


def test_rows_with_the_same_id_get_distinct_names(workbench: CommandLine) -> None:
    file = workbench.root / "rows.jsonl"
    file.write_text("".join(json.dumps({**row, "eval_id": "x"}) + "\n" for row in ROWS))

    def list_names(*case: str) -> list[str]:
        return [case_data["eval_id"] for case_data in workbench("dialects", *case, "--format", "json").data["cases"]]

    assert list_names(str(file)) == ["x", "x#2", "x#3"]
    assert list_names(str(file), "--case", "x#2") == ["x#2"]
    workbench("score", str(file), "--metric", "trajectory_exact_match=1")
    assert list_names("latest", "--case", "x#2") == ["x#2"]
    assert list_names("latest", "--case", "x") == ["x", "x#2", "x#3"]


def test_the_id_of_a_case_selects_all_its_repeats(workbench: CommandLine) -> None:
    workbench("run", "home", "--runs", "2")

    result = workbench("dialects", "latest", "--case", "on", "--format", "json")

    assert [case["eval_id"] for case in result.data["cases"]] == ["on", "on [2]"]


def test_without_runs_the_message_says_so(workbench: CommandLine) -> None:
    result = workbench("dialects")

    assert result.status == 2
    assert "there are no runs yet" in result.error


def test_a_damaged_set_of_sessions_gives_exit_status_2(workbench: CommandLine) -> None:
    path = workbench.add_set("then.evalset.json", {"a": [turn("say a", "done: a")]})
    path.write_text(path.read_text().replace('"then",', '"then"', 1))

    result = workbench("dialects", str(path))

    assert result.status == 2
    assert "then.evalset.json:3:3: error" in result.error
