"""What the screen asks of the engine and the store, off the event loop. Nothing else of the TUI calls them."""

from __future__ import annotations

from pathlib import Path

from workbench.tui.gateway.accepting import Accepting
from workbench.tui.gateway.archive import Archive
from workbench.tui.gateway.chats import Chats
from workbench.tui.gateway.contents import Contents
from workbench.tui.gateway.criteria import Criteria
from workbench.tui.gateway.documents import Documents
from workbench.tui.gateway.editing import Editing
from workbench.tui.gateway.generating import Generating
from workbench.tui.gateway.judging import Judging
from workbench.tui.gateway.project import Projects
from workbench.tui.gateway.runs import Runs
from workbench.tui.gateway.saved_files import SavedFiles
from workbench.tui.gateway.thread import WorkspaceThread
from workbench.tui.gateway.typed_texts import TypedTexts
from workbench.tui.gateway.verdict_check import VerdictCheck
from workbench.tui.gateway.watching import Watching

__all__ = ["Gateway"]


class Gateway:
    """The project at one path, by what is asked of it."""

    def __init__(self, path: Path) -> None:
        self._thread = WorkspaceThread(path)
        self.call = self._thread.call
        self.keep_now = self._thread.keep_now
        self.project = Projects(path, self.call)
        self.contents = Contents(self.call)
        self.documents = Documents(self.call)
        self.typed_texts = TypedTexts(self.call)
        self.editing = Editing(self.call, self.documents)
        self.accepting = Accepting(self.call, self.documents)
        self.runs = Runs(self.call)
        self.judging = Judging(self.call)
        self.criteria = Criteria(self.call)
        self.chats = Chats(self.call, self.documents)
        self.generating = Generating(self.call, self.documents)
        self.archive = Archive(self.call)
        self.watching = Watching(path, self.call)
        self.verdict_check = VerdictCheck(self.call)
        self.saved_files = SavedFiles(self.call)

    def close(self) -> None:
        """End what is running and let go of everything; unsaved edits stay in recovery files. Raises StoreError."""
        self._thread.close()
