"""Sessions of production on the screen: read, filter, preview, mark, redact, keep, undo."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

KEY = "AIzaSyAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
CASE = {"eval_id": "lamp", "conversation": [{"user_content": {"parts": [{"text": "Lamp 0!"}]}}]}


def make_session(number: int, *, prompt: str, user: str = "ann", answer: str = "done [b]") -> dict[str, Any]:
    said = [{"author": "user", "invocationId": "i", "content": {"parts": [{"text": prompt}]}, "timestamp": 1e9}]
    if answer:
        said.append({"author": "pinger", "invocationId": "i", "content": {"parts": [{"text": answer}]}})
    return {"id": f"s{number}", "appName": "pinger", "userId": user, "state": {"room": "hall"}, "events": said}


SESSIONS = [
    make_session(1, prompt=f"switch on 台所, key {KEY}"),
    make_session(2, prompt="switch off", user="bob@example.org"),
    {**make_session(3, prompt="x"), "events": []},
]


@pytest.fixture
def project(make_project: Any) -> Path:
    path: Path = make_project(lights=[CASE])
    (path / "prod.json").write_text(json.dumps(SESSIONS))
    return path


def read_cases(path: Path) -> list[dict[str, Any]]:
    cases: list[dict[str, Any]] = json.loads(path.read_text())["eval_cases"]
    return cases


async def open_sessions(screen: Any, *, row: int = 1, name: str = "prod.json") -> None:
    """Open the file for the row this far down: 0 is the agent, 1 its set."""
    await screen.until("lights", "lamp")
    await screen.press("g", *["j"] * row, "alt+i")
    await screen.until("File with sessions")
    await screen.press(*name, "enter")


async def test_marked_sessions_become_cases_as_one_undo_step(project: Path, open_app: Any) -> None:
    file = project / "lights.evalset.json"
    source = (project / "prod.json").read_bytes()
    async with open_app(project) as screen:
        await open_sessions(screen)
        await screen.until("0 of 3 sessions marked", "switch on 台所, key [redacted]", "(has no message of a user)")
        await screen.until("done [b]", '{"room": "hall"}', "secret (turn 1, message)")

        await screen.press("A")
        await screen.until("2 of 3 sessions marked")
        await screen.press("ctrl+s")
        await screen.until("added 2 cases")

        cases = read_cases(file)
        assert [case["eval_id"] for case in cases] == ["lamp", "s1", "s2"]
        assert cases[1]["conversation"][0]["user_content"]["parts"] == [{"text": "switch on 台所, key [redacted]"}]
        assert cases[1]["session_input"] == {"app_name": "pinger", "user_id": "ann", "state": {"room": "hall"}}
        await screen.press("u")
        await screen.until("undone: import 2 sessions")
        assert read_cases(file) == [CASE]
    assert (project / "prod.json").read_bytes() == source


async def test_only_listed_sessions_are_marked_together(project: Path, open_app: Any) -> None:
    async with open_app(project) as screen:
        await open_sessions(screen)
        await screen.until("0 of 3 sessions marked")
        await screen.press("slash", *"bob", "enter")
        await screen.until_gone("台所")
        await screen.press("A")
        await screen.until("1 of 3 sessions marked")
        await screen.press("s")
        await screen.until("added 1 case")

    assert [case["eval_id"] for case in read_cases(project / "lights.evalset.json")] == ["lamp", "s2"]


async def test_patterns_redact_more(project: Path, open_app: Any) -> None:
    async with open_app(project) as screen:
        await open_sessions(screen)
        await screen.until("bob@example")
        await screen.press("r")
        await screen.until("Regular expression")
        await screen.press("(", "enter")
        await screen.until("expected a regular expression")
        await screen.press("backspace", *r"[a-z]+@", "enter")
        await screen.until_gone("bob@")
        await screen.press("j", "x", "s")
        await screen.until("added 1 case")

    assert read_cases(project / "lights.evalset.json")[1]["session_input"]["user_id"] == "[redacted]example.org"


async def test_a_session_that_cannot_be_a_case_is_not_marked(project: Path, open_app: Any) -> None:
    async with open_app(project) as screen:
        await open_sessions(screen)
        await screen.until("0 of 3 sessions marked")
        await screen.press("s")
        await screen.until("no session is marked")
        await screen.press("G", "x")
        await screen.until("cannot be a case")
        await screen.press("escape")
        await screen.until_gone("sessions marked")

    assert read_cases(project / "lights.evalset.json") == [CASE]


async def test_a_small_screen_has_messages_details_and_the_keys_that_end_the_choice(
    project: Path, open_app: Any
) -> None:
    async with open_app(project, size=(40, 10)) as screen:
        await open_sessions(screen)
        await screen.until("0 of 3 sessions marked", "   switch on 台所", "   switch off", "s1 · ann")
        await screen.until("⏎ mark", "^s save", "esc cancel", "? help")
        await screen.press("enter")
        await screen.until("1 of 3 sessions marked", " ✓ switch on 台所", "s2 · bob")


async def test_a_session_that_the_set_has_is_named(project: Path, open_app: Any) -> None:
    async with open_app(project) as screen:
        for message in ("added 1 case", "added 0 cases to lights.evalset.json, 1 already there"):
            await open_sessions(screen)
            await screen.until("0 of 3 sessions marked")
            await screen.press("x", "s")
            await screen.until(message)


async def test_sessions_of_an_agent_go_into_a_new_set(project: Path, open_app: Any) -> None:
    async with open_app(project) as screen:
        await open_sessions(screen, row=0)
        await screen.until("0 of 3 sessions marked")
        await screen.press("x", "s")
        await screen.until("File of the new eval set")
        await screen.press("ctrl+u", *"prod.evalset.json", "enter")
        await screen.until("added 1 case")

    assert [case["eval_id"] for case in read_cases(project / "prod.evalset.json")] == ["s1"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("none.json", "expected the path of a file"),
        ("empty.json", "found no sessions"),
    ],
)
async def test_a_file_without_sessions_is_named(project: Path, open_app: Any, name: str, message: str) -> None:
    (project / "empty.json").write_text("[]")
    async with open_app(project) as screen:
        await open_sessions(screen, name=name)
        await screen.until(message)
