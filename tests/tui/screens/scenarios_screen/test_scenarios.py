"""Scenarios on the screen: a key plays them live, a run judges them, and they can become fixed cases."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from tests.llm.servers import Call, HttpResponse, gemini, run_server

Open = Callable[..., Any]
AGENT = """
def answer(prompt):
    calls = [{"tool_name": "roll", "tool_input": {"sides": 20}}] if "roll" in prompt else []
    return {"response": f"did {prompt} [/b]", "predicted_trajectory": calls}
"""
ASKING_AGENT = """
import os, urllib.error, urllib.request

def answer(prompt):
    try:
        urllib.request.urlopen(os.environ["GOOGLE_GEMINI_BASE_URL"] + "/agent", data=b"{}").close()
    except urllib.error.HTTPError:
        raise ValueError("out of dice") from None
    calls = [{"tool_name": "roll", "tool_input": {"sides": 20}}] if "roll" in prompt else []
    return {"response": f"did {prompt}", "predicted_trajectory": calls}
"""
SCENARIO = {
    "eval_id": "talk",
    "conversation_scenario": {
        "starting_prompt": "hello [bold]",
        "conversation_plan": "Have a die rolled.",
        "user_persona": "NOVICE",
    },
}
CRITERIA = {"trajectory_single_tool_use": {"threshold": 0.5, "tool_name": "roll"}}


class User:
    """A scripted user on a server: says one thing when the test allows it, and then stops."""

    def __init__(self) -> None:
        self.may_speak = Event()
        self.request_count = 0
        self.is_gone = False

    def answer(self, call: Call) -> HttpResponse:
        self.may_speak.wait(20)
        if self.is_gone:
            return HttpResponse({"error": {"message": "no such user"}}, status=400)
        if call.path == "/agent":
            return HttpResponse({})
        self.request_count += 1
        prompt = call.body["contents"][0]["parts"][0]["text"]
        return gemini("</finished>" if "did please roll" in prompt else "please roll")


@pytest.fixture
def user(monkeypatch: pytest.MonkeyPatch) -> Iterator[User]:
    scripted_user = User()
    with run_server(scripted_user.answer) as model_server:
        monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", model_server.url)
        monkeypatch.setenv("GOOGLE_API_KEY", "key")
        yield scripted_user
        scripted_user.may_speak.set()


@pytest.fixture
def project(make_project: Callable[..., Path]) -> Path:
    path = make_project(agent=AGENT, lights=[SCENARIO])
    (path / "test_config.json").write_text(json.dumps({"criteria": CRITERIA}))
    settings = path / "workbench.toml"
    settings.write_text(settings.read_text() + '\n[run]\nconfirm = "never"\n')
    return path


async def test_a_scenario_is_played_live_and_judged_by_the_next_run(project: Path, open_app: Open, user: User) -> None:
    async with open_app(project, size=(120, 40)) as screen:
        await screen.until("talk")
        await screen.press("j", "j", "2", "alt+s")

        await screen.until("turn 1 · user  hello [bold]", "did hello [bold] [/b]", "the user is thinking")
        assert "NOVICE" in await screen.until("persona  NOVICE")
        user.may_speak.set()
        text = await screen.until("turn 2 · user  please roll", 'roll {"sides": 20}', "the user has finished")
        assert "gemini-2.5-flash, 2 answers" in text
        await screen.until("NOT EVALUATED", "finished  ")

        await screen.press("r")
        await screen.until("PASSED", "trajectory_single_tool_use")
        assert user.request_count == 2  # the same conversation was judged


async def test_playing_a_scenario_keeps_its_earlier_verdict(project: Path, open_app: Open, user: User) -> None:
    user.may_speak.set()
    async with open_app(project, size=(120, 40)) as screen:
        await screen.until("talk")
        await screen.press("j", "j", "2", "r")
        await screen.until("PASSED", "finished  ")

        await screen.press("alt+s")
        text = await screen.until("PASSED", "only played; r judges it; the verdict is from an earlier run")
        assert "stale" not in text and "did please roll" in text

    async with open_app(project, size=(120, 40)) as screen:  # it reads the conversation from the history
        await screen.until("talk")
        await screen.press("g", "j", "j", "2")
        text_after_restart = await screen.until(
            "PASSED", "only played; r judges it; the verdict is from an earlier run", "did please roll"
        )
        assert "stale" not in text_after_restart
        await screen.press("4")
        await screen.until("only played; r judges it")
        await screen.press("escape", "k")
        await screen.until("1 result", "trajectory_single_tool_use")  # the scores of the set come from verdicts

        await screen.press("j", "r")
        await screen.until("PASSED", "trajectory_single_tool_use")
        assert "only played" not in screen.text


async def test_a_failed_play_keeps_the_earlier_verdict(project: Path, open_app: Open, user: User) -> None:
    user.may_speak.set()
    (project / "agent.py").write_text(ASKING_AGENT)
    note = ("only played, with an error; r runs it again", "the verdict is from")
    async with open_app(project, size=(120, 40)) as screen:
        await screen.until("talk")
        await screen.press("j", "j", "2", "r")
        await screen.until("PASSED", "finished  ")
        user.is_gone = True

        await screen.press("alt+s")
        await screen.until("✓ PASSED", *note, "out of dice", "✓ talk")

    async with open_app(project, size=(120, 40)) as screen:  # it reads the conversation from the history
        await screen.until("talk")
        await screen.press("g", "j", "j", "2")
        await screen.until("✓ PASSED", *note, "out of dice", "✓ talk")

        user.is_gone = False
        await screen.press("r")
        await screen.until_gone("only played")
        await screen.until("✓ PASSED", "the user has finished")


async def test_a_failed_play_is_shown_if_there_is_no_verdict(project: Path, open_app: Open, user: User) -> None:
    user.is_gone = True
    user.may_speak.set()
    async with open_app(project, size=(120, 40)) as screen:
        await screen.until("talk")
        await screen.press("j", "j", "2", "alt+s")

        await screen.until("! ERROR", "only played, with an error; r runs it again", "no such user")


async def test_a_verdict_on_older_code_is_not_shown_for_a_later_play(project: Path, open_app: Open, user: User) -> None:
    user.may_speak.set()
    async with open_app(project, size=(120, 40)) as screen:
        await screen.until("talk")
        await screen.press("j", "j", "2", "r")
        await screen.until("PASSED", "finished  ")
        (project / "agent.py").write_text(AGENT.replace("did {prompt}", "did {prompt} now"))

        await screen.press("alt+s")
        text = await screen.until("NOT EVALUATED", "did please roll now", "only played; r judges it", "finished  ")
        assert "stale" not in text


async def test_a_conversation_can_be_saved_as_a_fixed_case_and_undone(
    project: Path, open_app: Open, user: User
) -> None:
    user.may_speak.set()
    async with open_app(project, size=(120, 40)) as screen:
        await screen.until("talk")
        await screen.press("j", "j", "2", "alt+k")
        await screen.until("there is no finished conversation of a simulated user")
        await screen.press("r")
        await screen.until("the user has finished")

        await screen.press("alt+k")

        await screen.until("saved as talk_played", "talk_played")
        cases = json.loads((project / "lights.evalset.json").read_text())["eval_cases"]
        assert [case["eval_id"] for case in cases] == ["talk", "talk_played"]
        prompts = [turn["user_content"]["parts"][0]["text"] for turn in cases[1]["conversation"]]
        assert prompts == ["hello [bold]", "please roll"]

        await screen.press("u")
        await screen.until("undone")
        assert len(json.loads((project / "lights.evalset.json").read_text())["eval_cases"]) == 1


async def test_the_plan_names_the_model_of_the_users_and_its_maximum_calls(
    project: Path, open_app: Open, user: User
) -> None:
    async with open_app(project, size=(120, 40)) as screen:
        await screen.until("talk")
        await screen.press("j", "j", "C")

        await screen.until("gemini-2.5-flash as the user of 1 conversation: at most 19 answers")


async def test_a_conversation_longer_than_the_screen_is_followed_to_its_end(
    project: Path, open_app: Open, user: User
) -> None:
    async with open_app(project, size=(80, 18)) as screen:
        await screen.until("talk")
        await screen.press("j", "j", "2", "r")
        await screen.until("the user is thinking")

        user.may_speak.set()

        await screen.until("the user has finished")
