"""The parts of the main screen: restored, zoomed, and in terminals of any size."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.tui.conftest import THREE_CASES
from workbench.store.settings import LoadedSettings
from workbench.store.toml_files import ScreenLayout
from workbench.tui.app import WorkbenchApp
from workbench.tui.backend.backend import Backend
from workbench.tui.themes import load_themes, theme_folders
from workbench.tui.widgets.key_line import shorten_labels
from workbench.tui.widgets.row_lists import CaseList


@asynccontextmanager
async def open_with_layout(path: Path, layout: ScreenLayout) -> AsyncIterator[Any]:
    """Return the application on a project with this saved layout."""
    backend = Backend(path)
    app = WorkbenchApp(backend, settings=LoadedSettings(), themes=load_themes(theme_folders()[:1]), layout=layout)
    try:
        async with app.run_test(size=(120, 30), notifications=True) as pilot:
            vars(app)["pilot"] = pilot
            yield app
    finally:
        backend.close()


async def wait_until_true(app: Any, condition: Callable[[], bool]) -> None:
    for _ in range(300):
        if condition():
            return
        await app.pilot.pause(0.02)
    raise AssertionError(app.screen_stack)


async def test_the_layout_is_restored_at_the_next_start(make_project: Callable[..., Path]) -> None:
    path = make_project(lights=THREE_CASES, sounds=THREE_CASES)

    async with open_with_layout(path, ScreenLayout()) as app:
        await wait_until_true(app, lambda: len(app._main.state.browser.rows) == 9)
        await app.pilot.press("j", "j", "j", "o", "escape", "3")  # case two of lights, run pane, trace
        await app.pilot.press("h")
        app._main.state.browser.select_set(app._main.state.browser.sets[1])
        await app.pilot.press("h", "k", "k")
        saved_layout = app.layout_now

    async with open_with_layout(path, saved_layout) as app:
        browser = app._main.state.browser
        await wait_until_true(app, lambda: len(browser.rows) == 6)
        await wait_until_true(app, lambda: browser.selected_row is not None and browser.selected_row.case is not None)

        assert browser.selected_row is not None
        assert browser.selected_row.key == saved_layout.selected
        assert [row.label for row in browser.rows] == ["pinger", "lights", "one", "two", "three", "sounds"]
        assert app._main.query_one("#pane-run").display
        await wait_until_true(app, lambda: app._main.query_one("#pane-trace").display)
        assert app._main.query_one(CaseList).has_focus
        await app.pilot.press("o")

    assert app.layout_now.drawer is None, "the screen has gone, and still tells how it was left"


async def test_closing_a_drawer_returns_the_focus_to_the_eval_sets(open_fake_app: Any, lights: Any) -> None:
    async with open_fake_app(lights) as screen:
        await screen.until("两盏灯")
        await screen.press("!", "!")
        await screen.pilot.pause()

        assert isinstance(screen.app.focused, CaseList)


async def test_a_tiny_terminal_shows_one_side_at_a_time(
    make_project: Callable[..., Path], open_app: Callable[..., Any]
) -> None:
    async with open_app(make_project(lights=THREE_CASES), size=(40, 10)) as screen:
        await screen.until("three")
        left, right = screen.app._main.query_one("#left"), screen.app._main.query_one("#right")
        for tab, name in enumerate(("Case", "Diff", "Trace", "Scores", "History", "Chat"), start=1):
            await screen.press(str(tab))
            await screen.until(f"{tab}{name}")
            assert (left.display, right.display) == (False, True)

            await screen.press("escape")
            await screen.until("three")
            assert (left.display, right.display) == (True, False)
            assert left.region.width == 40


async def test_the_terminal_can_be_resized_in_every_pane(
    make_project: Callable[..., Path], open_app: Callable[..., Any]
) -> None:
    async with open_app(make_project(lights=THREE_CASES)) as screen:
        await screen.until("three")
        for keys in (["1"], ["2"], ["3"], ["4"], ["5"], ["6"], ["escape", "o"], ["!"], ["t"], ["escape", "f1"]):
            await screen.press(*keys)
            for size in ((40, 10), (200, 60), (1, 1), (80, 24)):
                await screen.pilot.resize_terminal(*size)
                await screen.pilot.pause()
        await screen.press("escape")
        await screen.until("lights", "? help")


@pytest.mark.parametrize(
    ("width", "expected"),
    [
        (60, " 1 Case  2 Diff  3 Trace  4 Scores  5 History  6 Chat "),
        (48, " 1 Case 2 Diff 3 Trace 4 Scores 5 History 6 Chat"),
        (44, " 1Case 2Diff 3Trace 4Scores 5History 6Chat"),
        (40, " Case 2Diff Trace Scores History Chat"),
        (35, " 1 Case 2 Diff 3 Trace 4 Scores 5 6"),
        (20, " 1Case 2Diff 3 4 5 6"),
        (18, " 1 2 Diff 3 4 5 6"),
    ],
)
def test_tab_names_are_left_out_only_if_they_do_not_fit(width: int, expected: str) -> None:
    names = ("Case", "Diff", "Trace", "Scores", "History", "Chat")

    assert "".join(shorten_labels(names, open_index=1, width=width)) == expected


@pytest.mark.parametrize(("keys", "part"), [((), "#left"), (("2",), "#right"), (("o",), "#drawer")])
async def test_a_zoomed_part_fills_the_screen_until_the_next_zoom(
    keys: tuple[str, ...], part: str, make_project: Callable[..., Path]
) -> None:
    async with open_with_layout(make_project(lights=THREE_CASES), ScreenLayout()) as app:
        await wait_until_true(app, lambda: len(app._main.state.browser.rows) == 5)
        await app.pilot.press(*keys)
        await wait_until_true(app, lambda: app.screen.query_one(part).region.height > 0)
        before = {name: app.screen.query_one(name).region for name in ("#left", "#right", "#drawer")}

        await app.pilot.press("z")  # then all but header, run line and footer
        await wait_until_true(app, lambda: app.screen.query_one(part).region.size == (120, 27))
        await app.pilot.press("z")
        await wait_until_true(app, lambda: {name: app.screen.query_one(name).region for name in before} == before)
