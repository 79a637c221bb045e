"""Time from a save to the verdict with the real program, watcher and processes, compared with `adk eval`.

Also the cost of an idle watch.

Reports figures and ratios and never fails for being slow. `adk eval` needs more than the extra adk:
WORKBENCH_BENCHMARK_ADK names the `adk` of an environment with `google-adk[eval]`. Run it on an idle machine with
`WORKBENCH_BENCHMARKS=1 pytest -s tests/benchmarks/test_watch_benchmark.py`.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median, quantiles
from typing import Any, NamedTuple

import pytest

from tests.benchmarks.agents import ADK
from tests.benchmarks.watching import Watch, run_watch, save_atomically
from workbench.engine.plan import RunOptions, Selection
from workbench.engine.workspace import Workspace
from workbench.watch.selector import Selector
from workbench.watch.snapshot import Snapshot

pytestmark = [
    pytest.mark.skipif(os.environ.get("WORKBENCH_BENCHMARKS") != "1", reason="a benchmark: set WORKBENCH_BENCHMARKS=1"),
    pytest.mark.needs_fork,
]
SAVES = 20
CASES = 8
MANY = 10_000
PARTS = 24  # an edit of a large project affects one in PARTS cases
IDLE = 60.0  # seconds

FUNCTION = """
def answer(prompt):
    return {"response": said(prompt), "predicted_trajectory": []}

def said(prompt):
    return prompt + " 0"
"""
PART = """
def part(prompt):
    return prompt
