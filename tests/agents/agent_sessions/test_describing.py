"""Descriptions of agents, reported by their process without running the agent."""

from __future__ import annotations

from typing import Any

import pytest

from workbench.agents.agent_host import AgentError
from workbench.model.evalset import Content
from workbench.model.target import AgentDescription, AgentKind

LIGHTS = '''
    """Lights of a house. Say a room."""

    from functools import cache
    from json import dumps
    from typing import Annotated


    def set_light(room: str, *, on: bool = True) -> str:
        """Switch a light."""
        raise RuntimeError("nothing may run")


    class Rooms:
        def known(self, floor: int) -> list:
            """The rooms of a floor."""


    @cache
    def _hidden(): ...


    def odd(value: Annotated[int, {}] = 1):
        """Its annotation cannot be hashed."""


    def answer(prompt):
        """Answers about lights."""
        return prompt.upper()
'''

ADK = '''
    from google.adk.agents import LlmAgent
    from google.adk.tools.base_toolset import BaseToolset


    class Cellar(BaseToolset):
        async def get_tools(self, readonly_context=None):
            raise RuntimeError("nothing may be asked")


    def book_table(restaurant: str, people: int) -> dict:
        """Book a table.

        Args:
          restaurant: Where.
          people: How many.
        """
        raise RuntimeError("nothing may run")


    def made_for_each(context):
        """Tells who the guest is."""
        raise RuntimeError("nothing may run")


    waiter = LlmAgent(name="waiter", model="none", description="Takes orders.", instruction=made_for_each)
    root_agent = LlmAgent(
        name="host",
        model="none",
        instruction="Book tables in {town}.",
        tools=[book_table, Cellar()],
        sub_agents=[waiter],
    )
'''


async def describe(bench: Any, **host: Any) -> AgentDescription:
    session = await bench.open(bench.host(**host))
    try:
        description: AgentDescription = await session.describe()
        return description
    finally:
        await session.kill()


async def test_the_description_of_a_function_has_docstrings_and_public_functions(
    bench: Any, way: dict[str, Any]
) -> None:
    bench.agent(LIGHTS)

    (agent,) = (await describe(bench, **way)).agents

    assert (agent.name, agent.description) == ("answer", "Answers about lights.")
    assert agent.instruction == "Lights of a house. Say a room."
    by_name = {tool["name"]: tool for tool in agent.tools}
    assert by_name.keys() == {"set_light", "known", "odd"}
    assert by_name["set_light"]["description"] == "Switch a light."
    assert by_name["set_light"]["parameters"]["required"] == ["room"]
    assert list(by_name["known"]["parameters"]["properties"]) == ["floor"]


@pytest.mark.prepared("adk")
async def test_the_description_of_an_adk_agent_has_tools_sub_agents_and_unknown_parts(
    bench: Any, way: dict[str, Any]
) -> None:
    pytest.importorskip("google.adk")
    bench.write("host/agent.py", ADK)

    description = await describe(bench, kind=AgentKind.ADK, location="host", **way)

    host, waiter = description.agents
    assert (host.name, host.instruction, host.agents) == ("host", "Book tables in {town}.", ("waiter",))
    (tool,) = host.tools
    assert tool["name"] == "book_table"
    assert "Book a table." in tool["description"]
    assert "restaurant" in str(tool)
    assert (waiter.description, waiter.instruction) == ("Takes orders.", "Tells who the guest is.")
    assert any("Cellar of host" in text for text in description.unknown)
    assert any("instruction of waiter is computed by a function" in text for text in description.unknown)


SECRETIVE = '''
    import os
    from dataclasses import dataclass
    from typing import Annotated

    KEY = os.environ.get("NOT_SET", "sk-SECRET0123456789abcdefghij")


    class Client:
        def __repr__(self):
            return f"Client({KEY!r})"


    class Place:
        def __repr__(self):
            return f"Place(default={KEY!r})"


    def tool(
        x: int,
        api_key: str = "swordfish SECRET",
        sign=KEY,
        options: dict = {"password": "swordfish SECRET"},
        hosts: list = ["postgres://me:SECRET@host/data"],
        client=Client(),
        count: int = 3,
        model: str = "gemini-2.5-flash",
        day="2024-05-01",
        retry: dict = {"times": 2},
        placed: Annotated[str, Place()] = "",
        written: "Annotated[str, Field(default='sk-SECRET0123456789abcdefghij')]" = "",
    ):
        """Do it."""
'''

FUNCTION_AGENT = """
    @dataclass
    class Answerer:
        greeting: str = "swordfish SECRET"

        def __call__(self, prompt):
            return prompt


    answer = Answerer()
"""

ADK_AGENT = """
    from google.adk.agents import LlmAgent
    from google.adk.tools.function_tool import FunctionTool


    @dataclass
    class Switch:
        key: str = "swordfish SECRET"

        def __call__(self, room: str, token: str = KEY) -> str:
            return room


    def plain(
        x: int,
        api_key: str = "swordfish SECRET",
        sign: str = KEY,
        options: dict = {"password": "swordfish SECRET"},
        count: int = 3,
        model: str = "gemini-2.5-flash",
    ):
        pass


    root_agent = LlmAgent(name="host", model="none", tools=[plain, FunctionTool(Switch())])
"""


async def test_defaults_that_may_be_secrets_are_removed(bench: Any, way: dict[str, Any]) -> None:
    bench.agent(SECRETIVE + FUNCTION_AGENT)

    (agent,) = (await describe(bench, **way)).agents

    assert "SECRET" not in agent.model_dump_json()
    parameters = next(tool for tool in agent.tools if tool["name"] == "tool")["parameters"]
    assert parameters["required"] == ["x"]
    defaults = {name: facts["default"] for name, facts in parameters["properties"].items() if "default" in facts}
    assert defaults == {
        "count": 3,
        "model": "gemini-2.5-flash",
        "day": "2024-05-01",
        "retry": {"times": 2},
        "placed": "",
        "written": "",
    }


@pytest.mark.prepared("adk")
async def test_defaults_that_may_be_secrets_are_removed_from_adk_tools(bench: Any, way: dict[str, Any]) -> None:
    pytest.importorskip("google.adk")
    bench.write("host/agent.py", SECRETIVE + ADK_AGENT)

    (agent,) = (await describe(bench, kind=AgentKind.ADK, location="host", **way)).agents

    assert "SECRET" not in agent.model_dump_json()
    assert len(agent.tools) == 2
    plain = str(agent.tools[0])
    assert "api_key" in plain
    assert "'default': 3" in plain
    assert "'default': 'gemini-2.5-flash'" in plain


async def test_an_agent_can_still_answer_after_it_was_described(bench: Any, way: dict[str, Any]) -> None:
    bench.agent(LIGHTS)
    session = await bench.open(bench.host(**way))

    await session.describe()
    turn = await session.turn(Content.of_text("hall", role="user"), turn=0)
    second_description = await session.describe()
    await session.finish()

    assert turn.invocation.final_response.text() == "HALL"
    assert second_description.agents[0].name == "answer"


async def test_the_description_of_a_broken_agent_fails_with_the_reason(bench: Any, way: dict[str, Any]) -> None:
    bench.agent("import not_there")

    with pytest.raises(AgentError) as raised:
        await describe(bench, **way)

    assert "not_there" in raised.value.failure.message
