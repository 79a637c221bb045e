"""Model calls of real agents, recorded and replayed in every mode, against a server on this machine."""

from __future__ import annotations

import sqlite3
import time
import zlib
from pathlib import Path
from typing import Any

import pytest

from tests.engine.project import Project, find_result, get_failure_message, get_statuses, turn
from tests.engine.runner.recorded import CLIENTS, KEY, URLLIB, get_calls, get_response, write_agent
from tests.serving import ModelServer, QuietHandler, run_http_server
from workbench.engine.plan import PlanError, Selection
from workbench.model.results import FailureKind, ModelCalls
from workbench.model.run_events import Notice
from workbench.model.target import ModelMode
from workbench.model.trace import Span, SpanKind
from workbench.store.errors import shown_path

pytestmark = [pytest.mark.needs_fork, pytest.mark.prepared("http")]


def test_nothing_is_intercepted_by_default(case: Project, server: ModelServer) -> None:
    write_agent(case, server)

    case.run()
    run = case.run()

    assert server.count == 4
    assert find_result(run, "a").execution.model_calls is None
    assert not (case.root / ".workbench" / "recordings.db").exists()


def test_a_changed_request_asks_the_model_and_says_what_differs(case: Project, server: ModelServer) -> None:
    write_agent(case, server)
    case.run(models=ModelMode.AUTO)
    write_agent(case, server, more=", 'temperature': 0.5")

    changed = case.run(models=ModelMode.AUTO)
    again = case.run(models=ModelMode.AUTO)

    difference = "model call 1 differs from the recording: parameter temperature changed: nothing became 0.5"
    assert str(get_calls(changed).difference) == difference
    assert (get_calls(changed).live, get_calls(again).replayed, server.count) == (2, 2, 4)


def find_model_spans(run: Any) -> list[Span]:
    return [span for span in find_result(run, "a").execution.spans if span.kind is SpanKind.MODEL]


def test_an_undone_change_of_a_prompt_is_replayed(case: Project, server: ModelServer) -> None:
    prompts = (", 'x': 'A'", ", 'x': 'B'", ", 'x': 'A'", ", 'x': 'C'", ", 'x': 'B'")

    runs = []
    for more in prompts:
        write_agent(case, server, more=more)
        runs.append(case.run(models=ModelMode.AUTO))

    assert [(get_calls(run).live, get_calls(run).replayed) for run in runs] == [(2, 0), (2, 0), (0, 2), (2, 0), (0, 2)]
    assert (get_response(runs[2]), get_response(runs[4])) == (get_response(runs[0]), get_response(runs[1]))
    difference = 'model call 1 differs from the recording: parameter x changed: "A" became "C"'
    assert str(get_calls(runs[3]).difference) == difference, "what the last run sent"


def test_calls_are_model_steps_of_the_trace(case: Project, server: ModelServer) -> None:
    server.seconds = 0.2
    write_agent(case, server, more=", 'model': 'm'")

    live, replayed = (case.run(models=ModelMode.AUTO) for _ in range(2))

    steps = find_model_spans(live)
    assert [(step.name, step.turn, step.simulator) for step in steps] == [("chat m", 0, None), ("chat m", 1, None)]
    first, agent = steps[0], find_result(live, "a").execution.spans[0]
    assert first.parent_id == agent.id
    assert agent.start is not None and first.start is not None and first.start >= agent.start
    assert first.duration is not None and first.duration >= 0.2
    assert first.request["messages"][-1] == {"role": "user", "content": "hello"}
    assert first.response["choices"][0]["message"]["content"].endswith("é hello")
    assert KEY not in first.model_dump_json()
    assert [step.simulator for step in find_model_spans(replayed)] == ["replayed", "replayed"]
    assert [step.response for step in find_model_spans(replayed)] == [step.response for step in steps]


REPORTING = """
import contextlib
from opentelemetry import trace

ask_unseen = answer

def answer(prompt):
    attributes = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "own"}
    tracer = trace.get_tracer("t")
    first = prompt == "hello"
    with tracer.start_as_current_span("chat", attributes=attributes) if first else contextlib.nullcontext():
        return ask_unseen(prompt)
"""


