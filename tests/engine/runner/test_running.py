"""Runs of real agents in real processes: how cases end, and that no case affects another."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from typing import Any

import pytest

from tests.engine.project import Project, find_result, get_failure_message, get_statuses, turn
from workbench.engine.plan import RunOptions, Selection
from workbench.engine.run import Holds
from workbench.model.results import CaseStatus, FailureKind, MetricStatus
from workbench.model.run_events import (
    AgentsImporting,
    CaseFinished,
    CaseStarted,
    InvocationFinished,
    RunFinished,
    RunStarted,
)

CALL = {"name": "light", "args": {"on": True}}


def make_cases(**prompts: str) -> dict[str, Any]:
    return {eval_id: [turn(prompt)] for eval_id, prompt in prompts.items()}


def test_a_run_gives_every_case_a_verdict(project: Project) -> None:
    project.add_agent(
        """
        def answer(prompt):
            calls = [{"tool_name": "light", "tool_input": {"on": prompt == "on"}}]
            return {"response": prompt, "predicted_trajectory": calls}
        """
    )
    project.add_set({"right": [turn("on", calls=[CALL])], "wrong": [turn("off", calls=[CALL])], "empty": []})

    run = project.run()

    assert get_statuses(run) == {"right": "PASSED", "wrong": "FAILED", "empty": "NOT_EVALUATED"}
    assert run.exit_status == 1


def test_a_crashing_case_affects_no_other_case(project: Project) -> None:
    project.add_agent(
        """
        import os, sys
        def answer(prompt):
            if prompt == "die":
                print("last words", file=sys.stderr, flush=True)
                os._exit(7)
            return {"response": prompt, "predicted_trajectory": []}
        """
    )
    project.add_set(make_cases(a="hello", b="die", c="bye"))

    run = project.run()

    assert get_statuses(run) == {"a": "PASSED", "b": "ERROR", "c": "PASSED"}
    assert "7" in get_failure_message(run, "b")
    assert "last words" in find_result(run, "b").execution.stderr_tail
    assert run.exit_status == 3


def test_a_crash_of_a_shared_process_affects_no_other_case(project: Project) -> None:
    project.add_agent(
        """
        import asyncio, os
        async def answer(prompt):
            await asyncio.sleep(0.2)
            if prompt == "die":
                os._exit(7)
            await asyncio.sleep(0.5)
            return {"response": prompt, "predicted_trajectory": []}
        """
    )
    project.add_set(make_cases(a="hello", b="die", c="bye"))

    run = project.run(isolation="worker")

    assert get_statuses(run) == {"a": "PASSED", "b": "ERROR", "c": "PASSED"}


def test_turns_before_a_failing_turn_are_stored_and_scored(project: Project) -> None:
    project.add_agent(
        """
        def answer(prompt, session):
            if session.history:
                raise ValueError("kaboom")
            return {"response": prompt, "predicted_trajectory": []}
        """
    )
    project.add_set({"two": [turn("first"), turn("second")]})

    run = project.run()

    result = find_result(run, "two")
    assert result.status is CaseStatus.ERROR
    assert "ValueError: kaboom (agent.py:" in str(get_failure_message(run, "two"))
    assert result.failure is not None and result.failure.turn == 1
    assert [t.invocation.user_content.text() for t in result.execution.turns] == ["first"]
    trajectory = next(m for m in result.metrics if m.name == "tool_trajectory_avg_score")
    assert (trajectory.score, trajectory.scored, trajectory.total) == (1.0, 1, 2)


def test_a_hanging_case_ends_at_its_timeout_with_its_stderr(project: Project) -> None:
    project.add_agent(
        """
        import signal, sys, time
        def answer(prompt):
            if prompt == "hang":
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                print("waiting for the database", file=sys.stderr, flush=True)
                time.sleep(1000)
            return {"response": prompt, "predicted_trajectory": []}
        """
    )
    project.add_set(make_cases(a="hang", b="hello"))

    run = project.run(timeout_seconds=2.0)

    assert get_statuses(run) == {"a": "ERROR", "b": "PASSED"}
    result = find_result(run, "a")
    assert result.failure is not None and result.failure.kind is FailureKind.TIMEOUT
    assert "longer than 2 s" in result.failure.message
    assert 1.5 < result.agent_seconds < result.duration_seconds
    assert "waiting for the database" in result.execution.stderr_tail


def test_the_time_limit_starts_after_the_import_of_the_agent(project: Project) -> None:
    project.add_agent(
        """
        import time
        time.sleep(1.5)
        def answer(prompt):
            if prompt == "boom":
                raise ValueError("boom")
            return {"response": prompt, "predicted_trajectory": []}
        """
    )
    project.add_set(make_cases(a="hello", b="hello", c="boom"))

    run = project.run(timeout_seconds=1.2)

    assert get_statuses(run) == {"a": "PASSED", "b": "PASSED", "c": "ERROR"}
    assert all(find_result(run, name).agent_seconds < 0.7 for name in "abc")
    assert max(find_result(run, name).duration_seconds for name in "abc") > 1.5
    importing = [event.targets for event in run.iter_events() if isinstance(event, AgentsImporting)]
    assert importing == [("sample",), ()]


def test_infrastructure_errors_are_retried_but_agent_errors_are_not(project: Project) -> None:
    project.add_agent(
        """
        import pathlib
        def answer(prompt):
            count = pathlib.Path(prompt + ".count")
            tries = int(count.read_text()) + 1 if count.exists() else 1
            count.write_text(str(tries))
            if prompt == "flaky" and tries == 1:
                raise ConnectionError("connection reset")
            if prompt == "down":
                raise ConnectionError("connection refused")
            if prompt == "bug":
                raise KeyError("x")
            return {"response": prompt, "predicted_trajectory": []}
        """
    )
    project.add_set(make_cases(flaky="flaky", down="down", bug="bug"))

    run = project.run(retries=1)

    assert get_statuses(run) == {"flaky": "PASSED", "down": "ERROR", "bug": "ERROR"}
    down = find_result(run, "down").failure
    assert down is not None and down.kind is FailureKind.INFRASTRUCTURE
    tries = {path.stem: path.read_text() for path in project.root.glob("*.count")}
    assert tries == {"flaky": "2", "down": "2", "bug": "1"}


def test_each_repeat_has_its_own_result_and_number(project: Project) -> None:
    project.add_set(make_cases(a="hello", b="bye"))

    run = project.run(runs=3)

    assert sorted((r.case.eval_id, r.repeat) for r in run.results()) == [(c, n) for c in "ab" for n in range(3)]
    assert run.summary().total == 6


def test_the_events_of_a_case_come_in_order(project: Project) -> None:
    project.add_set({"a": [turn("one"), turn("two")]})
    workspace = project.open_workspace()
    run = workspace.start(workspace.plan([Selection(eval_set="set.evalset.json")], RunOptions()))

    unordered_kinds = ("span_finished", "agents_importing")
    kinds = [event.kind for event in run.iter_events() if event.kind not in unordered_kinds]

    assert kinds == [
        "run_started",
        "case_started",
        "invocation_finished",
        "invocation_finished",
        "case_scored",
        "case_finished",
        "run_finished",
    ]


async def test_a_listener_that_never_reads_does_not_block_another(project: Project) -> None:
    project.add_set(make_cases(a="hello", b="bye"))
    workspace = project.open_workspace()
    run = workspace.start(workspace.plan([Selection(eval_set="set.evalset.json")], RunOptions()))
    run.events()  # never read

    events = [event async for event in run.events()]

    assert isinstance(events[0], RunStarted) and isinstance(events[-1], RunFinished)
    assert sum(isinstance(event, CaseFinished) for event in events) == 2


def test_a_run_that_keeps_only_verdicts_drops_results_and_events(project: Project) -> None:
    project.add_set(make_cases(a="hello", b="bye"))
    workspace = project.open_workspace()
    plan = workspace.plan([Selection(eval_set="set.evalset.json")], RunOptions())
    run = workspace.start(plan, holds=Holds.VERDICTS)

    finished_events = [event for event in run.iter_events() if isinstance(event, CaseFinished)]

    assert [event.result.execution.turns != () and event.in_history for event in finished_events] == [True, True]
    assert (run.results(), run.log.event_count) == ([], 0)
    assert run.summary().total == 2


SLOW = """
import time
def answer(prompt):
    if prompt == "slow":
        time.sleep(1000)
    return {"response": prompt, "predicted_trajectory": []}
