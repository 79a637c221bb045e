"""The text of a row, and the order in which parts disappear at small widths."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from rich.cells import cell_len

from workbench.model.identity import JobKey
from workbench.model.results import CaseStatus
from workbench.model.run_events import AgentsImporting
from workbench.tui.state.browser_rows import format_border_subtitle, format_border_title, format_row

SET = "sets/lights.evalset.json"


def draw_row(project: Any, eval_id: str, width: int = 46) -> str:
    project.select(eval_id)
    line = format_row(project.state.row_view(project.browser.cursor), width)
    assert sum(cell_len(piece.text) for piece in line) == width
    return "".join(piece.text for piece in line)


def test_a_case_shows_its_symbol_and_its_time(make_listed_project: Any) -> None:
    project = make_listed_project(["good", "bad", "new"])
    project.store(good=CaseStatus.PASSED, bad=CaseStatus.ERROR)

    assert draw_row(project, "good").split() == ["✓", "good", "250", "ms"]
    assert draw_row(project, "bad").split() == ["!", "bad", "error"]
    assert draw_row(project, "new").split() == ["○", "new"]


def test_a_stale_case_still_shows_its_verdict(make_listed_project: Any, make: Any) -> None:
    project = make_listed_project(["a"])
    project.store(a=CaseStatus.FAILED)
    project.read(make.case("a", make.turn("Hi", "Hello")), hashes=("e", "new"))

    assert draw_row(project, "a").split() == ["●", "a", "250", "ms", "✗"]


def test_an_agent_shows_that_it_is_being_imported(make_listed_project: Any) -> None:
    state = make_listed_project(["a"]).state
    run = state.begin_run("r1", total=1, now=0.0)

    def draw_agent_row() -> list[str]:
        return "".join(piece.text for piece in format_row(state.row_view(0), 46)).split()

    run.apply(AgentsImporting(targets=("home",)), now=1.0)
    assert draw_agent_row() == ["▾", "home", "0/1", "importing"]
    run.apply(AgentsImporting(targets=()), now=2.0)
    assert draw_agent_row() == ["▾", "home", "0/1"]


def test_an_agent_with_a_broken_set_does_not_look_as_if_all_its_cases_passed(make_listed_project: Any) -> None:
    project = make_listed_project(["a"])
    project.store(a=CaseStatus.PASSED)
    listed = project.browser.get_set("home", SET)

    def draw_groups() -> list[list[str]]:
        return ["".join(piece.text for piece in format_row(project.state.row_view(row), 46)).split() for row in (0, 1)]

    assert draw_groups() == [["▾", "home", "✓", "1/1"], ["▾", "lights", "✓", "1/1"]]
    project.state.list_set(replace(listed, problem="found 'x', expected a value"))
    assert draw_groups() == [["▾", "home", "!", "1/1"], ["▾", "lights", "broken"]]


def test_marks_and_unsaved_edits_have_their_own_symbols(make_listed_project: Any) -> None:
    project = make_listed_project(["a", "b"])
    project.browser.marks.add([project.key("a")])
    project.browser.set_edited_cases(SET, frozenset({"a"}))

    assert draw_row(project, "a").startswith("   ◆○ a *")
    assert draw_row(project, "b").startswith("    ○ b ")


@pytest.mark.parametrize(
    "eval_id", ["a_rather_long_name_of_a_case", "关灯_两轮对话_关灯_两轮对话", "[bold]x[/bold] and more"]
)
def test_a_narrow_row_of_a_stale_case_drops_the_time_first_and_then_the_middle_of_the_name(
    make_listed_project: Any, make: Any, eval_id: str
) -> None:
    project = make_listed_project([eval_id])
    project.store(**{eval_id: CaseStatus.FAILED})
    project.read(make.case(eval_id, make.turn("Hi", "Hello")), hashes=("e", "new"))
    assert draw_row(project, eval_id, 60).endswith("  250 ms ✗ ")

    narrow = draw_row(project, eval_id, 24)

    assert "250 ms" not in narrow
    assert narrow.endswith(" ✗ ")
    assert "…" in narrow


def test_the_frame_shows_the_counts_of_cases_and_marks_and_the_order(make_listed_project: Any) -> None:
    project = make_listed_project(["a", "b"])
    assert (format_border_title(project.browser), format_border_subtitle(project.browser)) == (
        "eval sets",
        "file order",
    )

    project.browser.filter("a")
    project.browser.mark_listed()

    assert format_border_title(project.browser) == "eval sets · 1 of 2"
    assert format_border_subtitle(project.browser) == "◆ 1 marked · file order"


def test_a_replayed_verdict_is_marked_and_shows_if_its_live_samples_differ(make_listed_project: Any, make: Any) -> None:
    project = make_listed_project(["a"])
    job = make.stored_job(make.result(project.key("a"), CaseStatus.PASSED))

    def draw(*repeats: tuple[CaseStatus, bool]) -> list[str]:
        jobs = [
            job._replace(key=JobKey(case=job.case, repeat=number), status=status, is_replayed=is_replayed)
            for number, (status, is_replayed) in enumerate(repeats)
        ]
        project.state.load_stored({project.key("a"): jobs})
        return draw_row(project, "a").split()

    assert draw((CaseStatus.PASSED, True)) == ["✓", "a", "↺", "250", "ms"]
    assert draw((CaseStatus.PASSED, False), (CaseStatus.FAILED, False)) == ["✗", "a", "1/2"]
    assert draw((CaseStatus.PASSED, True)) == ["✓", "a", "↺", "~1/2"]
    assert draw((CaseStatus.PASSED, False)) == ["✓", "a", "250", "ms"]
    assert draw((CaseStatus.PASSED, True)) == ["✓", "a", "↺", "250", "ms"]
