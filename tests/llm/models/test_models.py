"""Model calls: retries, limits on parallel calls, and cached replies."""

from __future__ import annotations

import asyncio
import contextlib
import re
import threading
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from random import Random

import pytest

from tests.llm.conftest import request
from tests.llm.servers import Answer, Call, HttpResponse, Server, gemini, gemini_error, run_server
from tests.store.full_disk import no_space_left
from workbench.llm.model_replay import (
    CaseRequests,
    RecordedRequest,
    RequestRecording,
    RequestReplay,
    case_requests,
)
from workbench.llm.model_types import (
    Ask,
    Message,
    ModelError,
    ModelReply,
    ModelRequest,
    Trouble,
)
from workbench.llm.models import Account, Cache, Models
from workbench.model.identity import CaseKey, JobKey
from workbench.store.errors import StoreError
from workbench.store.model_answers import CallKind, RecordedCalls, Recording, add_recording

Serve = Callable[[Answer], Server]
OpenModels = Callable[..., Models]


async def test_temporary_errors_are_retried(serve: Serve, open_models: OpenModels) -> None:
    answers = iter([gemini_error(503, "overloaded"), gemini_error(429, "busy"), gemini("yes")])
    models = open_models(serve(lambda _: next(answers)))

    account = Account()

    assert (await models.ask(request(), account=account)).text == "yes"

    (spent,) = account.list_spending()
    assert (spent.calls, spent.failed, spent.input_tokens, spent.output_tokens) == (1, 2, 7, 5)


async def test_permanent_errors_are_not_retried(serve: Serve, open_models: OpenModels) -> None:
    server = serve(lambda _: gemini_error(404, "not found"))

    with pytest.raises(ModelError):
        await open_models(server).ask(request())

    assert len(server.calls) == 1


async def test_the_last_error_is_raised_after_all_tries(serve: Serve, open_models: OpenModels) -> None:
    server = serve(lambda _: gemini_error(500, "oops"))

    with pytest.raises(ModelError, match="500"):
        await open_models(server, options={"tries": 3}).ask(request())

    assert len(server.calls) == 3


@pytest.mark.parametrize("how", ["details", "header"])
async def test_all_requests_wait_as_long_as_the_service_demands(
    serve: Serve, open_models: OpenModels, how: str
) -> None:
    delay = {"retry_delay": "0.4s"} if how == "details" else {"headers": {"Retry-After": "0.4"}}
    answers = iter([gemini_error(429, "busy", **delay), gemini("yes"), gemini("and this")])
    models = open_models(serve(lambda _: next(answers)))
    began = time.monotonic()

    first = asyncio.create_task(models.ask(request("first")))
    await asyncio.sleep(0.2)
    second = asyncio.create_task(models.ask(request("second")))
    await asyncio.gather(first, second)

    assert time.monotonic() - began >= 0.4  # the second request waits too


async def test_a_slow_answer_times_out_without_a_retry(serve: Serve, open_models: OpenModels) -> None:
    server = serve(lambda _: gemini("late", seconds=5.0))

    with pytest.raises(ModelError, match="no answer within 1 s") as raised:
        await open_models(server, options={"timeout_seconds": 1.0}).ask(request())

    assert raised.value.trouble is Trouble.TIMEOUT
    assert len(server.calls) == 1


async def test_parallel_calls_stay_within_the_limit_and_shrink_when_refused(
    serve: Serve, open_models: OpenModels
) -> None:
    numbers = count()

    def answer(_: Call) -> HttpResponse:
        return gemini_error(429, "busy") if next(numbers) == 0 else gemini("yes", seconds=0.02)

    server = serve(answer)
    models = open_models(server, options={"concurrency": 4})

    replies = await asyncio.gather(*(models.ask(request(str(number))) for number in range(20)))

    assert [reply.text for reply in replies] == ["yes"] * 20
    assert server.max_parallel_calls <= 4
    assert models._limits["gemini-test"].capacity in (2, 3, 4)


