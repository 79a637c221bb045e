"""Reports saves of files that verdicts may depend on, for as long as no watch does. Nothing runs because of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from workbench.tui.gateway.thread import Call, aside

if TYPE_CHECKING:
    from workbench.engine.workspace import Workspace
    from workbench.watch.sources import Sources
    from workbench.watch.watcher import Change, Watcher

_DATA = frozenset({".json", ".jsonl", ".csv", ".parquet"})  # eval sets, criteria and datasets may be any of them
_LEARN = 2.0  # seconds between two looks at whether runs have used more files


class SavedFiles:
    """Observes the files of the project by a watcher of its own."""

    def __init__(self, call: Call) -> None:
        self._call = call

    async def observe(self, report: Callable[[], object]) -> None:
        """Report each save, and that more files are observed: they may have been saved before. Runs until cancelled.

        Raises StoreError where the history cannot be read.
        """
        workspace = await self._call(lambda workspace: workspace)
        watcher, sources = await aside(lambda: _watcher_of(workspace))
        async with watcher:
            await sources.watch_what_is_used()
            report()
            learning = asyncio.create_task(_learn(sources, report))
            try:
                async for change in watcher.changes():
                    if _may_matter(change, sources):
                        report()
            finally:
                learning.cancel()
                await asyncio.wait({learning})


def _watcher_of(workspace: Workspace) -> tuple[Watcher, Sources]:
    from workbench.watch.sources import Sources
    from workbench.watch.watcher import Folders, Watcher

    watcher = Watcher(Folders.of(workspace.root, workspace.project.targets.values()))
    return watcher, Sources(watcher, workspace.verdicts, root=workspace.root)


async def _learn(sources: Sources, report: Callable[[], object]) -> None:
    """Observe what runs of this session have used, wherever it is."""
    while True:
        await asyncio.sleep(_LEARN)
        if await sources.watch_what_is_used():
            report()


def _may_matter(change: Change, sources: Sources) -> bool:
    """Return False for files that no case has ever used, and that are neither source nor data: logs, notes."""
    return sources.are_used(change) or any(path.suffix in _DATA for path in change.paths)
