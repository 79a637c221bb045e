"""Agents behind a URL that takes and gives JSON.

What is sent is in `sending`, what is understood of the answers in `reading`, the requests are made in `session` (by
aiohttp: with a hundred of them at a time it costs a fiftieth of what httpx does).
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from ...recording.recorder import quiet
from ...variables import Variables
from .. import base
from .certificates import read_certificates, unread_certificates
from .reading import MAPPED, Reading
from .sending import Sending

if TYPE_CHECKING:
    from ...asking import Tools
    from .session import HttpSession


class Adapter(base.Adapter):
    """One HTTP agent. `location` is its URL, `options` the table `[targets.NAME.http]`."""

    waits_only = True

    def import_own(self) -> None:
        """See `Adapter.import_own`."""
        options = self.target["options"]
        with contextlib.suppress(ImportError), unread_certificates():
            from . import session  # noqa: F401
        if "body" in options:
            with contextlib.suppress(ImportError):
                from . import templates  # noqa: F401
        if not options.keys().isdisjoint(MAPPED):
            with contextlib.suppress(ImportError):
                from . import paths  # noqa: F401

    def make_room(self) -> None:
        """See `Adapter.make_room`."""
        with quiet:
            read_certificates()

    def load(self) -> None:
        """Look at the settings as far as only a process with the target's environment can."""
        variables = Variables(self.target)
        try:
            from .session import Connections

            sending, reading = Sending(self.target), Reading(self.target)
        except ModuleNotFoundError as error:
            raise base.LoadError(
                f"{error.name} is not installed for the interpreter of target {self.target['name']!r}: install it "
                "there, or leave out `python`, as an HTTP agent needs no interpreter of its own"
            ) from None
        url = variables.fill(self.target["location"], key="target")
        self._connections = Connections(
            self.target, variables, url=url, headers=variables.headers(), sending=sending, reading=reading
        )

    async def open(self, session: dict[str, Any], emit_span: base.EmitSpan, tools: Tools | None = None) -> HttpSession:  # noqa: ARG002
        """Open a fresh session. See `Adapter.open`. The engine never asks to hear of tools that run elsewhere."""
        from .session import HttpSession

        return HttpSession(self._connections, session, emit_span)
