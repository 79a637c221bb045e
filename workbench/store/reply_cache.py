"""Replies of models, kept from run to run in `.workbench/replies.db` by the key of the request."""

from __future__ import annotations

import sqlite3
import time
import zlib
from pathlib import Path
from types import TracebackType
from typing import Self

from workbench.store.history.history_schema import open_database

FILE_NAME = "replies.db"

_MAX_REPLIES = 100_000
"""When the file is opened, replies beyond this number are deleted, least recently used first."""
_USE_NOTED_AFTER = 86_400.0  # seconds after which the time of use is updated


class ReplyStore:
    """The file of one project. One thread at a time may use it; another process may use it at the same time."""

    def __init__(self, root: Path) -> None:
        """Raises StoreError if the file cannot be opened; a damaged one is moved aside."""
        self._database = open_database(root, file_name=FILE_NAME, prepare=_prepare)

    def get(self, key: str) -> str | None:
        """Return the text of a key. Raises StoreError."""
        with self._database.translate_errors():
            row = self._database.execute("SELECT data, used_at FROM reply WHERE key = ?", (key,)).fetchone()
            if row is None:
                return None
            data, used_at = row
            now = time.time()
            if now - used_at > _USE_NOTED_AFTER:
                self._database.execute("UPDATE reply SET used_at = ? WHERE key = ?", (now, key))
            return zlib.decompress(data).decode()

    def put(self, key: str, text: str) -> None:
        """Store a text under a key, replacing an earlier one. Raises StoreError."""
        row = (key, zlib.compress(text.encode()), time.time())
        with self._database.transaction():
            self._database.execute("INSERT OR REPLACE INTO reply (key, data, used_at) VALUES (?, ?, ?)", row)

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    del path
    columns = "key TEXT PRIMARY KEY, data BLOB NOT NULL, used_at REAL NOT NULL"
    connection.execute(f"CREATE TABLE IF NOT EXISTS reply ({columns}) WITHOUT ROWID")
    connection.execute("CREATE INDEX IF NOT EXISTS reply_by_use ON reply (used_at)")
    outdated = f"SELECT key FROM reply ORDER BY used_at DESC LIMIT -1 OFFSET {_MAX_REPLIES}"
    connection.execute(f"DELETE FROM reply WHERE key IN ({outdated})")
