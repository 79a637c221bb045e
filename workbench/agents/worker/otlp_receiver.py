"""Web servers on this machine, and the one for OpenTelemetry exporters: OTLP over HTTP, JSON and protobuf.

They run in threads with event loops of their own, because requests may arrive while the worker's loop is blocked.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import threading
from collections.abc import Mapping
from typing import Any

from aiohttp import web

from .otlp import NotInstalled, OtlpDocument, can_read_protobuf, read_json, read_protobuf
from .recording.recorder import quiet

_LARGEST = 16 * 1024 * 1024  # bytes of one request, unpacked
_MOST = 20_000  # spans that wait to be taken
_PROTOBUF = "application/x-protobuf"
_OUR_HOST = "127.0.0.1"
_END_SECONDS = 10.0  # for the thread to end
_WANTED = (
    "an exporter sent protobuf, for which opentelemetry-proto is missing: install the extra `otlp`, or have JSON sent "
    "(OTEL_EXPORTER_OTLP_PROTOCOL=http/json)"
)
_TOO_LARGE = (
    f"an exporter sent more than {_LARGEST // 1024**2} MB at once, which was refused: let it send fewer spans in a "
    "request (OTEL_BSP_MAX_EXPORT_BATCH_SIZE)"
)


class LocalServer:
    """A web server on this machine, in a thread with its own event loop."""

    def __init__(self, application: web.Application, *, name: str, port: int = 0, **options: Any) -> None:
        """Start to listen. `port` 0 is a free one, `options` are those of aiohttp. Raises OSError."""
        self.port = port
        self.loop = asyncio.new_event_loop()
        self._application = application
        self._options = options
        self._failure: OSError | None = None
        self._is_ready = threading.Event()
        with quiet:
            self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
            self._thread.start()
        self._is_ready.wait()
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        """Stop listening, and cancel what is not answered yet."""
        with contextlib.suppress(RuntimeError):  # it has stopped
            self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(_END_SECONDS)

    def _serve(self) -> None:
        with quiet:
            runner = web.AppRunner(self._application, shutdown_timeout=0.1, access_log=None, **self._options)
            try:
                self.loop.run_until_complete(runner.setup())
                self.loop.run_until_complete(web.TCPSite(runner, _OUR_HOST, self.port).start())
                self.port = runner.addresses[0][1]
            except OSError as error:
                self._failure = error
            finally:
                self._is_ready.set()
            if self._failure is None:
                self.loop.run_forever()
            self.loop.run_until_complete(runner.cleanup())
            self.loop.close()


class SpanInbox:
    """The spans received for one conversation. Created by `Receiver.inbox`; used on the event loop that waits for
    it."""

    def __init__(self, receiver: Receiver) -> None:
        self.key = secrets.token_urlsafe(16)
        """The path of its own endpoint."""
        self.trace_id = ""
        self._receiver = receiver
        self._received = OtlpDocument()
        self._lock = threading.Lock()
        self._event = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._unclaimed_before = receiver.unclaimed

    def build_environment(self, environment: Mapping[str, str]) -> dict[str, str]:
        """Build the environment of a program whose exporters send here, with short delays.

        The user's settings for metrics, logs and anything else stay.
        """
        endpoint = f"http://{_OUR_HOST}:{self._receiver.port}/{self.key}"
        usual = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint,
            "OTEL_TRACES_EXPORTER": "otlp",
            "OTEL_BSP_SCHEDULE_DELAY": "200",  # milliseconds
        }
        traces = {
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"{endpoint}/v1/traces",
            "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf" if can_read_protobuf() else "http/json",
        }
        return {**usual, **environment, **traces}

    def claim_trace(self, trace_id: str) -> None:
        """Receive the spans of this trace that arrive at the common address."""
        self.trace_id = trace_id
        self._receiver.register(self, trace_id)

    def put(self, document: OtlpDocument) -> None:
        """Add received spans. Called by the receiver's thread."""
        with self._lock:
            self._received.spans += document.spans[: max(0, _MOST - len(self._received.spans))]
            self._received.problems += document.problems[: max(0, 10 - len(self._received.problems))]
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._event.set)

    def take(self) -> OtlpDocument:
        """Return what arrived since the last call."""
        with self._lock:
            came, self._received = self._received, OtlpDocument()
        self._event.clear()
        return came

    async def wait(self) -> None:
        """Wait until something has arrived."""
        await self._event.wait()

    def describe_unclaimed(self) -> str:
        """Describe spans that arrived since and belong to no conversation; empty if there are none."""
        count = self._receiver.unclaimed - self._unclaimed_before
        self._unclaimed_before += count
        wrong = "with an unknown trace id: does the agent continue the `traceparent` that it receives?"
        return f"; {count:,} arrived {wrong}" if count else ""

    def close(self) -> None:
        self._receiver.unregister(self)


