"""Answers that a model makes up, asked at a server over HTTP."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.llm.servers import Call, Said, Server, gemini, gemini_error
from tests.simulation.simulated_tools.conftest import Project, failure, said, sources

BY_MODEL = {"tool_name": "get_order", "mock_strategy_type": "MOCK_STRATEGY_TOOL_SPEC"}
GET_7 = 'get_order {"order_id": "7"}'
CANCEL_7 = 'cancel_order {"order_id": "7"}'


def prompt_of(call: Call) -> str:
    text: str = call.body["contents"][0]["parts"][0]["text"]
    return text


def part(name: str, call: Call) -> str:
    """What stands between the marks of this name in the prompt."""
    found = re.search(rf"<{name}>\n(.*?)\n</{name}>", prompt_of(call), re.DOTALL)
    assert found is not None
    return found[1]


def counting(call: Call) -> Said:
    """Says how many calls there were before in the same case."""
    earlier = [line for line in part("earlier_calls", call).splitlines() if line.startswith("{")]
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

    assert said(run) == ['{"status": "SHIPPED"}']
    assert sources(run) == ["model"]
    assert project.called == []
    (call,) = model.calls
    assert call.path.endswith("/models/gemini-of-the-settings:generateContent")
    assert call.body["generationConfig"]["temperature"] == 0.25
    declaration = json.loads(part("tool_declaration", call))
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
    assert json.loads(part("environment", call)) == {"orders": ["7"]}
    assert json.loads(part("call", call)) == {"tool": "get_order", "args": {"order_id": "7"}}


@pytest.mark.parametrize("isolation", ["case", "worker"])
def test_each_case_has_a_state_of_its_own(project: Project, model: Server, isolation: Any) -> None:
    model.answer = counting
    project.cases(**{f"case_{number}": [f"{GET_7}\n{CANCEL_7}", GET_7] for number in range(4)})

    run = project.run(isolation=isolation)

    for number in range(4):
        assert said(run, f"case_{number}") == ['{"before": 0}; {"before": 1}', '{"before": 2}']


def test_what_the_real_tool_gave_is_part_of_the_state(project: Project, model: Server) -> None:
    project.environment(
        BY_MODEL,
        {"tool_name": "cancel_order", "injection_configs": [{"injection_probability": 0, "injected_response": {}}]},
    )
    model.answer = lambda call: gemini(json.dumps({"answer": part("earlier_calls", call)}))
    project.cases(one=f"{CANCEL_7}\n{GET_7}")

    run = project.run()

    first, second = said(run)[0].split("; ")
    assert json.loads(first) == {"cancelled": "7"}
    assert json.loads(json.loads(second)) == {
        "tool": "cancel_order",
        "args": {"order_id": "7"},
        "answer": {"cancelled": "7"},
    }


def test_a_rerun_asks_nobody_and_another_repeat_asks_anew(project: Project, model: Server) -> None:
    model.answer = counting
    project.cases(one=GET_7)

    project.run()
    project.run()
    assert len(model.calls) == 1

    project.run(runs=2)
    assert len(model.calls) == 2


def test_data_cannot_be_taken_for_the_template(project: Project, model: Server) -> None:
    model.answer = counting
    project.environment(BY_MODEL, environment_data="{{ 7 * 7 }} {% raw %}")
    project.cases(one='get_order {"order_id": "{{ 6 * 6 }}"}')

    said(project.run())

    assert part("environment", model.calls[0]) == "{{ 7 * 7 }} {% raw %}"
    assert "{{ 6 * 6 }}" in part("call", model.calls[0])


@pytest.mark.parametrize("isolation", ["case", "worker"])
@pytest.mark.parametrize(
    ("answer", "kind", "message"),
    [
        (
            lambda _: gemini_error(503, "overloaded"),
            "infrastructure",
            "get_order: the model that answers for it did not",
        ),
        (lambda _: gemini_error(401, "wrong key"), "tool", "get_order: the model that answers for it did not"),
        (lambda _: gemini("I would rather not."), "tool", "gave no JSON in 3 tries: I would rather not."),
    ],
)
def test_a_model_that_does_not_answer_is_never_the_fault_of_the_agent(
    project: Project, model: Server, answer: Callable[[Call], Said], kind: str, message: str, isolation: Any
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
        found, told = failure(run, name)
        assert found == kind
        assert message in told
    assert project.called == []


def test_a_model_that_answers_prose_is_asked_three_times_and_the_case_not_tried_again(
    project: Project, model: Server
) -> None:
    model.answer = lambda _: gemini("I would rather not.")
    project.cases(one=GET_7)

    kind, message = failure(project.run(retries=2))

    assert (kind, len(model.calls)) == ("tool", 3)
    assert "gave no JSON in 3 tries: I would rather not." in message


def test_after_an_outage_the_case_is_tried_again(project: Project, model: Server) -> None:
    outages = [gemini_error(503, "overloaded")]
    model.answer = lambda call: outages.pop() if outages else counting(call)
    project.cases(one=GET_7)

    assert said(project.run()) == ['{"before": 0}']


def test_without_a_key_it_is_said_what_is_missing(project: Project) -> None:
    project.cases(one=GET_7)

    kind, message = failure(project.run())

    assert kind == "tool"
    assert message.startswith("get_order: the model that answers for it did not: ")
    assert message.endswith(" was not asked: no key")
