"""Cases and eval sets on real projects: keys create, rename, copy, move, delete and undo."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.tui.panes.browser_pane.by_keys import answer, ids, listed, select, until
from workbench.tui.screen_context import CaseWanted, DocumentsChanged, ProjectChanged
from workbench.tui.screens.save_controller import list_unsaved


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
        await screen.until("already has a case 'off'")
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
        await screen.until("cases can be moved only in file order")
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
        await screen.app._backend.edit(
            lambda workspace: workspace.documents.edit(
                "lamps.evalset.json", lambda document: document.set_value(("name",), "n"), label="name"
            )
        )
        path.write_text(path.read_text(encoding="utf-8").replace("Darker", "Brighter"), encoding="utf-8")
        await screen.press("m", "enter")

        await screen.until("lamps.evalset.json changed on disk")
        assert (ids(project), ids(project, "other")) == (["on", "off", "dim"], ["far"])
        assert await screen.app._backend.call(list_unsaved) == ("lamps.evalset.json",)


async def test_a_case_whose_id_is_taken_there_is_not_moved(project: Path, open_app: Any) -> None:
    path = project / "other.evalset.json"
    path.write_text(path.read_text(encoding="utf-8").replace('"far"', '"on"'), encoding="utf-8")
    async with open_app(project) as screen:
        await select(screen, "on")
        await screen.press("m", "enter")

        said = "has a case 'on' already"  # follows a path, which may be long: the line can wrap anywhere
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
        await until(screen, lambda: screen.state.selected_key[1] == "made.evalset.json")
        assert any(isinstance(message, ProjectChanged) for message in screen.messages)

        await screen.press("i")
        await answer(screen, "called.evalset.json")
        await until(screen, lambda: {"called.evalset.json"} == names() - {"lamps.evalset.json", "other.evalset.json"})
        await until(screen, lambda: screen.state.selected_key[1] == "called.evalset.json")

        await screen.press("d")
        await screen.until("called_copy.evalset.json")
        await screen.press("enter")
        await until(screen, lambda: "called_copy.evalset.json" in names())
        await until(screen, lambda: screen.state.selected_key[1] == "called_copy.evalset.json")

        await screen.press("D")
        await screen.until("Delete the file called_copy.evalset.json with 0 cases?")
        await screen.press("y")
        await until(screen, lambda: "called_copy.evalset.json" not in names())
        await screen.until("deleted called_copy")
        await screen.press("u")
        await until(screen, lambda: "called_copy.evalset.json" in names())
