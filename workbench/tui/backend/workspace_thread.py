"""The workspace thread: all work with files, the history and the engine runs here, one call after the other.

Documents are not thread-safe, and the event loop must stay free for key presses.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from workbench.store.errors import StoreError

if TYPE_CHECKING:
    from workbench.engine.workspace import Workspace


T = TypeVar("T")


async def run_in_own_thread(work: Callable[[], T]) -> T:
    """Do work that waits for other machines in a daemon thread. The end of the program does not wait for it."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(how: Callable[[Any], None], value: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(lambda: None if done.done() else how(value))

    def do_work() -> None:
        try:
            value = work()
        except Exception as error:  # the caller gets it
            settle(done.set_exception, error)
        else:
            settle(done.set_result, value)

    threading.Thread(target=do_work, name="workbench-aside", daemon=True).start()
    return await done


class Call(Protocol):
    """Does work with the workspace on its thread. Returns or raises what the work does."""

    def __call__(self, work: Callable[[Workspace], T], /) -> Awaitable[T]: ...


class WorkspaceThread:
    """Opens the workspace of one path with the first call, and uses it on one thread."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._workspace: Workspace | None = None
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="workbench-screen")

    async def call(self, work: Callable[[Workspace], T], /) -> T:
        """Do work on the thread. Raises StoreError if the project cannot be opened, and what `work` raises."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, lambda: work(self._open_workspace()))

    def close(self) -> None:
        """Stop all runs and close the workspace. Waits until no process is left.

        Unsaved edits stay in recovery files. Raises StoreError if these cannot be written, after closing the rest.
        """
        self._thread.shutdown(wait=True, cancel_futures=True)
        if self._workspace is not None:
            workspace, self._workspace = self._workspace, None
            try:
                workspace.documents.write_recovery_files()
            finally:
                workspace.close()

    def write_recovery_files(self) -> None:
        """Write the recovery files and wait for it, because the process is about to be stopped."""
        if self._workspace is not None:
            with contextlib.suppress(StoreError):  # reported already, when the last edit was stored
                self._thread.submit(self._workspace.documents.write_recovery_files).result()

    def _open_workspace(self) -> Workspace:
        if self._workspace is None:
            # Imported on this thread, so that the screen appears before the engine is loaded.
            from workbench.engine.workspace import Workspace

            self._workspace = Workspace.open(self._path)
        return self._workspace
