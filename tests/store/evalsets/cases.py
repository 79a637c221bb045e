"""The smallest valid case, with changes."""

from __future__ import annotations

import json
from typing import Any

CASE: dict[str, Any] = {"eval_id": "a", "conversation": [{"user_content": {"parts": [{"text": "hi"}], "role": "user"}}]}


def make_set(*cases: Any, **header: Any) -> str:
    return json.dumps({"eval_set_id": "s", **header, "eval_cases": list(cases)})


def make_case(**changes: Any) -> dict[str, Any]:
    return {**CASE, **changes}


def make_turn(**changes: Any) -> dict[str, Any]:
    return make_case(conversation=[{**CASE["conversation"][0], **changes}])
