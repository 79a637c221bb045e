"""Edits of the eval set and of the criteria."""

from __future__ import annotations

import json
import re
from typing import Any

from .packages import CRITERIA, EVAL_SET
from .scene import Scene

Case = dict[str, Any]
_MIN_CASES = 4
_MORE_CRITERIA: tuple[tuple[str, Any], ...] = (
    ("trajectory_recall", 0.5),
    ("trajectory_precision", {"threshold": 0.6}),
    ("trajectory_any_order_match", 1.0),
    ("exact_match", 1.0),
    ("tool_trajectory_avg_score", {"threshold": 1.0, "match_type": "IN_ORDER"}),
    ("final_session_state_match", None),
)


def _read_cases(scene: Scene) -> tuple[dict[str, Any], list[Case]]:
    data: dict[str, Any] = json.loads(scene.read(EVAL_SET))
    return data, data["eval_cases"]


def _save(scene: Scene, data: Any, name: str = EVAL_SET) -> None:
    scene.write(name, json.dumps(data, indent=2, ensure_ascii=False) + "\n")


def _pick_turn(scene: Scene, case: Case) -> dict[str, Any]:
    turn: dict[str, Any] = scene.rng.choice(case["conversation"])
    return turn


def _reword(scene: Scene, prompt: str) -> str:
    """Return a similar prompt that the agent understands."""
    if scene.rng.random() < 0.3:
        return prompt.removeprefix("carefully: ") if prompt.startswith("carefully: ") else f"carefully: {prompt}"
    steps = prompt.split("; ")
    if len(steps) > 1 and scene.rng.random() < 0.3:
        return "; ".join(steps[:-1])
    if re.search(r"\b\d+\b", prompt):
        return re.sub(r"\b\d+\b", str(scene.rng.randint(0, 20)), prompt, count=1)
    return f"{prompt}; recall city"


def prompt_edited(scene: Scene) -> str | None:
    """Change a prompt."""
    data, cases = _read_cases(scene)
    case = scene.rng.choice(cases)
    part = _pick_turn(scene, case)["user_content"]["parts"][0]
    part["text"] = _reword(scene, part["text"])
    _save(scene, data)
    return f"{case['eval_id']}: {part['text']}"


def response_edited(scene: Scene) -> str | None:
    """Change an expected response."""
    data, cases = _read_cases(scene)
    case = scene.rng.choice(cases)
    part = _pick_turn(scene, case)["final_response"]["parts"][0]
    part["text"] = part["text"].removesuffix(" and more") if part["text"].endswith(" and more") else part["text"] + "!"
    _save(scene, data)
    return str(case["eval_id"])


def call_edited(scene: Scene) -> str | None:
    """Change the expected tool calls."""
    data, cases = _read_cases(scene)
    case = scene.rng.choice(cases)
    calls = _pick_turn(scene, case)["intermediate_data"]["tool_uses"]
    way = scene.rng.choice(("argument", "added", "removed")) if calls else "added"
    if way == "argument":
        scene.rng.choice(calls)["args"] = {"n": scene.pick_number()}
    elif way == "removed":
        calls.pop()
    else:
        calls.append({"name": "something_else", "args": {"n": scene.pick_number()}})
    _save(scene, data)
    return f"{case['eval_id']}: {way}"


def case_added(scene: Scene) -> str | None:
    """Add a case that resembles an existing one."""
    data, cases = _read_cases(scene)
    case = json.loads(json.dumps(scene.rng.choice(cases)))
    case["eval_id"] = f"added_{scene.pick_number()}_{len(cases)}"
    part = case["conversation"][0]["user_content"]["parts"][0]
    part["text"] = _reword(scene, part["text"])
    if any(other["eval_id"] == case["eval_id"] for other in cases):
        return None
    cases.insert(scene.rng.randint(0, len(cases)), case)
    _save(scene, data)
    return str(case["eval_id"])


def case_removed(scene: Scene) -> str | None:
    """Remove a case."""
    data, cases = _read_cases(scene)
    if len(cases) <= _MIN_CASES:
        return None
    case = cases.pop(scene.rng.randrange(len(cases)))
    _save(scene, data)
    return str(case["eval_id"])


