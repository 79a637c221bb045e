"""The watcher in trouble: Git operations, failing events and unreadable folders. It misses no change."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.watch.eyes import PATIENCE, save_by_renaming, watch_folders
from tests.watch.file_watcher.conftest import linux
from tests.watch.scanned import make_files
from workbench.watch import file_watcher
from workbench.watch.file_watcher import EventsLost, Wakeup, Watcher, WatchfilesListener, listen
from workbench.watch.folder_scanner import Folders


def git(folder: Path, *arguments: str) -> None:
    names = {f"GIT_{role}_{field}": "a@b.c" for role in ("AUTHOR", "COMMITTER") for field in ("NAME", "EMAIL")}
    environment = {**os.environ, **names, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    command = ["git", "-c", "protocol.file.allow=always", *arguments]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, env=environment)


@pytest.fixture
def repository(tmp_path: Path, original_repository: Path) -> Path:
    """A repository with two branches: 300 files differ, and 30 folders exist only in the second."""
    return shutil.copytree(original_repository, tmp_path / "repository")


@pytest.fixture(scope="module")
def original_repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = make_files(
        tmp_path_factory.mktemp("original") / "repository", *(f"d{number % 10}/f{number}.py" for number in range(300))
    )
    git(root, "init", "-q", "-b", "main")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "one")
    git(root, "checkout", "-qb", "other")
    for path in root.glob("d*/*.py"):
        path.write_text("other")
    make_files(root, *(f"new{number}/deep/x.py" for number in range(30)))
    git(root, "add", "-A")
    git(root, "commit", "-qm", "two")
    git(root, "checkout", "-q", "main")
    return root


def list_changed_files(root: Path) -> list[Path]:
    changed = [root / f"d{number % 10}/f{number}.py" for number in range(300)]
    return changed + [root / f"new{number}/deep/x.py" for number in range(30)]


async def test_a_checkout_is_reported_completely(repository: Path, scan: bool) -> None:
    async with watch_folders(repository, scan=scan) as eyes:
        for branch in ("other", "main", "other"):
            await asyncio.to_thread(git, repository, "checkout", "-q", branch)
            await eyes.see_all(list_changed_files(repository))
            await eyes.settle()


@pytest.mark.parametrize("kind", ["repository", "folder in it", "worktree", "submodule"])
async def test_nothing_is_reported_while_git_changes_files(
    tmp_path: Path, repository: Path, scan: bool, kind: str
) -> None:
    work_tree, lock = repository, repository / ".git/index.lock"
    if kind == "worktree":
        work_tree, lock = tmp_path / "tree", repository / ".git/worktrees/tree/index.lock"
        git(repository, "worktree", "add", "-q", str(work_tree), "other")
    if kind == "submodule":
        outer = make_files(tmp_path / "outer", "x.py")
        git(outer, "init", "-q")
        git(outer, "submodule", "add", "-q", str(repository), "sub")
        work_tree, lock = outer / "sub", outer / ".git/modules/sub/index.lock"
    assert lock.parent.is_dir()
    root = {"folder in it": work_tree / "d1", "submodule": work_tree.parent}.get(kind, work_tree)
    path = work_tree / "d1/f1.py"
    async with watch_folders(root, scan=scan) as eyes:
        lock.write_text("")
        locked_at = time.monotonic()
        path.write_text("half-way")
        await asyncio.sleep(0.5)
        assert not eyes.changes or time.monotonic() - locked_at > file_watcher._LOCKED
        make_files(work_tree, "d1/new/x.py")
        lock.unlink()

        await eyes.see(path, work_tree / "d1/new/x.py")
        assert len(eyes.changes) == 1


async def test_an_abandoned_git_lock_delays_changes_only_briefly(
    repository: Path, scan: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_watcher, "_LOCKED", 0.5)
    async with watch_folders(repository, scan=scan) as eyes:
        locked_at = time.monotonic()
        (repository / ".git/index.lock").write_text("")
        (repository / "d1/f1.py").write_text("held")
        await eyes.see(repository / "d1/f1.py")
        assert locked_at + 0.5 <= time.monotonic()

        monkeypatch.setattr(file_watcher, "_LOCKED", 1000.0)
        for number in range(3):
            eyes.forget()
            (repository / "d1/f1.py").write_text(f"at once {number}")
            await eyes.see(repository / "d1/f1.py")


async def test_a_stash_and_a_rebase_are_reported_completely(repository: Path) -> None:
    async with watch_folders(repository) as eyes:
        make_files(repository, "mine.py")
        git(repository, "add", "-A")
        git(repository, "commit", "-qm", "mine")
        await eyes.see(repository / "mine.py")
        await eyes.settle()
        (repository / "d1/f1.py").write_text("a change of my own")
        await eyes.see(repository / "d1/f1.py")
        eyes.forget()
        git(repository, "stash")
        await eyes.see(repository / "d1/f1.py")
        await eyes.settle()
        await asyncio.to_thread(git, repository, "rebase", "-q", "other")
        await eyes.see_all(list_changed_files(repository))


@pytest.fixture
def noise(tmp_path: Path) -> Iterator[Path]:
    """A project with a thread that keeps writing to excluded files."""
    project = make_files(tmp_path / "project", "agent.py", ".venv/lib/x.py", "node_modules/p/x.js", ".gitignore")
    (project / ".gitignore").write_text("*.log\n")
    stop = threading.Event()

    def write() -> None:
        number = 0
        while not stop.wait(0.001):
            number = (number + 1) % 1000
            (project / f".venv/lib/n{number}.py").write_text(str(number))
            (project / f"node_modules/p/n{number}.js").write_text(str(number))
            (project / "agent.log").write_text(str(number))

    thread = threading.Thread(target=write)
    thread.start()
    yield project
    stop.set()
    thread.join()


async def test_busy_excluded_files_delay_no_report(noise: Path) -> None:
    durations = []
    async with watch_folders(noise) as eyes:
        for number in range(20):
            await asyncio.sleep(0.05)
            eyes.forget()
            began_at = time.monotonic()
            save_by_renaming(noise / "agent.py", str(number))
            await eyes.see(noise / "agent.py")
            durations.append(time.monotonic() - began_at)
        assert eyes.paths == {noise / "agent.py"}
    assert sorted(durations)[len(durations) // 2] < 0.3, "the median; about 0.035 on an idle machine"


async def test_the_watcher_scans_and_gives_the_reason_at_the_limit_of_watches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = make_files(tmp_path / "project", "agent.py", "a/b.py")
    original = file_watcher.listen
    limit = [OSError(24, "OS file watch limit reached.")]

    def listen(folders: dict[str, object]) -> file_watcher.FolderListener:
        if limit:
            raise file_watcher.EventsUnavailable(file_watcher._explain_failure(limit[0]))
        return original(folders)

    monkeypatch.setattr(file_watcher, "listen", listen)
    monkeypatch.setattr(file_watcher, "_AGAIN", 0.5)
    async with watch_folders(project) as eyes:
        assert eyes.watcher.status.mode == "scanning"
        assert "max_user_watches" in eyes.watcher.status.reason
        make_files(project, "new/deep/x.py")
        save_by_renaming(project / "agent.py", "other")
        await eyes.see(project / "new/deep/x.py", project / "agent.py")

        limit.clear()
        await eyes.wait_until(lambda: eyes.watcher.status.mode == "events", "events are tried again")
        eyes.forget()
        save_by_renaming(project / "agent.py", "more")
        await eyes.see(project / "agent.py")


@pytest.mark.skipif(sys.platform != "linux", reason="inotify")
@pytest.mark.parametrize("fault", [OSError("Dynamic loading not supported"), AttributeError("inotify_init1")])
def test_a_system_library_that_cannot_be_called_means_no_events(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise fault

    monkeypatch.setattr("ctypes.CDLL", refuse)

    with pytest.raises(file_watcher.EventsUnavailable, match=str(fault)):
        file_watcher.listen([str(tmp_path)])


@pytest.mark.skipif(sys.platform != "linux", reason="inotify")
def test_a_system_that_permits_no_watch_means_no_events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Library:
        inotify_init1 = staticmethod(lambda _: os.memfd_create("inotify"))
        inotify_add_watch = staticmethod(lambda *_: -1)

    monkeypatch.setattr("ctypes.CDLL", lambda *_, **__: Library)
    monkeypatch.setattr("ctypes.get_errno", lambda: errno.EACCES)

    with pytest.raises(file_watcher.EventsUnavailable, match="Permission denied"):
        file_watcher.listen([str(tmp_path)])


def test_a_real_limit_of_open_files_is_recognised(tmp_path: Path) -> None:
    """Use the limit of a separate process, as the limit of the system is shared."""
    code = (
        "import resource, sys\n"
        "from workbench.watch.file_watcher import *\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))\n"
        "taken = []\n"
        "try:\n"
        "    while len(taken) < 100: taken.append(listen([sys.argv[1]]))\n"
        "except EventsUnavailable as reason: print(reason)\n"
    )
    process = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True, check=True)
    assert "limit of watched folders is reached" in process.stdout


def test_a_real_limit_of_folders_is_recognised(tmp_path: Path) -> None:
    """Use the limit of a separate user namespace."""
    folders = [make_files(tmp_path / str(number), "a") for number in range(8)]
    code = "import sys\nfrom workbench.watch.file_watcher import listen\nlisten(sys.argv[1:])"
    command = 'echo 5 > /proc/sys/user/max_inotify_watches && echo limited && exec "$@"'
    try:
        process = subprocess.run(
            ["unshare", "-Ur", "sh", "-c", command, "sh", sys.executable, "-c", code, *folders],
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError:
        pytest.skip("needs unshare")
    if "limited" not in process.stdout:
        pytest.skip("needs user namespaces")
    assert "limit of watched folders is reached" in process.stderr


async def test_a_scan_finds_changes_whose_events_were_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Deaf(WatchfilesListener):
        def wait(self, seconds: float, wakeup: Wakeup) -> frozenset[str]:
            wakeup.wait(seconds)
            return frozenset()

    monkeypatch.setattr(file_watcher, "listen", Deaf)
    project = make_files(tmp_path / "project", "agent.py", "a/b.py")
    async with watch_folders(project) as eyes:
        assert eyes.watcher.status.mode == "events"
        save_by_renaming(project / "a/b.py", "other")
        make_files(project, "new/x.py")
        await eyes.see(project / "a/b.py", project / "new/x.py")


@linux
def test_more_events_than_the_system_stores_are_an_error(tmp_path: Path) -> None:
    most = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    listener, wakeup = listen([str(tmp_path)]), Wakeup()
    for number in range(most // 2 + 1):
        (tmp_path / f"f{number % 100}").unlink(missing_ok=True)
        (tmp_path / f"f{number % 100}").touch()
    with pytest.raises(EventsLost):  # after the events that were stored
        while listener.wait(0.1, wakeup):
            pass

    (tmp_path / "later").touch()
    assert str(tmp_path / "later") in listener.wait(1.0, wakeup)
    listener.close()
    wakeup.close()


async def test_an_error_of_file_events_reports_a_change_of_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_watcher, "listen", WatchfilesListener)
    project = make_files(tmp_path / "project", "agent.py", "a/b.py")
    async with watch_folders(project) as eyes:
        Path(os.fsdecode(os.fsencode(project) + b"/caf\xe9.txt")).write_text("its name cannot be told")
        await eyes.wait_until(lambda: eyes.has_full_change, "an error")
        assert all(not change.paths for change in eyes.changes if change.everything)
        eyes.forget()
        save_by_renaming(project / "a/b.py", "other")
        await eyes.see(project / "a/b.py")


async def test_repeated_event_errors_make_the_watcher_scan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_watcher, "listen", WatchfilesListener)
    project = make_files(tmp_path / "project", "agent.py")
    async with watch_folders(project) as eyes:
        deadline = time.monotonic() + PATIENCE
        while eyes.watcher.status.mode == "events":
            assert time.monotonic() < deadline
            Path(os.fsdecode(os.fsencode(project) + b"/caf\xe9.txt")).write_text(str(time.monotonic()))
            await asyncio.sleep(0.05)
        assert "lost" in eyes.watcher.status.reason
        await eyes.settle()
        save_by_renaming(project / "agent.py", "other")
        await eyes.see(project / "agent.py")


async def test_a_folder_whose_name_is_not_unicode_is_watched(tmp_path: Path, scan: bool) -> None:
    project = make_files(tmp_path / "project", "agent.py")
    odd_folder = Path(os.fsdecode(os.fsencode(project) + b"/caf\xe9"))
    make_files(odd_folder, "x.py")
    async with watch_folders(project, scan=scan) as eyes:
        save_by_renaming(odd_folder / "x.py", "other")
        save_by_renaming(project / "agent.py", "other")
        await eyes.see(odd_folder / "x.py", project / "agent.py")


@pytest.mark.needs_permissions
async def test_an_unreadable_folder_is_watched_once_it_is_readable(tmp_path: Path, scan: bool) -> None:
    project = make_files(tmp_path / "project", "agent.py", "secret/x.py")
    (project / "secret").chmod(0)
    try:
        async with watch_folders(project, scan=scan) as eyes:
            save_by_renaming(project / "agent.py", "other")
            await eyes.see(project / "agent.py")
            (project / "secret").chmod(0o700)
            await eyes.see(project / "secret/x.py")
            await eyes.settle()
            (project / "secret/x.py").write_text("other")
            await eyes.see(project / "secret/x.py")
    finally:
        (project / "secret").chmod(0o700)


async def test_network_drives_are_scanned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = make_files(tmp_path / "project", "agent.py")
    monkeypatch.setattr(file_watcher, "find_silent_devices", lambda: {project.stat().st_dev: "nfs4"})
    async with Watcher(Folders(project)) as watcher:
        assert watcher.status.mode == "scanning"
        assert watcher.status.reason == f"nfs4 sends no events: {project}"


def test_silent_file_systems_are_found_in_the_list_of_mounts(monkeypatch: pytest.MonkeyPatch) -> None:
    mounts = (
        "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
        "90 22 0:52 / /mnt/c rw,noatime - 9p drvfs rw,dirsync\n"
        "91 22 0:53 / /mnt/with\\040space rw - fuse.sshfs me@there: rw\n"
        "92 22 0:54 / /home/me rw shared:5 master:2 - nfs4 server:/home rw\n"
        "93 22 8:17 / /media/stick rw - fuseblk /dev/sdb1 rw\n"
        "nonsense\n"
    )
    monkeypatch.setattr(Path, "read_text", lambda self, **_: mounts)

    found = file_watcher.find_silent_devices()

    assert found == {os.makedev(0, 52): "9p", os.makedev(0, 53): "fuse.sshfs", os.makedev(0, 54): "nfs4"}


async def test_a_jump_of_the_wall_clock_hides_no_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = make_files(tmp_path / "project", "agent.py", "a/b.py")
    real_time = time.time
    async with watch_folders(project) as eyes:
        for jump in (-86_400, 86_400, 0):
            monkeypatch.setattr(time, "time", lambda jump=jump: real_time() + jump)
            path = project / "a/b.py"
            path.write_text(f"jump {jump}")
            os.utime(path, (real_time() + jump, real_time() + jump))
            await eyes.see(path)
            await eyes.settle()
