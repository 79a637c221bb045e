"""Turns of watches of one project in several processes, so that no watch runs cases that another has just run."""

from __future__ import annotations

import contextlib
import os
import secrets
import sys
from enum import Enum
from pathlib import Path

from workbench.store.files import PRIVATE
from workbench.store.history.history_schema import get_history_path

_FILE_NAME = "watch.lock"


class Turn(Enum):
    """The result of a request for a turn."""

    OTHERS = "others"  # another process has the turn
    MINE = "mine"  # no other process had a turn since the last one of this watch
    MINE_AGAIN = "mine again"  # other processes had a turn since then and may have stored verdicts


class Turns:
    """The turns of one watch; they end with its process. Several at once count as one turn for other processes."""

    def __init__(self, root: Path) -> None:
        self._path = get_history_path(root).with_name(_FILE_NAME)
        self._held: int | None = None
        self._count = 0
        self._mark = self._read_mark()

    def acquire(self) -> Turn:
        """Take a turn unless another process has it. Without locks in the file system, other processes are ignored."""
        if self._held is None:
            if sys.platform == "win32":
                return Turn.MINE
            try:
                self._held = os.open(self._path, os.O_RDWR | os.O_CREAT, PRIVATE)
            except OSError:
                return Turn.MINE
            if not _lock(self._held):
                self._close()
                return Turn.OTHERS
        self._count += 1
        return self._sign(self._held)

    def release(self) -> None:
        """End a turn."""
        self._count = max(0, self._count - 1)
        if not self._count:
            self._close()

    def close(self) -> None:
        """End all turns."""
        self._count = 0
        self._close()

    def _read_mark(self) -> bytes:
        try:
            return self._path.read_bytes()
        except OSError:
            return b""

    def _sign(self, file: int) -> Turn:
        """Write a mark, and check whether the previous one is of another process."""
        with contextlib.suppress(OSError):
            before = os.pread(file, 64, 0)
            is_mine, self._mark = before in (b"", self._mark), secrets.token_hex(8).encode()
            os.pwrite(file, self._mark, 0)
            return Turn.MINE if is_mine else Turn.MINE_AGAIN
        return Turn.MINE_AGAIN

    def _close(self) -> None:
        if self._held is not None:
            os.close(self._held)
            self._held = None


def _lock(file: int) -> bool:
    """Lock a file until it is closed. Return False if it is locked; True without locks in the file system."""
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True