async def test_a_service_that_allows_two_parallel_calls_answers_every_request(
    serve: Serve, open_models: OpenModels
) -> None:
    running, lock = [0], threading.Lock()

    def answer(_: Call) -> HttpResponse:
        with lock:
            if running[0] == 2:
                return gemini_error(429, "busy")
            running[0] += 1
        time.sleep(0.01)
        with lock:
            running[0] -= 1
        return gemini("yes")

    server = serve(answer)
    models = open_models(server, options={"tries": 2})

    replies = await asyncio.gather(*(models.ask(request(str(number))) for number in range(40)))

    assert [reply.text for reply in replies] == ["yes"] * 40
    assert len(server.calls) < 80  # the limit adapts to the service


@pytest.mark.parametrize(
    ("refusal", "reason"),
    [
        (gemini_error(401, "no"), "the key was not accepted"),
        (gemini_error(403, "no"), "the key was not accepted"),
        (gemini_error(404, "no"), "the model does not exist, or the key may not use it"),
        (gemini_error(429, "quota", retry_delay="90s"), "too many requests, or the quota is used up"),
        (gemini_error(503, "down", headers={"Retry-After": "3600"}), "the service cannot be reached or has failed"),
    ],
)
async def test_a_model_that_cannot_answer_is_not_asked_again_in_a_run(
    serve: Serve, open_models: OpenModels, refusal: HttpResponse, reason: str
) -> None:
    server, messages = serve(lambda _: refusal), list[str]()
    models = open_models(server, options={"concurrency": 2})
    account = Account(on_stop=messages.append)

    outcomes = await asyncio.gather(
        *(models.ask(request(str(number)), account=account) for number in range(18)), return_exceptions=True
    )

    assert len(server.calls) <= 2
    assert len(messages) == 1
    assert messages[0].startswith(f"gemini-test: {reason} (")
    assert "; this run no longer calls gemini-test" in messages[0]
    stopped = [each for each in outcomes if isinstance(each, ModelError) and each.trouble is Trouble.STOPPED]
    assert len(stopped) >= 16
    assert {each.message for each in stopped} == {f"gemini-test was not called: {reason}"}
    with pytest.raises(ModelError, match=re.escape(reason)):  # the next run asks again
        await models.ask(request(), account=Account(on_stop=messages.append))
    assert len(messages) == 2


async def test_a_short_wait_that_was_kept_is_no_reason_to_stop(serve: Serve, open_models: OpenModels) -> None:
    messages = list[str]()
    models = open_models(serve(lambda _: gemini_error(429, "quota", retry_delay="0.1s")), options={"tries": 2})

    with pytest.raises(ModelError):
        await models.ask(request(), account=Account(on_stop=messages.append))

    assert messages[0].endswith("; this run no longer calls gemini-test")


def request_with_text(text: str) -> ModelRequest:
    return request().model_copy(update={"messages": (Message(role="user", text=text),)})


async def test_a_service_that_fails_for_several_requests_is_not_asked_again(
    serve: Serve, open_models: OpenModels
) -> None:
    messages: list[str] = []
    server = serve(lambda _: gemini_error(500, "oops"))
    models, account = open_models(server, options={"tries": 2}), Account(on_stop=messages.append)

    failures = []
    for number in range(5):
        with pytest.raises(ModelError) as raised:
            await models.ask(request_with_text(str(number)), account=account)
        failures.append(raised.value.trouble)

    assert failures == [Trouble.UNAVAILABLE] * 3 + [Trouble.STOPPED] * 2
    assert len(server.calls) == 3 * 2
    (message,) = messages
    assert "500" in message and message.endswith("; this run no longer calls gemini-test")


