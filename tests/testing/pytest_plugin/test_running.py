"""Running cases under pytest, and reporting their verdicts."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.testing.forked_pytest import PLAIN
from tests.testing.pytest_plugin.conftest import PytestProject, turn
from workbench.store.history.history import History

DOCS = Path(__file__).parents[3] / "docs"
GOOD = [turn("light hall", room="hall")]
BAD = [turn("light hall", room="kitchen")]
RAISES = [turn("raise it", room="hall")]


def test_passed_failed_and_error_are_different_outcomes(project: PytestProject) -> None:
    project.add_set("home/light.evalset.json", good=GOOD, bad=BAD, raises=RAISES, nothing=[])

    assert project.read_statuses("--workbench") == {
        "home/light.evalset.json::good": "PASSED",
        "home/light.evalset.json::bad": "FAILED",
        "home/light.evalset.json::raises": "ERROR",
        "home/light.evalset.json::nothing": "FAILED",
    }


def test_a_failure_shows_both_sides_aligned_and_no_traceback(project: PytestProject) -> None:
    project.add_set("home/light.evalset.json", bad=BAD)

    done = project.pytest("--workbench")

    done.stdout.fnmatch_lines(
        [
            "*home/light.evalset.json::bad*",
            "✗ FAILED",
            "  tool_trajectory_avg_score: 0.00 < 1.00",
            "  turn 1: light hall",
            "      set_light",
            '    -   room: "kitchen"',
            '    +   room: "hall"',
            "FAILED home/light.evalset.json::bad - FAILED: tool_trajectory_avg_score: 0.00 < 1.00",
        ]
    )
    assert ".py:" not in done.stdout.str()


def test_an_error_shows_its_reason_and_with_verbose_its_traceback(project: PytestProject) -> None:
    project.add_set("home/light.evalset.json", raises=RAISES)

    brief, long = project.pytest("--workbench").stdout, project.pytest("--workbench", "-v").stdout

    brief.fnmatch_lines(
        [
            "! ERROR",
            "  agent, turn 1: ValueError: kaboom (home/agent.py:*)",
            "ERROR *::raises - ERROR: agent, turn 1: *",
        ]
    )
    assert "Traceback" not in brief.str()
    long.fnmatch_lines(["  traceback:", '*raise ValueError("kaboom")'])


def test_a_setup_error_of_an_agent_is_shown_only_for_its_first_case(project: PytestProject) -> None:
    project.write("home/agent.py", "import no_such_module")
    project.add_set("home/light.evalset.json", first=GOOD, second=GOOD)

    output = project.pytest("--workbench").stdout

    output.fnmatch_lines(["ERROR *::first - ERROR: setup, turn 1: ModuleNotFoundError: *"])
    output.fnmatch_lines(["ERROR *::second - ERROR: setup: see home/light.evalset.json::first"])
    assert output.str().count("ModuleNotFoundError") == 2  # in the section of the first case and in the summary


def test_a_case_that_was_not_evaluated_fails(project: PytestProject) -> None:
    project.add_set("home/light.evalset.json", nothing=[])

    done = project.pytest("--workbench")

    assert done.ret == 1
    done.stdout.fnmatch_lines(["[?] NOT_EVALUATED", "  *the case has no turns*"])


def test_options_for_config_and_timeout_are_applied(project: PytestProject) -> None:
    project.add_set("home/light.evalset.json", bad=BAD, slow=[turn("sleep 90", "done: 90")])
    project.write("lenient.json", {"criteria": {"tool_trajectory_avg_score": 0.0}})

    done = project.read_statuses("--workbench", "--workbench-config", "lenient.json", "--workbench-timeout", "3")

    assert list(done.values()) == ["PASSED", "ERROR"]


MEETING = """
import pathlib, time


