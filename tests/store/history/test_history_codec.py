"""Every possible result of a run is stored exactly."""

from __future__ import annotations

import json
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.store.history.conftest import make_record
from workbench.model.evalset import EvalCase, Invocation
from workbench.model.identity import CaseKey, JobKey
from workbench.model.results import (
    CaseResult,
    CaseStatus,
    Execution,
    Failure,
    MetricResult,
    ModelSpending,
    TokenUsage,
    TurnResult,
    make_row_prompt,
    make_row_turn,
)
from workbench.model.trace import Span, ToolCall
from workbench.store.history.history import History

# All of Unicode, with lone surrogates and the characters that are difficult for formats.
TEXT = st.text(st.characters(exclude_categories=()), max_size=8) | st.sampled_from(
    ["", "\x00", "\ud800", "'\"\\\r\n\u2028"]
)
NUMBERS = st.floats(allow_nan=False) | st.integers()  # NaN is unequal to itself: see the test below
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
OBJECT = st.dictionaries(TEXT, JSON, max_size=3)
FLOATS = st.floats(allow_nan=False)

FAILURES = st.builds(
    Failure, message=TEXT, turn=st.none() | st.integers(0, 9), traceback=st.none() | TEXT, stderr_tail=st.none() | TEXT
)
PARTS = st.fixed_dictionaries(
    {},
    optional={
        "text": TEXT,
        "thought": st.booleans(),
        "function_call": st.fixed_dictionaries({"name": TEXT}, optional={"args": OBJECT, "id": TEXT, "unknown": JSON}),
        "inline_data": JSON,
    },
)
CONTENTS = st.fixed_dictionaries({"parts": st.none() | st.lists(PARTS, max_size=2)}, optional={"role": TEXT})
EVENTS = st.lists(st.fixed_dictionaries({"author": TEXT}, optional={"content": CONTENTS}), max_size=2)
INTERMEDIATE: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.just({}),
    st.fixed_dictionaries({"invocation_events": EVENTS}),
    st.fixed_dictionaries(
        {"tool_uses": st.lists(st.fixed_dictionaries({"name": TEXT, "args": OBJECT}), max_size=2)},
        optional={
            "intermediate_responses": st.lists(st.tuples(TEXT, st.lists(PARTS, max_size=1)).map(list), max_size=2)
        },
    ),
)
INVOCATIONS = st.fixed_dictionaries(
    {"user_content": CONTENTS},
    optional={"final_response": CONTENTS, "intermediate_data": INTERMEDIATE, "app_details": OBJECT, "extra": JSON},
).map(Invocation.model_validate)
TURNS = st.builds(
    TurnResult,
    invocation=INVOCATIONS,
    duration_seconds=FLOATS,
    inference_calls=st.none() | st.integers(0, 5),
    usage=st.none() | st.builds(TokenUsage, prompt=st.none() | st.integers(0)),
)
SPANS = st.builds(Span, id=TEXT, name=TEXT, start=st.none() | FLOATS, request=JSON, response=JSON, attributes=OBJECT)
EXECUTIONS = st.builds(
    Execution,
    turns=st.lists(TURNS, max_size=2).map(tuple),
    final_state=st.none() | OBJECT,
    spans=st.lists(SPANS, max_size=2).map(tuple),
    duration_seconds=FLOATS,
    unfinished_seconds=FLOATS,
    failure=st.none() | FAILURES,
    stdout_tail=TEXT,
    stderr_tail=TEXT,
)
METRICS = st.builds(MetricResult, name=TEXT, score=st.none() | FLOATS, threshold=st.none() | FLOATS, details=OBJECT)
KEYS = st.builds(CaseKey, target=TEXT, eval_set=TEXT, eval_id=TEXT, occurrence=st.integers(0, 3))
ROW_TURNS = st.builds(
    make_row_turn,
    (st.none() | TEXT).map(make_row_prompt),
    st.none() | TEXT,
    st.none() | st.lists(st.builds(ToolCall, TEXT, st.none() | OBJECT), max_size=2),
)

DEVIATIONS = st.sampled_from(
    [
        {},
        {"invocation_id": "i"},
        {"creation_timestamp": 1.5},
        {"rubrics": []},
        {"app_details": {}},
        {"unknown": None},
        {"user_content": {"role": "user"}},
        {"user_content": {"parts": []}},
        {"user_content": {"role": "model", "parts": [{"text": "a"}]}},
        {"user_content": {"role": "user", "parts": [{"text": "a"}, {"text": "b"}]}},
        {"user_content": {"role": "user", "parts": [{"text": "a", "unknown": 1}]}},
        {"user_content": {"role": "user", "parts": [], "unknown": 1}},
        {"final_response": {"role": "model", "parts": []}},
        {"final_response": {"role": "model", "parts": [{"text": "a", "thought": False}]}},
        {"final_response": {"role": "model", "parts": [{"function_call": {"name": "f"}}]}},
        {"final_response": {"role": "model", "parts": [{"text": "", "function_response": {}}]}},
        {"intermediate_data": {"invocation_events": []}},
        {"intermediate_data": {"tool_uses": [], "unknown": 1}},
        {"intermediate_data": {"tool_uses": [{"name": "f", "id": ""}]}},
        {"intermediate_data": {"tool_uses": [{"args": {}}]}},
        {"intermediate_data": {"tool_uses": [{"name": "f", "unknown": 1}]}},
        {"intermediate_data": {"tool_responses": [{"name": "f"}]}},
        {"intermediate_data": {"intermediate_responses": [["a", []]]}},
    ]
)
"""Executions that no row produces, some of them almost equal to one from a row."""


