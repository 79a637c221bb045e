"""The adapter for agents that speak A2A. `location` is the URL of an agent card, or of a server that has one.

Only `a2a_session` imports the library.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from .. import base
from ..external_session import Variables

if TYPE_CHECKING:
    from .a2a_session import A2aSession


class Adapter(base.Adapter):
    """One A2A agent. `options` is the table `[targets.NAME.a2a]`."""

    waits_only = True

    def import_libraries(self) -> None:
        with contextlib.suppress(ImportError):
            from . import a2a_session  # noqa: F401

    def load(self) -> None:
        """Check the settings that need the target's environment."""
        variables = Variables(self.target)
        try:
            from .a2a_session import Peer
        except ModuleNotFoundError:
            raise base.make_not_installed_error("a2a-sdk", extra="a2a") from None
        url = variables.fill(self.target["location"], key="target")
        self._peer = Peer(self.target, variables, url=url, headers=variables.headers())

    async def open(
        self,
        session: dict[str, Any],
        emit_span: base.EmitSpan,
        tools: base.InterceptedTools | None = None,  # noqa: ARG002
    ) -> A2aSession:
        """Open a session. See `Adapter.open`. Tools that run elsewhere are never intercepted."""
        from .a2a_session import A2aSession

        return A2aSession(self._peer, await self._peer.connect(), session, emit_span)