"""


def test_cancelling_a_run_keeps_its_finished_cases(project: Project) -> None:
    project.add_agent(SLOW)
    project.add_set(make_cases(a="quick", b="slow", c="slow", d="slow"))
    workspace = project.open_workspace()
    plan = workspace.plan([Selection(eval_set="set.evalset.json")], RunOptions(concurrency=2))
    run = workspace.start(plan)

    finished = 0
    for event in run.iter_events():
        if isinstance(event, InvocationFinished):
            finished += 1
        if isinstance(event, CaseStarted) and finished:
            run.cancel()

    assert get_statuses(run) == {"a": "PASSED", "b": "CANCELLED", "c": "CANCELLED", "d": "CANCELLED"}
    assert run.exit_status == 130


def test_cancelling_one_case_does_not_stop_the_others(project: Project) -> None:
    project.add_agent(SLOW)
    project.add_set(make_cases(a="slow", b="hello"))
    workspace = project.open_workspace()
    run = workspace.start(workspace.plan([Selection(eval_set="set.evalset.json")], RunOptions(concurrency=1)))

    for event in run.iter_events():
        if isinstance(event, CaseStarted) and event.case.eval_id == "a":
            run.cancel(run.plan.jobs[0][0])

    assert get_statuses(run) == {"a": "CANCELLED", "b": "PASSED"}
    assert not run.interrupted


def test_requeued_cases_run_again_on_the_current_code(project: Project) -> None:
    project.add_agent(
        "import time\n"
        "def answer(prompt):\n"
        "    time.sleep(0 if prompt == 'x' else 100)\n"  # the run must not end before the requeue
        "    return {'response': '', 'predicted_trajectory': ['wrong']}\n"
    )
    project.add_set({"a": [turn("x")], "b": [turn("y")]})
    workspace = project.open_workspace()
    run = workspace.start(workspace.plan([Selection(eval_set="set.evalset.json")], RunOptions(concurrency=1)))
    repair_event = threading.Event()

    for event in run.iter_events():
        if isinstance(event, CaseStarted) and event.case.eval_id == "b" and not repair_event.is_set():
            project.add_agent("def answer(prompt): return {'response': prompt, 'predicted_trajectory': []}")
            run.requeue([key for key, _ in run.plan.jobs])
            repair_event.set()

    assert get_statuses(run) == {"a": "PASSED", "b": "PASSED"}


def test_a_case_that_prints_megabytes_is_judged_like_any_other(project: Project) -> None:
    project.add_agent(
        """
        def answer(prompt):
            print("x" * 5_000_000)
            return {"response": prompt, "predicted_trajectory": []}
        """
    )
    project.add_set(make_cases(a="hello"))

    run = project.run()

    assert get_statuses(run) == {"a": "PASSED"}
    assert 0 < len(find_result(run, "a").execution.stdout_tail) <= 20_000


def test_the_final_state_of_a_session_is_stored(project: Project) -> None:
    project.add_agent(
        """
        def answer(prompt, session):
            session.state["said"] = session.state.get("said", 0) + 1
            return {"response": prompt, "predicted_trajectory": []}
        """
    )
    case = {
        "conversation": [turn("a"), turn("b")],
        "session_input": {"app_name": "x", "user_id": "u", "state": {"said": 5}},
    }
    project.add_set({"a": case})

    assert find_result(project.run(), "a").execution.final_state == {"said": 7}


def test_a_metric_that_cannot_run_is_an_error_and_the_case_does_not_pass(project: Project) -> None:
    project.add_criteria(tool_trajectory_avg_score=1.0, final_response_match_v2=0.5)
    project.add_set(make_cases(a="hello"))

    run = project.run()

    assert get_statuses(run) == {"a": "ERROR"}
    metric = next(m for m in find_result(run, "a").metrics if m.name == "final_response_match_v2")
    assert metric.status is MetricStatus.ERROR and metric.reason
    assert run.exit_status == 3


@pytest.mark.parametrize("isolation", ["case", "worker"])
def test_the_next_run_uses_changed_code(project: Project, isolation: str) -> None:
    project.add_set({"a": [turn("x", calls=[CALL])]})
    workspace = project.open_workspace()
    before = project.run(workspace=workspace, isolation=isolation)
    project.add_agent(
        "def answer(p): return {'response': p, 'predicted_trajectory': [{'name': 'light', 'args': {'on': True}}]}"
    )

    after = project.run(workspace=workspace, isolation=isolation)

    assert (get_statuses(before), get_statuses(after)) == ({"a": "FAILED"}, {"a": "PASSED"})


def test_a_workspace_releases_finished_runs(project: Project) -> None:
    project.add_set(make_cases(a="hello"))

    workspace = project.open_workspace()

    run = project.run(workspace=workspace)
    run.close()
    run_reference = weakref.ref(run)
    run = project.run(workspace=workspace)

    deadline = time.monotonic() + 30
    while run_reference() is not None:  # one of its threads may still be ending
        assert time.monotonic() < deadline
        gc.collect()
        time.sleep(0.01)


def test_results_are_in_the_order_of_the_plan_whichever_case_ends_first(project: Project) -> None:
    project.add_agent(
        "import time\n"
        "def answer(prompt):\n"
        "    time.sleep(0.3 if prompt == 'slow' else 0)\n"
        "    return {'response': prompt, 'predicted_trajectory': []}\n"
    )
    project.add_set({"a": [turn("slow")], "b": [turn("fast")], "c": [turn("slow")]})

    run = project.run(concurrency=3)

    finished_cases = [event.case.eval_id for event in run.iter_events() if isinstance(event, CaseFinished)]
    assert finished_cases[0] == "b"
    assert [result.case.eval_id for result in run.results()] == ["a", "b", "c"]


def test_no_case_starts_before_the_run_starts(project: Project) -> None:
    project.add_set({name: [turn(name)] for name in "abc"})
    workspace = project.open_workspace()
    plan = workspace.plan([Selection(eval_set="set.evalset.json")], RunOptions(concurrency=2))

    run = workspace.start(plan)
    run.cancel(plan.jobs[0][0])
    run.requeue([plan.jobs[1][0]])

    events = [event for event in run.iter_events() if isinstance(event, RunStarted | CaseStarted)]
    assert isinstance(events[0], RunStarted)
    assert get_statuses(run) == {"a": "CANCELLED", "b": "PASSED", "c": "PASSED"}
