"""The protocol: messages on the wire, and the values in them."""

from __future__ import annotations

import json
import math
import os
import socket
from _thread import allocate_lock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional


# Values from agents, held against what JSON can carry.

UNNAMED_ARGUMENT = "__arg1"  # LangChain's name for the argument of a tool that takes one text, or another plain value
CUSTOM = ("custom", "custom_tool_call")  # OpenAI's types of calls whose `input` is such a text, and never JSON

_DEEPEST = 100  # levels of nesting; the engine's reader and people's patience end somewhere behind
_LONGEST_NUMBER = 14_000  # bits of an integer


def _is_endless(number: int) -> bool:
    """Whether Python refuses to write the number in digits, as it does from 4,300 on (about 14,284 bits)."""
    return int.bit_length(number) > _LONGEST_NUMBER


def describe(value: Any) -> str:
    """What a value is, for a message: its type, and the value where it is short."""
    if value is None:
        return "None"
    kind = type(value)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    article = "an" if name[0] in "aeiou" else "a"
    if isinstance(value, dict):
        keys = ", ".join(sorted(str(key) for key in value)[:12])
        return f"a dict with the keys {keys}" if keys else "an empty dict"
    if kind in (bool, int, float, str, bytes):
        if kind is int and _is_endless(value):
            return f"an int of more than {_LONGEST_NUMBER} bits"
        text = repr(value)
        return f"{article} {name} ({text if len(text) <= 60 else text[:57] + '...'})"
    return f"{article} {name}"


def parse_text(value: Any) -> Any:
    """Replace text that is JSON by what it says, as Vertex AI sends inputs of tools, and empty text by None."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value or None


def unfit(value: Any, place: str, depth: int = 0) -> Optional[str]:
    """Where and why JSON cannot hold a value, as one clause; None where it can."""
    if value is None or isinstance(value, (str, bool)):
        return None
    if isinstance(value, int):
        return (
            f"{place} is an int of more than {_LONGEST_NUMBER} bits, which JSON readers refuse"
            if _is_endless(value)
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
            found = unfit(item, f"{place}.{key}", depth + 1)
            if found:
                return found
        return None
    if isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            found = unfit(item, f"{place}[{index}]", depth + 1)
            if found:
                return found
        return None
    return f"{place} is {describe(value)}, which JSON cannot hold"


def lenient(value: Any, depth: int = 0) -> Any:
    """The value with whatever JSON cannot hold as text: for what is shown, not judged (spans, session state)."""
    if value is None or isinstance(value, (str, bool)):
        return value
    if isinstance(value, int):
        return hex(value)[:1000] + "..." if _is_endless(value) else value
    if isinstance(value, float):
        return value if math.isfinite(value) else repr(value)
    if depth <= _DEEPEST:
        if isinstance(value, dict):
            return {str(lenient(key)): lenient(item, depth + 1) for key, item in value.items()}
        if isinstance(value, (list, tuple, set, frozenset)):
            return [lenient(item, depth + 1) for item in value]
    try:
        text = repr(value)
    except Exception:  # the agent's own __repr__
        text = f"<{type(value).__qualname__}>"
    return text if len(text) <= 1000 else text[:997] + "..."


# Messages between a worker process and the engine: UTF-8 JSON lines on a socket of our own. See PROTOCOL.md.

PROTOCOL = 1
"""Raised by one whenever an engine or worker of before would misunderstand."""

_to_json = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


def encode(message: Dict[str, Any]) -> bytes:
    """The message as one line.

    Half surrogate pairs become U+FFFD: no UTF-8 holds them. What JSON cannot hold becomes text (see `values.lenient`);
    where that would be a loss, the adapter has refused it before.
    """
    try:
        text = _to_json(message)
    except (TypeError, ValueError, RecursionError):
        text = _to_json(lenient(message))
    try:
        return text.encode() + b"\n"
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode() + b"\n"


def connect(address: List[Any]) -> socket.socket:
    """A socket to the engine; `address` is `["unix", path]` or `["tcp", host, port]`."""
    if address[0] == "unix":
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.connect(address[1])
    else:
        connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        connection.connect((address[1], address[2]))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def remove_socket(address: List[Any]) -> None:
    """Take away the engine's socket and its folder: the engine did, unless it was killed."""
    if address[0] == "unix":
        try:
            os.unlink(address[1])
            os.rmdir(os.path.dirname(address[1]))
        except OSError:
            return


def hello(role: str, token: str) -> Dict[str, Any]:
    """The first message on every connection: who speaks, and that it may."""
    return {"type": "hello", "protocol": PROTOCOL, "role": role, "token": token, "pid": os.getpid()}


class LineReader:
    """Turns bytes, as they come, into messages."""

    def __init__(self) -> None:
        self._pending: List[bytes] = []

    def feed(self, data: bytes) -> List[Dict[str, Any]]:
        """The messages that `data` completes."""
        if b"\n" not in data:
            self._pending.append(data)
            return []
        *lines, rest = b"".join((*self._pending, data)).split(b"\n")
        self._pending = [rest] if rest else []
        return [json.loads(line) for line in lines]


class Wire:
    """A blocking connection to the engine, for processes that do one thing at a time. Any thread may send."""

    def __init__(self, address: List[Any], *, first: Optional[List[Dict[str, Any]]] = None) -> None:
        """Connect. `first` are messages that came on another way before there was a connection."""
        self._socket = connect(address)
        self._reader = LineReader()
        self._received = list(first or ())
        self._queued: List[bytes] = []
        self._sending = allocate_lock()

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()

    def queue(self, message: Dict[str, Any]) -> None:
        """Send with the next message."""
        self.queue_line(encode(message))

    def queue_line(self, line: bytes) -> None:
        """The same for a message that is encoded already."""
        with self._sending:
            self._queued.append(line)

    def send(self, message: Dict[str, Any]) -> None:
        """Send now, what was queued before it."""
        self.queue(message)
        self.flush()

    def flush(self) -> None:
        """Send what is queued."""
        with self._sending:
            data = b"".join(self._queued)
            self._queued = []
            self._socket.sendall(data)

    def try_send(self, lines: List[bytes]) -> bool:
        """Send lines now, behind what is queued; False if another message is being sent or queued."""
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

    def receive(self) -> Optional[Dict[str, Any]]:
        """The next message; None when the engine is gone."""
        while not self._received:
            if not self.fill():
                return None
        return self._received.pop(0)

    def fill(self) -> bool:
        """Wait for bytes and read them; whether the engine is still there."""
        try:
            data = self._socket.recv(1 << 18)
        except ConnectionError:
            return False
        self._received += self._reader.feed(data)
        return bool(data)

    def received(self) -> List[Dict[str, Any]]:
        """The messages that are here already."""
        messages, self._received = self._received, []
        return messages
