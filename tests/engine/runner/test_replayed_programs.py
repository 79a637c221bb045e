"""Model calls of programs, recorded and replayed through the proxy: real processes and a server on this machine."""

from __future__ import annotations

import json
import sqlite3
import sys
import zlib
from collections.abc import Iterator
from textwrap import dedent
from typing import Any

import pytest

from tests.engine.project import Project, find_result, get_failure_message, get_statuses, turn
from tests.serving import ModelServer, run_model_server
from workbench.model.results import FailureKind, ModelCalls
from workbench.model.target import ModelMode

pytestmark = pytest.mark.needs_fork

KEY = "sk-averysecretkey-0123456789"
HEAD = f"""
import json, os, sys, urllib.error, urllib.request

KEY = {KEY!r}

def ask(prompt, more=()):
    instruction = {{"role": "system", "content": "Be nice."}}
    body = {{"messages": [instruction, {{"role": "user", "content": prompt}}], **dict(more)}}
    headers = {{"Authorization": "Bearer " + KEY, "Content-Type": "application/json"}}
    url = os.environ["OPENAI_BASE_URL"] + "/chat/completions?key=" + KEY
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request) as response:
        return json.load(response)["choices"][0]["message"]["content"]

def ask_gemini(prompt):
    from google import genai
    client = genai.Client(api_key=KEY, vertexai=False)
    return "".join(chunk.text for chunk in client.models.generate_content_stream(model="m", contents=prompt))

def say(**message):
    sys.stdout.write(json.dumps(message) + "\\n")
    sys.stdout.flush()

for line in sys.stdin:
    turn = json.loads(line)
    prompt = turn["prompt"]
"""
ASK = 'say(type="finished", response=ask(prompt))'
ASK_GEMINI = 'say(type="finished", response=ask_gemini(prompt))'


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with run_model_server(secret=KEY) as server:
        yield server


