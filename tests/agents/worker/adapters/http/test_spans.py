"""Spans of OpenTelemetry in the answers of HTTP agents."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.agents import otlp
from tests.agents.worker.adapters.http.spans import NOTES, kinds, parent_of


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
        (otlp.resource_spans(otlp.tool("look", arguments=None)), "no arguments, or no object, for look"),
        (
            otlp.resource_spans(otlp.span("x", startTimeUnixNano="1000", endTimeUnixNano="2000")),
            "the agent's clock differs: its times are shifted by +",
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
    assert talk.spans[0].attributes[NOTES][0].startswith("no arguments, or no object, for look")
