"""Operations on eval-set files, comparison and merge of versions, and validation."""

from __future__ import annotations

import contextlib
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path
from typing import Any

from workbench.engine.plan import complete_config, find_config_problems, find_useless_thresholds
from workbench.metrics.registry import check_inputs, prepare
from workbench.model.identity import CaseKey
from workbench.model.text import neutralise
from workbench.store.errors import StoreError, shown_path
from workbench.store.evalsets.adk_rules import FileProblem
from workbench.store.evalsets.case_frame import DocumentFormat
from workbench.store.evalsets.config_files import parse_config, read_json
from workbench.store.evalsets.evalset_document import EvalSetDocument
from workbench.store.evalsets.new_evalsets import CaseDifference, find_differing_cases, make_new_set_content
from workbench.store.evalsets.validation import is_config, list_files, validate
from workbench.store.files import EVAL_SET_SUFFIXES, FileSnapshot, SetFiles, derive_set_name, find_root, real_path
from workbench.store.json.json_path import find_key
from workbench.store.project_discovery import EvalSetEntry, discover
from workbench.store.settings import Settings, load_settings

# Operations on files of eval sets, with undo until the end of the session.


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The result of an operation, undo or redo: its label, and the file of the set before and after it.

    `before` is None if no file existed, `after` if none exists now. Both are None for an edit inside `eval_sets`.
    `number` identifies an operation on files; it is 0 for an edit.
    """

    label: str
    number: int = 0
    before: str | None = None
    after: str | None = None
    eval_sets: tuple[str, ...] = ()


@dataclass
class _Operation:
    """A file was created (no `before`), deleted (no `after`) or renamed. `kept` is the created or deleted file."""

    label: str
    before: str | None
    after: str | None
    kept: FileSnapshot | None
    number: int  # the order number of the first time
    at: int  # the order number of the last time

    def make_result(self, before: str | None, after: str | None) -> Done:
        """Make the result of doing or undoing the operation."""
        return Done(label=self.label, number=self.number, before=before, after=after)


class SetOperations:
    """The operations on files below a folder, with undo and redo."""

    def __init__(self, root: Path) -> None:
        self._files = SetFiles(root)
        self._done: list[_Operation] = []
        self._undone: list[_Operation] = []

    @property
    def undo_order(self) -> int:
        """The order number of the operation to undo next; 0 without one."""
        return self._done[-1].at if self._done else 0

    @property
    def redo_order(self) -> int:
        """The order number of the undo to redo next; 0 without one."""
        return self._undone[-1].at if self._undone else 0

    def create(self, eval_set: str, *, eval_set_id: str, at: int) -> None:
        """Create an eval set without cases. Raises StoreError."""
        content = make_new_set_content(self._files.get_path(eval_set), eval_set_id)
        self._put(f"create {eval_set}", eval_set, content, at)

    def duplicate(self, document: EvalSetDocument, eval_set: str, copy: str, *, at: int) -> None:
        """Write a document under another name, with that name as its id. Raises StoreError."""
        path = self._files.get_path(copy)
        duplicate = EvalSetDocument(path, document.content(), None)
        if duplicate.format is DocumentFormat.CURRENT:
            duplicate.set_value(("eval_set_id",), derive_set_name(path))
        self._put(f"duplicate {eval_set}", copy, duplicate.content(), at)

    def rename(self, eval_set: str, new: str, *, at: int) -> Done:
        """Rename a file. Raises StoreError."""
        self._files.move(eval_set, new)
        return self._note(_Operation(f"rename {eval_set}", eval_set, new, None, at, at))

    def delete(self, eval_set: str, *, at: int) -> Done:
        """Delete a file. Raises StoreError."""
        kept = self._files.remove(eval_set)
        return self._note(_Operation(f"delete {eval_set}", eval_set, None, kept, at, at))

    def undo(self, at: int) -> Done | None:
        """Undo the last operation; return None without one. Raises StoreError and then changes nothing."""
        if not self._done:
            return None
        operation = self._done[-1]
        self._apply(operation, operation.after, operation.before)
        operation.at = at
        self._undone.append(self._done.pop())
        return operation.make_result(operation.after, operation.before)

    def redo(self, at: int) -> Done | None:
        """Redo the operation undone last; return None without one. Raises StoreError."""
        if not self._undone:
            return None
        operation = self._undone[-1]
        self._apply(operation, operation.before, operation.after)
        operation.at = at
        self._done.append(self._undone.pop())
        return operation.make_result(operation.before, operation.after)

    def _put(self, label: str, eval_set: str, content: bytes, at: int) -> None:
        kept = FileSnapshot(data=content)
        self._files.create(eval_set, kept)
        self._note(_Operation(label, None, eval_set, kept, at, at))

    def _note(self, operation: _Operation) -> Done:
        self._done.append(operation)
        self._undone.clear()
        return operation.make_result(operation.before, operation.after)

    def _apply(self, operation: _Operation, before: str | None, after: str | None) -> None:
        if before is not None and after is not None:
            self._files.move(before, after)
        elif after is not None and operation.kept is not None:
            self._files.create(after, operation.kept)
        elif before is not None and operation.kept is not None:
            operation.kept = self._files.remove(before, expect=operation.kept.data)


# A smaller variant of a case as a case of its own.


def keep_case(document: EvalSetDocument, data: Mapping[str, Any], *, after: CaseKey) -> str:
    """Insert a case behind the original one and save the set. Return its id. Raises StoreError."""
    eval_id = suggest_small_id(after, {entry.eval_id for entry in document.entries})
    insert_small_case(document, data, eval_id, after=after)
    document.save()
    return eval_id


def suggest_small_id(case: CaseKey, taken: Container[str]) -> str:
    """Return a free id for the smaller variant of a case, without control characters that its id may have."""
    name = neutralise(case.eval_id).replace("\n", " ").strip() + "-small"
    numbered = (f"{name}-{number}" for number in count(2))
    return next(eval_id for eval_id in chain([name], numbered) if eval_id not in taken)


def insert_small_case(document: EvalSetDocument, data: Mapping[str, Any], eval_id: str, *, after: CaseKey) -> None:
    """Insert a case behind the original one; if the set does not have that, as the last one. Raises StoreError."""
    place = _places(document).get((after.eval_id, after.occurrence))
    name = find_key(data, "eval_id", free=False) or "eval_id"
    document.insert_case(len(document) if place is None else place + 1, {**data, name: eval_id})


# Merge of edits with a changed file, if they concern different cases.

_Key = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """The changes of each side since the common base, and the merged content.

    In the differences, "only in ours" is a case that the side added, "only in theirs" one that it removed. `in_both`
    are the ids of cases that both sides changed differently. `content` is None if they cannot be merged.
    """

    ours: tuple[CaseDifference, ...]
    theirs: tuple[CaseDifference, ...]
    in_both: tuple[str, ...]
    content: bytes | None


def merge(base: EvalSetDocument, ours: EvalSetDocument, theirs: EvalSetDocument) -> Merge:
    """Merge two versions of an eval set with the common base `base`."""
    mine, other = find_differing_cases(ours, base), find_differing_cases(theirs, base)
    texts = [_texts(document) for document in (ours, theirs)]
    changed_by_others = {_key(item) for item in other}
    in_both = tuple(
        item.eval_id
        for item in mine
        if _key(item) in changed_by_others and texts[0].get(_key(item)) != texts[1].get(_key(item))
    )
    content = None
    if not in_both and not any(
        item.occurrence for item in (*mine, *other)
    ):  # duplicates are identified by position, which may change
        content = _reapply(mine, ours, base, theirs) or _reapply(other, theirs, base, ours)
    return Merge(ours=tuple(mine), theirs=tuple(other), in_both=in_both, content=content)


def _reapply(
    changes: list[CaseDifference], side: EvalSetDocument, base: EvalSetDocument, onto: EvalSetDocument
) -> bytes | None:
    """Apply the changes of a side to another document; None if it has changes outside cases."""
    try:
        if _apply_changes(changes, side, base) != side.content():
            return None
        return _apply_changes(changes, side, onto)
    except StoreError:  # the text around a case leaves no safe place for it
        return None


def _apply_changes(changes: list[CaseDifference], side: EvalSetDocument, onto: EvalSetDocument) -> bytes:
    document = EvalSetDocument(onto.path, onto.content(), None)
    texts = _texts(side)
    places = _places(document)
    gone = []
    for change in changes:
        key = _key(change)
        if change.how == "changed":
            document.set_case_text(places[key], texts[key])
        elif change.how == "only in theirs" and key in places:
            gone.append(places[key])
    if gone:
        document.remove_cases(gone)
    order = list(texts)
    for change in changes:
        key = _key(change)
        if change.how == "only in ours" and key not in _places(document):
            _insert(document, side, key, after=order[: order.index(key)])
    return document.content()


def _insert(document: EvalSetDocument, side: EvalSetDocument, key: _Key, *, after: list[_Key]) -> None:
    """Insert a case of a side after its nearest predecessor in the document."""
    places = _places(document)
    index = next((places[before] + 1 for before in reversed(after) if before in places), 0)
    source = _places(side)[key]
    document.insert_case(index, side.raw_case(source))
    document.set_case_text(index, side.case_text(source))


def _texts(document: EvalSetDocument) -> dict[_Key, str]:
    return {key: document.case_text(index) for key, index in _places(document).items()}


def _places(document: EvalSetDocument) -> dict[_Key, int]:
    return {(entry.eval_id, entry.occurrence): entry.index for entry in document.entries}


def _key(difference: CaseDifference) -> _Key:
    return difference.eval_id, difference.occurrence


# Comparison of the edited version of an eval set with the file.

MOST_PARTS = 200
"""The number of different parts to compare in detail; the others are only named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionPart:
    """A different part of the file as text; None if a version lacks it."""

    title: str
    ours: str | None
    theirs: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """The edited version and the file.

    `theirs` is the content of the file, None without a file. `differences` are the different cases; None if the file is
    no eval set, which `problem` explains. `parts` are the first different parts, or the whole file if it is no eval
    set. `merge` is None if the common base is unknown.
    """

    ours: bytes
    theirs: bytes | None
    differences: tuple[CaseDifference, ...] | None
    parts: tuple[VersionPart, ...]
    merge: Merge | None = None
    problem: str = ""


