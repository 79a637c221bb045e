"""The file that judges an eval set: every command takes the same one and names it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.command_line import TRAJECTORY_ONLY, get_statuses

if TYPE_CHECKING:
    from tests.cli.command_line import CommandLine

MakeTurn = Callable[..., dict[str, Any]]
SET = "tests/eval/evalsets/lights.evalset.json"


@pytest.fixture
def project(workbench: CommandLine, make_turn: MakeTurn) -> CommandLine:
    """Create a project as Google's template lays it out: the criteria are in the folder above the sets."""
    (workbench.root / "home/light.evalset.json").unlink()
    (workbench.root / "home/test_config.json").unlink()
    workbench.write("tests/eval/eval_config.json", TRAJECTORY_ONLY)
    workbench.add_set(SET, {"light": [make_turn("light hall", room="hall")], "greet": [make_turn("hello")]})
    return workbench


@pytest.mark.parametrize("arguments", [("run",), ("run", "--dry-run"), ("run", SET)])
def test_criteria_above_a_set_judge_it(project: CommandLine, arguments: tuple[str, ...]) -> None:
    result = project(*arguments)

    assert result.status == 0, result
    assert f"home · {SET} · criteria tests/eval/eval_config.json" in result.out
    assert "default" not in result.out + result.error


def test_doctor_says_which_file_judges_which_set_and_which_judges_nothing(project: CommandLine) -> None:
    project.write("home/eval_config.json", TRAJECTORY_ONLY)

    result = project("doctor")

    assert f"  {SET}: home, criteria tests/eval/eval_config.json\n" in result.out
    assert "  home/eval_config.json judges no eval set\n" in result.out


def test_validate_checks_the_criteria_above_a_set(project: CommandLine) -> None:
    project.write("tests/eval/eval_config.json", {"criteria": {"exact_mach": 1}})

    result = project("eval-set", "validate", "tests/eval/evalsets")

    assert result.status == 2
    assert "tests/eval/eval_config.json:3:" in result.out
    assert "exact_mach" in result.out


def test_of_two_files_in_one_folder_test_config_judges_and_a_run_says_so(project: CommandLine) -> None:
    project.write("tests/eval/test_config.json", {"criteria": {"exact_match": 1}})

    result = project("run")

    assert f"home · {SET} · criteria tests/eval/test_config.json" in result.out
    assert "tests/eval/eval_config.json judges nothing: test_config.json beside it comes first" in result.error


def test_eval_keeps_the_rule_of_adk_and_names_the_file_of_a_run(project: CommandLine) -> None:
    result = project("eval", "home", SET)

    assert '"response_match_score": 0.8} (default)' in result.out
    assert "`workbench run` takes tests/eval/eval_config.json" in result.error


def test_score_takes_the_criteria_of_the_data(project: CommandLine) -> None:
    project.write("tests/eval/rows/a.jsonl", '{"prompt": "x", "response": "y", "reference": "z"}')
    project.write("tests/eval/eval_config.json", {"criteria": {"exact_match": 1}})

    result = project("score", "tests/eval/rows/a.jsonl")

    assert "exact_match: 0.00 < 1.00" in result.out
    assert "criteria tests/eval/eval_config.json" in result.out


def test_default_criteria_judge_no_text_that_a_case_does_not_expect(project: CommandLine) -> None:
    (project.root / "tests/eval/eval_config.json").unlink()

    result = project("run")
    data = project("run", "--format", "json")

    assert result.status == 1
    assert f"home · {SET} · default criteria" in result.out
    assert result.error.count("no criteria are configured") == 1
    assert result.out.count("no score for turns that expect no text") == 1
    assert get_statuses(data) == {"light": "PASSED", "greet": "NOT_EVALUATED"}
    scores = {metric["name"]: metric for metric in data.data["cases"][1]["metrics"]}
    assert scores["tool_trajectory_avg_score"]["score"] is None
    assert "expects neither text nor a call nor a state" in scores["tool_trajectory_avg_score"]["reason"]


def test_named_criteria_judge_missing_text_as_adk_does(project: CommandLine) -> None:
    project.write("tests/eval/eval_config.json", {"criteria": {"response_match_score": 0.8}})

    data = project("run", "--format", "json")

    assert get_statuses(data) == {"light": "FAILED", "greet": "FAILED"}
