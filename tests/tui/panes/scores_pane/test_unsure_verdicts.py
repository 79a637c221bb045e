"""Judge output on the screen: samples, their agreement, and the prompts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest

from tests.llm.servers import Call, HttpResponse, Server, gemini, run_server

Open = Callable[..., Any]
GRADES = {
    "criteria": {"Tone": "How friendly is it?"},
    "rating_rubric": {"1": "not at all", "3": "somewhat", "5": "very"},
    "system_instruction": "You are strict.",
}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """Start a judge that rates 3, then 5, and so on."""
    numbers = count()

    def answer(_: Call) -> HttpResponse:
        rating = (3, 5)[next(numbers) % 2]
        return gemini(json.dumps({"explanation": f"because it is {rating} [/b]", "score": rating}))

    with run_server(answer) as judge_server:
        monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", judge_server.url)
        monkeypatch.setenv("GOOGLE_API_KEY", "key")
        yield judge_server


@pytest.fixture
def judged_project(make_history_project: Open, server: Server) -> Any:
    """Create a project whose case has rating 4, from samples that disagree on whether it passes."""
    project = make_history_project("on")
    criteria = {"tone": {"threshold": 3.5, "judge_model_options": {"num_samples": 4}}}
    (project.path / "test_config.json").write_text(
        json.dumps({"criteria": criteria, "judge_metrics": {"tone": GRADES}})
    )
    project.run()
    return project


async def test_grades_are_shown_with_their_spread_and_marked_unsure(judged_project: Any, open_app: Open) -> None:
    async with open_app(judged_project.path, size=(140, 110)) as screen:
        await screen.until("1/1")
        await screen.press("j", "j", "4")

        text = await screen.until("~ unsure", "2 of 4 samples agree, ±1.2", "because it is 5 [/b]")

        assert "4.00 ≥ 3.50" in text
        await screen.until("system instruction", "You are strict.", "Step 1: Assess")


async def test_a_case_is_judged_again_without_its_agent_and_agreement_is_shown(
    judged_project: Any, server: Server, open_app: Open
) -> None:
    (judged_project.path / "agent.py").write_text("raise SystemExit('the agent must not run')")
    call_count = len(server.calls)

    async with open_app(judged_project.path, size=(140, 50)) as screen:
        await screen.until("1/1")
        await screen.press("j", "j", "4")
        await screen.until("samples agree")
        await screen.press("J")
        await screen.until("Judge this case again? About 4 judge calls")
        await screen.press("y")
        await screen.until("judged again", "tone: 100% of the verdicts agree")

    assert len(server.calls) == call_count + 4


async def test_the_question_about_judging_again_fits_in_a_small_terminal(judged_project: Any, open_app: Open) -> None:
    async with open_app(judged_project.path, size=(80, 24)) as screen:
        await screen.until("1/1")
        await screen.press("j", "j", "4")
        await screen.until("samples agree")
        await screen.press("J")
        await screen.until("Judge this case again?", "does not run.")
        assert "the agent does not run." in " ".join(screen.text.replace("│", " ").split())


async def test_a_different_judgement_replaces_the_earlier_one(
    judged_project: Any, server: Server, open_app: Open
) -> None:
    server.answer = lambda _: gemini('{"explanation": "on reflection, no", "score": 1}')

    async with open_app(judged_project.path, size=(140, 50)) as screen:
        await screen.until("1/1")
        await screen.press("j", "j", "4")
        await screen.until("samples agree")
        await screen.press("J")
        await screen.until("Judge this case again?")
        await screen.press("y")
        await screen.until("0% of the verdicts agree (PASSED, then FAILED)")
        screen.app.clear_notifications()  # the message covers a score
        await screen.until("on reflection, no", "1.00 < 3.50")


async def test_without_a_judge_there_is_nothing_to_judge_again(make_history_project: Open, open_app: Open) -> None:
    project = make_history_project("on")
    project.run()

    async with open_app(project.path, size=(140, 50)) as screen:
        await screen.until("1/1")
        await screen.press("j", "j", "4")
        await screen.until("needs at least 1.00")
        await screen.press("J")
        await screen.until("nothing to judge again")
