"""The only access of the screen to the engine and the store."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from concurrent.futures import CancelledError, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from workbench.store.errors import StoreError
from workbench.tui.backend.document_calls import Accepting, SavedFiles
from workbench.tui.backend.project_calls import Contents, Projects
from workbench.tui.backend.run_calls import CriteriaFiles, HistoryReader, Runs
from workbench.tui.backend.watch_calls import VerdictCheck, WatchCalls

if TYPE_CHECKING:
    from workbench.engine.workspace import Workspace

T = TypeVar("T")


class Backend:
    """The project at one path, opened with the first call.

    All work with files, the history and the engine runs on one thread, one call after the other: documents are not
    thread-safe, and the event loop must stay free for key presses. `call` and `edit` do work with the workspace; the
    attributes are for work that has a state.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._workspace: Workspace | None = None
        self._is_closed = False
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="workbench-screen")
        self.edits = 0  # number of calls that may have changed unsaved edits; recovery files follow it
        self.on_edit: Callable[[], None] = lambda: None
        self.project = Projects(path, self.call)
        self.contents = Contents(self.call)
        self.accepting = Accepting(self.call, self.edit)
        self.runs = Runs(self.call)
        self.criteria = CriteriaFiles(self.call)
        self.history = HistoryReader(self.call)
        self.watching = WatchCalls(path, self.call)
        self.verdict_check = VerdictCheck(self.call)
        self.saved_files = SavedFiles(self.call)

    async def call(self, work: Callable[[Workspace], T], /) -> T:
        """Do work on the thread. Raises StoreError if the project cannot be opened, and what `work` raises."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, lambda: work(self._open_workspace()))

    def call_from_thread(self, work: Callable[[], T], /) -> T:
        """Do work on the thread and wait for it, on a thread that is neither this one nor that of the event loop.

        Raises Interrupted if the project was closed meanwhile.
        """
        from workbench.engine.case_variants import Interrupted

        try:
            return self._thread.submit(work).result()
        except (CancelledError, RuntimeError):
            if self._is_closed:
                raise Interrupted from None
            raise

    async def edit(self, work: Callable[[Workspace], T], /) -> T:
        """Do work that may edit, save or restore documents, as `call` does.

        Raises FileChanged if a file changed that would be overwritten.
        """
        try:
            return await self.call(work)
        finally:
            self.edits += 1
            self.on_edit()

    def close(self) -> None:
        """Stop all runs and close the workspace. Waits until no process is left.

        Unsaved edits stay in recovery files. Raises StoreError if these cannot be written, after closing the rest.
        """
        self._is_closed = True
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
