"""Large cases in every pane: time until they are shown, and longest time without handling a key.

Reports figures and never fails for being slow. Run it with
`WORKBENCH_BENCHMARKS=1 pytest -s tests/benchmarks/test_large_case_benchmark.py`.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.loop_lag import LoopLag
from workbench.store.settings import load_settings
from workbench.tui.app import WorkbenchApp
from workbench.tui.backend.backend import Backend
from workbench.tui.themes import load_themes, theme_folders

pytestmark = pytest.mark.skipif(
    os.environ.get("WORKBENCH_BENCHMARKS") != "1", reason="a benchmark: set WORKBENCH_BENCHMARKS=1"
)
CALLS = 1_000
WORDS = 30_000  # 200 kB of them
LONG_LINE = "字x" * 500_000

AGENT = f"""
def answer(prompt):
    calls = [{{"tool_name": f"tool_{{n % 7}}", "tool_input": {{"n": n, "text": "x" * 40}}}} for n in range({CALLS})]
    if prompt == "calls":
        return {{"response": "done", "predicted_trajectory": calls}}
    if prompt == "words":
        return {{"response": " ".join(f"word{{n % 97}}" for n in range({WORDS})), "predicted_trajectory": []}}
    return {{"response": prompt[::-1], "predicted_trajectory": []}}
"""
SETTINGS = '[targets.large]\nkind = "function"\ntarget = "agent:answer"\neval_sets = ["*.evalset.json"]\n'
LOADING = ("comparing …", "reading …")  # texts of a pane that is still loading
TABS = {"1": "case", "2": "diff", "3": "trace", "4": "scores", "5": "history", "6": "chat"}


def _case(name: str, prompt: str, response: str, calls: int = 0) -> dict[str, Any]:
    turn = {
        "user_content": {"parts": [{"text": prompt}], "role": "user"},
        "final_response": {"parts": [{"text": response}], "role": "model"},
        "intermediate_data": {
            "tool_uses": [{"name": f"tool_{n % 5}", "args": {"n": n, "text": "x" * 40}} for n in range(calls)],
            "intermediate_responses": [],
        },
    }
    return {"eval_id": name, "conversation": [turn]}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "workbench.toml").write_text(SETTINGS)
    (tmp_path / "agent.py").write_text(AGENT)
    criteria = {"tool_trajectory_avg_score": 1.0, "response_match_score": 0.8}
    (tmp_path / "test_config.json").write_text(json.dumps({"criteria": criteria}))
    words = " ".join(f"word{n % 89}" for n in range(WORDS))
    cases = [
        _case("1,000 calls", "calls", "done", CALLS),
        _case("200 kB", "words", words),
        _case("a line of 1 MB", LONG_LINE, LONG_LINE),
    ]
    (tmp_path / "large.evalset.json").write_text(json.dumps({"eval_set_id": "large", "eval_cases": cases}))
    return tmp_path


@pytest.mark.usefixtures("gc_settings_of_program")
async def test_large_cases_in_every_pane(project: Path) -> None:
    backend = Backend(project)
    settings = load_settings(project, user_file=project / "none.toml")
    app = WorkbenchApp(backend, settings=settings, themes=load_themes(theme_folders()[:1]))
    try:
        async with app.run_test(size=(140, 42)) as pilot:
            with LoopLag() as lag:
                await _wait_until(app, lambda text: "200 kB" in text)
                await pilot.press("R")
                await _wait_until(app, lambda text: "finished" in text)
                await asyncio.sleep(1.0)
                for tab in TABS:
                    await pilot.press(tab)  # load everything that a pane needs once
                    await asyncio.sleep(0.3)
                await pilot.press("escape", "g")
                print()
                for _ in range(4):
                    for tab, name in TABS.items():
                        lag.take_longest()
                        wall, cpu = time.perf_counter(), time.process_time()
                        await pilot.press("j" if tab == "1" else tab)
                        await asyncio.sleep(0.05)
                        await _wait_until(app, lambda text: not any(words in text for words in LOADING))
                        await pilot.pause()
                        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
                        blocked = lag.take_longest()
                        print(
                            f"{_get_eval_id(app):>16} {name:8} {wall:5.2f} s ({cpu:4.2f} s CPU), longest without a key "
                            f"{blocked.wall * 1000:4.0f} ms ({blocked.cpu * 1000:4.0f} ms CPU)"
                        )
                    await pilot.press("escape", "1", "escape")
                    await asyncio.sleep(0.3)
    finally:
        backend.close()


def _get_eval_id(app: WorkbenchApp) -> str:
    row = app._main.state.selected_case
    return "" if row is None else row.eval_id


async def _wait_until(app: WorkbenchApp, is_reached: Callable[[str], bool]) -> None:
    for _ in range(1_000):
        if is_reached(_read_screen(app)):
            return
        await asyncio.sleep(0.01)
    raise AssertionError(_read_screen(app))


def _read_screen(app: WorkbenchApp) -> str:
    return "\n".join("".join(segment.text for segment in strip) for strip in app.screen._compositor.render_strips())
