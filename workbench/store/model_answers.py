"""Recorded answers on disk: the replies to judges and users by their request, and the calls of cases.

`.workbench/replies.db` and `.workbench/recordings.db` are stores of texts by key. A recording that can be committed is
a file of JSON lines with blocks: a line that names a repeat of a case and what was called (the agent's models, its
tools, or judges and users), followed by the calls, one a line.
"""

from __future__ import annotations

import contextlib
import io
import json
import mmap
import os
import sqlite3
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Generic, NamedTuple, Self, TypeVar

from pydantic import ValidationError

from workbench.model.facts import Fact
from workbench.model.identity import CaseKey, JobKey
from workbench.store.errors import StoreError, os_errors
from workbench.store.evalsets.case_reader import read_json_lines
from workbench.store.files import refuse_special_file, write_in_pieces
from workbench.store.history.history_schema import open_database

REPLIES = "replies.db"
RECORDINGS = "recordings.db"

_MAX_REPLIES = 100_000
_MAX_BYTES = 1_000_000_000
"""When the file is opened, texts beyond these limits are deleted, least recently used first."""
_COMPRESSION_LEVEL = 1
"""The default level takes twice as long for texts that are a tenth smaller."""
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
            self._note_use(key, used_at)
            return zlib.decompress(data).decode()

    def put(self, key: str, text: str) -> None:
        """Store a text under a key, replacing an earlier one. Raises StoreError."""
        row = (key, zlib.compress(text.encode(), _COMPRESSION_LEVEL), time.time())
        with self._database.transaction():
            self._database.execute("INSERT OR REPLACE INTO reply (key, data, used_at) VALUES (?, ?, ?)", row)

    def list_texts(self, begin: str) -> list[str]:
        """Return the texts whose keys begin so, the newest first. Raises StoreError."""
        with self._database.translate_errors():
            rows = self._database.execute(f"SELECT key, data, used_at FROM reply {_NEWEST}", _range(begin)).fetchall()
            if rows:
                self._note_use(rows[0][0], rows[0][2])
        return [zlib.decompress(data).decode() for _, data, _ in rows]

    def _note_use(self, key: str, used_at: float) -> None:
        now = time.time()
        if now - used_at > _USE_NOTED_AFTER:
            with contextlib.suppress(sqlite3.OperationalError):  # a file that can only be read is enough
                self._database.execute("UPDATE reply SET used_at = ? WHERE key = ?", (now, key))

    def drop_older(self, begin: str, *, keep: int) -> None:
        """Delete all but the newest texts whose keys begin so. Raises StoreError."""
        older = f"SELECT key FROM reply {_NEWEST} LIMIT -1 OFFSET ?"
        with self._database.transaction():
            self._database.execute(f"DELETE FROM reply WHERE key IN ({older})", (*_range(begin), keep))

    def drop_others(self, keys: Iterable[str]) -> None:
        """Delete all texts but those of these keys. Raises StoreError."""
        others = set(self.list_keys()).difference(keys)
        with self._database.transaction():
            self._database.execute_many("DELETE FROM reply WHERE key = ?", ((key,) for key in others))

    def list_keys(self) -> list[str]:
        """Return all keys. Raises StoreError."""
        with self._database.translate_errors():
            return [key for (key,) in self._database.execute("SELECT key FROM reply")]

    def close(self) -> None:
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


_NEWEST = "WHERE key BETWEEN ? AND ? ORDER BY used_at DESC"


def _range(begin: str) -> tuple[str, str]:
    return begin, f"{begin}{chr(sys.maxunicode)}"


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    del path
    columns = "key TEXT PRIMARY KEY, data BLOB NOT NULL, used_at REAL NOT NULL"
    connection.execute(f"CREATE TABLE IF NOT EXISTS reply ({columns}) WITHOUT ROWID")
    connection.execute("CREATE INDEX IF NOT EXISTS reply_by_use ON reply (used_at)")
    if connection.execute("SELECT count(*) FROM reply").fetchone()[0] > _MAX_REPLIES:  # the file may be read-only
        outdated = f"SELECT key FROM reply ORDER BY used_at DESC LIMIT -1 OFFSET {_MAX_REPLIES}"
        connection.execute(f"DELETE FROM reply WHERE key IN ({outdated})")
    pages, free, size = (
        connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
    )
    if (pages - free) * size > _MAX_BYTES:
        totals = "SELECT key, SUM(LENGTH(data)) OVER (ORDER BY used_at DESC) AS total FROM reply"
        connection.execute(
            f"DELETE FROM reply WHERE key IN (SELECT key FROM ({totals}) WHERE total > ?)", (_MAX_BYTES,)
        )


