"""How a case is known: to the scheduler, the store, the front ends and the files they write."""

from __future__ import annotations

from workbench.model.base import Fact


class CaseKey(Fact):
    """One case of one set as one target runs it.

    `eval_set` is the path of the file relative to the project root, with forward slashes. `occurrence` tells apart
    cases of one set that share an id: 0 for the first.
    """

    target: str
    eval_set: str
    eval_id: str
    occurrence: int = 0

    def __str__(self) -> str:
        suffix = f"#{self.occurrence + 1}" if self.occurrence else ""
        return f"{self.eval_set}:{self.eval_id}{suffix}"


class JobKey(Fact):
    """One repeat of one case: what a run schedules. Repeats count from 0."""

    case: CaseKey
    repeat: int = 0

    def __hash__(self) -> int:
        """Of what nearly always differs, without asking the case for its own: it is looked up all the time."""
        return hash((self.case.eval_id, self.case.occurrence, self.case.eval_set, self.repeat))
