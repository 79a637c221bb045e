"""What agents have left in folders: names that do not count where one is listed, as long as nobody else touches them.

A case that lists a folder into which agents write would otherwise never have a verdict that holds. But what somebody
else has deleted, or put there after an agent deleted it, is an edit like any other.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from workbench.agents.host import LeftByAgents
from workbench.agents.worker.recording.fingerprints import ABSENT
from workbench.store.history import LeftFile

_LATELY = 64  # executions of which it is looked whether they ran at the same time


class _Work:
    """What agents have made of one file: states that one agent after another made of the same thing belong together."""

    __slots__ = ("_lately", "_parents", "blind", "told")

    def __init__(self) -> None:
        self.told: dict[str, float] = {}
        """By state, when it was left so for the last time."""
        self.blind: set[str] = set()
        """States that do not depend on what was there before."""
        self._parents: dict[str, str] = {}
        self._lately: deque[LeftFile] = deque(maxlen=_LATELY)

    def add(self, left: LeftFile) -> None:
        state = left.fingerprint
        self.told[state] = max(left.told_at, self.told.get(state, 0.0))
        if left.found is None:
            self.blind.add(state)
        else:
            self._join(left.found, state)
        for other in self._lately:  # of agents that ran at the same time either may have found what the other was at
            if other.told_at >= left.began_at and other.began_at <= left.told_at:
                self._join(other.fingerprint, state)
        self._lately.append(left)

    def belong_together(self, one: str, other: str) -> bool:
        return self._root(one) == self._root(other)

    def _join(self, one: str, other: str) -> None:
        self._parents[self._root(one)] = self._root(other)

    def _root(self, state: str) -> str:
        while (parent := self._parents.get(state, state)) != state:
            self._parents[state] = self._parents.get(parent, parent)
            state = parent
        return state


class LeftFiles:
    """In which states agents have left files, and when."""

    def __init__(self) -> None:
        self._work: dict[str, _Work] = {}

    def add(self, left: Iterable[LeftFile]) -> None:
        """Learn of more, in the order in which it was told."""
        for each in left:
            self._work.setdefault(each.path, _Work()).add(each)

    def goes_on(self, path: str, *, left: str, now: str, since: float) -> bool:
        """Whether a file is `now` as agents made it of how another one `left` it, which began at `since`.

        So that what all agents do to it together concerns none of them. What somebody else has put there concerns all
        that ran before, whatever agents have made of it then: only agents that write without reading begin anew.
        """
        work = self._work.get(path)
        if work is None or work.told.get(now, -1.0) < since:
            return False
        return now in work.blind or work.belong_together(left, now)

    def newest(self, path: str) -> str | None:
        """The state in which an agent left it last; None where none has written it."""
        work = self._work.get(path)
        return None if work is None else max(work.told, key=work.told.__getitem__)

    def are_there(self) -> dict[str, bool]:
        """For each file that an agent wrote, whether it was there when an agent was last done with it."""
        return {path: self.newest(path) != ABSENT for path in self._work}


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
