"""The rows of the case pane on a real project: move, delete, rename, add and jump."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.tui.panes.case_pane.opened import LAMP, data_of, go_to, idle, open_case, pane_of, type_text


async def test_undo_and_redo_keep_the_cursor_on_its_row(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await open_case(screen)
        await go_to(screen, "call")
        await screen.press("d")
        await idle(screen)
        assert len(data_of(screen)["conversation"][0]["intermediate_data"]["tool_uses"]) == 2
        await go_to(screen, "response", number=1)

        await screen.press("u")
        await idle(screen)
        assert data_of(screen) == LAMP
        assert pane_of(screen).editor.row.value == "You are welcome."

        await screen.press("U")
        await idle(screen)
        assert len(data_of(screen)["conversation"][0]["intermediate_data"]["tool_uses"]) == 2
        assert pane_of(screen).editor.row.value == "You are welcome."


async def test_rows_move_within_their_list(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await open_case(screen)
        await go_to(screen, "turn 1")
        await screen.press("J")
        await idle(screen)
        prompts = [turn["user_content"]["parts"][0]["text"] for turn in data_of(screen)["conversation"]]
        assert prompts == ["Thanks.", "Find the lamp."]
        assert pane_of(screen).editor.row.label == "turn 2"

        await screen.press("K")
        await idle(screen)
        assert data_of(screen) == LAMP

        await screen.press("K")
        await screen.until("it is the first already")


async def test_a_deleted_row_is_gone_and_what_must_stay_stays(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await open_case(screen)
        await go_to(screen, "exact")
        await screen.press("D")
        await idle(screen)
        assert "exact" not in data_of(screen)["conversation"][0]["intermediate_data"]["tool_uses"][0]["args"]

        await go_to(screen, "user")
        await screen.press("delete")

        await screen.until("conversation[0]: found nothing")


async def test_a_key_is_renamed_and_duplicated(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await open_case(screen)
        await go_to(screen, "depth")
        await screen.press("m")
        await screen.until("The new key")
        await screen.press(*["backspace"] * 5, *"exact")
        await screen.until("the key 'exact' exists already")
        await screen.press("2", "enter")
        await idle(screen)
        args = data_of(screen)["conversation"][0]["intermediate_data"]["tool_uses"][0]["args"]
        assert list(args) == ["location", "exact2", "exact"]

        await screen.press("d")
        await screen.until("The key of the copy")
        await screen.press("b", "enter")
        await idle(screen)
        args = data_of(screen)["conversation"][0]["intermediate_data"]["tool_uses"][0]["args"]
        assert args["b"] == 2


async def test_an_argument_is_added(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await open_case(screen)
        await go_to(screen, "call")
        await screen.press("plus")
        await screen.until("Add", "argument", "call id", "state key")
        await screen.press("enter")
        await screen.until("The name of the new argument")
        await screen.press(*"room", "enter")
        await idle(screen)
        await type_text(screen, "Attic")
        await screen.press("enter")
        await idle(screen)

        args = data_of(screen)["conversation"][0]["intermediate_data"]["tool_uses"][0]["args"]
        assert args["room"] == "Attic"
        assert pane_of(screen).editor.row.label == "room"


async def test_an_empty_value_can_be_added(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await open_case(screen)
        await go_to(screen, "state")
        await screen.press("plus")
        await screen.until("Add")
        await screen.press("enter")
        await screen.until("The name of the new")
        await screen.press(*"room", "enter")
        await idle(screen)
        await screen.press("enter")
        await idle(screen)

        assert data_of(screen)["session_input"]["state"] == {"room": ""}


async def test_a_turn_is_added_in_one_step(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await open_case(screen)
        await go_to(screen, "turn 2")
        await screen.press("i")
        await screen.until("Add")
        labels = [item.label for item in pane_of(screen).editor.list_additions()]
        await screen.press(*["j"] * labels.index("turn"), "enter")
        await idle(screen)
        await type_text(screen, "And\nnow?")
        await screen.press("ctrl+j")
        await idle(screen)
        assert data_of(screen)["conversation"][2]["user_content"]["parts"] == [{"text": "And\nnow?"}]

        await screen.press("u")
        await idle(screen)

        assert data_of(screen) == LAMP


async def test_turns_are_jumped_to(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await open_case(screen)
        await screen.press("}", "}")
        assert pane_of(screen).editor.row.label == "turn 2"
        await screen.press("{")
        assert pane_of(screen).editor.row.label == "turn 1"


async def test_the_persona_of_a_scenario_is_chosen_among_those_there_are(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await open_case(screen, "tea")
        await go_to(screen, "persona")
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
        await go_to(screen, "plan")
        await screen.press("i")
        await screen.until("persona: EXPERT, NOVICE, EVALUATOR", "persona in full")
