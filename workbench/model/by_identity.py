"""What is worked out once for objects that come again and again, told apart by which object they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

_Thing = TypeVar("_Thing")
_Made = TypeVar("_Made")


def by_identity(
    at_most: int, *, but: Callable[[Any], bool] | None = None
) -> Callable[[Callable[[_Thing], _Made]], Callable[[_Thing], _Made]]:
    """Decorates a function of one object that never changes: to hash it would take longer than what the function does.

    So many objects are kept alive with what was made of them, so that no other gets the id of one; but none of those
    that are too large for that, and come only once.
    """

    def decorate(make: Callable[[_Thing], _Made]) -> Callable[[_Thing], _Made]:
        known: dict[int, tuple[_Thing, _Made]] = {}

        def made_of(thing: _Thing) -> _Made:
            kept = known.get(id(thing))
            if kept is None:
                if but is not None and but(thing):
                    return make(thing)
                if len(known) >= at_most:
                    known.clear()
                kept = known[id(thing)] = thing, make(thing)
            return kept[1]

        return made_of

    return decorate
