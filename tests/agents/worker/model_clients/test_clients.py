"""The clients that are wrapped: what agents get from them while their calls are recorded and replayed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from textwrap import dedent, indent
from typing import Any

import pytest

from tests.engine.project import Project, get_failure_message, get_statuses
from tests.engine.runner.recorded import CLIENTS, KEY, URLLIB, get_calls, get_response, write_agent
from tests.serving import ModelServer
from workbench.model.target import ModelMode

pytestmark = [pytest.mark.needs_fork, pytest.mark.prepared("http")]


@pytest.mark.parametrize(
    "compresses",
    [
        pytest.param(False, id="plain", marks=pytest.mark.prepared(None)),  # the client is imported during the session
        pytest.param(True, id="compressed"),
    ],
)
@pytest.mark.parametrize("client", CLIENTS)
def test_every_client_gets_the_recorded_answers(
    case: Project, server: ModelServer, client: str, compresses: bool
) -> None:
    pytest.importorskip(client.partition("_")[0])
    write_agent(case, server, CLIENTS[client])
    server.compresses = compresses

    first = case.run(models=ModelMode.AUTO)
    second = case.run(models=ModelMode.AUTO)

    assert server.count == 2
    assert (get_calls(first).live, get_calls(first).replayed) == (2, 0)
    assert (get_calls(second).live, get_calls(second).replayed) == (0, 2)
    assert [get_response(second, turn=number) for number in (0, 1)] == [
        "1: é hello",
        "2: é again",
    ]


def test_a_client_may_repeat_requests_itself(case: Project, server: ModelServer) -> None:
    client = """
        import urllib3
        pool = urllib3.PoolManager(retries=urllib3.Retry(3, status_forcelist=[503], allowed_methods=None))
        return pool.request("POST", url, json=body, headers=headers).json()
    """
    write_agent(case, server, client)
    server.failures = [503, 503]

    first = case.run(models=ModelMode.AUTO)
    second = case.run(models=ModelMode.AUTO)

    assert server.count == 4
    assert (get_calls(first).live, get_calls(second).replayed) == (2, 2)
    assert get_response(second) == get_response(first)


def test_a_stream_that_the_client_does_not_read_to_its_end_is_recorded(case: Project, server: ModelServer) -> None:
    client = """
        import httpx, json
        said = ""
        with httpx.stream("POST", url, json=body, headers=headers) as response:
            for line in response.iter_lines():
                if line == "data: [DONE]":
                    break
                if line.startswith("data: "):
                    said += json.loads(line.removeprefix("data: "))["choices"][0]["message"]["content"]
        return {"choices": [{"message": {"content": said}}]}
    """
    write_agent(case, server, client)
    server.streams = True

    first = case.run(models=ModelMode.AUTO)
    second = case.run(models=ModelMode.AUTO)

    assert server.count == 2
    assert get_calls(second).replayed == 2
    assert get_response(second) == get_response(first) == "1: é hello"


def test_a_status_that_a_client_raises_is_recorded_as_an_answer(case: Project, server: ModelServer) -> None:
    client = """
        import aiohttp, asyncio
        async def ask():
            async with aiohttp.ClientSession(raise_for_status=True) as session:
                for _ in range(3):
                    try:
                        async with session.post(url, json=body, headers=headers) as response:
                            return await response.json()
                    except aiohttp.ClientResponseError as error:
                        assert error.status == 429
        return asyncio.run(ask())
    """
    write_agent(case, server, client)
    server.failures = [429]
    path = case.root / "calls.jsonl"

    first = case.run(record=path)
    second = case.run(replay=path)

    assert server.count == 3
    assert get_calls(second).replayed == 3
    assert get_response(second) == get_response(first)


@pytest.mark.parametrize("isolation", ["case", "worker"])
def test_a_call_in_a_process_that_the_agent_forked_fails_at_once(
    case: Project, server: ModelServer, isolation: str
) -> None:
    client = """
        import multiprocessing, httpx
        child = multiprocessing.get_context("fork").Process(target=lambda: httpx.post(url, json=body, headers=headers))
        child.start()
        child.join(20)
        return {"choices": [{"message": {"content": f"ended with {child.exitcode}"}}]}
    """
    write_agent(case, server, client)

    run = case.run(models=ModelMode.AUTO, isolation=isolation)

    assert get_response(run) == "ended with 1"
    assert server.count == 0


GRPC_METHOD = "/google.ai.generativelanguage.v1beta.GenerativeService/GenerateContent"


GRPC_AGENTS = {
    "plain": """
        import grpc
        with grpc.insecure_channel({target!r}) as channel:
            return channel.unary_unary({method!r})(prompt.encode()).decode()
    """,
    "stream": """
        import grpc
        with grpc.insecure_channel({target!r}) as channel:
            return b"".join(channel.unary_stream({method!r} + "s")(prompt.encode())).decode()
    """,
    "asyncio": """
        import asyncio, grpc
        async def ask():
            async with grpc.aio.insecure_channel({target!r}) as channel:
                return (await channel.unary_unary({method!r})(prompt.encode())).decode()
        return asyncio.run(ask())
    """,
}


@pytest.mark.parametrize("way", GRPC_AGENTS)
def test_a_call_over_grpc_is_named_as_live_and_refused_in_a_replay(case: Project, way: str) -> None:
    grpc = pytest.importorskip("grpc")
    requests: list[bytes] = []

    def handle(request: bytes, _: Any) -> bytes:
        requests.append(request)
        return b"said " + request

    methods = {
        "GenerateContent": grpc.unary_unary_rpc_method_handler(handle),
        "GenerateContents": grpc.unary_stream_rpc_method_handler(lambda request, _: iter([handle(request, _)])),
    }
    grpc_server = grpc.server(ThreadPoolExecutor(2))
    service = GRPC_METHOD.split("/")[1]
    grpc_server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, methods),))
    target = f"127.0.0.1:{grpc_server.add_insecure_port('127.0.0.1:0')}"
    grpc_server.start()
    agent = dedent(GRPC_AGENTS[way]).format(target=target, method=GRPC_METHOD)
    (case.root / "agent.py").write_text(
        f"def ask(prompt):\n{indent(agent, '    ')}\n"
        "def answer(prompt):\n    return {'response': ask(prompt), 'predicted_trajectory': []}\n"
    )
    try:
        live = case.run(models=ModelMode.AUTO)
        asked = len(requests)
        replayed = case.run(models=ModelMode.REPLAY)
    finally:
        grpc_server.stop(None)

    assert get_response(live) == "said hello"
    calls = get_calls(live)
    assert (calls.live, calls.replayed, asked) == (2, 0, 2)
    assert "GenerativeService/GenerateContent" in str(calls.difference)
    assert "model call 1 is made with gRPC (grpc://" in str(calls.difference)
    assert get_statuses(replayed) == {"a": "ERROR"}
    assert 'transport="rest"' in get_failure_message(replayed, "a")
    assert len(requests) == asked


def test_a_call_with_a_client_that_is_not_covered_is_named_and_refused_in_a_replay(
    case: Project, server: ModelServer
) -> None:
    write_agent(case, server, URLLIB)

    live = case.run(models=ModelMode.AUTO)
    refused = case.run(models=ModelMode.REPLAY)

    assert (get_calls(live).live, server.count) == (2, 2)
    assert "is made with http.client (http://" in str(get_calls(live).difference)
    assert KEY not in str(get_calls(live).difference)
    assert "use httpx, requests or aiohttp" in get_failure_message(refused, "a")
