"""Wrappers of clients in versions whose private names differ."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest
from aiohttp.test_utils import TestServer
from aiohttp.web import Application, Request, Response

from workbench.agents.worker import model_clients
from workbench.agents.worker.model_interception import InterceptedModels


async def answer(request: Request) -> Response:
    return Response(text=request.method)


async def test_calls_of_an_aiohttp_that_cannot_be_wrapped_are_announced(monkeypatch: pytest.MonkeyPatch) -> None:
    announced: list[Any] = []

    class Announcements(InterceptedModels):
        async def ask_later(self, call: dict[str, Any]) -> dict[str, Any]:
            announced.append((call["method"], call["url"], call["uncovered"]))
            return {"source": None}

    models = Announcements(None, {"endpoints": ["/v1/"]}, None)  # type: ignore[arg-type]
    monkeypatch.setattr(model_clients, "find_session", lambda url, **_: models if models.covers("GET", url) else None)
    module = SimpleNamespace(ClientSession=SimpleNamespace(__init__=aiohttp.ClientSession.__init__))

    model_clients._wrap_aiohttp(module)
    monkeypatch.setattr(aiohttp.ClientSession, "__init__", module.ClientSession.__init__)
    application = Application()
    application.router.add_route("*", "/{path:.*}", answer)
    async with TestServer(application) as server, aiohttp.ClientSession() as session:
        called, other = str(server.make_url("/v1/chat")), str(server.make_url("/tools"))
        texts = [await (await session.post(called)).text(), await (await session.get(other)).text()]

    assert texts == ["POST", "GET"]
    assert announced == [("POST", called, "aiohttp")]
