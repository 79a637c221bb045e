"""Agent interpreters that start while the plan is made."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from tests.engine.project import Project, find_result, get_statuses, turn
from tests.processes import find_children
from workbench.engine.plan import RunOptions, Selection
from workbench.engine.run_resources import EngineThread

ALL = [Selection(eval_set="set.evalset.json")]


@pytest.mark.needs_fork
@pytest.mark.prepared(None)  # it looks for child processes
def test_a_run_uses_the_interpreter_that_was_started_for_it(project: Project) -> None:
    project.add_agent(
        "import os\ndef answer(prompt): return {'response': str(os.getppid()), 'predicted_trajectory': []}"
    )
    project.add_set({"a": [turn("hello")]})
    workspace, before = project.open_workspace(), find_children()

    workspace.start_interpreters(ALL, RunOptions())
    deadline = time.monotonic() + 10
    while not (new_processes := find_children() - before) and time.monotonic() < deadline:
        time.sleep(0.01)
    run = project.run(workspace=workspace)

    answer = find_result(run, "a").execution.turns[0].invocation.final_response
    assert answer is not None
    assert new_processes == {int(answer.text())}


def test_an_agent_edited_after_the_start_runs_its_new_code(project: Project) -> None:
    project.add_agent("def answer(prompt): return {'response': 'before', 'predicted_trajectory': ['wrong']}")
    project.add_set({"a": [turn("hello", response="after")]})
    workspace = project.open_workspace()

    workspace.start_interpreters(ALL, RunOptions())
    project.add_agent("def answer(prompt): return {'response': 'after', 'predicted_trajectory': []}")
    run = project.run(workspace=workspace)

    assert get_statuses(run) == {"a": "PASSED"}


@pytest.mark.parametrize(
    ("selections", "options"),
    [
        ([Selection(eval_set="elsewhere.evalset.json")], RunOptions()),
        (ALL, RunOptions(concurrency=0)),
        ([Selection(eval_set="rows.evalset.json")], RunOptions()),
    ],
    ids=["unknown set", "no such limit", "recorded"],
)
def test_no_interpreter_starts_if_no_agent_will_run(
    project: Project, selections: list[Selection], options: RunOptions
) -> None:
    project.add_set({"a": [turn("hello")]})
    project.add_set({"a": [turn("hello")]}, name="rows")
    settings = project.root / "workbench.toml"
    settings.write_text(
        settings.read_text().replace("*.evalset", "set.evalset")
        + '[targets.old]\nkind = "recorded"\ntarget = "set.evalset.json"\neval_sets = ["rows.evalset.json"]\n'
    )

    before = set(threading.enumerate())

    project.open_workspace().start_interpreters(selections, options)

    assert {thread.name for thread in set(threading.enumerate()) - before} == set()


def test_a_task_that_a_library_left_behind_ends_with_the_engine() -> None:
    tasks, ended = list[asyncio.Task[None]](), threading.Event()

    async def wait_forever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async def leave_task() -> None:
        tasks.append(asyncio.create_task(wait_forever()))
        await asyncio.sleep(0)

    thread = EngineThread()
    thread.submit(leave_task()).result(10)
    thread.close()

    assert ended.is_set()
