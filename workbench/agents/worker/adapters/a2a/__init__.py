"""The adapter for agents that speak A2A. `location` is the URL of an agent card, or where one lies at the usual place.

The library is imported with `card` and `session`; what becomes of the agent's messages, tasks and artefacts is in
`reading`, which knows nothing of it.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from ...variables import Variables
from .. import base

if TYPE_CHECKING:
    from ...asking import Tools
    from .session import A2aSession


class Adapter(base.Adapter):
    """One A2A agent. `options` is the table `[targets.NAME.a2a]`."""

    waits_only = True

    def import_own(self) -> None:
        """See `Adapter.import_own`."""
        with contextlib.suppress(ImportError):
            from . import session  # noqa: F401

    def load(self) -> None:
        """Look at the settings as far as only a process with the target's environment can."""
        variables = Variables(self.target)
        try:
            from .card import Peer
        except ModuleNotFoundError:
            raise base.not_installed("a2a-sdk", extra="a2a") from None
        url = variables.fill(self.target["location"], key="target")
        self._peer = Peer(self.target, variables, url=url, headers=variables.headers())

    async def open(self, session: dict[str, Any], emit_span: base.EmitSpan, tools: Tools | None = None) -> A2aSession:  # noqa: ARG002
        """Open a fresh session. See `Adapter.open`. The engine never asks to hear of tools that run elsewhere."""
        from .session import A2aSession

        return A2aSession(self._peer, await self._peer.connect(), session, emit_span)
