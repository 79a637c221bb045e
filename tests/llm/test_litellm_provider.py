"""Models of other providers: the real LiteLLM calls a server that speaks the protocol of the OpenAI API."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable

import pytest

from tests.llm.conftest import request
from tests.llm.servers import Answer, Call, HttpResponse, Server, find_free_port, openai, openai_error
from workbench.llm.litellm_provider import find_missing_keys
from workbench.llm.model_types import Message, ModelError, ModelRequest, Trouble
from workbench.llm.models import Account, Budget, Models
from workbench.llm.prompt_templates import OwnPrice, Prices
from workbench.model.results import TokenUsage

Serve = Callable[[Answer], Server]
OpenModels = Callable[..., Models]
MODEL = "openai/local-1"
SCHEMA = {"type": "object", "properties": {"verdict": {"type": "string"}}, "required": ["verdict"]}


async def test_a_missing_litellm_library_names_the_extra_to_install(
    serve: Serve, open_models: OpenModels, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "litellm", None)
    models = open_models(serve(lambda _: openai("x")))

    with pytest.raises(ModelError, match=r"pip install .*\[litellm\]") as raised:
        await models.ask(request(model=MODEL))

    assert raised.value.trouble is Trouble.NO_LIBRARY


@pytest.mark.needs_litellm
async def test_a_request_sends_messages_system_config_and_reply_schema(serve: Serve, open_models: OpenModels) -> None:
    server = serve(lambda _: openai("valid"))

    reply = await open_models(server).ask(
        ModelRequest(
            model=MODEL,
            messages=(Message(role="user", text="one"), Message(role="model", text="two")),
            system="Judge.",
            config={"temperature": 0.5, "maxOutputTokens": 10, "thinking_config": {}},
            reply_schema=SCHEMA,
        )
    )

    assert (reply.text, reply.finish) == ("valid", "stop")
    assert reply.usage == TokenUsage(prompt=5, candidates=2, total=7)
    (call,) = server.calls
    assert call.path == "/v1/chat/completions"
    assert call.headers["authorization"] == "Bearer key-of-openai"
    assert [(each["role"], each["content"]) for each in call.body["messages"]] == [
        ("system", "Judge."),
        ("user", "one"),
        ("assistant", "two"),
    ]
    assert (call.body["temperature"], call.body["max_tokens"], call.body["model"]) == (0.5, 10, "local-1")
    assert call.body["response_format"]["json_schema"]["schema"] == SCHEMA


@pytest.mark.needs_litellm
async def test_a_server_that_reports_no_tokens_has_an_unknown_cost(serve: Serve, open_models: OpenModels) -> None:
    response = openai("yes")
    assert isinstance(response.body, dict)
    del response.body["usage"]
    account = Account(Prices({MODEL: OwnPrice(1.0, 1.0), "openai/mine": OwnPrice(0.0, 0.0)}))
    models = open_models(serve(lambda _: response))

    for model in (MODEL, "openai/mine"):
        await models.ask(request(model=model), account=account)

    assert [(each.cost, each.calls_without_usage) for each in account.list_spending()] == [(None, 1), (0.0, 1)]


@pytest.mark.needs_litellm
@pytest.mark.parametrize(
    ("response", "trouble"),
    [
        (openai_error(400, "bad"), Trouble.REFUSED),
        (openai_error(401, "no key"), Trouble.DENIED),
        (openai_error(402, "Insufficient Balance"), Trouble.NO_CREDIT),
        (openai_error(404, "no model"), Trouble.UNKNOWN_MODEL),
        (openai_error(429, "slow down"), Trouble.LIMITED),
        (openai_error(500, "oops"), Trouble.UNAVAILABLE),
        (openai_error(503, "later"), Trouble.UNAVAILABLE),
        (openai(""), Trouble.EMPTY),
        (openai(None, finish="content_filter"), Trouble.BLOCKED),
    ],
)
async def test_each_failure_becomes_its_kind_of_trouble(
    serve: Serve, open_models: OpenModels, response: HttpResponse, trouble: Trouble
) -> None:
    models = open_models(serve(lambda _: response), options={"tries": 1})

    with pytest.raises(ModelError, match=f"^{MODEL}: ") as raised:
        await models.ask(request(model=MODEL))

    assert raised.value.trouble is trouble


@pytest.mark.needs_litellm
async def test_a_malformed_answer_is_an_outage_without_a_traceback(
    serve: Serve, open_models: OpenModels, capfd: pytest.CaptureFixture[str]
) -> None:
    malformed = openai("")
    assert isinstance(malformed.body, dict)
    malformed.body["choices"][0]["message"]["content"] = [{"type": "text", "text": "yes"}]
    answers = iter([malformed, openai("yes", finish="a new reason")])
    models = open_models(serve(lambda _: next(answers)), options={"tries": 1})

    with pytest.raises(ModelError, match="the service cannot be reached or has failed") as raised:
        await models.ask(request(model=MODEL))
    assert (await models.ask(request("again", model=MODEL))).text == "yes"

    assert "Traceback" not in str(raised.value)
    assert capfd.readouterr().err == ""


@pytest.mark.needs_litellm
async def test_an_answer_that_was_only_thought_names_the_limit(serve: Serve, open_models: OpenModels) -> None:
    models = open_models(serve(lambda _: openai("", finish="length")))

    with pytest.raises(ModelError, match=r"has no text .length.; raise max_output_tokens"):
        await models.ask(request(model=MODEL))


@pytest.mark.needs_litellm
@pytest.mark.parametrize("model", [MODEL, "deepseek/local-1"])
@pytest.mark.parametrize(
    ("refusal", "reason"),
    [
        (openai_error(429, "quota", headers={"Retry-After": "3600"}), "which asks to wait 3,600 s"),
        (openai_error(503, "down", headers={"Retry-After": "3600"}), "which asks to wait 3,600 s"),
        (openai_error(429, "You exceeded your quota", code="insufficient_quota"), "the account has no credit left"),
        (openai_error(400, "Your credit balance is too low"), "the account has no credit left"),
    ],
)
async def test_a_long_wait_or_an_empty_account_stops_further_requests(
    serve: Serve, open_models: OpenModels, refusal: HttpResponse, reason: str, model: str
) -> None:
    server, messages = serve(lambda _: refusal), list[str]()
    models, account = open_models(server), Account(on_stop=messages.append)

    for _ in range(2):
        with pytest.raises(ModelError):
            await models.ask(request(model=model), account=account)

    assert len(server.calls) == 1
    (message,) = messages
    assert f"this run no longer calls {model}" in message
    assert reason in message


@pytest.mark.needs_litellm
@pytest.mark.parametrize("status", [400, 422, 500, 501])
async def test_a_refused_response_format_is_dropped_and_every_try_is_charged(
    serve: Serve, open_models: OpenModels, status: int
) -> None:
    def answer(call: Call) -> HttpResponse:
        return openai_error(status, "response_format is unknown") if "response_format" in call.body else openai("prose")

    server = serve(answer)
    models, account = open_models(server), Account()

    requests = [request(text, model=MODEL, reply_schema=SCHEMA) for text in ("first", "second")]
    replies = [await models.ask(each, account=account) for each in requests]

    assert [reply.text for reply in replies] == ["prose", "prose"]
    assert len(server.calls) == 3  # the refusal is remembered
    (spent,) = account.list_spending()
    assert (spent.calls, spent.failed) == (2, 1)


@pytest.mark.needs_litellm
async def test_a_budget_counts_refused_tries(serve: Serve, open_models: OpenModels) -> None:
    server = serve(lambda _: openai_error(400, "response_format is unknown"))
    account = Account(budget=Budget(calls=1))

    with pytest.raises(ModelError) as raised:
        await open_models(server).ask(request(model=MODEL, reply_schema=SCHEMA), account=account)

    assert raised.value.trouble is Trouble.BUDGET
    assert len(server.calls) == 1


@pytest.mark.parametrize(
    ("model", "variables"),
    [
        ("openai/gpt-4o", "OPENAI_API_KEY"),
        ("anthropic/claude-sonnet-4-5", "ANTHROPIC_API_KEY"),
        ("gemini/gemini-2.5-flash", "GEMINI_API_KEY or GOOGLE_API_KEY"),
    ],
)
async def test_a_missing_key_is_reported_without_loading_the_library(
    open_models: OpenModels, monkeypatch: pytest.MonkeyPatch, model: str, variables: str
) -> None:
    monkeypatch.setitem(sys.modules, "litellm", None)

    with pytest.raises(ModelError) as raised:
        await open_models(None, environment={}).ask(request(model=model))

    assert raised.value.trouble is Trouble.NO_KEY
    assert raised.value.message == (f"{model}: no API key: set {variables} in the environment or in the agent's .env")


def test_an_auth_token_replaces_the_key() -> None:
    assert find_missing_keys("anthropic/claude-sonnet-4-5", {"ANTHROPIC_AUTH_TOKEN": "t"}) == ()
    assert find_missing_keys("ollama/llama3", {}) == ()


@pytest.mark.needs_litellm
async def test_a_key_that_only_the_library_misses_is_not_retried(
    open_models: OpenModels, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in os.environ if name.startswith(("AZURE_", "OPENAI_"))]:
        monkeypatch.delenv(name)
    environment = {"AZURE_API_BASE": "http://127.0.0.1:9", "AZURE_API_VERSION": "2024-06-01"}
    account = Account()

    with pytest.raises(ModelError, match="Missing credentials") as raised:
        await open_models(None, environment=environment).ask(request(model="azure/mine"), account=account)

    assert raised.value.trouble is Trouble.NO_KEY
    assert account.list_spending()[0].failed == 1


@pytest.mark.needs_litellm
async def test_an_unreachable_server_is_an_outage(serve: Serve, open_models: OpenModels) -> None:
    port = find_free_port()
    environment = {"OPENAI_API_KEY": "k", "OPENAI_API_BASE": f"http://127.0.0.1:{port}/v1"}
    models = open_models(serve(lambda _: openai("x")), environment=environment, options={"tries": 1})

    reason = f"cannot be reached or has failed (cannot connect to 127.0.0.1:{port}: connection refused)"
    with pytest.raises(ModelError, match=f"{re.escape(reason)}$") as raised:
        await models.ask(request(model=MODEL))

    assert raised.value.trouble.is_outage


@pytest.mark.needs_litellm
async def test_a_config_key_unknown_to_other_providers_is_refused_by_name(
    serve: Serve, open_models: OpenModels
) -> None:
    server = serve(lambda _: openai("x"))

    with pytest.raises(ModelError, match="responseModalities is not known for models of other providers"):
        await open_models(server).ask(request(model=MODEL, config={"responseModalities": ["AUDIO"]}))

    assert not server.calls
