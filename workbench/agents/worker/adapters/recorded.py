"""No agent: what it did was recorded. A worker for such a target only runs custom metrics."""

from __future__ import annotations

from . import base


class Adapter(base.Adapter):
    """A target that cannot be talked to."""

    def load(self) -> None:
        raise base.LoadError(f"target {self.target['name']!r} is a recording: there is no agent to talk to")
