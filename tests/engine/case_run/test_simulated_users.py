"""Conversation scenarios in a run: a model on an HTTP server plays the user, and a real agent answers."""

from __future__ import annotations

import json

import pytest

from tests.engine.case_run.scenarios import (
    CRITERIA,
    SCRIPT,
    SET,
    get_prompt,
    get_results,
    get_user_messages,
    play_user,
    run,
    scenario,
    write_cases,
)
from tests.llm.servers import Call, HttpResponse, Server, run_server
from tests.watch.watched import Folder
from workbench.engine.plan import RunOptions
from workbench.engine.workspace import Workspace
from workbench.model.results import CaseStatus, ConversationEnd, MetricStatus
from workbench.model.run_events import InvocationFinished, Notice, UserSpoke
from workbench.model.trace import SpanKind
from workbench.watch.selector import Action, decide_plan


def test_a_scenario_runs_to_its_end_and_is_judged(folder: Folder, server: Server) -> None:
    write_cases(folder, {"s": scenario()})

    finished_run = run(folder)

    result = get_results(finished_run)["s"]
    assert get_user_messages(result) == ["hello", "please roll a die", "is it prime?"]
    assert result.status is CaseStatus.FAILED  # one of three turns rolls
    assert result.metrics[0].score == pytest.approx(1 / 3)
    assert result.execution.simulation is not None
    simulation = result.execution.simulation
    assert (simulation.end, simulation.calls, simulation.model, simulation.limit) == (
        ConversationEnd.STOP_SIGNAL,
        3,
        "gemini-of-the-settings",
        20,
    )
    assert [call.path.rsplit("/", 1)[1] for call in server.calls] == ["gemini-of-the-settings:generateContent"] * 3


def test_the_user_model_sees_the_plan_the_persona_the_conversation_and_the_stop_signal(
    folder: Folder, server: Server
) -> None:
    rushed = {
        "id": "IMPATIENT_USER",
        "description": "In a rush.",
        "behaviors": [
            {
                "name": "Short",
                "description": "Says little.",
                "behavior_instructions": ["Keep it under 10 words."],
                "violation_rubrics": ["Over 10 words."],
            }
        ],
    }
    write_cases(folder, {"s": scenario(rushed)})

    run(folder)

    last = get_prompt(server.calls[-1])
    for part in ("Have a die rolled", "In a rush.", "Keep it under 10 words.", "reply with </finished>"):
        assert part in last
    assert "user: hello\n\nagent: answer 1 to hello\n\nuser: please roll a die" in last
    assert "Over 10 words." not in last  # violations are only for the judge
    assert "roll'" not in last


def test_function_calls_are_shown_to_the_user_model_if_configured(folder: Folder, server: Server) -> None:
    write_cases(folder, {"s": scenario()}, user_simulator_config={"includeFunctionCalls": True})

    run(folder)

    assert "agent called the tool 'roll' with {\"sides\": 20}" in get_prompt(server.calls[-1])


def test_the_model_configuration_reaches_the_user_model(folder: Folder, server: Server) -> None:
    config = {"model": "gemini-x", "model_configuration": {"temperature": 0.25, "maxOutputTokens": 7}}
    write_cases(folder, {"s": scenario()}, user_simulator_config=config)

    run(folder)

    generation = server.calls[0].body["generationConfig"]
    assert (generation["temperature"], generation["maxOutputTokens"]) == (0.25, 7)
    assert "gemini-x:" in server.calls[0].path


def test_a_conversation_at_the_limit_is_judged_and_a_notice_says_what_to_do(folder: Folder, server: Server) -> None:
    write_cases(folder, {"s": scenario()}, user_simulator_config={"max_allowed_invocations": 2})

    finished_run = run(folder)

    result = get_results(finished_run)["s"]
    assert get_user_messages(result) == ["hello", "please roll a die"]
    assert len(server.calls) == 1  # no message is requested beyond the limit
    assert result.status is CaseStatus.PASSED
    assert result.execution.simulation is not None
    assert result.execution.simulation.end is ConversationEnd.LIMIT
    notices = [event.message for event in finished_run.iter_events() if isinstance(event, Notice)]
    assert any("after 2 turns" in text and "above the longest reasonable conversation" in text for text in notices)


