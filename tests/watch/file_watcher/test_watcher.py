"""The watcher misses no change of a project, with file events and with scanning alone."""

from __future__ import annotations

import asyncio
import os
import shutil
import threading
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from tests.interpreters import find_loaded_packages
from tests.watch.eyes import PATIENCE, SAVES, Eyes, save_by_renaming, wait_until, watch_folders
from tests.watch.file_watcher.conftest import linux
from tests.watch.scanned import make_files
from workbench.watch import file_watcher
from workbench.watch.file_watcher import SCAN_VARIABLE, InotifyListener, Wakeup, Watcher, listen
from workbench.watch.folder_scanner import Folders, Scanner


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return make_files(tmp_path / "project", "agent.py", "tools/search.py", "prompts/system.md")


@pytest.fixture
async def eyes(project: Path, scan: bool) -> AsyncIterator[Eyes]:
    async with watch_folders(project, scan=scan) as eyes:
        yield eyes


@pytest.mark.parametrize("save", SAVES)
async def test_every_way_of_saving_is_reported(project: Path, eyes: Eyes, save: Callable[[Path, str], None]) -> None:
    path = project / "tools/search.py"
    for number in range(3):
        save(path, f"content {number}")
        await eyes.see(path)
        await eyes.settle()


async def test_a_cancelled_start_leaves_no_thread(project: Path) -> None:
    async def watch() -> None:
        async with Watcher(Folders(project)):
            raise AssertionError("it was to be cancelled")

    before = set(threading.enumerate())
    start_task = asyncio.create_task(watch())
    await asyncio.sleep(0)  # the thread runs, but its result cannot be processed yet
    start_task.cancel()
    await asyncio.wait({start_task})

    assert start_task.cancelled()
    assert set(threading.enumerate()) <= before


async def test_a_save_reports_only_the_saved_file(project: Path, eyes: Eyes) -> None:
    save_by_renaming(project / "agent.py", "other")

    await eyes.see(project / "agent.py")
    assert eyes.paths == {project / "agent.py"}
    assert not eyes.has_full_change
    assert all(change.at <= time.monotonic() for change in eyes.changes)


async def test_saves_of_equal_length_within_one_second_are_all_reported(project: Path, eyes: Eyes) -> None:
    path = project / "agent.py"
    for number in range(10):
        path.write_text(f"version {number}")
        await eyes.see(path)
        eyes.forget()


async def test_modification_times_in_the_past_or_future_hide_no_change(project: Path, eyes: Eyes) -> None:
    path = project / "agent.py"
    for when in (4_000_000_000, 0, 1_000_000_000, 1_000_000_000):
        text = path.read_text()
        path.write_text(text[::-1])
        os.utime(path, (when, when))
        await eyes.see(path)
        await eyes.settle()


async def test_added_and_removed_files_are_reported_with_their_folder(project: Path, eyes: Eyes) -> None:
    (project / "tools/new.py").write_text("")
    await eyes.see(project / "tools/new.py", project / "tools")
    await eyes.settle()

    (project / "tools/search.py").unlink()
    await eyes.see(project / "tools/search.py", project / "tools")


async def test_a_burst_of_saves_is_reported_completely(project: Path, eyes: Eyes) -> None:
    paths = [project / f"tools/f{number}.py" for number in range(500)]
    for round_ in range(2):
        for path in paths:
            path.write_text(str(round_))
        await eyes.see_all(paths)
        await eyes.settle()


async def test_thousands_of_files_at_once_are_reported_completely(tmp_path: Path, scan: bool) -> None:
    count = 5_000 if scan else 20_000  # more events than the queue of inotify holds
    project = make_files(tmp_path / "project", *(f"d{number}/first.txt" for number in range(100)))
    paths = [project / f"d{number % 100}/f{number}.txt" for number in range(count)]
    for path in paths:
        path.write_text("")
    async with watch_folders(project, scan=scan) as eyes:
        assert eyes.watcher.status.files == count + 100
        await asyncio.to_thread(lambda: [path.write_text("other content") for path in paths])
        await eyes.see_all(paths)


async def test_files_written_at_once_into_new_nested_folders_are_reported(
    project: Path, eyes: Eyes, scan: bool
) -> None:
    for number in range(5 if scan else 20):
        paths = [
            project / f"new{number}" / "a" / "b" / f"{name}.py" if deep else project / f"new{number}" / f"{name}.py"
            for deep in (True, False)
            for name in ("x", "y", "z")
        ]
        for path in paths:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("")
        await eyes.see_all(paths)
        eyes.forget()
        late_file = project / f"new{number}" / "a" / "b" / "late.py"
        late_file.write_text("")
        await eyes.see(late_file)
        eyes.forget()