"""


def _case(number: int) -> dict[str, Any]:
    content = {"parts": [{"text": f"case {number}"}]}
    turn = {
        "invocation_id": f"i{number}",
        "user_content": {"role": "user", **content},
        "final_response": {"role": "model", **content},
    }
    return {
        "eval_id": f"case{number}",
        "conversation": [turn],
        "session_input": {"app_name": "watched", "user_id": "u"},
    }


def _write_set(path: Path, cases: int) -> None:
    path.write_text(json.dumps({"eval_set_id": "set", "eval_cases": [_case(number) for number in range(cases)]}))
    (path.parent / "test_config.json").write_text('{"criteria": {"response_match_score": 0.1}}')


class Seconds(NamedTuple):
    """The seconds from saves to their first and to their last verdicts."""

    first: list[float]
    last: list[float]


def _measure(watch: Watch, path: Path, source: str) -> Seconds:
    seconds = Seconds([], [])
    for number in range(SAVES + 1):
        time.sleep(0.3)
        after_save = save_atomically(path, source.replace('" 0"', f'" {number + 1}"'))
        times = watch.wait_until_quiet(after_save=True)
        if not number:  # the worker may not be ready
            continue
        seconds.first.append(times[0] - after_save)
        seconds.last.append(times[-1] - after_save)
    return seconds


def _format(seconds: list[float]) -> str:
    return f"p50 {median(seconds) * 1000:.0f} ms, p95 {quantiles(seconds, n=20, method='inclusive')[-1] * 1000:.0f} ms"


def test_time_from_a_save_to_the_verdict_of_a_function_agent(tmp_path: Path) -> None:
    (tmp_path / "workbench.toml").write_text(
        '[targets.f]\nkind = "function"\ntarget = "agent:answer"\neval_sets = ["*.evalset.json"]\n'
    )
    (tmp_path / "agent.py").write_text(FUNCTION)
    _write_set(tmp_path / "set.evalset.json", 1)
    with run_watch(tmp_path) as watch:
        first = _measure(watch, tmp_path / "agent.py", FUNCTION).first
    print(f"\nfunction agent: first verdict after the save: {_format(first)} (64 and 100 wanted)")


def test_time_from_a_save_to_the_verdicts_of_an_adk_agent(tmp_path: Path) -> None:
    agent = _make_adk_project(tmp_path)
    print()
    for cases in (1, CASES):
        _write_set(agent / "set.evalset.json", cases)
        with run_watch(tmp_path) as watch:
            first, last = _measure(watch, agent / "agent.py", ADK)
        adk_seconds = median(
            [seconds for _ in range(3) if (seconds := _measure_adk_eval(agent)) is not None] or [math.nan]
        )
        print(
            f"ADK agent, {cases} affected: first verdict after the save: {_format(first)} (129 and 200 wanted), "
            f"last: {_format(last)}; adk eval again {adk_seconds:.1f} s, {adk_seconds / median(last):.0f}x"
        )


def _make_adk_project(root: Path) -> Path:
    agent = root / "watched"
    agent.mkdir()
    (agent / "__init__.py").write_text("from . import agent\n")
    (agent / "agent.py").write_text(ADK)
    return agent


def _measure_adk_eval(agent: Path) -> float | None:
    adk = os.environ.get("WORKBENCH_BENCHMARK_ADK")
    if adk is None:
        return None
    started = time.perf_counter()
    arguments = [str(agent), str(agent / "set.evalset.json"), "--config_file_path", str(agent / "test_config.json")]
    done = subprocess.run([adk, "eval", *arguments], capture_output=True, cwd=agent.parent, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return time.perf_counter() - started


def _make_large_project(root: Path) -> Path:
    """Make a project whose cases each use one of many functions; an edit of the returned module affects 417."""
    (root / "workbench.toml").write_text(
        '[targets.f]\nkind = "function"\ntarget = "agent:answer"\neval_sets = ["*.evalset.json"]\n'
    )
    (root / "parts").mkdir()
    (root / "parts" / "__init__.py").touch()
    for module in range(PARTS // 6):
        parts = [PART.replace("part", f"part{number}") for number in range(6)]
        (root / "parts" / f"m{module}.py").write_text("".join(parts))
    (root / "agent.py").write_text(
        "import importlib\n\n\ndef answer(prompt):\n"
        f"    module, part = divmod(int(prompt.split()[1]) % {PARTS}, 6)\n"
        '    module = importlib.import_module(f"parts.m{module}")\n'
        '    return {"response": getattr(module, f"part{part}")(prompt), "predicted_trajectory": []}\n'
    )
    _write_set(root / "set.evalset.json", MANY)
    return root / "parts" / "m0.py"


def test_time_from_a_save_to_the_verdicts_of_a_large_project(tmp_path: Path) -> None:
    module = _make_large_project(tmp_path)
    source = module.read_text().replace("return prompt", 'return prompt + " 0"', 1)
    with run_watch(tmp_path) as watch:
        seconds = _measure(watch, module, source)
    print(
        f"\n{MANY // PARTS} of {MANY} cases affected: first verdict after the save: {_format(seconds.first)} "
        f"(250 wanted), last: {_format(seconds.last)}"
    )


def test_time_until_the_stored_verdicts_of_a_large_project_are_printed(tmp_path: Path) -> None:
    _make_large_project(tmp_path)
    with run_watch(tmp_path):  # runs the cases
        pass
    started = time.perf_counter()
    with run_watch(tmp_path) as watch:
        seconds, cpu_seconds = time.perf_counter() - started, watch.cpu
    print(f"\n{MANY} stored verdicts printed after {seconds:.1f} s (2 wanted), {cpu_seconds:.1f} s of CPU")


@pytest.mark.parametrize("project", ["adk", "large"])
def test_cpu_time_of_an_idle_watch(tmp_path: Path, project: str) -> None:
    """Other programs that open files in watched folders, such as site-packages, increase the result."""
    if project == "adk":
        _write_set(_make_adk_project(tmp_path) / "set.evalset.json", CASES)
    else:
        _make_large_project(tmp_path)
    with run_watch(tmp_path) as watch:
        time.sleep(80)  # the watch prepares for the next save; checks of all files become rarer after a minute
        before = watch.cpu
        time.sleep(IDLE)
        cpu_seconds = watch.cpu - before
    print(f"\nidle watch, {project} project: {cpu_seconds / IDLE * 3600:.0f} s of CPU in an hour (15 wanted)")


def test_selection_among_ten_thousand_cases(tmp_path: Path) -> None:
    (tmp_path / "workbench.toml").write_text(
        '[targets.f]\nkind = "function"\ntarget = "agent:answer"\neval_sets = ["*.evalset.json"]\n'
        '[run]\nisolation = "worker"\n'
    )
    functions = "".join(f"def part{number}(prompt):\n    return prompt\n" for number in range(100))
    (tmp_path / "agent.py").write_text(
        f"{functions}\ndef answer(prompt):\n    return globals()['part' + str(int(prompt.split()[1]) % 100)](prompt)\n"
    )
    _write_set(tmp_path / "set.evalset.json", MANY)
    (tmp_path / "test_config.json").write_text('{"criteria": {"exact_match": 1.0}}')
    with Workspace.open(tmp_path) as workspace:
        plan = workspace.plan([Selection(eval_set="set.evalset.json")], RunOptions(adk_results=False))
        for _ in workspace.start(plan).iter_events():
            pass
        verdicts = workspace.verdicts
        selector = Selector(verdicts, Snapshot(leftovers=verdicts.list_agent_files))
        jobs = list(plan.jobs)

        def select() -> None:
            selector.forget()
            for job, planned in jobs:
                selector.decide(job, planned)

        print(f"\nselection over {MANY} cases: {_measure_fastest(select) * 1000:.0f} ms (50 ms wanted)")


def _measure_fastest(work: Callable[[], object], rounds: int = 5) -> float:
    times = []
    for _ in range(rounds):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return min(times)
