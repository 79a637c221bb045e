"""Requests made from settings and templates, and answers read by JSONPaths or in a common format."""

from __future__ import annotations

import json
from typing import Any

import pytest
from aiohttp import web

from tests.agents import otlp
from tests.agents.worker.adapters.http.conftest import get_calls

pytestmark = pytest.mark.prepared("http")


CALLS_UNKNOWN = (
    "the answer does not say which tools were called: it has no predicted_trajectory, and [targets.web.http] names "
    "no path to it"
)


async def test_placeholders_in_a_table_keep_the_types_of_their_values(bench: Any, serve: Any) -> None:
    site = await serve(lambda request: {"response": "fine"})
    body = {
        "question": "{{ prompt }}",
        "text": "{{ user_id }}: {{ prompt }}",
        "messages": "{{ messages }}",
        "past": ["{{ history | length }}", 3, True],
        "room": "{{ state.room }}",
        "nothing": "a } b",
    }

    talk = await bench.talk(bench.host(**site.target(body=body)), 'say "{{ 7 * 7 }}"', "123", state={"room": "hall"})

    assert talk.error is None, talk.message
    assert site.requests[0].body == {
        "question": 'say "{{ 7 * 7 }}"',
        "text": 'user: say "{{ 7 * 7 }}"',
        "messages": [{"role": "user", "content": 'say "{{ 7 * 7 }}"'}],
        "past": [0, 3, True],
        "room": "hall",
        "nothing": "a } b",
    }
    assert site.requests[1].body["question"] == "123"
    assert [message["content"] for message in site.requests[1].body["messages"]] == ['say "{{ 7 * 7 }}"', "fine", "123"]


async def test_text_in_a_json_template_cannot_break_the_json(bench: Any, serve: Any) -> None:
    site = await serve(lambda request: {"response": "fine"})
    body = '{"q": {{ prompt }}, "all": {{ history | tojson }}, "new": {% if turn == 0 %}true{% else %}false{% endif %}}'

    talk = await bench.talk_once('", "admin": "yes', "b", **site.target(body=body))

    assert talk.error is None, talk.message
    assert site.requests[0].body == {"q": '", "admin": "yes', "all": [], "new": True}
    assert site.requests[1].body["all"][0]["response"] == "fine"
    assert site.requests[1].body["new"] is False


async def test_get_sends_a_query(bench: Any, serve: Any) -> None:
    site = await serve(lambda request: f"{request.method} {json.dumps(request.query)}")

    talk = await bench.talk_once(
        "a & b", **site.target("/ask?v=1", method="GET", body={"q": "{{ prompt }}", "n": "{{ turn }}"})
    )

    assert talk.responses == ['GET {"v": "1", "q": "a & b", "n": "0"}']


@pytest.mark.parametrize(
    ("answer", "response", "calls"),
    [
        ("just text", "just text", []),
        (web.Response(text="plain text", content_type="text/plain"), "plain text", []),
        (web.Response(text="42", content_type="text/plain"), "42", []),
        ({"response": None, "predicted_trajectory": ["ring"]}, "", [("ring", None)]),
        (
            {
                "choices": [
                    {
                        "message": {
                            "role": "assistant",
                            "content": "done",
                            "tool_calls": [
                                {"id": "c1", "type": "function", "function": {"name": "ring", "arguments": '{"n": 2}'}}
                            ],
                        }
                    }
                ],
                "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3},
            },
            "done",
            [("ring", {"n": 2})],
        ),
        (web.Response(body=b'\xef\xbb\xbf{"response": "a"}', content_type="application/json"), "a", []),
        (
            {"choices": [{"message": {"content": "", "function_call": {"name": "ring", "arguments": '{"n": 2}'}}}]},
            "",
            [("ring", {"n": 2})],
        ),
        (
            {
                "choices": [
                    {
                        "message": {
                            "content": None,
                            "tool_calls": [
                                {"id": "c1", "type": "custom", "custom": {"name": "ring", "input": '{"n": 2}'}}
                            ],
                        }
                    }
                ]
            },
            "",
            [("ring", {"__arg1": '{"n": 2}'})],
        ),
        ({"choices": [{"message": {"content": "a"}}], "predicted_trajectory": ["ring"]}, "a", [("ring", None)]),
        ({"response": "a", "tool_responses": [{"id": 5, "name": "ring"}]}, "a", []),
        ({"choices": [{"message": {"content": [{"type": "text", "text": "a"}, {"text": "b"}]}}]}, "ab", []),
    ],
)
async def test_common_answer_formats_are_read_without_settings(
    bench: Any, serve: Any, answer: Any, response: str, calls: list[Any]
) -> None:
    site = await serve(lambda request: answer)

    talk = await bench.talk_once("hi", **site.target())

    assert get_calls(talk) == calls
    assert talk.responses == [response]


