"""`WatchSession`: watches a project in turns with watches in other processes, and keeps every verdict current."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import stat
import sys
import time
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from datetime import date
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from workbench.agents.installed_libraries import InstalledLibraries, parse_packages
from workbench.agents.worker.recording.fingerprints import LIBRARIES
from workbench.engine.plan import Plan, PlannedCase, RunOptions, Selection
from workbench.engine.run import Run
from workbench.engine.verdict_index import Verdicts
from workbench.engine.workspace import Workspace
from workbench.model.identity import DependencyKind, JobKey
from workbench.model.run_events import Notice, RunEvent
from workbench.store.errors import StoreError
from workbench.store.files import PRIVATE
from workbench.store.history.history_schema import get_history_path, make_history_folder
from workbench.watch.file_watcher import FileChange, Watcher, WatchStatus
from workbench.watch.folder_scanner import Folders
from workbench.watch.library_watcher import LibraryWatcher
from workbench.watch.scheduler import ActiveJobs, DecisionService, ManualRuns, OffLoop, Scheduler
from workbench.watch.selector import Decision, VerdictKey, get_path, make_snapshot
from workbench.watch.snapshot import Snapshot
from workbench.watch.watch_events import WatchEvent, WatchReporter, WatchStarted
from workbench.watch.watch_plan import WatchPlanner

# Turns of watches of one project in several processes, so that no watch runs cases that another has just run.

_FILE_NAME = "watch.lock"


class WatchTurn(Enum):
    """The result of a request for a turn."""

    OTHERS = "others"  # another process has the turn
    MINE = "mine"  # no other process had a turn since the last one of this watch
    MINE_AGAIN = "mine again"  # other processes had a turn since then and may have stored verdicts


class WatchTurns:
    """The turns of one watch; they end with its process. Several at once count as one turn for other processes."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._path = get_history_path(root).with_name(_FILE_NAME)
        self._held: int | None = None
        self._count = 0
        self._mark = self._read_mark()

    def acquire(self) -> WatchTurn:
        """Take a turn unless another process has it. Without locks in the file system, other processes are ignored."""
        if self._held is None:
            if sys.platform == "win32":
                return WatchTurn.MINE
            try:
                make_history_folder(self._root)  # before the first run of the project, too
                self._held = os.open(self._path, os.O_RDWR | os.O_CREAT, PRIVATE)
            except (OSError, StoreError):
                return WatchTurn.MINE
            if not _lock(self._held):
                self._close()
                return WatchTurn.OTHERS
        self._count += 1
        return self._sign(self._held)

    def release(self) -> None:
        """End a turn."""
        self._count = max(0, self._count - 1)
        if not self._count:
            self._close()

    def close(self) -> None:
        """End all turns."""
        self._count = 0
        self._close()

    def _read_mark(self) -> bytes:
        try:
            return self._path.read_bytes()
        except OSError:
            return b""

    def _sign(self, file: int) -> WatchTurn:
        """Write a mark, and check whether the previous one is of another process."""
        with contextlib.suppress(OSError):
            before = os.pread(file, 64, 0)
            is_mine, self._mark = before in (b"", self._mark), secrets.token_hex(8).encode()
            os.pwrite(file, self._mark, 0)
            return WatchTurn.MINE if is_mine else WatchTurn.MINE_AGAIN
        return WatchTurn.MINE_AGAIN

    def _close(self) -> None:
        if self._held is not None:
            os.close(self._held)
            self._held = None


def _lock(file: int) -> bool:
    """Lock a file until it is closed. Return False if it is locked; True without locks in the file system."""
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


# Files and folders to watch besides those of the project.

_LOOKUP_KINDS = frozenset({DependencyKind.FOLDER, DependencyKind.IMPORT})  # depend on names only
_LISTING_KINDS = _LOOKUP_KINDS | {DependencyKind.INSTALLED, DependencyKind.TREE}  # depend on the names in a folder
_SOURCE = frozenset({".py", ".toml", ".yaml", ".yml"})


