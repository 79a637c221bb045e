"""Branches: the turns of a recording are replayed in a new session, and the next message is answered live."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.engine.chat_session.listener import Listener
from tests.engine.project import Project, find_result, turn
from workbench.engine.chat_session import ChatBranch, NewCase, find_tool_warning, make_branch, write_case
from workbench.engine.plan import Selection
from workbench.engine.workspace import Workspace
from workbench.model.evalset import Content, SessionInput
from workbench.model.identity import JobKey
from workbench.model.results import CaseStatus, Execution
from workbench.model.run_events import StateSeen, TurnAnswered, TurnBegan, TurnFailed
from workbench.model.target import AgentKind, ModelMode
from workbench.store.evalsets.evalset_document import EvalSetDocument

pytestmark = [pytest.mark.needs_fork, pytest.mark.prepared("adk")]

ADK = """
from pathlib import Path
from google.adk.agents import Agent
from google.adk.models import BaseLlm, LlmResponse
from google.adk.tools import ToolContext
from google.genai import types

def note(name):
    with open(Path(__file__).parent / name, "a") as file:
        file.write("x")

class Scripted(BaseLlm):
    async def generate_content_async(self, request, stream=False):
        note("model_calls")
        part = request.contents[-1].parts[-1]
        if part.text:
            reply = types.Part(function_call=types.FunctionCall(name="buy", args={"item": part.text}))
        else:
            reply = types.Part(text=f"bought, SAY {part.function_response.response['basket']}")
        yield LlmResponse(content=types.Content(role="model", parts=[reply]))

def buy(item: str, tool_context: ToolContext) -> dict:
    "Buy something."
    note("tool_calls")
    basket = [*tool_context.state.get("basket", []), item]
    tool_context.state["basket"] = basket
    return {"basket": basket, "price": PRICE}