def case_renamed(scene: Scene) -> str | None:
    """Rename a case."""
    data, cases = _read_cases(scene)
    case = scene.rng.choice(cases)
    old, case["eval_id"] = case["eval_id"], f"renamed_{scene.pick_number()}"
    if sum(other["eval_id"] == case["eval_id"] for other in cases) > 1:
        return None
    _save(scene, data)
    return f"{old} is now {case['eval_id']}"


def turn_added(scene: Scene) -> str | None:
    """Add a turn to a case, or remove its last one."""
    data, cases = _read_cases(scene)
    case = scene.rng.choice(cases)
    turns = case["conversation"]
    if len(turns) > 1:
        turns.pop()
    else:
        turns.append(json.loads(json.dumps(turns[0])))
    _save(scene, data)
    return f"{case['eval_id']} has {len(turns)} turns"


def state_edited(scene: Scene) -> str | None:
    """Change the initial state of the session."""
    data, cases = _read_cases(scene)
    case = scene.rng.choice(cases)
    case["session_input"]["state"][scene.rng.choice(("city", "level"))] = scene.pick_number()
    _save(scene, data)
    return str(case["eval_id"])


def final_state_edited(scene: Scene) -> str | None:
    """Change the expected final state."""
    data, cases = _read_cases(scene)
    case = scene.rng.choice(cases)
    case["final_session_state"] = {"city": scene.pick_number()}
    _save(scene, data)
    return str(case["eval_id"])


def _read_criteria(scene: Scene) -> tuple[dict[str, Any], dict[str, Any]]:
    data: dict[str, Any] = json.loads(scene.read(CRITERIA))
    return data, data["criteria"]


def threshold_changed(scene: Scene) -> str | None:
    """Change a threshold."""
    data, criteria = _read_criteria(scene)
    name = scene.rng.choice(sorted(criteria))
    new = scene.rng.choice((0.0, 0.25, 0.5, 0.75, 1.0, None))
    if isinstance(criteria[name], dict):
        criteria[name]["threshold"] = new
    else:
        criteria[name] = new
    _save(scene, data, CRITERIA)
    return f"{name}: {new}"


def criterion_added(scene: Scene) -> str | None:
    """Add a criterion, or an option of one."""
    data, criteria = _read_criteria(scene)
    name, value = scene.rng.choice(_MORE_CRITERIA)
    if criteria.get(name) == value:
        return None
    criteria[name] = value
    _save(scene, data, CRITERIA)
    return f"{name}: {value}"


def criterion_removed(scene: Scene) -> str | None:
    """Remove a criterion."""
    data, criteria = _read_criteria(scene)
    if len(criteria) < 2:
        return None
    name = scene.rng.choice(sorted(criteria))
    del criteria[name]
    _save(scene, data, CRITERIA)
    return name


def cases_reordered(scene: Scene) -> str | None:
    """Shuffle the cases."""
    data, cases = _read_cases(scene)
    scene.rng.shuffle(cases)
    _save(scene, data)
    return EVAL_SET


def timestamps(scene: Scene) -> str | None:
    """Change the timestamps of the cases."""
    data, cases = _read_cases(scene)
    for case in cases:
        case["creation_timestamp"] = float(scene.pick_number())
    _save(scene, data)
    return EVAL_SET


def set_formatted(scene: Scene) -> str | None:
    """Format the set or the criteria differently."""
    name = scene.rng.choice((EVAL_SET, CRITERIA))
    data = json.loads(scene.read(name))
    scene.write(name, json.dumps(data, indent=scene.rng.choice((1, 3, 4, None))) + "\n" * scene.rng.randint(0, 2))
    return name


EDITS = (
    prompt_edited, response_edited, call_edited, case_added, case_removed, case_renamed, turn_added, state_edited,
    final_state_edited, threshold_changed, criterion_added, criterion_removed,
)  # fmt: skip
NEUTRAL_EDITS = (cases_reordered, timestamps, set_formatted)
