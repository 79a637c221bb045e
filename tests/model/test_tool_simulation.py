"""Configurations of simulated tools: their format, and mistakes with their positions."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from workbench.store.evalsets.config_files import load_environment

ADK_EXAMPLE = {
    "tool_simulation_configs": [
        {
            "tool_name": "get_order",
            "injection_configs": [
                {
                    "injection_probability": 0.5,
                    "match_args": {"order_id": "7"},
                    "injected_latency_seconds": 2.5,
                    "random_seed": 42,
                    "injected_error": {"injected_http_error_code": 503, "error_message": "down"},
                },
                {"injected_response": {"status": "ok"}},
            ],
            "mock_strategy_type": 1,
        }
    ],
    "simulation_model": "gemini-2.5-pro",
    "simulation_model_configuration": {"temperature": 0.5},
    "tracing": "[]",
    "environment_data": "{}",
}


def convert_to_camel_case(value: Any) -> Any:
    from pydantic.alias_generators import to_camel

    if isinstance(value, list):
        return [convert_to_camel_case(item) for item in value]
    free = ("order_id", "status", "temperature")
    if isinstance(value, dict):
        return {key if key in free else to_camel(key): convert_to_camel_case(item) for key, item in value.items()}
    return value


def test_the_example_of_the_docs_is_read(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "simulated-tools.md").read_text(encoding="utf-8")
    (example,) = (block for block in re.findall(r"```json\n(.*?)```", page, re.DOTALL) if "injection_configs" in block)
    (tmp_path / "environment.json").write_text(example)

    environment, mistakes = load_environment(tmp_path / "environment.json")

    assert mistakes == ()
    assert [(tool.name, len(tool.injections), tool.by_model) for tool in environment.tools] == [
        ("set_device_info", 2, False),
        ("list_devices", 0, True),
    ]


def list_problems(path: Path) -> list[str]:
    return [str(problem).removeprefix(f"{path}:") for problem in load_environment(path)[1]]


def test_a_model_of_another_vendor_needs_its_provider(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps({**ADK_EXAMPLE, "simulation_model": "gpt-4o"}))

    (problem,) = list_problems(tmp_path / "a.json")

    assert "simulation_model: found 'gpt-4o', expected 'openai/gpt-4o'" in problem


def test_snake_case_and_camel_case_mean_the_same(tmp_path: Path) -> None:
    (tmp_path / "snake.json").write_text(json.dumps(ADK_EXAMPLE))
    (tmp_path / "camel.json").write_text(json.dumps(convert_to_camel_case(ADK_EXAMPLE)))

    snake, camels = (load_environment(tmp_path / name) for name in ("snake.json", "camel.json"))

    assert snake[1] == camels[1] == ()
    left_out: Any = {"source": True, "tools": {"__all__": {"place"}}}
    assert snake[0].model_dump(exclude=left_out) == camels[0].model_dump(exclude=left_out)
    (tool,) = snake[0].tools
    assert tool.by_model
    assert [injection.answer for injection in tool.injections] == [
        {"error_code": 503, "error_message": "down"},
        {"status": "ok"},
    ]


@pytest.mark.needs_adk
def test_a_configuration_that_adk_writes_is_read(tmp_path: Path) -> None:
    from google.adk.tools.environment_simulation.environment_simulation_config import EnvironmentSimulationConfig

    config = EnvironmentSimulationConfig.model_validate(ADK_EXAMPLE)
    path = tmp_path / "environment.json"
    path.write_text(config.model_dump_json(exclude_none=True, indent=1))

    assert list_problems(path) == []


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"tool_simulation_configs": []}, "1:29: tool_simulation_configs: found an empty list, expected a list with at "
         "least one tool"),
        ({"tool_simulation_config": []}, "found the unknown key 'tool_simulation_config', expected one of "
         "tool_simulation_configs, simulation_model, simulation_model_configuration, environment_data, tracing"
         "; did you mean 'tool_simulation_configs'?"),
        ({"simulation_model": 7}, "simulation_model: found 7, expected text"),
    ],
)  # fmt: skip
def test_a_mistake_is_reported_with_its_position(tmp_path: Path, change: dict[str, Any], problem: str) -> None:
    path = tmp_path / "environment.json"
    path.write_text(json.dumps({**ADK_EXAMPLE, **change}))

    (found,) = list_problems(path)

    assert found.endswith(problem)


@pytest.mark.parametrize(
    ("injection", "problem"),
    [
        ({"injection_probability": 50}, "[0].injection_probability: found 50, expected a number from 0 to 1"),
        ({"injected_latency_seconds": 121}, "injected_latency_seconds: found 121, expected a number from 0 to 120"),
        ({"injected_latency_seconds": -1}, "injected_latency_seconds: found -1, expected a number from 0 to 120"),
        ({"random_seed": "x"}, 'random_seed: found "x", expected a whole number'),
        ({"match_args": [1]}, "match_args: found a list, expected an object"),
        ({"injected_response": None}, "injection_configs[0]: found neither injected_error nor injected_response, "
         "expected either injected_error or injected_response"),
        ({"injected_error": {"injected_http_error_code": 5, "error_message": "x"}}, "found both of them"),
        ({"injected_respons": {}}, "found the unknown key 'injected_respons', expected one of injection_probability, "),
    ],
)  # fmt: skip
def test_a_mistake_in_an_injection_is_reported_with_its_line(
    tmp_path: Path, injection: dict[str, Any], problem: str
) -> None:
    path = tmp_path / "environment.json"
    tool = {"tool_name": "t", "injection_configs": [{"injected_response": {"a": 1}, **injection}]}
    path.write_text(json.dumps({"tool_simulation_configs": [tool]}, indent=1))

    (found,) = list_problems(path)

    assert problem in found
    assert found.startswith(("4:", "5:", "6:", "7:", "8:", "9:", "10:", "11:"))
