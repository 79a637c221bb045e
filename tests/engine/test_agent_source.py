"""The declarations in the source of agents, read without importing it."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

from workbench.engine.agent_source import read_agent_source
from workbench.model.target import AgentKind, Target

ADK = """
    import functools
    from google.adk.agents import LlmAgent, SequentialAgent
    from google.adk.tools import FunctionTool, agent_tool
    from .guards import check as guard
    from . import helpers
    from .helpers import TOOLS

    raise RuntimeError("nothing is imported")

    def log(callback_context): return None

    primes = LlmAgent(name="primes", model="m", tools=TOOLS, before_model_callback=[guard, log])
    asks = LlmAgent(name="asks", model="m", instruction="Ask.", tools=[agent_tool.AgentTool(agent=primes)])
    root_agent = SequentialAgent(
        name="root",
        sub_agents=[primes, LlmAgent(name="inner", instruction=helpers.instruct, after_agent_callback=lambda c: None)],
        tools=[FunctionTool(func=helpers.roll), helpers.made()],
    )
"""
HELPERS = """
    import json, missing_library
    from .deep.more import look

    class Dice:
        def roll(self): return 4
        @property
        def sides(self) -> int: ...

    async def roll(): return Dice().roll()
    def made(): return roll
    def instruct(context):
        def inner(): return "x"
        return inner()

    TOOLS = [roll, look]
