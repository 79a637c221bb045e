"""Where an eval set would belong that is not there yet: by the rules by which those that are found are paired."""

from __future__ import annotations

from collections.abc import Iterator

from workbench.store.discovery.pairing import ByLocation, Pairing, claims, paths_claimed
from workbench.store.discovery.project import Project
from workbench.store.discovery.targets import folder_of
from workbench.store.names import EVAL_SET_SUFFIX


class NewSets:
    """The eval sets that could be made in a project. Paths are relative to its root, with forward slashes."""

    def __init__(self, project: Project) -> None:
        self._root = project.root
        self._targets = project.targets
        unnamed = (target for target in project.targets.values() if not target.eval_sets)
        self._by_location = ByLocation(unnamed, root=project.root)

    def pairing(self, relative: str) -> Pairing:
        """The target that a set at this path would have, or why none."""
        for target in self._targets.values():
            if claims(target, relative, root=self._root):
                return Pairing(target.name)
        return self._by_location.pair(self._root / relative)

    def paths_of(self, target: str, *, name: str) -> Iterator[str]:
        """Where a set of this name might lie that is for a target; another target may have a claim to it."""
        found = self._targets.get(target)
        if found is None:
            return
        yield from paths_claimed(found, name=name, root=self._root)
        folder = folder_of(found)
        if not found.eval_sets and folder is not None and folder.is_relative_to(self._root):
            yield (folder.relative_to(self._root) / f"{name}{EVAL_SET_SUFFIX}").as_posix()

    def lists_sets(self, target: str) -> bool:
        """Whether settings say which sets are for a target."""
        return target in self._targets and bool(self._targets[target].eval_sets)
