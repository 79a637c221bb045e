"""The case pane on a real project: every key, and that nothing typed is lost."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from workbench.tui.gateway.editing import Editing
from workbench.tui.messages import DocumentsChanged, ProjectChanged
from workbench.tui.panes.case.editor_box import EditorBox
from workbench.tui.panes.case.pane import CasePane
from workbench.tui.panes.case.typed_text import TypedText

CALL = {"name": "find", "args": {"location": "Bedroom", "depth": 2, "exact": True}}


def _turn(prompt: str, response: str, *calls: dict[str, Any]) -> dict[str, Any]:
    return {
        "user_content": {"role": "user", "parts": [{"text": prompt}]},
        "intermediate_data": {"tool_uses": list(calls)},
        "final_response": {"role": "model", "parts": [{"text": response}]},
    }


LAMP = {
    "eval_id": "lamp",
    "conversation": [_turn("Find the lamp.", "It is there.", CALL), _turn("Thanks.", "You are welcome.")],
    "session_input": {"app_name": "home", "user_id": "u", "state": {}},
}
TEA = {
    "eval_id": "tea",
    "conversation_scenario": {"starting_prompt": "Tea?", "conversation_plan": "Get tea.", "user_persona": "NOVICE"},
}


@pytest.fixture
def project(make_project: Callable[..., Path]) -> Path:
    return make_project(home=[LAMP, TEA])


async def _open(screen: Any, case: str = "lamp") -> None:
    """Open the case in tab 1 with the cursor on its first row."""
    await screen.until(case)
    rows = screen.state.browser.rows
    at = next(index for index, row in enumerate(rows) if row.label == case)
    screen.state.browser.move_to(at)
    await screen.press("1")
    screen.app.screen._after_cursor()
    await screen.until("eval id")
    await screen.pilot.pause()


async def _go(screen: Any, label: str, *, number: int = 0) -> None:
    """Put the cursor on a row by its label."""
    view = _pane(screen).desk.view
    wanted = [index for index, row in enumerate(view.rows) if row.label == label][number]
    await screen.press("g", *["j"] * wanted)
    await screen.pilot.pause()
    assert view.row.label == label


async def _type(screen: Any, text: str) -> None:
    """Replace what stands in the box."""
    screen.app.screen.query_one(TypedText).text = text
    await screen.pilot.pause()


async def _idle(screen: Any) -> None:
    """Wait until everything that was asked for is done."""
    await screen.app.workers.wait_for_complete()
    await screen.pilot.pause()


def _pane(screen: Any) -> CasePane:
    pane = screen.app.screen_stack[0].query_one(CasePane)
    assert isinstance(pane, CasePane)
    return pane


def _data(screen: Any) -> Any:
    return _pane(screen).desk.opened.data


def _on_disk(project: Path) -> Any:
    return json.loads((project / "home.evalset.json").read_text())["eval_cases"]


async def test_a_case_is_shown_in_its_own_words(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await _open(screen)

        text = await screen.until("You are welcome.")

    for words in ("eval id", "turn 1", "Find the lamp.", "call", "find", '"Bedroom"', "app name", "turn 2"):
        assert words in text


async def test_enter_edits_a_text_and_ctrl_s_saves_it_alone(open_app: Any, project: Path) -> None:
    before = (project / "home.evalset.json").read_text()
    async with open_app(project) as screen:
        await _open(screen)
        await _go(screen, "user")
        await screen.press("enter")
        await _type(screen, "Find the lamps.")
        await screen.press("ctrl+j")
        await screen.until("unsaved edits", "* ")
        assert any(isinstance(message, DocumentsChanged) for message in screen.messages)
        assert (project / "home.evalset.json").read_text() == before

        await screen.press("ctrl+s")
        await screen.until_gone("unsaved edits")

    assert (project / "home.evalset.json").read_text() == before.replace("the lamp.", "the lamps.")


async def test_unsaved_edits_are_told_by_the_title_and_the_tab_until_they_are_saved(
    open_app: Any, project: Path
) -> None:
    async with open_app(project) as screen:
        await _open(screen)
        assert "* unsaved" not in screen.text and "1 Case*" not in screen.text
        await _go(screen, "user")
        await screen.press("enter")
        await _type(screen, "Find the lamps.")
        await screen.press("ctrl+j")

        await screen.until("* unsaved · ", "1 Case*")
        await screen.press("4")
        await screen.until("* unsaved · ", "1 Case*")
        await screen.press("ctrl+s")
        await screen.until_gone("* unsaved")
        await screen.until_gone("1 Case*")


async def test_an_argument_keeps_its_type_and_can_get_another(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await _open(screen)
        await _go(screen, "depth")
        await screen.press("enter")
        await _type(screen, "x")
        await screen.until("expected a number")
        await screen.press("enter")
        assert _pane(screen).desk.typing is not None
        await _type(screen, "2.5")
        await screen.press("enter")
        await _idle(screen)
        assert _data(screen)["conversation"][0]["intermediate_data"]["tool_uses"][0]["args"]["depth"] == 2.5

        await _go(screen, "location")
        await screen.press("enter", "ctrl+t", "ctrl+t", "ctrl+t", "ctrl+t")
        await screen.until("JSON")
        await _type(screen, '["a", {"b": null}]')
        await screen.press("ctrl+j")
        await _idle(screen)

        args = _data(screen)["conversation"][0]["intermediate_data"]["tool_uses"][0]["args"]
        assert args["location"] == ["a", {"b": None}]


async def test_wrong_json_says_where_and_stays_in_the_box(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await _open(screen)
        await _go(screen, "call")
        await screen.press("b")
        await _type(screen, '{\n  "a": 1,\n  b\n}')
        await screen.press("ctrl+j")

        await screen.until("line 3, column 3")

        assert screen.app.screen.query_one(EditorBox).text == '{\n  "a": 1,\n  b\n}'
        assert _data(screen) == LAMP


async def test_what_the_format_does_not_allow_is_said_while_typing(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await _open(screen)
        await _go(screen, "turn 1")
        await screen.press("enter")
        await _type(screen, '{"user_content": 3}')

        await screen.until("conversation[0].user_content: found 3, expected an object")

        await screen.press("ctrl+j")
        await _idle(screen)
        assert _data(screen) == LAMP
        assert _pane(screen).desk.typing is not None


async def test_an_id_that_another_case_has_is_refused(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await _open(screen)
        await screen.press("enter")
        await _type(screen, "tea")
        await screen.press("enter")

        await screen.until("is the id of another case of this set")

        assert _data(screen)["eval_id"] == "lamp"


async def test_a_case_with_another_id_stays_selected(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await _open(screen)
        await screen.press("enter")
        await _type(screen, "lamp [bold]2")
        await screen.press("enter")
        await _idle(screen)

        await screen.until("lamp [bold]2")

        assert any(isinstance(message, ProjectChanged) for message in screen.messages)
        assert screen.state.selected_case.eval_id == "lamp [bold]2"
        assert _data(screen)["eval_id"] == "lamp [bold]2"


async def test_undo_and_redo_keep_the_cursor_on_its_row(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await _open(screen)
        await _go(screen, "call")
        await screen.press("d")
        await _idle(screen)
        assert len(_data(screen)["conversation"][0]["intermediate_data"]["tool_uses"]) == 2
        await _go(screen, "response", number=1)

        await screen.press("u")
        await _idle(screen)
        assert _data(screen) == LAMP
        assert _pane(screen).desk.row.value == "You are welcome."

        await screen.press("U")
        await _idle(screen)
        assert len(_data(screen)["conversation"][0]["intermediate_data"]["tool_uses"]) == 2
        assert _pane(screen).desk.row.value == "You are welcome."


async def test_rows_move_within_their_list(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await _open(screen)
        await _go(screen, "turn 1")
        await screen.press("J")
        await _idle(screen)
        prompts = [turn["user_content"]["parts"][0]["text"] for turn in _data(screen)["conversation"]]
        assert prompts == ["Thanks.", "Find the lamp."]
        assert _pane(screen).desk.row.label == "turn 2"

        await screen.press("K")
        await _idle(screen)
        assert _data(screen) == LAMP

        await screen.press("K")
        await screen.until("it is the first already")


async def test_a_deleted_row_is_gone_and_what_must_stay_stays(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await _open(screen)
        await _go(screen, "exact")
        await screen.press("D")
        await _idle(screen)
        assert "exact" not in _data(screen)["conversation"][0]["intermediate_data"]["tool_uses"][0]["args"]

        await _go(screen, "user")
        await screen.press("delete")

        await screen.until("conversation[0]: found nothing")


async def test_a_key_is_renamed_and_duplicated(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await _open(screen)
        await _go(screen, "depth")
        await screen.press("m")
        await screen.until("The new key")
        await screen.press(*["backspace"] * 5, *"exact")
        await screen.until("there is 'exact' already")
        await screen.press("2", "enter")
        await _idle(screen)
        args = _data(screen)["conversation"][0]["intermediate_data"]["tool_uses"][0]["args"]
        assert list(args) == ["location", "exact2", "exact"]

        await screen.press("d")
        await screen.until("The key of the copy")
        await screen.press("b", "enter")
        await _idle(screen)
        args = _data(screen)["conversation"][0]["intermediate_data"]["tool_uses"][0]["args"]
        assert args["b"] == 2


async def test_an_argument_is_added(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await _open(screen)
        await _go(screen, "call")
        await screen.press("plus")
        await screen.until("Add", "argument", "call id", "state key")
        await screen.press("enter")
        await screen.until("The name of the new argument")
        await screen.press(*"room", "enter")
        await _idle(screen)
        await _type(screen, "Attic")
        await screen.press("enter")
        await _idle(screen)

        args = _data(screen)["conversation"][0]["intermediate_data"]["tool_uses"][0]["args"]
        assert args["room"] == "Attic"
        assert _pane(screen).desk.row.label == "room"


async def test_an_empty_value_can_be_added(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await _open(screen)
        await _go(screen, "state")
        await screen.press("plus")
        await screen.until("Add")
        await screen.press("enter")
        await screen.until("The name of the new")
        await screen.press(*"room", "enter")
        await _idle(screen)
        await screen.press("enter")
        await _idle(screen)

        assert _data(screen)["session_input"]["state"] == {"room": ""}


async def test_a_turn_is_added_in_one_step(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await _open(screen)
        await _go(screen, "turn 2")
        await screen.press("i")
        await screen.until("Add")
        labels = [item.label for item in _pane(screen).desk.additions()]
        await screen.press(*["j"] * labels.index("turn"), "enter")
        await _idle(screen)
        await _type(screen, "And\nnow?")
        await screen.press("ctrl+j")
        await _idle(screen)
        assert _data(screen)["conversation"][2]["user_content"]["parts"] == [{"text": "And\nnow?"}]

        await screen.press("u")
        await _idle(screen)

        assert _data(screen) == LAMP


async def test_turns_are_jumped_to(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await _open(screen)
        await screen.press("}", "}")
        assert _pane(screen).desk.row.label == "turn 2"
        await screen.press("{")
        assert _pane(screen).desk.row.label == "turn 1"


async def test_typed_text_survives_leaving_and_other_cases(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await _open(screen)
        await _go(screen, "user")
        await screen.press("enter")
        await _type(screen, "half a")
        await screen.press("escape")
        await screen.until("~ 1 typed, not applied")
        await _open(screen, "tea")
        await screen.until("NOVICE")
        await screen.until_gone("not applied")
        await _open(screen)
        await screen.until("~ 1 typed, not applied")

        await _go(screen, "user")
        await screen.press("enter")
        assert screen.app.screen.query_one(EditorBox).text == "half a"

        await screen.press("ctrl+o")
        assert screen.app.screen.query_one(EditorBox).text == "Find the lamp."
        await screen.press("escape")
        await screen.until_gone("not applied")


async def test_typed_text_survives_a_change_of_the_file(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await _open(screen)
        await _go(screen, "user")
        await screen.press("enter")
        await _type(screen, "typed")
        path = project / "home.evalset.json"
        path.write_text(path.read_text().replace("Find the lamp.", "Find the light."))
        screen.app.screen.post_message(DocumentsChanged(frozenset(["home.evalset.json"])))

        await screen.until("this was changed meanwhile")

        assert screen.app.screen.query_one(EditorBox).text == "typed"
        await screen.press("ctrl+j")
        await screen.until('meanwhile this became "Find the light.": the same key again replaces that')
        await _idle(screen)
        assert _data(screen)["conversation"][0]["user_content"]["parts"][0]["text"] == "Find the light."
        await screen.press("ctrl+j")
        await _idle(screen)
        assert _data(screen)["conversation"][0]["user_content"]["parts"][0]["text"] == "typed"


async def test_what_was_typed_to_be_added_is_gone_on_with_at_the_row_that_it_is_marked_on(
    open_app: Any, project: Path
) -> None:
    async with open_app(project) as screen:
        await _open(screen)
        await _go(screen, "call")
        await screen.press("plus", "enter")
        await screen.until("name of the new argument")
        await screen.press(*"colour", "enter")
        await screen.until("colour · text")
        await screen.press(*"red", "escape")
        await screen.until("~")
        await screen.press("enter")
        await screen.until("go on with colour: red", "edit call")
        await screen.press("enter")
        await screen.until("colour · text")
        await screen.press("enter")
        await screen.until('"red"')
        await _idle(screen)

        assert _data(screen)["conversation"][0]["intermediate_data"]["tool_uses"][0]["args"]["colour"] == "red"


async def test_typed_text_goes_with_its_turn(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await _open(screen)
        await _go(screen, "user", number=1)
        await screen.press("enter", "x", "escape")
        await _go(screen, "turn 2")
        await screen.press("K")
        await _idle(screen)
        await _go(screen, "user")
        await screen.press("enter", "ctrl+j")
        await _idle(screen)

        texts = [turn["user_content"]["parts"][0]["text"] for turn in _data(screen)["conversation"]]
        assert texts == ["Thanks.x", "Find the lamp."]


async def test_text_typed_for_a_turn_that_vanishes_from_the_file_stays_and_says_so(
    open_app: Any, project: Path
) -> None:
    path = project / "home.evalset.json"
    async with open_app(project) as screen:
        await _open(screen)
        await _go(screen, "user", number=1)
        await screen.press("enter", "x")
        data = json.loads(path.read_text())
        del data["eval_cases"][0]["conversation"][1]
        path.write_text(json.dumps(data))
        await screen.until("changed meanwhile")
        await screen.press("ctrl+j")

        await screen.until("no longer in the case", "Thanks.x")


async def test_quitting_asks_what_becomes_of_typed_text(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await _open(screen)
        await _go(screen, "user")
        await screen.press("enter", "x", "escape")
        await screen.press("q")
        await screen.until("Typed and not applied: lamp: user")
        await screen.press("enter")
        await screen.until_gone("Typed and not applied")
        assert screen.app.is_running

        await screen.press("q")
        await screen.until("quit without it")
        await screen.press("down", "down", "enter")
        await screen.pilot.pause(0.3)
        assert not screen.app.is_running
    assert list((project / ".workbench" / "recovery").iterdir()) == []


async def test_typed_text_can_be_kept_for_the_next_start(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await _open(screen)
        await _go(screen, "user")
        await screen.press("enter", *"soon", "escape", "q")
        await screen.until("keep it for the next start")
        await screen.press("down", "enter")
        await screen.pilot.pause(0.3)
        assert not screen.app.is_running
    (kept,) = (project / ".workbench" / "recovery").iterdir()
    content = json.loads(kept.read_text())
    kept.write_text(json.dumps({**content, "session": "of a process that is no more"}))

    async with open_app(project) as screen:
        await screen.until("an earlier session kept", "lamp")
        await _open(screen)
        await screen.until("1 typed, not applied")
        await _go(screen, "user")
        await screen.press("enter", "ctrl+j")
        await screen.until_gone("1 typed, not applied")
        await screen.press("ctrl+s")
        await screen.until("saved")
        await screen.pilot.pause(0.5)

    assert "soon" in _on_disk(project)[0]["conversation"][0]["user_content"]["parts"][0]["text"]
    assert list((project / ".workbench" / "recovery").iterdir()) == []


async def test_applying_and_saving_is_one_key(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await _open(screen, "tea")
        await _go(screen, "plan")
        await screen.press("enter")
        await _type(screen, "Get much tea.")
        await screen.press("ctrl+s")
        await screen.until("saved")

    assert _on_disk(project)[1]["conversation_scenario"]["conversation_plan"] == "Get much tea."


async def test_the_set_is_shown_and_edited_on_its_row(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await _open(screen)
        rows = screen.state.browser.rows
        screen.state.browser.move_to(next(i for i, row in enumerate(rows) if row.eval_set and row.case is None))
        screen.app.screen._after_cursor()
        await screen.until("eval set id", "home.evalset.json", "test_config.json")
        await screen.press("plus")
        await screen.until("description")
        await screen.press("j", "enter")
        await _idle(screen)
        await _type(screen, "All about lamps.")
        await screen.press("ctrl+j")
        await screen.until("All about lamps.")

        await screen.press("g", "enter")
        await _type(screen, " ")
        await screen.press("enter")
        await screen.until("expected an id, which a set must have")


async def test_an_agent_has_facts_and_nothing_to_edit(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await _open(screen)
        screen.state.browser.move_to(0)
        screen.app.screen._after_cursor()

        await screen.until("kind", "function")

        assert _pane(screen).desk.opened is None
        await screen.press("plus", "D", "enter")
        await _idle(screen)


async def test_one_field_is_edited_in_the_users_editor(
    open_app: Any, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_app(project) as screen:

        async def edited(app: Any, text: str, *, suffix: str, check: Any) -> str | None:
            assert (text, suffix) == ("Find the lamp.", ".txt")
            assert check("x") is None
            return "Found\ttabs."

        monkeypatch.setattr("workbench.tui.panes.case.pane.edit_text", edited)
        await _open(screen)
        await _go(screen, "user")
        await screen.press("ctrl+e")
        await _idle(screen)

        assert _data(screen)["conversation"][0]["user_content"]["parts"][0]["text"] == "Found\ttabs."


async def test_what_the_users_editor_gave_is_kept_where_it_cannot_be_applied(
    open_app: Any, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def edited(app: Any, text: str, *, suffix: str, check: Any) -> str | None:
        return "tea"

    monkeypatch.setattr("workbench.tui.panes.case.pane.edit_text", edited)
    async with open_app(project) as screen:
        await _open(screen)
        await screen.press("enter")
        await screen.press("ctrl+e")
        await screen.until("as a draft", "~ 1 typed, not applied")

        assert _data(screen)["eval_id"] == "lamp"


async def test_the_value_of_a_row_is_copied(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await _open(screen)
        await _go(screen, "user")
        assert _pane(screen).copyable() == "Find the lamp."
        await _go(screen, "depth")
        assert _pane(screen).copyable() == "2"


async def test_a_click_selects_a_row_and_two_open_it(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await _open(screen)
        await screen.pilot.click("#case-rows", offset=(5, 2))
        assert _pane(screen).desk.row.label == "user"
        await screen.pilot.click("#case-rows", offset=(5, 2), times=2)
        await screen.pilot.pause()
        assert _pane(screen).desk.typing is not None


async def test_a_text_with_control_characters_is_typed_as_json(
    open_app: Any, make_project: Callable[..., Path]
) -> None:
    nasty = "a\x1b[31mred [/b] \u202eתורה 你好 \u0301"
    project = make_project(home=[{"eval_id": "nasty", "conversation": [_turn(nasty, "x" * 1_000_000)]}])
    async with open_app(project, size=(80, 24)) as screen:
        await _open(screen, "nasty")
        await screen.until("more characters")
        assert "\x1b" not in screen.text
        await _go(screen, "user")
        await screen.press("enter")
        await screen.until("JSON", "\\u001b[31mred")
        await screen.press("ctrl+j")
        await _idle(screen)
        assert _data(screen)["conversation"][0]["user_content"]["parts"][0]["text"] == nasty

        await _go(screen, "response")
        await screen.press("enter")
        await screen.until("20,000")


async def test_what_is_typed_can_be_seen_on_the_lowest_screen(open_app: Any, project: Path) -> None:
    async with open_app(project, size=(40, 10)) as screen:
        await screen.until("lamp")
        await screen.press("j", "j", "1")
        await screen.until("eval id")
        await screen.press("j", "j", "enter")
        await screen.until("user · text", "Find the lamp.")


async def test_a_broken_case_says_what_to_do(open_app: Any, project: Path) -> None:
    path = project / "home.evalset.json"
    path.write_text(path.read_text().replace('"Tea?",', '"Tea?"'))
    async with open_app(project) as screen:
        await screen.until("tea")
        screen.state.browser.move_to(len(screen.state.browser.rows) - 1)
        await screen.press("1")
        screen.app.screen._after_cursor()

        await screen.until("can only be mended as text")


async def test_a_case_with_the_id_of_another_says_so_until_it_has_one_of_its_own(
    open_app: Any, make_project: Callable[..., Path]
) -> None:
    async with open_app(make_project(home=[LAMP, {**TEA, "eval_id": "lamp"}])) as screen:
        await _open(screen, "lamp #2")
        await screen.until("Tea?", "is the id of another case")
        await _go(screen, "eval id")
        await screen.press("enter")
        await _type(screen, "tea")
        await screen.press("enter")
        await screen.until_gone("is the id of another case")
        assert _data(screen)["eval_id"] == "tea"


async def test_an_old_format_is_edited_with_its_own_keys(open_app: Any, make_project: Callable[..., Path]) -> None:
    project = make_project()
    path = project / "old.evalset.json"
    path.write_text('[{"name": "kettle", "data": [{"query": "Boil.", "reference": "Done."}]}]')
    async with open_app(project) as screen:
        await _open(screen, "kettle")
        await screen.until("an old format")
        await _go(screen, "response")
        await screen.press("enter")
        await _type(screen, "Boiled.")
        await screen.press("ctrl+j")
        await screen.until("unsaved edits")
        await screen.press("ctrl+s")
        await screen.until("saved")

    assert path.read_text() == '[{"name": "kettle", "data": [{"query": "Boil.", "reference": "Boiled."}]}]'


async def test_a_set_that_vanishes_leaves_a_sentence(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await _open(screen)
        (project / "home.evalset.json").unlink()
        await _go(screen, "turn 1")
        await screen.press("d")
        await _idle(screen)

        assert _pane(screen).desk.opened is not None


async def test_an_edit_that_had_to_wait_is_not_made_to_what_was_selected_meanwhile(
    open_app: Any, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, may_go_on, make = asyncio.Event(), asyncio.Event(), Editing.make

    async def slow(editing: Editing, *arguments: Any, **more: Any) -> None:
        begun.set()
        await may_go_on.wait()
        await make(editing, *arguments, **more)

    monkeypatch.setattr(Editing, "make", slow)
    async with open_app(project) as screen:
        await _open(screen)
        await _go(screen, "app name")
        await screen.press("D", "D")
        await begun.wait()
        await _open(screen, "tea")
        await screen.until("Tea?")
        may_go_on.set()
        await screen.until("something else was selected meanwhile")
        await screen.press("ctrl+s")
        await screen.until("saved")

    lamp, tea = _on_disk(project)
    assert lamp["session_input"] == {"user_id": "u", "state": {}} and tea == TEA


async def test_half_a_character_is_copied_and_edited_outside_as_json(
    open_app: Any, make_project: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    async def edit_text(app: Any, text: str, **_: Any) -> None:
        seen.append(text)

    monkeypatch.setattr("workbench.tui.panes.case.pane.edit_text", edit_text)
    half = {"eval_id": "lamp", "conversation": [_turn("half \ud83d", "ok")]}
    async with open_app(make_project(home=[half])) as screen:
        await _open(screen)
        await _go(screen, "user")
        await screen.press("y")
        await screen.until("copied 6 characters")
        assert screen.app.clipboard == "half ?"

        await screen.press("ctrl+e")
        await _idle(screen)

    assert seen == ['"half \\ud83d"']


async def test_the_persona_of_a_scenario_is_chosen_among_those_there_are(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await _open(screen, "tea")
        await _go(screen, "persona")
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
        await _open(screen, "tea")
        await _go(screen, "plan")
        await screen.press("i")
        await screen.until("persona: EXPERT, NOVICE, EVALUATOR", "persona in full")
