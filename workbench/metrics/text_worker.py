"""The client of the process that compares texts."""

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

# One helper process, from its start to its end. What is done about its death is left to the client.

_PROGRAM = Path(__file__).with_name("text_process.py")
_LONGEST_ANSWER = 64 * 1024 * 1024  # bytes of one line: about a million comparisons
_SECONDS_TO_END = 1.0

SECONDS_TO_ANSWER = 60.0
"""How long a helper that has something to do may be silent once it has started."""
SECONDS_TO_START = 20.0
"""How long its start may take where something waits for it: about 1 s on an idle machine."""


class HelperDied(Exception):
    """The process ended, or could not be started.

    `was_ready`: it had been able to work before. `was_killed`: it did not end by itself, so another one may work.
    """

    def __init__(self, reason: str, *, was_ready: bool, was_killed: bool = False) -> None:
        super().__init__(reason)
        self.was_ready = was_ready
        self.was_killed = was_killed


class Helper:
    """A process that compares texts. Used on one event loop, by any number of tasks."""

    def __init__(self, process: asyncio.subprocess.Process, errors: IO[bytes]) -> None:
        self._process = process
        self._errors = errors
        self._ready = False
        self._killed_for = ""
        self._heard_at = time.monotonic()
        self._ended: HelperDied | None = None
        self._waiting: dict[int, asyncio.Future[list[Any]]] = {}
        self._last_id = 0
        self._reader = asyncio.get_running_loop().create_task(self._read_answers())

    @classmethod
    async def start(cls) -> Helper:
        """Start a process; it is still importing its libraries when this returns. Raises HelperDied."""
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
                start_new_session=True,  # Ctrl-C is for us; the helper ends when its input does
            )
        except OSError as error:
            raise HelperDied(f"the text helper could not be started: {error}", was_ready=False) from error
        return cls(process, errors)

    @property
    def is_dead(self) -> bool:
        """Whether the process has ended."""
        return self._ended is not None

    async def ask(self, tasks: Sequence[TextTask]) -> list[TextScore | str]:
        """The score of each task, or the text of what went wrong in it. Raises HelperDied."""
        if self._ended is not None:
            raise self._ended
        assert self._process.stdin is not None
        if not self._waiting:
            self._heard_at = time.monotonic()
        self._last_id += 1
        identity = self._last_id
        answer: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        self._waiting[identity] = answer
        request = json.dumps({"id": identity, "tasks": tasks}).encode() + b"\n"
        exchange = asyncio.ensure_future(self._exchange(request, answer))
        try:
            while not exchange.done():
                silent = time.monotonic() - self._heard_at
                longest = SECONDS_TO_ANSWER if self._ready else SECONDS_TO_START
                if silent >= longest and not self._killed_for:
                    self._killed_for = f"did not answer within {longest:g} s"
                    self._process.kill()
                await asyncio.wait([exchange], timeout=max(longest - silent, _SECONDS_TO_END))
            return [item if isinstance(item, str) else TextScore(*item) for item in exchange.result()]
        finally:
            exchange.cancel()
            self._waiting.pop(identity, None)

    async def _exchange(self, request: bytes, answer: asyncio.Future[list[Any]]) -> list[Any]:
        """Send a request and wait for its answer. Raises HelperDied."""
        assert self._process.stdin is not None
        with contextlib.suppress(ConnectionError):  # the reader notices the death, and says why
            self._process.stdin.write(request)
            await self._process.stdin.drain()
        return await answer

    async def close(self) -> None:
        """End the process: by the end of its input, or at once where it is busy."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            await asyncio.wait_for(asyncio.shield(self._reader), _SECONDS_TO_END)
        except TimeoutError:
            self._process.kill()
            await self._reader

    async def _read_answers(self) -> None:
        """Hand out answers until the process ends; then everybody who waits hears why."""
        assert self._process.stdout is not None
        reason = ""
        try:
            while line := await self._process.stdout.readline():
                self._heard_at = time.monotonic()
                self._receive(json.loads(line))
        except (ValueError, TypeError, KeyError) as error:  # a line that is too long, or no answer
            reason = f"sent something that is no answer ({error})"
            self._process.kill()
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
        """The end of what the process wrote to stderr, as one line."""
        self._errors.seek(0)
        written = self._errors.read()[-2000:].decode(errors="replace").strip()
        return f": {one_line(written.splitlines()[-1], width=200)}" if written else ""


def _list_search_path() -> list[str]:
    """Return the folders in which the libraries may be. They follow the interpreter's own, so they shadow nothing."""
    here = Path.cwd()
    folders = [Path(entry) for entry in sys.path if entry]
    return [str(folder) for folder in folders if folder.is_absolute() and folder != here]


# The text helper as the engine uses it: one process for a run, started early or when first needed.

_IN_FLIGHT = 8  # batches; the helper works on one at a time, more would only fill the pipe

_STARTS_AT_MOST = 3


class TextError(Exception):
    """Texts could not be compared; the message says why."""


class TextScorer:
    """Compares texts in a helper process. Used on one event loop; costs nothing until it is started.

    Where the helper dies or does not answer in time, a new one is started and whatever was under way is tried once
    more, each batch in a process of its own: texts that kill the helper cost only their own case. Where it is killed
    while it starts, another one is started, at most twice in a row. One that cannot start is not tried again.
    """

    def __init__(self) -> None:
        self._starting: asyncio.Task[Helper] | None = None
        self._unusable: str | None = None
        self._failed_starts: list[HelperDied] = []
        self._slots = asyncio.Semaphore(_IN_FLIGHT)
        self._second_try = asyncio.Lock()

    def start(self) -> None:
        """Start the helper without waiting for it, so that it is ready when the first agent is done."""
        if self._starting is None:
            self._starting = asyncio.get_running_loop().create_task(Helper.start())

    async def score(self, tasks: Sequence[TextTask]) -> list[TextScore]:
        """The score of each task, in order. Raises TextError where one of them has none."""
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
        """End the helper. What is under way, or comes later, fails."""
        self._unusable = self._unusable or "the text helper was closed"
        if self._starting is None:
            return
        starting, self._starting = self._starting, None
        try:
            await (await starting).close()
        except HelperDied:
            return  # it never lived

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
            for left in reversed(range(_STARTS_AT_MOST)):
                try:
                    return await self._ask_new_helper(tasks)
                except HelperDied as death:
                    if death.was_ready or not death.was_killed or not left:
                        raise TextError(f"{death} while comparing these texts") from death
        raise AssertionError("unreachable")

    async def _ask_new_helper(self, tasks: Sequence[TextTask]) -> list[TextScore | str]:
        """Ask a helper of its own. Raises HelperDied."""
        helper = await Helper.start()
        try:
            return await helper.ask(tasks)
        finally:
            await helper.close()

    def _note_death(self, death: HelperDied) -> None:
        """Give up after too many failed starts, one of which several batches may wait for. Raises TextError."""
        if not death.was_ready and all(death is not each for each in self._failed_starts):
            self._failed_starts.append(death)
        if self._unusable is None and self._failed_starts and not self._failed_starts[-1].was_killed:
            self._unusable = str(death)
        if self._unusable is None and len(self._failed_starts) >= _STARTS_AT_MOST:
            self._unusable = f"{death} ({_STARTS_AT_MOST} times)"
        if self._unusable is not None:
            raise TextError(self._unusable) from death
