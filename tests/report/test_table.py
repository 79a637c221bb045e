"""The verdict table and the lines that explain a verdict."""

from __future__ import annotations

from collections.abc import Callable

from workbench.model.criteria import default_config
from workbench.model.evalset import Invocation
from workbench.model.events import MetricSummary
from workbench.model.results import CaseStatus, MetricResult
from workbench.report.explain import explain, score_text
from workbench.report.run_report import ReportedCase, RunReport
from workbench.report.table import Style, VerdictTable, cell_length, row_name, width_of_names

MakeReport = Callable[..., RunReport]
MakeCase = Callable[..., ReportedCase]


def table_of(cases: list[ReportedCase], report: RunReport, style: Style | None = None) -> list[str]:
    width = width_of_names([row_name(case) for case in cases])
    table = VerdictTable(
        style=style or Style(), name_width=width, criteria={"sets/light.evalset.json": default_config()}
    )
    return [line for case in cases for line in table.lines(case)] + table.closing(report)


def test_each_case_has_a_row_and_each_bad_one_its_reason(
    make_report: MakeReport, every_status: list[ReportedCase]
) -> None:
    text = "\n".join(table_of(every_status, make_report(every_status)))

    assert "✓ PASSED         good" in text
    assert '      set_device: device_id: expected "device_2", got "device_3"' in text
    assert "      agent, turn 1: ValueError: ␛[31mboom␀ <&> [redacted]" in text
    assert "response_match_score: undefined: nothing to compare" in text
    assert "1 of 2 judged, 1 of 6 in all" in text


def test_columns_stay_aligned_beside_wide_characters(make_report: MakeReport, make_case: MakeCase) -> None:
    cases = [make_case(name, CaseStatus.PASSED) for name in ("关灯_卧室", "plain", "نعم", "e\u0301")]

    rows = [line for line in table_of(cases, make_report(cases)) if "PASSED" in line]

    assert len({cell_length(row) for row in rows}) == 1


def test_colours_only_where_they_are_wanted(make_report: MakeReport, every_status: list[ReportedCase]) -> None:
    report = make_report(every_status)

    assert not any("\x1b" in line for line in table_of(every_status, report))
    assert any("\x1b[31m" in line for line in table_of(every_status, report, Style(colour=True)))


def test_tracebacks_and_output_are_for_those_who_ask(make_report: MakeReport, every_status: list[ReportedCase]) -> None:
    report = make_report(every_status)

    assert not any("Traceback" in line for line in table_of(every_status, report))
    verbose = "\n".join(table_of(every_status, report, Style(verbose=True)))
    assert "Traceback" in verbose
    assert "␛]0;title␇oops" in verbose


def test_metrics_are_reported_with_deviation_and_denominator(
    make_report: MakeReport, make_case: MakeCase, make_metric: Callable[..., MetricResult]
) -> None:
    name = "tool_trajectory_avg_score"
    cases = [make_case(str(n), CaseStatus.PASSED, metrics=(make_metric(name, 1.0),)) for n in range(3)]
    report = make_report(cases, metrics={name: MetricSummary(mean=0.5, std=0.7071, scored=2, total=3)})

    assert f"{name}  mean 0.5  std 0.7071  (2 of 3 scored)" in table_of(cases, report)


def test_a_case_that_passes_sometimes_is_named_flaky(make_report: MakeReport, make_case: MakeCase) -> None:
    outcomes = [CaseStatus.PASSED, CaseStatus.FAILED, CaseStatus.PASSED]
    cases = [make_case("a", status, repeat=n) for n, status in enumerate(outcomes)]

    assert "flaky: sets/light.evalset.json:a: 2 of 3 repeats passed" in table_of(cases, make_report(cases))


def test_a_low_response_score_is_explained_by_the_response_alone(
    make_case: MakeCase, make_invocation: Callable[..., Invocation], make_metric: Callable[..., MetricResult]
) -> None:
    case = make_case(
        "a",
        CaseStatus.FAILED,
        expected=make_invocation(response="done", calls=[("f", {})]),
        actual=make_invocation(response="no", calls=[("g", {})]),
        metrics=(make_metric("response_match_score", 0.1, 0.8, hint="no countable word"),),
    )

    assert explain(case) == [
        "response_match_score: 0.10 < 0.80; no countable word",
        'response: expected "done", got "no"',
    ]


def test_an_empty_conversation_is_named_as_the_reason(make_case: MakeCase) -> None:
    case = make_case("a", CaseStatus.NOT_EVALUATED)
    empty = ReportedCase(case.result, case.expected)

    assert explain(empty) == ["no criterion gave a verdict: no turn was finished"]


def test_scores_show_the_digits_that_tell_them_from_the_threshold() -> None:
    assert score_text(0.79999, 0.8) == "0.79999"
    assert score_text(0.5, 0.8) == "0.50"
    assert score_text(1.0, 1.0) == "1.00"
