"""Notifications over the screen: which of them are visible at a time."""

from __future__ import annotations

from typing import Any

import pytest
from textual.notifications import Notification

from workbench.tui.widgets.inputs import find_outdated, say


async def wait_for_toasts(screen: Any, *wanted: str) -> None:
    """Wait until the screen shows exactly these messages, the oldest first."""
    for _ in range(300):
        shown = [str(toast.render()) for toast in screen.app.screen.query("Toast")]
        if shown == list(wanted):
            return
        await screen.pilot.pause(0.02)
    raise AssertionError(shown)


async def test_a_repeated_message_replaces_the_earlier_one(open_fake_app: Any, lights: Any) -> None:
    async with open_fake_app(lights) as screen:
        await screen.until("两盏灯")
        for message in ("first [b]", "second"):
            say(screen.app, message)
        await wait_for_toasts(screen, "first [b]", "second")

        say(screen.app, "first [b]")
        say(screen.app, "first [b]")
        await wait_for_toasts(screen, "second", "first [b]")


async def test_a_small_screen_and_its_dialogs_show_only_a_few_messages(open_fake_app: Any, lights: Any) -> None:
    async with open_fake_app(lights, size=(80, 24)) as screen:
        await screen.until("两盏灯")
        for number in range(5):
            say(screen.app, f"message {number}")
        await wait_for_toasts(screen, "message 3", "message 4")

        await screen.press("f1")
        await wait_for_toasts(screen, "message 3", "message 4")
        say(screen.app, "message 5")
        await wait_for_toasts(screen, "message 4", "message 5")

        await screen.press("escape")
        await wait_for_toasts(screen)


async def test_removed_messages_leave_no_widgets(open_fake_app: Any, lights: Any) -> None:
    async with open_fake_app(lights, size=(80, 24)) as screen:
        await screen.until("两盏灯")
        for number in range(1, 11):
            say(screen.app, f"message {number}")
            await wait_for_toasts(screen, *(f"message {index}" for index in (number - 1, number) if index))

        assert len(screen.app.screen.query("ToastHolder")) <= 4


@pytest.mark.parametrize(
    ("limit", "removed_messages"),
    [(4, ["same"]), (3, ["same", "news"]), (2, ["same", "news", "copied"]), (1, ["same", "news", "copied", "wrong"])],
)
def test_the_least_severe_and_then_the_oldest_messages_are_removed(limit: int, removed_messages: list[str]) -> None:
    wrong = Notification("wrong", severity="error")
    notifications = [wrong, Notification("news"), Notification("same", severity="error"), Notification("copied")]

    outdated = find_outdated(Notification("same"), notifications, most=limit)

    assert [notification.message for notification in outdated] == removed_messages
