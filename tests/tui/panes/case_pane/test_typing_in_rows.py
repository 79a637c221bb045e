"""A short value is typed in its row; the text moves below the rows when it no longer fits there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len
from textual.events import Key, Paste

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
from workbench.tui.screen_context import DocumentsChanged
from workbench.tui.widgets.inputs import EditorBox, TypedText


def get_field(screen: Any) -> TypedText:
    field = screen.app.screen_stack[0].query_one(TypedText)
    assert isinstance(field, TypedText)
    return field


def is_in_row(screen: Any) -> bool:
    return bool(screen.app.screen_stack[0].query_one(EditorBox).has_class("-in-row"))


def find_line(screen: Any, text: str) -> int:
    """Return the number of the only line of the screen with a text."""
    (found,) = [number for number, line in enumerate(screen.text.splitlines()) if text in line]
    return found


async def begin(screen: Any, label: str, *, number: int = 0) -> None:
    await select_row(screen, label, number=number)
    await screen.press("enter")
    await screen.until("⏎ apply")
    await screen.pilot.pause()


@pytest.mark.parametrize("size", [(40, 10), (80, 24), (140, 42)])
async def test_a_value_is_typed_at_its_place_and_no_row_moves(
    open_app: Any, project: Path, size: tuple[int, int]
) -> None:
    async with open_app(project, size=size) as screen:
        await open_case(screen)
        await select_row(screen, "location")
        before = screen.text.splitlines()
        await screen.press("enter")
        await screen.until("⏎ apply")
        await screen.pilot.pause()
        after = screen.text.splitlines()

        line = find_line(screen, "location")
        assert before[line].index('"Bedroom"') == after[line].index("Bedroom")
        assert [one for number, one in enumerate(after[:-1]) if number != line] == [
            one for number, one in enumerate(before[:-1]) if number != line
        ]
        assert is_in_row(screen)
        await screen.press("s", "enter")
        await wait_until_idle(screen)
        assert (
            get_data(screen)["conversation"][0]["intermediate_data"]["tool_uses"][0]["args"]["location"] == "Bedrooms"
        )
        assert screen.app.focused.id == "case-rows"


async def test_one_argument_is_edited_with_two_keys_beside_its_text(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await open_case(screen)
        await select_row(screen, "depth")
        await screen.press("enter", "0", "enter")
        await wait_until_idle(screen)

        assert get_data(screen)["conversation"][0]["intermediate_data"]["tool_uses"][0]["args"]["depth"] == 20


async def test_escape_shows_the_old_value_and_keeps_the_text_as_a_draft(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await open_case(screen)
        await begin(screen, "user")
        await screen.press("x", "escape")
        await screen.until("~ 1 typed, not applied")
        assert "Find the lamp.x" not in screen.text
        assert get_data(screen) == LAMP

        await screen.press("enter")
        await screen.until("Find the lamp.x")
        assert is_in_row(screen)


@pytest.mark.parametrize("key", ["ctrl+j", "alt+enter"])
async def test_a_line_break_moves_the_text_below_the_rows(open_app: Any, project: Path, key: str) -> None:
    async with open_app(project) as screen:
        await open_case(screen)
        await begin(screen, "user")
        await screen.press("left", "left", key)
        await screen.until("user · text")

        assert not is_in_row(screen)
        assert get_field(screen).text == "Find the lam\np."
        assert get_field(screen).cursor_location == (1, 0)
        assert get_field(screen).has_focus
        await screen.press("X", "enter")
        await wait_until_idle(screen)
        assert get_data(screen)["conversation"][0]["user_content"]["parts"][0]["text"] == "Find the lam\nXp."


async def test_a_text_that_becomes_too_long_moves_below_the_rows_without_loss(open_app: Any, project: Path) -> None:
    async with open_app(project, size=(80, 24)) as screen:
        await open_case(screen)
        await begin(screen, "user")
        typed = [str(number % 10) for number in range(40)]
        for character in typed:
            await screen.press(character)
        await screen.until("user · text")

        assert not is_in_row(screen)
        assert get_field(screen).text == "Find the lamp." + "".join(typed)
        assert get_field(screen).cursor_location == (0, 54)
        await screen.press("ctrl+z")  # one history of the text in both places
        await screen.pilot.pause()
        assert len(get_field(screen).text) < 54


async def test_joiners_are_typed_into_a_text(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await open_case(screen)
        await begin(screen, "user")
        typed = "\u0645\u06cc\u200c\u062e \U0001f468\u200d\U0001f469"  # Persian, and an emoji of two people
        for character in typed:
            screen.app.post_message(Key("", character))
        await screen.pilot.pause()
        await screen.press("enter")
        await wait_until_idle(screen)

        assert get_data(screen)["conversation"][0]["user_content"]["parts"][0]["text"] == f"Find the lamp.{typed}"


async def test_the_cursor_stays_visible_when_the_screen_becomes_small(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await open_case(screen)
        await begin(screen, "user")
        screen.app.post_message(Paste("\n".join(["line"] * 15)))
        await screen.until("user · text")
        for size in ((40, 12), (110, 30), (40, 12)):
            field, looks = get_field(screen), list[bool]()
            await screen.pilot.resize_terminal(*size)
            while len(looks) < 100 and not (len(looks) > 5 and all(looks[-5:])):
                await screen.pilot.pause(0.05)
                looks.append(field.region.contains_point(field.cursor_screen_offset))
            assert all(looks[-5:])


async def test_pasted_lines_move_below_the_rows(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await open_case(screen)
        await begin(screen, "response")
        screen.app.post_message(Paste(" One.\nTwo."))
        await screen.until("response · text", "Two.")

        assert get_field(screen).text == "It is there. One.\nTwo."
        assert get_field(screen).cursor_location == (1, 4)


async def test_a_long_value_and_json_open_below_the_rows(open_app: Any, make_project: Callable[..., Path]) -> None:
    case = {**LAMP, "conversation": [turn("word " * 60, "one\ntwo")]}
    async with open_app(make_project(home=[case])) as screen:
        await open_case(screen)
        for label in ("user", "response", "turn 1"):
            await begin(screen, label)
            assert not is_in_row(screen), label
            await screen.press("escape")
        await select_row(screen, "state")
        await screen.press("b")
        await screen.until("state as JSON")
        assert not is_in_row(screen)


async def test_wide_characters_count_with_their_cells(open_app: Any, make_project: Callable[..., Path]) -> None:
    case = {**LAMP, "conversation": [turn("打开卧室的灯", "好")]}
    async with open_app(make_project(home=[case]), size=(80, 24)) as screen:
        await open_case(screen)
        await begin(screen, "user")
        assert is_in_row(screen)
        line = screen.text.splitlines()[find_line(screen, "打开卧室的灯")]
        field = get_field(screen)
        assert cell_len(line[: line.index("打")]) == field.region.x
        room = field.region.width - 1
        while cell_len(field.text) + 2 <= room:
            await screen.press("灯")
        await screen.pilot.pause()
        assert is_in_row(screen) and field.wrapped_document.height == 1
        await screen.press("灯")
        await screen.until("user · text")
        assert not is_in_row(screen)
        assert field.text == "打开卧室的灯" + "灯" * (len(field.text) - 6)


async def test_an_error_is_shown_below_the_row_or_above_it_at_the_end(open_app: Any, project: Path) -> None:
    async with open_app(project, size=(100, 24)) as screen:
        await open_case(screen)
        await begin(screen, "depth")
        await screen.press("x")
        await screen.until("expected a number")
        assert find_line(screen, "expected a number") == find_line(screen, "depth") + 1
    async with open_app(project, size=(40, 10)) as screen:
        await open_case(screen)
        await begin(screen, "depth")
        await screen.press("x")
        await screen.until("expected a number")
        assert find_line(screen, "expected a number") < find_line(screen, "depth") < 8  # the run line


async def test_a_resized_screen_keeps_the_text_in_its_row_while_it_fits(open_app: Any, project: Path) -> None:
    async with open_app(project, size=(140, 30)) as screen:
        await open_case(screen)
        await begin(screen, "user")
        await screen.press("x")
        for size in ((60, 20), (100, 12)):
            await screen.pilot.resize_terminal(*size)
            await screen.pilot.pause(0.2)
            line = screen.text.splitlines()[find_line(screen, "Find the lamp.x")]
            assert "user" in line
            assert is_in_row(screen) and get_field(screen).has_focus
        await screen.pilot.resize_terminal(26, 12)
        await screen.until("Find the")
        await screen.pilot.pause(0.2)
        assert not is_in_row(screen)
        assert get_field(screen).text == "Find the lamp.x" and get_field(screen).has_focus


async def test_rows_that_are_scrolled_away_leave_the_text_below_them(
    open_app: Any, make_project: Callable[..., Path]
) -> None:
    case = {**LAMP, "conversation": [turn(f"Ask {number}.", "Yes.") for number in range(30)]}
    async with open_app(make_project(home=[case]), size=(100, 20)) as screen:
        await open_case(screen)
        await begin(screen, "user", number=20)
        assert is_in_row(screen) and "Ask 20." in screen.text
        await screen.press("x")
        rows = screen.app.screen.query_one("#case-rows")
        rows.scroll_to(y=rows.scroll_offset.y + 2, animate=False)
        await screen.pilot.pause(0.2)
        line = screen.text.splitlines()[find_line(screen, "Ask 20.x")]
        assert is_in_row(screen) and "user" in line

        rows.scroll_to(y=0, animate=False)
        await screen.until("user · text", "Ask 20.x")
        assert not is_in_row(screen)


async def test_a_new_value_has_a_row_while_it_is_typed(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await open_case(screen)
        await select_row(screen, "call")
        labels = [row.label for row in get_pane(screen).editor.view.rows]
        await screen.press("plus", "enter")
        await screen.until("name of the new argument")
        await screen.press(*"colour", "enter")
        await screen.until("+ colour")
        assert is_in_row(screen)
        assert find_line(screen, "+ colour") == find_line(screen, "exact") + 1
        await screen.press("escape")
        await screen.pilot.pause()
        assert [row.label for row in get_pane(screen).editor.view.rows] == labels


async def test_enter_on_the_row_of_a_text_returns_to_the_text(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await open_case(screen)
        await begin(screen, "user")
        await screen.press("x")
        screen.app.screen.query_one("#case-rows").focus()
        await screen.press("enter", "y")
        await screen.until("Find the lamp.xy")


async def test_a_changed_file_keeps_the_text_in_its_row(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await open_case(screen)
        await begin(screen, "user")
        await screen.press("x")
        path = project / "home.evalset.json"
        path.write_text(path.read_text().replace("Find the lamp.", "Find the light."))
        screen.app.screen.post_message(DocumentsChanged(frozenset(["home.evalset.json"])))
        await screen.until("this value changed meanwhile")

        assert is_in_row(screen)
        assert get_field(screen).text == "Find the lamp.x"


async def test_another_type_of_value_may_need_more_room(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await open_case(screen)
        await begin(screen, "location")
        await screen.press("ctrl+t", "ctrl+t", "ctrl+t", "ctrl+t")
        await screen.pilot.pause()
        await type_text(screen, '{"a": [1]}')
        assert is_in_row(screen)
        await screen.press("ctrl+j")
        await screen.until("location · JSON")


async def test_several_continuations_of_a_call_are_listed_and_one_is_chosen(open_app: Any, project: Path) -> None:
    async with open_app(project, size=(100, 30)) as screen:
        await open_case(screen)
        await begin(screen, "+ call")
        await wait_until_idle(screen)
        await screen.press("f", "tab")
        await screen.until("│ location", "│ depth", "│ exact")
        row = find_line(screen, "+ call")
        assert [find_line(screen, f"│ {label}") - row for label in ("location", "depth", "exact")] == [1, 2, 3]
        assert get_field(screen).suggestion == "location="

        await screen.press("down", "down", "tab")
        await screen.pilot.pause()
        assert get_field(screen).text == "find(exact="
        await screen.press("tab", "tab")
        await screen.pilot.pause()
        assert get_field(screen).text == "find(exact=true, location="


async def test_the_choice_goes_round_and_is_of_this_text_only(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await open_case(screen)
        await begin(screen, "+ call")
        await wait_until_idle(screen)
        await screen.press("f", "tab", "up")
        await screen.pilot.pause()
        assert get_field(screen).suggestion == "exact="

        await screen.press("ctrl+u")
        await screen.pilot.pause()
        assert get_field(screen).suggestion == "find("
        await screen.press("escape")
        await begin(screen, "+ turn")
        assert (get_field(screen).text, get_field(screen).suggestion) == ("", "")


async def test_continuations_are_listed_above_the_last_row(open_app: Any, project: Path) -> None:
    async with open_app(project, size=(40, 10)) as screen:
        await open_case(screen)
        await begin(screen, "+ call")
        await wait_until_idle(screen)
        await screen.press("f", "tab", "down")
        await screen.until("find(depth=", "location")
        assert find_line(screen, "location") < find_line(screen, "+ call") < 8  # the run line


async def test_up_and_down_move_the_cursor_in_a_call_of_several_lines(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await open_case(screen)
        await begin(screen, "+ call")
        await wait_until_idle(screen)
        await screen.press(*"find(", "ctrl+j", "up")
        await screen.pilot.pause()
        assert get_field(screen).cursor_location == (0, 0)
