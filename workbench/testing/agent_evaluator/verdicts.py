"""How repeated runs of a case come out as one verdict, as ADK's AgentEvaluator has it, and how that is told.

ADK takes the mean of a metric over all turns of all runs that have a score, and holds it against the threshold; a
criterion that gave no score at all has not passed. What could not do its work is told apart from what fell short: ADK
knows no such difference.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from workbench.model.results import CaseStatus, MetricResult, MetricStatus, were_asked_of_models
from workbench.model.text import counted
from workbench.report.aligned import aligned_lines
from workbench.report.explain import describe_metric, explain, reasons, safe, score_text
from workbench.report.judging import judging_lines, missing_samples_lines
from workbench.report.run_report import ReportedCase
from workbench.report.wording import SYMBOLS
from workbench.testing.session import ALL_REQUIRED

_MOST_TOLD = 8
"""Scores that a line can hold."""

_BAD = (CaseStatus.ERROR, CaseStatus.FAILED, CaseStatus.NOT_EVALUATED)


class EvaluationIncomplete(AssertionError):
    """No case fell short, but some could not be evaluated: an agent, a metric or the infrastructure did not work."""


@dataclass(frozen=True)
class CaseVerdict:
    """One case over all its runs. `lines` say why it did not pass; they are empty where it did.

    `missing_samples` has a line for each metric and run that lacks samples of a judge.
    """

    name: str
    status: CaseStatus
    lines: tuple[str, ...] = ()
    missing_samples: tuple[str, ...] = ()


def case_verdict(name: str, runs: Sequence[ReportedCase], *, requires_all_samples: bool = False) -> CaseVerdict:
    """The verdict on a case from its runs, of which there is at least one.

    With `requires_all_samples` a case is an ERROR instead of PASSED if samples of a judge are missing.
    """
    errors = [run for run in runs if run.result.status in (CaseStatus.ERROR, CaseStatus.CANCELLED, CaseStatus.SKIPPED)]
    if errors:
        return CaseVerdict(name, CaseStatus.ERROR, tuple(_error_lines(errors, of=len(runs))))
    metrics: dict[str, list[MetricResult]] = {}
    for run in runs:
        for metric in run.judged:
            metrics.setdefault(metric.name, []).append(metric)
    statuses, lines = set[CaseStatus](), list[str]()
    has_several_judges = sum(map(were_asked_of_models, metrics.values())) > 1
    for name_of_metric, results in metrics.items():
        judge = f"{name_of_metric}: " if has_several_judges else ""
        status, line = _metric_verdict(results)
        statuses.add(status)
        if status is not CaseStatus.PASSED:
            lines.append(line)
            lines += dict.fromkeys(safe(f"{judge}{told}") for result in results for told in judging_lines(result))
    if not metrics:
        lines += reasons(runs[0])
    status = next((each for each in (*_BAD, CaseStatus.PASSED) if each in statuses), CaseStatus.NOT_EVALUATED)
    if status is not CaseStatus.PASSED:
        lines += _difference_lines(runs)
    missing = tuple(line for run in runs for line in missing_samples_lines(run.judged))
    if status is CaseStatus.PASSED and missing and requires_all_samples:
        return CaseVerdict(name, CaseStatus.ERROR, (*missing, ALL_REQUIRED), missing)
    return CaseVerdict(name, status, tuple(lines), missing)


def failure_message(verdicts: Sequence[CaseVerdict], *, agent: str, runs: int) -> str:
    """What did not pass, case by case. Every line is safe to print."""
    bad = [verdict for verdict in verdicts if verdict.status is not CaseStatus.PASSED]
    counts = {
        "failed": CaseStatus.FAILED,
        "could not be evaluated (ERROR)": CaseStatus.ERROR,
        "not evaluated": CaseStatus.NOT_EVALUATED,
    }
    told = [
        f"{number} {word}" for word, status in counts.items() if (number := sum(v.status is status for v in bad)) > 0
    ]
    lines = [
        f"{len(bad)} of {counted(len(verdicts), 'case')} of {safe(agent)} did not pass "
        f"({counted(runs, 'run')} each): {', '.join(told)}"
    ]
    for verdict in bad:
        lines += ["", f"{SYMBOLS[verdict.status]} {verdict.status.value}  {safe(verdict.name)}"]
        lines += [f"  {line}" for line in verdict.lines]
    return "\n".join(lines)


def _metric_verdict(results: Sequence[MetricResult]) -> tuple[CaseStatus, str]:
    """One metric over all turns of all runs, and the line that says how it came out."""
    scores = [score for result in results for score in _scores_of(result)]
    threshold = results[0].threshold
    if not scores or threshold is None:
        return CaseStatus.NOT_EVALUATED, f"{describe_metric(results[0])} (not evaluated)"
    mean = statistics.mean(scores)  # exact: of equal scores it is that score
    passed = mean <= threshold if _lower_is_better(results) else mean >= threshold
    scored = [result for result in results if result.score is not None]
    if len(scores) == 1:
        line = describe_metric(scored[0])
    else:
        merged = results[0].model_copy(update={"score": mean, "reason": None, "hint": None, "scored": 1, "total": 1})
        told = ", ".join(map(score_text, scores)) if len(scores) <= _MOST_TOLD else f"{len(scores)} turns"
        line = f"{describe_metric(merged)}, the mean of {told}"
    return (CaseStatus.PASSED if passed else CaseStatus.FAILED), line


def _scores_of(result: MetricResult) -> list[float]:
    """The scores that one run adds: those of its turns, or of the whole where turns have none."""
    turns = [turn.score for turn in result.per_invocation if turn.score is not None]
    return turns or ([] if result.score is None else [result.score])


def _lower_is_better(results: Sequence[MetricResult]) -> bool:
    """Told by a verdict that would be the other one otherwise."""
    return any(
        (result.status is MetricStatus.PASSED) is (result.score < result.threshold)
        for result in results
        if result.score is not None and result.threshold is not None and result.score != result.threshold
    )


def _error_lines(errors: Sequence[ReportedCase], *, of: int) -> Iterator[str]:
    told: dict[tuple[str, ...], list[ReportedCase]] = {}
    for run in errors:
        told.setdefault(tuple(explain(run)) or (run.result.status.value,), []).append(run)
    for lines, runs in told.items():
        yield from _of_runs(runs, lines, of=of)


def _difference_lines(runs: Sequence[ReportedCase]) -> Iterator[str]:
    """Expected and actual, aligned: once for runs that did the same."""
    told: dict[tuple[str, ...], list[ReportedCase]] = {}
    for run in runs:
        if lines := tuple(aligned_lines(run)):
            told.setdefault(lines, []).append(run)
    for lines, same in told.items():
        yield from _of_runs(same, lines, of=len(runs))


def _of_runs(runs: Sequence[ReportedCase], lines: Sequence[str], *, of: int) -> Iterator[str]:
    """Lines under the runs they are about, where that is not all of them."""
    if len(runs) < of:
        yield f"run {', '.join(str(run.result.repeat + 1) for run in runs)} of {of}:"
    yield from lines