root_agent = Agent(name="shop", model=Scripted(model="scripted"), instruction="You sell.", tools=[buy])
"""


def write_shop(project: Project, *, say: str = "", price: int = 1, instruction: str = "You sell.") -> None:
    folder = project.root / "shop"
    folder.mkdir(exist_ok=True)
    (folder / "__init__.py").write_text("from . import agent\n")
    code = ADK.replace("SAY ", say).replace("PRICE", str(price)).replace("You sell.", instruction)
    (folder / "agent.py").write_text(code)


@pytest.fixture
def shop(project: Project) -> Project:
    """A project whose only case has two turns; each calls a tool that changes the session."""
    pytest.importorskip("google.adk")
    write_shop(project)
    (project.root / "shop" / "test_config.json").write_text('{"criteria": {"tool_trajectory_avg_score": 0.0}}')
    cases = [{"eval_id": "buys", "conversation": [turn("milk", response="expected"), turn("eggs")]}]
    (project.root / "shop" / "s.evalset.json").write_text(json.dumps({"eval_set_id": "s", "eval_cases": cases}))
    (project.root / "workbench.toml").write_text("")
    return project


def run_case(project: Project, workspace: Workspace, **options: Any) -> tuple[JobKey, Execution]:
    """Run the only case and return what it did; by default its model calls are recorded."""
    chosen = options or {"record": project.root / "calls.jsonl"}
    run = project.run(Selection(eval_set="shop/s.evalset.json"), workspace=workspace, **chosen)
    result = find_result(run, "buys")
    assert result.failure is None
    return JobKey(case=result.case), result.execution


def count(project: Project, name: str) -> int:
    path = project.root / "shop" / name
    return len(path.read_text()) if path.exists() else 0


def open_branch(workspace: Workspace, job: JobKey, execution: Execution, turns: int) -> Listener:
    target = workspace.project.targets["shop"]
    branch = make_branch(execution, turns, target=target, models=workspace.read_model_calls(job, execution))
    return Listener(workspace.chat("shop", branch=branch))


def test_the_state_after_a_branch_is_that_of_the_recording_and_the_next_message_is_live(shop: Project) -> None:
    workspace = shop.open_workspace()
    job, execution = run_case(shop, workspace)
    write_shop(shop, price=2)  # tools that are called now give another result
    assert (count(shop, "model_calls"), count(shop, "tool_calls")) == (4, 2)

    listener = open_branch(workspace, job, execution, 1)
    replayed = listener.wait_for(StateSeen)

    assert replayed.state == {"basket": ["milk"]}
    assert (count(shop, "model_calls"), count(shop, "tool_calls")) == (4, 2)
    answered = next(event for event in listener.events if isinstance(event, TurnAnswered))
    assert answered.live_parts == ()
    assert '"price": 1' in json.dumps(answered.result.model_dump(mode="json"))
    live = listener.say("bread")
    assert live.state == {"basket": ["milk", "bread"]}
    assert (count(shop, "model_calls"), count(shop, "tool_calls")) == (6, 3)
    assert [event.is_replayed for event in listener.events if isinstance(event, TurnBegan)] == [True, False]


def test_a_branch_changes_no_recording(shop: Project) -> None:
    workspace = shop.open_workspace()
    job, execution = run_case(shop, workspace)
    before = workspace.read_model_calls(job, execution)
    assert before is not None

    open_branch(workspace, job, execution, 2).say("bread")

    assert workspace.read_model_calls(job, execution) == before


def test_a_branch_of_no_turns_is_a_fresh_session(shop: Project) -> None:
    workspace = shop.open_workspace()
    job, execution = run_case(shop, workspace)

    state = open_branch(workspace, job, execution, 0).say("milk")

    assert state.state == {"basket": ["milk"]}
    assert (count(shop, "model_calls"), count(shop, "tool_calls")) == (6, 3)


def test_a_changed_prompt_is_named_and_the_model_is_asked(shop: Project) -> None:
    workspace = shop.open_workspace()
    job, execution = run_case(shop, workspace)
    write_shop(shop, instruction="You give.")

    listener = open_branch(workspace, job, execution, 2)
    listener.wait_for(StateSeen)
    assert listener.wait_for(StateSeen).state == {"basket": ["milk", "eggs"]}

    first, second = (event.live_parts for event in listener.events if isinstance(event, TurnAnswered))
    assert len(first) == len(second) == 1
    assert first[0].startswith("turn 1 was asked again: model call 1 differs from the recording: instruction")
    assert second == ("turn 2 was asked again: an earlier model call differs from the recording",)
    assert count(shop, "tool_calls") == 2  # the model calls the same tools, whose results are recorded


def test_turns_without_recorded_model_calls_are_asked_again(shop: Project) -> None:
    workspace = shop.open_workspace()
    job, execution = run_case(shop, workspace, models=ModelMode.LIVE)

    listener = open_branch(workspace, job, execution, 1)
    listener.wait_for(StateSeen)

    (answered,) = (event for event in listener.events if isinstance(event, TurnAnswered))
    assert answered.live_parts == ("turn 1 was asked again: its model calls are not recorded",)
    assert (count(shop, "model_calls"), count(shop, "tool_calls")) == (6, 2)


def test_a_turn_that_was_asked_again_and_failed_says_why_it_was_asked(shop: Project) -> None:
    workspace = shop.open_workspace()
    job, execution = run_case(shop, workspace, models=ModelMode.LIVE)
    path = shop.root / "shop" / "agent.py"
    path.write_text(path.read_text().replace('note("model_calls")', 'raise ConnectionError("down")', 1))

    failed = open_branch(workspace, job, execution, 1).wait_for(TurnFailed)

    assert failed.failure is not None and "down" in failed.failure.message
    assert failed.live_parts == ("turn 1 was asked again: its model calls are not recorded",)


def test_a_chat_records_its_model_calls_for_branches(shop: Project) -> None:
    workspace = shop.open_workspace()
    first = Listener(workspace.chat("shop"))
    first.say("milk")
    first.say("eggs")
    answered = [event.result for event in first.events if isinstance(event, TurnAnswered)]
    spans = [event.span for event in first.events if event.kind == "step_seen" and not event.span.is_running]
    assert first.chat.models is not None
    execution = Execution(turns=tuple(answered), spans=tuple(spans))
    models = first.chat.models.build_recording(None)
    branch = make_branch(execution, 2, target=workspace.project.targets["shop"], models=models)

    second = Listener(workspace.chat("shop", branch=branch))
    second.wait_for(StateSeen)

    assert second.wait_for(StateSeen).state == {"basket": ["milk", "eggs"]}
    assert (count(shop, "model_calls"), count(shop, "tool_calls")) == (4, 2)


def test_a_function_agent_runs_again_with_the_recorded_results_of_its_tools(project: Project) -> None:
    project.add_agent(
        """
        from pathlib import Path
        def add(to):
            with open("calls", "a") as file: file.write("x")
            return to + 1
        def answer(prompt, session):
            session.state["sum"] = add(session.state.get("sum", 0))
            calls = [{"tool_name": "add", "tool_input": {"to": session.state["sum"] - 1}}]
            responses = [{"name": "add", "response": {"result": session.state["sum"]}}]
            return {"response": str(session.state["sum"]), "predicted_trajectory": calls}
        """
    )
    project.add_set({"sums": [turn("one", calls=[{"name": "add", "args": {"to": 0}}])]})
    (project.root / "workbench.toml").write_text(
        '[targets.sample]\nkind = "function"\ntarget = "agent:answer"\neval_sets = ["*.evalset.json"]\n'
        'tools = ["agent:add"]\n'
    )
    workspace = project.open_workspace()
    run = project.run(workspace=workspace, record_tools=project.root / "tools.jsonl")
    execution = find_result(run, "sums").execution
    branch = make_branch(execution, 1, target=workspace.project.targets["sample"], models=None)
    assert find_tool_warning(branch, workspace.project.targets["sample"]) == ""

    listener = Listener(workspace.chat("sample", branch=branch))
    assert listener.wait_for(StateSeen).state == {"sum": 1}
    assert (project.root / "calls").read_text() == "x"
    assert listener.say("two").state == {"sum": 2}

    assert (project.root / "calls").read_text() == "xx"


def test_tools_without_recorded_results_are_named_before_they_are_called(project: Project) -> None:
    calls = [{"tool_name": "add", "tool_input": {"to": 1}}]
    project.add_agent(f"def answer(prompt): return {{'response': prompt, 'predicted_trajectory': {calls}}}")
    project.add_set({"adds": [turn("one", calls=[{"name": "add", "args": {"to": 1}}])]})
    workspace = project.open_workspace()
    execution = find_result(project.run(workspace=workspace), "adds").execution
    target = workspace.project.targets["sample"]
    branch = make_branch(execution, 1, target=target, models=None)

    assert find_tool_warning(branch, target) == (
        "the results of these tools cannot be replayed, so they will really be called: add (its result is not recorded)"
    )
    elsewhere = target.model_copy(update={"kind": AgentKind.HTTP})
    assert find_tool_warning(branch, elsewhere) == (
        "the tools of the replayed turns will really be called: the tools of an agent of kind http run elsewhere"
    )
    assert find_tool_warning(ChatBranch(), elsewhere) == ""


def test_an_agent_that_changed_is_said_to_answer_differently(project: Project) -> None:
    project.add_set({"echo": [turn("hi")]})
    workspace = project.open_workspace()
    execution = find_result(project.run(workspace=workspace), "echo").execution
    project.add_agent("def answer(prompt): return {'response': 'changed', 'predicted_trajectory': []}")
    branch = make_branch(execution, 1, target=workspace.project.targets["sample"], models=None)

    listener = Listener(workspace.chat("sample", branch=branch))
    listener.wait_for(StateSeen)

    (answered,) = (event for event in listener.events if isinstance(event, TurnAnswered))
    assert answered.live_parts == ("turn 1 has another answer, or other tool calls, than in the recording",)


def test_stopping_a_branch_ends_its_session(project: Project) -> None:
    project.add_set({"echo": [turn("hi"), turn("there")]})
    workspace = project.open_workspace()
    execution = find_result(project.run(workspace=workspace), "echo").execution
    project.add_agent("import time\ndef answer(prompt): time.sleep(1000)")
    branch = make_branch(execution, 2, target=workspace.project.targets["sample"], models=None)
    listener = Listener(workspace.chat("sample", branch=branch))
    listener.wait_for(TurnBegan)

    listener.chat.cancel()

    failed = listener.wait_for(TurnFailed)
    assert failed.status is CaseStatus.CANCELLED
    (ended,) = listener.read_rest()
    assert [content.text() for content in ended.unsaid] == ["there"]


def test_a_branch_that_is_stopped_between_two_turns_ends(project: Project) -> None:
    project.add_set({"echo": [turn("hi"), turn("there")]})
    workspace = project.open_workspace()
    execution = find_result(project.run(workspace=workspace), "echo").execution
    project.add_agent("import time\ndef answer(prompt): return prompt if prompt == 'hi' else time.sleep(1000)")
    branch = make_branch(execution, 2, target=workspace.project.targets["sample"], models=None)
    listener = Listener(workspace.chat("sample", branch=branch))
    listener.wait_for(TurnAnswered)

    listener.chat.cancel()  # while the state after the turn is read

    failed = listener.wait_for(TurnFailed)
    assert (failed.turn, failed.status) == (1, CaseStatus.CANCELLED)


def test_a_case_of_a_branch_keeps_what_the_original_expects_of_replayed_turns(shop: Project) -> None:
    workspace = shop.open_workspace()
    _, execution = run_case(shop, workspace)
    path = shop.root / "shop" / "s.evalset.json"
    document = EvalSetDocument.open(path)
    original = document.raw_case(0)["conversation"][0]

    new = NewCase(
        eval_id="other",
        turns=execution.turns,
        session_input=SessionInput(),
        expected=[original],
        expected_format=document.format,
    )
    write_case(document, new)

    first, second = document.raw_case(1)["conversation"]
    assert first == original and first["final_response"]["parts"][0]["text"] == "expected"
    assert second["final_response"]["parts"][0]["text"].startswith("bought")
    assert second["user_content"]["parts"][0]["text"] == "eggs"


def test_a_tool_call_that_is_not_recorded_is_made_and_named(shop: Project) -> None:
    workspace = shop.open_workspace()
    job, execution = run_case(shop, workspace, models=ModelMode.LIVE)
    path = shop.root / "shop" / "agent.py"
    path.write_text(path.read_text().replace('{"item": part.text}', '{"item": part.text.upper()}'))

    listener = open_branch(workspace, job, execution, 1)
    assert listener.wait_for(StateSeen).state == {"basket": ["MILK"]}

    (answered,) = (event for event in listener.events if isinstance(event, TurnAnswered))
    assert answered.live_parts[1] == "buy was called: the recording of turn 1 lacks this call"
    assert count(shop, "tool_calls") == 3


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('"price": PRICE', '"price": {"paid with": ["card", "key " + SECRET]}'),
        ('return {"basket"', 'tool_context.state["login"] = {SECRET: 1}\n    return {"basket"'),
    ],
    ids=["result", "state"],
)
def test_a_tool_whose_result_holds_a_secret_is_called_again(
    shop: Project, monkeypatch: pytest.MonkeyPatch, before: str, after: str
) -> None:
    monkeypatch.setenv("SHOP_API_KEY", "a-very-secret-value-0123")
    path = shop.root / "shop" / "agent.py"
    code = path.read_text().replace(before.replace("PRICE", "1"), after)
    path.write_text(code.replace("SECRET", '__import__("os").environ["SHOP_API_KEY"]'))
    workspace = shop.open_workspace()
    job, execution = run_case(shop, workspace)
    assert "[redacted]" in str(execution.spans)

    branch = make_branch(execution, 1, target=workspace.project.targets["shop"], models=None)
    listener = open_branch(workspace, job, execution, 1)
    state = listener.wait_for(StateSeen).state

    why = "its result holds a secret, which is not recorded"
    assert branch.unrecorded_tools == [{"buy": why}]
    assert state is not None and state["basket"] == ["milk"]
    (answered,) = (event for event in listener.events if isinstance(event, TurnAnswered))
    assert answered.live_parts == (f"buy was called: {why}",)
    assert count(shop, "tool_calls") == 3


def test_the_recording_of_another_run_is_not_used(shop: Project) -> None:
    workspace = shop.open_workspace()
    job, recorded = run_case(shop, workspace)
    _, live = run_case(shop, workspace, models=ModelMode.LIVE)

    assert workspace.read_model_calls(job, recorded) is not None
    assert workspace.read_model_calls(job, live) is None


def test_a_result_has_the_recording_that_it_used_and_no_other_with_as_many_calls(shop: Project) -> None:
    workspace = shop.open_workspace()
    job, recorded = run_case(shop, workspace)
    _, replayed = run_case(shop, workspace, models=ModelMode.REPLAY)
    calls = workspace.read_model_calls(job, recorded)
    assert calls is not None
    assert workspace.read_model_calls(job, replayed) == calls

    write_shop(shop, say="now ")
    _, other = run_case(shop, workspace)

    assert workspace.read_model_calls(job, recorded) == calls  # an earlier recording is kept for a while
    assert workspace.read_model_calls(job, replayed) == calls
    newer = workspace.read_model_calls(job, other)
    assert newer is not None
    assert newer != calls
    assert len(newer.calls) == len(calls.calls)


def test_a_result_that_was_replayed_from_a_file_has_the_recording_of_the_file(shop: Project) -> None:
    workspace = shop.open_workspace()
    job, recorded = run_case(shop, workspace)
    calls = workspace.read_model_calls(job, recorded)
    (shop.root / ".workbench" / "recordings.db").unlink()
    assert workspace.read_model_calls(job, recorded) is None

    _, replayed = run_case(shop, workspace, replay=shop.root / "calls.jsonl")

    assert workspace.read_model_calls(job, replayed) == calls is not None
    (shop.root / "calls.jsonl").write_text("gone")
    assert workspace.read_model_calls(job, replayed) is None


LANGCHAIN = """
from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool

