"""The screen as a user experiences it: first paint, keys, memory, compared with an empty Textual application.

Reports figures and ratios and never fails for being slow. Run it on an idle machine with
`WORKBENCH_BENCHMARKS=1 pytest -s tests/benchmarks/test_screen_benchmark.py`.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import pytest

from tests.benchmarks.typing_at import TerminalProgram
from workbench.tui.last_picture import OPENING

pytestmark = pytest.mark.skipif(
    os.environ.get("WORKBENCH_BENCHMARKS") != "1", reason="a benchmark: set WORKBENCH_BENCHMARKS=1"
)
WORKBENCH = Path(sys.executable).with_name("workbench")
CASES = 10_000
MANY_CASES = 100_000
FILES = 100
IDLE = 120.0  # seconds
RUN = 30.0  # seconds

AGENT = """
import time
def answer(prompt):
    time.sleep(0.03)
    return {"response": "done", "predicted_trajectory": [{"tool_name": "ping", "tool_input": {"n": 1}}]}
"""
EMPTY = """
from textual.app import App
from textual.widgets import OptionList
class Empty(App):
    def compose(self):
        yield OptionList(*(f"row {n}" for n in range(40)))
Empty().run()
"""
SETTINGS = """
[targets.pinger]
kind = "function"
target = "agent:answer"
eval_sets = ["*.evalset.json"]
[run]
isolation = "worker"
concurrency = 8
"""


def _case(number: int, *, digits: int = 5, padding: int = 700) -> dict[str, Any]:
    call = {"name": "ping", "args": {"n": 1, "padding": "x" * padding}}
    turn = {
        "invocation_id": f"e-{number}",
        "user_content": {"parts": [{"text": f"Ping number {number}. {'y' * (padding // 2)}"}], "role": "user"},
        "final_response": {"parts": [{"text": "done"}], "role": "model"},
        "intermediate_data": {"tool_uses": [call], "intermediate_responses": []},
    }
    return {"eval_id": f"case_{number:0{digits}d}", "conversation": [turn]}


def _write_project(root: Path, cases: Sequence[dict[str, Any]]) -> None:
    (root / "workbench.toml").write_text(SETTINGS)
    (root / "agent.py").write_text(AGENT)
    (root / "test_config.json").write_text('{"criteria": {"tool_trajectory_avg_score": 1.0}}')
    (root / "big.evalset.json").write_text(json.dumps({"eval_set_id": "big", "eval_cases": cases}, indent=2))


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    _write_project(tmp_path, [_case(number) for number in range(CASES)])
    yield tmp_path


@pytest.fixture
def large_project(tmp_path: Path) -> Iterator[Path]:
    _write_project(tmp_path, [_case(number, digits=6, padding=100) for number in range(MANY_CASES)])
    yield tmp_path


def _print_percentiles(name: str, seconds: list[float]) -> float:
    p95 = quantiles(seconds, n=20, method="inclusive")[-1]
    print(f"{name}: median {median(seconds) * 1000:.0f} ms, p95 {p95 * 1000:.0f} ms, max {max(seconds) * 1000:.0f} ms")
    return p95


def _measure_first_paint(screen: TerminalProgram, key: str) -> float:
    screen.settle()
    return screen.measure_first_output(key)


def _measure_move(screen: TerminalProgram, number: int) -> float:
    screen.wait(0.05)  # the repeat rate of a key that is held down
    return screen.measure_press_to_text("j", f"case_{number:05d}")


def test_first_paint_and_keys_with_ten_thousand_cases(project: Path) -> None:
    print()
    with TerminalProgram([sys.executable, "-c", EMPTY], cwd=project) as empty:
        empty_seconds = empty.measure_time_to_text("row 1")
        print(f"empty application: first paint {empty_seconds:.2f} s ({empty.cpu_seconds:.2f} s CPU)")
        empty_p95 = _print_percentiles("empty application, key", [empty.measure_press("\x1b[B") for _ in range(30)])
    with TerminalProgram([WORKBENCH, project], cwd=project) as first:  # compiles changed modules, stores the picture
        first.measure_time_to_text("case_00001")
        first.settle(quiet=1.0)
        first.quit("q")
    with TerminalProgram([WORKBENCH, project], cwd=project) as screen:
        painted, computed = screen.measure_time_to_text(OPENING), screen.cpu_seconds
        print(f"first paint {painted:.2f} s ({computed:.2f} s CPU, {painted / empty_seconds:.1f}x of the empty one)")
        usable = screen.measure_time_to_text("no run in this session")
        print(f"usable after {usable:.2f} s ({screen.cpu_seconds:.2f} s CPU)")
        screen.settle(quiet=1.0)
        print(f"memory with the project open: {screen.memory_mb:.0f} MB")
        _print_percentiles("cursor, first paint", [_measure_first_paint(screen, "j") for _ in range(100)])
        moves = _print_percentiles("cursor, all panes", [screen.measure_press("j") for _ in range(100)])
        _print_percentiles("page", [screen.measure_press("\x04") for _ in range(50)])
        screen.measure_press("/")
        _print_percentiles("filter, all panes", [screen.measure_press(key) for key in "case_0123" + "\x7f" * 5])
        screen.settle()
        _print_percentiles("filter, first paint", [_measure_first_paint(screen, key) for key in "01234" + "\x7f" * 5])
        screen.measure_press("\x1b")
        print(f"cursor p95: {moves / empty_p95:.1f}x of the empty application's")


def test_keys_and_memory_during_a_run_of_ten_thousand_cases(project: Path) -> None:
    print()
    with TerminalProgram([WORKBENCH, project], cwd=project) as screen:
        screen.measure_time_to_text("case_00001")
        screen.settle(quiet=1.0)
        started = time.perf_counter()
        screen.measure_press("j")
        screen.measure_press("j")
        screen.measure_first_output("R")
        screen.wait(4.0)
        _print_percentiles("cursor during the run", [_measure_move(screen, number) for number in range(1, 301)])
        print(f"memory during the run: {screen.memory_mb:.0f} MB")
        screen.measure_time_to_text("finished", patience=180.0)
        print(f"{CASES / (time.perf_counter() - started):.0f} results a second")
        screen.settle(quiet=1.0)
        print(f"memory after the run: {screen.memory_mb:.0f} MB")
        _print_percentiles("cursor after the run", [screen.measure_press("j") for _ in range(100)])


class _Presses:
    """Measured presses of one kind of key: seconds until the paint, on a core, and waiting for one."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.walls: list[float] = []
        self._cpu: list[float] = []
        self._waited: list[float] = []

    def measure(self, screen: TerminalProgram, press: Callable[[], float]) -> None:
        before = screen.loop_seconds
        self.walls.append(press())
        after = screen.loop_seconds
        self._cpu.append(after.cpu - before.cpu)
        self._waited.append(after.waiting - before.waiting)

    def print(self) -> None:
        _print_percentiles(f"{self._name}, until the paint", self.walls)
        without = [max(wall - waited, 0.0) for wall, waited in zip(self.walls, self._waited, strict=True)]
        _print_percentiles("  without waiting for a core", without)
        _print_percentiles("  CPU of the event loop", self._cpu)


