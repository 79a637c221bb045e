"""The engine's end of connections to workers: a listening socket, a token per expected caller, JSON lines."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import shutil
import socket
import tempfile
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from workbench.model.text import mask_data, may_hold_secret, one_line

Message = dict[str, Any]

PROTOCOL = 2
"""The version of PROTOCOL.md that both sides must speak; also in `worker.wire`."""

_LARGEST_MESSAGE = 256 * 1024 * 1024  # bytes: more is a runaway agent, and would cost the engine its memory

# Messages handled before other tasks run. If all were handled at once, their follow-ups would wait for the last one,
# and agents would run in lockstep with idle time in between.
_AT_ONCE = 10
_MOST_WAITING = 1000  # messages, above which reading pauses

_OF_AGENT = frozenset({"finished", "failed", "span", "output", "exited", "ask", "outcome"})
"""Messages with texts of the agent, in which secrets are masked. The others name dependencies, which must not
change."""

_encode = json.JSONEncoder(ensure_ascii=True, separators=(",", ":")).encode


def encode(message: Message) -> bytes:
    """Encode a message as a line. Half surrogate pairs, which UTF-8 cannot hold, are escaped."""
    return _encode(message).encode("ascii") + b"\n"


def _read(line: bytes) -> Any:
    """Parse a line; None if it is not JSON."""
    try:
        return from_json(line)
    except ValueError:  # or JSON that only Python's own parser reads, such as half surrogate pairs
        pass
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


class Channel(asyncio.Protocol):
    """One connection from a worker process.

    The first message must be a hello with an expected token. Its handler sets `on_message` and `on_closed`. `on_closed`
    gets None after an orderly end, else the problem.
    """

    def __init__(self, greet: Callable[[Channel, Message], None]) -> None:
        self._greet: Callable[[Channel, Message], None] | None = greet
        self._pending = bytearray()
        self._searched = 0
        self._lines: deque[bytes] = deque()
        self._transport: asyncio.Transport | None = None
        self._unsent: list[bytes] = []
        self._is_lost = False
        self._is_paused = False
        self._problem: str | None = None
        self.on_message: Callable[[Message], None] = lambda _: None
        self.on_closed: Callable[[str | None], None] = lambda _: None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, _: Exception | None) -> None:
        self._is_lost = True
        if not self._lines:
            self.on_closed(self._problem)

    def data_received(self, data: bytes) -> None:
        self._pending += data
        end = self._pending.rfind(b"\n", self._searched)
        if end < 0:
            self._searched = len(self._pending)
            if self._searched > _LARGEST_MESSAGE:
                self._refuse(f"a message of more than {_LARGEST_MESSAGE} bytes")
            return
        lines = bytes(self._pending[:end]).split(b"\n")
        del self._pending[: end + 1]
        self._searched = len(self._pending)
        is_dealing = bool(self._lines)
        self._lines.extend(lines)
        if not is_dealing:
            self._handle_batch()
        self._pause_reading(len(self._lines) > _MOST_WAITING)

    def _handle_batch(self) -> None:
        """Handle some of the waiting messages, and schedule the rest."""
        try:
            for _ in range(min(len(self._lines), _AT_ONCE)):
                self._receive(self._lines.popleft())
        except BaseException:  # a bug of ours must be visible, and cost only this connection
            self._refuse("a message that workbench failed to handle")
            raise
        finally:
            if self._problem is not None:
                self._lines.clear()
            self._pause_reading(self._is_paused and len(self._lines) > _AT_ONCE)
            if self._lines:
                asyncio.get_running_loop().call_soon(self._handle_batch)
            elif self._is_lost:
                self.on_closed(self._problem)

    def _pause_reading(self, is_paused: bool) -> None:
        """Make the process wait while it sends more than we can handle."""
        if is_paused != self._is_paused and self._transport is not None and not self._is_lost:
            self._is_paused = is_paused
            if is_paused:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()

    def _receive(self, line: bytes) -> None:
        if self._problem is not None:
            return
        message = _read(line)
        if not isinstance(message, dict) or not isinstance(message.get("type"), str):
            self._refuse("data that is not a protocol message")
            return
        if message["type"] in _OF_AGENT and may_hold_secret(line):
            message = mask_data(message)
        if self._greet is not None:
            greet, self._greet = self._greet, None
            self._handle(greet, self, message)
        else:
            self._handle(self.on_message, message)

    def _handle(self, handler: Callable[..., None], *arguments: Any) -> None:
        """Call a handler. A malformed message ends this connection and affects nothing else."""
        try:
            handler(*arguments)
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            self._refuse(f"an invalid message ({type(error).__name__}: {one_line(str(error), width=100)})")

    def _refuse(self, problem: str) -> None:
        self._problem = problem
        self.close()

    def send(self, *messages: Message) -> None:
        """Send messages, combined with all others of this round of the event loop: waking the process costs more than a
        message.

        Messages to a process that is gone are lost; `on_closed` reports that.
        """
        if not self._unsent:
            asyncio.get_running_loop().call_soon(self._write)
        self._unsent += map(encode, messages)

    def _write(self) -> None:
        unsent, self._unsent = self._unsent, []
        if unsent and self._transport is not None:
            self._transport.write(b"".join(unsent))

    def close(self) -> None:
        """Close at once, without waiting for unread data."""
        self._write()
        if self._transport is not None:
            self._transport.abort()


class ChannelListener:
    """The socket that workers connect to: Unix in a private folder, or loopback TCP where that does not exist."""

    def __init__(self) -> None:
        self._expected: dict[str, Callable[[Channel, Message], None]] = {}
        self._folder: Path | None = None
        self._server: asyncio.Server | None = None
        self.address: list[Any] = []

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        listening = self._open_unix_socket() if hasattr(socket, "AF_UNIX") else None
        if listening is None:
            listening = socket.create_server(("127.0.0.1", 0))
            self.address = ["tcp", *listening.getsockname()[:2]]
        self._server = await loop.create_server(lambda: Channel(self._greet), sock=listening, backlog=512)

    def _open_unix_socket(self) -> socket.socket | None:
        for parent in (None, "/tmp"):
            with contextlib.suppress(OSError):
                folder = Path(tempfile.mkdtemp(prefix="workbench-", dir=parent))  # readable only by this user
                listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                try:
                    listening.bind(str(folder / "socket"))
                except OSError:  # the path is too long, the disk full, or the file system holds no sockets
                    listening.close()
                    shutil.rmtree(folder, ignore_errors=True)
                    raise
                self._folder, self.address = folder, ["unix", str(folder / "socket")]
                return listening
        return None

    def token(self) -> str:
        return secrets.token_hex(16)

    def expect(self, token: str, on_hello: Callable[[Channel, Message], None]) -> None:
        """Call `on_hello` when a process connects with the token."""
        self._expected[token] = on_hello

    def forget(self, token: str) -> None:
        """Stop expecting the process with this token."""
        self._expected.pop(token, None)

    def _greet(self, channel: Channel, message: Message) -> None:
        on_hello = self._expected.get(str(message.get("token")))
        if message["type"] != "hello" or on_hello is None or message.get("protocol") != PROTOCOL:
            channel.close()
            return
        on_hello(channel, message)

    async def close(self) -> None:
        """Stop listening and remove the socket."""
        if self._server is not None:
            self._server.close()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