@pytest.fixture
def case(project: Project, server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project whose program asks the server's models, because the user's environment says so."""
    target = f'kind = "command"\ntarget = ["{sys.executable}", "program.py"]\neval_sets = ["*.evalset.json"]\n'
    (project.root / "workbench.toml").write_text(f"[targets.desk]\n{target}")
    project.add_set({"a": [turn("hello"), turn("again")]})
    project.add_criteria(tool_trajectory_avg_score=0.0)
    monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/corp/v1")
    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", f"{server.url}/corp")
    return project


def write_program(project: Project, code: str = ASK) -> None:
    """Write a program that runs `code` for each turn."""
    lines = "".join(f"    {line}\n" for line in dedent(code).strip("\n").splitlines())
    (project.root / "program.py").write_text(HEAD + lines)


def get_responses(run: Any, eval_id: str = "a") -> list[str]:
    turns = find_result(run, eval_id).execution.turns
    return [each.invocation.final_response.text() for each in turns]


def get_calls(run: Any, eval_id: str = "a") -> ModelCalls:
    calls = find_result(run, eval_id).execution.model_calls
    assert calls is not None
    return calls


@pytest.mark.parametrize("code", [ASK, ASK_GEMINI], ids=["urllib", "google-genai"])
def test_a_program_gets_the_recorded_answers(case: Project, server: ModelServer, code: str) -> None:
    write_program(case, code)

    first = case.run(models=ModelMode.AUTO)
    second = case.run(models=ModelMode.AUTO)

    assert get_statuses(second) == {"a": "PASSED"}
    assert (get_calls(first).live, get_calls(second).replayed, server.count) == (2, 2, 2)
    assert get_responses(second) == get_responses(first) == ["1: é hello", "2: é again"]
    assert server.paths[0].startswith("/corp/v1")
    assert second.summary().model_calls == get_calls(second).model_copy(update={"recording": None})


def test_a_file_is_recorded_and_replayed_without_any_request(case: Project, server: ModelServer) -> None:
    write_program(case)
    path = case.root / "calls.jsonl"

    recorded = case.run(record=path)
    replayed = case.run(replay=path)
    write_program(case, 'say(type="finished", response=ask(prompt, {"top_p": 1}))')
    refused = case.run(replay=path)

    assert server.count == 2
    assert get_calls(replayed).replayed == get_calls(recorded).live == 2
    assert json.loads(path.read_text().splitlines()[1])["request"]["url"] == f"{server.url}/corp/v1/chat/completions"
    failure = find_result(refused, "a").failure
    assert failure is not None and failure.kind is FailureKind.REPLAY
    assert "model call 1 differs from the recording: parameter top_p changed: nothing became 1" in failure.message


def test_no_credential_is_written_anywhere(case: Project, server: ModelServer) -> None:
    write_program(case, f"{ASK[:-1]} + ask_gemini(prompt))")
    path = case.root / "calls.jsonl"

    case.run(models=ModelMode.AUTO, record=path)

    texts = [path.read_bytes()]
    with sqlite3.connect(case.root / ".workbench" / "recordings.db") as database:
        texts += [zlib.decompress(row[0]) for row in database.execute("SELECT data FROM reply")]
    texts += [file.read_bytes() for file in (case.root / ".workbench").rglob("*") if file.is_file()]
    assert b"for [redacted]" in texts[0]
    assert len(texts[1]) > 500
    assert not [text for text in texts if KEY.encode() in text]


@pytest.mark.parametrize("isolation", ["case", "worker"])
def test_cases_in_parallel_get_their_own_answers(case: Project, server: ModelServer, isolation: str) -> None:
    names = [f"case{number}" for number in range(8)]
    case.add_set({name: [turn("hello")] for name in names})
    server.seconds = 0.2
    write_program(case, """
        parts = [ask(prompt), ask(prompt)]
        say(type="finished", response=" ".join(parts))
    """)  # fmt: skip

    first = case.run(models=ModelMode.AUTO, isolation=isolation, concurrency=8)
    second = case.run(models=ModelMode.AUTO, isolation=isolation, concurrency=8)

    assert server.count == 16
    assert len({get_responses(first, name)[0] for name in names}) == 8
    for name in names:
        assert get_responses(second, name) == get_responses(first, name)
        assert get_calls(second, name).replayed == 2


def test_the_environment_is_left_alone_in_the_mode_live(case: Project, server: ModelServer) -> None:
    write_program(
        case,
        """
        names = ("BASE_URL", "API_BASE", "PROXY", "OLLAMA", "CO_API")
        found = {name: value for name, value in os.environ.items() if any(part in name.upper() for part in names)}
        say(type="finished", response=json.dumps(found))
    """,
    )

    live = json.loads(get_responses(case.run(models=ModelMode.LIVE))[0])
    recorded = json.loads(get_responses(case.run(models=ModelMode.AUTO))[0])

    assert live["OPENAI_BASE_URL"] == f"{server.url}/corp/v1"
    assert "WORKBENCH_MODEL_PROXY" not in live
    assert "ANTHROPIC_BASE_URL" not in live
    assert recorded["OPENAI_BASE_URL"].startswith(recorded["WORKBENCH_MODEL_PROXY"])


def test_addresses_of_the_env_file_are_those_of_the_models(
    case: Project, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL")
    (case.root / ".env").write_text(f"OPENAI_BASE_URL={server.url}/of/env/v1\n")
    toml = case.root / "workbench.toml"
    toml.write_text(f'{toml.read_text()}env_file = ".env"\n')
    write_program(case)

    run = case.run(models=ModelMode.AUTO)

    assert get_calls(run).live == 2
    assert server.paths[0].startswith("/of/env/v1/chat/completions")


def test_a_case_does_not_depend_on_the_address_of_the_proxy(case: Project, server: ModelServer) -> None:
    write_program(case)

    for mode in (ModelMode.LIVE, ModelMode.AUTO, ModelMode.AUTO):
        case.run(models=mode)

    with sqlite3.connect(case.root / ".workbench" / "history.db") as database:
        live, recorded, replayed = (row[0] for row in database.execute("SELECT dependency_set FROM execution"))
        query = "SELECT kind, key, fingerprint FROM dependency WHERE dependency_set = ?"
        rows = {number: set(database.execute(query, [number])) for number in (live, recorded)}
    assert recorded == replayed
    assert {row[0] for row in rows[live] ^ rows[recorded]} <= {"import", "libraries"}  # those of the proxy


def test_a_program_that_fails_over_an_error_of_the_model_asks_it_again(case: Project, server: ModelServer) -> None:
    write_program(
        case,
        """
        try:
            say(type="finished", response=ask(prompt))
        except urllib.error.HTTPError as error:
            say(type="failed", message=f"{error.code}")
    """,
    )
    server.failures = [400]

    first = case.run(models=ModelMode.AUTO)
    second = case.run(models=ModelMode.AUTO)

    assert get_failure_message(first, "a").endswith("failed: 400")
    assert get_statuses(second) == {"a": "PASSED"}
    assert (server.count, get_calls(second).replayed) == (3, 0)


def test_an_agent_s_own_file_does_not_replace_a_library_of_the_proxy(case: Project, server: ModelServer) -> None:
    for name in ("aiohttp", "yarl", "multidict", "attr", "http", "json", "ssl"):
        (case.root / f"{name}.py").write_text("raise RuntimeError('this is not a library')\n")
    write_program(case)
    path = case.root / "program.py"
    path.write_text("import sys; del sys.path[0]\n" + path.read_text())

    for isolation in ("case", "worker"):
        run = case.run(models=ModelMode.AUTO, isolation=isolation, fresh=True)

        assert get_statuses(run) == {"a": "PASSED"}, find_result(run, "a").failure
        assert get_calls(run).live == 2


def test_a_request_that_looks_like_one_to_a_model_is_named_and_refused_in_a_replay(
    case: Project, server: ModelServer
) -> None:
    program = HEAD.replace(
        '["OPENAI_BASE_URL"] + "/chat/completions', '["WORKBENCH_MODEL_PROXY"] + "/http/HOST/completion'
    )
    host = server.url.removeprefix("http://").replace("127.0.0.1", "localhost")
    (case.root / "program.py").write_text(program.replace("HOST", host) + f"    {ASK}\n")

    live = case.run(models=ModelMode.AUTO)
    refused = case.run(models=ModelMode.REPLAY)

    lack = f"model call 1 looks like a request to a model, but [replay] endpoints do not cover http://{host}/completion"
    assert (get_calls(live).live, str(get_calls(live).difference), server.count) == (2, lack, 2)
    failure = find_result(refused, "a").failure
    assert failure is not None and failure.kind is FailureKind.REPLAY and failure.message.startswith(lack)
