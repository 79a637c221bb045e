"""Tool calls: recorded, and replayed without the tools."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.simulation.simulated_tools.conftest import Project, get_failure, get_responses, get_sources
from workbench.engine.plan import PlanError
from workbench.model.identity import CaseKey, JobKey
from workbench.simulation.simulated_tools import RecordedCall, ToolRecording

GET_7 = 'get_order {"order_id": "7"}'
NONE = 'get_order {"order_id": "none"}'
TOOLS_SETTING = 'tools = ["shop.tools:get_order", "shop.tools:cancel_order"]'


@pytest.fixture
def project(project: Project) -> Project:
    project.settings(TOOLS_SETTING)
    return project


@pytest.mark.parametrize("isolation", ["case", "worker"])
def test_recorded_answers_are_replayed_and_no_tool_is_called(project: Project, isolation: Any) -> None:
    project.cases(one=[f"{GET_7}\n{NONE}", 'cancel_order {"order_id": "7"}'], two=GET_7)
    recorded = project.run(record_tools=project.root / "calls.jsonl", isolation=isolation)
    assert get_responses(recorded)[0] == '{"order_id": "7", "status": "REAL"}; ShopError no such order'
    assert len(project.real_calls) == 4
    assert get_sources(recorded) == [None, None, None]

    replayed = project.run(replay_tools=project.root / "calls.jsonl", isolation=isolation)

    assert [get_responses(replayed, name) for name in ("one", "two")] == [
        get_responses(recorded, name) for name in ("one", "two")
    ]
    assert len(project.real_calls) == 4
    assert get_sources(replayed) == ["replayed"] * 3


def test_equal_calls_get_their_answers_in_order(project: Project) -> None:
    project.write(
        "shop/tools.py",
        """
        class ShopError(Exception): pass
        count = 0
        def next_number(**kwargs):
            global count
            count += 1
            return count
        TOOLS = {"next_number": next_number}
        """,
    )
    project.settings('tools = ["shop.tools:next_number"]')
    calls = ['next_number {"of": "a"}', 'next_number {"of": "b"}', 'next_number {"of": "a"}']
    project.cases(one="\n".join(calls))
    assert get_responses(project.run(record_tools=project.root / "calls.jsonl")) == ["1; 2; 3"]

    project.cases(one="\n".join([calls[0], calls[2], calls[1]]))

    assert get_responses(project.run(replay_tools=project.root / "calls.jsonl")) == ["1; 3; 2"]


@pytest.mark.parametrize("isolation", ["case", "worker"])
def test_a_call_that_was_not_recorded_is_an_error_or_reaches_the_tool(project: Project, isolation: Any) -> None:
    file = project.root / "calls.jsonl"
    project.cases(one=GET_7)
    project.run(record_tools=file)
    project.cases(one=f"{GET_7}\n{GET_7}", two=GET_7)

    run = project.run(replay_tools=file, isolation=isolation)
    kind, message = get_failure(run, "one")
    assert kind == "tool"
    assert message.endswith('calls.jsonl: get_order({"order_id": "7"}) was called 2 times, but recorded once')
    assert get_failure(run, "two")[1].endswith("was called, but nothing is recorded for this case")
    assert project.real_calls == ["get_order 7"]

    run_with_calls = project.run(replay_tools=file, unrecorded="call", isolation=isolation)
    assert get_sources(run_with_calls) == ["replayed", None]
    assert project.real_calls == ["get_order 7"] * 3


def test_recording_a_case_again_replaces_it_and_leaves_the_others(project: Project) -> None:
    file = project.root / "calls.jsonl"
    project.cases(one=GET_7, two=GET_7)
    project.run(record_tools=file)
    project.cases(one='get_order {"order_id": "8"}')
    project.run(record_tools=file)

    project.cases(one='get_order {"order_id": "8"}', two=GET_7)
    run = project.run(replay_tools=file, runs=2)

    assert get_responses(run, "one", 1) == ['{"order_id": "8", "status": "REAL"}']
    assert get_responses(run, "two") == ['{"order_id": "7", "status": "REAL"}']


def test_simulated_answers_are_recorded_too(project: Project) -> None:
    project.environment({"tool_name": "get_order", "injection_configs": [{"injected_response": "MADE UP"}]})
    project.cases(one=GET_7)
    environment, file = project.root / "environment.json", project.root / "calls.jsonl"
    project.run(simulate_tools=environment, record_tools=file)

    assert get_responses(project.run(replay_tools=file)) == ['"MADE UP"']
    head, call = map(json.loads, file.read_text().splitlines())
    assert head["part"] == "tools"
    assert (head["eval_set"], head["eval_id"]) == ("set.evalset.json", "one")
    assert call == {"tool": "get_order", "args": {"order_id": "7"}, "response": "MADE UP", "source": "injected"}


def test_a_recording_of_an_earlier_version_is_replayed_and_added_to(project: Project) -> None:
    file = project.root / "calls.jsonl"
    old = {"format": "workbench-tools-1", "eval_set": "set.evalset.json", "eval_id": "one"}
    call = {"tool": "get_order", "args": {"order_id": "7"}, "response": "OLD"}
    file.write_text("".join(json.dumps({**old, "calls": [each]}) + "\n" for each in ({**call, "response": 1}, call)))
    project.cases(one=GET_7)

    assert get_responses(project.run(replay_tools=file)) == ['"OLD"']
    assert len(file.read_text().splitlines()) == 2

    project.cases(two=GET_7)
    project.run(record_tools=file)
    project.cases(one=GET_7, two=GET_7)
    both = project.run(replay_tools=file)
    assert [get_responses(both, name) for name in ("one", "two")] == [
        ['"OLD"'],
        ['{"order_id": "7", "status": "REAL"}'],
    ]


def test_two_agents_in_one_file_keep_their_own_results() -> None:
    case = CaseKey(target="alpha", eval_set="s", eval_id="c")
    others = [case.model_copy(update={"target": name}) for name in ("beta", "gamma")]
    recording = ToolRecording(
        Path(), {JobKey(each, 0): (RecordedCall(tool="get", response=each.target),) for each in (case, others[0])}
    )

    found = [recording.find_case(each, 0) for each in (case, *others)]

    assert [None if calls is None else calls[0].response for calls in found] == ["alpha", "beta", "alpha"]


def test_an_answer_that_json_cannot_hold_is_not_replayed(project: Project) -> None:
    project.write(
        "agent.py",
        """
        from shop.tools import find

        def answer(prompt):
            return str(find(prompt).name)
        """,
    )
    project.write(
        "shop/tools.py",
        """
        class Order:
            name = "seven"

        def find(order_id):
            return Order()
        """,
    )
    project.settings('tools = ["shop.tools:find"]')
    project.cases(one="7")
    assert get_responses(project.run(record_tools=project.root / "calls.jsonl")) == ["seven"]

    kind, message = get_failure(project.run(replay_tools=project.root / "calls.jsonl"))

    assert kind == "tool"
    assert message.endswith(
        "was recorded without its answer: the result of the tool is a shop.tools.Order, which JSON cannot hold"
    )


def test_an_answer_that_json_would_change_is_not_replayed(project: Project) -> None:
    project.write("agent.py", "from shop.tools import rank\ndef answer(prompt): return rank()[1]\n")
    project.write("shop/tools.py", "def rank(): return {1: 'gold'}\n")
    project.settings('tools = ["shop.tools:rank"]')
    project.cases(one="go")
    assert get_responses(project.run(record_tools=project.root / "calls.jsonl")) == ["gold"]

    _, message = get_failure(project.run(replay_tools=project.root / "calls.jsonl"))

    assert message.endswith("the result of the tool has an int (1) as a key, which JSON turns into text")


def test_invalid_files_and_settings_are_refused_before_anything_runs(project: Project) -> None:
    project.cases(one=GET_7)
    project.write("notes.txt", "dear diary\n")
    project.write("other.jsonl", '{"format": "something-else"}\n')

    with pytest.raises(PlanError, match=r"notes.txt:1:1: found another content, expected recorded calls"):
        project.run(replay_tools=project.root / "notes.txt")
    with pytest.raises(PlanError, match=r"other.jsonl:1:1: found another content, expected recorded calls"):
        project.run(record_tools=project.root / "other.jsonl")
    with pytest.raises(PlanError, match="there is no folder"):
        project.run(record_tools=project.root / "nowhere/calls.jsonl")
    project.settings()
    with pytest.raises(PlanError, match=r"targets.sample.tools: found nothing, expected the functions that are tools"):
        project.run(record_tools=project.root / "calls.jsonl")
    assert project.real_calls == []
