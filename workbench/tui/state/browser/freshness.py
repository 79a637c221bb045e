"""Which verdicts are stale: the case or its criteria are no longer what they were when it was judged.

A watch, and a check without one, know more: whatever the case depended on. What they said last stays until the case is
judged or checked again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from workbench.model.keys import CaseKey
from workbench.tui.state.browser.content import Hashes


class Freshness:
    """The hashes of cases as they are now, held against those that their newest verdicts were given by."""

    def __init__(self) -> None:
        self._now: dict[CaseKey, Hashes] = {}
        self._judged: dict[CaseKey, Hashes] = {}
        self._of_session: set[CaseKey] = set()
        self._planned: dict[CaseKey, Hashes] = {}
        self._watched: dict[CaseKey, Sequence[str]] = {}
        self._is_watched = False
        self._stale: set[CaseKey] = set()
        self._counts: Counter[tuple[str, str]] = Counter()

    def is_stale(self, key: CaseKey) -> bool:
        """Whether the newest verdict of a case is of another content or other criteria; False where that is unknown."""
        return key in self._stale

    @property
    def stale(self) -> Collection[CaseKey]:
        """The cases whose verdicts are stale."""
        return self._stale

    def why(self, key: CaseKey) -> Sequence[str]:
        """Why the newest verdict of a case is stale, in words; nothing where it is not."""
        if key in self._watched:
            return self._watched[key]
        return ("it or its criteria were edited",) if key in self._stale else ()

    def count(self, target: str, eval_set: str) -> int:
        """How many verdicts of a set are stale; of all sets of the target where `eval_set` is empty."""
        if eval_set:
            return self._counts[target, eval_set]
        return sum(count for (name, _), count in self._counts.items() if name == target)

    def read(self, key: CaseKey, hashes: Hashes | None) -> None:
        """A case is so now; None where that cannot be told."""
        if hashes is None:
            self._now.pop(key, None)
        else:
            self._now[key] = hashes
        self._compare(key)

    def judged(self, hashes: Mapping[CaseKey, Hashes]) -> None:
        """Stored verdicts were given by these; those of cases that have been judged in this session stay."""
        for key, each in hashes.items():
            if key not in self._of_session:
                self._judged[key] = each
                self._compare(key)

    def planned(self, hashes: Mapping[CaseKey, Hashes]) -> None:
        """A run begins that judges by these."""
        self._planned.update(hashes)

    def finished(self, key: CaseKey) -> None:
        """The run has judged a case."""
        if not self._is_watched:  # else the watch will say whether the new verdict holds
            self._watched.pop(key, None)
        if key in self._planned:
            self._judged[key] = self._planned[key]
            self._of_session.add(key)
        self._compare(key)

    def played(self, key: CaseKey) -> None:
        """A run has played a case and judged nothing: what it did last has no verdict that could be stale."""
        if not self._is_watched:
            self._watched.pop(key, None)
        self._judged.pop(key, None)
        self._of_session.add(key)
        self._compare(key)

    def watched(self, stale: Mapping[CaseKey, Sequence[str]]) -> None:
        """A watch says which verdicts do not hold, and why; all others do."""
        changed = [key for key in {**self._watched, **stale} if (key in self._watched) != (key in stale)]
        self._watched, self._is_watched = dict(stale), True
        for key in changed:
            self._compare(key)

    def checked(self, key: CaseKey, why: Sequence[str]) -> bool:
        """It was checked, without a watch, why the verdict of a case does not hold; nothing where it does.

        Return False if the same was known before.
        """
        if tuple(self._watched.get(key, ())) == tuple(why):
            return False
        if why:
            self._watched[key] = why
        else:
            self._watched.pop(key, None)
        self._compare(key)
        return True

    def holds(self, key: CaseKey, hashes: Hashes | None = None) -> None:
        """The watch has a verdict that holds, where it was given earlier by these hashes."""
        self._watched.pop(key, None)
        if hashes is not None:
            self._judged[key] = hashes
        self._compare(key)

    def end_watching(self) -> None:
        """Nobody watches any longer."""
        self._is_watched = False

    def forget(self, keys: Iterable[CaseKey]) -> None:
        """These cases are no longer listed; what they were judged by is kept for when they come back."""
        for key in keys:
            self._now.pop(key, None)
            self._compare(key)

    def _compare(self, key: CaseKey) -> None:
        now, judged = self._now.get(key), self._judged.get(key)
        is_stale = key in self._watched or (now is not None and judged is not None and now != judged)
        if is_stale and key not in self._stale:
            self._stale.add(key)
            self._counts[key.target, key.eval_set] += 1
        elif not is_stale and key in self._stale:
            self._stale.discard(key)
            self._counts[key.target, key.eval_set] -= 1
