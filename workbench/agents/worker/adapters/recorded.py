"""The adapter for recorded agents, which cannot run. Its worker only runs custom metrics."""

from __future__ import annotations

from . import base


class Adapter(base.Adapter):
    """A target without an agent."""

    def load(self) -> None:
        raise base.LoadError(f"target {self.target['name']!r} is a recording: there is no agent to talk to")
