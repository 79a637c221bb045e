"""Reports as JSON, JSON lines, CSV, JUnit XML, Markdown and HTML."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from pydantic import BaseModel

from workbench.model.criteria import EvalConfig
from workbench.model.evalset import Invocation
from workbench.model.facts import cache_by_identity, pause_gc
from workbench.model.results import (
    CaseResult,
    CaseStatus,
    InvocationScore,
    MetricResult,
    MetricStatus,
    TurnResult,
    has_judgements,
    has_unsure_metric,
    is_unsure,
    measure_agreement,
)
from workbench.model.run_events import RunSummary
from workbench.model.text import (
    format_measured,
    mask_named_secrets,
    may_be_redacted,
    may_name_secret,
    neutralise,
    redact,
    redacted_line,
)
from workbench.model.turn_diff import Difference, find_name
from workbench.report.explanation import find_causes, find_reasons
from workbench.report.run_report import (
    NOT_GOOD,
    QUARANTINE_SYMBOL,
    SYMBOLS,
    ReportedCase,
    RunFacts,
    RunReport,
    call_records,
    count_repeats,
    describe_model_calls,
    describe_sources,
    format_metric_errors,
    mark_replayed,
    missing_samples_lines,
    quarantine_lines,
    samples_text,
    set_heading,
    shown_metrics,
    status_text,
    total_line,
    unsure_text,
)
from workbench.report.text_report import explain, explain_at_length, explain_in_one_line, list_causes, spending_line

if TYPE_CHECKING:
    from workbench.store.history.history_queries import StoredRun

# JSON: the versioned documents of `--format json` and `jsonl`, described in `docs/formats.md`.

SCHEMA_VERSION = 2
"""Increased when a key is removed or changes its meaning. New keys do not increase it."""

_HEAD = {"schema_version": SCHEMA_VERSION, "kind": "case"}

# C1 controls, line separators and marks that reorder text: legal in JSON, but interpreted by terminals.
_STEERING = re.compile("[\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_SURROGATES = re.compile("[\ud800-\udfff]")


def json_document(report: RunReport) -> str:
    """Write the run as one indented document, with one line for each case, which is ten times faster."""
    return "".join(json_pieces(report, map(case_text, report.cases)))


def case_text(case: ReportedCase, head: Mapping[str, Any] | None = None) -> str:
    """Write one case as a line of the document: the keys of `head`, then those of `case_record`."""
    text = dump({**(head or {}), **case_record(case, metrics=())})
    metrics = ", ".join(map(_metric_text, case.result.metrics))
    return text.replace(_NO_METRICS, f"{_NO_METRICS[:-1]}{metrics}]", 1)  # no earlier text can contain an unescaped key


_NO_METRICS = '"metrics": []'


def _metric_text(metric: MetricResult) -> str:
    """Write one metric as JSON. Metrics are most of the text of a case, and thousands of cases share them."""
    score = metric.score
    if type(score) is not float or not math.isfinite(score) or not _is_measurement(metric):
        return _shared_metric_text(metric)
    before, after = _measurement_frame(metric.name, metric.status, metric.scored, metric.total)
    return f"{before}{score!r}{after}"


@cache_by_identity(maxsize=1024, skip_if=lambda metric: has_judgements((metric,)))
def _shared_metric_text(metric: MetricResult) -> str:
    return dump(metric_record(metric))


def _is_measurement(metric: MetricResult) -> bool:
    """True for a number such as a latency: no two cases share it, but they share all other text of the metric."""
    return (
        metric.threshold is None
        and not metric.per_invocation
        and not metric.details
        and metric.reason is None
        and metric.hint is None
    )


@lru_cache(maxsize=256)
def _measurement_frame(name: str, status: MetricStatus, scored: int, total: int) -> tuple[str, str]:
    """Return the text before and after the score of a measurement."""
    metric = MetricResult(name=name, score=None, threshold=None, status=status, scored=scored, total=total)
    before, after = dump(metric_record(metric)).split(_NO_SCORE, 1)  # see `case_text`
    return f"{before}{_NO_SCORE.removesuffix('null')}", after


_NO_SCORE = '"score": null'


def json_pieces(report: RunFacts, cases: Iterable[str], extra: Mapping[str, Any] | None = None) -> Iterator[str]:
    """Yield the document in pieces. `cases` are texts of `case_text`; `extra` has further keys of the run."""
    head = dump({**run_record(report), **(extra or {})}, indent=2).removesuffix("\n}")
    yield f'{head},\n  "cases": [\n'
    comma = ""
    for text in cases:
        yield f"{comma}    {text}"
        comma = ",\n"
    yield "\n  ]\n}\n"


def json_lines(report: RunReport) -> str:
    """Write the run as lines: one for each case, then one for the run. A running run streams the same lines."""
    return "".join([*map(case_line, report.cases), run_line(report)])


def case_line(case: ReportedCase, head: Mapping[str, Any] = _HEAD) -> str:
    """Write one finished case as a line of JSON: the keys of `head`, then those of the case."""
    return f"{case_text(case, head)}\n"


def run_line(report: RunFacts) -> str:
    """Write the data of the whole run as the last line of a stream."""
    return dump({"kind": "run", **run_record(report)}) + "\n"


def run_record(report: RunFacts) -> dict[str, Any]:
    """Return the data of the run without its cases."""
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


def history_record(run: StoredRun) -> dict[str, Any]:
    """Return a run as an entry of a list of runs."""
    return {
        "run_id": run.run_id,
        "started_at": run.started_at.isoformat(),
        "duration_seconds": run.duration_seconds,
        "interrupted": run.interrupted,
        "ended": run.ended,
        "command": run.command,
        "targets": list(run.targets),
        "summary": summary_record(run.summary),
    }


def summary_record(summary: RunSummary) -> dict[str, Any]:
    """Return the number of cases by status, and the metrics over the run."""
    return summary.model_dump(mode="json")


def criteria_record(config: EvalConfig) -> dict[str, Any]:
    """Return the criteria of a set and the file that defines them."""
    return {
        "source": config.source,
        "criteria": [
            {"name": criterion.metric, "threshold": criterion.threshold, "options": criterion.options}
            for criterion in config.criteria
        ],
    }


def case_record(case: ReportedCase, *, metrics: Sequence[MetricResult] | None = None) -> dict[str, Any]:
    """Return one repeat of a case, with its own metrics unless others are passed."""
    result = case.result
    return {
        "target": result.case.target,
        "eval_set": result.case.eval_set,
        "eval_set_id": result.eval_set_id,
        "eval_id": result.case.eval_id,
        "occurrence": result.case.occurrence,
        "repeat": result.repeat,
        "status": result.status.value,
        "quarantine": model_record(result.quarantine),
        "unsure": has_unsure_metric(result.metrics),
        "error": error_record(result),
        "duration_seconds": result.duration_seconds,
        "agent_seconds": result.agent_seconds,
        "node": result.execution.node,
        "metrics": [metric_record(metric) for metric in (result.metrics if metrics is None else metrics)],
        "simulation": model_record(result.execution.simulation),
        "model_calls": model_record(result.execution.model_calls),
        "turns": [turn_record(turn, result) for turn in result.execution.turns],
        "differences": difference_records(case),
        "causes": [{"turn": turn, "text": text} for turn, text in find_causes(case)],
    }


def model_record(value: BaseModel | None) -> dict[str, Any] | None:
    """Return one of our types, such as the quarantine of a case, as it is in memory; None if there is none."""
    return None if value is None else value.model_dump(mode="json")


def error_record(result: CaseResult) -> dict[str, Any] | None:
    """Return why a case ended in ERROR: its failure, or else the metrics in ERROR; None for another status."""
    failure = result.failure
    if failure is not None:
        return failure.model_dump(mode="json")
    if result.status is not CaseStatus.ERROR:
        return None
    message = format_metric_errors(result.metrics)
    return {"kind": "metric", "message": message, "turn": None, "traceback": None, "stderr_tail": None}


def metric_record(metric: MetricResult) -> dict[str, Any]:
    """Return one metric of a case. `judged_by` is about the turn (from 0) with most missing samples."""
    count = metric.missing_samples
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
        "judged_by": None
        if count is None
        else {"read": count.readable, "asked": count.requested, "turn": count.turn - 1},
        "per_invocation": [_score_record(score) for score in metric.per_invocation],
        "details": metric.details,
    }


def _score_record(score: InvocationScore) -> dict[str, Any]:
    """Return one metric on one turn, with the judgement and its agreement if a model judged."""
    if score.judgement is None:
        return score.model_dump(mode="json", exclude={"judgement"})
    agreement = measure_agreement(score.judgement)
    return {**score.model_dump(mode="json"), "agreement": None if agreement is None else agreement.share}


def turn_record(turn: TurnResult, result: CaseResult) -> dict[str, Any]:
    return {
        "user": turn.invocation.user_content.text_with_markers(),
        "response": turn.invocation.response_text(),
        "trajectory": call_records(turn.invocation) if result.has_known_calls(turn) else None,
        "duration_seconds": turn.duration_seconds,
        "inference_calls": turn.inference_calls,
        "usage": model_record(turn.usage),
    }


def difference_records(case: ReportedCase) -> list[dict[str, Any]]:
    """Return all differences of a case: by turn, then those of the final state, whose turn is null.

    `cost_points_in` names the failed criteria that lost points by the difference; empty if it is no reason.
    """
    turns: list[tuple[int | None, tuple[Difference, ...]]] = [*enumerate(case.differences)]
    turns.append((None, case.state_differences))
    reasons = {id(difference): names for _, difference, names in find_reasons(case)}
    return [
        {"turn": turn, **_difference_record(difference), "cost_points_in": list(reasons.get(id(difference), ()))}
        for turn, differences in turns
        for difference in differences
    ]


def _difference_record(difference: Difference) -> dict[str, Any]:
    """Return one difference. Positions of calls count from 0."""
    return {
        "kind": difference.kind.value,
        "tool": difference.tool or None,
        "expected_call": difference.expected_call,
        "actual_call": difference.actual_call,
        "path": list(difference.path),
        "expected": mask_named_secrets(difference.expected, find_name(difference.path)),
        "actual": mask_named_secrets(difference.actual, find_name(difference.path)),
    }


_STRICT: Any = {"ensure_ascii": False, "allow_nan": False}


def _prepare_encoder() -> Callable[[Any], str]:
    """Return the encoder of JSON. Python's own one prepares the same C code again for each value."""
    encoder = json.JSONEncoder(**_STRICT)
    make = getattr(json.encoder, "c_make_encoder", None)
    if make is None:
        return encoder.encode
    encode = make(None, encoder.default, json.encoder.encode_basestring, None, ": ", ", ", False, False, False)
    return lambda value: "".join(encode(value, 0))