def test_a_call_that_the_agent_reports_itself_is_no_second_step(case: Project, server: ModelServer) -> None:
    write_agent(case, server)
    with (case.root / "agent.py").open("a") as code:
        code.write(REPORTING)

    run = case.run(models=ModelMode.AUTO)

    assert get_statuses(run) == {"a": "PASSED"}, get_failure_message(run, "a")
    assert [(step.name, step.turn) for step in find_model_spans(run)] == [("own", 0), ("chat", 1)]


def test_the_code_of_the_agent_may_change_while_its_requests_do_not(case: Project, server: ModelServer) -> None:
    write_agent(case, server)
    case.run(models=ModelMode.AUTO)
    path = case.root / "agent.py"
    path.write_text(path.read_text().replace("'response': said", "'response': said.upper()"))

    run = case.run(models=ModelMode.AUTO)

    assert get_response(run).startswith("1: É HELLO")
    assert server.count == 2


def test_fresh_answers_replace_the_recorded_ones(case: Project, server: ModelServer) -> None:
    write_agent(case, server)
    case.run(models=ModelMode.AUTO)

    fresh = case.run(fresh=True)
    again = case.run(models=ModelMode.AUTO)

    assert (get_calls(fresh).live, get_calls(fresh).difference) == (2, None)
    assert get_response(again) == get_response(fresh) == "3: é hello"


@pytest.mark.parametrize(("options", "live", "count"), [({}, 0, 2), ({"fresh": True}, 2, 4)], ids=["resumed", "fresh"])
def test_a_resumed_run_reuses_no_replayed_result_if_models_are_asked_again(
    case: Project, server: ModelServer, options: dict[str, Any], live: int, count: int
) -> None:
    write_agent(case, server)
    case.run(models=ModelMode.AUTO)
    replayed = case.run(models=ModelMode.AUTO)

    resumed = case.run(resume=replayed.run_id, **options)

    assert (get_calls(resumed).live, server.count) == (live, count)
    assert ["run again because their models were replayed: 1" in notice for notice in list_warnings(resumed)] == [
        bool(options)
    ]
    stored = case.run(resume=replayed.run_id)  # the new result has replaced the replayed one
    assert get_calls(stored).live == live


def test_repeats_have_answers_of_their_own(case: Project, server: ModelServer) -> None:
    write_agent(case, server)

    case.run(models=ModelMode.AUTO, runs=2)
    assert server.count == 4
    case.run(models=ModelMode.AUTO, runs=2)
    assert server.count == 4
    case.run(models=ModelMode.AUTO, runs=3)
    assert server.count == 6


def test_a_file_is_recorded_and_replayed_without_any_request(case: Project, server: ModelServer) -> None:
    write_agent(case, server)
    path = case.root / "calls.jsonl"

    recorded = case.run(record=path)
    replayed = case.run(replay=path)
    write_agent(case, server, more=", 'top_p': 1")
    refused = case.run(replay=path)

    assert server.count == 2
    assert get_calls(recorded).live == 2
    assert get_calls(replayed).replayed == 2
    assert get_response(replayed) == get_response(recorded)
    assert get_statuses(refused) == {"a": "ERROR"}
    failure = find_result(refused, "a").failure
    assert failure is not None and failure.kind is FailureKind.REPLAY
    assert "parameter top_p changed: nothing became 1" in failure.message


def test_a_case_that_is_not_in_the_file_is_an_error(case: Project, server: ModelServer) -> None:
    write_agent(case, server)
    path = case.root / "calls.jsonl"
    case.run(record=path)
    case.add_set({"a": [turn("hello"), turn("again")], "b": [turn("hello")]})

    run = case.run(replay=path, runs=2)

    assert get_statuses(run) == {"a": "ERROR", "b": "ERROR"}
    nothing = "calls.jsonl has no calls of the case 'b' of set.evalset.json; its first request is recorded as"
    assert nothing in get_failure_message(run, "b")
    failed = [result.failure for result in run.results() if result.case.eval_id == "a"]
    assert failed[0] is None
    assert "calls.jsonl has calls of this case, but none of repeat 2" in str(failed[1])


