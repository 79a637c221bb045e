"""The proxy of programs: what passes it, what it records, and the variables that lead to it."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
import trustme

from tests.serving import ModelServer, QuietHandler, run_http_server, run_model_server
from workbench.agents.worker import model_proxy
from workbench.agents.worker.model_interception import InterceptedModels
from workbench.agents.worker.model_proxy import ModelProxy
from workbench.simulation.model_requests import ENDPOINTS

pytestmark = pytest.mark.prepared("http")

KEY = "sk-averysecretkey-0123456789"
OTHER = {"messages": [{"role": "user", "content": "hello"}]}  # which names no model
BODY = {"model": "m", **OTHER}


class Engine:
    """The engine's side: answers requests with `replays`, in their order, else has the model asked."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.outcomes: list[dict[str, Any]] = []
        self.replays: list[dict[str, Any]] = []

    def post(self, *, model: dict[str, Any]) -> Future[dict[str, Any]]:
        self.asked.append(model)
        response = self.replays.pop(0) if self.replays else None
        source = None if response is None else "replayed"
        answer = {"ask": len(self.asked), "source": source, "wants_outcome": response is None, "response": response}
        future: Future[dict[str, Any]] = Future()
        future.set_result(answer)
        return future

    def report(self, answer: dict[str, Any], *, model: dict[str, Any]) -> None:
        self.outcomes.append(model)

    def get_outcome(self) -> dict[str, Any]:
        """Wait for the only outcome."""
        for _ in range(200):
            if self.outcomes:
                break
            time.sleep(0.01)
        (outcome,) = self.outcomes
        return outcome

    def get_text(self) -> str:
        """Return the text of the only answer that was recorded."""
        return "".join(text for _, text in self.get_outcome()["chunks"])


@pytest.fixture
def engine() -> Engine:
    return Engine()


@pytest.fixture
def proxy(engine: Engine) -> Iterator[ModelProxy]:
    settings = {"endpoints": list(ENDPOINTS.values())}
    proxy = ModelProxy(InterceptedModels(engine, settings, None))  # type: ignore[arg-type]
    yield proxy
    proxy.stop()


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with run_model_server(secret=KEY) as server:
        yield server


def lead(proxy: ModelProxy, url: str) -> str:
    """Return the address below the proxy for an address of a model."""
    return f"{proxy.url}/{url.replace('://', '/', 1)}"


def ask(proxy: ModelProxy, server: ModelServer, **options: Any) -> httpx.Response:
    url = lead(proxy, f"{server.url}/corp/v1/chat/completions?b=2&a=%2F&key={KEY}")
    return httpx.post(url, json=BODY, headers={"Authorization": f"Bearer {KEY}"}, **options)


@pytest.mark.parametrize("compresses", [False, True], ids=["plain", "compressed"])
def test_a_request_is_recorded_as_the_model_gets_it(
    proxy: ModelProxy, engine: Engine, server: ModelServer, compresses: bool
) -> None:
    server.compresses = compresses

    response = ask(proxy, server)

    assert response.json()["debug"] == f"for Bearer {KEY}"
    assert server.paths == [f"/corp/v1/chat/completions?b=2&a=%2F&key={KEY}"]
    assert engine.asked == [
        {"method": "POST", "url": f"{server.url}/corp/v1/chat/completions?a=%2F&b=2", "body": BODY},
    ]
    outcome = engine.get_outcome()
    assert (outcome["status"], outcome["headers"]) == (200, {"content-type": "application/json"})
    assert engine.get_text() == response.text.replace(f"Bearer {KEY}", "[redacted]")
    assert KEY not in str((engine.asked, engine.outcomes))
    assert proxy.url.rpartition("/")[2] not in str((server.paths, server.headers, engine.asked, engine.outcomes))