def note():
    with open("calls", "a") as file:
        file.write("x")

@tool
def weather(city: str) -> dict:
    "Tell the weather."
    note()
    return {"degrees": 3}

@tool
def later(city: str) -> str:
    "Tell it later."
    note()
    return f"{city} later"

@tool
def count(city: str) -> int:
    "Count."
    note()
    return 7

class Scripted(BaseChatModel):
    @property
    def _llm_type(self):
        return "scripted"

    def bind_tools(self, tools, **options):
        return self

    def _generate(self, messages, stop=None, run_manager=None, **options):
        if messages[-1].type == "human":
            names = ("weather", "later", "count")
            calls = [{"name": name, "args": {"city": "Rome"}, "id": f"{name}{len(messages)}"} for name in names]
            message = AIMessage(content="", tool_calls=calls)
        else:
            message = AIMessage(content=" ".join(m.content for m in messages if m.type == "tool"))
        return ChatResult(generations=[ChatGeneration(message=message)])

answer = create_agent(Scripted(), [weather, later, count])
"""


@pytest.mark.needs_langchain
def test_tools_of_langchain_are_answered_as_they_answered(project: Project) -> None:
    project.add_agent(LANGCHAIN)
    project.add_set({"asks": [turn("how is it?")]})
    settings = project.root / "workbench.toml"
    settings.write_text(settings.read_text().replace('"function"', '"langchain"'))
    workspace = project.open_workspace()
    execution = find_result(project.run(workspace=workspace), "asks").execution
    target = workspace.project.targets["sample"]
    branch = make_branch(execution, 1, target=target, models=None)
    assert find_tool_warning(branch, target) == ""

    listener = Listener(workspace.chat("sample", branch=branch))
    listener.wait_for(StateSeen)

    (answered,) = (event for event in listener.events if isinstance(event, TurnAnswered))
    assert answered.live_parts == ()
    assert answered.result.invocation.final_response == Content.of_text('{"degrees": 3} Rome later 7', role="model")
    assert (project.root / "calls").read_text() == "xxx"


TEAM = """
from pathlib import Path
from google.adk.agents import Agent
from google.adk.models import BaseLlm, LlmResponse
from google.adk.tools import ToolContext
from google.adk.tools.agent_tool import AgentTool
from google.genai import types

