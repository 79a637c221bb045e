"""The written page: one whole file, whose text cannot become markup."""

from __future__ import annotations

import hashlib
import json
import re
from base64 import b64encode
from collections.abc import Callable
from datetime import UTC, datetime
from html.parser import HTMLParser
from typing import Any

import pytest

from workbench.model.evalset import Invocation
from workbench.model.results import CaseStatus, MetricResult
from workbench.model.run_events import MetricSummary, RunSummary
from workbench.model.trace import Span, SpanKind
from workbench.report.report_formats import html_page, write_report
from workbench.report.run_report import ReportedCase, RunReport
from workbench.store.history.history_queries import StoredRun

MakeReport = Callable[..., RunReport]
MakeCase = Callable[..., ReportedCase]
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(1)><!--\"'&\u2028\u2029"


class Elements(HTMLParser):
    """The elements of a page, and the texts of its scripts and styles."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {"script": [], "style": []}
        self._open = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect an element."""
        self.tags.append((tag, dict(attrs)))
        self._open = tag

    def handle_data(self, data: str) -> None:
        """Collect the text of a script or style."""
        if self._open in self.texts:
            self.texts[self._open].append(data)

    def handle_endtag(self, tag: str) -> None:
        """Leave an element."""
        self._open = ""


def read_data(page: str) -> Any:
    return json.loads(Elements(page).texts["script"][0])


def test_a_page_is_one_small_file_that_refers_to_nothing(make_report: MakeReport) -> None:
    page = write_report(make_report([]), "html")

    addresses = [
        value for _, attributes in Elements(page).tags for name, value in attributes.items() if name in ("src", "href")
    ]
    assert addresses == ["data:,", "#content"]
    assert not re.findall(r"@import|url\(|fetch\(|XMLHttpRequest|import\(|innerHTML|insertAdjacent|eval\(", page)
    assert len(page.encode()) < 100_000


def test_the_policy_allows_only_the_program_and_the_styles_of_the_page(
    make_report: MakeReport, every_status: list[ReportedCase]
) -> None:
    elements = Elements(write_report(make_report(every_status), "html"))

    def name_hash(text: str) -> str:
        return f"'sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    policy = next(found["content"] for tag, found in elements.tags if tag == "meta" and "http-equiv" in found)
    directives = dict(part.strip().split(" ", 1) for part in (policy or "").split(";"))
    assert directives == {
        "default-src": "'none'",
        "script-src": name_hash(elements.texts["script"][1]),
        "style-src": name_hash(elements.texts["style"][0]),
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
    }


def test_the_data_are_those_of_json_and_what_only_the_page_shows(
    make_report: MakeReport,
    make_case: MakeCase,
    make_invocation: Callable[..., Invocation],
    make_metric: Callable[..., MetricResult],
) -> None:
    expected = make_invocation("hi", "hello", [("f", {"metrics": []})])
    actual = make_invocation("hi", "good day", [("f", {"metrics": [1]})])
    spans = (Span(id="1", kind=SpanKind.TOOL, name="f", start=0.0, end=0.5, request={"metrics": []}),)
    report = make_report(
        [
            make_case(
                "空",
                CaseStatus.FAILED,
                expected=expected,
                actual=actual,
                metrics=(make_metric("mine", 0.0),),
                spans=spans,
                stdout_tail="printed",
            )
        ]
    )

    data = read_data(write_report(report, "html"))

    (case,) = data.pop("cases")
    document = json.loads(write_report(report, "json"))
    (record,) = document.pop("cases")
    assert data == {**document, "history": [], "comparison": None}
    assert {name: value for name, value in case.items() if name in record} == record
    assert {name: value for name, value in case.items() if name not in record} == {
        "name": "空",
        "expected": [{"user": "hi", "response": "hello", "trajectory": [{"name": "f", "args": {"metrics": []}}]}],
        "spans": [
            {"id": "1", "kind": "tool", "name": "f", "start": 0.0, "end": 0.5, "request": {"metrics": []}},
        ],
        "replay": None,
        "reason": "f: metrics: expected [], got [1]",
        "reasons": [
            "mine: 0.00 < 1.00",
            "f: metrics: expected [], got [1]",
            'response: expected "hello", got "good day"',
        ],
        "output": ["stdout:", "  printed"],
    }


