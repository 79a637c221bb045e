"""What an agent is: what its code says of it, told without running it."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from workbench.model.base import Fact


class AgentPart(Fact):
    """An agent, or one below it.

    `instruction` is what its model is told; `tools` are declarations as models get them (`name`, `description`,
    `parameters`); `agents` names those it runs or hands over to.
    """

    name: str
    type: str = ""
    description: str = ""
    instruction: str = ""
    tools: tuple[dict[str, Any], ...] = ()
    agents: tuple[str, ...] = ()


class AgentDescription(Fact):
    """An agent and all below it, the outermost first. `untold` says what could not be told, each in one sentence."""

    agents: tuple[AgentPart, ...] = Field(min_length=1)
    untold: tuple[str, ...] = ()
