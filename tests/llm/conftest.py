"""Models behind local servers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.llm.servers import Answer, Server, run_server
from workbench.llm.model_types import Message, ModelRequest
from workbench.llm.models import ModelOptions, Models


@pytest.fixture
def serve() -> Iterator[Callable[[Answer], Server]]:
    """Start servers with answers of the test."""
    with ExitStack() as stack:
        yield lambda answer: stack.enter_context(run_server(answer))


@pytest.fixture
async def open_models() -> AsyncIterator[Callable[..., Models]]:
    """Open access to the models behind a server."""
    opened: list[Models] = []

    def open_(server: Server | None, *, environment: dict[str, str] | None = None, **arguments: Any) -> Models:
        options = {"first_wait_seconds": 0.01, **arguments.pop("options", {})}
        if environment is None:
            assert server is not None
            environment = {
                "GOOGLE_API_KEY": "key-of-google",
                "GOOGLE_GEMINI_BASE_URL": server.url,
                "OPENAI_API_KEY": "key-of-openai",
                "OPENAI_API_BASE": f"{server.url}/v1",
                "DEEPSEEK_API_KEY": "key-of-deepseek",
                "DEEPSEEK_API_BASE": f"{server.url}/v1",
            }
        opened.append(Models(environment, ModelOptions(**options), **arguments))
        return opened[-1]

    yield open_
    for models in opened:
        await models.close()


def request(text: str = "Is it so?", *, model: str = "gemini-test", **arguments: Any) -> ModelRequest:
    """Return a request with one user message."""
    return ModelRequest(model=model, messages=(Message(role="user", text=text),), **arguments)
