"""What is typed into cases and not applied, kept so that it outlives a crash."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from workbench.tui.gateway.thread import Call

if TYPE_CHECKING:
    from workbench.engine.workspace import Workspace


class TypedTexts:
    """See `store.documents.typed_text`, of which every method here is the asynchronous twin."""

    def __init__(self, call: Call) -> None:
        self._call = call

    async def keep(self, texts: Sequence[Any]) -> None:
        """Keep these in place of what this session kept before. Raises StoreError.

        A text that was applied leaves its file only once the edit is in a recovery file.
        """

        def keep(workspace: Workspace) -> None:
            workspace.documents.keep()
            workspace.typed_texts.keep(texts)

        await self._call(keep)

    async def are_left(self) -> bool:
        """Whether sessions that are no more left any."""
        return await self._call(lambda workspace: workspace.typed_texts.are_left())

    async def take_over(self) -> Sequence[Any]:
        """What ended sessions left, the oldest first; kept by this one from now on. Raises StoreError."""
        return await self._call(lambda workspace: workspace.typed_texts.take_over())
