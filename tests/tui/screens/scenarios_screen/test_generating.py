"""Generated scenarios on the screen: request, stop, review, edit, save, undo."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from tests.engine.judged import serve_judge
from tests.llm.servers import Call, HttpResponse, Server, gemini
from workbench.tui.app import WorkbenchApp

AGENT = '''
"""Lamps of a house."""
def switch(lamp: int):
    """Switch a lamp."""
def answer(prompt):
    """Answers about lamps."""
    return prompt
'''
CASE = {
    "eval_id": "lamp",
    "conversation_scenario": {"starting_prompt": "Lamp 0!", "conversation_plan": "You want lamp 0 on."},
}


def reply_with_scenarios(*numbers: int) -> HttpResponse:
    drafts = [
        {"starting_prompt": f"Lamp {n} [b]!", "conversation_plan": f"You want lamp {n} on.", "user_persona": "NOVICE"}
        for n in numbers
    ]
    return gemini(json.dumps({"scenarios": drafts}))


def read_cases(path: Path) -> list[dict[str, Any]]:
    cases: list[dict[str, Any]] = json.loads(path.read_text())["eval_cases"]
    return cases


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with serve_judge(monkeypatch, lambda _: reply_with_scenarios(1, 2, 3)) as model_server:
        yield model_server


@pytest.fixture
def project(make_project: Any) -> Path:
    path: Path = make_project(agent=AGENT, lights=[CASE])
    (path / "workbench.toml").write_text((path / "workbench.toml").read_text() + "[judge]\ntries = 1\n")
    return path


async def request_scenarios(screen: Any, *, row: int = 1, topic: str = "lamps") -> None:
    """Request three scenarios for the row this far down: 0 is the agent, 1 its set."""
    await screen.until("lights", "lamp")
    await screen.press("g", *["j"] * row, "alt+g")
    await screen.until("How many scenarios")
    await screen.press("backspace", "3", "enter")
    await screen.until("Topic of the scenarios")
    await screen.press(*topic, "enter")


async def test_reviewed_scenarios_are_added_as_one_undo_step(project: Path, open_app: Any, server: Server) -> None:
    file = project / "lights.evalset.json"
    async with open_app(project) as screen:
        await request_scenarios(screen)
        await screen.until("3 of 3 scenarios kept", "Lamp 1 [b]!", "You want lamp 1 on.", "NOVICE")
        assert len(read_cases(file)) == 1
        await screen.press("j", "x")
        await screen.until("2 of 3 scenarios kept", "- leave out")

        await screen.press("ctrl+s")
        await screen.until("added 2 scenarios")

        starts = [case["conversation_scenario"]["starting_prompt"] for case in read_cases(file)]
        assert starts == ["Lamp 0!", "Lamp 1 [b]!", "Lamp 3 [b]!"]
        assert read_cases(file)[1]["session_input"] == {"app_name": "pinger", "user_id": "test_user_id", "state": {}}
        await screen.press("u")
        await screen.until("undone: add 2 scenarios")
        assert read_cases(file) == [CASE]
    prompt = server.calls[0].body["contents"][0]["parts"][0]["text"]
    for part in ("Answers about lamps.", "Switch a lamp.", "Lamp 0!", "<wishes>\nlamps"):
        assert part in prompt


async def test_nothing_is_saved_if_the_user_declines(project: Path, open_app: Any, server: Server) -> None:
    before = (project / "lights.evalset.json").read_bytes()
    async with open_app(project) as screen:
        await request_scenarios(screen)
        await screen.until("3 of 3 scenarios kept")

        await screen.press("A", "s")
        await screen.until("no scenario is kept")
        await screen.press("escape")
        await screen.until("Discard 3 scenarios?")
        await screen.press("n")
        await screen.until("0 of 3 scenarios kept")
        await screen.press("escape", "y")

        await screen.until_gone("scenarios kept")
    assert (project / "lights.evalset.json").read_bytes() == before


async def test_a_slow_model_can_be_stopped(project: Path, open_app: Any, server: Server) -> None:
    may_answer = threading.Event()

    def think(_: Call) -> HttpResponse:
        may_answer.wait(20)
        return reply_with_scenarios(1)

    server.answer = think
    try:
        async with open_app(project) as screen:
            await request_scenarios(screen)
            await screen.until("gemini-2.5-flash is writing")
            await screen.press("escape", "x")

            await screen.until_gone("Scenarios for pinger")
            assert "scenarios kept" not in screen.text
    finally:
        may_answer.set()


async def test_a_failed_generation_is_reported(project: Path, open_app: Any, server: Server) -> None:
    server.answer = lambda _: gemini("Lamps? Lovely.")
    async with open_app(project) as screen:
        await request_scenarios(screen)

        await screen.until("wrote no new scenario", "Lovely")


async def test_a_new_set_for_an_agent_is_created_when_scenarios_are_saved(
    project: Path, open_app: Any, server: Server
) -> None:
    async with open_app(project) as screen:
        await request_scenarios(screen, row=0)
        await screen.until("for a new eval set")
        await screen.press("s")
        await screen.until("File of the new eval set")
        await screen.press("escape")
        await screen.until("3 of 3 scenarios kept")
        assert [path.name for path in project.glob("*.evalset.json")] == ["lights.evalset.json"]
        await screen.press("s")
        await screen.until("File of the new eval set")
        await screen.press("ctrl+u", *"lamps.evalset.json", "enter")

        await screen.until("added 3 scenarios to lamps.evalset.json")
    assert len(read_cases(project / "lamps.evalset.json")) == 3


async def test_a_scenario_can_be_edited_before_it_is_saved(
    project: Path, open_app: Any, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    editor = project / "editor.sh"
    editor.write_text("#!/bin/sh\nsed -i 's/You want lamp 1 on/You want lamp 1 off/' \"$1\"\n")
    editor.chmod(0o700)
    monkeypatch.setenv("VISUAL", str(editor))
    monkeypatch.setattr(WorkbenchApp, "suspend", lambda _: nullcontext())  # the test has no terminal to hand over
    async with open_app(project) as screen:
        await request_scenarios(screen)
        await screen.until("3 of 3 scenarios kept")

        await screen.press("e")
        await screen.until("You want lamp 1 off")
        await screen.press("s")
        await screen.until("added 3 scenarios")

    assert "off" in read_cases(project / "lights.evalset.json")[1]["conversation_scenario"]["conversation_plan"]
