"""User mistakes and failures: one clear message each, the right exit status, the other cases finished."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest

from workbench.store.history.history import History

if TYPE_CHECKING:
    from tests.cli.command_line import CommandLine, CommandResult

MakeTurn = Callable[..., dict[str, Any]]


def collect_outcomes(result: CommandResult) -> dict[str, str]:
    """Return the status of each case, and the message of each error."""
    assert "Traceback" not in result.error
    return {
        case["eval_id"]: case["error"]["message"] if case["status"] == "ERROR" else case["status"]
        for case in result.data["cases"]
    }


def test_broken_json_is_reported_with_its_place_and_other_sets_run(workbench: CommandLine) -> None:
    workbench.write("home/broken.evalset.json", '{"eval_set_id": "b",\n "eval_cases": [')

    result = workbench("run", "home", "--format", "json")

    assert result.status == 2
    outcomes = collect_outcomes(result)
    assert (outcomes["on"], outcomes["off"]) == ("PASSED", "FAILED")
    assert "home/broken.evalset.json:2:" in outcomes["(case 1)"]


@pytest.mark.parametrize(("levels", "is_refused"), [(190, False), (200, True), (400, True), (980, True)])
@pytest.mark.parametrize("name", ["home/test_config.json", "home/light.evalset.json"])
def test_every_command_refuses_json_nested_too_deeply(
    workbench: CommandLine, name: str, levels: int, is_refused: bool
) -> None:
    path = workbench.root / name
    data = json.loads(path.read_text())
    content = data["eval_cases"][0]["conversation"][0]["user_content"] if "eval_cases" in data else data
    content["mine"] = "deep"
    path.write_text(json.dumps(data).replace('"deep"', "[" * levels + "]" * levels))

    results = {
        command: workbench(*command.split(), "home") for command in ("run", "explain", "doctor", "eval-set validate")
    }

    refusing_commands = {
        command for command, result in results.items() if "nested deeper than 200 levels" in result.out + result.error
    }
    assert refusing_commands == (set(results) if is_refused else set())
    assert not [result.error for result in results.values() if "bug in workbench" in result.error]


def test_a_broken_case_does_not_affect_other_cases(workbench: CommandLine, make_turn: MakeTurn) -> None:
    scenario = {"starting_prompt": "hi", "conversation_plan": "talk"}
    good = {"eval_id": "good", "conversation": [make_turn("light x", room="x")]}
    both = {"eval_id": "both", "conversation": [make_turn("x")], "conversation_scenario": scenario}
    twin = {"eval_id": "twin", "conversation": [make_turn("light x", room="x")]}
    workbench.write("home/odd.evalset.json", {"eval_set_id": "odd", "eval_cases": [both, good, twin, twin]})

    result = workbench("run", "home/odd.evalset.json", "--format", "json")

    assert result.status == 2
    outcomes = collect_outcomes(result)
    assert outcomes["good"] == "PASSED"
    assert "conversation" in outcomes["both"]
    assert "home/odd.evalset.json" in outcomes["both"]
    assert "twin" in outcomes["twin"]


def test_a_missing_agent_module_is_reported(workbench: CommandLine) -> None:
    workbench.write("workbench.toml", '[targets.home]\nkind = "function"\ntarget = "nowhere.agent:answer"\n'
                    'eval_sets = ["home/*.evalset.json"]\n')  # fmt: skip

    result = workbench("run", "home/light.evalset.json", "--format", "json")

    assert result.status == 3
    assert all("nowhere" in message for message in collect_outcomes(result).values())


@pytest.mark.parametrize(
    ("agent", "message"),
    [
        ("raise RuntimeError('at import')", "at import"),
        ("def answer(prompt): return 42", "42"),
        ("def answer(prompt): return None", "None"),
        ("def other(prompt): return 'x'", "answer"),
        ("import sys\ndef answer(prompt): sys.exit(4)", "4"),
        ("def answer(prompt): yield", "None as piece 1"),
        ("def answer(prompt) return 1", "agent.py"),
    ],
)
def test_a_failing_agent_is_an_error_with_its_reason(workbench: CommandLine, agent: str, message: str) -> None:
    workbench.write("home/agent.py", agent)

    result = workbench("run", "home/light.evalset.json:on", "--format", "json")

    assert result.status == 3
    assert message in collect_outcomes(result)["on"]


def test_an_agent_that_prints_megabytes_keeps_its_verdict(workbench: CommandLine) -> None:
    workbench.write(
        "home/agent.py",
        "def answer(prompt):\n    print('x' * 5_000_000)\n"
        "    return {'response': 'ok', 'predicted_trajectory': [{'name': 'set_light', 'args': {'room': 'kitchen'}}]}\n",
    )

    result = workbench("run", "home/light.evalset.json:on", "--format", "json")

    assert collect_outcomes(result) == {"on": "PASSED"}
    assert len(result.out) < 100_000


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"criteria": {"tool_trajectory_avg_scor": 1.0}}, "tool_trajectory_avg_score"),
        ({"criteria": {"tool_trajectory_avg_score": "high"}}, "expected a number"),
        ({"criteria": {"tool_trajectory_avg_score": {"threshold": 1, "match_type": "SOMEHOW"}}}, "match_type"),
        ([], "expected an object"),
        (
            {
                "criteria": {"safety_v1": 1},
                "judge_metrics": {"safety_v1": {"criteria": {"a": "b"}, "rating_rubric": {"0": "no", "1": "yes"}}},
            },
            "judge_metrics.safety_v1: found the name of a built-in metric, expected another name",
        ),
        (
            {"criteria": {"safety_v1": {"judge_model_options": {"judge_model_config": {"temprature": 0}}}}},
            "criteria.safety_v1.judge_model_options.judge_model_config.temprature: found the unknown key 'temprature', "
            "expected a key of GenerateContentConfig; did you mean 'temperature'?",
        ),
        (
            {"criteria": {"safety_v1": 1.0}, "user_simulator_config": {"model_configuration": {"maxTokens": 1}}},
            "user_simulator_config.model_configuration.maxTokens: found the unknown key 'maxTokens', expected a key of "
            "GenerateContentConfig; did you mean 'maxOutputTokens'?",
        ),
    ],
)
def test_a_run_with_invalid_criteria_is_refused(workbench: CommandLine, config: Any, message: str) -> None:
    workbench.write("home/test_config.json", config)

    result = workbench("run", "home")

    assert result.status == 2
    assert message in result.error
    assert "home/test_config.json" in result.error
    assert result.out == ""


def test_a_folder_or_a_broken_link_as_criteria_file_is_an_error(
    workbench: CommandLine,
) -> None:
    config = workbench.root / "home/test_config.json"
    config.unlink(missing_ok=True)
    config.mkdir()
    folder = workbench("run", "home")
    doctor = workbench("doctor")
    validation = workbench("eval-set", "validate", "home")
    config.rmdir()
    config.symlink_to("nowhere.json")
    link = workbench("run", "home")

    assert (folder.status, link.status) == (2, 2)
    for output in (folder.error, doctor.out, validation.out):
        assert "home/test_config.json: " in output and "it is a folder, expected a file" in output
    assert "home/test_config.json" in link.error
    assert "default" not in folder.error + link.error


def test_an_invalid_criterion_has_the_same_place_in_every_command(workbench: CommandLine) -> None:
    path = workbench.write("home/test_config.json", '{\n  "criteria": {\n    "exact_mtch": 1.0\n  }\n}')
    workbench.write("rows.jsonl", '{"prompt": "a", "response": "b", "reference": "b"}\n')
    message = "test_config.json:3:19: {}criteria.exact_mtch: found the unknown metric 'exact_mtch'"

    refusals = [
        workbench("run", "home"),
        workbench("run", "home", "--config", str(path)),
        workbench("score", "rows.jsonl", "--config", str(path)),
    ]
    validation = workbench("eval-set", "validate", "home/test_config.json")

    assert all(result.status == 2 and message.format("") in result.error for result in refusals), refusals
    assert message.format("error: ") in validation.out


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with a name")
@pytest.mark.parametrize(
    "command",
    ["run home --config", "eval home home/light.evalset.json --config-file-path", "score rows.jsonl --config"],
)
def test_criteria_may_come_from_a_pipe_that_is_readable_only_once(workbench: CommandLine, command: str) -> None:
    workbench.write("rows.jsonl", '{"prompt": "a", "response": "b", "reference": "b"}\n')
    pipe = workbench.root / f"pipe of {command.split(maxsplit=1)[0]}"
    os.mkfifo(pipe)
    texts = ['{"criteria": {"response_match_score": 0.1}}', *[""] * 9]  # empty for a second read
    Thread(target=lambda: [pipe.write_text(text) for text in texts], daemon=True).start()

    result = workbench(*command.split(), str(pipe))

    assert "response_match_score" in result.out
    assert str(pipe.name) not in result.error


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with a name")
@pytest.mark.parametrize(
    ("command", "message"),
    [
        (
            "score pipe --metrics exact_match",
            "is a pipe that no program writes to: expected a file, or a pipe with a writer",
        ),
        ("run home --config pipe", "is a pipe that no program writes to: expected a file, or a pipe with a writer"),
        ("run home --replay pipe", "found a pipe, expected a file"),
        ("run pipe", "found a pipe, expected a file"),
        ("import pipe", "is a pipe that no program writes to: expected a file, or a pipe with a writer"),
        ("run home --config device", "found a device, expected a file or a pipe"),
        ("run home --replay device", "found a device, expected a file"),
    ],
)
def test_a_pipe_without_a_writer_and_a_device_are_refused_and_do_not_block(
    workbench: CommandLine, monkeypatch: pytest.MonkeyPatch, command: str, message: str
) -> None:
    monkeypatch.setattr("workbench.store.files._WAIT_FOR_WRITER", 0.0)
    os.mkfifo(workbench.root / "pipe")
    (workbench.root / "device").symlink_to("/dev/zero")

    result = workbench(*command.split())

    name = "pipe" if "pipe" in command else "device"
    assert (result.status, result.error.splitlines()[-1]) == (2, f"workbench: {name}: {message}")


@pytest.mark.skipif(not Path("/dev/stdin").exists(), reason="standard input has no name")
@pytest.mark.parametrize("text", ['{"response": "b", "reference": "b"}', "response,reference\nb,b"])
def test_a_dataset_may_come_from_a_pipe_and_belongs_to_the_current_project(workbench: CommandLine, text: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "workbench.cli.main", "score", "/dev/stdin", "--metrics", "exact_match=1"],
        cwd=workbench.root, input=text, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("/dev/stdin · criteria --metrics\n") and "1 passed" in done.stdout
    assert workbench("history").out.count("score /dev/stdin") == 1


@pytest.mark.parametrize(
    ("table", "config", "message"),
    [
        (
            "judge",
            {"criteria": {"safety_v1": {"judge_model_options": {"judge_model_config": {"responseModalities": []}}}}},
            "criteria.safety_v1.judge_model_options.judge_model_config.responseModalities",
        ),
        (
            "simulation",
            {
                "criteria": {"safety_v1": 1.0},
                "user_simulator_config": {"model_configuration": {"responseModalities": []}},
            },
            "user_simulator_config.model_configuration.responseModalities",
        ),
    ],
)
def test_a_model_configuration_is_checked_for_the_model_of_the_settings(
    workbench: CommandLine, table: str, config: Any, message: str
) -> None:
    workbench.write("home/test_config.json", config)
    settings = (workbench.root / "workbench.toml").read_text() if (workbench.root / "workbench.toml").exists() else ""
    google_result = workbench("run", "home", "--dry-run")
    workbench.write("workbench.toml", f"{settings}\n[{table}]\nmodel = 'openai/x'\n")

    other_result = workbench("run", "home", "--dry-run")

    assert "responseModalities" not in google_result.error
    assert other_result.status == 2
    assert (
        f"{message}: found the key 'responseModalities', which models of other providers do not receive"
        in other_result.error
    )


def test_a_judge_without_a_key_is_an_error_of_each_case(
    workbench: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GOOGLE_API_KEY", "GEMINI_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI"):
        monkeypatch.delenv(name, raising=False)
    workbench.write("home/test_config.json", {"criteria": {"safety_v1": 0.5, "tool_trajectory_avg_score": 1.0}})

    result = workbench("run", "home", "--format", "json")

    assert result.status == 3
    assert "safety_v1: gemini-2.5-flash was not called: no key" in collect_outcomes(result)["on"]
    assert result.error.count("no API key for Gemini: set GOOGLE_API_KEY or GEMINI_API_KEY") == 1


def test_broken_settings_are_reported_with_their_line(workbench: CommandLine) -> None:
    workbench.write("workbench.toml", "[run]\nconcurrency = 'many'\n")

    result = workbench("run", "home")

    assert result.status == 2
    assert "workbench.toml:2" in result.error
    assert "expected a whole number" in result.error


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, a disk that is always full")
def test_a_full_output_device_is_reported_in_one_line(workbench: CommandLine) -> None:
    with Path("/dev/full").open("w") as full:
        result = subprocess.run(
            [sys.executable, "-m", "workbench.cli.main", "run", "home"],
            cwd=workbench.root, stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip

    assert result.returncode == 2
    assert result.stderr.splitlines()[-1] == "workbench: the output could not be written: No space left on device"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, a disk that is always full")
def test_a_full_disk_loses_the_file_but_not_the_results(workbench: CommandLine) -> None:
    result = workbench("run", "home", "--format", "json", "--output", "/dev/full")

    assert result.status == 2
    assert "the disk is full" in result.error
    assert "✓ PASSED" in result.out


@pytest.mark.needs_permissions
def test_a_read_only_folder_loses_the_file_but_not_the_results(workbench: CommandLine) -> None:
    folder = workbench.root / "locked"
    folder.mkdir(mode=0o555)

    result = workbench("run", "home", "--output", "locked/report.json")

    assert result.status == 2
    assert "permission denied" in result.error
    assert "✓ PASSED" in result.out


@pytest.mark.parametrize("options", [(), ("--affected",)])
def test_an_unwritable_history_loses_no_verdict(workbench: CommandLine, options: tuple[str, ...]) -> None:
    workbench.write(".workbench", "a file where a folder should be")

    result = workbench("run", "home", "--format", "json", *options)

    assert collect_outcomes(result) == {"on": "PASSED", "off": "FAILED"}
    assert ".workbench" in result.error


def test_control_characters_of_files_and_agents_never_reach_the_terminal(
    workbench: CommandLine, make_turn: MakeTurn
) -> None:
    workbench.add_set("home/odd.evalset.json", {"\x1b[2Jcase": [make_turn("raise \x1b]0;owned\x07", room="\x1b[31m")]})

    result = workbench("run", "home/odd.evalset.json", "--verbose")

    assert result.status == 3
    assert not {"\x1b", "\x07"} & set(result.out + result.error)


def test_finished_turns_are_stored_if_a_later_turn_fails(workbench: CommandLine, make_turn: MakeTurn) -> None:
    workbench.add_set("home/two.evalset.json", {"two": [make_turn("light x", room="y"), make_turn("raise it")]})

    workbench("run", "home/two.evalset.json")

    case = json.loads(workbench("report", "--format", "json").out)["cases"][0]
    assert case["turns"][0]["trajectory"] == [{"name": "set_light", "args": {"room": "x"}}]
    assert case["differences"][0]["expected"] == "y"


@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not delete the current folder of a program")
def test_a_deleted_current_folder_is_named(workbench: CommandLine) -> None:
    folder = workbench.root / "gone"
    script = "import os, sys; from workbench.cli.main import main; os.rmdir('../gone'); sys.exit(main(['run']))"
    folder.mkdir()

    done = subprocess.run([sys.executable, "-c", script], cwd=folder, capture_output=True, text=True, check=False)

    assert done.returncode == 2
    assert done.stderr == "workbench: the current folder no longer exists\n"


def test_a_folder_in_place_of_the_history_gives_exit_status_2(workbench: CommandLine) -> None:
    (workbench.root / ".workbench/history.db").mkdir(parents=True)

    result = workbench("run", "home/light.evalset.json:on")

    assert result.status == 2
    assert "1 case: 1 passed" in result.out
    assert "history.db: it is a folder, expected a file" in result.error


@pytest.mark.parametrize(
    ("command", "status"), [("explain", 0), ("flaky", 2), ("shrink home/light.evalset.json:off", 0)]
)
def test_each_command_reports_that_it_moved_a_damaged_history(
    workbench: CommandLine, command: str, status: int
) -> None:
    workbench.write(".workbench/history.db", "damaged " * 20)

    result = workbench(*command.split())

    assert result.status == status
    assert result.error.count("was damaged: it was moved to history.db.corrupt-1") == 1


def test_an_error_that_reports_a_damaged_history_is_the_only_message(workbench: CommandLine) -> None:
    with History.open(workbench.root) as history:
        pages = history._database.execute("SELECT rootpage FROM sqlite_master WHERE tbl_name = 'job'").fetchall()
        size = history._database.execute("PRAGMA page_size").fetchone()[0]
        path = history.path
    with path.open("r+b") as file:
        for (page,) in pages:
            file.seek((page - 1) * size)
            file.write(b"damaged ")

    result = workbench("flaky")

    assert result.status == 2
    assert result.error.count("history.db.corrupt-1") == 1 and "a new one was created" not in result.error


@pytest.mark.parametrize("arguments", [("run", "home"), ("run", "home", "--dry-run"), ("eval-set", "validate", "home")])
def test_the_live_mode_is_refused_and_not_ignored(workbench: CommandLine, arguments: tuple[str, ...]) -> None:
    config = {"criteria": {"tool_trajectory_avg_score": 1.0}, "live_model_config": {"timeout_seconds": 3}}
    workbench.write("home/test_config.json", config)

    result = workbench(*arguments)

    assert result.status == 2
    assert "live_model_config: found the live mode of google-adk, expected none" in result.out + result.error
