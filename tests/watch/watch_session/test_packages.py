"""Libraries that are installed, replaced and edited during a watch."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.watch.watched import Folder, WatchListener, watch_project
from workbench.agents.worker.recording.fingerprints import is_being_installed
from workbench.watch.file_watcher import SCAN_VARIABLE
from workbench.watch.watch_events import ChangeSeen, WatchRunStarted

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
        """Replace `library` by another version, as pip does."""
        for old in self.path.glob("library*"):
            shutil.rmtree(old)
        package = self.path / "library" / "__init__.py"
        package.parent.mkdir()
        package.write_text(f"VERSION = {content or version!r}\n")
        (self.path / f"library-{version}.dist-info").mkdir()
        if complete:
            self.finish(version)

    def finish(self, version: str) -> None:
        """Write the last file of an installation."""
        digest = base64.urlsafe_b64encode(hashlib.sha256((self.path / "library" / "__init__.py").read_bytes()).digest())
        line = f"library/__init__.py,sha256={digest.rstrip(b'=').decode()},9\n"
        (self.path / f"library-{version}.dist-info" / "RECORD").write_text(line)

    def edit(self, source: str) -> None:
        """Edit the library where it is installed."""
        (self.path / "library" / "__init__.py").write_text(source)


@pytest.fixture
def libraries(folder: Folder, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Libraries:
    libraries = Libraries(tmp_path_factory.mktemp("environment") / "site-packages")
    monkeypatch.setenv("PYTHONPATH", str(libraries.path))
    libraries.install("1.0")
    folder.write("agent.py", AGENT.format(good="1.0"))
    return libraries


@asynccontextmanager
async def _watch_passing_cases(folder: Folder, **options: Any) -> AsyncIterator[WatchListener]:
    async with watch_project(folder.root, **options) as watch:
        assert set((await watch.wait_until_quiet()).verdicts.values()) == {"PASSED"}
        yield watch


@pytest.mark.parametrize(("isolation", "mode"), [("case", "fork"), ("worker", "fork"), ("case", "once")])
async def test_another_version_of_a_library_runs_every_case_once(
    folder: Folder, libraries: Libraries, monkeypatch: pytest.MonkeyPatch, isolation: str, mode: str
) -> None:
    monkeypatch.setattr("workbench.agents.worker_host.choose_mode", lambda: mode)
    async with _watch_passing_cases(folder, isolation=isolation) as watch:
        changed = await watch.apply(lambda: libraries.install("2.0"))

        assert changed.verdicts == dict.fromkeys(["up_1", "up_2", "down"], "FAILED")
        assert (changed.change.run, changed.change.reason.split(" in ")[0]) == (3, "installed packages changed")
        unconcerned = await watch.apply(lambda: folder.write("agent.py", AGENT.format(good="1.0") + "# a comment\n"))
        assert unconcerned.verdicts == {}  # the verdicts hold

        restored = await watch.apply(lambda: libraries.install("1.0"))
        assert (restored.verdicts, set(restored.stored_verdicts.values())) == ({}, {"PASSED"})


async def test_changed_content_of_the_same_library_version_runs_the_cases(folder: Folder, libraries: Libraries) -> None:
    async with _watch_passing_cases(folder) as watch:
        other = await watch.apply(lambda: libraries.install("1.0", content="'patched'"))

        assert set(other.verdicts.values()) == {"FAILED"}


async def test_a_path_file_of_the_interpreter_is_a_dependency(folder: Folder, libraries: Libraries) -> None:
    async with _watch_passing_cases(folder) as watch:
        added = await watch.apply(lambda: (libraries.path / "more.pth").write_text("/nowhere\n"))
        assert len(added.verdicts) == 3

        edited = await watch.apply(lambda: (libraries.path / "more.pth").write_text("/elsewhere\n"))
        assert len(edited.verdicts) == 3


async def test_the_watch_waits_for_a_half_installed_library(folder: Folder, libraries: Libraries) -> None:
    async with _watch_passing_cases(folder) as watch:
        watch.events.clear()

        libraries.install("2.0", complete=False)
        folder.write("agent.py", AGENT.format(good="2.0"))
        assert is_being_installed(str(libraries.path))
        await asyncio.sleep(1.5)
        assert [event for event in watch.events if isinstance(event, ChangeSeen)] == []

        libraries.finish("2.0")
        changed = await watch.wait_until_quiet()
        assert changed.verdicts == dict.fromkeys(["up_1", "up_2", "down"], "PASSED")


async def test_a_case_that_ends_during_an_installation_runs_again_afterwards(
    folder: Folder, libraries: Libraries
) -> None:
    folder.cases(up="up")
    slow = "import time\n" + AGENT.format(good="1.0").replace("return", "time.sleep(1.0)\n    return")
    folder.write("agent.py", slow)
    async with _watch_passing_cases(folder) as watch:
        folder.write("agent.py", slow + "len('')\n")
        await watch.wait_for(ChangeSeen)
        watch.events.clear()

        await asyncio.sleep(0.5)
        libraries.install("2.0", complete=False)
        await asyncio.sleep(1.5)
        libraries.finish("2.0")

        assert (await watch.wait_until_quiet()).verdicts == {"up": "FAILED"}


IMPORTED_BY_UP = """
def answer(prompt):
    if prompt.startswith("up"):
        import library
        return prompt if library.VERSION == "1.0" else library.VERSION
    return prompt
