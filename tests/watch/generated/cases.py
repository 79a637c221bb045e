"""The eval set of a generated package: prompts that use its parts, and expectations, some of them wrong."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from .outcomes import Outcome

EvalSet = dict[str, Any]


def make_cases(
    rng: random.Random, aliases: Mapping[str, str], places: Mapping[str, str], count: tuple[int, int]
) -> EvalSet:
    """Make an eval set without expectations. It uses every tool once before it uses any again."""
    tools = _cycle_shuffled(rng, sorted(aliases))
    modules = sorted(set(places.values()))
    cases = [_make_case(rng, f"case_{number}", tools, modules) for number in range(rng.randint(*count))]
    return {"eval_set_id": "set", "name": "set", "eval_cases": cases}


def _cycle_shuffled(rng: random.Random, names: list[str]) -> Iterator[str]:
    while True:
        rng.shuffle(names)
        yield from names


def _make_case(rng: random.Random, eval_id: str, tools: Iterator[str], modules: Sequence[str]) -> dict[str, Any]:
    """Make a case of one or two turns, each of one to three steps."""
    state = {rng.choice(("city", "level")): rng.randint(1, 99)} if rng.random() < 0.3 else {}
    turns = [_make_prompt(rng, tools, modules) for _ in range(2 if rng.random() < 0.15 else 1)]
    return {
        "eval_id": eval_id,
        "conversation": [make_turn(prompt, number) for number, prompt in enumerate(turns)],
        "session_input": {"app_name": "generated", "user_id": "user", "state": state},
        "creation_timestamp": 1700000000.0 + len(eval_id),
    }


def make_turn(prompt: str, number: int) -> dict[str, Any]:
    """Make a turn without expectations."""
    return {
        "invocation_id": f"turn-{number}",
        "user_content": {"role": "user", "parts": [{"text": prompt}]},
        "final_response": {"role": "model", "parts": [{"text": ""}]},
        "intermediate_data": {"tool_uses": [], "tool_responses": [], "intermediate_responses": []},
    }


def _make_prompt(rng: random.Random, tools: Iterator[str], modules: Sequence[str]) -> str:
    steps = [_make_step(rng, tools, modules) for _ in range(rng.choice((1, 1, 2, 2, 3)))]
    return ("carefully: " if rng.random() < 0.6 else "") + "; ".join(steps)


def _make_step(rng: random.Random, tools: Iterator[str], modules: Sequence[str]) -> str:
    way = rng.random()
    if way < 0.08:
        return f"declare {rng.choice(modules)}"
    if way < 0.12:
        return rng.choice(("recall city", "recall level", "remember city", "remember visits"))
    step = f"{next(tools)} {rng.randint(0, 12)}" if rng.random() < 0.95 else next(tools)
    return f"{step} > {next(tools)}" if rng.random() < 0.15 else step


def expect(path: Path, outcomes: Mapping[str, Outcome], rng: random.Random) -> None:
    """Make most cases of a file expect these outcomes, and some of them something else."""
    data = json.loads(path.read_text("utf-8"))
    for case in data["eval_cases"]:
        outcome = outcomes[case["eval_id"]]
        for turn, answer in zip(case["conversation"], outcome.answers, strict=False):
            turn["final_response"]["parts"][0]["text"] = answer.response
            turn["intermediate_data"]["tool_uses"] = [
                {"name": name, "args": json.loads(args)} for name, args in answer.calls
            ]
            if rng.random() < 0.15:
                turn["final_response"]["parts"][0]["text"] += " and more"
            if rng.random() < 0.1:
                turn["intermediate_data"]["tool_uses"].append({"name": "never_called", "args": {"n": 1}})
        if rng.random() < 0.3 and outcome.state not in ("null", "{}"):
            case["final_session_state"] = json.loads(outcome.state)
    path.write_text(json.dumps(data, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
