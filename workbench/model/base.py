"""The two manners of our types: formats that belong to ADK, and facts that are ours."""

from __future__ import annotations

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
