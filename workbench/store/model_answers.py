"""Answers of models on disk: replies to judges and users by their request, and the model calls of agents by case.

`.workbench/replies.db` and `.workbench/recordings.db` are stores of texts by key. A recording that can be committed is
a file of JSON lines: for each repeat of a case a line that names it, followed by its model calls, one a line.
"""

from __future__ import annotations

import contextlib
import io
import json
import mmap
import os
import sqlite3
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from pydantic import Field, ValidationError

from workbench.model.facts import Fact
from workbench.model.identity import CaseKey, JobKey
from workbench.store.errors import StoreError, make_os_error
from workbench.store.files import write_in_pieces
from workbench.store.history.history_schema import open_database

REPLIES = "replies.db"
RECORDINGS = "recordings.db"

_MAX_REPLIES = 100_000
"""When the file is opened, replies beyond this number are deleted, least recently used first."""
_USE_NOTED_AFTER = 86_400.0  # seconds after which the time of use is updated


class ReplyStore:
    """A store of texts of one project. One thread at a time may use it; another process may use it at the same time."""

    def __init__(self, root: Path, *, file_name: str = REPLIES) -> None:
        """Raises StoreError if the file cannot be opened; a damaged one is moved aside."""
        self._database = open_database(root, file_name=file_name, prepare=_prepare)

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


# Recordings of the model calls of agents.

FORMAT = "workbench-models-1"
_HEAD = b'{"format":"'  # with it begins the line that names a case


class RecordedModelCall(Fact):
    """A model call of an agent. `request` and `response` are those of PROTOCOL.md, Models; `turn` counts from 0.

    `seconds` is how long the model took, `cost` what the answer cost in US dollars, if it is known. `error` says why
    there is no response. `key` is the identity of a request that was recorded without a secret-looking text.
    """

    turn: int = 0
    request: dict[str, Any]
    key: str | None = None
    response: dict[str, Any] | None = None
    seconds: float = 0.0
    cost: float | None = None
    error: str | None = None


class RecordedModels(Fact):
    """The model calls of one repeat of a case, in the order in which they began."""

    target: str
    eval_set: str
    eval_id: str
    occurrence: int = 0
    repeat: int = 0
    calls: tuple[RecordedModelCall, ...] = Field(default=(), exclude=True)

    @classmethod
    def of_job(cls, job: JobKey, calls: Sequence[RecordedModelCall]) -> Self:
        """Make the recording of a repeat."""
        return cls(**job.case.model_dump(), repeat=job.repeat, calls=tuple(calls))

    @property
    def job(self) -> JobKey:
        """The repeat."""
        case = CaseKey(target=self.target, eval_set=self.eval_set, eval_id=self.eval_id, occurrence=self.occurrence)
        return JobKey(case, self.repeat)

    def format_lines(self) -> str:
        """Format the lines of a file: one that names the case, and one for each call."""
        head = {"format": FORMAT, **self.model_dump(exclude_defaults=True), "calls": len(self.calls)}
        calls = [each.model_dump(mode="json", exclude_defaults=True) for each in self.calls]
        return "".join(f"{_dump(line)}\n" for line in (head, *calls))

    @classmethod
    def parse_lines(cls, text: str, *, fail: Fail) -> Self:
        """Parse such lines. `fail` makes the error for the n-th of them, counted from 0, and what is wrong with it."""
        first, *lines = text.rstrip("\n").split("\n")
        recorded, count = _parse_head(_parse(first, 0, fail), fail)
        if count > len(lines):
            raise fail(len(lines), f"the end of the file after {len(lines)} of {count} calls")
        calls = [_parse_call(line, number, fail) for number, line in enumerate(lines[:count], start=1)]
        return cls.model_validate({**recorded.model_dump(), "calls": calls})


Fail = Callable[[int, str], StoreError]


def _parse_head(head: Mapping[str, Any], fail: Fail) -> tuple[RecordedModels, int]:
    """Read the line that names a repeat of a case; return it without its calls, and their number."""
    named = {key: value for key, value in head.items() if key not in ("format", "calls")}
    count = head.get("calls")
    try:
        recorded = RecordedModels.model_validate(named)
    except ValidationError as error:
        raise fail(0, f"a case that is not named: {error.errors()[0]['msg']}") from None
    if not isinstance(count, int):
        raise fail(0, "no number of calls")
    return recorded, count


def _parse_call(line: str, number: int, fail: Fail) -> RecordedModelCall:
    try:
        return RecordedModelCall.model_validate(_parse(line, number, fail))
    except ValidationError as error:
        raise fail(number, f"no recorded call: {error.errors()[0]['msg']}") from None


def _parse(line: str, number: int, fail: Fail) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        raise fail(number, "a line that is not JSON") from None
    if not isinstance(found, dict):
        raise fail(number, "a line that is no JSON object")
    return found


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "backslashreplace").decode()


class _Block(NamedTuple):
    """Where the lines of a repeat are in the file: bytes from `start` to `end`."""

    start: int
    end: int


