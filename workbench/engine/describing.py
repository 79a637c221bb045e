"""What an agent says of itself: told by its process, without running it."""

from __future__ import annotations

import asyncio

from workbench.agents.host import AgentError, AgentHost, AgentSession, SessionRequest
from workbench.engine.case import DEFAULT_USER
from workbench.model.agent import AgentDescription, AgentPart
from workbench.model.target import Target

_HANDS_OVER = "transfer_to_agent"
"""The tool by which an ADK agent hands over to one below it; it has no declaration."""


class NotDescribed(Exception):
    """An agent could not say what it is, for the reason that the text gives."""


async def described(target: Target, host: AgentHost, *, timeout_seconds: float) -> AgentDescription:
    """What the agent says of itself, in a process that ends with that. Raises NotDescribed."""
    request = SessionRequest(app_name=target.name, user_id=DEFAULT_USER, collect_spans=False, alone=True)
    session: AgentSession | None = None
    try:
        async with asyncio.timeout(None) as deadline:  # the import of the agent has a limit of its own

            def begin() -> None:
                deadline.reschedule(asyncio.get_running_loop().time() + timeout_seconds)

            session = await host.open(request, on_span=lambda _: None, on_opened=begin)
            return _with_tools_of(target, await session.describe())
    except AgentError as error:
        raise NotDescribed(f"{target.name}: {error.failure.message}") from error
    except TimeoutError:
        raise NotDescribed(f"{target.name} did not tell what it is within {timeout_seconds:g} s") from None
    finally:
        if session is not None:
            await session.kill()


def tools_in(description: AgentDescription) -> frozenset[str]:
    """The names of all tools of an agent and those below it. Raises NotDescribed where it told of none."""
    tools = frozenset(str(tool["name"]) for part in description.agents for tool in part.tools if "name" in tool)
    if not tools:
        name = description.agents[0].name
        raise NotDescribed(f"{name}: it is not known which tools the agent has: name them as tools of the target")
    return tools | ({_HANDS_OVER} if any(part.agents for part in description.agents) else frozenset())


def _with_tools_of(target: Target, description: AgentDescription) -> AgentDescription:
    """Of the functions of the agent's modules those alone that the target says are its tools, where it says so."""
    names = {each.rpartition(":")[2].rpartition(".")[2] for each in target.tools}
    if not names:
        return description

    def with_these(part: AgentPart) -> AgentPart:
        return part.model_copy(update={"tools": tuple(tool for tool in part.tools if tool.get("name") in names)})

    return description.model_copy(update={"agents": tuple(map(with_these, description.agents))})
