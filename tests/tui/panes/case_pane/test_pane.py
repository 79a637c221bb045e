"""The case pane on a real project: its content, its edits, and its messages when an edit is impossible."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.tui.panes.case_pane.opened import (
    LAMP,
    TEA,
    get_data,
    get_pane,
    open_case,
    select_row,
    turn,
    type_text,
    wait_until_idle,
)
from workbench.tui.screen_context import DocumentsChanged, ProjectChanged
from workbench.tui.widgets.inputs import EditorBox


async def test_a_case_is_shown_with_readable_labels_and_its_values(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await open_case(screen)

        text = await screen.until("You are welcome.")

    for words in ("eval id", "turn 1", "Find the lamp.", "call", "find", '"Bedroom"', "app name", "turn 2"):
        assert words in text


async def test_enter_edits_a_text_and_ctrl_s_saves_only_that_change(open_app: Any, project: Path) -> None:
    before = (project / "home.evalset.json").read_text()
    async with open_app(project) as screen:
        await open_case(screen)
        await select_row(screen, "user")
        await screen.press("enter")
        await type_text(screen, "Find the lamps.")
        await screen.press("enter")
        await screen.until(" * 1 unsaved ")
        assert any(isinstance(message, DocumentsChanged) for message in screen.messages)
        assert (project / "home.evalset.json").read_text() == before

        await screen.press("ctrl+s")
        await screen.until_gone("unsaved")

    assert (project / "home.evalset.json").read_text() == before.replace("the lamp.", "the lamps.")


async def test_header_rows_and_keys_alone_say_what_is_unsaved(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await open_case(screen)
        assert "unsaved" not in screen.text and "*" not in screen.text and "save" not in screen.text
        await select_row(screen, "user")
        await screen.press("enter")
        await type_text(screen, "Find the lamps.")
        await screen.press("enter")

        await screen.until(" * 1 unsaved ", "home *")
        await screen.press("4")
        await screen.until("scores")
        header, *others, keys = (line.strip() for line in screen.text.strip("\n").splitlines())
        assert header.count("* 1 unsaved") == 1 and keys.startswith("^s save")
        assert sum(line.count("*") for line in others) == 2  # the case and its set
        await screen.press("ctrl+s")
        await screen.until_gone("*")


async def test_an_argument_keeps_its_type_until_the_user_changes_it(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await open_case(screen)
        await select_row(screen, "depth")
        await screen.press("enter")
        await type_text(screen, "x")
        await screen.until("expected a number")
        await screen.press("enter")
        assert get_pane(screen).editor.typing is not None
        await type_text(screen, "2.5")
        await screen.press("enter")
        await wait_until_idle(screen)
        assert get_data(screen)["conversation"][0]["intermediate_data"]["tool_uses"][0]["args"]["depth"] == 2.5

        await select_row(screen, "location")
        await screen.press("enter", "ctrl+t", "ctrl+t", "ctrl+t", "ctrl+t")
        await screen.until("JSON")
        await type_text(screen, '["a", {"b": null}]')
        await screen.press("enter")
        await wait_until_idle(screen)

        args = get_data(screen)["conversation"][0]["intermediate_data"]["tool_uses"][0]["args"]
        assert args["location"] == ["a", {"b": None}]


async def test_wrong_json_says_where_and_stays_in_the_box(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await open_case(screen)
        await select_row(screen, "call")
        await screen.press("b")
        await type_text(screen, '{\n  "a": 1,\n  b\n}')
        await screen.press("enter")

        await screen.until("line 3, column 3")

        assert screen.app.screen.query_one(EditorBox).text == '{\n  "a": 1,\n  b\n}'
        assert get_data(screen) == LAMP


async def test_values_that_the_format_forbids_are_reported_while_typing(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await open_case(screen)
        await select_row(screen, "turn 1")
        await screen.press("enter")
        await type_text(screen, '{"user_content": 3}')

        await screen.until("conversation[0].user_content: found 3, expected an object")

        await screen.press("enter")
        await wait_until_idle(screen)
        assert get_data(screen) == LAMP
        assert get_pane(screen).editor.typing is not None


async def test_an_id_that_another_case_has_is_refused(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await open_case(screen)
        await screen.press("enter")
        await type_text(screen, "tea")
        await screen.press("enter")

        await screen.until("is the id of another case of this set")

        assert get_data(screen)["eval_id"] == "lamp"


async def test_a_case_stays_selected_when_its_id_changes(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await open_case(screen)
        await screen.press("enter")
        await type_text(screen, "lamp [bold]2")
        await screen.press("enter")
        await wait_until_idle(screen)

        await screen.until("lamp [bold]2")

        assert any(isinstance(message, ProjectChanged) for message in screen.messages)
        assert screen.state.selected_case.eval_id == "lamp [bold]2"
        assert get_data(screen)["eval_id"] == "lamp [bold]2"


async def test_the_set_is_shown_and_edited_on_its_row(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await open_case(screen)
        rows = screen.state.browser.rows
        screen.state.browser.set_cursor(next(i for i, row in enumerate(rows) if row.eval_set and row.case is None))
        screen.app.screen._show_cursor_row()
        await screen.until("eval set id", "home.evalset.json", "test_config.json")
        await screen.press("plus")
        await screen.until("description")
        await screen.press("j", "enter")
        await wait_until_idle(screen)
        await type_text(screen, "All about lamps.")
        await screen.press("enter")
        await screen.until("All about lamps.")

        await screen.press("g", "enter")
        await type_text(screen, " ")
        await screen.press("enter")
        await screen.until("eval_set_id: expected an id")


async def test_an_agent_has_facts_and_nothing_to_edit(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await open_case(screen)
        screen.state.browser.set_cursor(0)
        screen.app.screen._show_cursor_row()

        await screen.until("kind", "function")

        assert get_pane(screen).editor.opened is None
        await screen.press("plus", "D", "enter")
        await wait_until_idle(screen)


async def test_one_field_is_edited_in_the_users_editor(
    open_app: Any, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_app(project) as screen:

        async def edit_text(app: Any, text: str, *, suffix: str, check: Any) -> str | None:
            assert (text, suffix) == ("Find the lamp.", ".txt")
            assert check("x") is None
            return "Found\ttabs."

        monkeypatch.setattr("workbench.tui.panes.case_pane.edit_text", edit_text)
        await open_case(screen)
        await select_row(screen, "user")
        await screen.press("ctrl+e")
        await wait_until_idle(screen)

        assert get_data(screen)["conversation"][0]["user_content"]["parts"][0]["text"] == "Found\ttabs."


async def test_invalid_text_of_the_users_editor_is_stored_as_a_draft(
    open_app: Any, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def edit_text(app: Any, text: str, *, suffix: str, check: Any) -> str | None:
        return "tea"

    monkeypatch.setattr("workbench.tui.panes.case_pane.edit_text", edit_text)
    async with open_app(project) as screen:
        await open_case(screen)
        await screen.press("enter")
        await screen.press("ctrl+e")
        await screen.until("as a draft", "~ 1 typed, not applied")

        assert get_data(screen)["eval_id"] == "lamp"


async def test_a_text_of_the_users_editor_stays_with_its_case_if_that_is_removed_meanwhile(
    open_app: Any, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = project / "home.evalset.json"
    before = path.read_bytes()
    is_edited = asyncio.Event()

    async def edit_text(app: Any, text: str, *, suffix: str, check: Any) -> str | None:
        await is_edited.wait()
        return "Outside"

    monkeypatch.setattr("workbench.tui.panes.case_pane.edit_text", edit_text)
    async with open_app(project) as screen:
        await open_case(screen)
        await screen.press("ctrl+e")
        path.write_text(json.dumps({"eval_set_id": "home", "eval_cases": [json.loads(before)["eval_cases"][1]]}))
        await screen.until("1 case ", "Get tea.")
        is_edited.set()
        await screen.until("lamp is no longer in home.evalset.json; your text is kept as a draft")
        assert get_data(screen)["eval_id"] == "tea"
        assert [edited.case.eval_id for edited, _ in get_pane(screen).editor.unapplied_drafts] == ["lamp"]


async def test_the_answer_of_a_dialog_is_not_applied_to_another_case(open_app: Any, project: Path) -> None:
    path = project / "home.evalset.json"
    data = json.loads(path.read_text())
    async with open_app(project) as screen:
        await open_case(screen)
        await select_row(screen, "depth")
        await screen.press("m")
        await screen.until("The new key")
        path.write_text(json.dumps({**data, "eval_cases": data["eval_cases"][1:]}))
        while get_data(screen)["eval_id"] != "tea":
            await screen.pilot.pause(0.02)
        await screen.press("x", "enter")
        await screen.until("another case was selected meanwhile; nothing was changed")


async def test_the_value_of_a_row_is_copied(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await open_case(screen)
        await select_row(screen, "user")
        assert get_pane(screen).copyable() == "Find the lamp."
        await select_row(screen, "depth")
        assert get_pane(screen).copyable() == "2"


async def test_a_click_selects_a_row_and_a_double_click_opens_it(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await open_case(screen)
        await screen.pilot.click("#case-rows", offset=(5, 2))
        assert get_pane(screen).editor.row.label == "user"
        await screen.pilot.click("#case-rows", offset=(5, 2), times=2)
        await screen.pilot.pause()
        assert get_pane(screen).editor.typing is not None


async def test_a_broken_case_says_what_to_do(open_app: Any, project: Path) -> None:
    path = project / "home.evalset.json"
    path.write_text(path.read_text().replace('"Tea?",', '"Tea?"'))
    async with open_app(project) as screen:
        await screen.until("tea")
        screen.state.browser.set_cursor(len(screen.state.browser.rows) - 1)
        await screen.press("1")
        screen.app.screen._show_cursor_row()

        await screen.until("can only be edited as text")


async def test_a_duplicate_id_is_reported_until_it_is_unique(open_app: Any, make_project: Callable[..., Path]) -> None:
    async with open_app(make_project(home=[LAMP, {**TEA, "eval_id": "lamp"}])) as screen:
        await open_case(screen, "lamp #2")
        await screen.until("Tea?", "is also the id of another case")
        await select_row(screen, "eval id")
        await screen.press("enter")
        await type_text(screen, "tea")
        await screen.press("enter")
        await screen.until_gone("is also the id of another case")
        assert get_data(screen)["eval_id"] == "tea"


async def test_an_old_format_is_edited_with_its_own_keys(open_app: Any, make_project: Callable[..., Path]) -> None:
    project = make_project()
    path = project / "old.evalset.json"
    path.write_text('[{"name": "kettle", "data": [{"query": "Boil.", "reference": "Done."}]}]')
    async with open_app(project) as screen:
        await open_case(screen, "kettle")
        await screen.until("an old format")
        await select_row(screen, "response")
        await screen.press("enter")
        await type_text(screen, "Boiled.")
        await screen.press("enter")
        await screen.until(" * 1 unsaved ")
        await screen.press("ctrl+s")
        await screen.until("saved")

    assert path.read_text() == '[{"name": "kettle", "data": [{"query": "Boil.", "reference": "Boiled."}]}]'


async def test_a_deleted_set_is_replaced_by_a_message(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await open_case(screen)
        (project / "home.evalset.json").unlink()
        await select_row(screen, "turn 1")
        await screen.press("d")
        await wait_until_idle(screen)

        assert get_pane(screen).editor.opened is not None


async def test_a_lone_surrogate_is_edited_in_the_users_editor_as_json(
    open_app: Any, make_project: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    texts: list[str] = []

    async def edit_text(app: Any, text: str, **_: Any) -> None:
        texts.append(text)

    monkeypatch.setattr("workbench.tui.panes.case_pane.edit_text", edit_text)
    half = {"eval_id": "lamp", "conversation": [turn("half \ud83d", "ok")]}
    async with open_app(make_project(home=[half])) as screen:
        await open_case(screen)
        await select_row(screen, "user")
        await screen.press("y")
        await screen.until("copied 6 characters")
        assert screen.app.clipboard == "half ?"

        await screen.press("ctrl+e")
        await wait_until_idle(screen)

    assert texts == ['"half \\ud83d"']
