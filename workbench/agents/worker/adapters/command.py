"""Agents that are a program in any language: JSON lines on its standard input and output, one process a conversation.

The lines are described in PROTOCOL.md, "Programs". What the program writes on standard error goes where the agent's
goes; the last line of it stands in the message where the program ends too early.
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
from typing import TYPE_CHECKING, Any

from ..otlp.traces import Traces
from ..recording.recorder import quiet
from ..wire import describe
from . import base
from .foreign import WAIT_SECONDS, ForeignSession, in_json, open_inbox, receiver_for
from .program_events import Events

if TYPE_CHECKING:
    from ..asking import Tools
    from ..otlp.receiver import Inbox

_LONGEST_LINE = 64 * 1024 * 1024  # bytes: more is a runaway program
_END_SECONDS = 2.0  # that a program has to end once its input has
_LOOK_SECONDS = 0.05  # between two looks at whether it has ended
_QUIET_SECONDS = 0.01  # before a turn, for lines that nothing asked for to be seen
_SETTLED_SECONDS = 0.5  # without a new span, after which all have come: more than a program's exporter is told to wait
_BEGINNING = 120
_TAIL = 8192
_NODE = re.compile(r"Node\.js v[\d.]+")


class Adapter(base.Adapter):
    """One program. `location` is its command line, quoted as for a shell; no shell runs it. `options` is the table
    `[targets.NAME.command]`."""

    def import_own(self) -> None:
        """See `Adapter.import_own`."""
        if self.target["options"].get("otlp"):
            with contextlib.suppress(ImportError):
                from ..otlp import receiver  # noqa: F401

    def load(self) -> None:
        """Look for the program."""
        self._receiver = receiver_for(self.target) if self.target["options"].get("otlp") else None
        words = shlex.split(self.target["location"])
        # Looked for here, as the error of a process that does not start may mean its folder or its interpreter.
        found = shutil.which(words[0])
        if found is None:
            where = "in " + self.target["path"] if os.path.dirname(words[0]) else "on PATH"
            kind = "is no program that may be run" if os.path.exists(words[0]) else "is not there"
            raise base.LoadError(f"the program {words[0]!r} of target {self.target['name']!r} {kind} (looked {where})")
        self._words = [found, *words[1:]]

    async def open(
        self,
        session: dict[str, Any],
        emit_span: base.EmitSpan,
        tools: Tools | None = None,  # noqa: ARG002 - the engine never asks to hear of tools that run elsewhere
    ) -> CommandSession:
        """Open a fresh session, and start the program for it. See `Adapter.open`."""
        inbox = None if self._receiver is None else open_inbox(self._receiver, self.target)
        with quiet:  # handed on whole; what the program looks at nobody can see
            variables = None if inbox is None else inbox.variables(dict(os.environ))
        try:
            process = await asyncio.create_subprocess_exec(
                *self._words,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                limit=_LONGEST_LINE,
                start_new_session=True,  # so that what it starts ends with it
                env=variables,
            )
        except OSError as error:
            if inbox is not None:
                inbox.close()
            raise base.LoadError(
                f"the program {self._words[0]!r} of target {self.target['name']!r} cannot be started: {error.strerror}"
            ) from None
        return CommandSession(self.target, session, emit_span, process, inbox)


class CommandSession(ForeignSession):
    """One conversation with a program that was started for it."""

    def __init__(
        self,
        target: dict[str, Any],
        request: dict[str, Any],
        emit_span: base.EmitSpan,
        process: asyncio.subprocess.Process,
        inbox: Inbox | None,
    ) -> None:
        """`inbox` is where its spans arrive, where the settings want them."""
        wait_seconds = target["options"].get("otlp_wait_seconds", WAIT_SECONDS)

        def make_traces(opened: float) -> Traces:
            return Traces(opened=opened, inbox=inbox, wait_seconds=wait_seconds, settled_seconds=_SETTLED_SECONDS)

        super().__init__(target, request, emit_span, make_traces=make_traces)
        self._process = process
        self._program = f"the program {target['location']}"
        self._tail = b""
        self._listening = asyncio.ensure_future(self._pass_on_stderr())
        # Read one ahead, so that a line is seen that comes when none should.
        self._next = self._read_ahead()

    async def ask(self, content: dict[str, Any], prompt: str, index: int, traceparent: str) -> dict[str, Any]:
        """See `ForeignSession.ask`. Raises AgentFault for whatever came instead of an answer."""
        session = {"app_name": self.app_name, "user_id": self.user_id, "id": self.session_id, "state": self.state()}
        turn = {
            "type": "turn",
            "turn": index,
            "prompt": prompt,
            "content": content,
            "session": session,
            "traceparent": traceparent,
        }
        events = Events(index, now=self.now, emit_span=self._emit_span if self._announce_spans else None)
        try:
            await self._expect_silence(f"before turn {index + 1} was given")
            await self._write(turn)
            return await self._answer(events, index)
        except base.AgentFault as error:
            await self._kill()
            raise base.AgentFault(f"{self._program} {error}", kind=error.kind) from None
        except BaseException:  # a cancellation, or a fault of ours: a program in the middle of a turn is of no more use
            self._signal()
            raise

    async def close(self) -> dict[str, Any]:
        """End the program's input, and the program where it does not end with it. See `base.Session.close`.

        Raises AgentFault where it wrote more than answers to its turns: then they may be those of other turns. Also
        where it failed before it was given any.
        """
        if self._process.stdin is not None:
            self._process.stdin.close()
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._exit_code(), _END_SECONDS)
        try:
            await self._expect_silence("after its last turn")
            if not self.history and self._process.returncode:
                raise await self._ended(b"")
        except base.AgentFault as error:
            raise base.AgentFault(f"{self._program} {error}", kind=error.kind) from None
        finally:
            await self._kill()
        return await super().close()

    async def _write(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(ConnectionError):  # it ended, which reading tells with more words
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            await self._process.stdin.drain()

    def _read_ahead(self) -> asyncio.Future[bytes]:
        assert self._process.stdout is not None
        return asyncio.ensure_future(self._process.stdout.readline())

    async def _expect_silence(self, when: str) -> None:
        """Raise AgentFault where a line waits that belongs to no turn: it would be taken for the next one's."""
        done, _ = await asyncio.wait({self._next}, timeout=_QUIET_SECONDS)
        if not done:
            return
        line = b"" if self._next.exception() else self._next.result()
        if line or self._next.exception():
            raise base.AgentFault(
                f"wrote the line {_beginning(line)!r} {when}; expected one finished or failed for each turn, its "
                "events before it, and nothing else"
            )

    async def _answer(self, events: Events, index: int) -> dict[str, Any]:
        """What the program says until it has finished, or failed."""
        while (message := await self._read(index))["type"] == "event":
            events.add(message)
        if message["type"] == "finished":
            return events.complete(message)
        if message["type"] == "failed":
            raise _failure_told(message)
        raise base.AgentFault(f"wrote a line of type {message['type']!r}, expected event, finished or failed")

    async def _read(self, index: int) -> dict[str, Any]:
        """The next line as an object with a `type`, told in turn `index`. Raises AgentFault."""
        has_ended = False
        # What it wrote before its end is in the pipe, hence one more look.
        while not (await asyncio.wait({self._next}, timeout=_LOOK_SECONDS))[0]:
            if has_ended:
                raise await self._ended(b"")
            has_ended = self._process.returncode is not None
        try:
            line = self._next.result()
        except ValueError:  # a StreamReader says so of a line beyond its limit
            raise base.AgentFault(
                f"wrote a line of more than {_LONGEST_LINE // 1024 // 1024} MB, expected less"
            ) from None
        if not line.endswith(b"\n"):
            raise await self._ended(line)
        self._next = self._read_ahead()
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            raise base.AgentFault(
                f"wrote a line that is no JSON: {_beginning(line)!r}; expected one object a line on standard output, "
                "and all else on standard error"
            ) from None
        if not isinstance(message, dict) or not isinstance(message.get("type"), str):
            raise base.AgentFault(f'wrote the line {_beginning(line)!r}, expected an object with a "type"')
        if message.get("turn", index) != index:
            told = in_json(message["turn"])
            raise base.AgentFault(f'wrote a line whose "turn" is {told}, expected {index}, the turn it was given')
        return message

    async def _ended(self, line: bytes) -> base.AgentFault:
        """What to say where the program's output ended."""
        try:
            code = await asyncio.wait_for(self._exit_code(), _END_SECONDS)
        except asyncio.TimeoutError:
            return base.AgentFault("closed its standard output before it had answered", kind="crash")
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(asyncio.shield(self._listening), _END_SECONDS)
        where = f"in the middle of the line {_beginning(line)!r}" if line.strip() else "before it had answered"
        last = _last_words(self._tail.decode("utf-8", "replace"))
        return base.AgentFault(f"ended with {_exit(code)} {where}{': ' + last if last else ''}", kind="crash")

    async def _exit_code(self) -> int:
        """The status of the program, once it has ended; `Process.wait` would wait for whoever holds its pipes, too."""
        while (code := self._process.returncode) is None:  # noqa: ASYNC110 - asyncio has no event for it
            await asyncio.sleep(_LOOK_SECONDS / 10)
        return code

    async def _pass_on_stderr(self) -> None:
        """Have what the program writes there captured with what the agents' processes write, and keep the end of it."""
        assert self._process.stderr is not None
        while data := await self._process.stderr.read(1 << 16):
            self._tail = (self._tail + data)[-_TAIL:]
            sys.stderr.write(data.decode("utf-8", "replace"))
            sys.stderr.flush()

    async def _kill(self) -> None:
        """End the program and what it started, and wait until it is gone."""
        self._signal()
        await self._exit_code()
        self._next.cancel()
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._listening, _END_SECONDS)

    def _signal(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if hasattr(os, "killpg"):
                os.killpg(self._process.pid, signal.SIGKILL)
            else:
                self._process.kill()


def _failure_told(message: dict[str, Any]) -> base.AgentFault:
    """What the program says of itself. Only an outage of what it needs is worth another try."""
    told = message.get("message")
    text = told if isinstance(told, str) and told else f"{describe(told)} as message, expected text"
    return base.AgentFault(
        f"failed: {text}", kind="infrastructure" if message.get("kind") == "infrastructure" else "agent"
    )


def _last_words(text: str) -> str:
    """The line of standard error that says why a program ended: the last, or with Node the one above its frames."""
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    if lines and _NODE.fullmatch(lines[-1]):
        lines = [line for line in lines[:-1] if line[0].isalpha()] or lines
    return " ".join(lines[-1].split()) if lines else ""


def _beginning(line: bytes) -> str:
    text = line[: 4 * _BEGINNING].decode("utf-8", "replace").strip()
    return text if len(text) <= _BEGINNING else text[: _BEGINNING - 3] + "..."


def _exit(code: int) -> str:
    if code >= 0:
        return f"exit status {code}"
    with contextlib.suppress(ValueError):
        return f"signal {-code} ({signal.Signals(-code).name})"
    return f"signal {-code}"