# Recordings: files of calls and their answers.

FORMAT = "workbench-recording-1"
_HEAD = b'{"format":"'  # with it begins the line that names a block
# Formats of earlier versions: without parts; a line for each request; a line for each case with its tool calls.
_ONLY_MODELS, _ONLY_REQUESTS, _ONLY_TOOLS = "workbench-models-1", "workbench-calls-1", "workbench-tools-1"

C = TypeVar("C", bound=Fact)


class CallKind(StrEnum):
    """What the calls of a block are."""

    MODELS = "models"  # model calls of the agent
    TOOLS = "tools"  # calls of its tools
    JUDGES = "judges"  # requests to judges, simulated users, and models that simulate tools or write scenarios


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


class _Head(Fact):
    """The line that names a block. Without a case, the calls belong to none."""

    format: str = FORMAT
    part: CallKind = CallKind.MODELS
    target: str = ""
    eval_set: str = ""
    eval_id: str = ""
    occurrence: int = 0
    repeat: int = 0
    calls: int


@dataclass(frozen=True)
class RecordedCalls(Generic[C]):
    """The calls of one part of a repeat of a case, in the order in which they began; None is no case."""

    part: CallKind
    job: JobKey | None
    calls: tuple[C, ...]

    def format_lines(self) -> str:
        """Format the lines of a file: one that names the block, and one for each call."""
        case = {} if self.job is None else self.job.case.model_dump(exclude_defaults=True)
        repeat = {"repeat": self.job.repeat} if self.job is not None and self.job.repeat else {}
        calls = [each.model_dump(mode="json", exclude_defaults=True) for each in self.calls]
        return _format_block({"part": self.part.value, **case, **repeat}, calls)

    @classmethod
    def parse_lines(cls, text: str, kind: type[C], *, fail: Fail) -> RecordedCalls[C]:
        """Parse such lines. `fail` makes the error for the n-th of them, counted from 0, and what is wrong with it."""
        first, *lines = text.rstrip("\n").split("\n")
        head = _parse_head(first, fail)
        if head.calls > len(lines):
            raise fail(len(lines), f"the end of the file after {len(lines)} of {head.calls} calls")
        calls = [_parse_call(line, kind, number, fail) for number, line in enumerate(lines[: head.calls], start=1)]
        return RecordedCalls(head.part, _get_job(head), tuple(calls))


RecordedModels = RecordedCalls[RecordedModelCall]
Fail = Callable[[int, str], StoreError]


def _parse_head(line: str, fail: Fail) -> _Head:
    data = _parse(line, 0, fail)
    if data.get("format") not in (FORMAT, _ONLY_MODELS):
        raise fail(0, f"the format {data.get('format')!r} of another version")
    if data["format"] == FORMAT and "part" not in data:
        raise fail(0, "a block without a name: part: nothing")
    try:
        return _Head.model_validate(data)
    except ValidationError as error:
        raise fail(0, f"a block without a name: {_describe_fault(error)}") from None


def _describe_fault(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    return ": ".join(filter(None, (".".join(map(str, first["loc"])), first["msg"])))


def _get_job(head: _Head) -> JobKey | None:
    if not head.target and not head.eval_id:
        return None
    case = CaseKey(target=head.target, eval_set=head.eval_set, eval_id=head.eval_id, occurrence=head.occurrence)
    return JobKey(case, head.repeat)


def _parse_call(line: str, kind: type[C], number: int, fail: Fail) -> C:
    try:
        return kind.model_validate(_parse(line, number, fail))
    except ValidationError as error:
        raise fail(number, f"no recorded call: {_describe_fault(error)}") from None


def _parse(line: str, number: int, fail: Fail) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        raise fail(number, "a line that is not JSON, perhaps because the file is cut off") from None
    if not isinstance(found, dict):
        raise fail(number, "a line that is no JSON object")
    return found


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "backslashreplace").decode()


class BlockName(NamedTuple):
    """Names a block: what its calls are, and whose."""

    part: CallKind
    job: JobKey | None

    @property
    def order(self) -> tuple[Any, ...]:
        """The place in a sorted file: all blocks of a case follow each other."""
        if self.job is None:
            return ("", self.part)
        case = self.job.case
        return case.target, case.eval_set, case.eval_id, case.occurrence, self.job.repeat, self.part


class _Place(NamedTuple):
    """Where the lines of a block are in the file: bytes from `start` to `end`."""

    start: int
    end: int


