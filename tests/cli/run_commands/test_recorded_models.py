"""Recorded model calls of agents on the command line: options, the closing line, `explain`, and watch mode."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator

import pytest

from tests.cli.command_line import CommandLine, turn
from tests.llm.servers import Call, HttpResponse, Server, make_asking_agent, openai, run_server

pytestmark = [pytest.mark.needs_fork, pytest.mark.prepared("http")]

PROGRAM = """
import json, os, sys
sys.path.insert(0, "home")
import agent

for line in sys.stdin:
    answer = agent.answer(json.loads(line)["prompt"])
    print(json.dumps({"type": "finished", **answer}), flush=True)
"""
URLLIB = """
import json, urllib.request

def ask(url, body):
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    return json.load(urllib.request.urlopen(request))
"""
"""A client that is imported faster than `httpx`: programs start for each session."""
PRICES = """
[judge.prices."m"]
input = 1.0
output = 10.0
"""


def reply(_: Call) -> HttpResponse:
    response = openai("hello")
    response.body["usage"] = {"prompt_tokens": 1000, "completion_tokens": 100}
    return response


@pytest.fixture
def server(workbench: CommandLine) -> Iterator[Server]:
    for path in workbench.root.rglob("*.json"):
        path.unlink()
    with run_server(reply) as server:
        workbench.write("home/agent.py", make_asking_agent(server.url, instruction="Be nice."))
        cases = [{"eval_id": name, "conversation": [turn(f"say {name}", "hello")]} for name in ("a", "b")]
        workbench.write("home/s.evalset.json", {"eval_set_id": "s", "eval_cases": cases})
        workbench.write("home/test_config.json", {"criteria": {"response_match_score": 0.5}})
        toml = workbench.root / "workbench.toml"
        toml.write_text(toml.read_text() + PRICES)
        yield server


@pytest.fixture
def use_program(workbench: CommandLine, server: Server, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Return a function that puts the agent into a program, which finds the server in its environment."""

    def use() -> None:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        code = (workbench.root / "home" / "agent.py").read_text()
        code = code.replace(f'"{server.url}/v1/chat', '__import__("os").environ["OPENAI_BASE_URL"] + "/chat')
        code = (
            code.replace("import httpx", URLLIB)
            .replace("httpx.post(", "ask(")
            .replace(", json=body).json()", ", body)")
        )
        workbench.write("home/agent.py", code)
        workbench.write("program.py", PROGRAM)
        target = f'kind = "command"\ntarget = ["{sys.executable}", "program.py"]\neval_sets = ["home/*.evalset.json"]'
        workbench.write("workbench.toml", f"[targets.home]\n{target}\n{PRICES}")

    return use


@pytest.mark.parametrize("is_program", [False, True], ids=["function", "program"])
def test_a_run_says_what_it_replayed_and_saved(
    workbench: CommandLine, server: Server, use_program: Callable[[], None], is_program: bool
) -> None:
    if is_program:
        use_program()
    first = workbench("run", "--models", "auto")
    second = workbench("run", "--models", "auto")
    third = workbench("run", "--models", "auto", "--format", "json")

    assert "2 model calls made, none replayed" in first.out
    assert "2 of 2 model calls replayed, $0.0040 and " in second.out
    assert third.data["summary"]["model_calls"]["replayed"] == 2
    assert third.data["cases"][0]["model_calls"]["saved_cost"] == pytest.approx(0.002)
    assert len(server.calls) == 2


def test_a_plan_says_what_is_recorded_and_takes_its_time_from_runs_of_the_same_kind(
    workbench: CommandLine, server: Server
) -> None:
    plan = ("run", "--dry-run", "--models", "auto")
    empty = workbench(*plan).out
    workbench("run", "--models", "auto")
    recorded = workbench(*plan).out
    workbench("run", "--models", "auto")
    replayed = workbench(*plan, "--format", "json").data["cost"]

    differs = "models are asked live only where a request differs"
    assert "recording" not in empty
    assert "no estimate of the time: no earlier run of these cases" in empty
    assert f"↺ 2 of 2 cases have a recording: {differs}\n" in recorded
    assert recorded.endswith("no estimate of the time: no earlier replayed run of these cases\n")
    assert replayed["replays"] == {"mode": "auto", "recorded": 2, "of": 2, "unit": "case", "source": ""}
    assert (replayed["live_jobs"], replayed["seconds"], replayed["replayed_seconds"]["known"]) == (0, None, 2)
    live = workbench("run", "--dry-run").out
    assert "recording" not in live and " s, from earlier runs of 2 of 2 cases" in live
    assert len(server.calls) == 2

    workbench("run", "home/s.evalset.json:a", "--record", "calls.jsonl")
    text = workbench("run", "--dry-run", "--replay", "calls.jsonl").out
    assert "a recording in calls.jsonl: no model is asked, and a request that is not recorded ends its case" in text
    assert "live" not in text


