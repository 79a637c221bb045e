"""Tool calls of programs: from spans that they write or export, and from messages of their own."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.agents import otlp
from tests.agents.worker.adapters.command.conftest import Program

pytestmark = pytest.mark.prepared("http")


async def test_spans_that_a_program_writes_become_its_tool_calls(bench: Any, write_program: Program) -> None:
    spans = otlp.resource_spans(otlp.tool("find", arguments='{"title": "Kindred"}'), otlp.model())
    target = write_program(f"""
        for turn in turns():
            say(type="event", resourceSpans={spans!r})
            say(type="finished", response="on its shelf")
    """)

    talk = await bench.talk_once("hi", **target)

    assert [call.args for call in talk.turns[0].invocation.intermediate_data.tool_uses] == [{"title": "Kindred"}]
    assert talk.turns[0].usage.total == 9
    assert [span.name for span in talk.spans] == ["desk", "find", "m-1"]


async def test_spans_in_events_and_in_the_final_message_both_count(bench: Any, write_program: Program) -> None:
    first, second = (otlp.resource_spans(otlp.tool(name)) for name in ("find", "lend"))
    target = write_program(f"""
        for turn in turns():
            say(type="event", resourceSpans={first!r})
            say(type="finished", response="here", resourceSpans={{"resourceSpans": {second!r}}})
    """)

    talk = await bench.talk_once("hi", **target)

    calls = talk.turns[0].invocation.intermediate_data.tool_uses
    assert sorted(call.name for call in calls) == ["find", "lend"]


async def test_late_spans_of_an_earlier_turn_do_not_end_the_wait_for_new_ones(
    bench: Any, write_program: Program
) -> None:
    first, late, own = (otlp.tool(name) for name in ("first", "late", "own"))
    target = write_program(f"""
        import urllib.request

        def export(span, nanoseconds):
            span.update(startTimeUnixNano=str(nanoseconds), endTimeUnixNano=str(nanoseconds))
            document = {{"resourceSpans": [{{"scopeSpans": [{{"spans": [span]}}]}}]}}
            request = urllib.request.Request(os.environ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"],
                                             json.dumps(document).encode(), {{"content-type": "application/json"}})
            urllib.request.urlopen(request).read()

        for number, turn in enumerate(turns()):
            if number == 0:
                began = time.time_ns()
                export({first!r}, began)
                say(type="finished", response="a")
            else:
                here = time.time_ns()
                say(type="finished", response="b")
                export({late!r}, began)
                time.sleep(1.5)
                export({own!r}, here)
    """)

    talk = await bench.talk_once("hi", "again", **target, options={"otlp": True, "otlp_wait_seconds": 20})

    assert talk.error is None, talk.message
    uses = [[call.name for call in turn.invocation.intermediate_data.tool_uses] for turn in talk.turns]
    assert uses == [["first"], ["own"]]


EXPORTING = """
    from opentelemetry import trace
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    tracer = provider.get_tracer("agent")
    for turn in turns():
        told = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "find",
                "gen_ai.tool.call.arguments": json.dumps({"title": turn["prompt"]})}
        with tracer.start_as_current_span("execute_tool find", attributes=told):
            time.sleep(0.01)
        say(type="finished", response="on its shelf")
    with tracer.start_as_current_span("farewell"):
        pass
"""


@pytest.mark.parametrize("isolation", ["case", "worker"])
async def test_spans_of_a_program_with_the_real_sdk_are_received(
    bench: Any, write_program: Program, isolation: str
) -> None:
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
    target = write_program(EXPORTING)
    target["location"] = target["location"].replace(" -S ", " ")  # -S hides installed packages
    host = bench.host(**target, options={"otlp": True, "otlp_wait_seconds": 20}, isolation=isolation)

    talks = await asyncio.gather(bench.talk(host, "Kindred", "Dawn"), bench.talk(host, "Wild Seed", "Fledgling"))

    for talk, titles in zip(talks, (("Kindred", "Dawn"), ("Wild Seed", "Fledgling")), strict=True):
        assert talk.error is None, talk.message
        uses = [call.args["title"] for turn in talk.turns for call in turn.invocation.intermediate_data.tool_uses]
        assert uses == list(titles)
        assert talk.spans[-1].name == "farewell"  # sent when the program exits


async def test_a_program_that_exports_no_spans_gets_a_note_after_the_wait(bench: Any, write_program: Program) -> None:
    target = write_program("""
        for turn in turns():
            say(type="finished", response=os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"])
    """)

    talk = await bench.talk_once("hi", **target, options={"otlp": True, "otlp_wait_seconds": 0.1})

    assert talk.responses[0].startswith("http://127.0.0.1:")
    assert talk.spans[0].attributes["workbench.telemetry"] == ["no span arrived within 0.1 s of the answer"]
    assert talk.turns[0].calls_unknown == "no span arrived within 0.1 s of the answer"


async def test_calls_that_a_program_reports_itself_are_known_without_spans(bench: Any, write_program: Program) -> None:
    target = write_program("""
        for turn in turns():
            say(type="finished", response="hello", predicted_trajectory=[])
    """)

    talk = await bench.talk_once("hi", **target, options={"otlp": True, "otlp_wait_seconds": 0.1})

    assert talk.turns[0].calls_unknown is None