class Recording:
    """A file of recorded calls. Opening it finds the blocks; their calls are read when they are needed."""

    def __init__(self, path: Path) -> None:
        """Raise StoreError if the file cannot be read or is no recording."""
        self.path = path
        self._places: dict[BlockName, _Place] = {}
        self._converted: bytes | None = None  # the content of a file of an earlier version, as it is written now
        self._open()

    def _open(self) -> None:
        self._places.clear()
        refuse_special_file(self.path)
        with os_errors("read", self.path):
            self._converted = _convert(self.path)
            if self._converted is not None:
                self._index(self._converted)
                return
            with self.path.open("rb") as file:
                if os.fstat(file.fileno()).st_size:
                    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                        self._index(data)

    def _index(self, data: mmap.mmap | bytes) -> None:
        if data[: len(_HEAD)] != _HEAD:
            expected = f"recorded calls ({FORMAT}); name another file"
            raise StoreError(self.path, line=1, found="another content", expected=expected)
        start, size = 0, len(data)
        while start < size:
            following = data.find(b"\n" + _HEAD, start)
            end = size if following < 0 else following + 1
            first = data.find(b"\n", start, end)
            line = data[start : end if first < 0 else first].decode(errors="replace")
            if start == 0 or line.endswith("}"):  # else a writer was killed within it, and others wrote afterwards
                head = _parse_head(line, self._make_failure(start, _UNREADABLE))
                name = BlockName(head.part, _get_job(head))
                if name not in self._places or _is_whole(data[start:end], head):  # the last whole one counts
                    self._places[name] = _Place(start, end)
            start = end

    def _make_failure(self, start: int, advice: str) -> Fail:
        """Return what makes the error of the n-th line from a byte on."""

        def fail(number: int, wrong: str) -> StoreError:
            line = self._find_line(start)
            expected = f"a recorded call ({FORMAT}); {advice}"
            return StoreError(self.path, line=None if line is None else line + number, found=wrong, expected=expected)

        return fail

    def _find_line(self, start: int) -> int | None:
        """Return the number of the line that begins at a byte; None in a file of an earlier version."""
        return None if self._converted is not None else 1 + self.path.read_bytes()[:start].count(b"\n")

    def find_line(self, name: BlockName) -> int | None:
        """Return the number of the line that names a block; None in a file of an earlier version."""
        return self._find_line(self._places[name].start)

    @property
    def blocks(self) -> Sequence[BlockName]:
        return list(self._places)

    def read(self, part: CallKind, job: JobKey | None, kind: type[C]) -> RecordedCalls[C] | None:
        """Read the calls of a block, each of this kind; None if it is not recorded. Raises StoreError."""
        name = BlockName(part, job)
        for _ in range(_TRIES):
            place = self._places.get(name)
            if place is None:
                return None
            text = self.read_lines(name).decode("utf-8", "replace")
            if _names_block(text, name):
                return RecordedCalls.parse_lines(text, kind, fail=self._make_failure(place.start, _DAMAGED))
            self._open()  # another process has sorted the file
        raise StoreError(self.path, "changes all the time")

    def read_first_call(self, name: BlockName, kind: type[C]) -> C | None:
        """Read the first call of a recorded block; None if it has none that can be read. Raises StoreError."""
        _, _, rest = self.read_lines(name).partition(b"\n")
        line = rest.partition(b"\n")[0].decode(errors="replace")
        try:
            return _parse_call(line, kind, 1, lambda _, wrong: StoreError(self.path, wrong))
        except StoreError:
            return None

    def iter_part(self, part: CallKind, kind: type[C]) -> Iterator[RecordedCalls[C]]:
        """Read all blocks of a part. Raises StoreError."""
        for name in self.blocks:
            if name.part is part and (found := self.read(part, name.job, kind)) is not None:
                yield found

    def read_lines(self, name: BlockName) -> bytes:
        """Read the lines of a recorded block as they are. Raises StoreError."""
        place = self._places[name]
        if self._converted is not None:
            return self._converted[place.start : place.end]
        with os_errors("read", self.path), self.path.open("rb") as file:
            file.seek(place.start)
            return file.read(place.end - place.start)


_TRIES = 5
_DAMAGED = "restore the file, or record the case again with --record"
_UNREADABLE = "use a version of workbench that reads it, restore the file, or name another one"


def _is_whole(block: bytes, head: _Head) -> bool:
    """Return True if no writer was killed within a block."""
    lines = block.rstrip(b"\n")
    return lines.count(b"\n") >= head.calls and lines.endswith(b"}")


def _names_block(text: str, name: BlockName) -> bool:
    def fail(_: int, wrong: str) -> StoreError:
        return StoreError("", wrong)

    try:
        head = _parse_head(text.partition("\n")[0], fail)
    except StoreError:
        return False
    return BlockName(head.part, _get_job(head)) == name


