"""`workbench compare`: changes of the cases between two runs, and the matching exit status."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.cli.command_line import CommandLine


def list_run_ids(workbench: CommandLine) -> list[str]:
    """Return the run ids, newest first."""
    return [run["run_id"] for run in workbench("history", "--format", "json").data["runs"]]


def break_the_agent(workbench: CommandLine, statement: str) -> None:
    path = workbench.root / "home/agent.py"
    path.write_text(path.read_text().replace("    calls = [", f"    {statement}\n    calls = ["))


def test_a_regression_is_reported_with_exit_status_1(workbench: CommandLine) -> None:
    workbench("run", "home")
    break_the_agent(workbench, "rest = 'cellar'")
    workbench("run", "home")
    after, before = list_run_ids(workbench)

    result = workbench("compare", before, after)

    assert result.status == 1
    assert "▼ regression  home/light.evalset.json:on  ✓ PASSED → ✗ FAILED" in result.out
    assert "tool_trajectory_avg_score  1.00 → 0.00 (-1.00)" in result.out
    assert result.out.endswith("\n1 regression, 1 same\n")


def test_a_fix_is_reported_with_exit_status_0(workbench: CommandLine) -> None:
    break_the_agent(workbench, "rest = 'cellar'")
    workbench("run", "home")
    path = workbench.root / "home/agent.py"
    path.write_text(path.read_text().replace("    rest = 'cellar'\n", ""))
    workbench("run", "home")

    result = workbench("compare", list_run_ids(workbench)[1], "--format", "json")

    assert result.status == 0
    assert result.data["counts"]["fix"] == 1
    assert result.data["after"]["run_id"] == list_run_ids(workbench)[0]
    assert result.data["metrics"]["tool_trajectory_avg_score"]["difference"] == 0.5


def test_regressions_that_are_all_errors_give_exit_status_3(workbench: CommandLine) -> None:
    workbench("run", "home")
    break_the_agent(workbench, "raise ValueError('x')")
    workbench("run", "home")

    result = workbench("compare", list_run_ids(workbench)[1])

    assert result.status == 3
    assert "✓ PASSED → ! ERROR" in result.out


def test_changed_criteria_and_expectations_are_reported(workbench: CommandLine, make_turn: Any) -> None:
    workbench("run", "home")
    workbench.write("home/test_config.json", {"criteria": {"tool_trajectory_avg_score": 0.5}})
    workbench("run", "home")

    result = workbench("compare", list_run_ids(workbench)[1], "--all")

    assert result.status == 0
    assert "home/light.evalset.json: tool_trajectory_avg_score: threshold 1.00 became threshold 0.50" in result.out
    assert "the expectations or criteria changed between the runs" in result.out


def test_a_missing_run_gets_one_message(workbench: CommandLine) -> None:
    assert "there are no runs yet" in workbench("compare", "a", "b").error
    workbench("run", "home")

    result = workbench("compare", "nothing")

    assert result.status == 2
    assert "there is no run 'nothing'" in result.error
    assert result.out == ""


def test_the_newest_run_is_compared_with_the_one_before_it(workbench: CommandLine, make_turn: Any) -> None:
    workbench("run", "home/light.evalset.json")
    assert "no run before" in (first_result := workbench("compare")).error
    assert first_result.status == 2
    workbench.add_set("other/else.evalset.json", {"e": [make_turn("on")]})
    workbench("run", "other")  # shares no case with the other runs
    break_the_agent(workbench, "rest = 'cellar'")
    workbench("run", "home/light.evalset.json")
    after, _, before = list_run_ids(workbench)

    for arguments in ([], ["latest"], [after]):
        result = workbench("compare", *arguments, "--format", "json")
        assert (result.data["before"]["run_id"], result.data["after"]["run_id"]) == (before, after), arguments


def test_a_run_is_not_compared_with_itself(workbench: CommandLine) -> None:
    workbench("run", "home")
    (run,) = list_run_ids(workbench)

    result = workbench("compare", run, "latest")

    assert result.status == 2
    assert f"both runs are {run}; name two runs, or only the earlier one" in result.error


def test_the_first_run_of_a_set_names_the_command_for_a_second_one(workbench: CommandLine) -> None:
    workbench("run", "home")

    result = workbench("compare")

    assert result.status == 2
    assert "judged cases of its sets; run `workbench run` again, or name two runs" in result.error


def test_a_comparison_is_written_as_a_page_of_the_later_run(workbench: CommandLine) -> None:
    workbench("run", "home")
    break_the_agent(workbench, "rest = 'cellar'")
    workbench("run", "home")
    after, before = list_run_ids(workbench)

    result = workbench("compare", "--output", "changes.html")

    page = (workbench.root / "changes.html").read_text(encoding="utf-8")
    data = json.loads(page.partition('id="data">')[2].partition("</script>")[0])
    assert (result.status, result.out) == (1, "")
    assert data["run_id"] == after
    assert data["comparison"]["before"]["run_id"] == before
    assert [case["change"] for case in data["comparison"]["cases"]] == ["regression", "same"]


def test_the_name_of_the_output_determines_the_format_of_a_comparison(workbench: CommandLine) -> None:
    workbench("run", "home")
    workbench("run", "home")

    assert workbench("compare", "--output", "changes.txt").status == 0
    assert workbench("compare", "--output", "changes.json").status == 0
    refused = workbench("compare", "--output", "changes.csv")

    assert (workbench.root / "changes.txt").read_text().endswith("\n2 same\n")
    assert json.loads((workbench.root / "changes.json").read_text())["counts"]["same"] == 2
    assert refused.status == 2
    assert "changes.csv: a comparison is no csv; expected .html, .json, .md or a text file" in refused.error
    assert not (workbench.root / "changes.csv").exists()


def test_a_comparison_that_cannot_be_written_is_printed_with_exit_status_2(workbench: CommandLine) -> None:
    workbench("run", "home")
    workbench("run", "home")

    result = workbench("compare", "--output", "missing/changes.txt")

    assert result.status == 2
    assert result.out.endswith("\n2 same\n")
    assert "could not be written" in result.error
