"""Simulated tools in a conversation by hand: as in the target's cases."""

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
    """Everything that a chat tells until all of it was answered, or failed."""
    heard: list[ChatEvent] = []
    with Workspace.open(project.root) as workspace:
        chat = workspace.chat("sample")
        events = chat.iter_events()
        for line in lines:
            chat.say(line)
            for event in events:
                heard.append(event)
                if isinstance(event, StateSeen | TurnFailed):
                    break
        chat.close()
    return heard


def test_the_tools_of_a_chat_are_simulated_as_the_settings_say(project: Project) -> None:
    project.settings('simulate_tools = "environment.json"')
    project.environment({"tool_name": "get_order", "injection_configs": [{"injected_response": "MADE UP"}]})

    heard = say(project, GET_7, 'cancel_order {"order_id": "7"}')

    answers = [event.result.invocation.final_response for event in heard if isinstance(event, TurnAnswered)]
    assert [answer.text() for answer in answers if answer is not None] == ['"MADE UP"', '{"cancelled": "7"}']
    spans = [event.span for event in heard if isinstance(event, StepSeen) and event.span.kind == "tool"]
    assert [span.simulator for span in spans] == ["injected", None]
    assert project.called == ["cancel_order 7"]


def test_a_model_that_cannot_be_asked_fails_the_turn_and_says_so(project: Project) -> None:
    project.settings('simulate_tools = "environment.json"')
    project.environment({"tool_name": "get_order", "mock_strategy_type": 1})

    failed = say(project, GET_7)[-2:]

    (told,) = [event for event in failed if isinstance(event, TurnFailed)]
    assert told.failure is not None
    assert told.failure.kind == "tool"
    assert told.failure.message.startswith("get_order: the model that answers for it did not: ")


def by_model(project: Project, more: str = "") -> None:
    """A model answers for `get_order`."""
    project.settings(f'simulate_tools = "environment.json"\n{more}')
    project.environment({"tool_name": "get_order", "mock_strategy_type": 1})


def test_the_budget_of_the_settings_counts_for_each_chat(project: Project, model: Server) -> None:
    by_model(project, "[judge]\nmax_calls = 1")
    model.answer = lambda _: gemini('{"answer": "MADE UP"}')

    for number in range(2):
        *_, failed = say(project, f'get_order {{"order_id": "a{number}"}}', f'get_order {{"order_id": "b{number}"}}')

        assert isinstance(failed, TurnFailed)
        assert failed.failure is not None
        assert "the budget of 1 model calls is used up" in failed.failure.message
        assert len(model.calls) == number + 1


def test_a_script_that_cannot_be_read_fails_the_turn_with_its_place(project: Project) -> None:
    by_model(project, 'scripted_models = "script.json"')
    project.write("script.json", "no script")

    *_, failed = say(project, GET_7)

    assert isinstance(failed, TurnFailed)
    assert failed.failure is not None
    assert failed.failure.kind == "tool"
    assert "get_order: the model that answers for it did not: " in failed.failure.message
    assert "script.json" in failed.failure.message


def test_what_a_chat_finds_wrong_with_the_cache_the_next_run_tells(project: Project, model: Server) -> None:
    by_model(project)
    model.answer = lambda _: gemini('{"answer": "MADE UP"}')
    project.write(".workbench/replies.db/in_the_way", "")
    project.cases(one=GET_7)

    with Workspace.open(project.root) as workspace:
        chat = workspace.chat("sample")
        chat.say(GET_7)
        answered = next(event for event in chat.iter_events() if isinstance(event, TurnAnswered | TurnFailed))
        chat.close()
        run = workspace.start(workspace.plan([Selection(eval_set="set.evalset.json")], RunOptions()))
        notices = [event.message for event in run.iter_events() if isinstance(event, Notice)]

    assert isinstance(answered, TurnAnswered)
    assert len([message for message in notices if "answers of models are not kept" in message]) == 1


def test_there_is_no_chat_with_a_configuration_that_is_wrong(project: Project) -> None:
    project.settings('simulate_tools = "environment.json"')
    project.environment({"tool_name": "get_order"})

    with Workspace.open(project.root) as workspace, pytest.raises(ChatError, match="found neither injection_configs"):
        workspace.chat("sample")
