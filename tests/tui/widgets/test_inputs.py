"""The input of a filter."""

from __future__ import annotations

from typing import Any

import pytest
from textual.app import App, ComposeResult
from textual.screen import Screen

from workbench.tui.widgets.inputs import FilterInput


class _Filter(App[None]):
    """An application with nothing but a filter, and the texts that it followed."""

    def __init__(self) -> None:
        super().__init__()
        self.followed: list[str] = []

    def compose(self) -> ComposeResult:
        yield FilterInput("words", self.followed.append)


async def test_a_filter_follows_a_letter_before_the_letter_is_painted() -> None:
    app = _Filter()
    async with app.run_test() as pilot:
        await pilot.press("a")
        app.query_one(FilterInput).value = "ab"  # nothing can be painted before the next await

        assert app.followed == ["a", "ab"]


async def test_letters_in_a_filter_cause_no_new_layout_of_the_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    app = _Filter()
    async with app.run_test() as pilot:
        await pilot.pause()
        layouts: list[Screen[Any]] = []
        lay_out = Screen._refresh_layout

        def count_layouts(screen: Screen[Any], *args: Any, **options: Any) -> None:
            layouts.append(screen)
            lay_out(screen, *args, **options)

        monkeypatch.setattr(Screen, "_refresh_layout", count_layouts)
        await pilot.press("a", "b")
        await pilot.pause(0.1)

        assert app.query_one(FilterInput).value == "ab"
        assert not layouts