def _press_keys(screen: TerminalProgram, seconds: float, name: str) -> None:
    """Move, page, jump and filter for some seconds, and print how long each key took."""
    presses = {each: _Presses(f"{name}, {each}") for each in ("cursor", "page", "last", "first", "filter")}

    def press(kind: str, key: str, text: str) -> None:
        screen.wait(0.05)  # the repeat rate of a key that is held down
        presses[kind].measure(screen, lambda: screen.measure_press_to_text(key, text))

    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        press("last", "G", f"case_{MANY_CASES - 1:06d}")
        press("first", "g", "case_000000")
        screen.measure_press_to_text("jj", "case_000000")
        for number in range(1, 41):
            press("cursor", "j", f"case_{number:06d}")
        for _ in range(5):
            press("page", "\x04", "case_")
        screen.wait(0.3)
        screen.measure_first_output("/")
        screen.measure_first_output("case_0")
        screen.wait(1.0)
        for key, count in (
            *zip("1234", (10_000, 1_000, 100, 10), strict=True),
            *zip("\x7f" * 3, (100, 1_000, 10_000), strict=True),
        ):
            press("filter", key, f"{count:,} of {MANY_CASES:,}")
        screen.measure_first_output("\x1b")  # back to the list
        screen.wait(0.3)
        screen.measure_first_output("\x1b")  # all cases again
        screen.wait(0.5)
    for each in presses.values():
        each.print()
    _print_percentiles(f"{name}, all keys", [wall for each in presses.values() for wall in each.walls])


def test_keys_during_a_run_of_a_hundred_thousand_cases(large_project: Path) -> None:
    print()
    with TerminalProgram([WORKBENCH, large_project], cwd=large_project) as first:  # stores what a start knows
        first.measure_time_to_text("case_000001")
        first.settle(quiet=20.0)
        first.quit("q")
    with TerminalProgram([WORKBENCH, large_project], cwd=large_project) as screen:
        screen.measure_time_to_text("no run in this session")
        screen.settle(quiet=10.0)
        print(f"load of the machine: {os.getloadavg()[0]:.1f}")
        _press_keys(screen, 20.0, "idle")
        started = time.perf_counter()
        screen.measure_press_to_text("R", "running", patience=120.0)
        print(f"the run begins after {time.perf_counter() - started:.1f} s")
        _press_keys(screen, RUN, "run")
        print(f"load of the machine: {os.getloadavg()[0]:.1f}")
        print(f"stopped after {screen.measure_press_to_text('x', 'cancelled', patience=60.0):.1f} s")


@pytest.mark.parametrize("watches", [False, True])
def test_cpu_time_of_an_idle_screen(tmp_path: Path, watches: bool) -> None:
    (tmp_path / "workbench.toml").write_text(SETTINGS)
    (tmp_path / "agent.py").write_text(AGENT)
    (tmp_path / "few.evalset.json").write_text(
        json.dumps({"eval_set_id": "few", "eval_cases": [_case(number) for number in range(8)]})
    )
    for number in range(FILES):
        (tmp_path / f"part{number}.py").write_text(f"NUMBER = {number}\n")
    with TerminalProgram([WORKBENCH, tmp_path], cwd=tmp_path) as screen:
        screen.measure_time_to_text("no run in this session")
        screen.settle(quiet=1.0)
        if watches:
            screen.measure_press_to_text("w", "watching")
        screen.wait(80.0)  # checks of all files become rarer after a minute without a change
        before = screen.tree_cpu_seconds
        screen.wait(IDLE)
        share = (screen.tree_cpu_seconds - before) / IDLE
    what, wanted = (f"watching {FILES} files", 0.5) if watches else ("not watching", 0.2)
    print(f"\nidle screen, {what}: {share:.2%} of a core, {share * 3600:.1f} s of CPU in an hour ({wanted} % wanted)")