def test_a_recorded_answer_is_sent_without_a_request(proxy: ModelProxy, engine: Engine, server: ModelServer) -> None:
    server.compresses, server.streams = True, True
    first = ask(proxy, server)
    recorded = engine.get_outcome()
    engine.replays = [recorded, {**recorded, "status": 429, "headers": {"retry-after": "1"}}]

    with httpx.Client() as client:
        second, third = (client.post(lead(proxy, f"{server.url}/v1/messages"), json=BODY) for _ in range(2))

    assert server.count == 1
    assert second.text == first.text.replace(f"Bearer {KEY}", "[redacted]")
    assert second.headers["content-type"] == "text/event-stream"
    assert (third.status_code, third.headers["retry-after"]) == (429, "1")
    assert len(engine.outcomes) == 1


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_requests_without_a_body_are_recorded_and_replayed(
    proxy: ModelProxy, engine: Engine, server: ModelServer, method: str
) -> None:
    url = lead(proxy, f"{server.url}/v1/responses")

    first = httpx.request(method, url)
    engine.replays = [engine.get_outcome()]
    second = httpx.request(method, url)

    assert [each["body"] for each in engine.asked] == [None, None]
    assert (second.status_code, second.content, server.count) == (200, first.content, 1)


def test_a_stream_is_passed_on_chunk_by_chunk(proxy: ModelProxy, engine: Engine, server: ModelServer) -> None:
    server.streams, server.pause_seconds = True, 0.3
    times = []

    url = lead(proxy, f"{server.url}/v1/chat/completions")
    with httpx.stream("POST", url, json=BODY, headers={"Authorization": "x"}) as response:
        for line in response.iter_lines():
            if line:
                times.append((time.monotonic(), line[:5]))

    assert times[1][0] - times[0][0] > 0.2
    chunks = engine.get_outcome()["chunks"]
    assert max(when for when, text in chunks if "DONE" in text) - chunks[0][0] > 0.2


def test_a_program_that_hangs_up_ends_the_request(proxy: ModelProxy, engine: Engine, server: ModelServer) -> None:
    server.streams, server.pause_seconds = True, 0.3
    server.failures = [200]

    url = lead(proxy, f"{server.url}/v1/chat/completions")
    with httpx.stream("POST", url, json=BODY, headers={"Authorization": "x"}) as response:
        next(response.iter_raw())

    assert engine.get_outcome()["cut"] is True
    assert server.was_left.wait(5)


def test_a_program_that_hangs_up_before_the_answer_ends_the_request(
    proxy: ModelProxy, engine: Engine, server: ModelServer
) -> None:
    server.seconds = 3.0

    with pytest.raises(httpx.ReadTimeout):
        ask(proxy, server, timeout=httpx.Timeout(10, read=0.2))

    assert "CancelledError" in engine.get_outcome()["error"]


def test_an_answer_that_the_model_cuts_is_cut_for_the_program(
    proxy: ModelProxy, engine: Engine, server: ModelServer
) -> None:
    server.cuts = True

    with pytest.raises(httpx.RemoteProtocolError):
        ask(proxy, server)

    assert engine.get_outcome()["cut"] is True


def test_a_model_that_cannot_be_reached_is_an_error_with_its_reason(proxy: ModelProxy, engine: Engine) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]

        response = httpx.post(lead(proxy, f"http://127.0.0.1:{port}/v1/chat/completions"), json=BODY)

    assert response.status_code == 502
    assert response.json()["error"]["message"] == (
        f"workbench: 127.0.0.1 could not be reached: cannot connect to 127.0.0.1:{port}: Connect call failed "
        f"('127.0.0.1', {port})"
    )
    assert engine.get_outcome()["error"].startswith(f"ConnectionError: cannot connect to 127.0.0.1:{port}: ")


def test_requests_without_the_token_are_refused(proxy: ModelProxy, engine: Engine, server: ModelServer) -> None:
    root, _, token = proxy.url.rpartition("/")
    place = f"http/{server.url.removeprefix('http://')}/v1/chat/completions"

    responses = [httpx.post(f"{root}/{wrong}/{place}", json=BODY) for wrong in ("", "x", token[:-1], token + "x")]

    assert [response.status_code for response in responses] == [403] * 4
    assert server.count == 0
    assert engine.asked == []


@pytest.mark.parametrize(
    "path",
    ["", "/ftp/host/", "/https", "/https//v1/messages", "/https/host:port/v1/messages", "/http/[::1/v1/messages"],
)
def test_a_path_without_an_address_is_explained(proxy: ModelProxy, engine: Engine, path: str) -> None:
    response = httpx.get(f"{proxy.url}{path}")

    assert response.status_code == 404
    assert "expected a path such as WORKBENCH_MODEL_PROXY/https/HOST/..." in response.text