def compare_versions(ours: EvalSetDocument, theirs: bytes | None) -> Versions:
    """Compare a document with the content of its file."""
    content = ours.content()
    if theirs is None:
        return Versions(ours=content, theirs=None, differences=None, parts=(), problem="the file no longer exists")
    try:
        other = EvalSetDocument(ours.path, theirs, None)
    except StoreError as error:
        whole = VersionPart(
            title="the whole file", ours=content.decode(), theirs=theirs.decode("utf-8", errors="replace")
        )
        return Versions(ours=content, theirs=theirs, differences=None, parts=(whole,), problem=str(error))
    differences = tuple(find_differing_cases(ours, other))
    parts = (*_around_cases(ours, other), *_cases(ours, other, differences))[:MOST_PARTS]
    base = ours.get_saved_version() if ours.is_dirty else None
    merged = merge(base, ours, other) if base is not None else None
    return Versions(ours=content, theirs=theirs, differences=differences, parts=parts, merge=merged)


def _around_cases(ours: EvalSetDocument, theirs: EvalSetDocument) -> Iterator[VersionPart]:
    mine, other = ours.text_around_cases(), theirs.text_around_cases()
    if mine != other:
        yield VersionPart(title="the eval set itself", ours=mine, theirs=other)


def _cases(
    ours: EvalSetDocument, theirs: EvalSetDocument, differences: tuple[CaseDifference, ...]
) -> Iterator[VersionPart]:
    mine, other = _places(ours), _places(theirs)
    for difference in differences[:MOST_PARTS]:
        if difference.how != "moved":
            key = _key(difference)
            yield VersionPart(
                title=difference.eval_id,
                ours=ours.case_text(mine[key]) if key in mine else None,
                theirs=theirs.case_text(other[key]) if key in other else None,
            )


