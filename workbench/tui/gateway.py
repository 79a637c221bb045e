"""What the screen asks of the engine and the store, off the event loop.

Everything runs on one thread of its own, one thing after the other: documents are not made to be read by two threads
at once, and none of this may hold up a key press.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from workbench.engine.plan import RunOptions, Selection
from workbench.model.keys import CaseKey, JobKey
from workbench.model.results import CaseResult
from workbench.model.target import Target
from workbench.store.discovery import EvalSetEntry
from workbench.store.errors import StoreError
from workbench.store.history import StoredJob
from workbench.store.history.database import FILE_NAME, FOLDER
from workbench.tui.state.browser import ListedSet, case_row
from workbench.tui.state.project import OpenedProject, ReadCase

if TYPE_CHECKING:
    from workbench.engine.run import Run
    from workbench.engine.workspace import Workspace
    from workbench.store.documents import EvalSetDocument

T = TypeVar("T")


class Gateway:
    """The project at one path. Methods raise what the workspace raises."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._workspace: Workspace | None = None
        self._listed: dict[str, tuple[EvalSetDocument, ListedSet]] = {}  # the newest of each set, by its path
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="workbench-screen")

    async def open(self) -> OpenedProject:
        """Find the project. Raises StoreError."""
        return await self._call(self._open)

    async def reload(self) -> OpenedProject:
        """Look again what there is."""
        return await self._call(self._reload)

    async def list_set(self, listed: ListedSet) -> ListedSet:
        """The set with its cases, or with what is wrong with its file; the same object where nothing has changed."""
        return await self._call(lambda: self._list_set(listed))

    async def read_case(self, key: CaseKey, *, stored: bool) -> ReadCase:
        """A case, or why it could not be read; `stored`: with its newest stored results."""
        return await self._call(lambda: self._read_case(key, stored=stored))

    async def stored_jobs(self) -> Mapping[CaseKey, Sequence[StoredJob]]:
        """How every case ended last. Raises StoreError."""
        return await self._call(self._stored_jobs)

    async def start(self, selections: Sequence[Selection]) -> tuple[Run, Sequence[JobKey]]:
        """Plan and start a run of the jobs that are returned with it. Raises PlanError and StoreError."""
        return await self._call(lambda: self._start(selections))

    def close(self) -> None:
        """End what is running and let go of everything. Waits until no process is left."""
        self._thread.shutdown(wait=True, cancel_futures=True)
        if self._workspace is not None:
            self._workspace.close()
            self._workspace = None

    async def _call(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    @property
    def _opened(self) -> Workspace:
        if self._workspace is None:
            raise RuntimeError("the project has not been opened")
        return self._workspace

    def _open(self) -> OpenedProject:
        from workbench.engine.workspace import (
            Workspace,
        )  # imported here, on our thread: the screen is there before the engine

        self._workspace = Workspace.open(self._path)
        return self._project()

    def _reload(self) -> OpenedProject:
        self._opened.refresh()
        return self._project()

    def _project(self) -> OpenedProject:
        """What the project has at or below the path that was given."""
        project, path = self._opened.project, self._path.resolve()
        entries = [entry for entry in project.eval_sets if _is_within(entry.path, path)]
        used = {entry.target for entry in entries}
        return OpenedProject(
            root=str(path),
            targets={
                name: _facts(target)
                for name, target in project.targets.items()
                if name in used or _is_within(target.path, path) or path == self._opened.root
            },
            sets=tuple(_unread(entry, self._opened.root) for entry in entries),
            problems=tuple(self._opened.problems),
        )

    def _list_set(self, listed: ListedSet) -> ListedSet:
        try:
            document = self._opened.document(listed.relative)
        except StoreError as error:
            self._listed.pop(listed.relative, None)
            return replace(listed, problem=str(error), cases=None)
        known = self._listed.get(listed.relative)
        if known is not None and known[0] is document and known[1] is listed:
            return listed
        times = Counter(entry.eval_id for entry in document.entries)
        cases = []
        for entry in document.entries:
            problem = str(entry.problem) if entry.problem is not None else ""
            if times[entry.eval_id] > 1:
                problem = f"the id stands {times[entry.eval_id]} times in this file, and must stand once for it to run"
            key = CaseKey(
                target=listed.target, eval_set=listed.relative, eval_id=entry.eval_id, occurrence=entry.occurrence
            )
            cases.append(case_row(key, problem))
        read = replace(listed, problem="", cases=tuple(cases))
        self._listed[listed.relative] = (document, read)
        return read

    def _read_case(self, key: CaseKey, *, stored: bool) -> ReadCase:
        try:
            results = self._stored_results(key) if stored else ()
        except StoreError as error:
            return ReadCase(key, None, str(error))
        try:
            document = self._opened.document(key.eval_set)
            for entry in document.entries:
                if entry.eval_id == key.eval_id and entry.occurrence == key.occurrence:
                    return ReadCase(key, document.case(entry.index), stored=results)
        except StoreError as error:
            return ReadCase(key, None, str(error), results)
        return ReadCase(key, None, "the case is no longer in its file; F5 looks for changed eval sets", results)

    def _stored_jobs(self) -> Mapping[CaseKey, Sequence[StoredJob]]:
        if not (self._opened.root / FOLDER / FILE_NAME).exists():
            return {}  # opening it would make one, and looking at a project must not write to it
        with self._opened.history() as history:
            return history.latest_jobs()

    def _stored_results(self, key: CaseKey) -> Sequence[CaseResult]:
        with self._opened.history() as history:
            return history.latest_results([key]).get(key, ())

    def _start(self, selections: Sequence[Selection]) -> tuple[Run, Sequence[JobKey]]:
        plan = self._opened.plan(selections, RunOptions(command="workbench (screen)"))
        jobs = [job for job, _ in plan.jobs]
        return self._opened.start(plan), jobs


def _unread(entry: EvalSetEntry, root: Path) -> ListedSet:
    config = "the default ones, for there is no test_config.json beside it"
    if entry.config is not None:
        config = str(entry.config.relative_to(root) if entry.config.is_relative_to(root) else entry.config)
    return ListedSet(
        relative=entry.relative,
        target=entry.target or "",
        unpaired="" if entry.target else entry.unpaired_reason or "nothing says which agent it is for",
        config=config,
    )


def _is_within(path: Path, folder: Path) -> bool:
    resolved = path.resolve()
    return resolved == folder or folder in resolved.parents


def _facts(target: Target) -> tuple[tuple[str, str], ...]:
    facts = [("agent", target.name), ("kind", target.kind.value), ("runs", target.location), ("in", str(target.path))]
    if target.python is not None:
        facts.append(("python", str(target.python)))
    if target.config is not None:
        facts.append(("criteria", str(target.config)))
    return tuple((name, value) for name, value in facts if value)
