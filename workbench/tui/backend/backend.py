"""What the screen asks of the engine and the store, off the event loop. Nothing else of the TUI calls them."""

from __future__ import annotations

from pathlib import Path

from workbench.tui.backend.chat_calls import Chats, Generating
from workbench.tui.backend.document_calls import Accepting, Documents, Editing, SavedFiles, TypedTexts
from workbench.tui.backend.project_calls import Contents, Projects
from workbench.tui.backend.run_calls import Archive, Criteria, Judging, Runs
from workbench.tui.backend.watch_calls import VerdictCheck, WatchCalls
from workbench.tui.backend.workspace_thread import WorkspaceThread


class Backend:
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
        self.watching = WatchCalls(path, self.call)
        self.verdict_check = VerdictCheck(self.call)
        self.saved_files = SavedFiles(self.call)

    def close(self) -> None:
        """End what is running and let go of everything; unsaved edits stay in recovery files. Raises StoreError."""
        self._thread.close()
