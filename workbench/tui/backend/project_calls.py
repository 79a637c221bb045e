"""Calls that read the project: agents, eval sets, cases, datasets and stored results."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from workbench.engine.plan import PlanError, RunOptions, Selection, SetContext, complete_config, is_scripted
from workbench.metrics.registry import prepare
from workbench.model.criteria import default_config
from workbench.model.evalset import EvalCase, Invocation, Quarantine
from workbench.model.facts import make_fast_constructor, pause_gc
from workbench.model.identity import CaseKey, JobKey
from workbench.model.results import CaseResult, CaseStatus
from workbench.model.target import AgentKind, Target
from workbench.report.run_report import find_live_samples
from workbench.store.datasets.remote_data import is_address
from workbench.store.errors import IsDataset, NotLoaded, StoreError
from workbench.store.evalsets.config_files import load_config
from workbench.store.evalsets.quarantine import read_quarantines
from workbench.store.files import CRITERIA_FILES, get_sidecar_path, is_dataset_name, is_inside, real_path
from workbench.store.history.history import History
from workbench.store.history.history_queries import StoredJob, StoredScores
from workbench.store.history.history_schema import get_history_path
from workbench.store.project_discovery import EvalSetEntry, find_criteria_file
from workbench.store.settings import FoundSetting, load_settings
from workbench.tui.state.browser_list import (
    HISTORY_READ_ONLY,
    CaseContent,
    Hashes,
    HistoryRun,
    ListedSet,
    index_broken_case,
    index_case,
    make_case_row,
)
from workbench.tui.state.browser_state import LoadedCase
from workbench.tui.state.case_filter import make_natural_key
from workbench.tui.state.case_outline import case_rows
from workbench.tui.state.case_status import ResultLocation
from workbench.tui.state.editor_state import Edited, OpenedDocument
from workbench.tui.state.problem_list import SetProblem, find_file_name
from workbench.tui.state.project_state import OpenedProject

if TYPE_CHECKING:
    from workbench.engine.workspace import Workspace
    from workbench.store.datasets.dataset_files import RecordedCase
    from workbench.store.evalsets.case_reader import CaseEntry
    from workbench.store.evalsets.evalset_document import EvalSetDocument


# How work reaches the workspace, or leaves its thread because it waits for other machines.

T = TypeVar("T")


class WorkspaceCall(Protocol):
    """Does work with the workspace on its thread. Returns or raises what the work does."""

    def __call__(self, work: Callable[[Workspace], T], /) -> Awaitable[T]: ...


async def run_in_own_thread(work: Callable[[], T]) -> T:
    """Do work that waits for other machines in a daemon thread. The end of the program does not wait for it."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(how: Callable[[Any], None], value: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(lambda: None if done.done() else how(value))

    def do_work() -> None:
        try:
            value = work()
        except Exception as error:  # the caller gets it
            settle(done.set_exception, error)
        else:
            settle(done.set_result, value)

    threading.Thread(target=do_work, name="workbench-aside", daemon=True).start()
    return await done


# Datasets of recorded targets. Their rows are cases that cannot be edited.

_READ_ONLY = "a dataset can be judged here, but not edited; `workbench dataset convert` converts it to an eval set"


def list_rows(workspace: Workspace, listed: ListedSet) -> ListedSet:
    """List the rows of a dataset as cases. Return the same object if nothing changed. Raises StoreError."""
    found = workspace.recordings.read(listed.relative).cases
    quarantined = _read_quarantined_cases(workspace.root / listed.relative)
    keys = ((_make_key(listed, item), item.problem or "") for item in found)
    rows = tuple(make_case_row(key, text, quarantined.get(key.name) if quarantined else None) for key, text in keys)
    if listed.cases == rows and listed.is_dataset and not listed.problem:
        return listed
    return replace(listed, problem="", cases=rows, is_dataset=True)


def _read_quarantined_cases(path: Path, document: EvalSetDocument | None = None) -> Mapping[str, Quarantine]:
    """Read the quarantines of a set that are in force today, by the names of cases."""
    if not get_sidecar_path(path).exists():
        return {}
    found = read_quarantines(path, document=document).at_day(date.today()).cases
    return {name: quarantine for name, quarantine in found.items() if not quarantine.is_expired}


