"""Simulated answers from a model that is called over HTTP."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.llm.servers import Call, HttpResponse, Server, gemini, gemini_error
from tests.simulation.simulated_tools.conftest import Project, get_failure, get_responses, get_sources
from workbench.llm.model_replay import RecordedRequest
from workbench.store.model_answers import CallKind, Recording

BY_MODEL = {"tool_name": "get_order", "mock_strategy_type": "MOCK_STRATEGY_TOOL_SPEC"}
GET_7 = 'get_order {"order_id": "7"}'
CANCEL_7 = 'cancel_order {"order_id": "7"}'


def get_prompt(call: Call) -> str:
    text: str = call.body["contents"][0]["parts"][0]["text"]
    return text


def get_section(name: str, call: Call) -> str:
    """Return the text between the tags of this name in the prompt."""
    found = re.search(rf"<{name}>\n(.*?)\n</{name}>", get_prompt(call), re.DOTALL)
    assert found is not None
    return found[1]


def answer_with_count(call: Call) -> HttpResponse:
    """Answer with the number of earlier calls in the same case."""
    earlier = [line for line in get_section("earlier_calls", call).splitlines() if line.startswith("{")]
    return gemini(json.dumps({"answer": {"before": len(earlier)}}))


@pytest.fixture
def project(project: Project) -> Project:
    project.settings(
        'simulate_tools = "environment.json"\n[judge]\ntries = 1\n[simulation]\nmodel = "gemini-of-the-settings"'
    )
    project.environment(
        BY_MODEL,
        {"tool_name": "cancel_order", "mock_strategy_type": 1},
        environment_data={"orders": ["7"]},
        simulation_model_configuration={"temperature": 0.25},
    )
    return project


def test_a_model_answers_from_declaration_environment_and_arguments(project: Project, model: Server) -> None:
    model.answer = lambda _: gemini('```json\n{"answer": {"status": "SHIPPED"}}\n```')
    project.cases(one=GET_7)

    run = project.run()

    assert get_responses(run) == ['{"status": "SHIPPED"}']
    assert get_sources(run) == ["model"]
    assert project.real_calls == []
    (call,) = model.calls
    assert call.path.endswith("/models/gemini-of-the-settings:generateContent")
    assert call.body["generationConfig"]["temperature"] == 0.25
    declaration = json.loads(get_section("tool_declaration", call))
    assert declaration == {
        "name": "get_order",
        "description": "Look an order up.",
        "parameters": {
            "type": "object",
            "properties": {"order_id": {"type": "string"}, "fast": {"type": "boolean", "default": False}},
            "required": ["order_id"],
        },
        "returns": "dict",
    }
    assert json.loads(get_section("environment", call)) == {"orders": ["7"]}
    assert json.loads(get_section("call", call)) == {"tool": "get_order", "args": {"order_id": "7"}}


@pytest.mark.parametrize("isolation", ["case", "worker"])
def test_each_case_has_a_state_of_its_own(project: Project, model: Server, isolation: Any) -> None:
    model.answer = answer_with_count
    project.cases(**{f"case_{number}": [f"{GET_7}\n{CANCEL_7}", GET_7] for number in range(4)})

    run = project.run(isolation=isolation)

    for number in range(4):
        assert get_responses(run, f"case_{number}") == ['{"before": 0}; {"before": 1}', '{"before": 2}']


def test_answers_of_the_real_tool_are_part_of_the_state(project: Project, model: Server) -> None:
    project.environment(
        BY_MODEL,
        {"tool_name": "cancel_order", "injection_configs": [{"injection_probability": 0, "injected_response": {}}]},
    )
    model.answer = lambda call: gemini(json.dumps({"answer": get_section("earlier_calls", call)}))
    project.cases(one=f"{CANCEL_7}\n{GET_7}")

    run = project.run()

    first, second = get_responses(run)[0].split("; ")
    assert json.loads(first) == {"cancelled": "7"}
    assert json.loads(json.loads(second)) == {
        "tool": "cancel_order",
        "args": {"order_id": "7"},
        "answer": {"cancelled": "7"},
    }


def test_a_rerun_reuses_the_answer_and_another_repeat_calls_the_model(project: Project, model: Server) -> None:
    model.answer = answer_with_count
    project.cases(one=GET_7)

    project.run()
    project.run()
    assert len(model.calls) == 1

    project.run(runs=2)
    assert len(model.calls) == 2


def test_template_syntax_in_data_is_not_evaluated(project: Project, model: Server) -> None:
    model.answer = answer_with_count
    project.environment(BY_MODEL, environment_data="{{ 7 * 7 }} {% raw %}")
    project.cases(one='get_order {"order_id": "{{ 6 * 6 }}"}')

    get_responses(project.run())

    assert get_section("environment", model.calls[0]) == "{{ 7 * 7 }} {% raw %}"
    assert "{{ 6 * 6 }}" in get_section("call", model.calls[0])


@pytest.mark.parametrize("isolation", ["case", "worker"])
@pytest.mark.parametrize(
    ("answer", "kind", "message"),
    [
        (
            lambda _: gemini_error(503, "overloaded"),
            "infrastructure",
            "get_order: the model that simulates it did not answer",
        ),
        (lambda _: gemini_error(401, "wrong key"), "tool", "get_order: the model that simulates it did not answer"),
        (lambda _: gemini("I would rather not."), "tool", "gave no JSON in 3 tries: I would rather not."),
    ],
)
def test_a_model_that_does_not_answer_is_never_an_agent_error(
    project: Project, model: Server, answer: Callable[[Call], HttpResponse], kind: str, message: str, isolation: Any
) -> None:
    model.answer = answer
    project.write(
        "agent.py",
        """
        from shop.tools import get_order

        def answer(prompt):
            try:
                return str(get_order(order_id="7"))
            except BaseException:
                return "the tool does not work"
        """,
    )
    project.cases(one="go", two="go")

    run = project.run(retries=0, isolation=isolation)

    for name in ("one", "two"):
        actual_kind, text = get_failure(run, name)
        assert actual_kind == kind
        assert message in text
    assert project.real_calls == []


def test_a_model_that_answers_prose_is_called_three_times_without_case_retries(project: Project, model: Server) -> None:
    model.answer = lambda _: gemini("I would rather not.")
    project.cases(one=GET_7)

    kind, message = get_failure(project.run(retries=2))

    assert (kind, len(model.calls)) == ("tool", 3)
    assert "gave no JSON in 3 tries: I would rather not." in message


def test_a_case_is_retried_after_an_outage_of_the_model(project: Project, model: Server) -> None:
    outages = [gemini_error(503, "overloaded")]
    model.answer = lambda call: outages.pop() if outages else answer_with_count(call)
    project.cases(one=GET_7)

    assert get_responses(project.run()) == ['{"before": 0}']


def test_a_missing_key_of_the_model_is_reported(project: Project) -> None:
    project.cases(one=GET_7)

    kind, message = get_failure(project.run())

    assert kind == "tool"
    assert message.startswith("get_order: the model that simulates it did not answer: ")
    assert message.endswith(" was not called: no key")


@pytest.mark.parametrize("isolation", ["case", "worker"])
def test_answers_of_the_model_are_recorded_and_replayed(project: Project, model: Server, isolation: Any) -> None:
    model.answer = answer_with_count
    project.cases(one=f"{GET_7}\n{CANCEL_7}", two=GET_7)
    file = project.root / "calls.jsonl"
    recorded = project.run(record=file, isolation=isolation)
    asked = len(model.calls)
    (project.root / ".workbench" / "replies.db").unlink()

    replayed = project.run(replay=file, isolation=isolation)

    assert get_responses(replayed) == get_responses(recorded)
    assert get_responses(replayed, "two") == get_responses(recorded, "two")
    assert len(model.calls) == asked
    assert asked in (2, 3)  # both cases ask the same: the later one may get the stored answer
    blocks = list(Recording(file).iter_part(CallKind.JUDGES, RecordedRequest))
    assert [(block.job and block.job.case.eval_id, len(block.calls)) for block in blocks] == [("one", 2), ("two", 1)]