class ModelRecording:
    """A file of recorded model calls. Opening it finds the cases; their calls are read when they are needed."""

    def __init__(self, path: Path) -> None:
        """Raise StoreError if the file cannot be read or is no recording."""
        self.path = path
        self._blocks: dict[JobKey, _Block] = {}
        try:
            with path.open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                if size:
                    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                        self._index(data, size)
        except OSError as error:
            raise make_os_error("read", path, error) from error

    def _index(self, data: mmap.mmap, size: int) -> None:
        if data[: len(_HEAD)] != _HEAD:
            raise StoreError(self.path, line=1, found="another content", expected=f"a recorded case ({FORMAT})")
        start = 0
        while start < size:
            following = data.find(b"\n" + _HEAD, start)
            end = size if following < 0 else following + 1
            first = data.find(b"\n", start, end)
            line = data[start : end if first < 0 else first].decode(errors="replace")
            self._blocks[self._read_job(line, start)] = _Block(start, end)  # the last one of a case counts
            start = end

    def _read_job(self, line: str, start: int) -> JobKey:
        fail = self._make_failure(start)
        head = _parse(line, 0, fail)
        if head["format"] != FORMAT:
            raise fail(0, f"the format {head['format']!r}, which another version may read")
        return _parse_head(head, fail)[0].job

    def _make_failure(self, start: int) -> Fail:
        """Return what makes the error of the n-th line from a byte on."""

        def fail(number: int, wrong: str) -> StoreError:
            line = 1 + number + self.path.read_bytes()[:start].count(b"\n")
            return StoreError(self.path, line=line, found=wrong, expected=f"a recorded call ({FORMAT})")

        return fail

    @property
    def jobs(self) -> Sequence[JobKey]:
        """The recorded repeats."""
        return list(self._blocks)

    def read(self, job: JobKey) -> RecordedModels | None:
        """Read the calls of a repeat; None if it is not recorded. Raises StoreError."""
        block = self._blocks.get(job)
        if block is None:
            return None
        text = self.read_lines(job).decode("utf-8", "replace")
        return RecordedModels.parse_lines(text, fail=self._make_failure(block.start))

    def read_lines(self, job: JobKey) -> bytes:
        """Read the lines of a recorded repeat as they are. Raises StoreError."""
        block = self._blocks[job]
        try:
            with self.path.open("rb") as file:
                file.seek(block.start)
                return file.read(block.end - block.start)
        except OSError as error:
            raise make_os_error("read", self.path, error) from error


def add_recording(path: Path, recorded: RecordedModels) -> None:
    """Add a repeat to a file of recorded calls. Several processes may do so. Raises StoreError."""
    try:
        with _lock(path) as file:
            if file.seek(0, os.SEEK_END):
                file.seek(-1, os.SEEK_END)
                if file.read(1) != b"\n":  # a writer was killed
                    file.write(b"\n")
            file.write(recorded.format_lines().encode())
    except OSError as error:
        raise make_os_error("write", path, error) from error


def sort_recording(path: Path) -> None:
    """Sort the cases of a file by name, and keep only the last recording of each. Raises StoreError."""
    try:
        with _lock(path):
            recording = ModelRecording(path)
            jobs = sorted(
                recording.jobs,
                key=lambda job: (job.case.target, job.case.eval_set, job.case.eval_id, job.case.occurrence, job.repeat),
            )
            write_in_pieces(path, (recording.read_lines(job).rstrip(b"\n") + b"\n" for job in jobs))
    except OSError as error:
        raise make_os_error("write", path, error) from error


@contextlib.contextmanager
def _lock(path: Path) -> Iterator[io.BufferedRandom]:
    """Open a file for one writer at a time. One that was replaced while this waited is opened again."""
    while True:
        with path.open("a+b") as file:
            with contextlib.suppress(ImportError):  # Windows
                import fcntl

                fcntl.flock(file, fcntl.LOCK_EX)
            if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                yield file
                return


class RecordingStore:
    """The newest model calls of each repeat of a case, in `.workbench/recordings.db`. Any thread may use it."""

    def __init__(self, root: Path) -> None:
        """Raise StoreError if the file cannot be opened; a damaged one is moved aside."""
        self._store = ReplyStore(root, file_name=RECORDINGS)
        self._lock = threading.Lock()

    def read(self, job: JobKey) -> RecordedModels | None:
        """Read the calls of a repeat; None if there are none that can be read. Raises StoreError."""
        with self._lock:
            text = self._store.get(_make_key(job))
        if text is None:
            return None
        try:
            return RecordedModels.parse_lines(text, fail=lambda _, wrong: StoreError(RECORDINGS, wrong))
        except StoreError:  # of another version: the model is asked again
            return None

    def write(self, recorded: RecordedModels) -> None:
        """Replace the calls of a repeat. Raises StoreError."""
        with self._lock:
            self._store.put(_make_key(recorded.job), recorded.format_lines())

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._store.close()


def _make_key(job: JobKey) -> str:
    return _dump([job.case.target, job.case.eval_set, job.case.eval_id, job.case.occurrence, job.repeat])
