"""Simulated tools of a real ADK agent: a plugin answers, and the agent stays unchanged."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.agents.worker.adapters.adk.prelude import PRELUDE
from tests.simulation.simulated_tools.conftest import (
    Project,
    get_failure,
    get_responses,
    get_result,
    get_sources,
    get_tool_spans,
)

pytestmark = [pytest.mark.needs_adk, pytest.mark.needs_fork, pytest.mark.prepared("adk")]

AGENT = '''
def roll(sides: int, tool_context: ToolContext) -> dict:
    """Roll a die.

    Args:
        sides: How many sides it has.
    """
    open("called.txt", "a").write(f"roll {sides}\\n")
    if sides == 0:
        raise ValueError("no such die")
    tool_context.state["last"] = sides
    return {"result": sides}


async def weigh(what: str) -> str:
    """Weigh something."""
    open("called.txt", "a").write(f"weigh {what}\\n")
    return f"{what} is heavy"


class Model(BaseLlm):
    """Each line of the message is a call, all made at once; then it tells what they gave."""

    model: str = "liner"

    async def generate_content_async(self, llm_request, stream=False):
        import json

        parts = llm_request.contents[-1].parts
        answers = [part.function_response.response for part in parts if part.function_response]
        if answers:
            yield LlmResponse(content=say(json.dumps(answers)))
            return
        calls = [line.partition(" ") for line in parts[0].text.splitlines()]
        parts = [call(name, **json.loads(args or "{}")) for name, _, args in calls]
        yield LlmResponse(content=types.Content(role="model", parts=parts))


root_agent = LlmAgent(name="the_agent", model=Model(), tools=[roll, weigh])
'''


@pytest.fixture
def project(project: Project) -> Project:
    project.write("the_agent/__init__.py", "from . import agent\n")
    (project.root / "the_agent/agent.py").write_text(PRELUDE + AGENT)
    project.settings(kind="adk", target="the_agent")
    return project


def parse_answers(run: Any) -> list[Any]:
    return [json.loads(text) for text in get_responses(run)]


@pytest.mark.parametrize("isolation", ["case", "worker"])
def test_concurrent_calls_are_each_answered_by_their_own_rule(project: Project, isolation: Any) -> None:
    project.environment(
        {
            "toolName": "roll",
            "injectionConfigs": [
                {"matchArgs": {"sides": 6}, "injectedResponse": {"result": 4}, "injectedLatencySeconds": 0.2},
                {
                    "matchArgs": {"sides": 8},
                    "injectedError": {"injectedHttpErrorCode": 503, "errorMessage": "the table is full"},
                },
            ],
        }
    )
    project.cases(one='roll {"sides": 6}\nroll {"sides": 8}\nroll {"sides": 20}\nweigh {"what": "lead"}')

    run = project.run(simulate_tools=project.root / "environment.json", isolation=isolation)

    assert parse_answers(run) == [
        [
            {"result": 4},
            {"error_code": 503, "error_message": "the table is full"},
            {"result": 20},
            {"result": "lead is heavy"},
        ]
    ]
    assert sorted(project.real_calls) == ["roll 20", "weigh lead"]
    by_args = {str(span.request): span for span in get_tool_spans(run)}
    assert by_args["{'sides': 6}"].attributes["workbench.simulated"] == "injected"
    assert (by_args["{'sides': 6}"].duration or 0) >= 0.2
    assert "workbench.simulated" not in by_args["{'sides': 20}"].attributes
    assert sorted(map(str, get_sources(run))) == ["None", "None", "injected", "injected"]


def test_a_tool_that_the_agent_lacks_is_reported_before_the_agent_runs(project: Project) -> None:
    project.environment({"tool_name": "rol", "injection_configs": [{"injected_response": {"result": 4}}]})
    project.cases(one='roll {"sides": 6}')

    run = project.run(simulate_tools=project.root / "environment.json")

    kind, message = get_failure(run)
    assert kind == "setup"
    assert message.endswith(
        "tool_simulation_configs[0].tool_name: found 'rol', expected one of the agent's tools "
        "(roll, weigh, the_agent); did you mean 'roll'?"
    )
    assert project.real_calls == []


def test_recorded_calls_are_replayed_with_their_changes_to_the_session(project: Project) -> None:
    file = project.root / "calls.jsonl"
    project.cases(one=['roll {"sides": 6}\nweigh {"what": "lead"}', 'roll {"sides": 20}'])
    recorded = project.run(record_tools=file)
    assert len(project.real_calls) == 3

    replayed = project.run(replay_tools=file)

    assert parse_answers(replayed) == parse_answers(recorded)
    assert get_result(replayed).execution.final_state == get_result(recorded).execution.final_state == {"last": 20}
    assert get_sources(replayed) == ["replayed"] * 3
    assert len(project.real_calls) == 3


def test_a_recorded_exception_is_raised_again_as_the_tools_own(project: Project) -> None:
    file = project.root / "calls.jsonl"
    project.cases(one='roll {"sides": 0}')
    kind, message = get_failure(project.run(record_tools=file))
    assert (kind, message.partition(" (")[0]) == ("agent", "ValueError: no such die")

    kind, message = get_failure(project.run(replay_tools=file))
    assert (kind, message.partition(" (")[0]) == ("agent", "ValueError: no such die")
    assert project.real_calls == ["roll 0"]
