"""Which messages stand over the screen at a time: each once, and no more than leave room for what is below them.

Textual shows every message until its time is up, however many there are.
"""

from __future__ import annotations

from collections.abc import Sequence

from textual.app import App
from textual.notifications import Notification
from textual.widgets._toast import Toast  # it is in no public module

_LINES_FOR_ONE = 10
"""Lines of the terminal for each message that may stand: two where there are 24."""

_WEIGHT = {"information": 0, "warning": 1, "error": 2}


def make_room(app: App[None], coming: Notification) -> None:
    """Take away what is not to stand beside a message that is about to be shown."""
    outdated = outdated_by(coming, tuple(app._notifications), most=max(app.size.height // _LINES_FOR_ONE, 1))
    for notification in outdated:
        app._unnotify(notification, refresh=False)
    for screen in app.screen_stack if outdated else ():
        for toast in screen.query(Toast):
            if toast._notification in outdated:
                toast._expire()  # which leaves nothing behind; Textual's other ways leave what held it


def outdated_by(coming: Notification, standing: Sequence[Notification], *, most: int) -> Sequence[Notification]:
    """The same message, and of others, where they were more than `most` with it, the least grave, the oldest first."""
    same = [each for each in standing if (each.title, each.message) == (coming.title, coming.message)]
    others = sorted((each for each in standing if each not in same), key=lambda each: _WEIGHT[each.severity])
    return [*same, *others[: max(len(others) + 1 - most, 0)]]
