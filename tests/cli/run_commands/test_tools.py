"""`workbench run` with simulated, recorded or replayed tools."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import CommandLine, Done

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


def answers(done: Done) -> list[Any]:
    return [turn["response"] for case in done.data["cases"] for turn in case["turns"]]


def test_calls_are_recorded_replayed_and_simulated(workbench: CommandLine) -> None:
    called = Path("called.txt")
    recorded = workbench("run", "lights", "--record-tools", "calls.jsonl", "--format", "json")
    assert (recorded.status, called.read_text()) == (0, "hall")

    replayed = workbench("run", "lights", "--replay-tools", "calls.jsonl", "--format", "json")
    assert (answers(replayed), called.read_text()) == (["hall is lit"], "hall")
    assert "lights: tool calls are answered from" in replayed.error

    workbench.write(
        "environment.json",
        {"tool_simulation_configs": [{"tool_name": "set_light", "injection_configs": [{"injected_response": "dark"}]}]},
    )
    simulated = workbench("run", "lights", "--simulate-tools", "environment.json", "--format", "json")
    assert (simulated.status, answers(simulated), called.read_text()) == (1, ["dark"], "hall")
    assert "lights: tools are simulated by environment.json: set_light" in simulated.error


def test_what_was_not_recorded_is_an_error_or_called(workbench: CommandLine) -> None:
    workbench.write("calls.jsonl", "")

    refused = workbench("run", "lights", "--replay-tools", "calls.jsonl", "--format", "json")
    assert refused.status == 3
    (case,) = refused.data["cases"]
    assert case["error"]["kind"] == "tool"
    assert 'calls.jsonl: set_light({"room": "hall"}) was called' in case["error"]["message"]

    made = workbench("run", "lights", "--replay-tools", "calls.jsonl", "--unrecorded", "call", "--format", "json")
    assert (made.status, answers(made)) == (0, ["hall is lit"])


def test_a_configuration_that_is_wrong_runs_nothing(workbench: CommandLine) -> None:
    workbench.write("environment.json", json.dumps({"tool_simulation_configs": [{"tool_nam": "set_light"}]}))

    done = workbench("run", "lights", "--simulate-tools", "environment.json")

    assert done.status == 2
    assert "environment.json:1:43: tool_simulation_configs[0].tool_nam: found the unknown key 'tool_nam'" in done.error
    assert "did you mean 'tool_name'?" in done.error
    assert not Path("called.txt").exists()


def test_a_misspelt_key_for_the_model_of_tools_runs_nothing(workbench: CommandLine) -> None:
    tool = {"tool_name": "set_light", "mock_strategy_type": "MOCK_STRATEGY_TOOL_SPEC"}
    environment = {"tool_simulation_configs": [tool], "simulation_model_configuration": {"temperatur": 1}}
    workbench.write("environment.json", environment)

    done = workbench("run", "lights", "--simulate-tools", "environment.json")

    assert done.status == 2
    assert "environment.json: simulation_model_configuration.temperatur: found the unknown key" in done.error
    assert "did you mean 'temperature'?" in done.error


def test_doctor_reads_the_files_too(workbench: CommandLine) -> None:
    workbench.write(
        "workbench.toml",
        '[targets.lights]\nkind = "function"\ntarget = "lights:answer"\nsimulate_tools = "environment.json"\n',
    )
    workbench.write("environment.json", {"tool_simulation_configs": []})

    done = workbench("doctor")

    assert done.status == 2
    assert "environment.json:2:30: tool_simulation_configs: found an empty list, expected a list with" in done.out
