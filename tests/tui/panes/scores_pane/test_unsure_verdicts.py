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

    with run_server(answer) as started:
        monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", started.url)
        monkeypatch.setenv("GOOGLE_API_KEY", "key")
        yield started


@pytest.fixture
def judged(make_ran: Open, server: Server) -> Any:
    """Create a project whose case has rating 4, from samples that disagree on whether it passes."""
    project = make_ran("on")
    criteria = {"tone": {"threshold": 3.5, "judge_model_options": {"num_samples": 4}}}
    (project.path / "test_config.json").write_text(
        json.dumps({"criteria": criteria, "judge_metrics": {"tone": GRADES}})
    )
    project.run()
    return project


async def test_grades_are_shown_with_their_spread_and_marked_unsure(judged: Any, open_app: Open) -> None:
    async with open_app(judged.path, size=(140, 110)) as screen:
        await screen.until("1/1")
        await screen.press("j", "j", "4")

        text = await screen.until("~ unsure", "2 of 4 samples agree, ±1.2", "because it is 5 [/b]")

        assert "4 / 3.5" in text
        await screen.until("system instruction", "You are strict.", "Step 1: Assess")


async def test_a_case_is_judged_again_without_its_agent_and_the_agreement_is_told(
    judged: Any, server: Server, open_app: Open
) -> None:
    (judged.path / "agent.py").write_text("raise SystemExit('the agent must not run')")
    asked = len(server.calls)

    async with open_app(judged.path, size=(140, 50)) as screen:
        await screen.until("1/1")
        await screen.press("j", "j", "4")
        await screen.until("samples agree")
        await screen.press("J")
        await screen.until("Judge this case again? About 4 calls of judges")
        await screen.press("y")
        await screen.until("judged again", "tone: 100% of the verdicts agree")

    assert len(server.calls) == asked + 4


async def test_the_question_whether_to_judge_again_is_whole_in_a_small_terminal(judged: Any, open_app: Open) -> None:
    async with open_app(judged.path, size=(80, 24)) as screen:
        await screen.until("1/1")
        await screen.press("j", "j", "4")
        await screen.until("samples agree")
        await screen.press("J")
        text = await screen.until("Judge this case again?")
        assert "the agent does not" in text and "│  run. " in text


async def test_a_judgement_that_differs_is_shown_in_place_of_the_one_before(
    judged: Any, server: Server, open_app: Open
) -> None:
    server.answer = lambda _: gemini('{"explanation": "on reflection, no", "score": 1}')

    async with open_app(judged.path, size=(140, 50)) as screen:
        await screen.until("1/1")
        await screen.press("j", "j", "4")
        await screen.until("samples agree")
        await screen.press("J")
        await screen.until("Judge this case again?")
        await screen.press("y")
        await screen.until("0% of the verdicts agree (PASSED, then FAILED)", "on reflection, no", "1 / 3.5")


async def test_without_a_judge_there_is_nothing_to_judge_again(make_ran: Open, open_app: Open) -> None:
    project = make_ran("on")
    project.run()

    async with open_app(project.path, size=(140, 50)) as screen:
        await screen.until("1/1")
        await screen.press("j", "j", "4")
        await screen.until("needs at least 1")
        await screen.press("J")
        await screen.until("nothing to judge again")
