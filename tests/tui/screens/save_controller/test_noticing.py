"""Changes by other programs are detected automatically, and the last valid state stays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest


async def test_new_content_is_loaded_if_there_are_no_unsaved_edits(
    open_app: Any, project: Path, lights: Path, actions: Any
) -> None:
    async with open_app(project) as screen:
        await screen.until("2 cases")
        actions.write(lights, "on", "off", "brand_new")
        await screen.until("brand_new", "3 cases")


async def test_a_set_that_breaks_keeps_its_last_valid_state_and_shows_the_place(
    open_app: Any, project: Path, lights: Path, actions: Any
) -> None:
    async with open_app(project) as screen:
        await screen.until("2 cases")
        lights.write_text('{\n  "eval_set_id": oops')
        await actions.wait_for_notification(screen, ":2:18: found")
        await actions.wait_for_notification(screen, "last valid version is shown")
        await screen.until("1 problem")
        assert "off" in screen.text and "2 cases" in screen.text

        actions.write(lights, "on", "mended")
        await screen.until("mended")
        assert "problem" not in screen.text.splitlines()[0]


async def test_a_deleted_set_keeps_its_last_state(open_app: Any, project: Path, lights: Path, actions: Any) -> None:
    async with open_app(project) as screen:
        await screen.until("2 cases")
        lights.unlink()
        await actions.wait_for_notification(screen, "it was deleted; the last valid version is shown")
        await screen.until("1 problem")
        assert "2 cases" in screen.text
        actions.write(lights, "back")
        await screen.until("back")


@pytest.mark.parametrize(("keys", "returns"), [((), True), (("z", "z"), False)])
async def test_the_cursor_returns_to_a_case_that_was_away_unless_a_key_was_pressed(
    open_app: Any, project: Path, lights: Path, actions: Any, keys: tuple[str, ...], returns: bool
) -> None:
    async with open_app(project) as screen:
        await screen.until("2 cases")
        await screen.press("down", "down", "down")
        actions.write(lights, "on")
        await screen.until("1 case ")
        assert screen.state.selected_case.eval_id == "on"
        await screen.press(*keys)
        actions.write(lights, "on", "off")
        await screen.until("2 cases")

        assert screen.state.selected_case.eval_id == ("off" if returns else "on")


async def test_a_new_conflict_is_reported(open_app: Any, project: Path, lights: Path, actions: Any) -> None:
    async with open_app(project) as screen:
        await screen.until("2 cases")
        await actions.insert(screen, "mine")
        await screen.until("mine")
        actions.write(lights, "theirs")
        await actions.wait_for_notification(screen, "changed on disk while it has unsaved edits")
        await screen.until("1 problem")
        assert "mine" in screen.text


async def test_messages_name_the_keys_that_are_set(open_app: Any, project: Path, lights: Path, actions: Any) -> None:
    settings = project / "workbench.toml"
    settings.write_text(f'{settings.read_text()}[keys]\nundo = "f6"\nproblems_pane = "f7"\n')
    async with open_app(project) as screen:
        await screen.until("2 cases")
        await screen.press("down", "down", "D")
        await actions.wait_for_notification(screen, "; f6 undoes it")
        await actions.insert(screen, "mine")
        actions.write(lights, "theirs")
        await actions.wait_for_notification(screen, "f7 and enter: choose which to keep")


async def test_a_deletion_under_unsaved_edits_is_reported_and_so_is_its_end(
    open_app: Any, project: Path, lights: Path, actions: Any
) -> None:
    async with open_app(project) as screen:
        await screen.until("2 cases")
        await screen.press("down")
        await actions.insert(screen, "mine")
        content = lights.read_bytes()
        lights.unlink()
        await actions.wait_for_notification(screen, "was deleted while it has unsaved edits")
        await screen.press("ctrl+s")
        await screen.until("was deleted while it has unsaved edits. Nothing is written before you choose.", "keep mine")
        assert "take theirs" not in screen.text and "changed on disk" not in screen.text
        await screen.press("escape")

        lights.write_bytes(content)
        await actions.wait_for_notification(screen, "is on disk again as before; your edits are unsaved")


async def test_a_set_that_was_broken_at_the_start_is_read_after_a_repair(
    open_app: Any, project: Path, lights: Path, actions: Any
) -> None:
    lights.write_text("[")
    async with open_app(project) as screen:
        await screen.until("1 problem")
        actions.write(lights, "mended")
        await screen.until("mended", "1 case")


async def test_save_and_undo_lead_the_keys_while_edits_are_unsaved(
    open_app: Any, project: Path, lights: Path, actions: Any
) -> None:
    async with open_app(project, size=(80, 24)) as screen:
        await screen.until("2 cases")
        assert "save" not in screen.text.splitlines()[-1]
        await actions.insert(screen, "mine")
        await screen.press("down")
        await screen.until("^s save  u undo")
        await screen.press("ctrl+s")
        await actions.wait_for_notification(screen, "saved")
        await screen.press("escape")
        await screen.until_gone("^s save")
        assert b"mine" in lights.read_bytes()