def find_row(workspace: Workspace, key: CaseKey) -> RecordedCase | None:
    """Find the row of a case. Raises StoreError."""
    cases = workspace.recordings.read(key.eval_set).cases
    return next((item for item in cases if (item.eval_id, item.occurrence) == (key.eval_id, key.occurrence)), None)


def read_row_contents(workspace: Workspace, listed: ListedSet) -> Sequence[CaseContent]:
    """Read what the filter searches in rows. Raises StoreError."""
    found = []
    for item in workspace.recordings.read(listed.relative).cases:
        key = _make_key(listed, item)
        found.append(index_broken_case(key, item.problem or "") if item.case is None else index_case(key, item.case))
    return found


def open_row(workspace: Workspace, edited: Edited, known: OpenedDocument | None) -> OpenedDocument:
    """Open a row, or the dataset itself, read-only. Raises StoreError."""
    revision = workspace.recordings.revision(edited.eval_set)
    if known is not None and (known.edited, known.revision) == (edited, revision):
        return known
    item = None if edited.case is None else find_row(workspace, edited.case)
    data = {} if item is None or item.case is None else item.case.model_dump(mode="json", exclude_defaults=True)
    return OpenedDocument(
        edited=edited,
        index=None,
        data=data,
        rows=case_rows(data) if data else (),
        revision=revision,
        is_changed=False,
        problem="" if item is None else item.problem or "",
        read_only=_READ_ONLY,
    )


def find_row_problems(workspace: Workspace, eval_set: str) -> Sequence[SetProblem]:
    """List the problems of the rows. Raises StoreError."""
    path = None if is_address(eval_set) else Path(workspace.root / eval_set)
    return [
        SetProblem(
            path, error.message, place=error.place, line=error.line, column=error.column,
            case=(item.eval_id, item.occurrence),
        )
        for item in workspace.recordings.read(eval_set).cases
        for error in item.errors
    ]  # fmt: skip


def _make_key(listed: ListedSet, item: RecordedCase) -> CaseKey:
    return CaseKey(target=listed.target, eval_set=listed.relative, eval_id=item.eval_id, occurrence=item.occurrence)


# Datasets that were scored without a target (`EvalTask`, `workbench score`), read from the history.

_SAYS_NOTHING = (CaseStatus.SKIPPED, CaseStatus.CANCELLED)


def has_history(workspace: Workspace) -> bool:
    """Return True if the history exists. Opening would create it, and viewing a project must not write to it."""
    return get_history_path(workspace.root).exists()


def is_history_dataset(workspace: Workspace, key: CaseKey) -> bool:
    """Return True if a case is a row of such a dataset."""
    if key.target != key.eval_set:
        return False
    return not any((entry.target, entry.relative) == (key.target, key.eval_set) for entry in _entries(workspace))


def list_history_datasets(workspace: Workspace) -> Sequence[ListedSet]:
    """List the datasets, newest first. Empty if the history cannot be read, which reading all results reports."""
    if not has_history(workspace):
        return ()
    try:
        with workspace.history() as history:
            found = history.list_dataset_runs()
    except StoreError:
        return ()
    there = {(entry.target, entry.relative) for entry in _entries(workspace)}
    return [
        ListedSet(name, name, history_run=HistoryRun(run.run_id, run.started_at, run.command, run.ended))
        for name, run in found
        if (name, name) not in there
    ]


def list_history_rows(workspace: Workspace, listed: ListedSet, kept: HistoryRun) -> ListedSet:
    """List the rows of a run as cases. Return the same object if they are known. Raises StoreError."""
    if listed.cases is not None:
        return listed
    with workspace.history() as history, pause_gc():
        jobs = history.jobs(kept.run_id)
    # The history has them in the order in which they ended, which is random if cases run in parallel.
    keys = dict.fromkeys(job.case for job in jobs if _is_in_set(listed, job.case) and job.status not in _SAYS_NOTHING)
    rows = sorted((make_case_row(key) for key in keys), key=lambda row: make_natural_key(row.label))
    return ListedSet(listed.relative, listed.target, tuple(rows), history_run=kept)


def make_history_case(key: CaseKey, results: Sequence[CaseResult]) -> LoadedCase:
    """Make the case of a row from its results, with the expectations of that time."""
    expected = results[0].expected_by_row if results else None
    return LoadedCase(key, expected, stored=results, is_from_history=True)


