"""Answers kept from run to run. The cache is a convenience: where it fails, models are asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from workbench.llm.requests import ModelReply, ModelRequest
from workbench.store.errors import StoreError
from workbench.store.replies import ReplyStore

T = TypeVar("T")


class Cache:
    """The answers of one project. Opened when it is first needed, off the event loop."""

    def __init__(self, root: Path, *, warn: Callable[[str], None]) -> None:
        """`warn` is told, once, that answers are not kept and why."""
        self._root = root
        self._warn = warn
        self._store: ReplyStore | None = None
        self._trouble: StoreError | None = None
        self._is_trouble_told = False
        self._is_closed = False
        # One thread, not a lock: who is cancelled stops waiting, while what it wanted goes on in the thread.
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="replies")

    async def get(self, request: ModelRequest) -> ModelReply | None:
        """The answer to this request."""
        text = await self._use(lambda store: store.get(request.key))
        if text is None:
            return None
        try:
            return ModelReply.model_validate_json(text)
        except ValidationError:  # of another version
            return None

    async def put(self, request: ModelRequest, reply: ModelReply) -> None:
        """Keep an answer."""
        await self._use(lambda store: store.put(request.key, reply.model_dump_json(exclude_defaults=True)))

    async def close(self) -> None:
        """Close the file, after what was begun before. From then on nothing is kept or found."""
        self._is_closed = True
        closing = asyncio.get_running_loop().run_in_executor(self._thread, self._close)
        self._thread.shutdown(wait=False)
        await closing

    # Keys and texts are made by `action`, off the loop: of a thousand requests at once they would hold it up.
    async def _use(self, action: Callable[[ReplyStore], T]) -> T | None:
        found = None
        if self._trouble is None and not self._is_closed:
            found = await asyncio.get_running_loop().run_in_executor(self._thread, self._act, action)
        if self._trouble is not None and not self._is_trouble_told:
            self._is_trouble_told = True
            self._warn(f"answers of models are not kept: {self._trouble}")
        return found

    def _act(self, action: Callable[[ReplyStore], T]) -> T | None:
        if self._trouble is not None:
            return None
        try:
            if self._store is None:
                self._store = ReplyStore(self._root)
            return action(self._store)
        except StoreError as error:
            self._trouble = error  # told by the next that was not cancelled
            return None

    def _close(self) -> None:
        store, self._store = self._store, None
        if store is not None:
            store.close()