def answer(prompt):
    other = {"first": "second", "second": "first"}[prompt]
    pathlib.Path(prompt).touch()
    end = time.monotonic() + 60
    while not pathlib.Path(other).exists():
        if time.monotonic() > end:
            return "alone"
        time.sleep(0.01)
    return "together"
"""


def test_cases_run_in_parallel_although_pytest_reports_them_in_order(project: PytestProject) -> None:
    project.write("home/agent.py", MEETING)
    project.add_set("home/both.evalset.json", **{name: [turn(name, "together")] for name in ("first", "second")})
    project.write("home/test_config.json", {"criteria": {"response_match_score": 1.0}})

    project.pytest("--workbench", "--workbench-timeout", "300").assert_outcomes(passed=2)


def test_the_same_cases_run_in_several_processes(project: PytestProject) -> None:
    project.add_set("home/light.evalset.json", good=GOOD, bad=BAD, raises=RAISES)

    done = project.pytest("--workbench", "-n", "2")

    done.assert_outcomes(passed=1, failed=1, errors=1)
    done.stdout.fnmatch_lines(['*-   room: "kitchen"', '*[+]   room: "hall"'])
    done.stdout.fnmatch_lines_random(
        [
            "FAILED home/light.evalset.json::bad - FAILED: tool_trajectory_avg_score: 0.00 < 1.00",
            "ERROR home/light.evalset.json::raises - ERROR: agent, turn 1: *",
        ]
    )


def test_each_process_is_one_run_in_the_history(project: PytestProject) -> None:
    project.add_set("home/one.evalset.json", **{f"a{number}": GOOD for number in range(4)})
    project.add_set("home/two.evalset.json", **{f"b{number}": BAD for number in range(4)})

    project.pytest("--workbench", "-n", "2", "--workbench-runs", "2").assert_outcomes(passed=8, failed=8)

    with History.open(project.root) as history:
        runs = history.runs()
        jobs = [job.key for run in runs for job in history.jobs(run.run_id)]
    assert 1 <= len(runs) <= 2
    assert len(jobs) == len(set(jobs)) == 16
    assert (sum(run.summary.total for run in runs), sum(run.summary.passed for run in runs)) == (16, 8)
    assert all(run.ended and not run.interrupted for run in runs)


def test_the_agent_is_not_imported_by_pytest(project: PytestProject) -> None:
    project.write("home/__init__.py", "import sys\n\nassert 'pytest' not in sys.modules\n")
    project.add_set("home/light.evalset.json", good=GOOD)

    project.pytest("--workbench").assert_outcomes(passed=1)


def test_the_first_failure_ends_the_session_with_x(project: PytestProject) -> None:
    project.add_set("home/light.evalset.json", bad=BAD, slow=[turn("sleep 900", "done: 900")])

    started = time.monotonic()
    done = project.pytest("--workbench", "--workbench-timeout", "900", "-x")

    done.assert_outcomes(failed=1)
    assert time.monotonic() - started < 600


def test_last_failed_runs_only_the_failed_cases(project: PytestProject) -> None:
    project.add_set("home/light.evalset.json", good=GOOD, bad=BAD, raises=RAISES)
    project.run_with_cache("--workbench")

    again = project.run_with_cache("--workbench", "--lf")

    again.assert_outcomes(failed=1, errors=1)


def test_ctrl_c_ends_the_session_with_a_keyboard_interrupt(project: PytestProject) -> None:
    project.add_set("home/slow.evalset.json", slow=[turn("sleep 61.5", "done: 61.5")])
    command = [sys.executable, "-m", "pytest", *PLAIN, "-p", "no:cacheprovider", "--workbench"]
    started = project.root / "started"
    project.write(
        "home/agent.py", f"import time\ndef answer(prompt):\n    open({str(started)!r}, 'w'); time.sleep(300)\n"
    )

    process = subprocess.Popen(
        command,
        cwd=project.root,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # Parallel test runners ignore the signal, and child processes would inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    )
    deadline = time.monotonic() + 30
    while not started.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGINT)
    output, _ = process.communicate(timeout=120)

    assert process.returncode == 2
    assert "KeyboardInterrupt" in output


def test_junit_reports_have_the_duration_and_the_scores_of_a_case(project: PytestProject) -> None:
    project.add_set("home/light.evalset.json", good=GOOD, slow=[turn("sleep 0.5")], raises=RAISES)

    project.pytest("--workbench", "--junitxml", "junit.xml")

    cases = {case.get("name"): case for case in ElementTree.parse(project.root / "junit.xml").iter("testcase")}
    properties = {item.get("name"): item.get("value") for item in cases["good"].iter("property")}
    assert (properties["target"], properties["status"]) == ("home", "PASSED")
    assert properties["tool_trajectory_avg_score"] == "1.0"
    assert 0.5 <= float(cases["slow"].get("time", 0)) < 5
    assert cases["raises"].find("error") is not None


def test_results_are_stored_in_the_history(project: PytestProject) -> None:
    project.add_set("home/light.evalset.json", good=GOOD, bad=BAD)

    done = project.pytest("--workbench", "-k", "bad")

    run = next(line for line in done.outlines if line.startswith("run ")).split()[1]
    command = [sys.executable, "-m", "workbench.cli.main", "report", run, "--format", "json"]
    output = subprocess.run(command, cwd=project.root, capture_output=True, text=True, check=False).stdout
    assert json.loads(output)["summary"]["failed"] == json.loads(output)["summary"]["total"] == 1


def test_text_of_the_agent_contains_no_terminal_commands(project: PytestProject) -> None:
    project.add_set("home/light.evalset.json", bad=[turn("light \x1b[31mred\x1b[0m", room="hall")])

    assert "\x1b" not in project.pytest("--workbench", "--color=no").stdout.str()


def test_the_documented_settings_measure_coverage_of_the_agent(
    project: PytestProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pytest_cov")
    for name in [name for name in os.environ if name.startswith(("COVERAGE", "COV_CORE"))]:
        monkeypatch.delenv(name)
    blocks = re.findall(
        r"^```toml\n(.*?)^```", (DOCS / "pytest.md").read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )
    project.write("pyproject.toml", next(block for block in blocks if "[tool.coverage.run]" in block))
    project.add_set("home/light.evalset.json", on=[turn("light kitchen", room="kitchen")])

    started_anew = replace(project, forked=None)
    result = started_anew.pytest("--workbench", "--cov=home", "--cov-report=json")

    assert result.ret == 0
    coverage = json.loads((project.root / "coverage.json").read_text(encoding="utf-8"))["files"]["home/agent.py"]
    assert coverage["summary"]["missing_lines"] == 4  # code that no prompt reaches
    assert not [path.name for path in project.root.glob(".coverage.*")]


def test_a_failure_in_quarantine_is_an_expected_failure(project: PytestProject) -> None:
    project.add_set("home/light.evalset.json", bad=BAD, raises=RAISES)
    entry = {"until": "2999-01-01", "reason": "guesses"}
    project.write("home/light.evalset.workbench.json", {"quarantine": {"bad": entry, "raises": entry}})

    done = project.pytest("--workbench", "-rx")

    done.assert_outcomes(xfailed=1, errors=1)
    done.stdout.fnmatch_lines(["XFAIL home/light.evalset.json::bad - *quarantined until 2999-01-01: guesses*"])
    project.pytest("--workbench", "--runxfail").assert_outcomes(failed=1, errors=1)


def test_an_expired_quarantine_fails_and_says_so(project: PytestProject) -> None:
    project.add_set("home/light.evalset.json", bad=BAD)
    project.write("home/light.evalset.workbench.json", {"quarantine": {"bad": {"until": "2020-01-01"}}})

    done = project.pytest("--workbench")

    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(["*its quarantine ended on 2020-01-01, so its verdict counts again*"])