def open_history_row(workspace: Workspace, edited: Edited, key: CaseKey) -> OpenedDocument:
    """Open a row read-only, with its prompts and stored expectations. Raises StoreError."""
    with workspace.history() as history:
        results = history.latest_results([key]).get(key, ())
    case = results[0].expected_by_row if results else None
    note = ""
    if case is None:
        turns = results[0].execution.turns if results else ()
        asked = [Invocation(user_content=turn.invocation.user_content) for turn in turns]
        case = EvalCase(eval_id=key.eval_id, conversation=asked)
        note = "only the prompts: the reference of the row is not stored"
    data = case.model_dump(mode="json", exclude_defaults=True)
    return OpenedDocument(
        edited=edited,
        index=None,
        data=data,
        rows=case_rows(data),
        revision=0,
        is_changed=False,
        note=note,
        read_only=HISTORY_READ_ONLY,
    )


class HistoryRowReader:
    """Reads what the filter searches in the rows of a run, step by step. Must be closed."""

    def __init__(self, history: History, listed: ListedSet, kept: HistoryRun) -> None:
        self._history = history
        self._results = (each for each in history.results(kept.run_id) if _is_in_set(listed, each.case))

    def step(self, *, seconds: float) -> Sequence[CaseContent]:
        """Read rows for some seconds; nothing at the end. Raises StoreError."""
        found: list[CaseContent] = []
        until = time.monotonic() + seconds
        for result in self._results:
            turns = [turn.invocation for turn in result.execution.turns]
            found.append(index_case(result.case, EvalCase(eval_id=result.case.eval_id, conversation=turns)))
            if time.monotonic() >= until:
                break
        return found

    def close(self) -> None:
        self._history.close()


def _is_in_set(listed: ListedSet, key: CaseKey) -> bool:
    return (key.target, key.eval_set) == listed.key


def _entries(workspace: Workspace) -> Sequence[EvalSetEntry]:
    return workspace.project.eval_sets


# Files named in problem messages.


def find_named_files(messages: Iterable[str], *, root: Path) -> dict[str, Path]:
    """Map the file names at the start of these messages to paths. The names are relative to `root`."""
    names = {name for message in messages if (name := find_file_name(message)) is not None}
    return {name: path for name in names if _is_file(path := root / name)}


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # a message may start with anything
        return False


# Current results: the newest of each case, or an earlier one whose verdict is current again.

EarlierVerdicts = Mapping[JobKey, ResultLocation]
"""Where earlier results that are current again are stored: see `Board.earlier_verdicts`."""


def read_current_results(
    history: History, cases: Collection[CaseKey], earlier: EarlierVerdicts
) -> dict[CaseKey, list[CaseResult]]:
    """Read the current results of these cases, by repeat, in the order of the cases. Raises StoreError."""
    found = {case: results for case in cases if (results := read_earlier_results(history, case, earlier))}
    found |= history.latest_judged_results([case for case in cases if case not in found])
    return {case: found[case] for case in cases if case in found}


def read_earlier_results(history: History, case: CaseKey, earlier: EarlierVerdicts) -> list[CaseResult]:
    """Read the earlier results of a case that are current, by repeat; none if its newest are. Raises StoreError."""
    found = []
    for job, place in sorted(earlier.items(), key=lambda item: item[0].repeat):
        result = history.result(*place) if job.case == case else None
        if result is not None:
            found.append(result.model_copy(update={"case": job.case, "repeat": job.repeat}))
    return found


def read_earlier_scores(history: History, earlier: EarlierVerdicts) -> Iterator[StoredScores]:
    """Read the metrics of earlier results that are current. Raises StoreError."""
    for job, place in earlier.items():
        scores = history.get_scores(*place)
        if scores is not None:
            yield scores._replace(job=scores.job._replace(key=job))


# The project: agents, eval sets, cases, and their last results.


def read_settings(workspace: Workspace) -> Sequence[FoundSetting]:
    """Read the settings of the project and of the user as they are now. Raises StoreError."""
    return load_settings(workspace.root).list_values()


