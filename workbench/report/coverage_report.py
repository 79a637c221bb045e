"""Coverage: the parts that the cases of a project reach, as text, Markdown and a versioned JSON document.

A part is anything of an agent or of its code that a case may reach. It is `unreached` only if every case that could
reach it has a current record. `workbench.watch.case_coverage` measures it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import groupby
from typing import Any

from workbench.model.identity import CaseKey
from workbench.model.text import join_some, pluralise, redact, redacted_line
from workbench.report.report_formats import SCHEMA_VERSION, escape_markdown

_BAR = 10  # cells
_MOST_NAMES = 8  # of cases or values in one line
_LONGEST_VALUE = 40


class PartKind(StrEnum):
    """The kind of a part. An expected tool is one that cases expect, not one that they reached."""

    AGENT = "agent"
    NODE = "node"
    TRANSFER = "transfer"
    TOOL = "tool"
    INSTRUCTION = "instruction"
    PERSONA = "persona"
    CALLBACK = "callback"
    PROMPT_FILE = "prompt_file"
    FUNCTION = "function"
    EXPECTED_TOOL = "expected_tool"


KIND_NAMES: Mapping[PartKind, str] = {
    PartKind.AGENT: "agents",
    PartKind.NODE: "nodes of the graph",
    PartKind.TRANSFER: "transfers",
    PartKind.TOOL: "tools",
    PartKind.INSTRUCTION: "instructions",
    PartKind.PERSONA: "personas",
    PartKind.CALLBACK: "callbacks",
    PartKind.PROMPT_FILE: "prompt files",
    PartKind.FUNCTION: "functions",
    PartKind.EXPECTED_TOOL: "expected tools",
}


class PartStatus(StrEnum):
    """Whether a case reaches a part.

    STALE: only records of cases that changed since, or whose code did, reach it. UNKNOWN: no record reaches it, and
    some case that could reach it has no complete record.
    """

    REACHED = "reached"
    STALE = "stale"
    UNKNOWN = "unknown"
    UNREACHED = "unreached"


STATUS_NAMES: Mapping[PartStatus, str] = {
    PartStatus.REACHED: "reached",
    PartStatus.STALE: "reached only by stale records",
    PartStatus.UNKNOWN: "unknown",
    PartStatus.UNREACHED: "not reached",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CoveragePart:
    """One part. `place` is the file and line that define it, relative to the project; empty if it is unknown.

    `cases` reach it with a current record, `stale_cases` only with a stale one.
    """

    kind: PartKind
    name: str
    place: str = ""
    status: PartStatus
    cases: Sequence[CaseKey] = ()
    stale_cases: Sequence[CaseKey] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgumentValues:
    """The values of one argument of a tool in the expected calls: how many differ, and those that occur only once."""

    tool: str
    argument: str
    values: int
    single_values: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class CoverageSection:
    """The parts of one agent, or of the code. `targets` are the targets with this agent, or with this code."""

    title: str
    targets: Sequence[str]
    parts: Sequence[CoveragePart]
    arguments: Sequence[ArgumentValues] = ()
    notes: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class UncertainCase:
    """A case whose record is stale or unknown, and why."""

    case: CaseKey
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """The coverage by `selected` cases, of which `current` have a current record."""

    selected: int
    current: int
    stale: Sequence[UncertainCase]
    unknown: Sequence[UncertainCase]
    sections: Sequence[CoverageSection]


def count_reached(parts: Iterable[CoveragePart]) -> tuple[int, int]:
    """Return how many parts a current record reaches, and how many there are."""
    statuses = [part.status for part in parts]
    return statuses.count(PartStatus.REACHED), len(statuses)


def group_by_kind(parts: Sequence[CoveragePart]) -> Iterator[tuple[PartKind, list[CoveragePart]]]:
    for kind, group in groupby(parts, key=lambda part: part.kind):
        yield kind, list(group)


def draw_bar(reached: int, total: int, *, width: int = _BAR) -> str:
    """Draw a share as a bar. It is full only if everything is reached, and empty only if nothing is."""
    filled = 0 if not reached else width if reached == total else min(max(reached * width // total, 1), width - 1)
    return "█" * filled + "░" * (width - filled)


# Text


def coverage_lines(coverage: Coverage, *, show_all: bool) -> Iterator[str]:
    """Yield the coverage as text: what is not reached, or with `show_all` every part with the cases that reach it."""
    yield summary_line(coverage)
    yield from uncertain_lines(coverage)
    for section in coverage.sections:
        yield ""
        yield redacted_line(section.title)
        groups = list(group_by_kind(section.parts))
        width = max((len(KIND_NAMES[kind]) for kind, _ in groups), default=0)
        for kind, parts in groups:
            reached, total = count_reached(parts)
            yield f"  {KIND_NAMES[kind]:<{width}}  {draw_bar(reached, total)} {reached:,} of {total:,}"
            shown = [part for part in parts if show_all or part.status is not PartStatus.REACHED]
            yield from (f"    {describe_part(part)}" for part in _join_transfers(shown))
        yield from (f"  {line}" for line in argument_lines(section, show_all=show_all))
        yield from (f"  note: {redacted_line(note)}" for note in section.notes)


def summary_line(coverage: Coverage) -> str:
    """Say in one line how many cases the coverage rests on."""
    if not coverage.selected:
        return "no case: nothing is reached"
    counts = [f"{coverage.current:,} with a current record"]
    counts += [f"{len(coverage.stale):,} stale"] if coverage.stale else []
    counts += [f"{len(coverage.unknown):,} unknown"] if coverage.unknown else []
    return f"coverage by {pluralise(coverage.selected, 'case')}: {', '.join(counts)}"


def uncertain_lines(coverage: Coverage) -> Iterator[str]:
    """Yield a line for each reason for which cases are unknown or stale."""
    for state, cases in (("unknown", coverage.unknown), ("stale", coverage.stale)):
        by_reason: dict[str, list[CaseKey]] = {}
        for uncertain in cases:
            by_reason.setdefault(uncertain.reason, []).append(uncertain.case)
        for reason, keys in by_reason.items():
            yield f"  {state}, {redacted_line(reason)}: {pluralise(len(keys), 'case')}: {_list_cases(keys)}"


def describe_part(part: CoveragePart) -> str:
    """Describe a part in one line: its status, its name and place, and the cases that reach it."""
    place = f" ({redacted_line(part.place)})" if part.place else ""
    if part.kind is PartKind.EXPECTED_TOOL:
        status = "expected" if part.cases else "never expected"
    else:
        status = STATUS_NAMES[part.status]
    keys = part.cases or part.stale_cases
    cases = f": {pluralise(len(keys), 'case')}: {_list_cases(keys)}" if keys else ""
    return f"{status}: {redacted_line(part.name)}{place}{cases}"


def _join_transfers(parts: Iterable[CoveragePart]) -> Iterator[CoveragePart]:
    """Join the transfers of an agent that nothing reaches: `a → b, c`. Each agent may hand over to many others."""
    joined: dict[tuple[object, ...], CoveragePart] = {}
    for number, part in enumerate(parts):
        sender, arrow, receiver = part.name.partition(" → ")
        is_joined = part.kind is PartKind.TRANSFER and arrow and not (part.cases or part.stale_cases)
        key = (sender, part.status, part.place) if is_joined else (number,)
        previous = joined.get(key)
        joined[key] = part if previous is None else replace(previous, name=f"{previous.name}, {receiver}")
    yield from joined.values()


def argument_lines(section: CoverageSection, *, show_all: bool) -> Iterator[str]:
    """Yield the arguments with values that occur in one expected call only; with `show_all` all such values."""
    rare = [argument for argument in section.arguments if argument.single_values]
    if rare:
        yield "argument values that only one expected call has"
    for argument in rare:
        texts = [redacted_line(value, width=_LONGEST_VALUE) for value in argument.single_values]
        values = join_some(texts, len(texts) if show_all else _MOST_NAMES)
        name = redacted_line(f"{argument.tool}.{argument.argument}")
        yield f"  {name}: {len(texts):,} of {pluralise(argument.values, 'value')}: {values}"


def _list_cases(cases: Sequence[CaseKey]) -> str:
    return join_some([redacted_line(str(case)) for case in cases], _MOST_NAMES)


# Markdown and JSON


def coverage_markdown(coverage: Coverage) -> str:
    """Write the coverage as Markdown: a table for each section, and what is not reached."""
    lines = ["### Coverage", "", f"{summary_line(coverage)}."]
    for uncertain in uncertain_lines(coverage):
        lines += ["", f"- {escape_markdown(uncertain.strip())}"]
    for section in coverage.sections:
        lines += ["", f"#### {escape_markdown(section.title)}", "", "| | reached | not reached |", "|---|--:|---|"]
        for kind, parts in group_by_kind(section.parts):
            reached, total = count_reached(parts)
            others = [escape_markdown(part.name) for part in parts if part.status is not PartStatus.REACHED]
            names = join_some(others, _MOST_NAMES)
            lines.append(f"| {KIND_NAMES[kind]} | {reached:,} of {total:,} | {names} |")
        for line in argument_lines(section, show_all=False):
            lines += ["", f"- {escape_markdown(line.strip())}"]
        for note in section.notes:
            lines += ["", f"- {escape_markdown(note)}"]
    return "\n".join(lines) + "\n"


def coverage_record(coverage: Coverage) -> Mapping[str, Any]:
    names = {key: redact(str(key)) for section in coverage.sections for part in section.parts for key in part.cases}
    return {
        "schema_version": SCHEMA_VERSION,
        "cases": {
            "selected": coverage.selected,
            "current": coverage.current,
            "stale": [_uncertain_record(each) for each in coverage.stale],
            "unknown": [_uncertain_record(each) for each in coverage.unknown],
        },
        "sections": [
            {
                "title": section.title,
                "targets": list(section.targets),
                "parts": [
                    {
                        "kind": part.kind.value,
                        "name": redact(part.name),
                        "place": part.place or None,
                        "status": part.status.value,
                        "cases": [names[key] for key in part.cases],
                        "stale_cases": [redact(str(key)) for key in part.stale_cases],
                    }
                    for part in section.parts
                ],
                "arguments": [
                    {
                        "tool": each.tool,
                        "argument": each.argument,
                        "values": each.values,
                        "once": [redact(value) for value in each.single_values],
                    }
                    for each in section.arguments
                ],
                "notes": [redact(note) for note in section.notes],
            }
            for section in coverage.sections
        ],
    }


def _uncertain_record(uncertain: UncertainCase) -> Mapping[str, str]:
    return {"case": redact(str(uncertain.case)), "target": uncertain.case.target, "reason": redact(uncertain.reason)}


def describe_gaps(parts: Iterable[CoveragePart]) -> str:
    """Describe what no case reaches as the topic of generated scenarios; empty if nothing can be asked for.

    Functions and files are left out: a user of the agent does not see them.
    """
    phrases = {
        PartKind.TOOL: "the tool {}",
        PartKind.AGENT: "the agent {}",
        PartKind.NODE: "the step {}",
        PartKind.TRANSFER: "the transfer {}",
        PartKind.INSTRUCTION: "the instruction of {}",
    }
    unreached = [part for part in parts if part.status in (PartStatus.UNREACHED, PartStatus.UNKNOWN)]
    gaps = [phrases[part.kind].format(part.name) for part in _join_transfers(unreached) if part.kind in phrases]
    personas = [part.name for part in unreached if part.kind is PartKind.PERSONA]
    sentences = [f"Requests that need {', or '.join(dict.fromkeys(gaps))}."] if gaps else []
    sentences += [f"Users with the persona {', or '.join(personas)}."] if personas else []
    return " ".join(sentences)
