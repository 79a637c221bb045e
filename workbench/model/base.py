"""Types that hold data: `AdkModel` for formats of ADK, `Fact` for frozen facts of ours, and their fast constructors."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import cache
from typing import Any, Generic, Self, TypeVar, cast

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

# The two manners of our types: formats that belong to ADK, and facts that are ours.

_Model = TypeVar("_Model", bound=BaseModel)


class AdkModel(BaseModel):
    """A type whose format ADK defines.

    Both snake_case and camelCase keys are read, mixed if need be; keys that we do not know are kept. ADK itself is
    stricter in places: `workbench eval-set validate` names what it would refuse.
    """

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="allow", frozen=True)


class Fact(BaseModel):
    """A type of our own: frozen, closed, and the same in memory, in the store and in reports."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @classmethod
    def trusted(cls, **values: Any) -> Self:
        """An instance made of values that nobody looks at: all that are required, of the right types.

        For what is made by the ten thousand out of what is ours already, or holds text that validation refuses (half
        surrogate pairs): `model_construct`, which does the same, takes ten times as long.
        """
        defaults, made_anew = _defaults_of(cls)
        fields = {**defaults, **values}
        for name, make in made_anew:
            if name not in values:
                fields[name] = make()
        made = _new(cls)
        _set_fields(made, fields)
        _set_given(made, set(values))
        _set_others(made, None)
        _set_private(made, None)
        return made


def trusted_maker(cls: type[_Model], given: set[str]) -> Callable[[dict[str, Any]], _Model]:
    """As `Fact.trusted`, for one and the same choice of fields of any of our types: a function that takes them.

    A dict with all fields, in their order, becomes that of the instance. The `model_fields_set` of all instances is
    `given` itself: ours are frozen, so that nothing is added to it, and their copies have copies of it.
    """
    defaults, made_anew = _defaults_of(cls)
    made_anew = tuple((name, make) for name, make in made_anew if name not in given)
    keeps_others = cls.model_config.get("extra") == "allow"
    count = len(defaults)

    def trusted(values: dict[str, Any]) -> _Model:
        fields = values
        if len(values) < count:
            fields = {**defaults, **values}
            for name, make in made_anew:
                fields[name] = make()
        made = _new(cls)
        _set_fields(made, fields)
        _set_given(made, given)
        _set_others(made, {} if keeps_others else None)
        _set_private(made, None)
        return made

    return trusted


_new = object.__new__
# What pydantic's own `model_construct` sets by name, which takes as long as all the rest.
_set_fields, _set_given, _set_others, _set_private = (
    BaseModel.__dict__[slot].__set__
    for slot in ("__dict__", "__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__")
)


@cache
def _defaults_of(cls: type[BaseModel]) -> tuple[dict[str, Any], tuple[tuple[str, Callable[[], Any]], ...]]:
    """The fields of a type, in order, with what they are by default; and what makes defaults that may be changed."""
    fields = cls.model_fields.items()
    made_anew = tuple((name, field.default_factory) for name, field in fields if field.default_factory is not None)
    return {name: field.default for name, field in fields}, cast("Any", made_anew)


# What is worked out once for objects that come again and again, told apart by which object they are.

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


# Fields whose values are made when they are needed: of ten thousand cases only those in use are in memory.

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
