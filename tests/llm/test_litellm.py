"""Models of other providers, asked with the real LiteLLM at a server that speaks the protocol of the OpenAI API."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable

import pytest

from tests.llm.conftest import request
from tests.llm.servers import Answer, Said, Server, free_port, openai, openai_error
from workbench.llm.models import Models
from workbench.llm.requests import Message, ModelRequest
from workbench.llm.trouble import ModelError, Trouble
from workbench.model.results import TokenUsage

Serve = Callable[[Answer], Server]
OpenModels = Callable[..., Models]
MODEL = "openai/local-1"
SCHEMA = {"type": "object", "properties": {"verdict": {"type": "string"}}, "required": ["verdict"]}


async def test_a_model_without_the_library_says_what_to_install(
    serve: Serve, open_models: OpenModels, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "litellm", None)
    models = open_models(serve(lambda _: openai("x")))

    with pytest.raises(ModelError, match=r"pip install 'agent-eval-workbench\[litellm\]'") as raised:
        await models.ask(request(model=MODEL))

    assert raised.value.trouble is Trouble.NO_LIBRARY


@pytest.mark.needs_litellm
async def test_a_question_with_all_that_shapes_the_answer(serve: Serve, open_models: OpenModels) -> None:
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
@pytest.mark.parametrize(
    ("said", "trouble"),
    [
        (openai_error(400, "bad"), Trouble.REFUSED),
        (openai_error(401, "no key"), Trouble.DENIED),
        (openai_error(404, "no model"), Trouble.UNKNOWN_MODEL),
        (openai_error(429, "slow down"), Trouble.LIMITED),
        (openai_error(500, "oops"), Trouble.UNAVAILABLE),
        (openai_error(503, "later"), Trouble.UNAVAILABLE),
        (openai(""), Trouble.EMPTY),
        (openai(None, finish="content_filter"), Trouble.BLOCKED),
    ],
)
async def test_what_goes_wrong_is_told_apart_in_words(
    serve: Serve, open_models: OpenModels, said: Said, trouble: Trouble
) -> None:
    models = open_models(serve(lambda _: said), options={"tries": 1})

    with pytest.raises(ModelError, match=f"^{MODEL}: ") as raised:
        await models.ask(request(model=MODEL))

    assert raised.value.trouble is trouble


@pytest.mark.needs_litellm
async def test_a_server_that_is_not_there_is_an_outage(serve: Serve, open_models: OpenModels) -> None:
    port = free_port()
    environment = {"OPENAI_API_KEY": "k", "OPENAI_API_BASE": f"http://127.0.0.1:{port}/v1"}
    models = open_models(serve(lambda _: openai("x")), environment=environment, options={"tries": 1})

    said = f"cannot be reached or has failed (cannot connect to 127.0.0.1:{port}: connection refused)"
    with pytest.raises(ModelError, match=f"{re.escape(said)}$") as raised:
        await models.ask(request(model=MODEL))

    assert raised.value.trouble.is_outage


@pytest.mark.needs_litellm
async def test_a_configuration_that_others_do_not_know_is_named(serve: Serve, open_models: OpenModels) -> None:
    server = serve(lambda _: openai("x"))

    with pytest.raises(ModelError, match="responseModalities is not known for models of other providers"):
        await open_models(server).ask(request(model=MODEL, config={"responseModalities": ["AUDIO"]}))

    assert not server.calls