def test_websockets_are_refused_with_what_to_do(proxy: ModelProxy, engine: Engine) -> None:
    headers = {"Connection": "Upgrade", "Upgrade": "websocket"}

    response = httpx.get(f"{proxy.url}/https/api.openai.com/v1/realtime", headers=headers)

    assert response.status_code == 501
    assert "run with --models live" in response.text


def test_other_requests_pass_and_are_not_recorded(proxy: ModelProxy, engine: Engine, server: ModelServer) -> None:
    with httpx.Client() as client:
        read = client.get(lead(proxy, f"{server.url}/tools/search?q=1"))
        head = client.head(lead(proxy, f"{server.url}/tools"))
        sent = client.post(lead(proxy, f"{server.url}/tools"), content=iter([json.dumps(OTHER).encode()]), headers={
            "Authorization": "x"})  # fmt: skip

    assert read.json() == {"models": ["/tools/search?q=1"]}
    assert (head.headers["content-length"], head.content) == ("22", b"")
    assert "hello" in sent.text
    assert engine.asked == []


@pytest.mark.parametrize(
    ("variable", "begin", "path"),
    [
        ("OLLAMA_HOST", "", "/api/chat"),  # not at the port that is known
        ("CO_API_URL", "", "/v2/chat"),
        ("OPENAI_BASE_URL", "/llm/v1", "/llm/v1/images/generations"),
        ("AZURE_OPENAI_ENDPOINT", "", "/openai/deployments/m/rerank"),
        ("HOSTED_VLLM_API_BASE", "/llm", "/"),
    ],
)
def test_the_user_s_own_address_is_that_of_models_whatever_the_path(
    proxy: ModelProxy, engine: Engine, server: ModelServer, variable: str, begin: str, path: str
) -> None:
    address = proxy.build_environment({variable: f"{server.url}{begin}"})[variable]
    url = f"{address.removesuffix(begin)}{path}"

    first = httpx.post(url, json=BODY, headers={"Authorization": "x"})
    engine.replays = [engine.get_outcome()]
    second = httpx.post(url, json=BODY)

    assert [each["url"] for each in engine.asked] == [f"{server.url}{path}"] * 2
    assert (second.text, server.count) == (first.text, 1)


def test_requests_without_an_answer_of_a_model_pass_at_the_user_s_own_address(
    proxy: ModelProxy, engine: Engine, server: ModelServer
) -> None:
    address = proxy.build_environment({"OLLAMA_HOST": server.url})["OLLAMA_HOST"]

    assert httpx.get(f"{address}/api/tags").json() == {"models": ["/api/tags"]}
    assert engine.asked == []


def test_the_default_address_may_be_named_without_a_difference(
    proxy: ModelProxy, engine: Engine, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_proxy, "_PROVIDERS", ((("OPENAI_BASE_URL",), (), f"{server.url}/v1", ""),))
    address = proxy.build_environment({"OPENAI_BASE_URL": f"{server.url}/v1/"})["OPENAI_BASE_URL"]

    httpx.post(f"{address}vector_stores", json=OTHER, headers={"Authorization": "x"})

    assert (server.paths, engine.asked) == (["/v1/vector_stores"], [])


def test_large_bodies_pass_whole(proxy: ModelProxy, engine: Engine, server: ModelServer) -> None:
    text = "é" * 3_000_000

    url = lead(proxy, f"{server.url}/v1/chat/completions")
    body = {"messages": [{"role": "user", "content": text}]}
    response = httpx.post(url, json=body, headers={"Authorization": "x"}, timeout=60)

    assert response.json()["choices"][0]["message"]["content"] == f"1: é {text}"
    assert engine.asked[0]["body"] == body