@pytest.mark.parametrize("prompt", ["hello", "another"])
def test_a_renamed_case_is_proposed_if_it_begins_with_the_same_request(
    case: Project, server: ModelServer, prompt: str
) -> None:
    write_agent(case, server)
    path = case.root / "calls.jsonl"
    case.run(record=path)
    case.add_set({"b": [turn(prompt), turn("again")]}, name="new")

    refused = case.run(Selection(eval_set="new.evalset.json"), replay=path)
    text = path.read_text()
    path.write_text(text.replace('"set.evalset.json"', '"new.evalset.json"').replace('"eval_id":"a"', '"eval_id":"b"'))
    renamed = case.run(Selection(eval_set="new.evalset.json"), replay=path)

    name = shown_path(path)
    lack = f"model call 1: {name} has no calls of the case 'b' of new.evalset.json; "
    proposal = (
        "its first request is recorded as eval_set 'set.evalset.json', eval_id 'a': if that is the same case, change "
        "eval_set to 'new.evalset.json', eval_id to 'b' in line 1, or record it again with --record"
    )
    expected = proposal if prompt == "hello" else "record it with --record"
    assert get_failure_message(refused, "b") == lack + expected
    assert (get_calls(renamed, "b").replayed, server.count) == (2 if prompt == "hello" else 0, 2)


def test_a_recording_that_is_cut_off_says_what_to_do(case: Project, server: ModelServer) -> None:
    write_agent(case, server)
    path = case.root / "calls.jsonl"
    case.run(record=path)
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)

    messages = []
    for cut in (b"".join(lines[:-1]), whole[:-20]):
        path.write_bytes(cut)
        messages.append(get_failure_message(case.run(replay=path), "a"))

    name = shown_path(path)
    what = ["the end of the file after 1 of 2 calls", "a line that is not JSON, perhaps because the file is cut off"]
    how = "expected a recorded call (workbench-recording-1); restore the file, or record the case again with --record"
    assert messages == [f"{name}:{line}:1: found {each}, {how}" for line, each in enumerate(what, start=2)]
    assert server.count == 2


def test_a_recording_of_another_agent_is_named(case: Project, server: ModelServer) -> None:
    write_agent(case, server)
    path = case.root / "calls.jsonl"
    case.run(record=path)
    path.write_text(path.read_text().replace('"target":"', '"target":"other_'))

    run = case.run(replay=path)

    assert "calls.jsonl has calls of this case by other_" in get_failure_message(run, "a")


def test_no_credential_is_written_anywhere(case: Project, server: ModelServer) -> None:
    write_agent(case, server)
    path = case.root / "calls.jsonl"

    case.run(models=ModelMode.AUTO, record=path)

    texts = [path.read_bytes()]
    with sqlite3.connect(case.root / ".workbench" / "recordings.db") as database:
        texts += [zlib.decompress(row[0]) for row in database.execute("SELECT data FROM reply")]
    texts += [file.read_bytes() for file in (case.root / ".workbench").rglob("*") if file.is_file()]
    assert len(texts[1]) > 500
    assert not [text for text in texts if KEY.encode() in text]


def test_an_outage_is_neither_kept_nor_replayed(case: Project, server: ModelServer) -> None:
    write_agent(case, server, "import httpx; r = httpx.post(url, json=body, headers=headers); "
                "r.raise_for_status(); return r.json()")  # fmt: skip
    server.failures = [503]

    failed = case.run(models=ModelMode.AUTO, retries=0)
    fine = case.run(models=ModelMode.AUTO)

    assert get_statuses(failed) == {"a": "ERROR"}
    assert get_statuses(fine) == {"a": "PASSED"}
    assert (get_calls(fine).live, get_calls(fine).difference) == (2, None)


CATCHING = """
        import httpx
        for part in ("", " and more"):
            body = {"messages": [{"role": "user", "content": prompt + part}]}
            try:
                response = httpx.post(url, json=body, headers=headers)
            except httpx.ConnectError:
                response = None
            if response is None or response.is_error:
                return {"choices": [{"message": {"content": "sorry"}}]}
            BETWEEN
        return response.json()
"""