HERE = Path(__file__).parent

class Scripted(BaseLlm):
    async def generate_content_async(self, request, stream=False):
        with open(HERE / "model_calls", "a") as file:
            file.write("x")
        part, tools = request.contents[-1].parts[-1], request.tools_dict
        if part.function_response is not None:
            reply = types.Part(text=f"{self.model} got {part.function_response.response}")
        elif "transfer_to_agent" in tools and self.model == "root":
            transfer = types.FunctionCall(name="transfer_to_agent", args={"agent_name": "helper"})
            reply = types.Part(function_call=transfer)
        elif "expert" in tools:
            reply = types.Part(function_call=types.FunctionCall(name="expert", args={"request": "help"}))
        elif "note" in tools:
            reply = types.Part(function_call=types.FunctionCall(name="note", args={}))
        else:
            reply = types.Part(text="?")
        yield LlmResponse(content=types.Content(role="model", parts=[reply]))

def note(tool_context: ToolContext) -> str:
    "Note it."
    with open(HERE / "tool_calls", "a") as file:
        file.write("x")
    tool_context.state["notes"] = tool_context.state.get("notes", 0) + 1
    return "noted"

expert = Agent(name="expert", model=Scripted(model="expert"), description="Knows.", tools=[note])
helper = Agent(name="helper", model=Scripted(model="helper"), description="Helps.", tools=[AgentTool(expert)])
root_agent = Agent(name="team", model=Scripted(model="root"), sub_agents=[helper])
"""


def test_a_branch_goes_on_with_the_agent_that_the_recording_transferred_to(shop: Project) -> None:
    (shop.root / "shop" / "agent.py").write_text(TEAM)
    workspace = shop.open_workspace()
    job, execution = run_case(shop, workspace)
    made = count(shop, "model_calls"), count(shop, "tool_calls")

    listener = open_branch(workspace, job, execution, 1)
    replayed = listener.wait_for(StateSeen)
    (answered,) = (event for event in listener.events if isinstance(event, TurnAnswered))
    assert (replayed.state, answered.live_parts) == ({"notes": 1}, ())
    assert (count(shop, "model_calls"), count(shop, "tool_calls")) == made

    live = listener.say("more")

    assert live.state == {"notes": 2}
    assert count(shop, "tool_calls") == made[1] + 1
