"""Dialects of trajectory metrics: what ADK, Vertex AI and agentevals each say of the same calls, side by side."""

from __future__ import annotations

from typing import NamedTuple

from workbench.model.results import Score


class Policy(NamedTuple):
    """What a dialect does where definitions part: calls that occur twice, no calls, equal arguments, several turns."""

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
    """What one rule of one dialect says. `variant` tells readings of the same rule apart."""

    dialect: str
    rule: str
    score: Score
    variant: str = ""


class DialectComparison(NamedTuple):
    """Rules of several dialects that ask the same. `causes` say why they disagree; none where they do not."""

    question: str
    readings: tuple[Reading, ...]
    causes: tuple[str, ...] = ()


class CaseDialects(NamedTuple):
    """The comparisons of each turn, and of the case as a whole; a turn without two trajectories has none.

    Where there is nothing at all, `reason` says why.
    """

    turns: tuple[tuple[DialectComparison, ...], ...] = ()
    whole: tuple[DialectComparison, ...] = ()
    reason: str = ""

    @property
    def disagreements(self) -> int:
        """How many questions are answered differently, of the turns and of the whole."""
        return sum(bool(each.causes) for comparisons in (*self.turns, self.whole) for each in comparisons)