# Validation of files, including metrics and agents.


def files_to_validate(path: Path) -> list[Path]:
    """Return the file itself, or all eval sets and criteria files of a folder, including those named by settings."""
    below = {real_path(file): file for file in list_files([path])}
    entries = _find_entries(below.values()) if path.is_dir() else ()
    configs = {real_path(each.config): each.config for each in entries if each.config and real_path(each.path) in below}
    return list({**configs, **below}.values())


def validate_files(paths: Sequence[Path], *, strict: bool = False) -> list[FileProblem]:
    """Validate files as `validate` of the store does, and configurations as a run does."""
    files = list(list_files(paths))
    entries = _find_entries(files)
    agents = {real_path(entry.path): entry.target for entry in entries}
    judging = find_judging(entries)
    problems = validate(files, strict=strict, agent_of=lambda path: agents.get(real_path(path)))
    for path in files:
        with contextlib.suppress(StoreError):  # reported already
            if is_config(read_json(path)):
                judges = real_path(path) in judging
                problems += config_problems(path, _load_settings(path), judges_eval_set=judges)
    return problems


def describe_judging(paths: Sequence[Path]) -> list[str]:
    """Return a line for each eval set among files: which criteria judge it."""
    files = {real_path(file) for file in list_files(paths)}
    entries = (each for each in _find_entries(sorted(files)) if real_path(each.path) in files)
    return [
        f"{each.relative}: {'default criteria' if each.config is None else f'criteria {shown_path(each.config)}'}"
        for each in entries
        if each.relative.endswith(EVAL_SET_SUFFIXES)
    ]


