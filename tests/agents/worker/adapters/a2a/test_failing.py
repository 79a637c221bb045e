"""Agents that speak A2A and fail, are not there, or are given up: what is said, and what becomes of their tasks."""

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
    pytest.mark.filterwarnings("ignore:.EXPERIMENTAL.:UserWarning"),  # of ADK, about its own
]


async def test_sessions_that_wait_for_one_card_share_one_attempt_and_its_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from workbench.agents.worker.adapters.a2a import a2a_session
    from workbench.agents.worker.adapters.external_session import Variables

    monkeypatch.setattr(a2a_session, "_CARD_SECONDS", 0.3)
    asked = 0

    async def never_answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        asked += 1
        await reader.read()
        writer.close()

    server = await asyncio.start_server(never_answer, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    target = {"name": "x", "kind": "a2a", "location": url, "options": {}}
    peer = a2a_session.Peer(target, Variables(target), url=url, headers={})

    failures = await asyncio.gather(*(peer.connect() for _ in range(4)), return_exceptions=True)
    counted = asked
    again = await asyncio.gather(peer.connect(), return_exceptions=True)
    server.close()

    assert counted == 1
    assert asked == 2
    for failure in (*failures, *again):
        assert isinstance(failure, AgentFault) and failure.kind == "infrastructure", failure


@pytest.mark.parametrize(
    ("word", "kind", "message"),
    [
        ("fail", FailureKind.AGENT, "the agent's task failed: no such lamp"),
        ("reject", FailureKind.AGENT, "the agent's task was rejected: not my job"),
        ("auth", FailureKind.SETUP, "than the target's headers have (auth-required): log in at x"),
        ("wordless", FailureKind.AGENT, "task asks for input (input-required), and does not say for which"),
        ("crash", FailureKind.AGENT, "kaboom"),
        ("silent", FailureKind.AGENT, "the agent ended the turn without text, data or calls of tools"),
    ],
)
async def test_a_task_that_comes_to_nothing_is_an_error(
    bench: Any, serve: Any, reach: Any, word: str, kind: FailureKind, message: str
) -> None:
    talk = await bench.talk(reach(serve().url), word)

    assert talk.error.failure.kind is kind
    assert message in talk.message
    assert talk.error.failure.traceback is None


def offering(binding: str, version: str) -> dict[str, Any]:
    """A card whose agent is nowhere."""
    interface = {"url": "http://127.0.0.1:9", "protocolBinding": binding, "protocolVersion": version}
    return {"name": "x", "supportedInterfaces": [interface]}


@pytest.mark.parametrize(
    ("card", "kind", "message"),
    [
        ("<html>", FailureKind.SETUP, "agent-card.json is no agent card: found text/html, expected JSON"),
        (401, FailureKind.SETUP, "cannot be fetched: answered 401"),
        (503, FailureKind.INFRASTRUCTURE, "cannot be fetched: answered 503"),
        (404, FailureKind.SETUP, "there is no agent card: URL/.well-known/agent-card.json and URL/.well-known/agent.j"),
        ({"hello": 1}, FailureKind.SETUP, "is no agent card: expected an object with a name"),
        ({"name": 3}, FailureKind.SETUP, "holds no agent card"),
        (
            offering("GRPC", "1.0"),
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
async def test_a_card_of_no_use_is_named_with_its_place(
    bench: Any, serve: Any, reach: Any, card: Any, kind: FailureKind, message: str
) -> None:
    from starlette.responses import HTMLResponse, PlainTextResponse

    agent = serve()
    agent.card = (
        card if isinstance(card, dict) else PlainTextResponse("", card) if isinstance(card, int) else HTMLResponse(card)
    )

    talk = await bench.talk(reach(agent.url), "message hi")

    assert talk.error.failure.kind is kind
    assert message.replace("URL", agent.url) in talk.message
    assert talk.error.failure.traceback is None


async def test_an_agent_that_is_not_there_is_infrastructure(bench: Any, serve: Any, reach: Any) -> None:
    nowhere = await bench.talk(reach("http://127.0.0.1:9"), "message hi")
    agent = serve()
    agent.card = {
        "name": "x",
        "supportedInterfaces": [{"url": "http://127.0.0.1:9", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
    }
    elsewhere = await bench.talk(reach(f"{agent.url}/.well-known/agent-card.json"), "message hi")

    assert (nowhere.error.failure.kind, elsewhere.error.failure.kind) == (FailureKind.INFRASTRUCTURE,) * 2
    assert nowhere.message.startswith("the agent card http://127.0.0.1:9/.well-known/agent-card.json cannot be fetched")
    assert "cannot be reached" in elsewhere.message


@pytest.mark.parametrize("streaming", [True, False])
async def test_invalid_answers_are_distinguished(bench: Any, serve: Any, reach: Any, streaming: bool) -> None:
    from starlette.responses import HTMLResponse, JSONResponse

    agent = serve(streaming=streaming)
    host = reach(agent.url)
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
    assert found[1][1].startswith(f"the agent {agent.url} gave no answer that is A2A")
    assert found[2][0] == "agent"
    assert "lamp exploded" in found[2][1]
    for kind, message in found[3:]:
        assert kind == "agent"
        assert message.startswith((f"the agent {agent.url} gave no answer that is A2A", "the agent gave neither"))


async def test_a_slow_agent_can_be_given_up(bench: Any, serve: Any, reach: Any) -> None:
    host = reach(serve().url)
    session = await bench.open(host)
    waiting = asyncio.ensure_future(session.turn(Content.of_text("slow 60", role="user"), turn=0))
    await asyncio.sleep(1.5)
    started = time.perf_counter()

    await session.kill()
    await asyncio.wait([waiting], timeout=10)

    assert waiting.done() and waiting.exception() is not None
    assert time.perf_counter() - started < 5
    assert (await bench.talk(host, "message hi")).responses == ["said hi"]


async def test_a_task_that_is_no_longer_needed_is_cancelled(
    bench: Any, serve: Any, reach: Any, eventually: Any, manner: dict[str, Any]
) -> None:
    if not manner.get("streaming", True):
        pytest.skip("an agent that answers once tells of its task only then")
    agent = serve(**manner)
    host = reach(agent.url)
    session = await bench.open(host)
    waiting = asyncio.ensure_future(session.turn(Content.of_text("slow 60", role="user"), turn=0))
    await eventually(lambda: agent.executor.contexts)
    await asyncio.sleep(0.5)  # until the task is told of

    await session.kill()
    await asyncio.wait([waiting])

    await eventually(lambda: agent.executor.cancelled)
    assert agent.executor.cancelled == [agent.executor.contexts[0][1]]
    assert (await bench.talk(host, "message hi")).responses == ["said hi"]


@pytest.mark.parametrize(("word", "is_open"), [("auth", True), ("wordless", True), ("fail", False), ("work x", False)])
async def test_only_a_task_that_is_open_is_cancelled(
    bench: Any, serve: Any, reach: Any, word: str, is_open: bool
) -> None:
    agent = serve()

    await bench.talk(reach(agent.url), word)

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
async def test_a_task_that_waits_for_the_next_turn_is_cancelled_where_none_comes(
    bench: Any, serve: Any, reach: Any, eventually: Any, end: Any
) -> None:
    agent = serve()
    session = await bench.open(reach(agent.url))
    await session.turn(Content.of_text("ask", role="user"), turn=0)

    await end(session)

    await eventually(lambda: agent.executor.cancelled)
    assert agent.executor.cancelled == [agent.executor.contexts[0][1]]
    await session.kill()
