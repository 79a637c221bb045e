"""The only access of the screen to the engine and the store."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from workbench.tui.backend.document_calls import Accepting, SavedFiles
from workbench.tui.backend.project_calls import Contents, Projects
from workbench.tui.backend.run_calls import Criteria, HistoryReader, Runs
from workbench.tui.backend.watch_calls import VerdictCheck, WatchCalls
from workbench.tui.backend.workspace_thread import WorkspaceThread

if TYPE_CHECKING:
    from workbench.engine.workspace import Workspace

T = TypeVar("T")


class Backend(WorkspaceThread):
    """The project at one path. `call` and `edit` do work with it; the attributes are for work that has a state."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.edits = 0  # number of calls that may have changed unsaved edits; recovery files follow it
        self.on_edit: Callable[[], None] = lambda: None
        self.project = Projects(path, self.call)
        self.contents = Contents(self.call)
        self.accepting = Accepting(self.call, self.edit)
        self.runs = Runs(self.call)
        self.criteria = Criteria(self.call)
        self.history = HistoryReader(self.call)
        self.watching = WatchCalls(path, self.call)
        self.verdict_check = VerdictCheck(self.call)
        self.saved_files = SavedFiles(self.call)

    async def edit(self, work: Callable[[Workspace], T], /) -> T:
        """Do work that may edit, save or restore documents, as `call` does.

        Raises FileChanged if a file changed that would be overwritten.
        """
        try:
            return await self.call(work)
        finally:
            self.edits += 1
            self.on_edit()
