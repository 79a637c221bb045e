"""The pane of scores on real projects."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from workbench.tui.backend.run_calls import HistoryReader

Open = Callable[..., Any]


async def test_every_criterion_of_a_case_is_shown_with_what_it_means(make_ran: Open, open_app: Open) -> None:
    project = make_ran("on", "off", criteria={"tool_trajectory_avg_score": 1.0, "response_match_score": 0.8})
    project.break_on("on")
    project.run()

    async with open_app(project.path) as screen:
        await screen.until("on", "1/2")
        await screen.press("j", "j", "4")
        text = await screen.until("✗ failed", "response_match_score", "only reported", "latency")
        assert "0 / 1" in text
        assert "score 0, needs at least 1" in text
        assert "Whether the agent made the expected tool calls" in text

        await screen.press("j")
        await screen.until("score 1, needs at least 0.8")


async def test_the_cursor_stays_on_its_criterion_from_case_to_case(make_ran: Open, open_app: Open) -> None:
    project = make_ran("on", "off", criteria={"tool_trajectory_avg_score": 1.0, "response_match_score": 0.8})
    project.run()

    async with open_app(project.path) as screen:
        await screen.until("2/2")
        await screen.press("j", "j", "4")
        await screen.until("needs at least 1")
        await screen.press("j")
        await screen.until("needs at least 0.8")
        await screen.press("escape", "j")
        await screen.until("off · lights", "needs at least 0.8")


async def test_entering_a_criterion_goes_into_its_text_and_y_copies_the_scores(make_ran: Open, open_app: Open) -> None:
    project = make_ran("on")
    project.run()

    async with open_app(project.path) as screen:
        await screen.until("1/1")
        await screen.press("j", "j", "4")
        await screen.until("needs at least 1")
        await screen.press("enter")
        assert type(screen.app.focused).__name__ == "LinesView"
        await screen.press("shift+tab", "right")
        assert type(screen.app.focused).__name__ == "LinesView"

        await screen.press("y")
        await screen.until("copied")
        assert "tool_trajectory_avg_score\t1.0\tPASSED" in screen.app.clipboard


async def test_repeats_have_a_pass_rate_with_an_interval(make_ran: Open, open_app: Open) -> None:
    project = make_ran("on")
    project.run(runs=3)

    async with open_app(project.path) as screen:
        await screen.until("1/1")
        await screen.press("j", "j", "4")
        await screen.until("3 of 3 repeats passed", "95 % interval 44% to 100%", "pass^3 100%", "repeat 3")


async def test_a_case_that_has_not_run_says_what_to_do_and_running_it_shows_its_scores(
    make_ran: Open, open_app: Open
) -> None:
    project = make_ran("on")

    async with open_app(project.path) as screen:
        await screen.until("on", "not run")
        await screen.press("j", "j", "4")
        await screen.until("it has not run yet", "r runs it")
        await screen.press("r")
        await screen.until("✓ passed", "needs at least 1")


async def test_a_case_that_ended_in_an_error_says_so(make_ran: Open, open_app: Open) -> None:
    project = make_ran("raise")
    project.run()

    async with open_app(project.path) as screen:
        await screen.until("error")
        await screen.press("j", "j", "4")
        await screen.until("it ended in an error: ", "[/foo] [bold]")


async def test_a_set_has_means_and_distributions_and_its_worst_cases_can_be_gone_to(
    make_ran: Open, open_app: Open
) -> None:
    project = make_ran("on", "off", "dim")
    project.break_on("dim")
    project.run()

    async with open_app(project.path) as screen:
        await screen.until("2/3")
        await screen.press("j", "4")
        await screen.until("3 results", "distribution", "±0.577", "fell short  1")

        await screen.press("enter")
        await screen.until("▾ tool_trajectory_avg_score", "lights.evalset.json:dim")
        await screen.press("j", "enter")
        await screen.until("dim · lights", "score 0, needs at least 1")


async def test_a_set_of_which_nothing_has_run_says_so_and_follows_its_run(make_ran: Open, open_app: Open) -> None:
    project = make_ran("on", "off")

    async with open_app(project.path) as screen:
        await screen.until("not run")
        await screen.press("j", "4")
        await screen.until("None of its cases has run yet.")
        await screen.press("r")
        await screen.until("2 results", "2 passed")


async def test_a_history_of_a_newer_version_is_said_and_the_rest_goes_on(make_ran: Open, open_app: Open) -> None:
    import sqlite3

    project = make_ran("on")
    project.run()
    with sqlite3.connect(project.path / ".workbench" / "history.db") as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()

    async with open_app(project.path) as screen:
        await screen.until("○ on")
        await screen.press("j", "4")
        await screen.until("The history cannot be read", "written by a newer version", "Everything else works.")
        await screen.press("5")
        await screen.until("The history cannot be read")
        await screen.press("1")
        await screen.until("ping")


async def test_scores_of_a_set_that_come_late_do_not_take_the_place_of_a_case(
    make_ran: Open, open_app: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = make_ran("on")
    project.run()
    asked, may_answer = asyncio.Event(), asyncio.Event()
    spread = HistoryReader.read_spread

    async def late(reader: HistoryReader, *arguments: Any, **options: Any) -> Any:
        found = await spread(reader, *arguments, **options)
        asked.set()
        await may_answer.wait()
        return found

    monkeypatch.setattr(HistoryReader, "read_spread", late)
    async with open_app(project.path) as screen:
        await screen.until("1/1")
        await screen.press("j", "4")
        await asyncio.wait_for(asked.wait(), 30)
        await screen.press("escape", "j")
        await screen.until("score 1, needs at least 1")
        may_answer.set()
        await screen.pilot.pause()
        assert "distribution" not in screen.text
