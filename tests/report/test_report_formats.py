"""Report formats: valid for any text, with the same facts in each."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree

import pytest

from workbench.model.evalset import EvalCase, Invocation
from workbench.model.identity import CaseKey
from workbench.model.results import (
    CaseResult,
    CaseStatus,
    MetricResult,
    MetricStatus,
    ModelCalls,
    RequestDifference,
    make_row_case,
    make_row_execution,
    make_row_prompt,
    make_row_turn,
)
from workbench.model.run_events import MetricSummary
from workbench.report.report_formats import WRITERS, case_text, dump, metric_record, write_report
from workbench.report.run_report import ReportedCase, RunReport

MakeReport = Callable[..., RunReport]


def test_json_has_the_documented_shape(make_report: MakeReport, every_status: list[ReportedCase]) -> None:
    metrics = {"tool_trajectory_avg_score": MetricSummary(mean=0.5, std=0.7071, scored=2, total=6)}

    data = json.loads(write_report(make_report(every_status, metrics=metrics), "json"))

    assert data["schema_version"] == 2
    assert data["run_id"] == "20261121-1"
    assert data["summary"] == {
        "total": 6, "passed": 1, "failed": 1, "quarantined": 0, "error": 1, "not_evaluated": 1, "skipped": 1,
        "cancelled": 1, "partly_judged": 0,
        "metrics": {
            "tool_trajectory_avg_score": {"mean": 0.5, "std": 0.7071, "scored": 2, "total": 6, "interval": None},
        },
        "models": [], "model_calls": None,
    }  # fmt: skip
    assert data["criteria"]["sets/light.evalset.json"]["criteria"][0] == {
        "name": "tool_trajectory_avg_score",
        "threshold": 1.0,
        "options": {},
    }
    case = data["cases"][1]
    assert {key: case[key] for key in ("target", "eval_set_id", "eval_id", "repeat", "status", "error")} == {
        "target": "home", "eval_set_id": "light", "eval_id": "wrong|device", "repeat": 0, "status": "FAILED",
        "error": None,
    }  # fmt: skip
    assert case["metrics"][0].items() >= {
        "name": "tool_trajectory_avg_score", "score": 0.0, "threshold": 1.0, "status": "FAILED", "reason": None,
    }.items()  # fmt: skip
    assert case["differences"] == [
        {
            "turn": 0, "kind": "argument_changed", "tool": "set_device", "expected_call": 0, "actual_call": 0,
            "path": ["device_id"], "expected": "device_2", "actual": "device_3",
            "cost_points_in": ["tool_trajectory_avg_score"],
        }
    ]  # fmt: skip
    assert case["turns"][0]["trajectory"] == [
        {"name": "set_device", "args": {"device_id": "device_3", "status": "OFF"}}
    ]


def test_the_error_of_a_case_is_in_json_without_its_secret(
    make_report: MakeReport, every_status: list[ReportedCase]
) -> None:
    error = json.loads(write_report(make_report(every_status), "json"))["cases"][2]["error"]

    assert (error["kind"], error["turn"]) == ("agent", 0)
    assert "boom" in error["message"]
    assert "sk-" not in error["message"]


@pytest.mark.parametrize("name", ["", "mine: "])  # the error of a custom function has the name
def test_a_metric_that_could_not_be_computed_is_the_error_of_its_case(
    make_report: MakeReport, make_case: Callable[..., ReportedCase], make_metric: Callable[..., MetricResult], name: str
) -> None:
    broken = make_metric("mine", None, status=MetricStatus.ERROR, reason=f"{name}ImportError: no module named mine")
    report = make_report([make_case("a", CaseStatus.ERROR, metrics=(broken,))])

    (case,) = json.loads(write_report(report, "json"))["cases"]

    assert case["error"]["kind"] == "metric"
    assert case["error"]["message"] == "mine: ImportError: no module named mine"


def test_json_has_only_valid_numbers_and_safe_characters(
    make_report: MakeReport,
    make_case: Callable[..., ReportedCase],
    make_invocation: Callable[..., Invocation],
    make_metric: Callable[..., MetricResult],
) -> None:
    odd = make_invocation(
        response="half \ud800, right-to-left \u202e, csi \x9b31m", calls=[("f", {"x": math.nan, "y": [math.inf]})]
    )
    case = make_case("a", CaseStatus.PASSED, actual=odd, metrics=(make_metric("mine", math.nan, None),))

    text = write_report(make_report([case]), "json")

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    data = json.loads(text, parse_constant=refuse)
    assert data["cases"][0]["metrics"][0]["score"] is None
    assert data["cases"][0]["turns"][0]["trajectory"][0]["args"] == {"x": None, "y": [None]}
    assert not set(text) & {"\u202e", "\x9b"}
    assert "\u202e" in data["cases"][0]["turns"][0]["response"]
    text.encode("utf-8")


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"score": -0.0},
        {"score": math.inf},
        {"score": 1e-7},
        {"score": None},
        {"threshold": 0.5},
        {"reason": "why"},
        {"hint": "beware"},
        {"details": {"a": 1}},
        {"name": 'sk-abcdefghijklmnopqrstuvwx "score": null'},
    ],
)
def test_the_text_of_a_metric_is_its_record(
    make_case: Callable[..., ReportedCase], make_metric: Callable[..., MetricResult], more: dict[str, Any]
) -> None:
    measured = make_metric("latency", 0.25, None, per_invocation=()).model_copy(update=more)

    text = case_text(make_case("a", CaseStatus.PASSED, metrics=(measured, measured)))

    assert f'"metrics": {dump([metric_record(measured)] * 2)}, "simulation"' in text


def test_json_lines_contain_the_cases_followed_by_the_run(
    make_report: MakeReport, every_status: list[ReportedCase]
) -> None:
    lines = [json.loads(line) for line in write_report(make_report(every_status), "jsonl").splitlines()]

    assert [line["kind"] for line in lines] == ["case"] * 6 + ["run"]
    assert {line["schema_version"] for line in lines} == {2}
    assert lines[-1]["summary"]["total"] == 6


def test_junit_is_valid_xml_and_distinguishes_the_outcomes(
    make_report: MakeReport, every_status: list[ReportedCase]
) -> None:
    root = ElementTree.fromstring(write_report(make_report(every_status), "junit"))

    outcomes = {
        case.get("name"): [child.tag for child in case if child.tag in ("error", "failure", "skipped")]
        for case in root.iter("testcase")
    }
    assert outcomes == {
        "good": [], "wrong|device": ["failure"], "boom": ["error"], "空": ["failure"],
        "left out": ["skipped"], "stopped": ["skipped"],
    }  # fmt: skip
    assert root.attrib.items() >= {"tests": "6", "failures": "2", "errors": "1", "skipped": "2"}.items()
    types = {case.get("name"): child.get("type") for case in root.iter("testcase") for child in case.iter("failure")}
    assert types == {"wrong|device": "FAILED", "空": "NOT_EVALUATED"}
    (error,) = root.iter("error")
    assert "\u241b[31mboom\u2400 <&> [redacted]" in (error.text or "")


def test_junit_accepts_every_character(make_report: MakeReport, make_case: Callable[..., ReportedCase]) -> None:
    every = "".join(map(chr, [*range(0x300), 0xD800, 0xFFFE, 0xFFFF, 0x1F600]))

    xml = write_report(make_report([make_case(every, CaseStatus.PASSED)]), "junit")

    ElementTree.fromstring(xml.encode("utf-8"))


def test_markdown_escapes_markup(make_report: MakeReport, every_status: list[ReportedCase]) -> None:
    text = write_report(make_report(every_status), "markdown")

    row = next(line for line in text.splitlines() if "wrong" in line and line.startswith("|"))
    assert row.startswith("| ✗ FAILED | wrong\\|device | **0.00** |")
    assert 'device\\_id: expected "device\\_2", got "device\\_3"' in text
    assert "boom\u2400 \\<\\&\\>" in text  # `&lt;` would be shown as `<`
    assert "\x1b" not in text


def test_csv_has_a_row_for_each_case_with_json_cells(make_report: MakeReport, every_status: list[ReportedCase]) -> None:
    rows = list(csv.DictReader(io.StringIO(write_report(make_report(every_status), "csv"))))

    assert [row["status"] for row in rows] == [case.result.status.value for case in every_status]
    wrong = rows[1]
    assert json.loads(wrong["trajectories"])[0][0]["args"]["device_id"] == "device_3"
    assert json.loads(wrong["prompts"]) == ["turn it off"]
    assert (wrong["tool_trajectory_avg_score"], wrong["tool_trajectory_avg_score.status"]) == ("0.0", "FAILED")
    assert rows[0]["response_match_score"] == ""


@pytest.mark.parametrize(("calls", "trajectory"), [(None, None), ([], [])])
def test_a_row_without_a_trajectory_differs_from_one_without_calls(
    calls: list[Any] | None, trajectory: list[Any] | None, make_report: MakeReport
) -> None:
    expected_case = make_row_case("row_1", make_row_turn(make_row_prompt("a"), "a", None))
    execution = make_row_execution(make_row_turn(make_row_prompt("a"), "a", calls), seconds=0.0)
    key = CaseKey(target="t", eval_set="rows.jsonl", eval_id="row_1")
    result = CaseResult(
        case=key, eval_set_id="rows", status=CaseStatus.PASSED, execution=execution, expected_by_row=expected_case
    )
    report = make_report([ReportedCase(result, expected_case)])

    (case,) = json.loads(write_report(report, "json"))["cases"]
    (row,) = csv.DictReader(io.StringIO(write_report(report, "csv")))

    assert [turn["trajectory"] for turn in case["turns"]] == [trajectory]
    assert json.loads(row["trajectories"]) == [trajectory]


@pytest.mark.parametrize("report_format", ["json", "csv"])
def test_a_wrong_final_state_is_among_the_differences(
    make_report: MakeReport,
    make_case: Callable[..., ReportedCase],
    make_invocation: Callable[..., Invocation],
    report_format: str,
) -> None:
    turn = make_invocation()
    case = make_case("a", CaseStatus.FAILED, expected=turn, actual=turn, final_state={"room": "hall"})
    expected_case = EvalCase(eval_id="a", conversation=[turn], final_session_state={"room": "bedroom"})
    text = write_report(make_report([ReportedCase(case.result, expected_case)]), report_format)

    if report_format == "json":
        found = json.loads(text)["cases"][0]["differences"]
    else:
        found = json.loads(next(csv.DictReader(io.StringIO(text)))["differences"])

    assert [(item["turn"], item["kind"], item["path"], item["actual"]) for item in found] == [
        (None, "state_changed", ["room"], "hall")
    ]


@pytest.mark.parametrize(
    ("report_format", "signs"),
    [
        ("junit", ('name="unclear" value="UNDEFINED"', 'name="broken" value="ERROR"')),
        ("markdown", ("| undefined |", "| error |")),
        ("csv", (",UNDEFINED", ",ERROR")),
        ("json", ('"status": "UNDEFINED"', '"status": "ERROR"')),
    ],
)
def test_undefined_differs_from_an_error_in_every_format(
    make_report: MakeReport,
    make_case: Callable[..., ReportedCase],
    make_metric: Callable[..., MetricResult],
    report_format: str,
    signs: tuple[str, str],
) -> None:
    undefined, error = signs
    metrics = (make_metric("unclear", None), make_metric("broken", None, status=MetricStatus.ERROR))
    for metric, own, other in ((metrics[0], undefined, error), (metrics[1], error, undefined)):
        text = write_report(make_report([make_case("a", CaseStatus.NOT_EVALUATED, metrics=(metric,))]), report_format)

        assert own in text
        assert other not in text


def test_markdown_shows_all_criteria_but_only_known_informational_metrics(
    make_report: MakeReport, make_case: Callable[..., ReportedCase], make_metric: Callable[..., MetricResult]
) -> None:
    metrics = (make_metric("tool_trajectory_avg_score", 0.5, None), make_metric("latency", 0.25, None))
    means = {
        "tool_trajectory_avg_score": MetricSummary(mean=None, std=None, scored=0, total=1),
        "latency": MetricSummary(mean=0.25, std=None, scored=1, total=1),
        "token_usage_v1": MetricSummary(mean=None, std=None, scored=0, total=1),
    }

    text = write_report(make_report([make_case("a", CaseStatus.PASSED, metrics=metrics)], metrics=means), "markdown")

    assert "| status | case | tool\\_trajectory\\_avg\\_score | seconds |" in text
    assert "| ✓ PASSED | a | 0.50 |" in text
    assert "| latency | 0.25 |" in text
    assert "| tool\\_trajectory\\_avg\\_score |  |  |  | 0 of 1 |" in text
    assert "token" not in text


def test_csv_cells_are_not_formulas(make_report: MakeReport, make_case: Callable[..., ReportedCase]) -> None:
    report = make_report([make_case("=HYPERLINK(1)", CaseStatus.PASSED)])

    (row,) = csv.DictReader(io.StringIO(write_report(report, "csv")))

    assert row["eval_id"] == "'=HYPERLINK(1)"


@pytest.mark.parametrize("report_format", WRITERS)
def test_every_format_reports_an_empty_run(make_report: MakeReport, report_format: str) -> None:
    assert write_report(make_report([]), report_format)


@pytest.mark.parametrize("report_format", ["markdown", "csv", "junit", "json", "html"])
def test_no_format_contains_control_characters(
    make_report: MakeReport, every_status: list[ReportedCase], report_format: str
) -> None:
    text: Any = write_report(make_report(every_status), report_format)

    assert not {character for character in text if ord(character) < 32} - {"\n", "\t"}


@pytest.mark.parametrize(
    ("report_format", "text"),
    [
        ("markdown", "| ✓ PASSED ↺ 2 of 3 | a |"),
        ("junit", '<property name="model calls" value="↺ 2 model calls replayed, 1 model call asked live" />'),
        ("json", '"model_calls": {"live": 1, "replayed": 2, '),
        ("html", '"replay": "\\u21ba 2 model calls replayed, 1 model call asked live"'),
    ],
)
def test_a_verdict_that_rests_on_replayed_model_calls_is_marked(
    make_report: MakeReport, make_case: Callable[..., ReportedCase], report_format: str, text: str
) -> None:
    report = make_report([make_case("a", CaseStatus.PASSED, model_calls=ModelCalls(live=1, replayed=2))])

    assert text in write_report(report, report_format)


def test_a_difference_to_a_recording_is_data(make_report: MakeReport, make_case: Callable[..., ReportedCase]) -> None:
    difference = RequestDifference(call=2, turn=0, what="instruction, line 4", before="Be nice.", now="Be brief.")
    report = make_report([make_case("a", CaseStatus.PASSED, model_calls=ModelCalls(live=1, difference=difference))])

    data = json.loads(write_report(report, "json"))

    assert data["cases"][0]["model_calls"]["difference"] == {
        "call": 2, "turn": 0, "what": "instruction, line 4", "before": "Be nice.", "now": "Be brief.", "hint": None,
        "is_json": False, "error": None, "uncovered": None, "unnamed": None,
    }  # fmt: skip
