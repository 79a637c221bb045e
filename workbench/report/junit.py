"""Runs as JUnit XML, for CI services: a test suite for each eval set, a test case for each case and repeat.

ERROR is an `error`, FAILED and NOT_EVALUATED are a `failure` (of that type), SKIPPED and CANCELLED are `skipped`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree import ElementTree

from workbench.model.results import CaseStatus
from workbench.model.text import neutralise, redact
from workbench.report.explain import explain, explain_at_length
from workbench.report.judging import samples_text
from workbench.report.run_report import ReportedCase, RunReport

# What XML 1.0 cannot hold and `neutralise` leaves.
_NOT_XML = re.compile("[\ufffe\uffff]")
_MESSAGE_LENGTH = 500
_COUNTED = {
    "failures": (CaseStatus.FAILED, CaseStatus.NOT_EVALUATED),
    "errors": (CaseStatus.ERROR,),
    "skipped": (CaseStatus.SKIPPED, CaseStatus.CANCELLED),
}


def junit_xml(report: RunReport) -> str:
    """The run as JUnit XML."""
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
    _add_outcome(element, case)
    long = explain_at_length(case) if result.status is CaseStatus.ERROR else []
    if long:
        ElementTree.SubElement(element, "system-err").text = _text("\n".join(long))


def _add_outcome(element: ElementTree.Element, case: ReportedCase) -> None:
    status = case.result.status
    if status is CaseStatus.PASSED:
        return
    lines = explain(case) or [status.value]
    tag = next(tag for tag, statuses in _TAGS.items() if status in statuses)
    outcome = ElementTree.SubElement(element, tag, {"message": _text(lines[0])[:_MESSAGE_LENGTH]})
    if tag != "skipped":
        failure = case.result.failure
        outcome.set("type", failure.kind.value if failure is not None else status.value)
        outcome.text = _text("\n".join(lines))


_TAGS = {"failure": _COUNTED["failures"], "error": _COUNTED["errors"], "skipped": _COUNTED["skipped"]}


def _counts(cases: Sequence[ReportedCase]) -> dict[str, str]:
    counts = {"tests": str(len(cases))}
    for name, statuses in _COUNTED.items():
        counts[name] = str(sum(case.result.status in statuses for case in cases))
    counts["time"] = f"{sum(case.result.duration_seconds for case in cases):.3f}"
    return counts


def _property(parent: ElementTree.Element, name: str, value: str) -> None:
    ElementTree.SubElement(parent, "property", {"name": _text(name), "value": _text(value)})


def _text(text: str) -> str:
    return _NOT_XML.sub("\ufffd", neutralise(redact(text)))
