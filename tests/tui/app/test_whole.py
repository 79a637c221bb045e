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


def _names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with an agent and a set that passes, fails and raises."""
    (tmp_path / "workbench.toml").write_text(SETTINGS, encoding="utf-8")
    (tmp_path / "agent.py").write_text(AGENT, encoding="utf-8")
    (tmp_path / "test_config.json").write_text('{"criteria": {"exact_match": 1.0}}', encoding="utf-8")
    _write(tmp_path, _case("good", "Hi"), _case("bad", "Hi", "ping"), _case("raises", "please raise"))
    return tmp_path


def _write(project: Path, *cases: dict[str, Any], name: str = "pings.evalset.json") -> None:
    (project / name).write_text(json.dumps({"eval_set_id": "pings", "eval_cases": cases}), encoding="utf-8")


@pytest.fixture
async def open_screen(make_app: Callable[..., WorkbenchApp], look: Any) -> AsyncIterator[Callable[..., Any]]:
    """Open the screen on a path, and wait on it for texts."""
    backends: list[Backend] = []

    def make(path: Path) -> tuple[WorkbenchApp, Callable[..., Any]]:
        backend = Backend(path)
        backends.append(backend)
        app = make_app(backend, load_settings(path, user_file=path / "none.toml"))

        async def until(pilot: Any, *wanted: str) -> str:
            for _ in range(600):
                text = str(look.text(app))
                if all(item in text for item in wanted):
                    return text
                await pilot.pause(0.05)
            raise AssertionError(f"not on the screen: {wanted}\n{look.text(app)}")

        return app, until

    yield make
    for backend in backends:
        backend.close()


async def test_a_run_on_real_agents_is_shown_and_is_there_again_the_next_time(
    project: Path, open_screen: Callable[..., Any]
) -> None:
    app, until = open_screen(project)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await until(pilot, "good", "bad", "raises")
        await pilot.press("R")
        await until(pilot, "finished", "3/3", "✓1", "✗1", "!1")
        await pilot.press("n")
        await until(pilot, "✗ FAILED · bad", "- ping", "+ pong [/b]", "exact_match")
        await pilot.press("n")
        await until(pilot, "! ERROR · raises", "ValueError: x [/foo] [bold]")

    again, until = open_screen(project)
    async with again.run_test(size=(120, 40), notifications=True) as pilot:
        await until(pilot, "stored")
        await pilot.press("n")
        await until(pilot, "✗ FAILED · bad", "+ pong [/b]", "stored 20")


async def test_cancelling_stops_an_agent_that_hangs(project: Path, open_screen: Callable[..., Any]) -> None:
    _write(project, _case("hangs", "wait"))
    app, until = open_screen(project)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await until(pilot, "hangs")
        await pilot.press("R")
        await until(pilot, "◐ hangs")

        await pilot.press("x")

        await until(pilot, "cancelled  ░░░░", "0/1  -1")
        await pilot.press("q")
        assert app._exit


async def test_a_run_reads_files_again_that_have_changed(project: Path, open_screen: Callable[..., Any]) -> None:
    app, until = open_screen(project)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await until(pilot, "○ raises")
        await pilot.press("j", "j")
        await until(pilot, "NOT RUN · good", "pong [/b]")
        _write(project, _case("good", "Hi", "another answer"), _case("fresh", "Hi"))

        await pilot.press("r")

        await until(pilot, "✗ FAILED · good", "- another answer", "+ pong [/b]", "○ fresh", "2 cases")


async def test_a_case_that_is_gone_is_not_replaced_by_others(project: Path, open_screen: Callable[..., Any]) -> None:
    app, until = open_screen(project)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await until(pilot, "○ raises")
        await pilot.press("j", "j")
        _write(project, _case("fresh", "Hi"))

        await pilot.press("r")

        await until(pilot, "no eval case 'good'", "○ fresh", "no run in this session")


async def test_what_is_wrong_with_files_is_shown_with_its_place(project: Path, open_screen: Callable[..., Any]) -> None:
    (project / "broken.evalset.json").write_text('{"eval_set_id": "b",\n "eval_cases": 7}', encoding="utf-8")
    _write(project, _case("twin", "Hi"), _case("twin", "Hi"), {"eval_id": "odd", "conversation": 7})
    app, until = open_screen(project)
    async with app.run_test(size=(140, 40), notifications=True) as pilot:
        await until(pilot, "broken", "! twin", "! twin #2")
        await pilot.press("j")
        await until(pilot, "could not be read", "found 7 as eval_cases, expected a list")
        await pilot.press("G")
        await until(pilot, "odd", "conversation")


async def test_a_set_of_no_agent_says_what_to_do(tmp_path: Path, open_screen: Callable[..., Any]) -> None:
    (tmp_path / "workbench.toml").write_text("", encoding="utf-8")
    _write(tmp_path, _case("lost", "Hi"))
    app, until = open_screen(tmp_path)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await until(pilot, "no agent", "lost")
        await pilot.press("j")
        await until(pilot, "no agent was found for this eval set", "[targets.NAME]")


async def test_looking_at_a_project_writes_nothing_to_it(project: Path, open_screen: Callable[..., Any]) -> None:
    before = _names(project)
    app, until = open_screen(project)
    async with app.run_test(notifications=True) as pilot:
        await until(pilot, "good")

    assert _names(project) == before


async def test_a_criterion_nobody_knows_is_refused_with_the_nearest(
    project: Path, open_screen: Callable[..., Any]
) -> None:
    (project / "test_config.json").write_text('{"criteria": {"exact_mach": 1.0}}', encoding="utf-8")
    app, until = open_screen(project)
    async with app.run_test(size=(140, 40), notifications=True) as pilot:
        await until(pilot, "good")
        await pilot.press("R")
        await until(pilot, "exact_mach", "exact_match")


async def test_only_what_is_below_the_given_folder_is_listed(project: Path, open_screen: Callable[..., Any]) -> None:
    inner = project / "inner"
    inner.mkdir()
    _write(inner, _case("deep", "Hi"))
    app, until = open_screen(inner)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        text = await until(pilot, "deep", "1 eval set · 1 case")
        assert "good" not in text


def test_broken_settings_end_with_one_message_and_status_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "workbench.toml").write_text("[run\n", encoding="utf-8")

    assert run(tmp_path) == 2
    assert "workbench.toml" in capsys.readouterr().err


def test_a_path_that_does_not_exist_ends_with_one_message_and_status_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(WorkbenchApp, "run", lambda self: App.run(self, headless=True))

    assert run(tmp_path / "nowhere") == 2
    assert "there is no such file or folder" in capsys.readouterr().err


def test_the_state_knows_no_textual() -> None:
    code = "import sys, workbench.tui.state.project_state; sys.exit('textual' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0


def test_the_application_starts_without_importing_the_engine() -> None:
    code = "import sys, workbench.tui.app; sys.exit('workbench.engine.workspace' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0