async def test_a_service_that_fails_for_one_prompt_or_for_a_while_is_asked_again(
    serve: Serve, open_models: OpenModels
) -> None:
    messages: list[str] = []
    server = serve(lambda _: gemini_error(500, "oops"))
    models, account = open_models(server, options={"tries": 2}), Account(on_stop=messages.append)

    async def ask(text: str) -> Trouble | None:
        try:
            await models.ask(request_with_text(text), account=account)
        except ModelError as error:
            return error.trouble
        return None

    same = [await ask("the same") for _ in range(5)]  # like the samples of a judge
    together = await asyncio.gather(*(ask(str(number)) for number in range(8)))
    server.answer = lambda _: gemini("yes")
    between = await ask("another")
    server.answer = lambda _: gemini_error(500, "oops")
    after = [await ask(f"after {number}") for number in range(2)]

    assert between is None
    assert {*same, *together, *after} == {Trouble.UNAVAILABLE}
    assert messages == []


async def test_an_exhausted_quota_stops_requests_with_one_message(serve: Serve, open_models: OpenModels) -> None:
    server, messages = serve(lambda _: gemini_error(429, "quota")), list[str]()
    models = open_models(server, options={"tries": 3, "concurrency": 4})
    account = Account(on_stop=messages.append)

    outcomes = await asyncio.gather(
        *(models.ask(request(str(number)), account=account) for number in range(18)), return_exceptions=True
    )

    assert all(isinstance(each, ModelError) for each in outcomes)
    assert len(messages) == 1
    assert len(server.calls) <= 3 * 4


async def test_a_missing_key_is_explained_once_and_named_briefly_per_request(open_models: OpenModels) -> None:
    messages: list[str] = []
    models, account = open_models(None, environment={}), Account(on_stop=messages.append)

    outcomes = await asyncio.gather(
        *(models.ask(request(str(number)), account=account) for number in range(3)), return_exceptions=True
    )

    assert [str(each) for each in outcomes] == ["gemini-test was not called: no key"] * 3
    (message,) = messages
    assert "set GOOGLE_API_KEY or GEMINI_API_KEY in the environment or in the agent's .env" in message


async def test_a_wait_for_the_quota_is_reported_once(serve: Serve, open_models: OpenModels) -> None:
    answers = iter([gemini_error(429, "busy", retry_delay="1.2s"), *[gemini("yes")] * 3])
    waits: list[tuple[str, float]] = []
    models = open_models(serve(lambda _: next(answers)), options={"concurrency": 1})
    account = Account(on_wait=lambda *wait: waits.append(wait))

    await asyncio.gather(*(models.ask(request(str(number)), account=account) for number in range(3)))

    ((model, seconds),) = waits
    assert model == "gemini-test"
    assert 1.0 <= seconds <= 1.2


async def test_a_cancelled_request_frees_its_place_in_the_queue(serve: Serve, open_models: OpenModels) -> None:
    models = open_models(serve(lambda _: gemini("yes", seconds=0.1)), options={"concurrency": 1})
    tasks = [asyncio.create_task(models.ask(request(str(number)))) for number in range(4)]
    await asyncio.sleep(0.05)

    for task in tasks[:3]:
        task.cancel()

    assert (await asyncio.wait_for(tasks[3], 5.0)).text == "yes"


async def test_a_cached_reply_is_reused_unless_the_cache_is_off(
    tmp_path: Path, serve: Serve, open_models: OpenModels
) -> None:
    server = serve(lambda _: gemini("yes"))
    caches = [Cache(tmp_path, warn=pytest.fail) for _ in range(3)]
    first, second, third = (open_models(server, replies=cache) for cache in caches)

    account = Account()

    replies = [await first.ask(request())]
    replies += [await second.ask(each, account=account) for each in (request(), request(sample=1))]
    again = await third.ask(request(), use_cache=False)

    assert [reply.cached for reply in replies] == [False, True, False]
    assert replies[1].model_copy(update={"cached": False}) == replies[0]
    assert not again.cached
    assert len(server.calls) == 3
    (spent,) = account.list_spending()
    assert (spent.calls, spent.cached) == (1, 1)
    for cache in caches:
        await cache.close()


