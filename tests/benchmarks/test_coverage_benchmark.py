"""Time to measure the coverage of 10,000 stored cases.

Reports figures and never fails for being slow. Run it on an idle machine with
`WORKBENCH_BENCHMARKS=1 pytest -s tests/benchmarks/test_coverage_benchmark.py`.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from workbench.engine.plan import RunOptions, Selection
from workbench.engine.workspace import Workspace
from workbench.report.coverage_report import coverage_record
from workbench.watch.case_coverage import measure_coverage

pytestmark = pytest.mark.skipif(
    os.environ.get("WORKBENCH_BENCHMARKS") != "1", reason="a benchmark: set WORKBENCH_BENCHMARKS=1"
)
T = TypeVar("T")
CASES = 10_000
AGENT = """
def ping(n):
    return n

def other(n):
    return n

def answer(prompt):
    return {"response": str(ping(1)), "predicted_trajectory": [{"tool_name": "ping", "tool_input": {"n": prompt}}]}
"""


def _timed(title: str, work: Callable[[], T]) -> T:
    wall, cpu = time.perf_counter(), time.process_time()
    result = work()
    print(f"  {title:<28} {time.perf_counter() - wall:.2f} s, {time.process_time() - cpu:.2f} s of CPU")
    return result


def test_coverage_of_ten_thousand_cases(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(AGENT)
    (tmp_path / "workbench.toml").write_text(
        '[targets.pinger]\nkind = "function"\ntarget = "agent:answer"\n[run]\nisolation = "worker"\n'
    )
    (tmp_path / "test_config.json").write_text('{"criteria": {"tool_trajectory_avg_score": 1.0}}')
    cases = [
        {
            "eval_id": f"case{number}",
            "conversation": [
                {
                    "user_content": {"role": "user", "parts": [{"text": str(number)}]},
                    "intermediate_data": {"tool_uses": [{"name": "ping", "args": {"n": str(number)}}]},
                }
            ],
        }
        for number in range(CASES)
    ]
    (tmp_path / "set.evalset.json").write_text(json.dumps({"eval_set_id": "set", "eval_cases": cases}))
    selection = [Selection(eval_set="set.evalset.json")]
    with Workspace.open(tmp_path) as workspace:
        run = workspace.start(workspace.plan(selection, RunOptions()))
        assert sum(1 for _ in run.iter_events()) >= CASES

    print(f"\ncoverage of {CASES:,} stored cases")
    with Workspace.open(tmp_path) as workspace:
        plan = _timed("read and check the eval set", lambda: workspace.plan(selection, RunOptions()))
        coverage = _timed("measure", lambda: measure_coverage(workspace, plan))
        _timed("measure again", lambda: measure_coverage(workspace, plan))
    _timed("as JSON data", lambda: coverage_record(coverage))

    assert coverage.current == CASES
