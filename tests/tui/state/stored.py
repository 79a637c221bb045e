"""Results and runs as the history stores them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from workbench.model.identity import CaseKey, JobKey
from workbench.model.results import CaseResult, CaseStatus, MetricResult, MetricStatus
from workbench.store.history.history_queries import StoredJob, StoredRun, StoredScores

SET = "sets/lights.evalset.json"

NOW = datetime(2026, 3, 4, 12, tzinfo=UTC)


def metric(name: str, score: float | None, threshold: float | None = 0.5, **more: Any) -> MetricResult:
    if score is None:
        status = MetricStatus.UNDEFINED
    elif threshold is None:
        status = MetricStatus.INFORMATIONAL
    else:
        status = MetricStatus.PASSED if score >= threshold else MetricStatus.FAILED
    return MetricResult(name=name, score=score, threshold=threshold, status=status, scored=1, total=1, **more)


def result(eval_id: str, *metrics: MetricResult, repeat: int = 0, status: CaseStatus | None = None) -> CaseResult:
    has_failed = any(one.status is MetricStatus.FAILED for one in metrics)
    return CaseResult(
        case=CaseKey(target="t", eval_set="s.evalset.json", eval_id=eval_id),
        eval_set_id="s",
        repeat=repeat,
        status=status or (CaseStatus.FAILED if has_failed else CaseStatus.PASSED),
        duration_seconds=0.5,
        agent_seconds=0.5,
        metrics=metrics,
    )


def make_stored_scores(case_result: CaseResult) -> StoredScores:
    time = datetime(2026, 1, 1, tzinfo=UTC)
    key = JobKey(case=case_result.case, repeat=case_result.repeat)
    return StoredScores(StoredJob("r", key, case_result.status, 0.5, 0.5, None, time, "e", "s"), case_result.metrics)


def make_run(number: int, **more: Any) -> StoredRun:
    values: dict[str, Any] = {
        "run_id": f"r{number}",
        "started_at": NOW + timedelta(hours=number),
        "root": Path("/project"),
        "ended": True,
        "duration_seconds": 12.0,
        "total": 2,
        "options": {"selections": [{"eval_set": SET, "cases": None}], "scores": True},
        **more,
    }
    return StoredRun.model_validate(values)
