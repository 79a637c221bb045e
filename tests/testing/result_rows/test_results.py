"""Results of an evaluation: table, summary, display, files and history."""

from __future__ import annotations

import asyncio
import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from workbench.model.installation import install_command
from workbench.testing import CustomMetric, EvalResult, EvalTask, EvaluationError

CALL = {"tool_name": "lookup", "tool_input": {"key": "a"}}
ANSWERS = {
    "prompt": ["a", "b"],
    "response": ["A", "x"],
    "reference": ["A", "B"],
    "predicted_trajectory": [[CALL], []],
    "reference_trajectory": [[CALL], [CALL]],
}


def run_workbench(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("workbench")), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_run_is_in_the_history_by_name_and_can_be_reported_and_compared(project: Path) -> None:
    def answer_in_capitals(prompt: str) -> str:
        return prompt.upper()

    task = EvalTask(dataset=ANSWERS, metrics=["exact_match"], experiment="letters")
    first = task.evaluate(runnable=answer_in_capitals, experiment_run_name="shouting")
    second = task.evaluate(runnable=lambda prompt: "B", experiment_run_name="constant")

    listing = run_workbench("history").stdout
    assert "EvalTask: experiment letters, run shouting" in listing
    assert first.metadata == {
        "experiment": "letters",
        "experiment_run": "shouting",
        "run_id": first.metadata["run_id"],
    }
    report = json.loads(run_workbench("report", first.metadata["run_id"]).stdout)
    assert [case["eval_id"] for case in report["cases"]] == ["row_1", "row_2"]
    assert report["summary"]["metrics"]["exact_match"]["mean"] == 1.0
    compared = run_workbench("compare", first.metadata["run_id"], second.metadata["run_id"])
    assert "exact_match" in compared.stdout
    assert "over 2 cases of both" in compared.stdout


def test_the_history_names_dataset_and_metrics_of_runs_without_experiment(project: Path) -> None:
    (project / "rows").mkdir()
    (project / "rows/answers.jsonl").write_text('{"prompt": "a", "response": "A", "reference": "A"}')

    EvalTask(dataset=ANSWERS, metrics=["exact_match", "rouge_1"]).evaluate()
    EvalTask(dataset="rows/answers.jsonl", metrics=["exact_match"]).evaluate()

    listing = run_workbench("history").stdout.splitlines()
    assert listing[1::2] == [
        "  EvalTask: dataset rows/answers.jsonl: exact_match",
        "  EvalTask: dataset in memory: exact_match, rouge_1",
    ]


def test_nothing_is_stored_without_the_history(project: Path) -> None:
    result = EvalTask(dataset=ANSWERS, metrics=["exact_match"], history=False).evaluate(runnable=str)

    assert not (project / ".workbench").exists()
    assert list(result.metadata) == ["experiment_run"]


def test_the_summary_has_the_documented_metrics() -> None:
    summary = EvalTask(dataset=ANSWERS, metrics=["exact_match", "trajectory_precision"]).evaluate().summary_metrics

    assert list(summary) == [
        "row_count",
        "exact_match/mean",
        "exact_match/std",
        "trajectory_precision/mean",
        "trajectory_precision/std",
    ]
    assert summary["exact_match/std"] == pytest.approx(math.sqrt(0.5))
    assert summary["trajectory_precision/mean"] == 1.0
    assert math.isnan(summary["trajectory_precision/std"])


def test_column_names_of_one_evaluation_override_the_mapping() -> None:
    dataset = {"first": ["A"], "second": ["B"], "reference": ["B"]}
    task = EvalTask(dataset=dataset, metrics=["exact_match"], metric_column_mapping={"response": "first"})

    scores = [task.evaluate(response_column_name=name).rows[0]["exact_match/score"] for name in (None, "second")]

    assert scores == [0.0, 1.0]
    with pytest.raises(EvaluationError, match="expected 'secnd', which is mapped to response; did you mean 'second'"):
        task.evaluate(response_column_name="secnd")


