"""Options of a session, and what a session without eval sets imports."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.cli.command_line import turn
from tests.testing.pytest_project import PytestProject

BAD = [turn("light hall", room="kitchen")]

LIGHT = [turn("light hall", room="hall")]


def test_an_option_that_is_not_a_number_is_refused(project: PytestProject) -> None:
    done = project.pytest("--workbench", "--workbench-runs", "two")

    assert done.errlines[0] == "ERROR: --workbench-runs: found 'two', expected a number of at least 1"
    assert done.ret == pytest.ExitCode.USAGE_ERROR


@pytest.mark.parametrize("option", ["--setup-plan", "--setup-only"])
def test_no_agent_runs_if_only_the_setup_is_wanted(project: PytestProject, option: str) -> None:
    project.add_set("home/light.evalset.json", hall=LIGHT)

    done = project.pytest("--workbench", option)

    assert done.ret == pytest.ExitCode.OK
    done.stdout.fnmatch_lines(["*home/light.evalset.json::hall*"])
    assert not (project.root / ".workbench" / "history.db").exists()


def test_a_session_without_eval_sets_imports_only_the_plugin(project: PytestProject) -> None:
    project.write("test_own.py", "def test_own(): pass")
    code = (
        "import json, sys, pytest; pytest.main(['-q', '-p', 'no:cacheprovider']); "
        "print(json.dumps(sorted(name for name in sys.modules if name.split('.')[0] == 'workbench')))"
    )

    done = subprocess.run(
        [sys.executable, "-c", code], cwd=project.root, capture_output=True, text=True, check=True, timeout=60
    )

    assert json.loads(done.stdout.splitlines()[-1]) == [
        "workbench", "workbench.testing", "workbench.testing.pytest_plugin", "workbench.testing.pytest_session",
    ]  # fmt: skip


def test_options_for_config_and_timeout_are_applied(project: PytestProject) -> None:
    project.add_set("home/light.evalset.json", bad=BAD, slow=[turn("sleep 90", "done: 90")])
    project.write("lenient.json", {"criteria": {"tool_trajectory_avg_score": 0.0}})

    done = project.read_statuses("--workbench", "--workbench-config", "lenient.json", "--workbench-timeout", "3")

    assert list(done.values()) == ["PASSED", "ERROR"]
