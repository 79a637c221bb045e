"""Models of Google: the real library calls a server that speaks the protocol of the Gemini API."""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.llm.conftest import request
from tests.llm.servers import Answer, HttpResponse, Server, find_free_port, gemini, gemini_error, run_hanging_up_server
from workbench.llm.model_types import Message, ModelError, ModelRequest, Trouble
from workbench.llm.models import Account, Cache, Models
from workbench.model.results import TokenUsage

Serve = Callable[[Answer], Server]
OpenModels = Callable[..., Models]
SCHEMA = {"type": "object", "properties": {"verdict": {"type": "string"}}, "required": ["verdict"]}


async def test_a_request_sends_messages_system_config_and_reply_schema(serve: Serve, open_models: OpenModels) -> None:
    server = serve(lambda _: gemini("valid", thoughts="let me think"))
    models = open_models(server)

    reply = await models.ask(
        ModelRequest(
            model="gemini-test",
            messages=(Message(role="user", text="one"), Message(role="model", text="two")),
            system="Judge.",
            config={"temperature": 0.5, "maxOutputTokens": 10, "thinking_config": {"include_thoughts": True}},
            reply_schema=SCHEMA,
        )
    )

    assert (reply.text, reply.finish, reply.version) == ("valid", "STOP", "gemini-test-001")
    assert reply.usage == TokenUsage(prompt=7, candidates=3, thoughts=2, total=12)
    assert reply.seconds > 0
    (call,) = server.calls
    assert call.path.endswith("/models/gemini-test:generateContent")
    assert call.headers["x-goog-api-key"] == "key-of-google"
    assert [(each["role"], each["parts"][0]["text"]) for each in call.body["contents"]] == [
        ("user", "one"),
        ("model", "two"),
    ]
    assert call.body["systemInstruction"]["parts"][0]["text"] == "Judge."
    config = call.body["generationConfig"]
    assert (config["temperature"], config["maxOutputTokens"]) == (0.5, 10)
    assert list(config["thinkingConfig"].values()) == [True]
    assert config["responseMimeType"] == "application/json"
    assert config["responseJsonSchema"] == SCHEMA


async def test_a_model_that_rejects_schemas_is_asked_without_one(serve: Serve, open_models: OpenModels) -> None:
    def answer(call: object) -> HttpResponse:
        with_schema = "responseMimeType" in server.calls[-1].body.get("generationConfig", {})
        return gemini_error(400, "JSON mode is not enabled for this model") if with_schema else gemini("prose")

    server = serve(answer)
    models = open_models(server)

    assert (await models.ask(request(reply_schema=SCHEMA))).text == "prose"
    assert (await models.ask(request("again", reply_schema=SCHEMA))).text == "prose"
    assert len(server.calls) == 3  # the refusal is remembered


@pytest.mark.parametrize(
    ("response", "trouble", "words"),
    [
        (gemini_error(400, "contents are required"), Trouble.REFUSED, "the request was refused .*contents are"),
        (gemini_error(400, "API key not valid. Please pass a valid API key."), Trouble.DENIED, "key was not accepted"),
        (gemini_error(401, "no"), Trouble.DENIED, "the key was not accepted"),
        (gemini_error(403, "PERMISSION"), Trouble.DENIED, "the key was not accepted"),
        (
            HttpResponse({"error": "wrong token"}, status=401),
            Trouble.DENIED,
            "not accepted .401: wrong token",
        ),
        (HttpResponse({"error": None}, status=403), Trouble.DENIED, "the key was not accepted .403"),
        (gemini_error(404, "models/x is not found"), Trouble.UNKNOWN_MODEL, "the model does not exist.*not found"),
        (gemini_error(429, "quota"), Trouble.LIMITED, "too many requests.*quota"),
        (gemini_error(500, "oops"), Trouble.UNAVAILABLE, "has failed .*500"),
        (HttpResponse("<html>gateway</html>", status=503), Trouble.UNAVAILABLE, "has failed"),
        (
            HttpResponse("", status=307, headers={"Location": "/"}),
            Trouble.UNAVAILABLE,
            "redirected the request too often",
        ),
        (HttpResponse("{not json"), Trouble.UNAVAILABLE, "has failed"),
        (HttpResponse({}), Trouble.EMPTY, "no text"),
        (HttpResponse({"error": "overloaded"}), Trouble.EMPTY, "no text .*a gateway may have answered"),
        (HttpResponse({"usageMetadata": {"promptTokenCount": "7x"}}), Trouble.UNAVAILABLE, "its answer cannot be read"),
        (gemini(""), Trouble.EMPTY, "no text"),
        (gemini("", thoughts="hm", finish="MAX_TOKENS"), Trouble.EMPTY, "no text.*raise max_output_tokens"),
        (gemini("", finish="SAFETY"), Trouble.BLOCKED, "blocked .SAFETY"),
        (
            HttpResponse({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}),
            Trouble.BLOCKED,
            "PROHIBITED_CONTENT",
        ),
    ],
)
async def test_each_failure_has_its_kind_of_trouble_and_message(
    serve: Serve, open_models: OpenModels, response: HttpResponse, trouble: Trouble, words: str
) -> None:
    models = open_models(serve(lambda _: response), options={"tries": 1})

    with pytest.raises(ModelError, match=words) as raised:
        await models.ask(request())

    assert raised.value.trouble is trouble
    assert raised.value.message.startswith("gemini-test: ")


async def test_a_reply_cut_off_by_the_token_limit_is_marked_truncated(serve: Serve, open_models: OpenModels) -> None:
    models = open_models(serve(lambda _: gemini("and the", finish="MAX_TOKENS")))

    assert (await models.ask(request())).is_truncated


