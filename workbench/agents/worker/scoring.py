"""Custom metrics: functions of the user that score a case, in either of two shapes.

ADK's is called once for a case, `f(eval_metric, actual_invocations, expected_invocations, conversation_scenario)`, with
google-adk's own types, and returns score and verdict. Vertex AI's is called for each invocation, `f(instance)` with a
dict, and returns a number or `{name: score}`. The signature decides which one it is.
"""

from __future__ import annotations

import importlib
import math
import sys

from .adapters.base import AgentFault, LoadError
from .adapters.function import is_async, read_positional_parameters
from .faults import summarize
from .loading import find_object, import_user_module
from .wire import describe, make_json_safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Awaitable

    from .adapters.base import Adapter

_SHAPES = "f(instance), or f(eval_metric, actual_invocations, expected_invocations, conversation_scenario)"
_EXPLANATIONS = ("explanation", "reason", "rationale")


class MetricFunction:
    """A metric function. `score` returns the result, or an awaitable of it if `is_async`."""

    def __init__(self, path: str, function: Any) -> None:
        self._path = path
        self._function = function
        self.is_async = is_async(function)

    def score(self, request: dict[str, Any]) -> dict[str, Any] | Awaitable[dict[str, Any]]:
        """Score the case of a `score` message."""
        raise NotImplementedError


def find(path: str, adapter: Adapter) -> MetricFunction:
    """Return the metric function at a dotted path. Raises AgentFault of the kind `metric` if it does not exist."""
    try:
        function = _import(path, adapter)
        required, optional, more = read_positional_parameters(function, path)
    except LoadError as error:
        raise AgentFault(str(error), kind="metric") from error
    if more or len(required) <= 4 <= len(required) + len(optional):
        return _AdkMetric(path, function)
    if len(required) <= 1 <= len(required) + len(optional):
        return RowMetric(path, function)
    names = ", ".join(required + optional)
    raise AgentFault(f"{path} takes ({names}), expected {_SHAPES}", kind="metric")


def _import(path: str, adapter: Adapter) -> Any:
    module, _, name = path.rpartition(".")
    if not module:
        raise LoadError(f"{path!r} does not name a metric function: expected the dotted path package.module.function")
    roots = adapter.import_roots()
    _register_agent_package(module, adapter)
    try:
        import_user_module(module, roots)
    except LoadError:
        raise
    except BaseException as error:  # including sys.exit
        raise LoadError(f"cannot import {module}: {summarize(error)}") from error
    function = find_object(f"{module}:{name}", roots, wanted="the metric function")
    if not callable(function):
        raise LoadError(f"{path} is {describe(function)}, expected a function")
    return function


def _register_agent_package(module: str, adapter: Adapter) -> None:
    """Register the agent's package as `agent`, as `adk eval` does: metrics are written as `agent.metrics.f` there."""
    if module.split(".", 1)[0] != "agent" or adapter.target["kind"] != "adk" or "agent" in sys.modules:
        return
    try:
        importlib.import_module("agent")
    except ModuleNotFoundError:
        folder = adapter.target["location"].replace("\\", "/").rstrip("/").rpartition("/")[2]
        sys.modules["agent"] = import_user_module(folder, adapter.import_roots())