_encode = _prepare_encoder()


def dump(value: Any, *, indent: int | None = None) -> str:
    """Write a value as strict JSON without characters that a terminal interprets."""
    try:
        text = (_encode if indent is None else json.JSONEncoder(indent=indent, **_STRICT).encode)(value)
    except (TypeError, ValueError):  # JSON cannot represent the value
        pass
    else:
        if text.isascii() and "\x7f" not in text and not may_be_redacted(text):  # most texts need no cleaning
            return text
    text = json.dumps(_clean(value), ensure_ascii=False, allow_nan=False, indent=indent, default=str)
    return _STEERING.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _clean(value: Any) -> Any:
    """Remove secrets from a value, and numbers and half surrogate pairs that JSON cannot represent."""
    if value is None:
        return None
    if isinstance(value, str):
        return redact(value) if value.isascii() else _SURROGATES.sub("\ufffd", redact(value))
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, list | tuple):
        return [_clean(item) for item in value]
    if isinstance(value, dict | Mapping):  # the check for other mappings is slower
        return dict(_clean_member(str(key), item) for key, item in value.items())
    return value


def _clean_member(key: str, value: Any) -> tuple[str, Any]:
    """Do as `_clean` for the value of a key. The value is masked if the key is that of a secret."""
    cleaned, is_of_secret = _clean_key(key)
    return cleaned, _clean(mask_named_secrets(value, key) if is_of_secret else value)


