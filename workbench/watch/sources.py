"""Has watched what cases are known to use and what their plan was made from, wherever it is."""

from __future__ import annotations

from pathlib import Path

from workbench.engine.verdicts import Verdicts
from workbench.watch.selection import path_of
from workbench.watch.watcher import Watcher


class Sources:
    """The files and folders that a watcher was told of beside its folders."""

    def __init__(self, watcher: Watcher, verdicts: Verdicts, *, root: Path) -> None:
        self._watcher = watcher
        self._verdicts = verdicts
        self._root = root
        self._rows_watched = 0
        self._of_plan: frozenset[Path] = frozenset()

    async def watch_what_is_used(self) -> None:
        """Files and folders that cases depend on, as far as that has become known since the last time."""
        first, self._rows_watched = self._rows_watched, self._verdicts.row_count
        rows = map(self._verdicts.row, range(first, self._rows_watched))
        paths = {Path(path) for row in rows if (path := path_of(row))}
        if paths:
            await self._watcher.add(paths)

    async def watch_plan(self, files: frozenset[Path]) -> bool:
        """The files of a plan. Whether one of them may have changed since without anybody being told."""
        new, self._of_plan = files - self._of_plan, files
        if new:
            await self._watcher.add(new)
        return any(not file.is_relative_to(self._root) for file in new)
