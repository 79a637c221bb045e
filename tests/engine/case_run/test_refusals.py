"""Conversation scenarios that cannot be played or judged: they are refused, or end in an error."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.case_run.scenarios import SET, get_results, get_user_messages, run, scenario, write_cases
from tests.llm.servers import Server, gemini_error, run_server
from tests.watch.watched import Folder
from workbench.engine.plan import PlanError, RunOptions
from workbench.engine.workspace import Workspace
from workbench.model.results import CaseStatus, FailureKind
from workbench.model.run_events import Notice


def test_scenarios_that_no_criterion_can_judge_are_refused_with_working_criteria(
    folder: Folder, server: Server
) -> None:
    write_cases(folder, {"s": scenario()})
    folder.criteria(tool_trajectory_avg_score=1.0)
    with Workspace.open(folder.root) as workspace:
        with pytest.raises(PlanError, match=r"1 scenario.*need them: tool_trajectory_avg_score.*hallucinations_v1"):
            workspace.plan([SET], RunOptions())

        write_cases(folder, {"s": scenario(), "fixed": {"conversation": []}})
        plan = workspace.plan([SET], RunOptions())
    assert [case.key.eval_id for case in plan.cases] == ["fixed"]
    assert any("set.evalset.json: 1 scenario:" in problem for problem in plan.problems)
    assert not plan.whole_sets
    assert not server.calls


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        (scenario("EXPRT"), "there is no persona 'EXPRT', expected one of EXPERT, NOVICE, EVALUATOR"),
        (scenario(conversation_plan="  "), "conversation_plan: found no text"),
        (scenario(starting_prompt=""), "starting_prompt: found no text"),
    ],
)
def test_a_scenario_that_cannot_be_played_is_an_error_and_the_others_run(
    folder: Folder, server: Server, case: dict[str, Any], expected: str
) -> None:
    write_cases(folder, {"s": case, "good": scenario()})

    results_by_case = get_results(run(folder))

    assert results_by_case["s"].status is CaseStatus.ERROR
    assert results_by_case["s"].failure is not None
    assert expected in results_by_case["s"].failure.message
    assert results_by_case["good"].execution.turns


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"custom_instructions": "{{ stop_signal }} {{ conversation_plan }}"}, "no {{ conversation_history }}"),
        ({"custom_instructions": "{{ stop_signal"}, "no template \\(line 1"),
        ({"max_allowed_invocations": 0}, "max_allowed_invocations: found 0, expected a number from 1 on"),
        ({"max_alowed_invocations": 3}, "unknown key 'max_alowed_invocations'.*did you mean"),
        ({"model": 7}, "model: found 7, expected the name of a model"),
        ({"type": "llm_audio"}, "users that speak aloud"),
        ({"include_function_calls": "yes"}, "expected true or false"),
        ({"model": "gpt-4o"}, "user_simulator_config.model: found 'gpt-4o', expected 'openai/gpt-4o'"),
    ],
)
def test_a_wrong_configuration_of_simulated_users_is_refused_with_its_place(
    folder: Folder, config: dict[str, Any], expected: str
) -> None:
    write_cases(folder, {"s": scenario()}, user_simulator_config=config)

    with Workspace.open(folder.root) as workspace, pytest.raises(PlanError, match=expected):
        workspace.plan([SET], RunOptions())


def test_an_outage_of_the_user_model_is_an_infrastructure_error(
    folder: Folder, environment: pytest.MonkeyPatch
) -> None:
    environment.setenv("GOOGLE_API_KEY", "k")
    write_cases(folder, {"s": scenario()})
    with run_server(lambda _: gemini_error(503, "UNAVAILABLE")) as server:
        environment.setenv("GOOGLE_GEMINI_BASE_URL", server.url)
        result = get_results(run(folder, retries=0))["s"]

    assert result.status is CaseStatus.ERROR
    assert result.failure is not None
    assert (result.failure.kind, result.failure.turn) == (FailureKind.INFRASTRUCTURE, 1)
    assert "the simulated user: gemini-of-the-settings" in result.failure.message
    assert get_user_messages(result) == ["hello"]  # finished turns are stored


@pytest.mark.parametrize(("status", "code"), [(401, "UNAUTHENTICATED"), (404, "NOT_FOUND"), (400, "INVALID_ARGUMENT")])
def test_a_rejected_request_to_the_user_model_is_an_error_of_the_user(
    folder: Folder, environment: pytest.MonkeyPatch, status: int, code: str
) -> None:
    environment.setenv("GOOGLE_API_KEY", "k")
    write_cases(folder, {"s": scenario()})
    with run_server(lambda _: gemini_error(status, code)) as server:
        environment.setenv("GOOGLE_GEMINI_BASE_URL", server.url)
        result = get_results(run(folder))["s"]

    assert result.failure is not None
    assert (result.status, result.failure.kind) == (CaseStatus.ERROR, FailureKind.USER)


def test_a_missing_key_is_reported_for_the_case_and_for_the_run(
    folder: Folder, environment: pytest.MonkeyPatch
) -> None:
    write_cases(folder, {"s": scenario()})

    finished_run = run(folder)
    result = get_results(finished_run)["s"]

    assert result.failure is not None
    assert result.failure.message.endswith(" was not called: no key")
    (notice,) = (
        event for event in finished_run.iter_events() if isinstance(event, Notice) and event.severity == "error"
    )
    assert "set GOOGLE_API_KEY or GEMINI_API_KEY in the environment or in the agent's .env" in notice.message
