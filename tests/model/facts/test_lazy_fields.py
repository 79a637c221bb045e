"""Fields that are created on demand, shared by all references, and freed with the last one."""

from __future__ import annotations

import gc
import weakref
from dataclasses import dataclass

from workbench.model.facts import LazyField, LazyValue


class Thing:
    """A large value."""


@dataclass(frozen=True)
class Holder:
    thing: LazyField[Thing | None] = LazyField(None)  # noqa: RUF009 - a descriptor


def test_a_lazy_value_is_shared_while_referenced_and_freed_afterwards() -> None:
    holder = Holder(thing=LazyValue(lambda _: Thing(), None))

    first = holder.thing
    assert first is holder.thing
    reference = weakref.ref(first)
    del first
    gc.collect()

    assert reference() is None
    assert isinstance(holder.thing, Thing)


def test_a_plain_value_is_stored_and_the_default_is_none() -> None:
    thing = Thing()

    assert Holder(thing=thing).thing is thing
    assert Holder().thing is None
