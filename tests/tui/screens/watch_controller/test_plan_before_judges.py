"""A watch whose cases ask a judge shows its plan first."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.mark.parametrize(("criterion", "asks"), [("final_response_match_v2", True), ("response_match_score", False)])
async def test_the_plan_comes_before_the_first_judge_calls_of_a_watch(
    make_project: Callable[..., Path], open_app: Callable[..., Any], make: Any, criterion: str, asks: bool
) -> None:
    project = make_project(
        criteria={criterion: 0.5}, lights=[{"eval_id": "day", "conversation": [make.turn("Hi", "Hello")]}]
    )
    async with open_app(project) as screen:
        await screen.until("day")
        await screen.press("w")
        if asks:
            await screen.until("watch? each save runs", "about 5 calls", "⏎ watch")
            await screen.press("n")
            await screen.until_gone("watch? each save")
            assert not screen.state.watch.is_active
            await screen.press("w")
            await screen.until("⏎ watch")
            await screen.press("enter")
        await screen.until("watching")