def test_a_compressed_request_passes_as_it_is(proxy: ModelProxy, engine: Engine) -> None:
    bodies = []

    class Handler(QuietHandler):
        def do_POST(self) -> None:
            bodies.append((self.headers["Content-Encoding"], self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

    data = gzip.compress(b"{}")
    with run_http_server(Handler) as url:
        response = httpx.post(lead(proxy, f"{url}/v1/messages"), content=data, headers={"Content-Encoding": "gzip"})

    assert bodies == [("gzip", data)]
    assert (response.status_code, response.content) == (204, b"")
    assert engine.get_outcome()["chunks"] == []


def test_a_client_may_offer_another_version_of_http(proxy: ModelProxy, engine: Engine, server: ModelServer) -> None:
    """Java's client does so in each first request to an address without encryption."""
    url = lead(proxy, f"{server.url}/v1/messages")
    offer = {"Connection": "Upgrade, HTTP2-Settings", "Upgrade": "h2c", "HTTP2-Settings": "AAEAAEAAAAIAAAABAAMAAABk"}

    response = httpx.post(url, json=BODY, headers={"Authorization": "x", **offer})

    assert response.status_code == 200
    assert {"upgrade", "http2-settings"}.isdisjoint(server.headers[0])


def test_addresses_in_responses_lead_to_the_proxy(proxy: ModelProxy, engine: Engine) -> None:
    class Handler(QuietHandler):
        def do_GET(self) -> None:
            self.send_response(307)
            self.send_header("Location", f"http://{self.headers['Host']}/there")
            self.send_header("X-Goog-Upload-URL", "http://elsewhere.example/upload")
            self.end_headers()

    with run_http_server(Handler) as url:
        response = httpx.get(lead(proxy, f"{url}/here"))

        assert response.headers["location"] == lead(proxy, f"{url}/there")
        assert response.headers["x-goog-upload-url"] == "http://elsewhere.example/upload"


def test_a_name_and_a_password_in_the_address_authorize_the_request(
    proxy: ModelProxy, engine: Engine, server: ModelServer
) -> None:
    address = server.url.replace("://", "://me:pass%2Fword@")
    environment = proxy.build_environment({"OPENAI_BASE_URL": f"{address}/v1"})

    httpx.post(f"{environment['OPENAI_BASE_URL']}/chat/completions", json=BODY)

    assert server.headers[0]["authorization"] == "Basic bWU6cGFzcy93b3Jk"
    assert engine.asked[0]["url"] == f"{server.url}/v1/chat/completions"


async def test_outcomes_are_reported_before_a_turn_ends(proxy: ModelProxy, engine: Engine, server: ModelServer) -> None:
    server.streams, server.pause_seconds = True, 0.1

    url = lead(proxy, f"{server.url}/v1/messages")
    async with (
        httpx.AsyncClient() as client,
        client.stream("POST", url, json=BODY, headers={"Authorization": "x"}) as response,
    ):
        await anext(response.aiter_raw())
        assert engine.outcomes == []

        await proxy.settle()

        assert len(engine.outcomes) == 1


@contextmanager
def run_forward_proxy(seen: list[str]) -> Iterator[str]:
    """Run a proxy that answers requests itself, and connects to the port of a tunnel on this machine."""

    class Handler(QuietHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            seen.append(self.path)
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def do_CONNECT(self) -> None:
            seen.append(self.path)
            self.close_connection = True
            with socket.create_connection(("127.0.0.1", int(self.path.rpartition(":")[2]))) as other:
                self.send_response(200)
                self.end_headers()
                back = threading.Thread(target=_relay, args=(other, self.connection), daemon=True)
                back.start()
                _relay(self.connection, other)
                back.join(5)

    with run_http_server(Handler) as url:
        yield url


def _relay(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


def test_the_user_s_own_proxy_is_used_for_models_only(
    proxy: ModelProxy, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    with run_forward_proxy(seen) as address:
        monkeypatch.setenv("HTTP_PROXY", address)
        for name, value in proxy.build_environment(dict(os.environ)).items():
            monkeypatch.setenv(name, value)

        response = httpx.post(lead(proxy, "http://models.example/v1/chat/completions"), json=BODY)

    assert response.status_code == 200, response.text
    assert seen == ["http://models.example/v1/chat/completions"]
    assert len(engine.asked) == 1


def test_an_encrypted_request_passes_the_user_s_own_proxy(
    proxy: ModelProxy, engine: Engine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen: list[str] = []
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))

    with _run_tls_server(authority) as url, run_forward_proxy(seen) as address:
        monkeypatch.setenv("HTTPS_PROXY", address)
        place = url.replace("localhost", "models.example")
        response = httpx.post(lead(proxy, f"{place}/v1/messages"), json=BODY)

    assert response.text == "{}"
    assert seen == [place.removeprefix("https://")]


@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"])
def test_certificates_that_the_environment_names_are_trusted(
    proxy: ModelProxy, engine: Engine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variable: str
) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    monkeypatch.setenv(variable, str(tmp_path / "ca.pem"))

    with _run_tls_server(authority) as url:
        response = httpx.post(lead(proxy, f"{url}/v1/messages"), json=BODY)

    assert response.text == "{}"


def test_a_certificate_that_is_not_trusted_is_named(proxy: ModelProxy, engine: Engine) -> None:
    with _run_tls_server(trustme.CA()) as url:
        response = httpx.post(lead(proxy, f"{url}/v1/messages"), json=BODY)

    assert response.status_code == 502
    assert "its certificate is not trusted" in response.text


@contextmanager
def _run_tls_server(authority: trustme.CA) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_: Any) -> None:
            pass

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost", "models.example").configure_cert(context)
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        server.handle_error = lambda *_: None  # type: ignore[method-assign]  # a client that does not trust it
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield f"https://localhost:{server.server_port}"
        server.shutdown()


# Variables.


def test_sdks_find_the_proxy_in_their_variables(proxy: ModelProxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_proxy, "_listens", lambda port: port == 11434)
    names = ("OPENAI", "ANTHROPIC", "GEMINI", "MISTRAL", "GROQ", "COHERE", "OPENROUTER")
    keys = {f"{name}_API_KEY": KEY for name in names}

    assert proxy.build_environment({"PATH": "/bin", **keys}) == {
        "PATH": "/bin",
        **keys,
        "WORKBENCH_MODEL_PROXY": proxy.url,
        "OPENAI_BASE_URL": f"{proxy.url}/https/api.openai.com/v1",
        "OPENAI_API_BASE": f"{proxy.url}/https/api.openai.com/v1",
        "ANTHROPIC_BASE_URL": f"{proxy.url}/https/api.anthropic.com",
        "GOOGLE_GEMINI_BASE_URL": f"{proxy.url}/https/generativelanguage.googleapis.com",
        "GEMINI_API_BASE": f"{proxy.url}/https/generativelanguage.googleapis.com",
        "MISTRAL_BASE_URL": f"{proxy.url}/https/api.mistral.ai",
        "MISTRAL_AZURE_API_BASE": f"{proxy.url}/https/api.mistral.ai",
        "GROQ_BASE_URL": f"{proxy.url}/https/api.groq.com",
        "GROQ_API_BASE": f"{proxy.url}/https/api.groq.com",
        "CO_API_URL": f"{proxy.url}/https/api.cohere.com",
        "OPENROUTER_API_BASE": f"{proxy.url}/https/openrouter.ai",
        "OLLAMA_HOST": f"{proxy.url}/http/127.0.0.1:11434",
        "OLLAMA_API_BASE": f"{proxy.url}/http/127.0.0.1:11434",
    }


@pytest.mark.parametrize("may_ask", [True, False])
def test_a_program_without_a_key_keeps_its_own_default_address_unless_no_model_is_asked(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, may_ask: bool
) -> None:
    monkeypatch.setattr(model_proxy, "_listens", lambda _: False)
    settings = {"endpoints": list(ENDPOINTS.values()), "may_ask": may_ask}
    proxy = ModelProxy(InterceptedModels(engine, settings, None))  # type: ignore[arg-type]

    environment = proxy.build_environment({"GROQ_API_KEY": KEY, "OPENAI_API_KEY": ""})
    proxy.stop()

    assert environment["GROQ_BASE_URL"].endswith("/https/api.groq.com")
    for name in ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "OLLAMA_HOST"):
        assert (name in environment) is not may_ask


@pytest.mark.parametrize(
    ("name", "value", "place"),
    [
        ("OPENAI_BASE_URL", "HTTP://corp.example:8080/llm/v1/", "http/corp.example:8080/llm/v1/"),
        ("AZURE_OPENAI_ENDPOINT", "https://me.openai.azure.com", "https/me.openai.azure.com"),
        ("GOOGLE_VERTEX_BASE_URL", "https://gateway.example", "https/gateway.example"),
        ("OLLAMA_HOST", "box", "http/box:11434"),
        ("OLLAMA_HOST", ":9999", "http/127.0.0.1:9999"),
        ("OLLAMA_HOST", "[::1]:9999/path", "http/[::1]:9999/path"),
        ("OLLAMA_HOST", "https://box/path", "https/box/path"),
    ],
)
def test_the_user_s_own_address_stays_that_of_the_model(proxy: ModelProxy, name: str, value: str, place: str) -> None:
    assert proxy.build_environment({name: value})[name] == f"{proxy.url}/{place}"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OPENAI_BASE_URL", "corp.example/v1"),
        ("GOOGLE_VERTEX_BASE_URL", "https://europe-west4-aiplatform.googleapis.com/"),
        ("AZURE_OPENAI_ENDPOINT", ""),
    ],
)
def test_values_that_the_proxy_cannot_stand_for_stay(proxy: ModelProxy, name: str, value: str) -> None:
    assert proxy.build_environment({name: value})[name] == value


