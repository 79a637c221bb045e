"""How a case is known: to the scheduler, the store, the front ends and the files they write."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass

from workbench.model.base import Fact

CaseAt = tuple[str, int]
"""A case within its set: its id, and its occurrence as in `CaseKey`."""


def name_of_case(eval_id: str, occurrence: int) -> str:
    """What a case is called among those of its set: its id, of the second with the same id `id#2`."""
    return f"{eval_id}#{occurrence + 1}" if occurrence else eval_id


def cases_by_name(cases: Iterable[CaseAt]) -> Mapping[str, Set[CaseAt]]:
    """The cases of a set by what people may call them: an id means all that have it, `id#2` the second of them.

    Where a case has `id#2` for its id, that one is meant.
    """
    cases = list(cases)
    named: dict[str, set[CaseAt]] = {}
    for case in cases:
        named.setdefault(case[0], set()).add(case)
    for eval_id, occurrence in cases:
        named.setdefault(name_of_case(eval_id, occurrence), {(eval_id, occurrence)})
    return named


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
        return f"{self.eval_set}:{self.name}"

    @property
    def name(self) -> str:
        """What it is called among the cases of its set."""
        return name_of_case(self.eval_id, self.occurrence)


@dataclass(frozen=True, slots=True)
class JobKey:
    """One repeat of one case: what a run schedules. Repeats count from 0. No format has it."""

    case: CaseKey
    repeat: int = 0

    def __eq__(self, other: object) -> bool:
        """Whether it is the same repeat of the same case; what nearly always differs is compared first."""
        if not isinstance(other, JobKey):
            return NotImplemented
        mine, its = self.case, other.case
        return self.repeat == other.repeat and (
            mine is its
            or (
                mine.eval_id == its.eval_id
                and mine.occurrence == its.occurrence
                and mine.eval_set == its.eval_set
                and mine.target == its.target
            )
        )

    def __hash__(self) -> int:
        """Of what nearly always differs, without asking the case for its own: it is looked up all the time."""
        case = self.case
        return hash((case.eval_id, case.occurrence, case.eval_set, self.repeat))
