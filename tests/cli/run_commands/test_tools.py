"""`workbench run` with simulated, recorded or replayed tools."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.cli.command_line import CommandLine, CommandResult

AGENT = """
from pathlib import Path

def set_light(room):
    "Switch a light on."
    with open("called.txt", "a") as file:
        file.write(room)
    return f"{room} is lit"

def answer(prompt):
    return set_light(prompt)
"""


@pytest.fixture
def workbench(workbench: CommandLine) -> CommandLine:
    workbench.write("lights.py", AGENT)
    workbench.write(
        "workbench.toml",
        '[targets.lights]\nkind = "function"\ntarget = "lights:answer"\ntools = ["lights:set_light"]\n'
        'eval_sets = ["lights.evalset.json"]\n',
    )
    turn = {"user_content": {"parts": [{"text": "hall"}]}, "final_response": {"parts": [{"text": "hall is lit"}]}}
    workbench.add_set("lights.evalset.json", {"on": [turn]})
    workbench.write("test_config.json", {"criteria": {"exact_match": 1.0}})
    return workbench


def get_answers(result: CommandResult) -> list[Any]:
    return [turn["response"] for case in result.data["cases"] for turn in case["turns"]]


def test_calls_are_recorded_replayed_and_simulated(workbench: CommandLine) -> None:
    call_log = Path("called.txt")
    recording = workbench("run", "lights", "--record-tools", "calls.jsonl", "--format", "json")
    assert (recording.status, call_log.read_text()) == (0, "hall")

    replay = workbench("run", "lights", "--replay-tools", "calls.jsonl", "--format", "json")
    assert (get_answers(replay), call_log.read_text()) == (["hall is lit"], "hall")
    assert "lights: tool calls are answered from" in replay.error

    workbench.write(
        "environment.json",
        {"tool_simulation_configs": [{"tool_name": "set_light", "injection_configs": [{"injected_response": "dark"}]}]},
    )
    simulation = workbench("run", "lights", "--simulate-tools", "environment.json", "--format", "json")
    assert (simulation.status, get_answers(simulation), call_log.read_text()) == (1, ["dark"], "hall")
    assert "lights: tools are simulated by environment.json: set_light" in simulation.error


def test_an_unrecorded_tool_call_is_an_error_or_a_real_call(workbench: CommandLine) -> None:
    workbench.write("calls.jsonl", "")

    without_calls = workbench("run", "lights", "--replay-tools", "calls.jsonl", "--format", "json")
    assert without_calls.status == 3
    (case,) = without_calls.data["cases"]
    assert case["error"]["kind"] == "tool"
    assert 'calls.jsonl: set_light({"room": "hall"}) was called' in case["error"]["message"]

    with_calls = workbench("run", "lights", "--replay-tools", "calls.jsonl", "--unrecorded", "call", "--format", "json")
    assert (with_calls.status, get_answers(with_calls)) == (0, ["hall is lit"])


def test_an_invalid_tool_simulation_runs_nothing(workbench: CommandLine) -> None:
    workbench.write("environment.json", json.dumps({"tool_simulation_configs": [{"tool_nam": "set_light"}]}))

    result = workbench("run", "lights", "--simulate-tools", "environment.json")

    assert result.status == 2
    assert (
        "environment.json:1:43: tool_simulation_configs[0].tool_nam: found the unknown key 'tool_nam'" in result.error
    )
    assert "did you mean 'tool_name'?" in result.error
    assert not Path("called.txt").exists()


def test_a_misspelt_key_of_the_tool_model_runs_nothing(workbench: CommandLine) -> None:
    tool = {"tool_name": "set_light", "mock_strategy_type": "MOCK_STRATEGY_TOOL_SPEC"}
    environment = {"tool_simulation_configs": [tool], "simulation_model_configuration": {"temperatur": 1}}
    workbench.write("environment.json", environment)

    result = workbench("run", "lights", "--simulate-tools", "environment.json")

    assert result.status == 2
    assert "environment.json: simulation_model_configuration.temperatur: found the unknown key" in result.error
    assert "did you mean 'temperature'?" in result.error


def test_doctor_checks_the_tool_simulation(workbench: CommandLine) -> None:
    workbench.write(
        "workbench.toml",
        '[targets.lights]\nkind = "function"\ntarget = "lights:answer"\nsimulate_tools = "environment.json"\n',
    )
    workbench.write("environment.json", {"tool_simulation_configs": []})

    result = workbench("doctor")

    assert result.status == 2
    assert "environment.json:2:30: tool_simulation_configs: found an empty list, expected a list with" in result.out