COMPLETION = {"choices": [{"message": {"role": "assistant", "content": "a"}}]}


SPANS = otlp.resource_spans(otlp.agent(), otlp.model())


@pytest.mark.parametrize(
    ("answer", "options", "is_known"),
    [
        ("a", {}, False),
        (web.Response(text="a", content_type="text/plain"), {}, False),
        ({"response": "a"}, {}, False),
        ({"response": "a", "predicted_trajectory": None}, {}, False),
        ({"response": "a", "predicted_trajectory": []}, {}, True),
        ({"response": "a", "resourceSpans": []}, {}, False),
        ({"response": "a", "resourceSpans": SPANS}, {}, True),
        (COMPLETION, {}, True),
        ({"text": "a"}, {"response": "$.text"}, False),
        ({"text": "a", "calls": None}, {"response": "$.text", "predicted_trajectory": "$.calls"}, True),
        ({"text": "a", "calls": []}, {"response": "$.text", "predicted_trajectory": "$.calls"}, True),
        ({"text": "a"}, {"response": "$.text", "predicted_trajectory": "$..calls[*]"}, True),
    ],
)
async def test_an_answer_without_calls_means_no_calls_only_if_its_format_reports_them(
    bench: Any, serve: Any, answer: Any, options: dict[str, Any], is_known: bool
) -> None:
    site = await serve(lambda request: answer)

    talk = await bench.talk_once("hi", **site.target(**options))

    assert get_calls(talk) == []
    assert talk.turns[0].calls_unknown == (None if is_known else CALLS_UNKNOWN)
    assert (talk.turns[0].invocation.intermediate_data is not None) is is_known


async def test_intermediate_responses_are_kept_if_calls_are_unknown(bench: Any, serve: Any) -> None:
    site = await serve(lambda request: {"response": "a", "intermediate_responses": ["looking"]})

    talk = await bench.talk_once("hi", **site.target())

    assert talk.turns[0].calls_unknown == CALLS_UNKNOWN
    assert talk.turns[0].has_no_call_report
    assert [each.parts[0].text for each in talk.turns[0].invocation.intermediate_data.intermediate_responses] == [
        "looking"
    ]


async def test_a_path_to_calls_that_finds_nothing_is_not_an_empty_trajectory(bench: Any, serve: Any) -> None:
    site = await serve(lambda request: {"response": "a"})

    talk = await bench.talk_once("hi", **site.target(predicted_trajectory="$.calls"))

    assert "nothing is at $.calls (predicted_trajectory); if the key is missing when no tool was" in talk.message


async def test_paths_select_response_calls_usage_and_state(bench: Any, serve: Any) -> None:
    site = await serve(
        lambda request: {
            "output": {"parts": [{"text": "a"}, {"text": "b"}], "cost": {"input_tokens": 4}},
            "steps": [{"call": {"name": "ring", "args": {"n": 1}}}, {"note": "x"}, {"call": {"name": "knock"}}],
            "memory": {"k": 1},
        }
    )

    talk = await bench.talk_once(
        "hi",
        **site.target(
            response="$.output.parts[*].text",
            predicted_trajectory="$.steps[*].call",
            usage="output.cost",
            state="memory",
        ),
    )

    assert get_calls(talk) == [("ring", {"n": 1}), ("knock", None)]
    assert talk.responses == ["ab"]
    assert talk.turns[0].usage.prompt == 4
    assert talk.end.final_state == {"k": 1}
