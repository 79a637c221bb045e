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

if TYPE_CHECKING:
    from tests.cli.conftest import CommandLine, Done

MakeTurn = Callable[..., dict[str, Any]]


def outcome(done: Done) -> dict[str, str]:
    """Return the status of each case, and the message of each error."""
    assert "Traceback" not in done.error
    return {
        case["eval_id"]: case["error"]["message"] if case["status"] == "ERROR" else case["status"]
        for case in done.data["cases"]
    }


def test_broken_json_is_named_with_its_place_and_other_sets_run(workbench: CommandLine) -> None:
    workbench.write("home/broken.evalset.json", '{"eval_set_id": "b",\n "eval_cases": [')

    done = workbench("run", "home", "--format", "json")

    assert done.status == 2
    found = outcome(done)
    assert (found["on"], found["off"]) == ("PASSED", "FAILED")
    assert "home/broken.evalset.json:2:" in found["(case 1)"]


@pytest.mark.parametrize(("levels", "refused"), [(190, False), (200, True), (400, True), (980, True)])
@pytest.mark.parametrize("name", ["home/test_config.json", "home/light.evalset.json"])
def test_every_command_refuses_json_nested_too_deeply(
    workbench: CommandLine, name: str, levels: int, refused: bool
) -> None:
    path = workbench.root / name
    data = json.loads(path.read_text())
    within = data["eval_cases"][0]["conversation"][0]["user_content"] if "eval_cases" in data else data
    within["mine"] = "deep"
    path.write_text(json.dumps(data).replace('"deep"', "[" * levels + "]" * levels))

    told = {
        command: workbench(*command.split(), "home") for command in ("run", "explain", "doctor", "eval-set validate")
    }

    said = {command for command, done in told.items() if "nested deeper than 200 levels" in done.out + done.error}
    assert said == (set(told) if refused else set())
    assert not [done.error for done in told.values() if "bug in workbench" in done.error]


def test_a_broken_case_does_not_hide_its_neighbours(workbench: CommandLine, make_turn: MakeTurn) -> None:
    scenario = {"starting_prompt": "hi", "conversation_plan": "talk"}
    good = {"eval_id": "good", "conversation": [make_turn("light x", room="x")]}
    both = {"eval_id": "both", "conversation": [make_turn("x")], "conversation_scenario": scenario}
    twin = {"eval_id": "twin", "conversation": [make_turn("light x", room="x")]}
    workbench.write("home/odd.evalset.json", {"eval_set_id": "odd", "eval_cases": [both, good, twin, twin]})

    done = workbench("run", "home/odd.evalset.json", "--format", "json")

    assert done.status == 2
    found = outcome(done)
    assert found["good"] == "PASSED"
    assert "conversation" in found["both"]
    assert "home/odd.evalset.json" in found["both"]
    assert "twin" in found["twin"]


def test_an_agent_that_is_not_there_is_named(workbench: CommandLine) -> None:
    workbench.write("workbench.toml", '[targets.home]\nkind = "function"\ntarget = "nowhere.agent:answer"\n'
                    'eval_sets = ["home/*.evalset.json"]\n')  # fmt: skip

    done = workbench("run", "home/light.evalset.json", "--format", "json")

    assert done.status == 3
    assert all("nowhere" in message for message in outcome(done).values())


@pytest.mark.parametrize(
    ("agent", "said"),
    [
        ("raise RuntimeError('at import')", "at import"),
        ("def answer(prompt): return 42", "42"),
        ("def answer(prompt): return None", "None"),
        ("def other(prompt): return 'x'", "answer"),
        ("import sys\ndef answer(prompt): sys.exit(4)", "4"),
        ("def answer(prompt): yield", "generator"),
        ("def answer(prompt) return 1", "agent.py"),
    ],
)
def test_an_agent_that_breaks_is_an_error_with_its_reason(workbench: CommandLine, agent: str, said: str) -> None:
    workbench.write("home/agent.py", agent)

    done = workbench("run", "home/light.evalset.json:on", "--format", "json")

    assert done.status == 3
    assert said in outcome(done)["on"]


def test_an_agent_that_prints_megabytes_keeps_its_verdict(workbench: CommandLine) -> None:
    workbench.write(
        "home/agent.py",
        "def answer(prompt):\n    print('x' * 5_000_000)\n"
        "    return {'response': 'ok', 'predicted_trajectory': [{'name': 'set_light', 'args': {'room': 'kitchen'}}]}\n",
    )

    done = workbench("run", "home/light.evalset.json:on", "--format", "json")

    assert outcome(done) == {"on": "PASSED"}
    assert len(done.out) < 100_000


