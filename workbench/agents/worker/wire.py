"""Messages between a worker process and the engine: JSON lines in UTF-8 on a socket of our own. See PROTOCOL.md."""

from __future__ import annotations

import json
import os
import socket
from _thread import allocate_lock

from .json_safe import make_json_safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


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
