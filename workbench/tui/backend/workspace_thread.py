"""The backend's thread: everything that reads files, the history or the engine runs here, one thing after the other.

Documents are not made to be read by two threads at once, and none of this may hold up a key press.
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


async def aside(work: Callable[[], T]) -> T:
    """Do work that waits for other machines on a thread of its own. Nobody waits for that where the program ends."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(how: Callable[[Any], None], value: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(lambda: None if done.done() else how(value))

    def carry_out() -> None:
        try:
            value = work()
        except Exception as error:  # whoever waits is to have it
            settle(done.set_exception, error)
        else:
            settle(done.set_result, value)

    threading.Thread(target=carry_out, name="workbench-aside", daemon=True).start()
    return await done


class Call(Protocol):
    """Does work with the workspace on the backend's thread, and gives what it gives or raises what it raises."""

    def __call__(self, work: Callable[[Workspace], T], /) -> Awaitable[T]: ...


class WorkspaceThread:
    """The workspace of one path, opened by the first call, and the thread that it is used on."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._workspace: Workspace | None = None
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="workbench-screen")

    async def call(self, work: Callable[[Workspace], T], /) -> T:
        """Do work on the thread. Raises StoreError where the project cannot be opened, and what `work` raises."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, lambda: work(self._opened()))

    def close(self) -> None:
        """End what is running and let go of everything. Waits until no process is left.

        Unsaved edits stay in recovery files. Raises StoreError where they cannot; everything is closed all the same.
        """
        self._thread.shutdown(wait=True, cancel_futures=True)
        if self._workspace is not None:
            workspace, self._workspace = self._workspace, None
            try:
                workspace.documents.keep()
            finally:
                workspace.close()

    def keep_now(self) -> None:
        """Bring the recovery files up to date, and wait for it: for when the process is about to be stopped."""
        if self._workspace is not None:
            with contextlib.suppress(StoreError):  # it has been said already: they are kept after every edit
                self._thread.submit(self._workspace.documents.keep).result()

    def _opened(self) -> Workspace:
        if self._workspace is None:
            # Imported here, on our thread: the screen is there before the engine.
            from workbench.engine.workspace import Workspace

            self._workspace = Workspace.open(self._path)
        return self._workspace
