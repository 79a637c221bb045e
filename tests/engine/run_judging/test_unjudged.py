"""Whatever stops a run while judges are being asked costs no work of an agent that has finished."""

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

from tests.engine.judged import SAMPLES, asked_of_the_agent, judged_folder, judging, verdict
from tests.llm.servers import Server
from tests.watch.watched import Folder
from workbench.engine.plan import Plan, RunOptions, Selection
from workbench.engine.run import Run
from workbench.engine.workspace import Workspace
from workbench.model.results import CaseStatus
from workbench.watch.selector import reuse_unjudged, select_affected

PATIENCE = 30.0
ALL = [Selection(eval_set="set.evalset.json")]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with judging(monkeypatch) as started:
        yield started


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return judged_folder(tmp_path, good="good", bad="bad")


def never_answers(server: Server) -> None:
    server.answer = lambda call: replace(verdict(call), seconds=60.0)


def stopped_while_judging(folder: Folder, server: Server, *, repeats: int = 1) -> Run:
    """A run that is cancelled when the judges of all its cases are being asked."""
    never_answers(server)
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


def carried_out(folder: Folder, prepare: Callable[[Workspace], Plan]) -> dict[str, CaseStatus]:
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
def test_what_agents_had_done_is_judged_and_not_done_again(
    folder: Folder, server: Server, prepare: Callable[[Workspace], Plan]
) -> None:
    stopped_while_judging(folder, server)

    statuses = carried_out(folder, prepare)

    assert statuses == {"good": CaseStatus.PASSED, "bad": CaseStatus.FAILED}
    assert asked_of_the_agent(folder) == ["bad", "good"]
    assert len(server.calls) == 2 * SAMPLES


def test_a_killed_process_leaves_what_its_agents_had_done(folder: Folder, server: Server) -> None:
    never_answers(server)
    code = "import sys; from workbench.cli.main import main; sys.exit(main(['run', '--plain']))"
    process = subprocess.Popen([sys.executable, "-c", code], cwd=folder.root, start_new_session=True)
    wait_until(lambda: len(server.calls) >= 2 * SAMPLES)
    time.sleep(0.2)  # it stores what comes in a few milliseconds together
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    server.answer = verdict

    statuses = carried_out(folder, lambda workspace: workspace.plan([], RunOptions(resume="latest")))

    assert statuses == {"good": CaseStatus.PASSED, "bad": CaseStatus.FAILED}
    assert asked_of_the_agent(folder) == ["bad", "good"]


def test_what_is_not_judged_yet_is_no_result_of_anything(folder: Folder, server: Server) -> None:
    run = stopped_while_judging(folder, server)

    with Workspace.open(folder.root) as workspace, workspace.history() as history:
        assert list(history.results(run.run_id)) == []
        assert history.latest_jobs() == {}
        assert len(history.list_unjudged_jobs(run.run_id)) == 2


def test_only_the_repeats_that_had_finished_are_taken(folder: Folder, server: Server) -> None:
    stopped_while_judging(folder, server, repeats=2)

    with Workspace.open(folder.root) as workspace:
        plan = reuse_unjudged(workspace, workspace.plan(ALL, RunOptions(runs=3)))

    assert [(job.case.eval_id, job.repeat) for job, case in plan.jobs if case.needs_agent] == [("good", 2), ("bad", 2)]


def test_what_another_code_did_is_not_judged(folder: Folder, server: Server) -> None:
    stopped_while_judging(folder, server)
    folder.write("agent.py", "def answer(prompt): return 'GOOD'")

    statuses = carried_out(folder, lambda workspace: reuse_unjudged(workspace, workspace.plan(ALL, RunOptions())))

    assert statuses == {"good": CaseStatus.PASSED, "bad": CaseStatus.PASSED}


def test_it_is_gone_once_it_was_judged(folder: Folder, server: Server) -> None:
    stopped_while_judging(folder, server)
    carried_out(folder, lambda workspace: workspace.plan([], RunOptions(resume="latest")))

    with Workspace.open(folder.root) as workspace, workspace.history() as history:
        assert not history.has_unjudged
        assert len(list(history.results("latest"))) == 2
        executions = history._database.execute("SELECT count(*) FROM execution").fetchone()
        assert executions == (2,)
