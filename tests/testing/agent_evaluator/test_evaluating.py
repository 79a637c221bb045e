"""AgentEvaluator with a real ADK agent: verdicts, messages, files."""

from __future__ import annotations

import csv
import itertools
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.engine.judged import serve_judge
from tests.llm.servers import Call, HttpResponse, gemini, gemini_error
from tests.testing.agent_evaluator.conftest import AGENT, TOOLS, AgentProject, case
from tests.testing.forked_pytest import ForkedPytest
from tests.testing.pytest_project import PytestProject
from workbench.testing import AgentEvaluator, EvaluationIncomplete
from workbench.testing.agent_evaluator import name_agent_module
from workbench.testing.pytest_session import session

pytestmark = [pytest.mark.needs_adk, pytest.mark.prepared("adk")]

MODULE = "home_automation_agent"


async def test_a_passing_set_passes_without_importing_the_agent(project: AgentProject) -> None:
    before = set(sys.modules)

    await AgentEvaluator.evaluate(MODULE, project.add_set("simple.test.json", off="Turn off device_2."))

    assert not [name for name in set(sys.modules) - before if name.startswith((MODULE, "google.adk"))]


async def test_an_agent_object_stands_for_the_module_that_binds_it(
    project: AgentProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, agent = ModuleType(f"{MODULE}.agent"), object()
    module.root_agent = agent  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, f"{MODULE}.agent", module)
    file = project.add_set("simple.test.json", off="Turn off device_2.")

    assert name_agent_module(agent) == f"{MODULE}.agent"
    with pytest.raises(ValueError, match="found an object of type object, which no module called `agent` binds"):
        await AgentEvaluator.evaluate(object(), file)


async def test_the_error_shows_every_failure_with_both_sides_aligned(project: AgentProject) -> None:
    project.add_set("sets/a.test.json", off="Turn it off.", bad="the wrong one", broken="raise")
    project.add_set("sets/deeper/b.test.json", worse="wrong again")

    with pytest.raises(AssertionError) as caught:
        await AgentEvaluator.evaluate(f"{MODULE}.agent", "sets", num_runs=1)

    assert str(caught.value).splitlines()[:10] == [
        "3 of 4 cases of home_automation_agent.agent did not pass (1 run each): 2 failed, "
        "1 could not be evaluated (ERROR)",
        "",
        "✗ FAILED  sets/a.test.json: bad",
        "  tool_trajectory_avg_score: 0.00 < 1.00",
        "  turn 1: the wrong one",
        "      set_device_info",
        '        location: "Bedroom"',
        '    -   device_id: "device_2"',
        '    +   device_id: "device_9"',
        '        status: "OFF"',
    ]
    assert "! ERROR  sets/a.test.json: broken\n  agent, turn 1: ValueError: kaboom" in str(caught.value)
    assert "✗ FAILED  sets/deeper/b.test.json: worse" in str(caught.value)
    assert not isinstance(caught.value, EvaluationIncomplete)


async def test_errors_without_failures_raise_evaluation_incomplete(project: AgentProject) -> None:
    with pytest.raises(EvaluationIncomplete, match="1 could not be evaluated"):
        await AgentEvaluator.evaluate(MODULE, project.add_set("simple.test.json", off="off", broken="raise"))


async def test_a_failure_in_quarantine_is_a_warning(project: AgentProject) -> None:
    name = project.add_set("simple.test.json", off="Turn it off.", bad="the wrong one")
    project.write("simple.test.workbench.json", {"quarantine": {"bad": {"until": "2999-01-01"}}})

    with pytest.warns(UserWarning, match="bad: FAILED, quarantined until 2999-01-01"):
        await AgentEvaluator.evaluate(MODULE, name)

    project.write("simple.test.workbench.json", {"quarantine": {"bad": {"until": "2020-01-01"}}})
    with pytest.raises(AssertionError, match="1 of 2 cases"):
        await AgentEvaluator.evaluate(MODULE, name)


