"""Whose newest results a table shows: an eval set, an agent, or everything."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.model.keys import CaseKey
from workbench.tui.state.browser import Browser, Row
from workbench.tui.state.pieces import safe_line


@dataclass(frozen=True, slots=True)
class Scope:
    """`eval_set` is empty for all sets of the target, `target` None for everything.

    `narrowest` is the eval set to come back to after everything.
    """

    target: str | None
    eval_set: str = ""
    narrowest: tuple[str | None, str] = (None, "")

    @classmethod
    def around(cls, row: Row | None) -> Scope:
        """The eval set of a row, the target where the row is one, everything where there is none."""
        if row is None:
            return cls(None)
        return cls(row.target, row.eval_set, (row.target, row.eval_set))

    @property
    def title(self) -> str:
        """What it is called, safe to show."""
        if self.target is None:
            return "everything"
        return safe_line(self.eval_set or self.target or "sets without an agent")

    def wider(self) -> Scope:
        """From a set to its target, to everything, and back to where it began."""
        if self.eval_set:
            return Scope(self.target, "", self.narrowest)
        if self.target is not None:
            return Scope(None, "", self.narrowest)
        return Scope(*self.narrowest, self.narrowest)

    def cases(self, browser: Browser) -> list[CaseKey]:
        """Its cases, in the order of their files."""
        sets = browser.sets if self.target is None else browser.sets_of(self.target)
        chosen = (listed for listed in sets if self.eval_set in ("", listed.relative))
        return [key for listed in chosen for key in listed.keys]
