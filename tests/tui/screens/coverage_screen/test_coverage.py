"""The coverage on the screen: the tree, the cases of a part, and scenarios for what no case reaches."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.engine.judged import serve_judge
from tests.llm.servers import HttpResponse, Server, gemini
from workbench.model.identity import CaseKey
from workbench.report.coverage_report import (
    Coverage,
    CoveragePart,
    CoverageSection,
    PartKind,
    PartStatus,
    UncertainCase,
)
from workbench.tui.screens import coverage_screen
from workbench.tui.screens.coverage_screen import CoverageTree, describe_wanted, measure_project
from workbench.tui.state.text_layout import render_blocks
from workbench.tui.widgets.inputs import FilterInput
from workbench.tui.widgets.row_lists import LinesView

AGENT = '''
def switch(lamp: int):
    return "on"

def dim(lamp: int):
    return "dim"

def answer(prompt):
    """Answers about lamps."""
    return {"response": switch(1), "predicted_trajectory": [{"tool_name": "switch", "tool_input": {"lamp": 1}}]}
'''
CASES = [
    {"eval_id": f"{name} [b]", "conversation": [{"user_content": {"role": "user", "parts": [{"text": name}]}}]}
    for name in ("lamp", "灯")
]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    draft = {"starting_prompt": "Dim it!", "conversation_plan": "You want it dim.", "user_persona": "NOVICE"}

    def answer(_: object) -> HttpResponse:
        return gemini(json.dumps({"scenarios": [draft]}))

    with serve_judge(monkeypatch, answer) as model_server:
        yield model_server


@pytest.fixture
def project(make_project: Any) -> Path:
    path: Path = make_project(agent=AGENT, lights=CASES)
    settings = (path / "workbench.toml").read_text()
    path.joinpath("workbench.toml").write_text(f'{settings}tools = ["agent:switch", "agent:dim"]\n[judge]\ntries = 1\n')
    return path


async def test_a_part_lists_its_cases_and_enter_goes_to_one(project: Path, open_app: Any) -> None:
    async with open_app(project) as screen:
        await screen.until("lights", "lamp")
        await screen.press("R")
        await screen.until("2 of 2")
        await screen.press("alt+v")
        await screen.until("coverage by 2 cases: 2 with a current record", "▸ tools", "1 of 2", "▸ functions")

        await screen.press("j", "enter")
        await screen.until("▸ ✓ switch · 2 cases · agent.py:2", "  ✗ dim · agent.py:5")
        await screen.press("j", "enter")
        await screen.until("lights.evalset.json:灯 [b]", "cases: 2")
        await screen.press("j", "j", "enter")

        await screen.until_gone("coverage by")
        await screen.until("灯 [b]")
        assert screen.app.screen.state.selected_case.eval_id == "灯 [b]"


async def test_gaps_and_the_filter(project: Path, open_app: Any) -> None:
    async with open_app(project) as screen:
        await screen.until("lights", "lamp")
        await screen.press("alt+v")
        await screen.until("0 with a current record, 2 unknown", "▸ functions")
        await screen.press("f")
        await screen.until("? dim", "? answer", "only what no current record reaches")

        await screen.press("slash", "d", "i")
        await screen.until_gone("? answer")
        await screen.press("escape")
        await screen.until("? answer")
        await screen.press("question_mark")
        await screen.until("What the symbols mean")
        lines = screen.app.screen.query_one(LinesView).lines
        text = " ".join(piece.text for line in lines for piece in line)
        assert "reached only before something changed" in text
        assert "unsaved edits" not in text
        await screen.press("escape")
        await screen.until_gone("What the symbols mean")
        await screen.press("escape")
        await screen.until_gone("coverage by")


async def test_the_filter_finds_folded_parts_and_the_cursor_stays_on_what_it_found(
    project: Path, open_app: Any
) -> None:
    async with open_app(project) as screen:
        await screen.until("lights", "lamp")
        await screen.press("R")
        await screen.until("2 of 2")
        await screen.press("alt+v")
        await screen.until("2 with a current record", "▸ functions")
        await screen.press("slash", *"switch", "enter")
        await screen.until("✓ switch · 2 cases")
        await screen.press("enter")

        await screen.until_gone("filter:")
        await screen.until("▾ ✓ switch", "lights.evalset.json:灯 [b]", "▾ tools", "▸ functions")
        assert screen.app.screen._tree.selected_row.part.name == "switch"


async def test_a_narrow_screen_shows_the_counts_and_the_main_keys(project: Path, open_app: Any) -> None:
    async with open_app(project, size=(40, 10)) as screen:
        await screen.until("lights")
        await screen.press("alt+v")
        await screen.until("2 cases: 0 current, 2 unknown", "⏎ open", "esc back")
        await screen.press("f")
        await screen.until("   gaps")


async def test_keys_typed_while_records_are_read_have_their_effect(
    project: Path, open_app: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_end = threading.Event()

    def measure(workspace: Any) -> Coverage:
        assert may_end.wait(20)
        return measure_project(workspace)

    monkeypatch.setattr(coverage_screen, "measure_project", measure)
    async with open_app(project) as screen:
        await screen.until("lights", "lamp")
        await screen.press("alt+v", "j", "enter")
        await screen.until("reading the records")
        hidden = screen.app.screen.query_one(FilterInput)
        assert (hidden.value, hidden.focusable) == ("", False)
        may_end.set()
        await screen.until("▾ tools", "? switch")


async def test_a_filter_typed_while_records_are_read_is_applied(
    project: Path, open_app: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_end = threading.Event()

    def measure(workspace: Any) -> Coverage:
        assert may_end.wait(20)
        return measure_project(workspace)

    monkeypatch.setattr(coverage_screen, "measure_project", measure)
    async with open_app(project) as screen:
        await screen.until("lights", "lamp")
        await screen.press("alt+v", "slash", *"dim")
        await screen.until("reading the records", "filter: dim")
        may_end.set()
        await screen.until("? dim")
        assert "switch" not in screen.text


async def test_scenarios_are_written_for_what_no_case_reaches(project: Path, open_app: Any, server: Server) -> None:
    async with open_app(project) as screen:
        await screen.until("lights", "lamp")
        await screen.press("R")
        await screen.until("2 of 2")
        await screen.press("alt+v")
        await screen.until("2 with a current record", "▸ functions")
        await screen.press("G", "g")
        await screen.until("no scenario can be asked for")
        await screen.press("home", "g")
        await screen.until("How many scenarios", "Topic: Requests that", "need the tool dim.")
        await screen.press("escape")
        await screen.until_gone("How many scenarios")
        await screen.until("coverage by 2 cases")
        await screen.press("g")
        await screen.until("How many scenarios")
        await screen.press("backspace", "1", "enter")
        await screen.until("Topic of the scenarios", "Requests that need the tool dim.")
        await screen.press("enter")
        await screen.until("1 of 1 scenario kept", "Dim it!")

    prompt = server.calls[0].body["contents"][0]["parts"][0]["text"]
    assert "<wishes>\nRequests that need the tool dim." in prompt


async def test_a_project_without_cases_says_so(tmp_path: Path, open_app: Any) -> None:
    (tmp_path / "workbench.toml").write_text("")
    async with open_app(tmp_path) as screen:
        await screen.until("workbench")
        await screen.press("alt+v")
        await screen.until("no eval set with an agent was found")
        assert "gaps" not in screen.text
        await screen.press("j", "enter", "f", "g", "escape")
        await screen.until_gone("no eval set with an agent was found: nothing can be covered")


def make_tree(*parts: CoveragePart) -> CoverageTree:
    section = CoverageSection(title="agent", targets=["t"], parts=parts)
    return CoverageTree(Coverage(selected=1, current=1, stale=(), unknown=(), sections=[section]))


def list_texts(tree: CoverageTree, width: int = 80) -> list[str]:
    return ["".join(piece.text for piece in tree.line(index, width)).rstrip() for index in range(len(tree))]


def test_rows_are_drawn_with_bars_and_safe_names() -> None:
    case = CaseKey(target="t", eval_set="s.evalset.json", eval_id="c\x1b[1m")
    reached = CoveragePart(kind=PartKind.TOOL, name="a\nb", status=PartStatus.REACHED, cases=[case])
    stale = CoveragePart(kind=PartKind.TOOL, name="old", status=PartStatus.STALE, stale_cases=[case])
    tree = make_tree(reached, stale)
    tree.move_to(1)
    tree.toggle_fold()
    tree.move_to(2)
    tree.toggle_fold()

    rows = list_texts(tree)

    assert rows[0].startswith(" ▾ agent  ")
    assert rows[0].endswith("  ██████▒▒▒▒▒▒ 1 of 2 · 1 stale")
    assert rows[1].index("█") == rows[0].index("█")
    assert rows[2].startswith("     ▾ ✓ a")
    assert rows[3].startswith("         s.evalset.json:c")
    assert rows[4] == "     ▸ ~ old · 1 case"
    assert "\x1b" not in "".join(rows)


def test_gaps_leave_out_sections_without_any() -> None:
    tree = make_tree(CoveragePart(kind=PartKind.TOOL, name="a", status=PartStatus.REACHED))

    tree.toggle_gaps()

    assert len(tree) == 0
    assert tree.selected_row is None
    tree.toggle_gaps()
    assert list_texts(tree)[0].startswith(" ▾ agent")


def test_a_section_describes_its_parts_and_only_cases_of_its_agent() -> None:
    keys = [CaseKey(target=target, eval_set="s.evalset.json", eval_id=f"case of {target}") for target in ("t", "other")]
    unknown = [UncertainCase(case=key, reason="never ran") for key in keys]
    parts = [CoveragePart(kind=PartKind.FUNCTION, name="a" * 60, status=PartStatus.UNREACHED)]
    section = CoverageSection(title="agent" * 12, targets=["t"], parts=parts)
    tree = CoverageTree(Coverage(selected=2, current=0, stale=(), unknown=unknown, sections=[section]))

    lines = render_blocks(tree.blocks(), width=100, side_by_side=False)
    text = "\n".join("".join(piece.text for piece in line) for line in lines)

    assert "functions  1 not reached" in text
    assert "case of t" in text
    assert "case of other" not in text
    assert "agent" * 12 in list_texts(tree, width=200)[0]


def test_a_topic_leaves_out_what_is_only_unknown() -> None:
    unknown = CoveragePart(kind=PartKind.TOOL, name="maybe", status=PartStatus.UNKNOWN)
    unreached = CoveragePart(kind=PartKind.TOOL, name="dim", status=PartStatus.UNREACHED)

    assert describe_wanted([unknown, unreached]) == "Requests that need the tool dim."
