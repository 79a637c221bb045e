"""Real servers on loopback that say what a test wants."""

from __future__ import annotations

import inspect
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web

from workbench.model.target import AgentKind


@dataclass
class Asked:
    """A request as it arrived; `body` is its JSON, None where it has none."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any


Answer = Callable[[Asked], Any]


@dataclass
class Site:
    """A server with an agent. What `answer` gives is sent: a web.Response as it is, anything else as JSON."""

    answer: Answer
    url: str = ""
    asked: list[Asked] = field(default_factory=list)

    def target(self, path: str = "/chat", **options: Any) -> dict[str, Any]:
        """What `bench.host` needs for it."""
        return {"name": "web", "kind": AgentKind.HTTP, "location": f"{self.url}{path}", "options": options}

    async def handle(self, request: web.Request) -> web.StreamResponse:
        text = await request.text()
        asked = Asked(
            request.method,
            request.path,
            dict(request.query),
            {name.lower(): value for name, value in request.headers.items()},
            json.loads(text) if text else None,
        )
        self.asked.append(asked)
        said = self.answer(asked)
        if inspect.isawaitable(said):
            said = await said
        return said if isinstance(said, web.StreamResponse) else web.json_response(said)


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
        listening = web.TCPSite(runner, "127.0.0.1", 0)
        await listening.start()
        site.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        return site

    yield start
    for runner in runners:
        await runner.cleanup()
