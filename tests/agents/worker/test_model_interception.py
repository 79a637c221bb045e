"""Requests and answers of models as data, without credentials."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from workbench.agents.worker.model_interception import Copy, InterceptedModels, Request

SIGNATURE = "0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c4b5a69788796a5b4c3d2e1f0"
AWS = (
    "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE12345/20261126/us-east-1/bedrock/aws4_request, "
    f"SignedHeaders=content-type;host;x-amz-date, Signature={SIGNATURE}"
)


def make_request(headers: dict[str, str], body: str = "hello", url: str = "https://m.example/v1") -> Request:
    return Request("POST", url, headers.items(), body)


def copy_answer(request: Request, text: str) -> str:
    """Return the text that is recorded of an answer."""
    reported: list[Any] = []
    models: Any = SimpleNamespace(report=lambda answer, outcome: reported.append(outcome))
    copy = Copy(models, {}, request)
    copy.begin(200, [])
    copy.add(text.encode())
    copy.end()
    return "".join(chunk for _, chunk in reported[0]["chunks"])


@pytest.mark.parametrize(
    ("headers", "text"),
    [
        ({"Authorization": AWS}, "The Signature, the Credential and the SignedHeaders content-type and x-amz-date"),
        ({"Authorization": AWS}, "AWS4-HMAC-SHA256 with aws4_request in us-east-1"),
        ({"Authorization": "Bearer anything"}, "I can do anything for the Bearer"),
        ({"x-api-key": "not-needed"}, "a key is not-needed"),
        ({"Cookie": "preferences=dark; session_id=a1b2c3d4e5"}, "your preferences of the session_id"),
    ],
)
def test_words_that_are_no_credentials_stay_in_requests_and_answers(headers: dict[str, str], text: str) -> None:
    request = make_request(headers, text)

    assert request.body == text
    assert copy_answer(request, text) == text


@pytest.mark.parametrize(
    ("headers", "secret"),
    [
        ({"Authorization": AWS}, SIGNATURE),
        ({"Authorization": AWS}, "AKIDEXAMPLE12345"),
        ({"Authorization": AWS}, AWS),
        ({"Authorization": "Bearer sk-0123456789abcdef"}, "sk-0123456789abcdef"),
        ({"authorization": "sk-0123456789abcdef"}, "sk-0123456789abcdef"),
        ({"Authorization": "Bearer abcdefghijkl"}, "abcdefghijkl"),
        ({"Authorization": "Basic YWxhZGRpbjpvcGVu=="}, "YWxhZGRpbjpvcGVu"),
        ({"Authorization": 'Token token="a1b2c3d4e5", other=1'}, "a1b2c3d4e5"),
        ({"x-api-key": "abcdefgh=ijklmnop1"}, "abcdefgh=ijklmnop1"),
        ({"x-goog-api-key": "AIza12345678"}, "AIza12345678"),
        ({"x-auth-token": "correcthorsebattery staple"}, "correcthorsebattery"),
        ({"Cookie": "theme=dark; session=a1b2c3d4e5"}, "a1b2c3d4e5"),
        ({}, "a1b2c3d4e5"),
    ],
)
def test_credentials_are_hidden_in_requests_and_answers(headers: dict[str, str], secret: str) -> None:
    request = make_request(headers, f"<{secret}>", "https://user12345:a1b2c3d4e5@m.example/v1?key=a1b2c3d4e5")

    assert request.describe() == {"method": "POST", "url": "https://m.example/v1", "body": "<[redacted]>"}
    assert copy_answer(request, f"<{secret}>") == "<[redacted]>"


ROLES = [{"role": "user", "content": "hello"}]
LOCAL = "http://localhost:9999"


@pytest.mark.parametrize(
    ("url", "body", "expected"),
    [
        (f"{LOCAL}/api/chat", {"model": "llama", "messages": ROLES}, "covered"),
        (f"{LOCAL}/api/generate", {"model": "llama", "prompt": "hello"}, "covered"),
        (f"{LOCAL}/ask", {"model": "m", "messages": ROLES}, "covered"),
        (f"{LOCAL}/ask", {"model": "m", "prompt": "hello"}, "likely"),
        (f"{LOCAL}/generate", {"inputs": "hello"}, "likely"),
        (f"{LOCAL}/completion?stream=1", {"prompt": "hello"}, "likely"),
        (f"{LOCAL}/model/m/converse", {"messages": ROLES}, "likely"),
        (f"{LOCAL}/v1/models/m:rawPredict", {"messages": ROLES}, "likely"),
        (f"{LOCAL}/api/chat", {"text": "hello"}, None),
        (f"{LOCAL}/cars", {"model": "Golf", "message": "broken"}, None),
        (f"{LOCAL}/tools/search", {"messages": ROLES}, None),
        (f"{LOCAL}/api/generate", None, None),
    ],
)
def test_a_request_at_an_unknown_address_is_known_by_what_it_says(url: str, body: Any, expected: str | None) -> None:
    models = InterceptedModels(None, {"endpoints": ["known"]}, None)  # type: ignore[arg-type]
    sent = json.dumps(body).encode() if body else b"prompt=hello"

    assert models.covers("POST", url, sent) == (expected == "covered")
    assert models.concerns("POST", url, sent) == (expected is not None)
    assert models.concerns("POST", url, body) == (expected is not None), "aiohttp gives the object"
    assert not models.concerns("PUT", url, sent)
    assert models.describe(Request("POST", url, {}.items(), sent)).get("is_likely", False) == (expected != "covered")
