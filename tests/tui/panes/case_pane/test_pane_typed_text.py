"""The case pane on a real project keeps all typed text."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.tui.panes.case_pane.opened import (
    TEA,
    get_data,
    open_case,
    read_cases,
    select_row,
    turn,
    type_text,
    wait_until_idle,
)
from workbench.tui.backend.backend import Backend
from workbench.tui.screen_context import DocumentsChanged
from workbench.tui.widgets.inputs import EditorBox

# Types into a case, applies the text, and is killed as soon as the file with the typed text is deleted.
KILLED = """
import asyncio, os, signal, sys, threading, time
from pathlib import Path
from tests.tui.conftest import Driver
from tests.tui.panes.case_pane.opened import open_case, select_row
from workbench.store.settings import load_settings
from workbench.tui.app import WorkbenchApp
from workbench.tui.backend.backend import Backend
from workbench.tui.themes import load_themes, theme_folders

project = Path(sys.argv[1])
typed = lambda: list((project / ".workbench/recovery").glob("*.typed"))

def kill():
    while typed():
        time.sleep(0.0005)
    os.kill(os.getpid(), signal.SIGKILL)

async def main():
    settings = load_settings(project, user_file=project / "none.toml")
    app = WorkbenchApp(Backend(project), settings=settings, themes=load_themes(theme_folders()[:1]))
    async with app.run_test(size=(140, 42)) as pilot:
        screen = Driver(app, pilot, [])
        await open_case(screen)
        await select_row(screen, "user")
        await screen.press("enter", *"precious")
        while not any("precious" in file.read_text() for file in typed()):
            await pilot.pause(0.02)
        threading.Thread(target=kill, daemon=True).start()
        await screen.press("enter")
        await asyncio.sleep(30)

