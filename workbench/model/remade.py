"""Fields whose values are made when they are needed: of ten thousand cases only those in use are in memory."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, Generic, TypeVar, cast

_Value = TypeVar("_Value")
_Made_co = TypeVar("_Made_co", covariant=True)


class Recipe(Generic[_Made_co]):
    """Makes a value that never changes; the same object for everybody as long as one of them holds it."""

    __slots__ = ("_given", "_made", "_make")

    def __init__(self, make: Callable[[Any], _Made_co], given: Any) -> None:
        """`make` is called with what is `given`."""
        self._make = make
        self._given = given
        self._made: weakref.ref[Any] | None = None

    def value(self) -> _Made_co:
        """The value."""
        value = None if self._made is None else self._made()
        if value is None:
            value = self._make(self._given)
            self._made = weakref.ref(value)
        return cast("_Made_co", value)


class Remade(Generic[_Value]):
    """A field of a dataclass that may be set to a value or to the recipe of one."""

    def __init__(self, default: _Value) -> None:
        self._default = default

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = f"_{name}"

    def __get__(self, instance: object | None, owner: type) -> _Value:
        if instance is None:
            return self._default
        held = self.held_by(instance)
        return held.value() if isinstance(held, Recipe) else held

    def __set__(self, instance: object, value: _Value | Recipe[_Value]) -> None:
        object.__setattr__(instance, self._name, value)

    def held_by(self, instance: object) -> _Value | Recipe[_Value]:
        """What the field was set to, without making it."""
        return cast("_Value | Recipe[_Value]", getattr(instance, self._name))
