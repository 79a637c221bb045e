"""The rows of the case pane on a real project: move, delete, rename, add and jump."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.tui.panes.case_pane.opened import LAMP, get_data, get_pane, open_case, select_row, type_text, wait_until_idle


async def test_undo_and_redo_keep_the_cursor_on_its_row(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await open_case(screen)
        await select_row(screen, "call")
        await screen.press("d")
        await wait_until_idle(screen)
        assert len(get_data(screen)["conversation"][0]["intermediate_data"]["tool_uses"]) == 2
        await select_row(screen, "response", number=1)

        await screen.press("u")
        await wait_until_idle(screen)
        assert get_data(screen) == LAMP
        assert get_pane(screen).editor.row.value == "You are welcome."

        await screen.press("U")
        await wait_until_idle(screen)
        assert len(get_data(screen)["conversation"][0]["intermediate_data"]["tool_uses"]) == 2
        assert get_pane(screen).editor.row.value == "You are welcome."


async def test_rows_move_within_their_list(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await open_case(screen)
        await select_row(screen, "turn 1")
        await screen.press("J")
        await wait_until_idle(screen)
        prompts = [turn["user_content"]["parts"][0]["text"] for turn in get_data(screen)["conversation"]]
        assert prompts == ["Thanks.", "Find the lamp."]
        assert get_pane(screen).editor.row.label == "turn 2"

        await screen.press("K")
        await wait_until_idle(screen)
        assert get_data(screen) == LAMP

        await screen.press("K")
        await screen.until("it is the first already")


async def test_a_row_can_be_deleted_unless_it_is_required(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await open_case(screen)
        await select_row(screen, "exact")
        await screen.press("D")
        await wait_until_idle(screen)
        assert "exact" not in get_data(screen)["conversation"][0]["intermediate_data"]["tool_uses"][0]["args"]

        await select_row(screen, "user")
        await screen.press("delete")

        await screen.until("conversation[0]: found nothing")


async def test_a_key_is_renamed_and_duplicated(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await open_case(screen)
        await select_row(screen, "depth")
        await screen.press("m")
        await screen.until("The new key")
        await screen.press(*["backspace"] * 5, *"exact")
        await screen.until("the key 'exact' already exists")
        await screen.press("2", "enter")
        await wait_until_idle(screen)
        args = get_data(screen)["conversation"][0]["intermediate_data"]["tool_uses"][0]["args"]
        assert list(args) == ["location", "exact2", "exact"]

        await screen.press("d")
        await screen.until("The key of the copy")
        await screen.press("b", "enter")
        await wait_until_idle(screen)
        args = get_data(screen)["conversation"][0]["intermediate_data"]["tool_uses"][0]["args"]
        assert args["b"] == 2


async def test_an_argument_is_added(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await open_case(screen)
        await select_row(screen, "call")
        await screen.press("plus")
        await screen.until("Add", "argument", "call id", "state key")
        await screen.press("enter")
        await screen.until("The name of the new argument")
        await screen.press(*"room", "enter")
        await wait_until_idle(screen)
        await type_text(screen, "Attic")
        await screen.press("enter")
        await wait_until_idle(screen)

        args = get_data(screen)["conversation"][0]["intermediate_data"]["tool_uses"][0]["args"]
        assert args["room"] == "Attic"
        assert get_pane(screen).editor.row.label == "room"


async def test_an_empty_value_can_be_added(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await open_case(screen)
        await select_row(screen, "state")
        await screen.press("plus")
        await screen.until("Add")
        await screen.press("enter")
        await screen.until("The name of the new")
        await screen.press(*"room", "enter")
        await wait_until_idle(screen)
        await screen.press("enter")
        await wait_until_idle(screen)

        assert get_data(screen)["session_input"]["state"] == {"room": ""}


async def test_a_turn_is_added_in_one_step(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await open_case(screen)
        await select_row(screen, "turn 2")
        await screen.press("i")
        await screen.until("Add")
        labels = [item.label for item in get_pane(screen).editor.list_additions()]
        await screen.press(*["j"] * labels.index("turn"), "enter")
        await wait_until_idle(screen)
        await type_text(screen, "And\nnow?")
        await screen.press("enter")
        await wait_until_idle(screen)
        assert get_data(screen)["conversation"][2]["user_content"]["parts"] == [{"text": "And\nnow?"}]

        await screen.press("u")
        await wait_until_idle(screen)

        assert get_data(screen) == LAMP


async def test_keys_jump_from_turn_to_turn(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await open_case(screen)
        await screen.press("}", "}")
        assert get_pane(screen).editor.row.label == "turn 2"
        await screen.press("{")
        assert get_pane(screen).editor.row.label == "turn 1"


async def test_the_persona_of_a_scenario_is_chosen_from_a_list(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await open_case(screen, "tea")
        await select_row(screen, "persona")
        await screen.press("enter")
        await screen.until("EXPERT: Knows exactly", "EVALUATOR: Finds out")
        await screen.press("enter")
        await screen.until_gone("EVALUATOR: Finds out")
        await screen.press("ctrl+s")
        await screen.until("saved")

    (case,) = [
        c for c in json.loads((project / "home.evalset.json").read_text())["eval_cases"] if c["eval_id"] == "tea"
    ]
    assert case["conversation_scenario"]["user_persona"] == "EXPERT"


async def test_a_scenario_without_a_persona_can_be_given_one(open_app: Any, make_project: Callable[..., Path]) -> None:
    scenario = {"starting_prompt": "Tea?", "conversation_plan": "Get tea."}
    project = make_project(home=[{"eval_id": "tea", "conversation_scenario": scenario}])
    async with open_app(project) as screen:
        await open_case(screen, "tea")
        await select_row(screen, "plan")
        await screen.press("i")
        await screen.until("persona: EXPERT, NOVICE, EVALUATOR", "persona in full")


async def test_e_selects_the_prompt_and_keeps_a_cursor_that_was_moved(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await open_case(screen)
        await screen.press("escape")
        await screen.until("lamp")
        await screen.press("e")
        await wait_until_idle(screen)
        assert get_pane(screen).editor.row.label == "user"

        await select_row(screen, "response")
        await screen.press("escape", "e")
        await wait_until_idle(screen)
        assert get_pane(screen).editor.row.label == "response"


async def test_a_new_case_is_opened_with_its_prompt_to_type(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await open_case(screen)
        await screen.press("escape", "N")
        await screen.until("Id of the new case")
        await screen.press("enter")
        await wait_until_idle(screen)
        await screen.until("⏎ apply")
        await screen.press(*"Hello", "enter")
        await wait_until_idle(screen)

        assert get_data(screen)["conversation"][0]["user_content"]["parts"][0]["text"] == "Hello"
