"""A cursor over rows, of which some only separate others."""

from __future__ import annotations

from collections.abc import Callable


def anywhere(index: int) -> bool:  # noqa: ARG001 - every row can be selected
    """Whether the cursor can stand on a row, where it can on all."""
    return True


def moved(cursor: int, by: int, *, count: int, can_stand: Callable[[int], bool] = anywhere) -> int:
    """The cursor moved by so many rows, past rows on which it cannot stand; it stays where there is no other."""
    return went_to(cursor + by, count=count, can_stand=can_stand, onward=1 if by >= 0 else -1, otherwise=cursor)


def went_to(
    index: int, *, count: int, can_stand: Callable[[int], bool] = anywhere, onward: int = 1, otherwise: int = 0
) -> int:
    """The row with this index, past either end the row there; where it cannot stand there, the next one `onward`."""
    index = min(max(index, 0), count - 1)
    for way in (onward, -onward):
        place = index
        while 0 <= place < count:
            if can_stand(place):
                return place
            place += way
    return otherwise
