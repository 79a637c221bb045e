"""Messages between a worker process and the engine: JSON lines in UTF-8 on a socket of our own. See PROTOCOL.md."""

from __future__ import annotations

import json
import os
import socket
from _thread import allocate_lock

from .json_safe import make_json_safe
from .recording import hooks
from .recording.recorder import quiet

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .recording.recorder import Row


PROTOCOL = 2
"""Incremented whenever an earlier engine or worker would misunderstand."""

_to_json = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


def encode(message: dict[str, Any]) -> bytes:
    """Encode the message as one line.

    Half surrogate pairs become U+FFFD, because UTF-8 cannot hold them. Other values that JSON cannot hold become text
    (see `make_json_safe`); adapters refuse them first where that would lose data.
    """
    try:
        text = _to_json(message)
    except (TypeError, ValueError, RecursionError):
        text = _to_json(make_json_safe(message))
    try:
        return text.encode() + b"\n"
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode() + b"\n"


def connect(address: list[Any]) -> socket.socket:
    """Connect to the engine; `address` is `["unix", path]` or `["tcp", host, port]`."""
    if address[0] == "unix":
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.connect(address[1])
    else:
        connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        connection.connect((address[1], address[2]))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def remove_socket(address: list[Any]) -> None:
    """Remove the engine's socket and its folder. The engine removes them itself unless it was killed."""
    if address[0] == "unix":
        try:
            os.unlink(address[1])
            os.rmdir(os.path.dirname(address[1]))
        except OSError:
            return


def hello(role: str, token: str) -> dict[str, Any]:
    """Build the first message of a connection, which identifies the process."""
    return {"type": "hello", "protocol": PROTOCOL, "role": role, "token": token, "pid": os.getpid()}


class LineReader:
    """Parses bytes into messages as they arrive."""

    def __init__(self) -> None:
        self._pending: list[bytes] = []

    def feed(self, data: bytes) -> list[dict[str, Any]]:
        """Return the messages that `data` completes."""
        if b"\n" not in data:
            self._pending.append(data)
            return []
        *lines, rest = b"".join((*self._pending, data)).split(b"\n")
        self._pending = [rest] if rest else []
        return [json.loads(line) for line in lines]


class Wire:
    """A blocking connection to the engine. Any thread may send."""

    def __init__(self, address: list[Any], *, first: list[dict[str, Any]] | None = None) -> None:
        """Connect. `first` are messages that arrived before there was a connection."""
        self._socket = connect(address)
        self._reader = LineReader()
        self._received = list(first or ())
        self._queued: list[bytes] = []
        self._sending = allocate_lock()

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()

    def queue(self, message: dict[str, Any]) -> None:
        """Queue a message, to be sent with the next one."""
        self.queue_line(encode(message))

    def queue_line(self, line: bytes) -> None:
        """Queue an encoded message."""
        with self._sending:
            self._queued.append(line)

    def send(self, message: dict[str, Any]) -> None:
        """Send queued messages and this one."""
        self.queue(message)
        self.flush()

    def flush(self) -> None:
        """Send queued messages."""
        with self._sending:
            data = b"".join(self._queued)
            self._queued = []
            self._socket.sendall(data)

    def try_send(self, lines: list[bytes]) -> bool:
        """Send queued messages and lines; return False if another thread is sending or queueing."""
        if not self._sending.acquire(timeout=0.02):
            return False
        try:
            self._socket.sendall(b"".join((*self._queued, *lines)))
            self._queued = []
        except OSError:
            return False
        finally:
            self._sending.release()
        return True

    def receive(self) -> dict[str, Any] | None:
        """Return the next message; None when the engine is gone."""
        while not self._received:
            if not self.fill():
                return None
        return self._received.pop(0)

    def fill(self) -> bool:
        """Wait for bytes and read them; return False when the engine is gone."""
        try:
            data = self._socket.recv(1 << 18)
        except ConnectionError:
            return False
        self._received += self._reader.feed(data)
        return bool(data)

    def take_received(self) -> list[dict[str, Any]]:
        """Return the messages received so far, and forget them."""
        messages, self._received = self._received, []
        return messages


# Reports of recorded dependencies: the `dependencies` messages of PROTOCOL.md.

_inherited: tuple[int, int, bytes] | None = None
"""The first report of all children: edition, position, and an encoded message without a session."""


def encode_inherited() -> None:
    """Encode the recorded rows before a fork. Doing it in each child would copy many memory pages."""
    global _inherited  # noqa: PLW0603 - there is one process
    recorder = hooks.get_recorder()
    if recorder is not None:
        rows, position = recorder.get_rows_before_fork()
        _inherited = (recorder.edition, position, encode(_make_message(None, rows, complete=False, tainted=None)))


class DependencyReporter:
    """Reports new rows to each session, including actions of other sessions in the same process."""

    def __init__(self) -> None:
        recorder = hooks.get_recorder()
        assert recorder is not None, "a process records before it serves"
        self._recorder = recorder
        self._positions: dict[int, int] = {}

    def add_agent_writes(self, request: dict[str, Any]) -> None:
        """Take over from the first message of a session what agents wrote earlier."""
        left = request.get("left") or {}
        self._recorder.add_agent_writes(left.get("there", {}), gone=left.get("gone", {}))

    def encode_messages(self, session: int, *, complete: bool = False) -> list[bytes]:
        """Return encoded messages. The first message of a session is preceded by the rows from before the fork."""
        lines = []
        if session not in self._positions and _inherited is not None and _inherited[0] == self._recorder.edition:
            _, self._positions[session], line = _inherited
            lines.append(line.replace(b'"session":null', b'"session":%d' % session, 1))
        return [*lines, encode(self.build_message(session, complete=complete))]

    def build_message(self, session: int, *, complete: bool = False) -> dict[str, Any]:
        """Build the message with the new rows of a session. With `complete` it is the last one."""
        with quiet:
            rows, self._positions[session] = self._recorder.read_rows(self._positions.get(session, 0))
            if complete:
                del self._positions[session]
                rows = [*rows, *self._recorder.build_final_rows()]
        return _make_message(session, rows, complete=complete, tainted=self._recorder.tainted)


def _make_message(session: int | None, rows: list[Row], *, complete: bool, tainted: str | None) -> dict[str, Any]:
    return {"type": "dependencies", "session": session, "complete": complete, "rows": rows, "tainted": tainted}