class Projects:
    """Reads the project at one path. Methods raise what the workspace raises."""

    def __init__(self, path: Path, call: WorkspaceCall) -> None:
        self._path = path
        self._call = call
        self._listed: dict[str, _ListedFile] = {}  # the last list of each set, by its path

    async def open(self) -> OpenedProject:
        """Open the project. Raises StoreError."""
        return await self._call(self._project)

    async def reload(self) -> OpenedProject:
        return await self._call(self._reload)

    async def list_set(self, listed: ListedSet) -> ListedSet:
        """List the cases of a set, or the problem of its file. Return the same object if nothing changed."""
        return await self._call(lambda workspace: self._list_set(workspace, listed))

    async def read_address(self, listed: ListedSet) -> ListedSet:
        """Read the rows of a remote dataset again, or why they cannot be read. This may take long.

        Raises StoreError if no target names the dataset any more.
        """
        read = await self._call(lambda workspace: workspace.recordings.make_reader(listed.relative))
        reading = await run_in_own_thread(read)

        def keep(workspace: Workspace) -> ListedSet:
            workspace.recordings.keep(listed.relative, reading)
            return self._list_set(workspace, listed)

        return await self._call(keep)

    async def read_case(self, key: CaseKey, *, stored: bool, earlier: EarlierVerdicts) -> LoadedCase:
        """Read a case, or why it cannot be read; with `stored`, also its results: those in `earlier` or the newest."""

        def read(workspace: Workspace) -> LoadedCase:
            case = _read_case(workspace, key, stored=stored, earlier=earlier)
            is_replayed = any(result.execution.is_replayed for result in case.stored)
            return replace(case, live_samples=_read_live_samples(workspace, key)) if is_replayed else case

        return await self._call(read)

    async def read_stored_jobs(self) -> Mapping[CaseKey, Sequence[StoredJob]]:
        """Read the last result of every case. Raises StoreError."""
        return await self._call(_read_stored_jobs)

    async def find_current_verdicts(self, keys: Sequence[CaseKey]) -> Mapping[CaseKey, Sequence[StoredJob]]:
        """Find the stored verdicts of these cases that are current, by repeat. Raises StoreError."""
        return await self._call(lambda workspace: _find_current_verdicts(workspace, keys))

    def _reload(self, workspace: Workspace) -> OpenedProject:
        workspace.refresh()
        return self._project(workspace)

    def _project(self, workspace: Workspace) -> OpenedProject:
        """Describe the project at or below the given path."""
        project, path = workspace.project, real_path(self._path)
        entries = [entry for entry in project.eval_sets if is_inside(entry.path, path)]
        used = {entry.target for entry in entries}
        return OpenedProject(
            root=str(path),
            targets={
                name: _describe_target(target)
                for name, target in project.targets.items()
                if name in used or is_inside(target.path, path) or path == workspace.root
            },
            sets=(
                *(_make_listed_set(entry, workspace.root) for entry in entries),
                *self._find_deleted_sets(workspace),
                *(list_history_datasets(workspace) if path.is_dir() else ()),
            ),
            problems=tuple(workspace.problems),
            files=find_named_files(workspace.problems, root=workspace.root),
        )

    def _find_deleted_sets(self, workspace: Workspace) -> Iterator[ListedSet]:
        """Find sets with unsaved edits whose files were deleted: they stay listed, and can be saved again."""
        there = {entry.relative for entry in workspace.project.eval_sets}
        for name in workspace.documents.dirty():
            if name not in there:
                yield replace(self._listed[name].listed, cases=None) if name in self._listed else ListedSet(name)

    def _list_set(self, workspace: Workspace, listed: ListedSet) -> ListedSet:
        if listed.history_run is not None:
            try:
                return list_history_rows(workspace, listed, listed.history_run)
            except StoreError as error:
                return replace(listed, problem=str(error), cases=None)
        try:
            document = workspace.documents.document(listed.relative)
            status = workspace.documents.get_status(listed.relative)
        except IsDataset:
            return self._list_dataset(workspace, listed)
        except StoreError as error:
            self._listed.pop(listed.relative, None)
            return replace(listed, problem=str(error), cases=None)
        unread = "" if status.problem is None else str(status.problem)  # then the list shows the last valid state
        known = self._listed.get(listed.relative)
        entries = document.entries  # another object after every edit
        quarantined = _read_quarantined_cases(document.path, document)
        now = (unread, quarantined)
        if known is not None and known.entries is entries and known.listed is listed and known.others == now:
            return listed
        times = Counter(entry.eval_id for entry in entries)
        make_key = make_fast_constructor(CaseKey, set(CaseKey.model_fields))
        cases = []
        for entry in entries:
            problem = str(entry.problem) if entry.problem is not None else ""
            if times[entry.eval_id] > 1:
                problem = f"duplicate id ({times[entry.eval_id]} times in this file); make it unique to run the case"
            values = {"target": listed.target, "eval_set": listed.relative, "eval_id": entry.eval_id}
            key = make_key({**values, "occurrence": entry.occurrence})
            cases.append(make_case_row(key, problem, quarantined.get(key.name) if quarantined else None))
        read = replace(listed, problem=unread or _find_broken_json(document), cases=tuple(cases), is_dataset=False)
        self._listed[listed.relative] = _ListedFile(entries, now, read)
        return read

    def _list_dataset(self, workspace: Workspace, listed: ListedSet) -> ListedSet:
        try:
            return list_rows(workspace, listed)
        except NotLoaded:
            return listed
        except StoreError as error:
            return replace(listed, problem=str(error), cases=None)


