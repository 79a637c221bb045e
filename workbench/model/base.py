"""The two manners of our types: formats that belong to ADK, and facts that are ours."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Self, cast

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


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
        made = cls.__new__(cls)
        defaults, made_anew = _defaults_of(cls)
        fields = {**defaults, **values}
        for name, make in made_anew:
            if name not in values:
                fields[name] = make()
        _set(made, "__dict__", fields)
        _set(made, "__pydantic_fields_set__", set(values))
        _set(made, "__pydantic_extra__", None)
        _set(made, "__pydantic_private__", None)
        return made


_set = object.__setattr__


@cache
def _defaults_of(cls: type[Fact]) -> tuple[dict[str, Any], tuple[tuple[str, Callable[[], Any]], ...]]:
    """The fields of a type, in order, with what they are by default; and what makes defaults that may be changed."""
    fields = cls.model_fields.items()
    made_anew = tuple((name, field.default_factory) for name, field in fields if field.default_factory is not None)
    return {name: field.default for name, field in fields}, cast("Any", made_anew)
