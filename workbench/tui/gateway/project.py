"""The project as it is listed: agents, eval sets, cases, and how they ended last."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.engine.plan import PlanError, RunOptions, Selection
from workbench.model.keys import CaseKey
from workbench.model.results import CaseResult
from workbench.model.target import Target
from workbench.store.discovery import EvalSetEntry
from workbench.store.errors import IsDataset, NotRead, StoreError, shown_path
from workbench.store.history import StoredJob
from workbench.store.history.database import file_of
from workbench.store.names import is_no_json
from workbench.store.new_target import NewTarget, add_target
from workbench.tui.gateway.counting_results import EarlierVerdicts, earlier_results
from workbench.tui.gateway.datasets import find_row, list_rows
from workbench.tui.gateway.kept import is_kept, kept_sets, list_kept, read_kept
from workbench.tui.gateway.named_files import files_named_in
from workbench.tui.gateway.thread import Call, aside
from workbench.tui.state.browser import ListedSet, case_row
from workbench.tui.state.project import OpenedProject
from workbench.tui.state.subject import ReadCase

if TYPE_CHECKING:
    from workbench.engine.workspace import Workspace
    from workbench.store.documents import CaseEntry


class Projects:
    """What there is at one path. Methods raise what the workspace raises."""

    def __init__(self, path: Path, call: Call) -> None:
        self._path = path
        self._call = call
        self._listed: dict[str, tuple[Sequence[CaseEntry], ListedSet]] = {}  # the newest of each set, by its path

    async def open(self) -> OpenedProject:
        """Find the project. Raises StoreError."""
        return await self._call(self._project)

    async def reload(self) -> OpenedProject:
        """Look again what there is."""
        return await self._call(self._reload)

    async def add_target(self, target: NewTarget) -> str:
        """Write a new target into the settings; returns the file, as people see it. Raises StoreError."""
        return await self._call(lambda workspace: shown_path(add_target(target, workspace.root)))

    async def list_set(self, listed: ListedSet) -> ListedSet:
        """The set with its cases, or with what is wrong with its file; the same object where nothing has changed."""
        return await self._call(lambda workspace: self._list_set(workspace, listed))

    async def read_address(self, listed: ListedSet) -> ListedSet:
        """The dataset elsewhere with its rows, or with why they could not be read: read anew, however long it takes.

        Raises StoreError where no target names it any more.
        """
        read = await self._call(lambda workspace: workspace.recordings.reader(listed.relative))
        reading = await aside(read)

        def keep(workspace: Workspace) -> ListedSet:
            workspace.recordings.keep(listed.relative, reading)
            return self._list_set(workspace, listed)

        return await self._call(keep)

    async def forget_addresses(self) -> None:
        """What was read from addresses counts no longer."""
        await self._call(lambda workspace: workspace.recordings.forget_addresses())

    async def read_case(self, key: CaseKey, *, stored: bool, earlier: EarlierVerdicts) -> ReadCase:
        """A case, or why it could not be read; `stored`: with its stored results, the newest or those in `earlier`."""
        return await self._call(lambda workspace: _read_case(workspace, key, stored=stored, earlier=earlier))

    async def stored_jobs(self) -> Mapping[CaseKey, Sequence[StoredJob]]:
        """How every case ended last. Raises StoreError."""
        return await self._call(_stored_jobs)

    async def verdicts_that_hold(self, keys: Sequence[CaseKey]) -> Mapping[CaseKey, Sequence[StoredJob]]:
        """Of these cases the stored verdicts that hold as everything is now, by repeat. Raises StoreError."""
        return await self._call(lambda workspace: _verdicts_that_hold(workspace, keys))

    def _reload(self, workspace: Workspace) -> OpenedProject:
        workspace.refresh()
        return self._project(workspace)

    def _project(self, workspace: Workspace) -> OpenedProject:
        """What the project has at or below the path that was given."""
        project, path = workspace.project, self._path.resolve()
        entries = [entry for entry in project.eval_sets if _is_within(entry.path, path)]
        used = {entry.target for entry in entries}
        return OpenedProject(
            root=str(path),
            targets={
                name: _facts(target)
                for name, target in project.targets.items()
                if name in used or _is_within(target.path, path) or path == workspace.root
            },
            sets=(
                *(_unread(entry, workspace.root) for entry in entries),
                *self._gone(workspace),
                *(kept_sets(workspace) if path.is_dir() else ()),
            ),
            problems=tuple(workspace.problems),
            files=files_named_in(workspace.problems, root=workspace.root),
        )

    def _gone(self, workspace: Workspace) -> Iterator[ListedSet]:
        """The sets whose files are gone while they have unsaved edits: they stay listed, and can be saved again."""
        there = {entry.relative for entry in workspace.project.eval_sets}
        for name in workspace.documents.dirty():
            if name not in there:
                yield replace(self._listed[name][1], cases=None) if name in self._listed else ListedSet(name)

    def _list_set(self, workspace: Workspace, listed: ListedSet) -> ListedSet:
        if listed.kept is not None:
            try:
                return list_kept(workspace, listed, listed.kept)
            except StoreError as error:
                return replace(listed, problem=str(error), cases=None)
        try:
            document = workspace.documents.document(listed.relative)
            broken = workspace.documents.standing(listed.relative).problem  # what is listed is then the last good state
        except IsDataset:
            return self._list_dataset(workspace, listed)
        except StoreError as error:
            self._listed.pop(listed.relative, None)
            return replace(listed, problem=str(error), cases=None)
        state = "" if broken is None else str(broken)
        known = self._listed.get(listed.relative)
        entries = document.entries  # another object after every edit
        if known is not None and known[0] is entries and known[1] is listed and listed.problem == state:
            return listed
        times = Counter(entry.eval_id for entry in entries)
        cases = []
        for entry in entries:
            problem = str(entry.problem) if entry.problem is not None else ""
            if times[entry.eval_id] > 1:
                problem = f"the id stands {times[entry.eval_id]} times in this file, and must stand once for it to run"
            key = CaseKey(
                target=listed.target, eval_set=listed.relative, eval_id=entry.eval_id, occurrence=entry.occurrence
            )
            cases.append(case_row(key, problem))
        read = replace(listed, problem=state, cases=tuple(cases), is_dataset=False)
        self._listed[listed.relative] = (entries, read)
        return read

    def _list_dataset(self, workspace: Workspace, listed: ListedSet) -> ListedSet:
        try:
            return list_rows(workspace, listed)
        except NotRead:
            return listed
        except StoreError as error:
            return replace(listed, problem=str(error), cases=None)


def _read_case(workspace: Workspace, key: CaseKey, *, stored: bool, earlier: EarlierVerdicts) -> ReadCase:
    try:
        if is_kept(workspace, key):
            return read_kept(key, _stored_results(workspace, key, {}))
        results = _stored_results(workspace, key, earlier) if stored else ()
    except StoreError as error:
        return ReadCase(key, None, str(error))
    try:
        document = workspace.documents.document(key.eval_set)
        for entry in document.entries:
            if entry.eval_id == key.eval_id and entry.occurrence == key.occurrence:
                return ReadCase(key, document.case(entry.index), stored=results)
    except IsDataset:
        return _read_row(workspace, key, results)
    except StoreError as error:
        return ReadCase(key, None, str(error), results)
    return ReadCase(key, None, "the case is no longer in its file; F5 looks for changed eval sets", results)


def _read_row(workspace: Workspace, key: CaseKey, results: Sequence[CaseResult]) -> ReadCase:
    try:
        row = find_row(workspace, key)
    except StoreError as error:
        return ReadCase(key, None, str(error), results)
    if row is None:
        return ReadCase(key, None, "the row is no longer in its file", results)
    return ReadCase(key, row.case, row.problem or "", results, is_row=bool(row.columns))


def _stored_jobs(workspace: Workspace) -> Mapping[CaseKey, Sequence[StoredJob]]:
    if not file_of(workspace.root).exists():
        return {}  # opening it would make one, and looking at a project must not write to it
    with workspace.history() as history:
        return history.latest_jobs()


def _verdicts_that_hold(workspace: Workspace, keys: Sequence[CaseKey]) -> Mapping[CaseKey, Sequence[StoredJob]]:
    from workbench.watch.affected import held_verdicts

    wanted: dict[str, list[str]] = {}
    unread = {entry.relative for entry in workspace.project.eval_sets if entry.address is not None}
    for key in keys:
        if key.eval_set in unread or is_kept(workspace, key):
            continue  # nothing could be planned of it, or not without reading what nobody asked for
        wanted.setdefault(key.eval_set, []).append(key.eval_id)
    try:
        plan = workspace.plan(
            [Selection(eval_set=name, cases=tuple(ids)) for name, ids in wanted.items()], RunOptions()
        )
    except PlanError:  # a case is gone, or a file is wrong: a run will say so
        return {}
    return held_verdicts(workspace, plan)


def _stored_results(workspace: Workspace, key: CaseKey, earlier: EarlierVerdicts) -> Sequence[CaseResult]:
    with workspace.history() as history:
        return earlier_results(history, key, earlier) or history.latest_results([key]).get(key, ())


def _unread(entry: EvalSetEntry, root: Path) -> ListedSet:
    config = "the default ones, for there is no test_config.json beside it"
    if entry.config is not None:
        config = str(entry.config.relative_to(root) if entry.config.is_relative_to(root) else entry.config)
    return ListedSet(
        relative=entry.relative,
        target=entry.target or "",
        unpaired="" if entry.target else entry.unpaired_reason or "nothing says which agent it is for",
        config=config,
        is_dataset=is_no_json(entry.relative) or entry.address is not None,
        is_address=entry.address is not None,
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
