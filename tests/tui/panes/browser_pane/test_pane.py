"""The eval sets by keyboard and mouse, on real projects: found, ordered, marked and described."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.tui.panes.browser_pane.by_keys import list_case_ids, select, wait_until_true
from workbench.tui.panes.browser_pane import BrowserPane
from workbench.tui.screen_context import DocumentsChanged
from workbench.tui.state.case_filter import Order
from workbench.tui.widgets.inputs import FilterInput
from workbench.tui.widgets.row_lists import CaseList


async def test_the_filter_finds_prompts_and_tools_and_escape_lists_all_again(project: Path, open_app: Any) -> None:
    async with open_app(project) as screen:
        await screen.until("far", "eval sets")

        await screen.press("slash", *"lamp")
        await wait_until_true(screen, lambda: list_case_ids(screen) == ["on", "off"])
        await screen.until("eval sets · 2 of 4", "status:failed")
        await screen.press("enter", "slash", "escape")
        await wait_until_true(screen, lambda: len(list_case_ids(screen)) == 4)
        assert isinstance(screen.app.focused, CaseList)

        await screen.press("slash", *"tool:level")
        await wait_until_true(screen, lambda: list_case_ids(screen) == ["dim"])


async def test_escape_ends_a_filter_in_the_list_and_slash_selects_the_old_text(project: Path, open_app: Any) -> None:
    async with open_app(project) as screen:
        await screen.until("far", "eval sets")
        await screen.press("slash", *"lamp", "enter")
        await wait_until_true(screen, lambda: list_case_ids(screen) == ["on", "off"])
        await screen.until("esc all cases")

        await screen.press("slash", *"tool:level", "enter")
        await wait_until_true(screen, lambda: list_case_ids(screen) == ["dim"])

        await screen.press("escape")
        await wait_until_true(screen, lambda: len(list_case_ids(screen)) == 4)
        assert isinstance(screen.app.focused, CaseList)
        await screen.until_gone("esc all cases")


async def test_rows_are_listed_in_the_frame_of_the_typed_letter(project: Path, open_app: Any) -> None:
    async with open_app(project) as screen:
        await screen.until("far", "eval sets")
        rows, typed = screen.app.screen.query_one(CaseList), screen.app.screen.query_one(FilterInput)
        before = rows.virtual_size.height
        typed.value = "lamp"
        await wait_until_true(screen, lambda: list_case_ids(screen) == ["on", "off"])  # the texts of cases are read
        typed.value = ""
        await wait_until_true(screen, lambda: rows.virtual_size.height == before)

        typed.value = "lamp"  # nothing can be painted before the next await

        assert list_case_ids(screen) == ["on", "off"]
        assert rows.virtual_size.height == len(rows.source) < before


async def test_unknown_filter_terms_are_reported_while_typing(project: Path, open_app: Any) -> None:
    async with open_app(project) as screen:
        await screen.until("far")

        await screen.press("slash", *"!bro[/b]")

        await screen.until("unknown filter !bro[/b]", "not-run")


async def test_one_key_cycles_through_the_status_filters(project: Path, open_app: Any) -> None:
    async with open_app(project) as screen:
        await screen.until("far")

        await screen.press("F")
        await screen.until("filter:", "is:failing")
        assert list_case_ids(screen) == []
        await screen.press("F", "F")
        await screen.until("!not-run")
        assert len(list_case_ids(screen)) == 4
        await screen.press("F", "F", "F")
        await screen.until_gone("filter:")


async def test_one_key_cycles_through_the_sort_orders(project: Path, open_app: Any) -> None:
    async with open_app(project) as screen:
        await screen.until("far", "file order")

        await screen.press("S")

        await screen.until("by id")
        assert list_case_ids(screen) == ["dim", "off", "on", "far"]
        await screen.press(*["S"] * (len(Order) - 1))
        await screen.until("file order")
        assert list_case_ids(screen) == ["on", "off", "dim", "far"]


async def test_marks_can_be_set_in_ranges_or_for_all_and_cleared(project: Path, open_app: Any) -> None:
    async with open_app(project) as screen:
        await select(screen, "on")

        await screen.press("space")
        await screen.until("◆✓ on" if "◆✓ on" in screen.text else "◆○ on", "◆ 1 marked")
        await screen.press("j", "M")
        await screen.until("◆ 3 marked")
        await screen.press("A")
        await screen.until("◆ 4 marked")
        await screen.press("minus")
        await screen.until_gone("marked")


async def test_run_selected_runs_the_marked_cases(project: Path, open_app: Any) -> None:
    async with open_app(project) as screen:
        await select(screen, "off")
        await screen.press("space", "space", "g", "r")

        await screen.until("finished", "2/2")
        await screen.until("○ on", "✓ off", "✓ dim" if "✓ dim" in screen.text else "✗ dim")


async def test_a_verdict_is_stale_after_its_case_has_changed(project: Path, open_app: Any) -> None:
    async with open_app(project) as screen:
        await select(screen, "on")
        await screen.press("r")
        await screen.until("✓ on")

        path = project / "lamps.evalset.json"
        path.write_text(path.read_text(encoding="utf-8").replace("Turn on the lamp", "Turn it on"), encoding="utf-8")
        await screen.press("f5")
        await screen.until("● on", "s ✓ ", "●1")

        await screen.press("slash", *"is:stale")
        await wait_until_true(screen, lambda: list_case_ids(screen) == ["on"])
        await screen.press("enter", "R")
        await wait_until_true(screen, lambda: list_case_ids(screen) == [])

    async with open_app(project) as again:
        await again.until("✓ on")
        config = project / "test_config.json"
        config.write_text('{"criteria": {"tool_trajectory_avg_score": 0.5}}', encoding="utf-8")
        await again.press("f5")
        await again.until("● on")


async def test_unsaved_edits_are_marked_on_case_and_set(project: Path, open_app: Any) -> None:
    async with open_app(project) as screen:
        await select(screen, "on")
        place = ("conversation", 0, "user_content", "parts", 0, "text")
        await screen.app._backend.edit(
            lambda workspace: workspace.documents.edit(
                "lamps.evalset.json", lambda document: document.set_value(place, "New", case=0), label="change"
            )
        )
        screen.app.screen.post_message(DocumentsChanged(frozenset({"lamps.evalset.json"})))

        await screen.until("lamps *", "on *")
        assert "off *" not in screen.text
        await screen.press("ctrl+s")
        await screen.until_gone("on *")


async def test_enter_folds_a_set_and_opens_a_case_and_h_and_l_fold(project: Path, open_app: Any) -> None:
    async with open_app(project) as screen:
        await screen.until("far")
        await screen.press("j", "enter")
        await screen.until_gone("dim")
        await screen.press("enter")
        await screen.until("dim")
        await screen.press("h")
        await screen.until_gone("dim")
        await screen.press("l", "l", "enter")
        await wait_until_true(screen, lambda: not isinstance(screen.app.focused, CaseList))


async def test_the_mouse_selects_folds_marks_and_opens(project: Path, open_app: Any) -> None:
    async with open_app(project) as screen:
        await screen.until("far")
        await screen.pilot.click(CaseList, offset=(11, 2), control=True)
        await screen.until("◆ 1 marked")
        assert screen.state.selected_case.eval_id == "on"
        await screen.pilot.click(CaseList, offset=(2, 1))
        await screen.until_gone("dim")
        await screen.pilot.click(CaseList, offset=(2, 1))
        await screen.until("dim")
        await screen.pilot.click(CaseList, offset=(11, 3), times=2)
        await wait_until_true(screen, lambda: not isinstance(screen.app.focused, CaseList))
        assert screen.state.selected_case.eval_id == "off"


@pytest.mark.parametrize("size", [(40, 10), (80, 24), (140, 42)], ids=str)
async def test_the_filter_is_in_the_frame_of_the_list_and_leaves_rows(
    project: Path, open_app: Any, size: tuple[int, int]
) -> None:
    async with open_app(project, size=size) as screen:
        await screen.until("lamps")
        await screen.press("slash", *"lamp")
        await screen.until("eval sets · 2 of 4", "○ on")

        frame, field = (screen.app.screen.query_one(name).region for name in ("#left", "#filter"))
        assert frame.contains_region(field) and field.y == frame.y + 1
        assert " filter: lamp" in screen.text.splitlines()[2]


async def test_keys_of_the_list_are_letters_in_the_filter_line(project: Path, open_app: Any) -> None:
    async with open_app(project) as screen:
        await screen.until("far")

        await screen.press("slash", *"DNiS d")

        await screen.until("DNiS d")
        assert len(screen.app.screen_stack) == 1
        assert screen.app.screen.query_one(BrowserPane) is not None
