"""Branches from cases and chats, by keys, with real agents in real processes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.llm.servers import Call, HttpResponse, openai, run_server
from tests.tui.panes.chat_pane.talking import case, get_draft, open_chat, read_cases, say
from workbench.tui.panes.chat_pane import Prompt

pytestmark = [pytest.mark.needs_fork, pytest.mark.prepared("adk")]

MODEL_AGENT = """
import httpx

def lookup(word):
    with open("lookups", "a") as file: file.write("x")
    return {{"found": word.upper()}}

def answer(prompt, session):
    if prompt == "fail":
        raise ValueError("failed")
    word = lookup(prompt)["found"]
    session.state["words"] = [*session.state.get("words", []), word]
    body = {{"model": "m", "messages": [{{"role": "user", "content": " ".join(session.state["words"])}}]}}
    said = httpx.post("{url}/v1/chat/completions", json=body).json()
    calls = [{{"tool_name": "lookup", "tool_input": {{"word": prompt}}}}]
    responses = [{{"name": "lookup", "response": {{"found": word}}}}]
    text = said["choices"][0]["message"]["content"]
    return {{"response": text, "predicted_trajectory": calls, "tool_responses": responses}}
"""


def reply(call: Call) -> HttpResponse:
    return openai("heard " + call.body["messages"][-1]["content"])


@pytest.fixture
def words(make_project: Any) -> Any:
    """Make a project whose agent asks a model at an address; its case has two turns, with an odd expectation."""

    def make(url: str) -> Path:
        spoken = case("words", "one", "two", session_input={"state": {"words": ["ZERO"]}})
        spoken["conversation"][0]["final_response"] = {"role": "model", "parts": [{"text": "as expected"}]}
        path: Path = make_project(
            agent=MODEL_AGENT.format(url=url), criteria={"tool_trajectory_avg_score": 0.0}, lights=[spoken]
        )
        return path

    return make


async def test_a_case_is_branched_after_a_turn_and_kept_as_a_case(words: Any, open_app: Any) -> None:
    with run_server(reply) as server:
        project = words(server.url)
        async with open_app(project) as screen:
            await screen.until("words")
            await screen.press("j", "j", "r")
            await screen.until("2 model calls made")
            await screen.press("B")
            await screen.until("Branch of words", "up to turn 1: one", "up to turn 2: two", "no turn")
            await screen.press("1")
            await screen.until("turn 1", "replayed", "heard ZERO ONE", "branch of words after turn 1 · 1 turn")
            assert len(server.calls) == 2 and (project / "lookups").read_text() == "xx"
            assert isinstance(screen.app.focused, Prompt) and not get_draft(screen)

            await say(screen, "three")
            await screen.until("heard ZERO ONE THREE")
            assert len(server.calls) == 3 and (project / "lookups").read_text() == "xxx"

            await screen.press("ctrl+o")
            await screen.until("in lights.evalset.json")
            await screen.press("enter")
            await screen.until("Id of the case", "words_branch")
            await screen.press("enter")
            await screen.until("expect the final state")
            await screen.press("enter")
            await screen.until("saved as lights.evalset.json:words_branch")

    original, kept = read_cases(project / "lights.evalset.json")
    assert kept["conversation"][0] == original["conversation"][0]
    assert kept["conversation"][1]["final_response"]["parts"][0]["text"] == "heard ZERO ONE THREE"
    assert kept["session_input"]["state"] == {"words": ["ZERO"]}


async def test_a_session_that_failed_is_replayed_up_to_the_branch_before_the_next_message(
    words: Any, open_app: Any
) -> None:
    with run_server(reply) as server:
        project = words(server.url)
        async with open_app(project) as screen:
            await screen.until("words")
            await screen.press("j", "j", "r")
            await screen.until("2 model calls made")
            await screen.press("B")
            await screen.until("Branch of words")
            await screen.press("1")
            await screen.until("branch of words after turn 1")
            await say(screen, "fail")
            await screen.until("ValueError: failed", "the session is over")
            await screen.press("ctrl+a", "ctrl+k")

            await say(screen, "three")

            await screen.until("heard ZERO ONE THREE", "branch of words after turn 1 · 2 turns")
            assert len(server.calls) == 3 and (project / "lookups").read_text() == "xxx"


async def test_a_branch_whose_turn_cannot_be_replayed_continues_after_the_answered_turns(
    words: Any, open_app: Any
) -> None:
    with run_server(reply) as server:
        project = words(server.url)
        async with open_app(project) as screen:
            await screen.until("words")
            await screen.press("j", "j", "r")
            await screen.until("2 model calls made")
            agent = project / "agent.py"
            agent.write_text(agent.read_text().replace('prompt == "fail"', 'prompt in ("two", "fail")'))
            await screen.press("B")
            await screen.until("Branch of words")
            await screen.press("2")
            await screen.until("ValueError: failed", "enter sends 1 answered turn", "alt+t shows traceback")
            assert "Traceback" not in screen.text
            await screen.press("alt+t")
            await screen.until("Traceback (most recent call last)", "raise ValueError")

            await say(screen, "fail")
            await screen.until("fail", "enter sends 1 answered turn", "alt+t shows traceback")
            assert get_draft(screen) == "fail"
            await screen.press("ctrl+a", "ctrl+k")
            await say(screen, "three")

            await screen.until("heard ZERO ONE THREE", "branch of words after turn 1 · 2 turns")
            assert len(server.calls) == 3


@pytest.mark.parametrize("keys", [["1", "}"], ["2"], ["3", "down"]])
async def test_the_turn_at_the_cursor_is_proposed(project: Path, open_app: Any, keys: list[str]) -> None:
    async with open_app(project) as screen:
        await open_chat(screen)
        await screen.press("escape", "r")
        await screen.until("✗1")
        await screen.press(keys[0])
        await screen.until("first of the case")
        await screen.press(*keys[1:], "B")
        await screen.until("Branch of one")
        await screen.press("enter")
        await screen.until("The results of these tools cannot be replayed", "add (its result is not recorded)")
        await screen.press("y")

        await screen.until("branch of one after turn 1 · 1 turn", "first of the case makes 41")


async def test_a_case_that_has_not_run_cannot_be_branched(project: Path, open_app: Any) -> None:
    async with open_app(project) as screen:
        await open_chat(screen)
        await screen.press("escape", "B")

        await screen.until("one has no answered turn to replay; r runs it")


async def test_a_chat_is_branched_from_the_chosen_turn(words: Any, open_app: Any) -> None:
    with run_server(reply) as server:
        async with open_app(words(server.url)) as screen:
            await screen.until("words")
            await screen.press("j", "j", "6")
            await screen.until("Talk to pinger")
            for word in ("red", "green"):
                await say(screen, word)
                await screen.until(f"{word.upper()}")
            await screen.until("2 turns")
            await screen.press("alt+up", "alt+up", "f3")
            await screen.until("Branch of this chat")
            await screen.press("enter")
            await screen.until("End this session? 2 turns")
            await screen.press("y")
            await screen.until("branch of this chat after turn 1 · 1 turn", "heard RED")
            assert len(server.calls) == 2

            await say(screen, "blue")
            await screen.until("heard RED BLUE")
            assert len(server.calls) == 3


async def test_no_turn_begins_a_fresh_session_like_the_case(project: Path, open_app: Any) -> None:
    async with open_app(project) as screen:
        await open_chat(screen)
        await screen.press("escape", "r")
        await screen.until("✗1")
        await screen.press("B")
        await screen.until("no turn")
        await screen.press("3")
        await screen.until("branch of one before turn 1", "A fresh session")

        await say(screen, "hello")

        await screen.until("hello makes 41")


async def test_escape_stops_a_replay(project: Path, open_app: Any) -> None:
    (project / "lights.evalset.json").write_text(
        json.dumps({"eval_set_id": "lights", "eval_cases": [case("one", "hello", "again")]})
    )
    async with open_app(project) as screen:
        await open_chat(screen)
        await screen.press("escape", "r")
        await screen.until("✗1")
        agent = project / "agent.py"
        agent.write_text(agent.read_text().replace('prompt == "hang"', 'prompt == "hello"'))
        await screen.press("B")
        await screen.until("up to turn 2")
        await screen.press("2")
        await screen.until("Continue?")
        await screen.press("y")
        await screen.until("replaying turn 1 of 2", "escape stops it")

        await screen.press("escape")

        await screen.until("stopped after", "the session is over")
        assert not get_draft(screen)
        assert isinstance(screen.app.focused, Prompt)


async def test_a_row_of_the_results_table_is_branched(project: Path, open_app: Any) -> None:
    async with open_app(project) as screen:
        await open_chat(screen)
        await screen.press("escape", "r")
        await screen.until("✗1")
        await screen.press("t")
        await screen.until("results of", "deviation", "one")
        await screen.press("B")

        await screen.until("Branch of one", "up to turn 2")


@pytest.mark.parametrize(("moves", "answers"), [((), "heard red"), (("j",), "heard green")])
async def test_a_repeat_in_the_results_table_is_branched_itself(
    make_project: Any, open_app: Any, moves: tuple[str, ...], answers: str
) -> None:
    heard = iter(["red", "green", "blue"])

    def reply_once(call: Call) -> HttpResponse:
        return HttpResponse({"choices": [{"message": {"role": "assistant", "content": f"heard {next(heard)}"}}]})

    with run_server(reply_once) as server:
        agent = MODEL_AGENT.format(url=server.url)
        project = make_project(agent=agent, criteria={"tool_trajectory_avg_score": 0.0}, lights=[case("words", "one")])
        (project / "workbench.toml").write_text(
            (project / "workbench.toml").read_text() + "\n[run]\nruns = 2\nconcurrency = 1\nconfirm = 'never'\n"
        )
        async with open_app(project) as screen:
            await screen.until("words")
            await screen.press("j", "j", "r")
            await screen.until("2/2", "in")
            await screen.press("t")
            await screen.until("results of", "2/2")
            await screen.press("r")
            await screen.until("words [2]")
            await screen.press(*moves, "B")
            await screen.until(f"Branch of words, repeat {len(moves) + 1}", "up to turn 1: one")
            await screen.press("1")

            await screen.until("replayed", answers, "branch of words after turn 1")
