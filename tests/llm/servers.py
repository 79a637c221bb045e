"""Local HTTP servers that speak the protocols of model providers, with answers of a test."""

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
    """A received request."""

    path: str

    headers: dict[str, str]
    body: dict[str, Any]


@dataclass
class HttpResponse:
    """The response to one request. A `body` of text is sent unchanged."""

    body: dict[str, Any] | str
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    """Delay before the response."""


Answer = Callable[[Call], HttpResponse]

_used_ports: set[int] = set()


class Server:
    """A server on its own port."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.calls: list[Call] = []
        self.max_parallel_calls = 0
        self._running = 0
        self._lock = threading.Lock()
        self._server = self._bind()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def _bind(self) -> ThreadingHTTPServer:
        """Use each port once: replies are cached by address, and the system may give the port of an earlier server."""
        server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        while server.server_port in _used_ports:
            server.server_close()
            server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        _used_ports.add(server.server_port)
        return server

    def serve(self) -> None:
        self._server.serve_forever(poll_interval=0.01)

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # headers and body are separate packets: the body would wait 40 ms

            def do_POST(self) -> None:
                data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                server._respond(
                    self,
                    Call(self.path, {name.lower(): value for name, value in self.headers.items()}, _parse_body(data)),
                )

            do_GET = do_POST  # noqa: N815 - required by http.server

            def log_message(self, *_: Any) -> None:
                pass

        return Handler

    def _respond(self, handler: BaseHTTPRequestHandler, call: Call) -> None:
        with self._lock:
            self.calls.append(call)
            self._running += 1
            self.max_parallel_calls = max(self.max_parallel_calls, self._running)
        try:
            response = self.answer(call)
            time.sleep(response.seconds)
        finally:
            with self._lock:
                self._running -= 1
        data = (response.body if isinstance(response.body, str) else json.dumps(response.body)).encode()
        handler.send_response(response.status)
        for name, value in {"Content-Type": "application/json", **response.headers}.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data)


def _parse_body(data: bytes) -> dict[str, Any]:
    """Parse the JSON of a request, or the fields of a form."""
    try:
        body: dict[str, Any] = json.loads(data)
    except ValueError:
        return {name: values[0] for name, values in parse_qs(data.decode()).items()}
    return body


_ASKING_AGENT = """
import httpx

def answer(prompt):
    body = {{"model": "m", "messages": [*{messages!r}, {{"role": "user", "content": prompt}}]}}
    said = httpx.post("{url}/v1/chat/completions", json=body).json()
    return {{"response": said["choices"][0]["message"]["content"], "predicted_trajectory": []}}
"""


def make_asking_agent(url: str, *, instruction: str | None = None) -> str:
    """Return the code of a function agent that says what the model `m` of a server says to each prompt."""
    messages = [] if instruction is None else [{"role": "system", "content": instruction}]
    return _ASKING_AGENT.format(url=url, messages=messages)


@contextmanager
def run_server(answer: Answer) -> Iterator[Server]:
    """Run a server inside the context."""
    server = Server(answer)
    thread = threading.Thread(target=server.serve, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.stop()
        thread.join()


def find_free_port() -> int:
    """Return an unused local port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def run_hanging_up_server() -> Iterator[tuple[str, list[Any]]]:
    """Run a server that closes every connection without an answer; yield its address and its clients."""
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


def gemini(text: str, *, finish: str = "STOP", thoughts: str = "", **response: Any) -> HttpResponse:
    """Return a response of `generateContent` of the Gemini API."""
    parts = [*([{"text": thoughts, "thought": True}] if thoughts else []), *([{"text": text}] if text else [])]
    usage = {"promptTokenCount": 7, "candidatesTokenCount": 3, "thoughtsTokenCount": 2, "totalTokenCount": 12}
    body = {
        "candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": finish, "index": 0}],
        "usageMetadata": usage,
        "modelVersion": "gemini-test-001",
    }
    return HttpResponse(body, **response)


def gemini_error(status: int, message: str, *, retry_delay: str | None = None, **response: Any) -> HttpResponse:
    """Return an error of Google's services."""
    info = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": retry_delay}
    names = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 404: "NOT_FOUND", 429: "RESOURCE_EXHAUSTED"}
    error = {"code": status, "message": message, "status": names.get(status, "INTERNAL")}
    return HttpResponse({"error": {**error, "details": [info] if retry_delay else []}}, status=status, **response)


def openai(text: str | None, *, finish: str = "stop", **response: Any) -> HttpResponse:
    """Return a response of the chat completions of the OpenAI API."""
    body = {
        "id": "c1",
        "object": "chat.completion",
        "created": 1,
        "model": "local-1",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish}],
        "usage": {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7},
    }
    return HttpResponse(body, **response)


def openai_error(status: int, message: str, *, code: str | None = None, **response: Any) -> HttpResponse:
    """Return an error of the OpenAI API."""
    return HttpResponse(
        {"error": {"message": message, "type": code or "error", "code": code}}, status=status, **response
    )