async def test_agent_name_selects_a_sub_agent(project: AgentProject) -> None:
    name = project.add_set("simple.test.json", off="Turn it off.")

    with pytest.raises(AssertionError, match=r'\+   device_id: "device_3"'):
        await AgentEvaluator.evaluate(MODULE, name, agent_name="guest")
    with pytest.raises(EvaluationIncomplete, match="there is no agent 'gest' in home: it has home, guest"):
        await AgentEvaluator.evaluate(MODULE, name, agent_name="gest")


async def test_criteria_next_to_the_eval_set_are_used(project: AgentProject) -> None:
    name = project.add_set("simple.test.json", off="the wrong one")
    project.write("test_config.json", {"criteria": {"response_match_score": 0.5}})

    await AgentEvaluator.evaluate(MODULE, name)

    assert [item.metric for item in AgentEvaluator.find_config_for_test_file(name).criteria] == ["response_match_score"]
    assert AgentEvaluator.find_config_for_test_file("elsewhere/simple.test.json").is_default


async def test_the_mean_of_all_runs_decides(project: AgentProject) -> None:
    once = f"""
        try:
            open({str(project.root / "once")!r}, "x")
        except FileExistsError:
            last.text = "wrong"
"""
    text = (project.root / MODULE / "agent.py").read_text()
    project.write(f"{MODULE}/agent.py", text.replace("        if last.function", f"{once}        if last.function"))
    name = project.add_set("simple.test.json", off="Turn it off.")
    project.write("test_config.json", {"criteria": {"tool_trajectory_avg_score": 0.5}})

    await AgentEvaluator.evaluate(MODULE, name, num_runs=2)

    (project.root / "once").unlink()
    project.write("test_config.json", {"criteria": {"tool_trajectory_avg_score": 0.6}})
    with pytest.raises(AssertionError, match=r"0\.50 < 0\.60, the mean of (1\.00, 0\.00|0\.00, 1\.00)"):
        await AgentEvaluator.evaluate(MODULE, name, num_runs=2)


async def test_a_run_with_more_scored_turns_weighs_more(project: AgentProject) -> None:
    project.write(
        f"{MODULE}/scores.py",
        f"""
        import pathlib
        ran = pathlib.Path({str(project.root / "ran")!r})

        def odd(row):
            # The first run has a score for one of its turns, the second one for both.
            count = len(ran.read_text()) if ran.exists() else 0
            ran.write_text("x" * (count + 1))
            return [1.0, None, 0.0, 0.0][count]
        """,
    )
    custom = {"odd": {"code_config": {"name": f"{MODULE}.scores.odd"}}}
    project.write("test_config.json", {"criteria": {"odd": 0.4}, "custom_metrics": custom})
    turn = case("two", "Turn it off.")["conversation"]
    two_turns = {"eval_set_id": "s", "eval_cases": [{"eval_id": "two", "conversation": turn * 2}]}
    project.write("two.test.json", two_turns)
    project.write("workbench.toml", "[run]\nconcurrency = 1\n")

    with pytest.raises(AssertionError, match=r"0\.33 < 0\.40, the mean of (1\.00, 0\.00, 0\.00|0\.00, 0\.00, 1\.00)"):
        await AgentEvaluator.evaluate(MODULE, "two.test.json", num_runs=2)


async def test_a_score_exactly_at_the_threshold_passes(project: AgentProject) -> None:
    project.write(f"{MODULE}/scores.py", "def fair(row):\n    return 0.7\n")
    custom = {"fair": {"code_config": {"name": f"{MODULE}.scores.fair"}}}
    project.write("test_config.json", {"criteria": {"fair": 0.7}, "custom_metrics": custom})

    await AgentEvaluator.evaluate(MODULE, project.add_set("simple.test.json", off="Turn it off."), num_runs=3)


async def test_an_eval_set_in_memory_is_evaluated(project: AgentProject) -> None:
    data = {"eval_set_id": "in/memory", "eval_cases": [case("off", "Turn it off."), case("bad", "wrong")]}

    with pytest.raises(AssertionError, match=r"in_memory\.evalset\.json: bad"):
        await AgentEvaluator.evaluate_eval_set(MODULE, data, criteria={"tool_trajectory_avg_score": 1.0}, num_runs=1)


