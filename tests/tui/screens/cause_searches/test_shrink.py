"""The search for the smallest failing case on the screen, with a real agent."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from workbench.engine.plan import RunOptions, Selection
from workbench.engine.workspace import Workspace

Open = Callable[..., Any]

AGENT = """
import time
from pathlib import Path

def answer(prompt, session):
    while Path(__file__).with_name("wait.txt").exists():
        time.sleep(0.02)
    if "crash" in prompt:
        raise ValueError("kaboom [/b]")
    if "away" in prompt:
        session.state["away"] = True
    is_wrong = session.state.get("away") and not Path(__file__).with_name("mended.txt").exists()
    calls = [{"tool_name": "light", "tool_input": {"room": "attic" if is_wrong else "hall"}}]
    is_wrong = is_wrong and "light" in prompt
    return {"response": "no" if is_wrong else "ok", "predicted_trajectory": calls if "light" in prompt else []}
"""


@pytest.fixture
def project(make_project: Open, make: Any) -> Path:
    """Create a project in which `day` FAILED, `good` passed, `bad` is an ERROR, and `new` never ran."""
    call = ("light", {"room": "hall"})
    day = [make.turn(f"Remark {number}.", "ok") for number in range(1, 7)]
    day[1] = make.turn("Hello 灯 [/b]. We are away.", "ok")
    day[4] = make.turn("Switch on the light.", "ok", call)
    cases = {"day": day, "good": [make.turn("light", "ok", call)], "bad": [make.turn("crash", "ok")], "new": day[:1]}
    path = make_project(
        agent=AGENT,
        criteria={"tool_trajectory_avg_score": 1.0, "response_match_score": 1.0},
        lights=[{"eval_id": name, "conversation": turns} for name, turns in cases.items()],
    )
    start_without_plans(path)
    with Workspace.open(path) as workspace:
        selection = Selection(eval_set="lights.evalset.json", cases=("day", "good", "bad"))
        run = workspace.start(workspace.plan([selection], RunOptions()))
        for _ in run.iter_events():
            pass
    return path


def start_without_plans(project: Path) -> None:
    settings = project / "workbench.toml"
    settings.write_text(settings.read_text() + '[run]\nconfirm = "never"\n')


async def test_the_plan_with_its_cost_comes_before_the_search(project: Path, open_app: Open) -> None:
    settings = project / "workbench.toml"
    settings.write_text(settings.read_text().replace('confirm = "never"', 'confirm = "costly"'))
    async with open_app(project) as screen:
        await screen.until("day", "bad")
        await screen.press("j", "j", "alt+h")
        await screen.until("shrink: day?", "executions at most", "100", "⏎ search")

        await screen.press("n")
        await screen.until_gone("executions at most")
        assert "executions of" not in screen.text

        await screen.press("alt+h")
        await screen.until("shrink: day?")
        await screen.press("h", "enter")
        await screen.until("smallest case", " of 60 executions")


def read_cases(path: Path) -> dict[str, list[str]]:
    """Return the messages of the user, by case."""
    data = json.loads((path / "lights.evalset.json").read_text())
    return {
        case["eval_id"]: [turn["user_content"]["parts"][0]["text"] for turn in case["conversation"]]
        for case in data["eval_cases"]
    }


async def test_the_smallest_case_is_found_looked_at_and_kept(project: Path, open_app: Open) -> None:
    async with open_app(project) as screen:
        await screen.until("1/4")
        await screen.press("j", "j", "alt+h")
        await screen.until(
            'must still fail (1 of 2 differences): response_match_score: response changed, expected "ok"'
        )
        await screen.until('tool_trajectory_avg_score: argument changed light room, expected "hall"')
        await screen.until("smallest case: 6 → 2 turns, 7 → 2 sentences", "turns           6 → 2  (2, 5)")
        await screen.until("without turn 6", "not kept yet", '-   room  "hall"', '+   room  "attic"')

        await screen.press("G")
        await screen.until("execution ", "turn 1 · user")
        await screen.press("enter")
        await screen.until("EXPECTED", "ACTUAL", "esc back")
        await screen.press("escape")
        await screen.until("what does its failure need?")

        await screen.press("s")
        await screen.until("Id of the smaller case in lights.evalset.json", "day-small")
        await screen.press("end", *"-改", "enter")
        await screen.until("kept as day-small-改")
        assert read_cases(project)["day-small-改"] == ["We are away.", "Switch on the light."]
        assert list(read_cases(project))[:2] == ["day", "day-small-改"]

        await screen.press("escape")
        await screen.until("day-small-改")
        await screen.press("u")
        await screen.until("undone: keep day-small-改")
        assert list(read_cases(project)) == ["day", "good", "bad", "new"]
        await screen.press("g", "j", "j", "alt+h")
        await screen.until("what does its failure need?", "not kept yet")
        await screen.press("c", "3")
        await screen.until("The smaller case of day is not kept. Discard it and begin again?")
        await screen.press("y")
        await screen.until("must still fail: tool_trajectory_avg_score: argument changed light room", "not kept yet")
        await screen.press("q")
        await screen.until("The smaller case of day is not kept. Quit without it?")


async def test_each_case_without_a_failure_has_its_reason(project: Path, open_app: Open) -> None:
    async with open_app(project) as screen:
        await screen.until("1/4")
        await screen.press("j", "j", "j", "alt+h")
        await screen.until("good passed, so there is no failure to shrink")
        await screen.press("j", "alt+h")
        await screen.until("bad ended in ERROR, which is not a failure to shrink")
        await screen.press("j", "alt+h")
        await screen.until("new has not run yet: r runs it")

        (project / "mended.txt").touch()
        await screen.press("k", "k", "k", "alt+h")
        await screen.until("lights.evalset.json:day did not fail now, so there is nothing to shrink", "no failure")
        (project / "agent.py").write_text("def answer(prompt): raise ValueError('kaboom [/b]')")
        await screen.press("r")
        await screen.until("ended in ERROR, which is not a failure to shrink: ", "kaboom [/b]")
        await screen.press("escape")
        await screen.until("Case")


async def test_a_search_continues_while_its_screen_is_closed_and_can_be_stopped(project: Path, open_app: Open) -> None:
    (project / "wait.txt").touch()
    async with open_app(project) as screen:
        await screen.until("1/4")
        await screen.press("j", "j", "t")
        await screen.until("tool_trajectory_avg_score")
        await screen.press("alt+h")
        await screen.until("trying the case itself …")
        await screen.press("escape")
        await screen.until("day is still being shrunk; alt+h on the case shows it")
        await screen.press("q")
        await screen.until("day is still being shrunk. Stop that and quit?")
        await screen.press("n", "j", "alt+h")
        await screen.until("day is still being shrunk; x stops that search", "trying the case itself …")

        await screen.press("x")
        await screen.until("The search was stopped before its first execution ended.", "r continue")
        await screen.press("b", "ctrl+u", *"0", "enter")
        await screen.until("expected a number from 1 to 100,000")
        await screen.press("backspace", "2", "enter")
        (project / "wait.txt").unlink()
        await screen.press("r")
        await screen.until("2 of 2 executions", "not tried to the end (the budget was used up): turns")
        await screen.press("b", "ctrl+u", *"60", "enter")
        await screen.until("of 60 executions", "6 → 2 turns")
        await screen.press("escape")
        await screen.until("the smaller case of day is not kept yet; alt+h on the case shows it")


async def test_what_influences_a_search_is_said(project: Path, open_app: Open) -> None:
    async with open_app(project) as screen:
        await screen.until("1/4")
        await screen.press("w")
        await screen.until("watching")
        await screen.app._backend.edit(
            lambda workspace: workspace.documents.edit(
                "lights.evalset.json",
                lambda document: document.set_value(
                    ("conversation", 5, "user_content", "parts", 0, "text"), "Unsaved.", case=0
                ),
                label="x",
            )
        )
        await screen.press("j", "j", "f5")
        await screen.until("● ")
        await screen.press("alt+h")
        await screen.until("watch is on: code that you save counts from the next execution on", "unsaved edits")
        await screen.until("smallest case: 6 → 2 turns")
    assert "Unsaved." not in (project / "lights.evalset.json").read_text()


async def test_the_result_of_a_renamed_or_edited_case_is_not_lost(project: Path, open_app: Open) -> None:
    async with open_app(project) as screen:
        await screen.until("1/4")
        await screen.press("j", "j", "alt+h")
        await screen.until("not kept yet")
        await screen.app._backend.edit(
            lambda workspace: workspace.documents.edit(
                "lights.evalset.json", lambda document: document.set_value(("conversation", 5), {}, case=0), label="x"
            )
        )
        await screen.press("escape", "alt+h")
        await screen.until("the case was edited after the search began", "not kept yet", "r again")

        await screen.press("escape", "u", "i", "ctrl+u", *"moved", "enter")
        await screen.until("✗ moved")
        await screen.press("alt+h")
        await screen.until("The smaller case of day is not kept. Discard it and begin with another case? n shows it")
        await screen.press("n")
        await screen.until("the case was renamed or deleted after the search began", "not kept yet")
        await screen.press("escape")
        await screen.until("the smaller case of day is not kept yet; alt+h on any case shows it")
        await screen.press("j", "alt+h")
        await screen.until("the case was renamed or deleted after the search began", "smallest case: 6 → 2 turns")
        (project / "lights.evalset.json").write_text("{broken")
        await screen.press("s", "enter")
        await screen.until("Nothing is written before you choose", "m keep mine")
        await screen.press("escape")
        await screen.until("not saved yet: day-small")
        await screen.press("escape", "ctrl+s")
        await screen.until("Nothing is written before you choose", "m keep mine")
        await screen.press("m")
        await screen.until_gone("unsaved")
    assert list(read_cases(project)) == ["moved", "good", "bad", "new", "day-small"]
