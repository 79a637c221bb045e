"""The page of the HTML report: one file with its data, styles and program, which needs no network.

Text of a run reaches the page in two ways: through the template, which escapes it, and as JSON in a block of data,
which the program inserts as text only. A Content-Security-Policy allows nothing but the program and the styles of this
file.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, NamedTuple

from workbench.model.results import CaseStatus
from workbench.model.text import format_measured, neutralise, redact
from workbench.report.run_report import (
    QUARANTINE_SYMBOL,
    SYMBOLS,
    RunReport,
    describe_model_calls,
    set_heading,
    time_text,
    total_line,
)
from workbench.report.text_report import spending_line

if TYPE_CHECKING:
    from jinja2 import Template

_FILES = "workbench.report"
_FOLDER = "html_page"
_DATA = "<!-- data -->"
"""The place of the data in the template."""


class StatusCount(NamedTuple):
    symbol: str
    status: str
    cases: int


class SetRow(NamedTuple):
    """The cases of one eval set, counted by status."""

    name: str
    total: int
    passed: int
    not_passed: str


class MetricRow(NamedTuple):
    """One metric over the run, as texts."""

    name: str
    mean: str
    interval: str
    std: str
    scored: str


def render_page(report: RunReport, data: str) -> str:
    """Return the page. `data` is a JSON document about the report, as `dump` writes it."""
    program, styles = _read("page.js"), _read("page.css")
    page = _load_template().render(
        policy=_make_policy(program, styles),
        program=program,
        styles=styles,
        run_id=_safe(report.run_id),
        total=_safe(total_line(report)),
        started="" if report.started_at is None else time_text(report.started_at),
        command=_safe(report.command),
        counts=[*_count_statuses(report)],
        sets=[*_list_sets(report)],
        metrics=[*_list_metrics(report)],
        models=[_safe(text) for text in _list_spending(report)],
    )
    before, after = page.split(_DATA)
    # JSON has "<" only inside texts, where the escape means the same. Without it no text can end the block of data.
    return "".join((before, data.replace("<", "\\u003c"), after))


@cache
def _load_template() -> Template:
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(_read("page.html.jinja"))


@cache
def _read(name: str) -> str:
    return resources.files(_FILES).joinpath(_FOLDER, name).read_text(encoding="utf-8")


def _make_policy(program: str, styles: str) -> str:
    """Return the policy. It names the program and the styles by their hashes, so that the browser runs nothing else."""
    return (
        f"default-src 'none'; script-src {_hash(program)}; style-src {_hash(styles)}; img-src data:; base-uri 'none'; "
        "form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _safe(text: str) -> str:
    return neutralise(redact(text))


# The summary, which is part of the page also without JavaScript.


def _count_statuses(report: RunReport) -> Iterator[StatusCount]:
    quarantined = sum(case.result.is_quarantined for case in report.cases)
    counts = Counter(case.result.status for case in report.cases)
    counts[CaseStatus.FAILED] -= quarantined
    yield from (StatusCount(SYMBOLS[status], _word(status), counts[status]) for status in CaseStatus if counts[status])
    if quarantined:
        yield StatusCount(QUARANTINE_SYMBOL, "quarantined", quarantined)


def _list_sets(report: RunReport) -> Iterator[SetRow]:
    for (target, eval_set), cases in report.by_eval_set().items():
        words = ("quarantined" if case.result.is_quarantined else _word(case.result.status) for case in cases)
        counts = Counter(words)
        passed = counts.pop(_word(CaseStatus.PASSED), 0)
        not_passed = ", ".join(f"{count} {word}" for word, count in counts.items())
        yield SetRow(
            _safe(set_heading(target, eval_set, report.criteria.get(eval_set))), len(cases), passed, not_passed
        )


def _list_metrics(report: RunReport) -> Iterator[MetricRow]:
    for name, metric in report.summary.metrics.items():
        if metric.scored:
            mean, std = ("" if each is None else format_measured(name, each) for each in (metric.mean, metric.std))
            bounds = " to ".join(format_measured(name, bound) for bound in metric.interval or ())
            yield MetricRow(_safe(name), mean, bounds, std, f"{metric.scored:,} of {metric.total:,}")


def _list_spending(report: RunReport) -> Iterator[str]:
    yield from map(spending_line, report.summary.models)
    if report.summary.model_calls:
        yield describe_model_calls(report.summary.model_calls)


def _word(status: CaseStatus) -> str:
    return status.value.lower().replace("_", " ")
