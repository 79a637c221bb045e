"""The dashboard of an eval set or agent on the screen."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from workbench.model.results import CaseStatus
from workbench.store.errors import StoreError
from workbench.tui.backend.run_calls import HistoryReader
from workbench.watch.watch_events import ChangeSeen

Open = Callable[..., Any]


@pytest.fixture
def broken_project(make_history_project: Open) -> Any:
    """Create a project of three cases, two of which fail in its only run."""
    project = make_history_project("on", "off", "dim")
    project.set_failing_prompts("off", "dim")
    project.run()
    return project


async def test_enter_goes_to_the_failing_case_under_the_cursor(broken_project: Any, open_app: Open) -> None:
    async with open_app(broken_project.path) as screen:
        await screen.until("did not pass  2 of 3", "✗ off", "missing call 1: ping(n=1)", "1 of 3 pass")
        await screen.press("2", "j", "enter")

        await screen.until("dim · lights", "expected", "+ pong")
        assert screen.app.focused.id == "diff-lines"


async def test_a_click_goes_to_the_case_under_the_mouse(broken_project: Any, open_app: Open) -> None:
    async with open_app(broken_project.path) as screen:
        lines = (await screen.until("missing call 1: ping(n=1)")).splitlines()
        row = next(y for y, line in enumerate(lines) if "✗ dim  missing" in line)
        await screen.pilot.click(offset=(lines[row].index("✗ dim  missing") + 3, row))

        await screen.until("dim · lights", "+ pong")


async def test_a_dashboard_without_cases_scrolls_and_y_copies_it(make_history_project: Open, open_app: Open) -> None:
    project = make_history_project("on")

    async with open_app(project.path) as screen:
        await screen.until("1 case · 1 turn · 1 eval set · function agent", "after r: the pass rates")
        await screen.press("2", "j", "G", "g", "enter", "y")
        await screen.until("copied")

        assert screen.app.clipboard.startswith("1 case · 1 turn · 1 eval set")
        assert screen.state.selected_case is None


async def test_only_whole_runs_are_in_the_sparkline(broken_project: Any, open_app: Open) -> None:
    async with open_app(broken_project.path) as screen:
        await screen.until("whole runs  1, newest right", "1 of 3 passed  ✗ 2")
        broken_project.set_failing_prompts()
        await screen.press("f")
        await screen.until("3 of 3 pass ", "no case: all that ran passed", "whole runs  1, newest right")
        await screen.press("r")

        await screen.until("whole runs  2, newest right", "33% → 100% passed", "3 of 3 passed")


async def test_the_bar_moves_during_a_run(lights: Any, make: Any, open_fake_app: Open) -> None:
    async with open_fake_app(lights) as screen:
        await screen.until("next  r run 3 cases")
        await screen.press("r")
        await screen.pilot.pause(0.2)
        (run,) = lights.started_runs
        run.begin()
        await screen.until("◌ 3 waiting", "next  x stop")

        run.finish(make.result(make.key("on"), CaseStatus.PASSED))
        await screen.until("✓ 1 passed   ◌ 2 waiting")
        run.finish(make.result(make.key("off"), CaseStatus.FAILED))
        await screen.until("✓ 1 passed   ✗ 1 failed   ◌ 1 waiting")

        run.finish(make.result(make.key("两盏灯"), CaseStatus.ERROR))
        run.end()
        await screen.until("✓ 1 passed   ✗ 1 failed   ! 1 error", "next  n next failing")


async def test_a_small_screen_shows_the_verdicts_and_the_next_keys(broken_project: Any, open_app: Open) -> None:
    async with open_app(broken_project.path, size=(40, 10)) as screen:
        await screen.until("1/3")
        await screen.press("2")
        await screen.until("3 cases · 3 turns", "✓ 1 passed   ✗ 2 failed", "n next failing")

        await screen.press("n")
        await screen.until("off · lights", "ping (not made)")


@pytest.fixture
def two_agents(broken_project: Any) -> Any:
    """Give the project a second agent, whose set has not run."""
    path = broken_project.path
    settings = (path / "workbench.toml").read_text(encoding="utf-8").replace("*.evalset.json", "lights.evalset.json")
    more = '[targets.other]\nkind = "function"\ntarget = "agent:answer"\neval_sets = ["sounds.evalset.json"]\n'
    (path / "workbench.toml").write_text(settings + more, encoding="utf-8")
    (path / "sounds.evalset.json").write_text(
        (path / "lights.evalset.json").read_text(encoding="utf-8").replace('"lights"', '"sounds"'), encoding="utf-8"
    )
    return broken_project


async def test_a_project_of_several_agents_begins_with_its_page(two_agents: Any, open_app: Open) -> None:
    async with open_app(two_agents.path) as screen:
        title = f"project {two_agents.path.name}"
        await screen.until(title, "6 cases · 6 turns · 2 eval sets · 2 agents", "did not pass  2 of 6")
        await screen.until("✗ off", "1 of 3 passed  ✗ 2", "✓ 1 passed   ✗ 2 failed   ○ 3 not run", "0 of 3  other")
        assert screen.app.layout_now.selected is None

        await screen.press("0")
        await screen.until("3 cases · 3 turns · 1 eval set · function agent", "whole runs  1")
        await screen.press("0")
        await screen.until(title)
        await screen.press("g")
        await screen.until_gone(title)
        await screen.press("0", "4")
        await screen.until_gone(title)
        assert screen.app.layout_now.selected is not None


async def test_enter_on_the_page_of_the_project_opens_a_case_of_any_agent(two_agents: Any, open_app: Open) -> None:
    async with open_app(two_agents.path) as screen:
        await screen.until("did not pass  2 of 6", "✗ dim")
        await screen.press("tab", "j", "enter")

        await screen.until("dim · lights", "+ pong")


async def test_a_small_screen_shows_the_page_of_the_project_with_its_key(two_agents: Any, open_app: Open) -> None:
    async with open_app(two_agents.path, size=(40, 10)) as screen:
        await screen.until("other")
        await screen.press("j", "0")
        await screen.until("6 cases", "✓ 1  ✗ 2  ○ 3", "next failing")


async def test_the_diff_gets_the_focus_of_the_dashboard(broken_project: Any, open_app: Open) -> None:
    async with open_app(broken_project.path) as screen:
        await screen.until("✗ off")
        await screen.press("2", "n")
        await screen.until("off · lights", "+ pong")
        assert screen.app.focused.id == "diff-lines"

        await screen.press("h", "g", "3")
        await screen.until("did not pass  2 of 3")
        assert type(screen.app.focused).__name__ == "DashboardLines"


async def test_a_history_that_cannot_be_read_is_reported(
    broken_project: Any, open_app: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: object, **__: object) -> Any:
        raise StoreError(broken_project.path / "history.db", "the disk reports an error")

    monkeypatch.setattr(HistoryReader, "read_report", refuse)

    async with open_app(broken_project.path) as screen:
        await screen.until("✓ 1 passed   ✗ 2 failed", "the history cannot be read", "reports an error")


async def test_the_age_of_the_last_save_grows(lights: Any, open_fake_app: Open) -> None:
    async with open_fake_app(lights) as screen:
        await screen.until("next  r run 3 cases")
        change = ChangeSeen(
            at=datetime.now(UTC), paths=("agent.py",), run=0, judged=0, waiting=0, total=3, reason="agent.py changed"
        )
        screen.state.watch.apply(change, now=0.0)
        await screen.press("0")  # shows the page again, as an event of the watch does

        await screen.until("agent.py saved 1 s ago: none of 3 cases is affected")
        await screen.until("agent.py saved 2 s ago")


PROGRAM = """
import json, sys
for line in sys.stdin:
    usage = {"prompt": 9000, "candidates": 1000, "total": 10000}
    span = {"kind": "model", "name": "call", "attributes": {"model": "desk-1", "usage": usage}}
    print(json.dumps({"type": "event", "span": span}))
    print(json.dumps({"type": "finished", "response": "pong", "usage": usage}), flush=True)
