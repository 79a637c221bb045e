"""The outcome of each case in the report of pytest."""

from __future__ import annotations

from xml.etree import ElementTree

from tests.cli.command_line import SETTINGS, turn
from tests.testing.pytest_project import PytestProject
from workbench.store.history.history import History

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


def test_secrets_of_an_env_file_are_neither_shown_nor_stored(project: PytestProject) -> None:
    project.write("workbench.toml", f'{SETTINGS}env_file = ".env"\n')
    project.write(".env", "MY_TOKEN=three plain words 7\n")
    project.write("home/agent.py", "import os\ndef answer(prompt): return {'response': os.environ['MY_TOKEN']}\n")
    project.write("home/test_config.json", {"criteria": {"response_match_score": 1.0}})
    project.add_set("home/light.evalset.json", bad=[turn("light hall", "done")])

    done = project.pytest("--workbench")

    done.stdout.fnmatch_lines(['*[+] response: "[[]redacted[]]"'])
    with History.open(project.root) as history:
        (result,) = history.results(history.runs()[0].run_id)
    (turn_result,) = result.execution.turns
    assert turn_result.invocation.final_response is not None
    assert turn_result.invocation.final_response.text() == "[redacted]"


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
            "home · home/light.evalset.json · criteria home/test_config.json",
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


def test_junit_reports_have_the_duration_and_the_scores_of_a_case(project: PytestProject) -> None:
    project.add_set("home/light.evalset.json", good=GOOD, slow=[turn("sleep 0.5")], raises=RAISES)

    project.pytest("--workbench", "--junitxml", "junit.xml")

    cases = {case.get("name"): case for case in ElementTree.parse(project.root / "junit.xml").iter("testcase")}
    properties = {item.get("name"): item.get("value") for item in cases["good"].iter("property")}
    assert (properties["target"], properties["status"]) == ("home", "PASSED")
    assert properties["tool_trajectory_avg_score"] == "1.0"
    assert 0.5 <= float(cases["slow"].get("time", 0)) < 5
    assert cases["raises"].find("error") is not None


def test_text_of_the_agent_contains_no_terminal_commands(project: PytestProject) -> None:
    project.add_set("home/light.evalset.json", bad=[turn("light \x1b[31mred\x1b[0m", room="hall")])

    assert "\x1b" not in project.pytest("--workbench", "--color=no").stdout.str()


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


def test_an_item_that_a_plugin_runs_again_runs_its_case_anew(project: PytestProject) -> None:
    """As pytest-rerunfailures and flaky do: each further attempt goes through setup, call and teardown."""
    project.write(
        "conftest.py",
        "from _pytest.runner import runtestprotocol\n"
        "def pytest_runtest_protocol(item, nextitem):\n"
        "    for _ in range(3):\n"
        "        reports = runtestprotocol(item, nextitem=nextitem, log=False)\n"
        "        if not any(report.failed for report in reports):\n"
        "            break\n"
        "    for report in reports:\n"
        "        item.ihook.pytest_runtest_logreport(report=report)\n"
        "    return True\n",
    )
    project.write(
        "home/agent.py",
        "from pathlib import Path\n"
        "def answer(prompt):\n"
        "    count = Path(__file__).with_name('count.txt')\n"
        "    number = int(count.read_text()) + 1 if count.exists() else 1\n"
        "    count.write_text(str(number))\n"
        "    return {'response': 'done' if number == 3 else 'no'}\n",
    )
    project.write("home/test_config.json", {"criteria": {"response_match_score": 1.0}})
    project.add_set("home/light.evalset.json", sometimes=[turn("light hall", "done")])

    assert project.read_statuses("--workbench") == {"home/light.evalset.json::sometimes": "PASSED"}
    assert (project.root / "home/count.txt").read_text() == "3"
