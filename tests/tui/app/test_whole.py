"""The screen on real projects: files, agents in worker processes, history."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from textual.app import App
from textual.events import Key
from textual.notifications import Notification, Notify

from workbench.store.settings import load_settings
from workbench.tui.app import WorkbenchApp, run
from workbench.tui.backend.backend import Backend

AGENT = """
import time

def answer(prompt):
    if "wait" in prompt:
        time.sleep(60)
    if "raise" in prompt:
        raise ValueError("x [/foo] [bold]")
    return {"response": "pong [/b]", "predicted_trajectory": [{"tool_name": "ping", "tool_input": {"n": 1}}]}
"""
SETTINGS = '[targets.pinger]\nkind = "function"\ntarget = "agent:answer"\neval_sets = ["*.evalset.json"]\n'


def _case(eval_id: str, prompt: str, response: str = "pong [/b]") -> dict[str, Any]:
    turn = {
        "user_content": {"role": "user", "parts": [{"text": prompt}]},
        "final_response": {"role": "model", "parts": [{"text": response}]},
        "intermediate_data": {"tool_uses": [{"name": "ping", "args": {"n": 1}}]},
    }
    return {"eval_id": eval_id, "conversation": [turn]}


def list_names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with an agent and a set that passes, fails and raises."""
    (tmp_path / "workbench.toml").write_text(SETTINGS, encoding="utf-8")
    (tmp_path / "agent.py").write_text(AGENT, encoding="utf-8")
    (tmp_path / "test_config.json").write_text('{"criteria": {"exact_match": 1.0}}', encoding="utf-8")
    write_set(tmp_path, _case("good", "Hi"), _case("bad", "Hi", "ping"), _case("raises", "please raise"))
    return tmp_path


def write_set(project: Path, *cases: dict[str, Any], name: str = "pings.evalset.json") -> None:
    (project / name).write_text(json.dumps({"eval_set_id": "pings", "eval_cases": cases}), encoding="utf-8")


@pytest.fixture
async def open_screen(make_app: Callable[..., WorkbenchApp], screen_reader: Any) -> AsyncIterator[Callable[..., Any]]:
    """Open the screen on a path, and wait on it for texts."""
    backends: list[Backend] = []

    def make(path: Path) -> tuple[WorkbenchApp, Callable[..., Any]]:
        backend = Backend(path)
        backends.append(backend)
        app = make_app(backend, load_settings(path, user_file=path / "none.toml"))

        async def wait_for_text(pilot: Any, *wanted: str) -> str:
            for _ in range(600):
                text = str(screen_reader.text(app))
                if all(item in text for item in wanted):
                    return text
                await pilot.pause(0.05)
            raise AssertionError(f"not on the screen: {wanted}\n{screen_reader.text(app)}")

        return app, wait_for_text

    yield make
    for backend in backends:
        backend.close()


async def test_a_run_of_real_agents_is_shown_and_restored_at_the_next_start(
    project: Path, open_screen: Callable[..., Any]
) -> None:
    app, wait_for_text = open_screen(project)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await wait_for_text(pilot, "good", "bad", "raises")
        await pilot.press("R")
        await wait_for_text(pilot, "finished", "3/3", "✓1", "✗1", "!1")
        await pilot.press("n")
        await wait_for_text(pilot, "✗ FAILED · bad", "- ping", "+ pong [/b]", "exact_match")
        await pilot.press("n")
        await wait_for_text(pilot, "! ERROR · raises", "ValueError: x [/foo] [bold]")

    second_app, wait_for_text = open_screen(project)
    async with second_app.run_test(size=(120, 40), notifications=True) as pilot:
        await wait_for_text(pilot, "✗ bad", "! raises")
        await pilot.press("n")
        await wait_for_text(pilot, "✗ FAILED · bad", "+ pong [/b]", "stored 20")


@pytest.mark.parametrize("run", [("enter", "r"), ("f9",)])  # f9 also applies the text that is typed
async def test_a_case_is_written_run_and_accepted_by_three_keys_after_its_prompt(
    project: Path, open_screen: Callable[..., Any], run: tuple[str, ...]
) -> None:
    app, wait_for_text = open_screen(project)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await wait_for_text(pilot, "○ raises")
        await pilot.press("N")
        await wait_for_text(pilot, "Id of the new case")
        await pilot.press(*"fresh", "enter")
        await wait_for_text(pilot, "⏎ apply")
        await pilot.press(*"Hello", *run)
        await wait_for_text(pilot, "finished", "1/1")

        await pilot.press("A")
        await wait_for_text(pilot, "Accept 2 differences of fresh")
        await pilot.press("y")
        await wait_for_text(pilot, "✓ PASSED · fresh")

    saved = json.loads((project / "pings.evalset.json").read_text(encoding="utf-8"))
    (turn,) = next(case for case in saved["eval_cases"] if case["eval_id"].startswith("fresh"))["conversation"]
    assert turn["user_content"]["parts"] == [{"text": "Hello"}]
    assert turn["final_response"]["parts"] == [{"text": "pong [/b]"}]
    assert turn["intermediate_data"]["tool_uses"] == [{"name": "ping", "args": {"n": 1}}]


