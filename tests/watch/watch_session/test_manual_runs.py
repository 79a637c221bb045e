"""Cases that the user runs while the watch wants them too: they run once."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from tests.watch.watched import Folder, Watched, watching
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
SLOW = 2.5  # seconds in which a save is seen on a machine with much to do


def agent(*, first: float = 0, second: float = 0, end: str = "") -> str:
    return AGENT.format(first=first, second=second, end=end)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    made = Folder(tmp_path)
    made.write("agent.py", agent())
    made.cases(first="first", second="second")
    return made


async def test_the_watch_waits_for_a_manual_run_on_the_present_code(folder: Folder) -> None:
    async with watching(folder.root) as watched:
        await watched.until_quiet()
        await _save_while_paused(watched, folder, agent(first=SLOW, second=SLOW, end=" + '!'"))
        by_hand = await watched.run_by_hand("first", "second")
        await by_hand.until_begun("first")
        watched.events.clear()

        watched.session.resume()
        end = await watched.until_quiet()

        assert end.verdicts == {"first": "PASSED", "second": "FAILED"}
        assert (end.change.run, end.first(AllKnown).stale) == (2, 0)
        assert not end.has(WatchRunStarted)


async def test_a_case_that_waits_in_the_users_run_will_run_on_what_is_saved_now(folder: Folder) -> None:
    folder.write("agent.py", agent(first=SLOW))
    async with watching(folder.root) as watched:
        await watched.until_quiet()
        by_hand = await watched.run_by_hand("first", "second")
        await by_hand.until_begun("first")

        seen = await watched.after(lambda: folder.write("agent.py", agent(first=SLOW, end=" + '!'")))

        assert seen.verdicts == {"second": "FAILED"}
        assert not seen.has(WatchRunStarted)


async def test_a_save_that_makes_the_users_run_old_has_the_watch_run_it(
    folder: Folder, tmp_path_factory: pytest.TempPathFactory
) -> None:
    sign = tmp_path_factory.mktemp("sign") / "old"
    folder.write("agent.py", _leaving(sign, agent(second=SLOW)))
    async with watching(folder.root) as watched:
        await watched.until_quiet()
        sign.unlink()
        by_hand = await watched.run_by_hand("second")
        await by_hand.until_begun("second")
        await _until_there(sign)  # what begins and is saved before it is read runs on what was saved

        seen = await watched.after(lambda: folder.write("agent.py", agent(second=0, end=" + '!'")))

        assert seen.verdicts == {"second": "FAILED"}
        assert [job.case.eval_id for job in seen.first(WatchRunStarted).jobs] == ["second"]
        await by_hand.until_over()
        assert watched.shown() == {"first": "PASSED", "second": "FAILED"}


async def test_the_watch_runs_cases_that_the_user_stopped_in_a_manual_run(folder: Folder) -> None:
    async with watching(folder.root) as watched:
        await watched.until_quiet()
        await _save_while_paused(watched, folder, agent(first=SLOW, second=0.1, end=" + '!'"))
        by_hand = await watched.run_by_hand("first", "second")
        await by_hand.until_begun("first")
        watched.events.clear()
        watched.session.resume()
        await watched.until(ChangeSeen)

        by_hand.run.cancel(JobKey(case=CaseKey(target="sample", eval_set="set.evalset.json", eval_id="second")))
        end = await watched.until_quiet()

        assert [job.case.eval_id for job in end.first(WatchRunStarted).jobs] == ["second"]
        assert end.verdicts == {"first": "PASSED", "second": "FAILED"}


async def test_waiting_jobs_of_the_watch_are_left_to_a_manual_run(folder: Folder) -> None:
    async with watching(folder.root, concurrency=1) as watched:
        await watched.until_quiet()
        folder.write("agent.py", agent(first=SLOW, second=SLOW, end=" + '!'"))
        begun = await watched.until(WatchRunStarted)
        first = await _first_begun(watched)
        (other,) = {"first", "second"} - {first}

        by_hand = await watched.run_by_hand(other)
        end = await watched.until_quiet()

        assert end.verdicts == {"first": "PASSED", "second": "FAILED"}
        with watched.workspace.history() as history:
            assert [job.case.eval_id for job in history.jobs(begun.run.run_id)] == [first]
            assert [job.case.eval_id for job in history.jobs(by_hand.run.run_id)] == [other]


async def _save_while_paused(watched: Watched, folder: Folder, text: str) -> None:
    watched.session.pause()
    watched.events.clear()
    folder.write("agent.py", text)
    await watched.until(DecisionsMade)


def _leaving(sign: Path, text: str) -> str:
    """An agent whose second function makes a file as soon as it is called."""
    head = "def second(text):\n"
    return text.replace(head, f"{head}    open({str(sign)!r}, 'w')\n")


async def _until_there(path: Path) -> None:
    end = time.monotonic() + 20
    while time.monotonic() < end:
        if path.exists():
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"{path} is not made")


async def _first_begun(watched: Watched) -> str:
    """The id of the case that a run of the watch has begun first."""
    end = time.monotonic() + 20
    while time.monotonic() < end:
        for event in watched.events:
            if isinstance(event, WatchRunEvent) and isinstance(event.event, CaseStarted):
                return event.event.case.eval_id
        await asyncio.sleep(0.02)
    raise AssertionError("no case begins")
