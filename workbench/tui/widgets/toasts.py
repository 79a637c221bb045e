"""Which messages are shown over the screen at a time: each once, and no more than leave room for what is below them.

Textual shows every message until its time is up, however many there are.
"""

from __future__ import annotations

from collections.abc import Sequence

from textual.app import App
from textual.notifications import Notification

_LINES_FOR_ONE = 10
"""Lines of the terminal for each message: two messages if there are 24."""

_WEIGHT = {"information": 0, "warning": 1, "error": 2}


def make_room(app: App[None], shown: Sequence[Notification], coming: Notification) -> list[Notification]:
    """Let messages expire that may not be shown beside a coming one. Return those that may, with the coming one last.

    Textual removes an expired message when it shows the next one, but not what held it on the screen.
    """
    for screen in app.screen_stack:
        for holder in screen.query("ToastHolder"):
            if holder.is_mounted and not holder.children:
                holder.remove()
    shown = [notification for notification in shown if not notification.has_expired]
    outdated = outdated_by(coming, shown, most=max(app.size.height // _LINES_FOR_ONE, 1))
    for notification in outdated:
        notification.timeout = 0
    return [*(notification for notification in shown if notification not in outdated), coming]


def outdated_by(coming: Notification, standing: Sequence[Notification], *, most: int) -> Sequence[Notification]:
    """The same message, and of others, where they were more than `most` with it, the least grave, the oldest first."""
    same = [each for each in standing if (each.title, each.message) == (coming.title, coming.message)]
    others = sorted((each for each in standing if each not in same), key=lambda each: _WEIGHT[each.severity])
    return [*same, *others[: max(len(others) + 1 - most, 0)]]
