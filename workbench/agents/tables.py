"""What is wrong in the table of settings that only one kind of agent has, told before any agent is asked."""

from __future__ import annotations

from workbench.agents.processes import worker_target
from workbench.agents.worker.adapters.base import LoadError
from workbench.model.target import AgentKind, Target


def wrong_table(target: Target) -> str | None:
    """A template or path that its adapter would not take, beginning with its place in the settings; None for none."""
    if target.kind is not AgentKind.HTTP or not target.options:
        return None
    from workbench.agents.worker.adapters.http.reading import Reading
    from workbench.agents.worker.adapters.http.sending import Sending

    told = worker_target(target)
    try:
        Sending(told)
        Reading(told)
    except LoadError as error:
        return str(error)
    return None
