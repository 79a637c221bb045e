"""Requests to models as data: which are the same, what differs, and what they cost."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.simulation.model_calls import make_request, make_response
from workbench.llm.prompt_templates import OwnPrice, Prices
from workbench.simulation.model_requests import ENDPOINTS, RequestRules, calculate_cost, find_differences, is_failure

Json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(min_size=1), inner, max_size=4),
    max_leaves=12,
)


def reverse_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: reverse_keys(value[key]) for key in reversed(value)}
    return [reverse_keys(item) for item in value] if isinstance(value, list) else value


@given(Json)
def test_the_order_of_keys_does_not_matter(body: Any) -> None:
    rules = RequestRules()
    request = {"method": "POST", "url": "u", "body": body}

    assert rules.identify(request) == rules.identify(reverse_keys(request))


@given(Json, Json)
def test_requests_are_the_same_exactly_if_no_difference_is_found(before: Any, now: Any) -> None:
    rules = RequestRules()
    old, new = ({"method": "POST", "url": "u", "body": {"contents": body}} for body in (before, now))

    assert (rules.identify(old) == rules.identify(new)) == (not find_differences(old, new))


@pytest.mark.parametrize(
    ("fields", "texts", "changed"),
    [
        pytest.param((), (), make_request(metadata={"run": 2}), id="metadata does not reach the model"),
        pytest.param(("extra.trace",), (), make_request(extra={"trace": "b"}), id="a declared field"),
        pytest.param(("messages.*.id",), (), {**make_request()}, id="a field of any item"),
        pytest.param((), (r"\d{4}-\d\d-\d\d",), make_request("today is 2026-11-27"), id="a declared text"),
    ],
)
def test_what_is_volatile_does_not_matter(fields: tuple[str, ...], texts: tuple[str, ...], changed: Any) -> None:
    before = copy.deepcopy(changed)
    body = before["body"]
    body["metadata"] = {"run": 1}
    if "extra" in body:
        body["extra"]["trace"] = "a"
    if "messages.*.id" in fields:
        body["messages"][1]["id"] = "x"
    body["messages"][1]["content"] = body["messages"][1]["content"].replace("27", "26")
    rules = RequestRules(volatile_fields=fields, volatile_texts=texts)

    assert rules.identify(before) == rules.identify(changed)
    assert not fields or RequestRules().identify(before) != RequestRules().identify(changed)


@pytest.mark.parametrize(
    ("url", "is_model"),
    [
        ("https://generativelanguage.googleapis.com/v1beta/models/gemini-2.5-flash:generateContent", True),
        ("https://us-central1-aiplatform.googleapis.com/v1/projects/p/locations/l/publishers/google/models/m:x", True),
        ("https://api.openai.com/v1/responses", True),
        ("https://name.openai.azure.com/openai/deployments/d/chat/completions?api-version=1", True),
        ("https://api.anthropic.com/v1/messages", True),
        ("http://localhost:4000/v1/chat/completions", True),
        ("http://localhost:11434/api/chat", True),
        ("https://bedrock-runtime.eu-west-1.amazonaws.com/model/m/converse", True),
        ("https://api.weather.example/v1/forecast", False),
        ("https://storage.googleapis.com/bucket/file", False),
        ("https://example.com/search?q=api.openai.com/", False),
    ],
)
def test_addresses_of_models_are_known(url: str, is_model: bool) -> None:
    import re

    assert any(re.search(each, url, re.IGNORECASE) for each in ENDPOINTS.values()) == is_model


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda body: body["messages"][0].update(content="You are nice.\nBe long."),
         ("instruction, line 2", "Be short.", "Be long.")),
        (lambda body: body["messages"][0].update(content="You are nice.\nAlways.\nBe short."),
         ("instruction, line 2", None, "Always.")),
        (lambda body: body["messages"][0].update(content="Be short."), ("instruction, line 1", "You are nice.", None)),
        (lambda body: body["messages"][1].update(content="bye"), ("message 2 (user)", "hello", "bye")),
        (lambda body: body.update(temperature=0.5), ("parameter temperature", None, "0.5")),
        (lambda body: body.update(model="other"), ("model", "m", "other")),
        (lambda body: body["tools"][0]["function"].update(description="Rolls dice."),
         ("tool roll", "Rolls a die.", "Rolls dice.")),
        (lambda body: body["messages"][0].update(content=["You are nice.\nBe short."]),
         ("instruction", '"You are nice.\\nBe short."', '["You are nice.\\nBe short."]')),
    ],
    ids=["instruction", "new line", "line that is gone", "message", "parameter", "model", "tool", "type"],
)  # fmt: skip
def test_a_difference_is_named_as_people_think_of_it(change: Any, expected: tuple[str, ...]) -> None:
    tools = [{"type": "function", "function": {"name": "roll", "description": "Rolls a die."}}]
    before = make_request(model="m", tools=tools)
    now = copy.deepcopy(before)
    change(now["body"])

    assert [(each.what, each.before, each.now) for each in find_differences(before, now)] == [expected]


def test_the_instruction_comes_before_the_messages_and_the_parameters() -> None:
    before = {"method": "G", "url": "u", "body": {"contents": [1], "config": {"top_k": 1, "system_instruction": "a"}}}
    now = {"method": "G", "url": "u", "body": {"contents": [2], "config": {"top_k": 2, "system_instruction": "b"}}}

    assert [each.what for each in find_differences(before, now)] == ["instruction", "message 1", "parameter top_k"]


@pytest.mark.parametrize(
    ("url", "body", "response"),
    [
        (
            "adk:Gemini",
            {"model": "m"},
            {"items": [[0.1, {"usage_metadata": {"prompt_token_count": 1000, "candidates_token_count": 100}}]]},
        ),
        (
            "https://generativelanguage.googleapis.com/v1beta/models/m:streamGenerateContent",
            {},
            make_response(
                'data: {"usageMetadata": {"promptTokenCount": 1000}}\n\n'
                'data: {"usageMetadata": {"promptTokenCount": 1000, "candidatesTokenCount": 100}}\n\n'
            ),
        ),
        (
            "http://localhost/v1/chat/completions",
            {"model": "m"},
            make_response('{"usage": {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100}}'),
        ),
        (
            "https://gateway/v1/messages",
            {"model": "m"},
            make_response(
                'event: message_start\ndata: {"message": {"usage": {"input_tokens": 1000, "output_tokens": 1}}}\n\n'
                'data: {"type": "message_delta", "usage": {"output_tokens": 100}}\n\ndata: [DONE]\n'
            ),
        ),
    ],
    ids=["ADK", "a stream of Gemini", "OpenAI", "a stream of Anthropic"],
)
def test_the_cost_of_a_call_is_that_of_the_tokens_in_its_answer(url: str, body: Any, response: Any) -> None:
    prices = Prices({"m": OwnPrice(1.0, 10.0)})

    assert calculate_cost({"method": "POST", "url": url, "body": body}, response, prices) == pytest.approx(0.002)


def test_the_cost_is_unknown_without_tokens_or_price() -> None:
    priced = {"method": "POST", "url": "u", "body": {"model": "m"}}

    assert calculate_cost(priced, make_response("{}"), Prices({"m": OwnPrice(1.0, 1.0)})) is None
    answer = make_response('{"usage": {"prompt_tokens": 1, "completion_tokens": 1}}')
    assert calculate_cost(priced, answer, Prices()) is None


def test_fields_of_known_protocols_count_at_other_addresses() -> None:
    rules = RequestRules()
    one, two = ({"method": "POST", "url": "u", "body": {"user": text}} for text in ("what is 1?", "what is 2?"))

    assert rules.identify(one) != rules.identify(two)


@pytest.mark.parametrize(
    ("before", "now", "looks"),
    [
        ("Today is 2026-11-26.", "Today is 2027-01-02.", "a date or time"),
        ("It is 2026-11-26 06:18:57.230227 now", "It is 2026-11-26 06:19:00.71 now", "a date or time"),
        ("At 2026-11-26T06:18:57+01:00", "At 2026-11-26T06:18:57Z", "a date or time"),
        ("Thursday, November 26, 2026, 6:18 pm", "Friday, Dec 4, 2026, 11:02 am", "a date or time"),
        ("seed 1764137937.23", "seed 1764137999.1", "a date or time"),
        ("run 0f8fad5bd9cb469fa16570867728950e", "run 7c9e6679742540de944be07fc1f90ae7", "a random id"),
        (
            "2026-11-26 run 0f8fad5b-d9cb-469f-a165-70867728950e",
            "2026-11-27 run 7c9e6679-7425-40de-944b-e07fc1f90ae7",
            "dates and ids",
        ),
        ("Be nice.", "Be brief.", None),
        ("Roll 2 dice.", "Roll 3 dice.", None),
    ],
)
def test_a_date_or_a_random_id_is_named_with_what_to_declare(before: str, now: str, looks: str | None) -> None:
    (found,) = find_differences(make_request(before), make_request(now))

    assert (found.hint is None) == (looks is None)
    if looks is not None:
        assert f"it looks like {looks}: if it does not matter, declare it in [replay] volatile_texts" in str(found.hint)
        assert "(messages.1.content)" in str(found.hint)


@pytest.mark.parametrize(
    ("name", "values", "looks"),
    [("at", (1764137937, 1764137999), "a date or time"), ("seed", (1, 2), "a random number")],
)
def test_a_number_that_differs_each_time_is_declared_as_a_field(name: str, values: tuple[int, int], looks: str) -> None:
    before, now = ({"method": "G", "url": "u", "body": {"config": {name: value}}} for value in values)

    (found,) = find_differences(before, now)

    assert (found.before, found.now) == tuple(map(str, values))
    how = f"declare the whole field in [replay] volatile_fields (config.{name})"
    assert found.hint == f"it looks like {looks}: if it does not matter, {how}"


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        ("application/json", '{"choices": [{"message": {"content": "an error"}}], "error": null}', False),
        ("application/json", "[[0.1, 0.2]]", False),
        ("application/x-ndjson", '{"message": {}}\n{"done": true}\n', False),
        ("text/event-stream", 'data: {"choices": []}\n\ndata: [DONE]\n\n', False),
        ("text/event-stream", ": a comment\n\n", False),
        ("text/plain", "A transcription", False),
        ("application/json", '{"error": {"message": "overloaded"}}', True),
        ("text/event-stream", 'data: {"choices": []}\n\ndata: {"type": "error", "error": {}, "code": 1}\n\n', False),
        ("text/event-stream", 'event: error\ndata: {"type": "error", "error": {"type": "overloaded_error"}}\n\n', True),
        ("application/json", '{"choices": [{"mess', True),
        ("application/json", "", True),
        ("application/json", "null", True),
        ("text/html", "Sign in", True),
        ("", "<!DOCTYPE html><title>Sign in</title>", True),
    ],
)
def test_an_error_of_a_gateway_with_a_good_status_is_a_failure(kind: str, text: str, expected: bool) -> None:
    response = {"status": 200, "headers": {"content-type": kind} if kind else {}, "chunks": [[0.1, text]]}

    assert is_failure(response) is expected


def test_a_failure_has_a_status_and_an_answer_in_bytes_is_none() -> None:
    assert is_failure({"status": 503, "chunks": []})
    assert not is_failure({"status": 200, "headers": {}, "chunks": [[0.1, {"base64": "AAAA"}]]})
    assert not is_failure({"items": []})
    assert not is_failure(None)