@lru_cache(maxsize=1_000)  # a report repeats the same few keys
def _clean_key(key: str) -> tuple[str, bool]:
    """Return the cleaned key, and True if its value may be a secret."""
    return _clean(key), may_name_secret(key)


# CSV for spreadsheets: a row for each case and repeat, structured values as JSON.

COLUMNS = (
    "run_id", "target", "eval_set", "eval_set_id", "eval_id", "occurrence", "repeat", "status", "error",
    "duration_seconds", "agent_seconds", "prompts", "expected_responses", "responses", "trajectories", "differences",
    "quarantine",
)  # fmt: skip

_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
"""A spreadsheet reads text with such a start as a formula. Therefore an apostrophe is prepended."""


def csv_table(report: RunReport) -> str:
    """Write the run as CSV: the fixed columns, then those of each metric.

    The columns of a metric are `NAME`, `NAME.status` and, for judges with samples, `NAME.judged_by`: the number of
    readable samples.
    """
    metrics: dict[str, bool] = {}  # by name: True if a judge gave samples
    for case in report.cases:
        for metric in case.result.metrics:
            metrics[metric.name] = metrics.get(metric.name, False) or metric.fewest_samples is not None
    columns = [
        f"{name}{kind}"
        for name, has_samples in metrics.items()
        for kind in ("", ".status", *([".judged_by"] if has_samples else []))
    ]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*COLUMNS, *map(cell_text, columns)])
    for case in report.cases:
        writer.writerow(_row(report, case, metrics))
    return out.getvalue()


