"""`TextScorer`: the client of the process that compares texts (`text_process`)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from workbench.metrics.text_process import TextScore, TextTask
from workbench.model.text import one_line

# One helper process, from start to end. `TextScorer` handles its death.

_PROGRAM = Path(__file__).with_name("text_process.py")
_LONGEST_ANSWER = 64 * 1024 * 1024  # bytes of one line: about a million comparisons
_SECONDS_TO_END = 1.0

SECONDS_TO_ANSWER = 60.0
"""Time limit for a busy helper without output, after its start."""
SECONDS_TO_START = 20.0
"""Time limit for the start while a request waits; it takes about 1 s on an idle machine."""


class HelperDied(Exception):
    """The process ended, or could not start.

    `was_ready`: its start had succeeded. `was_killed`: a signal ended it, so a new process may work.
    """

    def __init__(self, reason: str, *, was_ready: bool, was_killed: bool = False) -> None:
        super().__init__(reason)
        self.was_ready = was_ready
        self.was_killed = was_killed


class Helper:
    """A process that compares texts. Any number of tasks on one event loop may use it."""

    def __init__(self, process: asyncio.subprocess.Process, errors: IO[bytes]) -> None:
        self._process = process
        self._errors = errors
        self._ready = False
        self._killed_for = ""
        self._last_output_at = time.monotonic()
        self._ended: HelperDied | None = None
        self._waiting: dict[int, asyncio.Future[list[Any]]] = {}
        self._last_id = 0
        self._reader = asyncio.get_running_loop().create_task(self._read_answers())

    @classmethod
    async def start(cls) -> Helper:
        """Start a process and return while it imports its libraries. Raises HelperDied."""
        try:
            errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-I",
                str(_PROGRAM),
                *_list_search_path(),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=errors,
                limit=_LONGEST_ANSWER,
                start_new_session=True,  # so that Ctrl-C does not reach it; it ends with its input
            )
        except OSError as error:
            raise HelperDied(f"the text helper could not be started: {error}", was_ready=False) from error
        return cls(process, errors)

    @property
    def is_dead(self) -> bool:
        return self._ended is not None

    async def ask(self, tasks: Sequence[TextTask]) -> list[TextScore | str]:
        """Return the score of each task, or the text of its error. Raises HelperDied."""
        if self._ended is not None:
            raise self._ended
        assert self._process.stdin is not None
        if not self._waiting:
            self._last_output_at = time.monotonic()
        self._last_id += 1
        identity = self._last_id
        answer: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        self._waiting[identity] = answer
        request = json.dumps({"id": identity, "tasks": tasks}).encode() + b"\n"
        exchange = asyncio.ensure_future(self._exchange(request, answer))
        try:
            while not exchange.done():
                silent_seconds = time.monotonic() - self._last_output_at
                time_limit = SECONDS_TO_ANSWER if self._ready else SECONDS_TO_START
                if silent_seconds >= time_limit and not self._killed_for:
                    self._killed_for = f"did not answer within {time_limit:g} s"
                    self._kill()
                await asyncio.wait([exchange], timeout=max(time_limit - silent_seconds, _SECONDS_TO_END))
            return [item if isinstance(item, str) else TextScore(*item) for item in exchange.result()]
        finally:
            exchange.cancel()
            self._waiting.pop(identity, None)

    async def _exchange(self, request: bytes, answer: asyncio.Future[list[Any]]) -> list[Any]:
        """Send a request and wait for its answer. Raises HelperDied."""
        assert self._process.stdin is not None
        with contextlib.suppress(ConnectionError):  # the reader reports the death and its reason
            self._process.stdin.write(request)
            await self._process.stdin.drain()
        return await answer

    async def close(self) -> None:
        """End the process by closing its input; kill it if it is busy."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            await asyncio.wait_for(asyncio.shield(self._reader), _SECONDS_TO_END)
        except TimeoutError:
            self._kill()
            await self._reader

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):  # it has ended, and its output is not read yet
            self._process.kill()

    async def _read_answers(self) -> None:
        """Pass answers to the waiting requests until the process ends, and then fail the remaining requests."""
        assert self._process.stdout is not None
        reason = ""
        try:
            while line := await self._process.stdout.readline():
                self._last_output_at = time.monotonic()
                self._receive(json.loads(line))
        except (ValueError, TypeError, KeyError) as error:  # a line that is too long, or no answer
            reason = f"sent an invalid answer ({error})"
            self._kill()
        status = await self._process.wait()
        reason = reason or self._killed_for or f"ended with exit status {status}{self._read_stderr_end()}"
        self._ended = HelperDied(f"the text helper {reason}", was_ready=self._ready, was_killed=status < 0)
        self._errors.close()
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(self._ended)

    def _receive(self, message: dict[str, Any]) -> None:
        if message.get("ready"):
            self._ready = True
            return
        answer = self._waiting.get(message["id"])
        if answer is not None and not answer.done():
            answer.set_result(message["answers"])

    def _read_stderr_end(self) -> str:
        """Return the last line of the process's stderr."""
        self._errors.seek(0)
        stderr = self._errors.read()[-2000:].decode(errors="replace").strip()
        return f": {one_line(stderr.splitlines()[-1], width=200)}" if stderr else ""


