"""The tools of an agent for which scenarios are generated."""

from __future__ import annotations

import pytest

from workbench.engine.scenario_generation import NotDescribed, list_tools
from workbench.model.target import AgentDescription, AgentPart


def test_tools_of_all_agents_are_listed_or_an_error_says_what_to_do() -> None:
    outer = AgentPart(name="outer", tools=({"name": "look"},), agents=("inner",))
    inner = AgentPart(name="inner", tools=({"name": "light"},))

    assert list_tools(AgentDescription(agents=(inner,))) == {"light"}
    assert list_tools(AgentDescription(agents=(outer, inner))) == {"look", "light", "transfer_to_agent"}
    with pytest.raises(NotDescribed, match="bare: the tools of the agent are unknown: list them as tools"):
        list_tools(AgentDescription(agents=(AgentPart(name="bare"),)))
