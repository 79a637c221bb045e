"""Cases and eval sets on real projects: keys create, rename, copy, move, delete and undo."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from textual.events import Key

from tests.tui.panes.browser_pane.by_keys import answer_dialog, list_case_ids, read_ids, select, wait_until_true
from workbench.tui.screen_context import CaseWanted, DocumentsChanged, ProjectChanged
from workbench.tui.screens.save_controller import list_unsaved
from workbench.tui.widgets.inputs import TypedText


async def test_a_new_case_is_saved_and_selected_and_can_be_undone(project: Path, open_app: Any) -> None:
    async with open_app(project) as screen:
        await select(screen, "on")

        await screen.press("N")
        await screen.until("Id of the new case in lamps.evalset.json", "new_case")
        await answer_dialog(screen, "fresh")

        await wait_until_true(screen, lambda: read_ids(project) == ["on", "fresh", "off", "dim"])
        await wait_until_true(
            screen, lambda: screen.state.selected_case is not None and screen.state.selected_case.eval_id == "fresh"
        )
        assert any(isinstance(message, DocumentsChanged) for message in screen.messages)

        await screen.until("⏎ apply")  # its prompt can be typed
        await screen.press("escape", "u")
        await wait_until_true(screen, lambda: read_ids(project) == ["on", "off", "dim"])
        await wait_until_true(screen, lambda: "fresh" not in list_case_ids(screen))


async def test_letters_typed_before_the_prompt_of_a_new_case_opens_belong_to_it(project: Path, open_app: Any) -> None:
    async with open_app(project) as screen:
        await select(screen, "on")
        await screen.press("N")
        await screen.until("Id of the new case in lamps.evalset.json")

        for key in (*"fresh", "enter", *"tRight"):  # `t` opens the table elsewhere
            screen.app.post_message(Key(key, key if len(key) == 1 else None))
        await screen.until("⏎ apply")

        await wait_until_true(screen, lambda: screen.app.screen.query_one(TypedText).text == "tRight")


async def test_a_new_case_of_an_agent_goes_to_its_first_set(project: Path, open_app: Any) -> None:
    async with open_app(project) as screen:
        await screen.until("N new case")
        assert screen.state.browser.selected_row.eval_set == ""

        await screen.press("N")
        await screen.until("Id of the new case in lamps.evalset.json")


async def test_a_new_case_ends_a_filter_that_hides_it(project: Path, open_app: Any) -> None:
    async with open_app(project) as screen:
        await select(screen, "on")
        await screen.press("slash", *"tool:level", "enter")
        await wait_until_true(screen, lambda: list_case_ids(screen) == ["dim"])
        await select(screen, "dim")

        await screen.press("N")
        await answer_dialog(screen, "fresh")

        await wait_until_true(screen, lambda: list_case_ids(screen) == ["on", "off", "dim", "fresh", "far"])
        assert screen.state.selected_case.eval_id == "fresh"
        await screen.until_gone("filter:")


async def test_selecting_a_case_ends_a_filter_that_hides_it(project: Path, open_app: Any) -> None:
    async with open_app(project) as screen:
        await select(screen, "off")
        wanted = screen.state.selected_case
        await screen.press("slash", *"tool:level", "enter")
        await wait_until_true(screen, lambda: list_case_ids(screen) == ["dim"])

        screen.app.screen.post_message(CaseWanted(wanted, tab="diff"))

        await wait_until_true(screen, lambda: screen.state.selected_case == wanted)
        await screen.until_gone("filter:")


async def test_a_used_id_is_refused_while_typing(project: Path, open_app: Any) -> None:
    async with open_app(project) as screen:
        await select(screen, "on")
        await screen.press("i")
        await screen.until("New id of on")

        await answer_dialog(screen, "off")
        await screen.until("already has a case 'off'")
        await screen.press("escape")

        assert read_ids(project) == ["on", "off", "dim"]


async def test_a_case_can_be_renamed(project: Path, open_app: Any) -> None:
    async with open_app(project) as screen:
        await select(screen, "off")
        await screen.press("f2")
        await answer_dialog(screen, "dark")

        await wait_until_true(screen, lambda: read_ids(project) == ["on", "dark", "dim"])
        await wait_until_true(
            screen, lambda: screen.state.selected_case is not None and screen.state.selected_case.eval_id == "dark"
        )


async def test_a_duplicated_case_follows_the_original(project: Path, open_app: Any) -> None:
    async with open_app(project) as screen:
        await select(screen, "on")
        await screen.press("d")
        await screen.until("Id of the copy of on", "on_copy")
        await screen.press("enter")

        await wait_until_true(screen, lambda: read_ids(project) == ["on", "on_copy", "off", "dim"])


async def test_a_case_moves_within_its_file_only_in_file_order(project: Path, open_app: Any) -> None:
    async with open_app(project) as screen:
        await select(screen, "on")
        await screen.press("J")
        await wait_until_true(screen, lambda: read_ids(project) == ["off", "on", "dim"])
        await wait_until_true(screen, lambda: list_case_ids(screen)[:2] == ["off", "on"])
        await screen.press("K")
        await wait_until_true(screen, lambda: read_ids(project) == ["on", "off", "dim"])

        await screen.press("S", "J")
        await screen.until("cases can be moved only in file order")
        assert read_ids(project) == ["on", "off", "dim"]


@pytest.mark.parametrize("where", ["dim", "far"])
async def test_moved_cases_return_after_one_undo_in_either_set(project: Path, open_app: Any, where: str) -> None:
    async with open_app(project) as screen:
        await select(screen, "on")
        await screen.press("space", "space", "m")
        await screen.until("Move 2 cases to", "other.evalset.json")
        await screen.press("enter")

        await wait_until_true(
            screen, lambda: read_ids(project, "other") == ["far", "on", "off"] and read_ids(project) == ["dim"]
        )
        await wait_until_true(screen, lambda: list_case_ids(screen) == ["dim", "far", "on", "off"])

        await select(screen, where)
        await screen.press("u")
        await wait_until_true(
            screen, lambda: read_ids(project) == ["on", "off", "dim"] and read_ids(project, "other") == ["far"]
        )
        await wait_until_true(screen, lambda: list_case_ids(screen) == ["on", "off", "dim", "far"])


async def test_marked_cases_of_several_sets_are_deleted_and_restored_together(project: Path, open_app: Any) -> None:
    async with open_app(project) as screen:
        await select(screen, "on")
        await screen.until(" far ")  # the other set has been read too
        await screen.press("A", "D")
        await screen.until("Delete 4 cases?")
        await screen.press("y")
        await wait_until_true(screen, lambda: read_ids(project) == [] and read_ids(project, "other") == [])

        await screen.press("u")
        await wait_until_true(
            screen, lambda: read_ids(project) == ["on", "off", "dim"] and read_ids(project, "other") == ["far"]
        )


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
        assert (read_ids(project), read_ids(project, "other")) == (["on", "off", "dim"], ["far"])
        assert await screen.app._backend.call(list_unsaved) == ("lamps.evalset.json",)


async def test_a_case_is_not_moved_to_a_set_that_uses_its_id(project: Path, open_app: Any) -> None:
    path = project / "other.evalset.json"
    path.write_text(path.read_text(encoding="utf-8").replace('"far"', '"on"'), encoding="utf-8")
    async with open_app(project) as screen:
        await select(screen, "on")
        await screen.press("m", "enter")

        message = "it already has a case 'on'"  # follows a path, which may be long: the line can wrap anywhere
        await wait_until_true(screen, lambda: any(message in notice.text for notice in screen.state.problems.messages))
        assert (read_ids(project), read_ids(project, "other")) == (["on", "off", "dim"], ["on"])


async def test_a_deleted_case_can_be_restored(project: Path, open_app: Any) -> None:
    async with open_app(project) as screen:
        await select(screen, "off")
        await screen.press("D")
        await wait_until_true(screen, lambda: read_ids(project) == ["on", "dim"])
        await wait_until_true(
            screen, lambda: screen.state.selected_case is not None and screen.state.selected_case.eval_id == "dim"
        )

        await screen.press("u")
        await wait_until_true(screen, lambda: read_ids(project) == ["on", "off", "dim"])


async def test_several_cases_are_deleted_only_after_a_question(project: Path, open_app: Any) -> None:
    async with open_app(project) as screen:
        await select(screen, "on")
        await screen.press("space", "space", "delete")
        await screen.until("Delete 2 cases?")
        await screen.press("n")
        assert read_ids(project) == ["on", "off", "dim"]

        await screen.press("delete", "y")
        await wait_until_true(screen, lambda: read_ids(project) == ["dim"])


async def test_a_set_can_be_created_renamed_copied_deleted_and_restored(project: Path, open_app: Any) -> None:
    def list_names() -> set[str]:
        return {path.name for path in project.glob("*.evalset.json")}

    async with open_app(project) as screen:
        await select(screen, "on")
        await screen.press("ctrl+n")
        await screen.until("File of the new eval set")
        await answer_dialog(screen, "../out")
        await screen.until("within the project")
        await answer_dialog(screen, "made")
        await wait_until_true(screen, lambda: "made.evalset.json" in list_names())
        await wait_until_true(screen, lambda: screen.state.selected_key[1] == "made.evalset.json")
        assert any(isinstance(message, ProjectChanged) for message in screen.messages)

        await screen.press("i")
        await answer_dialog(screen, "called.evalset.json")
        await wait_until_true(
            screen, lambda: {"called.evalset.json"} == list_names() - {"lamps.evalset.json", "other.evalset.json"}
        )
        await wait_until_true(screen, lambda: screen.state.selected_key[1] == "called.evalset.json")

        await screen.press("d")
        await screen.until("called_copy.evalset.json")
        await screen.press("enter")
        await wait_until_true(screen, lambda: "called_copy.evalset.json" in list_names())
        await wait_until_true(screen, lambda: screen.state.selected_key[1] == "called_copy.evalset.json")

        await screen.press("D")
        await screen.until("Delete the file called_copy.evalset.json with 0 cases?")
        await screen.press("y")
        await wait_until_true(screen, lambda: "called_copy.evalset.json" not in list_names())
        await screen.until("deleted called_copy")
        await screen.press("u")
        await wait_until_true(screen, lambda: "called_copy.evalset.json" in list_names())
