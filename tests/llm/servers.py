"""Local servers that speak the protocols of model providers, over real HTTP: what they say, a test decides."""

from __future__ import annotations

import json
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs


@dataclass
class Call:
    """A request as it arrived."""

    path: str

    headers: dict[str, str]
    body: dict[str, Any]


@dataclass
class Said:
    """What the server says to one request. Text as `body` is sent as it is, whatever it is."""

    body: dict[str, Any] | str
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    """How long it thinks."""


Answer = Callable[[Call], Said]


class Server:
    """A server on a port of its own."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.calls: list[Call] = []
        self.most_at_a_time = 0
        self._running = 0
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def serve(self) -> None:
        self._server.serve_forever(poll_interval=0.01)

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # headers and body are sent apart: the body would wait 40 ms

            def do_POST(self) -> None:
                data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                server._say(
                    self,
                    Call(self.path, {name.lower(): value for name, value in self.headers.items()}, _body(data)),
                )

            do_GET = do_POST  # noqa: N815 - as http.server wants it

            def log_message(self, *_: Any) -> None:
                pass

        return Handler

    def _say(self, handler: BaseHTTPRequestHandler, call: Call) -> None:
        with self._lock:
            self.calls.append(call)
            self._running += 1
            self.most_at_a_time = max(self.most_at_a_time, self._running)
        try:
            said = self.answer(call)
            time.sleep(said.seconds)
        finally:
            with self._lock:
                self._running -= 1
        data = (said.body if isinstance(said.body, str) else json.dumps(said.body)).encode()
        handler.send_response(said.status)
        for name, value in {"Content-Type": "application/json", **said.headers}.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data)


def _body(data: bytes) -> dict[str, Any]:
    """The JSON of a request, or of a form its fields."""
    try:
        body: dict[str, Any] = json.loads(data)
    except ValueError:
        return {name: values[0] for name, values in parse_qs(data.decode()).items()}
    return body


@contextmanager
def serving(answer: Answer) -> Iterator[Server]:
    """A server that runs meanwhile."""
    server = Server(answer)
    thread = threading.Thread(target=server.serve, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.stop()
        thread.join()


def free_port() -> int:
    """A port of this machine that nobody listens at."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


@contextmanager
def hanging_up() -> Iterator[tuple[str, list[Any]]]:
    """A server that closes every connection without an answer: its address, and who has connected."""
    connections: list[Any] = []

    class HangUp(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            connections.append(self.client_address)
            self.request.recv(100_000)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), HangUp) as server:
        thread = threading.Thread(target=partial(server.serve_forever, poll_interval=0.01), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}", connections
        finally:
            server.shutdown()
            thread.join()


def gemini(text: str, *, finish: str = "STOP", thoughts: str = "", **said: Any) -> Said:
    """An answer as `generateContent` of the Gemini API gives it."""
    parts = [*([{"text": thoughts, "thought": True}] if thoughts else []), *([{"text": text}] if text else [])]
    usage = {"promptTokenCount": 7, "candidatesTokenCount": 3, "thoughtsTokenCount": 2, "totalTokenCount": 12}
    body = {
        "candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": finish, "index": 0}],
        "usageMetadata": usage,
        "modelVersion": "gemini-test-001",
    }
    return Said(body, **said)


def gemini_error(status: int, message: str, *, retry_delay: str | None = None, **said: Any) -> Said:
    """An error as Google's services give it."""
    info = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": retry_delay}
    names = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 404: "NOT_FOUND", 429: "RESOURCE_EXHAUSTED"}
    error = {"code": status, "message": message, "status": names.get(status, "INTERNAL")}
    return Said({"error": {**error, "details": [info] if retry_delay else []}}, status=status, **said)


def openai(text: str | None, *, finish: str = "stop", **said: Any) -> Said:
    """An answer as chat completions of the OpenAI API are."""
    body = {
        "id": "c1",
        "object": "chat.completion",
        "created": 1,
        "model": "local-1",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish}],
        "usage": {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7},
    }
    return Said(body, **said)


def openai_error(status: int, message: str, *, code: str | None = None, **said: Any) -> Said:
    """An error as the OpenAI API gives it."""
    return Said({"error": {"message": message, "type": code or "error", "code": code}}, status=status, **said)
