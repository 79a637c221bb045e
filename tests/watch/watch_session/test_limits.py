"""Jobs that the watch does not start: beyond the limits, cancelled by the user, or saved while paused."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.watch.watched import Folder, watch_project
from workbench.watch.watch_events import AllKnown, DecisionsMade, VerdictsReused, WatchRunEvent, WatchRunStarted
from workbench.watch.watch_session import WatchSession

AGENT = "import tools\n\ndef answer(prompt):\n    return tools.upper(prompt) if prompt.startswith('up') else prompt\n"
TOOLS = "PREFIX = ''\n\ndef upper(text):\n    return PREFIX + text\n"
SETTINGS = '[targets.sample]\nkind = "function"\ntarget = "agent:answer"\neval_sets = ["*.evalset.json"]\n'


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    project = Folder(tmp_path)
    project.write("agent.py", AGENT)
    project.write("tools.py", TOOLS)
    project.cases(up_1="up 1", up_2="up 2", down="down")
    return project


@pytest.mark.parametrize("cap", ["max_cases_per_change = 1", "max_turns_per_change = 1"])
async def test_a_change_beyond_the_limits_runs_only_after_the_user_confirms(folder: Folder, cap: str) -> None:
    async with watch_project(folder.root) as watch:
        assert len((await watch.wait_until_quiet()).verdicts) == 3
        folder.write("workbench.toml", f"{SETTINGS}[watch]\n{cap}\n")
        await watch.wait_until_quiet()

        held_round = await watch.apply(lambda: folder.write("tools.py", TOOLS.replace("+ text", "+ text.upper()")))
        assert (held_round.verdicts, held_round.change.run) == ({}, 2)
        assert "2 " in held_round.change.held and cap in held_round.change.held
        assert held_round.first(AllKnown).stale == 2

        watch.events.clear()
        watch.session.run_held()
        assert (await watch.wait_until_quiet()).verdicts == {"up_1": "FAILED", "up_2": "FAILED"}


async def test_rescoring_does_not_count_for_the_limits(folder: Folder) -> None:
    folder.write("workbench.toml", f"{SETTINGS}[watch]\nmax_cases_per_change = 0\n")
    async with watch_project(folder.root) as watch:
        await watch.wait_until_quiet()

        judged = await watch.apply(lambda: folder.criteria(exact_match=0.5))

        assert judged.change.held == ""
        assert len(judged.verdicts) == 3


async def test_held_jobs_do_not_count_for_a_later_change(folder: Folder) -> None:
    folder.write("workbench.toml", f"{SETTINGS}[watch]\nmax_cases_per_change = 1\n")
    async with watch_project(folder.root) as watch:
        await watch.wait_until_quiet()
        await watch.apply(lambda: folder.write("tools.py", TOOLS.replace("+ text", "+ text.upper()")))

        later = await watch.apply(lambda: folder.cases(up_1="up 1", up_2="up 2", down="deep down"))

        assert later.verdicts == {"down": "PASSED"}


async def test_a_paused_watch_reports_stale_cases_but_runs_nothing(folder: Folder) -> None:
    async with watch_project(folder.root) as watch:
        await watch.wait_until_quiet()
        watch.session.pause()
        folder.write("tools.py", TOOLS.replace("+ text", "+ text.upper()"))

        decided = await watch.wait_for(DecisionsMade)

        assert {each.job.case.eval_id for each in decided.work} == {"up_1", "up_2"}
        await asyncio.sleep(0.2)
        assert not any(isinstance(event, WatchRunStarted) for event in watch.events)


async def test_a_cancelled_case_runs_again_only_after_a_relevant_change(folder: Folder) -> None:
    slow = "PREFIX = ''\n\ndef upper(text):\n    import time\n    time.sleep({})\n    return text\n"
    async with watch_project(folder.root) as watch:
        await watch.wait_until_quiet()
        folder.write("tools.py", slow.format(30))
        run_started = await watch.wait_for(WatchRunStarted)
        await watch.wait_for(WatchRunEvent)
        watch.events.clear()
        run_started.run.cancel()
        stopped = await watch.wait_until_quiet()
        assert (stopped.verdicts, stopped.first(AllKnown).stale) == ({}, 2)

        assert (await watch.apply(lambda: folder.write("other.txt", "x"))).verdicts == {}
        second_round = await watch.apply(lambda: folder.write("tools.py", slow.format(0)))
        assert second_round.verdicts == {"up_1": "PASSED", "up_2": "PASSED"}


async def test_stored_verdicts_are_reported_only_if_another_run_is_shown(folder: Folder) -> None:
    async with watch_project(folder.root) as first:
        starts = [event for event in (await first.wait_until_quiet()).events if isinstance(event, WatchRunStarted)]
        (run,) = starts

    async with watch_project(folder.root, catches_up=False) as watch:
        session: WatchSession = watch.session
        session.note_shown(dict.fromkeys(run.jobs, run.run.run_id))
        assert (await watch.wait_until_quiet()).stored_verdicts == {}

        session.note_shown(dict.fromkeys(run.jobs, "another"))
        session.refresh_verdicts()
        assert len((await watch.wait_for(VerdictsReused)).verdicts) == 3
