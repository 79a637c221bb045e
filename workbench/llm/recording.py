"""Calls of models written to a file, and answered from one: runs with judges that need no key and no network."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from pathlib import Path
from typing import Any

from workbench.llm.requests import Ask, ModelReply, ModelRequest
from workbench.llm.trouble import ModelError, Trouble
from workbench.model.base import Fact
from workbench.store.errors import cannot
from workbench.store.json_lines import read_json_lines

FORMAT = "workbench-calls-1"


class _Call(Fact):
    """A line of the file: what was asked, and the answer or what went wrong in place of one."""

    format: str
    request: ModelRequest
    reply: ModelReply | None = None
    trouble: Trouble | None = None
    message: str = ""


class Recording:
    """Writes every answer, and what went wrong in place of one, to a file of JSON lines. Begins the file anew."""

    def __init__(self, path: Path) -> None:
        """Raises StoreError where it cannot be written, or is there and holds something else."""
        self._path = path
        self._writing = asyncio.Lock()
        if path.exists() and path.stat().st_size:
            _read(path)
        self._has_begun = False  # what is there stays until there is something to put in its place
        try:
            path.open("a").close()
        except OSError as error:
            raise cannot("write", path, error) from error

    def of(self, ask: Ask) -> Ask:
        """Asks as `ask` does. Answers from a cache are written too: the file must do without one."""

        async def ask_and_write(request: ModelRequest) -> ModelReply:
            try:
                reply = await ask(request)
            except ModelError as error:
                if not error.trouble.is_unasked:
                    await self._write(request, {"trouble": error.trouble.value, "message": error.message})
                raise
            await self._write(request, {"reply": reply.model_dump(mode="json", exclude_defaults=True)})
            return reply

        return ask_and_write

    async def _write(self, request: ModelRequest, outcome: dict[str, Any]) -> None:
        call = {"format": FORMAT, "request": request.model_dump(mode="json", exclude_defaults=True), **outcome}
        async with self._writing:
            try:
                await asyncio.to_thread(self._append, json.dumps(call, ensure_ascii=False) + "\n")
            except OSError as error:
                raise ModelError(Trouble.NOT_RECORDED, f"{self._path} cannot be written: {error}") from error

    def _append(self, line: str) -> None:
        with self._path.open("a" if self._has_begun else "w", encoding="utf-8") as stream:
            stream.write(line)
        self._has_begun = True


class Replay:
    """Answers from such a file, and asks nobody."""

    def __init__(self, path: Path) -> None:
        """Raises StoreError where it cannot be read."""
        self._path = path
        self._calls = _read(path)

    async def ask(self, request: ModelRequest) -> ModelReply:
        """The answer that was recorded, once more. Raises ModelError, too where that was recorded."""
        calls = self._calls.get(request.key)
        if not calls:
            raise ModelError(
                Trouble.NOT_RECORDED,
                f"{self._path} has no answer of {request.model} to this request: what is asked has changed since; "
                f"record it again (--record-calls {self._path})",
            )
        call = calls[0] if len(calls) == 1 else calls.popleft()  # the last one goes on being the answer
        if call.trouble is not None:
            raise ModelError(call.trouble, call.message)
        assert call.reply is not None
        return call.reply.model_copy(update={"cached": True})


def _read(path: Path) -> dict[str, deque[_Call]]:
    calls: dict[str, deque[_Call]] = {}
    for line in read_json_lines(path, format=FORMAT, what="a recorded call"):
        call = line.read(_Call)
        if (call.reply is None) == (call.trouble is None):
            found = "neither" if call.reply is None else "both"
            raise line.error((), found=found, expected="exactly one of reply and trouble")
        calls.setdefault(call.request.key, deque()).append(call)
    return calls
