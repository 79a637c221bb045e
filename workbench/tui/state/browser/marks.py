"""The cases that the user has marked: they stay marked whatever is listed."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from workbench.model.keys import CaseKey


class Marks:
    """Marked cases, in the order in which they were marked, and where a range of marks begins."""

    def __init__(self) -> None:
        self._marked: dict[CaseKey, None] = {}
        self.anchor: CaseKey | None = None

    def __contains__(self, key: CaseKey) -> bool:
        return key in self._marked

    def __len__(self) -> int:
        return len(self._marked)

    def __iter__(self) -> Iterator[CaseKey]:
        return iter(self._marked)

    def add(self, keys: Collection[CaseKey]) -> None:
        """Mark these cases too."""
        self._marked.update(dict.fromkeys(keys))

    def toggle(self, keys: Collection[CaseKey]) -> None:
        """Mark these cases; where all of them are marked already, unmark them."""
        if all(key in self._marked for key in keys):
            self.forget(keys)
        else:
            self.add(keys)

    def forget(self, keys: Collection[CaseKey]) -> None:
        """Unmark these cases: the user wants it, or they are gone."""
        for key in keys:
            self._marked.pop(key, None)
        if self.anchor is not None and self.anchor in keys:
            self.anchor = None

    def clear(self) -> None:
        """Unmark every case."""
        self._marked.clear()
        self.anchor = None
