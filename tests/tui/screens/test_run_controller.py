"""The events of a run that the screen follows."""

from __future__ import annotations

from typing import Any

from workbench.model.run_events import Notice
from workbench.tui.screens.run_controller import FollowedRun


def test_a_burst_of_events_is_taken_in_parts_so_that_keys_come_between() -> None:
    run: Any = None
    followed = FollowedRun(run, ())
    for number in range(2_500):
        followed.add(Notice(message=f"event {number}", severity="information"))

    sizes = []
    while followed.has_backlog:
        sizes.append(len(followed.take()))
    rest = followed.take()

    assert sizes and max(sizes) <= 1_000 and 0 < len(rest) < 1_000
    assert sum(sizes) + len(rest) == 2_500 and not followed.has_news
