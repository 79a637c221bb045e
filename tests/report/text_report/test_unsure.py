"""Judges in reports: labelled samples, disagreement, and missing samples."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from typing import Any

import pytest

from workbench.model.results import (
    CaseStatus,
    InvocationScore,
    Judgement,
    JudgeSample,
    MetricResult,
    MetricStatus,
    RubricScore,
)
from workbench.report.report_formats import write_report
from workbench.report.run_report import ReportedCase, RunReport, judging_lines, samples_text, unsure_text
from workbench.report.text_report import TableStyle, VerdictTable

PASSED, FAILED = MetricStatus.PASSED, MetricStatus.FAILED


def sample(score: float | None, why: str = "", label: str = "") -> JudgeSample:
    return JudgeSample(score=score, rationale=why, label=label, problem=None if score is not None else "unread")


def make_metric(
    name: str, *turns: tuple[float, Judgement], threshold: float = 0.5, status: MetricStatus = FAILED
) -> MetricResult:
    scores = tuple(InvocationScore(score=score, judgement=judgement) for score, judgement in turns)
    mean = sum(score for score, _ in turns) / len(turns)
    return MetricResult(
        name=name, score=mean, threshold=threshold, status=status, per_invocation=scores, total=len(scores)
    )


def judgement(*samples: JudgeSample, **more: Any) -> Judgement:
    return Judgement(model="m", prompt="p", samples=samples, **more)


SPLIT = judgement(sample(1.0, "fine"), sample(0.0, "too short"), sample(0.0, "rude"), sample(None))
GRADES = judgement(sample(2.0), sample(4.0), sample(2.0), lowest=1.0, best=5.0, spread=1.15)
PAIR = judgement(sample(0.0, "old one", "BASELINE"), sample(0.5, "same", "TIE"), sample(0.0, "longer", "BASELINE"))


def test_labelled_votes_are_listed_by_label() -> None:
    assert list(judging_lines(make_metric("own", (0.0, PAIR)))) == ["the judge: 2 say BASELINE, 1 says TIE: old one"]


def test_ratings_without_a_maximum_are_listed_alone() -> None:
    free = judgement(sample(70.0, "fair"), sample(75.0), lowest=None, best=None, spread=3.5)

    assert list(judging_lines(make_metric("own", (72.5, free), threshold=80))) == ["the judge: 70, 75: fair"]


def test_disagreement_of_samples_is_reported_per_turn() -> None:
    sure = judgement(sample(1.0), sample(1.0))
    rubrics = (RubricScore(rubric_id="a", text="a", score=1.0, yes=2, no=1),)

    assert unsure_text(make_metric("own", (1.0, sure))) is None
    assert unsure_text(make_metric("own", (1.0, sure), (0.0, SPLIT))) == "own: turn 2: 2 of 3 samples agree"
    assert unsure_text(make_metric("own", (1.0, judgement(rubrics=rubrics)))) == "own: 2 of 3 verdicts on rubrics agree"
    rating_text = unsure_text(make_metric("own", (8 / 3, GRADES), threshold=3.0))
    assert rating_text == "own: 2 of 3 samples agree, ±1.1"


def test_missing_samples_are_counted_for_the_worst_turn() -> None:
    whole = judgement(sample(1.0), sample(1.0))
    rubrics = (
        RubricScore(rubric_id="a", text="a", score=1.0, yes=2),
        RubricScore(rubric_id="b", text="b", score=0.0, no=1),
    )
    parts = judgement(sample(None), sample(None), sample(None), rubrics=rubrics)

    assert samples_text(make_metric("own", (1.0, whole))) is None
    assert samples_text(make_metric("own", (1.0, SPLIT))) == "judged by 3 of 4 samples"
    assert (
        samples_text(make_metric("own", (1.0, whole), (0.0, SPLIT), (0.5, parts)))
        == "judged by 1 of 3 samples in turn 3"
    )


@pytest.mark.parametrize("status", [PASSED, FAILED])
def test_every_report_names_missing_samples(
    make_case: Callable[..., ReportedCase], make_report: Callable[..., RunReport], status: MetricStatus
) -> None:
    two_of_three = judgement(sample(1.0), sample(1.0), sample(None))
    metric = make_metric("own", (1.0, two_of_three), status=status)
    report = make_report([make_case("c", CaseStatus(status.value), metrics=(metric,))])
    reason = "own: judged by 2 of 3 samples"
    table = VerdictTable(style=TableStyle(), name_width=8, criteria={})

    case = json.loads(write_report(report, "json"))["cases"][0]
    assert case["metrics"][0]["judged_by"] == {"read": 2, "asked": 3, "turn": 0}
    assert f"samples missing: c: {reason}" in table.closing_lines(report)
    assert f"## Samples missing\n\n- sets/light.evalset.json: c: {reason}" in write_report(report, "markdown")
    assert '<property name="own: samples" value="judged by 2 of 3 samples" />' in write_report(report, "junit")
    (row,) = csv.DictReader(io.StringIO(write_report(report, "csv")))
    assert row["own.judged_by"] == "2 of 3"
    assert ("judged by 2 of 3 samples" in "\n".join(table.lines(report.cases[0]))) == (status is FAILED)


def test_csv_counts_samples_only_for_criteria_with_samples(
    make_case: Callable[..., ReportedCase], make_report: Callable[..., RunReport]
) -> None:
    whole = make_metric("own", (1.0, judgement(sample(1.0), sample(1.0))), status=PASSED)
    none = make_metric("own", (1.0, judgement()), status=PASSED)
    other = make_metric("other", (1.0, judgement()), status=PASSED)
    report = make_report(
        [
            make_case("whole", CaseStatus.PASSED, metrics=(other, whole)),
            make_case("none", CaseStatus.PASSED, metrics=(none,)),
        ]
    )

    rows = list(csv.DictReader(io.StringIO(write_report(report, "csv"))))

    assert list(rows[0])[-5:] == ["other", "other.status", "own", "own.status", "own.judged_by"]
    assert [row["own.judged_by"] for row in rows] == ["2 of 2", ""]


@pytest.fixture
def report(make_case: Callable[..., ReportedCase], make_report: Callable[..., RunReport]) -> RunReport:
    split = make_metric("own", (1.0, judgement(sample(1.0), sample(1.0), sample(0.0))), status=PASSED)
    sure = make_metric("own", (1.0, judgement(sample(1.0), sample(1.0))), status=PASSED)
    return make_report(
        [
            make_case("split", CaseStatus.PASSED, metrics=(split,)),
            make_case("sure", CaseStatus.PASSED, metrics=(sure,)),
        ]
    )


def test_unsure_cases_are_flagged_in_json_with_the_agreement_on_each_turn(report: RunReport) -> None:
    split, sure = json.loads(write_report(report, "json"))["cases"]

    assert (split["unsure"], sure["unsure"]) == (True, False)
    assert split["metrics"][0]["unsure"] is True
    assert split["metrics"][0]["per_invocation"][0]["agreement"] == pytest.approx(2 / 3)
    assert sure["metrics"][0]["per_invocation"][0]["agreement"] == 1.0


def test_unsure_cases_are_listed_below_the_table_and_in_markdown(report: RunReport) -> None:
    lines = VerdictTable(style=TableStyle(), name_width=8, criteria={}).closing_lines(report)

    assert [line for line in lines if line.startswith("unsure")] == ["unsure: split: own: 2 of 3 samples agree"]
    assert "## Unsure\n\n- sets/light.evalset.json: split: own: 2 of 3 samples agree" in write_report(
        report, "markdown"
    )
