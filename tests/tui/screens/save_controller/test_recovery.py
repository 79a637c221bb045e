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


def list_recovery_files(project: Path) -> list[Path]:
    return list((project / ".workbench" / "recovery").glob("*.recovery"))


@pytest.fixture
def crashed_project(project: Path) -> Path:
    assert subprocess.run([sys.executable, "-c", CRASH, str(project)], check=False).returncode == 9
    return project


async def test_recovered_edits_are_unsaved_and_can_be_undone(
    open_app: Any, crashed_project: Path, lights: Path
) -> None:
    before = lights.read_bytes()
    async with open_app(crashed_project) as screen:
        await screen.until(
            "ended with unsaved edits", "lights.evalset.json", "1 case differs", "rescued (only in ours)"
        )
        await screen.press("r")
        await screen.until_gone("ended with unsaved edits")
        await screen.until("rescued", "3 cases")
        assert lights.read_bytes() == before and len(list_recovery_files(crashed_project)) == 1

        await screen.press("down", "u")
        await screen.until_gone("rescued")
        await screen.press("U")
        await screen.until("rescued")
        await screen.press("ctrl+s")
        await screen.until("saved")
    assert b"rescued" in lights.read_bytes() and list_recovery_files(crashed_project) == []


async def test_recoverable_edits_can_be_viewed(open_app: Any, crashed_project: Path) -> None:
    async with open_app(crashed_project) as screen:
        await screen.until("ended with unsaved edits")
        await screen.press("d")
        await screen.until("and the file on disk", '"eval_id": "rescued"')
        await screen.press("escape")
        await screen.until("ended with unsaved edits")


async def test_recoverable_edits_can_be_discarded_after_a_question(
    open_app: Any, crashed_project: Path, lights: Path
) -> None:
    before = lights.read_bytes()
    async with open_app(crashed_project) as screen:
        await screen.until("ended with unsaved edits")
        await screen.press("x")
        await screen.until("cannot be undone")
        await screen.press("n")
        await screen.until_gone("cannot be undone")
        assert len(list_recovery_files(crashed_project)) == 1
        await screen.press("x")
        await screen.until("cannot be undone")
        await screen.press("y")
        await screen.until_gone("ended with unsaved edits")
    assert lights.read_bytes() == before and list_recovery_files(crashed_project) == []


async def test_postponed_recoverable_edits_stay_among_the_problems(open_app: Any, crashed_project: Path) -> None:
    async with open_app(crashed_project) as screen:
        await screen.until("ended with unsaved edits")
        await screen.press("escape")
        await screen.until("1 problem")
        await screen.press("exclamation_mark")
        await screen.until("restore or discard them")
        await screen.press("enter")
        await screen.until("ended with unsaved edits")
        await screen.press("r")
        await screen.until("rescued")
        await screen.until("No problems")


async def test_unsaved_edits_have_a_recovery_file_until_they_are_saved(
    open_app: Any, project: Path, actions: Any
) -> None:
    async with open_app(project) as screen:
        await screen.until("off")
        await actions.insert(screen, "mine")
        for _ in range(200):
            if list_recovery_files(project):
                break
            await screen.pilot.pause(0.02)
        (file,) = list_recovery_files(project)
        assert b'"mine"' in file.read_bytes()

        await screen.press("down", "ctrl+s")
        for _ in range(500):
            if not list_recovery_files(project):
                break
            await screen.pilot.pause(0.02)
        assert list_recovery_files(project) == []
        assert b'"mine"' in (project / actions.lights).read_bytes()


async def test_a_suspended_process_writes_its_recovery_file_immediately(
    open_app: Any, project: Path, actions: Any
) -> None:
    async with open_app(project) as screen:
        await screen.until("off")
        await actions.insert(screen, "mine")
        screen.app.app_suspend_signal.publish(screen.app)
        assert len(list_recovery_files(project)) == 1


async def test_a_failing_application_leaves_a_recovery_file(open_app: Any, project: Path, actions: Any) -> None:
    with pytest.raises(ZeroDivisionError):
        async with open_app(project) as screen:
            await screen.until("off")
            await actions.insert(screen, "mine")
            screen.app.call_later(lambda: 1 / 0)
            await screen.pilot.pause(0.2)
    assert len(list_recovery_files(project)) == 1


async def test_recovery_is_offered_if_a_reload_interrupts_the_first_load(
    open_app: Any, crashed_project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first_call, stored_jobs = asyncio.Event(), Projects.read_stored_jobs

    async def block_first_call(project: Projects) -> Any:
        if not first_call.is_set():
            first_call.set()
            await asyncio.Event().wait()
        return await stored_jobs(project)

    monkeypatch.setattr(Projects, "read_stored_jobs", block_first_call)
    async with open_app(crashed_project) as screen:
        await first_call.wait()
        await screen.press("f5")
        await screen.until("ended with unsaved edits")
