"""The verdict table and the lines that explain a verdict."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from workbench.cli.printers import format_summary
from workbench.model.criteria import default_config
from workbench.model.evalset import EvalCase, Invocation
from workbench.model.results import (
    CaseStatus,
    Failure,
    FailureKind,
    InvocationScore,
    Judgement,
    JudgeSample,
    MetricResult,
    MetricStatus,
    ModelCalls,
    RequestDifference,
)
from workbench.model.run_events import MetricSummary
from workbench.model.text import score_text
from workbench.report.run_report import ReportedCase, RunReport
from workbench.report.text_report import TableStyle, VerdictTable, cell_length, explain, row_name, width_of_names

MakeReport = Callable[..., RunReport]
MakeCase = Callable[..., ReportedCase]


def make_table(cases: list[ReportedCase], report: RunReport, style: TableStyle | None = None) -> list[str]:
    width = width_of_names([row_name(case) for case in cases])
    table = VerdictTable(
        style=style or TableStyle(), name_width=width, criteria={"sets/light.evalset.json": default_config()}
    )
    return [line for case in cases for line in table.lines(case)] + table.closing_lines(report)


def test_each_case_has_a_row_and_each_problem_has_a_reason(
    make_report: MakeReport, every_status: list[ReportedCase]
) -> None:
    text = "\n".join(make_table(every_status, make_report(every_status)))

    assert "✓ PASSED         good" in text
    assert '      set_device: device_id: expected "device_2", got "device_3"' in text
    assert "      agent, turn 1: ValueError: ␛[31mboom␀ <&> [redacted]" in text
    assert "response_match_score: undefined: nothing to compare" in text
    assert "passed 1 of 2 judged, 6 in total" in text


def test_columns_stay_aligned_with_wide_characters(make_report: MakeReport, make_case: MakeCase) -> None:
    cases = [make_case(name, CaseStatus.PASSED) for name in ("关灯_卧室", "plain", "نعم", "e\u0301")]

    rows = [line for line in make_table(cases, make_report(cases)) if "PASSED" in line]

    assert len({cell_length(row) for row in rows}) == 1


def test_colours_appear_only_if_requested(make_report: MakeReport, every_status: list[ReportedCase]) -> None:
    report = make_report(every_status)

    assert not any("\x1b" in line for line in make_table(every_status, report))
    assert any("\x1b[31m" in line for line in make_table(every_status, report, TableStyle(colour=True)))


def test_tracebacks_and_output_appear_only_in_verbose_mode(
    make_report: MakeReport, every_status: list[ReportedCase]
) -> None:
    report = make_report(every_status)

    assert not any("Traceback" in line for line in make_table(every_status, report))
    verbose = "\n".join(make_table(every_status, report, TableStyle(verbose=True)))
    assert "Traceback" in verbose
    assert "␛]0;title␇oops" in verbose


def test_metrics_are_reported_with_deviation_and_denominator(
    make_report: MakeReport, make_case: MakeCase, make_metric: Callable[..., MetricResult]
) -> None:
    name = "tool_trajectory_avg_score"
    cases = [make_case(str(n), CaseStatus.PASSED, metrics=(make_metric(name, 1.0),)) for n in range(3)]
    report = make_report(cases, metrics={name: MetricSummary(mean=0.5, std=0.7071, scored=2, total=3)})

    assert f"{name}  mean 0.5  std 0.7071  (2 of 3 scored)" in make_table(cases, report)


def test_a_case_that_passes_sometimes_is_reported_as_flaky(make_report: MakeReport, make_case: MakeCase) -> None:
    outcomes = [CaseStatus.PASSED, CaseStatus.FAILED, CaseStatus.PASSED]
    cases = [make_case("a", status, repeat=n) for n, status in enumerate(outcomes)]

    assert "flaky: sets/light.evalset.json:a: 2 of 3 repeats passed (95 % 21% to 94%)" in make_table(
        cases, make_report(cases)
    )


@pytest.mark.parametrize(
    ("kind", "is_flaky"), [(FailureKind.INFRASTRUCTURE, False), (None, False), (FailureKind.AGENT, True)]
)
def test_an_outage_does_not_make_a_case_flaky(
    make_report: MakeReport,
    make_case: MakeCase,
    make_metric: Callable[..., MetricResult],
    kind: FailureKind | None,
    is_flaky: bool,
) -> None:
    failure = None if kind is None else Failure(kind=kind, message="down")
    metric = make_metric("mine", None, status=MetricStatus.ERROR, outage=failure is None)
    error = make_case("a", CaseStatus.ERROR, repeat=1, failure=failure, metrics=(metric,))
    cases = [make_case("a", CaseStatus.PASSED), error, make_case("a", CaseStatus.PASSED, repeat=2)]

    lines = make_table(cases, make_report(cases))

    assert any(line.startswith("flaky: ") for line in lines) is is_flaky


def test_a_low_response_score_is_explained_only_by_the_response(
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


def test_an_empty_conversation_is_given_as_the_reason(make_case: MakeCase) -> None:
    case = make_case("a", CaseStatus.NOT_EVALUATED)
    empty = ReportedCase(case.result, EvalCase(eval_id="a", conversation=[]))

    assert explain(case) == ["no criterion gave a verdict: no turn was finished"]
    assert explain(empty) == ["no criterion gave a verdict: the conversation is empty"]


def test_metrics_without_a_score_for_the_same_reason_share_a_line(
    make_case: MakeCase, make_metric: Callable[..., MetricResult]
) -> None:
    undefined = [make_metric(name, None, 0.5, reason="the case has no turns") for name in ("bleu", "rouge_1")]
    failed = [make_metric(name, 0.0, 0.5) for name in ("exact_match", "rouge_2")]
    case = make_case("a", CaseStatus.FAILED, metrics=(*undefined, *failed))

    assert explain(case) == [
        "bleu, rouge_1: undefined: the case has no turns",
        "exact_match: 0.00 < 0.50",
        "rouge_2: 0.00 < 0.50",
    ]


def test_a_case_that_could_not_run_is_explained_only_by_its_failure(
    make_case: MakeCase, make_metric: Callable[..., MetricResult]
) -> None:
    failure = Failure(kind=FailureKind.TIMEOUT, message="took longer than 3 s", turn=0)
    undefined = make_metric("bleu", None, 0.5, reason="the turn was not finished")
    case = make_case("a", CaseStatus.ERROR, failure=failure, metrics=(undefined,))

    assert explain(case) == ["timeout, turn 1: took longer than 3 s"]


def test_a_setup_failure_of_many_cases_is_shown_once(make_report: MakeReport, make_case: MakeCase) -> None:
    no_key, broken = (Failure(kind=FailureKind.SETUP, message=text, turn=0) for text in ("no key", "no module"))
    agent_failure = Failure(kind=FailureKind.AGENT, message="ValueError: no")
    cases = [
        *(make_case(f"a{number}", CaseStatus.ERROR, failure=no_key) for number in range(3)),
        make_case("b", CaseStatus.ERROR, failure=broken),
        *(make_case(f"c{number}", CaseStatus.ERROR, failure=agent_failure) for number in range(2)),
        make_case("a1", CaseStatus.ERROR, failure=no_key, eval_set="sets/dark.evalset.json"),
    ]

    lines = make_table(cases, make_report(cases))

    assert lines.count("      setup, turn 1: no key") == 1
    assert lines.count("      setup, turn 1: no module") == 1
    assert lines.count("      agent: ValueError: no") == 2
    assert [line.split()[2] for line in lines if line.endswith("  setup: see a0")] == ["a1", "a2"]
    assert [line for line in lines if line.endswith("  setup: see sets/light.evalset.json:a0")]


def test_an_error_of_a_custom_metric_names_the_metric_once(
    make_case: MakeCase, make_metric: Callable[..., MetricResult]
) -> None:
    broken = make_metric("mine", None, 0.5, status=MetricStatus.ERROR, reason="mine: RuntimeError: nope")

    assert explain(make_case("a", CaseStatus.ERROR, metrics=(broken,))) == [
        "mine: could not be computed: RuntimeError: nope"
    ]


def test_columns_are_numbered_if_their_names_do_not_fit(
    make_report: MakeReport, make_case: MakeCase, make_metric: Callable[..., MetricResult]
) -> None:
    names = [f"a_metric_with_a_long_name_{number}" for number in range(6)]
    metrics = tuple(make_metric(name, number / 10, 0.0) for number, name in enumerate(names))
    cases = [make_case("a", CaseStatus.PASSED, metrics=metrics)]

    lines = make_table(cases, make_report(cases), TableStyle(width=80))

    assert max(map(len, lines)) <= 80
    table = " ".join(lines)
    assert all(f"({number + 1}) {name}" in table for number, name in enumerate(names))
    heads = next(line for line in lines if line.lstrip().startswith("(1)     (2)"))
    row = next(line for line in lines if "PASSED" in line)
    assert [row[heads.index(f"({number + 1})") :][:4] for number in range(6)] == [f"0.{number}0" for number in range(6)]
    assert not any("(1)" in line for line in make_table(cases, make_report(cases), TableStyle(width=300)))


def test_scores_show_enough_digits_to_differ_from_the_threshold() -> None:
    assert score_text(0.79999, 0.8) == "0.79999"
    assert score_text(0.7999999999999999, 0.8) == "0.7999999999999999"
    assert score_text(0.8000000000000002, 0.8) == "0.80"
    assert score_text(0.5, 0.8) == "0.50"
    assert score_text(1.0, 1.0) == "1.00"


@pytest.mark.parametrize(
    "change",
    [
        (1, True, "f: x: expected 1, got true"),
        ("\u00e9", "e\u0301", 'f: x: expected "\\u00e9", got "e\\u0301"'),
        ("a" * 500 + "b", "a" * 500 + "c", f'f: x: expected ...{"a" * 40}b", got ...{"a" * 40}c"'),
        ({"y": [1, 2]}, {"y": [1, 3]}, "f: x.y[1]: expected 2, got 3"),
    ],
)
def test_the_explanation_shows_the_visible_difference(
    make_case: MakeCase,
    make_invocation: Callable[..., Invocation],
    make_metric: Callable[..., MetricResult],
    change: tuple[Any, Any, str],
) -> None:
    expected_value, actual_value, line = change
    case = make_case(
        "a",
        CaseStatus.FAILED,
        expected=make_invocation(calls=[("f", {"x": expected_value})]),
        actual=make_invocation(calls=[("f", {"x": actual_value})]),
        metrics=(make_metric("trajectory_exact_match", 0.0),),
    )

    assert explain(case) == ["trajectory_exact_match: 0.00 < 1.00", line]


def test_judge_samples_appear_only_in_verbose_mode(make_report: MakeReport, make_case: MakeCase) -> None:
    judgement = Judgement(model="gemini", prompt="p", samples=(JudgeSample(score=1.0, rationale="fine"),))
    score = InvocationScore(score=1.0, judgement=judgement)
    metric = MetricResult(name="m", score=1.0, threshold=1.0, status=MetricStatus.PASSED, per_invocation=(score,))
    case = make_case("good", CaseStatus.PASSED, metrics=(metric,))

    assert "      sample 1: 1: fine" in make_table([case], make_report([case]), TableStyle(verbose=True))
    assert "fine" not in "".join(make_table([case], make_report([case])))


def test_only_the_first_of_many_differences_are_listed(
    make_case: MakeCase, make_invocation: Callable[..., Invocation], make_metric: Callable[..., MetricResult]
) -> None:
    case = make_case(
        "many",
        CaseStatus.FAILED,
        expected=make_invocation(),
        actual=make_invocation(calls=[("t", {"n": number}) for number in range(1_000)]),
        metrics=(make_metric("tool_trajectory_avg_score", 0.0),),
    )

    lines = explain(case)

    assert len(lines) < 110
    assert lines[-1] == "and 900 more differences, in the JSON report"


def test_the_adk_summary_does_not_count_skipped_cases_as_failed(
    make_report: MakeReport, every_status: list[ReportedCase]
) -> None:
    lines = format_summary(make_report(every_status))

    assert lines[-3:] == ["  Tests passed: 1", "  Tests failed: 3", "  Tests not run: 2"]


def test_a_long_eval_id_is_shortened_in_the_middle(make_report: MakeReport, make_case: MakeCase) -> None:
    ids = "start" + "x" * 300_000 + "end", "short", "开始" + "关" * 72 + "结束", "字" * 60 + "x" * 200 + "字" * 60
    cases = [make_case(eval_id, CaseStatus.PASSED) for eval_id in ids]

    lines = make_table(cases, make_report(cases))

    assert any("startxxx" in line and "xxxend" in line for line in lines)
    assert any("开始关" in line and "关结束" in line for line in lines)
    assert max(map(cell_length, lines)) < 150


def test_replayed_model_calls_are_marked_and_reasons_of_live_ones_are_counted(
    make_report: MakeReport, make_case: MakeCase
) -> None:
    difference = RequestDifference(call=2, turn=0, what="instruction, line 4", before="a", now="b")
    partly = ModelCalls(live=1, replayed=2, difference=difference)
    dated = difference.model_copy(update={"what": "message 1", "hint": "it looks like a date"})
    live = ModelCalls(live=1, difference=dated)
    calls = {"all": ModelCalls(replayed=3), "some": partly, "more": partly, "none": None, "dated": live}
    cases = [make_case(name, CaseStatus.PASSED, model_calls=made) for name, made in calls.items()]
    report = make_report(cases)
    report = replace(report, summary=report.summary.model_copy(update={"model_calls": ModelCalls(live=2, replayed=7)}))

    lines = make_table(cases, report)

    assert [line.rpartition(" s")[2].strip() for line in lines if "PASSED" in line] == [
        "↺",
        "↺ 2 of 3",
        "↺ 2 of 3",
        "",
        "",
    ]
    assert "↺ 7 of 9 model calls replayed, 0.00 s saved" in lines
    assert "models asked live: instruction, line 4 changed (2 cases)" in lines
    assert "models asked live: message 1 changed; it looks like a date (1 case)" in lines
