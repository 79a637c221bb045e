"""`WatchSession`: a project that is watched, from changes to verdicts."""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from workbench.agents.worker.recording.fingerprints import is_library_folder
from workbench.engine.plan import RunOptions, Selection
from workbench.engine.run import Run
from workbench.engine.verdict_index import Verdicts
from workbench.engine.workspace import Workspace
from workbench.model.identity import DependencyKind, JobKey
from workbench.model.run_events import Notice, RunEvent
from workbench.store.turns import Turn, Turns
from workbench.watch.file_watcher import Change, Watcher, WatchStatus
from workbench.watch.folder_scanner import Folders
from workbench.watch.scheduler import Deciding, Elsewhere, ElsewhereTold, Live, OffLoop, Runs, Work, show_stored
from workbench.watch.selector import Decision, Selector, VerdictKey, get_path
from workbench.watch.snapshot import Snapshot
from workbench.watch.watch_events import WatchEvent, WatchReporter, WatchStarted
from workbench.watch.watch_plan import WatchPlanner

# Has watched what cases are known to use and what their plan was made from, wherever it is.

_OF_NAMES = frozenset({DependencyKind.FOLDER, DependencyKind.IMPORT})  # another name there selects somebody or nobody
_SOURCE = frozenset({".py", ".toml", ".yaml", ".yml"})


class WatchedSources:
    """The files and folders that a watcher was told of beside its folders."""

    def __init__(self, watcher: Watcher, verdicts: Verdicts, *, root: Path) -> None:
        self._watcher = watcher
        self._verdicts = verdicts
        self._root = root
        self._rows_watched = 0
        self._used: set[Path] = set()
        self._trees: set[Path] = set()
        self._of_plan: frozenset[Path] = frozenset()

    async def watch_dependencies(self) -> bool:
        """Files and folders that cases depend on, as far as that has become known since the last time.

        Return True if there are any: they may have changed since the cases used them.
        """
        first, self._rows_watched = self._rows_watched, self._verdicts.row_count
        rows = [self._verdicts.row(number) for number in range(first, self._rows_watched)]
        self._trees.update(Path(row.key) for row in rows if row.kind == DependencyKind.TREE)
        paths = {Path(path) for row in rows if (path := get_path(row))}
        if paths:
            self._used.update(Path(get_path(row)) for row in rows if row.kind not in _OF_NAMES)
            await self._watcher.add(paths)
        return bool(paths)

    def is_used(self, change: Change) -> bool:
        """Whether anything of it is source, or has ever been used by a case or the plan."""
        if change.everything or not (self._used.isdisjoint(change.paths) and self._of_plan.isdisjoint(change.paths)):
            return True
        return any(
            path.suffix in _SOURCE or path.name == ".env" or not self._trees.isdisjoint(path.parents)
            for path in change.paths
        )

    async def watch_plan_files(self, files: frozenset[Path]) -> bool:
        """The files of a plan. Whether one of them may have changed since without anybody being told."""
        new, self._of_plan = files - self._of_plan, files
        if new:
            await self._watcher.add(new)
        return any(not file.is_relative_to(self._root) for file in new)


# The files that what we print goes to: a watch must not take its own lines for something that somebody saved.

_STREAMS = (1, 2)


class FileId(NamedTuple):
    """What tells a file from all others, whatever its name."""

    device: int
    inode: int


def find_output_files() -> frozenset[FileId]:
    """Files that standard output and error lead to: by themselves, or (on Linux) through a pipe, as into `tee`."""
    found: set[FileId] = set()
    for stream in _STREAMS:
        with contextlib.suppress(OSError):
            there = os.fstat(stream)
            if stat.S_ISREG(there.st_mode):
                found.add(_id_of(there))
            elif stat.S_ISFIFO(there.st_mode):
                found.update(_written_by_readers_of(_id_of(there)))
    return frozenset(found)


