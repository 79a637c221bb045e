"""Problems around a watch, such as broken files, jumping clocks and deleted projects: it loses no verdict."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from pathlib import Path

import pytest

from tests.watch.watched import Folder, WatchListener, watch_project
from workbench.model.run_events import Notice
from workbench.store.history.history import History
from workbench.watch.watch_events import AllKnown, SourceBroken, WatchRunStarted

AGENT = """
def answer(prompt):
    if prompt.startswith("up"):
        import upper
        return upper.say(prompt)
    import lower
    return lower.say(prompt)
"""
SAY = "def say(text):\n    return text\n"


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    project = Folder(tmp_path / "project")
    project.write("agent.py", AGENT)
    project.write("upper.py", SAY)
    project.write("lower.py", SAY)
    project.cases(up_1="up one", up_2="up two", down="down")
    return project


async def test_a_half_written_file_runs_nothing_until_it_is_complete(folder: Folder) -> None:
    async with watch_project(folder.root) as watch:
        await watch.wait_until_quiet()
        path = folder.root / "upper.py"
        complete_text = "def say(text):\n    return (text +\n        '!')\n"

        half_written = await watch.apply(lambda: path.write_text(complete_text[: complete_text.index("'!'")]))
        assert half_written.verdicts == {}
        assert (half_written.first(SourceBroken).path, half_written.first(SourceBroken).cases) == ("upper.py", 2)
        assert half_written.first(AllKnown).summary.total == 3

        complete = await watch.apply(lambda: path.write_text(complete_text))
        assert complete.verdicts == {"up_1": "FAILED", "up_2": "FAILED"}
        assert complete.first(AllKnown).stale == 0


async def test_a_slowly_written_file_ends_with_the_verdicts_of_its_final_content(folder: Folder) -> None:
    async with watch_project(folder.root) as watch:
        await watch.wait_until_quiet()

        def write_slowly() -> None:
            with (folder.root / "upper.py").open("w") as stream:
                for piece in ("def say(text):\n", "    return text", " + '!'", "\n"):
                    stream.write(piece)
                    stream.flush()
                    time.sleep(0.1)

        await watch.apply(lambda: asyncio.get_running_loop().run_in_executor(None, write_slowly))
        await _wait_until_settled(watch)

        assert watch.get_statuses() == {"up_1": "FAILED", "up_2": "FAILED", "down": "PASSED"}


async def test_a_syntax_error_stops_only_the_cases_that_import_the_module(folder: Folder) -> None:
    async with watch_project(folder.root) as watch:
        await watch.wait_until_quiet()

        broken = await watch.apply(lambda: folder.write("upper.py", "def say(\n"))
        assert broken.verdicts == broken.stored_verdicts == {}
        assert broken.first(SourceBroken).cases == 2
        assert broken.first(AllKnown).stale == 2

        other = await watch.apply(lambda: folder.write("lower.py", "def say(text):\n    return 'no'\n"))
        assert other.verdicts == {"down": "FAILED"}
        assert not other.has(SourceBroken)


async def test_thousands_of_changes_at_once_miss_no_case(folder: Folder) -> None:
    for number in range(4_000):
        path = folder.root / "many" / str(number % 50) / f"{number}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("a")
    folder.write("lower.py", "from pathlib import Path\ndef say(text):\n    return Path('many/7/7.txt').read_text()\n")
    async with watch_project(folder.root) as watch:
        await watch.wait_until_quiet()

        def change_all() -> None:
            for path in (folder.root / "many").glob("*/*.txt"):
                path.write_text("down")

        await watch.apply(lambda: asyncio.get_running_loop().run_in_executor(None, change_all))
        await _wait_until_settled(watch)
        assert watch.get_statuses() == {"up_1": "PASSED", "up_2": "PASSED", "down": "PASSED"}

        after = await watch.apply(lambda: folder.write("upper.py", "def say(text):\n    return 'no'\n"))
        assert after.verdicts == {"up_1": "FAILED", "up_2": "FAILED"}


@pytest.mark.parametrize("seconds", [-10 * 365 * 86_400, 10 * 365 * 86_400], ids=["past", "future"])
async def test_a_jump_of_the_clock_hides_no_change(seconds: float, folder: Folder) -> None:
    async with watch_project(folder.root) as watch:
        await watch.wait_until_quiet()
        path = folder.root / "upper.py"
        moved_time = time.time() + seconds

        for text, verdict in ((SAY.replace("return text", "return 'no'"), "FAILED"), (SAY, None)):

            def save(text: str = text) -> None:
                path.write_text(text)
                os.utime(path, (moved_time, moved_time))

            saved = await watch.apply(save)
            assert saved.verdicts == ({} if verdict is None else {"up_1": verdict, "up_2": verdict})
        await watch.apply(lambda: path.write_text(SAY.replace("return text", "return 'no'")))
        os.utime(path, (moved_time, moved_time))
        # Same length and same modification time.
        same_length = SAY.replace("return text", "return 'go'")

        def save_again() -> None:
            path.write_text(same_length)
            os.utime(path, (moved_time, moved_time))

        second_round = await watch.apply(save_again)
        assert second_round.verdicts == {"up_1": "FAILED", "up_2": "FAILED"}


async def test_the_watch_continues_after_its_project_is_deleted_and_restored(folder: Folder, tmp_path: Path) -> None:
    async with watch_project(folder.root) as watch:
        await watch.wait_until_quiet()
        shutil.copytree(folder.root, tmp_path / "kept", ignore=shutil.ignore_patterns(".workbench"))

        shutil.rmtree(folder.root)
        await asyncio.sleep(1.0)
        shutil.copytree(tmp_path / "kept", folder.root)
        await _wait_until_settled(watch)
        assert watch.get_statuses() == {"up_1": "PASSED", "up_2": "PASSED", "down": "PASSED"}

        # The first change may still come from the restored files.
        await watch.apply(lambda: folder.write("upper.py", "def say(text):\n    return 'no'\n"))
        await _wait_until_settled(watch)
        assert watch.get_statuses() == {"up_1": "FAILED", "up_2": "FAILED", "down": "PASSED"}

    async with watch_project(folder.root) as watch:
        start = await watch.wait_until_quiet()
        assert (start.verdicts | start.stored_verdicts)["up_1"] == "FAILED"


async def test_two_watches_of_one_project_agree_on_all_verdicts(folder: Folder) -> None:
    async with watch_project(folder.root) as first, watch_project(folder.root) as second:
        await first.wait_until_quiet()
        await second.wait_until_quiet()
        for number in range(4):
            text = f"def say(text):\n    return text + '{number}'\n" if number % 2 else SAY
            folder.write("upper.py", text)
            await asyncio.sleep(0.2 * number)
        await _wait_until_settled(first)
        await _wait_until_settled(second)

        assert first.get_statuses() == second.get_statuses() == {"up_1": "FAILED", "up_2": "FAILED", "down": "PASSED"}
        for watch in (first, second):
            notices = [event.message for event in watch.events if isinstance(event, Notice)]
            assert len(notices) <= 1 and all("another watch of this project" in notice for notice in notices)

    with History.open(folder.root) as history:
        assert history.last_verdicts()
    async with watch_project(folder.root) as third:
        start = await third.wait_until_quiet()
        assert start.verdicts == {}
        assert start.stored_verdicts == {"up_1": "FAILED", "up_2": "FAILED", "down": "PASSED"}


async def test_files_that_an_agent_writes_during_its_run_trigger_no_rerun(folder: Folder) -> None:
    folder.write(
        "lower.py",
        """
    import os, time
    from pathlib import Path

    def say(text):
        for number in range(5):
            Path(f"made {os.getpid()} {number}.txt").write_text(text)
            Path("same.txt").write_text(f"{time.time_ns()}")
            time.sleep(0.05)
        Path("generated.py").write_text(f"VALUE = {time.time_ns()}")
        return text
    """,
    )
    async with watch_project(folder.root) as watch:
        await watch.wait_until_quiet()
        watch.events.clear()
        await asyncio.sleep(1.5)
        assert not any(isinstance(event, WatchRunStarted) for event in watch.events)

        saved = await watch.apply(lambda: folder.write("upper.py", "def say(text):\n    return 'no'\n"))
        assert saved.verdicts == {"up_1": "FAILED", "up_2": "FAILED"}
        watch.events.clear()
        await asyncio.sleep(1.0)
        assert not any(isinstance(event, WatchRunStarted) for event in watch.events)


async def _wait_until_settled(watch: WatchListener) -> None:
    """Wait until the last event is `AllKnown`, and no more events come for a while."""
    events = watch.events
    async with asyncio.timeout(60):
        count = -1
        while count != len(events) or (events and not isinstance(events[-1], AllKnown)):
            count = len(events)
            await asyncio.sleep(1.5)


async def test_an_error_outside_the_cases_of_a_set_is_reported_and_the_cases_run(folder: Folder) -> None:
    (path,) = folder.root.glob("*.evalset.json")
    path.write_text(path.read_text() + "]")
    async with watch_project(folder.root) as watch:
        started = await watch.wait_until_quiet()

        assert started.verdicts == {"up_1": "PASSED", "up_2": "PASSED", "down": "PASSED"}
        (notice,) = [each for each in started.events if isinstance(each, Notice) and each.severity == "error"]
        assert "error: found ']', expected the end of the file" in notice.message
