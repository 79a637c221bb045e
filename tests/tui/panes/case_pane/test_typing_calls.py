"""Tool calls in the editor of a case: typed as one line, completed, and refused with the place of the error."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.tui.panes.case_pane.opened import (
    LAMP,
    get_data,
    get_pane,
    open_case,
    select_row,
    turn,
    type_text,
    wait_until_idle,
)
from workbench.tui.state.case_outline import OutlineKind
from workbench.tui.widgets.inputs import TypedText


def get_calls(screen: Any, turn: int) -> Any:
    return get_data(screen)["conversation"][turn]["intermediate_data"]["tool_uses"]


async def begin_call(screen: Any, turn: str) -> None:
    """Open the field for a new call of a turn: its digit in the menu."""
    await select_row(screen, turn)
    await screen.press("plus")
    await screen.until(" 1 call ")
    await screen.press("1")
    await screen.until("⏎ apply")


async def test_enter_on_a_call_edits_its_line(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await open_case(screen)
        await select_row(screen, "call")
        await screen.press("enter")
        await screen.until('find(location="Bedroom", depth=2, exact=true)')
        await type_text(screen, "search(location='Hall', exact=True)")
        await screen.press("enter")
        await wait_until_idle(screen)

        assert get_calls(screen, 0) == [{"name": "search", "args": {"location": "Hall", "exact": True}}]


async def test_a_new_call_is_typed_in_one_line_and_selected(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await open_case(screen)
        await begin_call(screen, "turn 2")
        await type_text(screen, 'set_light(room="hall", level=3)')
        await screen.press("enter")
        await wait_until_idle(screen)

        assert get_calls(screen, 1) == [{"name": "set_light", "args": {"room": "hall", "level": 3}}]
        row = get_pane(screen).editor.row
        assert (row.kind, row.value) == (OutlineKind.CALL, "set_light")


async def test_tab_and_the_right_arrow_complete_a_call_from_known_ones(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await open_case(screen)
        await begin_call(screen, "turn 2")
        await wait_until_idle(screen)
        await screen.press("f", *["tab", "right"] * 4)
        assert screen.app.screen.query_one(TypedText).text == 'find(location="Bedroom", depth=2, exact=true)'
        await screen.press("enter")
        await wait_until_idle(screen)

        assert get_calls(screen, 1) == get_calls(screen, 0)


async def test_a_completion_is_offered_at_the_end_only(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await open_case(screen)
        await begin_call(screen, "turn 2")
        await wait_until_idle(screen)
        field = screen.app.screen.query_one(TypedText)
        await screen.press("f", "i")
        assert field.suggestion == "nd("
        await screen.press("left")
        assert field.suggestion == ""


async def test_an_error_in_a_call_is_shown_with_its_column_and_changes_nothing(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await open_case(screen)
        await select_row(screen, "call")
        await screen.press("enter")
        await type_text(screen, "find(location=Bedroom)")
        await screen.press("enter")
        await screen.until('column 15: found Bedroom, expected a value; write texts in quotes: "Bedroom"')
        await wait_until_idle(screen)

        assert get_data(screen) == LAMP


async def test_other_fields_are_not_completed(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await open_case(screen)
        await select_row(screen, "call")
        await screen.press("enter")
        await wait_until_idle(screen)
        await screen.press("escape")
        await select_row(screen, "user")
        await screen.press("enter")
        await type_text(screen, "f")
        assert screen.app.screen.query_one(TypedText).suggestion == ""


async def test_a_ghost_row_adds_what_its_turn_lacks(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await open_case(screen)
        view = get_pane(screen).editor.view
        ghosts = [row.label for row in view.rows if row.kind is OutlineKind.GHOST]
        assert "+ call" in ghosts and ghosts[-1] == "+ turn"

        await select_row(screen, "+ call")
        await screen.press("enter")
        await screen.until("⏎ apply")
        await type_text(screen, "ping(n=1)")
        await screen.press("enter")
        await wait_until_idle(screen)
        assert get_calls(screen, 1) == [{"name": "ping", "args": {"n": 1}}]
        assert (view.row.kind, view.row.value) == (OutlineKind.CALL, "ping")
        assert [row.label for row in view.rows if row.kind is OutlineKind.GHOST].count("+ call") == ghosts.count(
            "+ call"
        ) - 1

        turns = len(get_data(screen)["conversation"])
        await select_row(screen, "+ turn")
        await screen.press("D", "J", "m", "b")  # nothing to delete, move, rename or edit
        await screen.press("enter")
        await screen.until("⏎ apply")
        await type_text(screen, "one more")
        await screen.press("enter")
        await wait_until_idle(screen)
        assert len(get_data(screen)["conversation"]) == turns + 1
        assert get_data(screen)["conversation"][-1]["user_content"]["parts"] == [{"text": "one more"}]


async def test_a_call_with_two_arguments_in_a_new_turn_takes_few_keys(open_app: Any, project: Path) -> None:
    """At most eight keys beside the text itself."""
    async with open_app(project) as screen:
        await open_case(screen)
        pressed = 0

        async def press(*keys: str) -> None:
            nonlocal pressed
            pressed += len(keys)
            await screen.press(*keys)
            await screen.pilot.pause()

        async def add(label: str, text: str) -> None:
            await press("plus")
            await screen.until(f" {label} ")
            digit = re.search(rf"(\d) {label} ", screen.text)
            assert digit is not None
            await press(digit[1])
            await screen.until("⏎ apply")
            await type_text(screen, text)
            await press("enter")
            await wait_until_idle(screen)

        await add("turn", "turn it on")
        await add("call", 'set_light(room="hall", level=3)')

        assert get_calls(screen, -1) == [{"name": "set_light", "args": {"room": "hall", "level": 3}}]
        assert pressed <= 8


LIGHTS_AGENT = """
def set_light(room: str, on: bool, level: int = 3) -> dict:
    return {}