def test_columns_are_found_by_the_mapping() -> None:
    dataset = {"answer": ["A"], "truth": ["A"]}
    mapping = {"response": "answer", "reference": "truth"}

    result = EvalTask(dataset=dataset, metrics=["exact_match"], metric_column_mapping=mapping).evaluate()

    assert result.summary_metrics["exact_match/mean"] == 1.0


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.csv", "rows.json"])
def test_dataset_files_are_read(project: Path, name: str) -> None:
    path = project / name
    if name == "rows.csv":
        call = json.dumps([CALL]).replace('"', '""')
        path.write_text(f'prompt,predicted_trajectory,reference_trajectory\na,"{call}","{call}"\n', encoding="utf-8")
    else:
        row = {"prompt": "a", "predicted_trajectory": [CALL], "reference_trajectory": [CALL]}
        path.write_text(json.dumps(row if name == "rows.jsonl" else [row]), encoding="utf-8")
    rows: list[dict[str, Any]] = []

    def note(row: dict[str, Any]) -> int:
        rows.append(row)
        return 1

    result = EvalTask(dataset=name, metrics=["trajectory_exact_match", CustomMetric("note", note)]).evaluate()

    assert result.summary_metrics["trajectory_exact_match/mean"] == 1.0
    assert rows[0]["predicted_trajectory"] == [CALL]


@pytest.mark.needs_pandas
def test_the_table_of_an_earlier_result_can_be_scored_again() -> None:
    def score(row: dict[str, Any]) -> dict[str, float]:
        if row["reference"] == "x":
            raise ValueError("no such letter")
        return {"mine": 1, "more": 2}

    task = EvalTask(dataset=ANSWERS, metrics=["exact_match", CustomMetric("mine", score)])
    earlier = task.evaluate().metrics_table
    rescored = EvalTask(dataset=earlier.assign(reference=["a", "x"]), metrics=task.metrics).evaluate()

    assert earlier["mine/more"].tolist() == [2.0, 2.0]
    assert [row["exact_match/score"] for row in rescored.rows] == [0.0, 1.0]
    assert rescored.metrics_table["exact_match/score"].tolist() == [0.0, 1.0]
    assert [row["mine/more"] for row in rescored.rows] == [2.0, None]
    assert {(problem.row, problem.column) for problem in rescored.problems} == {(2, "mine/score"), (2, "mine/more")}
    assert list(rescored.metrics_table.columns) == list(earlier.columns)


def test_the_score_of_a_custom_metric_is_the_value_under_its_name() -> None:
    metric = CustomMetric("mine", lambda row: {"mine": 0.2, "score": 0.9})

    result = EvalTask(dataset=ANSWERS, metrics=[metric]).evaluate()

    assert result.summary_metrics["mine/mean"] == 0.2
    assert [row["mine/score"] for row in result.rows] == [0.2, 0.2]


def test_changes_of_a_metric_function_to_its_row_affect_no_other_metric() -> None:
    def append(row: dict[str, Any]) -> int:
        row["context"].append("more")
        row["predicted_trajectory"].clear()
        row["reference_trajectory"][0]["tool_input"]["key"] = "b"
        return len(row["context"])

    dataset = {**ANSWERS, "context": [["one"], ["one"]]}
    metrics: list[Any] = [CustomMetric("first", append), CustomMetric("second", append), "trajectory_exact_match"]

    result = EvalTask(dataset=dataset, metrics=metrics).evaluate()

    assert [row["first/score"] + row["second/score"] for row in result.rows] == [4.0, 4.0]
    assert [row["context"] for row in result.rows] == [["one"], ["one"]]
    assert [row["trajectory_exact_match/score"] for row in result.rows] == [1.0, 0.0]
    assert result.rows[0]["reference_trajectory"] == [CALL]


async def test_evaluate_works_inside_a_loop_and_evaluate_async_uses_that_loop() -> None:
    loops: list[asyncio.AbstractEventLoop] = []

    async def agent(prompt: str) -> str:
        loops.append(asyncio.get_running_loop())
        return prompt

    task = EvalTask(dataset=ANSWERS, metrics=["exact_match"])
    blocking = task.evaluate(runnable=agent)  # like a cell of a notebook
    task_result = await task.evaluate_async(runnable=agent)

    assert [row["response"] for row in blocking.rows] == [row["response"] for row in task_result.rows] == ["a", "b"]
    current_loop = asyncio.get_running_loop()
    assert [loop is current_loop for loop in loops] == [False, False, True, True]


async def test_a_cancelled_evaluation_ends() -> None:
    started = asyncio.Event()

    async def agent(prompt: str) -> str:
        started.set()
        await asyncio.sleep(60)
        return prompt

    task_result = asyncio.create_task(EvalTask(dataset=ANSWERS, metrics=["exact_match"]).evaluate_async(runnable=agent))
    await started.wait()
    task_result.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task_result