async def test_rows_are_added_to_the_output_file(project: AgentProject) -> None:
    name = project.add_set("simple.test.json", off="Turn it off.")
    for _ in range(2):
        await AgentEvaluator.evaluate(MODULE, name, num_runs=1, output_file="results/rows.csv")

    with (project.root / "results" / "rows.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["metric_name"] == "tool_trajectory_avg_score"]
    assert [(row["eval_set_id"], row["eval_id"], row["score"], row["eval_status"]) for row in rows] == [
        ("light", "off", "1.0", "PASSED")
    ] * 2
    assert rows[0]["actual_response"] == "I have set the device_2 status to off."
    assert rows[0]["expected_tool_calls"] == rows[0]["actual_tool_calls"]


async def test_details_are_printed_unless_they_are_switched_off(
    project: AgentProject, capsys: pytest.CaptureFixture[str]
) -> None:
    name = project.add_set("simple.test.json", off="Turn it off.")

    await AgentEvaluator.evaluate(MODULE, name, print_detailed_results=False)
    assert capsys.readouterr().out == ""
    await AgentEvaluator.evaluate(MODULE, name, num_runs=1)
    assert "✓ PASSED         off  1.00" in capsys.readouterr().out


OLDER_TURNS = [
    {
        "query": "Turn it off.",
        "expected_tool_use": [
            {
                "tool_name": "set_device_info",
                "tool_input": {"location": "Bedroom", "device_id": "device_2", "status": "OFF"},
            }
        ],
        "reference": "I have set the device_2 status to off.",
    }
]
SESSION = {"app_name": "home", "user_id": "me", "state": {"room": "Bedroom"}}


async def test_the_older_format_with_a_session_file_is_evaluated_and_migrated(project: AgentProject) -> None:
    project.write("old.test.json", OLDER_TURNS)
    project.write("session.json", SESSION)

    await AgentEvaluator.evaluate(MODULE, "old.test.json", initial_session_file="session.json")
    AgentEvaluator.migrate_eval_data_to_new_schema("old.test.json", "new.test.json", "session.json")
    await AgentEvaluator.evaluate(MODULE, "new.test.json")

    with pytest.raises(ValueError, match=r"new.test.json: its cases have their own session_input"):
        await AgentEvaluator.evaluate(MODULE, "new.test.json", initial_session_file="session.json")
    with pytest.raises(ValueError, match="it already exists"):
        AgentEvaluator.migrate_eval_data_to_new_schema("old.test.json", "new.test.json")


async def test_an_agent_from_an_async_factory_is_evaluated(project: AgentProject) -> None:
    text = (project.root / MODULE / "agent.py").read_text()
    factory = "\n\nasync def get_agent_async():\n    return made, None\n"
    project.write(f"{MODULE}/agent.py", text.replace("root_agent =", "made =") + factory)

    await AgentEvaluator.evaluate(MODULE, project.add_set("simple.test.json", off="Turn it off."))


async def test_environment_variables_of_the_test_reach_the_agent(
    project: AgentProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (project.root / MODULE / "agent.py").read_text()
    project.write(f"{MODULE}/agent.py", "import os\n" + text.replace('"device_2"', 'os.environ["DEVICE"]', 1))
    name = project.add_set("simple.test.json", off="Turn it off.")

    monkeypatch.setenv("DEVICE", "device_2")
    await AgentEvaluator.evaluate(MODULE, name)
    monkeypatch.setenv("DEVICE", "device_7")
    with pytest.raises(AssertionError, match="device_7"):
        await AgentEvaluator.evaluate(MODULE, name)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"agent_module": "nowhere.agent"}, ModuleNotFoundError, "there is no module 'nowhere' on sys.path"),
        ({"agent_module": f"{MODULE}.tools"}, ValueError, "expected a package with a module `agent`"),
        ({"eval_dataset_file_path_or_dir": "gone.test.json"}, ValueError, "there is no such file or folder"),
        ({"eval_dataset_file_path_or_dir": MODULE}, ValueError, "no \\*.test.json below this folder"),
        ({"eval_dataset_file_path_or_dir": "empty.test.json"}, ValueError, "found no eval case"),
        ({"eval_dataset_file_path_or_dir": "broken.test.json"}, ValueError, "broken.test.json:1:"),
        (
            {"eval_dataset_file_path_or_dir": "twice.test.json"},
            ValueError,
            "twice.test.json:1:22: error: found a second",
        ),
        ({"num_runs": 0}, ValueError, "num_runs: found 0, expected at least 1"),
        ({"artifact_service": object()}, ValueError, "artifact_service: "),
    ],
)
async def test_a_wrong_argument_raises_a_one_sentence_error(
    project: AgentProject, arguments: dict[str, object], error: type[Exception], message: str
) -> None:
    project.write("empty.test.json", {"eval_set_id": "empty", "eval_cases": []})
    project.write("broken.test.json", '{"eval_cases": ')
    project.write("twice.test.json", '{"eval_cases": [{}], "eval_cases": []}')
    all_arguments = {"agent_module": MODULE, "eval_dataset_file_path_or_dir": "simple.test.json", **arguments}
    project.add_set("simple.test.json", off="Turn it off.")

    with pytest.raises(error, match=message):
        await AgentEvaluator.evaluate(**all_arguments)  # type: ignore[arg-type]