def _list_search_path() -> list[str]:
    """Return the folders in which the libraries may be. They follow the interpreter's own, so they shadow nothing."""
    current_folder = Path.cwd()
    folders = [Path(entry) for entry in sys.path if entry]
    return [str(folder) for folder in folders if folder.is_absolute() and folder != current_folder]


# The client: one process for a run, started early or at the first request.

_IN_FLIGHT = 8  # batches; the helper computes one at a time, more would only fill the pipe

_STARTS_AT_MOST = 3


class TextError(Exception):
    """Texts could not be compared. The message has the reason."""


class TextScorer:
    """Compares texts in a helper process, on one event loop. It costs nothing before its start.

    If the helper dies or does not answer in time, a new one starts. The pending batches are retried once, each in its
    own process: texts that kill the helper fail only their own case. A helper that is killed during its start is
    replaced, at most twice in a row. A helper that cannot start is not retried.
    """

    def __init__(self) -> None:
        self._starting: asyncio.Task[Helper] | None = None
        self._unusable: str | None = None
        self._failed_starts: list[HelperDied] = []
        self._slots = asyncio.Semaphore(_IN_FLIGHT)
        self._second_try = asyncio.Lock()

    def start(self) -> None:
        """Start the helper without waiting, so that it is ready when the first agent has finished."""
        if self._starting is None:
            self._starting = asyncio.get_running_loop().create_task(Helper.start())

    async def score(self, tasks: Sequence[TextTask]) -> list[TextScore]:
        """Return the score of each task, in order. Raises TextError if one has no score."""
        if not tasks:
            return []
        answers = await self._ask_with_retry(tasks)
        scores = [answer for answer in answers if isinstance(answer, TextScore)]
        if len(scores) < len(tasks):
            raise TextError(next((answer for answer in answers if isinstance(answer, str)), "too few answers"))
        return scores

    async def _ask_with_retry(self, tasks: Sequence[TextTask]) -> list[TextScore | str]:
        while True:
            try:
                async with self._slots:
                    answers = await (await self._get_helper()).ask(tasks)
            except HelperDied as death:
                self._note_death(death)
                if death.was_ready:
                    return await self._ask_alone(tasks)
            else:
                self._failed_starts.clear()
                return answers

    async def close(self) -> None:
        """End the helper. Pending and later requests fail."""
        self._unusable = self._unusable or "the text helper was closed"
        if self._starting is None:
            return
        starting, self._starting = self._starting, None
        try:
            await (await starting).close()
        except HelperDied:
            return  # it never started

    async def _get_helper(self) -> Helper:
        if self._unusable is not None:
            raise TextError(self._unusable)
        starting = self._starting
        if starting is not None and starting.done() and (starting.exception() or starting.result().is_dead):
            self._starting = None
        self.start()
        assert self._starting is not None
        return await asyncio.shield(self._starting)

    async def _ask_alone(self, tasks: Sequence[TextTask]) -> list[TextScore | str]:
        async with self._second_try:
            for starts_left in reversed(range(_STARTS_AT_MOST)):
                try:
                    return await self._ask_new_helper(tasks)
                except HelperDied as death:
                    if death.was_ready or not death.was_killed or not starts_left:
                        raise TextError(f"{death} while comparing these texts") from death
        raise AssertionError("unreachable")

    async def _ask_new_helper(self, tasks: Sequence[TextTask]) -> list[TextScore | str]:
        """Ask a new helper that serves only these tasks. Raises HelperDied."""
        helper = await Helper.start()
        try:
            return await helper.ask(tasks)
        finally:
            await helper.close()

    def _note_death(self, death: HelperDied) -> None:
        """Give up after too many failed starts. Several batches may report the same start. Raises TextError."""
        if not death.was_ready and all(death is not each for each in self._failed_starts):
            self._failed_starts.append(death)
        if self._unusable is None and self._failed_starts and not self._failed_starts[-1].was_killed:
            self._unusable = str(death)
        if self._unusable is None and len(self._failed_starts) >= _STARTS_AT_MOST:
            self._unusable = f"{death} ({_STARTS_AT_MOST} times)"
        if self._unusable is not None:
            raise TextError(self._unusable) from death
