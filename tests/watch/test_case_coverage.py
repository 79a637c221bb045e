"""Coverage of agents of frameworks, from their traces."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from workbench.engine.plan import RunOptions, Selection
from workbench.engine.workspace import Workspace
from workbench.model.target import AgentKind
from workbench.report.coverage_report import Coverage, PartKind, coverage_lines
from workbench.watch.case_coverage import measure_coverage, read_trace

SAMPLES = Path(__file__).parents[2] / "sample_agents"

GRAPH = """
from typing import TypedDict
from langchain_core.tools import tool
from langgraph.graph import END, StateGraph

class State(TypedDict, total=False):
    question: str
    answer: str

@tool
def weather(city: str) -> str:
    "Say the weather."
    return "grey in " + city

@tool
def news(city: str) -> str:
    "Say the news."
    return "none"

def ask(state):
    return {"answer": weather.invoke({"city": state["question"]})}

def refuse(state):
    return {"answer": "no"}

def choose(state):
    return "refuse" if state["question"].startswith("!") else "ask"

graph = StateGraph(State)
graph.add_node("begin", lambda state: {})
graph.add_node("ask", ask)
graph.add_node(refuse)
graph.set_entry_point("begin")
graph.add_conditional_edges("begin", choose, ["ask", "refuse"])
answer = graph.compile()
"""


def run_and_measure(root: Path, eval_set: str, *cases: str) -> Coverage:
    with Workspace.open(root) as workspace:
        run = workspace.start(workspace.plan([Selection(eval_set=eval_set, cases=cases or None)], RunOptions()))
        list(run.iter_events())
        return measure_coverage(workspace, workspace.plan([Selection(eval_set=eval_set)], RunOptions()))


def list_statuses(coverage: Coverage, kind: PartKind) -> dict[str, tuple[str, int]]:
    parts = [part for section in coverage.sections for part in section.parts if part.kind is kind]
    return {part.name: (part.status.value, len(part.cases)) for part in parts}


def make_case(eval_id: str, prompt: str) -> dict[str, Any]:
    return {"eval_id": eval_id, "conversation": [{"user_content": {"role": "user", "parts": [{"text": prompt}]}}]}


@pytest.mark.needs_langchain
@pytest.mark.prepared("langchain")
def test_nodes_of_a_graph(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(GRAPH)
    (tmp_path / "workbench.toml").write_text('[targets.graph]\nkind = "langchain"\ntarget = "agent:answer"\n')
    cases = [make_case("rome", "Rome"), make_case("oslo", "Oslo")]
    (tmp_path / "set.evalset.json").write_text(json.dumps({"eval_set_id": "set", "eval_cases": cases}))

    coverage = run_and_measure(tmp_path, "set.evalset.json")

    assert coverage.current == 2
    assert list_statuses(coverage, PartKind.NODE) == {
        "begin": ("reached", 2), "ask": ("reached", 2), "refuse": ("unreached", 0)
    }  # fmt: skip
    assert list_statuses(coverage, PartKind.TOOL) == {"weather": ("reached", 2), "news": ("unreached", 0)}
    functions = list_statuses(coverage, PartKind.FUNCTION)
    assert functions == {
        "weather": ("reached", 2), "news": ("unreached", 0), "ask": ("reached", 2), "refuse": ("unreached", 0),
        "choose": ("reached", 2),
    }  # fmt: skip


@pytest.fixture
def dice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HELLO_WORLD_MODEL", "script")
    shutil.copytree(SAMPLES / "hello_world_adk", tmp_path / "hello_world_adk")
    (tmp_path / "workbench.toml").write_text("")
    agent = tmp_path / "hello_world_adk/agent.py"
    callbacks = dedent("""
        def note(callback_context):
            return None

        def apologise(tool, args, tool_context, error):
            return {"error": "sorry"}
    """)
    text = agent.read_text("utf-8")
    text = text.replace("prime_checker = LlmAgent(", f"{callbacks}\n\nprime_checker = LlmAgent(")
    text = text.replace("tools=[roll_die],", "tools=[roll_die], before_agent_callback=note,")
    agent.write_text(text.replace("tools=[check_prime],", "tools=[check_prime], on_tool_error_callback=apologise,"))
    return tmp_path


@pytest.mark.needs_adk
@pytest.mark.prepared("adk")
def test_agents_transfers_instructions_and_callbacks_of_adk(dice: Path) -> None:
    eval_set = "hello_world_adk/dice.evalset.json"

    coverage = run_and_measure(dice, eval_set, "introduction")

    assert [each.reason for each in coverage.unknown] == ["never ran"] * (coverage.selected - 1)
    transfer = "hello_world_adk → prime_checker"
    assert list_statuses(coverage, PartKind.AGENT) == {
        "hello_world_adk": ("reached", 1),
        "prime_checker": ("unknown", 0),
    }
    assert list_statuses(coverage, PartKind.TRANSFER) == {transfer: ("unknown", 0)}

    coverage = run_and_measure(dice, eval_set)

    assert not coverage.unknown
    every = coverage.selected
    checks = list_statuses(coverage, PartKind.TRANSFER)[transfer][1]
    assert 0 < checks < every
    assert list_statuses(coverage, PartKind.AGENT)["prime_checker"] == ("reached", checks)
    assert list_statuses(coverage, PartKind.INSTRUCTION) == {
        "hello_world_adk": ("reached", every), "prime_checker": ("reached", checks)
    }  # fmt: skip
    assert list_statuses(coverage, PartKind.TOOL).keys() == {"roll_die", "check_prime"}
    assert list_statuses(coverage, PartKind.CALLBACK)["hello_world_adk.before_agent_callback: note"] == (
        "reached", every
    )  # fmt: skip
    places = {part.name: part.place for section in coverage.sections for part in section.parts}
    assert places["roll_die"].startswith("hello_world_adk/tools.py:")


def test_personas_never_played(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text("def answer(prompt): return prompt\n")
    (tmp_path / "workbench.toml").write_text('[targets.echo]\nkind = "function"\ntarget = "agent:answer"\n')
    scenario = {"starting_prompt": "hello", "conversation_plan": "say hello", "user_persona": "EXPERT"}
    own = {**scenario, "user_persona": {"id": "CRITIC", "description": "criticises", "behaviors": []}}
    cases = [{"eval_id": "one", "conversation_scenario": scenario}, {"eval_id": "two", "conversation_scenario": own}]
    data = {"eval_set_id": "set", "eval_cases": cases}
    (tmp_path / "set.evalset.json").write_text(json.dumps(data))
    (tmp_path / "test_config.json").write_text(json.dumps({"criteria": {"safety_v1": 0.8}}))
    with Workspace.open(tmp_path) as workspace:
        coverage = measure_coverage(workspace, workspace.plan([Selection(eval_set="set.evalset.json")], RunOptions()))

    assert list_statuses(coverage, PartKind.PERSONA) == dict.fromkeys(
        ("EXPERT", "NOVICE", "EVALUATOR", "CRITIC"), ("unknown", 0)
    )
    assert list_statuses(coverage, PartKind.EXPECTED_TOOL) == {}


@pytest.mark.parametrize("spelled", [str, lambda name: name.replace("_e", "E").replace("_c", "C").replace("_u", "U")])
def test_calls_are_read_from_both_forms_of_a_trace(spelled: Callable[[str], str]) -> None:
    call = {"name": "transfer_to_agent", "args": {"agent_name": "b"}}
    events = [
        {"author": "a", "content": {"parts": [{spelled("function_call"): {"name": "find", "args": None}}]}},
        {"author": "a", "content": {"parts": [{"text": "x"}, {spelled("function_call"): call}]}},
    ]
    turns = [
        {"invocation": {"intermediate_data": {spelled("invocation_events"): events}}},
        {"invocation": {"intermediate_data": {spelled("tool_uses"): [{"name": "old", "args": {}}]}}},
    ]

    trace = read_trace({"turns": turns}, kind=AgentKind.ADK)

    assert trace.parts == {(PartKind.TOOL, "find"), (PartKind.TRANSFER, "a → b"), (PartKind.TOOL, "old")}
    assert trace.are_calls_known


@pytest.mark.parametrize(
    "data",
    [
        {"turns": 1, "spans": "x", "simulation": []},
        {"turns": [None, {"invocation": {"intermediate_data": {"tool_uses": [7, {"name": None}]}, "app_details": 3}}]},
        {"spans": [{"kind": "agent", "name": None, "parent_id": "x", "attributes": 1}, {"kind": "invocation"}]},
        {"spans": [{"id": "a", "kind": "agent", "name": "n", "parent_id": "b"},
                   {"id": "b", "kind": "other", "name": "n", "parent_id": "b"}]},
    ],
)  # fmt: skip
def test_traces_of_unexpected_form_are_read_as_far_as_possible(data: dict[str, Any]) -> None:
    assert read_trace(data, kind=AgentKind.ADK).structure == {}


@pytest.mark.needs_adk
@pytest.mark.prepared("adk")
def test_callbacks_of_agents_with_the_same_name_are_several(dice: Path) -> None:
    shutil.copytree(dice / "hello_world_adk", dice / "other")
    agent = dice / "other/agent.py"
    agent.write_text(
        agent.read_text("utf-8").replace(
            "def note(", "def note(*, callback_context):\n    return None\n\n\ndef unused("
        )
    )

    with Workspace.open(dice) as workspace:
        selections = [Selection(eval_set=f"{name}/dice.evalset.json") for name in ("hello_world_adk", "other")]
        coverage = measure_coverage(workspace, workspace.plan(selections, RunOptions()))

    parts = [part for section in coverage.sections for part in section.parts if part.kind is PartKind.CALLBACK]
    assert {part.place.partition("/")[0] for part in parts if "before_agent_callback" in part.name} == {
        "hello_world_adk", "other"
    }  # fmt: skip


@pytest.mark.needs_adk
@pytest.mark.prepared("adk")
def test_values_that_are_not_literal_are_found(dice: Path) -> None:
    agent = dice / "hello_world_adk/agent.py"
    text = agent.read_text("utf-8")
    classes = dedent("""
        import functools

        class Guard:
            def look(self, callback_context):
                return None

            @staticmethod
            def watch(callback_context):
                return None

        guard = Guard()

        def count(number, callback_context):
            return None

        def roll_many(sides: int, times: int) -> str:
            "Roll several times."
            return "1"

        def make(name):
            return LlmAgent(name=name, model=prime_checker.model, instruction="Be kind.")
    """)
    text = text.replace("def note(", f"{classes}\n\ndef note(").replace("before_agent_callback=note", (
        "before_agent_callback=[Guard().look, Guard.watch, guard.look], "
        "after_agent_callback=functools.partial(count, 1)"
    ))  # fmt: skip
    text = text.replace("tools=[roll_die]", "tools=[roll_die, functools.partial(roll_many, times=2)]")
    agent.write_text(text.replace("sub_agents=[prime_checker]", "sub_agents=[prime_checker, make('kind'[:])]"))

    coverage = run_and_measure(dice, "hello_world_adk/dice.evalset.json")

    assert not coverage.unknown
    callbacks = {
        name.partition(": ")[2]: status for name, (status, _) in list_statuses(coverage, PartKind.CALLBACK).items()
    }
    assert (callbacks["Guard.look"], callbacks["Guard.watch"], callbacks["count"]) == ("reached", "reached", "reached")
    assert list_statuses(coverage, PartKind.INSTRUCTION)["kind"] == ("unreached", 0)
    tools = list_statuses(coverage, PartKind.TOOL)
    assert "partial" not in tools
    assert tools["roll_many"] == ("unreached", 0)
    transfers = [part for each in coverage.sections for part in each.parts if part.kind is PartKind.TRANSFER]
    assert all(part.place for part in transfers if part.status.value == "reached")


@pytest.mark.needs_adk
@pytest.mark.prepared("adk")
def test_lambdas_and_inner_functions_as_callbacks_are_followed(dice: Path) -> None:
    agent = dice / "hello_world_adk/agent.py"
    text = agent.read_text("utf-8")
    makers = dedent("""
        def make_note(word):
            def note_word(callback_context):
                return None

            return note_word

        def make_silence():
            return lambda callback_context, llm_response: None

        unused = lambda tool, args, tool_context: None
    """)
    text = text.replace("prime_checker = LlmAgent(", f"{makers}\n\nprime_checker = LlmAgent(")
    callbacks = """
        before_agent_callback=[make_note("a"), lambda callback_context: None],
        after_model_callback=make_silence(),
    """
    text = text.replace("tools=[roll_die], before_agent_callback=note,", f"tools=[roll_die], {callbacks}")
    agent.write_text(text.replace("tools=[check_prime],", "tools=[check_prime], before_tool_callback=unused,"))

    coverage = run_and_measure(dice, "hello_world_adk/dice.evalset.json", "introduction")

    found = list_statuses(coverage, PartKind.CALLBACK)
    assert found == {
        "hello_world_adk.before_agent_callback: make_note.<locals>.note_word": ("reached", 1),
        "hello_world_adk.before_agent_callback: lambda": ("reached", 1),
        "hello_world_adk.after_model_callback: lambda": ("reached", 1),
        "prime_checker.before_tool_callback: lambda": ("unknown", 0),
        "prime_checker.on_tool_error_callback: apologise": ("unknown", 0),
    }


@pytest.mark.needs_adk
@pytest.mark.prepared("adk")
def test_transfers_that_models_are_offered_are_listed(dice: Path) -> None:
    agent = dice / "hello_world_adk/agent.py"
    text = agent.read_text("utf-8")
    other = """
        other = LlmAgent(name="other", model=choose_model(), disallow_transfer_to_peers=True)
    """
    text = text.replace("disallow_transfer_to_parent=True,", "").replace("disallow_transfer_to_peers=True,", "")
    text = text.replace("\nroot_agent =", f"{dedent(other)}\nroot_agent =")
    agent.write_text(text.replace("sub_agents=[prime_checker]", "sub_agents=[prime_checker, other]"))
    eval_set = "hello_world_adk/dice.evalset.json"
    with Workspace.open(dice) as workspace:
        before = measure_coverage(workspace, workspace.plan([Selection(eval_set=eval_set)], RunOptions()))

    after = run_and_measure(dice, eval_set)

    offered = {
        "hello_world_adk → prime_checker", "hello_world_adk → other", "prime_checker → hello_world_adk",
        "prime_checker → other", "other → hello_world_adk",
    }  # fmt: skip
    assert list_statuses(before, PartKind.TRANSFER).keys() == offered  # from the source
    found = list_statuses(after, PartKind.TRANSFER)
    assert found.keys() == offered
    assert found["prime_checker → other"] == ("unreached", 0)
    assert "    not reached: prime_checker → hello_world_adk, other (hello_world_adk/agent.py:" in "\n".join(
        coverage_lines(after, show_all=False)
    )
