"""The adapter for agents behind a URL that takes and returns JSON.

`http_mapping` builds requests and reads answers as the settings say; `http_session` sends requests with aiohttp, which
costs a fiftieth of httpx with a hundred requests at a time.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from ...recording.recorder import quiet
from .. import base
from ..external_session import Variables
from .http_mapping import (
    MAPPED,
    AnswerMapping,
    RequestMapping,
    defer_certificates,
    import_jinja2,
    import_jsonpath,
    read_certificates,
)

if TYPE_CHECKING:
    from .http_session import HttpSession


class Adapter(base.Adapter):
    """One HTTP agent. `location` is its URL, `options` the table `[targets.NAME.http]`."""

    waits_only = True

    def import_libraries(self) -> None:
        options = self.target["options"]
        with contextlib.suppress(ImportError), defer_certificates():
            from . import http_session  # noqa: F401
        if "body" in options:
            with contextlib.suppress(ImportError):
                import_jinja2()
        if not options.keys().isdisjoint(MAPPED):
            with contextlib.suppress(ImportError):
                import_jsonpath()

    def prepare_for_metrics(self) -> None:
        with quiet:
            read_certificates()

    def load(self) -> None:
        """Check the settings that need the target's environment."""
        variables = Variables(self.target)
        try:
            from .http_session import Connections

            sending, reading = RequestMapping(self.target), AnswerMapping(self.target)
        except ModuleNotFoundError as error:
            raise base.LoadError(
                f"{error.name} is not installed for the interpreter of target {self.target['name']!r}: install it "
                "there, or leave out `python`, as an HTTP agent needs no interpreter of its own"
            ) from None
        url = variables.fill(self.target["location"], key="target")
        self._connections = Connections(
            self.target, variables, url=url, headers=variables.headers(), sending=sending, reading=reading
        )

    async def open(
        self,
        session: dict[str, Any],
        emit_span: base.EmitSpan,
        tools: base.InterceptedTools | None = None,  # noqa: ARG002
    ) -> HttpSession:
        """Open a session. See `Adapter.open`. Tools that run elsewhere are never intercepted."""
        from .http_session import HttpSession

        return HttpSession(self._connections, session, emit_span)
