"""Calls of models written to a file, and answered from one: tests of judges that need no key and no network."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from workbench.llm.provider import Provider
from workbench.llm.requests import ModelReply, ModelRequest
from workbench.llm.trouble import ModelError, Trouble
from workbench.store.errors import StoreError, cannot

FORMAT = "workbench-calls-1"

MakeProvider = Callable[[str, Mapping[str, str]], Provider]


def recording(path: Path, provider_for: MakeProvider) -> MakeProvider:
    """Providers that append every answer to a file of JSON lines: the request, and the answer or what went wrong."""

    def make(model: str, environment: Mapping[str, str]) -> Provider:
        return _Recording(path, provider_for(model, environment))

    return make


def replaying(path: Path) -> MakeProvider:
    """Providers that answer from such a file and ask nobody. Raises StoreError where it cannot be read."""
    calls = _read(path)
    replayed = _Replaying(path, calls)
    return lambda _model, _environment: replayed


class _Recording:
    def __init__(self, path: Path, provider: Provider) -> None:
        self._path = path
        self._provider = provider

    async def prepare(self) -> None:
        await self._provider.prepare()

    async def ask(self, request: ModelRequest) -> ModelReply:
        try:
            reply = await self._provider.ask(request)
        except ModelError as error:
            self._write(request, {"trouble": error.trouble.value, "message": error.message})
            raise
        self._write(request, {"reply": reply.model_dump(mode="json", exclude_defaults=True)})
        return reply

    async def close(self) -> None:
        await self._provider.close()

    def _write(self, request: ModelRequest, outcome: dict[str, Any]) -> None:
        call = {"format": FORMAT, "request": request.model_dump(mode="json", exclude_defaults=True), **outcome}
        try:
            with self._path.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(call, ensure_ascii=False) + "\n")
        except OSError as error:
            raise ModelError(Trouble.NOT_RECORDED, f"{self._path} cannot be written: {error}") from error


class _Replaying:
    def __init__(self, path: Path, calls: dict[str, deque[dict[str, Any]]]) -> None:
        self._path = path
        self._calls = calls

    async def prepare(self) -> None:
        pass

    async def ask(self, request: ModelRequest) -> ModelReply:
        calls = self._calls.get(request.key)
        if not calls:
            raise ModelError(Trouble.NOT_RECORDED, f"{self._path} has no answer of {request.model} to this request")
        call = calls[0] if len(calls) == 1 else calls.popleft()  # the last one goes on being the answer
        if "reply" in call:
            return ModelReply.model_validate(call["reply"])
        raise ModelError(Trouble(call["trouble"]), call["message"])

    async def close(self) -> None:
        pass


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
        lines = path.read_text(encoding="utf-8").splitlines()
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
