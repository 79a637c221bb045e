"""`workbench schema`: its output fits the output of the other commands."""

from __future__ import annotations

import copy
import shutil
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.cli.command_line import CommandLine, turn

SAMPLES = Path(__file__).parents[3] / "sample_agents"


def forbid_other_keys(schema: Any) -> Any:
    """Return the schema without additional keys."""
    if isinstance(schema, list):
        return [forbid_other_keys(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {key: forbid_other_keys(value) for key, value in schema.items()}
    return {"additionalProperties": False, **inner} if "properties" in schema else inner


@pytest.mark.parametrize(
    ("kind", "title"),
    [
        ("evalset", "Eval set of the Agent Development Kit"),
        ("config", "Settings of workbench"),
        ("test-config", "Criteria of an eval set"),
        ("run", "Report of a run"),
    ],
)
def test_a_schema_is_printed_as_json(workbench: CommandLine, kind: str, title: str) -> None:
    result = workbench("schema", kind)

    assert result.status == 0
    jsonschema.Draft7Validator.check_schema(result.data)
    assert result.data["title"] == title


def test_the_schema_of_settings_knows_the_actions_of_the_screen(workbench: CommandLine) -> None:
    settings = jsonschema.Draft7Validator(workbench("schema", "config").data)

    assert settings.is_valid({"keys": {"run_case": "r"}})
    assert not settings.is_valid({"keys": {"run_cas": "r"}})


def test_reports_of_runs_match_their_schema(workbench: CommandLine) -> None:
    workbench.add_set("home/bad.evalset.json", {"raises": [turn("raise", "hello")], "twice": [turn("light hall")] * 2})
    run = workbench("schema", "run").data

    report = workbench("run", "--format", "json").data

    assert {case["status"] for case in report["cases"]} == {"PASSED", "FAILED", "ERROR"}
    jsonschema.validate(report, forbid_other_keys(run))
    incomplete = copy.deepcopy(report)
    del incomplete["cases"][0]["status"]
    assert not jsonschema.Draft7Validator(run).is_valid(incomplete)


def test_reports_of_judged_conversations_match_their_schema(workbench: CommandLine) -> None:
    shutil.copytree(SAMPLES, workbench.root / "samples")
    run = workbench("schema", "run").data

    report = workbench("run", "--format", "json", "samples/hello_world/scenarios.evalset.json").data

    scores = [score for case in report["cases"] for metric in case["metrics"] for score in metric["per_invocation"]]
    assert any(score.get("judgement") for score in scores)
    assert any(case["simulation"] for case in report["cases"])
    jsonschema.validate(report, forbid_other_keys(run))
