"""Targets: the agents of a project, and how an agent describes itself."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Any, Literal

from pydantic import AliasChoices, Field

from workbench.model.facts import Fact

# Targets: the configuration of an agent


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


Executor = Literal["local", "ray"]
"""Where agents run: on this machine, or on the nodes of a Ray cluster."""


class ModelMode(StrEnum):
    """Where the answers to model calls of agents come from."""

    LIVE = "live"  # from the models
    AUTO = "auto"  # from the recording while requests are the same, then from the models
    REPLAY = "replay"  # from the recording; another request is an error


Unrecorded = Literal["error", "call"]
"""The handling of a tool call that is not recorded: the case ends in ERROR, or the call is simulated or made as
without replay."""

DEPLOYED = "projects/"
"""The prefix of resource names of agents that are deployed on Agent Engine."""


class Target(Fact):
    """The configuration of an agent.

    `location` depends on the kind: `package.module:name` for a function, LangChain and an object with `query`; the
    folder of an ADK agent; the resource name of a deployment on Agent Engine; a URL for A2A and HTTP; a program with
    its arguments, quoted as for a shell, for a command; the file of recorded sessions. A path is relative to `path` or
    absolute.

    `path` is the import root and the working directory of the agent. `python` is its interpreter (None: ours). `config`
    is the criteria file. `scripted_models` is the script that replies for models without a key. `simulate_tools` is the
    file that configures simulated tools. `tools` are the agent's tools as `module:name`, for functions. `columns` maps
    known columns of recorded datasets to their names in the dataset. `sub_agent` is the agent below the root agent that
    is tested instead (ADK). `options` is the table of settings of its kind, for its adapter. In URLs and options
    `${NAME}` is an environment variable; only the adapter resolves it.
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
        """True if the agent does not run in our processes, so that its cases can share one process."""
        deployed = self.kind is AgentKind.AGENT_ENGINE and self.location.startswith(DEPLOYED)
        return deployed or self.kind in (AgentKind.A2A, AgentKind.HTTP)

    @property
    def runs_in_worker(self) -> bool:
        """True if its code runs in a worker process, where its tool calls can be observed and simulated."""
        return not self.is_remote and self.kind not in (AgentKind.COMMAND, AgentKind.RECORDED)

    @property
    def has_recorded_models(self) -> bool:
        """True if its model calls can be recorded and replayed: it runs in a worker process, or is started by one."""
        return self.runs_in_worker or self.kind is AgentKind.COMMAND


# Descriptions of agents, read from their code without running them


class AgentPart(Fact):
    """An agent or a sub-agent.

    `instruction` is the system prompt of its model, `instructions` are the texts of it that a session can replace, by
    the names of their fields. `tools` are declarations as models get them (`name`, `description`, `parameters`).
    `agents` are the names of the agents that it runs or transfers to.
    """

    name: str
    type: str = ""
    description: str = ""
    instruction: str = ""
    instructions: dict[str, str] = Field(default_factory=dict)
    tools: tuple[dict[str, Any], ...] = ()
    agents: tuple[str, ...] = ()


class AgentDescription(Fact):
    """An agent and its sub-agents, the outermost first. `unknown` are sentences about what the code does not reveal."""

    agents: tuple[AgentPart, ...] = Field(min_length=1)
    unknown: tuple[str, ...] = Field(default=(), validation_alias=AliasChoices("unknown", "untold"))