async def test_folders_that_grow_during_a_scan_are_reported_completely(project: Path, eyes: Eyes) -> None:
    def grow() -> list[Path]:
        paths = []
        for number in range(150):
            path = project / "grown" / "/".join(str(number * 7919 % 10**9)[:6]) / "x.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(str(number))
            paths.append(path)
        return paths

    paths = await asyncio.to_thread(grow)
    await eyes.see_all(paths)


async def test_a_moved_folder_is_reported_with_its_content(tmp_path: Path, project: Path, eyes: Eyes) -> None:
    make_files(project, "tools/deep/x.py")
    await eyes.see(project / "tools/deep/x.py")
    await eyes.settle()

    (project / "tools").rename(project / "moved")
    await eyes.see(project / "tools/deep/x.py", project / "moved/deep/x.py")
    await eyes.settle()
    (project / "moved/deep/x.py").write_text("watched where it is now")
    await eyes.see(project / "moved/deep/x.py")
    await eyes.settle()

    (project / "moved").rename(tmp_path / "outside")
    await eyes.see(project / "moved/deep/x.py")
    await eyes.settle()
    (tmp_path / "outside/deep/x.py").write_text("not ours")
    (tmp_path / "outside").rename(project / "back")
    await eyes.see(project / "back/deep/x.py", project / "back/search.py")
    assert not any(path.is_relative_to(tmp_path / "outside") for path in eyes.paths)


async def test_a_replaced_folder_is_still_watched(tmp_path: Path, project: Path, eyes: Eyes) -> None:
    for number in range(3):
        shutil.rmtree(project / "tools")
        make_files(project, "tools/search.py")
        await eyes.see(project / "tools/search.py")
        await eyes.settle()
        (project / "tools/search.py").write_text(f"after {number}")
        await eyes.see(project / "tools/search.py")
        await eyes.settle()


@pytest.mark.parametrize("how", ["deleted", "moved"])
async def test_a_project_is_watched_again_after_it_vanishes_and_returns(
    tmp_path: Path, project: Path, eyes: Eyes, how: str
) -> None:
    for number in range(2):
        if how == "deleted":
            shutil.rmtree(project)
        else:
            project.rename(tmp_path / "away")
        await eyes.wait_until(lambda: eyes.has_full_change, "it vanished")
        assert "missing" in eyes.watcher.status.reason
        assert eyes.watcher.status.files == 0
        eyes.forget()

        if how == "deleted":
            make_files(project, "agent.py", "tools/search.py")
        else:
            (tmp_path / "away").rename(project)
        await eyes.wait_until(
            lambda: eyes.has_full_change and not eyes.watcher.status.reason.startswith("not"), "it returned"
        )
        await eyes.settle()

        (project / "tools/search.py").write_text(f"after {number}")
        await eyes.see(project / "tools/search.py")
        eyes.forget()


async def test_moving_a_parent_folder_of_the_project_is_noticed(tmp_path: Path, scan: bool) -> None:
    project = make_files(tmp_path / "home/project", "agent.py")
    async with watch_folders(project, scan=scan) as eyes:
        (tmp_path / "home").rename(tmp_path / "other")
        await eyes.wait_until(lambda: eyes.has_full_change, "it vanished")


async def test_a_project_that_does_not_exist_yet_is_watched_from_its_first_file(tmp_path: Path, scan: bool) -> None:
    project = tmp_path / "not/yet"
    async with watch_folders(project, scan=scan) as eyes:
        make_files(project, "agent.py")
        await eyes.wait_until(lambda: eyes.has_full_change and eyes.watcher.status.files == 1, "it appeared")
        eyes.forget()
        (project / "agent.py").write_text("other")
        await eyes.see(project / "agent.py")


async def test_an_edited_gitignore_file_hides_and_shows_folders(project: Path, eyes: Eyes) -> None:
    make_files(project, "out/x.py", "out/deep/y.py")
    await eyes.see(project / "out/deep/y.py")
    await eyes.settle()

    (project / ".gitignore").write_text("out/\n")
    await eyes.see(project / ".gitignore")
    await eyes.settle()
    (project / "out/x.py").write_text("ignored now")
    await eyes.settle()
    (project / "agent.py").write_text("other")
    await eyes.see(project / "agent.py")
    assert project / "out/x.py" not in eyes.paths

    (project / ".gitignore").write_text("")
    await eyes.see(project / "out/x.py", project / "out/deep/y.py")
    await eyes.settle()
    (project / "out/deep/y.py").write_text("watched again")
    await eyes.see(project / "out/deep/y.py")


