"""Messages between a worker process and the engine: JSON lines in UTF-8 on a socket of our own. See PROTOCOL.md.

Values of agents that messages must hold are described, checked and converted here.
"""

from __future__ import annotations

import json
import math
import os
import socket
from _thread import allocate_lock

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

    Half surrogate pairs become U+FFFD, because UTF-8 cannot hold them, but in dependencies they are escaped: names of
    files have them. Other values that JSON cannot hold become text (see `make_json_safe`); adapters refuse them first
    where that would lose data.
    """
    try:
        text = _to_json(message)
    except (TypeError, ValueError, RecursionError):
        text = _to_json(make_json_safe(message))
    try:
        return text.encode() + b"\n"
    except UnicodeEncodeError:
        if message.get("type") == "dependencies":
            return json.dumps(message).encode() + b"\n"
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


# Values of agents.

UNNAMED_ARGUMENT = "__arg1"  # LangChain's name for the argument of a tool that takes one text, or another plain value
CUSTOM = ("custom", "custom_tool_call")  # OpenAI's types of calls whose `input` is such a text, and never JSON

_DEEPEST = 100  # levels of nesting, fewer than the engine's reader accepts
_LONGEST_NUMBER = 14_000  # bits of an integer


def _is_too_long(number: int) -> bool:
    """Return True if Python refuses to write the number in digits (from 4,300 digits, about 14,284 bits)."""
    return int.bit_length(number) > _LONGEST_NUMBER


def describe(value: Any) -> str:
    """Describe a value for a message: its type, and the value if it is short."""
    if value is None:
        return "None"
    kind = type(value)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    article = "an" if name[0] in "aeiou" else "a"
    if isinstance(value, dict):
        keys = ", ".join(sorted(str(key) for key in value)[:12])
        return f"a dict with the keys {keys}" if keys else "an empty dict"
    if kind in (bool, int, float, str, bytes):
        if kind is int and _is_too_long(value):
            return f"an int of more than {_LONGEST_NUMBER} bits"
        text = repr(value)
        return f"{article} {name} ({text if len(text) <= 60 else text[:57] + '...'})"
    return f"{article} {name}"


def parse_text(value: Any) -> Any:
    """Parse text that is JSON, such as tool inputs of Vertex AI, and turn empty text into None."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value or None


def explain_unfit(value: Any, place: str, depth: int = 0) -> str | None:
    """Return where and why JSON cannot hold a value, as one clause; None if it can."""
    if value is None or isinstance(value, (str, bool)):
        return None
    if isinstance(value, int):
        return (
            f"{place} is an int of more than {_LONGEST_NUMBER} bits, which JSON readers refuse"
            if _is_too_long(value)
            else None
        )
    if isinstance(value, float):
        return None if math.isfinite(value) else f"{place} is {value!r}, which JSON cannot hold"
    if depth > _DEEPEST:
        return f"{place} is nested more than {_DEEPEST} levels deep"
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, (str, int, float, bool, type(None))):
                return f"{place} has {describe(key)} as a key, expected a str"
            found = explain_unfit(item, f"{place}.{key}", depth + 1)
            if found:
                return found
        return None
    if isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            found = explain_unfit(item, f"{place}[{index}]", depth + 1)
            if found:
                return found
        return None
    return f"{place} is {describe(value)}, which JSON cannot hold"


def make_json_safe(value: Any, depth: int = 0) -> Any:
    """Replace what JSON cannot hold by text. For values that are shown, not judged (spans, session state)."""
    if value is None or isinstance(value, (str, bool)):
        return value
    if isinstance(value, int):
        return hex(value)[:1000] + "..." if _is_too_long(value) else value
    if isinstance(value, float):
        return value if math.isfinite(value) else repr(value)
    if depth <= _DEEPEST:
        if isinstance(value, dict):
            return {str(make_json_safe(key)): make_json_safe(item, depth + 1) for key, item in value.items()}
        if isinstance(value, (list, tuple, set, frozenset)):
            return [make_json_safe(item, depth + 1) for item in value]
    try:
        text = repr(value)
    except Exception:  # the agent's own __repr__
        text = f"<{type(value).__qualname__}>"
    return text if len(text) <= 1000 else text[:997] + "..."
