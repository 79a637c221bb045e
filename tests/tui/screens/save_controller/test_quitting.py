"""Quitting with unsaved edits: save, keep for the next start, or cancel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from workbench.engine.open_documents import OpenDocuments
from workbench.store.errors import StoreError


def list_recovery_files(project: Path) -> list[Path]:
    return list((project / ".workbench" / "recovery").glob("*.recovery"))


async def test_quitting_without_edits_asks_nothing(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await screen.until("off")
        await screen.press("q")
        await screen.pilot.pause(0.2)
        assert not screen.app.is_running


async def test_all_edits_can_be_saved_when_quitting(open_app: Any, project: Path, lights: Path, actions: Any) -> None:
    async with open_app(project) as screen:
        await screen.until("off")
        await actions.insert(screen, "mine")
        await screen.press("q")
        await screen.until("Unsaved edits in lights.evalset.json")
        await screen.press("enter")
        await screen.pilot.pause(0.5)
        assert not screen.app.is_running

    assert b'"mine"' in lights.read_bytes() and list_recovery_files(project) == []


async def test_edits_can_be_stored_for_the_next_start(open_app: Any, project: Path, lights: Path, actions: Any) -> None:
    before = lights.read_bytes()
    async with open_app(project) as screen:
        await screen.until("off")
        await actions.insert(screen, "mine")
        await screen.press("q")
        await screen.until("Unsaved edits")
        await screen.press("down", "enter")
        await screen.pilot.pause(0.5)
        assert not screen.app.is_running

    assert lights.read_bytes() == before
    (file,) = list_recovery_files(project)
    assert b'"mine"' in file.read_bytes()


async def test_edits_that_cannot_be_stored_are_lost_only_if_the_user_says_so(
    open_app: Any, project: Path, lights: Path, actions: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(documents: OpenDocuments) -> None:
        raise StoreError(lights, "the file system is read-only")

    async with open_app(project) as screen:
        await screen.until("off")
        with monkeypatch.context() as patch:
            patch.setattr(OpenDocuments, "write_recovery_files", refuse)
            await actions.insert(screen, "mine")
            for answer in ("1", "2"):
                await screen.press("q")
                await screen.until("Unsaved edits")
                await screen.press("2")
                await screen.until("The unsaved edits cannot be stored", "quit and lose them")
                assert screen.app.is_running
                await screen.press(answer)
                await screen.pilot.pause(0.3)
            assert not screen.app.is_running


async def test_cancelling_the_quit_changes_nothing(open_app: Any, project: Path, lights: Path, actions: Any) -> None:
    async with open_app(project) as screen:
        await screen.until("off")
        await actions.insert(screen, "mine")
        await screen.press("q")
        await screen.until("Unsaved edits")
        await screen.press("escape")
        await screen.until_gone("Unsaved edits")
        assert screen.app.is_running and (
            await screen.app._backend.call(lambda workspace: workspace.documents.dirty())
        ) == (lights.name,)


async def test_a_conflict_when_quitting_is_resolved_first(
    open_app: Any, project: Path, lights: Path, actions: Any
) -> None:
    async with open_app(project) as screen:
        await screen.until("off")
        await actions.insert(screen, "mine")
        actions.write(lights, "theirs")
        await screen.press("q")
        await screen.until("Unsaved edits")
        await screen.press("enter")
        await screen.until("keep mine")
        await screen.press("escape")
        await screen.until_gone("keep mine")
        assert screen.app.is_running

        await screen.press("q")
        await screen.until("Unsaved edits")
        await screen.press("enter")
        await screen.until("keep mine")
        await screen.press("m")
        await screen.pilot.pause(0.5)
        assert not screen.app.is_running
    assert b'"mine"' in lights.read_bytes()