def _row(report: RunReport, case: ReportedCase, metrics: Mapping[str, bool]) -> list[Any]:
    result = case.result
    turns = [turn_record(turn, result) for turn in result.execution.turns]
    expected = (case.expected.conversation if case.expected is not None else None) or []
    error = error_record(result)
    row: list[Any] = [
        report.run_id,
        cell_text(result.case.target),
        cell_text(result.case.eval_set),
        cell_text(result.eval_set_id),
        cell_text(result.case.eval_id),
        result.case.occurrence,
        result.repeat,
        result.status.value,
        cell_text(error["message"]) if error is not None else "",
        f"{result.duration_seconds:.6f}",
        f"{result.agent_seconds:.6f}",
        dump([turn["user"] for turn in turns]),
        dump([turn.response_text() for turn in expected]),
        dump([turn["response"] for turn in turns]),
        dump([turn["trajectory"] for turn in turns]),
        dump(difference_records(case)),
        "" if result.quarantine is None else cell_text(str(result.quarantine)),
    ]
    scores = {metric.name: metric for metric in result.metrics}
    for name, has_samples in metrics.items():
        metric = scores.get(name)
        row += ["", ""] if metric is None else ["" if metric.score is None else metric.score, metric.status.value]
        if has_samples:
            count = None if metric is None else metric.fewest_samples
            row.append("" if count is None else f"{count.readable} of {count.requested}")
    return row


def cell_text(text: str) -> str:
    """Make text safe for a cell: no secrets, nothing that a terminal or a spreadsheet interprets."""
    safe = neutralise(redact(text))
    return f"'{safe}" if safe.startswith(_FORMULA_STARTS) else safe


# JUnit XML for CI services: a test suite for each eval set, a test case for each case and repeat.

# Characters that XML 1.0 does not allow and `neutralise` keeps.
_NOT_XML = re.compile("[\ufffe\uffff]")
_MESSAGE_LENGTH = 500
_TAGS = {
    CaseStatus.FAILED: "failure",
    CaseStatus.NOT_EVALUATED: "failure",
    CaseStatus.ERROR: "error",
    CaseStatus.SKIPPED: "skipped",
    CaseStatus.CANCELLED: "skipped",
}
_COUNTED = {"failure": "failures", "error": "errors", "skipped": "skipped"}
"""The attributes that count the tags."""


def junit_xml(report: RunReport) -> str:
    root = ElementTree.Element("testsuites", {"name": "workbench", **_counts(report.cases)})
    for (target, eval_set), cases in report.by_eval_set().items():
        suite = ElementTree.SubElement(root, "testsuite", {"name": _text(f"{target} {eval_set}"), **_counts(cases)})
        if report.started_at is not None:
            suite.set("timestamp", report.started_at.isoformat(timespec="seconds"))
        properties = ElementTree.SubElement(suite, "properties")
        _property(properties, "run_id", report.run_id)
        for case in cases:
            _add_case(suite, case)
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _add_case(suite: ElementTree.Element, case: ReportedCase) -> None:
    result = case.result
    name = f"{case.name} [{result.repeat + 1}]" if result.repeat else case.name
    attributes = {
        "classname": _text(f"{result.case.target}.{result.case.eval_set}"),
        "name": _text(name),
        "time": f"{result.duration_seconds:.3f}",
    }
    element = ElementTree.SubElement(suite, "testcase", attributes)
    properties = ElementTree.SubElement(element, "properties")
    for metric in result.metrics:
        _property(properties, metric.name, metric.status.value if metric.score is None else repr(metric.score))
        if (text := samples_text(metric)) is not None:
            _property(properties, f"{metric.name}: samples", text)
    if result.execution.model_calls:
        _property(properties, "model calls", describe_sources(result.execution.model_calls))
    for line in quarantine_lines(result):
        _property(properties, "quarantine", line)
    for line in list_causes(case):
        _property(properties, "cause", line)
    _add_outcome(element, case)
    long = explain_at_length(case) if result.status is CaseStatus.ERROR else []
    if long:
        ElementTree.SubElement(element, "system-err").text = _text("\n".join(long))


