"""Features of every screen: help, palette, footer and dialogs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from textual.screen import Screen
from textual.widgets import Input

from tests.tui.conftest import THREE_CASES
from workbench.store.settings import Settings
from workbench.tui.dialogs.dialogs import AskScreen, ChooseScreen, ConfirmScreen
from workbench.tui.keys import PLACES
from workbench.tui.state.browser_list import ListedSet, make_case_row
from workbench.tui.state.browser_state import Browser
from workbench.tui.state.case_status import StatusBoard
from workbench.tui.widgets.key_line import KeyLine
from workbench.tui.widgets.row_lists import CaseList


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
    async with open_app(make_project(lights=THREE_CASES)) as screen:
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
    async with open_app(make_project(lights=THREE_CASES)) as screen:
        await screen.until("three")
        for tab in ("1", "2", "4", "5", "o"):
            await screen.press(tab, "h")
            assert isinstance(screen.app.focused, CaseList), tab


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
