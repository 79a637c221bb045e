"""Conversation scenarios in a run: a model at a server over HTTP plays the user, a real agent answers."""

from __future__ import annotations

import json

import pytest

from tests.engine.case_run.scenarios import FITS, SCRIPT, SET, plays, prompt, results, run, said, scenario, write
from tests.llm.servers import Call, Said, Server, serving
from tests.watch.watched import Folder
from workbench.engine.plan import RunOptions
from workbench.engine.workspace import Workspace
from workbench.model.results import CaseStatus, ConversationEnd, MetricStatus
from workbench.model.run_events import InvocationFinished, Notice, UserSpoke
from workbench.model.trace import SpanKind
from workbench.watch.selector import Action, decide_plan


def test_a_scenario_runs_to_its_end_and_is_judged(folder: Folder, server: Server) -> None:
    write(folder, {"s": scenario()})

    done = run(folder)

    result = results(done)["s"]
    assert said(result) == ["hello", "please roll a die", "is it prime?"]
    assert result.status is CaseStatus.FAILED  # one of three turns rolls
    assert result.metrics[0].score == pytest.approx(1 / 3)
    assert result.execution.simulation is not None
    told = result.execution.simulation
    assert (told.end, told.calls, told.model, told.limit) == (
        ConversationEnd.STOP_SIGNAL,
        3,
        "gemini-of-the-settings",
        20,
    )
    assert [call.path.rsplit("/", 1)[1] for call in server.calls] == ["gemini-of-the-settings:generateContent"] * 3