def list_warnings(run: Any) -> list[str]:
    return [event.message for event in run.iter_events() if isinstance(event, Notice)]


@pytest.mark.parametrize("failure", ["status", "connection", "crash"])
def test_a_good_recording_is_not_replaced_by_an_outage_or_a_crash(
    case: Project, server: ModelServer, failure: str
) -> None:
    path = case.root / "calls.jsonl"
    write_agent(case, server, CATCHING.replace("BETWEEN", ""))
    good = case.run(record=path)
    recorded = path.read_text()
    broken = CATCHING.replace("BETWEEN", "raise ValueError('a bug')" if failure == "crash" else "")
    if failure == "connection":
        broken = broken.replace("post(url", "post('http://127.0.0.1:1/v1/chat/completions'")
    server.failures = [503, 503] if failure == "status" else []
    write_agent(case, server, broken)

    bad = case.run(record=path)

    assert path.read_text() == recorded
    assert list_warnings(good) == []
    assert list_warnings(bad) == [
        "model calls of 1 case are not recorded, because the case ended in an error or a model gave no answer; "
        f"{shown_path(path)} keeps earlier ones"
    ]
    write_agent(case, server, CATCHING.replace("BETWEEN", ""))
    asked = server.count
    again = case.run(models=ModelMode.AUTO)
    assert (get_calls(again).replayed, server.count) == (4, asked), "nor in the store"


def test_calls_before_an_error_of_the_agent_are_recorded_if_no_others_are(case: Project, server: ModelServer) -> None:
    path = case.root / "calls.jsonl"
    write_agent(case, server, CATCHING.replace("BETWEEN", "raise ValueError('a bug')"))

    first = case.run(record=path)
    second = case.run(replay=path)

    assert list_warnings(first) == []
    assert "a bug" in get_failure_message(second, "a")
    assert (get_calls(second).replayed, server.count) == (1, 1)


def test_a_fallback_to_another_model_is_recorded_and_replayed(case: Project, server: ModelServer) -> None:
    client = """
        import httpx
        response = httpx.post(url, json=body, headers=headers)
        return (httpx.post(url, json={**body, "model": "b"}, headers=headers) if response.is_error else response).json()
    """
    write_agent(case, server, client)
    server.failures = [429]
    path = case.root / "calls.jsonl"

    first = case.run(record=path)
    second = case.run(replay=path)

    assert (get_calls(second).replayed, server.count) == (3, 3)
    assert get_response(second) == get_response(first)


def test_a_try_that_the_client_repeats_is_recorded_and_left_out(case: Project, server: ModelServer) -> None:
    client = """
        import httpx
        for _ in range(3):
            response = httpx.post(url, json=body, headers=headers)
            if response.status_code != 429:
                return response.json()
    """
    write_agent(case, server, client)
    server.failures = [429]

    first = case.run(models=ModelMode.AUTO)
    second = case.run(models=ModelMode.AUTO)

    assert (get_calls(first).live, get_calls(second).replayed, server.count) == (3, 2, 3)
    assert get_response(second) == get_response(first)


def test_requests_in_parallel_may_come_in_any_order(case: Project, server: ModelServer) -> None:
    client = """
        import random, time, httpx
        from concurrent.futures import ThreadPoolExecutor
        def one(number):
            time.sleep(random.random() / 50)
            asked = {"messages": [{"role": "user", "content": f"{prompt} {number}"}]}
            said = httpx.post(url, json=asked, headers=headers).json()["choices"][0]["message"]["content"]
            return said.partition(": ")[2]
        with ThreadPoolExecutor(6) as pool:
            said = " ".join(pool.map(one, range(6)))
        return {"choices": [{"message": {"content": said}}]}
    """
    write_agent(case, server, client)

    first = case.run(models=ModelMode.AUTO)
    second = case.run(models=ModelMode.AUTO)

    assert (get_calls(first).live, get_calls(second).replayed, server.count) == (12, 12, 12)
    assert get_response(second) == get_response(first)


