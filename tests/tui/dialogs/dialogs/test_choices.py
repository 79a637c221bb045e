"""A choice is made with its digit."""

from __future__ import annotations

from typing import Any

from workbench.tui.dialogs.dialogs import ChooseScreen


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
