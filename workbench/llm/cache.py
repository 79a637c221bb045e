"""Answers kept from run to run. The cache is a convenience: where it fails, models are asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
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
        self._is_broken = False
        self._using = asyncio.Lock()

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
        """Close the file."""
        async with self._using:
            store, self._store = self._store, None
            if store is not None:
                await asyncio.to_thread(store.close)

    # Keys and texts are made by `action`, off the loop: of a thousand requests at once they would hold it up.
    async def _use(self, action: Callable[[ReplyStore], T]) -> T | None:
        async with self._using:
            if self._is_broken:
                return None
            try:
                return await asyncio.to_thread(self._act, action)
            except StoreError as error:
                self._is_broken = True
                self._warn(f"answers of models are not kept: {error}")
                return None

    def _act(self, action: Callable[[ReplyStore], T]) -> T:
        if self._store is None:
            self._store = ReplyStore(self._root)
        return action(self._store)