def _add_outcome(element: ElementTree.Element, case: ReportedCase) -> None:
    status = case.result.status
    if status is CaseStatus.PASSED:
        return
    lines = explain(case) or [status.value]
    tag = _get_tag(case.result)
    outcome = ElementTree.SubElement(element, tag, {"message": _text(lines[0])[:_MESSAGE_LENGTH]})
    if tag != "skipped":
        failure = case.result.failure
        outcome.set("type", failure.kind.value if failure is not None else status.value)
        outcome.text = _text("\n".join(lines))


def _get_tag(result: CaseResult) -> str:
    """Return the tag of a result that did not pass. A FAILED in quarantine is skipped, as tests are in JUnit."""
    return "skipped" if result.is_quarantined else _TAGS[result.status]


def _counts(cases: Sequence[ReportedCase]) -> dict[str, str]:
    counts = {"tests": str(len(cases))}
    tags = Counter(_get_tag(case.result) for case in cases if case.result.status is not CaseStatus.PASSED)
    counts |= {name: str(tags[tag]) for tag, name in _COUNTED.items()}
    counts["time"] = f"{sum(case.result.duration_seconds for case in cases):.3f}"
    return counts


def _property(parent: ElementTree.Element, name: str, value: str) -> None:
    ElementTree.SubElement(parent, "property", {"name": _text(name), "value": _text(value)})


def _text(text: str) -> str:
    return _NOT_XML.sub("\ufffd", neutralise(redact(text)))


# Markdown for pull requests and notes: totals, a table for each eval set, explanations.

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~&])")


def markdown(report: RunReport) -> str:
    """Write the run as a Markdown document. Untrusted text is escaped."""
    lines = [f"# workbench run {escape_markdown(report.run_id)}", "", escape_markdown(total_line(report)), ""]
    for spending in report.summary.models:
        lines += [escape_markdown(spending_line(spending)), ""]
    if report.summary.model_calls:
        lines += [escape_markdown(describe_model_calls(report.summary.model_calls)), ""]
    for (target, eval_set), cases in report.by_eval_set().items():
        lines += [
            f"## {escape_markdown(set_heading(target, eval_set, report.criteria.get(eval_set)))}",
            "",
            *_table(cases, report.criteria.get(eval_set)),
            "",
        ]
    lines += _metrics(report)
    notes: dict[str, list[str]] = {"Flaky": [], "Unsure": [], "Quarantine": [], "Samples missing": []}
    for entry in count_repeats(report.outcomes):
        if entry.is_flaky:
            notes["Flaky"].append(f"{escape_markdown(entry.name)}: {entry.passed} of {entry.total} passed")
    for case in report.cases:
        for title, texts in (
            ("Unsure", map(unsure_text, case.deciding_metrics)),
            ("Quarantine", quarantine_lines(case.result)),
            ("Samples missing", missing_samples_lines(case.deciding_metrics)),
        ):
            notes[title] += [f"{_title(case)}: {escape_markdown(text)}" for text in texts if text is not None]
    for title, items in notes.items():
        if items:
            lines += [f"## {title}", "", *(f"- {item}" for item in items), ""]
    bad = [case for case in report.cases if case.result.status in NOT_GOOD]
    if bad:
        lines += ["## What went wrong", ""]
    for case in bad:
        symbol = QUARANTINE_SYMBOL if case.result.is_quarantined else SYMBOLS[case.result.status]
        lines += [f"### {escape_markdown(symbol)} {_title(case)}", ""]
        lines += [f"- {escape_markdown(line)}" for line in explain(case)] + [""]
    return "\n".join(lines).rstrip() + "\n"


def _table(cases: list[ReportedCase], config: EvalConfig | None) -> list[str]:
    names = list(dict.fromkeys(metric.name for case in cases for metric in shown_metrics(case, config)))
    head = ["status", "case", *map(escape_markdown, names), "seconds"]
    rows = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for case in cases:
        scores = {metric.name: _cell(metric) for metric in case.result.metrics}
        mark = mark_replayed(case.result.execution.model_calls)
        status = f"{status_text(case.result.status, case.result.quarantine)}{f' {mark}' if mark else ''}"
        name = escape_markdown(case.name) + (f" ({case.result.repeat + 1})" if case.result.repeat else "")
        cells = [escape_markdown(status), name, *(scores.get(metric, "") for metric in names)]
        seconds = case.result.agent_seconds
        rows.append("| " + " | ".join([*cells, f"{seconds:.2f}" if seconds else "-"]) + " |")
    return rows


