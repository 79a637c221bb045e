"""A choice is made with its digit."""

from __future__ import annotations

from typing import Any

from workbench.tui.dialogs.dialogs import AskScreen, ChooseScreen
from workbench.tui.widgets.key_line import say


async def test_a_digit_chooses_and_digits_without_a_choice_do_nothing(open_fake_app: Any, backend: Any) -> None:
    chosen: list[int | None] = []
    async with open_fake_app(backend) as screen:
        screen.app.push_screen(ChooseScreen("Which?", ["this", "that"]), chosen.append)
        await screen.until(" 1 this", " 2 that")

        await screen.press("0", "3", "9")
        assert chosen == []

        await screen.press("2")
        assert chosen == [1]


async def test_only_the_first_nine_choices_have_digits(open_fake_app: Any, backend: Any) -> None:
    async with open_fake_app(backend) as screen:
        screen.app.push_screen(ChooseScreen("Which?", [f"choice {number}" for number in range(11)]))
        text = await screen.until(" 9 choice 8")

        assert "   choice 9" in text


async def test_a_toast_does_not_cover_the_field_of_a_question(open_fake_app: Any, backend: Any) -> None:
    async with open_fake_app(backend, size=(40, 10)) as screen:
        screen.app.push_screen(ChooseScreen("Which?", ["this", "that"]))
        await screen.until(" 1 this")
        say(screen.app, "a problem that fills two lines " * 3, severity="error")
        await screen.until("a problem")
        screen.app.push_screen(AskScreen("Why?", check=lambda _: None))

        await screen.until("Why?")
        await screen.until_gone("a problem")


async def test_only_a_screen_with_a_list_of_messages_names_its_key(open_fake_app: Any, backend: Any) -> None:
    async with open_fake_app(backend, size=(80, 24)) as screen:
        screen.app.push_screen(ChooseScreen("Which?", ["this", "that"]))
        await screen.until(" 1 this")
        say(screen.app, "other words " * 12)
        assert "! all" not in await screen.until("other words")

        await screen.press("escape")
        await screen.until_gone(" 1 this")
        say(screen.app, "a long message " * 12)
        await screen.until("a long message", "! all")
