"""Requests to HTTP agents, and how their answers are read."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from aiohttp import web

from tests.agents import otlp
from workbench.model.trace import get_trajectory

pytestmark = pytest.mark.prepared("http")

CALLS_UNKNOWN = (
    "the answer does not say which tools were called: it has no predicted_trajectory, and [targets.web.http] names "
    "no path to it"
)


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"tool_name": name, "tool_input": arguments}


def get_calls(talk: Any) -> list[tuple[str, Any]]:
    assert talk.error is None, talk.message
    return [(call.name, call.args) for turn in talk.turns for call in get_trajectory(turn.invocation)]


async def test_prompt_and_session_are_sent_and_response_and_calls_are_read(
    bench: Any, serve: Any, way: dict[str, Any]
) -> None:
    site = await serve(
        lambda request: {
            "response": request.body["prompt"].upper(),
            "predicted_trajectory": [call("light", room="hall")],
            "usage": {"prompt_tokens": 3, "total_tokens": 5},
            "state": {"lit": True},
        }
    )

    talk = await bench.talk_once("on", "off", **site.target(), **way)

    assert talk.responses == ["ON", "OFF"]
    assert get_calls(talk) == [("light", {"room": "hall"})] * 2
    assert [(turn.usage.prompt, turn.usage.total) for turn in talk.turns] == [(3, 5)] * 2
    assert talk.end.final_state == {"lit": True}
    first, second = site.requests
    assert first.body == {"prompt": "on", "session_id": second.body["session_id"]}
    assert (first.method, first.path) == ("POST", "/chat")


async def test_sessions_have_different_ids_and_a_given_id_is_sent(bench: Any, serve: Any) -> None:
    site = await serve(lambda request: request.body["session_id"])
    host = bench.host(**site.target())

    talks = [await bench.talk(host, "a"), await bench.talk(host, "a"), await bench.talk(host, "a", session_id="s-1")]

    first, second, third = (talk.responses[0] for talk in talks)
    assert first != second
    assert third == "s-1"


async def test_cookies_last_as_long_as_the_session(bench: Any, serve: Any) -> None:
    def answer(request: Any) -> web.Response:
        response = web.json_response({"response": request.headers.get("cookie", "none")})
        response.set_cookie("seen", "yes")
        return response

    site = await serve(answer)
    host = bench.host(**site.target())

    assert (await bench.talk(host, "a", "b")).responses == ["none", "seen=yes"]
    assert (await bench.talk(host, "a")).responses == ["none"]


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


async def test_headers_come_from_the_environment_and_each_turn_continues_one_trace(
    bench: Any, serve: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENT_PATH", "deep")
    env = bench.write(".env", "AGENT_TOKEN=t0p-s3cret-value\n")
    site = await serve(lambda request: {"response": "ok"})
    target = site.target("/${AGENT_PATH}", headers={"Authorization": "Bearer ${AGENT_TOKEN}", "X-Plain": "a"})

    talk = await bench.talk_once("a", "b", env_file=env, **target)

    assert talk.error is None, talk.message
    first = site.requests[0]
    assert (first.path, first.headers["authorization"], first.headers["x-plain"]) == (
        "/deep",
        "Bearer t0p-s3cret-value",
        "a",
    )
    traces = [
        re.fullmatch(r"00-([0-9a-f]{32})-([0-9a-f]{16})-01", each.headers["traceparent"]) for each in site.requests
    ]
    assert traces[0] is not None
    assert traces[1] is not None
    assert traces[0][1] == traces[1][1]
    assert traces[0][2] != traces[1][2]


async def test_values_from_the_environment_are_never_shown(bench: Any, serve: Any) -> None:
    env = bench.write(".env", "AGENT_TOKEN=t0p-s3cret-value\n")

    def answer(request: Any) -> Any:
        text = f"you sent {request.headers['authorization']}"
        return web.Response(status=403, text=text) if "no" in request.body["prompt"] else {"response": text}

    site = await serve(answer)
    host = bench.host(env_file=env, **site.target(headers={"Authorization": "Bearer ${AGENT_TOKEN}"}))

    assert (await bench.talk(host, "yes")).responses == ["you sent Bearer ${AGENT_TOKEN}"]
    assert (await bench.talk(host, "no")).message.endswith("answered 403: you sent Bearer ${AGENT_TOKEN}")


async def test_a_variable_that_is_not_secret_does_not_change_the_judged_answer(
    bench: Any, serve: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TENANT", "Springfield")
    monkeypatch.setenv("FIELD", "response")
    site = await serve(lambda request: {"response": "We serve Springfield today"})

    talk = await bench.talk_once("a", **site.target(headers={"X-Tenant": "${TENANT}", "X-Field": "${FIELD}"}))

    assert talk.responses == ["We serve Springfield today"]


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


async def test_the_trace_has_the_agent_timed_and_its_calls_without_times(bench: Any, serve: Any) -> None:
    site = await serve(lambda request: {"response": "ok", "predicted_trajectory": [call("ring", n=1)]})

    talk = await bench.talk_once("hi", **site.target())

    agent, tool = talk.spans
    assert (agent.name, agent.kind, agent.request, agent.response) == ("web", "agent", "hi", "ok")
    assert agent.duration is not None
    assert agent.duration > 0
    assert agent.attributes["http.response.status_code"] == 200
    assert agent.attributes["traceparent"] == site.requests[0].headers["traceparent"]
    assert (tool.name, tool.parent_id, tool.request, tool.duration) == ("ring", agent.id, {"n": 1}, None)


async def test_many_sessions_share_one_process(bench: Any, serve: Any) -> None:
    site = await serve(lambda request: {"response": "ok"})
    host = bench.host(**site.target())

    sessions = [await bench.open(host) for _ in range(3)]
    from workbench.model.evalset import Content

    for session in sessions:
        await session.turn(Content.of_text("hi", role="user"), turn=0)
    pids = {session._child.pid for session in sessions}
    for session in sessions:
        await session.finish()

    assert len(pids) == 1


async def test_files_of_the_project_may_have_any_name(bench: Any, serve: Any, way: dict[str, Any]) -> None:
    for name in ("secrets", "uuid", "http", "yarl", "asyncio", "ssl", "aiohttp", "jsonpath", "urllib", "token"):
        bench.write(f"{name}.py", "raise RuntimeError('not for us')")
    site = await serve(lambda request: {"out": request.body["q"]})

    talk = await bench.talk_once("hi", **site.target(body={"q": "{{ prompt }}"}, response="$.out"), **way)

    assert talk.error is None, talk.error.failure.traceback
    assert talk.responses == ["hi"]
