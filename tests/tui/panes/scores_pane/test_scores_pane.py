"""The pane of scores on real projects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Open = Callable[..., Any]


async def test_every_criterion_of_a_case_is_shown_with_its_meaning(make_history_project: Open, open_app: Open) -> None:
    project = make_history_project(
        "on", "off", criteria={"tool_trajectory_avg_score": 1.0, "response_match_score": 0.8}
    )
    project.set_failing_prompts("on")
    project.run()

    async with open_app(project.path) as screen:
        await screen.until("on", "1/2")
        await screen.press("j", "j", "4")
        text = await screen.until("✗ failed", "response_match_score", "only reported", "latency")
        assert "0.00 < 1.00" in text
        assert "score 0.00, needs at least 1.00" in text
        assert "Whether the agent made the expected tool calls" in text

        await screen.press("j")
        await screen.until("score 1.00, needs at least 0.80")


async def test_the_cursor_stays_on_its_criterion_from_case_to_case(make_history_project: Open, open_app: Open) -> None:
    project = make_history_project(
        "on", "off", criteria={"tool_trajectory_avg_score": 1.0, "response_match_score": 0.8}
    )
    project.run()

    async with open_app(project.path) as screen:
        await screen.until("2/2")
        await screen.press("j", "j", "4")
        await screen.until("needs at least 1.00")
        await screen.press("j")
        await screen.until("needs at least 0.80")
        await screen.press("escape", "j")
        await screen.until("off · lights", "needs at least 0.80")


async def test_enter_focuses_the_text_of_a_criterion_and_y_copies_the_scores(
    make_history_project: Open, open_app: Open
) -> None:
    project = make_history_project("on")
    project.run()

    async with open_app(project.path) as screen:
        await screen.until("1/1")
        await screen.press("j", "j", "4")
        await screen.until("needs at least 1.00")
        await screen.press("enter")
        assert type(screen.app.focused).__name__ == "LinesView"
        await screen.press("shift+tab", "right")
        assert type(screen.app.focused).__name__ == "LinesView"

        await screen.press("y")
        await screen.until("copied")
        assert "tool_trajectory_avg_score\t1.0\tPASSED" in screen.app.clipboard


async def test_repeats_have_a_pass_rate_with_an_interval(make_history_project: Open, open_app: Open) -> None:
    project = make_history_project("on")
    project.run(runs=3)

    async with open_app(project.path) as screen:
        await screen.until("1/1")
        await screen.press("j", "j", "4")
        await screen.until("3 of 3 repeats passed", "95 % interval 44% to 100%", "pass^3 100% (8%-100%)", "repeat 3")


async def test_a_case_that_has_not_run_says_what_to_do_and_running_it_shows_its_scores(
    make_history_project: Open, open_app: Open
) -> None:
    project = make_history_project("on")

    async with open_app(project.path) as screen:
        await screen.until("on", "not run")
        await screen.press("j", "j", "4")
        await screen.until("it has not run yet", "r runs it")
        await screen.press("r")
        await screen.until("✓ passed", "needs at least 1.00")


async def test_a_case_that_ended_in_an_error_says_so(make_history_project: Open, open_app: Open) -> None:
    project = make_history_project("raise")
    project.run()

    async with open_app(project.path) as screen:
        await screen.until("error")
        await screen.press("j", "j", "4")
        await screen.until("it ended in an error: ", "[/foo] [bold]")


async def test_a_set_has_means_distributions_and_selectable_worst_cases(
    make_history_project: Open, open_app: Open
) -> None:
    project = make_history_project("on", "off", "dim")
    project.set_failing_prompts("dim")
    project.run()

    async with open_app(project.path) as screen:
        await screen.until("2/3")
        await screen.press("j", "4")
        await screen.until("3 results", "distribution", "±0.58", "failed  1")

        await screen.press("enter")
        await screen.until("▾ tool_trajectory_avg_score", "lights.evalset.json:dim")
        await screen.press("j", "enter")
        await screen.until("dim · lights", "score 0.00, needs at least 1.00")


async def test_a_set_without_results_says_so_and_follows_its_first_run(
    make_history_project: Open, open_app: Open
) -> None:
    project = make_history_project("on", "off")

    async with open_app(project.path) as screen:
        await screen.until("not run")
        await screen.press("j", "4")
        await screen.until("None of its cases has run yet.")
        await screen.press("r")
        await screen.until("2 results", "2 passed")


async def test_a_history_of_a_newer_version_is_reported_and_the_rest_works(
    make_history_project: Open, open_app: Open
) -> None:
    import sqlite3

    project = make_history_project("on")
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
