"""Spans of OpenTelemetry from HTTP agents: in their answers, and from real exporters on real sockets."""

from __future__ import annotations

import asyncio
import json
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
from workbench.agents.worker.otlp.receiver import Receiver
from workbench.model.evalset import Content
from workbench.model.trace import Span, SpanKind

NOTES = "workbench.telemetry"


def parent_of(asked: Any) -> dict[str, str]:
    """The trace and the span that a request names in its `traceparent`."""
    _, trace, span, _ = asked.headers["traceparent"].split("-")
    return {"trace": trace, "parent": span}


def kinds(spans: list[Span]) -> list[tuple[str, str]]:
    return [(span.kind.value, span.name) for span in spans]


async def test_spans_in_an_answer_are_trace_trajectory_and_tokens(bench: Any, serve: Any) -> None:
    def answer(asked: Any) -> Any:
        root = otlp.span("POST /chat", **parent_of(asked), seconds=0.05)
        below = {"trace": root["traceId"], "parent": root["spanId"]}
        spans = [
            otlp.model(**below, seconds=0.04),
            otlp.tool("look", arguments='{"at": "moon"}', result='{"seen": true}', **below, seconds=0.03),
            otlp.tool("tell", arguments='{"what": "moon"}', **below),
        ]
        return {"response": "seen", "resourceSpans": otlp.resource_spans(*spans, root)}

    site = await serve(answer)

    talk = await bench.talk_once("moon", "again", **site.target())

    assert talk.error is None, talk.message
    for turn in talk.turns:
        data = turn.invocation.intermediate_data
        assert [(call.name, call.args) for call in data.tool_uses] == [
            ("look", {"at": "moon"}),
            ("tell", {"what": "moon"}),
        ]
        assert [(told.name, told.response) for told in data.tool_responses] == [("look", {"seen": True})]
        assert (turn.inference_calls, turn.usage.prompt, turn.usage.total) == (1, 7, 9)
    spans = [span for span in talk.spans if span.turn == 1]
    agent, *below = spans
    root = next(span for span in below if span.name == "POST /chat")
    assert sorted(kinds(below)) == [("model", "m-1"), ("other", "POST /chat"), ("tool", "look"), ("tool", "tell")]
    assert {span.parent_id for span in below if span is not root} == {root.id}
    assert root.parent_id == agent.id
    assert NOTES not in agent.attributes


async def test_calls_that_an_answer_tells_itself_count_before_those_of_spans(bench: Any, serve: Any) -> None:
    told = [{"name": "look", "args": {"at": "sun"}}, {"name": "rest", "args": {}}]
    site = await serve(
        lambda asked: {
            "response": "seen",
            "predicted_trajectory": told,
            "resourceSpans": otlp.resource_spans(otlp.tool("look", arguments='{"at": "moon"}', **parent_of(asked))),
        }
    )

    talk = await bench.talk_once("moon", **site.target())

    assert [call.args for call in talk.turns[0].invocation.intermediate_data.tool_uses] == [{"at": "sun"}, {}]
    assert kinds(talk.spans) == [("agent", "web"), ("tool", "rest"), ("tool", "look")]  # each once


async def test_settings_say_where_the_spans_are(bench: Any, serve: Any) -> None:
    site = await serve(
        lambda asked: {"text": "hi", "debug": {"otel": {"resource_spans": otlp.resource_spans(otlp.model())}}}
    )
    host = {**site.target(response="$.text", spans="$.debug.otel"), "name": "web"}

    talk = await bench.talk_once("moon", **host)

    assert talk.turns[0].usage.total == 9
    nowhere = await bench.talk_once("moon", **site.target(response="$.text", spans="$.nowhere"))
    assert nowhere.error is None  # they are no part of the answer


