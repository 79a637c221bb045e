"""The server for exporters of OpenTelemetry: each conversation has its own address."""

from __future__ import annotations

import pytest

from tests.agents import otlp
from tests.agents.otlp import export
from workbench.agents.worker.otlp_receiver import Receiver

pytestmark = pytest.mark.prepared("http")


async def test_a_refused_large_request_is_reported_to_its_conversation() -> None:
    receiver = Receiver()
    own, other = receiver.inbox(), receiver.inbox()
    try:
        large = otlp.span("POST /chat", attributes={"text": "x" * (17 * 1024 * 1024)})

        assert await export(receiver.port, large, path=f"/{own.key}") == 413

        assert [len(inbox.take().problems) for inbox in (own, other)] == [1, 0]
    finally:
        own.close()
        other.close()
