"""Runs as JSON: the versioned shape of `--format json` and `jsonl`, documented in `docs/formats.md`.

Numbers that JSON does not have (NaN, infinities) become null; text has what looks like a secret removed and
characters that steer a terminal escaped.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from workbench.model.agreement import agreement_of, is_unsure
from workbench.model.by_identity import by_identity
from workbench.model.criteria import EvalConfig
from workbench.model.events import RunSummary
from workbench.model.results import (
    CaseResult,
    CaseStatus,
    Execution,
    InvocationScore,
    MetricResult,
    TurnResult,
    were_asked_of_models,
)
from workbench.model.text import mask_named, may_be_redacted, names_secret, redact
from workbench.model.trajectory import trajectory_of
from workbench.report.differences import Difference, name_at
from workbench.report.run_report import ReportedCase, RunFacts, RunReport

SCHEMA_VERSION = 1
"""Raised when a key is removed or changes its meaning; new keys may appear without."""

_HEAD = {"schema_version": SCHEMA_VERSION, "kind": "case"}

# C1 controls, line separators and marks that reorder text: legal in JSON, and obeyed by terminals.
_STEERING = re.compile("[\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_SURROGATES = re.compile("[\ud800-\udfff]")


def json_document(report: RunReport) -> str:
    """The whole run as one document: indented, but with one line for each case, which is ten times as fast to write."""
    return "".join(json_pieces(report, map(case_text, report.cases)))


def case_text(case: ReportedCase, head: Mapping[str, Any] | None = None) -> str:
    """One case as a line of the document: `case_record` as JSON, behind what stands in `head`."""
    text = dump({**(head or {}), **case_record(case, metrics=())})
    metrics = ", ".join(map(_metric_text, case.result.metrics))
    return text.replace(_NO_METRICS, f"{_NO_METRICS[:-1]}{metrics}]", 1)  # a key has its quotes nowhere before


_NO_METRICS = '"metrics": []'


@by_identity(at_most=1024, but=lambda metric: were_asked_of_models((metric,)))
def _metric_text(metric: MetricResult) -> str:
    """One metric as JSON: together they are most of the text of a case, and by the thousand cases share theirs."""
    return dump(metric_record(metric))


def json_pieces(report: RunFacts, cases: Iterable[str]) -> Iterator[str]:
    """The document, piece by piece, of what `case_text` gave for each case."""
    head = dump(run_record(report), indent=2).removesuffix("\n}")
    yield f'{head},\n  "cases": [\n'
    comma = ""
    for text in cases:
        yield f"{comma}    {text}"
        comma = ",\n"
    yield "\n  ]\n}\n"


def json_lines(report: RunReport) -> str:
    """The run as lines: one for each case, then one for the run. The same lines are streamed while it runs."""
    return "".join([*map(case_line, report.cases), run_line(report)])


def case_line(case: ReportedCase, head: Mapping[str, Any] = _HEAD) -> str:
    """One finished case as a line of JSON, behind what stands in `head`."""
    return f"{case_text(case, head)}\n"


def run_line(report: RunFacts) -> str:
    """What there is to say about the whole run, as the last line of a stream."""
    return dump({"kind": "run", **run_record(report)}) + "\n"


def run_record(report: RunFacts) -> dict[str, Any]:
    """Everything but the cases."""
    return {
        "schema_version": SCHEMA_VERSION,
        "run_id": report.run_id,
        "started_at": report.started_at.isoformat() if report.started_at is not None else None,
        "duration_seconds": report.duration_seconds,
        "interrupted": report.interrupted,
        "command": report.command,
        "summary": summary_record(report.summary),
        "criteria": {eval_set: criteria_record(config) for eval_set, config in report.criteria.items()},
        "options": dict(report.options),
        "versions": dict(report.versions),
    }


def summary_record(summary: RunSummary) -> dict[str, Any]:
    """Cases by status, and the metrics over the run."""
    return summary.model_dump(mode="json")


def criteria_record(config: EvalConfig) -> dict[str, Any]:
    """By what the cases of a set were judged, and which file said so."""
    return {
        "source": config.source,
        "criteria": [
            {"name": criterion.metric, "threshold": criterion.threshold, "options": criterion.options}
            for criterion in config.criteria
        ],
    }


def case_record(case: ReportedCase, *, metrics: Sequence[MetricResult] | None = None) -> dict[str, Any]:
    """One case of one repeat, with its own metrics unless others are given."""
    result = case.result
    return {
        "target": result.case.target,
        "eval_set": result.case.eval_set,
        "eval_set_id": result.eval_set_id,
        "eval_id": result.case.eval_id,
        "occurrence": result.case.occurrence,
        "repeat": result.repeat,
        "status": result.status.value,
        "unsure": any(map(is_unsure, result.metrics)),
        "error": error_record(result),
        "duration_seconds": result.duration_seconds,
        "agent_seconds": result.agent_seconds,
        "metrics": metric_records(result.metrics if metrics is None else metrics),
        "simulation": simulation_record(result.execution),
        "turns": [turn_record(turn, result) for turn in result.execution.turns],
        "differences": difference_records(case),
    }


def simulation_record(execution: Execution) -> dict[str, Any] | None:
    """How a model played the user; None where none did."""
    return None if execution.simulation is None else execution.simulation.model_dump(mode="json")


def error_record(result: CaseResult) -> dict[str, Any] | None:
    """Why a case ended in ERROR: what could not run, or else the metric that could not be computed."""
    failure = result.failure
    if failure is not None:
        return failure.model_dump(mode="json")
    if result.status is not CaseStatus.ERROR:
        return None
    reasons = [f"{metric.name}: {metric.reason}" for metric in result.metrics if metric.status.value == "ERROR"]
    return {"kind": "metric", "message": "; ".join(reasons), "turn": None, "traceback": None, "stderr_tail": None}


def metric_records(metrics: Iterable[MetricResult]) -> list[dict[str, Any]]:
    """The metrics of a case."""
    return [metric_record(metric) for metric in metrics]


def metric_record(metric: MetricResult) -> dict[str, Any]:
    """One metric on one case."""
    return {
        "name": metric.name,
        "score": metric.score,
        "threshold": metric.threshold,
        "status": metric.status.value,
        "reason": metric.reason,
        "hint": metric.hint,
        "scored": metric.scored,
        "total": metric.total,
        "unsure": is_unsure(metric),
        "judged_by": _sample_record(metric),
        "per_invocation": [_score_record(score) for score in metric.per_invocation],
        "details": metric.details,
    }


def _sample_record(metric: MetricResult) -> dict[str, int] | None:
    """How many samples the verdict rests on, on the turn (from 0) where most are missing; None if none is."""
    count = metric.missing_samples
    return None if count is None else {"read": count.read, "asked": count.asked, "turn": count.turn - 1}


def _score_record(score: InvocationScore) -> dict[str, Any]:
    """One metric on one turn, with what a judge model said, and how far its samples agree, where one was asked."""
    if score.judgement is None:
        return score.model_dump(mode="json", exclude={"judgement"})
    agreement = agreement_of(score.judgement)
    return {**score.model_dump(mode="json"), "agreement": None if agreement is None else agreement.share}


def turn_record(turn: TurnResult, of: CaseResult) -> dict[str, Any]:
    """One turn of a result as the agent did it."""
    response = turn.invocation.final_response
    calls = [{"name": call.name, "args": call.args} for call in trajectory_of(turn.invocation)]
    return {
        "user": turn.invocation.user_content.text(),
        "response": response.text() if response is not None else None,
        "trajectory": calls if of.knows_calls(turn) else None,
        "duration_seconds": turn.duration_seconds,
        "inference_calls": turn.inference_calls,
        "usage": turn.usage.model_dump(mode="json") if turn.usage is not None else None,
    }


def difference_records(case: ReportedCase) -> list[dict[str, Any]]:
    """All ways in which a case is not as expected: turn by turn, then those of the final state, whose turn is null."""
    turns: list[tuple[int | None, tuple[Difference, ...]]] = [*enumerate(case.differences)]
    turns.append((None, case.state_differences))
    return [{"turn": turn, **_difference_record(difference)} for turn, found in turns for difference in found]


def _difference_record(difference: Difference) -> dict[str, Any]:
    """One way in which a turn is not as expected. Positions of calls count from 0."""
    return {
        "kind": difference.kind.value,
        "tool": difference.tool or None,
        "expected_call": difference.expected_call,
        "actual_call": difference.actual_call,
        "path": list(difference.path),
        "expected": mask_named(difference.expected, name_at(difference.path)),
        "actual": mask_named(difference.actual, name_at(difference.path)),
    }


_STRICT: Any = {"ensure_ascii": False, "allow_nan": False}
_encode = json.JSONEncoder(**_STRICT).encode


def dump(value: Any, *, indent: int | None = None) -> str:
    """A value as JSON text that any reader takes and no terminal obeys."""
    try:
        text = (_encode if indent is None else json.JSONEncoder(indent=indent, **_STRICT).encode)(value)
    except (TypeError, ValueError):  # it is more than JSON has a way to write
        pass
    else:
        if text.isascii() and "\x7f" not in text and not may_be_redacted(text):  # most are so, and need no cleaning
            return text
    text = json.dumps(_clean(value), ensure_ascii=False, allow_nan=False, indent=indent, default=str)
    return _STEERING.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _clean(value: Any) -> Any:
    """The value with secrets removed, and without the numbers and half characters that JSON has no way to write."""
    if value is None:
        return None
    if isinstance(value, str):
        return redact(value) if value.isascii() else _SURROGATES.sub("\ufffd", redact(value))
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, list | tuple):
        return [_clean(item) for item in value]
    if isinstance(value, dict | Mapping):  # whether it is another mapping takes longer to find out
        return dict(_clean_member(str(key), item) for key, item in value.items())
    return value


def _clean_member(key: str, value: Any) -> tuple[str, Any]:
    """As `_clean`, for a value that is a secret where its key says so."""
    cleaned, is_of_secret = _clean_key(key)
    return cleaned, _clean(mask_named(value, key) if is_of_secret else value)


@lru_cache(maxsize=1_000)  # a report has the same few again and again
def _clean_key(key: str) -> tuple[str, bool]:
    """The key cleaned, and whether it says that its value is a secret."""
    return _clean(key), names_secret(key)
