"""Memory and time of commands with many cases or rows. Memory is the proportional set size of the process tree.

Run with `WORKBENCH_BENCHMARKS=1 python -m pytest tests/benchmarks/test_memory_benchmark.py -s`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.benchmarks.agents import FUNCTION_AGENT, make_eval_set

from .measuring import Cost, measure

pytestmark = [
    pytest.mark.skipif(not os.environ.get("WORKBENCH_BENCHMARKS"), reason="benchmarks run with WORKBENCH_BENCHMARKS=1"),
    pytest.mark.needs_fork,
]
WORKBENCH = Path(sys.executable).parent / "workbench"
METRICS = "trajectory_exact_match=1,trajectory_precision=0.5,exact_match=1"
TOML = """
[targets.function]
kind = "function"
target = "function_agent:answer"
eval_sets = ["*.evalset.json"]
"""


def make_rows(count: int) -> Iterator[str]:
    """Yield JSON lines; one in ten fails."""
    for number in range(count):
        calls = [{"tool_name": "set", "tool_input": {"device": f"d{number}", "status": "OFF"}}]
        row = {
            "prompt": f"turn off device {number} in the bedroom",
            "response": f"device {number} is off" if number % 10 else "no",
            "reference": f"device {number} is off",
            "predicted_trajectory": calls,
            "reference_trajectory": calls,
        }
        yield json.dumps(row) + "\n"


def make_project(folder: Path, *, cases: int) -> Path:
    (folder / "function_agent.py").write_text(FUNCTION_AGENT)
    (folder / "workbench.toml").write_text(TOML)
    (folder / "many.evalset.json").write_text(make_eval_set(cases, tool=True))
    return folder


def print_cost(name: str, cost: Cost) -> None:
    print(f"\n{name}: {cost}")


def test_a_run_of_20_000_cases(tmp_path: Path) -> None:
    cost = measure([WORKBENCH, "run", "many.evalset.json"], cwd=make_project(tmp_path, cases=20_000), times=1)

    print_cost("run, 20,000 cases", cost)
    assert cost.status == 0
    assert cost.peak_mb < 250


@pytest.mark.parametrize("options", [[], ["--format", "json", "--output", "report.json"]], ids=["text", "json"])
def test_a_score_of_100_000_rows(tmp_path: Path, options: list[str]) -> None:
    with (tmp_path / "rows.jsonl").open("w") as file:
        file.writelines(make_rows(100_000))

    cost = measure([WORKBENCH, "score", "rows.jsonl", "--metrics", METRICS, *options], cwd=tmp_path, times=1)

    print_cost(f"score {' '.join(options)}, 100,000 rows", cost)
    assert cost.status == 1
    assert cost.peak_mb < 500
    assert cost.wall < 15


def test_an_explanation_of_100_000_cases(tmp_path: Path) -> None:
    cost = measure([WORKBENCH, "explain"], cwd=make_project(tmp_path, cases=100_000), times=1)

    print_cost("explain, 100,000 cases", cost)
    assert cost.peak_mb < 400
