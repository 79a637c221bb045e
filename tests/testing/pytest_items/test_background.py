"""The runs of a session: in the background, in several processes, and in the history."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from tests.cli.command_line import turn
from tests.testing.forked_pytest import PLAIN
from tests.testing.pytest_project import PytestProject
from workbench.store.history.history import History

GOOD = [turn("light hall", room="hall")]
BAD = [turn("light hall", room="kitchen")]
RAISES = [turn("raise it", room="hall")]


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


@pytest.mark.parametrize("processes", ["0", "1"])
def test_the_summary_names_no_report_of_a_run_that_is_not_stored(project: PytestProject, processes: str) -> None:
    project.add_set("home/light.evalset.json", hall=GOOD, kitchen=GOOD)
    project.write(".workbench", "a file, where the folder of the history should be")

    output = project.pytest("-n", processes, "home/light.evalset.json").stdout

    output.fnmatch_lines(
        ["the results of this run are not stored in the history: *", "run * not stored in the history"]
    )
    output.no_fnmatch_line("*workbench report*")


@pytest.mark.parametrize("processes", ["0", "1"])
def test_what_a_run_reports_at_its_end_is_in_the_summary(project: PytestProject, processes: str) -> None:
    project.add_set("home/light.evalset.json", hall=GOOD, kitchen=GOOD)
    project.write("home/metric.py", "def down(instance):\n    raise ConnectionError('refused')\n")
    metrics = {"down": {"code_config": {"name": "home.metric.down"}}}
    project.write("home/test_config.json", {"criteria": {"down": 0.5}, "custom_metrics": metrics})

    output = project.pytest("-n", processes, "home/light.evalset.json").stdout

    output.fnmatch_lines(["* not judged; continue with `workbench run --resume`"])


def test_each_process_is_one_run_in_the_history_and_in_the_summary(project: PytestProject) -> None:
    project.add_set("home/one.evalset.json", **{f"a{number}": GOOD for number in range(4)})
    project.add_set("home/two.evalset.json", **{f"b{number}": BAD for number in range(4)})

    done = project.pytest("--workbench", "-n", "2", "--workbench-runs", "2")

    done.assert_outcomes(passed=8, failed=8)
    with History.open(project.root) as history:
        runs = history.runs()
        jobs = [job.key for run in runs for job in history.jobs(run.run_id)]
    assert 1 <= len(runs) <= 2
    assert len(jobs) == len(set(jobs)) == 16
    assert (sum(run.summary.total for run in runs), sum(run.summary.passed for run in runs)) == (16, 8)
    assert all(run.ended and not run.interrupted for run in runs)
    shown = [line.split()[1] for line in done.outlines if line.startswith("run ")]
    assert sorted(shown) == sorted(run.run_id for run in runs)


def test_the_first_failure_ends_the_session_with_x(project: PytestProject) -> None:
    project.add_set("home/light.evalset.json", bad=BAD, slow=[turn("sleep 900", "done: 900")])

    started = time.monotonic()
    done = project.pytest("--workbench", "--workbench-timeout", "900", "-x")

    done.assert_outcomes(failed=1)
    assert time.monotonic() - started < 600


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


def test_results_are_stored_in_the_history(project: PytestProject) -> None:
    project.add_set("home/light.evalset.json", good=GOOD, bad=BAD)

    done = project.pytest("--workbench", "-k", "bad")

    run = next(line for line in done.outlines if line.startswith("run ")).split()[1]
    command = [sys.executable, "-m", "workbench.cli.main", "report", run, "--format", "json"]
    output = subprocess.run(command, cwd=project.root, capture_output=True, text=True, check=False).stdout
    assert json.loads(output)["summary"]["failed"] == json.loads(output)["summary"]["total"] == 1
