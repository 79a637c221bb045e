"""Which requests are the same, what differs, and what answers the calls of a case."""

from __future__ import annotations

import asyncio
import copy
import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.agents.agent_host import AgentError
from workbench.llm.prompt_templates import OwnPrice, Prices
from workbench.model.identity import CaseKey, JobKey
from workbench.model.results import FailureKind, RequestDifference
from workbench.model.target import ModelMode
from workbench.model.trace import Span, SpanKind
from workbench.simulation.replayed_models import (
    ENDPOINTS,
    CaseModels,
    ModelPlan,
    RequestRules,
    calculate_cost,
    find_differences,
)
from workbench.store.model_answers import RecordedModelCall, RecordedModels

JOB = JobKey(CaseKey(target="t", eval_set="s.evalset.json", eval_id="c"))

Json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(min_size=1), inner, max_size=4),
    max_leaves=12,
)


def make_request(text: str = "hello", **body: Any) -> dict[str, Any]:
    instruction = {"role": "system", "content": "You are nice.\nBe short."}
    messages = [instruction, {"role": "user", "content": text}]
    return {"method": "POST", "url": "http://m/v1/chat/completions", "body": {"messages": messages, **body}}


def make_response(text: str, *, status: int = 200) -> dict[str, Any]:
    return {"status": status, "headers": {}, "chunks": [[0.1, text]]}


def record(*calls: tuple[dict[str, Any], dict[str, Any]]) -> RecordedModels:
    return RecordedModels.of_job(
        JOB, [RecordedModelCall(request=request, response=response, seconds=2.0) for request, response in calls]
    )


def open_case(recorded: RecordedModels | None, mode: ModelMode = ModelMode.AUTO, **plan: Any) -> CaseModels:
    async def read() -> RecordedModels | None:
        return recorded

    return CaseModels(ModelPlan(mode=mode, prices=Prices(), **plan), JOB, read)


def answer(case: CaseModels, number: int, request: dict[str, Any]) -> Any:
    return asyncio.run(case.answer(number, request))


def reverse_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: reverse_keys(value[key]) for key in reversed(value)}
    return [reverse_keys(item) for item in value] if isinstance(value, list) else value


# Identity.


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


def test_further_addresses_are_hosts_or_begins_of_addresses() -> None:
    import re

    endpoints = open_case(None, endpoints=("models.corp.example", "https://*.example.org/llm/")).interception[
        "endpoints"
    ]

    def is_model(url: str) -> bool:
        return any(re.search(each, url, re.IGNORECASE) for each in endpoints)

    assert is_model("https://models.corp.example/ask")
    assert is_model("https://a.example.org/llm/x")
    assert not is_model("https://a.example.org/tools/x")
    assert not is_model("https://evil.example/?models.corp.example")


# Differences.


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
    ],
    ids=["instruction", "new line", "line that is gone", "message", "parameter", "model", "tool"],
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


def test_a_date_or_a_random_id_in_the_prompt_is_named_with_what_to_declare() -> None:
    for before, now, looks in (
        ("Today is 2026-11-26.", "Today is 2026-11-27.", "a date or time"),
        ("id 0a1b2c3d4e5f60718293", "id ffffffffffffffff0000", "a random id"),
    ):
        case = open_case(record((make_request(before), make_response("a"))))
        assert answer(case, 1, make_request(now)) is None

        assert case.difference is not None
        assert f"it looks like {looks}" in str(case.difference)
        assert "[replay] volatile_texts" in str(case.difference)


# Answers.


def test_equal_requests_get_their_answers_in_order_whatever_else_is_asked_between() -> None:
    a, b = make_request("a"), make_request("b")
    case = open_case(record((a, make_response("1")), (b, make_response("2")), (a, make_response("3"))))

    answers = [answer(case, number, request) for number, request in enumerate((b, a, a))]

    assert [answer["chunks"][0][1] for answer in answers if answer] == ["2", "1", "3"]
    assert (case.counts.live, case.counts.replayed, case.counts.saved_seconds) == (0, 3, 6.0)
    assert not case.is_worth_storing


def test_the_same_request_in_another_turn_is_another_one() -> None:
    case = open_case(record((make_request(), make_response("1"))))
    case.begin_turn(1)

    assert answer(case, 1, make_request()) is None