async def test_a_broken_cache_warns_once_and_loses_no_reply(
    tmp_path: Path, serve: Serve, open_models: OpenModels
) -> None:
    (tmp_path / ".workbench").mkdir()
    (tmp_path / ".workbench/replies.db").mkdir()
    warnings: list[str] = []
    models = open_models(serve(lambda _: gemini("yes")), replies=Cache(tmp_path, warn=warnings.append))

    assert [(await models.ask(request())).text for _ in range(2)] == ["yes", "yes"]

    assert len(warnings) == 1
    assert "answers of models are not cached" in warnings[0]


async def test_cached_replies_are_used_on_a_full_disk(tmp_path: Path, serve: Serve, open_models: OpenModels) -> None:
    server = serve(lambda _: gemini("yes"))
    await open_models(server, replies=Cache(tmp_path, warn=pytest.fail)).ask(request("known"))
    warnings: list[str] = []
    models = open_models(server, replies=Cache(tmp_path, warn=warnings.append))

    with no_space_left():
        replies = [await models.ask(request(text)) for text in ("known", "new", "known")]

    assert [reply.text for reply in replies] == ["yes", "yes", "yes"]
    assert [reply.cached for reply in replies] == [True, False, True]
    assert len(warnings) == 1


async def test_a_cancelled_write_does_not_damage_the_cache(tmp_path: Path) -> None:
    cache = Cache(tmp_path, warn=pytest.fail)
    long, short = ModelReply(text=Random(0).randbytes(200_000).hex()), ModelReply(text="yes")
    for number in range(60):
        task = asyncio.create_task(cache.put(request("At length?", sample=number), long))
        await asyncio.sleep(number / 1500)  # at varying points of the write
        task.cancel()
        await cache.put(request(sample=number), short)

    assert await cache.get(request(sample=59)) == short
    await cache.close()


async def test_a_broken_cache_warns_even_if_its_reader_was_cancelled(tmp_path: Path) -> None:
    (tmp_path / ".workbench/replies.db").mkdir(parents=True)
    warnings: list[str] = []
    cache = Cache(tmp_path, warn=warnings.append)
    task = asyncio.create_task(cache.get(request()))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])

    for _ in range(2):
        assert await cache.get(request()) is None

    assert len(warnings) == 1
    await cache.close()
    assert await cache.get(request()) is None


async def test_recorded_calls_are_replayed_without_the_model(
    tmp_path: Path, serve: Serve, open_models: OpenModels
) -> None:
    file = tmp_path / "calls.jsonl"
    answers = iter([gemini("first"), gemini("second"), gemini_error(404, "no")])
    server = serve(lambda _: next(answers))
    requests = [request(), request(), request("unknown")]
    recording = RequestRecording(file)
    recorded = recording.wrap(open_models(server).ask)

    outcomes = [await _find_outcome(recorded, each) for each in requests]
    await recording.close()
    replay = RequestReplay(file)
    again = [await _find_outcome(replay.ask, each) for each in requests]

    assert outcomes == again == ["first", "second", Trouble.UNKNOWN_MODEL]
    assert len(server.calls) == 3
    assert "key-of-google" not in file.read_text()
    assert await _find_outcome(replay.ask, request("never asked")) is Trouble.NOT_RECORDED


async def test_cached_replies_are_recorded_too(tmp_path: Path, serve: Serve, open_models: OpenModels) -> None:
    cache = Cache(tmp_path, warn=pytest.fail)
    models = open_models(serve(lambda _: gemini("yes")), replies=cache)
    await models.ask(request())
    file = tmp_path / "calls.jsonl"

    recording = RequestRecording(file)
    await recording.wrap(models.ask)(request())
    await recording.close()

    assert (await RequestReplay(file).ask(request())).text == "yes"
    await cache.close()


def test_only_a_file_of_recorded_calls_is_overwritten(tmp_path: Path) -> None:
    calls, other = tmp_path / "calls.jsonl", tmp_path / "set.evalset.json"
    calls.write_text("")
    other.write_text("{}")

    RequestRecording(calls)
    with pytest.raises(StoreError, match="found another content, expected recorded calls"):
        RequestRecording(other)

    assert other.read_text() == "{}"