async def test_cancelling_stops_a_hanging_agent(project: Path, open_screen: Callable[..., Any]) -> None:
    write_set(project, _case("hangs", "wait"))
    app, wait_for_text = open_screen(project)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await wait_for_text(pilot, "hangs")
        await pilot.press("R")
        await wait_for_text(pilot, "◐ hangs")

        await pilot.press("x")

        await wait_for_text(pilot, "cancelled  ░░░░", "0/1  ⊘1")
        await pilot.press("q")
        assert app._exit


async def test_a_run_rereads_changed_files(project: Path, open_screen: Callable[..., Any]) -> None:
    app, wait_for_text = open_screen(project)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await wait_for_text(pilot, "○ raises")
        await pilot.press("j", "j")
        await wait_for_text(pilot, "NOT RUN · good", "pong [/b]")
        write_set(project, _case("good", "Hi", "another answer"), _case("fresh", "Hi"))

        await pilot.press("r")

        await wait_for_text(pilot, "✗ FAILED · good", "- another answer", "+ pong [/b]", "○ fresh", "2 cases")


async def test_a_deleted_case_is_not_replaced_by_another_case(project: Path, open_screen: Callable[..., Any]) -> None:
    app, wait_for_text = open_screen(project)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await wait_for_text(pilot, "○ raises")
        await pilot.press("j", "j")
        write_set(project, _case("fresh", "Hi"))

        await pilot.press("r")

        await wait_for_text(pilot, "no eval case 'good'", "○ fresh", "no run in this session")


async def test_problems_in_files_are_shown_with_their_place(project: Path, open_screen: Callable[..., Any]) -> None:
    (project / "broken.evalset.json").write_text('{"eval_set_id": "b",\n "eval_cases": 7}', encoding="utf-8")
    write_set(project, _case("twin", "Hi"), _case("twin", "Hi"), {"eval_id": "odd", "conversation": 7})
    app, wait_for_text = open_screen(project)
    async with app.run_test(size=(140, 40), notifications=True) as pilot:
        await wait_for_text(pilot, "broken", "! twin", "! twin #2")
        await pilot.press("j")
        await wait_for_text(pilot, "could not be read", "found 7 as eval_cases, expected a list")
        await pilot.press("G")
        await wait_for_text(pilot, "odd", "conversation")


async def test_a_set_without_an_agent_says_what_to_do(tmp_path: Path, open_screen: Callable[..., Any]) -> None:
    (tmp_path / "workbench.toml").write_text("", encoding="utf-8")
    write_set(tmp_path, _case("lost", "Hi"))
    app, wait_for_text = open_screen(tmp_path)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await wait_for_text(pilot, "no agent", "lost")
        await pilot.press("j")
        await wait_for_text(pilot, "no agent was found for this eval set", "[targets.NAME]")


async def test_viewing_a_project_writes_no_files(project: Path, open_screen: Callable[..., Any]) -> None:
    before = list_names(project)
    app, wait_for_text = open_screen(project)
    async with app.run_test(notifications=True) as pilot:
        await wait_for_text(pilot, "good")

    assert list_names(project) == before


async def test_an_unknown_criterion_is_refused_with_a_suggestion(
    project: Path, open_screen: Callable[..., Any]
) -> None:
    (project / "test_config.json").write_text('{"criteria": {"exact_mach": 1.0}}', encoding="utf-8")
    app, wait_for_text = open_screen(project)
    async with app.run_test(size=(140, 40), notifications=True) as pilot:
        await wait_for_text(pilot, "good")
        await pilot.press("R")
        await wait_for_text(pilot, "exact_mach", "exact_match")


async def test_only_sets_below_the_given_folder_are_listed(project: Path, open_screen: Callable[..., Any]) -> None:
    inner = project / "inner"
    inner.mkdir()
    write_set(inner, _case("deep", "Hi"))
    app, wait_for_text = open_screen(inner)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        text = await wait_for_text(pilot, "deep", "1 eval set · 1 case")
        assert "good" not in text


async def test_keys_and_messages_after_the_end_are_dropped(project: Path, open_app: Callable[..., Any]) -> None:
    async with open_app(project) as screen:
        app = screen.app
    assert not app.screen_stack

    await app.on_event(Key("escape", None))
    app.on_notify(Notify(Notification("too late", severity="error")))


def test_broken_settings_give_one_message_and_exit_status_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "workbench.toml").write_text("[run\n", encoding="utf-8")

    assert run(tmp_path) == 2
    assert "workbench.toml" in capsys.readouterr().err


def test_a_missing_path_gives_one_message_and_exit_status_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(WorkbenchApp, "run", lambda self: App.run(self, headless=True))

    assert run(tmp_path / "nowhere") == 2
    assert "there is no such file or folder" in capsys.readouterr().err


def test_the_state_does_not_import_textual() -> None:
    code = "import sys, workbench.tui.state.project_state; sys.exit('textual' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0


def test_the_application_starts_without_importing_the_engine() -> None:
    code = "import sys, workbench.tui.app; sys.exit('workbench.engine.workspace' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0
