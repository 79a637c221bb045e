"""Agents that speak TLS: which of their certificates are trusted."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import trustme
from aiohttp import web

from workbench.agents.agent_host import CustomScoreRequest
from workbench.model.evalset import Invocation

AUTHORITY = trustme.CA()


@pytest.fixture
async def location(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[str]:
    """The URL of an agent with a certificate from a private authority."""
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)  # an existing variable takes precedence over `.env`
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    AUTHORITY.issue_cert("localhost").configure_cert(context)

    async def answer(_: web.Request) -> web.Response:
        return web.json_response({"response": "Good evening."})

    application = web.Application()
    application.router.add_post("/", answer)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    yield f"https://localhost:{runner.addresses[0][1]}/"
    await runner.cleanup()


@pytest.fixture
def env_file(bench: Any, tmp_path: Path) -> Path:
    """A `.env` file that names the authority."""
    authority = tmp_path / "authority.pem"
    AUTHORITY.cert_pem.write_to_path(str(authority))
    path: Path = bench.write("web.env", f"SSL_CERT_FILE={authority}\n")
    return path


def target(location: str, **more: Any) -> dict[str, Any]:
    return {"name": "web", "kind": "http", "location": location, **more}


async def test_a_certificate_of_an_unknown_authority_is_not_trusted(
    bench: Any, location: str, way: dict[str, Any]
) -> None:
    talk = await bench.talk_once("hello", **target(location), **way)

    assert talk.kind == "infrastructure"
    assert "its certificate is not trusted" in talk.message


async def test_an_authority_that_the_env_file_names_is_trusted(
    bench: Any, location: str, way: dict[str, Any], env_file: Path
) -> None:
    talk = await bench.talk_once("hello", **target(location, env_file=env_file), **way)

    assert talk.error is None, talk.message
    assert talk.responses == ["Good evening."]


async def test_a_metric_that_sends_requests_trusts_the_authority_too(
    bench: Any, location: str, way: dict[str, Any], env_file: Path
) -> None:
    bench.write(
        "metrics.py",
        f"""
        import aiohttp

        async def polite(instance):
            async with aiohttp.ClientSession() as session, session.post({location!r}) as response:
                told = await response.json()
            return {{"polite": 1.0, "explanation": told["response"]}}
        """,
    )
    host = bench.host(**target(location, env_file=env_file), **way)

    turn = Invocation.model_validate({"user_content": {"role": "user", "parts": [{"text": "hello"}]}})
    answer = await host.score(CustomScoreRequest(metric="polite", function="metrics.polite", actual=[turn]))

    assert (answer.score, answer.reason) == (1.0, "Good evening.")