def test_the_documented_adk_example_runs_with_a_changed_import(
    pytester: pytest.Pytester, forked_pytest: ForkedPytest | None, corpus: Path
) -> None:
    example = (corpus / "documentation" / "pytest_example.py.txt").read_text(encoding="utf-8")
    project = AgentProject(pytester.path)
    project.write("home_automation_agent/__init__.py", "from . import agent")
    project.write("home_automation_agent/agent.py", AGENT)
    project.write("home_automation_agent/tools.py", TOOLS)
    folder = "tests/integration/fixture/home_automation_agent"
    project.add_set(f"{folder}/simple_test.test.json", off="Turn off device_2 in the Bedroom.")
    adk_import = "from google.adk.evaluation.agent_evaluator import AgentEvaluator"
    assert adk_import in example
    project.write("test_example.py", example.replace(adk_import, "from workbench.testing import AgentEvaluator"))

    PytestProject(pytester, forked_pytest).pytest().assert_outcomes(passed=1)


def test_a_failure_shows_only_the_line_of_the_test(
    pytester: pytest.Pytester, forked_pytest: ForkedPytest | None
) -> None:
    project = AgentProject(pytester.path)
    project.write("home/__init__.py", "")
    project.write("home/agent.py", "def answer(prompt): return prompt")
    project.write("workbench.toml", '[targets.home]\nkind = "function"\ntarget = "home.agent:answer"\n')
    project.write("sub/test_config.json", '{"criteria": ')
    project.add_set("simple.test.json", off="Turn it off.")
    calls = [
        'await AgentEvaluator.evaluate("home", "simple.test.json")',
        'await AgentEvaluator.evaluate("home", "gone.test.json")',
        'await AgentEvaluator.evaluate("hom", "simple.test.json")',
        'await AgentEvaluator.evaluate("home", "simple.test.json", agent_name="x")',
        'await AgentEvaluator.evaluate("home", "simple.test.json", num_runs=0)',
        'await AgentEvaluator.evaluate_eval_set("home", 7, criteria={"bleu": 1})',
        'await AgentEvaluator.evaluate_eval_set("home", {"eval_cases": [{"eval_id": "a"}]}, criteria={"nosuch": 1})',
        'AgentEvaluator.migrate_eval_data_to_new_schema("gone.test.json", "new.test.json")',
        'AgentEvaluator.find_config_for_test_file("sub/simple.test.json")',
    ]
    tests = [f"async def test_{number}():\n    {call}\n" for number, call in enumerate(calls)]
    project.write("test_all.py", "from workbench.testing import AgentEvaluator\n\n" + "\n".join(tests))

    done = PytestProject(pytester, forked_pytest).pytest("-o", "asyncio_mode=auto", "--tb=short")

    done.assert_outcomes(failed=len(calls))
    locations = [line for line in done.outlines if re.match(r"\S+\.py:\d+: in ", line)]
    assert [line.partition(":")[0] for line in locations] == ["test_all.py"] * len(calls)


