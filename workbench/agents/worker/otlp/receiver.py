"""An endpoint on this machine that exporters of OpenTelemetry send spans to: OTLP over HTTP, JSON and protobuf.

It lives in a thread with an event loop of its own: spans may come while the worker's loop stands still, between turns.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import threading
from collections.abc import Mapping
from typing import Any

from aiohttp import web

from ..recording.recorder import quiet
from .reading import NotInstalled, Told, read_json, read_protobuf, reads_protobuf

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


class Inbox:
    """What came for one conversation. Made by `Receiver.inbox`; used on the event loop that waits for it."""

    def __init__(self, receiver: Receiver) -> None:
        self.key = secrets.token_urlsafe(16)
        """What stands in the path of an endpoint of its own."""
        self.trace_id = ""
        self._receiver = receiver
        self._came = Told()
        self._lock = threading.Lock()
        self._event = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._others = receiver.unclaimed

    def variables(self, environment: Mapping[str, str]) -> dict[str, str]:
        """The environment of a program of this conversation, whose exporters send here, and soon.

        What the user says of metrics, logs and anything else stays.
        """
        endpoint = f"http://{_OUR_HOST}:{self._receiver.port}/{self.key}"
        usual = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint,
            "OTEL_TRACES_EXPORTER": "otlp",
            "OTEL_BSP_SCHEDULE_DELAY": "200",  # milliseconds
        }
        traces = {
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"{endpoint}/v1/traces",
            "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf" if reads_protobuf() else "http/json",
        }
        return {**usual, **environment, **traces}

    def belongs_to(self, trace_id: str) -> None:
        """Have spans of this trace, which come to the address of all, put here."""
        self.trace_id = trace_id
        self._receiver.register(self, trace_id)

    def put(self, told: Told) -> None:
        """Add what came. Called by the receiver's thread."""
        with self._lock:
            self._came.spans += told.spans[: max(0, _MOST - len(self._came.spans))]
            self._came.problems += told.problems[: max(0, 10 - len(self._came.problems))]
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._event.set)

    def take(self) -> Told:
        """What has come since it was last taken."""
        with self._lock:
            came, self._came = self._came, Told()
        self._event.clear()
        return came

    async def wait(self) -> None:
        """Wait until something has come."""
        await self._event.wait()

    def others(self) -> str:
        """Words on spans that came meanwhile and belong to no conversation; empty where there are none."""
        count = self._receiver.unclaimed - self._others
        self._others += count
        wrong = "of no trace that was asked for: does the agent go on with the `traceparent` that it is sent?"
        return f"; {count:,} came {wrong}" if count else ""

    def close(self) -> None:
        """Nobody takes from it any more."""
        self._receiver.unregister(self)


class Receiver:
    """Listens on a port while any conversation is open; 0 stands for a free one."""

    def __init__(self, port: int = 0) -> None:
        self.port = port
        self.unclaimed = 0
        self._wanted = port
        self._inboxes: dict[str, Inbox] = {}  # by key and by trace
        self._open = 0
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def inbox(self) -> Inbox:
        """A place for what one conversation makes. Raises OSError where the port is taken."""
        with self._lock:
            if self._loop is None:
                self._start()
            inbox = Inbox(self)
            self._inboxes[inbox.key] = inbox
            self._open += 1
            return inbox

    def register(self, inbox: Inbox, trace_id: str) -> None:
        """Have the spans of a trace put there."""
        self._inboxes[trace_id] = inbox

    def unregister(self, inbox: Inbox) -> None:
        """Stop that; after the last one stop listening, so that another run can."""
        with self._lock:
            if self._inboxes.pop(inbox.key, None) is None:
                return
            self._inboxes.pop(inbox.trace_id, None)
            self._open -= 1
            if not self._open and self._loop is not None:
                self._loop.call_soon_threadsafe(self._loop.stop)
                self._thread.join(_END_SECONDS)
                self._loop = None

    def _start(self) -> None:
        """Raises OSError."""
        loop = asyncio.new_event_loop()
        ready = threading.Event()
        failures: list[OSError] = []

        def serve() -> None:
            with quiet:
                runner = web.AppRunner(self._application(), shutdown_timeout=0.1, access_log=None)
                try:
                    loop.run_until_complete(runner.setup())
                    loop.run_until_complete(web.TCPSite(runner, _OUR_HOST, self._wanted).start())
                    self.port = runner.addresses[0][1]
                except OSError as error:
                    failures.append(error)
                finally:
                    ready.set()
                if not failures:
                    loop.run_forever()
                loop.run_until_complete(runner.cleanup())
                loop.close()

        with quiet:
            self._thread = threading.Thread(target=serve, name="workbench-otlp", daemon=True)
            self._thread.start()
        ready.wait()
        if failures:
            raise failures[0]
        self._loop = loop

    def _application(self) -> web.Application:
        application = web.Application(client_max_size=_LARGEST)
        for prefix in ("", "/{key}"):
            application.router.add_post(f"{prefix}/v1/traces", self._receive)
            for other in ("metrics", "logs"):  # taken and let go: exporters of them would complain
                application.router.add_post(f"{prefix}/v1/{other}", _let_go)
        return application

    async def _receive(self, request: web.Request) -> web.Response:
        key = request.match_info.get("key")
        own = self._inboxes.get(key) if key else None
        if key and own is None:
            return web.Response(status=404, text="this conversation is over")
        try:
            data = await request.read()
        except web.HTTPRequestEntityTooLarge:
            self._sort_in(Told(problems=[_TOO_LARGE]), own)
            raise
        if request.content_type == _PROTOBUF:
            try:
                told = read_protobuf(data)
            except NotInstalled:
                self._sort_in(Told(problems=[_WANTED]), own)
                return web.Response(status=415, text=_WANTED)
        else:
            told = _json(data)
        self._sort_in(told, own)
        return _taken(request)

    def _sort_in(self, told: Told, own: Inbox | None) -> None:
        """Put what was told where it belongs: by the address it came to, else by its traces."""
        if own is not None:
            own.put(told)
            return
        if not told.spans:
            strays = [f"in a request of no conversation: {problem}" for problem in told.problems]
            for inbox in set(self._inboxes.copy().values()):
                inbox.put(Told(problems=strays))
            return
        parts: dict[str, Told] = {}
        for span in told.spans:
            parts.setdefault(span.trace_id, Told()).spans.append(span)
        for trace_id, part in parts.items():
            theirs = self._inboxes.get(trace_id)
            if theirs is None:
                self.unclaimed += len(part.spans)
            else:
                theirs.put(Told(part.spans, told.problems))


def _json(data: bytes) -> Told:
    try:
        document: Any = json.loads(data)
    except (ValueError, RecursionError):
        return Told(problems=["an exporter sent what is neither JSON nor said to be protobuf"])
    return read_json(document)


async def _let_go(request: web.Request) -> web.Response:
    await request.read()
    return _taken(request)


def _taken(request: web.Request) -> web.Response:
    """The empty answer of OTLP, in the form of the question."""
    if request.content_type == _PROTOBUF:
        return web.Response(content_type=_PROTOBUF)
    return web.json_response({})
