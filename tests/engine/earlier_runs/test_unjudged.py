"""A run that is stopped during judging loses no finished work of its agents."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.engine.judged import SAMPLES, list_agent_prompts, make_judged_folder, serve_judge, verdict
from tests.llm.servers import Server
from tests.watch.watched import Folder
from workbench.engine.plan import Plan, RunOptions, Selection
from workbench.engine.run import Run
from workbench.engine.workspace import Workspace
from workbench.model.results import CaseStatus, Execution
from workbench.watch.selector import reuse_unjudged, select_affected

PATIENCE = 30.0
ALL = [Selection(eval_set="set.evalset.json")]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with serve_judge(monkeypatch) as server:
        yield server


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return make_judged_folder(tmp_path, good="good", bad="bad")


def delay_answers(server: Server) -> None:
    server.answer = lambda call: replace(verdict(call), seconds=60.0)


def run_and_stop_while_judging(folder: Folder, server: Server, *, repeats: int = 1) -> Run:
    """Start a run, and cancel it while all its cases are being judged."""
    delay_answers(server)
    with Workspace.open(folder.root) as workspace:
        run = workspace.start(workspace.plan(ALL, RunOptions(runs=repeats)))
        wait_until(lambda: len(server.calls) >= 2 * repeats * SAMPLES)
        run.cancel()
        list(run.iter_events())
    server.calls.clear()
    server.answer = verdict
    return run


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def run_plan(folder: Folder, prepare: Callable[[Workspace], Plan]) -> dict[str, CaseStatus]:
    with Workspace.open(folder.root) as workspace:
        run = workspace.start(prepare(workspace))
        list(run.iter_events())
        return {result.case.eval_id: result.status for result in run.results()}


@pytest.mark.parametrize(
    "prepare",
    [
        lambda workspace: workspace.plan([], RunOptions(resume="latest")),
        lambda workspace: select_affected(workspace, workspace.plan(ALL, RunOptions())),
        lambda workspace: reuse_unjudged(workspace, workspace.plan(ALL, RunOptions())),
    ],
    ids=["resumed", "affected", "once more"],
)
def test_finished_agent_work_is_judged_without_another_agent_run(
    folder: Folder, server: Server, prepare: Callable[[Workspace], Plan]
) -> None:
    run_and_stop_while_judging(folder, server)

    statuses = run_plan(folder, prepare)

    assert statuses == {"good": CaseStatus.PASSED, "bad": CaseStatus.FAILED}
    assert list_agent_prompts(folder) == ["bad", "good"]
    assert len(server.calls) == 2 * SAMPLES


@pytest.mark.parametrize(
    "prepare",
    [
        lambda workspace: workspace.plan([], RunOptions(resume="latest", fresh=True)),
        lambda workspace: select_affected(workspace, workspace.plan(ALL, RunOptions(fresh=True))),
        lambda workspace: reuse_unjudged(workspace, workspace.plan(ALL, RunOptions(fresh=True))),
    ],
    ids=["resumed", "affected", "once more"],
)
def test_an_agent_runs_again_if_its_work_rests_on_replays_and_models_must_be_asked(
    folder: Folder, server: Server, monkeypatch: pytest.MonkeyPatch, prepare: Callable[[Workspace], Plan]
) -> None:
    monkeypatch.setattr(Execution, "is_replayed", property(lambda _: True))
    run_and_stop_while_judging(folder, server)

    run_plan(folder, prepare)

    assert list_agent_prompts(folder) == ["bad", "bad", "good", "good"]


def test_an_agent_runs_again_if_its_model_calls_must_be_recorded(folder: Folder, server: Server) -> None:
    run_and_stop_while_judging(folder, server)

    options = RunOptions(record=folder.root / "calls.jsonl")
    run_plan(folder, lambda workspace: reuse_unjudged(workspace, workspace.plan(ALL, options)))

    assert list_agent_prompts(folder) == ["bad", "bad", "good", "good"]


def test_a_killed_process_keeps_the_finished_work_of_its_agents(folder: Folder, server: Server) -> None:
    delay_answers(server)
    code = "import sys; from workbench.cli.main import main; sys.exit(main(['run', '--plain']))"
    process = subprocess.Popen([sys.executable, "-c", code], cwd=folder.root, start_new_session=True)
    wait_until(lambda: len(server.calls) >= 2 * SAMPLES)
    time.sleep(0.2)  # results that arrive within a few milliseconds are stored together
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    server.answer = verdict

    statuses = run_plan(folder, lambda workspace: workspace.plan([], RunOptions(resume="latest")))

    assert statuses == {"good": CaseStatus.PASSED, "bad": CaseStatus.FAILED}
    assert list_agent_prompts(folder) == ["bad", "good"]


def test_an_unjudged_execution_is_not_a_result(folder: Folder, server: Server) -> None:
    run = run_and_stop_while_judging(folder, server)

    with Workspace.open(folder.root) as workspace, workspace.history() as history:
        assert list(history.results(run.run_id)) == []
        assert history.latest_jobs() == {}
        assert len(history.list_unjudged_jobs(run.run_id)) == 2


def test_only_finished_repeats_are_reused(folder: Folder, server: Server) -> None:
    run_and_stop_while_judging(folder, server, repeats=2)

    with Workspace.open(folder.root) as workspace:
        plan = reuse_unjudged(workspace, workspace.plan(ALL, RunOptions(runs=3)))

    assert [(job.case.eval_id, job.repeat) for job, case in plan.jobs if case.needs_agent] == [("good", 2), ("bad", 2)]


def test_executions_of_older_code_are_not_judged(folder: Folder, server: Server) -> None:
    run_and_stop_while_judging(folder, server)
    folder.write("agent.py", "def answer(prompt): return 'GOOD'")

    statuses = run_plan(folder, lambda workspace: reuse_unjudged(workspace, workspace.plan(ALL, RunOptions())))

    assert statuses == {"good": CaseStatus.PASSED, "bad": CaseStatus.PASSED}


def test_no_unjudged_execution_remains_after_judging(folder: Folder, server: Server) -> None:
    run_and_stop_while_judging(folder, server)
    run_plan(folder, lambda workspace: workspace.plan([], RunOptions(resume="latest")))

    with Workspace.open(folder.root) as workspace, workspace.history() as history:
        assert not history.has_unjudged
        assert len(list(history.results("latest"))) == 2
        executions = history._database.execute("SELECT count(*) FROM execution").fetchone()
        assert executions == (2,)
