"""`workbench compare`: changes of the cases between two runs, and the matching exit status."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.cli.conftest import CommandLine


def run_ids(workbench: CommandLine) -> list[str]:
    """Return the run ids, newest first."""
    return [run["run_id"] for run in workbench("history", "--format", "json").data["runs"]]


def break_the_agent(workbench: CommandLine, statement: str) -> None:
    path = workbench.root / "home/agent.py"
    path.write_text(path.read_text().replace("    calls = [", f"    {statement}\n    calls = ["))


def test_a_regression_is_named_and_is_exit_status_1(workbench: CommandLine) -> None:
    workbench("run", "home")
    break_the_agent(workbench, "rest = 'cellar'")
    workbench("run", "home")
    after, before = run_ids(workbench)

    done = workbench("compare", before, after)

    assert done.status == 1
    assert "▼ regression  home/light.evalset.json:on  ✓ PASSED → ✗ FAILED" in done.out
    assert "tool_trajectory_avg_score  1 → 0 (-1)" in done.out
    assert done.out.endswith("\n1 regression, 1 same\n")


def test_the_way_back_is_a_fix_and_exit_status_0(workbench: CommandLine) -> None:
    break_the_agent(workbench, "rest = 'cellar'")
    workbench("run", "home")
    path = workbench.root / "home/agent.py"
    path.write_text(path.read_text().replace("    rest = 'cellar'\n", ""))
    workbench("run", "home")

    done = workbench("compare", run_ids(workbench)[1], "--format", "json")

    assert done.status == 0
    assert done.data["counts"]["fix"] == 1
    assert done.data["after"]["run_id"] == run_ids(workbench)[0]
    assert done.data["metrics"]["tool_trajectory_avg_score"]["difference"] == 0.5


def test_regressions_that_are_all_errors_are_exit_status_3(workbench: CommandLine) -> None:
    workbench("run", "home")
    break_the_agent(workbench, "raise ValueError('x')")
    workbench("run", "home")

    done = workbench("compare", run_ids(workbench)[1])

    assert done.status == 3
    assert "✓ PASSED → ! ERROR" in done.out


def test_changed_criteria_and_expectations_are_stated(workbench: CommandLine, make_turn: Any) -> None:
    workbench("run", "home")
    workbench.write("home/test_config.json", {"criteria": {"tool_trajectory_avg_score": 0.5}})
    workbench("run", "home")

    done = workbench("compare", run_ids(workbench)[1], "--all")

    assert done.status == 0
    assert "home/light.evalset.json: tool_trajectory_avg_score: threshold 1 became threshold 0.5" in done.out
    assert "the expectations or criteria changed between the runs" in done.out


def test_a_run_that_is_not_there_is_one_message(workbench: CommandLine) -> None:
    assert "there are no runs yet" in workbench("compare", "a", "b").error
    workbench("run", "home")

    done = workbench("compare", "nothing")

    assert done.status == 2
    assert "there is no run 'nothing'" in done.error
    assert done.out == ""


def test_the_newest_run_is_compared_with_the_one_before_it(workbench: CommandLine, make_turn: Any) -> None:
    workbench("run", "home/light.evalset.json")
    assert "no run before" in (alone := workbench("compare")).error
    assert alone.status == 2
    workbench.add_set("other/else.evalset.json", {"e": [make_turn("on")]})
    workbench("run", "other")  # shares no case with the other runs
    break_the_agent(workbench, "rest = 'cellar'")
    workbench("run", "home/light.evalset.json")
    after, _, before = run_ids(workbench)

    for arguments in ([], ["latest"], [after]):
        done = workbench("compare", *arguments, "--format", "json")
        assert (done.data["before"]["run_id"], done.data["after"]["run_id"]) == (before, after), arguments


def test_a_run_is_not_compared_with_itself(workbench: CommandLine) -> None:
    workbench("run", "home")
    (run,) = run_ids(workbench)

    done = workbench("compare", run, "latest")

    assert done.status == 2
    assert f"both runs are {run}; name two runs, or only the earlier one" in done.error