async def test_excluded_files_are_not_reported(project: Path, eyes: Eyes) -> None:
    await eyes.settle()
    make_files(
        project, "tools/search.py~", "tools/.search.py.swp", "tools/4913", "__pycache__/agent.pyc", ".venv/lib/x.py"
    )
    make_files(project, "node_modules/p/x.js", ".workbench/history.db", ".git/index", "tools/__pycache__/search.pyc")
    (project / "agent.py").write_text("other")

    await eyes.see(project / "agent.py")
    reported_paths = {path for path in eyes.paths if path not in {project, project / "agent.py"}}
    assert not reported_paths


async def test_linked_files_are_reported_by_every_path_that_leads_to_them(tmp_path: Path, scan: bool) -> None:
    project = make_files(tmp_path / "project", "agent.py")
    make_files(tmp_path, "shared/lib/x.py", "far/prompt.md")
    (project / "shared").symlink_to(tmp_path / "shared")
    (project / "loop").symlink_to(project)
    (project / "prompt.md").symlink_to(tmp_path / "far/prompt.md")
    async with watch_folders(project, scan=scan) as eyes:
        (tmp_path / "shared/lib/x.py").write_text("other")
        await eyes.see(project / "shared/lib/x.py", tmp_path / "shared/lib/x.py")
        save_by_renaming(tmp_path / "far/prompt.md", "other")
        await eyes.see(project / "prompt.md")
        (project / "agent.py").write_text("other")
        await eyes.see(project / "agent.py", project / "loop/agent.py")


async def test_import_origins_and_other_paths_are_watched(tmp_path: Path, scan: bool) -> None:
    project = make_files(tmp_path / "project", "agent.py")
    make_files(tmp_path, "library/src/lib.py", "rules.md")
    more = (tmp_path / "library/src", tmp_path / "rules.md")
    async with watch_folders(Folders(project, more), scan=scan) as eyes:
        for path in (tmp_path / "library/src/lib.py", tmp_path / "rules.md"):
            save_by_renaming(path, "other")
            await eyes.see(path)
        make_files(tmp_path, "library/src/new/x.py")
        await eyes.see(tmp_path / "library/src/new/x.py")


async def test_changes_of_a_dependency_are_reported_once_it_is_added(tmp_path: Path, project: Path, eyes: Eyes) -> None:
    make_files(project, ".cache/deep/data.json", ".cache/deep/other.json", ".cache/deep/listed/a")
    make_files(tmp_path, "far/file.csv")
    used_paths = [project / ".cache/deep/data.json", project / ".cache/deep/listed", tmp_path / "far/file.csv"]
    missing_path = tmp_path / "not/there/yet.md"
    await eyes.settle()

    await eyes.watcher.add([*used_paths, missing_path], listed=[used_paths[1]])
    await eyes.settle()
    save_by_renaming(used_paths[0], "[]")
    save_by_renaming(project / ".cache/deep/other.json", "[]")
    (used_paths[1] / "b").write_text("")
    used_paths[2].write_text("1")
    await eyes.see(*used_paths)
    assert project / ".cache/deep/other.json" not in eyes.paths
    make_files(tmp_path, "not/there/yet.md")
    await eyes.see(missing_path)
    await eyes.settle()

    (project / ".cache").rename(project / "x.tmp")
    await eyes.see(used_paths[0])


async def test_a_slow_listener_receives_all_changes_at_once(project: Path, scan: bool) -> None:
    async with Watcher(Folders(project), scan=scan) as watcher:
        changes = watcher.changes()
        for path in ("agent.py", "tools/search.py", "prompts/system.md"):
            (project / path).write_text("other")
            await wait_until(
                lambda path=path: watcher._pending is not None and project / path in watcher._pending.paths
            )
        change = await anext(changes)
        assert change.paths == {project / path for path in ("agent.py", "tools/search.py", "prompts/system.md")}
        await changes.aclose()


async def test_a_save_during_the_first_scan_is_reported(project: Path, scan: bool) -> None:
    make_files(project, *(f"d{number}/x.py" for number in range(200)))
    async with Watcher(Folders(project), scan=scan) as watcher:
        (project / "d1/x.py").write_text("other")
        changes = watcher.changes()
        async with asyncio.timeout(PATIENCE):
            while project / "d1/x.py" not in (await anext(changes)).paths:
                pass
        await changes.aclose()


async def test_a_stopped_watcher_leaves_no_threads_or_open_files(project: Path, scan: bool) -> None:
    async def watch_once() -> None:
        async with watch_folders(project, scan=scan) as eyes:
            make_files(project, "come/and/go.py")
            await eyes.see(project / "come/and/go.py")
            shutil.rmtree(project / "come")
            await eyes.see(project / "come/and/go.py")

    def count_open_files_and_threads() -> tuple[int, int]:
        return len(list(Path("/proc/self/fd").iterdir())), len(list(Path("/proc/self/task").iterdir()))

    await watch_once()
    before, threads = count_open_files_and_threads(), threading.active_count()
    for _ in range(5):
        await watch_once()

    assert threading.active_count() <= threads
    await wait_until(lambda: all(now <= then for now, then in zip(count_open_files_and_threads(), before, strict=True)))


