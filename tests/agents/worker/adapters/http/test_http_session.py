"""Sessions with HTTP agents: their ids, cookies and headers, and the trace."""

from __future__ import annotations

import re
from typing import Any

import pytest
from aiohttp import web

from tests.agents.worker.adapters.http.conftest import get_calls

pytestmark = pytest.mark.prepared("http")


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"tool_name": name, "tool_input": arguments}


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
