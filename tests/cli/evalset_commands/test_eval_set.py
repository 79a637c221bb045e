"""`workbench eval-set`: create, extend, migrate and check files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.cli.command_line import CommandLine


def test_create_and_add_make_a_set_of_scenarios(workbench: CommandLine) -> None:
    scenarios = [{"starting_prompt": f"Hello {n}", "conversation_plan": "Talk."} for n in range(2)]
    workbench.write("scenarios.json", {"scenarios": scenarios})
    workbench.write("session.json", {"app_name": "home", "user_id": "u"})
    add = (
        "eval-set",
        "add-eval-case",
        "home",
        "new",
        "--scenarios-file=scenarios.json",
        "--session_input_file=session.json",
    )

    created = workbench("eval-set", "create", "home", "new")
    first_add, second_add = workbench(*add), workbench(*add)

    assert created.out == "Eval set 'new' created for app 'home'.\n"
    assert first_add.out.count("added to eval set 'new'.") == 2
    assert second_add.out.count("already exists in eval set 'new', skipped adding.") == 2
    cases = json.loads((workbench.root / "home/new.evalset.json").read_text())["eval_cases"]
    assert [case["conversation_scenario"]["starting_prompt"] for case in cases] == ["Hello 0", "Hello 1"]
    assert cases[0]["session_input"]["user_id"] == "u"


ADD = ("eval-set", "add-eval-case", "home", "new", "--scenarios_file=s.json", "--session_input_file=session.json")


def write_scenarios(workbench: CommandLine, *personas: Any) -> list[dict[str, Any]]:
    scenarios = [
        {"starting_prompt": "Hello", "conversation_plan": "Talk.", "user_persona": persona} for persona in personas
    ]
    workbench.write("s.json", {"scenarios": scenarios})
    workbench.write("session.json", {"app_name": "home", "user_id": "u"})
    workbench("eval-set", "create", "home", "new")
    return scenarios


@pytest.mark.needs_adk
def test_a_case_with_a_persona_gets_the_same_id_as_in_adk(workbench: CommandLine) -> None:
    from google.adk.evaluation.conversation_scenarios import ConversationScenario

    scenarios = write_scenarios(workbench, "EXPERT", "NOVICE", "EVALUATOR")

    first_add, second_add = workbench(*ADD), workbench(*ADD)

    texts = [json.dumps(ConversationScenario.model_validate(each).model_dump(), sort_keys=True) for each in scenarios]
    ids = [hashlib.sha256(text.encode()).hexdigest()[:8] for text in texts]
    assert first_add.out.splitlines() == [f"Eval case '{each}' added to eval set 'new'." for each in ids]
    assert first_add.error == ""
    assert second_add.out.count("already exists") == 3
    cases = json.loads((workbench.root / "home/new.evalset.json").read_text())["eval_cases"]
    assert [case["conversation_scenario"] for case in cases] == scenarios  # the name stays a name


def test_without_google_adk_a_message_says_that_ids_differ_from_adk(workbench: CommandLine) -> None:
    write_scenarios(workbench, "NOVICE", None)
    workbench.write("workbench.toml", '[targets.home]\nkind = "adk"\ntarget = "home"\npython = "false"\n')

    result = workbench(*ADD)

    assert (result.status, result.out.count("added to")) == (0, 2)
    assert "ids that differ from those of ADK: 1 (the interpreter of the agent lacks a google-adk" in result.error


@pytest.mark.parametrize(
    ("persona", "place", "message"),
    [
        ("expert", "scenarios[0].user_persona", "ADK knows no persona 'expert', only EVALUATOR, EXPERT, NOVICE"),
        ({"id": "P", "description": "p"}, "scenarios[0].user_persona", "expected"),
        (
            {
                "id": "P",
                "description": "p",
                "behaviors": [{"name": "b", "description": "d", "behaviorInstructions": [], "violationRubrics": []}],
            },
            "scenarios[0].user_persona.behaviors[0].behaviorInstructions",
            "ADK reads behavior_instructions only in snake_case in UserBehavior",
        ),
    ],
)
def test_a_persona_that_adk_refuses_is_not_added(
    workbench: CommandLine, persona: Any, place: str, message: str
) -> None:
    write_scenarios(workbench, None, "NOVICE", persona)
    before = (workbench.root / "home/new.evalset.json").read_bytes()

    result = workbench(*ADD)

    assert result.status == 2
    assert place.replace("[0]", "[2]", 1) in result.error
    assert message in result.error
    assert (workbench.root / "home/new.evalset.json").read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["create", "home", "../evil"], "letters, digits and underscores"),
        (["create", "home", "light"], "exists"),
        (["create", "nowhere", "x"], "nowhere"),
        (["create", "home", "x", "--eval_storage_uri", "gs://b"], "gs://b"),
        (
            ["add-eval-case", "home", "missing", "--scenarios_file", "s.json", "--session_input_file", "s.json"],
            "missing",
        ),
        (["add-eval-case", "home", "light"], "--scenarios"),
        (["migrate", "home/light.evalset.json", "home/light.evalset.json"], "exists"),
        (["migrate", "missing.json", "new.json"], "missing.json"),
        (["validate", "missing.json"], "missing.json"),
        (["generate-eval-cases", "home", "../x"], "is not an eval set id"),
        (["generate-eval-cases", "home", "a-b"], "letters, digits and underscores"),
    ],
)
def test_an_impossible_command_gets_one_message(workbench: CommandLine, arguments: list[str], message: str) -> None:
    workbench.write("s.json", {"scenarios": []})

    result = workbench("eval-set", *arguments)

    assert result.status == 2
    assert message in result.error
    assert "Traceback" not in result.error


def test_migrate_writes_the_current_format(workbench: CommandLine) -> None:
    turns = [
        {
            "query": "light x",
            "reference": "done: x",
            "expected_tool_use": [{"tool_name": "set_light", "tool_input": {"room": "x"}}],
        }
    ]
    workbench.write("old.test.json", turns)
    workbench.write("session.json", {"app_name": "home", "user_id": "u", "state": {"a": 1}})

    result = workbench(
        "eval-set", "migrate", "old.test.json", "home/new.test.json", "--initial-session", "session.json"
    )

    assert result.status == 0
    (case,) = json.loads((workbench.root / "home/new.test.json").read_text())["eval_cases"]
    assert case["session_input"]["state"] == {"a": 1}
    assert workbench("run", "home/new.test.json").status == 0


def test_validate_reports_problems_with_their_place(
    workbench: CommandLine, make_turn: Callable[..., dict[str, Any]]
) -> None:
    case = {"eval_id": "twin", "conversation": [make_turn("x")]}
    workbench.write("home/bad.evalset.json", {"eval_set_id": "bad", "eval_cases": [case, case]})

    bad = workbench("eval-set", "validate", "home/bad.evalset.json")
    good = workbench("eval-set", "validate", "home/light.evalset.json")

    assert bad.status == 2
    assert "home/bad.evalset.json" in bad.out
    assert "twin" in bad.out
    assert (good.status, good.out) == (0, "")
    assert "home/light.evalset.json: criteria home/test_config.json\n" in good.error


def test_validate_reports_comments_and_fix_removes_them(workbench: CommandLine) -> None:
    path = workbench.root / "home/light.evalset.json"
    strict = path.read_bytes()
    path.write_bytes(strict.replace(b'"eval_cases"', b'/* all of them */ "eval_cases"'))

    assert "comment" in workbench("eval-set", "validate", "--strict", "home/light.evalset.json").out
    fixed = workbench("eval-set", "validate", "--fix", "home/light.evalset.json")

    assert fixed.status == 0
    assert json.loads(path.read_bytes()) == json.loads(strict)


def test_validate_reports_the_config_errors_that_a_run_refuses(workbench: CommandLine) -> None:
    criteria = {"tool_trajectory_avg_scor": 1.0, "response_match_score": {"threshold": 0.5, "treshold": 1}}
    path = workbench.write("home/test_config.json", {"criteria": criteria})

    run = workbench("run", "home/light.evalset.json")
    named = workbench("eval-set", "validate", str(path))
    folder = workbench("eval-set", "validate", "home")
    doctor = workbench("doctor")

    assert run.status == named.status == folder.status == doctor.status == 2
    for result in (named, folder, doctor):
        assert "criteria.tool_trajectory_avg_scor: found" in result.out
        assert "criteria.response_match_score.treshold" in result.out
    assert "home/test_config.json:" in named.out


def test_validating_a_folder_checks_the_config_from_the_settings(workbench: CommandLine) -> None:
    settings = workbench.root / "workbench.toml"
    settings.write_text(settings.read_text().replace("[targets.home]", "[targets.home]\nconfig = 'rules/own.json'"))
    workbench.write("rules/own.json", {"criteria": {"tool_trajectory_avg_scor": 1.0}})

    wrong = workbench("eval-set", "validate", "home", "home/light.evalset.json")
    (workbench.root / "rules/own.json").unlink()
    missing = workbench("eval-set", "validate", "home")

    assert wrong.status == missing.status == workbench("run", "home").status == 2
    assert "rules/own.json:3:" in wrong.out
    assert "set id" not in wrong.out  # the same file, given twice
    assert "rules/own.json: error: cannot read it" in missing.out


def test_an_unknown_template_variable_is_an_error_next_to_an_eval_set(workbench: CommandLine) -> None:
    metric = {"metric_prompt_template": "Good? {respons}"}
    config = {"criteria": {"tone": 1, "response_match_score": -1}, "judge_metrics": {"tone": metric}}
    workbench.write("home/test_config.json", {**config, "criteria": {"tone": 1}})
    workbench.write("rows/config.json", config)

    set_result = workbench("eval-set", "validate", "home/test_config.json")
    rows_result = workbench("eval-set", "validate", "rows/config.json")

    assert [workbench("run", "home").status, workbench("doctor").status, set_result.status] == [2, 2, 2]
    message = "judge_metrics.tone.metric_prompt_template: found the unknown variable 'respons', expected 'response'"
    assert f"error: {message}" in set_result.out
    assert f"warning: {message}" in rows_result.out  # a dataset may have this column
    assert rows_result.out.count("criteria.response_match_score.threshold") == 1


def test_sets_of_different_agents_may_have_the_same_id(workbench: CommandLine) -> None:
    agent = "from google.adk.agents import Agent\nroot_agent = Agent(name='x')\n"
    for name in ("one", "two"):
        workbench.write(f"{name}/agent.py", agent)
        workbench.write(f"{name}/s.evalset.json", {"eval_set_id": "s", "eval_cases": []})
    workbench.write("two/more.evalset.json", {"eval_set_id": "s", "eval_cases": []})

    result = workbench("eval-set", "validate", ".")

    assert result.status == 0
    (line,) = [line for line in result.out.splitlines() if "set id" in line]
    assert line.startswith("two/s.evalset.json:2:")
    assert "two/more.evalset.json" in line


def test_comments_are_a_warning_without_strict(workbench: CommandLine) -> None:
    path = workbench.root / "home/light.evalset.json"
    path.write_text(path.read_text().replace('"eval_cases"', '/* all */ /* of them */ "eval_cases"'))

    result = workbench("eval-set", "validate", "home/light.evalset.json")

    assert result.status == 0
    assert "warning: not strict JSON: a comment (and 1 more), which ADK cannot read; --fix removes it" in result.out


def test_a_threshold_below_every_score_is_a_warning(workbench: CommandLine) -> None:
    workbench.write("home/test_config.json", {"criteria": {"response_evaluation_score": 0.5}})

    result = workbench("eval-set", "validate", "home/test_config.json")

    assert result.status == 0
    assert (
        "criteria.response_evaluation_score.threshold: 0.5 is below every possible score (lowest: 1), so every case "
        "passes" in result.out
    )


def test_validate_reports_a_link_to_itself(workbench: CommandLine) -> None:
    (workbench.root / "home" / "loop.evalset.json").symlink_to("loop.evalset.json")

    result = workbench("eval-set", "validate", ".")

    assert "loop.evalset.json: error: " in result.out
    assert result.status == 2
