"""`workbench simulate`: plays, shows and stores scenarios without judging them."""

from __future__ import annotations

import json
import signal
from typing import Any

import pytest

from tests.cli.command_line import CommandLine
from tests.engine.case_run.scenarios import AGENT, CRITERIA, SCRIPT, scenario
from workbench.engine.workspace import Workspace

SETTINGS = """
[targets.sample]
kind = "function"
target = "agent:answer"
eval_sets = ["*.evalset.json"]
scripted_models = "script.json"
"""


@pytest.fixture
def project(workbench: CommandLine, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    for name in ("GEMINI_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    workbench.write("workbench.toml", SETTINGS)
    (workbench.root / "home" / "light.evalset.json").unlink()
    workbench.write("agent.py", AGENT)
    workbench.write("script.json", SCRIPT)
    workbench.write("test_config.json", {"criteria": CRITERIA})
    write_cases(workbench, s=scenario("NOVICE"))
    return workbench


def write_cases(workbench: CommandLine, **cases: Any) -> None:
    entries = [{"eval_id": name, **case} for name, case in cases.items()]
    workbench.write("set.evalset.json", {"eval_set_id": "set", "eval_cases": entries})


def test_a_conversation_is_printed_with_the_reason_for_its_end(project: CommandLine) -> None:
    result = project("simulate", "set.evalset.json")

    assert result.status == 0
    assert result.out.splitlines()[:-1] == [
        "── set.evalset.json:s",
        "user   hello",
        "agent  answer 1 to hello",
        "user   roll for hello 1",
        '       ƒ roll {"sides": 20}',
        "agent  answer 2 to roll for hello 1",
    ]
    assert "the user has finished · 2 turns · 2 answers of a script" in result.out.splitlines()[-1]
    assert "no API key for gemini-2.5-flash" in result.error


def test_ctrl_c_while_a_simulation_starts_stops_it(project: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    start = Workspace.start

    def start_interrupted(*args: Any, **kwargs: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        return start(*args, **kwargs)

    monkeypatch.setattr(Workspace, "start", start_interrupted)

    result = project("simulate", "set.evalset.json")

    assert result.status == 130
    assert "interrupted: stopping; finished results are kept" in result.error
    assert project("history", "--format", "json").data["runs"][0]["interrupted"]


def test_compare_ignores_simulations(project: CommandLine) -> None:
    project("run")
    project("simulate", "set.evalset.json")
    project("run")
    project("simulate", "set.evalset.json")
    _, after, _, before = (run["run_id"] for run in project("history", "--format", "json").data["runs"])

    result = project("compare", "--format", "json")

    assert (result.data["before"]["run_id"], result.data["after"]["run_id"]) == (before, after)
    assert result.data["counts"] == {**result.data["counts"], "regression": 0, "fix": 0}


def test_failed_ignores_simulations(project: CommandLine) -> None:
    assert project("run").status == 0
    project("simulate", "set.evalset.json")

    assert "nothing to run: no case failed last time" in project("run", "--failed").error


def test_an_error_in_a_simulation_is_not_a_verdict(project: CommandLine) -> None:
    assert project("run").status == 0
    project.write("agent.py", "def answer(prompt, session):\n    raise ValueError('broken')\n")
    assert project("simulate", "set.evalset.json").status == 3

    assert "nothing to run: no case failed last time" in project("run", "--failed").error

    project("run")
    assert "nothing to run" not in project("run", "--failed").error  # the error of a real run counts


def test_several_conversations_are_printed_without_control_characters(project: CommandLine) -> None:
    write_cases(project, s=scenario("NOVICE"), t=scenario(starting_prompt="hello \x1b[31m"), fixed={"conversation": []})

    result = project("simulate", "set.evalset.json")

    assert result.status == 0
    assert result.out.count("── set.evalset.json:") == 2
    assert "NOVICE, played by a script instead of gemini-2.5-flash" in result.out
    assert "\x1b" not in result.out


def test_a_later_run_judges_the_conversations_or_their_fixed_cases(project: CommandLine) -> None:
    fixed_file = project.root / "kept.evalset.json"

    for _ in range(2):
        assert project("simulate", "set.evalset.json", "--keep-in", str(fixed_file)).status == 0
    first_run = project("run", "set.evalset.json", "--format", "json")
    second_run = project("run", "set.evalset.json", "--format", "json")
    fixed_run = project("run", "kept.evalset.json", "--format", "json")

    assert "1 case is only judged" in first_run.error
    assert "only judged" not in second_run.error
    assert [case["status"] for case in first_run.data["cases"]] == ["PASSED"]
    cases = json.loads(fixed_file.read_text())["eval_cases"]
    assert [case["eval_id"] for case in cases] == ["s_played", "s_played_2"]
    prompts = [turn["user_content"]["parts"][0]["text"] for turn in cases[0]["conversation"]]
    assert prompts == ["hello", "roll for hello 1"]
    assert cases[0]["conversation"][1]["intermediate_data"]["tool_uses"] == [{"name": "roll", "args": {"sides": 20}}]
    assert [case["status"] for case in fixed_run.data["cases"]] == ["PASSED", "PASSED"]


def test_the_jsonl_output_has_one_line_per_conversation(project: CommandLine) -> None:
    result = project("simulate", "set.evalset.json", "--format", "jsonl")

    conversation = json.loads(result.out)
    assert (conversation["ended"], conversation["error"]) == ("stop_signal", None)
    assert conversation["user"]["scripted"] is True
    assert [turn["user"] for turn in conversation["turns"]] == ["hello", "roll for hello 1"]


def test_without_a_key_or_a_script_the_error_says_what_is_needed(project: CommandLine) -> None:
    project.write("workbench.toml", SETTINGS.replace("scripted_models", "# scripted_models"))

    result = project("simulate", "set.evalset.json")

    assert result.status == 3
    assert "ERROR: the simulated user: gemini-2.5-flash was not called: no key" in result.out
    assert "no API key for Gemini: set GOOGLE_API_KEY" in result.error


def test_sets_without_a_scenario_have_nothing_to_simulate(project: CommandLine) -> None:
    write_cases(project, fixed={"conversation": []})

    result = project("simulate", "set.evalset.json")

    assert (result.status, result.out) == (2, "")
    assert "none of these eval cases is a conversation scenario" in result.error


def test_an_invalid_file_for_fixed_cases_is_reported(project: CommandLine) -> None:
    result = project("simulate", "set.evalset.json", "--keep-in", "cases.json")

    assert result.status == 2
    assert "cases.json" in result.error
    assert "*.evalset.json" in result.error


@pytest.mark.parametrize(
    ("script", "message"),
    [('{"rules": [{"whn": []}]}', "script.json: rules[0]"), (None, "script.json: cannot read it: there is no such")],
)
def test_an_unreadable_script_is_reported_and_nothing_is_played(
    project: CommandLine, script: str | None, message: str
) -> None:
    (project.root / "script.json").unlink()
    if script is not None:
        project.write("script.json", script)

    result = project("simulate", "set.evalset.json")

    assert result.status == 2
    assert message in result.error.splitlines()[0]
    assert result.out == ""


def test_an_unreadable_case_gives_exit_status_2_after_the_others_ran(project: CommandLine) -> None:
    write_cases(project, s=scenario("NOVICE"), broken={**scenario("NOVICE"), "session_input": 3})

    result = project("simulate", "set.evalset.json")

    assert result.status == 2
    assert "the user has finished" in result.out
