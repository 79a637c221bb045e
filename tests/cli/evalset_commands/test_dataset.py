"""`workbench dataset`: problems of a dataset, and conversion to other formats."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.cli.command_line import CommandLine

GOOD = '{"prompt": "a", "reference_trajectory": ["set_light"]}\n'


def test_findings_are_lines_with_place_row_and_reason(workbench: CommandLine) -> None:
    workbench.write("rows.jsonl", GOOD + '{"prompt": 5, "reference_trajectory": []}\n' + GOOD)

    result = workbench("dataset", "lint", "rows.jsonl")

    assert result.status == 1
    assert result.out.splitlines() == [
        "rows.jsonl:2:12: row 2: unreadable: prompt: found a number, expected text",
        "rows.jsonl:2:1: row 2: empty-trajectory: reference_trajectory is empty: recall has no score",
        "rows.jsonl:3:1: row 3: duplicate-row: the same as row 1",
    ]
    assert result.error == "workbench: 3 rows: 3 findings in 2 rows\n"


def test_a_dataset_without_findings_gives_exit_status_0_and_a_message(workbench: CommandLine) -> None:
    workbench.write("rows.csv", 'question,calls\na,"[""set_light""]"\n')

    result = workbench("dataset", "lint", "rows.csv", "--columns", "prompt=question,reference_trajectory=calls")

    assert (result.status, result.out, result.error) == (0, "", "workbench: 1 row: nothing found\n")


def test_findings_can_be_printed_as_json(workbench: CommandLine) -> None:
    workbench.write("rows.jsonl", GOOD + '{"prompt": "\\u001b[31m", "eval_id": "x"}\n')

    result = workbench("dataset", "lint", "rows.jsonl", "--format", "json")

    assert result.status == 1
    assert result.data == {
        "schema_version": 1,
        "dataset": "rows.jsonl",
        "rows": 2,
        "findings": [
            {
                "rule": "missing-reference",
                "message": "reference_trajectory is missing; other rows have it",
                "row": 2,
                "eval_id": "x",
                "line": 2,
                "column": None,
            }
        ],
    }


def test_tools_are_compared_with_the_tools_of_an_agent(workbench: CommandLine) -> None:
    workbench.write("workbench.toml", '[targets.home]\nkind = "function"\ntarget = "home.agent:answer"\n')
    workbench.write("home/agent.py", "def set_light(room): ...\n\n\ndef answer(prompt): return prompt\n")
    workbench.write("rows.jsonl", GOOD + GOOD.replace("set_light", "heat").replace('"a"', '"b"'))

    result = workbench("dataset", "lint", "rows.jsonl", "--agent", "home")

    assert result.status == 1
    assert result.out == "rows.jsonl:2:1: row 2: unknown-tool: reference_trajectory: the agent has no tool 'heat'\n"
    assert (
        "there is no target 'hom'; did you mean 'home'?"
        in workbench("dataset", "lint", "rows.jsonl", "--agent", "hom").error
    )


def test_an_unreadable_dataset_gets_one_message(workbench: CommandLine) -> None:
    workbench.write("rows.jsonl", json.dumps(7))

    result = workbench("dataset", "lint", "rows.jsonl")

    assert (result.status, result.out) == (2, "")
    assert result.error == "workbench: rows.jsonl:1:1: found a number, expected an object, the columns of a row\n"


def test_a_converted_dataset_can_be_run_as_an_eval_set(workbench: CommandLine) -> None:
    row = {"prompt": "light hall", "reference_trajectory": [{"tool_name": "set_light", "tool_input": {"room": "hall"}}]}
    workbench.write("rows.jsonl", json.dumps({**row, "cost": 1}))

    result = workbench("dataset", "convert", "rows.jsonl", "home/new.evalset.json")

    assert (result.status, result.out) == (0, "home/new.evalset.json: 1 case written\n")
    assert result.error == "lost: the column cost (1 case: row_1)\n"
    assert workbench("run", "home/new.evalset.json").status == 0
    assert workbench("dataset", "convert", "home/new.evalset.json", "back.csv").error == ""
    assert workbench("dataset", "lint", "back.csv").status == 0


def test_a_conversion_that_skips_rows_names_them_with_exit_status_1(workbench: CommandLine) -> None:
    workbench.write("rows.jsonl", GOOD + '{"prompt": 5}\n{broken\n')
    cases = [{"eval_id": "x", "conversation": [{"user_content": {"parts": [{"text": "a"}]}}]}, {"eval_id": "y"}]
    workbench.write("some.evalset.json", {"eval_set_id": "some", "eval_cases": cases})

    result = workbench("dataset", "convert", "rows.jsonl", "some.csv")

    assert (result.status, result.out) == (1, "some.csv: 1 case written\n")
    assert "cannot be read is left out: rows.jsonl:2:12: prompt: found a number, expected text" in result.error
    assert "cannot be read is left out: rows.jsonl:3:2: is not JSON" in result.error
    assert workbench("dataset", "lint", "some.csv").status == 0
    assert workbench("dataset", "convert", "rows.jsonl", "new.evalset.json").status == 1
    assert workbench("dataset", "convert", "some.evalset.json", "cases.csv").status == 1


def test_a_file_is_overwritten_only_with_force(workbench: CommandLine) -> None:
    workbench.write("rows.jsonl", GOOD)
    workbench.write("there.csv", "mine")

    result = workbench("dataset", "convert", "rows.jsonl", "there.csv")

    assert result.status == 2
    assert "there.csv already exists; --force overwrites it" in result.error
    assert (workbench.root / "there.csv").read_text() == "mine"
    assert workbench("dataset", "convert", "rows.jsonl", "there.csv", "--force").status == 0
    assert (workbench.root / "there.csv").read_text().startswith("prompt,")


def test_a_conversion_that_skips_rows_cannot_overwrite_its_dataset(workbench: CommandLine) -> None:
    workbench.write("rows.jsonl", GOOD + '{"prompt": 5}\n')

    result = workbench("dataset", "convert", "rows.jsonl", "rows.jsonl", "--force")

    assert result.status == 2
    assert "rows.jsonl is the dataset itself; name another file. Data would be lost: a row that cannot" in result.error
    assert (workbench.root / "rows.jsonl").read_text() == GOOD + '{"prompt": 5}\n'
    workbench.write("rows.jsonl", GOOD)
    assert workbench("dataset", "convert", "rows.jsonl", "rows.jsonl", "--force").status == 0


def test_a_failed_conversion_writes_nothing(workbench: CommandLine) -> None:
    workbench.write("rows.jsonl", GOOD)

    result = workbench("dataset", "convert", "home/light.evalset.json", "new.evalset.json")

    assert result.status == 2
    assert "is already an eval set" in result.error
    assert not (workbench.root / "new.evalset.json").exists()
    assert workbench("dataset", "convert", "rows.jsonl", "no/where.csv").status == 2
