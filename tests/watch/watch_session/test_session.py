"""Watch mode from a save to the verdicts, with real files, the real watcher and real processes."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from tests.watch.watched import AGENT, TOOLS, Folder, watch_project
from workbench.engine.run import Run
from workbench.model.run_events import CaseFinished, Notice
from workbench.store.errors import StoreError
from workbench.store.history.history import History
from workbench.watch import file_watcher
from workbench.watch.scheduler import Scheduler
from workbench.watch.watch_events import (
    AllKnown,
    ChangeSeen,
    VerdictKnown,
    VerdictsReused,
    WatchRunStarted,
    WatchStarted,
)


async def test_a_save_runs_only_the_cases_that_use_the_changed_code(folder: Folder) -> None:
    async with watch_project(folder.root) as watch:
        start = await watch.wait_until_quiet()
        assert start.verdicts == {"up_1": "PASSED", "up_2": "PASSED", "down": "PASSED"}
        assert start.first(WatchStarted).total == 3

        broken = await watch.apply(
            lambda: folder.write("tools.py", TOOLS.replace("return PREFIX + text", 'return "no"', 1))
        )

        assert broken.verdicts == {"up_1": "FAILED", "up_2": "FAILED"}
        assert broken.change.paths == ("tools.py",)
        assert broken.change.reason == "tools.py: upper() changed"
        assert (broken.change.run, broken.change.total) == (2, 3)
        assert broken.first(AllKnown).stale == 0
        assert broken.first(AllKnown).summary.passed == 1


async def test_the_loss_of_file_events_is_reported_once(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    def listen(_: object) -> file_watcher.FolderListener:
        raise file_watcher.EventsUnavailable(file_watcher._explain_failure(OSError(28, "OS file watch limit reached.")))

    async with watch_project(folder.root) as watch:
        assert (await watch.wait_until_quiet()).first(WatchStarted).mode == "events"
        monkeypatch.setattr(file_watcher, "listen", listen)

        folder.write("new/more.py", "")
        assert "max_user_watches" in (await watch.wait_for(Notice)).message
        await watch.wait_for(ChangeSeen)
        watch.events.clear()

        folder.write("tools.py", TOOLS.replace("PREFIX + text", "'no'"))
        await watch.wait_for_statuses(up_1="FAILED", up_2="FAILED", down="FAILED")
        assert not any(isinstance(event, Notice) for event in watch.events)


async def test_an_undo_runs_nothing(folder: Folder) -> None:
    async with watch_project(folder.root) as watch:
        await watch.wait_until_quiet()
        await watch.apply(lambda: folder.write("tools.py", TOOLS.replace('PREFIX = ""', 'PREFIX = "x"')))

        undone = await watch.apply(lambda: folder.write("tools.py", TOOLS))

        assert undone.verdicts == {}
        assert undone.stored_verdicts == {"up_1": "PASSED", "up_2": "PASSED", "down": "PASSED"}
        assert not undone.has(WatchRunStarted)


async def test_a_module_whose_import_ran_nothing_is_watched_from_then_on(folder: Folder) -> None:
    folder.write(".gitignore", "made/\n")  # not watched unless a case uses it
    for name in ("pack/__init__.py", "pack/used.py", "pack/made/__init__.py", "pack/made/more.py"):
        folder.write(name, "")
    folder.write("agent.py", f"import pack.used\n{AGENT}")
    async with watch_project(folder.root) as watch:
        await watch.wait_until_quiet()

        added = await watch.apply(lambda: folder.write("pack/used.py", "import pack.made.more\n"))
        assert (added.verdicts, added.change.run) == ({}, 0)

        changed = await watch.apply(lambda: folder.write("pack/made/more.py", "raise ValueError('no')\n"))
        assert changed.verdicts == {"up_1": "ERROR", "up_2": "ERROR", "down": "ERROR"}


async def test_a_renamed_case_keeps_its_verdict_and_runs_nothing(folder: Folder) -> None:
    async with watch_project(folder.root) as watch:
        await watch.wait_until_quiet()

        renamed = await watch.apply(lambda: folder.cases(up_1="up one", up_3="up two", down="down"))

        assert renamed.verdicts == {}
        assert renamed.stored_verdicts == {"up_3": "PASSED"}
        assert not renamed.has(WatchRunStarted)


async def test_current_verdicts_are_reported_without_reading_executions(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with watch_project(folder.root) as watch:
        first = (await watch.wait_until_quiet()).first(AllKnown).summary
    monkeypatch.setattr(History, "result", lambda *_: pytest.fail("what an agent did was read"))

    async with watch_project(folder.root) as watch:
        second_round = await watch.wait_until_quiet()

    assert second_round.stored_verdicts == {"up_1": "PASSED", "up_2": "PASSED", "down": "PASSED"}
    assert second_round.first(AllKnown).summary.metrics["exact_match"] == first.metrics["exact_match"]


async def test_comments_and_layout_affect_no_case(folder: Folder) -> None:
    async with watch_project(folder.root) as watch:
        await watch.wait_until_quiet()

        layout_round = await watch.apply(lambda: folder.write("tools.py", f"# a comment\n\n{TOOLS}\n\n# and another"))

        assert layout_round.verdicts == layout_round.stored_verdicts == {}
        assert layout_round.change.run == 0


async def test_verdicts_of_earlier_sessions_are_reused_and_stale_cases_run(folder: Folder) -> None:
    async with watch_project(folder.root) as watch:
        await watch.wait_until_quiet()
    folder.write("tools.py", TOOLS.replace("def lower(text):", "def lower(text):\n    text = text"))

    async with watch_project(folder.root) as watch:
        start = await watch.wait_until_quiet()

    assert start.stored_verdicts == {"up_1": "PASSED", "up_2": "PASSED"}
    assert start.verdicts == {"down": "PASSED"}


async def test_a_save_restarts_only_the_running_cases_that_it_affects(folder: Folder) -> None:
    slow = """
    import time
    from pathlib import Path

    def wait(name):
        Path(f"begun {name}").touch()
        time.sleep(1)

    def up(text):
        return text

    def down(text):
        return text

    def answer(prompt):
        wait(prompt.split()[0])
        return up(prompt) if prompt.startswith("up") else down(prompt)
    """
    folder.write("agent.py", slow.replace("wait(prompt.split()[0])", "pass"))
    folder.cases(up="up one", down="down two")
    async with watch_project(folder.root) as watch:
        await watch.wait_until_quiet()
        folder.write("agent.py", slow.replace("return text", "return text + '!'"))
        await _wait_for_file(folder.root / "begun up")
        await _wait_for_file(folder.root / "begun down")

        # Both run; the next save concerns only one of them.
        watch.events.clear()
        folder.write("agent.py", slow.replace("return text", "return text + '?'", 1).replace(
            "return text\n\n    def answer", "return text + '!'\n\n    def answer"))  # fmt: skip
        await watch.wait_for(AllKnown)
        results = {e.result.case.eval_id: e.result for e in watch.events if isinstance(e, VerdictKnown)}

        assert _get_response(results["up"]) == "up one?"
        assert _get_response(results["down"]) == "down two!"
        assert len([e for e in watch.events if isinstance(e, VerdictKnown)]) == 2
        restarts = [e.jobs for e in watch.events if isinstance(e, WatchRunStarted)]
        assert [job.case.eval_id for jobs in restarts for job in jobs] == ["up"]


async def test_a_watch_that_does_not_catch_up_runs_nothing_at_the_start(folder: Folder) -> None:
    async with watch_project(folder.root, catches_up=False) as watch:
        start = await watch.wait_until_quiet()
        assert start.verdicts == {}
        assert start.first(AllKnown).stale == 3

        unrelated = await watch.apply(lambda: folder.write("notes.txt", "x"))
        assert unrelated.verdicts == {}


async def test_changes_while_paused_run_after_resume(folder: Folder) -> None:
    async with watch_project(folder.root) as watch:
        await watch.wait_until_quiet()
        watch.session.pause()
        folder.write("tools.py", TOOLS.replace("PREFIX + text", "text", 1))
        await asyncio.sleep(0.5)
        assert not any(isinstance(event, ChangeSeen) for event in watch.events)

        resumed = await watch.apply(watch.session.resume)

        assert resumed.verdicts.keys() == {"up_1", "up_2"}


def _get_response(result: object) -> str:
    execution = result.execution  # type: ignore[attr-defined]
    text: str = execution.turns[-1].invocation.final_response.text()
    return text


async def _wait_for_file(path: Path) -> None:
    deadline = time.monotonic() + 20
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} does not come"
        await asyncio.sleep(0.02)


@pytest.mark.parametrize("method", ["open", "begin_run", "finish_jobs"])
async def test_a_full_disk_is_reported_once_and_unstored_cases_run_at_the_next_change(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    def fail(*_: object) -> None:
        raise StoreError(folder.root / "history.db", "cannot be used: the disk is full")

    async with watch_project(folder.root) as watch:
        await watch.wait_until_quiet()
        with monkeypatch.context() as patch:
            patch.setattr(History, method, fail)

            edited = await watch.apply(lambda: folder.write("tools.py", TOOLS + "\nlen('')\n"))
            second_round = await watch.apply(lambda: folder.write("notes.txt", "x"))
            undone = await watch.apply(lambda: folder.write("tools.py", TOOLS))
            assert (undone.verdicts, undone.first(AllKnown).stale) == ({}, 0)
            await watch.apply(lambda: folder.write("tools.py", TOOLS + "\nlen('')\n"))

        messages = [event.message for event in (*edited.events, *second_round.events) if isinstance(event, Notice)]
        assert len(messages) == 1 and messages[0].endswith("the disk is full")
        for each_round in (edited, second_round):
            assert each_round.first(AllKnown).stale == len(each_round.verdicts) == 3
            assert sum(isinstance(event, WatchRunStarted) for event in each_round.events) <= 1
            assert not any(event.holds for event in each_round.events if isinstance(event, VerdictKnown))

        next_round = await watch.apply(lambda: folder.write("notes.txt", "y"))
        assert len(next_round.verdicts) == 3
        assert next_round.first(AllKnown).stale == 0


async def test_a_verdict_is_reported_once_although_a_change_comes_between_its_storing_and_its_report(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_finished = Scheduler._on_finished

    async def decide_before(self: Scheduler, run: Run, event: CaseFinished) -> None:
        await self.report_reused(await self._off_loop(self._decisions.decide_all))
        await on_finished(self, run, event)

    monkeypatch.setattr(Scheduler, "_on_finished", decide_before)
    async with watch_project(folder.root) as watch:
        start = await watch.wait_until_quiet()

        assert len(start.verdicts) == 3
        assert not start.has(VerdictsReused)