"""


def make_target(root: Path, **files: str) -> Target:
    for name, text in files.items():
        path = root / name.replace("__", "/").replace("//", "__").replace("_py", ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text), "utf-8")
    return Target(name="dice", kind=AgentKind.ADK, location="dice", path=root)


def test_agents_tools_and_callbacks_of_adk(tmp_path: Path) -> None:
    (tmp_path / "dice" / "deep").mkdir(parents=True)
    (tmp_path / "dice/__init__.py").write_text("")
    (tmp_path / "dice/deep/more.py").write_text("def look(): return 1\n")
    (tmp_path / "dice/unused.py").write_text("def never(): return 1\n")
    target = make_target(
        tmp_path, dice__agent_py=ADK, dice__helpers_py=HELPERS, dice__guards_py="def check(callback_context): return 1"
    )

    source = read_agent_source(target, root=tmp_path)

    assert {name: (agent.tools, agent.agents, agent.has_instruction) for name, agent in source.agents.items()} == {
        "primes": (["roll", "look"], [], False),
        "asks": (["primes"], [], True),
        "root": (["roll"], ["primes", "inner"], False),
        "inner": ([], [], True),
    }
    assert [(each.name, each.place, each.function) for each in source.callbacks] == [
        ("primes.before_model_callback: check", "dice/guards.py:1", f"{tmp_path}/dice/guards.py::check"),
        ("primes.before_model_callback: log", "dice/agent.py:11", f"{tmp_path}/dice/agent.py::log"),
        (
            "inner.after_agent_callback: lambda",
            "dice/agent.py:17",
            f"{tmp_path}/dice/agent.py::<lambda>.inner.after_agent_callback",
        ),
    ]
    assert {Path(path).name: found for path, found in source.files.items()} == {
        "__init__.py": {},
        "agent.py": {"log": 11},
        "guards.py": {"check": 1},
        "helpers.py": {"Dice.roll": 6, "roll": 10, "made": 11, "instruct": 12, "instruct.<locals>.inner": 13},
        "more.py": {"look": 1},
    }
    assert source.problems == []


def test_nodes_and_tools_of_graphs(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(
        dedent("""
            from langchain_core.tools import tool, StructuredTool
            from langchain.agents import create_agent

            @tool
            def weather(city): return city

            @tool("find_it", return_direct=True)
            def find(city): return city

            def plain(city): return city
            def look(state): return state

            graph.add_node("say", look)
            graph.add_node(look)
            inner = create_agent(model, tools=[StructuredTool.from_function(func=plain, name="plainly"), weather])
        """)
    )
    target = Target(name="graph", kind=AgentKind.LANGCHAIN, location="agent:graph", path=tmp_path)

    source = read_agent_source(target, root=tmp_path)

    assert source.nodes == {"say": "agent.py:14", "look": "agent.py:15"}
    assert source.tools == {"weather": "agent.py:6", "find_it": "agent.py:9", "plainly": "agent.py:16"}


def test_what_cannot_be_told_apart_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(
        dedent("""
            class Room:
                @property
                def light(self): return 1

                @light.setter
                def light(self, value): self.value = value

            for name in NAMES:
                graph.add_node("say_" + name, Room)
        """)
    )
    target = Target(name="graph", kind=AgentKind.LANGCHAIN, location="agent:graph", path=tmp_path)

    source = read_agent_source(target, root=tmp_path)

    assert source.files[str(tmp_path / "agent.py")] == {"Room.light": 4}
    assert source.problems == [
        "agent.py: Room.light is defined in several places (lines 4, 7), which count as one function",
        "agent.py:10: the name of this node is computed: it is known once it ran",
    ]


def test_a_name_of_an_agent_may_be_a_constant(tmp_path: Path) -> None:
    target = make_target(
        tmp_path, dice__agent_py='NAME = "dice"\nroot_agent = LlmAgent(name=NAME, instruction="Roll.")\n'
    )

    assert [*read_agent_source(target, root=tmp_path).agents] == ["dice"]


def test_prompt_files_are_text_beside_the_agent_and_below_folders_of_prompts(tmp_path: Path) -> None:
    for name in ("system.txt", "prompts/deep/task.yaml", "README.md", "data/rows.txt", "prompts/rules.md", "a.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    (tmp_path / "prompts/.hidden").mkdir()
    (tmp_path / "prompts/.hidden/x.txt").write_text("x")
    (tmp_path / "agent.py").write_text("def answer(prompt): return prompt\n")
    target = Target(name="a", kind=AgentKind.FUNCTION, location="agent:answer", path=tmp_path)

    found = [
        Path(path).relative_to(tmp_path).as_posix() for path in read_agent_source(target, root=tmp_path).prompt_files
    ]

    assert found == ["prompts/rules.md", "system.txt"]


def test_broken_modules_are_problems_and_others_are_read(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text("import bad, deep, binary\ndef answer(prompt): return prompt\n")
    (tmp_path / "bad.py").write_text("x = 1\ndef f(:\n")
    (tmp_path / "deep.py").write_text("x = " + "(" * 5000 + ")" * 5000)
    (tmp_path / "binary.py").write_bytes(b"\x00\xff")
    target = Target(name="a", kind=AgentKind.FUNCTION, location="agent:answer", path=tmp_path)

    source = read_agent_source(target, root=tmp_path)

    assert [each.partition(":")[0] for each in sorted(source.problems)] == ["bad.py", "binary.py", "deep.py"]
    assert "bad.py:2: invalid syntax; its functions and agents are unknown" in source.problems
    assert source.files == {f"{tmp_path}/agent.py": {"answer": 2}}


def test_recorded_modules_are_read_and_installed_ones_are_not(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text("import importlib\ndef answer(prompt): return prompt\n")
    (tmp_path / "late.py").write_text("def late(): return 1\n")
    (tmp_path / ".venv/lib/site-packages").mkdir(parents=True)
    (tmp_path / ".venv/lib/site-packages/other.py").write_text("def other(): return 1\n")
    recorded = {f"{tmp_path}/late.py", f"{tmp_path}/.venv/lib/site-packages/other.py", f"{tmp_path}/gone.py"}
    target = Target(name="a", kind=AgentKind.FUNCTION, location="agent:answer", path=tmp_path)

    source = read_agent_source(target, root=tmp_path, recorded=recorded)

    assert [Path(path).name for path in source.files] == ["agent.py", "late.py"]


def test_names_that_are_made_of_themselves_end(tmp_path: Path) -> None:
    source = "def look(): return 1\nlook_twice = wrap(look_twice)\na = b\nb = a\n"
    agent = f"{source}root_agent = LlmAgent(name='root', tools=[look_twice, a, look], before_agent_callback=b)\n"
    target = make_target(tmp_path, dice__agent_py=agent)

    assert read_agent_source(target, root=tmp_path).agents["root"].tools == ["look"]