class _ListedFile(NamedTuple):
    """The list of a file: made of these entries, and of `others`.

    These are why the present content of the file cannot be read, and the quarantines in force.
    """

    entries: Sequence[CaseEntry]
    others: tuple[str, Mapping[str, Quarantine]]
    listed: ListedSet


def _find_broken_json(document: EvalSetDocument) -> str:
    """Describe where the JSON around the cases is broken, so that cases may be missing; empty if it is not broken."""
    try:
        document.refuse_broken_json()
    except StoreError as error:
        return str(error)
    return ""


def _read_case(workspace: Workspace, key: CaseKey, *, stored: bool, earlier: EarlierVerdicts) -> LoadedCase:
    try:
        if is_history_dataset(workspace, key):
            return make_history_case(key, _read_stored_results(workspace, key, {}))
        results = _read_stored_results(workspace, key, earlier) if stored else ()
    except StoreError as error:
        return LoadedCase(key, None, str(error))
    try:
        document = workspace.documents.document(key.eval_set)
        for entry in document.entries:
            if entry.eval_id == key.eval_id and entry.occurrence == key.occurrence:
                return LoadedCase(key, document.case(entry.index), stored=results)
    except IsDataset:
        return _read_row(workspace, key, results)
    except StoreError as error:
        return LoadedCase(key, None, str(error), results)
    return LoadedCase(key, None, "the case is no longer in its file; F5 looks for changed eval sets", results)


def _read_row(workspace: Workspace, key: CaseKey, results: Sequence[CaseResult]) -> LoadedCase:
    try:
        row = find_row(workspace, key)
    except StoreError as error:
        return LoadedCase(key, None, str(error), results)
    if row is None:
        return LoadedCase(key, None, "the row is no longer in its file", results)
    return LoadedCase(key, row.case, row.problem or "", results, is_row=bool(row.columns))


def _read_stored_jobs(workspace: Workspace) -> Mapping[CaseKey, Sequence[StoredJob]]:
    if not has_history(workspace):
        return {}
    with workspace.history() as history:
        latest = history.latest_jobs()
        return {**latest, **workspace.find_renamed_jobs(history, latest)}


def _find_current_verdicts(workspace: Workspace, keys: Sequence[CaseKey]) -> Mapping[CaseKey, Sequence[StoredJob]]:
    from workbench.watch.selector import find_current_verdicts

    wanted: dict[str, list[str]] = {}
    unread = {entry.relative for entry in workspace.project.eval_sets if entry.address is not None}
    for key in keys:
        if key.eval_set in unread or is_history_dataset(workspace, key):
            continue  # it cannot be planned, or only by reading a remote dataset
        wanted.setdefault(key.eval_set, []).append(key.eval_id)
    try:
        plan = workspace.plan(
            [Selection(eval_set=name, cases=tuple(ids)) for name, ids in wanted.items()], RunOptions()
        )
    except PlanError:  # a case was deleted, or a file is invalid; a run reports it
        return {}
    return find_current_verdicts(workspace, plan)


def _read_stored_results(workspace: Workspace, key: CaseKey, earlier: EarlierVerdicts) -> Sequence[CaseResult]:
    with workspace.history() as history:
        return read_earlier_results(history, key, earlier) or history.latest_results([key]).get(key, ())


