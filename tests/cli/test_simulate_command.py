"""`workbench simulate`: plays, shows and stores scenarios without judging them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cli.conftest import CommandLine
from tests.engine.case_run.scenarios import AGENT, CRITERIA, SCRIPT, scenario

SETTINGS = """
[targets.sample]
kind = "function"
target = "agent:answer"
eval_sets = ["*.evalset.json"]
scripted_models = "script.json"
"""


@pytest.fixture
def played(workbench: CommandLine, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    for name in ("GEMINI_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    workbench.write("workbench.toml", SETTINGS)
    (workbench.root / "home" / "light.evalset.json").unlink()
    workbench.write("agent.py", AGENT)
    workbench.write("script.json", SCRIPT)
    workbench.write("test_config.json", {"criteria": CRITERIA})
    write(workbench, s=scenario("NOVICE"))
    return workbench


def write(workbench: CommandLine, **cases: Any) -> None:
    written = [{"eval_id": name, **case} for name, case in cases.items()]
    workbench.write("set.evalset.json", {"eval_set_id": "set", "eval_cases": written})


def test_one_conversation_is_shown_as_it_happens_with_how_it_ended(played: CommandLine) -> None:
    done = played("simulate", "set.evalset.json")

    assert done.status == 0
    assert done.out.splitlines()[:-1] == [
        "── set.evalset.json:s",
        "user   hello",
        "agent  answer 1 to hello",
        "user   roll for hello 1",
        '       ƒ roll {"sides": 20}',
        "agent  answer 2 to roll for hello 1",
    ]
    assert "the user has finished · 2 turns · 2 answers of a script" in done.out.splitlines()[-1]
    assert "no API key for gemini-2.5-flash" in done.error


def test_what_is_only_played_is_no_run_to_compare_with(played: CommandLine) -> None:
    played("run")
    played("simulate", "set.evalset.json")
    played("run")
    played("simulate", "set.evalset.json")
    _, after, _, before = (run["run_id"] for run in played("history", "--format", "json").data["runs"])

    done = played("compare", "--format", "json")

    assert (done.data["before"]["run_id"], done.data["after"]["run_id"]) == (before, after)
    assert done.data["counts"] == {**done.data["counts"], "regression": 0, "fix": 0}


def test_what_is_only_played_is_not_what_failed_last_time(played: CommandLine) -> None:
    assert played("run").status == 0
    played("simulate", "set.evalset.json")

    assert "nothing to run: no case failed last time" in played("run", "--failed").error


def test_an_error_while_playing_is_no_verdict(played: CommandLine) -> None:
    assert played("run").status == 0
    played.write("agent.py", "def answer(prompt, session):\n    raise ValueError('broken')\n")
    assert played("simulate", "set.evalset.json").status == 3

    assert "nothing to run: no case failed last time" in played("run", "--failed").error

    played("run")
    assert "nothing to run" not in played("run", "--failed").error  # an error of a real run is one that it ended in


def test_several_are_shown_whole_and_what_they_hold_is_no_escape(played: CommandLine) -> None:
    write(played, s=scenario("NOVICE"), t=scenario(starting_prompt="hello \x1b[31m"), fixed={"conversation": []})

    done = played("simulate", "set.evalset.json")

    assert done.status == 0
    assert done.out.count("── set.evalset.json:") == 2
    assert "NOVICE, played by a script instead of gemini-2.5-flash" in done.out
    assert "\x1b" not in done.out


def test_conversations_are_judged_afterwards_as_they_were_and_can_be_kept_as_fixed_cases(played: CommandLine) -> None:
    kept = played.root / "kept.evalset.json"

    for _ in range(2):
        assert played("simulate", "set.evalset.json", "--keep-in", str(kept)).status == 0
    judged = played("run", "set.evalset.json", "--format", "json")
    anew = played("run", "set.evalset.json", "--format", "json")
    fixed = played("run", "kept.evalset.json", "--format", "json")

    assert "1 case is only judged" in judged.error
    assert "only judged" not in anew.error
    assert [case["status"] for case in judged.data["cases"]] == ["PASSED"]
    cases = json.loads(kept.read_text())["eval_cases"]
    assert [case["eval_id"] for case in cases] == ["s_played", "s_played_2"]
    said = [turn["user_content"]["parts"][0]["text"] for turn in cases[0]["conversation"]]
    assert said == ["hello", "roll for hello 1"]
    assert cases[0]["conversation"][1]["intermediate_data"]["tool_uses"] == [{"name": "roll", "args": {"sides": 20}}]
    assert [case["status"] for case in fixed.data["cases"]] == ["PASSED", "PASSED"]


def test_as_json_each_conversation_is_a_line(played: CommandLine) -> None:
    done = played("simulate", "set.evalset.json", "--format", "jsonl")

    conversation = json.loads(done.out)
    assert (conversation["ended"], conversation["error"]) == ("stop_signal", None)
    assert conversation["user"]["scripted"] is True
    assert [turn["user"] for turn in conversation["turns"]] == ["hello", "roll for hello 1"]


def test_without_a_key_and_a_script_it_ends_in_error_and_says_what_is_needed(played: CommandLine) -> None:
    played.write("workbench.toml", SETTINGS.replace("scripted_models", "# scripted_models"))

    done = played("simulate", "set.evalset.json")

    assert done.status == 3
    assert "ERROR: the simulated user: gemini-2.5-flash was not asked: no key" in done.out
    assert "there is no key for the Gemini API: set GOOGLE_API_KEY" in done.error


def test_sets_without_a_scenario_have_nothing_to_simulate(played: CommandLine) -> None:
    write(played, fixed={"conversation": []})

    done = played("simulate", "set.evalset.json")

    assert (done.status, done.out) == (2, "")
    assert "none of these eval cases is a conversation scenario" in done.error


def test_a_set_that_cannot_be_written_is_named(played: CommandLine) -> None:
    done = played("simulate", "set.evalset.json", "--keep-in", "cases.json")

    assert done.status == 2
    assert "cases.json" in done.error
    assert "*.evalset.json" in done.error


@pytest.mark.parametrize(
    ("script", "said"),
    [('{"rules": [{"whn": []}]}', "script.json: rules[0]"), (None, "script.json: cannot read it: there is no such")],
)
def test_a_script_that_cannot_be_read_is_said_and_nothing_is_played(
    played: CommandLine, script: str | None, said: str
) -> None:
    (played.root / "script.json").unlink()
    if script is not None:
        played.write("script.json", script)

    done = played("simulate", "set.evalset.json")

    assert done.status == 2
    assert said in done.error.splitlines()[0]
    assert done.out == ""


def test_a_case_that_cannot_be_read_ends_with_2_after_the_others_were_played(played: CommandLine) -> None:
    write(played, s=scenario("NOVICE"), broken={**scenario("NOVICE"), "session_input": 3})

    done = played("simulate", "set.evalset.json")

    assert done.status == 2
    assert "the user has finished" in done.out
