"""Jobs that the watch does not start: beyond the limits, cancelled by the user, or saved while paused."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.watch.watched import Folder, watching
from workbench.watch.watch_events import AllKnown, DecisionsMade, VerdictsReused, WatchRunEvent, WatchRunStarted
from workbench.watch.watch_session import WatchSession

AGENT = "import tools\n\ndef answer(prompt):\n    return tools.upper(prompt) if prompt.startswith('up') else prompt\n"
TOOLS = "PREFIX = ''\n\ndef upper(text):\n    return PREFIX + text\n"
SETTINGS = '[targets.sample]\nkind = "function"\ntarget = "agent:answer"\neval_sets = ["*.evalset.json"]\n'


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    made = Folder(tmp_path)
    made.write("agent.py", AGENT)
    made.write("tools.py", TOOLS)
    made.cases(up_1="up 1", up_2="up 2", down="down")
    return made


@pytest.mark.parametrize("cap", ["max_cases_per_change = 1", "max_turns_per_change = 1"])
async def test_a_change_that_costs_too_much_runs_nothing_until_the_user_says_so(folder: Folder, cap: str) -> None:
    async with watching(folder.root) as watched:
        assert len((await watched.until_quiet()).verdicts) == 3
        folder.write("workbench.toml", f"{SETTINGS}[watch]\n{cap}\n")
        await watched.until_quiet()

        seen = await watched.after(lambda: folder.write("tools.py", TOOLS.replace("+ text", "+ text.upper()")))
        assert (seen.verdicts, seen.change.run) == ({}, 2)
        assert "2 " in seen.change.held and cap in seen.change.held
        assert seen.first(AllKnown).stale == 2

        watched.events.clear()
        watched.session.run_held()
        assert (await watched.until_quiet()).verdicts == {"up_1": "FAILED", "up_2": "FAILED"}


async def test_rescoring_does_not_count_for_the_limits(folder: Folder) -> None:
    folder.write("workbench.toml", f"{SETTINGS}[watch]\nmax_cases_per_change = 0\n")
    async with watching(folder.root) as watched:
        await watched.until_quiet()

        judged = await watched.after(lambda: folder.criteria(exact_match=0.5))

        assert judged.change.held == ""
        assert len(judged.verdicts) == 3


async def test_held_jobs_do_not_count_for_a_later_change(folder: Folder) -> None:
    folder.write("workbench.toml", f"{SETTINGS}[watch]\nmax_cases_per_change = 1\n")
    async with watching(folder.root) as watched:
        await watched.until_quiet()
        await watched.after(lambda: folder.write("tools.py", TOOLS.replace("+ text", "+ text.upper()")))

        later = await watched.after(lambda: folder.cases(up_1="up 1", up_2="up 2", down="deep down"))

        assert later.verdicts == {"down": "PASSED"}


async def test_while_paused_it_is_told_how_cases_stand(folder: Folder) -> None:
    async with watching(folder.root) as watched:
        await watched.until_quiet()
        watched.session.pause()
        folder.write("tools.py", TOOLS.replace("+ text", "+ text.upper()"))

        decided = await watched.until(DecisionsMade)

        assert {each.job.case.eval_id for each in decided.work} == {"up_1", "up_2"}
        await asyncio.sleep(0.2)
        assert not any(isinstance(event, WatchRunStarted) for event in watched.events)


async def test_what_the_user_stopped_is_not_run_again_before_a_change_concerns_it(folder: Folder) -> None:
    slow = "PREFIX = ''\n\ndef upper(text):\n    import time\n    time.sleep({})\n    return text\n"
    async with watching(folder.root) as watched:
        await watched.until_quiet()
        folder.write("tools.py", slow.format(30))
        begun = await watched.until(WatchRunStarted)
        await watched.until(WatchRunEvent)
        watched.events.clear()
        begun.run.cancel()
        stopped = await watched.until_quiet()
        assert (stopped.verdicts, stopped.first(AllKnown).stale) == ({}, 2)

        assert (await watched.after(lambda: folder.write("other.txt", "x"))).verdicts == {}
        again = await watched.after(lambda: folder.write("tools.py", slow.format(0)))
        assert again.verdicts == {"up_1": "PASSED", "up_2": "PASSED"}


async def test_what_is_shown_is_not_told_again_and_what_came_from_elsewhere_holds(folder: Folder) -> None:
    async with watching(folder.root) as first:
        verdicts = [event for event in (await first.until_quiet()).events if isinstance(event, WatchRunStarted)]
        (run,) = verdicts

    async with watching(folder.root, catches_up=False) as watched:
        session: WatchSession = watched.session
        session.note_shown(dict.fromkeys(run.jobs, run.run.run_id))
        assert (await watched.until_quiet()).stored == {}

        session.note_shown(dict.fromkeys(run.jobs, "another"))
        session.refresh_verdicts()
        assert len((await watched.until(VerdictsReused)).verdicts) == 3
