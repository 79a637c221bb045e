"""The search in an instruction on the screen, with a real agent that reads its prompt from a file."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Open = Callable[..., Any]

AGENT = """
import time
from pathlib import Path

def answer(prompt):
    folder = Path(__file__).parent
    text = (folder / "prompt.md").read_text(encoding="utf-8")
    while (folder / "wait").exists():
        time.sleep(0.02)
    calls = [{"tool_name": "light", "tool_input": {"room": "hall"}}] if "Use the tool" in text else []
    return {"response": "ok ok" if "Be 友好" in text else "ok", "predicted_trajectory": calls}
"""
PROMPT = "You switch lights.\nBe 友好 [/b].\n\nUse the tool.\n"


@pytest.fixture
def project(make_project: Open, make: Any) -> Path:
    cases = [
        {"eval_id": "day", "conversation": [make.turn("Light!", "ok ok", ("light", {"room": "hall"}))]},
        {"eval_id": "played", "conversation_scenario": {"starting_prompt": "hi", "conversation_plan": "say bye"}},
    ]
    criteria = {"tool_trajectory_avg_score": 1.0, "response_match_score": 0.5}
    path: Path = make_project(agent=AGENT, criteria=criteria, lights=cases)
    (path / "prompt.md").write_text(PROMPT, encoding="utf-8")
    settings = path / "workbench.toml"
    settings.write_text(settings.read_text() + '[run]\nconfirm = "never"\n')
    return path


async def test_the_parts_that_matter_are_found_and_looked_at(
    project: Path, open_app: Open, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path_factory.mktemp("t")
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    files = {path: path.read_bytes() for path in project.glob("*.*")}
    async with open_app(project) as screen:
        await screen.until("0/2")
        await screen.press("j", "j", "alt+y")
        await screen.until("▸ 2 of 2 paragraphs matter: verdict 1, scores 1", "9 of 60 executions")
        await screen.until("3 of 3 passed with the whole instruction", "prompt.md, file", "Be 友好 [/b].")
        await screen.press("G")
        await screen.until(
            "■ the verdict changes   prompt.md, file, line 4",
            "3 of 3 failed without it",
            "tool_trajectory_avg_score  1.00 → 0.00",
            "- light (not made)",
        )
        await screen.press("enter")
        await screen.until("EXPECTED", "ACTUAL", "esc back")
        await screen.press("escape")

        await screen.press("l")
        await screen.until("which lines of the instruction", "▸ 2 of 3 lines matter", "l paragraphs")
        await screen.press("escape", "j", "alt+y")
        await screen.until("played is a scenario, whose user says something else each time: alt+k saves a talk")
        await screen.press("k", "alt+y")
        await screen.until("▸ 2 of 3 lines matter")
    assert {path: path.read_bytes() for path in project.glob("*.*")} == files
    assert not list(temporary.glob("workbench-*"))


async def test_a_search_is_stopped_and_continues_behind_its_screen(project: Path, open_app: Open) -> None:
    (project / "wait").touch()
    async with open_app(project) as screen:
        await screen.until("0/2")
        await screen.press("j", "j", "alt+y")
        await screen.until("trying the whole instruction …", "▸ the whole instruction: 2 paragraphs")
        await screen.press("escape")
        await screen.until("still left out for day; alt+y on the case shows it")
        await screen.press("q")
        await screen.until("parts of the instruction are still left out for day. Stop that and quit?")
        await screen.press("n", "alt+y")
        await screen.until("trying the whole instruction …")
        for key in "lll":  # all before the search has stopped
            screen.app.simulate_key(key)
            await asyncio.sleep(0.005)
        await screen.until("which lines of the instruction", "trying the whole instruction …")
        await screen.press("l")
        await screen.until("which paragraphs of the instruction", "trying the whole instruction …")
        await screen.press("x")
        await screen.until("not tried (stopped): 2 paragraphs", "r continue")
        await screen.press("b", "ctrl+u", *"3", "enter")
        await screen.until("expected a number from 4 to 100,000")
        await screen.press("backspace", *"5", "enter", "n", "ctrl+u", *"2", "enter")
        await screen.until("trying the whole instruction …")
        (project / "agent.py").write_text(f"{AGENT}# saved\n")
        (project / "wait").unlink()
        await screen.until("not tried (the budget was used up): 1 paragraph", "agent.py changed during the search")
        await screen.app._backend.edit(
            lambda workspace: workspace.documents.edit(
                "lights.evalset.json", lambda document: document.set_value(("tag",), "x", case=0), label="x"
            )
        )
        await screen.press("escape", "f5", "alt+y")
        await screen.until("the case was edited after the search began", "r again")


async def test_an_agent_without_an_instruction_and_a_broken_one_are_explained(project: Path, open_app: Open) -> None:
    (project / "prompt.md").unlink()
    (project / "agent.py").write_text("def answer(prompt): return prompt\n")
    async with open_app(project, size=(40, 10)) as screen:
        await screen.until("○ day")
        await screen.press("j", "j", "alt+y")
        await screen.until(
            "the search found nothing", "pinger: workbench knows no", "instruction that it could leave out"
        )
        (project / "agent.py").write_text("SYSTEM_PROMPT = 'Be nice.'\nraise ValueError('kaboom [/b]')\n")
        await screen.press("r")
        await screen.until("kaboom [/b]")