def _read_live_samples(workspace: Workspace, key: CaseKey) -> Sequence[CaseStatus]:
    with workspace.history() as history:
        return [each.job.status for each in find_live_samples(history.list_executions(key))]


def _make_listed_set(entry: EvalSetEntry, root: Path) -> ListedSet:
    config = f"default (no {' or '.join(CRITERIA_FILES)})"
    if entry.config is not None:
        config = str(entry.config.relative_to(root) if entry.config.is_relative_to(root) else entry.config)
    return ListedSet(
        relative=entry.relative,
        target=entry.target or "",
        pairing_problem="" if entry.target else entry.unpaired_reason or "its agent is unknown",
        config=config,
        is_dataset=is_dataset_name(entry.relative) or entry.address is not None,
        is_address=entry.address is not None,
    )


def _describe_target(target: Target) -> tuple[tuple[str, str], ...]:
    facts = [("agent", target.name), ("kind", target.kind.value), ("runs", target.location), ("in", str(target.path))]
    if target.python is not None:
        facts.append(("python", str(target.python)))
    if target.config is not None:
        facts.append(("criteria", str(target.config)))
    return tuple((name, value) for name, value in facts if value)


# Contents of cases: the texts that the filter searches, and the hashes that show stale verdicts.

_STRETCH = 0.015  # seconds of reading, after which other calls get their turn


@dataclass
class _CachedSet:
    """The contents of a set by the text of each case, for one revision, target and criteria.

    `revision` is 0 if the set was not read to its end.
    """

    revision: int
    context: tuple[str, str] | None
    cases: dict[bytes, CaseContent]


class Contents:
    """Reads the contents of cases. The filter searches the raw text of a case that cannot be read."""

    def __init__(self, call: WorkspaceCall) -> None:
        self._call = call
        self._known: dict[str, _CachedSet] = {}
        self._judges: dict[str, tuple[str, ...]] = {}
        self._kept: dict[str, tuple[str, int]] = {}  # by dataset: the run that was read, and its number of rows

    def get_judges(self, eval_set: str) -> tuple[str, ...]:
        """Return the judge models of a set; empty if it was not read yet."""
        return self._judges.get(eval_set, ())

    async def read(self, listed: ListedSet) -> AsyncIterator[Sequence[CaseContent]]:
        """Read the cases of a set in batches; nothing if they have not changed since the last call.

        Stops if the set changes meanwhile; the caller reads it again.
        """
        if listed.history_run is not None:
            async for found in self._read_history_rows(listed, listed.history_run):
                yield found
            return
        reading = await self._call(lambda workspace: self._start_reading(workspace, listed))
        while reading is not None:
            found = await self._call(lambda _, reading=reading: reading.step())  # type: ignore[misc]
            if not found:
                if reading.is_done:
                    self._known[listed.relative] = reading.make_cache()
                return
            yield found

    async def _read_history_rows(self, listed: ListedSet, kept: HistoryRun) -> AsyncIterator[Sequence[CaseContent]]:
        if listed.cases is None or self._kept.get(listed.relative) == (kept.run_id, len(listed.cases)):
            return
        try:
            reading = await self._call(lambda workspace: HistoryRowReader(workspace.history(), listed, kept))
            try:
                while found := await self._call(lambda _: reading.step(seconds=_STRETCH)):
                    yield found
            finally:
                await self._call(lambda _: reading.close())
        except StoreError:
            return  # the filter searches their ids only
        self._kept[listed.relative] = (kept.run_id, len(listed.cases))

    def _start_reading_rows(self, workspace: Workspace, listed: ListedSet) -> _RowReader | None:
        try:
            revision = workspace.recordings.revision(listed.relative)
            known = self._known.get(listed.relative)
            if known is not None and known.revision == revision:
                return None
            return _RowReader(read_row_contents(workspace, listed), revision)
        except StoreError:
            self._known.pop(listed.relative, None)
            return None

    def _start_reading(self, workspace: Workspace, listed: ListedSet) -> _SetReader | _RowReader | None:
        try:
            document = workspace.document(listed.relative)
        except IsDataset:
            return self._start_reading_rows(workspace, listed)
        except StoreError:
            self._known.pop(listed.relative, None)
            return None
        context = _make_set_context(workspace, listed, document)
        self._judges[listed.relative] = _find_judges(context)
        known = self._known.get(listed.relative)
        hashes = None if context is None else context.hashes
        if known is None or known.context != hashes:
            known = _CachedSet(0, hashes, {})
        if known.revision == document.revision:
            return None
        # If reading stops half-way, the next call continues from here.
        self._known[listed.relative] = _CachedSet(0, hashes, known.cases)
        return _SetReader(document, listed, context, known.cases)


