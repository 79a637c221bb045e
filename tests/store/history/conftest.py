"""Artificial results and runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from workbench.model.evalset import Content, FunctionCall, IntermediateData, Invocation
from workbench.model.identity import CaseKey
from workbench.model.results import CaseResult, CaseStatus, Execution, MetricResult, MetricStatus, TurnResult
from workbench.model.trace import Span
from workbench.store.history.history import History
from workbench.store.history.history_queries import RunRecord


def make_record(run_id: str, **facts: Any) -> RunRecord:
    return RunRecord(run_id=run_id, started_at=datetime(2026, 11, 21, 14, 2, 7, tzinfo=UTC), root=Path("/p"), **facts)


def make_result(eval_id: str, *, answer: str = "hello", **facts: Any) -> CaseResult:
    invocation = Invocation(
        invocation_id="e-1",
        user_content=Content.of_text("hi", role="user"),
        final_response=Content.of_text(answer, role="model"),
        intermediate_data=IntermediateData(tool_uses=[FunctionCall(name="f", args={"x": None})]),
    )
    execution = Execution(
        turns=(TurnResult(invocation=invocation, duration_seconds=0.01),),
        spans=(Span(id="1", name="agent", start=0.0, end=0.01),),
        duration_seconds=0.01,
    )
    metric = MetricResult(name="m", score=1.0, threshold=0.5, status=MetricStatus.PASSED, scored=1, total=1)
    values = {"status": CaseStatus.PASSED, "metrics": (metric,), "execution": execution, **facts}
    key = CaseKey(target=values.pop("target", "t"), eval_set="sets/a.evalset.json", eval_id=eval_id)
    return CaseResult(case=key, eval_set_id="a", duration_seconds=0.01, **values)


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    with History.open(tmp_path) as opened_history:
        yield opened_history


@pytest.fixture
def store_run(history: History) -> Callable[..., str]:
    """Store a finished run with these results."""

    def store(run_id: str, *results: CaseResult, execution_key: str = "k", **facts: Any) -> str:
        from workbench.model.run_events import RunSummary

        history.begin_run(make_record(run_id, total=len(results), **facts))
        for result in results:
            history.finish_job(run_id, result, execution_key=f"{execution_key} {result.case.eval_id}")
        summary = RunSummary(total=len(results), passed=len(results))
        history.end_run(run_id, summary, duration_seconds=1.5, interrupted=False)
        history.delete_old_results(run_id)
        return run_id

    return store
