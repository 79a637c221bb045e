"""Calls of models written to a file, and answered from one: runs with judges that need no key and no network."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from pathlib import Path
from typing import Any

from workbench.llm.requests import Ask, ModelReply, ModelRequest
from workbench.llm.trouble import ModelError, Trouble
from workbench.store.errors import StoreError, cannot

FORMAT = "workbench-calls-1"


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
        if "reply" in call:
            return ModelReply.model_validate(call["reply"]).model_copy(update={"cached": True})
        raise ModelError(Trouble(call["trouble"]), call["message"])


def _checked(call: dict[str, Any]) -> ModelRequest:
    """The request of a recorded call. Raises ValueError (pydantic's too), KeyError and TypeError where it is none."""
    if call["format"] != FORMAT:
        raise ValueError(f"expected the format {FORMAT}, found {call['format']!r}")
    if "reply" in call:
        ModelReply.model_validate(call["reply"])
    else:
        Trouble(call["trouble"])
    return ModelRequest.model_validate(call["request"])


def _read(path: Path) -> dict[str, deque[dict[str, Any]]]:
    calls: dict[str, deque[dict[str, Any]]] = {}
    try:
        lines = path.read_text(encoding="utf-8").split("\n")  # texts may hold other ends of lines
    except OSError as error:
        raise cannot("read", path, error) from error
    except UnicodeDecodeError as error:
        raise StoreError(path, "is no text in UTF-8, expected recorded calls") from error
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            call = json.loads(line)
            request = _checked(call)
        except (ValueError, KeyError, TypeError) as error:
            raise StoreError(path, f"line {number} is no recorded call: {error}") from error
        calls.setdefault(request.key, deque()).append(call)
    return calls