def test_auto_asks_the_models_from_the_first_request_that_differs() -> None:
    a, b = make_request("a"), make_request("b")
    case = open_case(record((a, make_response("1")), (b, make_response("2"))))

    assert answer(case, 1, a) is not None
    assert answer(case, 2, make_request("other")) is None
    assert answer(case, 3, b) is None, "its answer may depend on the one before"
    case.record_outcome(2, {**make_response("new"), "seconds": 1.0})
    case.record_outcome(3, {**make_response("new too"), "seconds": 1.0})

    assert case.difference == RequestDifference(call=2, turn=0, what="message 2 (user)", before="b", now="other")
    sentence = 'model call 2 differs from the recording: message 2 (user) changed: "b" became "other"'
    assert str(case.difference) == sentence
    assert (case.counts.live, case.counts.replayed) == (2, 1)
    assert case.is_worth_storing
    assert [call.request["body"]["messages"][1]["content"] for call in case.build_recording(Prices()).calls] == [
        "a",
        "other",
        "b",
    ]


def test_replay_refuses_what_is_not_recorded() -> None:
    case = open_case(record((make_request("a"), make_response("1"))), ModelMode.REPLAY)

    with pytest.raises(AgentError, match="message 2") as caught:
        answer(case, 1, make_request("b"))

    assert caught.value.failure.kind is FailureKind.REPLAY
    assert case.counts.live == 0


def test_replay_says_what_is_missing() -> None:
    with pytest.raises(AgentError, match="nothing is recorded for this case and repeat"):
        answer(open_case(None, ModelMode.REPLAY), 1, make_request())

    case = open_case(record((make_request(), make_response("1"))), ModelMode.REPLAY)
    answer(case, 1, make_request())
    with pytest.raises(AgentError, match="model call 2 was not made when the case was recorded"):
        answer(case, 2, make_request())


def test_auto_leaves_out_failed_tries_and_replay_repeats_them() -> None:
    request = make_request()
    recorded = record((request, make_response("busy", status=429)), (request, make_response("fine")))

    auto, strict = open_case(recorded), open_case(recorded, ModelMode.REPLAY)

    assert (answer(auto, 1, request) or {})["status"] == 200
    assert [(answer(strict, number, request) or {})["status"] for number in (1, 2)] == [429, 200]


@pytest.mark.parametrize("outcome", [{"error": "ConnectError: refused"}, {**make_response("half"), "cut": True}])
def test_an_answer_that_is_not_whole_is_never_replayed(outcome: dict[str, Any]) -> None:
    case = open_case(None)
    answer(case, 1, make_request())
    case.record_outcome(1, outcome)

    assert not case.is_worth_storing


def test_an_error_in_the_recording_is_no_answer() -> None:
    recorded = RecordedModels.of_job(JOB, [RecordedModelCall(request=make_request(), error="ConnectError")])

    assert answer(open_case(recorded), 1, make_request()) is None
    with pytest.raises(AgentError):
        answer(open_case(recorded, ModelMode.REPLAY), 1, make_request())


# Costs.


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


def test_costs_of_replayed_calls_are_summed() -> None:
    calls = [
        RecordedModelCall(request=make_request(text), response=make_response("a"), cost=cost)
        for text, cost in (("a", 0.5), ("b", None), ("c", 0.25))
    ]
    case = open_case(RecordedModels.of_job(JOB, calls))
    for number, text in enumerate("abc"):
        answer(case, number, make_request(text))

    assert case.counts.saved_cost == 0.75


def test_texts_that_only_look_like_secrets_stay_different_requests_and_true_answers() -> None:
    asked = make_request("log in with password: hunter22x")
    first = open_case(None)
    answer(first, 1, asked)
    first.record_outcome(1, make_response("use api_key=abcdef123456 now"))
    recorded = first.build_recording(Prices())

    assert "hunter22x" not in recorded.format_lines()
    again = open_case(recorded)
    assert answer(again, 1, make_request("log in with password: other999z")) is None
    assert answer(open_case(recorded), 1, asked)["chunks"][0][1] == "use api_key=abcdef123456 now"


