"""Scoring, compared with a plain loop that computes the same numbers without results or reasons.

Runs with WORKBENCH_BENCHMARKS=1; `-s` shows the figures.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.benchmarks.trajectories import ROWS, SIX, TOOL, make_rows, score_plainly
from workbench.agents.agent_host import CustomScoreAnswer, CustomScoreRequest
from workbench.metrics.case_view import JudgedCase
from workbench.metrics.evaluate import judge_case
from workbench.metrics.registry import prepare
from workbench.metrics.text_worker import TextScorer
from workbench.model.criteria import EvalConfig, read_config
from workbench.model.evalset import Invocation
from workbench.model.results import Execution, TurnResult

pytestmark = pytest.mark.skipif(
    os.environ.get("WORKBENCH_BENCHMARKS") != "1", reason="benchmarks run with WORKBENCH_BENCHMARKS=1"
)


class Services:
    """Services without custom metrics, which trajectory metrics do not call."""

    text = TextScorer()

    async def custom(self, request: CustomScoreRequest) -> CustomScoreAnswer:
        raise AssertionError(request)


def make_subject(predicted: list[dict[str, Any]], reference: list[dict[str, Any]]) -> JudgedCase:
    actual, expected = (
        Invocation.model_validate({"user_content": {"parts": []}, "intermediate_data": {"tool_uses": calls}})
        for calls in (predicted, reference)
    )
    turns = (TurnResult(invocation=actual, duration_seconds=0.1),)
    return JudgedCase(case=None, expected=[expected], execution=Execution(turns=turns))


def make_config(*metrics: str) -> EvalConfig:
    options = {"trajectory_single_tool_use": {"threshold": 1.0, "tool_name": TOOL}}
    return read_config({"criteria": {name: options.get(name, 1.0) for name in metrics}}, source="benchmark")


def measure_cpu(work: Callable[[], Any]) -> tuple[float, Any]:
    """Return the CPU seconds of the fastest of three runs, because the machine is shared, and the result."""
    best, result = float("inf"), None
    for _ in range(3):
        started = time.process_time()
        result = work()
        best = min(best, time.process_time() - started)
    return best, result


def score_cases(subjects: list[JudgedCase], criteria: EvalConfig) -> list[Any]:
    """Score without an event loop: trajectory metrics never wait."""
    services: Any = Services()
    prepared = prepare(criteria)
    results = []
    for item in subjects:
        try:
            judge_case(item, prepared, services).send(None)
        except StopIteration as done:
            results.append(done.value)
    return results


def test_cost_of_six_trajectory_metrics_on_ten_thousand_rows() -> None:
    pairs = make_rows()
    subjects = [make_subject(*pair) for pair in pairs]
    criteria = make_config(*(f"trajectory_{name}" for name in SIX))

    plain_seconds, numbers = measure_cpu(lambda: [score_plainly(*pair) for pair in pairs])
    scoring, results = measure_cpu(lambda: score_cases(subjects, criteria))

    print(f"\nsix trajectory metrics x {ROWS:,} rows: {scoring:.2f} s CPU, plain loop {plain_seconds:.2f} s")
    assert [[result.score for result in row[:6]] for row in results] == numbers
    assert scoring < 4 * plain_seconds


def test_cost_of_one_criterion_of_a_trivial_case() -> None:
    """Include the measures that are always reported. The baseline builds and validates the case."""
    calls = [{"name": "f", "args": {"x": 1}}]
    subjects = [make_subject(calls, calls)] * ROWS
    criteria = make_config("tool_trajectory_avg_score")

    scoring, _ = measure_cpu(lambda: score_cases(subjects, criteria))
    reading, _ = measure_cpu(lambda: [make_subject(calls, calls) for _ in range(ROWS)])

    print(f"\ntrivial case: {scoring / ROWS * 1000:.3f} ms CPU to judge, {reading / ROWS * 1000:.3f} ms to read")
    assert scoring < 2 * reading
