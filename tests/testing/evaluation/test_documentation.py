"""The examples of the Vertex AI documentation run unchanged except for their imports."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.engine.judged import serve_judge
from tests.llm.servers import Call, HttpResponse, gemini
from workbench.testing import EvalTask

TRAJECTORY_METRICS = (
    "trajectory_exact_match",
    "trajectory_in_order_match",
    "trajectory_any_order_match",
    "trajectory_precision",
    "trajectory_recall",
)
IMPORTS = """
from workbench.testing import (
    CustomMetric, EvalTask, PointwiseMetric, PointwiseMetricPromptTemplate, TrajectorySingleToolUse,
)
"""
CALL = {"tool_name": "tool1", "tool_input": {"x": 1}}


def agent(prompt: str) -> dict[str, Any]:
    """Answer, but fail for one prompt."""
    if "impossible" in prompt:
        raise RuntimeError("no such device")
    return {"response": "The light is off.", "predicted_trajectory": [CALL]}


def rate(call: Call) -> HttpResponse:
    """Rate a response; its prompt must contain the values of the template's variables."""
    text = call.body["contents"][0]["parts"][0]["text"]
    assert "tool1" in text
    assert "The light is off." in text
    return gemini(json.dumps({"explanation": "it does", "score": 1}))


@pytest.mark.needs_pandas
def test_the_documented_example_runs_despite_a_failed_row(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pandas as pd

    dataset = pd.DataFrame(
        {
            "prompt": ["Turn off the light.", "Do the impossible."],
            "reference": ["The light is off.", "The light is off."],
            "reference_trajectory": [[CALL], [CALL]],
        }
    )
    names: dict[str, Any] = {"pd": pd, "EVAL_DATASET": dataset, "RUNNABLE": agent}
    code = (corpus / "documentation" / "eval_task_example.py.txt").read_text(encoding="utf-8")

    with serve_judge(monkeypatch, rate):
        exec(compile(IMPORTS + code, "eval_task_example.py", "exec"), names)

    result = names["eval_result"]
    assert list(result.metrics_table.columns) == [
        "prompt",
        "reference",
        "reference_trajectory",
        "response",
        "latency_in_seconds",
        "failure",
        "predicted_trajectory",
        "rouge_l_sum/score",
        "bleu/score",
        "essential_tools_present/score",
        "trajectory_exact_match/score",
        "trajectory_precision/score",
        "trajectory_single_tool_use/score",
        "response_follows_trajectory/score",
        "response_follows_trajectory/explanation",
    ]
    summary = result.summary_metrics
    assert summary["row_count"] == 2
    assert summary["essential_tools_present/mean"] == 0.5
    assert summary["trajectory_exact_match/mean"] == summary["response_follows_trajectory/mean"] == 1.0
    assert summary["trajectory_single_tool_use/mean"] == 0.0
    assert summary["failure/mean"] == 0.5
    assert [row["response_follows_trajectory/explanation"] for row in result.rows] == ["it does", None]
    assert {(p.row, p.status) for p in result.problems} == {(2, "ERROR")}
    assert all("no such device" in problem.reason for problem in result.problems)


def test_the_documented_trajectories_have_the_documented_scores(corpus: Path) -> None:
    dataset = corpus / "documentation" / "trajectories.jsonl"

    summary = EvalTask(dataset=dataset, metrics=TRAJECTORY_METRICS).evaluate().summary_metrics

    assert summary["row_count"] == 2
    for metric in TRAJECTORY_METRICS[:3]:
        assert (summary[f"{metric}/mean"], summary[f"{metric}/std"]) == (0.0, 0.0)
    for metric in TRAJECTORY_METRICS[3:]:
        assert summary[f"{metric}/mean"] == 0.25
        assert summary[f"{metric}/std"] == pytest.approx(0.3536, abs=1e-4)
