"""Tells what may have changed in a project, soon after it was saved, and never passes over anything.

Whether content really differs is for others to see: a change that turns out to be none costs them a look, one that is
not told would leave an old verdict standing.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import AsyncGenerator, Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

from workbench.watch.folders import Folders
from workbench.watch.observer import Change, Observer, Watching

__all__ = ["Change", "Folders", "Watcher", "Watching"]

SETTING = "WORKBENCH_WATCH"
"""The environment variable that asks for scanning, with the value `scan`, where events do not arrive unnoticed."""

_PATIENCE = 5.0  # seconds for the thread to end; a network drive may hang in the middle of a look


class Watcher:
    """Watches folders from `start` to `stop`, or as a context manager."""

    def __init__(self, folders: Folders, *, scan: bool = False) -> None:
        """Nothing happens yet. With `scan` it looks at everything again and again and waits for no events."""
        self._folders = folders
        self._observer = Observer(
            folders, scan=_reason(scan), report=self._from_thread_change, report_status=self._from_thread_status
        )
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._status: Watching | None = None
        self._pending: Change | None = None
        self._news = asyncio.Event()
        self._progress = asyncio.Event()
        self._ended = asyncio.Event()
        self._paused = False
        self._stopped = False
        self._failure: BaseException | None = None
        self._asked = 0
        self._taken_in = 0
        self.on_other_mode: Callable[[Watching], None] = lambda _: None
        """Called where events are no longer to be had, or are again."""

    @property
    def watching(self) -> Watching:
        """What is watched now. Needs a watcher that was started."""
        if self._status is None:
            raise RuntimeError("the watcher was not started")
        return self._status

    @property
    def paused(self) -> bool:
        """Whether changes are kept back."""
        return self._paused

    @property
    def is_installing(self) -> bool:
        """Whether packages are being installed: once they are, a change is told."""
        return self._observer.is_installing

    async def start(self) -> Watching:
        """Begin to watch; what changes after this returned is told, and much of what changed meanwhile."""
        if self._thread is None:
            self._loop = asyncio.get_running_loop()
            self._thread = threading.Thread(target=self._run, name="watcher", daemon=True)
            self._thread.start()
        await self._until(lambda: self._status is not None)
        return self.watching

    async def stop(self) -> None:
        """End watching, soon and with nothing left behind. What was not told yet is not told any more."""
        self._stopped = True
        self._news.set()
        self._observer.stop()
        thread = self._thread
        if thread is None or self._loop is None:
            return
        # Not joined in another thread, which would be one more to end.
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._ended.wait(), _PATIENCE)
            thread.join()

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:  # a cancelled start too: its thread would go on
            await self.stop()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def add(self, paths: Iterable[Path]) -> None:
        """Watch these files and folders too, wherever they are; they need not exist.

        What changes after this returned is told. How they were before is not known: look at them afterwards.
        """
        folders = self._folders.using(paths)
        if folders != self._folders:
            await self._exchange(folders)

    async def replace(self, folders: Folders) -> None:
        """Watch these folders in place of those it began with, and still what was added."""
        folders = folders.using(self._folders.used)
        if folders != self._folders:
            await self._exchange(folders)

    async def keep(self, paths: Iterable[Path]) -> None:
        """Like `add`, but forgets what was added before and is not among these."""
        folders = Folders(self._folders.root, self._folders.more).using(paths)
        if folders != self._folders:
            await self._exchange(folders)

    def pause(self) -> None:
        """Keep changes back from now on."""
        self._paused = True

    def resume(self) -> None:
        """Tell changes again, first of all what happened meanwhile, as one."""
        self._paused = False
        self._news.set()

    async def changes(self) -> AsyncGenerator[Change, None]:
        """Changes as they happen, until `stop`; several in one where the consumer takes its time.

        Starts the watcher if nobody did, and then stops it at its end. Raises what made watching impossible.
        """
        mine = self._thread is None
        await self.start()
        try:
            while not self._stopped:
                self._news.clear()
                if self._pending is not None and not self._paused:
                    change, self._pending = self._pending, None
                    yield change
                    continue
                if self._failure is not None:
                    raise self._failure
                await self._news.wait()
        finally:
            if mine:
                await self.stop()

    async def _exchange(self, folders: Folders) -> None:
        self._folders = folders
        self._observer.ask(folders)
        self._asked += 1
        if self._thread is not None:
            mine = self._asked
            await self._until(lambda: self._taken_in >= mine)

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition() and not self._stopped:
            if self._failure is not None:
                raise self._failure
            self._progress.clear()
            await self._progress.wait()
        if not condition():
            raise RuntimeError("the watcher was stopped")

    def _run(self) -> None:
        try:
            self._observer.run()
        except BaseException as error:
            self._call(self._failed, error)
        finally:
            self._call(self._ended.set)

    def _call(self, what: Callable[..., None], *arguments: object) -> None:
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(what, *arguments)
        except RuntimeError:  # the loop is closed, and with it whoever listened
            self._observer.stop()

    def _from_thread_change(self, change: Change) -> None:
        self._call(self._changed, change)

    def _from_thread_status(self, status: Watching, taken_in: int) -> None:
        self._call(self._has_status, status, taken_in)

    def _changed(self, change: Change) -> None:
        self._pending = self._pending.and_then(change) if self._pending else change
        self._news.set()

    def _has_status(self, status: Watching, taken_in: int) -> None:
        before, self._status, self._taken_in = self._status, status, taken_in
        if before is not None and before.mode != status.mode:
            self.on_other_mode(status)
        self._progress.set()

    def _failed(self, error: BaseException) -> None:
        self._failure = error
        self._news.set()
        self._progress.set()


def _reason(scan: bool) -> str:
    if scan:
        return "it was asked for"
    if os.environ.get(SETTING) == "scan":
        return f"{SETTING}=scan"
    if os.environ.get("WATCHFILES_FORCE_POLLING", "").lower() not in {"", "false", "disable", "disabled"}:
        return "WATCHFILES_FORCE_POLLING is set"
    return ""
