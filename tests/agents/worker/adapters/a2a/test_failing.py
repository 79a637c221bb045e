"""A2A agents that fail, cannot be reached or are killed: the message, and the end of their tasks."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from workbench.agents.agent_host import AgentError
from workbench.agents.worker.adapters.base import AgentFault
from workbench.model.evalset import Content
from workbench.model.results import FailureKind

pytestmark = [
    pytest.mark.needs_a2a,
    pytest.mark.prepared("a2a"),
    pytest.mark.filterwarnings("ignore:.EXPERIMENTAL.:UserWarning"),  # from ADK, about its own code
]


async def test_sessions_share_one_request_for_the_card_and_its_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from workbench.agents.worker.adapters.a2a import a2a_session
    from workbench.agents.worker.adapters.external_session import Variables

    monkeypatch.setattr(a2a_session, "_CARD_SECONDS", 0.3)
    request_count = 0

    async def never_answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal request_count
        request_count += 1
        await reader.read()
        writer.close()

    server = await asyncio.start_server(never_answer, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    target = {"name": "x", "kind": "a2a", "location": url, "options": {}}
    peer = a2a_session.Peer(target, Variables(target), url=url, headers={})

    failures = await asyncio.gather(*(peer.connect() for _ in range(4)), return_exceptions=True)
    first_count = request_count
    later_failures = await asyncio.gather(peer.connect(), return_exceptions=True)
    server.close()

    assert first_count == 1
    assert request_count == 2
    for failure in (*failures, *later_failures):
        assert isinstance(failure, AgentFault) and failure.kind == "infrastructure", failure


@pytest.mark.parametrize(
    ("word", "kind", "message"),
    [
        ("fail", FailureKind.AGENT, "the agent's task failed: no such lamp"),
        ("reject", FailureKind.AGENT, "the agent's task was rejected: not my job"),
        ("auth", FailureKind.SETUP, "that the target's headers do not have (auth-required): log in at x"),
        ("wordless", FailureKind.AGENT, "task asks for input (input-required), but does not say which"),
        ("crash", FailureKind.AGENT, "kaboom"),
        ("silent", FailureKind.AGENT, "the agent ended the turn without text, data or tool calls"),
    ],
)
async def test_a_task_without_a_usable_result_is_an_error(
    bench: Any, serve: Any, create_host: Any, word: str, kind: FailureKind, message: str
) -> None:
    talk = await bench.talk(create_host(serve().url), word)

    assert talk.error.failure.kind is kind
    assert message in talk.message
    assert talk.error.failure.traceback is None


def make_card(binding: str, version: str) -> dict[str, Any]:
    """Return a card with an agent that cannot be reached."""
    interface = {"url": "http://127.0.0.1:9", "protocolBinding": binding, "protocolVersion": version}
    return {"name": "x", "supportedInterfaces": [interface]}


@pytest.mark.parametrize(
    ("card", "kind", "message"),
    [
        ("<html>", FailureKind.SETUP, "agent-card.json is not an agent card: found text/html, expected JSON"),
        (401, FailureKind.SETUP, "cannot be fetched: answered 401"),
        (503, FailureKind.INFRASTRUCTURE, "cannot be fetched: answered 503"),
        (404, FailureKind.SETUP, "there is no agent card: URL/.well-known/agent-card.json and URL/.well-known/agent.j"),
        ({"hello": 1}, FailureKind.SETUP, "is not an agent card: expected an object with a name"),
        ({"name": 3}, FailureKind.SETUP, "holds no agent card"),
        (
            make_card("GRPC", "1.0"),
            FailureKind.SETUP,
            "found GRPC 1.0, expected JSONRPC or HTTP+JSON of version 0.3 or newer; gRPC is not supported, so let "
            "the agent also serve one of these",
        ),
        (
            {
                "name": "x",
                "supportedInterfaces": [{"url": "y", "protocolBinding": "JSONRPC", "protocolVersion": "0.1"}],
            },
            FailureKind.SETUP,
            "found JSONRPC 0.1, expected JSONRPC or HTTP+JSON of version 0.3 or newer",
        ),
    ],
)
async def test_an_unusable_card_is_reported_with_its_address(
    bench: Any, serve: Any, create_host: Any, card: Any, kind: FailureKind, message: str
) -> None:
    from starlette.responses import HTMLResponse, PlainTextResponse

    agent = serve()
    agent.card = (
        card if isinstance(card, dict) else PlainTextResponse("", card) if isinstance(card, int) else HTMLResponse(card)
    )

    talk = await bench.talk(create_host(agent.url), "message hi")

    assert talk.error.failure.kind is kind
    assert message.replace("URL", agent.url) in talk.message
    assert talk.error.failure.traceback is None


async def test_an_unreachable_agent_is_an_infrastructure_error(bench: Any, serve: Any, create_host: Any) -> None:
    talk_without_card = await bench.talk(create_host("http://127.0.0.1:9"), "message hi")
    agent = serve()
    agent.card = {
        "name": "x",
        "supportedInterfaces": [{"url": "http://127.0.0.1:9", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
    }
    talk_with_card = await bench.talk(create_host(f"{agent.url}/.well-known/agent-card.json"), "message hi")

    assert (talk_without_card.error.failure.kind, talk_with_card.error.failure.kind) == (
        FailureKind.INFRASTRUCTURE,
    ) * 2
    assert talk_without_card.message.startswith(
        "the agent card http://127.0.0.1:9/.well-known/agent-card.json cannot be fetched"
    )
    assert "cannot be reached" in talk_with_card.message


@pytest.mark.parametrize("streaming", [True, False])
async def test_invalid_answers_are_distinguished(bench: Any, serve: Any, create_host: Any, streaming: bool) -> None:
    from starlette.responses import HTMLResponse, JSONResponse

    agent = serve(streaming=streaming)
    host = create_host(agent.url)
    found = []
    error = {"jsonrpc": "2.0", "id": "1", "error": {"code": -32603, "message": "lamp exploded"}}
    answers = [{"jsonrpc": "2.0", "id": "1", "result": result} for result in (3, {"task": 3}, {})]
    odd = [JSONResponse(answer) for answer in ([1], {"jsonrpc": "2.0", "id": "1"}, *answers)]
    for response in (HTMLResponse("<html>", 502), HTMLResponse("<html>hi"), JSONResponse(error), *odd):
        agent.refuse_with = response
        talk = await bench.talk(host, "message hi")
        found.append((str(talk.error.failure.kind), talk.message))
        assert talk.error.failure.traceback is None

    assert found[0] == ("infrastructure", f"the agent {agent.url} answered with HTTP 502")
    assert found[1][0] == "agent"
    assert found[1][1].startswith(f"the agent {agent.url} gave an answer that is not A2A")
    assert found[2][0] == "agent"
    assert "lamp exploded" in found[2][1]
    for kind, message in found[3:]:
        assert kind == "agent"
        assert message.startswith((f"the agent {agent.url} gave an answer that is not A2A", "the agent gave neither"))


async def test_a_session_with_a_slow_agent_can_be_killed(bench: Any, serve: Any, create_host: Any) -> None:
    host = create_host(serve().url)
    session = await bench.open(host)
    turn = asyncio.ensure_future(session.turn(Content.of_text("slow 60", role="user"), turn=0))
    await asyncio.sleep(1.5)
    start = time.perf_counter()

    await session.kill()
    await asyncio.wait([turn], timeout=10)

    assert turn.done() and turn.exception() is not None
    assert time.perf_counter() - start < 5
    assert (await bench.talk(host, "message hi")).responses == ["said hi"]


async def test_a_task_that_is_no_longer_needed_is_cancelled(
    bench: Any, serve: Any, create_host: Any, wait_until: Any, variant: dict[str, Any]
) -> None:
    if not variant.get("streaming", True):
        pytest.skip("an agent that answers once tells of its task only then")
    agent = serve(**variant)
    host = create_host(agent.url)
    session = await bench.open(host)
    turn = asyncio.ensure_future(session.turn(Content.of_text("slow 60", role="user"), turn=0))
    await wait_until(lambda: agent.executor.contexts)
    await asyncio.sleep(0.5)  # until the task is announced

    await session.kill()
    await asyncio.wait([turn])

    await wait_until(lambda: agent.executor.cancelled)
    assert agent.executor.cancelled == [agent.executor.contexts[0][1]]
    assert (await bench.talk(host, "message hi")).responses == ["said hi"]


@pytest.mark.parametrize(("word", "is_open"), [("auth", True), ("wordless", True), ("fail", False), ("work x", False)])
async def test_only_an_open_task_is_cancelled(
    bench: Any, serve: Any, create_host: Any, word: str, is_open: bool
) -> None:
    agent = serve()

    await bench.talk(create_host(agent.url), word)

    assert len(agent.executor.cancelled) == is_open


async def finish(session: Any) -> None:
    await session.finish()


async def kill(session: Any) -> None:
    await session.kill()


async def ask_with_a_call(session: Any) -> None:
    content = Content.model_validate({"role": "user", "parts": [{"function_call": {"name": "look", "args": {}}}]})
    with pytest.raises(AgentError, match="expected text, data or a file"):
        await session.turn(content, turn=1)


@pytest.mark.parametrize("end", [finish, kill, ask_with_a_call])
async def test_a_task_that_waits_for_input_is_cancelled_if_no_turn_follows(
    bench: Any, serve: Any, create_host: Any, wait_until: Any, end: Any
) -> None:
    agent = serve()
    session = await bench.open(create_host(agent.url))
    await session.turn(Content.of_text("ask", role="user"), turn=0)

    await end(session)

    await wait_until(lambda: agent.executor.cancelled)
    assert agent.executor.cancelled == [agent.executor.contexts[0][1]]
    await session.kill()
