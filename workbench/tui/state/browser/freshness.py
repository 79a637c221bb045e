"""Which verdicts are stale: the case or its criteria are no longer what they were when it was judged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from workbench.model.keys import CaseKey
from workbench.tui.state.browser.content import Hashes


class Freshness:
    """The hashes of cases as they are now, held against those that their newest verdicts were given by."""

    def __init__(self) -> None:
        self._now: dict[CaseKey, Hashes] = {}
        self._judged: dict[CaseKey, Hashes] = {}
        self._planned: dict[CaseKey, Hashes] = {}
        self._stale: set[CaseKey] = set()
        self._counts: Counter[tuple[str, str]] = Counter()

    def is_stale(self, key: CaseKey) -> bool:
        """Whether the newest verdict of a case is of another content or other criteria; False where that is unknown."""
        return key in self._stale

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
        """Verdicts of earlier sessions were given by these; those of cases that have been judged since stay."""
        for key, each in hashes.items():
            if key not in self._judged:
                self._judged[key] = each
                self._compare(key)

    def planned(self, hashes: Mapping[CaseKey, Hashes]) -> None:
        """A run begins that judges by these."""
        self._planned.update(hashes)

    def finished(self, key: CaseKey) -> None:
        """The run has judged a case."""
        hashes = self._planned.get(key)
        if hashes is not None:
            self._judged[key] = hashes
            self._compare(key)

    def forget(self, keys: Iterable[CaseKey]) -> None:
        """These cases are no longer listed; what they were judged by is kept for when they come back."""
        for key in keys:
            self._now.pop(key, None)
            self._compare(key)

    def _compare(self, key: CaseKey) -> None:
        now, judged = self._now.get(key), self._judged.get(key)
        is_stale = now is not None and judged is not None and now != judged
        if is_stale and key not in self._stale:
            self._stale.add(key)
            self._counts[key.target, key.eval_set] += 1
        elif not is_stale and key in self._stale:
            self._stale.discard(key)
            self._counts[key.target, key.eval_set] -= 1
