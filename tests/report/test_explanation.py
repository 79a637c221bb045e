"""Reasons are the differences that cost points; causes are what the trace shows beside them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from workbench.model.evalset import Invocation
from workbench.model.results import CaseStatus, MetricResult
from workbench.model.trace import Span, SpanKind
from workbench.report.report_formats import write_report
from workbench.report.run_report import ReportedCase
from workbench.report.text_report import aligned_lines, explain, explain_in_one_line, list_causes

MakeCase = Callable[..., ReportedCase]
MakeInvocation = Callable[..., Invocation]
MakeMetric = Callable[..., MetricResult]
TRAJECTORY = "tool_trajectory_avg_score"


@pytest.fixture
def fail(make_case: MakeCase, make_invocation: MakeInvocation, make_metric: MakeMetric) -> MakeCase:
    """Make a case that failed by its calls. `details` are the options of the criterion."""

    def make(expected: Any, actual: Any, *, details: dict[str, Any] | None = None, **more: Any) -> ReportedCase:
        return make_case(
            "off",
            CaseStatus.FAILED,
            expected=make_invocation(calls=expected),
            actual=make_invocation(calls=actual).model_copy(update=more.pop("actual_update", {})),
            metrics=(make_metric(TRAJECTORY, 0.0, details=details or {}),),
            **more,
        )

    return make


LOG, SET = ("log", {"at": "8:00"}), ("set_light", {"on": True})
GET: tuple[str, dict[str, Any]] = ("get_light", {})


@pytest.mark.parametrize(
    ("details", "expected", "actual", "reasons"),
    [
        (
            {"args_match": {"tools": {"log": "ignore"}}},
            [LOG, SET],
            [("log", {"at": "9:00"}), ("set_light", {"on": False})],
            ["set_light: on: expected true, got false"],
        ),
        ({"match_type": "ANY_ORDER"}, [LOG, SET], [SET, GET], ['missing call 1: log(at="8:00")']),
        ({"match_type": "IN_ORDER"}, [LOG], [GET], ['missing call 1: log(at="8:00")']),
        ({"ignore_tools": ["get_light"]}, [LOG], [GET], ['missing call 1: log(at="8:00")']),
        ({}, [LOG], [LOG, GET], ["unexpected call 2: get_light()"]),
    ],
)
def test_only_what_cost_points_is_a_reason(
    fail: MakeCase, make_report: Any, details: dict[str, Any], expected: Any, actual: Any, reasons: list[str]
) -> None:
    case = fail(expected, actual, details=details)

    assert explain(case)[1:] == reasons
    assert explain_in_one_line(case) == reasons[0]
    signs = [line for line in aligned_lines(case) if line[2:3] in "+-"]
    assert len({line.split(" (")[0] for line in signs if "(" in line or ":" in line}) <= 2
    (record,) = json.loads(write_report(make_report([case]), "json"))["cases"]
    assert [bool(each["cost_points_in"]) for each in record["differences"]].count(True) == len(reasons)


def test_differences_of_passing_turns_are_quiet(
    make_case: MakeCase, make_invocation: MakeInvocation, make_metric: MakeMetric
) -> None:
    case = make_case(
        "off",
        CaseStatus.FAILED,
        expected=make_invocation(calls=[LOG], response="The light is off."),
        actual=make_invocation(calls=[LOG, GET], response="It is dark."),
        metrics=(
            make_metric(TRAJECTORY, 1.0, details={"match_type": "ANY_ORDER"}),
            make_metric("response_match_score", 0.2),
        ),
    )

    assert explain(case)[1:] == ['response: expected "The light is off.", got "It is dark."']
    assert "+ get_light" not in "\n".join(aligned_lines(case))


def test_a_call_of_a_tool_that_the_agent_does_not_have_is_named_with_its_tools(fail: MakeCase) -> None:
    tools = [{"function_declarations": [{"name": "log"}, {"name": "set_light"}]}]
    details = {"agent_details": {"home": {"tool_declarations": tools}}}
    case = fail([LOG], [LOG, GET], actual_update={"app_details": details})

    assert explain(case)[-1] == "get_light: the agent has no such tool; it has log, set_light"


def test_a_call_inside_an_agent_tool_and_a_call_of_the_framework_are_named(fail: MakeCase) -> None:
    inside = Span(id="1", kind=SpanKind.TOOL, name="log")
    case = fail([LOG], [("set_model_response", {"city": "Rome"})], spans=(inside,))

    lines = explain(case)

    assert 'unexpected call 1: set_model_response(city="Rome") (a call of the framework itself)' in lines
    assert lines[-1] == "log was called inside an AgentTool, whose calls are no part of the trajectory"


def test_remarks_on_a_turn_are_beside_the_verdict_also_of_a_case_that_passed(
    make_case: MakeCase, make_invocation: MakeInvocation, make_metric: MakeMetric, make_report: Any
) -> None:
    case = make_case(
        "off",
        CaseStatus.PASSED,
        expected=make_invocation(),
        actual=make_invocation(),
        metrics=(make_metric(TRAJECTORY, 1.0),),
    )
    (turn,) = case.result.execution.turns
    turns = (turn.model_copy(update={"notes": ("logged as an error: no store",)}),)
    execution = case.result.execution.model_copy(update={"turns": turns})
    noted = ReportedCase(case.result.model_copy(update={"execution": execution}), case.expected)

    for report_format in ("junit", "json"):
        assert "logged as an error: no store" in write_report(make_report([noted]), report_format)
    assert list_causes(noted) == ["logged as an error: no store"]


@pytest.mark.parametrize(
    ("response", "end"),
    [
        ({"finish_reason": "MAX_TOKENS"}, "MAX_TOKENS"),
        ({"candidates": [{"finishReason": "SAFETY"}]}, "SAFETY"),
        ({"choices": [{"finish_reason": "length"}]}, "length"),
        ({"finish_reason": "STOP"}, None),
        ({"response_metadata": {"finish_reason": "tool_calls"}}, None),
        ("text", None),
    ],
)
def test_a_response_that_the_model_did_not_finish_is_said_beside_the_failing_score(
    make_case: MakeCase, make_invocation: MakeInvocation, make_metric: MakeMetric, response: Any, end: str | None
) -> None:
    case = make_case(
        "off",
        CaseStatus.FAILED,
        expected=make_invocation(response="The light is off."),
        actual=make_invocation(response="The li"),
        metrics=(make_metric("response_match_score", 0.2),),
        spans=(Span(id="1", kind=SpanKind.MODEL, response=response),),
    )

    said = f"the model stopped with {end}: the response may be cut"
    assert (said in explain(case)) is (end is not None)
    assert ("stopped" in "".join(explain(case))) is (end is not None)