def test_each_user_message_is_an_event_before_the_answer_and_a_span(folder: Folder, server: Server) -> None:
    write_cases(folder, {"s": scenario(), "fixed": {"conversation": [{"user_content": {"parts": [{"text": "x"}]}}]}})

    finished_run = run(folder)

    scenario_events = [
        (type(event).__name__, event.turn)
        for event in finished_run.iter_events()
        if isinstance(event, UserSpoke | InvocationFinished) and event.case.eval_id == "s"
    ]
    assert scenario_events == [(name, turn) for turn in range(3) for name in ("UserSpoke", "InvocationFinished")]
    spans = [span for span in get_results(finished_run)["s"].execution.spans if span.kind is SpanKind.USER]
    assert [span.response for span in spans] == [
        "please roll a die",
        "is it prime?",
        "Thanks, that is all. </FINISHED>",
    ]
    assert [span.turn for span in spans] == [1, 2, 2]  # the message that ends the conversation begins no turn
    assert all(span.duration is not None and "Have a die rolled" in span.request for span in spans)


def test_criteria_with_a_reference_judge_only_the_fixed_cases_of_a_mixed_set(folder: Folder, server: Server) -> None:
    fixed = {
        "conversation": [
            {"user_content": {"parts": [{"text": "x"}]}, "final_response": {"parts": [{"text": "answer 1 to x"}]}}
        ]
    }
    write_cases(folder, {"s": scenario(), "fixed": fixed})
    folder.criteria(**CRITERIA, response_match_score=0.8)

    results = get_results(run(folder))

    assert {m.name: m.status for m in results["s"].metrics[:2]} == {
        "trajectory_single_tool_use": MetricStatus.FAILED,
        "response_match_score": MetricStatus.UNDEFINED,
    }
    assert results["fixed"].metrics[1].status is MetricStatus.PASSED


ALL_NAMES = "{{ stop_signal }} {{ conversation_plan }} {{ conversation_history }}"


def test_custom_instructions_replace_the_default_and_data_is_never_rendered(folder: Folder, server: Server) -> None:
    write_cases(
        folder,
        {"s": scenario(starting_prompt="hello {{ conversation_plan }} {% raw %}")},
        user_simulator_config={"custom_instructions": f"Mine. {ALL_NAMES}"},
    )

    run(folder)

    assert get_prompt(server.calls[0]).startswith(
        "Mine. </finished> Have a die rolled, then check it. user: hello {{ conv"
    )


def test_custom_instructions_must_use_the_persona_only_if_the_scenario_has_one(folder: Folder, server: Server) -> None:
    cases = {"with": scenario("NOVICE"), "without": scenario()}
    write_cases(folder, cases, user_simulator_config={"custom_instructions": ALL_NAMES})
    lacking = get_results(run(folder))
    instructions = ALL_NAMES + "{% for b in persona.behaviors %}{{ b.get_behavior_instructions_str() }}{% endfor %}"
    write_cases(folder, cases, user_simulator_config={"custom_instructions": instructions})
    with_persona = get_results(run(folder))

    assert {name: result.status for name, result in lacking.items()} == {
        "with": CaseStatus.ERROR,
        "without": CaseStatus.FAILED,
    }
    assert lacking["with"].failure is not None
    assert "found no {{ persona }}" in lacking["with"].failure.message
    assert with_persona["with"].execution.turns
    assert with_persona["without"].failure is not None
    assert "the scenario has no persona" in with_persona["without"].failure.message


