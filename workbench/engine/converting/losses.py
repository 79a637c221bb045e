"""What a conversion cannot carry over: said before it is missed."""

from __future__ import annotations

from collections.abc import Iterator

from workbench.model.text import counted


class Losses:
    """What is lost, in words, with the cases that lose it."""

    def __init__(self) -> None:
        self._cases: dict[str, dict[str, None]] = {}

    def add(self, what: str, *, case: str) -> None:
        """Note that a case loses something."""
        self._cases.setdefault(what, {})[case] = None

    def lines(self) -> Iterator[str]:
        """One line for each kind of loss: how many cases, and the first of them."""
        for what, cases in self._cases.items():
            first = next(iter(cases))
            yield f"{what} ({counted(len(cases), 'case')}{'' if len(cases) == 1 else ', the first'}: {first})"
