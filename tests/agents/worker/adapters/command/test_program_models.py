"""Programs whose model calls are intercepted: the session, its processes, and what is left of them."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from textwrap import dedent
from typing import Any

import pytest
import trustme

from tests.agents.worker.adapters.command.conftest import Program
from tests.serving import ModelServer, run_model_server
from workbench.agents.agent_host import AgentError, CustomScoreRequest
from workbench.agents.worker.adapters.command import Adapter
from workbench.agents.worker.model_interception import InterceptedModels, forget, open_session
from workbench.model.evalset import Content, Invocation
from workbench.model.results import Failure, FailureKind

pytestmark = pytest.mark.prepared("http")

ASK = """
from urllib.request import Request, urlopen

def ask(prompt):
    body = json.dumps({"messages": [{"role": "user", "content": prompt}]}).encode()
    url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    with urlopen(Request(url, body, {"Authorization": "x"})) as response:
        return json.load(response)["choices"][0]["message"]["content"]

"""


class Desk:
    """Has each model asked, and collects the calls. `refuses`: ends the session instead, as the mode replay does.

    It decides after `seconds`.
    """

    interception: Mapping[str, Any] = {"endpoints": ["/chat/completions"], "own_models": True}

    def __init__(self, *, refuses: bool = False, seconds: float = 0.0) -> None:
        self.turn = -1
        self.turns: dict[int, int] = {}
        self.outcomes: dict[int, Mapping[str, Any]] = {}
        self._refuses = refuses
        self._seconds = seconds

    def begin_turn(self, turn: int) -> None:
        self.turn = turn

    async def answer(self, number: int, request: Mapping[str, Any]) -> None:
        self.turns[number] = self.turn
        await asyncio.sleep(self._seconds)
        if self._refuses:
            raise AgentError(Failure(kind=FailureKind.REPLAY, message="nothing is recorded"))

    def record_outcome(self, number: int, outcome: Mapping[str, Any]) -> None:
        self.outcomes[number] = outcome


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    with run_model_server(secret="x") as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        yield server


async def test_calls_are_recorded_in_every_kind_of_process(
    bench: Any, write_program: Program, server: ModelServer, way: dict[str, Any]
) -> None:
    target = write_program(
        ASK
        + dedent("""
        for turn in turns():
            say(type="finished", response=ask(turn["prompt"]))
    """)
    )
    desks = Desk(), Desk()
    host = bench.host(**target, **way)

    talks = await asyncio.gather(*(bench.talk(host, "a", "b", models=desk) for desk in desks))

    for talk, desk in zip(talks, desks, strict=True):
        assert talk.error is None, talk.message
        assert [response.rpartition(" ")[2] for response in talk.responses] == ["a", "b"]
        assert desk.turns == {1: 0, 2: 1}
        assert [outcome["status"] for outcome in desk.outcomes.values()] == [200, 200]
    assert server.count == 4


async def test_a_call_between_two_turns_is_answered(bench: Any, write_program: Program, server: ModelServer) -> None:
    target = write_program(
        ASK
        + dedent("""
        import threading
        found = []
        def ask_later():
            time.sleep(0.2)
            found.append(ask("between"))
        for turn in turns():
            if turn["turn"] == 0:
                threading.Thread(target=ask_later).start()
            while turn["turn"] and not found:
                time.sleep(0.01)
            say(type="finished", response=" ".join(found))
    """)
    )
    desk = Desk()
    session = await bench.open(bench.host(**target), models=desk)

    await session.turn(Content.of_text("a", role="user"), turn=0)
    for _ in range(100):
        await asyncio.sleep(0.05)
        if desk.outcomes:
            break
    assert desk.outcomes
    second = await session.turn(Content.of_text("b", role="user"), turn=1, last=True)
    await session.finish()

    assert second.invocation.final_response.text() == "1: é between"
    assert desk.turns == {1: 0}


async def test_a_request_without_an_answer_ends_the_session_and_the_program(
    bench: Any, write_program: Program, server: ModelServer, way: dict[str, Any]
) -> None:
    target = write_program(
        ASK
        + dedent("""
        for turn in turns():
            try:
                ask(turn["prompt"])
            finally:
                time.sleep(60)
    """)
    )

    talk = await bench.talk(bench.host(**target, **way), "a", models=Desk(refuses=True))

    assert (talk.kind, talk.message) == ("replay", "nothing is recorded")
    assert server.count == 0


@pytest.mark.parametrize("end", ["sys.exit(3)", "say(type='failed', message='no model')"], ids=["exit", "failed"])
async def test_the_refusal_is_the_reason_of_a_program_that_failed_before_it(
    bench: Any, write_program: Program, server: ModelServer, end: str, way: dict[str, Any]
) -> None:
    target = write_program(
        ASK.replace('{"Authorization": "x"})', '{"Authorization": "x"}), timeout=0.2')
        + dedent(f"""
        for turn in turns():
            try:
                ask(turn["prompt"])
            except OSError:
                {end}
    """)
    )

    talk = await bench.talk(bench.host(**target, **way), "a", models=Desk(refuses=True, seconds=0.7))

    assert (talk.kind, talk.message) == ("replay", "nothing is recorded")


async def test_a_refusal_between_two_turns_ends_the_next_one(
    bench: Any, write_program: Program, server: ModelServer
) -> None:
    target = write_program(
        ASK
        + dedent("""
        import threading
        for turn in turns():
            say(type="finished", response="")
            threading.Thread(target=ask, args=("between",), daemon=True).start()
    """)
    )
    desk = Desk(refuses=True, seconds=0.2)
    session = await bench.open(bench.host(**target), models=desk)

    await session.turn(Content.of_text("a", role="user"), turn=0)
    await asyncio.sleep(0.7)
    with pytest.raises(AgentError) as caught:
        await session.turn(Content.of_text("b", role="user"), turn=1)

    assert (caught.value.failure.kind, caught.value.failure.turn) == (FailureKind.REPLAY, 1)


@pytest.mark.needs_fork
@pytest.mark.parametrize("fails", [False, True], ids=["cancelled", "failed"])
async def test_the_proxy_of_a_session_ends_with_it_in_a_shared_process(
    bench: Any, write_program: Program, wait_until: Callable[..., Any], server: ModelServer, fails: bool
) -> None:
    target = write_program(f"""
        for turn in turns():
            if turn["prompt"] == "stay":
                say(type="finished", response="")
                continue
            print(os.environ["WORKBENCH_MODEL_PROXY"], file=open("address", "w"), flush=True)
            say(type="failed", message="no") if {fails} else time.sleep(60)
    """)
    host = bench.host(**target, isolation="worker")
    other = await bench.open(host, models=Desk())
    await other.turn(Content.of_text("stay", role="user"), turn=0)
    session = await bench.open(host, models=Desk())
    turn = asyncio.ensure_future(session.turn(Content.of_text("a", role="user"), turn=0))
    address = bench.folder / "address"
    await wait_until(lambda: address.exists() and address.read_text())
    port = int(address.read_text().split(":")[2].split("/")[0])

    await session.kill()
    await asyncio.gather(turn, return_exceptions=True)

    def is_closed() -> bool:
        with socket.socket() as client:
            return client.connect_ex(("127.0.0.1", port)) != 0

    await wait_until(is_closed)
    await other.finish()


async def test_a_session_without_recording_has_no_proxy(
    bench: Any, write_program: Program, server: ModelServer
) -> None:
    target = write_program("""
        for turn in turns():
            say(type="finished", response=str("WORKBENCH_MODEL_PROXY" in os.environ))
    """)
    host = bench.host(**target, isolation="worker")
    recorded = await bench.open(host, models=Desk())
    await recorded.turn(Content.of_text("a", role="user"), turn=0)

    talk = await bench.talk(host, "b")

    assert talk.responses == ["False"]
    await recorded.finish()


async def test_a_program_may_export_its_spans_too(bench: Any, write_program: Program, server: ModelServer) -> None:
    target = write_program("""
        for turn in turns():
            names = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OPENAI_BASE_URL")
            say(type="finished", response=" ".join(os.environ[name].split("/")[2] for name in names))
    """)

    talk = await bench.talk(bench.host(**target, options={"otlp": True, "otlp_wait_seconds": 0}), "a", models=Desk())

    spans, models = talk.responses[0].split()
    assert spans != models
    assert server.url.removeprefix("http://") not in (spans, models)


@pytest.mark.prepared(None)  # aiohttp reads the authorities when it is imported
async def test_a_metric_trusts_the_authority_of_the_env_file(
    bench: Any, write_program: Program, server: ModelServer, way: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The proxy's library reads certificates when it is imported, which must not be before `.env` is loaded."""
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    trustme.CA().cert_pem.write_to_path(str(bench.folder / "authority.pem"))
    bench.write(".env", f"SSL_CERT_FILE={bench.folder / 'authority.pem'}\n")
    bench.write(
        "metrics.py",
        """
        from aiohttp.connector import _SSL_CONTEXT_VERIFIED

        def trust(instance):
            return {"trust": _SSL_CONTEXT_VERIFIED.cert_store_stats()["x509_ca"]}
        """,
    )
    target = write_program("for turn in turns():\n    say(type='finished', response='x')")
    host = bench.host(**target, **way, env_file=bench.folder / ".env")
    await bench.talk(host, "a", models=Desk())

    turn = Invocation.model_validate({"user_content": {"role": "user", "parts": [{"text": "a"}]}})
    answer = await host.score(CustomScoreRequest(metric="trust", function="metrics.trust", actual=[turn]))

    assert answer.score == 1.0


@pytest.mark.parametrize("optional", [True, False])
async def test_an_interpreter_without_the_library_is_named_if_models_may_not_be_asked(
    monkeypatch: pytest.MonkeyPatch, optional: bool
) -> None:
    monkeypatch.setitem(sys.modules, "workbench.agents.worker.model_proxy", None)
    target = {"name": "desk", "kind": "command", "location": sys.executable, "path": ".", "options": {}}
    adapter = Adapter(target)
    adapter.load()
    settings = {"endpoints": [], "optional": optional}
    models = InterceptedModels(None, settings, adapter)  # type: ignore[arg-type]
    open_session(models)

    try:
        if optional:
            ids = {"session_id": "s", "app_name": "a", "user_id": "u"}
            request = {**ids, "models": settings, "collect_spans": False, "state": {}}
            session = await adapter.open(request, lambda _: None)
            await session.close()
            return
        with pytest.raises(Exception, match="is not installed for the interpreter of target 'desk', and model calls"):
            await adapter.open({"models": settings}, lambda _: None)
    finally:
        forget(models)
