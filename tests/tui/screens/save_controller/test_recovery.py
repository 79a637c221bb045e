"""Recovery offers unsaved edits of earlier sessions, and keeps those of the current session."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from workbench.tui.backend.project_calls import Projects

CRASH = """
import os, sys
from pathlib import Path
from workbench.engine.open_documents import OpenDocuments
documents = OpenDocuments(Path(sys.argv[1]))
case = {"eval_id": "rescued", "conversation": []}
documents.edit("lights.evalset.json", lambda document: document.insert_case(0, case), label="x")
documents.write_recovery_files()
os._exit(9)
"""


def recovery_files(project: Path) -> list[Path]:
    return list((project / ".workbench" / "recovery").glob("*.recovery"))


@pytest.fixture
def crashed(project: Path) -> Path:
    assert subprocess.run([sys.executable, "-c", CRASH, str(project)], check=False).returncode == 9
    return project


async def test_found_edits_are_restored_unsaved_and_undoable(open_app: Any, crashed: Path, lights: Path) -> None:
    before = lights.read_bytes()
    async with open_app(crashed) as screen:
        await screen.until(
            "ended with unsaved edits", "lights.evalset.json", "1 case differs", "rescued (only in ours)"
        )
        await screen.press("r")
        await screen.until_gone("ended with unsaved edits")
        await screen.until("rescued", "3 cases")
        assert lights.read_bytes() == before and len(recovery_files(crashed)) == 1

        await screen.press("down", "u")
        await screen.until_gone("rescued")
        await screen.press("U")
        await screen.until("rescued")
        await screen.press("ctrl+s")
        await screen.until("saved")
    assert b"rescued" in lights.read_bytes() and recovery_files(crashed) == []


async def test_found_edits_can_be_looked_at(open_app: Any, crashed: Path) -> None:
    async with open_app(crashed) as screen:
        await screen.until("ended with unsaved edits")
        await screen.press("d")
        await screen.until("beside the file as it is", '"eval_id": "rescued"')
        await screen.press("escape")
        await screen.until("ended with unsaved edits")


async def test_found_edits_can_be_thrown_away_after_a_question(open_app: Any, crashed: Path, lights: Path) -> None:
    before = lights.read_bytes()
    async with open_app(crashed) as screen:
        await screen.until("ended with unsaved edits")
        await screen.press("x")
        await screen.until("cannot be had back")
        await screen.press("n")
        await screen.until_gone("cannot be had back")
        assert len(recovery_files(crashed)) == 1
        await screen.press("x")
        await screen.until("cannot be had back")
        await screen.press("y")
        await screen.until_gone("ended with unsaved edits")
    assert lights.read_bytes() == before and recovery_files(crashed) == []


async def test_found_edits_can_be_left_for_later_and_stay_among_the_problems(open_app: Any, crashed: Path) -> None:
    async with open_app(crashed) as screen:
        await screen.until("ended with unsaved edits")
        await screen.press("escape")
        await screen.until("1 problem")
        await screen.press("exclamation_mark")
        await screen.until("wait to be restored")
        await screen.press("enter")
        await screen.until("ended with unsaved edits")
        await screen.press("r")
        await screen.until("rescued")
        await screen.until("No problems")


async def test_unsaved_edits_are_kept_while_they_are_made_and_forgotten_when_saved(
    open_app: Any, project: Path, do: Any
) -> None:
    async with open_app(project) as screen:
        await screen.until("off")
        await do.insert(screen, "mine")
        for _ in range(200):
            if recovery_files(project):
                break
            await screen.pilot.pause(0.02)
        (file,) = recovery_files(project)
        assert b'"mine"' in file.read_bytes()

        await screen.press("down", "ctrl+s")
        for _ in range(500):
            if not recovery_files(project):
                break
            await screen.pilot.pause(0.02)
        assert recovery_files(project) == []
        assert b'"mine"' in (project / do.lights).read_bytes()


async def test_edits_are_kept_at_once_when_the_process_is_suspended(open_app: Any, project: Path, do: Any) -> None:
    async with open_app(project) as screen:
        await screen.until("off")
        await do.insert(screen, "mine")
        screen.app.app_suspend_signal.publish(screen.app)
        assert len(recovery_files(project)) == 1


async def test_edits_are_kept_when_the_application_fails(open_app: Any, project: Path, do: Any) -> None:
    with pytest.raises(ZeroDivisionError):
        async with open_app(project) as screen:
            await screen.until("off")
            await do.insert(screen, "mine")
            screen.app.call_later(lambda: 1 / 0)
            await screen.pilot.pause(0.2)
    assert len(recovery_files(project)) == 1


async def test_found_edits_are_offered_though_the_project_is_read_again_before_it_was_read(
    open_app: Any, crashed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, stored_jobs = asyncio.Event(), Projects.read_stored_jobs

    async def never_at_first(project: Projects) -> Any:
        if not reading.is_set():
            reading.set()
            await asyncio.Event().wait()
        return await stored_jobs(project)

    monkeypatch.setattr(Projects, "read_stored_jobs", never_at_first)
    async with open_app(crashed) as screen:
        await reading.wait()
        await screen.press("f5")
        await screen.until("ended with unsaved edits")
