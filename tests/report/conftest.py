"""Hand-made results for reports; no agent runs."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from workbench.model.criteria import default_config
from workbench.model.evalset import Content, EvalCase, FunctionCall, IntermediateData, Invocation
from workbench.model.identity import CaseKey
from workbench.model.results import (
    CaseResult,
    CaseStatus,
    Execution,
    Failure,
    FailureKind,
    InvocationScore,
    MetricResult,
    MetricStatus,
    TurnResult,
)
from workbench.model.run_events import MetricSummary, RunSummary
from workbench.report.run_report import ReportedCase, RunReport


def invocation(prompt: str = "hi", response: str | None = "hello", calls: Any = ()) -> Invocation:
    """Build a turn with calls given as (name, args)."""
    return Invocation(
        user_content=Content.of_text(prompt, role="user"),
        final_response=None if response is None else Content.of_text(response, role="model"),
        intermediate_data=IntermediateData(tool_uses=[FunctionCall(name=name, args=args) for name, args in calls]),
    )


def metric(name: str, score: float | None, threshold: float | None = 1.0, **more: Any) -> MetricResult:
    """Build a metric of one turn, with the status that follows from score and threshold."""
    if score is None:
        status = MetricStatus.UNDEFINED
    elif threshold is None:
        status = MetricStatus.INFORMATIONAL
    else:
        status = MetricStatus.PASSED if score >= threshold else MetricStatus.FAILED
    values: dict[str, Any] = {
        "name": name,
        "score": score,
        "threshold": threshold,
        "status": status,
        "scored": int(score is not None),
        "total": 1,
        "per_invocation": (InvocationScore(score=score, reason=None if score is not None else "nothing to compare"),),
    }
    return MetricResult(**{**values, **more})


def make_reported_case(
    eval_id: str,
    status: CaseStatus,
    *,
    expected: Invocation | None = None,
    actual: Invocation | None = None,
    metrics: tuple[MetricResult, ...] = (),
    failure: Failure | None = None,
    repeat: int = 0,
    eval_set: str = "sets/light.evalset.json",
    **execution: Any,
) -> ReportedCase:
    """Build a result together with its expected case."""
    turns = () if actual is None else (TurnResult(invocation=actual, duration_seconds=0.25),)
    result = CaseResult(
        case=CaseKey(target="home", eval_set=eval_set, eval_id=eval_id),
        eval_set_id="light",
        repeat=repeat,
        status=status,
        duration_seconds=0.25,
        agent_seconds=0.25,
        failure=failure,
        metrics=metrics,
        execution=Execution(turns=turns, failure=failure, **execution),
    )
    case = None if expected is None else EvalCase(eval_id=eval_id, conversation=[expected])
    return ReportedCase(result, case)


def summarise(cases: list[ReportedCase], metrics: dict[str, MetricSummary] | None = None) -> RunSummary:
    """Count the statuses; the engine computes the metrics."""
    counts = {status: sum(case.result.status is status for case in cases) for status in CaseStatus}
    return RunSummary(
        total=len(cases),
        passed=counts[CaseStatus.PASSED],
        failed=counts[CaseStatus.FAILED],
        error=counts[CaseStatus.ERROR],
        not_evaluated=counts[CaseStatus.NOT_EVALUATED],
        skipped=counts[CaseStatus.SKIPPED],
        cancelled=counts[CaseStatus.CANCELLED],
        metrics=metrics or {},
    )


@pytest.fixture
def make_invocation() -> Callable[..., Invocation]:
    return invocation


@pytest.fixture
def make_metric() -> Callable[..., MetricResult]:
    return metric


@pytest.fixture
def make_case() -> Callable[..., ReportedCase]:
    return make_reported_case


@pytest.fixture
def make_report() -> Callable[..., RunReport]:
    def make(cases: list[ReportedCase], **more: Any) -> RunReport:
        return RunReport(
            run_id="20261121-1",
            started_at=datetime(2026, 11, 21, 8, 0, tzinfo=UTC),
            duration_seconds=1.5,
            summary=summarise(cases, more.pop("metrics", None)),
            cases=cases,
            criteria={"sets/light.evalset.json": default_config()},
            **more,
        )

    return make


@pytest.fixture
def every_status() -> list[ReportedCase]:
    """Return one case of each status, each for a different reason and with hostile text."""
    expected_turn = invocation("turn it off", "done", [("set_device", {"device_id": "device_2", "status": "OFF"})])
    actual_turn = invocation("turn it off", "done", [("set_device", {"device_id": "device_3", "status": "OFF"})])
    boom = Failure(
        kind=FailureKind.AGENT,
        message="ValueError: \x1b[31mboom\x00 <&> sk-abcdefghijklmnopqrstuvwx",
        turn=0,
        traceback="Traceback\n  ValueError: boom\x07",
        stderr_tail="\x1b]0;title\x07oops",
    )
    trajectory, response = "tool_trajectory_avg_score", "response_match_score"
    return [
        make_reported_case(
            "good",
            CaseStatus.PASSED,
            expected=expected_turn,
            actual=expected_turn,
            metrics=(metric(trajectory, 1.0), metric("latency", 0.2, None)),
        ),
        make_reported_case(
            "wrong|device",
            CaseStatus.FAILED,
            expected=expected_turn,
            actual=actual_turn,
            metrics=(metric(trajectory, 0.0), metric(response, 1.0, 0.8)),
        ),
        make_reported_case("boom", CaseStatus.ERROR, expected=expected_turn, failure=boom),
        make_reported_case(
            "空",
            CaseStatus.NOT_EVALUATED,
            expected=expected_turn,
            actual=expected_turn,
            metrics=(metric(response, None, 0.8, reason="nothing to compare"),),
        ),
        make_reported_case("left out", CaseStatus.SKIPPED, expected=expected_turn),
        make_reported_case("stopped", CaseStatus.CANCELLED, expected=expected_turn),
    ]