class WatchedSources:
    """Has the watchers watch the dependencies of cases and the files of the plan, wherever they are."""

    def __init__(self, watcher: Watcher, libraries: InstalledLibraries, verdicts: Verdicts, *, root: Path) -> None:
        self._watcher = watcher
        self._libraries = LibraryWatcher(
            libraries, report=watcher.send_change, is_installing=lambda: watcher.is_installing
        )
        self._verdicts = verdicts
        self._root = root
        self._rows_watched = 0
        self._used: set[Path] = set()
        self._trees: set[Path] = set()
        self._plan_files: frozenset[Path] = frozenset()

    async def watch_dependencies(self) -> bool:
        """Watch dependencies recorded since the last call.

        Return True if there are any: they may have changed since the cases used them.
        """
        first, self._rows_watched = self._rows_watched, self._verdicts.row_count
        rows = [self._verdicts.row(number) for number in range(first, self._rows_watched)]
        self._trees.update(Path(row.key) for row in rows if row.kind == DependencyKind.TREE)
        self._libraries.add(
            package for row in rows if row.kind == DependencyKind.LIBRARIES for package in parse_packages(row)
        )
        paths = {Path(path) for row in rows if (path := get_path(row))}
        if paths:
            self._used.update(Path(get_path(row)) for row in rows if row.kind not in _LOOKUP_KINDS)
            await self._watcher.add(paths, listed=[Path(get_path(row)) for row in rows if row.kind in _LISTING_KINDS])
        return bool(paths)

    async def watch_sources(self, sources: Iterable[str]) -> None:
        """Watch sources that no case has recorded; see `Selector.added_sources`."""
        new = set(map(Path, sources)) - self._used
        if new:
            self._used.update(new)
            await self._watcher.add(new, listed=[path.parent for path in new])

    def stop(self) -> None:
        """Stop watching installed libraries. The other watcher belongs to the caller."""
        self._libraries.stop()

    def is_used(self, change: FileChange) -> bool:
        """Return True if any path of a change is source, or was ever used by a case or the plan."""
        if change.everything or not self._used.union(self._plan_files).isdisjoint(change.paths):
            return True
        return any(
            path.suffix in _SOURCE
            or path.name == ".env"
            or not LIBRARIES.isdisjoint(path.parts)
            or not self._trees.isdisjoint(path.parents)
            for path in change.paths
        )

    async def watch_plan_files(self, files: frozenset[Path]) -> bool:
        """Watch the files of a plan. Return True if one may have changed unnoticed since the plan was made."""
        new, self._plan_files = files - self._plan_files, files
        if new:
            await self._watcher.add(new)
        return any(not file.is_relative_to(self._root) for file in new)


# Files that receive our own output: writing to them must not count as a change.

_STREAMS = (1, 2)


class FileId(NamedTuple):
    """Identifies a file whatever its name."""

    device: int
    inode: int


def find_output_files() -> frozenset[FileId]:
    """Return the files that standard output and error lead to, directly or (on Linux) through a pipe to `tee`."""
    found: set[FileId] = set()
    for stream in _STREAMS:
        with contextlib.suppress(OSError):
            status = os.fstat(stream)
            if stat.S_ISREG(status.st_mode):
                found.add(_identify_file(status))
            elif stat.S_ISFIFO(status.st_mode):
                found.update(_find_reader_outputs(_identify_file(status)))
    return frozenset(found)


def is_output_file(path: Path, outputs: frozenset[FileId]) -> bool:
    """Return True if a path leads to one of these files."""
    if not outputs:
        return False
    with contextlib.suppress(OSError):
        return _identify_file(path.stat()) in outputs
    return False


def _find_reader_outputs(pipe: FileId) -> Iterator[FileId]:
    """Yield the files that other processes with this pipe as standard input write."""
    for descriptors in Path("/proc").glob("[0-9]*/fd"):
        if descriptors.parent.name == str(os.getpid()):
            continue
        with contextlib.suppress(OSError):  # a process of another user, or one that has ended
            if _identify_file((descriptors / "0").stat()) == pipe:
                yield from _find_written_files(descriptors)


def _find_written_files(descriptors: Path) -> Iterator[FileId]:
    for descriptor in descriptors.iterdir():
        with contextlib.suppress(OSError):
            status = descriptor.stat()
            may_write = descriptor.lstat().st_mode & stat.S_IWUSR
            if stat.S_ISREG(status.st_mode) and may_write:
                yield _identify_file(status)