def is_output_file(path: Path, own: frozenset[FileId]) -> bool:
    """Whether a path leads to one of these files."""
    if not own:
        return False
    with contextlib.suppress(OSError):
        return _id_of(path.stat()) in own
    return False


def _written_by_readers_of(pipe: FileId) -> Iterator[FileId]:
    for descriptors in Path("/proc").glob("[0-9]*/fd"):
        if descriptors.parent.name == str(os.getpid()):
            continue
        with contextlib.suppress(OSError):  # of somebody else, or over by now
            if _id_of((descriptors / "0").stat()) == pipe:
                yield from _written_files(descriptors)


def _written_files(descriptors: Path) -> Iterator[FileId]:
    for descriptor in descriptors.iterdir():
        with contextlib.suppress(OSError):
            there = descriptor.stat()
            may_write = descriptor.lstat().st_mode & stat.S_IWUSR
            if stat.S_ISREG(there.st_mode) and may_write:
                yield _id_of(there)


def _id_of(there: os.stat_result) -> FileId:
    return FileId(there.st_dev, there.st_ino)


# Watch mode: keeps a verdict on how things are now for every case, and runs no more than that takes.

_MOMENT = 0.01  # seconds
_OTHERS_TURN = 0.1  # seconds until it is asked again whether another watch is still running cases


