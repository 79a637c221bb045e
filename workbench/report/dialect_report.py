"""Dialects of trajectory metrics: the scores of ADK, Vertex AI and agentevals for the same calls, and their table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from workbench.model.identity import CaseInSet, format_case_name
from workbench.model.text import neutralise, pluralise
from workbench.report.run_report import name_repeat

if TYPE_CHECKING:
    from workbench.metrics.dialects import CaseDialects, DialectComparison, DialectReading


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
        duplicates="unspecified: both one for one, the default here, and by membership are shown",
        empties="without calls no precision, without expected calls no recall; the mean leaves out these turns",
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


# As a table.

SCHEMA_VERSION = 1
"""Increased when a key is removed or changes its meaning. New keys do not increase it."""


class NamedDialects(NamedTuple):
    """A case, identified by `case` in its set, with the scores of one repeat in all dialects."""

    case: CaseInSet
    dialects: CaseDialects
    repeat: int = 0

    @property
    def name(self) -> str:
        """The unique name of the case, with a number for repeats after the first."""
        return name_repeat(format_case_name(*self.case), self.repeat)


def dialect_lines(cases: Sequence[NamedDialects], *, only_disagreements: bool) -> Iterator[str]:
    """Yield the scores of each case, and of its turns if there are several, then the policies of the dialects."""
    shown = [case for case in cases if case.dialects.disagreements or not only_disagreements]
    for case in shown:
        dialects = case.dialects
        yield neutralise(case.name)
        if dialects.reason:
            yield f"  not compared: {dialects.reason}"
            continue
        has_several_turns = len(dialects.turns) > 1
        for number, comparisons in enumerate(dialects.turns if has_several_turns else (), start=1):
            yield f"  turn {number}" if comparisons else f"  turn {number}: one side has no trajectory"
            yield from _readings(comparisons, only_disagreements=only_disagreements, indent=4)
        if has_several_turns:
            yield "  the case"
        yield from _readings(
            dialects.whole_case, only_disagreements=only_disagreements, indent=4 if has_several_turns else 2
        )
    if shown:
        yield ""
        yield from _policy_lines()
        yield ""
    disagreeing = sum(bool(case.dialects.disagreements) for case in cases)
    uncompared = sum(bool(case.dialects.reason) for case in cases)
    note = f", {uncompared} not compared" if uncompared else ""
    yield f"{pluralise(len(cases), 'case')}, the dialects disagree on {disagreeing}{note}"


def dialect_record(cases: Sequence[NamedDialects]) -> dict[str, Any]:
    return {
        "schema_version": SCHEMA_VERSION,
        "policies": {
            policy.dialect: {name: value for name, value in policy._asdict().items() if name != "dialect"}
            for policy in POLICIES
        },
        "cases": [
            {
                "eval_id": case.name,
                "disagreements": case.dialects.disagreements,
                "reason": case.dialects.reason or None,
                "turns": [list(map(_comparison_record, turn)) for turn in case.dialects.turns],
                "whole": list(map(_comparison_record, case.dialects.whole_case)),
            }
            for case in cases
        ],
    }


def rule_texts(comparison: DialectComparison) -> Iterator[str]:
    """Yield the score of each rule: `ADK EXACT 1`, or `Vertex recall 0.5 one for one, 1 by membership`."""
    rules = dict.fromkeys((reading.dialect, reading.rule) for reading in comparison.readings)
    for dialect, rule in rules:
        readings = [each for each in comparison.readings if (each.dialect, each.rule) == (dialect, rule)]
        scores = dict.fromkeys(_score_text(reading) for reading in readings)
        if len(scores) > 1:
            scores = dict.fromkeys(f"{_score_text(reading)} {reading.variant}" for reading in readings)
        yield f"{dialect} {rule} {', '.join(scores)}"


def _score_text(reading: DialectReading) -> str:
    return "undefined" if reading.score.value is None else f"{reading.score.value:.3g}"


def _readings(comparisons: Sequence[DialectComparison], *, only_disagreements: bool, indent: int) -> Iterator[str]:
    space = " " * indent
    for comparison in comparisons:
        if only_disagreements and not comparison.causes:
            continue
        sign = "≠" if comparison.causes else " "
        yield f"{space}{sign} {comparison.question}: {' · '.join(rule_texts(comparison))}"
        for cause in comparison.causes:
            yield f"{space}    {cause}"


def _policy_lines() -> Iterator[str]:
    for policy in POLICIES:
        yield f"{policy.dialect}"
        yield f"  duplicates: {policy.duplicates}"
        yield f"  empties: {policy.empties}"
        yield f"  arguments: {policy.arguments}"
        yield f"  several turns: {policy.turns}"


def _comparison_record(comparison: DialectComparison) -> dict[str, Any]:
    return {
        "question": comparison.question,
        "readings": [
            {
                "dialect": reading.dialect,
                "rule": reading.rule,
                "variant": reading.variant or None,
                "score": reading.score.value,
                "reason": reading.score.reason,
            }
            for reading in comparison.readings
        ],
        "causes": list(comparison.causes),
    }