def test_a_stop_signal_hidden_from_the_prompt_by_custom_instructions_is_added(folder: Folder, server: Server) -> None:
    hidden = "{% if false %}{{ stop_signal }}{% endif %}{{ conversation_plan }} {{ conversation_history }}"
    write_cases(folder, {"s": scenario()}, user_simulator_config={"custom_instructions": hidden})

    run(folder)

    assert get_prompt(server.calls[0]).endswith("reply with </finished> and nothing else.")


def test_the_time_of_the_user_model_does_not_count_for_the_timeout_of_the_agent(
    folder: Folder, environment: pytest.MonkeyPatch
) -> None:
    environment.setenv("GOOGLE_API_KEY", "k")
    write_cases(folder, {"s": scenario()})

    def answer_slowly(call: Call) -> HttpResponse:
        reply: HttpResponse = play_user("please roll a die")(call)
        reply.seconds = 1.2
        return reply

    with run_server(answer_slowly) as server:
        environment.setenv("GOOGLE_GEMINI_BASE_URL", server.url)
        result = get_results(run(folder, timeout_seconds=2.0))["s"]

    assert get_user_messages(result) == ["hello", "please roll a die"]
    assert result.failure is None


def test_repeats_call_the_model_anew_and_a_second_run_uses_the_cache(folder: Folder, server: Server) -> None:
    write_cases(folder, {"s": scenario()})

    run(folder, runs=2)
    assert len(server.calls) == 6
    second_run = run(folder, runs=2)

    assert len(server.calls) == 6
    simulation = get_results(second_run)["s"].execution.simulation
    assert simulation is not None
    assert simulation.cached == simulation.calls == 3


def test_conversations_played_without_judging_can_be_judged_later(folder: Folder, server: Server) -> None:
    write_cases(folder, {"s": scenario()})

    played_run = run(folder, scores=False)
    call_count = len(server.calls)
    with Workspace.open(folder.root) as workspace:
        decisions = decide_plan(workspace, workspace.plan([SET], RunOptions()))

    result = get_results(played_run)["s"]
    assert result.status is CaseStatus.NOT_EVALUATED
    assert get_user_messages(result) == ["hello", "please roll a die", "is it prime?"]
    assert [decision.action for decision in decisions] == [Action.JUDGE]
    assert len(server.calls) == call_count


def test_another_user_model_reruns_the_scenario_but_no_fixed_case(folder: Folder, server: Server) -> None:
    fixed = {"conversation": [{"user_content": {"parts": [{"text": "roll"}]}}]}
    write_cases(folder, {"s": scenario(), "fixed": fixed}, user_simulator_config={"model": "one"})
    run(folder)

    write_cases(folder, {"s": scenario(), "fixed": fixed}, user_simulator_config={"model": "two"})
    with Workspace.open(folder.root) as workspace:
        decisions = decide_plan(workspace, workspace.plan([SET], RunOptions()))

    assert {d.job.case.eval_id: d.action for d in decisions} == {"s": Action.RUN, "fixed": Action.NOTHING}


def test_a_script_plays_the_user_without_a_key_and_a_notice_says_so(
    folder: Folder, environment: pytest.MonkeyPatch
) -> None:
    write_cases(folder, {"s": scenario()})
    folder.write("script.json", json.dumps(SCRIPT))
    settings = (folder.root / "workbench.toml").read_text()
    folder.write("workbench.toml", settings.replace("[simulation]", 'scripted_models = "script.json"\n[simulation]'))

    finished_run = run(folder)

    result = get_results(finished_run)["s"]
    assert get_user_messages(result) == ["hello", "roll for hello 1"]
    assert result.execution.simulation is not None
    assert result.execution.simulation.scripted
    notices = [event.message for event in finished_run.iter_events() if isinstance(event, Notice)]
    assert any("no API key for gemini-of-the-settings" in text and "script.json" in text for text in notices)

    # With a key the case is another conversation, and the scripted result is stale.
    environment.setenv("GOOGLE_API_KEY", "k")
    with Workspace.open(folder.root) as workspace:
        decisions = decide_plan(workspace, workspace.plan([SET], RunOptions()))
    assert [decision.action for decision in decisions] == [Action.RUN]