def make_execution(
    invocation: Invocation, deviation: dict[str, Any], seconds: float, more: dict[str, Any]
) -> Execution:
    """Return the execution of a row, or a nearly equal one."""
    data = invocation.model_dump() | deviation
    turn = TurnResult.model_validate({"invocation": data, "duration_seconds": seconds})
    return Execution(turns=(turn,), **more)


EXECUTIONS_OF_ROWS = st.builds(
    make_execution,
    ROW_TURNS,
    DEVIATIONS,
    st.sampled_from([0.0, 1.5]),
    st.sampled_from([{}, {}, {"final_state": {}}, {"stderr_tail": "x"}, {"node": "n1"}, {"duration_seconds": 0.5}]),
)


def set_expected_turn(result: CaseResult, turn: Invocation | None) -> CaseResult:
    """Return the result as if its row expected this turn."""
    case = None if turn is None else EvalCase(eval_id=result.case.eval_id, conversation=[turn])
    return result.model_copy(update={"expected_by_row": case})


RESULTS = st.builds(
    CaseResult,
    case=KEYS,
    eval_set_id=TEXT,
    repeat=st.integers(0, 9),
    status=st.sampled_from(CaseStatus),
    duration_seconds=st.floats(0, 1e9),
    agent_seconds=st.floats(0, 1e9),
    failure=st.none() | FAILURES,
    metrics=st.lists(METRICS, max_size=2).map(tuple),
    execution=EXECUTIONS | EXECUTIONS_OF_ROWS,
)
RESULTS_OF_ROWS = st.builds(set_expected_turn, RESULTS, st.none() | ROW_TURNS)

RUN_NUMBERS = count()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None)
@given(st.lists(RESULTS_OF_ROWS, max_size=3, unique_by=lambda result: (result.case, result.repeat)))
def test_results_are_stored_exactly(history: History, results: list[CaseResult]) -> None:
    run = f"run {next(RUN_NUMBERS)}"
    history.begin_run(make_record(run))

    for result in results:
        history.finish_job(run, result)

    stored = list(history.results(run))
    assert stored == results
    assert [dump_strictly(result) for result in stored] == [dump_strictly(result) for result in results]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -0.0, 1e400, 10**40])
def test_numbers_that_json_lacks_are_stored(history: History, value: Any) -> None:
    span = Span(id="s", request={"x": value})
    history.begin_run(make_record("r"))
    key = CaseKey(target="t", eval_set="s", eval_id="c")
    history.finish_job("r", CaseResult(case=key, eval_set_id="s", status="PASSED", execution=Execution(spans=(span,))))

    (stored,) = history.results("r")

    assert repr(stored.execution.spans[0].request) == repr({"x": value})


@pytest.mark.parametrize(
    "details",
    [
        {"parts": [{"name": "a", "score": 1.0}, {"name": "b"}]},
        {"text": '},{"name":"a"'},
        {"list": [[{"a": 1}, {"name": '"'}], {}], "text": "ä\ud800"},
    ],
)
def test_metrics_whose_details_look_like_other_metrics_are_stored(history: History, details: dict[str, Any]) -> None:
    metrics = [MetricResult(name=name, score=0.5, threshold=None, status="PASSED", details=details) for name in "ab"]
    key = CaseKey(target="t", eval_set="s", eval_id="c")
    history.begin_run(make_record("r"))
    history.finish_job("r", CaseResult(case=key, eval_set_id="s", status="PASSED", metrics=tuple(metrics)))

    (stored,) = history.results("r")
    (scores,) = history.find_metric_scores([("r", JobKey(case=key))])

    assert list(stored.metrics) == metrics
    assert scores == (("a", 0.5), ("b", 0.5))


def dump_strictly(result: CaseResult) -> str:
    """Return a value that differs for 1, 1.0 and true, which compare equal."""
    return json.dumps(result.model_dump(), default=str)


def test_keys_of_older_versions_are_read() -> None:
    turn = {"invocation": {"user_content": {"parts": []}}, "duration_seconds": 0.0, "calls_untold": True}

    assert TurnResult.model_validate(turn).calls_unknown_by_design
    assert ModelSpending.model_validate({"model": "m", "untold": 2}).calls_without_usage == 2
