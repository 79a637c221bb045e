"""A watcher on real folders, with a record of its changes."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

from workbench.watch.file_watcher import FileChange, Watcher
from workbench.watch.folder_scanner import Folders

PATIENCE = 120.0  # seconds; reached only if something is broken


async def wait_until(condition: Callable[[], object]) -> None:
    """Poll until the condition holds."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)


class Eyes:
    """Records the changes that a watcher reports."""

    def __init__(self, watcher: Watcher) -> None:
        self.watcher = watcher
        self.changes: list[FileChange] = []
        self.paths: set[Path] = set()
        self._new_change = asyncio.Event()

    @property
    def has_full_change(self) -> bool:
        return any(change.everything for change in self.changes)

    def forget(self) -> None:
        self.changes.clear()
        self.paths.clear()

    async def wait_until(self, condition: Callable[[], bool], description: str = "") -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition():
            self._new_change.clear()
            remaining = deadline - time.monotonic()
            assert remaining > 0, f"not within {PATIENCE:g} s: {description}; told: {sorted(map(str, self.paths))[:20]}"
            try:
                await asyncio.wait_for(self._new_change.wait(), min(remaining, 0.1))
            except TimeoutError:
                continue

    async def see(self, *paths: Path) -> None:
        """Wait until each of these paths, or a change of everything, was reported."""
        await self.see_all(paths)

    async def see_all(self, paths: Iterable[Path]) -> None:
        expected = set(paths)
        await self.wait_until(lambda: self.has_full_change or expected <= self.paths, f"{len(expected)} paths")

    async def settle(self) -> None:
        """Wait until all earlier changes are reported, then forget them.

        Changes are reported in order, so the change of a signal file comes last. The second signal covers a scan
        between the events of one save.
        """
        root = self.watcher._folders.root
        for number in range(2):
            signal = root / f"settled-{number}.txt"
            signal.write_text(str(time.monotonic_ns()))
            await self.wait_until(lambda signal=signal: signal in self.paths, "a signal")
            self.forget()

    async def record_changes(self) -> None:
        async for change in self.watcher.changes():
            self.changes.append(change)
            self.paths |= change.paths
            self._new_change.set()


@asynccontextmanager
async def watch_folders(folders: Folders | Path, *, scan: bool = False) -> AsyncIterator[Eyes]:
    """Watch until the end of the block."""
    folders = Folders(folders) if isinstance(folders, Path) else folders
    async with Watcher(folders, scan=scan) as watcher:
        eyes = Eyes(watcher)
        record_task = asyncio.create_task(eyes.record_changes())
        try:
            yield eyes
        finally:
            await watcher.stop()
            await record_task


def save_in_place(path: Path, text: str) -> None:
    path.write_text(text)


def save_by_renaming(path: Path, text: str) -> None:
    new = path.with_name(f".{path.name}.new")
    new.write_text(text)
    new.replace(path)


def save_with_backup(path: Path, text: str) -> None:
    backup = path.with_name(path.name + "~")
    path.rename(backup)
    path.write_text(text)
    backup.unlink()


def save_by_deleting(path: Path, text: str) -> None:
    path.unlink()
    path.write_text(text)


def save_in_pieces(path: Path, text: str) -> None:
    with path.open("w") as file:
        for letter in text:
            file.write(letter)
            file.flush()
            os.fsync(file.fileno())


SAVES = [save_in_place, save_by_renaming, save_with_backup, save_by_deleting, save_in_pieces]
