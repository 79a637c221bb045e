"""Coverage as text, Markdown and JSON."""

from __future__ import annotations

from dataclasses import replace

import pytest

from workbench.model.identity import CaseKey
from workbench.report.coverage_report import (
    ArgumentValues,
    Coverage,
    CoveragePart,
    CoverageSection,
    PartKind,
    PartStatus,
    UncertainCase,
    coverage_lines,
    coverage_markdown,
    coverage_record,
    describe_gaps,
    draw_bar,
)

CASES = [CaseKey(target="t", eval_set="s.evalset.json", eval_id=f"c{number}") for number in range(12)]
PARTS = [
    CoveragePart(kind=PartKind.TOOL, name="find", status=PartStatus.REACHED, cases=CASES),
    CoveragePart(kind=PartKind.TOOL, name="look|up", place="a.py:3", status=PartStatus.UNREACHED),
    CoveragePart(kind=PartKind.TOOL, name="old", status=PartStatus.STALE, stale_cases=CASES[:1]),
    CoveragePart(kind=PartKind.FUNCTION, name="f", status=PartStatus.UNKNOWN),
]
SECTION = CoverageSection(
    title="agent",
    targets=["t"],
    parts=PARTS,
    arguments=[
        ArgumentValues(tool="find", argument="q", values=10, single_values=[f'"{"x" * 50}{n}"' for n in range(9)])
    ],
    notes=["a note"],
)
COVERAGE = Coverage(
    selected=12,
    current=10,
    stale=[UncertainCase(case=CASES[0], reason="tools.py changed")],
    unknown=[UncertainCase(case=CASES[1], reason="never ran")],
    sections=[SECTION],
)


@pytest.mark.parametrize(
    ("reached", "total", "bar"),
    [(0, 5, "░░░░"), (1, 1000, "█░░░"), (999, 1000, "███░"), (5, 5, "████"), (2, 4, "██░░"), (0, 0, "░░░░")],
)
def test_a_bar_is_full_or_empty_only_if_all_or_nothing_is_reached(reached: int, total: int, bar: str) -> None:
    assert draw_bar(reached, total, width=4) == bar


def test_text_lists_what_is_not_reached() -> None:
    lines = list(coverage_lines(COVERAGE, show_all=False))

    assert lines[:5] == [
        "coverage by 12 cases: 10 with a current record, 1 stale, 1 unknown",
        "  unknown, never ran: 1 case: s.evalset.json:c1",
        "  stale, tools.py changed: 1 case: s.evalset.json:c0",
        "",
        "agent",
    ]
    assert lines[5] == "  tools      ███░░░░░░░ 1 of 3"
    assert "    not reached: look|up (a.py:3)" in lines
    assert "    reached only by stale records: old: 1 case: s.evalset.json:c0" in lines
    assert "    unknown: f" in lines
    assert not [line for line in lines if line.strip().startswith("reached: find")]
    assert lines[-2].endswith(" and 1 more")
    assert lines[-1] == "  note: a note"


def test_all_lists_what_is_reached_with_a_few_cases() -> None:
    [line] = [line for line in coverage_lines(COVERAGE, show_all=True) if "reached: find" in line]

    assert line.startswith("    reached: find: 12 cases: s.evalset.json:c0, ")
    assert line.endswith("s.evalset.json:c7 and 4 more")


def test_markdown_escapes_names() -> None:
    assert "| tools | 1 of 3 | look\\|up, old |" in coverage_markdown(COVERAGE)


def test_json_has_every_case() -> None:
    record = coverage_record(COVERAGE)

    [section] = record["sections"]
    assert section["parts"][0]["cases"] == [str(case) for case in CASES]
    assert section["parts"][1] == {
        "kind": "tool", "name": "look|up", "place": "a.py:3", "status": "unreached", "cases": [], "stale_cases": [],
    }  # fmt: skip
    assert record["cases"]["unknown"] == [{"case": "s.evalset.json:c1", "target": "t", "reason": "never ran"}]


def test_without_cases_nothing_is_reached() -> None:
    empty = replace(COVERAGE, selected=0, current=0, stale=[], unknown=[], sections=[])

    assert list(coverage_lines(empty, show_all=False)) == ["no case: nothing is reached"]


def test_the_topic_of_generated_scenarios_is_what_a_user_can_ask_for() -> None:
    assert describe_gaps(PARTS) == "Requests that need the tool look|up."
    assert describe_gaps(PARTS[:1]) == ""
    persona = CoveragePart(kind=PartKind.PERSONA, name="NOVICE", status=PartStatus.UNREACHED)
    transfer = CoveragePart(kind=PartKind.TRANSFER, name="a → b", status=PartStatus.UNKNOWN)
    expected = "Requests that need the transfer a → b. Users with the persona NOVICE."
    assert describe_gaps([persona, transfer]) == expected