async def test_stopping_the_watcher_ends_its_changes_and_closing_them_stops_it(project: Path) -> None:
    watcher = Watcher(Folders(project))
    changes = watcher.changes()
    next_change = asyncio.ensure_future(anext(changes, None))
    await wait_until(lambda: watcher._status is not None)
    await watcher.stop()
    assert await next_change is None

    other = Watcher(Folders(project))
    changes = other.changes()
    next_change = asyncio.ensure_future(anext(changes, None))
    await wait_until(lambda: other._status is not None)
    next_change.cancel()
    await asyncio.gather(next_change, return_exceptions=True)
    await changes.aclose()
    assert other._thread is not None
    assert not other._thread.is_alive()


async def test_the_thread_ends_when_its_event_loop_is_closed(project: Path) -> None:
    watcher = Watcher(Folders(project))

    def run_and_forget() -> None:
        loop = asyncio.new_event_loop()
        loop.run_until_complete(watcher.start())
        loop.close()

    await asyncio.to_thread(run_and_forget)
    assert watcher._thread is not None
    deadline = time.monotonic() + PATIENCE
    number = 0
    while watcher._thread.is_alive():
        assert time.monotonic() < deadline
        number += 1
        (project / "agent.py").write_text(str(number))
        await asyncio.sleep(0.05)


async def test_an_environment_variable_selects_scanning(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SCAN_VARIABLE, "scan")
    async with Watcher(Folders(project)) as watcher:
        assert (watcher.status.mode, watcher.status.reason) == ("scanning", f"{SCAN_VARIABLE}=scan")
        assert (watcher.status.files, watcher.status.folders) == (3, 3)


async def test_a_failure_to_start_the_scanner_is_raised(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watcher = Watcher(Folders(project))
    monkeypatch.setattr(watcher._observer._scanner, "start", lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        await watcher.start()
    await watcher.stop()


@linux
def test_opening_and_reading_files_is_no_event(project: Path) -> None:
    listener, wakeup = listen([str(project)]), Wakeup()
    (project / "agent.py").read_text()
    list(project.iterdir())
    assert not listener.wait(0.2, wakeup)
    (project / "agent.py").write_text("other")
    assert listener.wait(PATIENCE, wakeup) == {str(project / "agent.py")}
    listener.close()
    wakeup.close()


@linux
async def test_an_idle_watcher_only_wakes_for_scans(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    wait = InotifyListener.wait

    def note_wait(self: InotifyListener, seconds: float, wakeup: Wakeup) -> frozenset[str]:
        waits.append(seconds)
        return wait(self, seconds, wakeup)

    monkeypatch.setattr(InotifyListener, "wait", note_wait)
    async with watch_folders(project):
        await wait_until(lambda: len(waits) >= 2)

    assert min(waits[:2]) > 1.5, "scans are 2 seconds apart, or more"


@linux
async def test_other_files_beside_a_dependency_outside_of_the_project_cause_no_scans(
    tmp_path: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_watcher.Observer, "_compute_interval", lambda _: 1e6)  # no scan is due
    scans: list[float] = []
    scan = Scanner.scan

    def note_scan(self: Scanner, folders: Folders | None = None) -> frozenset[str]:
        scans.append(time.monotonic())
        return scan(self, folders)

    make_files(tmp_path, "shared/used.md")
    async with watch_folders(project) as eyes:
        await eyes.watcher.add([tmp_path / "shared/used.md", tmp_path / "shared/missing.md"])
        await eyes.settle()
        await asyncio.sleep(1.0)  # for the scan after the events so far
        monkeypatch.setattr(Scanner, "scan", note_scan)
        for number in range(20):
            (tmp_path / f"shared/other{number}").write_text("")
            await asyncio.sleep(0.02)
        await asyncio.sleep(2 * file_watcher._CHECK)
        assert not scans

        (tmp_path / "shared/missing.md").write_text("")
        await eyes.see(tmp_path / "shared/missing.md")
        await wait_until(lambda: scans)


@linux
async def test_a_request_ends_the_waiting_for_events(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_watcher.Observer, "_compute_interval", lambda _: 1e6)  # no scan is due
    async with watch_folders(project) as eyes:
        for number in range(20):
            await eyes.watcher.add([project.parent / f"other{number}.md"])


def test_importing_the_watcher_loads_no_heavy_modules() -> None:
    assert not find_loaded_packages("import workbench.watch.file_watcher") & {
        "watchfiles",
        "anyio",
        "pathspec",
        "textual",
        "pydantic",
    }
