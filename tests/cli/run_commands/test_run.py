"""`workbench run`: selection, exit status and output."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import pytest

from tests.cli.command_line import SETTINGS, get_statuses
from workbench.engine.workspace import Workspace

if TYPE_CHECKING:
    from tests.cli.command_line import CommandLine

MakeTurn = Callable[..., dict[str, Any]]


def test_a_set_runs_and_each_failure_is_explained(workbench: CommandLine) -> None:
    result = workbench.process("run", "home/light.evalset.json")

    assert result.status == 1
    assert "✓ PASSED         on" in result.out
    assert "✗ FAILED         off" in result.out
    assert 'set_light: room: expected "bedroom", got "hall"' in result.out
    assert "2 cases: 1 passed, 1 failed" in result.out
    assert "\x1b" not in result.out + result.error


def test_a_misspelt_argument_in_args_match_is_reported(workbench: CommandLine) -> None:
    rules = {"tools": {"set_light": {"arguments": {"roon": {"regex": "k.*"}}}}}
    criterion = {"threshold": 1, "args_match": rules}
    workbench.write("home/test_config.json", {"criteria": {"tool_trajectory_avg_score": criterion}})

    result = workbench("run", "home")

    message = "args_match.tools.set_light.arguments.roon: no call has this argument; did you mean 'room'?"
    assert f"hint: tool_trajectory_avg_score: {message} (1 case)" in result.out
    assert result.out.count(message) == 2  # and once below the failed case


@pytest.mark.parametrize("table", ["kind = 'adk'\ntarget = 'gone'", "kind = 'function'\ntarget = 'a:b'\npath = 'gone'"])
def test_a_target_whose_folder_is_missing_is_reported(workbench: CommandLine, table: str) -> None:
    workbench.write("workbench.toml", SETTINGS + f"[targets.lost]\n{table}\n")

    result = workbench("run", "home:on")
    selected = workbench("run", "--target", "lost")

    assert (result.status, selected.status) == (2, 2)
    assert "workbench.toml: targets.lost." in result.error
    assert "workbench.toml: targets.lost." in selected.error
    assert "gone" in selected.error


@pytest.mark.parametrize("arguments", [(), (".",)])
def test_a_set_without_an_agent_is_reported_and_the_others_run(
    workbench: CommandLine, arguments: tuple[str, ...]
) -> None:
    workbench.write("other/agent.py", "from google.adk.agents import Agent\n\nroot_agnet = Agent(name='x')\n")
    workbench.write("other/s.evalset.json", {"eval_set_id": "s", "eval_cases": []})

    result = workbench("run", *arguments)

    assert result.status == 2
    assert "other/s.evalset.json: no agent was found: other: agent.py defines 'root_agnet', expected" in result.error
    assert "2 cases: 1 passed, 1 failed" in result.out


def test_links_that_lead_to_no_file_are_reported_and_the_other_sets_run(workbench: CommandLine) -> None:
    folder = workbench.root / "home"
    (folder / "loop.evalset.json").symlink_to("loop.evalset.json")
    (folder / "gone.evalset.json").symlink_to("elsewhere.json")

    result = workbench("run", "home")
    named = workbench("run", "home/loop.evalset.json")

    assert result.status == 2
    assert "home/loop.evalset.json: cannot read it: its symbolic links form a loop" in result.error
    assert "home/gone.evalset.json: cannot read it: there is no such file or folder" in result.error
    assert "2 cases: 1 passed, 1 failed" in result.out
    assert named.status == 2
    assert named.error == "workbench: home/loop.evalset.json: a symbolic link that leads to no file\n"


def test_a_threshold_below_every_score_is_reported(workbench: CommandLine) -> None:
    workbench.write("home/test_config.json", {"criteria": {"response_evaluation_score": 0.8}})

    result = workbench("run", "home", "--dry-run")

    assert "response_evaluation_score.threshold: 0.8 is below every possible score (lowest: 1)" in result.error


def test_a_set_of_any_name_runs_with_the_nearest_agent(workbench: CommandLine, make_turn: MakeTurn) -> None:
    workbench.add_set("home/anything.json", {"on": [make_turn("light x", room="x")]})

    result = workbench("run", "home/anything.json", "--target", "home", "--format", "json")

    assert get_statuses(result) == {"on": "PASSED"}


def test_each_folder_has_its_own_criteria(workbench: CommandLine, make_turn: MakeTurn) -> None:
    workbench.write("home/other/test_config.json", {"criteria": {"exact_match": 1.0}})
    workbench.add_set("home/other/words.test.json", {"words": [make_turn("say hi", response="done: hi")]})

    cases = workbench("run", "home", "--format", "json").data["cases"]

    decisive = {case["eval_id"]: case["metrics"][0]["name"] for case in cases}
    assert decisive == {"on": "tool_trajectory_avg_score", "off": "tool_trajectory_avg_score", "words": "exact_match"}


def test_a_failing_agent_affects_only_its_case(workbench: CommandLine, make_turn: MakeTurn) -> None:
    workbench.add_set(
        "home/bad.evalset.json",
        {
            "raises": [make_turn("light x", room="x"), make_turn("raise it")],
            "exits": [make_turn("exit now")],
            "fine": [make_turn("light x", room="x")],
        },
    )

    result = workbench("run", "home/bad.evalset.json", "--format", "json")

    assert result.status == 3
    assert get_statuses(result) == {"raises": "ERROR", "exits": "ERROR", "fine": "PASSED"}
    by_id = {case["eval_id"]: case for case in result.data["cases"]}
    assert "kaboom" in by_id["raises"]["error"]["message"]
    assert by_id["raises"]["error"]["turn"] == 1
    assert by_id["raises"]["turns"][0]["response"] == "done: x"
    assert "7" in by_id["exits"]["error"]["message"]


def test_a_case_is_stopped_after_the_time_limit(workbench: CommandLine, make_turn: MakeTurn) -> None:
    workbench.add_set("home/slow.evalset.json", {"slow": [make_turn("sleep 60")]})

    result = workbench("run", "home/slow.evalset.json", "--timeout", "0.5", "--format", "json")

    assert result.status == 3
    assert result.data["cases"][0]["error"]["kind"] == "timeout"


def test_the_output_of_an_agent_is_shown_only_with_verbose(workbench: CommandLine, make_turn: MakeTurn) -> None:
    workbench.add_set("home/loud.evalset.json", {"loud": [make_turn("loud", room="x")]})

    assert "to stderr" not in workbench("run", "home/loud.evalset.json").out
    assert "to stderr" in workbench("run", "home/loud.evalset.json", "--verbose").out


def test_each_repeat_has_its_own_result(workbench: CommandLine) -> None:
    cases = workbench("run", "home/light.evalset.json:on", "--runs", "3", "--format", "json").data["cases"]

    assert sorted(case["repeat"] for case in cases) == [0, 1, 2]


def test_json_lines_end_with_the_run(workbench: CommandLine) -> None:
    lines = [json.loads(line) for line in workbench("run", "home", "--format", "jsonl").out.splitlines()]

    assert [line["kind"] for line in lines] == ["case", "case", "run"]


def test_a_file_gets_the_document_and_stdout_the_table(workbench: CommandLine) -> None:
    result = workbench("run", "home", "--output", "report.xml")

    assert "✗ FAILED" in result.out
    assert ElementTree.parse(workbench.root / "report.xml").getroot().get("failures") == "1"


@pytest.mark.parametrize("place", ["missing/report.json", "home"])
def test_an_unwritable_output_is_refused_before_the_run(workbench: CommandLine, place: str) -> None:
    result = workbench("run", "home/light.evalset.json", "--format", "json", "--output", place)

    assert (result.status, result.out) == (2, "")
    assert place in result.error
    assert not (workbench.root / ".workbench").exists()


def test_a_misspelt_setting_gives_exit_status_2(workbench: CommandLine) -> None:
    settings = workbench.root / "workbench.toml"
    settings.write_text(settings.read_text() + "[run]\nconcurency = 2\n")

    result = workbench("run", "home/light.evalset.json:on")

    assert result.status == 2
    assert "1 passed" in result.out
    assert result.error.count("did you mean 'concurrency'?") == 1


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('env_file = "secrets.env"', "secrets.env"),
        ('watch = ["home", "data/*"]', "watch: found the pattern 'data/*', expected a file or a folder"),
    ],
)
def test_settings_that_name_no_file_give_exit_status_2(workbench: CommandLine, line: str, message: str) -> None:
    settings = workbench.root / "workbench.toml"
    settings.write_text(settings.read_text().replace("[targets.home]", f"[targets.home]\n{line}", 1))

    result = workbench("run", "home/light.evalset.json:on")

    assert result.status == 2
    assert "1 passed" in result.out
    assert result.error.count(message) == 1


def test_a_dry_run_runs_nothing(workbench: CommandLine) -> None:
    result = workbench("run", "home", "--runs", "2", "--dry-run")

    assert result.status == 0
    assert "2 cases x 2 = 4" in result.out
    assert "tool_trajectory_avg_score >= 1" in result.out
    assert not (workbench.root / ".workbench").exists()


def test_a_dry_run_of_one_case_uses_the_singular(workbench: CommandLine) -> None:
    workbench("run", "home/light.evalset.json:on")

    result = workbench("run", "home/light.evalset.json:on", "--dry-run")

    assert "1 case x 1 = 1, 0 reused; 1 agent turn, " in result.out
    assert "from earlier runs of 1 of 1 case\n" in result.out


def test_a_dry_run_estimates_its_time_from_earlier_runs(workbench: CommandLine) -> None:
    workbench("run", "home")

    assert " s, from earlier runs of 2 of 2 cases" in workbench("run", "home", "--dry-run").out


def test_failed_reruns_the_cases_that_did_not_pass(workbench: CommandLine) -> None:
    workbench("run", "home")

    assert get_statuses(workbench("run", "--failed", "--format", "json")) == {"off": "FAILED"}


def test_failed_without_any_verdict_is_not_a_success(workbench: CommandLine) -> None:
    result = workbench("run", "--failed")

    assert (result.status, result.out) == (2, "")
    assert "no verdict is stored yet" in result.error


def test_failed_reruns_a_case_that_was_renamed_since_it_failed(workbench: CommandLine) -> None:
    workbench("run", "home")
    file = workbench.root / "home/light.evalset.json"
    file.write_text(file.read_text().replace('"eval_id": "off"', '"eval_id": "out"'))

    assert get_statuses(workbench("run", "--failed", "--format", "json")) == {"out": "FAILED"}


def test_failed_reruns_the_readable_sets_if_one_is_unreadable(workbench: CommandLine) -> None:
    settings, rows = workbench.root / "workbench.toml", workbench.root / "rows.csv"
    old = settings.read_text() if settings.exists() else ""
    settings.write_text(f'{old}\n[targets.old]\nkind = "recorded"\neval_sets = ["rows.csv"]\n')
    rows.write_text("foo,bar\n1,2\n")
    workbench("run", "home")

    before_scoring = workbench("run", "--failed", "--format", "json")
    assert get_statuses(before_scoring) == {"off": "FAILED"}

    rows.write_text("response,reference\na,b\n")
    workbench("run", "old")
    rows.write_text("foo,bar\n1,2\n")
    after_scoring = workbench("run", "--failed", "--format", "json")
    assert get_statuses(after_scoring) == {"off": "FAILED"}
    assert after_scoring.status == 2
    assert "found the columns" in after_scoring.error


def test_failed_reports_a_broken_set_whose_cases_passed(workbench: CommandLine, make_turn: MakeTurn) -> None:
    path = workbench.root / "home/light.evalset.json"
    workbench("run", "home/light.evalset.json:on")
    content = path.read_text()

    for broken in ("{", content.replace('"eval_id": "on"', '"eval_id": 5')):
        path.write_text(broken)
        result = workbench("run", ".", "--failed")
        assert (result.status, "light.evalset.json:" in result.error) == (2, True), result.error
    assert "eval_cases[0].eval_id: found 5" in result.error

    workbench.add_set("home/other.evalset.json", {"bad": [make_turn("light x", room="y")]})
    workbench("run", "home/other.evalset.json")
    result = workbench("run", ".", "--failed", "--format", "json")
    assert (result.status, get_statuses(result)) == (2, {"bad": "FAILED"})
    assert "eval_cases[0].eval_id: found 5" in result.error


def test_a_second_list_of_cases_is_an_error_in_every_command(workbench: CommandLine) -> None:
    path = workbench.root / "home/light.evalset.json"
    data = json.loads(path.read_text())
    first = json.dumps(data["eval_cases"][:1])
    path.write_text(f'{{"eval_set_id": "s", "eval_cases": {json.dumps(data["eval_cases"])}, "eval_cases": {first}}}')

    commands = (("run", "home"), ("run", "home", "--dry-run"), ("eval-set", "validate", "home"), ("doctor",))
    for result in (workbench(*command) for command in commands):
        assert "found a second 'eval_cases', expected all cases in one list" in result.out + result.error
        assert result.status == 2


def test_resume_runs_the_remaining_cases_of_the_interrupted_run(workbench: CommandLine, make_turn: MakeTurn) -> None:
    first, long = [make_turn("light x", room="x")], [make_turn("sleep 60")]
    workbench.add_set("home/long.evalset.json", {"first": first, "long": long})
    process = workbench.start("run", "home/long.evalset.json", "--format", "jsonl", "--concurrency", "1")
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode == 130
    workbench.add_set("home/long.evalset.json", {"first": first, "long": [make_turn("light y")]})

    dry_run = workbench("run", "--resume", "--dry-run")
    result = workbench("run", "--resume", "--format", "json")

    assert "2 cases x 1 = 2, 1 reused" in dry_run.out
    assert get_statuses(result).keys() == {"first", "long"}
    assert "1 of 2 results reused" in result.error


def test_a_resumed_run_has_the_repeats_and_the_time_limit_of_the_interrupted_one(
    workbench: CommandLine, make_turn: MakeTurn
) -> None:
    workbench.add_set("home/long.evalset.json", {"first": [make_turn("light x", room="x")]})
    arguments = ("home/long.evalset.json", "--format", "jsonl", "--concurrency", "1", "--runs", "40", "--timeout", "77")
    process = workbench.start("run", *arguments)
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode == 130

    plan = workbench("run", "--resume", "--dry-run").out
    other = workbench("run", "--resume", "--runs", "2", "--dry-run").out

    assert "1 case x 40 = 40, " in plan
    assert "77 s" in plan
    assert "1 case x 2 = 2, " in other


def test_without_an_interrupted_run_there_is_nothing_to_resume(workbench: CommandLine) -> None:
    workbench("run", "home")

    result = workbench("run", "--resume")

    assert result.status == 2
    assert "nothing to resume" in result.error


def test_ctrl_c_keeps_the_finished_cases(workbench: CommandLine, make_turn: MakeTurn) -> None:
    workbench.add_set(
        "home/long.evalset.json", {"first": [make_turn("light x", room="x")], "long": [make_turn("sleep 60")]}
    )
    process = workbench.start("run", "home/long.evalset.json", "--format", "jsonl", "--concurrency", "1")
    assert process.stdout is not None
    first = json.loads(process.stdout.readline())

    process.send_signal(signal.SIGINT)
    out, error = process.communicate(timeout=30)

    assert process.returncode == 130
    assert (first["eval_id"], first["status"]) == ("first", "PASSED")
    lines = [json.loads(line) for line in out.splitlines()]
    assert [(line["kind"], line.get("status")) for line in lines] == [("case", "CANCELLED"), ("run", None)]
    assert lines[-1]["interrupted"] is True
    assert "interrupted" in error
    assert "Traceback" not in error


def test_ctrl_c_while_a_run_starts_stops_the_run_and_reports_it(
    workbench: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = Workspace.start

    def start_interrupted(*args: Any, **kwargs: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        return start(*args, **kwargs)

    monkeypatch.setattr(Workspace, "start", start_interrupted)

    result = workbench("run", "home")

    assert result.status == 130
    assert "interrupted: stopping; finished results are kept" in result.error
    assert "2 cases: " in result.out


def test_a_second_ctrl_c_ends_the_process_immediately(workbench: CommandLine, make_turn: MakeTurn) -> None:
    code = (
        "import os, signal, threading\n"
        "from workbench.cli.console import graceful_interrupt\n"
        "never = threading.Event()\n"
        "with graceful_interrupt(lambda: os.kill(os.getpid(), signal.SIGINT), announce=print):\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    never.wait()\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False)

    assert result.returncode == 130
    assert "Traceback" not in result.stderr


def test_sets_without_criteria_use_the_defaults_with_a_message(workbench: CommandLine, make_turn: MakeTurn) -> None:
    workbench.add_set("plain/plain.test.json", {"a": [make_turn("light x", response="done: x", room="x")]})

    result = workbench("run", "plain/plain.test.json", "--format", "json")

    assert result.status == 0
    assert "default" in result.error
    assert {metric["name"] for metric in result.data["cases"][0]["metrics"] if metric["threshold"] is not None} == {
        "tool_trajectory_avg_score",
        "response_match_score",
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["home/ligth.evalset.json"], "no such file, folder or target"),
        (["hom"], "did you mean 'home'"),
        ([""], "an argument is empty, expected a file, folder or target"),
        (["home/light.evalset.json:onn"], "did you mean 'on'"),
        (["home/light.evalset.json:a:1"], "an id with a colon is named by --case: home/light.evalset.json --case ID"),
        (["home", "--case", "onn"], "did you mean 'on'"),
        (["home", "--target", "homee"], "did you mean 'home'"),
        (["home", "--config", "missing.json"], "missing.json"),
        (["home", "--runs", "0"], "--runs"),
        (["home", "--runs", "100000000"], "runs: found 100000000, expected at most 10000"),
        (["home", "--format", "yaml"], "yaml"),
        (["home", "--resume", "nothing"], "nothing"),
        (["empty"], "no eval set below this folder"),
    ],
)
def test_invalid_arguments_get_one_message(workbench: CommandLine, arguments: list[str], message: str) -> None:
    (workbench.root / "empty").mkdir()

    result = workbench("run", *arguments)

    assert result.status == 2
    assert message in result.error
    assert "Traceback" not in result.error
    assert result.out == ""


def test_json_of_other_programs_is_an_error_only_if_selected(workbench: CommandLine, make_turn: MakeTurn) -> None:
    workbench.add_set("home/light.evalset.json", {"on": [make_turn("light kitchen", room="kitchen")]})
    workbench.write("home/graph.test.json", {"query": "{user{id}}"})
    workbench.write("home/numbers.test.json", [1, 2])

    assert workbench("run").status == workbench("run", "home").status == workbench("doctor").status == 0
    assert workbench("eval-set", "validate", "home").status == 0
    selected = workbench("run", "home/graph.test.json")
    assert selected.status == 2
    assert "home/graph.test.json:1:1: found an object without eval_cases" in selected.error
    workbench.write("home/broken.test.json", '{"eval_set_id": "broken", "eval_cases": [')
    assert workbench("run").status == workbench("doctor").status == 2


def test_an_unreadable_case_is_reported_by_commands_that_run_nothing(workbench: CommandLine) -> None:
    path = workbench.root / "home/light.evalset.json"
    broken = json.loads(path.read_text())
    broken["eval_cases"][0]["session_input"] = 3
    path.write_text(json.dumps(broken))

    for command in (("run", "home", "--dry-run"), ("run", "home", "--affected", "--dry-run"), ("explain", "home")):
        result = workbench(*command)

        assert result.status == 2, command
        assert "session_input: found 3, expected an object" in result.error
