"""Features of every screen: help, palette, footer, restored layout, small terminals."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from textual.screen import Screen
from textual.widgets import Input

from workbench.store.settings import LoadedSettings, Settings
from workbench.store.toml_files import ScreenLayout
from workbench.tui.app import WorkbenchApp
from workbench.tui.backend.backend import Backend
from workbench.tui.dialogs.dialogs import AskScreen, ChooseScreen, ConfirmScreen
from workbench.tui.keys import PLACES
from workbench.tui.state.browser_list import ListedSet, make_case_row
from workbench.tui.state.browser_state import Browser
from workbench.tui.state.case_status import StatusBoard
from workbench.tui.themes import load_themes, theme_folders
from workbench.tui.widgets.key_line import KeyLine, shorten_labels
from workbench.tui.widgets.row_lists import CaseList

CASES = [
    {"eval_id": name, "conversation": [{"user_content": {"role": "user", "parts": [{"text": name}]}}]}
    for name in ("one", "two", "three")
]


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
    path = make_project(lights=CASES, sounds=CASES)

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


def test_a_cursor_moved_during_loading_keeps_its_place(make: Any) -> None:
    browser = make.backend()  # only its builders are needed here
    keys = [make.key(name) for name in ("one", "two", "three")]
    browser = Browser(StatusBoard())
    browser.restore_view(folded=[], selected=("home", "sets/lights.evalset.json", keys[2]))
    browser.replace_sets(["home"], [ListedSet("sets/lights.evalset.json", "home")])

    browser.set_cursor(1)
    browser.update_set(ListedSet("sets/lights.evalset.json", "home", tuple(make_case_row(key) for key in keys)))

    assert browser.cursor == 1


async def test_the_palette_opens_the_filter_line(open_fake_app: Any, lights: Any) -> None:
    async with open_fake_app(lights) as screen:
        await screen.until("两盏灯")
        await screen.press("ctrl+p", *"list only cases", "enter")

        await screen.until("filter:")
        assert isinstance(screen.app.focused, Input)


async def test_every_displayed_key_has_an_action_handler(
    make_project: Callable[..., Path], open_app: Callable[..., Any]
) -> None:
    async with open_app(make_project(lights=CASES)) as screen:
        await screen.until("three")
        for tab in ("1", "2", "3", "4", "5", "o", "!"):
            await screen.press(tab)
            await screen.pilot.pause()
            for node in screen.app.focused.ancestors_with_self:
                for item in (item for name in getattr(node, "PLACES", ()) for item in PLACES[name].actions):
                    name = item.action.partition("(")[0].removeprefix("app.")
                    assert any(hasattr(ancestor, f"action_{name}") for ancestor in node.ancestors_with_self), (
                        tab,
                        item.id,
                    )


@pytest.mark.parametrize(
    ("dialog", "words", "keys"),
    [
        (lambda: ConfirmScreen("Is it so?"), "In a question", "y yes  n no  ? help"),
        (lambda: ChooseScreen("Which?", ["this", "that"]), "In a choice", "⏎ choose  esc cancel  / filter  ? help"),
        (lambda: AskScreen("Who?", check=lambda _: None), "typed answer", "⏎ done  esc cancel  f1 help"),
    ],
)
async def test_dialogs_show_their_keys_and_have_help(
    open_fake_app: Any, lights: Any, dialog: Callable[[], Screen[Any]], words: str, keys: str
) -> None:
    async with open_fake_app(lights) as screen:
        await screen.until("两盏灯")
        screen.app.push_screen(dialog())
        await screen.until(keys)

        await screen.press("f1")
        await screen.until(words)
        await screen.press("q")
        await screen.until_gone(words)
        await screen.press("escape")

        assert screen.app.screen is screen.app._main


@pytest.mark.parametrize("size", [(120, 34), (80, 24), (60, 15)])
async def test_a_long_choice_leaves_room_for_its_keys_and_its_last_line(
    open_fake_app: Any, lights: Any, size: tuple[int, int]
) -> None:
    async with open_fake_app(lights, size=(140, 50)) as screen:
        question = "Which of these, of which there are more than fit on any screen that people have got?"
        screen.app.push_screen(ChooseScreen(question, [f"choice {number}" for number in range(60)]))
        await screen.until("have got?", "choice 0", "cancel")

        await screen.pilot.resize_terminal(*size)
        await screen.press("G")

        await screen.until("have got?", "choice 59", "cancel")


async def test_the_keys_of_dialogs_can_be_changed(open_fake_app: Any, lights: Any) -> None:
    async with open_fake_app(lights, settings=Settings(keys={"confirm_yes": "ctrl+y"})) as screen:
        answers: list[Any] = []
        screen.app.push_screen(ConfirmScreen("Is it so?"), answers.append)
        await screen.until("^y yes")

        await screen.press("y", "ctrl+y")

        assert answers == [True]


@pytest.mark.parametrize("size", [(80, 24), (40, 10), (20, 5)])
async def test_key_labels_are_never_truncated_and_help_is_always_shown(
    open_fake_app: Any, lights: Any, size: tuple[int, int]
) -> None:
    async with open_fake_app(lights, size=size) as screen:
        await screen.press("2")
        line = screen.app.screen.query_one(KeyLine).render_line(0).text

        assert line.rstrip().endswith("? help")
        assert "…" not in line


async def test_dialogs_show_only_the_keys_that_fit(open_fake_app: Any, lights: Any) -> None:
    async with open_fake_app(lights, size=(25, 16)) as screen:
        screen.app.push_screen(ConfirmScreen("Is it so?"))
        await screen.until("Is it so?")
        line = screen.app.screen.query_one(KeyLine)

        assert line.render_line(0).text.split() in (["y", "yes", "?", "help"], ["?", "help"])
        assert screen.app.screen.query_one(".dialog").content_region.contains_region(line.region)


async def test_a_click_on_a_key_label_acts_like_the_key(open_fake_app: Any, lights: Any) -> None:
    async with open_fake_app(lights, size=(120, 30)) as screen:
        await screen.until("/ filter")

        await screen.pilot.click(KeyLine, offset=(3, 0))

        await screen.until("filter:")


async def test_h_returns_to_the_eval_sets_if_it_has_no_other_meaning(
    make_project: Callable[..., Path], open_app: Callable[..., Any]
) -> None:
    async with open_app(make_project(lights=CASES)) as screen:
        await screen.until("three")
        for tab in ("1", "2", "4", "5", "o"):
            await screen.press(tab, "h")
            assert isinstance(screen.app.focused, CaseList), tab


async def test_closing_a_drawer_returns_the_focus_to_the_eval_sets(open_fake_app: Any, lights: Any) -> None:
    async with open_fake_app(lights) as screen:
        await screen.until("两盏灯")
        await screen.press("!", "!")
        await screen.pilot.pause()

        assert isinstance(screen.app.focused, CaseList)


async def test_a_tiny_terminal_shows_one_side_at_a_time(
    make_project: Callable[..., Path], open_app: Callable[..., Any]
) -> None:
    async with open_app(make_project(lights=CASES), size=(40, 10)) as screen:
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
    async with open_app(make_project(lights=CASES)) as screen:
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
    async with open_with_layout(make_project(lights=CASES), ScreenLayout()) as app:
        await wait_until_true(app, lambda: len(app._main.state.browser.rows) == 5)
        await app.pilot.press(*keys)
        before = {name: app.screen.query_one(name).region for name in ("#left", "#right", "#drawer")}

        await app.pilot.press("z")
        await app.pilot.pause()
        assert app.screen.query_one(part).region.size == (120, 27)  # all but header, run line and footer
        await app.pilot.press("z")
        await app.pilot.pause()

        assert {name: app.screen.query_one(name).region for name in before} == before


@pytest.mark.parametrize("keys", [(), ("slash",)])
async def test_ctrl_c_says_which_key_closes_the_application(
    keys: tuple[str, ...], open_fake_app: Any, lights: Any
) -> None:
    async with open_fake_app(lights, settings=Settings(keys={"quit": "Q"})) as screen:
        await screen.until("两盏灯")
        await screen.press(*keys, "ctrl+c")
        await screen.until("Q closes workbench, or ctrl+q while you type")

        assert "Do you want to quit?" not in screen.text
        await screen.press("ctrl+q")
        await screen.pilot.pause(0.2)
        assert not screen.app.is_running
