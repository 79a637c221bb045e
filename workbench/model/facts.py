"""Base types for data: `AdkModel` for formats of ADK, `Fact` for our own types, and fast ways to make many of them."""

from __future__ import annotations

import contextlib
import gc
import weakref
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, Generic, Self, TypeVar, cast

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

_Model = TypeVar("_Model", bound=BaseModel)


class AdkModel(BaseModel):
    """A type whose format ADK defines.

    Reads snake_case and camelCase keys, also mixed, and keeps unknown keys. ADK itself is stricter in places:
    `workbench eval-set validate` reports the keys and values that it would refuse.
    """

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="allow", frozen=True)


class Fact(BaseModel):
    """A type of our own: frozen, without unknown keys, and the same in memory, in the store and in reports."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @classmethod
    def construct_unvalidated(cls, **values: Any) -> Self:
        """Construct without validation. `values` are at least the required fields, with the right types.

        Use it for text that validation refuses (lone surrogates), and for types that are made by the ten thousand:
        pydantic's `model_construct` takes ten times as long. See `make_fast_constructor`.
        """
        return cast("Self", _get_constructor(cls, tuple(values))(values))


def make_fast_constructor(cls: type[_Model], fields_set: set[str]) -> Callable[[dict[str, Any]], _Model]:
    """Return a function that constructs any of our types without validation, from a dict with at least `fields_set`.

    A dict with all fields, in their order, becomes that of the instance. `fields_set` itself is the `model_fields_set`
    of all instances: they are frozen, so that nothing is added to it, and pydantic copies it with them. For the same
    reason they share the dict of their unknown keys, which is empty.
    """
    defaults, factories = _get_defaults(cls)
    missing_factories = tuple((name, factory) for name, factory in factories if name not in fields_set)
    count = len(defaults)
    extra: dict[str, Any] | None = {} if cls.model_config.get("extra") == "allow" else None

    def construct(values: dict[str, Any]) -> _Model:
        if len(values) < count:
            values = {**defaults, **values}
            for name, factory in missing_factories:
                values[name] = factory()
        instance = _new(cls)
        _set_dict(instance, values)
        _set_fields_set(instance, fields_set)
        _set_extra(instance, extra)
        _set_private(instance, None)
        return instance

    return construct


_new = object.__new__
# pydantic's `model_construct` sets these slots by name, which takes as long as everything else.
_set_dict, _set_fields_set, _set_extra, _set_private = (
    BaseModel.__dict__[slot].__set__
    for slot in ("__dict__", "__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__")
)


@cache
def _get_constructor(cls: type[_Model], names: tuple[str, ...]) -> Callable[[dict[str, Any]], _Model]:
    construct = make_fast_constructor(cls, set(names))
    order = tuple(cls.model_fields)
    if len(names) < len(order) or names == order:
        return construct
    return lambda values: construct({name: values[name] for name in order})


@cache
def _get_defaults(cls: type[BaseModel]) -> tuple[dict[str, Any], tuple[tuple[str, Callable[[], Any]], ...]]:
    """Return the fields of a type in order with their defaults, and the factories of mutable defaults."""
    fields = cls.model_fields.items()
    factories = tuple((name, field.default_factory) for name, field in fields if field.default_factory is not None)
    return {name: field.default for name, field in fields}, cast("Any", factories)


# A cache by identity

_Argument = TypeVar("_Argument")
_Result = TypeVar("_Result")


def cache_by_identity(
    maxsize: int, *, skip_if: Callable[[Any], bool] | None = None
) -> Callable[[Callable[[_Argument], _Result]], Callable[[_Argument], _Result]]:
    """Cache a function of one immutable object by the object's identity, where hashing it would take too long.

    The cache keeps its objects alive, so that no other object gets the id of one. `skip_if` excludes objects that are
    too large to keep and do not come again.
    """

    def decorate(function: Callable[[_Argument], _Result]) -> Callable[[_Argument], _Result]:
        entries: dict[int, tuple[_Argument, _Result]] = {}

        def call(argument: _Argument) -> _Result:
            entry = entries.get(id(argument))
            if entry is None:
                if skip_if is not None and skip_if(argument):
                    return function(argument)
                if len(entries) >= maxsize:
                    entries.clear()
                entry = entries[id(argument)] = argument, function(argument)
            return entry[1]

        return call

    return decorate


# Lazy fields: of ten thousand cases only those in use are in memory.

_Value = TypeVar("_Value")
_Value_co = TypeVar("_Value_co", covariant=True)


class LazyValue(Generic[_Value_co]):
    """An immutable value that is computed when it is needed. All users share one object while one of them holds it."""

    __slots__ = ("_argument", "_compute", "_reference")

    def __init__(self, compute: Callable[[Any], _Value_co], argument: Any) -> None:
        """`compute` is called with `argument`."""
        self._compute = compute
        self._argument = argument
        self._reference: weakref.ref[Any] | None = None

    def value(self) -> _Value_co:
        """Return the value."""
        value = None if self._reference is None else self._reference()
        if value is None:
            value = self._compute(self._argument)
            self._reference = weakref.ref(value)
        return cast("_Value_co", value)


class LazyField(Generic[_Value]):
    """A field of a dataclass that may be set to a value or to a LazyValue."""

    def __init__(self, default: _Value) -> None:
        self._default = default

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = f"_{name}"

    def __get__(self, instance: object | None, owner: type) -> _Value:
        if instance is None:
            return self._default
        value = self.get_unevaluated(instance)
        return value.value() if isinstance(value, LazyValue) else value

    def __set__(self, instance: object, value: _Value | LazyValue[_Value]) -> None:
        object.__setattr__(instance, self._name, value)

    def get_unevaluated(self, instance: object) -> _Value | LazyValue[_Value]:
        """Return the value or LazyValue that the field was set to, without computing it."""
        return cast("_Value | LazyValue[_Value]", getattr(instance, self._name))


# A pause of the garbage collector while very many values are made

_MANY = 20_000
"""The collector searches fewer new objects than these in a few milliseconds."""
_ROUNDS = 16
"""Counting the frozen objects takes milliseconds, so they are counted only after this number of large pauses."""


class _FrozenObjects:
    """The objects that the collector ignores. Some of them may be garbage."""

    def __init__(self) -> None:
        self._rounds = 0
        self._count = 0

    def add_all(self) -> None:
        """Freeze all objects that exist. Collect garbage among the frozen ones first if their number has doubled."""
        gc.freeze()
        self._rounds += 1
        if self._rounds % _ROUNDS:
            return
        count = gc.get_freeze_count()
        if self._count and count > 2 * self._count:
            gc.unfreeze()
            gc.collect()
            gc.freeze()
            self._count = gc.get_freeze_count()
        self._count = self._count or count


_frozen_objects = _FrozenObjects()


@contextlib.contextmanager
def pause_gc() -> Iterator[None]:
    """Pause the garbage collector while very many lasting values are made: searching them would take most of the time.

    If there were many, the collector ignores all objects that exist at the end. Objects without references are still
    freed. Cycles are not, until a process that reads repeatedly (`watch`, the screen) has frozen too many objects. Our
    values have no cycles.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    count_before = gc.get_count()[0]
    try:
        yield
    finally:
        if was_enabled:
            # While the collector is off, its first count is the number of objects made and not freed.
            if gc.get_count()[0] - count_before >= _MANY:
                _frozen_objects.add_all()
            gc.enable()
