"""The outcome of a case in a form that the oracle and the engine share: no times, no folders, no own wording."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from workbench.model.results import CaseResult, FailureKind, MetricResult

_NO_MODULE = re.compile(
    r"^(?:ModuleNotFoundError: No module named '|there is no module '|PackageNotFoundError: No .* was found for )"
    r"([\w-]+(?:\.[\w-]+)*).*",
    re.DOTALL,
)
_ADDRESS = re.compile(r" at 0x[0-9a-f]+| \(_\w+\.c:\d+\)")  # lines in C code move as well
_LOCATION = re.compile(r" \([^()]+:\d+\)$")  # the line in the agent: an edit above moves it


_ABORTED = (FailureKind.TIMEOUT, FailureKind.CRASH)
"""Only the kind of failure counts for such a case; what it did before is not compared."""


class Answer(NamedTuple):
    """One turn: the response, and each call as a name and arguments in JSON."""

    response: str | None
    calls: tuple[tuple[str, str], ...]


class Judgement(NamedTuple):
    """The result of one criterion."""

    metric: str
    score: float | None
    status: str
    threshold: float | None


@dataclass(frozen=True)
class Outcome:
    """The visible result of a case, as far as it does not depend on the time and place of the run."""

    answers: tuple[Answer, ...]
    state: str
    failure: str | None
    verdict: str
    judgements: tuple[Judgement, ...]

    def list_differences(self, other: Outcome) -> list[str]:
        """List the differences from another outcome, for messages."""
        return [
            f"{name}: {getattr(self, name)!r} != {getattr(other, name)!r}"
            for name in ("answers", "state", "failure", "verdict", "judgements")
            if getattr(self, name) != getattr(other, name)
        ]

    def has_same_execution(self, other: Outcome) -> bool:
        """Return whether the agent did the same, whatever the verdict."""
        return (self.answers, self.state, self.failure) == (other.answers, other.state, other.failure)


def make_outcome(result: CaseResult, *, root: Path, criteria: Iterable[str]) -> Outcome:
    """Make the outcome of a result of the engine. `criteria` are the metrics that the configuration names."""
    execution = result.execution
    if result.failure is not None and result.failure.kind in _ABORTED:
        return Outcome((), "null", result.failure.kind.value, result.status.value, ())
    criterion_names = frozenset(criteria)
    return Outcome(
        answers=tuple(_make_answer(turn.invocation.model_dump(mode="json"), root) for turn in execution.turns),
        state=dump(execution.final_state),
        failure=None if result.failure is None else mask_paths(_LOCATION.sub("", result.failure.message), root),
        verdict=result.status.value,
        judgements=tuple(_make_judgement(metric) for metric in result.metrics if metric.name in criterion_names),
    )


def _make_answer(invocation: dict[str, Any], root: Path) -> Answer:
    parts = (invocation["final_response"] or {}).get("parts") or [{"text": None}]
    calls = (invocation["intermediate_data"] or {}).get("tool_uses", ())
    text = parts[0]["text"]
    return Answer(
        None if text is None else mask_paths(text, root),
        tuple((call["name"], dump(call["args"])) for call in calls),
    )


def _make_judgement(metric: MetricResult) -> Judgement:
    score = None if metric.score is None else round(metric.score, 9)
    return Judgement(metric.name, score, metric.status.value, metric.threshold)


def dump(value: Any) -> str:
    """Return a value as JSON, the same text for equal values."""
    return json.dumps(value, sort_keys=True)


def mask_paths(text: str, root: Path) -> str:
    """Mask the folder and addresses in a message, and use one wording for a missing module."""
    return _NO_MODULE.sub(r"no module \1", _ADDRESS.sub("", text.replace(str(root), "ROOT")))
