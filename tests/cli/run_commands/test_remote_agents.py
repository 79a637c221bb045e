"""`workbench run` with agents behind HTTP: verdicts, retries, time limits, reuse of history in a later run."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from tests.cli.conftest import CommandLine
from tests.llm.servers import Call, HttpResponse, run_server

Turn = Callable[..., dict[str, Any]]


def configure(workbench: CommandLine, url: str, *more: str) -> None:
    lines = ["[targets.web]", 'kind = "http"', f'target = "{url}/chat"', 'eval_sets = ["web/*.evalset.json"]', *more]
    workbench.write("workbench.toml", "\n".join(lines))


def test_verdicts_and_failures_of_an_agent_behind_http(workbench: CommandLine, make_turn: Turn) -> None:
    def answer(call: Call) -> HttpResponse:
        prompt = call.body["prompt"]
        return HttpResponse("out of order", status=503) if prompt == "down" else HttpResponse({"response": prompt})

    cases = {prompt: [make_turn(prompt, "fine")] for prompt in ("fine", "wrong", "down")}
    workbench.add_set("web/set.evalset.json", cases)
    workbench.write("criteria.json", {"criteria": {"response_match_score": 0.8}})

    with run_server(answer) as server:
        configure(workbench, server.url)
        done = workbench("run", "web", "--config", "criteria.json", "--format", "json")
        asked = [call.body["prompt"] for call in server.calls]
        url = f"{server.url}/chat"

    found = {
        case["eval_id"]: (case["status"], case["error"] and case["error"]["message"]) for case in done.data["cases"]
    }
    assert found == {
        "fine": ("PASSED", None),
        "wrong": ("FAILED", None),
        "down": ("ERROR", f"POST {url} answered 503: out of order"),
    }
    assert sorted(asked) == ["down", "down", "down", "fine", "wrong"]


def test_an_agent_behind_http_that_is_slow_is_an_error_that_names_it(workbench: CommandLine, make_turn: Turn) -> None:
    workbench.add_set("web/set.evalset.json", {"slow": [make_turn("hello")]})
    over = threading.Event()

    def answer(call: Call) -> HttpResponse:
        over.wait(60)
        return HttpResponse({"response": "at last"})

    with run_server(answer) as server:
        configure(workbench, server.url)
        done = workbench("run", "web", "--timeout", "0.5", "--format", "json")
        over.set()

    (case,) = done.data["cases"]
    assert (case["status"], case["error"]["kind"]) == ("ERROR", "timeout")
    assert case["error"]["message"] == f"took longer than 0.5 s, waiting for {server.url}/chat"


def test_a_verdict_is_current_until_the_input_changes(workbench: CommandLine, make_turn: Turn) -> None:
    workbench.add_set("web/set.evalset.json", {"one": [make_turn("hello", "hello")]})

    with run_server(lambda call: HttpResponse({"response": call.body["prompt"], "predicted_trajectory": []})) as server:
        configure(workbench, server.url, 'watch = ["served"]')
        workbench.write("served/agent.py", "A = 1")
        workbench("run", "web")
        workbench.write("notes.py", "B = 2")
        calls = [len(server.calls)]
        workbench("run", "--affected")
        calls.append(len(server.calls))
        workbench.write("served/agent.py", "A = 2")
        workbench("run", "--affected")
        calls.append(len(server.calls))
        configure(workbench, server.url, 'watch = ["served"]', 'http.body = { prompt = "{{ prompt }}", more = 1 }')
        workbench("run", "--affected")
        calls.append(len(server.calls))

    assert calls == [1, 1, 2, 3]


def test_what_an_agent_never_tells_is_neither_passed_nor_failed(workbench: CommandLine, make_turn: Turn) -> None:
    cases = {"some": [make_turn("hello", "hello", ("wave", {}))], "none": [make_turn("hello", "hello")]}
    workbench.add_set("web/set.evalset.json", cases)

    with run_server(lambda call: HttpResponse({"response": call.body["prompt"]})) as server:
        configure(workbench, server.url)
        done = workbench("run", "web", "--format", "json")

    assert done.status == 3
    outcome = {"some": ("ERROR", "ERROR"), "none": ("PASSED", "UNDEFINED")}
    for case in done.data["cases"]:
        found = {metric["name"]: metric for metric in case["metrics"]}
        trajectory, measure = found["tool_trajectory_avg_score"], found["tool_call_count_v1"]
        assert (case["status"], trajectory["status"]) == outcome[case["eval_id"]]
        assert (trajectory["score"], measure["score"]) == (None, None)
        assert "the answer does not say which tools were called" in trajectory["reason"]
        assert found["response_match_score"]["status"] == "PASSED"
        assert (case["turns"][0]["trajectory"], case["differences"]) == (None, [])