def test_other_traffic_passes(case: Project, server: ModelServer) -> None:
    write_agent(case, server)
    path = case.root / "agent.py"
    path.write_text(path.read_text().replace("/v1/chat/completions", "/tools/search"))

    case.run(models=ModelMode.AUTO)
    run = case.run(models=ModelMode.AUTO)

    assert server.count == 4
    assert get_calls(run) == ModelCalls()


def test_settings_name_further_endpoints_and_what_is_volatile(case: Project, server: ModelServer) -> None:
    write_agent(case, server, more=", 'run': __import__('uuid').uuid4().hex")
    path = case.root / "agent.py"
    path.write_text(path.read_text().replace("/v1/chat/completions", "/our/model"))
    toml = case.root / "workbench.toml"
    host = server.url.removeprefix("http://")
    toml.write_text(f'{toml.read_text()}[replay]\nmodels = "auto"\nendpoints = ["{host}"]\nvolatile_fields = ["run"]\n')

    case.run()
    run = case.run()

    assert (get_calls(run).replayed, server.count) == (2, 2)


def test_cases_that_share_a_process_get_their_own_answers(project: Project, server: ModelServer) -> None:
    project.add_set({name: [turn(f"hello {name}")] for name in "abcd"})
    project.add_criteria(tool_trajectory_avg_score=0.0)
    write_agent(project, server)

    first = project.run(models=ModelMode.AUTO, isolation="worker")
    second = project.run(models=ModelMode.AUTO, isolation="worker")

    assert server.count == 4
    for name in "abcd":
        assert get_calls(second, name).replayed == 1
        assert get_response(second, name) == get_response(first, name)
        assert f"hello {name}" in get_response(second, name)


def test_threads_of_cases_that_share_a_process_may_send_other_requests(project: Project, server: ModelServer) -> None:
    project.add_set({name: [turn(f"hello {name}")] for name in "abcd"})
    project.add_criteria(tool_trajectory_avg_score=0.0)
    in_thread = """
        import httpx
        from concurrent.futures import ThreadPoolExecutor
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(lambda: httpx.post(url, json=body, headers=headers).json()).result()
    """
    write_agent(project, server, in_thread)
    path = project.root / "agent.py"
    path.write_text(path.read_text().replace("/v1/chat/completions", "/tools/search"))

    run = project.run(models=ModelMode.AUTO, isolation="worker", concurrency=4)

    assert set(get_statuses(run).values()) == {"PASSED"}
    assert server.count == 4


def test_a_replayed_run_takes_no_time_of_the_model(case: Project, server: ModelServer) -> None:
    write_agent(case, server)
    server.seconds = 0.5

    case.run(models=ModelMode.AUTO)
    started = time.monotonic()
    run = case.run(models=ModelMode.AUTO)

    assert get_calls(run).saved_seconds >= 1.0
    assert find_result(run, "a").execution.agent_seconds < time.monotonic() - started
    assert run.summary().model_calls == get_calls(run).model_copy(update={"recording": None})


def test_a_recording_of_another_version_or_another_file_is_refused(case: Project, server: ModelServer) -> None:
    write_agent(case, server)
    path: Path = case.root / "notes.txt"
    path.write_text("important\n")

    expected = r"notes.txt:1:1: found another content, expected recorded calls"
    with pytest.raises(PlanError, match=expected):
        case.run(replay=path)
    with pytest.raises(PlanError, match=expected):
        case.run(record=path)
    assert path.read_text() == "important\n"


@pytest.mark.parametrize("client", ["httpx", "requests"])
def test_a_form_with_a_random_boundary_is_the_same_request(case: Project, client: str) -> None:
    class Handler(QuietHandler):
        count = 0

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            Handler.count += 1
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"heard")

    with run_http_server(Handler) as url:
        (case.root / "agent.py").write_text(
            f"import {client} as client\n\ndef answer(prompt):\n"
            f"    files = {{'file': ('a.wav', bytes(range(256))), 'model': (None, 'whisper')}}\n"
            f"    said = client.post('{url}/v1/audio/transcriptions', files=files).text\n"
            "    return {'response': said, 'predicted_trajectory': []}\n"
        )
        toml = case.root / "workbench.toml"
        toml.write_text(f'{toml.read_text()}[replay]\nendpoints = ["{url}/v1/audio"]\n')
        case.run(models=ModelMode.AUTO)
        run = case.run(models=ModelMode.AUTO)

    assert (get_calls(run).replayed, Handler.count) == (2, 2)


