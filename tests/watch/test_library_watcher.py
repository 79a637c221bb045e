"""Edits of installed libraries are noticed as files, by events and by comparing."""

from __future__ import annotations

import queue
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from workbench.agents.installed_libraries import InstalledLibraries, Package
from workbench.model.identity import Dependency
from workbench.watch.file_watcher import SCAN_VARIABLE, FileChange
from workbench.watch.library_watcher import LibraryWatcher

PATIENCE = 10.0
QUIET = 0.6


class WatchedLibrary:
    """The library `tools`, and the changes that its watcher reports."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "tools"
        (self.path / "inner").mkdir(parents=True)
        (self.path / "__init__.py").write_text("A = 1\n")
        (self.path / "inner" / "prompt.txt").write_text("Be kind.\n")
        self.finish_installation("1.0")
        self.libraries = InstalledLibraries()
        self.is_installing = False
        self._changes: queue.SimpleQueue[FileChange] = queue.SimpleQueue()
        self.watcher = LibraryWatcher(
            self.libraries, report=self._changes.put, is_installing=lambda: self.is_installing
        )

    def finish_installation(self, version: str) -> None:
        """Write the list of all files, without digests that would match."""
        info = self.folder / f"tools-{version}.dist-info"
        info.mkdir(exist_ok=True)
        names = [path.relative_to(self.folder) for path in self.path.rglob("*") if path.is_file()]
        (info / "RECORD").write_text("".join(f"{name},sha256=,1\n" for name in names))

    def fingerprint(self) -> str:
        return self.libraries.fingerprint(Dependency("libraries", f"{self.folder}::tools", "-"))

    def start(self) -> None:
        """Watch, and wait until every later edit is noticed."""
        self.fingerprint()
        self.watcher.add([Package(str(self.folder), "tools")])
        deadline = time.monotonic() + PATIENCE
        while not self.libraries._watched and time.monotonic() < deadline:
            time.sleep(0.01)

    def wait_for(self, name: str) -> None:
        """Wait until a change of this file is reported. While an edit is made, it may be noticed twice."""
        while self.path / name not in self.wait_for_change().paths:
            pass

    def wait_for_change(self) -> FileChange:
        """Wait for the next change."""
        return self._changes.get(timeout=PATIENCE)

    def is_quiet(self) -> bool:
        """Return whether no change is reported for a while."""
        time.sleep(QUIET)
        return self._changes.empty()


@pytest.fixture(params=["events", "scan"])
def library(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[WatchedLibrary]:
    monkeypatch.setenv(SCAN_VARIABLE, request.param)
    monkeypatch.setattr("workbench.watch.library_watcher._INTERVAL", 0.1)
    library = WatchedLibrary(tmp_path / "site-packages")
    yield library
    library.watcher.stop()


def test_each_edit_is_reported_with_its_file(library: WatchedLibrary) -> None:
    library.start()
    before = library.fingerprint()

    (library.path / "__init__.py").write_text("A = 2\n")
    library.wait_for("__init__.py")
    edited = library.fingerprint()

    (library.path / "inner" / "prompt.txt").write_text("Be brief.\n")
    library.wait_for("inner/prompt.txt")
    assert len({before, edited, library.fingerprint()}) == 3

    (library.path / "added.py").write_text("A = 1\n")
    library.wait_for("added.py")
    (library.path / "__init__.py").unlink()
    library.wait_for("__init__.py")


def test_an_edit_between_the_first_look_and_the_watch_is_reported(library: WatchedLibrary) -> None:
    library.fingerprint()
    (library.path / "__init__.py").write_text("A = 2\n")

    library.watcher.add([Package(str(library.folder), "tools")])

    library.wait_for("__init__.py")


def test_caches_and_data_that_programs_leave_are_not_reported(library: WatchedLibrary) -> None:
    library.start()

    (library.path / "__pycache__").mkdir()
    (library.path / "__pycache__" / "a.pyc").touch()
    (library.path / "cache.db").touch()
    (library.folder / "other.py").touch()

    assert library.is_quiet()


def test_an_installation_is_left_to_the_watcher_of_the_project(library: WatchedLibrary) -> None:
    library.start()
    library.is_installing = True

    shutil.rmtree(library.path)
    shutil.rmtree(library.folder / "tools-1.0.dist-info")
    library.path.mkdir()
    (library.path / "__init__.py").write_text("A = 2\n")
    library.finish_installation("2.0")
    library.is_installing = False
    assert library.is_quiet()

    (library.path / "__init__.py").write_text("A = 3\n")
    library.wait_for("__init__.py")


def test_a_package_that_is_added_during_an_installation_costs_no_time(library: WatchedLibrary) -> None:
    library.start()
    library.is_installing = True
    (library.path / "__init__.py").write_text("A = 2\n")
    time.sleep(0.3)
    library.watcher.add([Package(str(library.folder), "other")])
    before = time.process_time()
    time.sleep(1.0)
    assert time.process_time() - before < 0.5

    library.is_installing = False
    library.wait_for("__init__.py")


def test_a_replaced_folder_is_watched_again(library: WatchedLibrary) -> None:
    library.start()

    (library.path / "inner").rename(library.path / "old")
    shutil.copytree(library.path / "old", library.path / "inner")
    library.wait_for_change()
    assert library.is_quiet()

    (library.path / "inner" / "prompt.txt").write_text("Be brief.\n")
    library.wait_for("inner/prompt.txt")


def test_without_a_watcher_states_are_looked_at_again(library: WatchedLibrary) -> None:
    library.start()
    before = library.fingerprint()

    library.watcher.stop()
    deadline = time.monotonic() + PATIENCE
    while library.libraries._watched and time.monotonic() < deadline:
        time.sleep(0.01)
    (library.path / "__init__.py").write_text("A = 2\n")
    time.sleep(1.2)

    assert library.fingerprint() != before
