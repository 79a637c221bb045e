"""The results table on real projects."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import Any

from workbench.tui.dialogs.results_screen import TableScreen

Open = Callable[..., Any]


def list_row_ids(screen: Any) -> list[str]:
    """Return the listed ids from top to bottom."""
    table = screen.app.screen
    assert isinstance(table, TableScreen)
    return [row.name for row in table._table.rows]


async def open_table(screen: Any, *wanted: str) -> None:
    await screen.press("j", "t")
    await screen.until("results of", "deviation", *wanted)
    await screen.until_gone("reading")


async def test_each_case_has_a_complete_row_above_the_means(make_history_project: Open, open_app: Open) -> None:
    project = make_history_project("on", "off", "raise")
    project.set_failing_prompts("off")
    project.run()

    async with open_app(project.path, size=(200, 30)) as screen:
        await screen.until("1/3")
        await open_table(screen, "3 rows", "1 passed", "1 failed", "1 error")
        text = screen.text
        assert "did on [/b]" in text
        assert "pong" in text
        assert "x [/foo] [bold]" in text
        assert "tool_trajectory_avg_score" in text and "✗ 0" in text
        mean = next(line for line in text.splitlines() if line.startswith(" mean"))
        assert "0.5" in mean
        await screen.press(*["l"] * 6, *["right"] * 3)
        await screen.until("tool_trajectory_avg_score why")
        await screen.until_gone("✓ passed")
        await screen.press(*["h"] * 6, *["left"] * 3)
        await screen.until("✓ passed")


async def test_rows_can_be_sorted_by_any_column_and_restored(make_history_project: Open, open_app: Open) -> None:
    project = make_history_project("on", "off", "dim")
    project.set_failing_prompts("off")
    project.run()

    async with open_app(project.path) as screen:
        await screen.until("2/3")
        await open_table(screen, "3 rows")
        await screen.press("right", "right", "s")
        await screen.until("response ▲")
        assert list_row_ids(screen) == ["dim", "off", "on"]
        await screen.press("s")
        await screen.until("response ▼")
        assert list_row_ids(screen) == ["on", "off", "dim"]
        await screen.press("s")
        await screen.until_gone("▼")
        assert list_row_ids(screen) == ["on", "off", "dim"]


async def test_rows_can_be_filtered_by_words_until_escape(make_history_project: Open, open_app: Open) -> None:
    project = make_history_project("on", "off", "dim")
    project.set_failing_prompts("off")
    project.run()

    async with open_app(project.path) as screen:
        await screen.until("2/3")
        await open_table(screen, "3 rows")
        await screen.press("slash", *"failed", "enter")
        await screen.until("1 row ")
        assert list_row_ids(screen) == ["off"]
        await screen.press("slash", *"xyz")
        await screen.until("no row has these words")
        await screen.press("escape")
        await screen.until("3 rows")
        await screen.press("escape")
        await screen.until("eval sets")


async def test_columns_can_be_hidden_and_shown(make_history_project: Open, open_app: Open) -> None:
    project = make_history_project("on")
    project.run()

    async with open_app(project.path) as screen:
        await screen.until("1/1")
        await open_table(screen, "response")
        await screen.press("c", "j", "j", "j", "enter")
        await screen.until("✓ trajectory", "· response")
        await screen.press("escape")
        await screen.until_gone("did on")


async def test_repeats_get_their_own_rows_on_request(make_history_project: Open, open_app: Open) -> None:
    project = make_history_project("on")
    project.run(runs=3)

    async with open_app(project.path) as screen:
        await screen.until("✓ on")
        await open_table(screen, "1 row ", "passed 3/3")
        await screen.press("r")
        await screen.until("3 rows", "on [2]", "on [3]")


async def test_the_table_can_show_all_sets_and_select_a_case(
    make_history_project: Open, open_app: Open, make_case: Open
) -> None:
    project = make_history_project("on", doors=[make_case("open"), make_case("shut")])
    project.run("lights", "doors")

    async with open_app(project.path) as screen:
        await screen.until("3/3")
        await open_table(screen, "results of doors.evalset.json", "2 rows")
        await screen.press("a")
        await screen.until("results of pinger", "3 rows", "eval set")
        await screen.press("a")
        await screen.until("results of everything", "3 rows")
        await screen.press("G", "enter")
        await screen.until("on · lights")


async def test_a_row_can_be_copied(make_history_project: Open, open_app: Open) -> None:
    project = make_history_project("on")
    project.run()

    async with open_app(project.path) as screen:
        await screen.until("1/1")
        await open_table(screen, "1 row ")
        await screen.press("y")
        await screen.until("copied")
        assert "case: lights.evalset.json:on" in screen.app.clipboard
        assert "trajectory: ping" in screen.app.clipboard


async def test_listed_rows_are_exported_in_order_and_overwriting_asks_first(
    make_history_project: Open, open_app: Open
) -> None:
    project = make_history_project("on", "off", "dim")
    project.run()
    path = project.path / "out.csv"

    async with open_app(project.path) as screen:
        await screen.until("3/3")
        await open_table(screen, "3 rows")
        await screen.press("right", "right", "s", "e")
        await screen.until("Export 3 results")
        await screen.press("ctrl+u", *str(path), "enter")
        await screen.until("3 results written")
        lines = path.read_text(encoding="utf-8").splitlines()
        assert [line.split(",")[4] for line in lines] == ["eval_id", "dim", "off", "on"]

        path.write_text("mine")
        await screen.press("e")
        await screen.until("Export 3 results")
        await screen.press("ctrl+u", *str(path), "enter")
        await screen.until("Replace it?")
        await screen.press("n")
        await screen.until_gone("Replace it?")
        assert path.read_text() == "mine"


async def test_an_empty_table_says_what_to_do(make_history_project: Open, open_app: Open) -> None:
    project = make_history_project("on")

    async with open_app(project.path) as screen:
        await screen.until("not run")
        await screen.press("t")
        await screen.until("no case of it has run yet")
        await screen.press("e")
        await screen.until("there is nothing to export")
        await screen.press("y")
        await screen.until("there is nothing to copy here")


async def test_a_history_of_a_newer_version_is_reported_in_full(make_history_project: Open, open_app: Open) -> None:
    project = make_history_project("on")
    project.run()

    async with open_app(project.path, size=(80, 24)) as screen:
        await screen.until("1/1")
        with closing(sqlite3.connect(project.path / ".workbench" / "history.db")) as connection:
            connection.execute("PRAGMA user_version = 99")
            connection.commit()
        await screen.press("j", "t")
        await screen.until("newer", "away")
        await screen.press("escape")
        await screen.until("1/1")  # rows that were read before stay