def test_an_expression_of_the_settings_that_takes_too_long_ends_the_case(case: Project, server: ModelServer) -> None:
    write_agent(case, server)
    case.add_set({"a": [turn("a" * 40 + "!")]})
    toml = case.root / "workbench.toml"
    toml.write_text(f"{toml.read_text()}[replay]\nvolatile_texts = ['^(a|a|aa)+\\1$']\n")

    run = case.run(models=ModelMode.AUTO)

    assert get_statuses(run) == {"a": "ERROR"}
    message = get_failure_message(run, "a")
    assert "[replay] volatile_texts: the regular expression" in message
    assert "needs more than 0.5 s" in message


@pytest.mark.parametrize("client", ["httpx", "httpx_async", "requests", "aiohttp"])
def test_a_request_that_names_a_model_is_replayed_whatever_its_address(
    case: Project, server: ModelServer, client: str
) -> None:
    write_agent(case, server, CLIENTS[client], more=", 'model': 'llama'")
    path = case.root / "agent.py"
    path.write_text(path.read_text().replace("/v1/chat/completions", "/api/chat"))

    case.run(models=ModelMode.AUTO)
    run = case.run(models=ModelMode.AUTO)

    assert (get_calls(run).live, get_calls(run).replayed, server.count) == (0, 2, 2)


@pytest.mark.parametrize("client", ["httpx", "httpx_async", "requests", "aiohttp", "urllib"])
def test_a_request_that_looks_like_one_to_a_model_is_named_and_refused_in_a_replay(
    case: Project, server: ModelServer, client: str
) -> None:
    write_agent(case, server, {**CLIENTS, "urllib": URLLIB}[client])
    path = case.root / "agent.py"
    path.write_text(path.read_text().replace("/v1/chat/completions", "/completion"))

    live = case.run(models=ModelMode.AUTO)
    refused = case.run(models=ModelMode.REPLAY)

    assert (get_calls(live).live, server.count) == (2, 2)
    failure = find_result(refused, "a").failure
    assert failure is not None and failure.kind is FailureKind.REPLAY
    if client == "urllib":
        assert "is made with http.client (http://" in failure.message
        return
    address = f"{server.url}/completion"
    lack = f"model call 1 looks like a request to a model, but [replay] endpoints do not cover {address}"
    assert str(get_calls(live).difference) == lack
    host = server.url.removeprefix("http://")
    how = f'add "{host}" to [replay] endpoints in workbench.toml, or run with --models live'
    assert failure.message == f"{lack}; {how}"
    toml = case.root / "workbench.toml"
    toml.write_text(f'{toml.read_text()}[replay]\nendpoints = ["{host}"]\n')
    case.run(models=ModelMode.AUTO)
    assert get_calls(case.run(models=ModelMode.REPLAY)).replayed == 2


def test_a_run_warns_if_no_model_call_of_an_agent_was_seen(case: Project, server: ModelServer) -> None:
    path, other = case.root / "calls.jsonl", case.root / "other.jsonl"
    write_agent(case, server)
    seen = case.run(record=path)
    in_other_process = """
        import json, subprocess, sys
        code = "import sys, urllib.request as u; print(u.urlopen(u.Request(sys.argv[1], sys.argv[2].encode(), "
        code += "{'Authorization': sys.argv[3]})).read().decode())"
        command = [sys.executable, "-c", code, url, json.dumps(body), headers["Authorization"]]
        return json.loads(subprocess.run(command, capture_output=True, text=True).stdout)
    """
    write_agent(case, server, in_other_process)

    runs = [case.run(record=other), case.run(replay=path), case.run(models=ModelMode.REPLAY), case.run(replay=other)]

    warning = "no model call of sample was seen: if it asks models in another process"
    assert [any(warning in each for each in list_warnings(run)) for run in runs] == [True, True, True, False]
    assert list_warnings(seen) == []
    assert {status for run in runs for status in get_statuses(run).values()} == {"PASSED"}
