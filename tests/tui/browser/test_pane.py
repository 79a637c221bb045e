"""The eval sets with a keyboard and a mouse, on real projects."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from textual.widgets import Input

from workbench.tui.messages import CaseWanted, DocumentsChanged, ProjectChanged
from workbench.tui.panes.browser import BrowserPane
from workbench.tui.state.browser import Order
from workbench.tui.widgets.case_list import CaseList


@pytest.fixture
def project(make_project: Callable[..., Path], make: Any) -> Path:
    """Two sets: one of three cases, one of a single case."""

    def case(eval_id: str, prompt: str, tool: str = "ping") -> dict[str, Any]:
        return {"eval_id": eval_id, "conversation": [make.turn(prompt, "pong [/b]", (tool, {"n": 1}))]}

    return make_project(
        lamps=[case("on", "Turn on the lamp"), case("off", "Turn off the LAMP"), case("dim", "Darker", "set_level")],
        other=[case("far", "Hi")],
    )


def ids(project: Path, name: str = "lamps") -> list[str]:
    data = json.loads((project / f"{name}.evalset.json").read_text(encoding="utf-8"))
    return [case["eval_id"] for case in data["eval_cases"]]


async def select(screen: Any, eval_id: str) -> None:
    """Put the cursor on a case once it is listed."""
    await until(screen, lambda: eval_id in listed(screen))
    key = next(row.case for row in screen.state.browser.case_rows() if row.case and row.case.eval_id == eval_id)
    screen.state.browser.go_to(key)


async def answer(screen: Any, text: str) -> None:
    """Write into the dialog in place of what it proposes."""
    for _ in range(200):
        found = screen.app.screen.query(Input)
        if len(screen.app.screen_stack) > 1 and found:
            found.first().value = text
            await screen.press("enter")
            return
        await screen.pilot.pause(0.02)
    raise AssertionError(f"no dialog asks for anything\n{screen.text}")


async def until(screen: Any, holds: Callable[[], bool]) -> None:
    for _ in range(300):
        if holds():
            return
        await screen.pilot.pause(0.02)
    raise AssertionError(f"it does not come true\n{screen.text}")


def listed(screen: Any) -> list[str]:
    return [row.case.eval_id for row in screen.state.browser.rows if row.case is not None]


async def test_the_filter_finds_prompts_and_tools_and_escape_lists_all_again(project: Path, open_app: Any) -> None:
    async with open_app(project) as screen:
        await screen.until("far", "eval sets")

        await screen.press("slash", *"lamp")
        await until(screen, lambda: listed(screen) == ["on", "off"])
        await screen.until("eval sets · 2 of 4", "status:failed")
        await screen.press("enter", "slash", "escape")
        await until(screen, lambda: len(listed(screen)) == 4)
        assert isinstance(screen.app.focused, CaseList)

        await screen.press("slash", *"tool:level")
        await until(screen, lambda: listed(screen) == ["dim"])


async def test_what_the_filter_does_not_know_is_said_as_it_is_written(project: Path, open_app: Any) -> None:
    async with open_app(project) as screen:
        await screen.until("far")

        await screen.press("slash", *"!bro[/b]")

        await screen.until("!bro[/b] means nothing", "not-run")


async def test_one_key_goes_through_the_status_filters(project: Path, open_app: Any) -> None:
    async with open_app(project) as screen:
        await screen.until("far")

        await screen.press("F")
        await screen.until("filter:", "is:failing")
        assert listed(screen) == []
        await screen.press("F", "F")
        await screen.until("!not-run")
        assert len(listed(screen)) == 4
        await screen.press("F", "F", "F")
        await screen.until_gone("filter:")


async def test_one_key_goes_through_the_orders(project: Path, open_app: Any) -> None:
    async with open_app(project) as screen:
        await screen.until("far", "file order")

        await screen.press("S")

        await screen.until("by id")
        assert listed(screen) == ["dim", "off", "on", "far"]
        await screen.press(*["S"] * (len(Order) - 1))
        await screen.until("file order")
        assert listed(screen) == ["on", "off", "dim", "far"]


async def test_marks_are_set_in_ranges_for_all_and_cleared(project: Path, open_app: Any) -> None:
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


async def test_run_selected_runs_what_is_marked(project: Path, open_app: Any) -> None:
    async with open_app(project) as screen:
        await select(screen, "off")
        await screen.press("space", "space", "g", "r")

        await screen.until("finished", "2/2")
        await screen.until("○ on", "✓ off", "✓ dim" if "✓ dim" in screen.text else "✗ dim")


async def test_a_new_case_is_saved_selected_and_undone(project: Path, open_app: Any) -> None:
    async with open_app(project) as screen:
        await select(screen, "on")

        await screen.press("N")
        await screen.until("Id of the new case in lamps.evalset.json", "new_case")
        await answer(screen, "fresh")

        await until(screen, lambda: ids(project) == ["on", "fresh", "off", "dim"])
        await until(
            screen, lambda: screen.state.selected_case is not None and screen.state.selected_case.eval_id == "fresh"
        )
        assert any(isinstance(message, DocumentsChanged) for message in screen.messages)

        await screen.press("u")
        await until(screen, lambda: ids(project) == ["on", "off", "dim"])
        await until(screen, lambda: "fresh" not in listed(screen))


async def test_a_filter_that_hides_what_is_new_ends(project: Path, open_app: Any) -> None:
    async with open_app(project) as screen:
        await select(screen, "on")
        await screen.press("slash", *"tool:level", "enter")
        await until(screen, lambda: listed(screen) == ["dim"])
        await select(screen, "dim")

        await screen.press("N")
        await answer(screen, "fresh")

        await until(screen, lambda: listed(screen) == ["on", "off", "dim", "fresh", "far"])
        assert screen.state.selected_case.eval_id == "fresh"
        await screen.until_gone("filter:")


async def test_going_to_a_case_ends_a_filter_that_hides_it(project: Path, open_app: Any) -> None:
    async with open_app(project) as screen:
        await select(screen, "off")
        wanted = screen.state.selected_case
        await screen.press("slash", *"tool:level", "enter")
        await until(screen, lambda: listed(screen) == ["dim"])

        screen.app.screen.post_message(CaseWanted(wanted, tab="diff"))

        await until(screen, lambda: screen.state.selected_case == wanted)
        await screen.until_gone("filter:")


async def test_an_id_that_is_taken_is_refused_as_it_is_written(project: Path, open_app: Any) -> None:
    async with open_app(project) as screen:
        await select(screen, "on")
        await screen.press("i")
        await screen.until("New id of on")

        await answer(screen, "off")
        await screen.until("has a case 'off' already")
        await screen.press("escape")

        assert ids(project) == ["on", "off", "dim"]


async def test_a_case_is_renamed(project: Path, open_app: Any) -> None:
    async with open_app(project) as screen:
        await select(screen, "off")
        await screen.press("f2")
        await answer(screen, "dark")

        await until(screen, lambda: ids(project) == ["on", "dark", "dim"])
        await until(
            screen, lambda: screen.state.selected_case is not None and screen.state.selected_case.eval_id == "dark"
        )


async def test_a_case_is_duplicated_behind_itself(project: Path, open_app: Any) -> None:
    async with open_app(project) as screen:
        await select(screen, "on")
        await screen.press("d")
        await screen.until("Id of the copy of on", "on_copy")
        await screen.press("enter")

        await until(screen, lambda: ids(project) == ["on", "on_copy", "off", "dim"])


async def test_a_case_moves_within_its_file_and_only_in_its_order(project: Path, open_app: Any) -> None:
    async with open_app(project) as screen:
        await select(screen, "on")
        await screen.press("J")
        await until(screen, lambda: ids(project) == ["off", "on", "dim"])
        await until(screen, lambda: listed(screen)[:2] == ["off", "on"])
        await screen.press("K")
        await until(screen, lambda: ids(project) == ["on", "off", "dim"])

        await screen.press("S", "J")
        await screen.until("cases are moved where")
        assert ids(project) == ["on", "off", "dim"]


@pytest.mark.parametrize("where", ["dim", "far"])
async def test_marked_cases_move_to_another_set_and_one_undo_in_either_brings_them_back(
    project: Path, open_app: Any, where: str
) -> None:
    async with open_app(project) as screen:
        await select(screen, "on")
        await screen.press("space", "space", "m")
        await screen.until("Move 2 cases to", "other.evalset.json")
        await screen.press("enter")

        await until(screen, lambda: ids(project, "other") == ["far", "on", "off"] and ids(project) == ["dim"])
        await until(screen, lambda: listed(screen) == ["dim", "far", "on", "off"])

        await select(screen, where)
        await screen.press("u")
        await until(screen, lambda: ids(project) == ["on", "off", "dim"] and ids(project, "other") == ["far"])
        await until(screen, lambda: listed(screen) == ["on", "off", "dim", "far"])


async def test_marked_cases_of_several_sets_are_deleted_and_brought_back_as_one(project: Path, open_app: Any) -> None:
    async with open_app(project) as screen:
        await select(screen, "on")
        await screen.until(" far ")  # the other set has been read too
        await screen.press("A", "D")
        await screen.until("Delete 4 cases?")
        await screen.press("y")
        await until(screen, lambda: ids(project) == [] and ids(project, "other") == [])

        await screen.press("u")
        await until(screen, lambda: ids(project) == ["on", "off", "dim"] and ids(project, "other") == ["far"])


async def test_a_move_from_a_set_in_conflict_asks_first_and_moves_nothing(project: Path, open_app: Any) -> None:
    path = project / "lamps.evalset.json"
    async with open_app(project) as screen:
        await select(screen, "on")
        documents = screen.app._gateway.documents
        await documents.edit("lamps.evalset.json", lambda document: document.set_value(("name",), "n"), label="name")
        path.write_text(path.read_text(encoding="utf-8").replace("Darker", "Brighter"), encoding="utf-8")
        await screen.press("m", "enter")

        await screen.until("lamps.evalset.json changed on disk")
        assert (ids(project), ids(project, "other")) == (["on", "off", "dim"], ["far"])
        assert await documents.dirty() == ("lamps.evalset.json",)


async def test_a_case_whose_id_is_taken_there_is_not_moved(project: Path, open_app: Any) -> None:
    path = project / "other.evalset.json"
    path.write_text(path.read_text(encoding="utf-8").replace('"far"', '"on"'), encoding="utf-8")
    async with open_app(project) as screen:
        await select(screen, "on")
        await screen.press("m", "enter")

        said = "has a case 'on' already"  # behind a path, which may be long: on the screen it is broken anywhere
        await until(screen, lambda: any(said in notice.message for notice in screen.app._notifications))
        assert (ids(project), ids(project, "other")) == (["on", "off", "dim"], ["on"])


async def test_a_case_is_deleted_and_comes_back(project: Path, open_app: Any) -> None:
    async with open_app(project) as screen:
        await select(screen, "off")
        await screen.press("D")
        await until(screen, lambda: ids(project) == ["on", "dim"])
        await until(
            screen, lambda: screen.state.selected_case is not None and screen.state.selected_case.eval_id == "dim"
        )

        await screen.press("u")
        await until(screen, lambda: ids(project) == ["on", "off", "dim"])


async def test_several_cases_are_deleted_only_after_a_question(project: Path, open_app: Any) -> None:
    async with open_app(project) as screen:
        await select(screen, "on")
        await screen.press("space", "space", "delete")
        await screen.until("Delete 2 cases?")
        await screen.press("n")
        assert ids(project) == ["on", "off", "dim"]

        await screen.press("delete", "y")
        await until(screen, lambda: ids(project) == ["dim"])


async def test_a_set_is_made_renamed_copied_and_deleted_and_undo_brings_it_back(project: Path, open_app: Any) -> None:
    def names() -> set[str]:
        return {path.name for path in project.glob("*.evalset.json")}

    async with open_app(project) as screen:
        await select(screen, "on")
        await screen.press("ctrl+n")
        await screen.until("File of the new eval set")
        await answer(screen, "../out")
        await screen.until("within the project")
        await answer(screen, "made")
        await until(screen, lambda: "made.evalset.json" in names())
        await until(screen, lambda: screen.state.selected_place[1] == "made.evalset.json")
        assert any(isinstance(message, ProjectChanged) for message in screen.messages)

        await screen.press("i")
        await answer(screen, "called.evalset.json")
        await until(screen, lambda: {"called.evalset.json"} == names() - {"lamps.evalset.json", "other.evalset.json"})
        await until(screen, lambda: screen.state.selected_place[1] == "called.evalset.json")

        await screen.press("d")
        await screen.until("called_copy.evalset.json")
        await screen.press("enter")
        await until(screen, lambda: "called_copy.evalset.json" in names())
        await until(screen, lambda: screen.state.selected_place[1] == "called_copy.evalset.json")

        await screen.press("D")
        await screen.until("Delete the file called_copy.evalset.json with 0 cases?")
        await screen.press("y")
        await until(screen, lambda: "called_copy.evalset.json" not in names())
        await screen.until("deleted called_copy")
        await screen.press("u")
        await until(screen, lambda: "called_copy.evalset.json" in names())


async def test_a_verdict_is_stale_once_its_case_has_changed(project: Path, open_app: Any) -> None:
    async with open_app(project) as screen:
        await select(screen, "on")
        await screen.press("r")
        await screen.until("✓ on")

        path = project / "lamps.evalset.json"
        path.write_text(path.read_text(encoding="utf-8").replace("Turn on the lamp", "Turn it on"), encoding="utf-8")
        await screen.press("f5")
        await screen.until("● on", "✓ stale", "●1")

        await screen.press("slash", *"is:stale")
        await until(screen, lambda: listed(screen) == ["on"])
        await screen.press("enter", "R")
        await until(screen, lambda: listed(screen) == [])

    async with open_app(project) as again:
        await again.until("✓ on")
        config = project / "test_config.json"
        config.write_text('{"criteria": {"tool_trajectory_avg_score": 0.5}}', encoding="utf-8")
        await again.press("f5")
        await again.until("● on")


async def test_unsaved_edits_are_marked_on_case_and_set(project: Path, open_app: Any) -> None:
    async with open_app(project) as screen:
        await select(screen, "on")
        documents = screen.app.screen_stack[0]._hub.gateway.documents
        place = ("conversation", 0, "user_content", "parts", 0, "text")
        await documents.edit("lamps.evalset.json", lambda doc: doc.set_value(place, "New", case=0), label="change")
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
        await until(screen, lambda: not isinstance(screen.app.focused, CaseList))


async def test_the_mouse_selects_folds_marks_and_opens(project: Path, open_app: Any) -> None:
    async with open_app(project) as screen:
        await screen.until("far")
        await screen.pilot.click(CaseList, offset=(12, 3), control=True)
        await screen.until("◆ 1 marked")
        assert screen.state.selected_case.eval_id == "on"
        await screen.pilot.click(CaseList, offset=(3, 2))
        await screen.until_gone("dim")
        await screen.pilot.click(CaseList, offset=(3, 2))
        await screen.until("dim")
        await screen.pilot.click(CaseList, offset=(12, 4), times=2)
        await until(screen, lambda: not isinstance(screen.app.focused, CaseList))
        assert screen.state.selected_case.eval_id == "off"


async def test_keys_of_the_list_are_letters_in_the_filter_line(project: Path, open_app: Any) -> None:
    async with open_app(project) as screen:
        await screen.until("far")

        await screen.press("slash", *"DNiS d")

        await screen.until("DNiS d")
        assert len(screen.app.screen_stack) == 1
        assert screen.app.screen.query_one(BrowserPane) is not None
