"""JSON Schemas for editors agree with the program about valid files."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import tomlkit

from workbench.engine.schemas import Schema, config_schema, criteria_schema, evalset_schema, run_schema
from workbench.engine.set_files import validate_files
from workbench.store.errors import StoreError
from workbench.store.evalsets.config_files import read_json
from workbench.store.evalsets.validation import is_config
from workbench.store.settings import load_settings
from workbench.tui.keys import check_keys

ROOT = Path(__file__).parents[2]
CORPUS = ROOT.parent / "shared" / "corpus"

EVALSET = jsonschema.Draft7Validator(evalset_schema())
CRITERIA = jsonschema.Draft7Validator(criteria_schema())
SETTINGS = jsonschema.Draft7Validator(config_schema({"run_case": "Run the case."}))

UNKNOWN_KEYS = frozenset({"unknown-key", "mixed-intermediate-data", "schema", "criteria", "config"})
"""Rules by which `validate` reports unknown keys."""

FULL_SET = {
    "eval_set_id": "full",
    "eval_cases": [
        {
            "eval_id": "fixed",
            "conversation": [
                {
                    "user_content": {"role": "user", "parts": [{"text": "hello"}]},
                    "final_response": {"role": "model", "parts": [{"text": "hello"}]},
                    "intermediate_data": {
                        "tool_uses": [{"name": "greet", "args": {"any": {"key": 1}}}],
                        "tool_responses": [{"name": "greet", "response": {"any": "key"}}],
                        "intermediate_responses": [["helper", [{"text": "on the way"}]]],
                    },
                    "rubrics": [{"rubric_id": "r", "rubric_content": {"text_property": "is polite"}}],
                    "app_details": {"agent_details": {"any": "key"}},
                },
                {
                    "user_content": {"parts": [{"text": "again"}]},
                    "intermediate_data": {"invocation_events": [{"author": "a", "content": {"parts": []}}]},
                },
            ],
            "session_input": {"app_name": "app", "user_id": "me", "state": {"any": "key"}},
            "final_session_state": {"any": "key"},
        },
        {
            "eval_id": "played",
            "conversation_scenario": {
                "starting_prompt": "hello",
                "conversation_plan": "say goodbye",
                "user_persona": {
                    "id": "p",
                    "description": "d",
                    "behaviors": [
                        {"name": "n", "description": "d", "behavior_instructions": [], "violation_rubrics": []}
                    ],
                },
            },
        },
    ],
}

FULL_CRITERIA = {
    "criteria": {
        "tool_trajectory_avg_score": {"threshold": 1.0, "match_type": "in-order"},
        "final_response_match_v2": {"threshold": 0.5, "judge_model_options": {"num_samples": 3}},
        "exact_match": {"threshold": 1, "ignore_case": True},
        "polite": {"threshold": 1},
    },
    "judge_metrics": {"polite": {"metric_prompt_template": "Is {response} polite?", "baseline": None}},
    "user_simulator_config": {
        "model": "gemini-2.5-flash",
        "model_configuration": {"thinkingConfig": {"include_thoughts": True}},
    },
    "live_model_config": {"timeout_seconds": 3},
}

CUSTOM_CRITERIA = {
    "criteria": {"own": {"threshold": 1, "anything": {"any": "key"}}},
    "custom_metrics": {
        "own": {
            "code_config": {"name": "mine.score"},
            "metric_info": {
                "metric_name": "own",
                "metric_value_info": {"interval": {"min_value": 0, "max_value": 1}},
            },
        }
    },
}

FULL_SETTINGS = """
[targets.home]
kind = "function"
target = "home.agent:answer"

[targets.web]
kind = "http"
target = "https://example.org/ask"
http = { method = "POST", body = { question = "{{ prompt }}" }, headers = { X-Any = "1" } }

[targets.program]
kind = "command"
target = ["node", "agent.js"]
command = { otlp = true }

[targets.recorded]
kind = "recorded"
columns = { response = "answer" }

