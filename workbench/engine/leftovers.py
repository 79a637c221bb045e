"""What agents have left in folders: names that do not count where one is listed, as long as nobody else touches them.

A case that lists a folder into which agents write would otherwise never have a verdict that holds. But what somebody
else has deleted, or put there after an agent deleted it, is an edit like any other.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from workbench.agents.host import LeftByAgents
from workbench.agents.worker.recording.fingerprints import ABSENT
from workbench.store.history import LeftFile


class LeftFiles:
    """In which states agents have left files, and when."""

    def __init__(self) -> None:
        self._told: dict[str, dict[str, float]] = {}

    def add(self, left: Iterable[LeftFile]) -> None:
        """Learn of more."""
        for path, fingerprint, told_at in left:
            of_file = self._told.setdefault(path, {})
            of_file[fingerprint] = max(told_at, of_file.get(fingerprint, 0.0))

    def since(self, path: str, moment: float) -> Collection[str]:
        """The states in which agents that ended at this moment (seconds since 1970) or later have left a file."""
        return [fingerprint for fingerprint, told_at in self._told.get(path, {}).items() if told_at >= moment]

    def newest(self, path: str) -> str | None:
        """The state in which an agent left it last; None where none has written it."""
        told = self._told.get(path)
        return None if told is None else max(told, key=told.__getitem__)

    def are_there(self) -> dict[str, bool]:
        """For each file that an agent wrote, whether it was there when an agent was last done with it."""
        return {path: self.newest(path) != ABSENT for path in self._told}


class Names(NamedTuple):
    """Names in a folder that agents wrote and left there: those that are there, and those that are not any more."""

    there: frozenset[str] = frozenset()
    gone: frozenset[str] = frozenset()


class Leftovers:
    """How things are now. Looks into each folder once."""

    def __init__(self, are_there: Mapping[str, bool]) -> None:
        """`are_there`: see `LeftFiles`."""
        self._by_folder: dict[str, list[tuple[str, bool]]] = {}
        for path, is_there in are_there.items():
            folder, name = os.path.split(path)
            self._by_folder.setdefault(folder, []).append((name, is_there))
        self._names: dict[str, Names] = {}

    def names(self, folder: str) -> Names:
        """What does not count in a folder, and what counts as deleted."""
        known = self._names.get(folder)
        if known is None:
            there, gone = set(), set()
            for name, was_left in self._by_folder.get(folder, ()):
                is_there = os.path.lexists(os.path.join(folder, name))  # noqa: PTH118 - thousands of them
                if is_there == was_left:
                    there.add(name)
                elif was_left:
                    gone.add(name)
            known = self._names[folder] = Names(frozenset(there), frozenset(gone))
        return known

    def written(self, folder: str) -> frozenset[str]:
        """All that agents ever wrote in a folder."""
        return frozenset(name for name, _ in self._by_folder.get(folder, ()))

    def told(self, listed: Collection[str], *, most: int) -> LeftByAgents:
        """At most so many names, first those in folders that are known to be `listed`."""
        there: dict[str, tuple[str, ...]] = {}
        gone: dict[str, tuple[str, ...]] = {}
        left = most
        for folder in sorted(self._by_folder, key=lambda each: (each not in listed, each)):
            if left <= 0:
                break
            found = self.names(folder)
            for names, told in ((found.gone, gone), (found.there, there)):
                if names and left > 0:
                    told[folder] = tuple(sorted(names)[:left])
                    left -= len(names)
        return LeftByAgents(there, gone)
