"""One helper process, from its start to its end. What is done about its death is left to the client."""

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

from workbench.metrics.text_helper.tasks import TextScore, TextTask
from workbench.model.text import one_line

_OUR_ROOT = Path(__file__).resolve().parents[3]
_PROGRAM = Path(__file__).resolve().parents[1] / "text_helper" / "process.py"
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
        self._reader = asyncio.get_running_loop().create_task(self._read())

    @classmethod
    async def start(cls) -> Helper:
        """Start a process; it is still importing its libraries when this returns. Raises HelperDied."""
        try:
            errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-I",
                str(_PROGRAM),
                *_search_path(),
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

    async def _read(self) -> None:
        """Hand out answers until the process ends; then everybody who waits hears why."""
        assert self._process.stdout is not None
        reason = ""
        try:
            while line := await self._process.stdout.readline():
                self._heard_at = time.monotonic()
                self._take(json.loads(line))
        except (ValueError, TypeError, KeyError) as error:  # a line that is too long, or no answer
            reason = f"sent something that is no answer ({error})"
            self._process.kill()
        status = await self._process.wait()
        reason = reason or self._killed_for or f"ended with exit status {status}{self._last_words()}"
        self._ended = HelperDied(f"the text helper {reason}", was_ready=self._ready, was_killed=status < 0)
        self._errors.close()
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(self._ended)

    def _take(self, message: dict[str, Any]) -> None:
        if message.get("ready"):
            self._ready = True
            return
        answer = self._waiting.get(message["id"])
        if answer is not None and not answer.done():
            answer.set_result(message["answers"])

    def _last_words(self) -> str:
        """The end of what the process wrote to stderr, as one line."""
        self._errors.seek(0)
        written = self._errors.read()[-2000:].decode(errors="replace").strip()
        return f": {one_line(written.splitlines()[-1], width=200)}" if written else ""


def _search_path() -> list[str]:
    """Where else our modules and libraries may be: added behind the interpreter's own folders, so shadowing nothing."""
    here = Path.cwd()
    folders = [Path(entry) for entry in sys.path if entry]
    return [str(_OUR_ROOT), *(str(folder) for folder in folders if folder.is_absolute() and folder != here)]
