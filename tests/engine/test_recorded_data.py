"""Judging recordings: no agent runs, and missing data stays unknown."""

from __future__ import annotations

import gc
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.engine.project import Project, find_result, get_failure_message, get_statuses, turn
from workbench.engine.plan import PlanError, RunOptions, Selection
from workbench.engine.run import Run
from workbench.metrics.evaluate import judge_case
from workbench.model.criteria import EvalConfig, read_config
from workbench.model.results import MetricStatus
from workbench.store.errors import NotLoaded, StoreError

ROWS = [
    {
        "reference_trajectory": [{"tool_name": "set_device_info", "tool_input": {"device_id": "device_2"}}],
        "predicted_trajectory": [{"tool_name": "set_device_info", "tool_input": {"device_id": "device_3"}}],
    },
    {
        "reference_trajectory": [
            {"tool_name": "get_user_preferences", "tool_input": {"user_id": "user_y"}},
            {"tool_name": "set_temperature", "tool_input": {"location": "Living Room", "temperature": 23}},
        ],
        "predicted_trajectory": [
            {"tool_name": "get_user_preferences", "tool_input": {"user_id": "user_z"}},
            {"tool_name": "set_temperature", "tool_input": {"location": "Living Room", "temperature": 23}},
        ],
    },
]


def judge(project: Project, path: Path, config: EvalConfig | None = None, *, expected: Path | None = None) -> Run:
    workspace = project.open_workspace()
    run = workspace.start(workspace.plan_recorded(path, RunOptions(), expected=expected, config=config))
    list(run.iter_events())
    return run


def make_criteria(**criteria: object) -> EvalConfig:
    return read_config({"criteria": criteria}, source="test")


def write_rows(project: Project, rows: Sequence[Mapping[str, Any]]) -> Path:
    path = project.root / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_the_documented_rows_have_the_documented_scores(project: Project) -> None:
    names = ("exact_match", "in_order_match", "any_order_match", "precision", "recall")
    config = make_criteria(
        **{f"trajectory_{name}": None for name in names},
        trajectory_single_tool_use={"threshold": None, "tool_name": "set_device_info"},
    )

    metrics = judge(project, write_rows(project, ROWS), config).summary().metrics

    assert [metrics[f"trajectory_{name}"].mean for name in names] == [0, 0, 0, 0.25, 0.25]
    assert metrics["trajectory_precision"].std == pytest.approx(0.3536, abs=1e-4)
    assert metrics["trajectory_single_tool_use"].mean == 0.5
    assert metrics["trajectory_single_tool_use"].std == pytest.approx(0.7071, abs=1e-4)


def test_many_rows_keep_their_order(project: Project) -> None:
    rows = [{**ROWS[0], "prompt": f"prompt {number}"} for number in range(600)]

    run = judge(project, write_rows(project, rows), make_criteria(trajectory_recall=1.0))

    prompts = [result.execution.turns[0].invocation.user_content.text() for result in run.results()]
    assert prompts == [f"prompt {number}" for number in range(600)]
    assert run.summary().failed == 600


