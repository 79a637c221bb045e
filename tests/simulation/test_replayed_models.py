"""What answers the model calls of a case, what is recorded of them, and their steps in the trace."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.simulation.model_calls import make_request, make_response
from workbench.agents.agent_host import AgentError
from workbench.llm.prompt_templates import Prices
from workbench.model.identity import CaseKey, JobKey
from workbench.model.results import FailureKind, ModelCalls, RequestDifference
from workbench.model.target import ModelMode
from workbench.model.trace import Span, SpanKind
from workbench.simulation.replayed_models import CaseModels, ModelPlan, RunModels, hash_calls
from workbench.store.model_answers import CallKind, RecordedCalls, RecordedModelCall, RecordedModels

JOB = JobKey(CaseKey(target="t", eval_set="s.evalset.json", eval_id="c"))


def record(*calls: tuple[dict[str, Any], dict[str, Any]]) -> RecordedModels:
    made = (RecordedModelCall(request=request, response=response, seconds=2.0) for request, response in calls)
    return RecordedCalls(CallKind.MODELS, JOB, tuple(made))


def open_case(
    recorded: RecordedModels | None,
    mode: ModelMode = ModelMode.AUTO,
    *,
    older: Sequence[RecordedModels] = (),
    **plan: Any,
) -> CaseModels:
    async def read() -> list[RecordedModels]:
        return [] if recorded is None else [recorded, *older]

    return CaseModels(ModelPlan(mode=mode, prices=Prices(), **plan), JOB, read)


def answer(case: CaseModels, number: int, request: dict[str, Any]) -> Any:
    return asyncio.run(case.answer(number, request))


def test_further_addresses_are_hosts_or_begins_of_addresses() -> None:
    endpoints = open_case(None, endpoints=("models.corp.example", "https://*.example.org/llm/")).interception[
        "endpoints"
    ]

    def is_model(url: str) -> bool:
        return any(re.search(each, url, re.IGNORECASE) for each in endpoints)

    assert is_model("https://models.corp.example/ask")
    assert is_model("https://a.example.org/llm/x")
    assert not is_model("https://a.example.org/tools/x")
    assert not is_model("https://evil.example/?models.corp.example")


# Answers.


def test_equal_requests_get_their_answers_in_order_whatever_else_is_asked_between() -> None:
    a, b = make_request("a"), make_request("b")
    case = open_case(record((a, make_response("1")), (b, make_response("2")), (a, make_response("3"))))

    answers = [answer(case, number, request) for number, request in enumerate((b, a, a))]

    assert [answer["chunks"][0][1] for answer in answers if answer] == ["2", "1", "3"]
    assert (case.counts.live, case.counts.replayed, case.counts.saved_seconds) == (0, 3, 6.0)
    assert not case.is_worth_storing


def test_the_recording_of_a_replay_is_the_one_that_answered_and_the_order_of_calls_does_not_matter() -> None:
    a, b = (make_request("a"), make_response("1")), (make_request("b"), make_response("2"))
    short, swapped, live = open_case(record(a, b)), open_case(record(b, a)), open_case(None)
    assert open_case(record(a, b)).identify_recording() is None, "no model was called"

    answer(short, 1, make_request("b"))  # only one of the two
    answer(swapped, 1, make_request("b"))
    answer(live, 1, make_request("a"))
    live.record_outcome(1, {**make_response("1"), "seconds": 1.0})

    assert short.identify_recording() == swapped.identify_recording() == hash_calls(record(a, b).calls)
    assert live.identify_recording() == hash_calls(record(a).calls) != hash_calls(record(b).calls)


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


def test_an_older_recording_answers_if_it_has_all_calls_and_gave_the_same_answers() -> None:
    a, b, c, d = map(make_request, "abcd")
    newest = record((a, make_response("1")), (b, make_response("2")))
    other = record((a, make_response("another")), (c, make_response("3")))
    older = record((a, make_response("1")), (c, make_response("4")), (d, make_response("5")))

    case = open_case(newest, older=[other, older])
    answers = [answer(case, number, request) for number, request in enumerate((a, c, d))]

    assert answers == [make_response("1"), make_response("4"), make_response("5")]
    assert case.counts.replayed == 3
    assert case.is_worth_storing, "it becomes the newest"
    assert answer(case, 4, b) is None, "no recording has all of them"
    assert "model call 4 was not made" in str(case.difference)


def test_a_request_that_no_recording_has_is_compared_with_the_newest() -> None:
    newest, older = (record((make_request(text), make_response("1"))) for text in ("new", "old"))
    case = open_case(newest, older=[older])

    assert answer(case, 1, make_request("newest")) is None
    assert case.difference is not None and case.difference.before == "new"


def test_only_the_first_turns_of_a_chat_are_replayed() -> None:
    case = open_case(record((make_request(), make_response("recorded"))), turns=1)

    assert answer(case, 1, make_request()) == make_response("recorded")
    case.begin_turn(1)
    assert answer(case, 2, make_request()) is None

    assert (case.difference, case.count_live_calls(0), case.count_live_calls(1)) == (None, 0, 1)


def test_a_model_of_the_agents_own_that_was_not_recorded_leaves_the_others_replayed() -> None:
    own = {**make_request(), "method": "GENERATE", "url": "adk:agent.Own"}
    case = open_case(record((make_request(), make_response("recorded"))), turns=1)

    assert case.interception["own_models"]
    assert answer(case, 1, own) is None
    assert answer(case, 2, make_request()) == make_response("recorded")


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


def test_an_error_in_the_recording_is_no_answer_and_is_named() -> None:
    call = RecordedModelCall(request=make_request(), error="ConnectError: refused\nby the host")
    recorded = RecordedCalls(CallKind.MODELS, JOB, (call,))
    automatic = open_case(recorded)
    message = "model call 1 ended in an error when it was recorded (ConnectError: refused), which cannot be replayed"

    assert answer(automatic, 1, make_request()) is None
    assert str(automatic.difference) == message
    with pytest.raises(AgentError, match=re.escape(message)):
        answer(open_case(recorded, ModelMode.REPLAY), 1, make_request())


@pytest.mark.parametrize("status", [400, 401, 429, 503])
def test_auto_neither_keeps_nor_replays_an_outage_that_lasted(status: int) -> None:
    fine, failed = make_request("a"), make_request("b")
    case = open_case(None)
    for number, (request, got) in enumerate(((fine, 200), (failed, status))):
        answer(case, number, request)
        case.record_outcome(number, make_response("said", status=got))
    assert not case.is_worth_storing

    again = open_case(case.build_recording(Prices()))
    assert answer(again, 1, fine) is not None
    assert answer(again, 2, failed) is None
    assert f"(HTTP {status})" in str(again.difference)


def test_a_branch_repeats_an_outage_that_its_turns_had() -> None:
    busy, request = make_response("busy", status=503), make_request()

    assert answer(open_case(record((request, busy)), turns=1), 1, request) == busy
    retried = open_case(record((request, busy), (request, make_response("fine"))), turns=1)
    assert answer(retried, 1, request) == make_response("fine")


def test_a_failure_after_the_same_request_got_an_answer_is_an_outage() -> None:
    case = open_case(None)
    for number, status in enumerate((200, 503)):
        answer(case, number, make_request())
        case.record_outcome(number, make_response("said", status=status))

    assert not case.is_worth_storing


# Writing.


async def make_case(models: RunModels, text: str) -> CaseModels:
    case = models.open(JOB)
    assert await case.answer(1, make_request()) is None
    case.record_outcome(1, make_response(text))
    return case


def slow_down(case: CaseModels, monkeypatch: pytest.MonkeyPatch) -> None:
    build = case.build_recording

    def build_slowly(prices: Prices | None) -> RecordedModels:
        time.sleep(0.3)
        return build(prices)

    monkeypatch.setattr(case, "build_recording", build_slowly)


def test_a_case_that_is_cancelled_while_it_waits_does_not_stop_the_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> Any:
        models = RunModels(ModelPlan(mode=ModelMode.AUTO, prices=Prices()), tmp_path, warn=pytest.fail)
        case = await make_case(models, "said")
        slow_down(case, monkeypatch)
        models.keep(case, None)
        waiting = asyncio.create_task(models.open(JOB).answer(1, make_request()))
        await asyncio.sleep(0.05)
        waiting.cancel()
        answer = await models.open(JOB).answer(1, make_request())
        await models.close()
        return answer

    assert asyncio.run(run()) == make_response("said")


def test_the_calls_of_the_last_attempt_are_written_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> Any:
        models = RunModels(ModelPlan(mode=ModelMode.AUTO, prices=Prices()), tmp_path, warn=pytest.fail)
        older, newer = await make_case(models, "older"), await make_case(models, "newer")
        slow_down(older, monkeypatch)
        models.keep(older, None)
        models.keep(newer, None)
        await asyncio.sleep(0.6)
        answer = await models.open(JOB).answer(1, make_request())
        await models.close()
        return answer

    assert asyncio.run(run()) == make_response("newer")


# Costs.


def test_costs_of_replayed_calls_are_summed() -> None:
    calls = [
        RecordedModelCall(request=make_request(text), response=make_response("a"), cost=cost)
        for text, cost in (("a", 0.5), ("b", None), ("c", 0.25))
    ]
    case = open_case(RecordedCalls(CallKind.MODELS, JOB, tuple(calls)))
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
    late = case.complete_trace([make_step("late", 0.7, 0.8)])
    assert [step.id for step in late] == ["late", "model-call-0", "model-call-1"], "clocks of two processes differ"


def test_steps_of_the_agent_are_marked_if_their_calls_were_replayed() -> None:
    a = make_request("a")
    case = open_case(record((a, make_response("1"))))
    answer(case, 0, a)
    time.sleep(0.2)
    answer(case, 1, make_request("b"))

    steps = case.complete_trace([make_step("first", 0.0, 0.01), make_step("second", 0.2, 0.3)])

    assert [(step.id, step.simulator) for step in steps] == [("first", "replayed"), ("second", None)]


def replay_at(*times: float) -> CaseModels:
    """Return a case whose calls were replayed at these times after it was opened."""
    requests = [make_request(str(number)) for number in range(len(times))]
    case = open_case(record(*((request, make_response("said")) for request in requests)))
    for number, request in enumerate(requests):
        answer(case, number, request)
        case._calls[number].began = case.opened_at + times[number]
    return case


def test_a_step_of_a_live_model_without_a_call_takes_no_replayed_call_of_another_step() -> None:
    steps = replay_at(1.0).complete_trace([make_step("live", 0.0, 0.2), make_step("replayed", 0.9, 1.2)])
    alone = replay_at(1.0).complete_trace([make_step("live", 0.0, 0.2)])

    assert [(step.id, step.simulator) for step in steps] == [("live", None), ("replayed", "replayed")]
    assert [(step.id, step.simulator) for step in alone] == [("live", None), ("model-call-0", "replayed")]


@pytest.mark.parametrize("skew", [0.0, 0.03])
def test_steps_that_follow_each_other_at_once_have_a_call_each(skew: float) -> None:
    case = replay_at(*(skew + start for start in (0.001, 0.003, 0.005)))

    steps = case.complete_trace([make_step(str(start), start / 1000, (start + 1) / 1000) for start in (0, 2, 4)])

    assert [step.simulator for step in steps] == ["replayed"] * 3


def test_a_call_that_is_refused_does_not_count_as_made() -> None:
    case = open_case(None, ModelMode.REPLAY)
    with pytest.raises(AgentError, match="model call 1 is made with gRPC"):
        answer(case, 1, {"method": "POST", "url": "grpc://m", "body": None, "uncovered": "gRPC"})

    assert case.counts == ModelCalls()


def test_a_file_gets_the_calls_of_all_models(tmp_path: Path) -> None:
    own = {**make_request(), "method": "GENERATE", "url": "adk:agent.Own"}
    case = open_case(record((make_request(), make_response("recorded"))), record=tmp_path / "calls.jsonl")

    assert case.interception["own_models"]
    assert not case.interception["optional"]
    assert answer(case, 1, own) is None
    assert answer(case, 2, make_request()) == make_response("recorded"), "the recording has no models of the project"
