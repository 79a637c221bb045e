"""Changes by other programs are detected automatically, and the last valid state stays."""

from __future__ import annotations

from pathlib import Path
from typing import Any


async def test_new_content_is_taken_where_nothing_is_unsaved(
    open_app: Any, project: Path, lights: Path, do: Any
) -> None:
    async with open_app(project) as screen:
        await screen.until("on", "off")
        do.write(lights, "on", "off", "brand_new")
        await screen.until("brand_new", "3 cases")


async def test_a_set_that_breaks_keeps_its_last_good_state_and_tells_the_place(
    open_app: Any, project: Path, lights: Path, do: Any
) -> None:
    async with open_app(project) as screen:
        await screen.until("on", "off")
        lights.write_text('{\n  "eval_set_id": oops')
        await do.said(screen, ":2:18: found")
        await do.said(screen, "last good state")
        await screen.until("1 problem")
        assert "off" in screen.text and "2 cases" in screen.text

        do.write(lights, "on", "mended")
        await screen.until("mended")
        assert "problem" not in screen.text.splitlines()[0]


async def test_a_set_that_vanishes_keeps_its_last_state(open_app: Any, project: Path, lights: Path, do: Any) -> None:
    async with open_app(project) as screen:
        await screen.until("on", "off")
        lights.unlink()
        await do.said(screen, "there is no such file")
        await screen.until("1 problem")
        assert "2 cases" in screen.text
        do.write(lights, "back")
        await screen.until("back")


async def test_a_conflict_is_told_when_it_comes_up(open_app: Any, project: Path, lights: Path, do: Any) -> None:
    async with open_app(project) as screen:
        await screen.until("on", "off")
        await do.insert(screen, "mine")
        await screen.until("mine")
        do.write(lights, "theirs")
        await do.said(screen, "changed on disk while it has unsaved edits")
        await screen.until("1 problem")
        assert "mine" in screen.text


async def test_a_set_that_was_broken_from_the_start_is_read_once_it_is_mended(
    open_app: Any, project: Path, lights: Path, do: Any
) -> None:
    lights.write_text("[")
    async with open_app(project) as screen:
        await screen.until("1 problem")
        do.write(lights, "mended")
        await screen.until("mended", "1 case")
