"""Real servers on loopback with answers that a test chooses."""

from __future__ import annotations

import inspect
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web

from workbench.model.target import AgentKind
from workbench.model.trace import get_trajectory


@dataclass
class ReceivedRequest:
    """A request as received; `body` is its JSON, or None without a body."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any


Answer = Callable[[ReceivedRequest], Any]


@dataclass
class Site:
    """A server with an agent. It sends a web.Response of `answer` unchanged, and anything else as JSON."""

    answer: Answer
    url: str = ""
    requests: list[ReceivedRequest] = field(default_factory=list)

    def target(self, path: str = "/chat", **options: Any) -> dict[str, Any]:
        """Return the arguments of `bench.host` for this server."""
        return {"name": "web", "kind": AgentKind.HTTP, "location": f"{self.url}{path}", "options": options}

    async def handle(self, request: web.Request) -> web.StreamResponse:
        text = await request.text()
        received_request = ReceivedRequest(
            request.method,
            request.path,
            dict(request.query),
            {name.lower(): value for name, value in request.headers.items()},
            json.loads(text) if text else None,
        )
        self.requests.append(received_request)
        reply = self.answer(received_request)
        if inspect.isawaitable(reply):
            reply = await reply
        return reply if isinstance(reply, web.StreamResponse) else web.json_response(reply)


Serve = Callable[[Answer], Awaitable[Site]]


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    runners: list[web.AppRunner] = []

    async def start(answer: Answer) -> Site:
        site = Site(answer)
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", site.handle)
        runner = web.AppRunner(application, shutdown_timeout=0.1)
        await runner.setup()
        runners.append(runner)
        tcp_site = web.TCPSite(runner, "127.0.0.1", 0)
        await tcp_site.start()
        site.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        return site

    yield start
    for runner in runners:
        await runner.cleanup()


def get_calls(talk: Any) -> list[tuple[str, Any]]:
    assert talk.error is None, talk.message
    return [(call.name, call.args) for turn in talk.turns for call in get_trajectory(turn.invocation)]
