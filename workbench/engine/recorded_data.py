"""Recorded executions and datasets as cases of a plan: they are judged, and no agent runs."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from workbench.engine.plan import PlanError, PlannedCase, SetContext
from workbench.metrics.registry import PreparedCriteria, find_missing_columns
from workbench.model.criteria import EvalConfig
from workbench.model.facts import make_fast_constructor
from workbench.model.identity import CaseInSet, CaseKey
from workbench.model.results import Failure, FailureKind
from workbench.model.target import AgentKind, Target
from workbench.store.datasets.dataset_files import Recorded, RecordedCase, is_dataset, read_recorded
from workbench.store.datasets.dataset_rows import KNOWN as KNOWN_COLUMNS
from workbench.store.datasets.remote_data import describe_error, is_address, shown_address
from workbench.store.errors import NotLoaded, StoreError, shown_path
from workbench.store.files import EVAL_SET_SUFFIXES, is_dataset_name, make_relative_name, read_signature, real_path
from workbench.store.project_discovery import EvalSetEntry, Project, find_recordings

_Stamp = Hashable

_key = make_fast_constructor(CaseKey, {*CaseKey.model_fields})
_CASE, _EXECUTION = (vars(RecordedCase)[name] for name in ("case", "execution"))


class SetReading(NamedTuple):
    """The contents of a set or the error of reading it, and `stamp`, which identifies the version that was read."""

    stamp: _Stamp
    found: Recorded | StoreError


def make_recorded_target(path: Path | str, *, root: Path, functions: Path | None = None) -> Target:
    """Make the target for a dataset of the project at `root`, with the name of its set.

    Functions of the user are imported from `functions`, by default from `root`.
    """
    name = shown_address(path) if isinstance(path, str) else make_relative_name(real_path(path), root)
    return Target(name=name, kind=AgentKind.RECORDED, location=str(path), path=functions or root)


class Recordings:
    """The contents of recorded targets: files as they are on disk, addresses as they were last read.

    Used from one thread at a time, except for the result of `make_reader`.
    """

    def __init__(self, project: Callable[[], Project]) -> None:
        """`project` returns the current project."""
        self._project = project
        self._known: dict[str, SetReading] = {}
        self._are_rows: dict[str, tuple[_Stamp, bool]] = {}
        self._reads = 0

    def read(self, eval_set: str) -> Recorded:
        """Read the recordings of a set, or a dataset.

        Raises NotLoaded for an address that was not read yet, and StoreError if it cannot be read or belongs to no
        recorded target. The error of an address is kept until it is read again.
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
        self._known[eval_set] = SetReading(stamp, recorded)
        return recorded

    def fetch(self, eval_set: str) -> Recorded:
        """As `read`, but read an address that was not read yet."""
        try:
            return self.read(eval_set)
        except NotLoaded:
            self.keep(eval_set, self.make_reader(eval_set)())
            return self.read(eval_set)

    def make_reader(self, eval_set: str) -> Callable[[], SetReading]:
        """Return a function that reads a set on any thread, because addresses are slow. It returns errors.

        Raises StoreError if the set belongs to no recorded target or no longer exists.
        """
        return partial(_try_read, *self._find(eval_set))

    def keep(self, eval_set: str, reading: SetReading) -> None:
        """Store the result of `make_reader`, unless the set has changed meanwhile."""
        try:
            stamp = _stamp(*self._find(eval_set))
        except StoreError:
            return
        if stamp == reading.stamp:
            self._reads += 1
            self._known[eval_set] = reading

    def forget_addresses(self) -> None:
        """Forget the contents of addresses, which may have changed."""
        elsewhere = {entry.relative for entry in self._project().eval_sets if entry.address is not None}
        self._known = {name: known for name, known in self._known.items() if name not in elsewhere}

    def revision(self, eval_set: str) -> int:
        """Return a number that changes with the file, and with every reading of an address. Raises StoreError."""
        entry, target = self._find(eval_set)
        return hash((_stamp(entry, target), self._reads if entry.address is not None else 0))

    def is_dataset(self, eval_set: str) -> bool:
        """True if the entry is a dataset, not an eval set.

        The name decides, or the contents of a `.json` file of a recorded target. Raises StoreError if that cannot be
        read.
        """
        if is_dataset_name(eval_set) or is_address(eval_set):
            return True
        found = None if eval_set.endswith(EVAL_SET_SUFFIXES) else self._find_recorded(eval_set)
        if found is None or found[1].location:
            return False
        path = found[0].path
        stamp = read_signature(path)
        known = self._are_rows.get(eval_set)
        if known is None or known[0] != stamp:
            known = self._are_rows[eval_set] = stamp, is_dataset(path)
        return known[1]

    def _find(self, eval_set: str) -> tuple[EvalSetEntry, Target]:
        found = self._find_recorded(eval_set)
        if found is None:
            raise StoreError(
                self._project().root / eval_set,
                "has recorded sessions: list it under eval_sets of a target of kind recorded",
            )
        return found

    def _find_recorded(self, eval_set: str) -> tuple[EvalSetEntry, Target] | None:
        """Return a set and its target; None if that is not a recorded one."""
        project = self._project()
        entry = next((entry for entry in project.eval_sets if entry.relative == eval_set), None)
        target = None if entry is None or entry.target is None else project.targets[entry.target]
        is_recorded = target is not None and target.kind is AgentKind.RECORDED
        return (entry, target) if entry is not None and target is not None and is_recorded else None


def _stamp(entry: EvalSetEntry, target: Target) -> _Stamp:
    """Return a value that changes with a recording, without reading it."""
    if entry.address is not None:
        return target, entry.address
    own = find_recordings(target)
    return target, read_signature(entry.path), () if own is None else read_signature(own)


def _try_read(entry: EvalSetEntry, target: Target) -> SetReading:
    stamp = _stamp(entry, target)
    try:
        return SetReading(stamp, _read(entry, target))
    except StoreError as error:
        return SetReading(stamp, error)
    except Exception as error:  # filesystems of fsspec, clients and what reads their formats raise what they like
        return SetReading(stamp, StoreError(entry.relative, f"cannot read it: {describe_error(error)}"))


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
    """Raise PlanError if the columns that the criteria need are missing in all rows.

    `mapping` is the option that maps columns, with COLUMN as a placeholder.
    """
    columns = sorted({name for item in recorded.cases for name, value in item.columns.items() if value is not None})
    lacking = find_missing_columns(config, columns)
    if not columns or not lacking.covers_all_metrics:
        return
    mapped = [name for names in lacking.missing.values() for name in reversed(names) if name in KNOWN_COLUMNS]
    how = f" (map columns with other names with {mapping.replace('COLUMN', mapped[0])})" if mapped else ""
    raise PlanError(f"{shown_path(recorded.path)}: {lacking.describe(columns)}{how}")


def plan_recordings(
    recorded: Recorded,
    *,
    name: str,
    target: Target,
    criteria: PreparedCriteria,
    chosen: frozenset[CaseInSet] | None = None,
) -> Iterator[PlannedCase]:
    """Plan the cases of a recording (those `chosen`, None: all), to be judged by `criteria`.

    `name` is the name of their set in keys. A target with an agent runs it and ignores recorded executions.
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