"""


async def test_the_costliest_cases_have_dollars_by_the_prices_of_the_settings(
    make_history_project: Open, open_app: Open
) -> None:
    path = make_history_project("on").path
    (path / "agent.py").write_text(PROGRAM, encoding="utf-8")
    (path / "workbench.toml").write_text(
        f'[targets.desk]\nkind = "command"\ntarget = ["{sys.executable}", "agent.py"]\neval_sets = ["*.evalset.json"]\n'
        '[judge.prices."desk-1"]\ninput = 2.0\noutput = 7.0\n',
        encoding="utf-8",
    )

    async with open_app(path) as screen:
        await screen.until("next  r run")
        await screen.press("r")

        await screen.until("costliest", "$0.025 · 10,000 tokens")


async def test_what_is_read_for_another_row_is_not_shown(
    broken_project: Any, open_app: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = HistoryReader.read_report
    may_answer, asked = asyncio.Event(), asyncio.Event()

    async def delay_set(reader: Any, target: str, eval_set: str | None, *args: Any, **options: Any) -> Any:
        if eval_set is not None:
            asked.set()
            await may_answer.wait()
            raise StoreError(Path("history.db"), "of the other row")
        return await read(reader, target, eval_set, *args, **options)

    monkeypatch.setattr(HistoryReader, "read_report", delay_set)
    async with open_app(broken_project.path) as screen:
        await screen.until("did not pass  2 of 3")
        await screen.press("j")
        await asyncio.wait_for(asked.wait(), 30)
        await screen.press("k")
        may_answer.set()
        for _ in range(5):
            await screen.pilot.pause(0.05)

        assert "did not pass  2 of 3" in screen.text
        assert "of the other row" not in screen.text
