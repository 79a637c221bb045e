"""Injected answers: they replace the tool, by arguments and probability, without changes to the agent's code."""

from __future__ import annotations

import random
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.simulation.simulated_tools.conftest import (
    Project,
    get_failure,
    get_responses,
    get_result,
    get_sources,
    get_tool_spans,
)
from workbench.engine.plan import RunOptions, Selection
from workbench.engine.workspace import Workspace
from workbench.model.results import CaseStatus
from workbench.model.tool_simulation import Injection, SimulatedTool
from workbench.simulation.simulated_tools import Draws, matches_args

DOWN = {"injected_error": {"injected_http_error_code": 503, "error_message": "down"}}
DOWN_RESPONSE = '{"error_code": 503, "error_message": "down"}'
GET_7 = 'get_order {"order_id": "7"}'

scalars = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a", "b"])
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.just("k"), inner))
arguments = st.dictionaries(st.sampled_from("abcd"), values, max_size=4)


def tool(name: str, *injections: dict[str, Any], **others: Any) -> dict[str, Any]:
    return {"tool_name": name, "injection_configs": list(injections), **others}


@pytest.mark.parametrize("isolation", ["case", "worker"])
def test_a_simulated_tool_answers_and_is_not_called(project: Project, isolation: Any) -> None:
    project.settings('simulate_tools = "environment.json"')
    project.environment(tool("get_order", {"injected_response": {"status": "MADE UP"}}))
    project.cases(one=f'{GET_7}\ncancel_order {{"order_id": "7"}}')

    run = project.run(isolation=isolation)

    assert get_responses(run) == ['{"status": "MADE UP"}; {"cancelled": "7"}']
    assert project.real_calls == ["cancel_order 7"]
    assert get_sources(run) == ["injected", None]
    assert [span.request for span in get_tool_spans(run)] == [{"order_id": "7"}] * 2


def test_the_first_matching_injection_answers_and_other_calls_reach_the_tool(project: Project) -> None:
    project.environment(
        tool("get_order", {"match_args": {"order_id": "8"}, **DOWN}, {"match_args": {"fast": True}, **DOWN})
    )
    project.cases(one=f'{GET_7}\nget_order {{"order_id": "8"}}\nget_order {{"order_id": "9", "fast": true}}')

    run = project.run(simulate_tools=project.root / "environment.json")

    assert get_responses(run) == [f'{{"order_id": "7", "status": "REAL"}}; {DOWN_RESPONSE}; {DOWN_RESPONSE}']
    assert project.real_calls == ["get_order 7"]


@given(args=arguments, expected=arguments)
def test_a_call_matches_if_and_only_if_it_contains_the_expected_arguments(
    args: dict[str, Any], expected: dict[str, Any]
) -> None:
    is_part = all(name in args and repr(args[name]) == repr(value) for name, value in expected.items())

    assert matches_args(args, expected) is is_part
    assert matches_args({**args, **expected}, expected)
    assert matches_args(args, None)


@given(seed=st.integers(), probability=st.floats(0, 1), calls=st.lists(st.booleans(), max_size=30))
def test_only_matching_calls_draw_from_the_sequence_of_the_seed(
    seed: int, probability: float, calls: list[bool]
) -> None:
    injection = Injection(probability=probability, match_args={"n": 1}, random_seed=seed, response={})
    draws = Draws(SimulatedTool(name="t", injections=(injection,)), seed="of a case")
    sequence = random.Random(seed)

    drawn = [draws.next({"n": 1 if match else 2}) is not None for match in calls]

    assert drawn == [match and sequence.random() < probability for match in calls]


def test_without_a_seed_a_rerun_draws_the_same_and_other_repeats_differ(project: Project) -> None:
    project.environment(tool("get_order", {"injection_probability": 0.5, **DOWN}))
    project.cases(one="\n".join([GET_7] * 12), two="\n".join([GET_7] * 12))
    environment = project.root / "environment.json"

    first, again = (project.run(simulate_tools=environment, runs=2) for _ in range(2))

    responses = {(name, repeat): get_responses(first, name, repeat) for name in ("one", "two") for repeat in (0, 1)}
    assert responses == {
        (name, repeat): get_responses(again, name, repeat) for name in ("one", "two") for repeat in (0, 1)
    }
    assert len({str(each) for each in responses.values()}) == 4


def test_with_a_seed_each_case_restarts_the_sequence(project: Project) -> None:
    project.environment(tool("get_order", {"injection_probability": 0.5, "random_seed": 7, **DOWN}))
    project.cases(one="\n".join([GET_7] * 12), two="\n".join([GET_7] * 12))

    run = project.run(simulate_tools=project.root / "environment.json")

    sequence = random.Random(7)
    expected = ["injected" if sequence.random() < 0.5 else None for _ in range(12)]
    assert get_sources(run, "one") == get_sources(run, "two") == expected


def test_latency_counts_as_duration_of_the_case(project: Project) -> None:
    project.environment(tool("get_order", {"injected_latency_seconds": 0.3, **DOWN}))
    project.cases(one=GET_7)

    run = project.run(simulate_tools=project.root / "environment.json")

    assert get_result(run).execution.turns[0].duration_seconds >= 0.3
    assert (get_tool_spans(run)[0].duration or 0) >= 0.3


@pytest.mark.parametrize("isolation", ["case", "worker"])
def test_a_timeout_or_cancellation_of_the_case_ends_its_latency(project: Project, isolation: Any) -> None:
    project.environment(tool("get_order", {"injected_latency_seconds": 100, **DOWN}))
    project.cases(one=GET_7, two='cancel_order {"order_id": "7"}')
    options = {"simulate_tools": project.root / "environment.json", "isolation": isolation}

    run = project.run(timeout_seconds=2.0, **options)
    assert get_failure(run) == ("timeout", "took longer than 2 s")
    assert get_responses(run, "two") == ['{"cancelled": "7"}']

    start = time.monotonic()
    with Workspace.open(project.root) as workspace:
        plan = workspace.plan([Selection(eval_set="set.evalset.json", cases=("one",))], RunOptions(**options))
        run_to_cancel = workspace.start(plan)
        time.sleep(0.5)
        run_to_cancel.cancel()
        list(run_to_cancel.iter_events())
    assert run_to_cancel.results()[0].status is CaseStatus.CANCELLED
    assert time.monotonic() - start < 20
