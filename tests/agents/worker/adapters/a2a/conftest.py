"""A2A targets and their agents."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from workbench.model.target import AgentKind


@pytest.fixture
def serve() -> Iterator[Callable[..., Any]]:
    """Return a function that starts agents."""
    from .servers import serving

    with ExitStack() as stack:
        yield lambda *arguments, **options: stack.enter_context(serving(*arguments, **options))


@pytest.fixture
def create_host(bench: Any) -> Callable[..., Any]:
    """Return a function that creates the host of an agent at a URL."""
    return lambda url, **target: bench.host(kind=AgentKind.A2A, location=url, **{"mode": "fork", **target})


@pytest.fixture(
    params=[
        pytest.param({}, id="stream"),
        pytest.param({"streaming": False}, id="one-answer"),
        pytest.param({"binding": "HTTP+JSON"}, id="rest"),
        pytest.param({"version": "0.3"}, id="version-0.3"),
    ]
)
def variant(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Options of an agent for one variant of the protocol."""
    variant: dict[str, Any] = request.param
    return variant
