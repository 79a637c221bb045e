"""Runs as Markdown, for pull requests and notes: totals, a table for each eval set, what went wrong."""

from __future__ import annotations

import re

from workbench.model.criteria import EvalConfig
from workbench.model.results import MetricResult, MetricStatus
from workbench.model.text import one_line, redact
from workbench.report.explain import explain, score_text
from workbench.report.judging import samples_text, unsure_text
from workbench.report.run_report import NOT_GOOD, ReportedCase, RunReport, repeats, shown_metrics
from workbench.report.spending import spending_line
from workbench.report.wording import SYMBOLS, heading, total_line

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~])")


def markdown(report: RunReport) -> str:
    """The run as a Markdown document. Text from outside is escaped and never markup."""
    lines = [f"# workbench run {_escape(report.run_id)}", "", _escape(total_line(report)), ""]
    for spent in report.summary.models:
        lines += [_escape(spending_line(spent)), ""]
    for (target, eval_set), cases in report.by_eval_set().items():
        lines += [f"## {_escape(heading(target, eval_set))}", "", *_table(cases, report.criteria.get(eval_set)), ""]
    lines += _metrics(report)
    unstable = [entry for entry in repeats(report.outcomes) if entry.flaky]
    if unstable:
        lines += ["## Flaky", ""]
        lines += [f"- {_escape(entry.name)}: {entry.passed} of {entry.total} passed" for entry in unstable] + [""]
    unsure = [
        f"- {_title(case)}: {_escape(text)}"
        for case in report.cases
        for metric in case.judged
        if (text := unsure_text(metric)) is not None
    ]
    if unsure:
        lines += ["## Unsure", "", *unsure, ""]
    missing = [
        f"- {_title(case)}: {_escape(f'{metric.name}: {text}')}"
        for case in report.cases
        for metric in case.judged
        if (text := samples_text(metric)) is not None
    ]
    if missing:
        lines += ["## Samples missing", "", *missing, ""]
    bad = [case for case in report.cases if case.result.status in NOT_GOOD]
    if bad:
        lines += ["## What went wrong", ""]
    for case in bad:
        lines += [f"### {SYMBOLS[case.result.status]} {_title(case)}", ""]
        lines += [f"- {_escape(line)}" for line in explain(case)] + [""]
    return "\n".join(lines).rstrip() + "\n"


def _table(cases: list[ReportedCase], config: EvalConfig | None) -> list[str]:
    names = list(dict.fromkeys(metric.name for case in cases for metric in shown_metrics(case, config)))
    head = ["status", "case", *map(_escape, names), "seconds"]
    rows = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for case in cases:
        scores = {metric.name: _cell(metric) for metric in case.result.metrics}
        status = f"{SYMBOLS[case.result.status]} {case.result.status.value}"
        name = _escape(case.name) + (f" ({case.result.repeat + 1})" if case.result.repeat else "")
        cells = [status.replace("_", "\\_"), name, *(scores.get(metric, "") for metric in names)]
        seconds = case.result.agent_seconds
        rows.append("| " + " | ".join([*cells, f"{seconds:.2f}" if seconds else "-"]) + " |")
    return rows


def _cell(metric: MetricResult) -> str:
    if metric.score is None:
        return metric.status.value.lower()
    text = score_text(metric.score, metric.threshold)
    return f"**{text}**" if metric.status is MetricStatus.FAILED else text


def _metrics(report: RunReport) -> list[str]:
    asked = {
        metric.name
        for (_, eval_set), cases in report.by_eval_set().items()
        for case in cases
        for metric in shown_metrics(case, report.criteria.get(eval_set))
    }
    # Of what is always reported, such as tokens, only what somebody could report.
    shown = {name: metric for name, metric in report.summary.metrics.items() if metric.scored or name in asked}
    if not shown:
        return []
    rows = ["## Metrics", "", "| metric | mean | sample std | scored |", "|---|---|---|---|"]
    for name, metric in shown.items():
        mean = "" if metric.mean is None else f"{metric.mean:.4g}"
        std = "" if metric.std is None else f"{metric.std:.4g}"
        rows.append(f"| {_escape(name)} | {mean} | {std} | {metric.scored} of {metric.total} |")
    return [*rows, ""]


def _title(case: ReportedCase) -> str:
    key = case.result.case
    repeat = f" (repeat {case.result.repeat + 1})" if case.result.repeat else ""
    return f"{_escape(key.eval_set)}: {_escape(case.name)}{repeat}"


def _escape(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", one_line(redact(text)))
