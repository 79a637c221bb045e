"""Judges with recorded replies, so that tests need no key and no network."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command_line import turn
from tests.engine.judged import METRIC, SAMPLES, make_judged_folder, serve_judge, verdict
from tests.llm.servers import Server, gemini, gemini_error
from tests.testing.pytest_project import PytestProject
from workbench.llm.model_replay import RecordedRequest
from workbench.store.history.history import History
from workbench.store.model_answers import CallKind, Recording


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with serve_judge(monkeypatch) as started:
        yield started


@pytest.fixture
def project(empty_project: PytestProject, server: Server) -> PytestProject:
    """Create a project with a good and a bad case, whose only criterion needs a judge."""
    make_judged_folder(empty_project.root, good="good", bad="bad")
    return empty_project


def remove_key_and_cache(project: PytestProject, monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the key and the cached replies, as in CI."""
    monkeypatch.delenv("GOOGLE_API_KEY")
    delete_cache(project)


def delete_cache(project: PytestProject) -> None:
    """Delete the cache of model replies."""
    (project.root / ".workbench" / "replies.db").unlink(missing_ok=True)


def count_recorded(file: Path) -> int:
    return sum(len(block.calls) for block in Recording(file).iter_part(CallKind.JUDGES, RecordedRequest))


def test_recorded_judges_reply_without_key_and_network(
    project: PytestProject, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write("pytest.ini", "[pytest]\nworkbench_collect = true\nworkbench_calls = calls/judge.jsonl\n")
    project.pytest("--workbench-record").assert_outcomes(passed=1, failed=1)
    assert len(server.calls) == 2 * SAMPLES
    server.calls.clear()
    remove_key_and_cache(project, monkeypatch)

    replayed = project.pytest()

    replayed.assert_outcomes(passed=1, failed=1)
    assert server.calls == []
    project.pytest("-n", "2").assert_outcomes(passed=1, failed=1)


def test_judge_calls_of_a_process_are_counted_over_all_its_cases(project: PytestProject, server: Server) -> None:
    project.pytest("--workbench", "-n", "1").assert_outcomes(passed=1, failed=1)

    with History.open(project.root) as history:
        (run,) = history.runs()
    assert [spent.calls for spent in run.summary.models] == [len(server.calls)] == [2 * SAMPLES]


def test_the_model_budget_is_shared_by_all_cases_of_a_process(empty_project: PytestProject, server: Server) -> None:
    settings = f"max_calls = {SAMPLES}\n"
    make_judged_folder(empty_project.root, settings=settings, one="good 1", two="good 2", three="good 3")

    done = empty_project.pytest("--workbench", "-n", "1")

    done.assert_outcomes(passed=1, errors=2)
    done.stdout.fnmatch_lines([f"*the budget of {SAMPLES} model calls is used up*"])
    assert len(server.calls) == SAMPLES


def test_missing_samples_are_reported_or_an_error_if_all_are_required(
    empty_project: PytestProject, server: Server
) -> None:
    make_judged_folder(empty_project.root, good="good")

    def reset_answers() -> None:
        numbers = itertools.count()
        server.answer = lambda call: verdict(call) if next(numbers) == 0 else gemini_error(503, "down")

    def rerun(*arguments: str) -> pytest.RunResult:
        delete_cache(empty_project)
        reset_answers()
        return empty_project.pytest("--workbench", "--junitxml=done.xml", *arguments)

    reason = f"{METRIC}: judged by 1 of 2 samples"
    passed = rerun()
    passed.assert_outcomes(passed=1)
    passed.stdout.fnmatch_lines([f"samples missing: set.evalset.json::good: {reason}"])
    assert f'name="{METRIC}: samples" value="judged by 1 of 2 samples"' in (empty_project.root / "done.xml").read_text()

    for gate in (["--workbench-require-all-samples"], ["-o", "workbench_require_all_samples=true"]):
        done = rerun(*gate)
        done.assert_outcomes(errors=1)
        done.stdout.fnmatch_lines([reason, "all samples are required (*"])


def test_a_missing_recording_is_an_error_with_advice(project: PytestProject, server: Server) -> None:
    done = project.pytest("--workbench", "--workbench-calls", "calls.jsonl")

    done.assert_outcomes(errors=2)
    done.stdout.fnmatch_lines(
        ["calls.jsonl: there are no recorded answers of models; record them with `pytest --workbench-record`"]
    )
    assert server.calls == []


def test_a_call_that_was_not_recorded_is_an_error_with_advice(project: PytestProject, server: Server) -> None:
    options = ("--workbench", "--workbench-calls", "calls.jsonl")
    project.pytest(*options, "--workbench-record", "-k", "good")

    done = project.pytest(*options)

    done.assert_outcomes(passed=1, errors=1)
    done.stdout.fnmatch_lines(["*has no answer of gemini-2.5-flash to this request*in pytest --workbench-record*"])


def test_a_repeated_recording_replaces_only_its_own_calls(
    project: PytestProject, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ("--workbench", "--workbench-calls", "calls.jsonl")
    project.pytest(*options, "--workbench-record")
    project.pytest(*options, "--workbench-record", "-k", "good")

    assert count_recorded(project.root / "calls.jsonl") == 2 * SAMPLES
    remove_key_and_cache(project, monkeypatch)
    project.pytest(*options).assert_outcomes(passed=1, failed=1)


def test_no_model_is_called_if_the_recording_cannot_be_written(project: PytestProject, server: Server) -> None:
    project.write("file", "")

    done = project.pytest("--workbench", "--workbench-record", "--workbench-calls", "file/calls.jsonl", "-k", "good")

    done.assert_outcomes(errors=1)
    done.stdout.fnmatch_lines(["file: cannot create it: it already exists"])
    assert server.calls == []


def test_recording_requires_a_file_and_a_single_process(project: PytestProject, server: Server) -> None:
    without_file = project.pytest("--workbench", "--workbench-record")
    parallel = project.pytest("--workbench", "--workbench-record", "--workbench-calls", "calls.jsonl", "-n", "2")

    without_file.stdout.fnmatch_lines(
        ["--workbench-record: no file is named; expected --workbench-calls or --workbench-replay FILE too"]
    )
    assert "several processes cannot record into one file; leave -n out" in parallel.stderr.str()
    assert server.calls == []


def test_only_a_recording_is_overwritten(project: PytestProject, server: Server) -> None:
    project.write("notes.txt", "dear to somebody")

    done = project.pytest("--workbench", "--workbench-record", "--workbench-calls", "notes.txt")

    done.assert_outcomes(errors=2)
    done.stdout.fnmatch_lines(["notes.txt:*"])
    assert (project.root / "notes.txt").read_text() == "dear to somebody"


MARKED_TEST = """
import pytest
from workbench.testing import AgentEvaluator


@pytest.mark.asyncio
@pytest.mark.workbench_calls("calls.jsonl")
async def test_both():
    for name in ("one", "two"):
        await AgentEvaluator.evaluate("judged", f"judged/{name}.test.json", num_runs=1)
"""


def test_the_marker_names_the_file_of_one_test(
    project: PytestProject, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write("workbench.toml", '[targets.sample]\nkind = "function"\ntarget = "judged.agent:answer"\n')
    project.write("judged/agent.py", "def answer(prompt):\n    return prompt.upper()\n")
    for name in ("one", "two"):
        project.add_set(f"judged/{name}.test.json", good=[turn(f"good {name}", "GOOD")])
    project.write("judged/test_config.json", (project.root / "test_config.json").read_text())
    project.write("tests/test_judged.py", MARKED_TEST)
    options = ("-o", "pythonpath=.", "tests")

    project.pytest(*options, "--workbench-record").assert_outcomes(passed=1)
    assert len(server.calls) == count_recorded(project.root / "tests" / "calls.jsonl") == 2 * SAMPLES
    server.calls.clear()
    remove_key_and_cache(project, monkeypatch)

    project.pytest(*options).assert_outcomes(passed=1)
    assert server.calls == []


EVALUATION_TEST = """
import pytest
from workbench.testing import EvalTask, PointwiseMetric

SHORT = PointwiseMetric(metric="short", metric_prompt_template="Rate {response}")


@pytest.mark.workbench_calls("calls.jsonl")
def test_short():
    result = EvalTask(dataset={"response": ["yes"]}, metrics=[SHORT]).evaluate()
    assert result.summary_metrics["short/mean"] == 3.0
"""


def test_evaluation_tasks_use_recorded_calls(empty_project: PytestProject, monkeypatch: pytest.MonkeyPatch) -> None:
    empty_project.write("workbench.toml", "")
    empty_project.write("test_short.py", EVALUATION_TEST)
    with serve_judge(monkeypatch, lambda call: gemini('{"score": 3, "explanation": "e"}')) as server:
        unrecorded = empty_project.pytest()
        assert server.calls == []
        empty_project.pytest("--workbench-record").assert_outcomes(passed=1)
        assert len(server.calls) == count_recorded(empty_project.root / "calls.jsonl") > 0
        server.calls.clear()
        remove_key_and_cache(empty_project, monkeypatch)

        empty_project.pytest().assert_outcomes(passed=1)
        assert server.calls == []

    unrecorded.assert_outcomes(failed=1)
    unrecorded.stdout.fnmatch_lines(["*calls.jsonl: there are no recorded answers of models; record them with*"])


ANSWERED_TEST = """
import pytest
from workbench.testing import CustomOutputConfig, EvalTask, PairwiseMetric

BETTER = PairwiseMetric(
    metric="better",
    metric_prompt_template="{baseline_model_response} or {response}",
    baseline_model="gemini-old",
    custom_output_config=CustomOutputConfig(return_raw_output=True, parsing_fn=lambda replies: {"score": 7}),
)


@pytest.mark.workbench_calls("calls.jsonl")
def test_answered():
    result = EvalTask(dataset={"prompt": ["hello"]}, metrics=[BETTER]).evaluate(model="gemini-new")
    assert result.rows[0]["response"] == result.rows[0]["baseline_model_response"] == "hi"
    assert result.summary_metrics["better/mean"] == 7
"""


def test_answers_of_models_and_replies_for_functions_are_recorded(
    empty_project: PytestProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty_project.write("workbench.toml", "")
    empty_project.write("test_answered.py", ANSWERED_TEST)
    with serve_judge(monkeypatch, lambda call: gemini("hi")) as server:
        empty_project.pytest("--workbench-record").assert_outcomes(passed=1)
        assert len(server.calls) == count_recorded(empty_project.root / "calls.jsonl") > 2
        server.calls.clear()
        remove_key_and_cache(empty_project, monkeypatch)

        empty_project.pytest().assert_outcomes(passed=1)
        assert server.calls == []
