"""Validation of the files beside eval sets: configurations, scenario files, session inputs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from workbench.store.documents.adk_rules import Finding, check_keys, check_type, get
from workbench.store.documents.creating import read_scenarios, read_session_input
from workbench.store.documents.places import find_key, format_place
from workbench.store.documents.problems import Problem
from workbench.store.documents.reader import Loaded, config_in, read_json
from workbench.store.errors import StoreError

_SIMULATORS = ("llm_backed", "llm_audio")


def problems_of_other_file(path: Path, otherwise: StoreError) -> Iterator[Problem]:
    """The problems of a JSON file that is no eval set; `otherwise` is the one of a file of no known kind."""
    loaded = read_json(path)
    data = loaded.data
    try:
        if is_config(loaded):
            yield from problems_of_config(loaded)
            return
        elif _has(data, "scenarios", "starting_prompt") or _has_first(data, "starting_prompt"):
            read_scenarios(path)
            kind = "ConversationScenarios" if _has(data, "scenarios") else "ConversationScenario"
            found = list(check_type(data, kind))
        elif _has(data, "app_name", "user_id"):
            read_session_input(path)
            found = list(check_type(data, "SessionInput"))
        else:
            raise otherwise
    except StoreError as error:
        yield Problem.of_error(error, rule="schema")
        return
    for finding in found:
        yield _placed(loaded, finding)
    for finding in check_keys(loaded.text):
        yield _placed(loaded, finding)


def is_config(loaded: Loaded) -> bool:
    """Whether a JSON file is a configuration: by its name, else by its keys."""
    named = Path(loaded.path).name == "test_config.json" and isinstance(loaded.data, dict)
    return named or _has(
        loaded.data, "criteria", "custom_metrics", "judge_metrics", "user_simulator_config", "live_model_config"
    )


def problems_of_config(loaded: Loaded) -> Iterator[Problem]:
    """What is wrong with a configuration, as far as its format and ADK go. Raises StoreError if it cannot be read."""
    config_in(loaded)
    for finding in (*check_keys(loaded.text), *_check_config(loaded.data)):
        yield _placed(loaded, finding)


def _check_config(data: Any) -> Iterator[Finding]:
    own = find_key(data, "judge_metrics", free=False)
    yield from check_type({key: value for key, value in data.items() if key != own}, "EvalConfig")
    if own is not None:
        message = "ADK does not read judge_metrics, and cannot judge by the criteria that name them"
        yield Finding("own-key", "warning", (own,), message)
    criteria = get(data, "criteria")
    if not criteria:
        message = "no criteria: the default ones hold (tool_trajectory_avg_score 1.0, response_match_score 0.8)"
        yield Finding("no-criteria", "warning", (), message)
    for name, criterion in (criteria or {}).items():
        if criterion is None or (isinstance(criterion, dict) and criterion.get("threshold") is None):
            message = "without a threshold the metric is informational here, and ADK refuses the file"
            yield Finding("no-threshold", "warning", ("criteria", name), message)
    for name, metric in (get(data, "custom_metrics") or {}).items():
        place = (find_key(data, "custom_metrics", free=False) or "custom_metrics", name)
        if isinstance(metric, str):
            yield Finding("adk-type", "warning", place, "ADK wants an object with code_config here")
        else:
            yield from check_type(metric, "CustomMetricConfig", place)
    simulator = get(data, "user_simulator_config") or {}
    kind = simulator.get("type", _SIMULATORS[0])
    if kind not in _SIMULATORS:
        place = (find_key(data, "user_simulator_config", free=False) or "user_simulator_config", "type")
        message = f"ADK knows no user simulator {kind!r}, only {' and '.join(_SIMULATORS)}"
        yield Finding("unknown-simulator", "error", place, message)


def _has(data: Any, *keys: str) -> bool:
    return isinstance(data, dict) and any(find_key(data, key, free=False) is not None for key in keys)


def _has_first(data: Any, key: str) -> bool:
    return isinstance(data, list) and bool(data) and _has(data[0], key)


def _placed(loaded: Loaded, finding: Finding) -> Problem:
    line, column = loaded.position(finding.place)
    return Problem(
        path=loaded.path,
        rule=finding.rule,
        severity=finding.severity,
        message=finding.message,
        place=format_place(finding.place),
        line=line,
        column=column,
    )