@pytest.mark.parametrize("place", ["run_id", "command", "eval_id", "eval_set", "text", "metric", "span"])
def test_hostile_text_adds_no_element(
    place: str,
    make_report: MakeReport,
    make_case: MakeCase,
    make_invocation: Callable[..., Invocation],
    make_metric: Callable[..., MetricResult],
) -> None:
    texts = {**dict.fromkeys(("run_id", "command", "eval_id", "eval_set", "text", "metric", "span"), "plain")}

    def write(texts: dict[str, str]) -> str:
        turn = make_invocation(texts["text"], texts["text"], [(texts["text"], {texts["text"]: texts["text"]})])
        case = make_case(
            texts["eval_id"],
            CaseStatus.FAILED,
            actual=turn,
            metrics=(make_metric(texts["metric"], 0.0, reason=texts["metric"]),),
            eval_set=texts["eval_set"],
            spans=(Span(id="1", name=texts["span"], error=texts["span"], response=texts["span"]),),
        )
        metrics = {texts["metric"]: MetricSummary(mean=0.0, std=None, scored=1, total=1)}
        report = make_report([case], metrics=metrics, command=texts["command"])
        return html_page(RunReport(**{**vars(report), "run_id": texts["run_id"]}))

    plain, hostile = Elements(write(texts)), Elements(write({**texts, place: HOSTILE}))

    assert [tag for tag, _ in hostile.tags] == [tag for tag, _ in plain.tags]
    assert json.dumps(HOSTILE) in json.dumps(json.loads(hostile.texts["script"][0]))


def test_the_summary_is_part_of_the_page_without_javascript(
    make_report: MakeReport, every_status: list[ReportedCase]
) -> None:
    metrics = {"tool_trajectory_avg_score": MetricSummary(mean=0.5, std=0.7071, scored=2, total=6)}
    page = write_report(make_report(every_status, metrics=metrics), "html")

    text = re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", page[page.index("<body>") : page.index('<script type="app')]))
    assert "6 cases: 1 passed, 1 failed, 1 error, 1 not evaluated, 1 skipped, 1 cancelled, passed 1 of 2" in text
    assert "need JavaScript" in text
    heading = "home · sets/light.evalset.json · default criteria"
    assert f"{heading} 6 1 1 failed, 1 error, 1 not evaluated, 1 skipped, 1 cancelled" in text
    assert "tool_trajectory_avg_score 0.50 0.71 2 of 6" in text


def test_secrets_are_masked_in_the_page(make_report: MakeReport, make_case: MakeCase) -> None:
    secret = "sk-abcdefghijklmnopqrstuvwx"
    spans = (Span(id="1", request={"header": f"Bearer {secret}", "api_key": "q7f3k9d2"}, error=f"refused {secret}"),)

    page = write_report(
        make_report([make_case("a", CaseStatus.PASSED, spans=spans)], command=f"workbench run {secret}"), "html"
    )

    assert secret not in page
    assert "q7f3k9d2" not in page


def test_earlier_runs_and_a_comparison_are_data_of_the_page(make_report: MakeReport) -> None:
    earlier = StoredRun(
        run_id="20261120-1",
        root="/project",
        started_at=datetime(2026, 11, 20, tzinfo=UTC),
        summary=RunSummary(total=2, passed=1),
    )
    report = make_report([], earlier_runs=[earlier])

    data = read_data(html_page(report, {"counts": {"regression": 1}}))

    assert [(run["run_id"], run["summary"]["passed"]) for run in data["history"]] == [("20261120-1", 1)]
    assert data["comparison"] == {"counts": {"regression": 1}}
