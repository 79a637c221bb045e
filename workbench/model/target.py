"""Targets: the agents of a project, and how an agent describes itself."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Any, Literal

from pydantic import AliasChoices, Field

from workbench.model.base import Fact

# Targets: an agent as configured, and what a worker needs to start it.


class AgentKind(StrEnum):
    """How an agent is reached."""

    FUNCTION = "function"
    ADK = "adk"
    LANGCHAIN = "langchain"
    AGENT_ENGINE = "agent_engine"
    A2A = "a2a"
    HTTP = "http"
    COMMAND = "command"
    RECORDED = "recorded"


Isolation = Literal["case", "worker"]
"""A process for each case, or one process for all cases of a target."""

Unrecorded = Literal["error", "call"]
"""What becomes of a call of a tool that is not recorded: its case ends in ERROR, or it is simulated or made as without
replay."""

DEPLOYED = "projects/"
"""How the resource name of an agent that is deployed on Agent Engine begins."""


class Target(Fact):
    """An agent as configured.

    `location` is `package.module:name` for a function, for LangChain and for an object with `query`; the folder of the
    agent for ADK; the resource name of what is deployed on Agent Engine; a URL for A2A and HTTP; a program with its
    arguments, quoted as for a shell, for a command; and the file with the recorded sessions where there is no agent. As
    a path it is relative to `path` (or absolute). `path` is the folder from which the agent's modules are imported and
    in which it runs; `python` the interpreter (None: ours); `config` the criteria file; `scripted_models` the script
    that answers for models there is no key for; `simulate_tools` the file that says which tools are simulated; `tools`
    the functions that are the agent's tools, as `module:name`, where the agent is a function; `columns` the known names
    of columns in datasets of recorded sessions, each with the name that it has there, where that is another;
    `sub_agent` the one below the root agent that is tested in its place (ADK); `options` the table of settings that
    only its kind has, for its adapter. In URLs and options `${NAME}` stands for an environment variable: the adapter
    alone looks it up.
    """

    name: str
    kind: AgentKind
    location: str = ""
    path: Path
    python: Path | None = None
    env_file: Path | None = None
    eval_sets: tuple[str, ...] = ()
    config: Path | None = None
    watch: tuple[str, ...] = ()
    rerun: Literal["affected", "always"] = "affected"
    scripted_models: Path | None = None
    simulate_tools: Path | None = None
    tools: tuple[str, ...] = ()
    sub_agent: str | None = None
    columns: tuple[tuple[str, str], ...] = ()
    options: dict[str, Any] = Field(default_factory=dict)

    def __hash__(self) -> int:
        return hash((self.name, self.kind, self.location, self.path))

    @property
    def is_remote(self) -> bool:
        """Whether nothing of the agent runs in our processes, so that its cases can share one."""
        deployed = self.kind is AgentKind.AGENT_ENGINE and self.location.startswith(DEPLOYED)
        return deployed or self.kind in (AgentKind.A2A, AgentKind.HTTP)

    @property
    def runs_in_worker(self) -> bool:
        """Whether its code runs in a worker process of ours, where calls of its tools can be seen and answered."""
        return not self.is_remote and self.kind not in (AgentKind.COMMAND, AgentKind.RECORDED)


# What an agent is: what its code says of it, told without running it.


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
    """An agent and its sub-agents, the outermost first. `unknown` are sentences about what the code does not reveal."""

    agents: tuple[AgentPart, ...] = Field(min_length=1)
    unknown: tuple[str, ...] = Field(default=(), validation_alias=AliasChoices("unknown", "untold"))