def test_the_user_sees_the_plan_the_persona_and_the_conversation_and_how_to_end_it(
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
    write(folder, {"s": scenario(rushed)})

    run(folder)

    last = prompt(server.calls[-1])
    for part in ("Have a die rolled", "In a rush.", "Keep it under 10 words.", "reply with </finished>"):
        assert part in last
    assert "user: hello\n\nagent: answer 1 to hello\n\nuser: please roll a die" in last
    assert "Over 10 words." not in last  # what would violate it is the judge's to know
    assert "roll'" not in last


def test_function_calls_are_shown_to_the_user_only_where_that_is_wanted(folder: Folder, server: Server) -> None:
    write(folder, {"s": scenario()}, user_simulator_config={"includeFunctionCalls": True})

    run(folder)

    assert "agent called the tool 'roll' with {\"sides\": 20}" in prompt(server.calls[-1])


def test_the_configuration_of_the_model_reaches_it(folder: Folder, server: Server) -> None:
    config = {"model": "gemini-x", "model_configuration": {"temperature": 0.25, "maxOutputTokens": 7}}
    write(folder, {"s": scenario()}, user_simulator_config=config)

    run(folder)

    generation = server.calls[0].body["generationConfig"]
    assert (generation["temperature"], generation["maxOutputTokens"]) == (0.25, 7)
    assert "gemini-x:" in server.calls[0].path


def test_the_limit_reached_is_said_with_what_to_do_and_the_conversation_is_judged(
    folder: Folder, server: Server
) -> None:
    write(folder, {"s": scenario()}, user_simulator_config={"max_allowed_invocations": 2})

    done = run(folder)

    result = results(done)["s"]
    assert said(result) == ["hello", "please roll a die"]
    assert len(server.calls) == 1  # nobody is asked for a message that may not be said
    assert result.status is CaseStatus.PASSED
    assert result.execution.simulation is not None
    assert result.execution.simulation.end is ConversationEnd.LIMIT
    notices = [event.message for event in done.iter_events() if isinstance(event, Notice)]
    assert any("after 2 turns" in text and "above the longest reasonable conversation" in text for text in notices)


def test_each_message_is_an_event_before_the_agent_answers_and_a_span_with_prompt_and_reply(
    folder: Folder, server: Server
) -> None:
    write(folder, {"s": scenario(), "fixed": {"conversation": [{"user_content": {"parts": [{"text": "x"}]}}]}})

    done = run(folder)

    of_scenario = [
        (type(event).__name__, event.turn)
        for event in done.iter_events()
        if isinstance(event, UserSpoke | InvocationFinished) and event.case.eval_id == "s"
    ]
    assert of_scenario == [(name, turn) for turn in range(3) for name in ("UserSpoke", "InvocationFinished")]
    spans = [span for span in results(done)["s"].execution.spans if span.kind is SpanKind.USER]
    assert [span.response for span in spans] == [
        "please roll a die",
        "is it prime?",
        "Thanks, that is all. </FINISHED>",
    ]
    assert [span.turn for span in spans] == [1, 2, 2]  # what ends the conversation begins no turn
    assert all(span.duration is not None and "Have a die rolled" in span.request for span in spans)


def test_in_a_mixed_set_criteria_with_a_reference_judge_the_fixed_cases_only(folder: Folder, server: Server) -> None:
    fixed = {
        "conversation": [
            {"user_content": {"parts": [{"text": "x"}]}, "final_response": {"parts": [{"text": "answer 1 to x"}]}}
        ]
    }
    write(folder, {"s": scenario(), "fixed": fixed})
    folder.criteria(**FITS, response_match_score=0.8)

    done = results(run(folder))

    assert {m.name: m.status for m in done["s"].metrics[:2]} == {
        "trajectory_single_tool_use": MetricStatus.FAILED,
        "response_match_score": MetricStatus.UNDEFINED,
    }
    assert done["fixed"].metrics[1].status is MetricStatus.PASSED


ALL_NAMES = "{{ stop_signal }} {{ conversation_plan }} {{ conversation_history }}"


def test_custom_instructions_take_the_place_of_ours_and_data_is_never_rendered(folder: Folder, server: Server) -> None:
    write(
        folder,
        {"s": scenario(starting_prompt="hello {{ conversation_plan }} {% raw %}")},
        user_simulator_config={"custom_instructions": f"Mine. {ALL_NAMES}"},
    )

    run(folder)

    assert prompt(server.calls[0]).startswith("Mine. </finished> Have a die rolled, then check it. user: hello {{ conv")


def test_custom_instructions_need_the_persona_exactly_where_a_scenario_has_one(folder: Folder, server: Server) -> None:
    cases = {"with": scenario("NOVICE"), "without": scenario()}
    write(folder, cases, user_simulator_config={"custom_instructions": ALL_NAMES})
    lacking = results(run(folder))
    listed = ALL_NAMES + "{% for b in persona.behaviors %}{{ b.get_behavior_instructions_str() }}{% endfor %}"
    write(folder, cases, user_simulator_config={"custom_instructions": listed})
    used = results(run(folder))

    assert {name: result.status for name, result in lacking.items()} == {
        "with": CaseStatus.ERROR,
        "without": CaseStatus.FAILED,
    }
    assert lacking["with"].failure is not None
    assert "found no {{ persona }}" in lacking["with"].failure.message
    assert used["with"].execution.turns
    assert used["without"].failure is not None
    assert "the scenario has no persona" in used["without"].failure.message


def test_a_stop_signal_hidden_from_the_prompt_by_custom_instructions_is_added(folder: Folder, server: Server) -> None:
    hidden = "{% if false %}{{ stop_signal }}{% endif %}{{ conversation_plan }} {{ conversation_history }}"
    write(folder, {"s": scenario()}, user_simulator_config={"custom_instructions": hidden})

    run(folder)

    assert prompt(server.calls[0]).endswith("reply with </finished> and nothing else.")


def test_the_time_of_the_model_is_not_the_agents(folder: Folder, environment: pytest.MonkeyPatch) -> None:
    environment.setenv("GOOGLE_API_KEY", "k")
    write(folder, {"s": scenario()})

    def slowly(call: Call) -> Said:
        said: Said = plays("please roll a die")(call)
        said.seconds = 1.2
        return said

    with serving(slowly) as server:
        environment.setenv("GOOGLE_GEMINI_BASE_URL", server.url)
        result = results(run(folder, timeout_seconds=2.0))["s"]

    assert said(result) == ["hello", "please roll a die"]
    assert result.failure is None


def test_a_repeat_asks_anew_and_a_second_run_of_the_same_asks_nobody(folder: Folder, server: Server) -> None:
    write(folder, {"s": scenario()})

    run(folder, runs=2)
    assert len(server.calls) == 6
    again = run(folder, runs=2)

    assert len(server.calls) == 6
    told = results(again)["s"].execution.simulation
    assert told is not None
    assert told.cached == told.calls == 3


def test_conversations_are_played_without_judging_and_judged_afterwards_as_they_were(
    folder: Folder, server: Server
) -> None:
    write(folder, {"s": scenario()})

    played = run(folder, scores=False)
    asked = len(server.calls)
    with Workspace.open(folder.root) as workspace:
        decisions = decide_plan(workspace, workspace.plan([SET], RunOptions()))

    result = results(played)["s"]
    assert result.status is CaseStatus.NOT_EVALUATED
    assert said(result) == ["hello", "please roll a die", "is it prime?"]
    assert [decision.action for decision in decisions] == [Action.JUDGE]
    assert len(server.calls) == asked


def test_another_model_or_limit_plays_the_scenario_again_and_touches_no_fixed_case(
    folder: Folder, server: Server
) -> None:
    fixed = {"conversation": [{"user_content": {"parts": [{"text": "roll"}]}}]}
    write(folder, {"s": scenario(), "fixed": fixed}, user_simulator_config={"model": "one"})
    run(folder)

    write(folder, {"s": scenario(), "fixed": fixed}, user_simulator_config={"model": "two"})
    with Workspace.open(folder.root) as workspace:
        decisions = decide_plan(workspace, workspace.plan([SET], RunOptions()))

    assert {d.job.case.eval_id: d.action for d in decisions} == {"s": Action.RUN, "fixed": Action.NOTHING}


def test_without_a_key_a_script_plays_the_user_and_that_is_said(
    folder: Folder, environment: pytest.MonkeyPatch
) -> None:
    write(folder, {"s": scenario()})
    folder.write("script.json", json.dumps(SCRIPT))
    settings = (folder.root / "workbench.toml").read_text()
    folder.write("workbench.toml", settings.replace("[simulation]", 'scripted_models = "script.json"\n[simulation]'))

    done = run(folder)

    result = results(done)["s"]
    assert said(result) == ["hello", "roll for hello 1"]
    assert result.execution.simulation is not None
    assert result.execution.simulation.scripted
    notices = [event.message for event in done.iter_events() if isinstance(event, Notice)]
    assert any("no API key for gemini-of-the-settings" in text and "script.json" in text for text in notices)

    # With a key the same case is another conversation: what the script said counts no more.
    environment.setenv("GOOGLE_API_KEY", "k")
    with Workspace.open(folder.root) as workspace:
        decisions = decide_plan(workspace, workspace.plan([SET], RunOptions()))
    assert [decision.action for decision in decisions] == [Action.RUN]
