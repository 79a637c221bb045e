"""Watches of one project, in several processes, take turns to run cases: so none runs what another one just has."""

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
    """What came of asking for a turn."""

    OTHERS = "others"  # somebody else has it
    MINE = "mine"  # nobody has had it since this one had it last
    MINE_AGAIN = "mine again"  # others have had it since, and may have stored verdicts


class Turns:
    """The turns of one watch. It may take several at once: they are one for the others. Lost with the process."""

    def __init__(self, root: Path) -> None:
        self._path = get_history_path(root).with_name(_FILE_NAME)
        self._held: int | None = None
        self._count = 0
        self._mark = self._read_mark()

    def acquire(self) -> Turn:
        """Take a turn unless another process has it. Where there can be no lock, nobody else is taken notice of."""
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
        """A turn is over."""
        self._count = max(0, self._count - 1)
        if not self._count:
            self._close()

    def close(self) -> None:
        """All turns are over."""
        self._count = 0
        self._close()

    def _read_mark(self) -> bytes:
        try:
            return self._path.read_bytes()
        except OSError:
            return b""

    def _sign(self, file: int) -> Turn:
        """Leave a mark, and see whether the one before was of another."""
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
    """Whether a file could be locked, which its closing ends; True where the file system has no locks."""
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True