async def test_a_reply_with_half_a_surrogate_pair_is_read_and_cached(
    serve: Serve, open_models: OpenModels, tmp_path: Path
) -> None:
    server = serve(lambda _: HttpResponse(json.dumps(gemini("yes \ud83d").body)))
    models = open_models(server, replies=Cache(tmp_path, warn=pytest.fail))

    replies = [await models.ask(request()) for _ in range(2)]

    assert [(reply.text, reply.cached) for reply in replies] == [("yes \ufffd", False), ("yes \ufffd", True)]


async def test_a_reply_with_other_parts_than_text_writes_nothing_to_the_terminal(
    serve: Serve, open_models: OpenModels, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(logging.getLogger(), "handlers", [])  # those of pytest
    response = gemini("yes")
    response.body["candidates"][0]["content"]["parts"].append({"functionCall": {"name": "f", "args": {}}})
    models = open_models(serve(lambda _: response))

    assert (await models.ask(request(reply_schema=SCHEMA))).text == "yes"
    assert capfd.readouterr() == ("", "")


async def test_warnings_of_the_library_are_no_errors(serve: Serve, open_models: OpenModels) -> None:
    models = open_models(serve(lambda _: gemini("yes", finish="BRAND_NEW")))

    with warnings.catch_warnings():
        warnings.simplefilter("error")  # as `-W error`; also the first request of a client warns
        reply = await models.ask(request())

    assert (reply.text, reply.finish) == ("yes", "BRAND_NEW")


async def test_a_missing_key_names_the_variables_and_the_env_file(serve: Serve, open_models: OpenModels) -> None:
    server = serve(lambda _: gemini("x"))
    models = open_models(server, environment={"GOOGLE_GEMINI_BASE_URL": server.url})

    with pytest.raises(ModelError, match=r"no API key for Gemini: set GOOGLE_API_KEY .* \.env") as raised:
        await models.ask(request())

    assert raised.value.trouble is Trouble.NO_KEY
    assert not server.calls


async def test_an_unreachable_server_is_an_outage(serve: Serve, open_models: OpenModels) -> None:
    unused_url = f"http://127.0.0.1:{find_free_port()}"
    environment = {"GOOGLE_API_KEY": "k", "GOOGLE_GEMINI_BASE_URL": unused_url}
    models = open_models(serve(lambda _: gemini("x")), options={"tries": 1}, environment=environment)

    with pytest.raises(ModelError) as raised:
        await models.ask(request())

    assert raised.value.trouble.is_outage
    assert raised.value.message == (
        "gemini-test: the service cannot be reached or has failed "
        f"(cannot connect to {unused_url.removeprefix('http://')}: connection refused)"
    )


@pytest.mark.parametrize("tries", [1, 3])
async def test_a_closed_connection_is_retried_as_often_as_configured(open_models: OpenModels, tries: int) -> None:
    with run_hanging_up_server() as (url, connections):
        environment = {"GOOGLE_API_KEY": "k", "GOOGLE_GEMINI_BASE_URL": url}
        models = open_models(None, options={"tries": tries}, environment=environment)

        with pytest.raises(ModelError, match="closed the connection before it answered") as raised:
            await models.ask(request())

    assert raised.value.trouble is Trouble.UNAVAILABLE
    assert "Error:" not in raised.value.message
    assert len(connections) == tries


async def test_an_address_without_a_scheme_is_refused_at_once(open_models: OpenModels) -> None:
    environment = {"GOOGLE_API_KEY": "k", "GOOGLE_GEMINI_BASE_URL": "localhost:9"}
    account = Account()

    with pytest.raises(ModelError, match=r"found the address localhost:9/.*, expected one with http://") as raised:
        await open_models(None, environment=environment).ask(request(), account=account)

    assert raised.value.trouble is Trouble.REFUSED
    assert [each.failed for each in account.list_spending()] == [1]


async def test_an_unreachable_token_server_is_not_reported_as_a_wrong_key(
    open_models: OpenModels, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = find_free_port()
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "account.json"))
    credentials = {
        "type": "authorized_user",
        "client_id": "a",
        "client_secret": "b",
        "refresh_token": "c",
        "token_uri": f"http://127.0.0.1:{port}/token",
    }
    (tmp_path / "account.json").write_text(json.dumps(credentials))
    environment = {
        "GOOGLE_GENAI_USE_VERTEXAI": "1",
        "GOOGLE_CLOUD_PROJECT": "p",
        "GOOGLE_CLOUD_LOCATION": "us-central1",
        "GOOGLE_VERTEX_BASE_URL": f"http://127.0.0.1:{port}",
    }

    with pytest.raises(ModelError, match="cannot connect to ") as raised:
        await open_models(None, environment=environment, options={"tries": 1}).ask(request())

    assert raised.value.trouble is Trouble.UNAVAILABLE


async def test_an_invalid_configuration_is_refused_before_any_request(serve: Serve, open_models: OpenModels) -> None:
    server = serve(lambda _: gemini("x"))

    with pytest.raises(ModelError, match="its configuration: temperature: Input should be a valid number"):
        await open_models(server).ask(request(config={"temperature": "warm"}))

    assert not server.calls


async def test_vertex_ai_is_called_with_an_api_key(serve: Serve, open_models: OpenModels) -> None:
    server = serve(lambda _: gemini("x"))
    environment = {"GOOGLE_GENAI_USE_VERTEXAI": "true", "GOOGLE_API_KEY": "k", "GOOGLE_VERTEX_BASE_URL": server.url}
    models = open_models(server, environment=environment)

    assert (await models.ask(request())).text == "x"

    assert server.calls[0].path.endswith("/publishers/google/models/gemini-test:generateContent")