@pytest.mark.parametrize(
    ("config", "said"),
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
            "judge_metrics.safety_v1: found the name of a built-in metric, expected a name of its own",
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
def test_criteria_that_cannot_be_meant_refuse_the_run(workbench: CommandLine, config: Any, said: str) -> None:
    workbench.write("home/test_config.json", config)

    done = workbench("run", "home")

    assert done.status == 2
    assert said in done.error
    assert "home/test_config.json" in done.error
    assert done.out == ""


def test_a_folder_or_a_broken_link_in_place_of_the_criteria_is_no_reason_for_the_default_ones(
    workbench: CommandLine,
) -> None:
    config = workbench.root / "home/test_config.json"
    config.unlink(missing_ok=True)
    config.mkdir()
    folder = workbench("run", "home")
    doctor = workbench("doctor")
    validated = workbench("eval-set", "validate", "home")
    config.rmdir()
    config.symlink_to("nowhere.json")
    link = workbench("run", "home")

    assert (folder.status, link.status) == (2, 2)
    for said in (folder.error, doctor.out, validated.out):
        assert "home/test_config.json: " in said and "it is a folder, expected a file" in said
    assert "home/test_config.json" in link.error
    assert "default" not in folder.error + link.error


def test_a_criterion_that_cannot_be_meant_has_the_same_place_in_every_command(workbench: CommandLine) -> None:
    path = workbench.write("home/test_config.json", '{\n  "criteria": {\n    "exact_mtch": 1.0\n  }\n}')
    workbench.write("rows.jsonl", '{"prompt": "a", "response": "b", "reference": "b"}\n')
    said = "test_config.json:3:19: {}criteria.exact_mtch: found the unknown metric 'exact_mtch'"

    refused = [
        workbench("run", "home"),
        workbench("run", "home", "--config", str(path)),
        workbench("score", "rows.jsonl", "--config", str(path)),
    ]
    named = workbench("eval-set", "validate", "home/test_config.json")

    assert all(done.status == 2 and said.format("") in done.error for done in refused), refused
    assert said.format("error: ") in named.out


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with a name")
@pytest.mark.parametrize(
    "command",
    ["run home --config", "eval home home/light.evalset.json --config-file-path", "score rows.jsonl --config"],
)
def test_criteria_may_come_from_a_pipe_which_gives_them_once(workbench: CommandLine, command: str) -> None:
    workbench.write("rows.jsonl", '{"prompt": "a", "response": "b", "reference": "b"}\n')
    pipe = workbench.root / f"pipe of {command.split(maxsplit=1)[0]}"
    os.mkfifo(pipe)
    texts = ['{"criteria": {"response_match_score": 0.1}}', *[""] * 9]  # empty for a second read
    Thread(target=lambda: [pipe.write_text(text) for text in texts], daemon=True).start()

    done = workbench(*command.split(), str(pipe))

    assert "response_match_score" in done.out
    assert str(pipe.name) not in done.error


@pytest.mark.parametrize(
    ("table", "config", "said"),
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
def test_a_configuration_is_held_against_the_model_that_the_settings_name(
    workbench: CommandLine, table: str, config: Any, said: str
) -> None:
    workbench.write("home/test_config.json", config)
    settings = (workbench.root / "workbench.toml").read_text() if (workbench.root / "workbench.toml").exists() else ""
    of_google = workbench("run", "home", "--dry-run")
    workbench.write("workbench.toml", f"{settings}\n[{table}]\nmodel = 'openai/x'\n")

    of_others = workbench("run", "home", "--dry-run")

    assert "responseModalities" not in of_google.error
    assert of_others.status == 2
    assert (
        f"{said}: found the key 'responseModalities', which models of other providers are not told" in of_others.error
    )


def test_a_judge_without_a_key_is_an_error_of_each_case(
    workbench: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GOOGLE_API_KEY", "GEMINI_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI"):
        monkeypatch.delenv(name, raising=False)
    workbench.write("home/test_config.json", {"criteria": {"safety_v1": 0.5, "tool_trajectory_avg_score": 1.0}})

    done = workbench("run", "home", "--format", "json")

    assert done.status == 3
    assert "safety_v1: gemini-2.5-flash was not asked: no key" in outcome(done)["on"]
    assert done.error.count("there is no key for the Gemini API: set GOOGLE_API_KEY or GEMINI_API_KEY") == 1


def test_settings_that_are_broken_are_named_with_their_line(workbench: CommandLine) -> None:
    workbench.write("workbench.toml", "[run]\nconcurrency = 'many'\n")

    done = workbench("run", "home")

    assert done.status == 2
    assert "workbench.toml:2" in done.error
    assert "expected a whole number" in done.error


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, a disk that is always full")
def test_an_output_that_takes_no_more_is_said_in_one_line(workbench: CommandLine) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "workbench.cli.main", "run", "home"],
            cwd=workbench.root, stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip

    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == "workbench: the output could not be written: No space left on device"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, a disk that is always full")
def test_a_full_disk_costs_the_file_and_not_the_results(workbench: CommandLine) -> None:
    done = workbench("run", "home", "--format", "json", "--output", "/dev/full")

    assert done.status == 2
    assert "the disk is full" in done.error
    assert "✓ PASSED" in done.out


@pytest.mark.needs_permissions
def test_a_read_only_folder_costs_the_file_and_not_the_results(workbench: CommandLine) -> None:
    folder = workbench.root / "locked"
    folder.mkdir(mode=0o555)

    done = workbench("run", "home", "--output", "locked/report.json")

    assert done.status == 2
    assert "no permission" in done.error
    assert "✓ PASSED" in done.out


def test_a_history_that_cannot_be_kept_costs_no_verdict(workbench: CommandLine) -> None:
    workbench.write(".workbench", "a file where a folder should be")

    done = workbench("run", "home", "--format", "json")

    assert outcome(done) == {"on": "PASSED", "off": "FAILED"}
    assert ".workbench" in done.error


def test_odd_text_from_files_and_agents_never_reaches_the_terminal_raw(
    workbench: CommandLine, make_turn: MakeTurn
) -> None:
    workbench.add_set("home/odd.evalset.json", {"\x1b[2Jcase": [make_turn("raise \x1b]0;owned\x07", room="\x1b[31m")]})

    done = workbench("run", "home/odd.evalset.json", "--verbose")

    assert done.status == 3
    assert not {"\x1b", "\x07"} & set(done.out + done.error)


def test_nothing_is_lost_when_one_turn_fails(workbench: CommandLine, make_turn: MakeTurn) -> None:
    workbench.add_set("home/two.evalset.json", {"two": [make_turn("light x", room="y"), make_turn("raise it")]})

    workbench("run", "home/two.evalset.json")

    stored = json.loads(workbench("report", "--format", "json").out)["cases"][0]
    assert stored["turns"][0]["trajectory"] == [{"name": "set_light", "args": {"room": "x"}}]
    assert stored["differences"][0]["expected"] == "y"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("eval", "home", "ligth"), "; did you mean 'light'?"),
        (("eval", "home", "home/ligth.evalset.json"), "; did you mean 'home/light.evalset.json'?"),
        (
            ("eval", "home", "home/light.evalset.json", "light:on"),
            "light:on: files and ids cannot be mixed, and the first eval set, home/light.evalset.json, is a file; "
            "did you mean 'home/light.evalset.json'?",
        ),
        (
            ("eval", "home", "light", "home/light.evalset.json"),
            "files and ids cannot be mixed, and the first eval set, light, is an id; did you mean 'light'?",
        ),
        (
            ("eval", "home", "home/light.evalset.json", "ligth:on"),
            "ligth:on: there is no such eval-set file; did you mean 'home/light.evalset.json'?",
        ),
        (("run", "light"), "no such file, folder or target; did you mean 'home/light.evalset.json'?"),
        (("run", "ligth:on"), "; did you mean 'home/light.evalset.json:on'?"),
        (("run", "light.evalset.json"), "; did you mean 'home/light.evalset.json'?"),
        (("run", "home/light.evalset.json:of"), "no eval case 'of'; did you mean 'off'?"),
    ],
)
def test_mistyped_sets_and_cases_have_a_suggestion(
    workbench: CommandLine, arguments: tuple[str, ...], said: str
) -> None:
    done = workbench(*arguments)

    assert done.status == 2
    assert said in done.error


@pytest.mark.parametrize("command", [("run",), ("eval", "home"), ("explain",), ()])
def test_an_argument_too_long_for_a_path_is_not_found(workbench: CommandLine, command: tuple[str, ...]) -> None:
    done = workbench(*command, "z" * 5000)

    assert done.status == 2
    assert "no such" in done.error and "bug in workbench" not in done.error
    assert len(done.error) < 1000


def test_many_cases_of_a_set_may_be_named(workbench: CommandLine) -> None:
    done = workbench("run", f"home/light.evalset.json:on,{','.join(['on'] * 200)}")

    assert done.status == 0
    assert "1 case: 1 passed" in done.out
