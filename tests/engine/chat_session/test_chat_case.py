"""A chat that is saved as a case: the case passes, in every format of an eval set."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.engine.project import Project, turn
from workbench.engine.chat_session import Chat, NewCase, save_conversations, write_case
from workbench.engine.plan import RunOptions, Selection
from workbench.engine.workspace import Workspace
from workbench.model.evalset import EvalCase, SessionInput
from workbench.model.identity import CaseKey
from workbench.model.results import (
    CaseResult,
    CaseStatus,
    ConversationEnd,
    Execution,
    SimulatedConversation,
    TurnResult,
)
from workbench.model.run_events import ChatEnded, StateSeen, TurnAnswered
from workbench.store.errors import StoreError
from workbench.store.evalsets.evalset_document import EvalSetDocument

AGENT = """
def answer(prompt, session):
    count = session.state["count"] = session.state.get("count", 0) + 1
    return {
        "response": f"{prompt} {count}",
        "predicted_trajectory": [
            {"tool_name": "add", "tool_input": {"what": prompt, "count": count}},
            {"tool_name": "look"},
        ],
        "tool_responses": [{"name": "add", "response": {"sum": count}}],
        "intermediate_responses": [{"author": "helper", "text": "on my way"}],
    }
"""
CRITERIA = {"tool_trajectory_avg_score": 1.0, "response_match_score": 1.0, "final_session_state_match": 1.0}
EVENTS = {
    "invocation_events": [
        {"author": "a", "content": {"role": "model", "parts": [{"function_response": {"name": "x", "response": {}}}]}}
    ]
}


def talk(chat: Chat, *prompts: str) -> tuple[list[TurnResult], list[dict[str, Any] | None]]:
    """Send the prompts and close the chat. Return its turns, and the state after each."""
    for prompt in prompts:
        chat.say(prompt)
    results, states = [], []
    for event in chat.iter_events():
        assert not isinstance(event, ChatEnded)
        if isinstance(event, TurnAnswered):
            results.append(event.result)
        elif isinstance(event, StateSeen):
            states.append(event.state)
            if len(states) == len(prompts):
                break
    chat.close()
    return results, states


def run_case(workspace: Workspace, eval_set: str, eval_id: str) -> CaseResult:
    plan = workspace.plan([Selection(eval_set=eval_set, cases=(eval_id,))], RunOptions())
    run = workspace.start(plan)
    list(run.iter_events())
    return run.results()[0]


def save_case(workspace: Workspace, eval_set: str, case: NewCase) -> None:
    workspace.documents.edit_and_save(eval_set, lambda document: write_case(document, case), label="save a chat")


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("form", ["empty", "flat", "events"])
def test_a_saved_chat_passes_when_it_is_run(project: Project, form: str, first: int) -> None:
    project.add_agent(AGENT)
    project.add_criteria(**CRITERIA)
    cases: dict[str, Any] = {"there": [turn("x")]} if form != "empty" else {}
    if form == "events":
        cases["there"][0]["intermediate_data"] = EVENTS
    eval_set = project.add_set(cases)
    workspace = project.open_workspace()
    turns, states = talk(
        workspace.chat("sample", session_input=SessionInput(state={"count": 5})), "one", "two", "three"
    )
    session_input = SessionInput(
        app_name="sample", user_id="me", state={"count": 5} if first == 0 else states[first - 1] or {}
    )

    case = NewCase(eval_id="talked", turns=turns[first:], session_input=session_input, final_state=states[-1])
    save_case(workspace, eval_set, case)

    result = run_case(workspace, eval_set, "talked")
    assert result.status == "PASSED", [(metric.name, metric.score, metric.reason) for metric in result.metrics]
    assert {metric.name: metric.score for metric in result.metrics if metric.threshold is not None} == dict.fromkeys(
        CRITERIA, 1.0
    )
    saved_case = json.loads((project.root / eval_set).read_text())["eval_cases"][-1]
    assert ("invocation_events" in saved_case["conversation"][0]["intermediate_data"]) is (form == "events")
    text = json.dumps(saved_case["conversation"][0])
    assert "on my way" in text and ('"sum"' in text) is (form == "events")


def test_a_case_is_saved_in_the_older_format_of_its_set(project: Project) -> None:
    project.add_agent(AGENT)
    project.add_criteria(tool_trajectory_avg_score=0.0, response_match_score=1.0)
    path = project.root / "old.evalset.json"
    path.write_text(json.dumps([{"name": "there", "data": [{"query": "x", "reference": "x 1"}]}]))
    workspace = project.open_workspace()
    turns, states = talk(workspace.chat("sample", session_input=SessionInput(state={"count": 2})), "one")
    session_input = SessionInput(app_name="sample", user_id="me", state={"count": 2})

    save_case(workspace, path.name, NewCase(eval_id="talked", turns=turns, session_input=session_input))

    assert run_case(workspace, path.name, "talked").status == "PASSED"
    assert json.loads(path.read_text())[1]["data"][0]["expected_tool_use"][0]["tool_name"] == "add"
    with pytest.raises(StoreError, match="migrate the file first"):
        save_case(
            workspace, path.name, NewCase(eval_id="b", turns=turns, session_input=session_input, final_state=states[0])
        )
    assert len(json.loads(path.read_text())) == 2


def test_a_case_with_the_same_id_is_replaced_in_place(project: Project) -> None:
    eval_set = project.add_set({"a": [turn("x")], "b": [turn("y")], "c": [turn("z")]})
    workspace = project.open_workspace()
    turns, _ = talk(workspace.chat("sample"), "hello")

    save_case(workspace, eval_set, NewCase(eval_id="b", turns=turns, session_input=SessionInput()))

    cases = json.loads((project.root / eval_set).read_text())["eval_cases"]
    assert [case["eval_id"] for case in cases] == ["a", "b", "c"]
    assert cases[1]["conversation"][0]["final_response"]["parts"] == [{"text": "hello"}]
    workspace.documents.undo(eval_set)
    assert "hello" not in (project.root / eval_set).read_text()


@pytest.mark.needs_adk
def test_a_saved_chat_with_an_adk_agent_passes_when_it_is_run(tmp_path: Path) -> None:
    sample = Path(__file__).parents[3] / "sample_agents" / "hello_world_adk"
    shutil.copytree(sample, tmp_path / "hello_world_adk", ignore=shutil.ignore_patterns("__pycache__", ".adk"))
    (tmp_path / "workbench.toml").write_text('[targets.dice]\nkind = "adk"\ntarget = "hello_world_adk"\n')
    eval_set = "hello_world_adk/dice.evalset.json"
    with Workspace.open(tmp_path) as workspace:
        session_input = SessionInput(app_name="dice", user_id="user", state={"seed": 8})  # makes the dice reproducible
        chat = workspace.chat("dice", session_input=session_input)
        turns, states = talk(chat, "Roll a 19-sided die and check whether it is prime.", "Roll two dice with 6 sides.")
        case = NewCase(eval_id="talked", turns=turns, session_input=session_input, final_state=states[-1])
        save_case(workspace, eval_set, case)

        result = run_case(workspace, eval_set, "talked")

    assert result.status == "PASSED", [(metric.name, metric.score, metric.reason) for metric in result.metrics]
    saved_case = json.loads((tmp_path / eval_set).read_text())["eval_cases"][-1]
    names = [call["name"] for call in saved_case["conversation"][0]["intermediate_data"]["tool_uses"]]
    assert names == ["roll_die", "transfer_to_agent", "check_prime"]
    assert "id" not in saved_case["conversation"][0]["intermediate_data"]["tool_uses"][0]


def test_a_turn_with_unknown_calls_is_refused_and_the_set_stays_unchanged() -> None:
    data = {"eval_set_id": "lights", "eval_cases": []}
    document = EvalSetDocument(Path("lights.evalset.json"), json.dumps(data).encode(), None)
    turn_result = TurnResult.model_validate(
        {
            "invocation": {"user_content": {"role": "user", "parts": [{"text": "on"}]}, "intermediate_data": {}},
            "duration_seconds": 1.0,
            "calls_unknown": "no span arrived",
        }
    )

    with pytest.raises(StoreError, match="new cannot be saved: the tool calls of turn 1 are unknown: no span arrived"):
        write_case(document, NewCase(eval_id="new", turns=[turn_result], session_input=SessionInput()))

    assert not document.entries and not document.is_dirty


def test_conversations_that_cannot_be_saved_create_no_set(tmp_path: Path) -> None:
    turn_result = TurnResult.model_validate(
        {
            "invocation": {"user_content": {"role": "user", "parts": [{"text": "on"}]}, "intermediate_data": {}},
            "duration_seconds": 1.0,
            "calls_unknown": "no span arrived",
        }
    )
    key = CaseKey(target="lights", eval_set="s", eval_id="a")
    simulation = SimulatedConversation(end=ConversationEnd.STOP_SIGNAL, model="m")
    execution = Execution(turns=(turn_result,), simulation=simulation)
    result = CaseResult(case=key, eval_set_id="s", status=CaseStatus.PASSED, execution=execution)

    with pytest.raises(StoreError, match="the tool calls of turn 1 are unknown"):
        save_conversations(tmp_path / "new.evalset.json", [result], {key: EvalCase(eval_id="a", conversation=[])})

    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    "steps", [{}, {"intermediate_data": {"intermediate_responses": [["agent", [{"text": "..."}]]]}}]
)
def test_a_case_has_no_expected_calls_if_the_agent_does_not_report_calls(steps: dict[str, Any]) -> None:
    data = {"eval_set_id": "lights", "eval_cases": []}
    document = EvalSetDocument(Path("lights.evalset.json"), json.dumps(data).encode(), None)
    turn_result = TurnResult.model_validate(
        {
            "invocation": {
                "user_content": {"role": "user", "parts": [{"text": "on"}]},
                "final_response": {"role": "model", "parts": [{"text": "It is on."}]},
                **steps,
            },
            "duration_seconds": 1.0,
            "calls_unknown": "the answer does not say",
            "calls_untold": True,
        }
    )

    write_case(document, NewCase(eval_id="new", turns=[turn_result], session_input=SessionInput()))

    (saved_case,) = document.case(0).conversation or ()
    assert (saved_case.intermediate_data is not None) is bool(steps)
    assert "tool_uses" not in document.case_text(0)
    assert saved_case.final_response is not None and saved_case.final_response.text() == "It is on."
