"""The two manners of our types: formats that belong to ADK, and facts that are ours."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Self, TypeVar, cast

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

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
