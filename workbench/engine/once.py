"""What is made when it is first needed."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")
Key = TypeVar("Key", bound=Hashable)


class Once(Generic[T]):
    """One thing."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._made: T | None = None

    def get(self) -> T:
        """The one that was made."""
        if self._made is None:
            self._made = self._make()
        return self._made


def once_each(make: Callable[[Key], T]) -> Callable[[Key], T]:
    """A thing for each key."""
    made: dict[Key, T] = {}

    def get(key: Key) -> T:
        try:
            return made[key]
        except KeyError:
            one = made[key] = make(key)
            return one

    return get