def test_a_recording_is_made_and_used_as_a_file(workbench: CommandLine, server: Server) -> None:
    recorded = workbench("run", "--record", "calls.jsonl")
    replayed = workbench("run", "--replay", "calls.jsonl")

    assert (recorded.status, replayed.status, len(server.calls)) == (0, 0, 2)
    path = workbench.root / "home" / "agent.py"
    path.write_text(path.read_text().replace("Be nice.", "Be brief."))
    refused = workbench("run", "--replay", "calls.jsonl")
    assert refused.status == 3
    assert 'replay, turn 1: model call 1 differs from the recording: instruction changed: "Be nice."' in refused.out


def test_a_program_that_asks_its_models_past_the_proxy_is_named(
    workbench: CommandLine, server: Server, use_program: Callable[[], None]
) -> None:
    use_program()
    path = workbench.root / "home" / "agent.py"
    code = path.read_text()
    path.write_text(code.replace('__import__("os").environ["OPENAI_BASE_URL"]', f'"{server.url}/v1"'))

    recorded = workbench("run", "--record", "calls.jsonl")
    replayed = workbench("run", "--replay", "calls.jsonl")
    path.write_text(code)
    covered = workbench("run", "--record", "calls.jsonl")
    path.write_text(code.replace("Be nice.", "Be brief."))
    refused = workbench("run", "--replay", "calls.jsonl")

    warning = "no model call of home passed workbench's proxy"
    assert [warning in done.error for done in (recorded, replayed, covered, refused)] == [True, True, False, False]
    assert refused.status == 3


@pytest.mark.parametrize(
    ("options", "calls"), [([], 0), (["--models", "live"], 2), (["--fresh"], 2), (["--replay", "calls.jsonl"], 0)]
)
def test_verdicts_on_replayed_answers_are_affected_if_others_must_answer(
    workbench: CommandLine, server: Server, options: list[str], calls: int
) -> None:
    workbench("run", "--record", "calls.jsonl")
    path = workbench.root / "home" / "agent.py"
    path.write_text(path.read_text().replace("return {", "prompt += prompt\n    return {"))
    replayed = workbench("run", "--replay", "calls.jsonl")
    assert (replayed.status, len(server.calls)) == (0, 2)

    affected = workbench("run", "--affected", *options)

    stale = "2 of 2, 2 because answers of models were replayed" if options else "0 of 2"
    assert f"affected: {stale}; the other verdicts are current" in affected.out + affected.error
    assert len(server.calls) == 2 + calls


def test_explain_says_what_was_replayed_and_what_differed(workbench: CommandLine, server: Server) -> None:
    workbench("run", "--models", "auto")
    path = workbench.root / "home" / "agent.py"
    path.write_text(path.read_text().replace("Be nice.", "Be brief."))
    workbench("run", "--models", "auto")

    explained = workbench("explain", "home/s.evalset.json:a")

    assert "1 model call made, none replayed" in explained.out
    assert "model call 1 differs from the recording: instruction changed: Be [-nice-]{+brief+}." in explained.out
    assert len(server.calls) == 4


def test_explain_shows_the_spread_of_live_samples_beside_a_replayed_verdict(
    workbench: CommandLine, server: Server
) -> None:
    workbench("run", "--models", "auto", "--fresh", "--runs", "2")
    workbench("run", "--models", "auto")

    explained = workbench("explain", "home/s.evalset.json:a")

    assert "2 of 2 live samples passed, " in explained.out
    assert "response_match_score: mean 1.00, 1.00 to 1.00" in explained.out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--record", "x.jsonl", "--replay", "calls.jsonl"], "--record and --replay exclude each other"),
        (["--replay", "calls.jsonl", "--models", "live"], "--replay and --models live exclude each other"),
        (["--fresh", "--models", "replay"], "--fresh records new answers"),
        (["--replay", "missing.jsonl"], "missing.jsonl"),
    ],
)
def test_options_that_exclude_each_other_are_refused(
    workbench: CommandLine, server: Server, options: list[str], message: str
) -> None:
    workbench("run", "--record", "calls.jsonl")

    refused = workbench("run", *options)

    assert refused.status == 2
    assert message in refused.error


@pytest.mark.parametrize("is_program", [False, True], ids=["function", "program"])
def test_watch_replays_while_requests_are_the_same(
    workbench: CommandLine, server: Server, use_program: Callable[[], None], is_program: bool
) -> None:
    def read_until(text: str) -> list[str]:
        assert process.stdout is not None
        lines: list[str] = []
        while not lines or text not in lines[-1]:
            lines.append(process.stdout.readline())
            assert lines[-1], lines
        return lines

    if is_program:
        use_program()
    process = workbench.start("watch", "--plain")
    try:
        read_until("2 cases: 2 passed")
        path = workbench.root / "home" / "agent.py"
        path.write_text(path.read_text().replace('"predicted_trajectory": []', '"predicted_trajectory": list()'))
        verdicts = read_until("2 cases: 2 passed")
        replayed = read_until("replayed")
    finally:
        process.kill()
        process.communicate()

    assert sum(line.endswith("↺ 1 model call replayed\n") for line in verdicts) == 2
    # A program may run more than once: on a busy machine, what it writes itself looks like a later edit.
    assert re.search(r"↺ (2 of 2|4 of 4|6 of 6) model calls replayed, \$0\.\d+ and ", replayed[-1])
    assert len(server.calls) == 2
