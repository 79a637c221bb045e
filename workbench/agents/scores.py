"""Custom metrics, run in a process of the target: what is sent, what comes back."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

from workbench.agents.channel import Message
from workbench.agents.host import AgentError, CustomScoreAnswer, CustomScoreRequest
from workbench.agents.leases import Lease
from workbench.agents.processes import Child, Exit
from workbench.agents.told import dependencies_told
from workbench.model.dependencies import Dependencies
from workbench.model.evalset import Invocation
from workbench.model.results import Failure, FailureKind, InvocationScore
from workbench.model.text import redact
from workbench.model.trajectory import trajectory_of

_EXPECTED = ("reference", "reference_trajectory")
_GIVEN = ("response", "predicted_trajectory", *_EXPECTED)


async def score_in(
    lease: Lease, numbers: itertools.count[int], request: CustomScoreRequest, *, alone: bool
) -> CustomScoreAnswer:
    """Run the metric in a process from `lease`. Raises AgentError, with `retry_alone` where another one killed it."""
    number = next(numbers)
    answered: asyncio.Future[Message | Exit] = asyncio.get_running_loop().create_future()

    dependencies: Dependencies | None = None

    def answer(value: Message | Exit) -> None:
        nonlocal dependencies
        if not isinstance(value, Exit) and value["type"] == "dependencies":
            dependencies = dependencies_told(dependencies, value)
        elif not answered.done():
            answered.set_result(value)

    def attach(child: Child) -> None:
        child.attach(number, answer)
        child.on_exit.append(answer)

    child = await lease.take([_message(number, request)], attach)
    reusable = False
    try:
        found = await answered
        reusable = True
    finally:
        child.detach(number)
        if answer in child.on_exit:
            child.on_exit.remove(answer)
        lease.give_back(child, reusable=reusable)
    if isinstance(found, Exit):
        message = f"{request.metric}: the process of the metric {found.why()}"
        failure = found.failure or Failure(kind=FailureKind.METRIC, message=message, stderr_tail=found.stderr or None)
        raise AgentError(
            failure,
            retry_alone=not alone and found.failure is None,
            stderr_tail=found.stderr,
            dependencies=dependencies,
        )
    if found["type"] == "failed":
        raise AgentError(_failure(request, found), dependencies=dependencies)
    return read_scores(found["result"], dependencies)


def _failure(request: CustomScoreRequest, found: Message) -> Failure:
    kind = FailureKind(found["kind"])
    return Failure(
        kind=kind if kind is FailureKind.INFRASTRUCTURE else FailureKind.METRIC,
        message=f"{request.metric}: {found['message']}",
        traceback=found.get("traceback"),
    )


def read_scores(result: dict[str, Any], dependencies: Dependencies | None) -> CustomScoreAnswer:
    """What a metric function gave, in the shape of the message `finished`."""
    return CustomScoreAnswer(
        score=result["score"],
        reason=_shown(result["reason"]),
        verdict=result["verdict"],
        per_invocation=tuple(
            InvocationScore.model_validate({**item, "reason": _shown(item.get("reason"))})
            for item in result["per_invocation"]
        ),
        scores=result["scores"],
        dependencies=dependencies,
    )


def _shown(reason: str | None) -> str | None:
    return None if reason is None else redact(reason)


def _message(number: int, request: CustomScoreRequest) -> Message:
    expected, scenario = request.expected, request.scenario
    return {
        "type": "score",
        "session": number,
        "metric": request.metric,
        "function": request.function,
        "threshold": request.threshold,
        "options": dict(request.options),
        "actual": [_dump(item) for item in request.actual],
        "expected": None if expected is None else [_dump(item) for item in expected],
        "left": request.left.as_message(),
        "scenario": None if scenario is None else scenario.model_dump(mode="json", exclude_none=True),
        "instances": [instance_of(request, index) for index in range(len(request.actual))],
    }


def _dump(invocation: Invocation) -> dict[str, Any]:
    return invocation.model_dump(mode="json", exclude_none=True)


def instance_of(request: CustomScoreRequest, index: int) -> dict[str, Any]:
    """One row as Vertex AI's custom metrics get it: what was said, done and measured.

    The columns of a dataset are all there; answers and trajectories are in the form in which they were given, but for
    those of an agent that ran: they replace what the dataset has.
    """
    actual = request.actual[index]
    expected = request.expected[index] if request.expected and index < len(request.expected) else None
    was_run = request.failure is not None
    is_row = bool(request.columns)
    instance: dict[str, Any] = {
        "prompt": actual.user_content.text() or None,
        "response": _text(actual),
        "predicted_trajectory": None
        if index in request.unknown
        else _trajectory(actual, is_row=is_row and not was_run),
        "reference": _text(expected),
        "reference_trajectory": _trajectory(expected, is_row=is_row),
    }
    if request.seconds:
        instance["latency_in_seconds"] = request.seconds[index]
    if was_run:
        instance["failure"] = request.failure
    for name in _EXPECTED if was_run else _GIVEN:
        if instance[name] is not None and request.columns.get(name) is not None:
            instance[name] = request.columns[name]
    return {**request.columns, **instance}


def _text(invocation: Invocation | None) -> str | None:
    return None if invocation is None or invocation.final_response is None else invocation.final_response.text()


def _trajectory(invocation: Invocation | None, *, is_row: bool) -> list[dict[str, Any]] | None:
    if invocation is None or (is_row and invocation.intermediate_data is None):
        return None  # of a row nothing is known then; in an eval set no calls are
    return [{"tool_name": call.name, "tool_input": dict(call.args or {})} for call in trajectory_of(invocation)]