"""


@pytest.mark.parametrize("mode", ["events", "scan"])
async def test_an_edit_of_a_library_where_it_is_installed_runs_the_cases_that_import_it(
    folder: Folder, libraries: Libraries, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    monkeypatch.setenv(SCAN_VARIABLE, mode)
    monkeypatch.setattr("workbench.watch.library_watcher._INTERVAL", 0.2)
    folder.write("agent.py", IMPORTED_BY_UP)
    async with _watch_passing_cases(folder) as watch:
        edited = await watch.apply(lambda: libraries.edit("VERSION = 'edited'\n"))
        assert edited.verdicts == {"up_1": "FAILED", "up_2": "FAILED"}
        assert edited.change.reason == "installed library: library/__init__.py changed"

        again = await watch.apply(lambda: libraries.edit("VERSION = 'edited again'\n"))
        assert again.verdicts == {"up_1": "FAILED", "up_2": "FAILED"}

        restored = await watch.apply(lambda: libraries.edit("VERSION = '1.0'\n"))
        assert (restored.verdicts, restored.stored_verdicts) == ({}, {"up_1": "PASSED", "up_2": "PASSED"})


async def test_an_edit_of_a_library_while_no_watch_runs_is_noticed_at_the_next_start(
    folder: Folder, libraries: Libraries
) -> None:
    folder.write("agent.py", IMPORTED_BY_UP)
    async with _watch_passing_cases(folder):
        pass
    libraries.edit("VERSION = 'edited'\n")

    async with watch_project(folder.root) as watch:
        assert (await watch.wait_until_quiet()).verdicts == {"up_1": "FAILED", "up_2": "FAILED"}


@pytest.mark.parametrize(("isolation", "mode"), [("case", "fork"), ("worker", "fork"), ("case", "once")])
async def test_a_case_that_runs_while_its_library_is_edited_runs_once_more(
    folder: Folder, libraries: Libraries, monkeypatch: pytest.MonkeyPatch, isolation: str, mode: str
) -> None:
    monkeypatch.setattr("workbench.agents.worker_host.choose_mode", lambda: mode)
    folder.cases(up="up")
    slow = "import time\n" + AGENT.format(good="1.0").replace("return", "time.sleep(0.7)\n    return")
    folder.write("agent.py", slow)
    async with _watch_passing_cases(folder, isolation=isolation) as watch:
        folder.write("agent.py", slow + "len('')\n")
        await watch.wait_for(WatchRunStarted)
        watch.events.clear()

        await asyncio.sleep(0.4)
        libraries.edit("VERSION = 'edited'\n")

        await watch.wait_for_statuses(up="FAILED")
        assert (await watch.wait_until_quiet()).verdicts == {"up": "FAILED"}


async def test_the_next_case_uses_a_library_that_was_edited_in_place(folder: Folder, libraries: Libraries) -> None:
    async with _watch_passing_cases(folder) as watch:
        libraries.edit("VERSION = 'edited'\n")

        folder.write("agent.py", AGENT.format(good="1.0") + "len('')\n")

        await watch.wait_for_statuses(**dict.fromkeys(["up_1", "up_2", "down"], "FAILED"))