class WatchSession:
    """One watch over one plan. Used on one event loop; `events` is read by one listener.

    Whatever takes more than a moment goes through `off_loop`, one thing at a time.
    """

    def __init__(
        self,
        workspace: Workspace,
        planning: WatchPlanner,
        watcher: Watcher,
        *,
        off_loop: OffLoop,
        catches_up: bool,
        first: Callable[[JobKey], float] = lambda _: 0,
    ) -> None:
        """`first` sorts jobs that wait: the smallest come first, after those that did not pass last time.

        With `catches_up` cases without a verdict that holds run at the start; else only when a change concerns them.
        """
        self._off_loop = off_loop
        self._catches_up = catches_up
        self._workspace = workspace
        self._planning = planning
        self._watcher = watcher
        self._turns = Turns(workspace.root)
        self._has_told_of_others = False
        self._verdicts = workspace.verdicts
        self._state = Snapshot(leftovers=self._verdicts.leftovers)
        self._live = Live()
        self._selector = Selector(
            self._verdicts, self._state, is_current=self._live.is_current, is_busy=lambda: bool(self._live)
        )
        self._news = WatchReporter(workspace.root, self._state)
        self._work = Work(workspace, selector=self._selector, live=self._live, news=self._news, first=first)
        self._elsewhere = Elsewhere(self._selector)
        self._deciding = Deciding(self._selector, shown=self._news.shown)
        self._selecting = self._deciding.lock
        self._runs = Runs(
            workspace,
            planning,
            selector=self._selector,
            deciding=self._deciding,
            live=self._live,
            work=self._work,
            news=self._news,
            off_loop=off_loop,
            run_soon=self._run_soon,
        )
        self._elsewhere_told = ElsewhereTold(
            self._elsewhere, self._deciding, self._live, self._news, off_loop=off_loop, run_soon=self._run_soon
        )
        self._sources = WatchedSources(watcher, self._verdicts, root=workspace.root)
        self._tasks: set[asyncio.Task[None]] = set()
        self._overtaken: list[JobKey] = []
        self._is_paused = False
        self._is_gone = False  # the folder of the project
        self._own_output: frozenset[FileId] = frozenset()
        self._saved: Change | None = None  # while paused
        self._starting = asyncio.Lock()

    async def events(self) -> AsyncIterator[WatchEvent]:
        """Watch until the listener stops listening; what runs then is stopped."""
        watching = asyncio.create_task(self._watch())
        watching.add_done_callback(lambda _: self._news.end())
        try:
            async for event in self._news.events():
                yield event
            await watching
        finally:
            watching.cancel()
            self._live.cancel()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(watching, *self._tasks, return_exceptions=True)
            self._turns.close()

    def pause(self) -> None:
        """Run nothing because of changes until `resume`; what runs goes on. How cases stand is told all the same."""
        self._is_paused = True

    def resume(self) -> None:
        """Make up for what changed meanwhile."""
        self._is_paused = False
        change, self._saved = self._saved, None
        if change is not None:
            self._begin(self._catch_up(change))
        if self._overtaken:
            self._begin(self._run_again())

    @property
    def is_paused(self) -> bool:
        """Whether changes are waited with."""
        return self._is_paused

    @property
    def files(self) -> int:
        """How many files are watched. Needs a watch that has begun."""
        return self._watcher.status.files

    @property
    def state(self) -> Snapshot:
        """How things are, for reasons in words."""
        return self._state

    def run_held(self) -> None:
        """Run what a change concerned and was not run, because it was more than `[watch]` in the settings allows."""
        self._begin(self._run_held())

    def note_shown(self, verdicts: Mapping[JobKey, str]) -> None:
        """Whoever listens shows these verdicts, named by their runs: where others hold, those are told."""
        self._news.shown.update((job, VerdictKey(run_id, job)) for job, run_id in verdicts.items())

    def note_run(self, run: Run, jobs: Iterable[JobKey]) -> None:
        """A run that is none of this watch goes on, and these jobs of it begin from now on.

        What it will say is about how things are then. What waits in a run of the watch is left to it.
        """
        waiting = frozenset(jobs)
        self._live.note_run(run.run_id, waiting)
        self._elsewhere.begin(run, waiting)
        self._begin(self._leave_to_others(waiting))

    def note_events(self, run_id: str, events: Sequence[RunEvent]) -> None:
        """What such a run has told since the last time."""
        self._begin(self._hear(run_id, events))

    def refresh_verdicts(self) -> None:
        """Verdicts have come from elsewhere: tell how every case stands now. Nothing is run because of that."""
        self._begin(self._look_again())

    async def _watch(self) -> None:
        async with self._watcher as watcher:  # before anything is looked at: what is saved meanwhile is seen too
            self._own_output = await self._off_loop(find_output_files)
            await self._replan()
            await self._sources.watch_dependencies()
            status = watcher.status
            self._news.tell(
                WatchStarted(
                    total=len(self._deciding.jobs),
                    files=status.files,
                    folders=status.folders,
                    mode=status.mode,
                    reason=status.reason,
                )
            )
            watcher.on_mode_changed = self._tell_mode
            await self._off_loop(self._warm_up)
            await self._catch_up(None)
            async for change in watcher.changes():
                await self._on_change(change)

    def _tell_mode(self, status: WatchStatus) -> None:
        message = "the system tells of changes again"
        if status.mode == "scanning":
            message = f"changes are found later, by looking at all files again and again: {status.reason}"
        self._news.tell(Notice(severity="warning" if status.mode == "scanning" else "information", message=message))

    def _warm_up(self) -> None:
        self._workspace.warm_up(self._planning.make_run_plan(""))

    async def _on_change(self, change: Change) -> None:
        was_gone, self._is_gone = self._is_gone, not await self._off_loop(self._workspace.root.is_dir)
        if self._is_gone:
            if not was_gone:
                message = f"{self._workspace.root} is gone; what was known of it is kept until it is back"
                self._news.tell(Notice(severity="warning", message=message))
            return
        if was_gone:
            change = change.merge(Change(frozenset(), True, change.at))
        change = await self._off_loop(lambda: change.exclude_paths(lambda path: is_output_file(path, self._own_output)))
        if await self._off_loop(lambda: self._is_nobodys(change)):
            return
        self._live.change_came()
        self._work.change_came(await self._off_loop(lambda: change.last_write_time))
        if await self._off_loop(lambda: self._planning.is_affected(change)):
            await self._replan(change.paths)
        await self._catch_up(change)

    async def _replan(self, saved: Collection[Path] = ()) -> None:
        plan, problems = await self._off_loop(lambda: self._planning.plan(saved))
        await self._watcher.replace(
            Folders.from_targets(self._workspace.root, self._workspace.project.targets.values())
        )
        if await self._sources.watch_plan_files(self._planning.files):
            plan, more = await self._off_loop(self._planning.plan)
            problems += more
        self._news.problems += problems
        self._deciding.jobs = dict(plan.jobs)
        self._news.keep(self._deciding.jobs)

    async def _catch_up(self, change: Change | None) -> None:
        """Decide on every job anew, and do what has to be done."""
        async with self._starting:
            decisions = await self._off_loop(self._deciding.all)
            is_paused = self._is_paused
            if not is_paused:
                self._runs.stop_overtaken(decisions)
            if change is None and not self._catches_up:
                self._work.let_be(decisions)
            work = self._work.of(decisions, all_of_it=change is None)
            if change is not None:
                work = self._work.not_of_its_own(work)
            saved_at = None if change is None else change.at
            self._elsewhere.expect_only(each.job for each in work)
            ours = self._elsewhere.ours(work, saved_at=saved_at)
            held = "" if change is None or is_paused else self._work.hold_back(ours)
            self._news.decided(decisions, work, held=self._work.held)
            if is_paused and change is not None:
                self._saved = change if self._saved is None else self._saved.merge(change)
            elif change is not None:
                self._news.change(change, decisions, work, held=held, is_used=self._sources.is_used(change))
            self._news.wrong(decisions)
            await show_stored(decisions, self._news, self._workspace, off_loop=self._off_loop)
            begun = [each for each in ours if each.job not in self._work.held]
            if not is_paused:
                await self._start(begun, saved_at=saved_at)
        await self._look_when_idle()

    async def _run_held(self) -> None:
        async with self._starting:
            held = [job for job in self._work.held if job not in self._live]
            self._work.held.clear()
            decisions = await self._off_loop(lambda: self._deciding.some(held))
            await self._start(self._ours(self._work.outside_changes(decisions)), saved_at=None)

    async def _look_again(self) -> None:
        async with self._starting:
            decisions = await self._off_loop(self._deciding.all)
            self._news.decided(decisions, (), held=self._work.held)
            await show_stored(decisions, self._news, self._workspace, off_loop=self._off_loop)

    async def _start(self, decisions: Sequence[Decision], *, saved_at: float | None) -> None:
        """Begin a run of what has to be run or judged. Needs the lock for starting."""
        decisions = await self._take_turn(decisions) if decisions else ()
        if not decisions:
            return
        run = await self._runs.begin(decisions, saved_at=saved_at)
        if run is not None:
            self._begin(self._follow(run))
        else:
            self._turns.release()

    async def _take_turn(self, decisions: Sequence[Decision]) -> Sequence[Decision]:
        """Wait until no other watch of the project runs cases; what of the work that leaves. Nothing is no turn."""
        while (turn := await self._off_loop(self._turns.acquire)) is Turn.OTHERS:
            if not self._has_told_of_others:
                self._has_told_of_others = True
                message = "another watch of this project is running cases: this one waits for what that finds out"
                self._news.tell(Notice(message=message))
            await asyncio.sleep(_OTHERS_TURN)
        if turn is Turn.MINE:
            return decisions
        await self._off_loop(self._workspace.take_in_verdicts)
        jobs = {each.job for each in decisions}
        decided = [each for each in await self._off_loop(self._deciding.all) if each.job in jobs]
        await show_stored(decided, self._news, self._workspace, off_loop=self._off_loop)
        left = self._work.of(decided, all_of_it=True)
        if not left:
            self._turns.release()
        return left

    def _begin(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _follow(self, run: Run) -> None:
        try:
            await self._runs.follow(run)
        finally:
            self._turns.release()
        await self._sources.watch_dependencies()
        await self._look_when_idle()

    async def _leave_to_others(self, jobs: Iterable[JobKey]) -> None:
        """Take out of the watch's runs what has not begun in them, and waits in a run of the user's now."""
        async with self._starting:
            waiting = [job for job in jobs if self._live.is_waiting(job)]
            decisions = await self._off_loop(lambda: self._deciding.some(waiting))
            for each in decisions:
                live = self._live.get(each.job)
                if live is not None and not self._elsewhere.ours([each], saved_at=live.saved_at):
                    live.run.cancel(each.job)
                    self._live.end(each.job)

    async def _hear(self, run_id: str, events: Sequence[RunEvent]) -> None:
        waited = bool(self._elsewhere)
        await self._elsewhere_told.take_up(run_id, events)
        if waited and not self._elsewhere:
            await self._look_when_idle()

    def _run_soon(self, job: JobKey) -> None:
        if not self._overtaken:
            self._begin(self._run_again())
        self._overtaken.append(job)

    async def _run_again(self) -> None:
        """Run what a change, or the user, has left without a verdict: all that ends within a moment together."""
        await asyncio.sleep(_MOMENT)
        async with self._starting:
            if self._is_paused:
                return
            overtaken, self._overtaken = self._overtaken, []
            if self._watcher.is_installing:  # the change that follows concerns them
                return
            decisions = await self._off_loop(lambda: self._deciding.some(overtaken))
            # What was not told, for fear that it had been overtaken, may hold by now.
            await show_stored(decisions, self._news, self._workspace, off_loop=self._off_loop)
            await self._start(self._ours(self._work.of(decisions, all_of_it=False)), saved_at=None)
        await self._look_when_idle()

    async def _look_when_idle(self) -> None:
        """Once nothing runs, look at what could not be told while agents wrote files, and say how all cases stand."""
        if self._live or self._overtaken or self._elsewhere or self._starting.locked() or self._watcher.is_installing:
            return
        async with self._starting:
            decisions = await self._off_loop(self._deciding.all)
            work = self._work.of(decisions, all_of_it=False)
            if not self._is_paused:
                work = [each for each in self._ours(work) if self._work.may_run(each)]
            if (work or self._elsewhere) and not self._is_paused:
                await self._start(work, saved_at=None)
                return
        self._news.decided(decisions, work, held=self._work.held)
        self._news.all_known(decisions)

    def _ours(self, work: Sequence[Decision]) -> list[Decision]:
        return self._elsewhere.ours(work, saved_at=None)

    def _is_nobodys(self, change: Change) -> bool:
        """Whether all of it is what agents wrote while they ran, or what we print ourselves."""
        if change.everything:
            return False
        with self._selecting:
            self._state.forget()
            are_left = {path: self._is_left(str(path)) for path in change.paths}  # every one is looked at
        return all(are_left.values())

    def _is_left(self, path: str) -> bool:
        if is_library_folder(path):  # told where more than names may differ
            return False
        left = self._verdicts.last_left(path)
        return self._state.has_unchanged_names(path) if left is None else self._state.fingerprint_file(path) == left


# Puts a watch together: which folders, which cases, and the session over them.


def open_watch(
    workspace: Workspace,
    select: Callable[[Workspace], Sequence[Selection]],
    options: RunOptions,
    *,
    off_loop: OffLoop,
    catches_up: bool = True,
    first: Callable[[JobKey], float] = lambda _: 0,
) -> WatchSession:
    """A watch over the cases that `select` names, each time the project has been looked at again.

    Jobs with the smallest `first` come first; `off_loop` calls what takes time, one thing at a time. With
    `catches_up` cases without a verdict that holds run at the start. Raises StoreError where there is no history to be
    read.
    """
    watcher = Watcher(Folders.from_targets(workspace.root, workspace.project.targets.values()))
    planning = WatchPlanner(workspace, select, options)
    return WatchSession(workspace, planning, watcher, off_loop=off_loop, catches_up=catches_up, first=first)
