"""`workbench dialects`: scores the same calls by the rules of other frameworks, for a dataset or a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.cli.conftest import CommandLine, turn

ROWS: list[dict[str, Any]] = [
    {"eval_id": "twice", "predicted_trajectory": ["a"], "reference_trajectory": ["a", "a"]},
    {"eval_id": "same", "predicted_trajectory": ["a"], "reference_trajectory": ["a"]},
    {"eval_id": "none", "prompt": "hello", "response": "hi"},
]


def write_rows(workbench: CommandLine) -> str:
    path = workbench.root / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return str(path)


def test_rows_on_which_the_dialects_disagree_say_why(workbench: CommandLine) -> None:
    done = workbench("dialects", write_rows(workbench))

    assert done.status == 1
    assert "Vertex any_order_match 0 one for one, 1 by membership" in done.out
    assert "a call occurs more often on one side" in done.out
    assert "none\n  not compared: no predicted_trajectory" in done.out
    assert "duplicates: unspecified" in done.out
    assert done.out.endswith("3 cases, the dialects disagree on 1, 1 not compared\n")


def test_a_row_that_tells_no_trajectory_is_not_compared_in_its_run_either(workbench: CommandLine) -> None:
    rows = write_rows(workbench)
    workbench.write("half.jsonl", json.dumps({"prompt": "hi", "response": "x", "predicted_trajectory": ["a"]}))
    workbench("score", "half.jsonl", "--metric", "trajectory_recall=1", "--metric", "failure")

    half = workbench("dialects", "latest")
    workbench("score", rows, "--metric", "trajectory_recall=1")
    none = workbench("dialects", "latest", "--case", "none")

    assert "not compared: no reference_trajectory" in half.out
    assert half.out.endswith("1 case, the dialects disagree on 0, 1 not compared\n")
    assert "not compared: no predicted_trajectory" in none.out


def test_only_disagreements(workbench: CommandLine) -> None:
    done = workbench("dialects", write_rows(workbench), "--disagreements")

    assert "twice" in done.out
    assert "same\n" not in done.out
    assert "exact_match" not in done.out


def test_what_the_agent_did_in_a_run(workbench: CommandLine) -> None:
    workbench("run", "home")

    done = workbench("dialects", "latest", "--case", "on", "--format", "json")

    assert done.status == 0
    assert done.data["schema_version"] == 1
    assert list(done.data["policies"]) == ["ADK", "Vertex", "agentevals"]
    (case,) = done.data["cases"]
    assert (case["eval_id"], case["disagreements"]) == ("on", 0)
    readings = case["whole"][0]["readings"]
    assert [(each["dialect"], each["rule"], each["score"]) for each in readings] == [
        ("ADK", "EXACT", 1.0),
        ("Vertex", "exact_match", 1.0),
        ("agentevals", "strict", 1.0),
    ]


def test_a_row_that_cannot_be_read_is_named_and_the_rest_compared(workbench: CommandLine) -> None:
    path = write_rows(workbench)
    with Path(path).open("a") as file:
        file.write('{"predicted_trajectory": 3, "reference_trajectory": []}\n')

    done = workbench("dialects", path)

    assert done.status == 2
    assert "rows.jsonl:4" in done.error
    assert "3 cases, the dialects disagree on 1" in done.out


def test_a_row_that_cannot_be_read_is_there_all_the_same(workbench: CommandLine) -> None:
    path = write_rows(workbench)
    with Path(path).open("a") as file:
        file.write('{"eval_id": "bad", "predicted_trajectory": 3, "reference_trajectory": []}\n')

    bad, same = (workbench("dialects", path, "--case", name) for name in ("bad", "same"))

    assert bad.status == 2
    assert "rows.jsonl:4" in bad.error and "has no case" not in bad.error
    assert (same.status, same.error) == (0, "")


def test_a_case_that_is_not_there(workbench: CommandLine) -> None:
    done = workbench("dialects", write_rows(workbench), "--case", "twic")

    assert done.status == 2
    assert "has no case 'twic'; did you mean 'twice'?" in done.error


def test_rows_that_share_an_id_are_told_apart(workbench: CommandLine) -> None:
    file = workbench.root / "rows.jsonl"
    file.write_text("".join(json.dumps({**row, "eval_id": "x"}) + "\n" for row in ROWS))

    def names(*case: str) -> list[str]:
        return [each["eval_id"] for each in workbench("dialects", *case, "--format", "json").data["cases"]]

    assert names(str(file)) == ["x", "x#2", "x#3"]
    assert names(str(file), "--case", "x#2") == ["x#2"]
    workbench("score", str(file), "--metric", "trajectory_exact_match=1")
    assert names("latest", "--case", "x#2") == ["x#2"]
    assert names("latest", "--case", "x") == ["x", "x#2", "x#3"]


def test_a_case_stands_for_all_its_repeats(workbench: CommandLine) -> None:
    workbench("run", "home", "--runs", "2")

    done = workbench("dialects", "latest", "--case", "on", "--format", "json")

    assert [case["eval_id"] for case in done.data["cases"]] == ["on", "on [2]"]


def test_no_run_yet(workbench: CommandLine) -> None:
    done = workbench("dialects")

    assert done.status == 2
    assert "there are no runs yet" in done.error


def test_a_damaged_set_of_sessions_ends_with_2(workbench: CommandLine) -> None:
    path = workbench.add_set("then.evalset.json", {"a": [turn("say a", "done: a")]})
    path.write_text(path.read_text().replace('"then",', '"then"', 1))

    done = workbench("dialects", str(path))

    assert done.status == 2
    assert "then.evalset.json:3:3: error" in done.error
