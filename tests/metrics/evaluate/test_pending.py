"""Conversations that end while the agent waits for an answer."""

from __future__ import annotations

from typing import Any

import pytest

from workbench.metrics.case_view import JudgedCase
from workbench.metrics.evaluate import judge_case
from workbench.metrics.registry import prepare
from workbench.model.results import Execution, TurnResult


@pytest.mark.parametrize(("pending", "is_last"), [("Really?", True), ("Really?", False), (None, True)])
async def test_a_hint_says_what_is_pending_at_the_end(
    pending: str | None, is_last: bool, turn: Any, config: Any, services: Any
) -> None:
    waits = TurnResult(invocation=turn("a", ["f"]), duration_seconds=0.1, pending=pending)
    done = TurnResult(invocation=turn("b"), duration_seconds=0.1)
    turns = (done, waits) if is_last else (waits, done)
    case = JudgedCase(case=None, expected=[item.invocation for item in turns], execution=Execution(turns=turns))
    criteria = prepare(config({"tool_trajectory_avg_score": 1.0, "trajectory_recall": None}))

    results = {result.name: result for result in await judge_case(case, criteria, services)}

    hint = "the conversation ended while the agent waited for an answer: Really?" if pending and is_last else None
    assert results["tool_trajectory_avg_score"].hint == hint
    assert results["trajectory_recall"].hint is None  # it decides nothing
