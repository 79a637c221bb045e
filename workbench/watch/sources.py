"""Has watched what cases are known to use and what their plan was made from, wherever it is."""

from __future__ import annotations

from pathlib import Path

from workbench.engine.verdicts import Verdicts
from workbench.model.dependencies import DependencyKind
from workbench.watch.selection import path_of
from workbench.watch.watcher import Change, Watcher

_OF_NAMES = frozenset({DependencyKind.FOLDER, DependencyKind.IMPORT})  # another name there selects somebody or nobody
_SOURCE = frozenset({".py", ".toml", ".yaml", ".yml"})


class Sources:
    """The files and folders that a watcher was told of beside its folders."""

    def __init__(self, watcher: Watcher, verdicts: Verdicts, *, root: Path) -> None:
        self._watcher = watcher
        self._verdicts = verdicts
        self._root = root
        self._rows_watched = 0
        self._used: set[Path] = set()
        self._trees: set[Path] = set()
        self._of_plan: frozenset[Path] = frozenset()

    async def watch_what_is_used(self) -> bool:
        """Files and folders that cases depend on, as far as that has become known since the last time.

        Return True if there are any: they may have changed since the cases used them.
        """
        first, self._rows_watched = self._rows_watched, self._verdicts.row_count
        rows = [self._verdicts.row(number) for number in range(first, self._rows_watched)]
        self._trees.update(Path(row.key) for row in rows if row.kind == DependencyKind.TREE)
        paths = {Path(path) for row in rows if (path := path_of(row))}
        if paths:
            self._used.update(Path(path_of(row)) for row in rows if row.kind not in _OF_NAMES)
            await self._watcher.add(paths)
        return bool(paths)

    def are_used(self, change: Change) -> bool:
        """Whether anything of it is source, or has ever been used by a case or the plan."""
        if change.everything or not (self._used.isdisjoint(change.paths) and self._of_plan.isdisjoint(change.paths)):
            return True
        return any(
            path.suffix in _SOURCE or path.name == ".env" or not self._trees.isdisjoint(path.parents)
            for path in change.paths
        )

    async def watch_plan(self, files: frozenset[Path]) -> bool:
        """The files of a plan. Whether one of them may have changed since without anybody being told."""
        new, self._of_plan = files - self._of_plan, files
        if new:
            await self._watcher.add(new)
        return any(not file.is_relative_to(self._root) for file in new)
