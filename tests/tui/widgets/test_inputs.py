"""Notifications over the screen: which of them are visible at a time."""

from __future__ import annotations

from typing import Any

import pytest
from textual.notifications import Notification

from workbench.tui.widgets.inputs import find_outdated, say


async def _until_shown(screen: Any, *wanted: str) -> None:
    """Wait until the screen shows exactly these messages, the oldest first."""
    for _ in range(300):
        shown = [str(toast.render()) for toast in screen.app.screen.query("Toast")]
        if shown == list(wanted):
            return
        await screen.pilot.pause(0.02)
    raise AssertionError(shown)


async def test_a_message_that_is_said_again_takes_the_place_of_the_earlier_one(running: Any, lights: Any) -> None:
    async with running(lights) as screen:
        await screen.until("两盏灯")
        for message in ("first [b]", "second"):
            say(screen.app, message)
        await _until_shown(screen, "first [b]", "second")

        say(screen.app, "first [b]")
        say(screen.app, "first [b]")
        await _until_shown(screen, "second", "first [b]")


async def test_few_messages_stand_over_a_small_screen_and_over_what_covers_it(running: Any, lights: Any) -> None:
    async with running(lights, size=(80, 24)) as screen:
        await screen.until("两盏灯")
        for number in range(5):
            say(screen.app, f"message {number}")
        await _until_shown(screen, "message 3", "message 4")

        await screen.press("f1")
        await _until_shown(screen, "message 3", "message 4")
        say(screen.app, "message 5")
        await _until_shown(screen, "message 4", "message 5")

        await screen.press("escape")
        await _until_shown(screen, "message 4", "message 5")


async def test_nothing_is_left_of_messages_that_made_room(running: Any, lights: Any) -> None:
    async with running(lights, size=(80, 24)) as screen:
        await screen.until("两盏灯")
        for number in range(1, 11):
            say(screen.app, f"message {number}")
            await _until_shown(screen, *(f"message {each}" for each in (number - 1, number) if each))

        assert len(screen.app.screen.query("ToastHolder")) <= 4


@pytest.mark.parametrize(
    ("most", "gone"),
    [(4, ["same"]), (3, ["same", "news"]), (2, ["same", "news", "copied"]), (1, ["same", "news", "copied", "wrong"])],
)
def test_what_is_least_grave_goes_first_and_what_is_oldest(most: int, gone: list[str]) -> None:
    wrong = Notification("wrong", severity="error")
    standing = [wrong, Notification("news"), Notification("same", severity="error"), Notification("copied")]

    outdated = find_outdated(Notification("same"), standing, most=most)

    assert [each.message for each in outdated] == gone
