"""Libraries that are installed, replaced and edited during a watch."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.watch.watched import Folder, Watched, watching
from workbench.agents.worker.recording.fingerprints import is_being_installed
from workbench.watch.watch_events import ChangeSeen

AGENT = """
import library

def answer(prompt):
    return prompt if library.VERSION == {good!r} else library.VERSION
"""


class Libraries:
    """A folder that libraries are installed in."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir()

    def install(self, version: str, *, content: str = "", complete: bool = True) -> None:
        """Put a version of `library` in the place of what was there, as pip does."""
        for old in self.path.glob("library*"):
            shutil.rmtree(old)
        package = self.path / "library" / "__init__.py"
        package.parent.mkdir()
        package.write_text(f"VERSION = {content or version!r}\n")
        (self.path / f"library-{version}.dist-info").mkdir()
        if complete:
            self.finish(version, content or version)

    def finish(self, version: str, content: str) -> None:
        """Write the last file of an installation."""
        (self.path / f"library-{version}.dist-info" / "RECORD").write_text(f"library/__init__.py,{hash(content)},9\n")


@pytest.fixture
def libraries(folder: Folder, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Libraries:
    made = Libraries(tmp_path_factory.mktemp("environment") / "site-packages")
    monkeypatch.setenv("PYTHONPATH", str(made.path))
    made.install("1.0")
    folder.write("agent.py", AGENT.format(good="1.0"))
    return made


@asynccontextmanager
async def _at_rest(folder: Folder, **options: Any) -> AsyncIterator[Watched]:
    async with watching(folder.root, **options) as watched:
        assert set((await watched.until_quiet()).verdicts.values()) == {"PASSED"}
        yield watched


@pytest.mark.parametrize(("isolation", "mode"), [("case", "fork"), ("worker", "fork"), ("case", "once")])
async def test_another_version_of_a_library_runs_every_case_once(
    folder: Folder, libraries: Libraries, monkeypatch: pytest.MonkeyPatch, isolation: str, mode: str
) -> None:
    monkeypatch.setattr("workbench.agents.worker_host._choose_mode", lambda: mode)
    async with _at_rest(folder, isolation=isolation) as watched:
        changed = await watched.after(lambda: libraries.install("2.0"))

        assert changed.verdicts == dict.fromkeys(["up_1", "up_2", "down"], "FAILED")
        assert (changed.change.run, changed.change.reason.split(" in ")[0]) == (3, "installed packages changed")
        unconcerned = await watched.after(lambda: folder.write("agent.py", AGENT.format(good="1.0") + "# a comment\n"))
        assert unconcerned.verdicts == {}  # what was found holds

        back = await watched.after(lambda: libraries.install("1.0"))
        assert (back.verdicts, set(back.stored.values())) == ({}, {"PASSED"})


async def test_the_same_version_with_other_content_is_another_library(folder: Folder, libraries: Libraries) -> None:
    async with _at_rest(folder) as watched:
        other = await watched.after(lambda: libraries.install("1.0", content="'patched'"))

        assert set(other.verdicts.values()) == {"FAILED"}


async def test_a_path_that_is_added_to_those_of_the_interpreter_counts(folder: Folder, libraries: Libraries) -> None:
    async with _at_rest(folder) as watched:
        added = await watched.after(lambda: (libraries.path / "more.pth").write_text("/nowhere\n"))
        assert len(added.verdicts) == 3

        edited = await watched.after(lambda: (libraries.path / "more.pth").write_text("/elsewhere\n"))
        assert len(edited.verdicts) == 3


async def test_a_library_that_is_half_installed_is_waited_for(folder: Folder, libraries: Libraries) -> None:
    async with _at_rest(folder) as watched:
        watched.events.clear()

        libraries.install("2.0", complete=False)
        folder.write("agent.py", AGENT.format(good="2.0"))
        assert is_being_installed(str(libraries.path))
        await asyncio.sleep(1.5)
        assert [event for event in watched.events if isinstance(event, ChangeSeen)] == []

        libraries.finish("2.0", "2.0")
        changed = await watched.until_quiet()
        assert changed.verdicts == dict.fromkeys(["up_1", "up_2", "down"], "PASSED")


async def test_a_case_that_ends_while_a_library_is_installed_runs_again_after_that(
    folder: Folder, libraries: Libraries
) -> None:
    folder.cases(up="up")
    slow = "import time\n" + AGENT.format(good="1.0").replace("return", "time.sleep(1.0)\n    return")
    folder.write("agent.py", slow)
    async with _at_rest(folder) as watched:
        folder.write("agent.py", slow + "len('')\n")
        await watched.until(ChangeSeen)
        watched.events.clear()

        await asyncio.sleep(0.5)
        libraries.install("2.0", complete=False)
        await asyncio.sleep(1.5)
        libraries.finish("2.0", "2.0")

        assert (await watched.until_quiet()).verdicts == {"up": "FAILED"}


async def test_a_library_that_is_edited_in_its_place_is_new_for_the_next_case(
    folder: Folder, libraries: Libraries
) -> None:
    async with _at_rest(folder) as watched:
        (libraries.path / "library" / "__init__.py").write_text("VERSION = 'edited'\n")

        changed = await watched.after(lambda: folder.write("agent.py", AGENT.format(good="1.0") + "len('')\n"))

        assert set(changed.verdicts.values()) == {"FAILED"}