def config_problems(path: Path, settings: Settings, *, judges_eval_set: bool) -> Iterator[FileProblem]:
    """Yield unknown metrics and options, and wrong values, of a configuration. Raises StoreError.

    `judges_eval_set`: it judges an eval set, whose cases have no columns.
    """
    loaded = read_json(path)
    config = complete_config(parse_config(loaded), settings)
    invalid = list(find_config_problems(prepare(config)))
    places = {each.place for each in invalid}
    for criterion, lowest in find_useless_thresholds(config):
        if f"criteria.{criterion.metric}.threshold" in places:
            continue
        message = f"{criterion.threshold:g} is below every possible score (lowest: {lowest:g}), so every case passes"
        placed = loaded.error(f"criteria.{criterion.metric}.threshold", found="", expected="")
        yield FileProblem.of_error(placed, rule="low-threshold", severity="warning", message=message)
    for each in invalid:
        error = loaded.error(each.place, found=each.found, expected=each.expected)
        yield FileProblem.of_error(error, rule="criteria")
    for each in check_inputs(config, ()):
        error = loaded.error(each.place, found=each.found, expected=each.expected)
        yield FileProblem.of_error(error, rule="inputs", severity="error" if judges_eval_set else "warning")


def find_judging(entries: Iterable[EvalSetEntry]) -> set[Path]:
    """Return the files of criteria that judge eval sets, not only datasets."""
    return {real_path(each.config) for each in entries if each.config and each.relative.endswith(EVAL_SET_SUFFIXES)}


def _load_settings(path: Path) -> Settings:
    try:
        return load_settings(find_root(path)).settings
    except StoreError:  # of another file
        return Settings()


def _find_entries(files: Iterable[Path]) -> list[EvalSetEntry]:
    """Find the eval sets of the projects of these files."""
    entries: list[EvalSetEntry] = []
    for root in {find_root(path) for path in files if path.exists()}:
        with contextlib.suppress(StoreError):
            entries += (entry for entry in discover(root, load_settings(root)).eval_sets if entry.address is None)
    return entries
