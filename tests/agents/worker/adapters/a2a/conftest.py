"""A2A targets, and the agents they lead to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from workbench.model.target import AgentKind


@pytest.fixture
def serve() -> Iterator[Callable[..., Any]]:
    """Start agents."""
    from .servers import serving

    with ExitStack() as stack:
        yield lambda *given, **options: stack.enter_context(serving(*given, **options))


@pytest.fixture
def reach(bench: Any) -> Callable[..., Any]:
    """The host of an agent at a URL."""
    return lambda url, **target: bench.host(kind=AgentKind.A2A, location=url, **{"mode": "fork", **target})


@pytest.fixture(
    params=[
        pytest.param({}, id="stream"),
        pytest.param({"streaming": False}, id="one-answer"),
        pytest.param({"binding": "HTTP+JSON"}, id="rest"),
        pytest.param({"version": "0.3"}, id="version-0.3"),
    ]
)
def manner(request: pytest.FixtureRequest) -> dict[str, Any]:
    """How an agent speaks."""
    manner: dict[str, Any] = request.param
    return manner
