"""Tool calls written in a response: the documented definitions, and the cases that these leave open."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.metrics.response import NoCall, WrittenCall, parameter_kv_match, read_call
from workbench.testing import EvalResult, EvalTask

METRICS = ["tool_call_valid", "tool_name_match", "tool_parameter_key_match", "tool_parameter_kv_match"]


@pytest.fixture(autouse=True)
def project(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def format_calls(name: str, **arguments: Any) -> str:
    return json.dumps({"content": "", "tool_calls": [{"name": name, "arguments": arguments}]})


def evaluate(response: str, reference: str) -> EvalResult:
    task = EvalTask(dataset={"response": [response], "reference": [reference]}, metrics=METRICS, history=False)
    return task.evaluate()


BOOKED = format_calls("book_tickets", movie="M", tickets=2)


@pytest.mark.parametrize(
    ("response", "scores"),
    [
        (BOOKED, [1, 1, 1, 1]),
        (format_calls("book_tickets", tickets=2.0, movie="M"), [1, 1, 1, 1]),
        (format_calls("book_tickets", movie="N", tickets=2), [1, 1, 1, 0.5]),
        (format_calls("book_tickets", movie="M"), [1, 1, 0.5, 0.5]),
        (format_calls("book_tickets", movie="M", tickets=2, row=7, seat=8), [1, 1, 0.5, 0.5]),
        (format_calls("reserve", movie="M", tickets=2), [1, 0, 1, 1]),
        (format_calls("book_tickets", film="M"), [1, 1, 0, 0]),
        ("I have booked two tickets.", [0, 0, 0, 0]),
        (json.dumps({"content": "booked", "tool_calls": []}), [0, 0, 0, 0]),
        (json.dumps({"content": "", "tool_calls": [{"name": "book_tickets"}]}), [0, 0, 0, 0]),
        (json.dumps({"tool_calls": json.dumps([{"name": "book_tickets", "arguments": "{}"}])}), [1, 1, 0, 0]),
    ],
)
def test_the_first_call_is_compared_with_that_of_the_reference(response: str, scores: list[float]) -> None:
    (row,) = evaluate(response, BOOKED).rows

    assert [row[f"{metric}/score"] for metric in METRICS] == scores


def test_a_reference_without_a_call_gives_a_reason_and_no_score() -> None:
    result = evaluate(BOOKED, "two tickets")

    assert result.rows[0]["tool_call_valid/score"] == 1.0
    assert {problem.column: problem.reason for problem in result.problems} == dict.fromkeys(
        [f"{metric}/score" for metric in METRICS[1:]],
        'the reference is not a JSON object with "content" and "tool_calls"',
    )


def test_calls_without_parameters_have_no_parameter_scores() -> None:
    (row,) = evaluate(format_calls("stop"), format_calls("stop")).rows

    assert [row[f"{metric}/score"] for metric in METRICS] == [1, 1, None, None]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(JSON, JSON)
def test_any_json_of_a_model_is_read_as_a_call_or_refused(value: Any, calls: Any) -> None:
    for text in (json.dumps(value), json.dumps({"content": "", "tool_calls": calls}), str(value)):
        try:
            call = read_call(text)
        except NoCall:
            continue
        share = parameter_kv_match(call, WrittenCall("f", call.arguments)).value
        assert share == (1.0 if call.arguments else None)
