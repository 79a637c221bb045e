"""OpenTelemetry spans that HTTP agents export: from real exporters on real sockets."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.agents import otlp
from tests.agents.otlp import export
from tests.agents.worker.adapters.http.spans import NOTES, get_parent
from workbench.model.evalset import Content
from workbench.model.trace import SpanKind

pytestmark = pytest.mark.prepared("http")


@pytest.fixture
def port() -> Iterator[int]:
    """A port that is probably free."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        number = free.getsockname()[1]
    yield number


async def test_exported_spans_are_assigned_to_turns_by_their_trace(bench: Any, serve: Any, port: int) -> None:
    async def answer(request: Any) -> Any:
        root = otlp.span("POST /chat", **get_parent(request))
        root_ids = {"trace": root["traceId"], "parent": root["spanId"]}
        stranger = otlp.tool("of_others", trace="cd" * 16)
        spans = [otlp.tool("look", arguments='{"at": "' + request.body["prompt"] + '"}', **root_ids), stranger, root]
        async with aiohttp.ClientSession() as client:
            for path in ("traces", "metrics"):
                document = {"resourceSpans": otlp.resource_spans(*spans)}
                async with client.post(f"http://127.0.0.1:{port}/v1/{path}", json=document) as response:
                    assert response.status == 200
        return {"response": "seen"}

    site = await serve(answer)
    host = bench.host(**site.target(otlp_port=port))

    talks = await asyncio.gather(*(bench.talk(host, f"{name}1", f"{name}2") for name in "abc"))

    for name, talk in zip("abc", talks, strict=True):
        assert talk.error is None, talk.message
        uses = [call.args["at"] for turn in talk.turns for call in turn.invocation.intermediate_data.tool_uses]
        assert uses == [f"{name}1", f"{name}2"]
        assert "of_others" not in {span.name for span in talk.spans}
    # The port is free again for another run.
    with socket.socket() as other:
        other.bind(("127.0.0.1", port))


async def test_missing_spans_cost_only_time(bench: Any, serve: Any, port: int) -> None:
    async def answer(request: Any) -> Any:
        async with aiohttp.ClientSession() as client:
            document = {"resourceSpans": otlp.resource_spans(otlp.model())}
            await client.post(f"http://127.0.0.1:{port}/v1/traces", json=document)
            response = await client.post(
                f"http://127.0.0.1:{port}/v1/traces", data=b"\x00", headers={"content-type": "x/y"}
            )
            assert response.status == 200
            assert (await client.get(f"http://127.0.0.1:{port}/v1/traces")).status == 405
        return {"response": "seen"}

    site = await serve(answer)

    talk = await bench.talk_once("moon", **site.target(otlp_port=port, otlp_wait_seconds=0.2))

    assert talk.responses == ["seen"]
    note = "in a request without a conversation: an exporter sent data that is neither JSON nor declared as protobuf"
    assert talk.spans[0].attributes[NOTES] == [note]


async def test_a_late_span_of_an_earlier_turn_does_not_count_for_this_turn(bench: Any, serve: Any, port: int) -> None:
    roots: list[Any] = []

    async def answer(request: Any) -> Any:
        if not roots:
            roots.append(otlp.agent(**get_parent(request)))
            await export(port, *roots)
        else:
            await export(port, otlp.tool("late", trace=roots[0]["traceId"], parent=roots[0]["spanId"]))
        return {"response": "seen"}

    site = await serve(answer)

    talk = await bench.talk_once("moon", "sun", **site.target(otlp_port=port, otlp_wait_seconds=0.3))

    first, second = (span for span in talk.spans if span.id.startswith("agent-"))
    assert NOTES not in first.attributes
    assert second.attributes[NOTES] == ["no span arrived within 0.3 s of the answer"]
    assert [turn.calls_unknown for turn in talk.turns] == [None, "no span arrived within 0.3 s of the answer"]
    assert [span.turn for span in talk.spans if span.name == "late"] == [0]