def test_no_garbage_is_searched_while_rows_are_judged(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    is_enabled: list[bool] = []

    def note(*arguments: Any) -> Any:
        is_enabled.append(gc.isenabled())
        return judge_case(*arguments)

    monkeypatch.setattr("workbench.engine.runner.judge_case", note)

    judge(project, write_rows(project, ROWS), make_criteria(trajectory_recall=1.0))

    assert is_enabled == [False, False]
    assert gc.isenabled()


def test_a_recorded_session_is_compared_with_the_expected_one(project: Project) -> None:
    call = {"name": "light", "args": {"on": True}}
    project.add_set({"a": [turn("on", calls=[call])], "missing": [turn("x")], "b": [turn("on")]}, name="expected")
    project.add_set({"a": [turn("on", calls=[call])], "b": [turn("on", calls=[call])]}, name="actual")

    run = judge(
        project,
        project.root / "actual.evalset.json",
        make_criteria(tool_trajectory_avg_score=1.0),
        expected=project.root / "expected.evalset.json",
    )

    assert get_statuses(run) == {"a": "PASSED", "b": "FAILED", "missing": "ERROR"}
    assert "missing" in get_failure_message(run, "missing")
    assert run.exit_status == 2


def test_a_target_may_be_a_recording(project: Project) -> None:
    (project.root / "workbench.toml").write_text(
        '[targets.yesterday]\nkind = "recorded"\ntarget = "yesterday.json"\neval_sets = ["set.evalset.json"]\n'
    )
    project.add_set({"a": [turn("hello", response="hi")]})
    project.add_set({"a": [turn("hello", response="good day")]}, name="yesterday")
    (project.root / "yesterday.evalset.json").rename(project.root / "yesterday.json")

    run = project.run()

    assert get_statuses(run) == {"a": "PASSED"}
    with pytest.raises(PlanError, match="no eval case 'typo'"):
        project.run(Selection(eval_set="set.evalset.json", cases=("a", "typo")))
    assert find_result(run, "a").execution.turns[0].invocation.final_response.text() == "good day"


def test_a_custom_metric_judges_a_recording(project: Project) -> None:
    (project.root / "own_metrics.py").write_text(
        "def essential_tools_present(instance, required_tools=('set_device_info',)):\n"
        "    present = [call['tool_name'] for call in instance['predicted_trajectory']]\n"
        "    return {'essential': sum(tool in present for tool in required_tools) / len(required_tools)}\n"
    )
    config = read_config(
        {
            "criteria": {"essential": 1.0},
            "custom_metrics": {"essential": {"code_config": {"name": "own_metrics.essential_tools_present"}}},
        },
        source="test",
    )

    run = judge(project, write_rows(project, ROWS), config)

    assert [next(m.score for m in r.metrics if m.name == "essential") for r in run.results()] == [1.0, 0.0]


def test_an_unknown_criterion_is_refused_for_recordings_too(project: Project) -> None:
    with pytest.raises(PlanError, match="trajectory_exact_match"):
        judge(project, write_rows(project, ROWS), make_criteria(trajectory_exact_macth=1.0))


def test_values_missing_in_a_recording_are_not_measured(project: Project) -> None:
    run = judge(project, write_rows(project, ROWS[:1]), make_criteria(trajectory_recall=0.0))

    measures = {m.name: m for m in run.results()[0].metrics if m.status is MetricStatus.UNDEFINED}
    assert "latency" in measures and measures["latency"].reason


def test_a_hanging_custom_metric_ends_at_the_timeout_of_a_case(project: Project) -> None:
    (project.root / "own_metrics.py").write_text("import time\ndef slow(instance):\n    time.sleep(1000)\n")
    (project.root / "test_config.json").write_text(
        json.dumps(
            {"criteria": {"slow": 1.0}, "custom_metrics": {"slow": {"code_config": {"name": "own_metrics.slow"}}}}
        )
    )
    project.add_set({"a": [turn("hello")]})

    run = project.run(timeout_seconds=2.0)

    metric = next(m for m in find_result(run, "a").metrics if m.name == "slow")
    assert metric.status is MetricStatus.ERROR
    assert "longer than 2 s" in str(metric.reason)


@pytest.mark.needs_fsspec
@pytest.mark.needs_pandas
def test_every_exception_of_a_dataset_reader_becomes_one_sentence(project: Project) -> None:
    fsspec = pytest.importorskip("fsspec")
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    far_timestamps = pyarrow.array([2**50], pyarrow.timestamp("ms"))  # a year beyond the limit of Python
    with fsspec.filesystem("memory").open("/far.parquet", "wb") as file:
        parquet.write_table(pyarrow.table({"prompt": ["a"], "at": far_timestamps}), file)
    (project.root / "workbench.toml").write_text(
        '[targets.far]\nkind = "recorded"\neval_sets = ["memory://far.parquet"]\n'
    )

    found = project.open_workspace().recordings.make_reader("memory://far.parquet")().found

    assert isinstance(found, StoreError)
    assert str(found).startswith("memory://far.parquet: cannot read it: ")


@pytest.mark.needs_fsspec
def test_data_read_from_another_address_is_not_used(project: Project) -> None:
    pytest.importorskip("fsspec").filesystem("memory").pipe_file("/rows.jsonl", b'{"prompt": "a"}')

    def write_settings(*addresses: str) -> None:
        settings = f'[targets.stored]\nkind = "recorded"\neval_sets = {json.dumps(addresses)}\n'
        (project.root / "workbench.toml").write_text(settings)

    write_settings("memory://rows.jsonl#a", "memory://rows.jsonl#b")
    workspace = project.open_workspace()
    reading = workspace.recordings.make_reader("memory://rows.jsonl")()
    write_settings("memory://rows.jsonl#b")
    workspace.refresh()

    workspace.recordings.keep("memory://rows.jsonl", reading)

    with pytest.raises(NotLoaded):
        workspace.recordings.read("memory://rows.jsonl")
