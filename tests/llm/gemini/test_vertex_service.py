"""The evaluation service of Vertex AI: Google's library calls a server that speaks its REST protocol."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.llm.conftest import request
from tests.llm.servers import Answer, Call, HttpResponse, Server, gemini_error
from workbench.llm.model_types import ModelError, Trouble
from workbench.llm.models import Models

Serve = Callable[[Answer], Server]
OpenModels = Callable[..., Models]
VERDICTS = [
    {
        "evaluatedRubric": {"rubricId": "r1", "content": {"property": {"description": "The lamp is on."}}},
        "verdict": True,
        "reasoning": "It is.",
    },
    {"evaluatedRubric": {"rubricId": "r2"}},  # an unmet rubric has no verdict
]
SCORED = {"metricResults": [{"score": 0.5, "explanation": "half", "rubricVerdicts": VERDICTS}]}


def scoring_request(metric: str, **instance: Any) -> Any:
    return request(json.dumps({"metric": metric, "instance": instance}), model=f"vertex-evaluation/{metric}")


def environment_with_key(server: Server) -> dict[str, str]:
    return {
        "GOOGLE_API_KEY": "key-of-vertex",
        "GOOGLE_GENAI_USE_VERTEXAI": "1",
        "GOOGLE_VERTEX_BASE_URL": server.url,
    }


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"GOOGLE_API_KEY": "of the Gemini API"},
        {"GOOGLE_CLOUD_PROJECT": "p"},
        {"GOOGLE_GENAI_USE_VERTEXAI": "1", "GOOGLE_CLOUD_LOCATION": "l"},
    ],
)
async def test_a_missing_project_names_the_variables_to_set(
    serve: Serve, open_models: OpenModels, environment: dict[str, str]
) -> None:
    models = open_models(serve(lambda _: HttpResponse(SCORED)), environment=environment)

    with pytest.raises(ModelError, match="set GOOGLE_CLOUD_PROJECT and GOOGLE_CLOUD_LOCATION") as raised:
        await models.ask(scoring_request("safety_v1", prompt="p", response="r"))

    assert raised.value.trouble is Trouble.NO_KEY


async def test_a_missing_vertex_library_names_the_extra_to_install(
    serve: Serve, open_models: OpenModels, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "agentplatform", None)
    server = serve(lambda _: HttpResponse(SCORED))
    models = open_models(server, environment=environment_with_key(server))

    with pytest.raises(ModelError, match=r"pip install .*\[vertex\]") as raised:
        await models.ask(scoring_request("safety_v1", prompt="p", response="r"))

    assert raised.value.trouble is Trouble.NO_LIBRARY


@pytest.mark.needs_vertex
async def test_a_response_is_scored_by_a_predefined_metric(serve: Serve, open_models: OpenModels) -> None:
    server = serve(lambda _: HttpResponse(SCORED))
    models = open_models(server, environment=environment_with_key(server))

    reply = await models.ask(scoring_request("safety_v1", prompt="p {x}", response="r", reference="e"))

    assert json.loads(reply.text) == {
        "score": 0.5,
        "explanation": "half",
        "rubrics": [
            {"text": "The lamp is on.", "met": True, "reasoning": "It is."},
            {"text": "r2", "met": False, "reasoning": ""},
        ],
    }
    (call,) = server.calls
    assert call.path.endswith(":evaluateInstances")
    assert call.headers["x-goog-api-key"] == "key-of-vertex"
    assert call.body["metrics"][0]["predefined_metric_spec"]["metric_spec_name"] == "safety_v1"
    assert call.body["instance"] == {
        "prompt": {"text": "p {x}"},
        "response": {"text": "r"},
        "reference": {"text": "e"},
    }


@pytest.mark.needs_vertex
async def test_coherence_is_graded_by_the_template_of_the_library(serve: Serve, open_models: OpenModels) -> None:
    server = serve(lambda _: HttpResponse({"pointwiseMetricResult": {"score": 4, "explanation": "flows"}}))
    models = open_models(server, environment=environment_with_key(server))

    reply = await models.ask(scoring_request("coherence", prompt="p", response="r", reference="e"))

    assert json.loads(reply.text) == {"score": 4.0, "explanation": "flows", "rubrics": []}
    metric_input = server.calls[0].body["pointwiseMetricInput"]
    assert json.loads(metric_input["instance"]["json_instance"]) == {"prompt": "p", "response": "r"}
    assert "{response}" in metric_input["metric_spec"]["metric_prompt_template"]
    assert "coheren" in metric_input["metric_spec"]["metric_prompt_template"]


@pytest.mark.needs_vertex
async def test_a_conversation_is_sent_with_its_agents_and_events(serve: Serve, open_models: OpenModels) -> None:
    server = serve(lambda _: HttpResponse(SCORED))
    models = open_models(server, environment=environment_with_key(server))
    event = {"author": "user", "content": {"role": "user", "parts": [{"text": "hi"}]}}
    data = {
        "agents": {"root": {"agent_id": "root", "instruction": "Be brief.", "tools": []}},
        "turns": [{"turn_index": 0, "events": [event]}],
    }

    await models.ask(scoring_request("multi_turn_task_success_v1", agent_data=data))

    conversation = server.calls[0].body["instance"]["agent_eval_data"]
    assert conversation["agents"]["root"]["instruction"] == "Be brief."
    assert conversation["turns"][0]["events"][0]["content"]["parts"] == [{"text": "hi"}]


@pytest.mark.needs_vertex
async def test_an_invalid_conversation_is_refused_before_it_is_sent(serve: Serve, open_models: OpenModels) -> None:
    server = serve(lambda _: HttpResponse(SCORED))
    models = open_models(server, environment=environment_with_key(server))

    with pytest.raises(ModelError, match="the conversation: ") as raised:
        await models.ask(scoring_request("multi_turn_task_success_v1", agent_data={"turns": 7}))

    assert raised.value.trouble is Trouble.REFUSED
    assert not server.calls


@pytest.mark.needs_vertex
@pytest.mark.parametrize(
    ("response", "trouble"),
    [
        (gemini_error(403, "no permission"), Trouble.DENIED),
        (gemini_error(404, "no such project"), Trouble.UNKNOWN_MODEL),
        (gemini_error(400, "bad"), Trouble.REFUSED),
        (gemini_error(503, "later"), Trouble.UNAVAILABLE),
        (gemini_error(429, "quota"), Trouble.LIMITED),
        (HttpResponse("<html>"), Trouble.UNAVAILABLE),
        (HttpResponse({}), Trouble.EMPTY),
        (HttpResponse({"metricResults": []}), Trouble.EMPTY),
        (HttpResponse({"metricResults": [{"explanation": "?"}]}), Trouble.EMPTY),
        (HttpResponse({"metricResults": [{"error": {"code": 8, "message": "quota"}}]}), Trouble.LIMITED),
        (HttpResponse({"metricResults": [{"error": {"code": 3, "message": "bad"}}]}), Trouble.REFUSED),
    ],
)
async def test_each_scoring_failure_becomes_its_kind_of_trouble(
    serve: Serve, open_models: OpenModels, response: HttpResponse, trouble: Trouble
) -> None:
    server = serve(lambda _: response)
    models = open_models(server, environment=environment_with_key(server), options={"tries": 2})

    with pytest.raises(ModelError) as raised:
        await models.ask(scoring_request("safety_v1", prompt="p", response="r"))

    assert raised.value.trouble is trouble
    assert len(server.calls) == (2 if trouble.is_temporary else 1)


@pytest.mark.needs_vertex
async def test_the_configured_project_is_called_with_default_credentials(
    serve: Serve, open_models: OpenModels, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def answer(call: Call) -> HttpResponse:
        if call.path == "/token":
            return HttpResponse({"access_token": "of-the-account", "expires_in": 3600, "token_type": "Bearer"})
        return HttpResponse(SCORED)

    server = serve(answer)
    account = tmp_path / "account.json"
    account.write_text(json.dumps(make_service_account(f"{server.url}/token")), encoding="utf-8")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(account))
    environment = {
        "GOOGLE_CLOUD_PROJECT": "my-project",
        "GOOGLE_CLOUD_LOCATION": "europe-west4",
        "GOOGLE_VERTEX_BASE_URL": server.url,
    }

    await open_models(server, environment=environment).ask(scoring_request("safety_v1", prompt="p", response="r"))

    call = server.calls[-1]
    assert "projects/my-project/locations/europe-west4" in call.path
    assert call.headers["authorization"] == "Bearer of-the-account"


def make_service_account(token_uri: str) -> dict[str, str]:
    """Return the credentials of an invented account with a new key."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return {
        "type": "service_account",
        "project_id": "another-project",
        "private_key_id": "1",
        "private_key": key.decode(),
        "client_email": "judge@another-project.iam.gserviceaccount.com",
        "client_id": "1",
        "token_uri": token_uri,
    }