def test_a_variable_does_not_replace_another_that_the_user_has_set(proxy: ModelProxy) -> None:
    environment = proxy.build_environment({"OPENAI_API_BASE": "https://corp.example/v1", "OPENAI_BASE_URL": ""})

    assert environment["OPENAI_API_BASE"] == f"{proxy.url}/https/corp.example/v1"
    assert environment["OPENAI_BASE_URL"] == ""


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"NO_PROXY": "a"}, {"NO_PROXY": "a"}),
        ({"https_proxy": "http://p"}, {}),
        ({"http_proxy": "http://p"}, {"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}),
        ({"ALL_PROXY": "http://p", "no_proxy": "a"}, {"NO_PROXY": "a,127.0.0.1", "no_proxy": "a,127.0.0.1"}),
        ({"HTTP_PROXY": "http://p", "NO_PROXY": "*"}, {"NO_PROXY": "*", "no_proxy": "*"}),
    ],
)
def test_the_user_s_proxy_does_not_get_requests_to_ours(
    proxy: ModelProxy, environment: dict[str, str], expected: dict[str, str]
) -> None:
    found = proxy.build_environment(environment)

    assert {name: value for name, value in found.items() if name.lower() == "no_proxy"} == expected


@pytest.mark.parametrize("path", ["/messages", "/v1/messages"])
def test_an_sdk_may_expect_the_version_in_the_address_or_not(
    proxy: ModelProxy, engine: Engine, server: ModelServer, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    provider = (("ANTHROPIC_BASE_URL",), ("ANTHROPIC_API_KEY",), server.url, "v1")
    monkeypatch.setattr(model_proxy, "_PROVIDERS", (provider,))
    address = proxy.build_environment({"ANTHROPIC_API_KEY": KEY})["ANTHROPIC_BASE_URL"]

    httpx.post(f"{address}{path}", json=BODY, headers={"Authorization": "x"})

    assert server.paths == ["/v1/messages"]


def _ask_openai(environment: dict[str, str]) -> str:
    openai = pytest.importorskip("openai")
    client = openai.OpenAI(api_key=KEY, base_url=environment["OPENAI_BASE_URL"])
    found = client.chat.completions.create(**BODY)
    return found.choices[0].message.content


def _ask_gemini(environment: dict[str, str]) -> str:
    from google import genai

    options = {"base_url": environment["GOOGLE_GEMINI_BASE_URL"]}
    client = genai.Client(api_key=KEY, vertexai=False, http_options=options)
    stream = client.models.generate_content_stream(model="m", contents="hello")
    return "".join(chunk.text for chunk in stream)


def _ask_litellm(environment: dict[str, str]) -> str:
    import litellm

    base = environment["GEMINI_API_BASE"]
    found = litellm.completion("gemini/m", api_base=base, api_key=KEY, messages=BODY["messages"])
    return found.choices[0].message.content


@pytest.mark.parametrize(
    "client", [_ask_openai, _ask_gemini, pytest.param(_ask_litellm, marks=pytest.mark.needs_litellm)]
)
def test_real_sdks_are_recorded_and_replayed(
    proxy: ModelProxy,
    engine: Engine,
    server: ModelServer,
    monkeypatch: pytest.MonkeyPatch,
    client: Callable[[dict[str, str]], str],
) -> None:
    rows = [(names, (), f"{server.url}{'/v1' if 'openai' in base else ''}", begin)
            for names, _, base, begin in model_proxy._PROVIDERS]  # fmt: skip
    monkeypatch.setattr(model_proxy, "_PROVIDERS", tuple(rows))
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # else its import asks the network
    environment = proxy.build_environment({})

    first = client(environment)
    recorded = engine.get_outcome()
    engine.replays = [recorded]
    second = client(environment)

    assert first == second == "1: é hello"
    assert server.count == 1
    assert recorded.get("cut") is None
    assert KEY not in str((engine.asked, engine.outcomes))
