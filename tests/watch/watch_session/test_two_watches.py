"""Two watches of one project: no case runs twice, and both report every verdict."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from tests.watch.watched import Folder, watch_project
from workbench.engine.verdict_index import Asked
from workbench.model.run_events import Notice
from workbench.watch.watch_session import WatchTurn, WatchTurns

AGENT = """
import os, time

def answer(prompt):
    time.sleep(0.3)
    with open(os.environ["WB_RAN"], "a") as stream:
        stream.write(prompt + "\\n")
    return prompt
"""


@pytest.fixture
def agent_log(folder: Folder, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file with one line for each run of the agent."""
    file = tmp_path_factory.mktemp("elsewhere") / "ran"
    file.write_text("")
    monkeypatch.setenv("WB_RAN", str(file))
    folder.write("agent.py", AGENT)
    return file


async def test_a_second_watch_takes_over_the_verdicts_of_the_first(folder: Folder, agent_log: Path) -> None:
    async with watch_project(folder.root) as one:
        await one.wait_until_quiet()
        async with watch_project(folder.root) as other:
            assert (await other.wait_until_quiet()).verdicts == {}
            assert len(agent_log.read_text().splitlines()) == 3

            one.events.clear()
            saved = await other.apply(lambda: folder.write("agent.py", AGENT + "len('')\n"))
            first = await one.wait_until_quiet()

            assert len(agent_log.read_text().splitlines()) == 6
            all_passed = dict.fromkeys(["up_1", "up_2", "down"], "PASSED")
            assert (
                {**first.verdicts, **first.stored_verdicts} == {**saved.verdicts, **saved.stored_verdicts} == all_passed
            )
            assert sum(isinstance(event, Notice) for event in [*first.events, *saved.events]) == 1

        single_round = await one.apply(lambda: folder.write("agent.py", AGENT + "len('a')\n"))
        assert single_round.verdicts == all_passed


async def test_a_run_of_another_program_shows_its_verdicts(folder: Folder) -> None:
    async with watch_project(folder.root) as one:
        await one.wait_until_quiet()
        assert not await asyncio.to_thread(one.workspace.look_for_new_verdicts), "its own verdicts are not new"
        before = {job: key.run_id for job, key in one.session._reporter.shown.items()}
        one.events.clear()

        other = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "workbench", "run", str(folder.root), stdout=asyncio.subprocess.DEVNULL
        )
        await other.wait()
        seen = await one.wait_until_quiet()

        after = {job: key.run_id for job, key in one.session._reporter.shown.items()}
        assert before.keys() == after.keys() and set(before.values()).isdisjoint(after.values())
        assert seen.verdicts == {}, "the watch ran nothing again"
        assert seen.stored_verdicts == dict.fromkeys(["up_1", "up_2", "down"], "PASSED")


async def test_a_history_recreated_by_another_process_is_not_mistaken_for_the_old_one(folder: Folder) -> None:
    async with watch_project(folder.root) as one:
        await one.wait_until_quiet()
        verdicts = one.workspace.verdicts
        for file in (folder.root / ".workbench").glob("history.db*"):
            file.unlink()
        folder.write("unread.txt", "")
        folder.write("agent.py", "def answer(prompt):\n    open('unread.txt').read()\n    return prompt\n")
        async with watch_project(folder.root) as other:
            await other.wait_until_quiet()
            other_verdicts = other.workspace.verdicts
            await asyncio.to_thread(one.workspace.read_new_verdicts)

            for job in other.session._decisions.jobs:
                newest, known = other_verdicts.newest(job), verdicts.newest(job)
                assert newest is not None and known is not None
                key = Asked(job.case.target, newest.job.execution_key, job.repeat)
                assert any(each.job == newest.job for each in verdicts.find(key))
                rows = {other_verdicts.row(number) for number in other_verdicts.list_rows(newest.dependencies or 0)}
                assert {verdicts.row(number) for number in verdicts.list_rows(known.dependencies or 0)} == rows


def test_only_one_process_at_a_time_has_the_turn(tmp_path: Path) -> None:
    one, other = WatchTurns(tmp_path), WatchTurns(tmp_path)  # nothing ran yet in this project

    assert [one.acquire(), one.acquire(), other.acquire()] == [WatchTurn.MINE, WatchTurn.MINE, WatchTurn.OTHERS]
    one.release()
    assert other.acquire() is WatchTurn.OTHERS
    one.release()
    assert other.acquire() is WatchTurn.MINE_AGAIN
    other.close()
    assert one.acquire() is WatchTurn.MINE_AGAIN
