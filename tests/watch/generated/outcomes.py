"""What a case gave, as the oracle and the engine both can say it: no times, no folders, no wording of ours."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from workbench.model.results import CaseResult, FailureKind, MetricResult

_NO_MODULE = re.compile(r"^(?:ModuleNotFoundError: No module named|there is no module) '([^']+)'.*", re.DOTALL)
_ADDRESS = re.compile(r" at 0x[0-9a-f]+| \(_\w+\.c:\d+\)")  # a line in C is where the agent raised, too
_LOCATION = re.compile(r" \([^()]+:\d+\)$")  # the line of the agent that raised: an edit above it moves it


_NO_END = (FailureKind.TIMEOUT, FailureKind.CRASH)
"""Of such a case nothing counts but that: what it had done until then is no verdict."""


class Answer(NamedTuple):
    """One turn: the response, and each call as a name and its arguments in JSON."""

    response: str | None
    calls: tuple[tuple[str, str], ...]


class Judgement(NamedTuple):
    """What one criterion found."""

    metric: str
    score: float | None
    status: str
    threshold: float | None


@dataclass(frozen=True)
class Outcome:
    """All of a case's result that a user can see and that is the same whenever and wherever it is run."""

    answers: tuple[Answer, ...]
    state: str
    failure: str | None
    verdict: str
    judgements: tuple[Judgement, ...]

    def differences(self, other: Outcome) -> list[str]:
        """What another outcome has that this one has not, for people."""
        return [
            f"{name}: {getattr(self, name)!r} != {getattr(other, name)!r}"
            for name in ("answers", "state", "failure", "verdict", "judgements")
            if getattr(self, name) != getattr(other, name)
        ]

    def same_execution(self, other: Outcome) -> bool:
        """Whether the agent did the same, however that was judged."""
        return (self.answers, self.state, self.failure) == (other.answers, other.state, other.failure)


def outcome_of(result: CaseResult, *, root: Path, criteria: Iterable[str]) -> Outcome:
    """The outcome of a result of the engine. `criteria` are the metrics that the configuration names."""
    execution = result.execution
    if result.failure is not None and result.failure.kind in _NO_END:
        return Outcome((), "null", result.failure.kind.value, result.status.value, ())
    named = frozenset(criteria)
    return Outcome(
        answers=tuple(_answer(turn.invocation.model_dump(mode="json"), root) for turn in execution.turns),
        state=dump(execution.final_state),
        failure=None if result.failure is None else without_root(_LOCATION.sub("", result.failure.message), root),
        verdict=result.status.value,
        judgements=tuple(_judgement(metric) for metric in result.metrics if metric.name in named),
    )


def _answer(invocation: dict[str, Any], root: Path) -> Answer:
    parts = (invocation["final_response"] or {}).get("parts") or [{"text": None}]
    calls = (invocation["intermediate_data"] or {}).get("tool_uses", ())
    text = parts[0]["text"]
    return Answer(
        None if text is None else without_root(text, root),
        tuple((call["name"], dump(call["args"])) for call in calls),
    )


def _judgement(metric: MetricResult) -> Judgement:
    score = None if metric.score is None else round(metric.score, 9)
    return Judgement(metric.name, score, metric.status.value, metric.threshold)


def dump(value: Any) -> str:
    """A value as JSON, the same text for equal values."""
    return json.dumps(value, sort_keys=True)


def without_root(text: str, root: Path) -> str:
    """A message without folder and addresses, and without what we add to Python's own for a module that is missing."""
    return _NO_MODULE.sub(r"no module \1", _ADDRESS.sub("", text.replace(str(root), "ROOT")))