def evaluate_hostile_texts() -> EvalResult:
    dataset = {"prompt": ["<script>alert(1)</script>", "\x1b[31mred"], "reference": ["r", "r"]}

    def agent(prompt: str) -> str:
        raise ValueError(f"<b>{prompt}</b>")

    return EvalTask(dataset=dataset, metrics=["exact_match"], history=False).evaluate(runnable=agent)


def test_the_notebook_display_is_escaped() -> None:
    shown = evaluate_hostile_texts()._repr_html_()

    assert "<script>" not in shown
    assert "<b>" not in shown
    assert "\x1b" not in shown
    assert "&lt;script&gt;" in shown
    assert "exact_match/mean" in shown


def test_the_text_of_a_result_is_safe_to_print_and_explains_missing_values() -> None:
    shown = repr(evaluate_hostile_texts())

    assert "\x1b" not in shown
    assert "exact_match/mean: not computed" in shown
    assert "ERROR response: 1 row: ValueError" in shown


def test_results_are_written_to_the_prefix_of_the_task(project: Path) -> None:
    task = EvalTask(dataset=ANSWERS, metrics=["exact_match"], output_uri_prefix=str(project / "out"))

    task.evaluate()
    task.evaluate()
    task.evaluate(output_file_name="table.jsonl")

    lines = (project / "out" / "table" / "table.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["exact_match/score"] for line in lines] == [1.0, 0.0]
    first, second = (project / "out").glob("eval_results_*/eval_results_*.csv")
    assert first.read_text(encoding="utf-8") == second.read_text(encoding="utf-8")
    assert first.read_text(encoding="utf-8").startswith("prompt,response,")
    summary = json.loads((first.parent / "summary_metrics.json").read_text(encoding="utf-8"))
    assert summary["summary_metrics"]["row_count"] == 2


def test_a_csv_table_is_read_back_unchanged(project: Path) -> None:
    texts = ["-5", "=1+1", "a\r\nb", "'x", '"', "@"]
    task = EvalTask(dataset={"response": texts, "reference": texts}, metrics=["exact_match"], output_uri_prefix="out")

    task.evaluate(output_file_name="table.csv")
    rescored = EvalTask(dataset="out/table/table.csv", metrics=["exact_match"]).evaluate()

    assert [row["response"] for row in rescored.rows] == texts
    assert rescored.summary_metrics["exact_match/mean"] == 1.0


def test_an_invalid_output_file_name_is_refused_before_the_agent_runs(project: Path) -> None:
    prompts: list[str] = []
    task = EvalTask(dataset=ANSWERS, metrics=["exact_match"], output_uri_prefix="out")

    with pytest.raises(EvaluationError, match=r"output_file_name: found 'r.json', expected a name that ends in"):
        task.evaluate(runnable=prompts.append, output_file_name="r.json")

    assert prompts == []


def test_a_result_that_cannot_be_written_is_returned_with_a_warning(project: Path) -> None:
    (project / "file").write_text("", encoding="utf-8")
    task = EvalTask(dataset=ANSWERS, metrics=["exact_match"], output_uri_prefix="file/out", history=False)

    with pytest.warns(UserWarning, match="the result was not written: "):
        result = task.evaluate()

    assert result.summary_metrics["exact_match/mean"] == 0.5


def test_without_pandas_there_are_rows_and_the_table_names_the_extra() -> None:
    code = """
import sys
sys.modules["pandas"] = None  # as if it were not installed
from workbench.testing import EvalTask
result = EvalTask(dataset={"response": ["a"], "reference": ["a"]}, metrics=["exact_match"]).evaluate()
print(result.rows)
try:
    result.metrics_table
except ValueError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert "'exact_match/score': 1.0" in done.stdout
    assert f"metrics_table needs pandas ({install_command('pandas')})" in done.stdout


def test_a_program_ends_despite_an_agent_that_hangs() -> None:
    code = """
import threading
from workbench.testing import EvalTask
result = EvalTask(dataset={"prompt": ["a"]}, metrics=["exact_match"]).evaluate(
    runnable=lambda prompt: threading.Event().wait(), timeout_seconds=0.2)
print(result.rows[0]["failure"])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)

    assert done.stdout == "1\n"


def test_invalid_project_settings_are_one_clear_message(project: Path) -> None:
    (project / "workbench.toml").write_text("[run]\nconcurrency = 0\n", encoding="utf-8")

    with pytest.raises(EvaluationError, match=r"workbench.toml:2"):
        EvalTask(dataset=ANSWERS, metrics=["exact_match"]).evaluate()