asyncio.run(main())
"""


async def test_typed_text_survives_leaving_and_other_cases(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await open_case(screen)
        await select_row(screen, "user")
        await screen.press("enter")
        await type_text(screen, "half a")
        await screen.press("escape")
        await screen.until("~ 1 typed, not applied")
        await open_case(screen, "tea")
        await screen.until("NOVICE")
        await screen.until_gone("not applied")
        await open_case(screen)
        await screen.until("~ 1 typed, not applied")

        await select_row(screen, "user")
        await screen.press("enter")
        assert screen.app.screen.query_one(EditorBox).text == "half a"

        await screen.press("ctrl+o")
        assert screen.app.screen.query_one(EditorBox).text == "Find the lamp."
        await screen.press("escape")
        await screen.until_gone("not applied")


async def test_typed_text_survives_a_change_of_the_file(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await open_case(screen)
        await select_row(screen, "user")
        await screen.press("enter")
        await type_text(screen, "typed")
        path = project / "home.evalset.json"
        path.write_text(path.read_text().replace("Find the lamp.", "Find the light."))
        screen.app.screen.post_message(DocumentsChanged(frozenset(["home.evalset.json"])))

        await screen.until("this value changed meanwhile")

        assert screen.app.screen.query_one(EditorBox).text == "typed"
        await screen.press("enter")
        await screen.until('this value changed to "Find the light.": press the same key again')
        await wait_until_idle(screen)
        assert get_data(screen)["conversation"][0]["user_content"]["parts"][0]["text"] == "Find the light."
        await screen.press("enter")
        await wait_until_idle(screen)
        assert get_data(screen)["conversation"][0]["user_content"]["parts"][0]["text"] == "typed"


async def test_a_draft_of_an_addition_is_continued_at_its_marked_row(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await open_case(screen)
        await select_row(screen, "call")
        await screen.press("plus", "enter")
        await screen.until("name of the new argument")
        await screen.press(*"colour", "enter")
        await screen.until("+ colour")
        await screen.press(*"red", "escape")
        await screen.until("~")
        await screen.press("enter")
        await screen.until("continue colour: red", "edit call")
        await screen.press("enter")
        await screen.until("+ colour")
        await screen.press("enter")
        await screen.until('"red"')
        await wait_until_idle(screen)

        assert get_data(screen)["conversation"][0]["intermediate_data"]["tool_uses"][0]["args"]["colour"] == "red"


async def test_typed_text_moves_with_its_turn(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await open_case(screen)
        await select_row(screen, "user", number=1)
        await screen.press("enter", "x", "escape")
        await select_row(screen, "turn 2")
        await screen.press("K")
        await wait_until_idle(screen)
        await select_row(screen, "user")
        await screen.press("enter", "enter")
        await wait_until_idle(screen)

        texts = [turn["user_content"]["parts"][0]["text"] for turn in get_data(screen)["conversation"]]
        assert texts == ["Thanks.x", "Find the lamp."]


async def test_text_typed_for_a_deleted_turn_stays_with_a_message(open_app: Any, project: Path) -> None:
    path = project / "home.evalset.json"
    async with open_app(project) as screen:
        await open_case(screen)
        await select_row(screen, "user", number=1)
        await screen.press("enter", "x")
        data = json.loads(path.read_text())
        del data["eval_cases"][0]["conversation"][1]
        path.write_text(json.dumps(data))
        await screen.until("changed meanwhile")
        await screen.press("enter")

        await screen.until("no longer in the case", "Thanks.x")


async def test_text_typed_in_a_case_that_another_program_deletes_is_kept_with_a_message(
    open_app: Any, project: Path
) -> None:
    path = project / "home.evalset.json"
    before = path.read_bytes()
    async with open_app(project) as screen:
        await open_case(screen)
        await select_row(screen, "user")
        await screen.press("enter", "x")
        data = json.loads(before)
        del data["eval_cases"][0]
        path.write_text(json.dumps(data))
        await screen.until("1 case ", "lamp is no longer in home.evalset.json")
        await screen.press("D", "d", "enter", "u")  # as text, not as commands on the case that is selected now
        await screen.until("Find the lamp.xDdu", "NOT RUN · lamp", "escape keeps your text as a draft")
        assert json.loads(path.read_text()) == data and "unsaved" not in screen.text
        await screen.press("escape")
        await screen.until("lamp is no longer in home.evalset.json; the text that you typed in it is kept", "Get tea.")

        path.write_bytes(before)
        await screen.until("2 cases")
        await open_case(screen)
        await screen.until("1 typed, not applied")


async def test_a_text_stays_in_its_field_while_its_set_is_away(open_app: Any, project: Path) -> None:
    path = project / "home.evalset.json"
    before = path.read_bytes()
    async with open_app(project) as screen:
        await open_case(screen)
        await select_row(screen, "user")
        await screen.press("enter", "x")
        path.unlink()
        screen.app.screen.action_reload()
        await screen.until("lamp is no longer in home.evalset.json")
        await screen.press("r")
        path.write_bytes(before)
        screen.app.screen.action_reload()
        await screen.until("2 cases")
        await screen.until_gone("no longer in")
        await screen.press("R", "enter")
        await wait_until_idle(screen)

        assert get_data(screen)["conversation"][0]["user_content"]["parts"][0]["text"] == "Find the lamp.xrR"


async def test_quitting_asks_what_to_do_with_typed_text(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await open_case(screen)
        await select_row(screen, "user")
        await screen.press("enter", "x", "escape")
        await screen.press("q")
        await screen.until("Typed and not applied: lamp: user")
        await screen.press("enter")
        await screen.until_gone("Typed and not applied")
        assert screen.app.is_running

        await screen.press("q")
        await screen.until("quit and discard it")
        await screen.press("down", "down", "enter")
        await screen.pilot.pause(0.3)
        assert not screen.app.is_running
    assert list(project.glob(".workbench/recovery/*")) == []  # a quick user quits before the text is stored


async def test_typed_text_can_be_stored_for_the_next_start(
    open_app: Any, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workbench.tui.panes.case_pane._KEEP", 60.0)  # the user quits before the next check
    async with open_app(project) as screen:
        await open_case(screen)
        await select_row(screen, "user")
        await screen.press("enter", *"soon", "escape", "q")
        await screen.until("keep it for the next start")
        await screen.press("down", "enter")
        for _ in range(500):
            if not screen.app.is_running:
                break
            await screen.pilot.pause(0.02)
        assert not screen.app.is_running
    (typed_file,) = (project / ".workbench" / "recovery").iterdir()
    content = json.loads(typed_file.read_text())
    typed_file.write_text(json.dumps({**content, "session": "of a process that is no more"}))

    async with open_app(project) as screen:
        await screen.until("typed in an earlier session", "lamp")
        await open_case(screen)
        await screen.until("1 typed, not applied")
        await select_row(screen, "user")
        await screen.press("enter", "enter")
        await screen.until_gone("1 typed, not applied")
        await screen.press("ctrl+s")
        await screen.until("saved")
        await screen.pilot.pause(0.5)

    assert "soon" in read_cases(project)[0]["conversation"][0]["user_content"]["parts"][0]["text"]
    assert list((project / ".workbench" / "recovery").iterdir()) == []


async def test_typed_text_of_a_case_that_is_gone_can_be_discarded(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await open_case(screen)
        await select_row(screen, "user")
        await screen.press("enter", *"soon", "escape", "q")
        await screen.until("keep it for the next start")
        await screen.press("down", "enter")
        await screen.pilot.pause(0.5)
    (typed_file,) = (project / ".workbench" / "recovery").iterdir()
    typed = typed_file.read_text().replace("lamp", "gone")
    typed_file.write_text(json.dumps({**json.loads(typed), "session": "of a process that is no more"}))

    async with open_app(project) as screen:
        await screen.until("gone: user; the case is gone, q offers to discard the text")


async def test_one_key_applies_and_saves_typed_text(open_app: Any, project: Path) -> None:
    async with open_app(project) as screen:
        await open_case(screen, "tea")
        await select_row(screen, "plan")
        await screen.press("enter")
        await type_text(screen, "Get much tea.")
        await screen.press("ctrl+s")
        await screen.until("saved")

    assert read_cases(project)[1]["conversation_scenario"]["conversation_plan"] == "Get much tea."


async def test_a_text_with_control_characters_is_typed_as_json(
    open_app: Any, make_project: Callable[..., Path]
) -> None:
    nasty = "a\x1b[31mred [/b] \u202eתורה 你好 \u0301"
    project = make_project(home=[{"eval_id": "nasty", "conversation": [turn(nasty, "x" * 1_000_000)]}])
    async with open_app(project, size=(80, 24)) as screen:
        await open_case(screen, "nasty")
        await screen.until("more characters")
        assert "\x1b" not in screen.text
        await select_row(screen, "user")
        await screen.press("enter")
        await screen.until("JSON", "\\u001b[31mred")
        await screen.press("enter")
        await wait_until_idle(screen)
        assert get_data(screen)["conversation"][0]["user_content"]["parts"][0]["text"] == nasty

        await select_row(screen, "response")
        await screen.press("enter")
        await screen.until("20,000")


async def test_typed_text_is_visible_on_the_lowest_screen(open_app: Any, project: Path) -> None:
    async with open_app(project, size=(40, 10)) as screen:
        await screen.until("lamp")
        await screen.press("j", "j", "1")
        await screen.until("eval id")
        await screen.press("j", "j", "enter")
        await screen.until("⏎ apply", "Find the lamp.")


async def test_a_waiting_edit_is_not_applied_to_another_selection(
    open_app: Any, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    edit_began, may_continue, edit = asyncio.Event(), asyncio.Event(), Backend.edit

    async def delay_edit(backend: Backend, work: Any) -> Any:
        edit_began.set()
        await may_continue.wait()
        return await edit(backend, work)

    monkeypatch.setattr(Backend, "edit", delay_edit)
    async with open_app(project) as screen:
        await open_case(screen)
        await select_row(screen, "app name")
        await screen.press("D", "D")
        await edit_began.wait()
        await open_case(screen, "tea")
        await screen.until("Tea?")
        may_continue.set()
        await screen.until("another case was selected meanwhile")
        await screen.press("ctrl+s")
        await screen.until("saved")

    lamp, tea = read_cases(project)
    assert lamp["session_input"] == {"user_id": "u", "state": {}} and tea == TEA


def test_applied_text_survives_a_kill_of_the_process(project: Path) -> None:
    repository = Path(__file__).parents[4]

    process = subprocess.run([sys.executable, "-c", KILLED, str(project)], cwd=repository, check=False, timeout=60)

    assert process.returncode == -9
    recovery_texts = [file.read_text() for file in (project / ".workbench" / "recovery").iterdir()]
    assert any("precious" in text for text in recovery_texts)
