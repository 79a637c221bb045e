"""`workbench doctor` on judge models: their names, their connections, and with `--check` whether they answer."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.cli.command_line import CommandLine
from tests.engine.judged import METRIC, make_judged_folder, serve_judge
from tests.llm.servers import HttpResponse, Server, gemini_error
from tests.watch.watched import Folder


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with serve_judge(monkeypatch) as judge_server:
        yield judge_server


@pytest.fixture
def folder(workbench: CommandLine) -> Folder:
    for path in workbench.root.rglob("*.json"):
        path.unlink()
    return make_judged_folder(workbench.root, good="good")


def test_doctor_shows_judges_and_their_connection_without_secrets(
    workbench: CommandLine, folder: Folder, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_API_KEY", "secret-value")
    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", "https://me:pass@proxy.example:8443/v1?token=t")

    result = workbench("doctor")

    assert "  gemini-2.5-flash for sample: 1 eval set; google-genai, Gemini API\n" in result.out
    assert "    with GOOGLE_API_KEY, at https://proxy.example:8443/v1\n" in result.out
    assert "    $0.30 per million input tokens, $2.50 per million output tokens\n" in result.out
    assert not any(secret in result.out for secret in ("secret-value", "pass", "token=t"))
    assert server.calls == []


def test_doctor_reports_missing_keys_and_unknown_prices(
    workbench: CommandLine, folder: Folder, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GOOGLE_API_KEY")
    options = {"threshold": 1.0, "judge_model_options": {"judge_model": "openai/mine"}}
    folder.write("test_config.json", json.dumps({"criteria": {METRIC: options, "safety_v1": 0.5}}))
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)

    result = workbench("doctor")

    assert result.status == 2
    place = "in the environment or in the agent's .env"
    assert f"    no API key: set GOOGLE_API_KEY or GEMINI_API_KEY {place}\n" in result.out
    assert "2 problems:\n" in result.out
    judges = "which judges 1 eval set of sample: no API key: set"
    assert f"  gemini-2.5-flash, {judges} GOOGLE_API_KEY or GEMINI_API_KEY {place}\n" in result.out
    assert f"  openai/mine, {judges} OPENAI_API_KEY {place}\n" in result.out
    assert "openai/mine for sample: 1 eval set; LiteLLM, openai" in result.out
    assert "the price of openai/mine is unknown" in result.out


def test_doctor_says_that_no_criterion_uses_a_judge(workbench: CommandLine) -> None:
    assert "judges       none: no criterion uses a judge model" in workbench("doctor").out


def test_check_asks_each_judge_once(workbench: CommandLine, folder: Folder, server: Server) -> None:
    result = workbench("doctor", "--check")

    assert result.status == 0
    assert len(server.calls) == 1
    assert "answered in 0." in result.out
    assert ", by gemini-test-001" in result.out


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (gemini_error(400, "API key not valid"), "the key was not accepted"),
        (
            gemini_error(404, "nowhere"),
            "the model does not exist, or the key may not use it",
        ),
        (
            gemini_error(429, "quota"),
            "too many requests, or the quota is used up (429",
        ),
        (HttpResponse("<html>"), "the service cannot be reached or has failed"),
    ],
)
def test_a_judge_without_an_answer_is_a_problem_with_its_reason(
    workbench: CommandLine, folder: Folder, server: Server, answer: HttpResponse, message: str
) -> None:
    server.answer = lambda _: answer

    result = workbench("doctor", "--check")

    assert result.status == 2
    assert f"judge of sample: gemini-2.5-flash: {message}" in result.out
    assert len(server.calls) == 1


def test_a_missing_key_is_not_a_problem_if_a_script_replies(
    workbench: CommandLine, folder: Folder, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GOOGLE_API_KEY")
    folder.write("script.json", '{"rules": [{"reply": "yes"}]}')
    settings = workbench.root / "workbench.toml"
    settings.write_text(
        settings.read_text().replace("[targets.sample]", '[targets.sample]\nscripted_models = "script.json"')
    )

    result = workbench("doctor", "--check")

    assert (result.status, server.calls) == (0, [])
    assert "    without a key, scripted replies come from script.json" in result.out
    assert "    not checked: no API key; scripted replies are used" in result.out


@pytest.mark.parametrize("options", [(), ("--check",)])
def test_a_missing_key_is_one_problem(
    workbench: CommandLine, folder: Folder, server: Server, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    monkeypatch.delenv("GOOGLE_API_KEY")

    result = workbench("doctor", *options)

    assert result.status == 2
    assert "1 problem:\n  gemini-2.5-flash, which judges 1 eval set of sample: no API key" in result.out


def test_a_missing_key_is_a_problem_if_a_simulated_user_needs_it(
    workbench: CommandLine, folder: Folder, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GOOGLE_API_KEY")
    scenario = {"starting_prompt": "Hello", "conversation_plan": "Ask for the time.", "user_persona": "NOVICE"}
    cases = [{"eval_id": "s", "conversation_scenario": scenario}]
    folder.write("set.evalset.json", json.dumps({"eval_set_id": "set", "eval_cases": cases}))
    folder.write("test_config.json", json.dumps({"criteria": {"tool_call_count_v1": 3}}))

    result = workbench("doctor")

    assert result.status == 2
    assert "  gemini-2.5-flash, which plays the users of 1 eval set of sample: no API key: set" in result.out


def test_a_missing_key_that_no_criterion_needs_is_not_a_problem(
    workbench: CommandLine, folder: Folder, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GOOGLE_API_KEY")
    folder.write("test_config.json", json.dumps({"criteria": {"response_match_score": 0.5}}))

    assert "no problems found" in workbench("doctor").out
