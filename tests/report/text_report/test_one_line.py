"""Why a case did not pass, in one line."""

from __future__ import annotations

from typing import Any

import pytest

from workbench.model.evalset import EvalCase
from workbench.model.identity import CaseKey
from workbench.model.results import (
    CaseResult,
    CaseStatus,
    Execution,
    Failure,
    FailureKind,
    MetricResult,
    MetricStatus,
    TurnResult,
)
from workbench.report.run_report import ReportedCase
from workbench.report.text_report import explain_in_one_line


def make_turn(number: int) -> dict[str, Any]:
    return {
        "user_content": {"role": "user", "parts": [{"text": "go"}]},
        "intermediate_data": {"tool_uses": [{"name": "set_light", "args": {"room": "hall", "level": number}}]},
    }


def make_metric(
    name: str, score: float | None, status: MetricStatus = MetricStatus.FAILED, **more: Any
) -> MetricResult:
    return MetricResult(name=name, score=score, threshold=0.8, status=status, **more)


def explain(*metrics: MetricResult, status: CaseStatus = CaseStatus.FAILED, failure: Failure | None = None) -> str:
    expected, actual = (
        EvalCase.model_validate({"eval_id": "c", "conversation": [make_turn(level)]}) for level in (1, 2)
    )
    turns = tuple(TurnResult(invocation=turn, duration_seconds=0.0) for turn in actual.conversation or ())
    result = CaseResult(
        case=CaseKey(target="t", eval_set="s.evalset.json", eval_id="c"),
        eval_set_id="s",
        status=status,
        failure=failure,
        metrics=metrics,
        execution=Execution(turns=turns),
    )
    return explain_in_one_line(ReportedCase(result, expected))


TOO_LOW = make_metric("tool_trajectory_avg_score", 0.0)
BROKEN = make_metric("own", None, MetricStatus.ERROR, reason="ZeroDivisionError")
CRASH = Failure(kind=FailureKind.TIMEOUT, message="no answer\nin 5 s \x1b[31m", turn=1)


@pytest.mark.parametrize(
    ("metrics", "more", "why"),
    [
        ([TOO_LOW], {}, "set_light: level: expected 1, got 2"),
        (
            [make_metric("safety_v1", 0.5), make_metric("session_state", 0.1)],
            {},
            "set_light: level: expected 1, got 2",
        ),
        (
            [make_metric("final_state_a", 0.5), make_metric("final_state_b", 0.1)],
            {},
            "final_state_b: 0.10 < 0.80",
        ),
        ([TOO_LOW, BROKEN], {"status": CaseStatus.ERROR}, "own: could not be computed: ZeroDivisionError"),
        ([TOO_LOW], {"failure": CRASH, "status": CaseStatus.ERROR}, "timeout, turn 2: no answer"),
        ([], {}, "its scores are no longer stored"),
        ([], {"status": CaseStatus.NOT_EVALUATED}, "no criterion gave a verdict: no criterion has a threshold"),
    ],
)
def test_the_reason_is_the_failure_else_a_difference_else_the_lowest_criterion(
    metrics: list[MetricResult], more: dict[str, Any], why: str
) -> None:
    line = explain(*metrics, **more)

    assert line.startswith(why)
    assert "\n" not in line
    assert "\x1b" not in line