def answer(prompt: str) -> dict:
    return {"response": "Done.", "predicted_trajectory": []}
"""


async def test_the_tools_of_the_agent_complete_a_call_with_their_parameters_and_types(
    open_app: Any, make_project: Callable[..., Path]
) -> None:
    project = make_project(agent=LIGHTS_AGENT, home=[{"eval_id": "lights", "conversation": [turn("Light!", "Done.")]}])
    async with open_app(project) as screen:
        await open_case(screen, "lights")
        await begin_call(screen, "turn 1")
        await wait_until_idle(screen)
        await screen.press("s", "tab")
        await screen.until("room: string", "on: boolean", "level: integer")

        await screen.press("tab", "tab", *'hall"', "tab", "tab", "tab", "enter")  # `level` has a default
        await wait_until_idle(screen)

        assert get_calls(screen, 0) == [{"name": "set_light", "args": {"room": "hall", "on": True}}]


async def test_tools_of_other_agents_are_offered_only_after_those_of_its_own_agent(
    open_app: Any, make_project: Callable[..., Path]
) -> None:
    foreign = {**turn("Lock!", "Done."), "intermediate_data": {"tool_uses": [{"name": "lock", "args": {}}]}}
    project = make_project(
        agent=f"import time\ntime.sleep(1.5)\n{LIGHTS_AGENT}",
        home=[{"eval_id": "lights", "conversation": [turn("Light!", "Done.")]}],
        locks=[{"eval_id": "locks", "conversation": [foreign]}],
    )
    settings = project / "workbench.toml"
    text = settings.read_text(encoding="utf-8")
    other = text.replace("pinger", "other").replace("*.evalset", "locks.evalset")
    settings.write_text(f"{text.replace('*.evalset', 'home.evalset')}{other}", encoding="utf-8")
    offered: list[list[str]] = []
    async with open_app(project) as screen:
        await open_case(screen, "lights")
        await begin_call(screen, "turn 1")
        field = screen.app.screen.query_one(TypedText)
        for _ in range(600):
            offered.append([each.label for each in field.choices])
            if "lock" in offered[-1]:
                break
            await screen.pilot.pause(0.02)

    assert offered[-1] == ["set_light", "lock"]
    assert ["lock"] not in offered


async def test_tab_never_leaves_the_field_of_a_value(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await open_case(screen)
        await begin_call(screen, "turn 2")
        await wait_until_idle(screen)
        await screen.press(*"xyz", "tab", "shift+tab", "tab", "D", "t")

        field = screen.app.screen.query_one(TypedText)
        assert (screen.app.focused, field.text) == (field, "xyzDt")


async def test_a_case_of_two_turns_with_a_call_each_needs_14_keys_beside_its_text(
    open_app: Any, make_project: Callable[..., Path]
) -> None:
    project = make_project(home=[{"eval_id": "old", "conversation": [turn("Hi", "Hello")]}])
    pressed: list[str] = []
    async with open_app(project) as screen:
        await screen.until("old")

        async def press(key: str, *shown: str, text: str = "") -> None:
            pressed.append(key)
            await screen.press(key)
            await screen.until(*shown)
            await screen.press(*("space" if letter == " " else letter for letter in text))
            await screen.pilot.pause(0.3)

        call = 'set_light(room="hall", on=true)'
        await screen.press("j")
        await press("N", "Id of the new case", text="night")
        await press("enter", "⏎ apply", text="Light!")
        for number in (1, 2):
            await press("enter", f"turn {number}")
            await press("enter", "⏎ apply", text=call)
            await press("enter", "set_light")
            await press("enter", "⏎ apply", text="Done.")
            await press("enter", "+ turn")
            if number == 1:
                await press("enter", "⏎ apply", text="Again!")
        await press("ctrl+s")

        await wait_until_idle(screen)
        saved = json.loads((project / "home.evalset.json").read_text(encoding="utf-8"))
        turns = next(case for case in saved["eval_cases"] if case["eval_id"] == "night")["conversation"]
        shown = [
            (each["user_content"]["parts"][0]["text"], each["final_response"]["parts"][0]["text"]) for each in turns
        ]
        assert shown == [("Light!", "Done."), ("Again!", "Done.")]
        assert all(each["intermediate_data"]["tool_uses"] for each in turns)
    assert len(pressed) <= 14


async def test_deleting_a_row_says_how_to_undo_it(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await open_case(screen)
        await select_row(screen, "turn 2")
        await screen.press("D")
        await screen.until("deleted turn 2; u undoes it")

        await screen.press("u")
        await wait_until_idle(screen)
        assert get_data(screen) == LAMP
