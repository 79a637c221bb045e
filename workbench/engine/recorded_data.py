"""Recorded cases as a plan takes them: what an agent once did is judged, and no agent runs."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from workbench.engine.plan import PlanError, PlannedCase, SetContext
from workbench.metrics.registry import PreparedCriteria, find_missing_columns
from workbench.model.base import make_fast_constructor
from workbench.model.criteria import EvalConfig
from workbench.model.identity import CaseInSet, CaseKey
from workbench.model.results import Failure, FailureKind
from workbench.model.target import AgentKind, Target
from workbench.store.datasets.dataset_reader import Recorded, RecordedCase, is_dataset, read_recorded
from workbench.store.datasets.dataset_rows import KNOWN as KNOWN_COLUMNS
from workbench.store.datasets.remote_data import describe_error, is_address, shown_address
from workbench.store.errors import NotLoaded, StoreError, shown_path
from workbench.store.files import make_relative_name, read_signature
from workbench.store.filetypes import EVAL_SET_SUFFIXES, is_dataset_name
from workbench.store.project_discovery import EvalSetEntry, Project, find_recordings

_Stamp = Hashable

_key = make_fast_constructor(CaseKey, {*CaseKey.model_fields})
_CASE, _EXECUTION = (vars(RecordedCase)[name] for name in ("case", "execution"))


class Reading(NamedTuple):
    """What was read of a set, or why it could not be, and `stamp`, which tells the state of it that was read."""

    stamp: _Stamp
    found: Recorded | StoreError


def make_recorded_target(path: Path | str, *, root: Path, functions: Path | None = None) -> Target:
    """The target that stands for a dataset of the project below `root`, which is called like its set.

    Functions of the user are imported from `functions`, by default from there.
    """
    name = shown_address(path) if isinstance(path, str) else make_relative_name(path.resolve(), root)
    return Target(name=name, kind=AgentKind.RECORDED, location=str(path), path=functions or root)


class Recordings:
    """What the recorded targets of a project hold: files as they are on disk now, addresses as they were read last.

    Used from one thread at a time, but for what `reader` gives.
    """

    def __init__(self, project: Callable[[], Project]) -> None:
        """`project` gives the project as it is now."""
        self._project = project
        self._known: dict[str, Reading] = {}
        self._are_rows: dict[str, tuple[_Stamp, bool]] = {}
        self._reads = 0

    def read(self, eval_set: str) -> Recorded:
        """What was recorded for a set; a dataset is all of it.

        Raises NotLoaded for an address that has not been read yet. Raises StoreError where nothing can be read or the
        set is of no recorded target. What kept an address from being read holds until it is read again.
        """
        entry, target = self._find(eval_set)
        stamp = _stamp(entry, target)
        known = self._known.get(eval_set)
        if known is not None and known.stamp == stamp:
            if isinstance(known.found, StoreError):
                raise known.found
            return known.found
        if entry.address is not None:
            raise NotLoaded(eval_set)
        recorded = _read(entry, target)
        self._known[eval_set] = Reading(stamp, recorded)
        return recorded

    def fetch(self, eval_set: str) -> Recorded:
        """As `of`, but an address that has not been read yet is read."""
        try:
            return self.read(eval_set)
        except NotLoaded:
            self.keep(eval_set, self.make_reader(eval_set)())
            return self.read(eval_set)

    def make_reader(self, eval_set: str) -> Callable[[], Reading]:
        """What reads a set anew, on any thread, and gives what is wrong where it cannot: addresses take their time.

        Raises StoreError where the set is of no recorded target, or has gone.
        """
        return partial(_try_read, *self._find(eval_set))

    def keep(self, eval_set: str, reading: Reading) -> None:
        """What `reader` has read counts from now on, unless the set has gone meanwhile or is another one."""
        try:
            stamp = _stamp(*self._find(eval_set))
        except StoreError:
            return
        if stamp == reading.stamp:
            self._reads += 1
            self._known[eval_set] = reading

    def forget_addresses(self) -> None:
        """What stands at addresses may be something else by now."""
        elsewhere = {entry.relative for entry in self._project().eval_sets if entry.address is not None}
        self._known = {name: known for name, known in self._known.items() if name not in elsewhere}

    def revision(self, eval_set: str) -> int:
        """Another number after every change of a file, and after every reading of an address. Raises StoreError."""
        entry, target = self._find(eval_set)
        return hash((_stamp(entry, target), self._reads if entry.address is not None else 0))

    def is_dataset(self, eval_set: str) -> bool:
        """Whether a set is a dataset, whose rows are cases, and no eval set.

        Told by the name; of a `.json` file that a recorded target names, by what it holds. Raises StoreError where that
        cannot be read.
        """
        if is_dataset_name(eval_set) or is_address(eval_set):
            return True
        entry = None if eval_set.endswith(EVAL_SET_SUFFIXES) else self._entry(eval_set)
        target = None if entry is None or entry.target is None else self._project().targets[entry.target]
        if entry is None or target is None or target.kind is not AgentKind.RECORDED or target.location:
            return False
        stamp = read_signature(entry.path)
        known = self._are_rows.get(eval_set)
        if known is None or known[0] != stamp:
            known = self._are_rows[eval_set] = stamp, is_dataset(entry.path)
        return known[1]

    def _find(self, eval_set: str) -> tuple[EvalSetEntry, Target]:
        entry = self._entry(eval_set)
        target = None if entry is None or entry.target is None else self._project().targets[entry.target]
        if entry is None or target is None or target.kind is not AgentKind.RECORDED:
            raise StoreError(
                self._project().root / eval_set,
                "holds what was recorded: list it under eval_sets of a target of kind recorded",
            )
        return entry, target

    def _entry(self, eval_set: str) -> EvalSetEntry | None:
        return next((entry for entry in self._project().eval_sets if entry.relative == eval_set), None)


def _stamp(entry: EvalSetEntry, target: Target) -> _Stamp:
    """What tells one state of a recording from another, as far as that is known without reading it."""
    if entry.address is not None:
        return target, entry.address
    own = find_recordings(target)
    return target, read_signature(entry.path), () if own is None else read_signature(own)


def _try_read(entry: EvalSetEntry, target: Target) -> Reading:
    stamp = _stamp(entry, target)
    try:
        return Reading(stamp, _read(entry, target))
    except StoreError as error:
        return Reading(stamp, error)
    except Exception as error:  # filesystems of fsspec, clients and what reads their formats raise what they like
        return Reading(stamp, StoreError(entry.relative, f"cannot read it: {describe_error(error)}"))


def _read(entry: EvalSetEntry, target: Target) -> Recorded:
    if entry.address is not None:
        return read_recorded(entry.address, columns=dict(target.columns))
    own = find_recordings(target)
    if own is not None and own != entry.path:
        return read_recorded(own, expected=entry.path)
    if is_dataset(entry.path):
        return read_recorded(entry.path, columns=dict(target.columns))
    problem = f'target {target.name!r}: found no recordings, expected target = "FILE" with recorded sessions'
    raise StoreError(entry.path, problem)


def check_columns(recorded: Recorded, config: EvalConfig, *, mapping: str) -> None:
    """Raise PlanError where none of the criteria can say anything of any row, for want of columns.

    `mapping` is how columns of other names are told to whoever reads it, with COLUMN where one belongs.
    """
    columns = sorted({name for item in recorded.cases for name, value in item.columns.items() if value is not None})
    lacking = find_missing_columns(config, columns)
    if not columns or not lacking.covers_all_metrics:
        return
    mapped = [name for names in lacking.missing.values() for name in reversed(names) if name in KNOWN_COLUMNS]
    how = f" (columns of other names are told by {mapping.replace('COLUMN', mapped[0])})" if mapped else ""
    raise PlanError(f"{shown_path(recorded.path)}: {lacking.describe(columns)}{how}")


def plan_recordings(
    recorded: Recorded,
    *,
    name: str,
    target: Target,
    criteria: PreparedCriteria,
    chosen: frozenset[CaseInSet] | None = None,
) -> Iterator[PlannedCase]:
    """The cases of a recording (those `chosen`, None: all), to be judged by `criteria`.

    `name` is what their set is called in keys. A target that has an agent runs it: what was recorded of another does
    not count.
    """
    context = SetContext(eval_set_id=recorded.eval_set_id, target=target, criteria=criteria)
    for item in recorded.cases:
        if chosen is not None and (item.eval_id, item.occurrence) not in chosen:
            continue
        key = _key({"target": target.name, "eval_set": name, "eval_id": item.eval_id, "occurrence": item.occurrence})
        problem, hashes = None, ("", "")
        if item.problem is not None:
            problem = Failure(kind=FailureKind.FILE, message=item.problem)
        elif target.kind is not AgentKind.RECORDED:
            yield replace(context.plan_case(key, item.case), columns=item.columns)
            continue
        else:
            hashes = context.hash_recorded_case(item)
        yield PlannedCase(
            key=key,
            eval_set_id=recorded.eval_set_id,
            target=target,
            criteria=criteria,
            case=_CASE.get_unevaluated(item),
            problem=problem,
            recorded=_EXECUTION.get_unevaluated(item),
            columns=item.columns,
            execution_hash=hashes[0],
            scoring_hash=hashes[1],
        )
