"""Notices edits of installed libraries that cases imported, by events of the system or by comparing times."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from workbench.agents.installed_libraries import InstalledLibraries, Package
from workbench.agents.worker.recording import fingerprints
from workbench.watch.file_watcher import (
    EventsLost,
    EventsUnavailable,
    FileChange,
    FolderListener,
    FolderVanished,
    Wakeup,
    explain_scanning,
    find_silent_devices,
    listen,
)

_QUIET = 0.1  # seconds without an event after which edits are reported
_RARELY = 3600.0  # seconds; events end the waiting
_INTERVAL = 2.0  # seconds between two comparisons without events
_SHARE = 200  # and at least as many times what a comparison takes
_TRIES = 5  # while folders vanish


class LibraryWatcher:
    """Watches packages on a thread of its own, which starts with the first one. Their folders are many and rarely
    change, so they are not scanned like those of a project.

    Methods are safe from any thread and do not block.
    """

    def __init__(
        self,
        libraries: InstalledLibraries,
        *,
        report: Callable[[FileChange], None],
        is_installing: Callable[[], bool],
    ) -> None:
        """`report` gets changes on the thread. None is reported while `is_installing`."""
        self._libraries = libraries
        self._report = report
        self._is_installing = is_installing
        self._lock = threading.Lock()
        self._packages: frozenset[Package] = frozenset()
        self._thread: threading.Thread | None = None
        self._wakeup = Wakeup()
        self._stopped = False
        self._listener: FolderListener | None = None
        self._folders: set[str] = set()
        self._listening: frozenset[Package] = frozenset()
        self._installed: dict[str, str] = {}
        self._marks: dict[Package, int] = {}
        self._interval = _INTERVAL

    def add(self, packages: Iterable[Package]) -> None:
        """Also watch these packages. What has changed since their state was first asked for is reported, too."""
        with self._lock:
            before, self._packages = self._packages, self._packages.union(packages)
            if self._packages == before or self._stopped:
                return
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="library watcher", daemon=True)
                self._thread.start()
        self._wakeup.set()

    def stop(self) -> None:
        """End the thread soon."""
        with self._lock:
            self._stopped = True
        self._wakeup.set()

    def _run(self) -> None:
        try:
            while not self._stopped:
                self._wakeup.clear()  # before a look at what it was for
                changed = self._listen() if self._listening != self._packages else set()
                if not self._stopped:
                    changed |= self._wait(_QUIET if changed else _RARELY)
                if changed and not self._stopped:
                    self._report_when_quiet(changed)
        finally:
            self._libraries.end_watch(self)
            self._close()
            self._wakeup.close()

    def _listen(self) -> set[str]:
        """Listen to the present folders of all packages; return files that have changed meanwhile."""
        packages = self._packages
        self._close()
        self._installed = self._find_installed(packages)
        for _ in range(_TRIES):
            self._folders = self._libraries.list_folders(packages)
            try:
                if self._folders and not explain_scanning() and not _are_silent(packages):
                    self._listener = listen(sorted(self._folders))
            except FolderVanished:
                continue
            except EventsUnavailable:
                pass
            break
        self._listening = packages
        return self._compare()

    def _wait(self, seconds: float) -> set[str]:
        """Return the paths of packages that changed, with folders that were replaced."""
        if self._listener is None:
            self._wakeup.wait(min(seconds, self._interval))
            return self._compare()
        try:
            paths = self._listener.wait(seconds, self._wakeup)
        except (EventsLost, OSError):
            self._listening = frozenset()
            return self._compare()
        replaced = {path for path in paths if path in self._folders or self._is_new_folder(path)}
        if replaced:
            self._listening = frozenset()
        return replaced | {path for path in paths if self._libraries.is_counted(path, self._packages)}

    def _is_new_folder(self, path: str) -> bool:
        return os.path.basename(path) not in fingerprints.IGNORED and os.path.isdir(path)

    def _compare(self) -> set[str]:
        """Look at all files of the packages; return one file of each package that differs from the last look."""
        began = time.thread_time()
        before = {package: self._marks.get(package, self._libraries.get_mark(package)) for package in self._packages}
        self._marks = self._libraries.refresh_watched(before, watcher=self)
        self._interval = max(_INTERVAL, _SHARE * (time.thread_time() - began))
        touched = [each for each, mark in self._marks.items() if before[each] not in (None, mark)]
        return set(map(self._libraries.get_changed_file, touched))

    def _report_when_quiet(self, changed: set[str]) -> None:
        first = time.monotonic()
        while not self._stopped:
            self._wakeup.clear()  # packages that were added meanwhile are noticed afterwards
            more = self._wait(_QUIET) if self._listener is not None else set()
            if not more and not self._is_busy():
                break
            if not more:
                self._wakeup.wait(_QUIET)
            changed |= more
        is_installed = self._find_installed(self._packages) != self._installed
        if is_installed or self._listening != self._packages:
            self._libraries.forget()  # files were replaced
            self._listen()
        self._compare()
        if is_installed:  # the watcher of the project reports installations
            return
        self._report(FileChange(frozenset(map(Path, changed)), everything=False, at=first))

    def _find_installed(self, packages: Iterable[Package]) -> dict[str, str]:
        return {folder: fingerprints.of_environment(folder) for folder in {each.folder for each in packages}}

    def _is_busy(self) -> bool:
        """Return True while packages are being installed: the state is neither the old nor the new one."""
        folders = {package.folder for package in self._packages}
        return self._is_installing() or any(map(fingerprints.is_being_installed, folders))

    def _close(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None


def _are_silent(packages: Iterable[Package]) -> bool:
    """Return True if a folder of libraries is on a drive that sends no events."""
    silent = find_silent_devices()
    folders = {package.folder for package in packages}
    return any(os.path.isdir(folder) and os.stat(folder).st_dev in silent for folder in folders)