@pytest.mark.parametrize(
    ("spans", "note"),
    [
        ("many", "found a str ('many'), expected OTLP"),
        ([3], "resourceSpans[0]: found an int (3)"),
        (
            [{"scopeSpans": [{"spans": [{"name": "x"}]}]}],
            "scopeSpans[0].spans[0]: traceId is None, expected 32 hexadec",
        ),
        (
            otlp.resource_spans(otlp.span("x", startTimeUnixNano="soon")),
            "startTimeUnixNano is a str ('soon'), expected",
        ),
        (otlp.resource_spans(otlp.tool("look", arguments=None)), "arguments are not told of look"),
        (
            otlp.resource_spans(otlp.span("x", startTimeUnixNano="1000", endTimeUnixNano="2000")),
            "the agent's clock differs: its times are moved by +",
        ),
    ],
)
async def test_what_cannot_be_read_costs_no_verdict_and_is_noted(bench: Any, serve: Any, spans: Any, note: str) -> None:
    site = await serve(lambda asked: {"response": "seen", "resourceSpans": spans})

    talk = await bench.talk_once("moon", **site.target())

    assert talk.responses == ["seen"]
    assert any(note in told for told in talk.spans[0].attributes[NOTES])
    assert (talk.turns[0].calls_unknown is not None) is (len(talk.spans) == 1)


async def test_spans_that_are_below_each_other_end_somewhere(bench: Any, serve: Any) -> None:
    first = otlp.model()
    second = otlp.model(parent=first["spanId"])
    first["parentSpanId"] = second["spanId"]
    site = await serve(lambda asked: {"response": "seen", "resourceSpans": otlp.resource_spans(first, second)})

    talk = await bench.talk_once("moon", **site.target())

    assert talk.turns[0].inference_calls == 1
    assert len({span.id for span in talk.spans}) == 3


