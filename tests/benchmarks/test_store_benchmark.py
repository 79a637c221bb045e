"""The store, compared with the minimal cost of the same work.

Runs with WORKBENCH_BENCHMARKS=1; `-s` shows the figures. It never fails for being slow.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from workbench.model.evalset import Content, FunctionCall, IntermediateData, Invocation
from workbench.model.identity import CaseKey
from workbench.model.results import CaseResult, CaseStatus, Execution, MetricResult, MetricStatus, TurnResult
from workbench.model.run_events import RunSummary
from workbench.model.trace import Span
from workbench.store.datasets.dataset_files import make_recorded_cases, read_dataset
from workbench.store.history.history import History
from workbench.store.history.history_queries import RunRecord
from workbench.store.project_discovery import discover
from workbench.store.settings import LoadedSettings

pytestmark = pytest.mark.skipif(
    os.environ.get("WORKBENCH_BENCHMARKS") != "1", reason="benchmarks run with WORKBENCH_BENCHMARKS=1"
)

MANY = 10_000


def print_cost(name: str, work: Callable[[], Any], *, per: int = 1) -> Any:
    """Run once and print the CPU time."""
    started = time.process_time()
    result = work()
    seconds = time.process_time() - started
    figure = f"{seconds / per * 1e6:.0f} µs each" if per > 1 else f"{seconds:.3f} s"
    print(f"\n{name}: {figure}", end="")
    return result


def make_results() -> Iterator[CaseResult]:
    """Yield trivial results: one turn, one call, two spans, the metrics of every run."""
    invocation = Invocation(
        user_content=Content.of_text("hi", role="user"),
        final_response=Content.of_text("hello", role="model"),
        intermediate_data=IntermediateData(tool_uses=[FunctionCall(name="f", args={"x": 1})]),
    )
    execution = Execution(
        turns=(TurnResult(invocation=invocation, duration_seconds=0.1),),
        spans=(Span(id="1", name="agent", start=0.0, end=0.1), Span(id="2", parent_id="1", name="f")),
    )
    metrics = tuple(
        MetricResult(name=f"metric_{n}", score=1.0, threshold=None, status=MetricStatus.INFORMATIONAL) for n in range(7)
    )
    for number in range(MANY):
        key = CaseKey(target="t", eval_set="sets/a.evalset.json", eval_id=f"case_{number}")
        yield CaseResult(case=key, eval_set_id="a", status=CaseStatus.PASSED, metrics=metrics, execution=execution)


def test_history_of_ten_thousand_results(tmp_path: Path) -> None:
    case_results = list(make_results())
    print_cost("model_dump_json alone", lambda: [result.model_dump_json() for result in case_results], per=MANY)
    with History.open(tmp_path) as history:
        history.begin_run(RunRecord(run_id="r", started_at=datetime.now(UTC), root=tmp_path, total=MANY))

        def store() -> None:
            for number, result in enumerate(case_results):
                history.finish_job("r", result, execution_key=f"{number:032}", scoring_key="s")

        print_cost("store a result", store, per=MANY)
        print_cost("end the run", lambda: history.end_run("r", RunSummary(), duration_seconds=1, interrupted=False))
        print_cost("forget what is old", lambda: history.delete_old_results("r"))
        assert len(print_cost("list jobs", lambda: history.jobs("r"))) == MANY
        assert len(print_cost("newest job of every case", history.latest_jobs)) == MANY
        assert len(print_cost("newest result of every case", history.latest_results)) == MANY
        assert (
            len(print_cost("newest result of one case", lambda: history.latest_results([case_results[77].case]))) == 1
        )


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.json", "rows.csv"])
def test_datasets_of_ten_thousand_rows(tmp_path: Path, name: str) -> None:
    calls = [{"tool_name": "set", "tool_input": {"device_id": "d", "updates": {"status": "OFF"}}}] * 2
    rows = [
        {
            "prompt": f"p{n}",
            "response": "a",
            "reference": "b",
            "predicted_trajectory": calls,
            "reference_trajectory": calls,
        }
        for n in range(MANY)
    ]
    path = tmp_path / name
    if name.endswith(".csv"):
        cell = json.dumps(calls).replace('"', '""')
        path.write_text("prompt,predicted_trajectory,reference_trajectory\n" + f'p,"{cell}","{cell}"\n' * MANY)
    else:
        path.write_text(json.dumps(rows) if name.endswith(".json") else "\n".join(map(json.dumps, rows)))
    print_cost(f"json.loads of {name}'s calls alone", lambda: [json.loads(json.dumps(calls)) for _ in range(2 * MANY)])
    dataset = print_cost(f"read {name}", lambda: read_dataset(path))
    assert len(print_cost("rows as cases", lambda: make_recorded_cases(dataset))) == MANY


def test_discovery_in_two_thousand_files(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").touch()
    for number in range(200):
        folder = tmp_path / f"group_{number // 20}" / f"agent_{number}"
        folder.mkdir(parents=True)
        for name in range(7):
            (folder / f"module_{name}.py").write_text("x = 1\n" * 50)
        (folder / "__init__.py").write_text("from . import agent\n")
        (folder / "agent.py").write_text(
            "from google.adk.agents import Agent\n"
            + "def tool(x):\n    '''Doc.'''\n    return x\n" * 30
            + "root_agent = Agent()\n"
        )
        (folder / "x.evalset.json").write_text('{"eval_set_id": "x", "eval_cases": []}')

    print_cost("walk alone", lambda: [list(walked) for walked in os.walk(tmp_path)])
    project = print_cost("discover", lambda: discover(tmp_path, LoadedSettings()))

    assert len(project.targets) == len(project.eval_sets) == 200
