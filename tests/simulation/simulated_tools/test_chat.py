"""Simulated tools in a manual conversation: the same as in the target's cases."""

from __future__ import annotations

import pytest

from tests.llm.servers import Server, gemini
from tests.simulation.simulated_tools.conftest import Project
from workbench.engine.chat_session import ChatError
from workbench.engine.plan import RunOptions, Selection
from workbench.engine.workspace import Workspace
from workbench.model.run_events import ChatEvent, Notice, StateSeen, StepSeen, TurnAnswered, TurnFailed

GET_7 = 'get_order {"order_id": "7"}'


def say(project: Project, *lines: str) -> list[ChatEvent]:
    """Say these lines; return the events of the chat until each line was answered or failed."""
    collected_events: list[ChatEvent] = []
    with Workspace.open(project.root) as workspace:
        chat = workspace.chat("sample")
        events = chat.iter_events()
        for line in lines:
            chat.say(line)
            for event in events:
                collected_events.append(event)
                if isinstance(event, StateSeen | TurnFailed):
                    break
        chat.close()
    return collected_events


def test_the_tools_of_a_chat_are_simulated_as_the_settings_say(project: Project) -> None:
    project.settings('simulate_tools = "environment.json"')
    project.environment({"tool_name": "get_order", "injection_configs": [{"injected_response": "MADE UP"}]})

    events = say(project, GET_7, 'cancel_order {"order_id": "7"}')

    answers = [event.result.invocation.final_response for event in events if isinstance(event, TurnAnswered)]
    assert [answer.text() for answer in answers if answer is not None] == ['"MADE UP"', '{"cancelled": "7"}']
    spans = [event.span for event in events if isinstance(event, StepSeen) and event.span.kind == "tool"]
    assert [span.simulator for span in spans] == ["injected", None]
    assert project.real_calls == ["cancel_order 7"]


def test_a_model_that_cannot_be_called_fails_the_turn_with_the_reason(project: Project) -> None:
    project.settings('simulate_tools = "environment.json"')
    project.environment({"tool_name": "get_order", "mock_strategy_type": 1})

    last_events = say(project, GET_7)[-2:]

    (failure_event,) = [event for event in last_events if isinstance(event, TurnFailed)]
    assert failure_event.failure is not None
    assert failure_event.failure.kind == "tool"
    assert failure_event.failure.message.startswith("get_order: the model that simulates it did not answer: ")


def simulate_by_model(project: Project, more: str = "") -> None:
    """Let a model answer for `get_order`."""
    project.settings(f'simulate_tools = "environment.json"\n{more}')
    project.environment({"tool_name": "get_order", "mock_strategy_type": 1})


def test_the_budget_of_the_settings_counts_for_each_chat(project: Project, model: Server) -> None:
    simulate_by_model(project, "[judge]\nmax_calls = 1")
    model.answer = lambda _: gemini('{"answer": "MADE UP"}')

    for number in range(2):
        *_, failed = say(project, f'get_order {{"order_id": "a{number}"}}', f'get_order {{"order_id": "b{number}"}}')

        assert isinstance(failed, TurnFailed)
        assert failed.failure is not None
        assert "the budget of 1 model calls is used up" in failed.failure.message
        assert len(model.calls) == number + 1


def test_a_script_that_cannot_be_read_fails_the_turn_with_its_path(project: Project) -> None:
    simulate_by_model(project, 'scripted_models = "script.json"')
    project.write("script.json", "no script")

    *_, failed = say(project, GET_7)

    assert isinstance(failed, TurnFailed)
    assert failed.failure is not None
    assert failed.failure.kind == "tool"
    assert "get_order: the model that simulates it did not answer: " in failed.failure.message
    assert "script.json" in failed.failure.message


def test_a_problem_of_the_cache_in_a_chat_is_reported_by_the_next_run(project: Project, model: Server) -> None:
    simulate_by_model(project)
    model.answer = lambda _: gemini('{"answer": "MADE UP"}')
    project.write(".workbench/replies.db/in_the_way", "")
    project.cases(one=GET_7)

    with Workspace.open(project.root) as workspace:
        chat = workspace.chat("sample")
        chat.say(GET_7)
        answer_event = next(event for event in chat.iter_events() if isinstance(event, TurnAnswered | TurnFailed))
        chat.close()
        run = workspace.start(workspace.plan([Selection(eval_set="set.evalset.json")], RunOptions()))
        notices = [event.message for event in run.iter_events() if isinstance(event, Notice)]

    assert isinstance(answer_event, TurnAnswered)
    assert len([message for message in notices if "answers of models are not cached" in message]) == 1


def test_a_chat_with_an_invalid_configuration_is_refused(project: Project) -> None:
    project.settings('simulate_tools = "environment.json"')
    project.environment({"tool_name": "get_order"})

    with Workspace.open(project.root) as workspace, pytest.raises(ChatError, match="found neither injection_configs"):
        workspace.chat("sample")