class Receiver:
    """Listens on a port while any conversation is open; 0 means a free port."""

    def __init__(self, port: int = 0) -> None:
        self.port = port
        self.unclaimed = 0
        self._wanted = port
        self._inboxes: dict[str, SpanInbox] = {}  # by key and by trace
        self._open = 0
        self._lock = threading.Lock()
        self._server: LocalServer | None = None

    def inbox(self) -> SpanInbox:
        """Return an inbox for one conversation. Raises OSError if the port is in use."""
        with self._lock:
            if self._server is None:
                self._server = LocalServer(self._create_application(), name="workbench-otlp", port=self._wanted)
                self.port = self._server.port
            inbox = SpanInbox(self)
            self._inboxes[inbox.key] = inbox
            self._open += 1
            return inbox

    def register(self, inbox: SpanInbox, trace_id: str) -> None:
        """Deliver the spans of a trace to the inbox."""
        self._inboxes[trace_id] = inbox

    def unregister(self, inbox: SpanInbox) -> None:
        """Remove an inbox; after the last one stop listening, so that another run can."""
        with self._lock:
            if self._inboxes.pop(inbox.key, None) is None:
                return
            self._inboxes.pop(inbox.trace_id, None)
            self._open -= 1
            if not self._open and self._server is not None:
                self._server.stop()
                self._server = None

    def _create_application(self) -> web.Application:
        application = web.Application(client_max_size=_LARGEST)
        for prefix in ("", "/{key}"):
            application.router.add_post(f"{prefix}/v1/traces", self._receive)
            for other in ("metrics", "logs"):  # accepted and discarded, because their exporters would report errors
                application.router.add_post(f"{prefix}/v1/{other}", _discard)
        return application

    async def _receive(self, request: web.Request) -> web.Response:
        key = request.match_info.get("key")
        own = self._inboxes.get(key) if key else None
        if key and own is None:
            return web.Response(status=404, text="this conversation is over")
        try:
            data = await request.read()
        except web.HTTPRequestEntityTooLarge:
            self._distribute(OtlpDocument(problems=[_TOO_LARGE]), own)
            raise
        if request.content_type == _PROTOBUF:
            try:
                document = read_protobuf(data)
            except NotInstalled:
                self._distribute(OtlpDocument(problems=[_WANTED]), own)
                return web.Response(status=415, text=_WANTED)
        else:
            document = _parse_json(data)
        self._distribute(document, own)
        return _acknowledge(request)

    def _distribute(self, document: OtlpDocument, own: SpanInbox | None) -> None:
        """Deliver received spans: by the address they were sent to, else by their traces."""
        if own is not None:
            own.put(document)
            return
        if not document.spans:
            strays = [f"in a request without a conversation: {problem}" for problem in document.problems]
            for inbox in set(self._inboxes.copy().values()):
                inbox.put(OtlpDocument(problems=strays))
            return
        parts: dict[str, OtlpDocument] = {}
        for span in document.spans:
            parts.setdefault(span.trace_id, OtlpDocument()).spans.append(span)
        for trace_id, part in parts.items():
            theirs = self._inboxes.get(trace_id)
            if theirs is None:
                self.unclaimed += len(part.spans)
            else:
                theirs.put(OtlpDocument(part.spans, document.problems))


def _parse_json(data: bytes) -> OtlpDocument:
    try:
        document: Any = json.loads(data)
    except (ValueError, RecursionError):
        return OtlpDocument(problems=["an exporter sent data that is neither JSON nor declared as protobuf"])
    return read_json(document)


async def _discard(request: web.Request) -> web.Response:
    await request.read()
    return _acknowledge(request)


def _acknowledge(request: web.Request) -> web.Response:
    """Return the empty answer of OTLP, in the format of the request."""
    if request.content_type == _PROTOBUF:
        return web.Response(content_type=_PROTOBUF)
    return web.json_response({})
