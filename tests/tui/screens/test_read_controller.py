"""What the main screen reads: results of another selection are not shown."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tests.tui.conftest import type_at_once
from workbench.engine.plan import Selection
from workbench.tui.backend.run_calls import HistoryReader
from workbench.tui.screens.read_controller import ReadController

Open = Callable[..., Any]


async def test_a_filter_that_is_typed_after_the_start_of_a_run_does_not_change_it(
    open_fake_app: Any, lights: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_fake_app(lights) as screen:
        await screen.until("3 cases")
        is_read, read = asyncio.Event(), ReadController.read_all_sets

        async def read_slowly(self: ReadController) -> None:
            await is_read.wait()
            await read(self)

        monkeypatch.setattr(ReadController, "read_all_sets", read_slowly)
        type_at_once(screen, "R/off")
        await screen.until("planning the run")
        is_read.set()
        await screen.until("running", "filter: off", "1 of 3")

    assert lights.requested_runs == [[Selection(eval_set="sets/lights.evalset.json")]]


async def test_late_scores_of_a_set_do_not_replace_those_of_a_case(
    make_history_project: Open, open_app: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = make_history_project("on")
    project.run()
    scores_requested, may_answer = asyncio.Event(), asyncio.Event()
    spread = HistoryReader.read_spread

    async def delay_scores(reader: HistoryReader, *arguments: Any, **options: Any) -> Any:
        spread_result = await spread(reader, *arguments, **options)
        scores_requested.set()
        await may_answer.wait()
        return spread_result

    monkeypatch.setattr(HistoryReader, "read_spread", delay_scores)
    async with open_app(project.path) as screen:
        await screen.until("1/1")
        await screen.press("j", "4")
        await asyncio.wait_for(scores_requested.wait(), 30)
        await screen.press("escape", "j")
        await screen.until("score 1.00, needs at least 1.00")
        may_answer.set()
        await screen.pilot.pause()
        assert "distribution" not in screen.text
