"""A comparison of two runs as text for people and as a versioned JSON document."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from workbench.model.results import CaseStatus
from workbench.model.text import counted, one_line, redact
from workbench.report.comparing import Change, ComparedCase, RunComparison, ScoreChange, Verdict
from workbench.report.json_format import SCHEMA_VERSION, summary_record
from workbench.report.table import Style, cell_length
from workbench.report.wording import PARTLY_JUDGED, SYMBOLS, counts_text, cut_short, duration_text, when
from workbench.store.history import StoredRun

CHANGE_SYMBOLS = {
    Change.REGRESSION: "▼",
    Change.FLAKY: "~",
    Change.FIX: "▲",
    Change.OTHER: "±",
    Change.NEW: "+",
    Change.GONE: "-",
    Change.SAME: "=",
}
_COLOURS = {
    Change.REGRESSION: "31",
    Change.FLAKY: "33",
    Change.FIX: "32",
    Change.OTHER: "35",
    Change.NEW: "36",
    Change.GONE: "2",
    Change.SAME: "2",
}
_WORD_WIDTH = max(map(len, Change))
_NAME_WIDTH = 48


def comparison_lines(comparison: RunComparison, *, style: Style, show_same: bool) -> list[str]:
    """The comparison for people. `show_same` lists the cases that came out alike, too."""
    lines = [_run_line("before", comparison.before), _run_line("after", comparison.after)]
    lines += [f"  {_safe(sentence)}" for sentence in comparison.judged_differently]
    shown = [case for case in comparison.cases if show_same or case.change is not Change.SAME or case.changed_scores]
    if shown:
        lines.append("")
    width = min(max((cell_length(_name(case)) for case in shown), default=0), _NAME_WIDTH)
    for case in shown:
        lines += _case_lines(case, style=style, width=width)
    if comparison.metrics:
        lines.append("")
        lines += _metric_lines(comparison)
    return [*lines, "", style.paint(changes_text(comparison), "1")]


def changes_text(comparison: RunComparison) -> str:
    """How many cases changed in which way: `1 regression, 2 fixes, 7 same`."""
    words = {Change.REGRESSION: "regressions", Change.FIX: "fixes"}
    counts = [
        f"{count} {words.get(change, change.value) if count != 1 else change.value}"
        for change, count in comparison.counts.items()
        if count
    ]
    return ", ".join(counts) or "no case ran in either"


def verdict_text(verdict: Verdict | None) -> str:
    """A verdict in a word, with how many of several repeats passed."""
    if verdict is None:
        return "not run"
    text = f"{SYMBOLS[verdict.status]} {verdict.status.value}"
    passed = sum(status is CaseStatus.PASSED for status in verdict.statuses)
    return text if len(verdict.statuses) == 1 else f"{text} {passed}/{len(verdict.statuses)}"


def score_change_text(score: ScoreChange) -> str:
    """`0.5 → 1 (+0.5)`; without the difference where there is none."""
    difference = f" ({score.difference:+.4g})" if score.difference else ""
    return f"{_number(score.before)} → {_number(score.after)}{difference}"


def comparison_record(comparison: RunComparison) -> dict[str, Any]:
    """The document of `workbench compare --format json`; its version is that of the other documents."""
    return {
        "schema_version": SCHEMA_VERSION,
        "before": _run_record(comparison.before),
        "after": _run_record(comparison.after),
        "judged_differently": list(comparison.judged_differently),
        "counts": {change.name.lower(): count for change, count in comparison.counts.items()},
        "metrics": {
            metric.name: {
                "before": metric.before,
                "after": metric.after,
                "difference": metric.difference,
                "cases": metric.cases,
            }
            for metric in comparison.metrics
        },
        "cases": [_case_record(case) for case in comparison.cases],
    }


def _run_line(word: str, run: StoredRun) -> str:
    ended = "" if run.duration_seconds is None else f", {duration_text(run.duration_seconds)}"
    mark = f", {cut_short(run)}" if cut_short(run) else ""
    return f"{word:<6}  {_safe(run.run_id)}  {when(run.started_at)}  {counts_text(run.summary)}{ended}{mark}"


def _case_lines(case: ComparedCase, *, style: Style, width: int) -> Iterator[str]:
    word = style.paint(f"{CHANGE_SYMBOLS[case.change]} {case.change.value:<{_WORD_WIDTH}}", _COLOURS[case.change])
    name = _name(case)
    padding = " " * max(width - cell_length(name), 0)
    reason = f"  ({case.reason})" if case.reason else ""
    yield f"{word}  {name}{padding}  {verdict_text(case.before)} → {verdict_text(case.after)}{reason}"
    for side, verdict in (("before", case.before), ("after", case.after)):
        if verdict is not None and verdict.misses_samples:
            yield f"    {side}: {PARTLY_JUDGED}"
    for score in case.changed_scores:
        yield f"    {_safe(score.name)}  {score_change_text(score)}"
    if case.asks_otherwise:
        yield "    the case or its target was changed in between: the agent was not asked the same"
    elif case.judged_otherwise:
        yield "    the expectations or criteria were changed in between"


def _metric_lines(comparison: RunComparison) -> Iterator[str]:
    names = [_safe(metric.name) for metric in comparison.metrics]
    width = max(map(cell_length, names))
    for name, metric in zip(names, comparison.metrics, strict=True):
        yield (
            f"{name}{' ' * (width - cell_length(name))}  mean {metric.before:.4g} → {metric.after:.4g} "
            f"({metric.difference:+.4g})  over {counted(metric.cases, 'case')} of both"
        )


def _name(case: ComparedCase) -> str:
    return _safe(str(case.case))


def _number(score: float | None) -> str:
    return "no score" if score is None else f"{score:.4g}"


def _safe(text: str) -> str:
    return one_line(redact(text))


def _run_record(run: StoredRun) -> dict[str, Any]:
    return {
        "run_id": run.run_id,
        "started_at": run.started_at.isoformat(),
        "duration_seconds": run.duration_seconds,
        "interrupted": run.interrupted or not run.ended,
        "summary": summary_record(run.summary),
    }


def _case_record(case: ComparedCase) -> dict[str, Any]:
    return {
        "target": case.case.target,
        "eval_set": case.case.eval_set,
        "eval_id": case.case.eval_id,
        "occurrence": case.case.occurrence,
        "change": case.change.name.lower(),
        "reason": case.reason or None,
        "asks_otherwise": case.asks_otherwise,
        "judged_otherwise": case.judged_otherwise,
        "before": _verdict_record(case.before),
        "after": _verdict_record(case.after),
    }


def _verdict_record(verdict: Verdict | None) -> dict[str, Any] | None:
    if verdict is None:
        return None
    return {
        "status": verdict.status.value,
        "repeats": [status.value for status in verdict.statuses],
        "scores": dict(verdict.scores),
        "partly_judged": verdict.misses_samples,
        "duration_seconds": verdict.duration_seconds,
        "agent_seconds": verdict.agent_seconds,
    }
