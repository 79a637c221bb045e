"""`workbench run` with agents behind HTTP: verdicts, retries, time limits, reuse of history in a later run."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from tests.cli.command_line import CommandLine
from tests.llm.servers import Call, HttpResponse, run_server

Turn = Callable[..., dict[str, Any]]


def configure(workbench: CommandLine, url: str, *more: str) -> None:
    lines = ["[targets.web]", 'kind = "http"', f'target = "{url}/chat"', 'eval_sets = ["web/*.evalset.json"]', *more]
    workbench.write("workbench.toml", "\n".join(lines))


def test_an_http_agent_gets_verdicts_and_its_failures_are_errors(workbench: CommandLine, make_turn: Turn) -> None:
    def answer(call: Call) -> HttpResponse:
        prompt = call.body["prompt"]
        return HttpResponse("out of order", status=503) if prompt == "down" else HttpResponse({"response": prompt})

    cases = {prompt: [make_turn(prompt, "fine")] for prompt in ("fine", "wrong", "down")}
    workbench.add_set("web/set.evalset.json", cases)
    workbench.write("criteria.json", {"criteria": {"response_match_score": 0.8}})

    with run_server(answer) as server:
        configure(workbench, server.url)
        result = workbench("run", "web", "--config", "criteria.json", "--format", "json")
        prompts = [call.body["prompt"] for call in server.calls]
        url = f"{server.url}/chat"

    outcomes = {
        case["eval_id"]: (case["status"], case["error"] and case["error"]["message"]) for case in result.data["cases"]
    }
    assert outcomes == {
        "fine": ("PASSED", None),
        "wrong": ("FAILED", None),
        "down": ("ERROR", f"POST {url} answered 503: out of order"),
    }
    assert sorted(prompts) == ["down", "down", "down", "fine", "wrong"]


def test_a_slow_http_agent_is_a_timeout_error_with_its_url(workbench: CommandLine, make_turn: Turn) -> None:
    workbench.add_set("web/set.evalset.json", {"slow": [make_turn("hello")]})
    end_of_test = threading.Event()

    def answer(call: Call) -> HttpResponse:
        end_of_test.wait(60)
        return HttpResponse({"response": "at last"})

    with run_server(answer) as server:
        configure(workbench, server.url)
        result = workbench("run", "web", "--timeout", "0.5", "--format", "json")
        end_of_test.set()

    (case,) = result.data["cases"]
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


def test_unknown_tool_calls_neither_pass_nor_fail_a_metric(workbench: CommandLine, make_turn: Turn) -> None:
    cases = {"some": [make_turn("hello", "hello", ("wave", {}))], "none": [make_turn("hello", "hello")]}
    workbench.add_set("web/set.evalset.json", cases)

    with run_server(lambda call: HttpResponse({"response": call.body["prompt"]})) as server:
        configure(workbench, server.url)
        result = workbench("run", "web", "--format", "json")

    assert result.status == 3
    outcome = {"some": ("ERROR", "ERROR"), "none": ("PASSED", "UNDEFINED")}
    for case in result.data["cases"]:
        metrics = {metric["name"]: metric for metric in case["metrics"]}
        trajectory, measure = metrics["tool_trajectory_avg_score"], metrics["tool_call_count_v1"]
        assert (case["status"], trajectory["status"]) == outcome[case["eval_id"]]
        assert (trajectory["score"], measure["score"]) == (None, None)
        assert "the answer does not say which tools were called" in trajectory["reason"]
        assert metrics["response_match_score"]["status"] == "PASSED"
        assert (case["turns"][0]["trajectory"], case["differences"]) == (None, [])


def test_a_replay_says_that_it_cannot_cover_the_models_of_an_agent_that_runs_elsewhere(
    workbench: CommandLine, make_turn: Turn
) -> None:
    workbench.add_set("web/set.evalset.json", {"a": [make_turn("hello", "hello")]})
    with run_server(lambda call: HttpResponse({"response": call.body["prompt"]})) as server:
        configure(workbench, server.url)
        strict, live = workbench("run", "web", "--models", "replay"), workbench("run", "web")

    warning = (
        "models of web are live if it asks any: workbench can neither record nor replay what an agent of kind http asks"
    )
    assert warning in strict.error
    assert warning not in live.error
