"""Two watches of one project: no case runs twice, and both report every verdict."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.watch.watched import Folder, watching
from workbench.engine.verdict_index import Asked
from workbench.model.run_events import Notice
from workbench.store.turns import Turn, Turns

AGENT = """
import os, time

def answer(prompt):
    time.sleep(0.3)
    with open(os.environ["WB_RAN"], "a") as stream:
        stream.write(prompt + "\\n")
    return prompt
"""


@pytest.fixture
def ran(folder: Folder, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file with a line for each time that the agent ran."""
    file = tmp_path_factory.mktemp("elsewhere") / "ran"
    file.write_text("")
    monkeypatch.setenv("WB_RAN", str(file))
    folder.write("agent.py", AGENT)
    return file


async def test_what_one_watch_runs_the_other_takes_over(folder: Folder, ran: Path) -> None:
    async with watching(folder.root) as one:
        await one.until_quiet()
        async with watching(folder.root) as other:
            assert (await other.until_quiet()).verdicts == {}
            assert len(ran.read_text().splitlines()) == 3

            one.events.clear()
            saved = await other.after(lambda: folder.write("agent.py", AGENT + "len('')\n"))
            first = await one.until_quiet()

            assert len(ran.read_text().splitlines()) == 6
            everything = dict.fromkeys(["up_1", "up_2", "down"], "PASSED")
            assert {**first.verdicts, **first.stored} == {**saved.verdicts, **saved.stored} == everything
            assert sum(isinstance(event, Notice) for event in [*first.events, *saved.events]) == 1

        alone = await one.after(lambda: folder.write("agent.py", AGENT + "len('a')\n"))
        assert alone.verdicts == everything


async def test_a_history_that_was_begun_anew_by_another_process_is_not_taken_for_the_old_one(folder: Folder) -> None:
    async with watching(folder.root) as one:
        await one.until_quiet()
        verdicts = one.workspace.verdicts
        for file in (folder.root / ".workbench").glob("history.db*"):
            file.unlink()
        folder.write("unread.txt", "")
        folder.write("agent.py", "def answer(prompt):\n    open('unread.txt').read()\n    return prompt\n")
        async with watching(folder.root) as other:
            await other.until_quiet()
            there = other.workspace.verdicts
            await asyncio.to_thread(one.workspace.read_new_verdicts)

            for job in other.session._decisions.jobs:
                newest, known = there.newest(job), verdicts.newest(job)
                assert newest is not None and known is not None
                asked = Asked(job.case.target, newest.job.execution_key, job.repeat)
                assert any(each.job == newest.job for each in verdicts.find(asked))
                rows = {there.row(number) for number in there.list_rows(newest.dependencies or 0)}
                assert {verdicts.row(number) for number in verdicts.list_rows(known.dependencies or 0)} == rows


def test_turns(tmp_path: Path) -> None:
    (tmp_path / ".workbench").mkdir()
    one, other = Turns(tmp_path), Turns(tmp_path)

    assert [one.acquire(), one.acquire(), other.acquire()] == [Turn.MINE, Turn.MINE, Turn.OTHERS]
    one.release()
    assert other.acquire() is Turn.OTHERS
    one.release()
    assert other.acquire() is Turn.MINE_AGAIN
    other.close()
    assert one.acquire() is Turn.MINE_AGAIN
