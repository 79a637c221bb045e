"""`workbench eval-set generate-eval-cases`: a model writes cases, which are checked, selected and added."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command_line import CommandLine, CommandResult
from tests.engine.judged import serve_judge
from tests.llm.servers import Call, HttpResponse, Server, gemini
from workbench.engine.workspace import Workspace

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


def reply(*drafts: dict[str, Any], **options: Any) -> HttpResponse:
    return gemini(json.dumps({"scenarios": list(drafts)}), **options)


def get_prompt(call: Call) -> str:
    text: str = call.body["contents"][0]["parts"][0]["text"]
    return text


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with serve_judge(monkeypatch, lambda _: reply(draft(1), draft(2, user_persona="NOVICE"))) as model_server:
        yield model_server


@pytest.fixture
def home(workbench: CommandLine) -> CommandLine:
    workbench.write("workbench.toml", SETTINGS)
    return workbench


def generate(home: CommandLine, *options: str, set_id: str = "new") -> CommandResult:
    return home("eval-set", "generate-eval-cases", "home", set_id, "--count", "2", *options)


def read_cases(path: Path) -> list[dict[str, Any]]:
    cases: list[dict[str, Any]] = json.loads(path.read_text())["eval_cases"]
    return cases


def test_scenarios_are_generated_for_the_agent_and_added_to_a_new_set(home: CommandLine, server: Server) -> None:
    result = generate(home, "--instruction", "about lamps", "--context", "lamps 1 and 2")

    assert result.status == 0, result.error
    assert "Eval set 'new' created for app 'home'." in result.out
    first, second = read_cases(home.root / "home/new.evalset.json")
    assert first["conversation_scenario"] == {
        "starting_prompt": "Light 1, please.",
        "conversation_plan": "You want light 1 on.",
    }
    assert first["session_input"] == {"app_name": "home", "user_id": "test_user_id", "state": {}}
    assert second["conversation_scenario"]["user_persona"] == "NOVICE"
    assert f"Eval case '{first['eval_id']}' added to eval set 'new'." in result.out
    prompt = get_prompt(server.calls[0])
    assert "Does what the prompt says." in prompt
    assert "<wishes>\nabout lamps\n" in prompt
    assert "<environment>\nlamps 1 and 2\n" in prompt
    assert "model gemini-2.5-flash: 1 call" in result.error


def test_a_dry_run_prints_the_file_for_add_eval_case_which_gives_equal_ids(home: CommandLine, server: Server) -> None:
    printed = generate(home, "--dry-run")
    assert not (home.root / "home/new.evalset.json").exists()
    home.write("scenarios.json", printed.out)
    home.write("session.json", {"app_name": "home", "user_id": "u", "state": {}})
    generate(home)

    home("eval-set", "create", "home", "other")
    files = ("--scenarios_file", "scenarios.json", "--session_input_file", "session.json")
    home("eval-set", "add-eval-case", "home", "other", *files)

    ids = [
        [case["eval_id"] for case in read_cases(home.root / f"home/{name}.evalset.json")] for name in ("new", "other")
    ]
    assert ids[0] == ids[1]


def test_ctrl_c_writes_nothing(home: CommandLine, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    generate_scenarios = Workspace.generate

    def generate_interrupted(*args: Any, **kwargs: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        return generate_scenarios(*args, **kwargs)

    monkeypatch.setattr(Workspace, "generate", generate_interrupted)

    result = generate(home)

    assert result.status == 130
    assert "interrupted: stopping; nothing is written" in result.error
    assert not (home.root / "home/new.evalset.json").exists()


def test_the_arguments_of_adk_are_accepted(home: CommandLine, server: Server) -> None:
    home.write("wanted.json", {"count": 1, "modelName": "gemini-x", "environmentContext": "two rooms"})

    result = home(
        "eval_set", "generate_eval_cases", "home", "new", "--user_simulation_config_file", "wanted.json",
        "--log_level", "INFO",
    )  # fmt: skip

    assert result.status == 0, result.error
    assert len(read_cases(home.root / "home/new.evalset.json")) == 1
    assert "two rooms" in get_prompt(server.calls[0])
    assert "gemini-x" in server.calls[0].path
    assert "left out 1 beyond the 1 requested" in result.error


def test_existing_scenarios_are_sent_to_the_model_and_not_added_again(home: CommandLine, server: Server) -> None:
    generate(home)
    server.answer = lambda _: reply(draft(2, starting_prompt="light 2,  PLEASE."), draft(3))

    result = generate(home)

    assert result.status == 0
    assert "Light 1, please." in get_prompt(server.calls[-1])
    assert "duplicate of another scenario" in result.error
    assert "wrote 1 scenario, not 2" in result.error
    assert len(server.calls) == 3  # one more request for the rest
    assert len(read_cases(home.root / "home/new.evalset.json")) == 3


def test_unplayable_scenarios_are_left_out_with_a_message(home: CommandLine, server: Server) -> None:
    drafts = [draft(1, conversation_plan=" "), draft(2, user_persona="NOVISE"), draft(3, starting_prompt="a \ud800")]
    server.answer = lambda _: reply(*drafts, draft(4))

    result = generate(home)

    assert result.status == 0
    assert "conversation_plan: found no text" in result.error
    assert "found the persona 'NOVISE'" in result.error
    assert "did you mean 'NOVICE'" in result.error
    assert "half of a surrogate pair" in result.error
    assert len(read_cases(home.root / "home/new.evalset.json")) == 1


def test_only_the_requested_personas_play_users(home: CommandLine, server: Server) -> None:
    one = generate(home, "--persona", "expert")
    several = generate(home, "--persona", "NOVICE", "--persona", "EVALUATOR", set_id="several")

    assert (one.status, several.status) == (0, 0)
    personas = [
        case["conversation_scenario"].get("user_persona") for case in read_cases(home.root / "home/new.evalset.json")
    ]
    assert personas == ["EXPERT", "EXPERT"]
    assert "found no persona, expected one of NOVICE, EVALUATOR" in several.error
    assert len(read_cases(home.root / "home/several.evalset.json")) == 1


@pytest.mark.parametrize(
    ("model_reply", "status", "words"),
    [
        (gemini("Sure! What about lamps?"), 3, "Sure! What about lamps?"),
        (gemini(""), 3, "no text"),
        (gemini('{"scenarios": [{"starting_pro', finish="MAX_TOKENS"), 3, "cut off"),
        (reply(), 3, "wrote no new scenario"),
        (HttpResponse({"error": {"code": 503, "message": "busy"}}, status=503), 3, "did not answer"),
        (HttpResponse({"error": {"code": 404, "message": "which?"}}, status=404), 2, "the model does not exist"),
    ],
)
def test_a_reply_without_scenarios_is_reported_and_nothing_is_written(
    home: CommandLine, server: Server, model_reply: HttpResponse, status: int, words: str
) -> None:
    server.answer = lambda _: model_reply

    result = generate(home)

    assert (result.status, result.out) == (status, "")
    assert words in result.error
    assert not (home.root / "home/new.evalset.json").exists()


def test_the_complete_scenarios_of_a_truncated_reply_are_used(home: CommandLine, server: Server) -> None:
    text = json.dumps({"scenarios": [draft(1), draft(2)]})
    server.answer = lambda _: gemini(text[:-30], finish="MAX_TOKENS")

    result = generate(home)

    assert result.status == 0
    assert "wrote 1 scenario, not 2 (cut off" in result.error


def test_without_a_key_the_message_says_what_is_needed(home: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GEMINI_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_API_KEY"):
        monkeypatch.delenv(name, raising=False)

    result = generate(home)

    assert result.status == 2
    assert "key" in result.error
    assert "Traceback" not in result.error


def test_without_a_key_the_sample_uses_a_script_and_says_so(
    workbench: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GEMINI_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    shutil.copytree(SAMPLES, workbench.root, dirs_exist_ok=True)

    before = len(read_cases(workbench.root / "hello_world/scenarios.evalset.json"))

    result = workbench("eval-set", "generate-eval-cases", "hello_world", "scenarios", "--count", "2")
    simulation = workbench("simulate", "hello_world/scenarios.evalset.json")

    assert result.status == 0, result.error
    assert "writes scenarios for hello_world_scenarios" in result.error
    assert "no API key for gemini-2.5-flash; using scripted replies" in result.error
    assert len(read_cases(workbench.root / "hello_world/scenarios.evalset.json")) == before + 2
    assert simulation.status == 0, simulation.error
    assert simulation.out.count("the user has finished") == before + 2


def test_an_unreadable_model_script_is_reported(home: CommandLine, server: Server) -> None:
    home.write("workbench.toml", SETTINGS.replace("[judge]", 'scripted_models = "script.json"\n[judge]'))
    home.write("script.json", '{"rules": [{"whn": []}]}')

    result = generate(home)

    assert result.status == 2
    assert "script.json: rules[0]" in result.error
    assert "Traceback" not in result.error


def test_the_target_can_be_selected_by_name(home: CommandLine, server: Server) -> None:
    home.write("workbench.toml", f'{SETTINGS}\n[targets.other]\nkind = "function"\ntarget = "home.other:talk"\n')
    home.write("home/other.py", "def talk(prompt):\n    'Talks about the weather.'\n    return prompt\n")

    known, unknown = generate(home, "--target", "other"), generate(home, "--target", "othr")

    assert known.status == 0, known.error
    assert "Talks about the weather." in get_prompt(server.calls[0])
    assert unknown.status == 2
    assert "did you mean 'other'?" in unknown.error


def test_an_agent_that_cannot_be_imported_is_reported(home: CommandLine, server: Server) -> None:
    home.write("home/agent.py", "import not_there")

    result = generate(home)

    assert result.status == 3
    assert "not_there" in result.error
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
def test_an_invalid_file_is_refused_with_its_place(home: CommandLine, server: Server, content: Any, words: str) -> None:
    home.write("wanted.json", content)

    result = home("eval-set", "generate-eval-cases", "home", "new", "--user_simulation_config_file", "wanted.json")

    assert result.status == 2
    assert "wanted.json:" in result.error
    assert words in result.error
    assert server.calls == []


def test_calls_can_be_recorded_and_replayed(home: CommandLine, server: Server) -> None:
    assert generate(home, "--dry-run", "--record-calls", "calls.jsonl").status == 0
    call_count = len(server.calls)

    replayed = generate(home, "--dry-run", "--replay-calls", "calls.jsonl")

    assert replayed.status == 0, replayed.error
    assert len(replayed.data["scenarios"]) == 2
    assert len(server.calls) == call_count


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")
def test_in_a_terminal_the_user_selects_the_scenarios_to_add(home: CommandLine, server: Server) -> None:
    import pty

    controller, terminal = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "workbench.cli.main", "eval-set", "generate-eval-cases", "home", "new", "--count", "2"],
        cwd=home.root, stdin=terminal, stdout=terminal, stderr=subprocess.PIPE,
    )  # fmt: skip
    os.close(terminal)
    os.write(controller, b"5\n2\n")  # there are two
    try:
        _, error = process.communicate(timeout=60)
        screen = os.read(controller, 65536).decode()
    finally:
        process.kill()
        os.close(controller)

    assert process.returncode == 0
    assert b"expected numbers from 1 to 2" in error
    assert "user   Light 1, please." in screen
    (case,) = read_cases(home.root / "home/new.evalset.json")
    assert case["conversation_scenario"]["starting_prompt"] == "Light 2, please."


def test_an_adk_agent_provides_instructions_and_their_state_variables(home: CommandLine, server: Server) -> None:
    pytest.importorskip("google.adk")
    home.write("town/__init__.py", "")
    home.write(
        "town/agent.py",
        "from google.adk.agents import Agent\n"
        "def book(place: str) -> str:\n    'Book a table somewhere.'\n"
        "root_agent = Agent(name='town', model='none', instruction='Be kind to {guest}.', tools=[book])\n",
    )

    result = home("eval-set", "generate-eval-cases", "town", "new", "--count", "2")

    assert result.status == 0, result.error
    assert "Be kind to {guest}." in get_prompt(server.calls[0])
    assert "Book a table somewhere." in get_prompt(server.calls[0])
    case = read_cases(home.root / "town/new.evalset.json")[0]
    assert case["session_input"] == {"app_name": "town", "user_id": "test_user_id", "state": {"guest": ""}}