@pytest.mark.parametrize("ahead", [-60.0, -0.5, 0.0, 0.9, 60.0])
async def test_the_end_of_a_turn_is_recognised_whatever_the_agents_clock_shows(
    bench: Any, serve: Any, port: int, ahead: float
) -> None:
    tasks: list[asyncio.Task[None]] = []

    def shift(span: Any) -> Any:
        times = ("startTimeUnixNano", "endTimeUnixNano")
        return {**span, **{key: str(int(span[key]) + int(ahead * 1e9)) for key in times}}

    async def answer(request: Any) -> Any:
        request_start = asyncio.get_running_loop().time()
        root = otlp.span("POST /chat", **get_parent(request))
        root_ids = {"trace": root["traceId"], "parent": root["spanId"]}
        await export(port, shift(otlp.tool("first", **get_parent(request))))
        await asyncio.sleep(0.6)
        finished_root = otlp.span(
            "POST /chat", **get_parent(request), seconds=asyncio.get_running_loop().time() - request_start
        )
        spans = [shift(otlp.tool("second", **root_ids)), shift({**finished_root, "spanId": root["spanId"]})]

        async def send_later() -> None:
            await asyncio.sleep(0.3)
            await export(port, *spans)

        tasks.append(asyncio.create_task(send_later()))
        return {"response": "seen"}

    site = await serve(answer)
    start = time.perf_counter()

    talk = await bench.talk_once("moon", **site.target(otlp_port=port, otlp_wait_seconds=30))

    assert talk.error is None, talk.message
    assert [call.name for call in talk.turns[0].invocation.intermediate_data.tool_uses] == ["first", "second"]
    assert time.perf_counter() - start < 20


async def test_an_export_refused_for_its_size_is_reported(bench: Any, serve: Any, port: int) -> None:
    async def answer(request: Any) -> Any:
        large = otlp.span("POST /chat", **get_parent(request), attributes={"text": "x" * (17 * 1024 * 1024)})
        assert await export(port, large) == 413
        return {"response": "seen"}

    site = await serve(answer)

    talk = await bench.talk_once("moon", **site.target(otlp_port=port, otlp_wait_seconds=0.2))

    (note,) = talk.spans[0].attributes[NOTES]
    assert note.startswith(
        "in a request without a conversation: an exporter sent more than 16 MB at once, which was refused"
    )
    assert talk.turns[0].calls_unknown == note


async def test_a_case_killed_between_turns_releases_the_port(bench: Any, serve: Any, port: int) -> None:
    site = await serve(lambda request: {"response": "seen"})
    session = await bench.open(bench.host(**site.target(otlp_port=port, otlp_wait_seconds=0.1)))
    await session.turn(Content.of_text("moon", role="user"), turn=0)

    await session.kill()

    with socket.socket() as other:
        other.bind(("127.0.0.1", port))


async def test_a_port_in_use_is_an_infrastructure_error(bench: Any, serve: Any) -> None:
    site = await serve(lambda request: {"response": "seen"})
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        number = listener.getsockname()[1]

        talk = await bench.talk_once("moon", **site.target(otlp_port=number))

    assert talk.kind == "infrastructure"
    assert talk.message.startswith(f"targets.web: cannot listen for spans on port {number} (")


SERVICE = """
    import json, sys, urllib.parse
    from http.server import BaseHTTPRequestHandler, HTTPServer
    from opentelemetry import trace
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(), schedule_delay_millis=50))
    tracer = provider.get_tracer("agent")


    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            context = TraceContextTextMapPropagator().extract({"traceparent": self.headers["traceparent"]})
            with tracer.start_as_current_span("POST /chat", context=context):
                told = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m-1",
                        "gen_ai.usage.input_tokens": 7, "gen_ai.usage.output_tokens": 2}
                with tracer.start_as_current_span("chat", attributes=told):
                    pass
                told = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "look",
                        "gen_ai.tool.call.arguments": json.dumps({"at": asked["prompt"]})}
                with tracer.start_as_current_span("tool", attributes=told):
                    pass
                data = b'{"response": "seen"}'
                self.send_response(200)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)


    server = HTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_port, flush=True)
    server.serve_forever()
"""


async def test_spans_of_a_service_with_the_real_sdk_are_received(bench: Any, port: int, tmp_path: Path) -> None:
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
    script = bench.write("service.py", SERVICE)
    service = await asyncio.create_subprocess_exec(
        sys.executable,
        str(script),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}"},
    )
    assert service.stdout is not None
    try:
        address = f"http://127.0.0.1:{int(await service.stdout.readline())}/"
        target = {"name": "web", "kind": "http", "location": address}

        talk = await bench.talk_once("moon", "sun", **target, options={"otlp_port": port, "otlp_wait_seconds": 20})
    finally:
        service.kill()
        await service.wait()

    assert talk.error is None, talk.message
    uses = [[call.args for call in turn.invocation.intermediate_data.tool_uses] for turn in talk.turns]
    assert uses == [[{"at": "moon"}], [{"at": "sun"}]]
    assert [turn.usage.total for turn in talk.turns] == [9, 9]
    second = [span for span in talk.spans if span.turn == 1]
    assert [span.kind for span in second].count(SpanKind.TOOL) == 1
    assert all(NOTES not in span.attributes for span in second)