def test_fields_of_known_protocols_count_at_other_addresses() -> None:
    rules = RequestRules()
    one, two = ({"method": "POST", "url": "u", "body": {"user": text}} for text in ("what is 1?", "what is 2?"))

    assert rules.identify(one) != rules.identify(two)


def test_a_call_without_answer_that_was_repeated_is_left_out() -> None:
    request = make_request()
    case = open_case(None)
    for number, outcome in enumerate(({"error": "ConnectError"}, make_response("fine")), start=1):
        answer(case, number, request)
        case.record_outcome(number, outcome)

    assert case.is_worth_storing
    for mode in (ModelMode.AUTO, ModelMode.REPLAY):
        replayed = open_case(case.build_recording(Prices()), mode)
        assert answer(replayed, 1, request)["chunks"][0][1] == "fine"


def test_an_error_is_recorded_without_the_key_in_its_address() -> None:
    case = open_case(None)
    answer(case, 1, make_request())
    case.record_outcome(1, {"error": "ConnectError: https://m/v1?api_key=sk-averysecretkey-0123456789 refused"})

    (call,) = case.build_recording(Prices()).calls
    assert call.error is not None and call.error.startswith("ConnectError")
    assert "averysecretkey" not in call.error


# Steps of the trace.


def make_step(id: str, start: float, end: float, **more: Any) -> Span:
    return Span(**{"id": id, "kind": SpanKind.MODEL, "start": start, "end": end, **more})


def test_a_call_is_a_step_with_its_text_tokens_and_error() -> None:
    url = "https://generativelanguage.googleapis.com/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse"
    request = {"method": "POST", "url": url, "body": {"contents": [{"parts": [{"text": "hello" * 10_000}]}]}}
    usage = {"promptTokenCount": 5, "candidatesTokenCount": 3, "totalTokenCount": 8}
    answers = [
        {"candidates": [{"content": {"parts": [{"text": text}]}}], "usageMetadata": usage} for text in ("Hel", "lo")
    ]
    chunks = [[0.1, f"data: {json.dumps(each)}\n\n"] for each in answers]
    case = open_case(None)
    for number, (status, texts) in enumerate(((429, []), (200, chunks))):
        answer(case, number, request)
        case.record_outcome(number, {"status": status, "headers": {}, "chunks": texts, "seconds": 0.5})

    failed, step = case.complete_trace([])

    assert failed.error == "HTTP 429"
    assert (step.name, step.response, step.error) == ("generate_content gemini-2.5-flash", {"text": "Hello"}, None)
    assert step.attributes["usage"] == {"prompt": 5, "candidates": 3, "total": 8}
    assert step.duration == pytest.approx(0.5)
    assert len(step.request["contents"][0]["parts"][0]["text"]) == 20_000, "a trace needs no whole pictures"


def test_calls_that_the_agent_reports_are_no_steps_of_their_own() -> None:
    case = open_case(None)
    for number in range(3):
        answer(case, number, make_request(str(number)))
        time.sleep(0.2)
    around = make_step("agent", 0.0, 3.0, kind=SpanKind.AGENT)
    outer, inner = make_step("outer", 0.19, 0.3, parent_id="agent"), make_step("inner", 0.2, 0.3, parent_id="outer")

    reported = [around, outer, outer, inner]
    steps = case.complete_trace(reported)

    assert list(steps[:4]) == reported
    assert [(step.id, step.parent_id) for step in steps[4:]] == [("model-call-0", "agent"), ("model-call-2", "agent")]
    late = case.complete_trace([make_step("late", 2.4, 2.5)])
    assert [step.id for step in late] == ["late", "model-call-0", "model-call-1"], "clocks of two processes differ"


def test_steps_of_the_agent_are_marked_if_their_calls_were_replayed() -> None:
    a = make_request("a")
    case = open_case(record((a, make_response("1"))))
    answer(case, 0, a)
    time.sleep(0.2)
    answer(case, 1, make_request("b"))

    steps = case.complete_trace([make_step("first", 0.0, 0.01), make_step("second", 0.2, 0.3)])

    assert [(step.id, step.simulator) for step in steps] == [("first", "replayed"), ("second", None)]
