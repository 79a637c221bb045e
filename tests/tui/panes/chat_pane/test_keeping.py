"""Saving a chat as a case, by keys, with real agents in real processes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.tui.panes.chat_pane.talking import open_chat, read_cases, say
from workbench.tui.screen_context import ProjectChanged


async def test_a_chat_can_be_saved_to_the_selected_set_and_passes_a_run(project: Path, open_app: Any) -> None:
    async with open_app(project) as screen:
        await open_chat(screen)
        await say(screen, "hello")
        await screen.until("hello makes 1")

        await screen.press("ctrl+o")
        await screen.until("in lights.evalset.json", "replacing the case one", "in a new eval set")
        await screen.press("enter")
        await screen.until("Id of the case")
        await screen.press("ctrl+u", *"one")
        await screen.until("already has a case with this id")
        await screen.press("_", "2", "enter")
        await screen.until("expect the final state")
        await screen.press("j", "enter")
        await screen.until("saved as lights.evalset.json:one_2")

        saved_case = read_cases(project / "lights.evalset.json")[1]
        assert saved_case["eval_id"] == "one_2" and saved_case["final_session_state"] == {"count": 1}
        assert saved_case["conversation"][0]["intermediate_data"]["tool_uses"] == [{"name": "add", "args": {"to": 1}}]
        changed = next(message for message in screen.messages if isinstance(message, ProjectChanged))
        assert str(changed.select) == "lights.evalset.json:one_2"
        await screen.until("NOT RUN · one_2")
        await screen.press("escape", "r")
        await screen.until("✓1")


async def test_a_chat_can_be_saved_from_the_selected_turn_to_a_new_set(project: Path, open_app: Any) -> None:
    async with open_app(project) as screen:
        await open_chat(screen)
        for number, word in enumerate(["alpha", "beta", "gamma"], start=1):
            await say(screen, word)
            await screen.until(f"{word} makes {number}")
        await screen.press("alt+up", "alt+up", "alt+up", "alt+down")

        await screen.press("ctrl+o")
        await screen.until("all 3 turns", "from turn 2 on")
        await screen.press("enter")
        await screen.until("in a new eval set")
        await screen.press("end", "enter")
        await screen.until("File of the new eval set")
        await screen.press("enter")
        await screen.until("Id of the case")
        await screen.press("enter")
        await screen.until("expect the final state")
        await screen.press("enter")
        await screen.until("saved as chats.evalset.json:chat_1")

        saved_case = read_cases(project / "chats.evalset.json")[0]
        assert [turn["user_content"]["parts"][0]["text"] for turn in saved_case["conversation"]] == ["beta", "gamma"]
        assert saved_case["session_input"]["state"] == {"count": 1} and "final_session_state" not in saved_case
        assert any(isinstance(message, ProjectChanged) for message in screen.messages)
        await screen.until("chats")


async def test_a_name_of_a_new_set_that_no_agent_lists_gets_a_warning(project: Path, open_app: Any) -> None:
    settings = project / "workbench.toml"
    patterns = '["lights.evalset.json", "kept_*.evalset.json"]'
    settings.write_text(settings.read_text().replace('["*.evalset.json"]', patterns))
    async with open_app(project) as screen:
        await open_chat(screen)
        await say(screen, "hello")
        await screen.until("hello makes 1")
        await screen.press("ctrl+o")
        await screen.until("in a new eval set")
        await screen.press("end", "enter")
        await screen.until("kept_chats.evalset.json")

        await screen.press("home", "x")
        await screen.until("it will belong to no agent", "workbench.toml does not list it")
        await screen.press("backspace")
        await screen.until_gone("it will belong")
        await screen.press("enter")
        await screen.until("Id of the case")
        await screen.press("enter")
        await screen.until("expect the final state")
        await screen.press("enter")

        await screen.until("saved as kept_chats.evalset.json:chat_1")
        await screen.until_gone("There is no agent")


async def test_replacing_a_case_asks_first_and_cancelling_writes_nothing(project: Path, open_app: Any) -> None:
    before = (project / "lights.evalset.json").read_text()
    async with open_app(project) as screen:
        await open_chat(screen)
        await say(screen, "hello")
        await screen.until("hello makes 1")

        await screen.press("ctrl+o")
        await screen.until("replacing the case one")
        await screen.press("j", "enter")
        await screen.until("Replace the case one?")
        await screen.press("n")
        await screen.press("ctrl+o")
        await screen.until("replacing the case one")
        await screen.press("escape")
        assert (project / "lights.evalset.json").read_text() == before
        await screen.press("ctrl+o")
        await screen.until("replacing the case one")
        await screen.press("j", "enter", "y")
        await screen.until("expect the final state")
        await screen.press("enter")
        await screen.until("saved as lights.evalset.json:one")

    saved_case = read_cases(project / "lights.evalset.json")
    assert [item["eval_id"] for item in saved_case] == ["one"] and "hello" in json.dumps(saved_case)
