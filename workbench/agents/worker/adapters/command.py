"""Agents that are programs in any language: JSON lines on standard input and output, one process per conversation.

PROTOCOL.md, "Programs", describes the lines. Standard error is captured with the agent's output; its last line is part
of the message if the program ends too early.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..model_interception import find_session
from ..otlp import KEYS, Traces
from ..recording.recorder import quiet
from ..wire import describe
from . import base
from .base import MOST_STEPS, check_texts, explain_truncation
from .external_session import (
    SPANS,
    WAIT_SECONDS,
    ExternalSession,
    create_receiver,
    describe_json,
    open_inbox,
    read_reported_answer,
)

if TYPE_CHECKING:
    from ..model_interception import InterceptedModels
    from ..model_proxy import ModelProxy
    from ..otlp_receiver import SpanInbox


# Events of a turn.

_KINDS = ("tool_call", "tool_response", "text", "span", SPANS)
_SPAN_KEYS = ("name", "error", "request", "response", "attributes")
_SPAN_KINDS = ("agent", "model", "tool", "other")


class ProgramEvents:
    """The events of one turn. `emit_span`, if set, gets spans of calls as they begin and end."""

    def __init__(self, turn: int, *, now: Callable[[], float], emit_span: base.EmitSpan | None) -> None:
        self._turn = turn
        self._now = now
        self._emit_span = emit_span
        self._began = now()
        self._calls: list[dict[str, Any]] = []
        self._call_count = 0
        self._response_count = 0
        self._waiting: dict[str, list[dict[str, Any]]] = {}  # spans of calls without a response, by name
        self._responses: list[dict[str, Any]] = []
        self._texts: list[dict[str, Any]] = []
        self._spans: list[dict[str, Any]] = []
        self._traces: list[Any] | None = None

    def add(self, event: dict[str, Any]) -> None:
        """Add an event. Raises AgentFault if it has no known content."""
        kind = next((kind for kind in _KINDS if kind in event), None)
        if kind is None:
            keys = ", ".join(key for key in event if key != "type") or "nothing"
            raise base.AgentFault(f"wrote an event with {keys}, expected one of {', '.join(_KINDS)}")
        value = event[kind]
        if kind == "text":
            self._texts.append({"author": event.get("author", "agent"), "text": value})
            check_texts(len(self._texts))
        elif kind == SPANS:
            self._traces = (self._traces or []) + _list_resources(value)
        elif not isinstance(value, dict) or not isinstance(value.get("name"), str):
            raise base.AgentFault(
                f'wrote an event whose {kind} is {describe_json(value)}, expected an object with a "name"'
            )
        elif kind == "tool_call":
            self._add_call(value)
        elif kind == "tool_response":
            self._add_response(value)
        elif len(self._spans) < 2 * MOST_STEPS:
            self._spans.append(self._parse_span(value))

    def complete(self, finished: dict[str, Any]) -> dict[str, Any]:
        """Build the answer from the final line and, for keys that it lacks, from the events. Raises AgentFault.

        OpenTelemetry spans may be in both, and both count.
        """
        collected = {
            "predicted_trajectory": self._calls,
            "tool_responses": self._responses,
            "intermediate_responses": self._texts,
        }
        said = {key: value for key, value in finished.items() if key not in ("type", "turn") and value is not None}
        if SPANS in said:
            self.add({SPANS: said[SPANS]})
        in_between = {key: value for key, value in collected.items() if value}
        answer = read_reported_answer({**in_between, **said, SPANS: self._traces}, how="finished")
        calls = 0 if "predicted_trajectory" in said else self._call_count
        responses = 0 if "tool_responses" in said else self._response_count
        if cut := explain_truncation(calls, responses):
            answer["calls_unknown"] = cut
        if self._spans:
            answer["spans"] = [self._finish_span(span) for span in self._spans]
        return answer

    def _add_call(self, value: dict[str, Any]) -> None:
        self._call_count += 1
        if self._call_count > MOST_STEPS:
            return
        self._calls.append(value)
        span = {
            **self._new_span("tool", value["name"]),
            "start": self._now(),
            "end": None,
            "request": value.get("args"),
            "call": value.get("id"),
        }
        self._spans.append(span)
        self._waiting.setdefault(value["name"], []).append(span)
        self._announce(span)

    def _add_response(self, value: dict[str, Any]) -> None:
        self._response_count += 1
        if self._response_count <= MOST_STEPS:
            self._responses.append(value)
        waiting = self._waiting.get(value["name"])
        if not waiting:
            return
        same = (place for place, span in enumerate(waiting) if span["call"] == value.get("id") is not None)
        span = waiting.pop(next(same, 0))
        span.update(end=self._now(), response=value.get("response"))
        self._announce(span)

    def _parse_span(self, value: dict[str, Any]) -> dict[str, Any]:
        """Parse a span of the program. Its times are seconds since the start of the turn."""
        kind = value.get("kind")
        span = self._new_span(kind if kind in _SPAN_KINDS else "other", value["name"])
        span.update({key: value[key] for key in _SPAN_KEYS if value.get(key) is not None})
        for key in ("start", "end"):
            seconds = value.get(key)
            if isinstance(seconds, (int, float)) and not isinstance(seconds, bool):
                span[key] = self._began + seconds
        return span

    def _new_span(self, kind: str, name: str) -> dict[str, Any]:
        parent = f"agent-{self._turn}"
        return {
            "id": f"{parent}.{len(self._spans)}",
            "parent_id": parent,
            "turn": self._turn,
            "kind": kind,
            "name": name,
        }

    def _announce(self, span: dict[str, Any]) -> None:
        if self._emit_span is not None:
            self._emit_span({key: value for key, value in span.items() if key != "call"})

    def _finish_span(self, span: dict[str, Any]) -> dict[str, Any]:
        """Return a span as it is stored: a call without an end has no times."""
        kept = {key: value for key, value in span.items() if key != "call"}
        return {**kept, "start": None} if kept.get("end") is None else kept


def _list_resources(value: Any) -> list[Any]:
    """Return the list in an OTLP document; malformed documents are reported when they are read."""
    if isinstance(value, dict):
        value = next((value[key] for key in KEYS if key in value), value)
    return value if isinstance(value, list) else [value]


# The program and its conversation.

_LONGEST_LINE = 64 * 1024 * 1024  # bytes: more is a runaway program
_END_SECONDS = 2.0  # for a program to end after its input
_LOOK_SECONDS = 0.05  # between two checks whether it has ended
_QUIET_SECONDS = 0.01  # before a turn, to detect unexpected lines
_SETTLED_SECONDS = 0.5  # without a new span, after which all have arrived; longer than an exporter's delay
_BEGINNING = 120
_TAIL = 8192
_NODE = re.compile(r"Node\.js v[\d.]+")


class Adapter(base.Adapter):
    """One program. `location` is its command line, quoted as for a shell but run without one."""

    is_outside = True

    def __init__(self, target: dict[str, Any]) -> None:
        super().__init__(target)
        self._end_imports: Callable[[], None] = lambda: None

    def import_libraries(self) -> None:
        if self.target["options"].get("otlp"):
            with contextlib.suppress(ImportError):
                from .. import otlp_receiver  # noqa: F401

    def import_model_libraries(self) -> None:
        path, roots = sys.path[:], [os.path.abspath(root) for root in self.import_roots()]
        sys.path[:] = [entry for entry in path if os.path.abspath(entry) not in roots]
        with contextlib.suppress(ImportError):
            from .http.http_mapping import defer_certificates, read_certificates

            with defer_certificates():
                from .. import model_proxy  # noqa: F401
            self._end_imports = read_certificates
        sys.path[:] = path

    def prepare_for_metrics(self) -> None:
        with quiet:
            self._end_imports()

    def load(self) -> None:
        self._receiver = create_receiver(self.target) if self.target["options"].get("otlp") else None
        words = shlex.split(self.target["location"])
        # Searched here, because the error of a failed start may refer to its folder or its interpreter.
        found = shutil.which(words[0])
        if found is None:
            where = "in " + self.target["path"] if os.path.dirname(words[0]) else "on PATH"
            kind = "is not executable" if os.path.exists(words[0]) else "does not exist"
            raise base.LoadError(f"the program {words[0]!r} of target {self.target['name']!r} {kind} (looked {where})")
        self._words = [found, *words[1:]]

    async def open(
        self,
        session: dict[str, Any],
        emit_span: base.EmitSpan,
        tools: base.InterceptedTools | None = None,  # noqa: ARG002 - the engine never asks to hear of tools that run elsewhere
    ) -> CommandSession:
        inbox: SpanInbox | None = None
        proxy: ModelProxy | None = None
        try:
            inbox = None if self._receiver is None else open_inbox(self._receiver, self.target)
            models = find_session() if session.get("models") else None
            proxy = None if models is None else _start_proxy(models, self.target)
            process = await asyncio.create_subprocess_exec(
                *self._words,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                limit=_LONGEST_LINE,
                start_new_session=True,  # so that its children end with it
                env=_build_environment(inbox, proxy),
            )
        except BaseException as error:  # also a cancellation
            if inbox is not None:
                inbox.close()
            if proxy is not None:
                proxy.stop()
            if not isinstance(error, OSError):
                raise
            raise base.LoadError(
                f"the program {self._words[0]!r} of target {self.target['name']!r} cannot be started: {error.strerror}"
            ) from None
        return CommandSession(self.target, session, emit_span, process, inbox=inbox, proxy=proxy)


def _start_proxy(models: InterceptedModels, target: dict[str, Any]) -> ModelProxy | None:
    """Start the proxy for the model calls of a program.

    If a library is missing, return None where recordings are only a convenience, else raise LoadError.
    """
    try:
        from ..model_proxy import ModelProxy
    except ModuleNotFoundError as error:
        if models.is_optional:
            return None
        raise base.LoadError(
            f"{error.name} is not installed for the interpreter of target {target['name']!r}, and model calls cannot "
            "be recorded or replayed without it: install it there, leave out `python`, or run with --models live"
        ) from None
    try:
        return ModelProxy(models)
    except OSError as error:
        raise base.AgentFault(
            f"the proxy for model calls cannot be started: {error.strerror}", kind="infrastructure"
        ) from None


def _build_environment(inbox: SpanInbox | None, proxy: ModelProxy | None) -> dict[str, str] | None:
    """Return the environment of a program; None if it is that of the worker."""
    if inbox is None and proxy is None:
        return None
    with quiet:  # passed on as a whole; what the program reads is unknown
        variables = dict(os.environ)
    if inbox is not None:
        variables = inbox.build_environment(variables)
    return variables if proxy is None else proxy.build_environment(variables)


class CommandSession(ExternalSession):
    """One conversation with a program that was started for it."""

    def __init__(
        self,
        target: dict[str, Any],
        request: dict[str, Any],
        emit_span: base.EmitSpan,
        process: asyncio.subprocess.Process,
        *,
        inbox: SpanInbox | None,
        proxy: ModelProxy | None,
    ) -> None:
        """`inbox` receives its spans, if the settings ask for them; `proxy` its requests to models, if these are
        intercepted."""
        wait_seconds = target["options"].get("otlp_wait_seconds", WAIT_SECONDS)

        def make_traces(opened: float) -> Traces:
            return Traces(opened=opened, inbox=inbox, wait_seconds=wait_seconds, settled_seconds=_SETTLED_SECONDS)

        super().__init__(target, request, emit_span, make_traces=make_traces)
        self._process = process
        self._proxy = proxy
        self._program = f"the program {target['location']}"
        self._tail = b""
        self._listening = asyncio.ensure_future(self._forward_stderr())
        # Read one line ahead, so that an unexpected line is detected.
        self._next = self._read_ahead()

    async def ask(self, content: dict[str, Any], prompt: str, index: int, traceparent: str) -> dict[str, Any]:
        """See `ExternalSession.ask`. Raises AgentFault if the program does not answer."""
        session = {"app_name": self.app_name, "user_id": self.user_id, "id": self.session_id, "state": self.state()}
        turn = {
            "type": "turn",
            "turn": index,
            "prompt": prompt,
            "content": content,
            "session": session,
            "traceparent": traceparent,
        }
        events = ProgramEvents(index, now=self.now, emit_span=self._emit_span if self._announce_spans else None)
        try:
            await self._expect_silence(f"before turn {index + 1} was given")
            await self._write(turn)
            answer = await self._answer(events, index)
            if self._proxy is not None:
                await self._proxy.settle()
        except BaseException as error:  # also a cancellation: a program in the middle of a turn is useless
            self._signal()
            self._stop_proxy()
            if not isinstance(error, base.AgentFault):
                raise
            await self._kill()
            raise base.AgentFault(f"{self._program} {error}", kind=error.kind) from None
        return answer

    async def close(self) -> dict[str, Any]:
        """Close the program's input, and kill the program if it does not end. See `base.Session.close`.

        Raises AgentFault if it wrote more than answers to its turns, which may belong to other turns, or if it failed
        before its first turn.
        """
        if self._process.stdin is not None:
            self._process.stdin.close()
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._wait_exit_code(), _END_SECONDS)
        try:
            await self._expect_silence("after its last turn")
            if not self.history and self._process.returncode:
                raise await self._describe_end(b"")
        except base.AgentFault as error:
            raise base.AgentFault(f"{self._program} {error}", kind=error.kind) from None
        finally:
            await self._kill()
        return await super().close()

    async def _write(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(ConnectionError):  # it ended; reading reports that in more detail
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            await self._process.stdin.drain()

    def _read_ahead(self) -> asyncio.Future[bytes]:
        assert self._process.stdout is not None
        return asyncio.ensure_future(self._process.stdout.readline())

    async def _expect_silence(self, when: str) -> None:
        """Raise AgentFault if a line waits that belongs to no turn: it would be taken for an answer."""
        done, _ = await asyncio.wait({self._next}, timeout=_QUIET_SECONDS)
        if not done:
            return
        line = b"" if self._next.exception() else self._next.result()
        if line or self._next.exception():
            raise base.AgentFault(
                f"wrote the line {_shorten(line)!r} {when}; expected one finished or failed for each turn, its "
                "events before it, and nothing else"
            )

    async def _answer(self, events: ProgramEvents, index: int) -> dict[str, Any]:
        """Read lines until the program has finished or failed."""
        while (message := await self._read(index))["type"] == "event":
            events.add(message)
        if message["type"] == "finished":
            return events.complete(message)
        if message["type"] == "failed":
            raise _parse_failure(message)
        raise base.AgentFault(f"wrote a line of type {message['type']!r}, expected event, finished or failed")

    async def _read(self, index: int) -> dict[str, Any]:
        """Read the next line of turn `index`, an object with a `type`. Raises AgentFault."""
        has_ended = False
        # Its last output is still in the pipe, so check once more.
        while not (await asyncio.wait({self._next}, timeout=_LOOK_SECONDS))[0]:
            if has_ended:
                raise await self._describe_end(b"")
            has_ended = self._process.returncode is not None
        try:
            line = self._next.result()
        except ValueError:  # raised by StreamReader for a line beyond its limit
            raise base.AgentFault(
                f"wrote a line of more than {_LONGEST_LINE // 1024 // 1024} MB, expected less"
            ) from None
        if not line.endswith(b"\n"):
            raise await self._describe_end(line)
        self._next = self._read_ahead()
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            raise base.AgentFault(
                f"wrote a line that is not JSON: {_shorten(line)!r}; expected one object per line on standard output, "
                "and everything else on standard error"
            ) from None
        if not isinstance(message, dict) or not isinstance(message.get("type"), str):
            raise base.AgentFault(f'wrote the line {_shorten(line)!r}, expected an object with a "type"')
        if message.get("turn", index) != index:
            number = describe_json(message["turn"])
            raise base.AgentFault(f'wrote a line whose "turn" is {number}, expected {index}, the turn it was given')
        return message

    async def _describe_end(self, line: bytes) -> base.AgentFault:
        """Return the error for an output that ended too early."""
        try:
            code = await asyncio.wait_for(self._wait_exit_code(), _END_SECONDS)
        except asyncio.TimeoutError:
            return base.AgentFault("closed its standard output before it answered", kind="crash")
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(asyncio.shield(self._listening), _END_SECONDS)
        where = f"in the middle of the line {_shorten(line)!r}" if line.strip() else "before it had answered"
        last = _find_last_line(self._tail.decode("utf-8", "replace"))
        return base.AgentFault(f"ended with {_describe_exit(code)} {where}{': ' + last if last else ''}", kind="crash")

    async def _wait_exit_code(self) -> int:
        """Wait for the exit status. `Process.wait` would also wait for other processes that hold the pipes."""
        while (code := self._process.returncode) is None:  # noqa: ASYNC110 - asyncio has no event for it
            await asyncio.sleep(_LOOK_SECONDS / 10)
        return code

    async def _forward_stderr(self) -> None:
        """Copy the program's standard error to ours, which is captured, and keep its tail."""
        assert self._process.stderr is not None
        while data := await self._process.stderr.read(1 << 16):
            self._tail = (self._tail + data)[-_TAIL:]
            sys.stderr.write(data.decode("utf-8", "replace"))
            sys.stderr.flush()

    async def _kill(self) -> None:
        """Kill the program and what it started, and wait until it is gone."""
        self._signal()
        await self._wait_exit_code()
        self._next.cancel()
        self._stop_proxy()
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._listening, _END_SECONDS)

    def _stop_proxy(self) -> None:
        if self._proxy is not None:
            self._proxy.stop()

    def _signal(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if hasattr(os, "killpg"):
                os.killpg(self._process.pid, signal.SIGKILL)
            else:
                self._process.kill()


def _parse_failure(message: dict[str, Any]) -> base.AgentFault:
    """Return the failure that the program reports. Only an outage of a service is worth another try."""
    reason = message.get("message")
    text = reason if isinstance(reason, str) and reason else f"{describe(reason)} as message, expected text"
    return base.AgentFault(
        f"failed: {text}", kind="infrastructure" if message.get("kind") == "infrastructure" else "agent"
    )


def _find_last_line(text: str) -> str:
    """Return the line of standard error that explains the end: the last one, or with Node the one above the frames."""
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    if lines and _NODE.fullmatch(lines[-1]):
        lines = [line for line in lines[:-1] if line[0].isalpha()] or lines
    return " ".join(lines[-1].split()) if lines else ""


def _shorten(line: bytes) -> str:
    text = line[: 4 * _BEGINNING].decode("utf-8", "replace").strip()
    return text if len(text) <= _BEGINNING else text[: _BEGINNING - 3] + "..."


def _describe_exit(code: int) -> str:
    if code >= 0:
        return f"exit status {code}"
    with contextlib.suppress(ValueError):
        return f"signal {-code} ({signal.Signals(-code).name})"
    return f"signal {-code}"
