"""Injected answers: which calls they are for, and when chance gives them."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from workbench.metrics.canonical import same
from workbench.model.environment import Injection, SimulatedTool


def matches(args: Mapping[str, Any], wanted: Mapping[str, Any] | None) -> bool:
    """Whether a call has at least these arguments, each equal as a JSON value. None wants nothing."""
    return all(name in args and same(args[name], value) for name, value in (wanted or {}).items())


class Draws:
    """The injections of one tool in one case. Each draws from a sequence of its own, in the order of the calls.

    A call draws from an injection that it matches where none before that one answered: ADK's order. Each case, and each
    repeat of it, begins its sequences anew: what other cases do, and when, changes nothing.
    """

    def __init__(self, tool: SimulatedTool, *, seed: str) -> None:
        """`seed` is for injections without one of their own."""
        self._injections = [
            (each, random.Random(each.random_seed if each.random_seed is not None else f"{seed}\0{tool.name}\0{index}"))
            for index, each in enumerate(tool.injections)
        ]

    def next(self, args: Mapping[str, Any]) -> Injection | None:
        """The injection that answers a call, if any does."""
        for injection, sequence in self._injections:
            if matches(args, injection.match_args) and sequence.random() < injection.probability:
                return injection
        return None
