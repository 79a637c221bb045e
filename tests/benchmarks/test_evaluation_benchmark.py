"""Evaluation tasks: ten thousand rows with six trajectory metrics, and the import of the API.

Runs with WORKBENCH_BENCHMARKS=1; `-s` shows the figures.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.trajectories import ROWS, SIX, TOOL, make_rows, score_plainly
from workbench.testing import EvalTask, TrajectorySingleToolUse

pytestmark = pytest.mark.skipif(
    os.environ.get("WORKBENCH_BENCHMARKS") != "1", reason="benchmarks run with WORKBENCH_BENCHMARKS=1"
)

METRICS: list[Any] = [*(f"trajectory_{name}" for name in SIX[:-1]), TrajectorySingleToolUse(TOOL)]


def make_dataset() -> dict[str, list[Any]]:
    pairs = make_rows()
    return {"predicted_trajectory": [pair[0] for pair in pairs], "reference_trajectory": [pair[1] for pair in pairs]}


@pytest.mark.parametrize("history", [False, True])
def test_evaluation_of_ten_thousand_rows(history: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the fastest of three runs, because the machine is shared. The history also writes to the disk.

    The baseline is a loop that computes only the six scores of each row.
    """
    (tmp_path / "workbench.toml").write_text("", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    task = EvalTask(dataset=make_dataset(), metrics=METRICS, history=history)
    pairs = make_rows()
    seconds, plain_seconds = [], []
    for _ in range(3):  # alternate, because the speed of the machine varies
        cpu = time.process_time()
        numbers = [score_plainly(*pair) for pair in pairs]
        plain_seconds.append(time.process_time() - cpu)
        began, cpu = time.perf_counter(), time.process_time()
        result = task.evaluate()
        seconds.append((time.process_time() - cpu, time.perf_counter() - began))

    least, ratio = min(seconds), min(seconds)[0] / min(plain_seconds)
    print(f"\n{ROWS:,} rows x six, history {history}: {least[0]:.2f} s CPU, {least[1]:.2f} s")
    print(f"a plain loop: {min(plain_seconds):.2f} s CPU; {ratio:.1f} times that")
    assert result.summary_metrics["row_count"] == ROWS == len(numbers)
    assert ratio < (9 if history else 7)


def test_import_of_the_api() -> None:
    names = "EvalTask, EvalResult, CustomMetric, PointwiseMetric, PairwiseMetric, TrajectorySingleToolUse"
    lines = ["import time", "began = time.perf_counter()", f"from workbench.testing import {names}"]
    code = "\n".join([*lines, "print(time.perf_counter() - began)"])
    seconds = [
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
        for _ in range(5)
    ]

    print(f"\nimport of the API: {min(seconds):.3f} s")
    assert min(seconds) < 0.3
