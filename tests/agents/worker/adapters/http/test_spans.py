"""OpenTelemetry spans in the answers of HTTP agents."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.agents import otlp
from tests.agents.worker.adapters.http.spans import NOTES, get_kinds, get_parent

pytestmark = pytest.mark.prepared("http")


async def test_spans_in_an_answer_become_trace_trajectory_and_tokens(bench: Any, serve: Any) -> None:
    def answer(request: Any) -> Any:
        root = otlp.span("POST /chat", **get_parent(request), seconds=0.05)
        root_ids = {"trace": root["traceId"], "parent": root["spanId"]}
        spans = [
            otlp.model(**root_ids, seconds=0.04),
            otlp.tool("look", arguments='{"at": "moon"}', result='{"seen": true}', **root_ids, seconds=0.03),
            otlp.tool("tell", arguments='{"what": "moon"}', **root_ids),
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
        assert [(response.name, response.response) for response in data.tool_responses] == [("look", {"seen": True})]
        assert (turn.inference_calls, turn.usage.prompt, turn.usage.total) == (1, 7, 9)
    spans = [span for span in talk.spans if span.turn == 1]
    agent, *descendants = spans
    root = next(span for span in descendants if span.name == "POST /chat")
    assert sorted(get_kinds(descendants)) == [
        ("model", "m-1"),
        ("other", "POST /chat"),
        ("tool", "look"),
        ("tool", "tell"),
    ]
    assert {span.parent_id for span in descendants if span is not root} == {root.id}
    assert root.parent_id == agent.id
    assert NOTES not in agent.attributes


async def test_calls_reported_in_an_answer_take_precedence_over_spans(bench: Any, serve: Any) -> None:
    calls = [{"name": "look", "args": {"at": "sun"}}, {"name": "rest", "args": {}}]
    site = await serve(
        lambda request: {
            "response": "seen",
            "predicted_trajectory": calls,
            "resourceSpans": otlp.resource_spans(otlp.tool("look", arguments='{"at": "moon"}', **get_parent(request))),
        }
    )

    talk = await bench.talk_once("moon", **site.target())

    assert [call.args for call in talk.turns[0].invocation.intermediate_data.tool_uses] == [{"at": "sun"}, {}]
    assert get_kinds(talk.spans) == [("agent", "web"), ("tool", "rest"), ("tool", "look")]  # each call only once


async def test_settings_select_the_position_of_the_spans(bench: Any, serve: Any) -> None:
    site = await serve(
        lambda request: {"text": "hi", "debug": {"otel": {"resource_spans": otlp.resource_spans(otlp.model())}}}
    )
    host = {**site.target(response="$.text", spans="$.debug.otel"), "name": "web"}

    talk = await bench.talk_once("moon", **host)

    assert talk.turns[0].usage.total == 9
    talk_without_spans = await bench.talk_once("moon", **site.target(response="$.text", spans="$.nowhere"))
    assert talk_without_spans.error is None  # spans are optional


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
        (otlp.resource_spans(otlp.tool("look", arguments=None)), "no arguments, or no object, for look"),
        (
            otlp.resource_spans(otlp.agent(startTimeUnixNano="1000", endTimeUnixNano="2000")),
            "the agent's clock differs: its times are shifted by +",
        ),
    ],
)
async def test_unreadable_spans_are_noted_and_cost_no_verdict(bench: Any, serve: Any, spans: Any, note: str) -> None:
    site = await serve(lambda request: {"response": "seen", "resourceSpans": spans})

    talk = await bench.talk_once("moon", **site.target())

    assert talk.responses == ["seen"]
    assert any(note in text for text in talk.spans[0].attributes[NOTES])
    assert (talk.turns[0].calls_unknown is not None) is (len(talk.spans) == 1)


async def test_a_cycle_of_spans_does_not_loop_for_ever(bench: Any, serve: Any) -> None:
    first = otlp.model()
    second = otlp.model(parent=first["spanId"])
    first["parentSpanId"] = second["spanId"]
    site = await serve(lambda request: {"response": "seen", "resourceSpans": otlp.resource_spans(first, second)})

    talk = await bench.talk_once("moon", **site.target())

    assert talk.turns[0].inference_calls == 1
    assert len({span.id for span in talk.spans}) == 3


async def test_secrets_in_the_attributes_of_spans_are_redacted(bench: Any, serve: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("WEB_TOKEN", "tok-123456789")
    attributes = {"http.request.header.authorization": "Bearer of-another", "url": "https://a/?token=tok-123456789"}
    site = await serve(
        lambda request: {"response": "a", "resourceSpans": otlp.resource_spans(otlp.span("GET", attributes=attributes))}
    )

    talk = await bench.talk_once("moon", **site.target(headers={"Authorization": "Bearer ${WEB_TOKEN}"}))

    stored_attributes = talk.spans[1].attributes
    assert stored_attributes["http.request.header.authorization"] == "[redacted]"
    assert "tok-123456789" not in stored_attributes["url"]


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
async def test_secrets_in_spans_are_redacted_at_any_depth(bench: Any, serve: Any, noted: dict[str, Any]) -> None:
    site = await serve(
        lambda request: {"response": "a", "resourceSpans": otlp.resource_spans(otlp.span("GET", attributes=noted))}
    )

    talk = await bench.talk_once("moon", **site.target())

    stored_span = talk.spans[1].model_dump_json()
    assert "kept" in stored_span and "[redacted]" in stored_span
    assert "HIDDEN" not in stored_span and "773100429" not in stored_span


async def test_numbers_are_not_redacted_unless_they_may_be_passwords(bench: Any, serve: Any) -> None:
    measurements = {
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
    secrets = {**numbers, "token": "HIDDEN", "developer_token": "HIDDEN"}
    attributes = {
        "whole": json.dumps({**measurements, **secrets}),
        "python": str({**measurements, **secrets}),
        **measurements,
        **secrets,
    }
    site = await serve(
        lambda request: {"response": "a", "resourceSpans": otlp.resource_spans(otlp.span("GET", attributes=attributes))}
    )

    talk = await bench.talk_once("moon", **site.target())

    redacted = dict.fromkeys(secrets, "[redacted]")
    stored_attributes = talk.spans[1].attributes
    assert {name: stored_attributes[name] for name in (*measurements, *secrets)} == {**measurements, **redacted}
    assert json.loads(stored_attributes["whole"]) == {**measurements, **redacted}
    assert stored_attributes["python"] == str({**measurements, **redacted}).replace("'[redacted]'", "[redacted]")


async def test_secrets_in_tool_arguments_are_judged_but_not_in_the_trace(bench: Any, serve: Any) -> None:
    call = otlp.tool("log_in", arguments='{"user": "ann", "password": "HIDDEN"}', result='{"token": "ISSUED"}')
    site = await serve(lambda request: {"response": "a", "resourceSpans": otlp.resource_spans(call)})

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
async def test_arguments_are_unknown_if_no_call_of_a_turn_has_them(
    bench: Any, serve: Any, arguments: list[str | None], is_unknown: bool
) -> None:
    spans = [otlp.agent(), *(otlp.tool("look", arguments=each) for each in arguments)]
    site = await serve(lambda request: {"response": "seen", "resourceSpans": otlp.resource_spans(*spans)})

    talk = await bench.talk_once("moon", **site.target())

    assert talk.error is None, talk.message
    assert ("gen_ai.tool.call.arguments" in (talk.turns[0].arguments_unknown or "")) is is_unknown
    assert talk.turns[0].calls_unknown is None


ASKED = [{"role": "assistant", "parts": [{"type": "tool_call", "id": "1", "name": "look", "arguments": {}}]}]
ASKING = {"gen_ai.operation.name": "chat", "gen_ai.output.messages": json.dumps(ASKED)}
NOT_SHOWN = "no span of the turn is one of a tool, or of an agent whose tools run where its spans are made"


@pytest.mark.parametrize(
    ("spans", "reason"),
    [
        ([otlp.agent()], None),
        ([otlp.agent(kind=0)], None),
        ([otlp.agent(kind="SPAN_KIND_INTERNAL")], None),
        ([otlp.agent(kind=3)], NOT_SHOWN),
        ([otlp.agent(kind="SPAN_KIND_CLIENT")], NOT_SHOWN),
        ([otlp.agent("create_agent")], NOT_SHOWN),
        ([otlp.model()], NOT_SHOWN),
        ([otlp.span("POST /chat")], NOT_SHOWN),
        ([otlp.agent(kind=1), otlp.agent(kind=3)], "the agent clerk runs elsewhere (its span has the kind CLIENT)"),
        ([otlp.tool("other"), otlp.span("chat", attributes=ASKING)], "a model asked for look, and no span of such a"),
        ([otlp.tool("look"), otlp.span("chat", attributes=ASKING)], None),
    ],
)
async def test_calls_are_unknown_if_the_spans_do_not_show_all(
    bench: Any, serve: Any, spans: Any, reason: str | None
) -> None:
    site = await serve(lambda request: {"response": "seen", "resourceSpans": otlp.resource_spans(*spans)})

    talk = await bench.talk_once("moon", **site.target())

    unknown = talk.turns[0].calls_unknown
    assert unknown is None if reason is None else unknown.startswith(reason)


@pytest.mark.parametrize(
    "text",
    ["[" * 5000 + "]" * 5000, '{"a":' * 500 + "1" + "}" * 500, '{"a": NaN}'],
    ids=["deeper than Python reads", "deeper than people read", "no JSON"],
)
async def test_unreadable_json_in_a_span_does_not_affect_other_data(bench: Any, serve: Any, text: str) -> None:
    spans = [otlp.tool("look", arguments=text), otlp.span("x", attributes={"llm.invocation_parameters": text})]
    site = await serve(lambda request: {"response": "seen", "resourceSpans": otlp.resource_spans(*spans)})

    talk = await bench.talk_once("moon", **site.target())

    assert talk.error is None, talk.message
    assert [call.name for call in talk.turns[0].invocation.intermediate_data.tool_uses] == ["look"]
    assert talk.spans[1].request == talk.spans[2].attributes["llm.invocation_parameters"] == text
    notes = talk.spans[0].attributes[NOTES]  # a slow start may add a note about clocks
    assert any(note.startswith("no arguments, or no object, for look") for note in notes)
