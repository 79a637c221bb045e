"""Judges that answer from a file, so that tests need no key and no network."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from tests.engine.judged import METRIC, SAMPLES, make_judged_folder, serve_judge, verdict
from tests.llm.servers import Server, gemini, gemini_error
from tests.testing.pytest_plugin.conftest import PytestProject, turn
from workbench.store.history.history import History


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with serve_judge(monkeypatch) as started:
        yield started


@pytest.fixture
def judged(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, server: Server) -> PytestProject:
    """A project with a good and a bad case, whose only criterion is asked of a judge."""
    monkeypatch.setenv("COLUMNS", "300")
    make_judged_folder(pytester.path, good="good", bad="bad")
    return PytestProject(pytester)


def forget_key(project: PytestProject, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in CI: no key, nothing known from before."""
    monkeypatch.delenv("GOOGLE_API_KEY")
    forget_answers(project)


def forget_answers(project: PytestProject) -> None:
    """Delete the cache of what models answered."""
    (project.root / ".workbench" / "replies.db").unlink(missing_ok=True)


def test_recorded_judges_answer_without_key_and_network(
    judged: PytestProject, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged.write("pytest.ini", "[pytest]\nworkbench_collect = true\nworkbench_calls = calls/judge.jsonl\n")
    judged.pytest("--workbench-record").assert_outcomes(passed=1, failed=1)
    assert len(server.calls) == 2 * SAMPLES
    server.calls.clear()
    forget_key(judged, monkeypatch)

    replayed = judged.pytest()

    replayed.assert_outcomes(passed=1, failed=1)
    assert server.calls == []
    judged.pytest("-n", "2").assert_outcomes(passed=1, failed=1)


def test_what_judges_were_asked_in_a_process_is_counted_for_all_its_cases(
    judged: PytestProject, server: Server
) -> None:
    judged.pytest("--workbench", "-n", "1").assert_outcomes(passed=1, failed=1)

    with History.open(judged.root) as history:
        (run,) = history.runs()
    assert [spent.calls for spent in run.summary.models] == [len(server.calls)] == [2 * SAMPLES]


def test_the_budget_of_models_is_one_for_all_cases_of_a_process(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, server: Server
) -> None:
    make_judged_folder(pytester.path, settings=f"max_calls = {SAMPLES}\n", one="good 1", two="good 2", three="good 3")
    monkeypatch.setenv("COLUMNS", "300")

    done = PytestProject(pytester).pytest("--workbench", "-n", "1")

    done.assert_outcomes(passed=1, errors=2)
    done.stdout.fnmatch_lines([f"*the budget of {SAMPLES} model calls is used up*"])
    assert len(server.calls) == SAMPLES


def test_missing_samples_are_said_and_may_be_an_error(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, server: Server
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    make_judged_folder(pytester.path, good="good")
    project = PytestProject(pytester)

    def answers() -> None:
        numbers = itertools.count()
        server.answer = lambda call: verdict(call) if next(numbers) == 0 else gemini_error(503, "down")

    def check_again(*arguments: str) -> pytest.RunResult:
        forget_answers(project)
        answers()
        return project.pytest("--workbench", "--junitxml=done.xml", *arguments)

    said = f"{METRIC}: judged by 1 of 2 samples"
    passed = check_again()
    passed.assert_outcomes(passed=1)
    passed.stdout.fnmatch_lines([f"samples missing: set.evalset.json::good: {said}"])
    assert f'name="{METRIC}: samples" value="judged by 1 of 2 samples"' in (project.root / "done.xml").read_text()

    for gate in (["--workbench-require-all-samples"], ["-o", "workbench_require_all_samples=true"]):
        done = check_again(*gate)
        done.assert_outcomes(errors=1)
        done.stdout.fnmatch_lines([said, "all samples are required (*"])


def test_missing_recordings_say_how_to_record(judged: PytestProject, server: Server) -> None:
    done = judged.pytest("--workbench", "--workbench-calls", "calls.jsonl")

    done.assert_outcomes(errors=2)
    done.stdout.fnmatch_lines(
        ["calls.jsonl: there are no recorded answers of models; record them with `pytest --workbench-record`"]
    )
    assert server.calls == []


def test_a_call_that_was_not_recorded_is_an_error_that_says_how(judged: PytestProject, server: Server) -> None:
    options = ("--workbench", "--workbench-calls", "calls.jsonl")
    judged.pytest(*options, "--workbench-record", "-k", "good")

    done = judged.pytest(*options)

    done.assert_outcomes(passed=1, errors=1)
    done.stdout.fnmatch_lines(["*has no answer of gemini-2.5-flash to this request*in pytest --workbench-record*"])


def test_what_is_recorded_again_replaces_itself_and_nothing_else(
    judged: PytestProject, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ("--workbench", "--workbench-calls", "calls.jsonl")
    judged.pytest(*options, "--workbench-record")
    judged.pytest(*options, "--workbench-record", "-k", "good")

    assert len((judged.root / "calls.jsonl").read_text().splitlines()) == 2 * SAMPLES
    forget_key(judged, monkeypatch)
    judged.pytest(*options).assert_outcomes(passed=1, failed=1)


def test_nothing_is_asked_that_could_not_be_recorded(judged: PytestProject, server: Server) -> None:
    judged.write("file", "")

    done = judged.pytest("--workbench", "--workbench-record", "--workbench-calls", "file/calls.jsonl", "-k", "good")

    done.assert_outcomes(errors=1)
    done.stdout.fnmatch_lines(["file: cannot create it: it exists already"])
    assert server.calls == []


def test_recording_wants_a_file_and_one_process(judged: PytestProject, server: Server) -> None:
    nowhere = judged.pytest("--workbench", "--workbench-record")
    spread = judged.pytest("--workbench", "--workbench-record", "--workbench-calls", "calls.jsonl", "-n", "2")

    nowhere.stdout.fnmatch_lines(["--workbench-record: no file is named; expected --workbench-calls FILE too"])
    assert "several processes cannot record into one file; leave -n out" in spread.stderr.str()
    assert server.calls == []


def test_nothing_but_a_recording_is_written_over(judged: PytestProject, server: Server) -> None:
    judged.write("notes.txt", "dear to somebody")

    done = judged.pytest("--workbench", "--workbench-record", "--workbench-calls", "notes.txt")

    done.assert_outcomes(errors=2)
    done.stdout.fnmatch_lines(["notes.txt:*"])
    assert (judged.root / "notes.txt").read_text() == "dear to somebody"


TEST = """
import pytest
from workbench.testing import AgentEvaluator


@pytest.mark.asyncio
@pytest.mark.workbench_calls("calls.jsonl")
async def test_both():
    for name in ("one", "two"):
        await AgentEvaluator.evaluate("judged", f"judged/{name}.test.json", num_runs=1)
"""


def test_the_marker_names_the_file_of_one_test(
    judged: PytestProject, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged.write("workbench.toml", '[targets.sample]\nkind = "function"\ntarget = "judged.agent:answer"\n')
    judged.write("judged/agent.py", "def answer(prompt):\n    return prompt.upper()\n")
    for name in ("one", "two"):
        judged.add_set(f"judged/{name}.test.json", good=[turn(f"good {name}", "GOOD")])
    judged.write("judged/test_config.json", (judged.root / "test_config.json").read_text())
    judged.write("tests/test_judged.py", TEST)
    options = ("-o", "pythonpath=.", "tests")

    judged.pytest(*options, "--workbench-record").assert_outcomes(passed=1)
    assert len(server.calls) == len((judged.root / "tests" / "calls.jsonl").read_text().splitlines()) == 2 * SAMPLES
    server.calls.clear()
    forget_key(judged, monkeypatch)

    judged.pytest(*options).assert_outcomes(passed=1)
    assert server.calls == []


EVALUATION = """
import pytest
from workbench.testing import EvalTask, PointwiseMetric

SHORT = PointwiseMetric(metric="short", metric_prompt_template="Rate {response}")


@pytest.mark.workbench_calls("calls.jsonl")
def test_short():
    result = EvalTask(dataset={"response": ["yes"]}, metrics=[SHORT]).evaluate()
    assert result.summary_metrics["short/mean"] == 3.0
"""


def test_evaluation_tasks_ask_no_model_where_calls_are_recorded(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = PytestProject(pytester)
    project.write("workbench.toml", "")
    project.write("test_short.py", EVALUATION)
    with serve_judge(monkeypatch, lambda call: gemini('{"score": 3, "explanation": "e"}')) as server:
        unrecorded = project.pytest()
        assert server.calls == []
        project.pytest("--workbench-record").assert_outcomes(passed=1)
        assert len(server.calls) == len((project.root / "calls.jsonl").read_text().splitlines()) > 0
        server.calls.clear()
        forget_key(project, monkeypatch)

        project.pytest().assert_outcomes(passed=1)
        assert server.calls == []

    unrecorded.assert_outcomes(failed=1)
    unrecorded.stdout.fnmatch_lines(["*calls.jsonl: there are no recorded answers of models; record them with*"])
