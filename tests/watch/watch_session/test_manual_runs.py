"""Cases that both the user and the watch want to run: they run only once."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from tests.watch.watched import Folder, WatchListener, watch_project
from workbench.model.identity import CaseKey, JobKey
from workbench.model.run_events import CaseStarted
from workbench.watch.watch_events import AllKnown, ChangeSeen, DecisionsMade, WatchRunEvent, WatchRunStarted

AGENT = """
import time

def first(text):
    time.sleep({first})
    return text

def second(text):
    time.sleep({second})
    return text{end}

def answer(prompt):
    return first(prompt) if prompt == "first" else second(prompt)
"""
SLOW = 2.5  # seconds; a busy machine sees a save within this time


def format_agent(*, first: float = 0, second: float = 0, end: str = "") -> str:
    return AGENT.format(first=first, second=second, end=end)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    project = Folder(tmp_path)
    project.write("agent.py", format_agent())
    project.cases(first="first", second="second")
    return project


async def test_the_watch_waits_for_a_manual_run_on_the_current_code(folder: Folder) -> None:
    async with watch_project(folder.root) as watch:
        await watch.wait_until_quiet()
        await _save_while_paused(watch, folder, format_agent(first=SLOW, second=SLOW, end=" + '!'"))
        manual_run = await watch.start_manual_run("first", "second")
        await manual_run.wait_until_begun("first")
        watch.events.clear()

        watch.session.resume()
        end = await watch.wait_until_quiet()

        assert end.verdicts == {"first": "PASSED", "second": "FAILED"}
        assert (end.change.run, end.first(AllKnown).stale) == (2, 0)
        assert not end.has(WatchRunStarted)


async def test_a_waiting_case_of_a_manual_run_covers_a_new_save(folder: Folder) -> None:
    folder.write("agent.py", format_agent(first=SLOW))
    async with watch_project(folder.root) as watch:
        await watch.wait_until_quiet()
        manual_run = await watch.start_manual_run("first", "second")
        await manual_run.wait_until_begun("first")

        save_round = await watch.apply(lambda: folder.write("agent.py", format_agent(first=SLOW, end=" + '!'")))

        assert save_round.verdicts == {"second": "FAILED"}
        assert not save_round.has(WatchRunStarted)


async def test_the_watch_runs_a_case_if_a_save_makes_its_manual_run_stale(
    folder: Folder, tmp_path_factory: pytest.TempPathFactory
) -> None:
    sign = tmp_path_factory.mktemp("sign") / "old"
    folder.write("agent.py", _add_sign(sign, format_agent(second=SLOW)))
    async with watch_project(folder.root) as watch:
        await watch.wait_until_quiet()
        sign.unlink()
        manual_run = await watch.start_manual_run("second")
        await manual_run.wait_until_begun("second")
        await _wait_for_file(sign)  # a save before the agent reads its source would be part of the run

        save_round = await watch.apply(lambda: folder.write("agent.py", format_agent(second=0, end=" + '!'")))

        assert save_round.verdicts == {"second": "FAILED"}
        assert [job.case.eval_id for job in save_round.first(WatchRunStarted).jobs] == ["second"]
        await manual_run.wait_until_over()
        assert watch.get_statuses() == {"first": "PASSED", "second": "FAILED"}


async def test_the_watch_runs_cases_that_the_user_stopped_in_a_manual_run(folder: Folder) -> None:
    async with watch_project(folder.root) as watch:
        await watch.wait_until_quiet()
        await _save_while_paused(watch, folder, format_agent(first=SLOW, second=0.1, end=" + '!'"))
        manual_run = await watch.start_manual_run("first", "second")
        await manual_run.wait_until_begun("first")
        watch.events.clear()
        watch.session.resume()
        await watch.wait_for(ChangeSeen)

        manual_run.run.cancel(JobKey(case=CaseKey(target="sample", eval_set="set.evalset.json", eval_id="second")))
        end = await watch.wait_until_quiet()

        assert [job.case.eval_id for job in end.first(WatchRunStarted).jobs] == ["second"]
        assert end.verdicts == {"first": "PASSED", "second": "FAILED"}


async def test_waiting_jobs_of_the_watch_are_left_to_a_manual_run(folder: Folder) -> None:
    async with watch_project(folder.root, concurrency=1) as watch:
        await watch.wait_until_quiet()
        folder.write("agent.py", format_agent(first=SLOW, second=SLOW, end=" + '!'"))
        run_started = await watch.wait_for(WatchRunStarted)
        first = await _wait_for_first_case(watch)
        (waiting_case,) = {"first", "second"} - {first}

        manual_run = await watch.start_manual_run(waiting_case)
        end = await watch.wait_until_quiet()

        assert end.verdicts == {"first": "PASSED", "second": "FAILED"}
        with watch.workspace.history() as history:
            assert [job.case.eval_id for job in history.jobs(run_started.run.run_id)] == [first]
            assert [job.case.eval_id for job in history.jobs(manual_run.run.run_id)] == [waiting_case]


async def _save_while_paused(watch: WatchListener, folder: Folder, text: str) -> None:
    watch.session.pause()
    watch.events.clear()
    folder.write("agent.py", text)
    await watch.wait_for(DecisionsMade)


def _add_sign(sign: Path, text: str) -> str:
    """Make the second function of the agent create a file when it is called."""
    head = "def second(text):\n"
    return text.replace(head, f"{head}    open({str(sign)!r}, 'w')\n")


async def _wait_for_file(path: Path) -> None:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        if path.exists():
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"{path} is not made")


async def _wait_for_first_case(watch: WatchListener) -> str:
    """Return the id of the first case that a run of the watch begins."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        for event in watch.events:
            if isinstance(event, WatchRunEvent) and isinstance(event.event, CaseStarted):
                return event.event.case.eval_id
        await asyncio.sleep(0.02)
    raise AssertionError("no case begins")
