"""Dialects of trajectory metrics: the scores of ADK, Vertex AI and agentevals for the same calls, side by side."""

from __future__ import annotations

from typing import NamedTuple

from workbench.model.results import Score


class Policy(NamedTuple):
    """The choices of a dialect where definitions differ: duplicate calls, no calls, equal arguments, several turns."""

    dialect: str
    duplicates: str
    empties: str
    arguments: str
    turns: str


POLICIES = (
    Policy(
        dialect="ADK",
        duplicates="one for one",
        empties="nothing expected: IN_ORDER and ANY_ORDER match whatever was called",
        arguments="Python's ==: true is 1, and absent arguments are not {}",
        turns="mean of the turns",
    ),
    Policy(
        dialect="Vertex",
        duplicates="unspecified: one for one, as here by default, and by membership are both shown",
        empties="nothing called has no precision, nothing expected no recall; such turns leave the mean",
        arguments="by value: true is not 1, absent arguments are {}",
        turns="mean of the turns",
    ),
    Policy(
        dialect="agentevals",
        duplicates="one for one",
        empties="no calls on either side match; nothing called is a subset, nothing expected has a superset",
        arguments="Python's ==: true is 1, absent arguments are {}",
        turns="all turns are one trajectory; strict compares message by message, here turn by turn",
    ),
)


class Reading(NamedTuple):
    """The score of one rule of one dialect. `variant` separates readings of the same rule."""

    dialect: str
    rule: str
    score: Score
    variant: str = ""


class DialectComparison(NamedTuple):
    """Rules of several dialects that measure the same. `causes` say why they disagree; empty if they agree."""

    question: str
    readings: tuple[Reading, ...]
    causes: tuple[str, ...] = ()


class CaseDialects(NamedTuple):
    """The comparisons of each turn and of the whole case; a turn without two trajectories has none.

    `reason` is set if there are none at all.
    """

    turns: tuple[tuple[DialectComparison, ...], ...] = ()
    whole: tuple[DialectComparison, ...] = ()
    reason: str = ""

    @property
    def disagreements(self) -> int:
        """The number of comparisons that disagree, over the turns and the whole case."""
        return sum(bool(each.causes) for comparisons in (*self.turns, self.whole) for each in comparisons)
