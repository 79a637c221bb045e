"""Results of jobs: of one that never began, and as they are held and told when they have been stored."""

from __future__ import annotations

from typing import Any, Literal

from workbench.engine.plan import PlannedCase
from workbench.model.base import trusted_maker
from workbench.model.events import CaseFinished
from workbench.model.keys import JobKey
from workbench.model.results import CaseResult, CaseStatus, Execution, Failure

_finished = trusted_maker(CaseFinished, CaseFinished.model_fields.keys() - {"kind"})


def without_dependencies(result: CaseResult) -> CaseResult:
    """A result as it is held and shown: what it depended on is in the history, and large by the ten thousand."""
    if result.execution.dependencies is None:
        return result
    metrics = tuple(
        [m if m.dependencies is None else m.model_copy(update={"dependencies": None}) for m in result.metrics]
    )
    execution = result.execution.model_copy(update={"dependencies": None})
    return result.model_copy(update={"execution": execution, "metrics": metrics})


def finished_event(
    key: JobKey, result: CaseResult, *, source: Literal["executed", "stored"], in_history: bool, is_judged: bool
) -> CaseFinished:
    """What is said of a job that ended."""
    return _finished(
        {
            "case": key.case,
            "repeat": key.repeat,
            "status": result.status,
            "duration_seconds": result.duration_seconds,
            "failure": result.failure,
            "result": result,
            "source": source,
            "in_history": in_history,
            "is_judged": is_judged,
        }
    )


def without_execution(
    planned: PlannedCase, key: JobKey, status: CaseStatus, failure: Failure | None = None
) -> CaseResult:
    """The result of a job in which no agent did anything."""
    facts: dict[str, Any] = {"failure": failure, "execution": Execution(failure=failure)}
    if failure is not None:  # without one there is nothing to look at
        facts["expected_by_row"] = planned.expected_by_row
    return CaseResult(case=key.case, eval_set_id=planned.eval_set_id, repeat=key.repeat, status=status, **facts)
