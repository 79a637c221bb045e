"""Recorded model calls on the screen: replayed by default, asked again by a key, and said above the case."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.llm.servers import Server, make_asking_agent, openai, run_server

pytestmark = [pytest.mark.needs_fork, pytest.mark.prepared("http")]


def write_project(tmp_path: Path) -> None:
    (tmp_path / "workbench.toml").write_text(
        '[targets.a]\nkind = "function"\ntarget = "agent:answer"\neval_sets = ["s.evalset.json"]\n'
    )
    user, model = ({"role": role, "parts": [{"text": "hello"}]} for role in ("user", "model"))
    cases = [{"eval_id": "greets", "conversation": [{"user_content": user, "final_response": model}]}]
    (tmp_path / "s.evalset.json").write_text(json.dumps({"eval_set_id": "s", "eval_cases": cases}))
    (tmp_path / "test_config.json").write_text('{"criteria": {"response_match_score": 0.5}}')


@pytest.fixture
def asking(tmp_path: Path) -> Iterator[Server]:
    write_project(tmp_path)
    with run_server(lambda _: openai("hello")) as server:
        (tmp_path / "agent.py").write_text(make_asking_agent(server.url, instruction="Answer.\nBe nice."))
        yield server


def change_instruction(root: Path, before: str, now: str) -> None:
    path = root / "agent.py"
    path.write_text(path.read_text().replace(before, now))


async def test_models_are_replayed_unless_they_are_asked_again(tmp_path: Path, asking: Server, open_app: Any) -> None:
    async with open_app(tmp_path, size=(200, 60)) as screen:
        await screen.until("greets")
        await screen.press("j", "j", "r")
        await screen.until("1 model call made, none replayed", "finished")
        assert "↺" not in screen.text
        await screen.press("r")
        await screen.until("↺ 1 of 1 model call replayed")
        assert len(asking.calls) == 1
        (row,) = (line for line in screen.text.splitlines() if "✓ greets" in line)
        assert "↺" in row.partition("││")[0]
        await screen.press("t")
        await screen.until("✓ passed ↺", "1 of 1 replayed")
        await screen.press("escape", "alt+l")
        await screen.until("1 model call made, none replayed", "finished")
        assert len(asking.calls) == 2


async def test_a_changed_instruction_is_shown_word_by_word(tmp_path: Path, asking: Server, open_app: Any) -> None:
    async with open_app(tmp_path) as screen:
        await screen.until("greets")
        await screen.press("j", "j", "r")
        await screen.until("1 model call made, none replayed", "finished")
        change_instruction(tmp_path, "nice", "brief")
        await screen.press("r")
        await screen.until("model call 1 differs from the recording: instruction, line 2 changed", "- Be nice.")

        assert "+ Be brief." in screen.text
        assert "Answer." not in screen.text, "equal lines are left out"


async def test_the_watch_says_what_was_replayed_and_what_was_live(
    tmp_path: Path, asking: Server, open_app: Any
) -> None:
    async with open_app(tmp_path) as screen:
        await screen.until("greets")
        await screen.press("j", "j", "r")
        await screen.until("1 model call made, none replayed")
        await screen.press("w", "O")
        await screen.until("◉ watching", "No change since then")
        change_instruction(tmp_path, '"predicted_trajectory": []', '"predicted_trajectory": list()')
        await screen.until("↺ 1 model call replayed")
        change_instruction(tmp_path, "nice", "brief")
        await screen.until("model call 1 asked live: instruction, line 2 changed")


async def test_samples_are_recorded_and_a_replay_does_not_hide_that_they_differ(tmp_path: Path, open_app: Any) -> None:
    answers = iter(("hello", "no", "hello"))
    write_project(tmp_path)
    with run_server(lambda _: openai(next(answers))) as server:
        (tmp_path / "agent.py").write_text(make_asking_agent(server.url, instruction="Answer.\nBe nice."))
        async with open_app(tmp_path) as screen:
            await screen.until("greets")
            await screen.press("j", "j", "alt+m")
            await screen.until("Record how many samples?")
            await screen.press("backspace", "2", "enter")
            await screen.until("repeats of each case")
            await screen.press("enter")
            await screen.until("finished", "1/2")
            await screen.press("4")
            await screen.until("1 of 2 repeats passed", "mean 0.50, 0.00 to 1.00")
            await screen.press("r")
            await screen.until("↺ ~1/2", "~ flaky: 1 of 2 live samples passed; this one is replayed")  # the scores
            await screen.press("2")
            await screen.until("~ flaky: 1 of 2 live samples passed; this one is replayed")
            await screen.press("5")
            await screen.until("1 of 2 live samples passed", "response_match_score: mean 0.50, 0.00 to 1.00")
            assert len(server.calls) == 2

        async with open_app(tmp_path) as screen:  # it is known in the next session, too
            await screen.until("greets")
            await screen.press("j", "j", "2")
            await screen.until("~ flaky: 1 of 2 live samples passed; this one is replayed", "↺ ~1/2")
            await screen.press("4")
            await screen.until("~ flaky: 1 of 2 live samples passed; this one is replayed", "response_match_score")
            await screen.press("t")
            await screen.until("results of", " ↺ ~1/2")
            await screen.press("escape", "2", "alt+l")
            await screen.until("1 model call made, none replayed")
            assert "~1/2" not in screen.text
            assert len(server.calls) == 3