def _convert(path: Path) -> bytes | None:
    """Return the content of a file of an earlier version in the present format; None if it has that. Raises StoreError.

    Such files had no blocks, and a format for each part.
    """
    with path.open("rb") as file:
        first = next(filter(bytes.strip, file), b"")
    known = next((each for each in (_ONLY_REQUESTS, _ONLY_TOOLS) if each.encode() in first[:_LONGEST_OLD_HEAD]), None)
    if known is None:
        return None
    data = [line.data for line in read_json_lines(path, format=known, what="a recorded call")]
    if known == _ONLY_REQUESTS:
        calls = [{key: value for key, value in each.items() if key != "format"} for each in data]
        return _format_block({"part": CallKind.JUDGES.value}, calls).encode()
    lines = ""
    for each in data:
        case = {key: each[key] for key in _OF_CASE if key in each}
        lines += _format_block({"part": CallKind.TOOLS.value, **case}, _read_list(path, each.get("calls", [])))
    return lines.encode()


_LONGEST_OLD_HEAD = 100  # characters before the format of a line of earlier versions
_OF_CASE = ("eval_set", "eval_id", "occurrence", "repeat")


def _read_list(path: Path, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise StoreError(path, "found calls that are no list, expected the recorded calls of a case")
    return value


def _format_block(name: Mapping[str, Any], calls: Sequence[Any]) -> str:
    head = {"format": FORMAT, **name, "calls": len(calls)}
    return "".join(f"{_dump(line)}\n" for line in (head, *calls))


def add_recording(path: Path, recorded: RecordedCalls[Any]) -> None:
    """Add a block to a file of recorded calls. Several processes may do so. Raises StoreError."""
    with os_errors("write", path), _lock(path) as file:
        if file.seek(0, os.SEEK_END):
            if (converted := _convert(path)) is not None:
                write_in_pieces(path, (converted, recorded.format_lines().encode()))
                return
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":  # a writer was killed
                file.write(b"\n")
        file.write(recorded.format_lines().encode())


def sort_recording(path: Path) -> None:
    """Sort the blocks of a file by case, and keep only the last of each name. Raises StoreError."""
    with os_errors("write", path), _lock(path):
        recording = Recording(path)
        names = sorted(recording.blocks, key=lambda name: name.order)
        write_in_pieces(path, (recording.read_lines(name).rstrip(b"\n") + b"\n" for name in names))


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


_MOST_RECORDINGS = 5  # of a repeat: so many changes of a prompt can be undone


class RecordingStore:
    """The last model calls of each repeat of a case, in `.workbench/recordings.db`. Any thread may use it.

    A repeat has a recording for each of the last prompts, so that an undone change needs no model.
    """

    def __init__(self, root: Path) -> None:
        """Raise StoreError if the file cannot be opened; a damaged one is moved aside."""
        self._store = ReplyStore(root, file_name=RECORDINGS)
        self._lock = threading.Lock()

    def read(self, job: JobKey) -> Iterator[RecordedModels]:
        """Return the recordings of a repeat, the newest first. Each is parsed when it is needed. Raises StoreError."""
        with self._lock:
            texts = self._store.list_texts(_make_key(job))
        return _iter_readable(texts)

    def list_jobs(self) -> set[JobKey]:
        """Return the repeats of cases that have calls. Raises StoreError."""
        with self._lock:
            keys = self._store.list_keys()
        named = (json.JSONDecoder().raw_decode(key)[0] for key in keys)  # the rest is the name of the recording
        return {JobKey(CaseKey(target=t, eval_set=s, eval_id=i, occurrence=n), repeat) for t, s, i, n, repeat in named}

    def write(self, job: JobKey, recorded: RecordedModels, *, name: str) -> None:
        """Store the calls of a repeat as its newest recording. It replaces one with the same name. Raises StoreError.

        The name is that of its requests.
        """
        begin = _make_key(job)
        with self._lock:
            self._store.put(f"{begin}{name}", recorded.format_lines())
            self._store.drop_older(begin, keep=_MOST_RECORDINGS)

    def close(self) -> None:
        with self._lock:
            self._store.close()


def _make_key(job: JobKey) -> str:
    return _dump([job.case.target, job.case.eval_set, job.case.eval_id, job.case.occurrence, job.repeat])


def _iter_readable(texts: Iterable[str]) -> Iterator[RecordedModels]:
    """Yield recordings without those of another version: their models are asked again."""
    for text in texts:
        with contextlib.suppress(StoreError):
            yield RecordedCalls.parse_lines(
                text, RecordedModelCall, fail=lambda _, wrong: StoreError(RECORDINGS, wrong)
            )
