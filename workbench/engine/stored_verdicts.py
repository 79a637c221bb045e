"""The verdicts of earlier runs, read once and kept up while runs go on; and what agents have left behind in them."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable
from pathlib import Path

from workbench.agents.host import LeftByAgents
from workbench.engine.leftovers import LeftFiles, Leftovers
from workbench.engine.verdicts import Verdicts
from workbench.model.results import CaseResult
from workbench.store.errors import StoreError
from workbench.store.history import History, StoredVerdict
from workbench.store.history.database import file_of

_MOST_LEFT = 2_000  # names that every session is told of


class StoredVerdicts:
    """Those of one project. Every method may be called from any thread."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._verdicts: Verdicts | None = None
        self._lock = threading.Lock()

    def read(self) -> Verdicts:
        """The verdicts that may still hold. Raises StoreError where they cannot be read."""
        with self._lock:
            if self._verdicts is None:
                if file_of(self._root).exists():
                    with History.open(self._root) as history:
                        self._verdicts = Verdicts.read(history)
                else:
                    self._verdicts = Verdicts()
            return self._verdicts

    def take_in_others(self) -> None:
        """Take in what other processes have stored. An unreadable history has nothing new."""
        verdicts = self.read()
        with contextlib.suppress(StoreError), History.open(self._root) as history:
            verdicts.take_in(history)

    def note(self, stored: Iterable[tuple[StoredVerdict, CaseResult]]) -> None:
        """Verdicts were stored."""
        with self._lock:  # what is being read meanwhile has them, or gets them now
            if self._verdicts is not None:
                for verdict, result in stored:
                    self._verdicts.add(verdict, result)

    def left_by_agents(self) -> LeftByAgents:
        """What agents have left so far; an unreadable history knows nothing of it."""
        with self._lock:
            verdicts = self._verdicts
        if verdicts is not None:
            return verdicts.leftovers().told(verdicts.listed, most=_MOST_LEFT)
        if not file_of(self._root).exists():
            return LeftByAgents()
        files = LeftFiles()
        try:
            with History.open(self._root) as history:
                files.add(history.left_by_agents())
                return Leftovers(files.are_there()).told(history.listed_folders(), most=_MOST_LEFT)
        except StoreError:  # the run itself will say so, and go on without
            return LeftByAgents()
