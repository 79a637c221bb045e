"""Targets: an agent as configured, and what a worker needs to start it."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Literal

from workbench.model.base import Fact


class AgentKind(StrEnum):
    """How an agent is reached."""

    FUNCTION = "function"
    ADK = "adk"
    RECORDED = "recorded"


Isolation = Literal["case", "worker"]
"""A process for each case, or one process for all cases of a target."""


class Target(Fact):
    """An agent as configured.

    `location` is `package.module:callable` for a function, the folder of the agent for ADK, and the file with the
    recorded sessions where there is no agent; as a path it is relative to `path` (or absolute). `path` is the folder
    from which the agent's modules are imported and in which it runs; `python` the interpreter (None: ours); `config`
    the criteria file; `scripted_models` the script that answers for models there is no key for; `simulate_tools` the
    file that says which tools are simulated; `tools` the functions that are the agent's tools, as `module:name`, where
    the agent is a function. `sub_agent` names the one below the root agent that is tested in its place (ADK).
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
