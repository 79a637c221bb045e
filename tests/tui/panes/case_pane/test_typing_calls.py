"""Tool calls in the editor of a case: typed as one line, completed, and refused with the place of the error."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tests.tui.panes.case_pane.opened import LAMP, get_data, get_pane, open_case, select_row, type_text, wait_until_idle
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
