"""What `watch = [...]` of a target names: files and folders whose change concerns all of its cases."""

from __future__ import annotations

import os
from collections.abc import Callable

from workbench.agents.worker.recording import fingerprints
from workbench.model.dependencies import Dependencies, Dependency, DependencyKind
from workbench.model.target import Target


def watched_by(target: Target) -> frozenset[Dependency]:
    """A row for each path that the target names, as it is now."""
    paths = paths_watched_by(target)
    return frozenset(Dependency(DependencyKind.TREE.value, path, fingerprint_of_tree(path)) for path in paths)


def paths_watched_by(target: Target) -> frozenset[str]:
    """The paths that the target names, absolute."""
    return frozenset(os.path.normpath(target.path / path) for path in target.watch)


def with_watched(told: Dependencies | None, watched: frozenset[Dependency]) -> Dependencies | None:
    """What a case depended on, with what its target names."""
    if told is None or not watched:
        return told
    return told.model_copy(update={"rows": told.rows | watched})


def fingerprint_of_tree(path: str, *, file: Callable[[str], str] = fingerprints.of_file) -> str:
    """What a file holds, or all files below a folder, with their names. `file` gives the fingerprint of one."""
    if not os.path.isdir(path):  # noqa: PTH112 - thousands of them
        return file(path)
    found = []
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(name for name in folders if name not in fingerprints.IGNORED)
        within = os.path.relpath(folder, path)
        found += [f"{within}/{name}\0{file(os.path.join(folder, name))}" for name in sorted(names)]  # noqa: PTH118
    return fingerprints.digest("\0".join(found).encode("utf-8", "surrogateescape"))