async def test_secrets_in_spans_are_not_kept(bench: Any, serve: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("WEB_TOKEN", "tok-123456789")
    noted = {"http.request.header.authorization": "Bearer of-another", "url": "https://a/?token=tok-123456789"}
    site = await serve(
        lambda asked: {"response": "a", "resourceSpans": otlp.resource_spans(otlp.span("GET", attributes=noted))}
    )

    talk = await bench.talk_once("moon", **site.target(headers={"Authorization": "Bearer ${WEB_TOKEN}"}))

    told = talk.spans[1].attributes
    assert told["http.request.header.authorization"] == "[redacted]"
    assert "tok-123456789" not in told["url"]


@pytest.mark.parametrize(
    "noted",
    [
        {"http.request.headers": {"authorization": "Bearer HIDDEN", "accept": "kept"}},
        {"x-api-key": {"value": "HIDDEN"}, "note": "kept"},
        {"pin": 773100429, "door": {"pin": 773100429, "name": "kept"}},
        {"llm.invocation_parameters": '{"extra": [{"api_key": "HIDDEN"}], "model": "kept"}'},
        {"input.value": '{"headers": {"Cookie": ["HIDDEN"]}}', "output.value": '{"pwd": "HIDDEN", "body": "kept"}'},
        {"retrieved": ['{"secret": {"is": "HIDDEN"}}', "kept"]},
        {"cut": '{"text": "kept", "api_key": "HIDDEN and … (300,000 characters)'},
        {"python": "{'text': 'kept', 'headers': {'authorization': 'HIDDEN'}, 'x-api-key': {'value': 'HIDDEN'}}"},
        {"python": "{'auth': 'Bearer HIDDEN', 'text': 'kept', 'pin': 773100429}"},
    ],
)
async def test_secrets_in_spans_are_found_however_deep(bench: Any, serve: Any, noted: dict[str, Any]) -> None:
    site = await serve(
        lambda asked: {"response": "a", "resourceSpans": otlp.resource_spans(otlp.span("GET", attributes=noted))}
    )

    talk = await bench.talk_once("moon", **site.target())

    kept = talk.spans[1].model_dump_json()
    assert "kept" in kept and "[redacted]" in kept
    assert "HIDDEN" not in kept and "773100429" not in kept


async def test_numbers_are_no_keys_unless_they_may_be_passwords(bench: Any, serve: Any) -> None:
    measured = {
        "time_to_first_token": 0.3,
        "timeToFirstToken": 0.3,
        "time_per_output_token": "20 ms",
        "max_tokens": 100,
        "tokens": ["a", "b"],
        "token_count": 3,
        "prompt_tokens": "12",
        "sort_key": 1,
        "has_password": True,
    }
    numbers = dict.fromkeys(("pin", "password", "client_secret"), 773100429)
    secret = {**numbers, "token": "HIDDEN", "developer_token": "HIDDEN"}
    noted = {"whole": json.dumps({**measured, **secret}), "python": str({**measured, **secret}), **measured, **secret}
    site = await serve(
        lambda asked: {"response": "a", "resourceSpans": otlp.resource_spans(otlp.span("GET", attributes=noted))}
    )

    talk = await bench.talk_once("moon", **site.target())

    redacted = dict.fromkeys(secret, "[redacted]")
    kept = talk.spans[1].attributes
    assert {name: kept[name] for name in (*measured, *secret)} == {**measured, **redacted}
    assert json.loads(kept["whole"]) == {**measured, **redacted}
    assert kept["python"] == str({**measured, **redacted}).replace("'[redacted]'", "[redacted]")


async def test_secrets_that_tools_were_given_are_judged_and_not_in_the_trace(bench: Any, serve: Any) -> None:
    call = otlp.tool("log_in", arguments='{"user": "ann", "password": "HIDDEN"}', result='{"token": "ISSUED"}')
    site = await serve(lambda asked: {"response": "a", "resourceSpans": otlp.resource_spans(call)})

    talk = await bench.talk_once("moon", **site.target())

    data = talk.turns[0].invocation.intermediate_data
    assert data.tool_uses[0].args == {"user": "ann", "password": "HIDDEN"}
    assert data.tool_responses[0].response == {"token": "ISSUED"}
    assert talk.spans[1].request == {"user": "ann", "password": "[redacted]"}
    assert talk.spans[1].response == {"token": "[redacted]"}


@pytest.mark.parametrize(
    ("arguments", "is_unknown"),
    [([None, None], True), (["moon", None], True), ([None, '{"at": "moon"}'], False), ([], False)],
)
async def test_arguments_are_unknown_where_no_call_of_a_turn_has_them(
    bench: Any, serve: Any, arguments: list[str | None], is_unknown: bool
) -> None:
    spans = [otlp.model(), *(otlp.tool("look", arguments=each) for each in arguments)]
    site = await serve(lambda asked: {"response": "seen", "resourceSpans": otlp.resource_spans(*spans)})

    talk = await bench.talk_once("moon", **site.target())

    assert talk.error is None, talk.message
    assert ("gen_ai.tool.call.arguments" in (talk.turns[0].arguments_unknown or "")) is is_unknown
    assert talk.turns[0].calls_unknown is None


@pytest.mark.parametrize(
    "text",
    ["[" * 5000 + "]" * 5000, '{"a":' * 500 + "1" + "}" * 500, '{"a": NaN}'],
    ids=["deeper than Python reads", "deeper than people read", "no JSON"],
)
async def test_json_in_a_span_that_cannot_be_read_costs_itself_alone(bench: Any, serve: Any, text: str) -> None:
    spans = [otlp.tool("look", arguments=text), otlp.span("x", attributes={"llm.invocation_parameters": text})]
    site = await serve(lambda asked: {"response": "seen", "resourceSpans": otlp.resource_spans(*spans)})

    talk = await bench.talk_once("moon", **site.target())

    assert talk.error is None, talk.message
    assert [call.name for call in talk.turns[0].invocation.intermediate_data.tool_uses] == ["look"]
    assert talk.spans[1].request == talk.spans[2].attributes["llm.invocation_parameters"] == text
    assert talk.spans[0].attributes[NOTES][0].startswith("arguments are not told of look, or are no object")


@pytest.fixture
def port() -> Iterator[int]:
    """One that is free, as far as one can know."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        number = free.getsockname()[1]
    yield number


async def test_exported_spans_find_their_turn_by_the_trace(bench: Any, serve: Any, port: int) -> None:
    async def answer(asked: Any) -> Any:
        root = otlp.span("POST /chat", **parent_of(asked))
        below = {"trace": root["traceId"], "parent": root["spanId"]}
        stranger = otlp.tool("of_others", trace="cd" * 16)
        spans = [otlp.tool("look", arguments='{"at": "' + asked.body["prompt"] + '"}', **below), stranger, root]
        async with aiohttp.ClientSession() as client:
            for path in ("traces", "metrics"):
                document = {"resourceSpans": otlp.resource_spans(*spans)}
                async with client.post(f"http://127.0.0.1:{port}/v1/{path}", json=document) as taken:
                    assert taken.status == 200
        return {"response": "seen"}

    site = await serve(answer)
    host = bench.host(**site.target(otlp_port=port))

    talks = await asyncio.gather(*(bench.talk(host, f"{name}1", f"{name}2") for name in "abc"))

    for name, talk in zip("abc", talks, strict=True):
        assert talk.error is None, talk.message
        uses = [call.args["at"] for turn in talk.turns for call in turn.invocation.intermediate_data.tool_uses]
        assert uses == [f"{name}1", f"{name}2"]
        assert "of_others" not in {span.name for span in talk.spans}
    # Nobody listens any more: another run can.
    with socket.socket() as other:
        other.bind(("127.0.0.1", port))


async def test_spans_that_never_come_cost_time_alone(bench: Any, serve: Any, port: int) -> None:
    async def answer(asked: Any) -> Any:
        async with aiohttp.ClientSession() as client:
            document = {"resourceSpans": otlp.resource_spans(otlp.model())}
            await client.post(f"http://127.0.0.1:{port}/v1/traces", json=document)
            broken = await client.post(
                f"http://127.0.0.1:{port}/v1/traces", data=b"\x00", headers={"content-type": "x/y"}
            )
            assert broken.status == 200
            assert (await client.get(f"http://127.0.0.1:{port}/v1/traces")).status == 405
        return {"response": "seen"}

    site = await serve(answer)

    talk = await bench.talk_once("moon", **site.target(otlp_port=port, otlp_wait_seconds=0.2))

    assert talk.responses == ["seen"]
    told = "in a request of no conversation: an exporter sent what is neither JSON nor said to be protobuf"
    assert talk.spans[0].attributes[NOTES] == [told]


async def export(port: int, *spans: Any, path: str = "") -> int:
    """Send spans, as an exporter does; the status of the answer."""
    document = {"resourceSpans": otlp.resource_spans(*spans)}
    async with (
        aiohttp.ClientSession() as client,
        client.post(f"http://127.0.0.1:{port}{path}/v1/traces", json=document) as taken,
    ):
        return taken.status


async def test_a_late_span_of_an_earlier_turn_is_none_of_this_one(bench: Any, serve: Any, port: int) -> None:
    roots: list[Any] = []

    async def answer(asked: Any) -> Any:
        if not roots:
            roots.append(otlp.span("POST /chat", **parent_of(asked)))
            await export(port, *roots)
        else:
            await export(port, otlp.tool("late", trace=roots[0]["traceId"], parent=roots[0]["spanId"]))
        return {"response": "seen"}

    site = await serve(answer)

    talk = await bench.talk_once("moon", "sun", **site.target(otlp_port=port, otlp_wait_seconds=0.3))

    first, second = (span for span in talk.spans if span.kind is SpanKind.AGENT)
    assert NOTES not in first.attributes
    assert second.attributes[NOTES] == ["no span came within 0.3 s of the answer"]
    assert [turn.calls_unknown for turn in talk.turns] == [None, "no span came within 0.3 s of the answer"]
    assert [span.turn for span in talk.spans if span.name == "late"] == [0]


@pytest.mark.parametrize("ahead", [-60.0, -0.5, 0.0, 0.9, 60.0])
async def test_the_end_of_a_turn_is_seen_whatever_the_clock_of_the_agent_shows(
    bench: Any, serve: Any, port: int, ahead: float
) -> None:
    sending: list[asyncio.Task[None]] = []

    def moved(span: Any) -> Any:
        times = ("startTimeUnixNano", "endTimeUnixNano")
        return {**span, **{key: str(int(span[key]) + int(ahead * 1e9)) for key in times}}

    async def answer(asked: Any) -> Any:
        began = asyncio.get_running_loop().time()
        root = otlp.span("POST /chat", **parent_of(asked))
        below = {"trace": root["traceId"], "parent": root["spanId"]}
        await export(port, moved(otlp.tool("first", **parent_of(asked))))
        await asyncio.sleep(0.6)
        ended = otlp.span("POST /chat", **parent_of(asked), seconds=asyncio.get_running_loop().time() - began)
        spans = [moved(otlp.tool("second", **below)), moved({**ended, "spanId": root["spanId"]})]

        async def send_later() -> None:
            await asyncio.sleep(0.3)
            await export(port, *spans)

        sending.append(asyncio.create_task(send_later()))
        return {"response": "seen"}

    site = await serve(answer)
    started = time.perf_counter()

    talk = await bench.talk_once("moon", **site.target(otlp_port=port, otlp_wait_seconds=30))

    assert talk.error is None, talk.message
    assert [call.name for call in talk.turns[0].invocation.intermediate_data.tool_uses] == ["first", "second"]
    assert time.perf_counter() - started < 20


async def test_what_is_refused_for_its_size_is_said(bench: Any, serve: Any, port: int) -> None:
    async def answer(asked: Any) -> Any:
        large = otlp.span("POST /chat", **parent_of(asked), attributes={"text": "x" * (17 * 1024 * 1024)})
        assert await export(port, large) == 413
        return {"response": "seen"}

    site = await serve(answer)

    talk = await bench.talk_once("moon", **site.target(otlp_port=port, otlp_wait_seconds=0.2))

    (note,) = talk.spans[0].attributes[NOTES]
    assert note.startswith(
        "in a request of no conversation: an exporter sent more than 16 MB at once, which was refused"
    )
    assert talk.turns[0].calls_unknown == note


async def test_what_is_refused_for_its_size_is_told_to_whom_it_was_sent() -> None:
    receiver = Receiver()
    own, other = receiver.inbox(), receiver.inbox()
    try:
        large = otlp.span("POST /chat", attributes={"text": "x" * (17 * 1024 * 1024)})

        assert await export(receiver.port, large, path=f"/{own.key}") == 413

        assert [len(inbox.take().problems) for inbox in (own, other)] == [1, 0]
    finally:
        own.close()
        other.close()


async def test_a_case_that_is_given_up_between_turns_leaves_the_port(bench: Any, serve: Any, port: int) -> None:
    site = await serve(lambda asked: {"response": "seen"})
    session = await bench.open(bench.host(**site.target(otlp_port=port, otlp_wait_seconds=0.1)))
    await session.turn(Content.of_text("moon", role="user"), turn=0)

    await session.kill()

    with socket.socket() as other:
        other.bind(("127.0.0.1", port))


async def test_a_port_that_is_taken_is_infrastructure(bench: Any, serve: Any) -> None:
    site = await serve(lambda asked: {"response": "seen"})
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        number = taken.getsockname()[1]

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


async def test_a_service_with_the_real_sdk_exports_to_us(bench: Any, port: int, tmp_path: Path) -> None:
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
