"""`workbench dataset`: problems of a dataset, and conversion to other formats."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.cli.conftest import CommandLine

GOOD = '{"prompt": "a", "reference_trajectory": ["set_light"]}\n'


def test_findings_are_lines_with_place_row_and_reason(workbench: CommandLine) -> None:
    workbench.write("rows.jsonl", GOOD + '{"prompt": 5, "reference_trajectory": []}\n' + GOOD)

    done = workbench("dataset", "lint", "rows.jsonl")

    assert done.status == 1
    assert done.out.splitlines() == [
        "rows.jsonl:2:12: row 2: unreadable: prompt: found a number, expected text",
        "rows.jsonl:2:1: row 2: empty-trajectory: reference_trajectory is empty: recall has no score",
        "rows.jsonl:3:1: row 3: duplicate-row: the same as row 1",
    ]
    assert done.error == "workbench: 3 rows: 3 findings in 2 rows\n"


def test_nothing_found_is_success_and_said(workbench: CommandLine) -> None:
    workbench.write("rows.csv", 'question,calls\na,"[""set_light""]"\n')

    done = workbench("dataset", "lint", "rows.csv", "--columns", "prompt=question,reference_trajectory=calls")

    assert (done.status, done.out, done.error) == (0, "", "workbench: 1 row: nothing found\n")


def test_findings_may_be_json(workbench: CommandLine) -> None:
    workbench.write("rows.jsonl", GOOD + '{"prompt": "\\u001b[31m", "eval_id": "x"}\n')

    done = workbench("dataset", "lint", "rows.jsonl", "--format", "json")

    assert done.status == 1
    assert done.data == {
        "schema_version": 1,
        "dataset": "rows.jsonl",
        "rows": 2,
        "findings": [
            {
                "rule": "missing-reference",
                "message": "reference_trajectory is missing, which other rows have",
                "row": 2,
                "eval_id": "x",
                "line": 2,
                "column": None,
            }
        ],
    }


def test_tools_are_held_against_those_of_an_agent(workbench: CommandLine) -> None:
    workbench.write("workbench.toml", '[targets.home]\nkind = "function"\ntarget = "home.agent:answer"\n')
    workbench.write("home/agent.py", "def set_light(room): ...\n\n\ndef answer(prompt): return prompt\n")
    workbench.write("rows.jsonl", GOOD + GOOD.replace("set_light", "heat").replace('"a"', '"b"'))

    done = workbench("dataset", "lint", "rows.jsonl", "--agent", "home")

    assert done.status == 1
    assert done.out == "rows.jsonl:2:1: row 2: unknown-tool: reference_trajectory: the agent has no tool 'heat'\n"
    assert (
        "there is no target 'hom'; did you mean 'home'?"
        in workbench("dataset", "lint", "rows.jsonl", "--agent", "hom").error
    )


def test_what_cannot_be_read_is_one_message(workbench: CommandLine) -> None:
    workbench.write("rows.jsonl", json.dumps(7))

    done = workbench("dataset", "lint", "rows.jsonl")

    assert (done.status, done.out) == (2, "")
    assert done.error == "workbench: rows.jsonl:1:1: found a number, expected an object, the columns of a row\n"


def test_a_dataset_becomes_an_eval_set_that_can_be_run(workbench: CommandLine) -> None:
    row = {"prompt": "light hall", "reference_trajectory": [{"tool_name": "set_light", "tool_input": {"room": "hall"}}]}
    workbench.write("rows.jsonl", json.dumps({**row, "cost": 1}))

    done = workbench("dataset", "convert", "rows.jsonl", "home/new.evalset.json")

    assert (done.status, done.out) == (0, "home/new.evalset.json: 1 case written\n")
    assert done.error == "lost: the column cost (1 case: row_1)\n"
    assert workbench("run", "home/new.evalset.json").status == 0
    assert workbench("dataset", "convert", "home/new.evalset.json", "back.csv").error == ""
    assert workbench("dataset", "lint", "back.csv").status == 0


def test_a_conversion_that_leaves_rows_out_ends_with_1_and_names_each(workbench: CommandLine) -> None:
    workbench.write("rows.jsonl", GOOD + '{"prompt": 5}\n{broken\n')
    cases = [{"eval_id": "x", "conversation": [{"user_content": {"parts": [{"text": "a"}]}}]}, {"eval_id": "y"}]
    workbench.write("some.evalset.json", {"eval_set_id": "some", "eval_cases": cases})

    done = workbench("dataset", "convert", "rows.jsonl", "some.csv")

    assert (done.status, done.out) == (1, "some.csv: 1 case written\n")
    assert "cannot be read is left out: rows.jsonl:2:12: prompt: found a number, expected text" in done.error
    assert "cannot be read is left out: rows.jsonl:3:2: is not JSON" in done.error
    assert workbench("dataset", "lint", "some.csv").status == 0
    assert workbench("dataset", "convert", "rows.jsonl", "new.evalset.json").status == 1
    assert workbench("dataset", "convert", "some.evalset.json", "cases.csv").status == 1


def test_nothing_is_overwritten_unless_it_is_said(workbench: CommandLine) -> None:
    workbench.write("rows.jsonl", GOOD)
    workbench.write("there.csv", "mine")

    done = workbench("dataset", "convert", "rows.jsonl", "there.csv")

    assert done.status == 2
    assert "there.csv already exists; --force overwrites it" in done.error
    assert (workbench.root / "there.csv").read_text() == "mine"
    assert workbench("dataset", "convert", "rows.jsonl", "there.csv", "--force").status == 0
    assert (workbench.root / "there.csv").read_text().startswith("prompt,")


def test_a_dataset_is_not_overwritten_by_less_than_it_holds(workbench: CommandLine) -> None:
    workbench.write("rows.jsonl", GOOD + '{"prompt": 5}\n')

    done = workbench("dataset", "convert", "rows.jsonl", "rows.jsonl", "--force")

    assert done.status == 2
    assert "rows.jsonl is the dataset itself; name another file. Data would be lost: a row that cannot" in done.error
    assert (workbench.root / "rows.jsonl").read_text() == GOOD + '{"prompt": 5}\n'
    workbench.write("rows.jsonl", GOOD)
    assert workbench("dataset", "convert", "rows.jsonl", "rows.jsonl", "--force").status == 0


def test_a_conversion_that_fails_writes_nothing(workbench: CommandLine) -> None:
    workbench.write("rows.jsonl", GOOD)

    done = workbench("dataset", "convert", "home/light.evalset.json", "new.evalset.json")

    assert done.status == 2
    assert "is an eval set already" in done.error
    assert not (workbench.root / "new.evalset.json").exists()
    assert workbench("dataset", "convert", "rows.jsonl", "no/where.csv").status == 2