def _cell(metric: MetricResult) -> str:
    if metric.score is None:
        return metric.status.value.lower()
    text = format_measured(metric.name, metric.score, metric.threshold)
    return f"**{text}**" if metric.status is MetricStatus.FAILED else text


def _metrics(report: RunReport) -> list[str]:
    criterion_names = {
        metric.name
        for (_, eval_set), cases in report.by_eval_set().items()
        for case in cases
        for metric in shown_metrics(case, report.criteria.get(eval_set))
    }
    # Measures that are always reported, such as tokens, are shown only if they have a value.
    shown = {
        name: metric for name, metric in report.summary.metrics.items() if metric.scored or name in criterion_names
    }
    if not shown:
        return []
    rows = ["## Metrics", "", "| metric | mean | 95 % | sample std | scored |", "|---|---|---|---|---|"]
    for name, metric in shown.items():
        mean = "" if metric.mean is None else f"{metric.mean:.4g}"
        std = "" if metric.std is None else f"{metric.std:.4g}"
        bounds = "" if metric.interval is None else "{:.4g} to {:.4g}".format(*metric.interval)
        rows.append(f"| {escape_markdown(name)} | {mean} | {bounds} | {std} | {metric.scored} of {metric.total} |")
    return [*rows, ""]


def _title(case: ReportedCase) -> str:
    key = case.result.case
    repeat = f" (repeat {case.result.repeat + 1})" if case.result.repeat else ""
    return f"{escape_markdown(key.eval_set)}: {escape_markdown(case.name)}{repeat}"


def escape_markdown(text: str) -> str:
    """Return a text on one line, without markup or secrets."""
    return _SPECIAL.sub(r"\\\1", redacted_line(text))


# HTML: a page with the document of `--format json`, and with additional data for the page.


def html_page(report: RunReport, comparison: Mapping[str, Any] | None = None) -> str:
    """Write the run as one HTML file. `comparison` is a record of `comparison_record`, whose later run this is."""
    from workbench.report.html_report import render_page

    extra = {"history": [history_record(run) for run in report.earlier_runs], "comparison": comparison}
    with pause_gc():  # each search through the cases of a large run takes most of a second
        return render_page(report, "".join(json_pieces(report, map(_page_case_text, report.cases), extra)))


def _page_case_text(case: ReportedCase) -> str:
    """Write a case as `case_text` does, with its expected turns, its trace, and why it did not pass."""
    execution = case.result.execution
    expected = (case.expected.conversation if case.expected is not None else None) or ()
    calls = execution.model_calls
    facts = {
        "name": case.name,
        "expected": [_expected_turn_record(turn, is_row=case.result.is_row) for turn in expected],
        "spans": [span.model_dump(mode="json", exclude_defaults=True) for span in execution.spans],
        "replay": describe_sources(calls) if calls else None,
    }
    # Dumped alone, because reasons usually have characters other than ASCII, which take longer.
    has_passed = case.result.status is CaseStatus.PASSED
    explained = {
        "reason": "" if has_passed else explain_in_one_line(case),
        "reasons": [] if has_passed else explain(case),
        "output": explain_at_length(case),
    }
    texts = map(_escape_non_ascii, (case_text(case)[:-1], dump(facts)[1:-1], dump(explained)[1:]))
    return ", ".join(texts)


_NON_ASCII = re.compile("[^\0-\x7f]")


def _escape_non_ascii(text: str) -> str:
    """Return JSON as ASCII, which browsers read in half the time."""
    return text if text.isascii() else _NON_ASCII.sub(lambda match: json.dumps(match[0])[1:-1], text)


def _expected_turn_record(turn: Invocation, *, is_row: bool) -> dict[str, Any]:
    """Return one expected turn. Its trajectory is null if a row does not say which calls it expects."""
    return {
        "user": turn.user_content.text_with_markers(),
        "response": turn.response_text(thoughts=False),
        "trajectory": None if is_row and turn.intermediate_data is None else call_records(turn),
    }


# Formats by name.

WRITERS: Mapping[str, Callable[[RunReport], str]] = {
    "json": json_document,
    "jsonl": json_lines,
    "junit": junit_xml,
    "markdown": markdown,
    "csv": csv_table,
    "html": html_page,
}


def write_report(report: RunReport, report_format: str) -> str:
    return WRITERS[report_format](report)
