"""What a conversion cannot carry over: said before it is missed."""

from __future__ import annotations

from collections.abc import Iterator

from workbench.model.text import counted


class Losses:
    """What is lost, in words, with the cases that lose it."""

    def __init__(self) -> None:
        self._cases: dict[str, dict[str, None]] = {}
        self.unread = 0  # rows or cases that are lost as a whole, because they cannot be read

    def add(self, what: str, *, case: str) -> None:
        """Note that a case loses something. `case` is a name that no other has: each counts once."""
        self._cases.setdefault(what, {})[case] = None

    def add_unread(self, what: str, *, reason: str, case: str) -> None:
        """Note that a row or case cannot be read and is left out."""
        self.unread += 1
        self.add(f"a {what} that cannot be read is left out: {reason}", case=case)

    def lines(self) -> Iterator[str]:
        """One line for each kind of loss: how many cases, and the first of them."""
        for what, cases in self._cases.items():
            first = next(iter(cases))
            yield f"{what} ({counted(len(cases), 'case')}{'' if len(cases) == 1 else ', the first'}: {first})"