class RowMetric(MetricFunction):
    """A metric of Vertex AI's shape."""

    def score(self, request: dict[str, Any]) -> dict[str, Any] | Awaitable[dict[str, Any]]:
        if self.is_async:
            return self._score_later(request)
        return self._summarize(request, [self._function(instance) for instance in request["instances"]])

    async def _score_later(self, request: dict[str, Any]) -> dict[str, Any]:
        return self._summarize(request, [await self._function(instance) for instance in request["instances"]])

    def _summarize(self, request: dict[str, Any], values: list[Any]) -> dict[str, Any]:
        read = [self._read(value, request["metric"]) for value in values]
        scores = [item["score"] for item in read if item["score"] is not None]
        reasons = [item["reason"] for item in read if item["reason"]]
        return {
            "score": sum(scores) / len(scores) if scores else None,
            "reason": reasons[0] if reasons else None if scores else "the metric gave no score",
            "verdict": None,
            "per_invocation": [{"score": item["score"], "reason": item["reason"]} for item in read],
            "scores": read[0]["scores"] if len(read) == 1 else {},
        }

    def _read(self, value: Any, metric: str) -> dict[str, Any]:
        """Read one score: a number, None, or a dict with it under the metric's name, `score`, or its only numeric
        key."""
        if not isinstance(value, dict):
            return {"score": self._read_number(value, ""), "reason": None, "scores": {}}
        numbers = [key for key, item in value.items() if isinstance(item, (int, float))]
        key = next((name for name in (metric, "score") if name in value), numbers[0] if len(numbers) == 1 else None)
        if key is None:
            raise self._make_fault(f"{describe(value)}, without the key {metric!r} or 'score'")
        reason = next((value[name] for name in _EXPLANATIONS if isinstance(value.get(name), str)), None)
        others = {str(name): make_json_safe(item) for name, item in value.items() if name != key}
        return {"score": self._read_number(value[key], f"under {key!r}"), "reason": reason, "scores": others}

    def _read_number(self, value: Any, place: str) -> float | None:
        if value is None:
            return None
        try:
            number = float(value)  # also bool, and numpy's numbers
        except (TypeError, ValueError):
            number = float("nan")
        if not math.isfinite(number) or isinstance(value, str):
            raise self._make_fault(f"{describe(value)} {place}".rstrip())
        return number

    def _make_fault(self, found: str) -> AgentFault:
        return AgentFault(f"{self._path} returned {found}, expected a number or {{name: score}}", kind="metric")


class _AdkMetric(MetricFunction):
    """A metric of ADK's shape."""

    def score(self, request: dict[str, Any]) -> dict[str, Any] | Awaitable[dict[str, Any]]:
        arguments = self._build_arguments(request)
        if self.is_async:
            return self._score_later(arguments)
        return self._read(self._function(*arguments))

    async def _score_later(self, arguments: list[Any]) -> dict[str, Any]:
        return self._read(await self._function(*arguments))

    def _build_arguments(self, request: dict[str, Any]) -> list[Any]:
        try:
            from google.adk.evaluation.eval_case import ConversationScenario, Invocation
            from google.adk.evaluation.eval_metrics import BaseCriterion, EvalMetric
        except ImportError as error:
            raise AgentFault(
                f"{self._path} takes ADK's arguments, but google-adk cannot be imported by {sys.executable}: {error}",
                kind="metric",
            ) from error
        criterion = BaseCriterion.model_validate({**request["options"], "threshold": request["threshold"] or 0.0})
        expected, scenario = request["expected"], request["scenario"]
        return [
            EvalMetric(metric_name=request["metric"], criterion=criterion, custom_function_path=self._path),
            [Invocation.model_validate(item) for item in request["actual"]],
            None if expected is None else [Invocation.model_validate(item) for item in expected],
            None if scenario is None else ConversationScenario.model_validate(scenario),
        ]

    def _read(self, value: Any) -> dict[str, Any]:
        if not hasattr(value, "overall_score") or not hasattr(value, "overall_eval_status"):
            raise AgentFault(f"{self._path} returned {describe(value)}, expected an EvaluationResult", kind="metric")
        return {
            "score": self._read_number(value.overall_score),
            "reason": None if value.overall_score is not None else "the metric gave no score",
            "verdict": _read_verdict(value.overall_eval_status),
            "per_invocation": [
                {"score": score, "reason": None if score is not None else "the metric gave no score"}
                for score in (self._read_number(item.score) for item in value.per_invocation_results or ())
            ],
            "scores": {},
        }

    def _read_number(self, value: Any) -> float | None:
        if value is None:
            return None
        number = float(value)
        if not math.isfinite(number):
            raise AgentFault(f"{self._path} gave the score {number}, expected a finite number", kind="metric")
        return number


def _read_verdict(status: Any) -> str:
    name = str(getattr(status, "name", status)).lower()
    return name if name in ("passed", "failed") else "not_evaluated"
