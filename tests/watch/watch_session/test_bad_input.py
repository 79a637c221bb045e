"""What goes wrong around a watch has a defined outcome each time, and loses nothing."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from pathlib import Path

import pytest

from tests.watch.watched import Folder, Watched, watching
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
    made = Folder(tmp_path / "project")
    made.write("agent.py", AGENT)
    made.write("upper.py", SAY)
    made.write("lower.py", SAY)
    made.cases(up_1="up one", up_2="up two", down="down")
    return made


async def test_a_file_that_is_saved_half_written_and_then_whole(folder: Folder) -> None:
    async with watching(folder.root) as watched:
        await watched.until_quiet()
        path = folder.root / "upper.py"
        whole = "def say(text):\n    return (text +\n        '!')\n"

        half = await watched.after(lambda: path.write_text(whole[: whole.index("'!'")]))
        assert half.verdicts == {}
        assert (half.first(SourceBroken).path, half.first(SourceBroken).cases) == ("upper.py", 2)
        assert half.first(AllKnown).summary.total == 3

        complete = await watched.after(lambda: path.write_text(whole))
        assert complete.verdicts == {"up_1": "FAILED", "up_2": "FAILED"}
        assert complete.first(AllKnown).stale == 0


async def test_a_file_that_is_written_slowly_ends_with_the_verdicts_of_what_it_is(folder: Folder) -> None:
    async with watching(folder.root) as watched:
        await watched.until_quiet()

        def write_slowly() -> None:
            with (folder.root / "upper.py").open("w") as stream:
                for piece in ("def say(text):\n", "    return text", " + '!'", "\n"):
                    stream.write(piece)
                    stream.flush()
                    time.sleep(0.1)

        await watched.after(lambda: asyncio.get_running_loop().run_in_executor(None, write_slowly))
        await _settled(watched)

        assert watched.shown() == {"up_1": "FAILED", "up_2": "FAILED", "down": "PASSED"}


async def test_a_syntax_error_in_a_module_that_only_some_cases_import(folder: Folder) -> None:
    async with watching(folder.root) as watched:
        await watched.until_quiet()

        broken = await watched.after(lambda: folder.write("upper.py", "def say(\n"))
        assert broken.verdicts == broken.stored == {}
        assert broken.first(SourceBroken).cases == 2
        assert broken.first(AllKnown).stale == 2

        other = await watched.after(lambda: folder.write("lower.py", "def say(text):\n    return 'no'\n"))
        assert other.verdicts == {"down": "FAILED"}
        assert not other.has(SourceBroken)


async def test_thousands_of_files_that_change_at_once(folder: Folder) -> None:
    for number in range(4_000):
        path = folder.root / "many" / str(number % 50) / f"{number}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("a")
    folder.write("lower.py", "from pathlib import Path\ndef say(text):\n    return Path('many/7/7.txt').read_text()\n")
    async with watching(folder.root) as watched:
        await watched.until_quiet()

        def change_all() -> None:
            for path in (folder.root / "many").glob("*/*.txt"):
                path.write_text("down")

        await watched.after(lambda: asyncio.get_running_loop().run_in_executor(None, change_all))
        await _settled(watched)
        assert watched.shown() == {"up_1": "PASSED", "up_2": "PASSED", "down": "PASSED"}

        after = await watched.after(lambda: folder.write("upper.py", "def say(text):\n    return 'no'\n"))
        assert after.verdicts == {"up_1": "FAILED", "up_2": "FAILED"}


@pytest.mark.parametrize("seconds", [-10 * 365 * 86_400, 10 * 365 * 86_400], ids=["past", "future"])
async def test_a_clock_that_jumps(seconds: float, folder: Folder) -> None:
    async with watching(folder.root) as watched:
        await watched.until_quiet()
        path = folder.root / "upper.py"
        moved = time.time() + seconds

        for text, verdict in ((SAY.replace("return text", "return 'no'"), "FAILED"), (SAY, None)):

            def save(text: str = text) -> None:
                path.write_text(text)
                os.utime(path, (moved, moved))

            saved = await watched.after(save)
            assert saved.verdicts == ({} if verdict is None else {"up_1": verdict, "up_2": verdict})
        await watched.after(lambda: path.write_text(SAY.replace("return text", "return 'no'")))
        os.utime(path, (moved, moved))
        # As long as before, and at the same time.
        same = SAY.replace("return text", "return 'go'")

        def save_again() -> None:
            path.write_text(same)
            os.utime(path, (moved, moved))

        again = await watched.after(save_again)
        assert again.verdicts == {"up_1": "FAILED", "up_2": "FAILED"}


async def test_a_project_that_is_deleted_and_restored(folder: Folder, tmp_path: Path) -> None:
    async with watching(folder.root) as watched:
        await watched.until_quiet()
        shutil.copytree(folder.root, tmp_path / "kept", ignore=shutil.ignore_patterns(".workbench"))

        shutil.rmtree(folder.root)
        await asyncio.sleep(1.0)
        shutil.copytree(tmp_path / "kept", folder.root)
        await _settled(watched)
        assert watched.shown() == {"up_1": "PASSED", "up_2": "PASSED", "down": "PASSED"}

        # What is seen first may still be of the restoring.
        await watched.after(lambda: folder.write("upper.py", "def say(text):\n    return 'no'\n"))
        await _settled(watched)
        assert watched.shown() == {"up_1": "FAILED", "up_2": "FAILED", "down": "PASSED"}

    async with watching(folder.root) as watched:
        start = await watched.until_quiet()
        assert (start.verdicts | start.stored)["up_1"] == "FAILED"


async def test_a_second_workbench_on_the_same_project(folder: Folder) -> None:
    async with watching(folder.root) as first, watching(folder.root) as second:
        await first.until_quiet()
        await second.until_quiet()
        for number in range(4):
            text = f"def say(text):\n    return text + '{number}'\n" if number % 2 else SAY
            folder.write("upper.py", text)
            await asyncio.sleep(0.2 * number)
        await _settled(first)
        await _settled(second)

        assert first.shown() == second.shown() == {"up_1": "FAILED", "up_2": "FAILED", "down": "PASSED"}
        for watched in (first, second):
            notices = [event.message for event in watched.events if isinstance(event, Notice)]
            assert len(notices) <= 1 and all("another watch of this project" in notice for notice in notices)

    with History.open(folder.root) as history:
        assert history.last_verdicts()
    async with watching(folder.root) as third:
        start = await third.until_quiet()
        assert start.verdicts == {}
        assert start.stored == {"up_1": "FAILED", "up_2": "FAILED", "down": "PASSED"}


async def test_an_agent_that_writes_into_its_own_folder_while_it_runs(folder: Folder) -> None:
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
    async with watching(folder.root) as watched:
        await watched.until_quiet()
        watched.events.clear()
        await asyncio.sleep(1.5)
        assert not any(isinstance(event, WatchRunStarted) for event in watched.events)

        saved = await watched.after(lambda: folder.write("upper.py", "def say(text):\n    return 'no'\n"))
        assert saved.verdicts == {"up_1": "FAILED", "up_2": "FAILED"}
        watched.events.clear()
        await asyncio.sleep(1.0)
        assert not any(isinstance(event, WatchRunStarted) for event in watched.events)


async def _settled(watched: Watched) -> None:
    """Wait until nothing has been told for a while, and all is known."""
    events = watched.events
    async with asyncio.timeout(60):
        count = -1
        while count != len(events) or (events and not isinstance(events[-1], AllKnown)):
            count = len(events)
            await asyncio.sleep(1.5)


async def test_an_error_around_the_cases_of_a_set_is_reported_and_its_cases_run(folder: Folder) -> None:
    (path,) = folder.root.glob("*.evalset.json")
    path.write_text(path.read_text() + "]")
    async with watching(folder.root) as watched:
        started = await watched.until_quiet()

        assert started.verdicts == {"up_1": "PASSED", "up_2": "PASSED", "down": "PASSED"}
        (notice,) = [each for each in started.events if isinstance(each, Notice) and each.severity == "error"]
        assert "error: found ']', expected the end of the file" in notice.message
