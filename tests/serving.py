"""Local web servers with handlers of a test."""

from __future__ import annotations

import threading
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
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
