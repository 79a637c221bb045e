"""A row of a dataset as a turn: what the user said, and one of the two sides that answer it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from workbench.model.evalset import Content
from workbench.model.trajectory import ToolCall


def prompt_of_row(prompt: str | None) -> Content:
    """What the user said; without parts where the row has no prompt."""
    parts = [{"text": prompt}] if prompt is not None else []
    return Content.model_validate({"role": "user", "parts": parts})


def turn_of_row(user_content: Content, answer: str | None, calls: Iterable[ToolCall] | None) -> dict[str, Any]:
    """The data of an Invocation; None is what the row does not say, which no calls are not."""
    return {
        "user_content": user_content,
        "final_response": None if answer is None else {"role": "model", "parts": [{"text": answer}]},
        "intermediate_data": None
        if calls is None
        else {"tool_uses": [{"name": call.name, "args": call.args} for call in calls]},
    }
