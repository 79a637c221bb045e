"""Fields that are made when they are needed: one object for all who hold it, and none where nobody does."""

from __future__ import annotations

import gc
import weakref
from dataclasses import dataclass

from workbench.model.facts import LazyField, LazyValue


class Thing:
    """Something large."""


@dataclass(frozen=True)
class Holder:
    thing: LazyField[Thing | None] = LazyField(None)  # noqa: RUF009 - a descriptor


def test_a_value_is_the_same_while_it_is_held_and_gone_afterwards() -> None:
    holder = Holder(thing=LazyValue(lambda _: Thing(), None))

    first = holder.thing
    assert first is holder.thing
    seen = weakref.ref(first)
    del first
    gc.collect()

    assert seen() is None
    assert isinstance(holder.thing, Thing)


def test_a_plain_value_is_held_and_the_default_is_none() -> None:
    thing = Thing()

    assert Holder(thing=thing).thing is thing
    assert Holder().thing is None
