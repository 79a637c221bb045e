"""Typing filters the rows of every dialog that lists things."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from textual.screen import Screen

from workbench.engine.open_documents import FoundEdits
from workbench.model.evalset import ConversationScenario
from workbench.store.evalsets.recovery import Recovery
from workbench.tui.dialogs.conflict_screen import RecoveryScreen
from workbench.tui.dialogs.dialogs import ChooseScreen
from workbench.tui.screens.scenarios_screen import ScenariosScreen
from workbench.tui.state.criteria_choice import GeneratedScenarios
from workbench.tui.widgets.row_lists import RowList

CHOICES = ["save [all]", "quit", "两盏灯", "set_device"]


async def test_letters_filter_a_choice_and_enter_chooses_what_is_left(open_fake_app: Any, backend: Any) -> None:
    chosen: list[int | None] = []
    async with open_fake_app(backend) as screen:
        screen.app.push_screen(ChooseScreen("Which?", CHOICES), chosen.append)
        await screen.until(" 1 save [all]", " 4 set_device")

        await screen.press("s", "d")
        await screen.until("filter: sd", "   set_device", "⏎ choose  esc list all  f1 help")
        await screen.until_gone("两盏灯")
        await screen.press("enter")

        assert chosen == [3]


async def test_the_cursor_moves_while_letters_are_typed_and_digits_are_letters_then(
    open_fake_app: Any, backend: Any
) -> None:
    chosen: list[int | None] = []
    async with open_fake_app(backend) as screen:
        screen.app.push_screen(ChooseScreen("Which?", ["a1", "b1", "c1", "b2"]), chosen.append)
        await screen.until(" 4 b2")
        await screen.press("slash", "1")
        await screen.until("filter: 1")
        await screen.until_gone("b2")
        assert chosen == []

        await screen.press("down", "down", "up", "enter")

        assert chosen == [1]


async def test_escape_lists_all_choices_again_and_then_cancels(open_fake_app: Any, backend: Any) -> None:
    chosen: list[int | None] = []
    async with open_fake_app(backend) as screen:
        screen.app.push_screen(ChooseScreen("Which?", CHOICES), chosen.append)
        await screen.until(" 4 set_device")
        await screen.press("s", "x")
        await screen.until("filter: sx", "no row matches")
        await screen.press("enter")  # chooses nothing
        assert chosen == []
        await screen.press("escape")
        await screen.until(" 2 quit", " 4 set_device")
        await screen.until_gone("filter:")
        await screen.press("s", "x")
        await screen.until("filter: sx")  # in the order of the keys again
        await screen.press("escape")
        await screen.until_gone("filter:")
        assert chosen == []

        await screen.press("escape")
        assert chosen == [None]


async def test_keys_of_a_choice_do_not_filter(open_fake_app: Any, backend: Any) -> None:
    chosen: list[int | None] = []
    async with open_fake_app(backend) as screen:
        screen.app.push_screen(ChooseScreen("Which?", CHOICES), chosen.append)
        await screen.until(" 4 set_device")

        await screen.press("j", "j", "enter")

        assert chosen == [2]


@pytest.mark.parametrize("size", [(80, 24), (60, 15)])
async def test_a_filtered_choice_keeps_its_keys_on_the_screen(
    open_fake_app: Any, backend: Any, size: tuple[int, int]
) -> None:
    async with open_fake_app(backend, size=size) as screen:
        screen.app.push_screen(ChooseScreen("Which?", [f"choice {number}" for number in range(60)]))
        await screen.until("choice 0", "cancel")
        await screen.press("c", "x")
        await screen.until("filter: cx", "no row matches", "choice 0", "choose")

        await screen.press("backspace", " ", "5", "9")
        await screen.until("filter: c 59", "choice 59", "choose")
        await screen.until_gone("choice 0")


async def test_help_lists_the_keys_that_match(open_fake_app: Any, lights: Any) -> None:
    async with open_fake_app(lights) as screen:
        await screen.until("两盏灯")
        await screen.press("question_mark")
        await screen.until("The eval sets of every agent", "In the eval sets")
        await screen.press(*"resume")
        await screen.until("filter: resume", "alt+x", "In the main screen")
        await screen.until_gone("In the eval sets")
        await screen.press("escape")
        await screen.until("The eval sets of every agent", "In the eval sets")
        await screen.press("escape")

        await screen.until_gone("The eval sets of every agent")


def make_recoveries(backend: Any) -> Screen[Any]:
    times = [datetime(2026, 1, day, tzinfo=UTC) for day in (1, 2)]
    names = ("sets/lights.evalset.json", "sets/fans.evalset.json")
    return RecoveryScreen(
        backend,
        [
            FoundEdits(
                recovery=Recovery(file=Path("x"), document=Path(name), written_at=at, stamp=None),
                eval_set=name,
                differences=(),
            )
            for name, at in zip(names, times, strict=True)
        ],
    )


def make_scenarios(_backend: Any) -> Screen[Any]:
    prompts = ("lights on", "fans off")
    scenarios = [ConversationScenario(starting_prompt=text, conversation_plan="Go on.") for text in prompts]
    return ScenariosScreen(GeneratedScenarios(scenarios, eval_set="sets/lights.evalset.json"))


@pytest.mark.parametrize("make_screen", [make_recoveries, make_scenarios])
async def test_a_slash_filters_lists_with_other_keys(
    open_fake_app: Any, backend: Any, make_screen: Callable[[Any], Screen[Any]]
) -> None:
    async with open_fake_app(backend) as screen:
        dialog = make_screen(backend)
        screen.app.push_screen(dialog)
        await screen.until("lights", "fans")
        await screen.press("slash", *"fans", "enter")
        rows = dialog.query_one(RowList)
        assert len(rows.source) == 1
        assert rows.has_focus
        assert "fans" in "".join(piece.text for piece in rows.source.line(0, 100))

        await screen.press("escape")
        await screen.until("lights", "fans")
        assert len(rows.source) == 2
        assert screen.app.screen is dialog


async def test_only_listed_scenarios_are_marked_together(open_fake_app: Any, backend: Any) -> None:
    async with open_fake_app(backend) as screen:
        screen.app.push_screen(make_scenarios(backend))
        await screen.until("2 of 2 scenarios kept", "⏎ keep or not")
        await screen.press("slash", *"fans", "enter", "A")
        await screen.until("1 of 2 scenarios kept")
        await screen.press("escape")
        await screen.until("✓ keep      ", "- leave out")
