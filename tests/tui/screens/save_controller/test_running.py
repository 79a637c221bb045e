"""Running a set with unsaved edits saves it first, so that the run matches the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any


async def test_a_run_saves_the_sets_that_it_runs(open_app: Any, project: Path, lights: Path, actions: Any) -> None:
    async with open_app(project) as screen:
        await screen.until("off")
        await actions.insert(screen, "mine")
        await screen.press("down", "r")
        await screen.until("3/3")

    assert b'"mine"' in lights.read_bytes()


async def test_a_run_of_a_set_in_conflict_waits_for_the_decision(
    open_app: Any, project: Path, lights: Path, actions: Any
) -> None:
    async with open_app(project) as screen:
        await screen.until("off")
        await actions.insert(screen, "mine")
        actions.write(lights, "theirs")
        await screen.press("down", "r")
        await screen.until("keep mine")
        await screen.press("escape")
        await screen.until_gone("keep mine")
        await screen.pilot.pause(0.2)
        assert not screen.state.is_busy and b'"theirs"' in lights.read_bytes()

        await screen.press("r")
        await screen.until("keep mine")
        await screen.press("t")
        await screen.until("1/1")