[run]
runs = 2
[judge]
quorum = 0.5
[judge.prices."my/model"]
input = 0
output = 0
[simulation]
model = "gemini-2.5-flash"
[watch]
notify = "off"
[tui]
theme = "dark"
[keys]
run_case = "r"
"""

Place = tuple[str | int, ...]


def find_objects(data: Any, place: Place = ()) -> Iterator[Place]:
    """Find the places of all objects in the data."""
    if isinstance(data, dict):
        yield place
    for key, value in data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ():
        yield from find_objects(value, (*place, key))


def add_key(data: dict[str, Any], place: Place, key: str) -> dict[str, Any]:
    """Return the data with one more key in the object at a place."""
    changed = copy.deepcopy(data)
    inner: Any = changed
    for step in place:
        inner = inner[step]
    inner[key] = "x"
    return changed


def list_violated_rules(path: Path) -> list[str]:
    """List the rules that the program finds violated in a file, as far as schemas know them."""
    return [problem.rule for problem in validate_files([path]) if problem.rule in UNKNOWN_KEYS]


def list_eval_sets(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.rglob("*.json")) if path.name.endswith((".evalset.json", ".test.json"))]


@pytest.mark.parametrize(
    "make",
    [evalset_schema, criteria_schema, lambda: config_schema({}), run_schema],
    ids=["evalset", "criteria", "config", "run"],
)
def test_schemas_are_valid_json_schemas(make: Callable[[], Schema]) -> None:
    jsonschema.Draft7Validator.check_schema(make())


@pytest.mark.parametrize(
    "path", [*list_eval_sets(CORPUS), *list_eval_sets(ROOT / "sample_agents")], ids=lambda path: path.name
)
def test_eval_sets_of_the_corpus_and_the_samples_are_valid(path: Path) -> None:
    assert [error.message for error in EVALSET.iter_errors(read_json(path).data)] == []


@pytest.mark.parametrize(
    "path",
    [
        *(
            CORPUS / "documentation" / name
            for name in ("test_config.json", "eval_config.json", "user_simulator_config.json")
        ),
        *(ROOT / "sample_agents").rglob("*config.json"),
    ],
    ids=lambda path: f"{path.parent.name}/{path.name}",
)
def test_criteria_of_the_corpus_and_the_samples_are_valid(path: Path) -> None:
    loaded = read_json(path)

    assert is_config(loaded)
    assert [error.message for error in CRITERIA.iter_errors(loaded.data)] == []


def test_settings_of_the_samples_are_valid() -> None:
    data = tomllib.loads((ROOT / "sample_agents" / "workbench.toml").read_text(encoding="utf-8"))

    assert [error.message for error in SETTINGS.iter_errors(data)] == []


@pytest.mark.parametrize("key", ["note", "conversatoin", "state_", "rubric", "user_contnt", "tool_use"])
@pytest.mark.parametrize("place", find_objects(FULL_SET), ids=lambda place: ".".join(map(str, place)) or "top")
def test_unknown_keys_of_eval_sets_are_found_where_the_program_finds_them(
    place: Place, key: str, tmp_path: Path
) -> None:
    data = add_key(FULL_SET, place, key)
    path = tmp_path / "full.evalset.json"
    path.write_text(json.dumps(data), encoding="utf-8")

    assert EVALSET.is_valid(data) == (not list_violated_rules(path))


@pytest.mark.parametrize("key", ["note", "treshold", "judgeMetric"])
@pytest.mark.parametrize(
    ("criteria", "place"),
    [
        (data, place)
        for data in (FULL_CRITERIA, CUSTOM_CRITERIA)
        for place in find_objects(data)
        if place != ("criteria",)
    ],
    ids=lambda value: ".".join(map(str, value)) or "top" if isinstance(value, tuple) else "",
)
def test_unknown_keys_of_criteria_are_found_where_the_program_finds_them(
    criteria: dict[str, Any], place: Place, key: str, tmp_path: Path
) -> None:
    data = add_key(criteria, place, key)
    path = tmp_path / "test_config.json"
    path.write_text(json.dumps(data), encoding="utf-8")

    assert CRITERIA.is_valid(data) == (not list_violated_rules(path))


def test_an_unknown_metric_is_found_unless_the_file_may_define_it() -> None:
    assert not CRITERIA.is_valid({"criteria": {"exact_mtach": 1}})
    assert CRITERIA.is_valid({"criteria": {"own": 1}, "custom_metrics": {"own": "mine.score"}})


@pytest.mark.parametrize(
    "place", find_objects(tomllib.loads(FULL_SETTINGS)), ids=lambda place: ".".join(place) or "top"
)
def test_unknown_keys_of_settings_are_found_where_the_program_finds_them(place: Place, tmp_path: Path) -> None:
    data = add_key(tomllib.loads(FULL_SETTINGS), place, "notee")
    (tmp_path / "workbench.toml").write_text(tomlkit.dumps(data), encoding="utf-8")

    assert SETTINGS.is_valid(data) == (not list_settings_problems(tmp_path))


def list_settings_problems(root: Path) -> list[str]:
    try:
        loaded = load_settings(root, user_file=root / "no user file")
    except StoreError as error:
        return [str(error)]
    return [*loaded.problems, *check_keys(loaded.settings.keys)[1].values()]


def test_fields_of_settings_are_described_by_their_docstrings() -> None:
    run = config_schema({})["$defs"]["RunSettings"]["properties"]

    assert run["concurrency"]["description"] == "Maximum parallel cases."
    assert all(
        "description" in field
        for definition in config_schema({})["$defs"].values()
        for field in definition["properties"].values()
    )


def test_the_keys_of_a_schema_have_the_same_order_in_every_process() -> None:
    code = "import json; from workbench.engine.schemas import criteria_schema; print(json.dumps(criteria_schema()))"
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code], env=os.environ | {"PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    }

    assert len(outputs) == 1
