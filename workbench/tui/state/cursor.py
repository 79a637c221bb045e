"""A cursor over the rows of a list, of which some may only separate others."""

from __future__ import annotations

from abc import ABC, abstractmethod
from itertools import chain


class CursorRows(ABC):
    """Rows with a cursor on one of them; at 0 where there are none."""

    cursor: int = 0

    @abstractmethod
    def __len__(self) -> int: ...

    def move(self, by: int) -> None:
        """Move the cursor by so many rows, past rows on which it cannot stand; it stays where there is no other."""
        self.cursor = self._place_at(self.cursor + by, onward=1 if by >= 0 else -1, otherwise=self.cursor)

    def move_to(self, index: int) -> None:
        """Put the cursor on a row, past either end on the row there; where it cannot stand there, on the next one."""
        self.cursor = self._place_at(index, onward=1, otherwise=0)

    def _can_stand(self, index: int) -> bool:  # noqa: ARG002 - on every row, unless the rows say otherwise
        return True

    def _place_at(self, index: int, *, onward: int, otherwise: int) -> int:
        """The nearest place to stand, looked for `onward` first."""
        count = len(self)
        index = min(max(index, 0), count - 1)
        below, above = range(max(index, 0), count), range(index, -1, -1)
        places = chain(below, above) if onward > 0 else chain(above, below)
        return next(filter(self._can_stand, places), otherwise)