RECORDED_REQUEST = (
    '{"format": "workbench-calls-1", "request": {"model": "m", "messages": [{"role": "user", "text": "q"}]}'
)
RECORDED_REPLY = ', "reply": {"text": "old"}}'


async def test_requests_are_recorded_with_the_case_that_they_belong_to(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    waits = {"slow": 0.05, "fast": 0.0}

    async def ask(asked: ModelRequest) -> ModelReply:
        text = asked.messages[0].text
        await asyncio.sleep(waits.get(text, 0.0))
        return ModelReply(text=f"to {text}")

    async def run_case(recording: RequestRecording, replaces: bool, name: str, *texts: str) -> None:
        case = CaseRequests(JobKey(CaseKey(target="t", eval_set="s", eval_id=name), 0))
        case_requests.set(case)
        await asyncio.gather(*(recording.wrap(ask)(request(text)) for text in texts))
        await recording.keep(case, replaces=replaces)

    async def record(*cases: tuple[str, ...], replaces: bool = True) -> list[tuple[str, list[str]]]:
        recording = RequestRecording(path)
        await asyncio.gather(*(asyncio.create_task(run_case(recording, replaces, *case)) for case in cases))
        await recording.close()
        blocks = Recording(path).iter_part(CallKind.JUDGES, RecordedRequest)
        return [
            (block.job.case.eval_id, [call.request.messages[0].text for call in block.calls])
            for block in blocks
            if block.job is not None
        ]

    assert await record(("b", "slow", "fast"), ("a", "q")) == [("a", ["q"]), ("b", ["slow", "fast"])]
    assert await record(("b", "new")) == [("a", ["q"]), ("b", ["new"])]
    assert await record(("b", "more"), replaces=False) == [("a", ["q"]), ("b", ["new", "more"])]


async def test_a_case_gets_the_replies_that_were_recorded_for_it(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    jobs = {name: JobKey(CaseKey(target="t", eval_set="s", eval_id=name), 0) for name in ("a", "b", "new")}
    for name in "ab":
        reply = RecordedRequest(request=request(), reply=ModelReply(text=f"to {name}"))
        add_recording(path, RecordedCalls(CallKind.JUDGES, jobs[name], (reply,)))

    async def ask(name: str) -> str:
        case_requests.set(CaseRequests(jobs[name]))
        return (await replay.ask(request())).text

    replay = RequestReplay(path)
    assert [await ask(name) for name in ("b", "a", "b", "new")] == ["to b", "to a", "to b", "to a"]


async def test_an_outage_does_not_replace_a_recorded_reply(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    job = JobKey(CaseKey(target="t", eval_set="s", eval_id="c"), 0)

    async def record(outcome: ModelReply | ModelError) -> None:
        async def ask(_: ModelRequest) -> ModelReply:
            if isinstance(outcome, ModelError):
                raise outcome
            return outcome

        recording = RequestRecording(path)
        case = CaseRequests(job)
        case_requests.set(case)
        with contextlib.suppress(ModelError):
            await recording.wrap(ask)(request())
        await recording.keep(case, replaces=True)

    await record(ModelReply(text="good"))
    await record(ModelError(Trouble.UNAVAILABLE, "overloaded"))

    case_requests.set(CaseRequests(job))
    assert (await RequestReplay(path).ask(request())).text == "good"


async def test_a_recording_of_an_earlier_version_is_replayed_and_added_to(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    path.write_text(f"{RECORDED_REQUEST}{RECORDED_REPLY}\n")
    old = ModelRequest(model="m", messages=(Message(role="user", text="q"),))
    assert (await RequestReplay(path).ask(old)).text == "old"

    async def ask(_: ModelRequest) -> ModelReply:
        return ModelReply(text="new")

    recording = RequestRecording(path)
    case_requests.set(case := CaseRequests(JobKey(CaseKey(target="t", eval_set="s", eval_id="c"), 0)))
    await recording.wrap(ask)(request())
    await recording.keep(case)
    await recording.close()

    replay = RequestReplay(path)
    assert [(await replay.ask(each)).text for each in (old, request())] == ["old", "new"]

    recording = RequestRecording(path)
    case_requests.set(case := CaseRequests(case.job))
    await recording.wrap(ask)(old)
    await recording.keep(case)
    replay = RequestReplay(path)
    assert [(await replay.ask(old)).text for _ in range(2)] == ["new", "new"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", ":2:2: found a line that is not JSON (Expecting property name"),
        ("[]", ":2:1: found a list, expected a recorded call (workbench-calls-1)"),
        ("{}", ":2:1: found nothing, expected the format of a recorded call (workbench-calls-1)"),
        ('{"format": "other"}', ":2:12: format: found 'other', expected the format of"),
        ('{"format": "workbench-calls-1"}', "no recorded call: request: Field required"),
        ('{"format": "workbench-calls-1", "request": 1}', "no recorded call: request: Input should be"),
        (
            '{"format": "workbench-calls-1", "request": {}}',
            "no recorded call: request.model: Field required",
        ),
        (RECORDED_REQUEST + "}", "expected exactly one of reply and trouble"),
        (RECORDED_REQUEST + ', "reply": {"text": 1}}', "no recorded call: reply.text: Input should be a valid string"),
        (RECORDED_REQUEST + ', "trouble": "bad day", "message": ""}', "no recorded call: trouble: Input should be"),
        (RECORDED_REQUEST + ', "replay": {}}', "no recorded call: replay: Extra inputs"),
    ],
)
def test_an_invalid_recorded_call_is_refused_with_position_value_and_expectation(
    tmp_path: Path, line: str, message: str
) -> None:
    file = tmp_path / "calls.jsonl"
    file.write_text(f"{RECORDED_REQUEST}{RECORDED_REPLY}\n{line}\n")

    with pytest.raises(StoreError) as refused:
        RequestReplay(file)

    assert message in str(refused.value)
    assert str(refused.value).startswith(str(file))


async def _find_outcome(ask: Ask, model_request: ModelRequest) -> object:
    try:
        return (await ask(model_request)).text
    except ModelError as error:
        return error.trouble


async def test_the_cache_separates_servers_and_errors_redact_the_key() -> None:
    key = "AQ.a-key-of-no-known-shape"
    cached_replies: dict[str, ModelReply] = {}

    class Replies:
        async def get(self, request: ModelRequest) -> ModelReply | None:
            return cached_replies.get(request.key)

        async def put(self, request: ModelRequest, reply: ModelReply) -> None:
            cached_replies[request.key] = reply

    model_request = ModelRequest(model="gemini-x", messages=(Message(role="user", text="q"),))
    for answer in ("one", "two"):
        with run_server(lambda _, answer=answer: gemini(answer)) as server:
            models = Models({"GOOGLE_API_KEY": key, "GOOGLE_GEMINI_BASE_URL": server.url}, replies=Replies())
            assert [(await models.ask(model_request)).text for _ in range(2)] == [answer, answer]
            await models.close()
            assert len(server.calls) == 1

    with run_server(lambda _: gemini_error(401, f"API key not valid: {key}")) as server:
        models = Models({"GOOGLE_API_KEY": key, "GOOGLE_GEMINI_BASE_URL": server.url})
        with pytest.raises(ModelError, match=r"not valid: \[redacted\]") as caught:
            await models.ask(model_request)
        await models.close()
    assert key not in str(caught.value)


async def test_a_record_keeps_every_character_and_is_not_emptied_without_calls(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"

    async def ask(_: ModelRequest) -> ModelReply:
        return ModelReply(text="a\u2028b\x85c")

    model_request = ModelRequest(model="m", messages=(Message(role="user", text="q\u2029"),))
    recording = RequestRecording(path)
    await recording.wrap(ask)(model_request)
    await recording.close()
    await RequestRecording(path).close()  # a run without calls

    assert (await RequestReplay(path).ask(model_request)).text == "a\u2028b\x85c"
