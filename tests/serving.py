"""Local web servers: with handlers of a test, and one that speaks the protocols of models."""

from __future__ import annotations

import gzip
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class QuietHandler(BaseHTTPRequestHandler):
    """A handler that does not log requests."""

    def log_message(self, *_: Any) -> None:
        """Override the base class, which prints."""


@contextmanager
def run_http_server(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """Run a server with this handler and yield its address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


class ModelServer:
    """A server that speaks the protocols of OpenAI and Gemini, whatever the path before theirs.

    It numbers its answers, and repeats in each what authorized the request. `failures` are statuses of the next
    answers.
    """

    def __init__(self, secret: str) -> None:
        self.url = ""
        self.count = 0
        self.paths: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.failures: list[int] = []
        self.seconds = 0.0
        """Delay before each answer."""
        self.pause_seconds = 0.0
        """Delay between the events of a stream."""
        self.compresses = False
        self.streams = False
        self.cuts = False
        """Close the connection in the middle of each answer."""
        self.was_left = threading.Event()
        """Set when a client has left before the end of an answer."""
        self._secret = secret
        self._lock = threading.Lock()

    def handler(server) -> type[QuietHandler]:  # noqa: N805 - `self` is the handler's
        class Handler(QuietHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_GET(self) -> None:
                with server._lock:
                    server.count += 1
                    server.paths.append(self.path)
                data = json.dumps({"models": [self.path]}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                if self.command == "GET":
                    self.wfile.write(data)

            do_HEAD = do_GET  # noqa: N815 - required by http.server

            def do_POST(self) -> None:
                body = json.loads(self.read_body())
                with server._lock:
                    server.count += 1
                    number = server.count
                    server.paths.append(self.path)
                    server.headers.append({name.lower(): value for name, value in self.headers.items()})
                    status = server.failures.pop(0) if server.failures else 200
                time.sleep(server.seconds)
                try:
                    self.answer(status, _write_events(self.path, body, f"{number}: é", self.headers))
                except OSError:
                    server.was_left.set()

            def answer(self, status: int, events: list[dict[str, Any]]) -> None:
                is_stream = server.streams or "alt=sse" in self.path
                self.send_response(status)
                self.send_header("Content-Type", "text/event-stream" if is_stream else "application/json")
                self.send_header("Set-Cookie", f"session={server._secret}")
                if server.compresses:
                    self.send_header("Content-Encoding", "gzip")
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                texts = [json.dumps(event, ensure_ascii=False) for event in events]
                if is_stream:
                    ends = [] if "alt=sse" in self.path else ["data: [DONE]\n\n", ": the end\n\n"]
                    texts = [*(f"data: {text}\n\n" for text in texts), *ends]
                if server.compresses:
                    self.send_pieces(gzip.compress("".join(texts).encode()))
                    texts = []
                for number, text in enumerate(texts):
                    time.sleep(server.pause_seconds if number else 0)
                    self.send_pieces(text.encode())
                    if server.cuts:
                        self.close_connection = True
                        return
                self.wfile.write(b"0\r\n\r\n")

            def send_pieces(self, data: bytes) -> None:
                size = max(11, len(data) // 100)
                for start in range(0, len(data), size):
                    piece = data[start : start + size]
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))

            def read_body(self) -> bytes:
                if "Content-Length" in self.headers:
                    return self.rfile.read(int(self.headers["Content-Length"]))
                data = b""
                while size := int(self.rfile.readline(), 16):
                    data += self.rfile.read(size)
                    self.rfile.readline()
                self.rfile.readline()
                return data

        return Handler


def _write_events(path: str, body: dict[str, Any], begin: str, headers: Any) -> list[dict[str, Any]]:
    """Return the answer in the protocol of the request; as a stream of Gemini it has three events."""
    if "contents" in body:
        said = f"{begin} {body['contents'][-1]['parts'][0]['text']}"
        words = said.partition(" ") if "stream" in path else [said]
        usage = {"promptTokenCount": 5, "candidatesTokenCount": 2, "totalTokenCount": 7}
        return [
            {
                "candidates": [{"content": {"role": "model", "parts": [{"text": word}]}, "finishReason": "STOP"}],
                "usageMetadata": usage,
                "modelVersion": f"for {headers['x-goog-api-key']}",
            }
            for word in words
        ]
    choice = {"message": {"role": "assistant", "content": f"{begin} {body['messages'][-1]['content']}"}}
    return [{"choices": [choice], "debug": f"for {headers['Authorization']}"}]


@contextmanager
def run_model_server(*, secret: str) -> Iterator[ModelServer]:
    """Run a server of models, which sends `secret` as a cookie."""
    server = ModelServer(secret)
    with run_http_server(server.handler()) as url:
        server.url = url
        yield server
