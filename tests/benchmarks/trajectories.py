"""Pairs of trajectories, and their scores by a plain loop."""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import Any

ROWS = 10_000

SIX = ("exact_match", "in_order_match", "any_order_match", "precision", "recall", "single_tool_use")

TOOL = "set_device_info"


def make_rows() -> list[tuple[list[dict[str, Any]], list[dict[str, Any]]]]:
    """Return pairs of predicted and reference calls with nested arguments; every other pair differs."""
    generator = random.Random(10_000)

    def call() -> dict[str, Any]:
        updates = {"status": generator.choice(("ON", "OFF")), "level": generator.randrange(3)}
        args = {"device_id": f"device_{generator.randrange(3)}", "location": "Living Room", "updates": updates}
        return {"name": generator.choice((TOOL, "get_user_preferences")), "args": args}

    pairs = []
    for index in range(ROWS):
        reference = [call() for _ in range(generator.randrange(1, 6))]
        pairs.append(([*reference[:-1], call()] if index % 2 else reference, reference))
    return pairs


def score_plainly(predicted: list[dict[str, Any]], reference: list[dict[str, Any]]) -> list[float]:
    """Compute the six scores of one row."""
    left = [json.dumps(call, sort_keys=True) for call in predicted]
    right = [json.dumps(call, sort_keys=True) for call in reference]
    shared = (Counter(left) & Counter(right)).total()
    rest = iter(left)
    return [
        float(left == right),
        float(all(call in rest for call in right)),
        float(shared == len(right)),
        shared / len(left),
        shared / len(right),
        float(any(call["name"] == TOOL for call in predicted)),
    ]