class _RowReader:
    """Returns the rows of a dataset in one batch: listing has read them already."""

    def __init__(self, found: Sequence[CaseContent], revision: int) -> None:
        self._found = found
        self._revision = revision
        self.is_done = False

    def make_cache(self) -> _CachedSet:
        return _CachedSet(self._revision, None, {})

    def step(self) -> Sequence[CaseContent]:
        """Return all rows, then nothing."""
        found, self._found = self._found, ()
        self.is_done = not found
        return found


class _SetReader:
    """Reads the contents of one set step by step."""

    def __init__(
        self, document: EvalSetDocument, listed: ListedSet, context: SetContext | None, known: dict[bytes, CaseContent]
    ) -> None:
        self._document = document
        self._revision = document.revision
        self._keys = {(key.eval_id, key.occurrence): key for key in listed.case_keys}
        self._context = context
        self._before = known
        self._read: dict[bytes, CaseContent] = {}
        self._next = 0

    @property
    def is_done(self) -> bool:
        """Whether every case was read, and the set has not changed since."""
        return self._next >= len(self._document) and self._revision == self._document.revision

    def make_cache(self) -> _CachedSet:
        return _CachedSet(self._revision, None if self._context is None else self._context.hashes, self._read)

    def step(self) -> Sequence[CaseContent]:
        """Read the next cases for a short time; nothing at the end, or if the set has changed."""
        if self._revision != self._document.revision:
            return ()
        found: list[CaseContent] = []
        until = time.monotonic() + _STRETCH
        entries, pieces = self._document.entries, self._document.pieces_of_cases()
        while self._next < len(entries) and (not found or time.monotonic() < until):
            data, entry = pieces[self._next].data, entries[self._next]
            self._next += 1
            content = self._content(entry, data)
            if content is not None:
                self._read[data] = self._before[data] = content
                found.append(content)
        return found

    def _content(self, entry: CaseEntry, data: bytes) -> CaseContent | None:
        key = self._keys.get((entry.eval_id, entry.occurrence))
        if key is None:
            return None
        known = self._before.get(data)
        if known is not None and known.key == key:
            return known
        try:
            case = self._document.case(entry.index)
        except StoreError:
            return index_broken_case(key, data.decode())
        hashes: Hashes | None = None
        if self._context is not None:
            planned = self._context.plan_case(key, case)
            hashes = planned.execution_hash, planned.scoring_hash
        return index_case(key, case, hashes)


def _find_judges(context: SetContext | None) -> tuple[str, ...]:
    if context is None:
        return ()
    models = context.criteria.judge_models
    return tuple("a script" if is_scripted(context.target, model) else model for model in models)


def _make_set_context(workspace: Workspace, listed: ListedSet, document: EvalSetDocument) -> SetContext | None:
    """Make what a plan hashes besides the cases of a set; None if the set cannot be planned.

    Also None for recorded targets: their hashes need the recordings, which are not read here.
    """
    from workbench.engine.planner import ToolPlanner

    target = workspace.project.targets.get(listed.target)
    if target is None or target.kind is AgentKind.RECORDED:
        return None
    entry = next((entry for entry in workspace.project.eval_sets if entry.relative == listed.relative), None)
    # A set with unsaved edits whose file was deleted has no entry.
    file = entry.config if entry is not None else find_criteria_file(document.path, target, root=workspace.root)
    try:
        config = default_config() if file is None else load_config(file)
    except StoreError:
        return None
    planner = ToolPlanner(RunOptions(), model=workspace.settings.simulation.model)
    tools = planner.plan(target)
    if planner.problems:
        return None
    criteria = prepare(complete_config(config, workspace.settings))
    return SetContext(eval_set_id=document.eval_set_id, target=target, criteria=criteria, tools=tools)
