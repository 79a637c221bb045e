"""Judging by models, compared with the time of the answers alone, and judging from the cache.

`WORKBENCH_BENCHMARKS=1 python -m pytest -s tests/benchmarks/test_judge_benchmark.py`
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.watch.watched import Folder, turn
from workbench.engine.plan import RunOptions, Selection
from workbench.engine.run import Run
from workbench.engine.workspace import Workspace
from workbench.model.results import CaseStatus

pytestmark = pytest.mark.skipif(
    not os.environ.get("WORKBENCH_BENCHMARKS"), reason="a benchmark: set WORKBENCH_BENCHMARKS=1"
)

TURNS, SAMPLES, CONCURRENCY, THINKING = 100, 5, 16, 0.2
METRICS = (
    "final_response_match_v2",
    "rubric_based_final_response_quality_v1",
    "rubric_based_tool_use_quality_v1",
)
IDEAL = TURNS * SAMPLES * len(METRICS) * THINKING / CONCURRENCY
SERVER = f"""
import json, time
from tests.llm.servers import gemini, run_server
reply = json.dumps({{"verdict": "valid", "properties": [{{"id": "a", "rationale": "r", "verdict": "yes"}}]}})
with run_server(lambda call: gemini(reply, seconds={THINKING})) as server:
    print(server.url, flush=True)
    input()
    print(len(server.calls), flush=True)
"""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen([sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", process.stdout.readline().strip())
    monkeypatch.setenv("GOOGLE_API_KEY", "k")
    monkeypatch.delenv("GOOGLE_GENAI_USE_VERTEXAI", raising=False)
    yield process
    process.kill()
    process.wait()


def test_five_samples_of_three_judges_on_a_hundred_turns(tmp_path: Path, server: subprocess.Popen[str]) -> None:
    folder = make_project(tmp_path)

    first_seconds, (blocked, worked) = run_project(folder)
    cached_seconds, _ = run_project(folder)

    requests, _ = server.communicate("\n")
    answers = TURNS * SAMPLES * len(METRICS)
    assert int(requests) == answers  # the second run sends no request
    print(f"\n{answers} answers of {THINKING} s, {CONCURRENCY} at a time: {first_seconds:.1f} s", end="")
    print(f", {first_seconds / IDEAL:.2f} x the ideal {IDEAL:.1f} s (1.3 x wanted)")
    print(f"the loop was blocked for at most {blocked * 1000:.0f} ms (50 wanted)", end="")
    print(f", and worked for at most {worked * 1000:.0f} ms, which a busy machine does not change")
    print(f"from the cache: {cached_seconds:.2f} s (2 s wanted)")


def make_project(root: Path) -> Folder:
    folder = Folder(root)
    folder.write("agent.py", "def answer(prompt): return prompt")
    folder.write(
        "workbench.toml",
        '[targets.sample]\nkind = "function"\ntarget = "agent:answer"\neval_sets = ["*.evalset.json"]\n'
        f"[judge]\nconcurrency = {CONCURRENCY}\n",
    )
    rubric = {"rubric_id": "a", "rubric_content": {"text_property": "It is so."}}
    options: dict[str, Any] = {"threshold": 1.0, "judge_model_options": {"num_samples": SAMPLES}}
    folder.criteria(**{name: {**options, **({"rubrics": [rubric]} if "rubric" in name else {})} for name in METRICS})
    cases = [
        {"eval_id": f"case {number}", "conversation": [turn(f"prompt {number} {each}") for each in range(5)]}
        for number in range(TURNS // 5)
    ]
    folder.write("set.evalset.json", json.dumps({"eval_set_id": "set", "eval_cases": cases}))
    return folder


def run_project(folder: Folder) -> tuple[float, tuple[float, float]]:
    """Return the seconds of a run, and the result of `_watch_loop`."""
    with Workspace.open(folder.root) as workspace:
        plan = workspace.plan([Selection(eval_set="set.evalset.json")], RunOptions())
        began = time.perf_counter()
        started = workspace.start(plan)
        blocked = _watch_loop(workspace, started)
        seconds = time.perf_counter() - began
        results = started.results()
        assert {result.status for result in results} == {CaseStatus.PASSED}
        assert {metric.name for result in results for metric in result.metrics if metric.score == 1.0} == {*METRICS}
        return seconds, blocked


def _watch_loop(workspace: Workspace, started: Run) -> tuple[float, float]:
    """Return the longest time for which the engine's loop was blocked, and the longest CPU time of one step."""
    longest = longest_cpu = 0.0

    async def tick() -> None:
        nonlocal longest, longest_cpu
        while not started.is_over:
            before, worked = time.perf_counter(), time.thread_time()
            await asyncio.sleep(0.005)
            longest = max(longest, time.perf_counter() - before - 0.005)
            longest_cpu = max(longest_cpu, time.thread_time() - worked)

    ticker = workspace._resources.thread.submit(tick())
    list(started.iter_events())
    ticker.result()
    return longest, longest_cpu
