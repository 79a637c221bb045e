"""`workbench eval-set generate-eval-cases`: a model writes cases, which are checked, selected and added."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import CommandLine, Done
from tests.engine.judged import serve_judge
from tests.llm.servers import Call, HttpResponse, Server, gemini

SAMPLES = Path(__file__).parents[3] / "sample_agents"
SETTINGS = """
[targets.home]
kind = "function"
target = "home.agent:answer"

[judge]
tries = 1
"""


def draft(number: int, **changes: Any) -> dict[str, Any]:
    return {
        "starting_prompt": f"Light {number}, please.",
        "conversation_plan": f"You want light {number} on.",
        "user_persona": "NONE",
        **changes,
    }


def reply(*drafts: dict[str, Any], **said: Any) -> HttpResponse:
    return gemini(json.dumps({"scenarios": list(drafts)}), **said)


def prompt_of(call: Call) -> str:
    text: str = call.body["contents"][0]["parts"][0]["text"]
    return text


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with serve_judge(monkeypatch, lambda _: reply(draft(1), draft(2, user_persona="NOVICE"))) as started:
        yield started


@pytest.fixture
def home(workbench: CommandLine) -> CommandLine:
    workbench.write("workbench.toml", SETTINGS)
    return workbench


def generate(home: CommandLine, *options: str, set_id: str = "new") -> Done:
    return home("eval-set", "generate-eval-cases", "home", set_id, "--count", "2", *options)


def cases_of(path: Path) -> list[dict[str, Any]]:
    cases: list[dict[str, Any]] = json.loads(path.read_text())["eval_cases"]
    return cases


def test_scenarios_are_written_from_what_the_agent_is_and_added_to_a_new_set(home: CommandLine, server: Server) -> None:
    done = generate(home, "--instruction", "about lamps", "--context", "lamps 1 and 2")

    assert done.status == 0, done.error
    assert "Eval set 'new' created for app 'home'." in done.out
    first, second = cases_of(home.root / "home/new.evalset.json")
    assert first["conversation_scenario"] == {
        "starting_prompt": "Light 1, please.",
        "conversation_plan": "You want light 1 on.",
    }
    assert first["session_input"] == {"app_name": "home", "user_id": "test_user_id", "state": {}}
    assert second["conversation_scenario"]["user_persona"] == "NOVICE"
    assert f"Eval case '{first['eval_id']}' added to eval set 'new'." in done.out
    prompt = prompt_of(server.calls[0])
    assert "Does what the prompt says." in prompt
    assert "<wishes>\nabout lamps\n" in prompt
    assert "<environment>\nlamps 1 and 2\n" in prompt
    assert "model gemini-2.5-flash: 1 call" in done.error


def test_the_ids_are_those_that_add_eval_case_gives_and_its_file_is_what_a_dry_run_prints(
    home: CommandLine, server: Server
) -> None:
    printed = generate(home, "--dry-run")
    assert not (home.root / "home/new.evalset.json").exists()
    home.write("scenarios.json", printed.out)
    home.write("session.json", {"app_name": "home", "user_id": "u", "state": {}})
    generate(home)

    home("eval-set", "create", "home", "other")
    files = ("--scenarios_file", "scenarios.json", "--session_input_file", "session.json")
    home("eval-set", "add-eval-case", "home", "other", *files)

    ids = [[case["eval_id"] for case in cases_of(home.root / f"home/{name}.evalset.json")] for name in ("new", "other")]
    assert ids[0] == ids[1]


def test_the_arguments_of_adk_are_understood(home: CommandLine, server: Server) -> None:
    home.write("wanted.json", {"count": 1, "modelName": "gemini-x", "environmentContext": "two rooms"})

    done = home(
        "eval_set", "generate_eval_cases", "home", "new", "--user_simulation_config_file", "wanted.json",
        "--log_level", "INFO",
    )  # fmt: skip

    assert done.status == 0, done.error
    assert len(cases_of(home.root / "home/new.evalset.json")) == 1
    assert "two rooms" in prompt_of(server.calls[0])
    assert "gemini-x" in server.calls[0].path
    assert "left out 1 more than the 1 that were wanted" in done.error


def test_what_the_set_has_is_shown_to_the_model_and_not_added_again(home: CommandLine, server: Server) -> None:
    generate(home)
    server.answer = lambda _: reply(draft(2, starting_prompt="light 2,  PLEASE."), draft(3))

    done = generate(home)

    assert done.status == 0
    assert "Light 1, please." in prompt_of(server.calls[-1])
    assert "there is one like it" in done.error
    assert "wrote 1 scenario, not 2" in done.error
    assert len(server.calls) == 3  # one more request for the rest
    assert len(cases_of(home.root / "home/new.evalset.json")) == 3


def test_scenarios_that_cannot_be_played_are_left_out_and_said(home: CommandLine, server: Server) -> None:
    drafts = [draft(1, conversation_plan=" "), draft(2, user_persona="NOVISE"), draft(3, starting_prompt="a \ud800")]
    server.answer = lambda _: reply(*drafts, draft(4))

    done = generate(home)

    assert done.status == 0
    assert "conversation_plan: found no text" in done.error
    assert "found the persona 'NOVISE'" in done.error
    assert "did you mean 'NOVICE'" in done.error
    assert "half of a surrogate pair" in done.error
    assert len(cases_of(home.root / "home/new.evalset.json")) == 1


def test_only_the_personas_that_were_named_play_users(home: CommandLine, server: Server) -> None:
    one = generate(home, "--persona", "expert")
    several = generate(home, "--persona", "NOVICE", "--persona", "EVALUATOR", set_id="several")

    assert (one.status, several.status) == (0, 0)
    personas = [
        case["conversation_scenario"].get("user_persona") for case in cases_of(home.root / "home/new.evalset.json")
    ]
    assert personas == ["EXPERT", "EXPERT"]
    assert "found no persona, expected one of NOVICE, EVALUATOR" in several.error
    assert len(cases_of(home.root / "home/several.evalset.json")) == 1


@pytest.mark.parametrize(
    ("said", "status", "words"),
    [
        (gemini("Sure! What about lamps?"), 3, "Sure! What about lamps?"),
        (gemini(""), 3, "no text"),
        (gemini('{"scenarios": [{"starting_pro', finish="MAX_TOKENS"), 3, "cut off"),
        (reply(), 3, "wrote no scenario"),
        (HttpResponse({"error": {"code": 503, "message": "busy"}}, status=503), 3, "did not answer"),
        (HttpResponse({"error": {"code": 404, "message": "which?"}}, status=404), 2, "no such model"),
    ],
)
def test_where_nothing_comes_of_it_that_is_said_and_nothing_is_written(
    home: CommandLine, server: Server, said: HttpResponse, status: int, words: str
) -> None:
    server.answer = lambda _: said

    done = generate(home)

    assert (done.status, done.out) == (status, "")
    assert words in done.error
    assert not (home.root / "home/new.evalset.json").exists()


def test_of_a_reply_that_was_cut_off_whole_scenarios_count(home: CommandLine, server: Server) -> None:
    text = json.dumps({"scenarios": [draft(1), draft(2)]})
    server.answer = lambda _: gemini(text[:-30], finish="MAX_TOKENS")

    done = generate(home)

    assert done.status == 0
    assert "wrote 1 scenario, not 2 (cut off" in done.error


def test_without_a_key_it_says_what_is_needed(home: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GEMINI_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_API_KEY"):
        monkeypatch.delenv(name, raising=False)

    done = generate(home)

    assert done.status == 2
    assert "key" in done.error
    assert "Traceback" not in done.error


def test_without_a_key_the_sample_has_a_script_that_says_so(
    workbench: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GEMINI_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    shutil.copytree(SAMPLES, workbench.root, dirs_exist_ok=True)

    before = len(cases_of(workbench.root / "hello_world/scenarios.evalset.json"))

    done = workbench("eval-set", "generate-eval-cases", "hello_world", "scenarios", "--count", "2")
    played = workbench("simulate", "hello_world/scenarios.evalset.json")

    assert done.status == 0, done.error
    assert "writes scenarios for hello_world_scenarios" in done.error
    assert "a script answers, as there is no key for gemini-2.5-flash" in done.error
    assert len(cases_of(workbench.root / "hello_world/scenarios.evalset.json")) == before + 2
    assert played.status == 0, played.error
    assert played.out.count("the user has finished") == before + 2


def test_a_script_of_models_that_cannot_be_read_is_named(home: CommandLine, server: Server) -> None:
    home.write("workbench.toml", SETTINGS.replace("[judge]", 'scripted_models = "script.json"\n[judge]'))
    home.write("script.json", '{"rules": [{"whn": []}]}')

    done = generate(home)

    assert done.status == 2
    assert "script.json: rules[0]" in done.error
    assert "Traceback" not in done.error


def test_a_target_can_be_named(home: CommandLine, server: Server) -> None:
    home.write("workbench.toml", f'{SETTINGS}\n[targets.other]\nkind = "function"\ntarget = "home.other:talk"\n')
    home.write("home/other.py", "def talk(prompt):\n    'Talks about the weather.'\n    return prompt\n")

    named, unknown = generate(home, "--target", "other"), generate(home, "--target", "othr")

    assert named.status == 0, named.error
    assert "Talks about the weather." in prompt_of(server.calls[0])
    assert unknown.status == 2
    assert "did you mean 'other'?" in unknown.error


def test_an_agent_that_cannot_be_imported_is_told(home: CommandLine, server: Server) -> None:
    home.write("home/agent.py", "import not_there")

    done = generate(home)

    assert done.status == 3
    assert "not_there" in done.error
    assert server.calls == []


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"count": 0}, "count"),
        ({"count": 2, "model": "x"}, "did you mean 'model_name'"),
        ({"count": 2, "modelName": "gpt-4o"}, "modelName: found 'gpt-4o', expected 'openai/gpt-4o'"),
        ([], "an object"),
    ],
)
def test_a_wrong_file_is_refused_with_its_place(home: CommandLine, server: Server, content: Any, words: str) -> None:
    home.write("wanted.json", content)

    done = home("eval-set", "generate-eval-cases", "home", "new", "--user_simulation_config_file", "wanted.json")

    assert done.status == 2
    assert "wanted.json:" in done.error
    assert words in done.error
    assert server.calls == []


def test_calls_can_be_recorded_and_replayed(home: CommandLine, server: Server) -> None:
    assert generate(home, "--dry-run", "--record-calls", "calls.jsonl").status == 0
    asked = len(server.calls)

    replayed = generate(home, "--dry-run", "--replay-calls", "calls.jsonl")

    assert replayed.status == 0, replayed.error
    assert len(replayed.data["scenarios"]) == 2
    assert len(server.calls) == asked


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")
def test_in_a_terminal_the_user_chooses_what_is_kept(home: CommandLine, server: Server) -> None:
    import pty

    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "workbench.cli.main", "eval-set", "generate-eval-cases", "home", "new", "--count", "2"],
        cwd=home.root, stdin=theirs, stdout=theirs, stderr=subprocess.PIPE,
    )  # fmt: skip
    os.close(theirs)
    os.write(ours, b"5\n2\n")  # there are two
    try:
        _, error = process.communicate(timeout=60)
        shown = os.read(ours, 65536).decode()
    finally:
        process.kill()
        os.close(ours)

    assert process.returncode == 0
    assert b"expected numbers from 1 to 2" in error
    assert "user   Light 1, please." in shown
    (case,) = cases_of(home.root / "home/new.evalset.json")
    assert case["conversation_scenario"]["starting_prompt"] == "Light 2, please."


def test_an_adk_agent_tells_instructions_and_the_state_that_they_need(home: CommandLine, server: Server) -> None:
    pytest.importorskip("google.adk")
    home.write("town/__init__.py", "")
    home.write(
        "town/agent.py",
        "from google.adk.agents import Agent\n"
        "def book(place: str) -> str:\n    'Book a table somewhere.'\n"
        "root_agent = Agent(name='town', model='none', instruction='Be kind to {guest}.', tools=[book])\n",
    )

    done = home("eval-set", "generate-eval-cases", "town", "new", "--count", "2")

    assert done.status == 0, done.error
    assert "Be kind to {guest}." in prompt_of(server.calls[0])
    assert "Book a table somewhere." in prompt_of(server.calls[0])
    case = cases_of(home.root / "town/new.evalset.json")[0]
    assert case["session_input"] == {"app_name": "town", "user_id": "test_user_id", "state": {"guest": ""}}
