"""HTTP agents with invalid answers: the message, and whether a retry may help."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest
from aiohttp import web

pytestmark = pytest.mark.prepared("http")


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "agent"),
        (401, "agent"),
        (404, "agent"),
        (429, "infrastructure"),
        (500, "infrastructure"),
        (503, "infrastructure"),
    ],
)
async def test_an_error_status_ends_the_case_with_its_reason(bench: Any, serve: Any, status: int, kind: str) -> None:
    site = await serve(lambda request: web.Response(status=status, text="because\nof  reasons"))

    talk = await bench.talk_once("hi", **site.target())

    assert talk.kind == kind
    assert talk.message == f"POST {site.url}/chat answered {status}: because of reasons"


async def test_an_error_body_cut_within_a_key_shows_no_part_of_the_key(
    bench: Any, serve: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = "Zx81abcdefghijklmnopqrstuvwxyz01234567890"
    monkeypatch.setenv("MY_TENANT", key)  # the name suggests no secret; only its use in a header does
    site = await serve(lambda _: web.Response(status=500, text="x" * 160 + key + " and more" * 10))

    talk = await bench.talk_once("hi", **site.target(headers={"X-Tenant": "${MY_TENANT}"}))

    assert talk.message == f"POST {site.url}/chat answered 500: {'x' * 160}${{MY_TENANT}}..."


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        (
            web.Response(text="<!doctype html><title>Log in</title>", content_type="text/html"),
            "answered with HTML (a page for people, perhaps of an error or a login): '<!doctype html><title>Log in",
        ),
        (web.Response(text=""), "answered with nothing, expected JSON"),
        (
            web.Response(text="{'a': 1}", content_type="application/json"),
            "answered with no JSON: \"{'a': 1}\"; expected",
        ),
        (
            web.Response(text="data: {}\n\n", content_type="text/event-stream"),
            "answered with a stream of events; most agents can be asked for one answer instead: 'data: {}'",
        ),
        ({"answer": 1, "id": 2}, "answered with an object with the keys answer, id, expected JSON with"),
        ([1, 2], "answered with a list of 2, expected JSON with"),
        ({"response": 3}, "answered with the number 3 as response, expected text"),
        ({"response": {"text": "a"}}, "answered with an object with the keys text as response, expected text"),
        ({"response": None}, "answered with neither a response nor tool calls"),
        ({"response": "a", "predicted_trajectory": {"a": 1}}, "as predicted_trajectory, expected a list of calls"),
        (
            {"response": "a", "predicted_trajectory": [{"tol_name": "x"}]},
            "predicted_trajectory[0] is a dict with the keys",
        ),
        ({"response": "a", "trajectory": []}, "the key 'trajectory'; did you mean 'predicted_trajectory'?"),
        ({"response": "a", "tool_calls": []}, "the key 'tool_calls'; did you mean 'predicted_trajectory'?"),
        ({"response": "", "error": {"code": 400, "message": "no quota"}}, "answered with an error: no quota"),
        (
            {"response": "a", "intermediate_responses": [{"author": "x", "parts": [1]}]},
            "intermediate_responses[0].parts[0] is an int (1), expected",
        ),
        (web.Response(status=204), "answered with nothing, expected JSON"),
    ],
)
async def test_an_invalid_answer_is_reported_with_the_expected_format(
    bench: Any, serve: Any, answer: Any, found: str
) -> None:
    site = await serve(lambda request: answer)

    talk = await bench.talk_once("hi", **site.target())

    assert talk.kind == "agent"
    assert talk.message.startswith(f"POST {site.url}/chat ")
    assert found in talk.message


async def test_an_outage_reported_in_an_answer_is_an_infrastructure_error(bench: Any, serve: Any) -> None:
    site = await serve(lambda request: {"response": "", "error": {"code": 503, "message": "overloaded"}})

    talk = await bench.talk_once("hi", **site.target())

    assert talk.kind == "infrastructure"
    assert talk.message == f"POST {site.url}/chat answered with an error: overloaded"


async def test_a_redirect_is_not_followed_so_that_keys_stay_private(bench: Any, serve: Any) -> None:
    other = await serve(lambda request: {"response": "caught"})
    site = await serve(lambda request: web.Response(status=307, headers={"Location": f"{other.url}/"}))

    talk = await bench.talk_once("hi", **site.target(headers={"X-Key": "k"}))

    assert "answered 307, a redirection: set target to the URL it leads to" in talk.message
    assert other.requests == []


async def test_a_response_path_that_finds_nothing_is_reported(bench: Any, serve: Any) -> None:
    site = await serve(lambda request: {"output": {"txt": "hi"}})

    talk = await bench.talk_once("hi", **site.target(response="$.output.text"))

    assert "answered with an object with the keys output, but nothing is at $.output.text (response)" in talk.message


async def test_a_missing_parent_of_a_path_to_calls_is_reported(bench: Any, serve: Any) -> None:
    site = await serve(lambda request: {"response": "a", "out": {"calls": [{"name": "ring"}]}})

    talk = await bench.talk_once("hi", **site.target(predicted_trajectory="$.output.calls[*]"))

    assert "but the parent of $.output.calls[*] is missing (predicted_trajectory)" in talk.message


async def test_a_refusing_proxy_is_reported_without_its_password(
    bench: Any, serve: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy = await serve(lambda request: {})  # not a proxy
    address = proxy.url.removeprefix("http://")
    monkeypatch.setenv("https_proxy", f"http://puser:ppass-secret@{address}")
    monkeypatch.delenv("no_proxy", raising=False)

    talk = await bench.talk_once("hi", kind="http", name="web", location="https://agent.example/")

    assert talk.message == ("POST https://agent.example/ could not be reached: the proxy answered 404: Not Found")


async def test_a_proxy_address_without_a_scheme_is_reported(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "localhost:3128")
    monkeypatch.delenv("no_proxy", raising=False)

    talk = await bench.talk_once("hi", kind="http", name="web", location="http://agent.example/")

    assert talk.kind == "setup"
    assert talk.message.startswith("the environment variable http_proxy: found no URL of an HTTP proxy, expected")


async def test_an_address_without_a_listener_is_an_infrastructure_error(bench: Any) -> None:
    with socket.socket() as bound_socket:
        bound_socket.bind(("127.0.0.1", 0))
        port = bound_socket.getsockname()[1]

        talk = await bench.talk_once("hi", kind="http", name="web", location=f"http://127.0.0.1:{port}/")

    assert talk.kind == "infrastructure"
    assert talk.message.startswith(
        f"POST http://127.0.0.1:{port}/ could not be reached: cannot connect to 127.0.0.1:{port}: "
    )


async def test_sessions_that_fail_leave_nothing_on_standard_error(bench: Any, serve: Any) -> None:
    site = await serve(lambda request: web.Response(status=400))
    host = bench.host(**site.target())

    talks = [await bench.talk(host, "hi") for _ in range(3)]

    assert [talk.error.failure.stderr_tail for talk in talks] == [None, None, None]


async def _talk_to_raw_server(bench: Any, answer: bytes) -> Any:
    """Hold a session with a server that writes these bytes and closes; return it and the URL of the server."""

    async def write(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(write, "127.0.0.1", 0)
    address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    talk = await bench.talk_once("hi", kind="http", name="web", location=address)
    server.close()
    return talk, address


async def test_a_connection_closed_too_early_is_an_infrastructure_error(bench: Any) -> None:
    talk, _ = await _talk_to_raw_server(bench, b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")

    assert talk.kind == "infrastructure"
    assert talk.message.endswith("could not be reached: it closed the connection in the middle of its answer")


async def test_an_answer_that_is_not_http_is_reported(bench: Any) -> None:
    talk, address = await _talk_to_raw_server(bench, b"SSH-2.0-OpenSSH_9.0\r\n")

    assert talk.message.startswith(f"POST {address} could not be reached: ")


async def test_an_agent_that_is_too_slow_is_a_timeout(bench: Any, serve: Any) -> None:
    async def answer(request: Any) -> Any:
        await asyncio.sleep(5)

    site = await serve(answer)

    talk = await bench.talk_once("hi", **site.target(timeout_seconds=0.2))

    assert talk.kind == "timeout"
    assert talk.message == f"POST {site.url}/chat did not answer within 0.2 s (timeout_seconds of its table)"


async def test_an_endless_answer_is_cut_off(bench: Any, serve: Any) -> None:
    piece = b"x" * (1 << 20)

    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n")
        try:
            while True:
                writer.write(piece)
                await writer.drain()
        except ConnectionError:
            writer.close()

    server = await asyncio.start_server(flood, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]

    talk = await bench.talk_once("hi", kind="http", name="web", location=f"http://127.0.0.1:{port}/")

    server.close()
    assert talk.kind == "agent"
    assert talk.message.endswith("answered with more than 64 MB, expected less")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"headers": {"Authorization": "Bearer ${NOT_THERE}"}},
            "targets.web.http.headers.Authorization: the environment variable NOT_THERE is not set",
        ),
        ({"body": {"q": "{{ promt }}"}}, "targets.web.http.body: found 'promt', expected one of prompt, content,"),
        ({"body": {"q": "{{ prompt"}}, "targets.web.http.body: line 1: "),
        ({"body": '{"q": "{{ prompt }}"}'}, "targets.web.http.body: gives no JSON ("),
        ({"response": "$.a["}, "targets.web.http.response: found '$.a[', expected a JSONPath such as"),
        ({"response": "$.a | $.b"}, "targets.web.http.response: found '$.a | $.b', expected one JSONPath"),
        ({"method": "GET", "body": "[1]"}, "targets.web.http.body: expected a table for GET"),
        ({"body": {"q": "{{ state.room }}"}}, "targets.web.http.body: 'dict object' has no attribute 'room'"),
        ({"body": {"q": "x {{ state.room }}"}}, "targets.web.http.body: 'dict object' has no attribute 'room'"),
    ],
)
async def test_invalid_settings_are_reported_with_their_key(
    bench: Any, serve: Any, options: dict[str, Any], message: str
) -> None:
    site = await serve(lambda request: {"response": "ok"})

    talk = await bench.talk_once("hi", **site.target(**options))

    assert (talk.kind, site.requests) == ("setup", [])
    assert talk.message.startswith(message)
