"""`workbench eval`: the command line of `adk eval`."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from workbench.cli.printers import format_summary
from workbench.model.identity import CaseKey
from workbench.model.results import CaseStatus
from workbench.model.run_events import RunSummary
from workbench.report.run_report import CaseOutcome, StreamedRun

if TYPE_CHECKING:
    from tests.cli.command_line import CommandLine

MakeTurn = Callable[..., dict[str, Any]]

# The documented commands with `adk` replaced. All agents are the function agent of the project,
# so that only the command line is tested here.
DOCUMENTED = """
workbench eval samples_for_testing/hello_world samples_for_testing/hello_world/hello_world_eval_set_001.evalset.json
workbench eval samples_for_testing/hello_world sample_eval_set_file.json:eval_1,eval_2,eval_3 --config_file_path=test_config.json --print_detailed_results
workbench eval_set create contributing/samples/hello_world eval_set_with_scenarios
workbench eval_set add_eval_case contributing/samples/hello_world eval_set_with_scenarios --scenarios_file contributing/samples/hello_world/conversation_scenarios.json --session_input_file contributing/samples/hello_world/session_input.json
workbench eval contributing/samples/hello_world --config_file_path contributing/samples/hello_world/eval_config.json eval_set_with_scenarios --print_detailed_results
"""  # noqa: E501 - as printed

CORPUS = Path(__file__).parents[3].parent / "shared" / "corpus" / "documentation" / "commands.sh.txt"


@pytest.fixture
def documented_project(workbench: CommandLine, make_turn: MakeTurn, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """Create a project on which the documented commands work."""
    settings = ""
    for name, path in (("one", "samples_for_testing"), ("two", "contributing/samples")):
        workbench.write(f"{path}/hello_world/__init__.py", "")
        workbench.write(f"{path}/hello_world/agent.py", "def answer(prompt): return prompt\n")
        settings += f'[targets.{name}]\nkind = "function"\npath = "{path}"\ntarget = "hello_world.agent:answer"\n'
    workbench.write("workbench.toml", settings)
    cases = {f"eval_{n}": [make_turn("hi", response="hi")] for n in range(1, 6)}
    workbench.add_set("samples_for_testing/hello_world/hello_world_eval_set_001.evalset.json", cases)
    workbench.add_set("sample_eval_set_file.json", cases)
    workbench.write("test_config.json", {"criteria": {"exact_match": 1.0}})
    folder = "contributing/samples/hello_world"
    scenario = {"starting_prompt": "What can you do?", "conversation_plan": "Roll a die.", "user_persona": "NOVICE"}
    workbench.write(f"{folder}/conversation_scenarios.json", {"scenarios": [scenario]})
    workbench.write(f"{folder}/session_input.json", '{"app_name": "hello_world", "user_id": "user"} // comment')
    criteria = {"hallucinations_v1": {"threshold": 0.5}, "safety_v1": {"threshold": 0.8}}
    workbench.write(f"{folder}/eval_config.json", {"criteria": criteria})
    for name in ("GOOGLE_API_KEY", "GEMINI_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI"):
        monkeypatch.delenv(name, raising=False)
    return workbench


def read_commands() -> list[list[str]]:
    """Return our copy of the documented commands, and those of the corpus if available."""
    lines = DOCUMENTED.splitlines()
    if CORPUS.exists():
        lines += [line.replace("adk", "workbench", 1) for line in CORPUS.read_text().splitlines() if line[:4] == "adk "]
    return [shlex.split(line)[1:] for line in dict.fromkeys(lines) if line]


def test_every_documented_command_is_accepted(documented_project: CommandLine) -> None:
    # Without a key no model can play the users of scenarios: the command succeeds with a message.
    expected = {"create": 0, "add_eval_case": 0, "eval_set_with_scenarios": 3}

    for arguments in read_commands():
        result = documented_project(*arguments)

        status = next((expected[word] for word in expected if word in arguments), 0)
        assert result.status == status, (arguments, result)
        assert "Traceback" not in result.error


def test_the_summary_has_the_format_of_adk(documented_project: CommandLine) -> None:
    result = documented_project("eval", "samples_for_testing/hello_world", "sample_eval_set_file.json:eval_1,eval_2")

    assert "Using evaluation criteria: " in result.out
    assert "Eval Run Summary\nsample_eval_set_file:\n  Tests passed: 2\n  Tests failed: 0\n" in result.out


def test_the_summary_counts_cancelled_and_skipped_cases_as_not_run() -> None:
    count = 0

    def make_outcomes(eval_set_id: str, *statuses: str) -> list[CaseOutcome]:
        nonlocal count
        outcomes = []
        for status in statuses:
            count += 1
            case = CaseKey(target="t", eval_set=eval_set_id, eval_id=f"case {count}")
            outcomes.append(CaseOutcome(case, 0, eval_set_id, CaseStatus(status), (), (), (), (), None, False))
        return outcomes

    stopped = make_outcomes("stopped", "PASSED", "CANCELLED", "CANCELLED", "SKIPPED")
    whole = make_outcomes("whole", "PASSED", "FAILED", "ERROR", "NOT_EVALUATED")
    report = StreamedRun(run_id="r", summary=RunSummary(), outcomes=[*stopped, *whole])

    assert format_summary(report)[2:] == [
        "stopped:", "  Tests passed: 1", "  Tests failed: 0", "  Tests not run: 3",
        "whole:", "  Tests passed: 1", "  Tests failed: 3",
    ]  # fmt: skip


def test_details_show_each_turn(documented_project: CommandLine) -> None:
    result = documented_project(
        "eval", "--print-detailed-results", "samples_for_testing/hello_world", "sample_eval_set_file.json:eval_1"
    )

    assert "Overall Eval Status: PASSED" in result.out
    assert "Metric: exact_match, Status: PASSED, Score: 1.0, Threshold: 1.0" in result.out
    assert "  expected_response:        hi" in result.out


@pytest.mark.parametrize(
    "flags",
    [
        ["--config_file_path=test_config.json"],
        ["--config-file-path", "test_config.json"],
        ["--log_level", "debug", "--enable_features=A,B", "--disable-features", "C"],
        ["--log_level=INFO"],
    ],
)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_flags_are_accepted_anywhere_on_the_command_line(
    documented_project: CommandLine, flags: list[str], place: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ADK_ENABLE_A", "ADK_ENABLE_B", "ADK_DISABLE_C"):
        monkeypatch.delenv(name, raising=False)
    arguments = ["samples_for_testing/hello_world", "sample_eval_set_file.json:eval_1"]
    arguments[place:place] = flags

    assert documented_project("eval", *arguments).status == 0


def test_sets_are_found_by_id_in_the_folder_of_the_agent(documented_project: CommandLine) -> None:
    result = documented_project(
        "eval", "samples_for_testing/hello_world", "hello_world_eval_set_001:eval_2", "--format", "json"
    )

    assert [case["eval_id"] for case in result.data["cases"]] == ["eval_2"]


def test_one_test_config_applies_to_several_sets(documented_project: CommandLine, make_turn: MakeTurn) -> None:
    documented_project.add_set("second.json", {"a": [make_turn("hi", response="hi")]})

    result = documented_project("eval", "samples_for_testing/hello_world", "sample_eval_set_file.json", "second.json")

    assert result.status == 0
    assert "exact_match" in result.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere", "a.json"], "nowhere"),
        (["samples_for_testing/hello_world"], "no eval set given"),
        (["samples_for_testing/hello_world", "missing.json"], "missing.json: no such eval-set file"),
        (["samples_for_testing/hello_world", "sample_eval_set_file.json", "missing"], "missing"),
        (["samples_for_testing/hello_world", "sample_eval_set_file.json:eval_9"], "eval_9"),
        (["samples_for_testing/hello_world", "sample_eval_set_file.json", "--config_file_path=no.json"], "no.json"),
        (["samples_for_testing/hello_world", "x", "--eval_storage_uri=gs://bucket"], "gs://bucket"),
        (["samples_for_testing", "sample_eval_set_file.json"], "has no agent"),
        (["samples_for_testing/hello_world", "samples_for_testing"], "expected an eval-set file"),
    ],
)
def test_invalid_arguments_get_one_message(documented_project: CommandLine, arguments: list[str], message: str) -> None:
    result = documented_project("eval", *arguments)

    assert result.status == 2
    assert message in result.error
    assert "Traceback" not in result.error


def test_a_feature_unknown_to_adk_is_reported(documented_project: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TOOL_CONFIRMATON", "tool_config", "GOOGLE_TOOL"):
        monkeypatch.delenv(f"ADK_ENABLE_{name}", raising=False)
    features = "--enable_features=TOOL_CONFIRMATON,tool_config,GOOGLE_TOOL"

    result = documented_project("eval", "samples_for_testing/hello_world", "sample_eval_set_file.json:eval_1", features)

    assert "unknown feature 'TOOL_CONFIRMATON'" in result.error
    for feature in ("TOOL_CONFIRMATION", "TOOL_CONFIG"):
        assert f"did you mean {feature!r}?" in result.error
    assert "GOOGLE_TOOL" not in result.error


@pytest.mark.needs_adk
def test_the_known_features_equal_those_of_adk() -> None:
    from google.adk.features import FeatureName

    from workbench.cli.shared_options import ADK_FEATURES

    assert {feature.value for feature in FeatureName} == ADK_FEATURES