def test_the_timeout_option_applies_to_each_case(pytester: pytest.Pytester, forked_pytest: ForkedPytest | None) -> None:
    project = AgentProject(pytester.path)
    project.write("home_automation_agent/__init__.py", "from . import agent")
    project.write(
        "home_automation_agent/agent.py", AGENT.replace('raise ValueError("kaboom")', "__import__('time').sleep(300)")
    )
    project.write("home_automation_agent/tools.py", TOOLS)
    project.add_set("slow.test.json", off="raise")
    project.write(
        "test_slow.py",
        """
        import pytest
        from workbench.testing import AgentEvaluator

        @pytest.mark.asyncio
        async def test_slow():
            await AgentEvaluator.evaluate("home_automation_agent", "slow.test.json", num_runs=1)
        """,
    )

    done = PytestProject(pytester, forked_pytest).pytest("--workbench-timeout", "4")

    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines("*longer than 4 s*")


async def test_missing_samples_are_a_warning_or_an_error_if_all_are_required(
    project: AgentProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    reason = "judged by 1 of 2 samples"
    project.add_set("simple.test.json", off="Turn off device_2.")
    judge = {"threshold": 0.5, "judge_model_options": {"num_samples": 2}}
    project.write("test_config.json", {"criteria": {"final_response_match_v2": judge}})
    project.write("workbench.toml", "[judge]\ntries = 1\n")
    numbers = itertools.count()

    def answer(_: Call) -> HttpResponse:
        verdict = gemini('{"reasoning": "r", "is_the_agent_response_valid": "valid"}')
        return gemini_error(503, "down") if next(numbers) % 2 else verdict

    with serve_judge(monkeypatch, answer):
        with pytest.warns(UserWarning, match=f"simple.test.json: off: final_response_match_v2: {reason}"):
            await AgentEvaluator.evaluate(MODULE, "simple.test.json", num_runs=1)
        (project.root / ".workbench" / "replies.db").unlink()
        monkeypatch.setattr(session, "require_all_samples", True)
        with pytest.raises(
            EvaluationIncomplete, match=rf"! ERROR  simple.test.json: off\n  .*: {reason}\n  all samples"
        ):
            await AgentEvaluator.evaluate(MODULE, "simple.test.json", num_runs=1)


ADK_OBJECTS_SCRIPT = """
import asyncio, json, pathlib
from google.adk.evaluation.eval_config import EvalConfig
from google.adk.evaluation.eval_set import EvalSet
from workbench.testing import AgentEvaluator

eval_set = EvalSet.model_validate_json(pathlib.Path("simple.test.json").read_text())
lenient = {"tool_trajectory_avg_score": {"threshold": 1.0, "match_type": "ANY_ORDER", "ignore_args": True}}
config = EvalConfig.model_validate({"criteria": lenient})
asyncio.run(AgentEvaluator.evaluate_eval_set("home_automation_agent", eval_set, eval_config=config))
print("passed")
config = EvalConfig.model_validate({"criteria": {"tool_trajectory_avg_score": 1.0}})
asyncio.run(AgentEvaluator.evaluate_eval_set("home_automation_agent", eval_set, eval_config=config))
"""


def test_objects_of_adk_are_accepted_and_the_process_ends_afterwards(project: AgentProject) -> None:
    project.add_set("simple.test.json", bad="the wrong one")

    done = subprocess.run(
        [sys.executable, "-c", ADK_OBJECTS_SCRIPT], capture_output=True, text=True, timeout=120, check=False
    )

    assert (done.returncode, done.stdout.splitlines()[-1][:15]) == (1, "      set_devic")
    assert "passed" in done.stdout.splitlines()
    assert "AssertionError: 1 of 1 case of home_automation_agent did not pass" in done.stderr


async def test_an_error_outside_of_the_cases_is_raised_after_they_ran(
    project: AgentProject, capsys: pytest.CaptureFixture[str]
) -> None:
    path = project.root / project.add_set("simple.test.json", off="Turn it off.")
    path.write_text(path.read_text() + "]")

    with pytest.raises(ValueError, match=r"simple\.test\.json:\d+:\d+: error: found .*, expected the end"):
        await AgentEvaluator.evaluate(MODULE, path.name)

    assert "PASSED" in capsys.readouterr().out