def _identify_file(status: os.stat_result) -> FileId:
    return FileId(status.st_dev, status.st_ino)


# The session: changes come in, events go out.

_BATCH_DELAY = 0.01  # seconds in which reruns are collected for one run
_TURN_INTERVAL = 0.1  # seconds between two checks whether another watch still runs cases
_DAY_CHECK_INTERVAL = 30.0  # seconds between two looks at the date
_HISTORY_CHECK_INTERVAL = 2.0  # seconds between two looks at the stored results of other programs


class WatchSession:
    """One watch of one selection of cases. All methods belong on one event loop; `events` has one listener.

    Everything slow goes through `off_loop`, one call at a time.
    """

    def __init__(
        self,
        workspace: Workspace,
        select: Callable[[Workspace], Sequence[Selection]],
        options: RunOptions,
        *,
        off_loop: OffLoop,
        catches_up: bool = True,
        priority: Callable[[JobKey], float] = lambda _: 0,
    ) -> None:
        """`select` returns the cases to watch, each time the project was read again.

        With `catches_up`, cases without a current verdict run at the start, otherwise only if a change affects them.
        Jobs that did not pass last time start first, then those with the smallest `priority`. Raises StoreError if the
        history cannot be read.
        """
        verdicts = workspace.verdicts
        snapshot = make_snapshot(workspace)
        self._workspace = workspace
        self._off_loop = off_loop
        self._catches_up = catches_up
        self._watcher = Watcher(Folders.from_targets(workspace.root, workspace.project.targets.values()))
        self._sources = WatchedSources(self._watcher, workspace.libraries, verdicts, root=workspace.root)
        self._planner = WatchPlanner(workspace, select, options)
        self._active = ActiveJobs()
        self._reporter = WatchReporter(workspace.root, snapshot)
        self._decisions = DecisionService(
            verdicts, snapshot, self._active, shown=self._reporter.shown, rejects_replays=options.rejects_replays
        )
        self._scheduler = Scheduler(
            workspace,
            self._planner,
            self._decisions,
            self._active,
            self._reporter,
            off_loop=off_loop,
            priority=priority,
            rerun=self._rerun_soon,
            rerun_when_quiet=lambda job: self._run_task(self._rerun_postponed(job)),
        )
        self._manual_runs = ManualRuns(
            self._decisions,
            self._active,
            self._reporter,
            off_loop=off_loop,
            rerun=self._rerun_soon,
            suppress_unanswered=self._scheduler.suppress_unanswered,
        )
        self._turns = WatchTurns(workspace.root)
        self._has_reported_other_watch = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._to_rerun: list[JobKey] = []
        self._changed_at = 0.0  # monotonic
        self._is_paused = False
        self._is_root_missing = False
        self._output_files: frozenset[FileId] = frozenset()
        self._pending: FileChange | None = None  # while paused
        self._lock = asyncio.Lock()  # held while decisions become runs

    async def events(self) -> AsyncIterator[WatchEvent]:
        """Watch until the listener stops listening; then cancel all runs of the watch."""
        watching = asyncio.create_task(self._watch())
        watching.add_done_callback(lambda _: self._reporter.close())
        try:
            async for event in self._reporter.events():
                yield event
            await watching
        finally:
            watching.cancel()
            self._sources.stop()
            self._active.cancel_all()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(watching, *self._tasks, return_exceptions=True)
            self._turns.close()

    @property
    def plan(self) -> Plan:
        """All that the watch may run, from the event `WatchStarted` on."""
        return self._planner.make_run_plan("")

    def pause(self) -> None:
        """Start no runs until `resume`. Active runs continue, and decisions are still reported."""
        self._is_paused = True

    def resume(self) -> None:
        """Start runs again, first those for the changes since `pause`."""
        self._is_paused = False
        change, self._pending = self._pending, None
        if change is not None:
            self._run_task(self._process(change))
        if self._to_rerun:
            self._run_task(self._rerun_collected())

    @property
    def is_paused(self) -> bool:
        """Whether runs wait for `resume`."""
        return self._is_paused

    @property
    def files(self) -> int:
        """The number of watched files. Needs a watch that has started."""
        return self._watcher.status.files

    @property
    def state(self) -> Snapshot:
        """The present state of files, for reasons in words."""
        return self._decisions.snapshot

    def decide_unplanned(
        self, jobs: Mapping[JobKey, PlannedCase], shown: Mapping[JobKey, VerdictKey]
    ) -> Sequence[Decision]:
        """As `DecisionService.decide_unplanned`. Belongs on the thread of the workspace."""
        return self._decisions.decide_unplanned(jobs, shown)

    def run_held(self) -> None:
        """Run the jobs that exceed the limits for one change, see `[watch]` in the settings."""
        self._run_task(self._run_held())

    def note_shown(self, verdicts: Mapping[JobKey, str]) -> None:
        """Note which verdicts the listener shows, by their run ids. Only different ones are reported as reused."""
        self._reporter.shown.update((job, VerdictKey(run_id, job)) for job, run_id in verdicts.items())

    def note_run(self, run: Run, jobs: Iterable[JobKey]) -> None:
        """Note that a manual run is in progress, and that these jobs of it have not started.

        Such jobs will run on the files of that time. Jobs of the watch that also wait are left to the manual run.
        """
        waiting = frozenset(jobs)
        self._active.note_generation(run.run_id, waiting)
        self._manual_runs.add(run, waiting)
        self._run_task(self._leave_to_manual_runs(waiting))

    def note_events(self, run_id: str, events: Sequence[RunEvent]) -> None:
        """Note new events of a manual run."""
        self._run_task(self._process_manual_events(run_id, events))

    def refresh_verdicts(self) -> None:
        """Report new decisions because a manual run stored verdicts. Starts no run."""
        self._run_task(self._refresh_verdicts())

    async def _watch(self) -> None:
        async with self._watcher as watcher:  # before anything is read, so that no save is missed
            self._output_files = await self._off_loop(find_output_files)
            await self._update_plan()
            await self._sources.watch_dependencies()
            status = watcher.status
            self._reporter.report(
                WatchStarted(
                    total=len(self._decisions.jobs),
                    files=status.files,
                    folders=status.folders,
                    mode=status.mode,
                    reason=status.reason,
                )
            )
            watcher.on_mode_changed = self._report_mode
            await self._prepare_agents()
            await self._process(None)
            self._run_task(self._watch_days())
            self._run_task(self._watch_history())
            async for change in watcher.changes():
                await self._on_change(change)

    async def _watch_days(self) -> None:
        """Report quarantines that end with a day: no save follows then."""
        day = date.today()
        while True:
            await asyncio.sleep(_DAY_CHECK_INTERVAL)  # not until midnight: clocks are set, and machines sleep
            if date.today() != day and not self._is_root_missing:
                day = date.today()
                await self._report_quarantines()

    async def _watch_history(self) -> None:
        """Report verdicts that other programs store, such as a run in another terminal."""
        while True:
            await asyncio.sleep(_HISTORY_CHECK_INTERVAL)
            if self._active or self._manual_runs or self._is_root_missing:  # the next look finds them
                continue
            if await self._off_loop(self._workspace.look_for_new_verdicts):
                await self._refresh_verdicts()
                await self._settle()

    async def _report_quarantines(self) -> None:
        async with self._lock:
            decisions = await self._off_loop(self._decisions.decide_all)
            self._reporter.note_quarantines(decisions)
            self._reporter.report_decisions(decisions, (), held=self._scheduler.held)
            for message in self._reporter.take_changed_quarantines():
                self._reporter.report(Notice(severity="warning", message=message))
            await self._scheduler.report_reused(decisions)
        await self._settle()

    def _report_mode(self, status: WatchStatus) -> None:
        message = "file events are available again"
        if status.mode == "scanning":
            message = f"no file events; all files are compared every few seconds instead: {status.reason}"
        self._reporter.report(
            Notice(severity="warning" if status.mode == "scanning" else "information", message=message)
        )

    async def _on_change(self, change: FileChange) -> None:
        was_missing, self._is_root_missing = (
            self._is_root_missing,
            not await self._off_loop(self._workspace.root.is_dir),
        )
        if self._is_root_missing:
            if not was_missing:
                message = f"{self._workspace.root} no longer exists; the watch continues when it is back"
                self._reporter.report(Notice(severity="warning", message=message))
            return
        if was_missing:
            change = change.merge(FileChange(frozenset(), True, change.at))
        if change.everything or any(path.name in LIBRARIES for path in change.paths):
            self._workspace.libraries.forget()
        change = await self._off_loop(
            lambda: change.exclude_paths(lambda path: is_output_file(path, self._output_files))
        )
        if await self._off_loop(lambda: self._decisions.is_self_inflicted(change)):
            return
        self._changed_at = time.monotonic()
        self._active.start_generation()
        self._scheduler.note_change(change.paths, await self._off_loop(lambda: change.last_write_time))
        if await self._off_loop(lambda: self._planner.is_affected(change)):
            await self._update_plan(change.paths)
        await self._process(change)
        if any(path.name.startswith(".env") for path in change.paths):  # libraries are imported anew
            await self._prepare_agents()

    async def _prepare_agents(self) -> None:
        await self._off_loop(lambda: self._workspace.prepare_agents(self.plan))

    async def _update_plan(self, saved: Collection[Path] = ()) -> None:
        plan, problems = await self._off_loop(lambda: self._planner.plan(saved))
        await self._watcher.replace(
            Folders.from_targets(self._workspace.root, self._workspace.project.targets.values())
        )
        if await self._sources.watch_plan_files(self._planner.files):
            plan, more = await self._off_loop(self._planner.plan)
            problems += more
        self._reporter.problems += problems
        self._decisions.jobs = dict(plan.jobs)
        self._reporter.forget_other_jobs(self._decisions.jobs)

    async def _process(self, change: FileChange | None) -> None:
        """Decide on every job, and start the runs that follow. Without a change this is the start of the watch."""
        removed = () if change is None else await self._off_loop(change.find_removed)
        async with self._lock:
            decisions = await self._off_loop(self._decisions.decide_all)
            await self._sources.watch_sources(self._decisions.selector.added_sources)
            is_paused = self._is_paused
            cancelled = set() if is_paused else self._scheduler.cancel_outdated(decisions)
            if change is None and not self._catches_up:
                self._scheduler.suppress(decisions)
            work = self._scheduler.select_work(decisions, retries=change is None)
            if change is not None:
                work = self._scheduler.drop_self_inflicted(work, cancelled)
            saved_at = None if change is None else change.at
            self._manual_runs.expect_only(each.job for each in work)
            self._reporter.note_quarantines(decisions)
            uncovered = self._manual_runs.drop_covered(work, saved_at=saved_at)
            held = "" if change is None or is_paused else self._scheduler.hold_excess(uncovered)
            self._reporter.report_decisions(decisions, work, held=self._scheduler.held)
            if is_paused and change is not None:
                self._pending = change if self._pending is None else self._pending.merge(change)
            elif change is not None:
                is_used = self._sources.is_used(change)
                all_work = self._scheduler.add_delayed(work, decisions)
                self._reporter.report_change(change, decisions, all_work, removed=removed, held=held, is_used=is_used)
            self._reporter.report_problems(decisions)
            await self._scheduler.report_reused(decisions)
            if not is_paused:
                await self._start([each for each in uncovered if each.job not in self._scheduler.held], saved_at)
        await self._settle()

    async def _run_held(self) -> None:
        async with self._lock:
            held = [job for job in self._scheduler.held if job not in self._active]
            self._scheduler.held.clear()
            decisions = await self._off_loop(lambda: self._decisions.decide(held))
            await self._start(self._drop_covered(self._scheduler.select_forced(decisions)))

    async def _refresh_verdicts(self) -> None:
        async with self._lock:
            decisions = await self._off_loop(lambda: self._decisions.decide_all(prefers_shown=False))
            self._scheduler.suppress_unanswered(decisions)
            self._reporter.report_decisions(decisions, (), held=self._scheduler.held)
            await self._scheduler.report_reused(decisions)

    async def _start(self, decisions: Sequence[Decision], saved_at: float | None = None) -> None:
        """Start a run of these decisions, if any. Needs the lock."""
        decisions = await self._acquire_turn(decisions) if decisions else ()
        if not decisions:
            return
        run = await self._scheduler.start(decisions, saved_at=saved_at)
        if run is not None:
            self._run_task(self._follow(run))
        else:
            self._turns.release()

    async def _acquire_turn(self, decisions: Sequence[Decision]) -> Sequence[Decision]:
        """Wait until no other watch of the project runs cases; return the work that remains then.

        If nothing remains, the turn is given back.
        """
        while (turn := await self._off_loop(self._turns.acquire)) is WatchTurn.OTHERS:
            if not self._has_reported_other_watch:
                self._has_reported_other_watch = True
                message = "another watch of this project is running cases; this one waits and reuses its verdicts"
                self._reporter.report(Notice(message=message))
            await asyncio.sleep(_TURN_INTERVAL)
        if turn is WatchTurn.MINE:
            return decisions
        await self._off_loop(self._workspace.read_new_verdicts)
        jobs = {each.job for each in decisions}
        decided = [each for each in await self._off_loop(self._decisions.decide_all) if each.job in jobs]
        await self._scheduler.report_reused(decided)
        remaining = self._scheduler.select_work(decided, retries=True)
        if not remaining:
            self._turns.release()
        return remaining

    def _run_task(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _follow(self, run: Run) -> None:
        try:
            await self._scheduler.follow(run)
        finally:
            self._turns.release()
        await self._sources.watch_dependencies()
        await self._settle()

    async def _leave_to_manual_runs(self, jobs: Iterable[JobKey]) -> None:
        """Cancel jobs of the watch that have not started and that a manual run covers."""
        async with self._lock:
            waiting = [job for job in jobs if self._active.is_waiting(job)]
            decisions = await self._off_loop(lambda: self._decisions.decide(waiting))
            for each in decisions:
                active = self._active.get(each.job)
                if active is not None and not self._manual_runs.drop_covered([each], saved_at=active.saved_at):
                    active.run.cancel(each.job)
                    self._active.remove(each.job)

    async def _process_manual_events(self, run_id: str, events: Sequence[RunEvent]) -> None:
        expected_verdicts = bool(self._manual_runs)
        await self._manual_runs.process_events(run_id, events)
        if expected_verdicts and not self._manual_runs:
            await self._settle()

    def _rerun_soon(self, job: JobKey) -> None:
        if not self._to_rerun:
            self._run_task(self._rerun_collected())
        self._to_rerun.append(job)

    async def _rerun_postponed(self, job: JobKey) -> None:
        """Run a job that was stale after each run, when nothing has changed for a while."""
        while (quiet_at := self._scheduler.get_quiet_end(job, self._changed_at)) is not None:
            wait = quiet_at - time.monotonic()
            if wait > 0:
                await asyncio.sleep(wait)
            else:
                self._scheduler.take_postponed(job)
                self._rerun_soon(job)

    async def _rerun_collected(self) -> None:
        """Run jobs whose result is missing or stale; all that end within a moment go into one run."""
        await asyncio.sleep(_BATCH_DELAY)
        async with self._lock:
            if self._is_paused:
                return
            jobs, self._to_rerun = self._to_rerun, []
            if self._watcher.is_installing:  # the change that follows affects them
                return
            decisions = await self._off_loop(lambda: self._decisions.decide(jobs))
            await self._scheduler.report_reused(decisions)  # results that seemed stale may be current after all
            await self._start(self._drop_covered(self._scheduler.select_work(decisions, retries=False)))
        await self._settle()

    async def _settle(self) -> None:
        """Once nothing runs, decide again and report that the watch is idle.

        While agents run, what they write is not compared. This decision is the first that counts it.
        """
        if self._active or self._to_rerun or self._manual_runs or self._lock.locked() or self._watcher.is_installing:
            return
        if self._scheduler.has_postponed:
            return
        async with self._lock:
            decisions = await self._off_loop(self._decisions.decide_all)
            work = self._scheduler.select_work(decisions, retries=False)
            if not self._is_paused:
                work = [each for each in self._drop_covered(work) if self._scheduler.may_rerun(each)]
            if (work or self._manual_runs or self._scheduler.has_postponed) and not self._is_paused:
                await self._start(work)
                return
        self._reporter.report_decisions(decisions, work, held=self._scheduler.held)
        self._reporter.report_idle(decisions)

    def _drop_covered(self, work: Sequence[Decision]) -> list[Decision]:
        return self._manual_runs.drop_covered(work, saved_at=None)
