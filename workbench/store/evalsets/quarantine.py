"""Quarantined cases: stored beside their eval set, in a file that ADK does not read.

The file of `home.evalset.json` is `home.evalset.workbench.json`. It is JSON, with comments and other keys that stay as
they are: `{"quarantine": {"CASE": {"until": "2026-12-24", "reason": "…", "messages": "…"}}}`. An entry that cannot be
read is reported, and is no quarantine: a mistake must never hide a failure. Neither is one for a name that comes from
the position of a case: once a case is inserted before it, another case has the name.

`messages` is a digest of what the user says in the case, see `digest_messages`. With another digest, the case is a
different one: it got the id of a deleted case, or was rewritten. Its quarantine then does not count. It comes back with
the case, for example by undo, so nothing is removed when a case is deleted. Entries without a digest count by name:
those of older versions, those written by hand, and those of rows of datasets. If a case or a set gets another name on
the screen, its quarantine gets it as well. A case that is moved to another set there takes its quarantine along.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from datetime import date
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from workbench.model.evalset import EvalCase, Quarantine
from workbench.model.identity import CaseInSet, CaseKey, group_cases_by_name
from workbench.model.text import suggest_name
from workbench.store.errors import FileChanged, StoreError, shown_path
from workbench.store.evalsets.adk_rules import FileProblem
from workbench.store.evalsets.case_reader import CaseEntry
from workbench.store.evalsets.config_files import JsonFile, read_json
from workbench.store.evalsets.evalset_document import DocumentView, EvalSetDocument
from workbench.store.files import (
    EVAL_SET_SUFFIXES,
    SIDECAR_SUFFIX,
    derive_set_name,
    get_sidecar_path,
    is_dataset_name,
    make_relative_name,
    write_atomic,
    write_new,
)
from workbench.store.folder_scan import walk
from workbench.store.json.json_edit import Fragment, UnsafeEdit, WrongPlace
from workbench.store.json.json_layout import JsonStyle
from workbench.store.json.json_path import find_repeated_keys
from workbench.store.json.json_text import BrokenJson

_KEY = "quarantine"
_UNTIL, _REASON, _MESSAGES = "until", "reason", "messages"
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_ROW = re.compile(r"row_\d+")  # a row of a dataset without an id
_SECOND = re.compile(r"#\d+$")  # a case that has its id together with others
_DIGITS = 12  # hexadecimal, of a digest
_EMPTY = b'{\n  "quarantine": {}\n}\n'
_MOST_TRIES = 5  # while other programs write the same file


class Quarantines(NamedTuple):
    """The quarantines of an eval set by the names of cases, also expired ones, and what cannot be read.

    `changed` do not count: their cases have other messages of the user now.
    """

    cases: Mapping[str, Quarantine]
    problems: Sequence[StoreError] = ()
    changed: Mapping[str, Quarantine] = MappingProxyType({})

    def at_day(self, day: date) -> Quarantines:
        """Return the quarantines as they are on a day."""
        cases, changed = (
            {name: each.at_day(day) for name, each in found.items()} for found in (self.cases, self.changed)
        )
        return self._replace(cases=cases, changed=changed)

    def describe_stale(self, name: str, known: Collection[str]) -> Iterator[str]:
        """Describe entries without effect: of cases that the set `name` does not have, or that are different now."""
        missing = [case for case in self.cases if case not in known]
        if missing:
            yield f"{name}: the set does not have these cases in quarantine: {', '.join(missing)}"
        if self.changed:
            yield (
                f"{name}: verdicts of these cases count again, because the user says something else in them than when "
                f"they were put into quarantine: {', '.join(self.changed)}"
            )


def digest_messages(case: EvalCase) -> str:
    """Return a short digest of what the user says in a case: its turns or its scenario, but no expectations.

    Formatting, the spelling of keys and everything else of the case do not change it.
    """
    scenario = case.conversation_scenario
    if scenario is not None:
        said: list[Any] = [scenario.starting_prompt, scenario.conversation_plan]
    else:
        said = [
            [
                part.text if part.text is not None else sorted(_list_values(part.model_dump(mode="json")))
                for part in turn.user_content.parts or ()
            ]
            for turn in case.conversation or ()
        ]
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()[:_DIGITS]


def _list_values(value: Any) -> Iterator[str]:
    if isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _list_values(each)
    elif value is not None:
        yield str(value)


def read_quarantines(
    eval_set: Path,
    *,
    cases_of: Mapping[str, Set[CaseInSet]] | None = None,
    document: DocumentView | None = None,
) -> Quarantines:
    """Read the quarantines of an eval set; there are none without a file.

    `cases_of` has the cases of the set by their possible names, and `document` its content; without them, the set is
    read.
    """
    path = get_sidecar_path(eval_set)
    if not path.exists() and not path.is_symlink():
        return Quarantines({})
    try:
        loaded = _read_file(path)
        entries = _find_entries(loaded)
    except StoreError as error:
        return Quarantines({}, [_explain(error, "none of its cases is in quarantine")])
    cases: dict[str, Quarantine] = {}
    problems = []
    for name, entry in entries.items():
        try:
            cases[name] = _read_entry(loaded, name, entry)
        except StoreError as error:
            problems.append(_explain(error))
    for name, why in _find_positions(eval_set, cases, cases_of).items():
        del cases[name]
        problems.append(_explain(loaded.error((_KEY, name), found=why, expected=_STABLE)))
    digests = {name: entries[name][_MESSAGES] for name in cases if _MESSAGES in entries[name]}
    now = _digest_cases(eval_set, digests, document)
    changed = {name: cases.pop(name) for name, digest in now.items() if digest != digests[name]}
    return Quarantines(cases, problems, changed)


def _digest_cases(eval_set: Path, names: Collection[str], document: DocumentView | None = None) -> dict[str, str]:
    """Return the digests of the cases with these names, without those that do not exist or cannot be read."""
    digests: dict[str, str] = {}
    if not names:
        return digests
    with suppress(StoreError):
        document = document or EvalSetDocument.open(eval_set)
        for name in names:
            for entry in document.case_index.find(name):
                with suppress(StoreError):
                    digests[name] = digest_messages(document.case(entry.index))
    return digests


_STABLE = "an id of its own for the case, because names by position move to other cases"


def _find_positions(
    eval_set: Path, names: Collection[str], cases_of: Mapping[str, Set[CaseInSet]] | None = None
) -> Mapping[str, str]:
    """Return which of these names come from the position of a case, and why."""
    if not names:
        return {}
    are_rows = False
    if cases_of is None or any(map(_ROW.fullmatch, names)):
        entries: Sequence[CaseEntry] | None = None  # of a dataset, which may be too large to look for any
        if not is_dataset_name(eval_set.name):
            with suppress(StoreError):
                entries = EvalSetDocument.open(eval_set).entries
        if entries is None:
            are_rows, cases_of = True, cases_of or {}
        else:
            cases_of = group_cases_by_name((entry.eval_id, entry.occurrence) for entry in entries)
    found: dict[str, str] = {}
    for name in names:
        named = cases_of.get(name, ())
        if are_rows and _ROW.fullmatch(name):
            found[name] = "the number of a row"
        elif any(len(cases_of.get(eval_id, ())) > 1 for eval_id, _ in named):
            found[name] = "the name of one of several cases with the same id"
        elif are_rows and not named and _SECOND.search(name):
            found[name] = "the number of a row with the same id as others"
    return found


def find_sidecars(eval_sets: Iterable[Path], *, root: Path | None = None) -> list[Path]:
    """Return the files of quarantines in the folders of these sets, and all of the project at `root`."""
    folders = {path.parent for path in eval_sets}
    found = {path for folder in folders for path in folder.glob(f"*{SIDECAR_SUFFIX}")}
    found |= set() if root is None else set(map(Path, walk(root).sidecars))
    return sorted(path for path in found if path.name != SIDECAR_SUFFIX)  # that is of another program


def find_quarantined_datasets(root: Path, eval_sets: Collection[str]) -> list[str]:
    """Return the datasets of a project with a file of quarantines that are not among its eval sets."""
    owners = (path.with_name(path.name.removesuffix(SIDECAR_SUFFIX)) for path in find_sidecars((), root=root))
    names = [make_relative_name(path, root) for path in owners if is_dataset_name(path.name) and path.is_file()]
    return [name for name in names if name not in eval_sets]


def find_orphans(sidecars: Iterable[Path]) -> Iterator[FileProblem]:
    """Yield a warning for each of these files whose own set is gone: it was deleted or renamed."""
    for path in sidecars:
        stem = path.name.removesuffix(SIDECAR_SUFFIX)
        owners = [f"{stem}.json"] if f"{stem}.json".endswith(EVAL_SET_SUFFIXES) else [stem, f"{stem}.json"]
        if any(path.with_name(owner).exists() for owner in owners):
            continue
        with suppress(StoreError):  # of another program
            if cases := _find_entries(_read_file(path)):
                message = (
                    f"{' or '.join(owners)} does not exist, so that these quarantines have no effect: "
                    f"{', '.join(cases)}; rename this file if you renamed the eval set, else delete it"
                )
                yield FileProblem(path=path, rule=_STALE, severity="warning", message=message, line=1, column=1)


def check_quarantines(eval_set: Path, document: DocumentView) -> list[FileProblem]:
    """Return errors of entries that cannot be read, and warnings for those of cases that are gone or different now."""
    found = read_quarantines(eval_set, document=document)
    problems = [FileProblem.of_error(error, rule="quarantine") for error in found.problems]
    stale = dict.fromkeys(found.changed, DIFFERENT_CASE)
    stale |= {name: "the set has no such case" for name in found.cases if not document.case_index.find(name)}
    if stale:
        loaded = _read_file(get_sidecar_path(eval_set))
        for name, why in stale.items():
            is_plain = not {":", ","}.intersection(name)
            named = f":{name}" if is_plain else f" --case {shlex.quote(name)}"
            command = f"workbench flaky release {shown_path(eval_set)}{named}"
            message = f"{why}, so that the quarantine has no effect; `{command}` removes it"
            placed = loaded.error((_KEY, name), found=why, expected="")
            problems.append(FileProblem.of_error(placed, rule=_STALE, severity="warning", message=message))
    return problems


DIFFERENT_CASE = "the user says something else in this case than in the one that was put into quarantine"
_STALE = "stale-quarantine"


def _read_file(path: Path) -> JsonFile:
    """Read the file. A pipe is refused: reading it could wait for ever. Raises StoreError."""
    if path.exists() and not path.is_file():
        raise StoreError(path, found="a pipe, a folder or a device", expected="a file")
    return read_json(path)


def _explain(error: StoreError, consequence: str = "this is no quarantine") -> StoreError:
    """Return the error of an entry or file, with what follows from it."""
    return StoreError(
        error.path,
        f"{error.message}; {consequence}",
        place=error.place,
        line=error.line,
        column=error.column,
    )


def _find_entries(loaded: JsonFile) -> Mapping[str, Any]:
    """Return the entries of a file. Raises StoreError."""
    if not isinstance(loaded.data, dict):
        raise loaded.error((), found=_name_type(loaded.data), expected="an object")
    for place, loses_data in find_repeated_keys(loaded.text):
        if loses_data:
            raise loaded.error(place, found=f"the key {place[-1]!r} twice, with different values", expected="it once")
    if _KEY not in loaded.data and (likely := next((key for key in loaded.data if suggest_name(key, (_KEY,))), None)):
        raise loaded.error((likely,), found=f"the unknown key {likely!r}", expected=repr(_KEY))
    entries = loaded.data.get(_KEY, {})
    if not isinstance(entries, dict):
        raise loaded.error((), found=f"{_KEY}: {_name_type(entries)}", expected="an object with the names of cases")
    return entries


def _read_entry(loaded: JsonFile, name: str, entry: Any) -> Quarantine:
    place = (_KEY, name)
    if not isinstance(entry, dict):
        raise loaded.error(place, found=_name_type(entry), expected='an object such as {"until": "2026-12-24"}')
    until, reason = entry.get(_UNTIL), entry.get(_REASON, "")
    if _UNTIL not in entry:
        likely = next((key for key in entry if suggest_name(key, (_UNTIL,))), None)
        found = "no 'until'" if likely is None else f"the unknown key {likely!r}"
        raise loaded.error(place, found=found, expected='a last day such as "until": "2026-12-24"')
    day = None
    if isinstance(until, str) and _DATE.fullmatch(until):
        with suppress(ValueError):
            day = date.fromisoformat(until)
    if day is None:
        raise loaded.error((*place, _UNTIL), found=json.dumps(until), expected='a day such as "2026-12-24"')
    for key in (_REASON, _MESSAGES):
        if not isinstance(entry.get(key, ""), str):
            raise loaded.error((*place, key), found=_name_type(entry[key]), expected="text")
    return Quarantine(until=day, reason=reason)


def _name_type(value: Any) -> str:
    words = {dict: "an object", list: "a list", str: "text", bool: "true or false", type(None): "null"}
    return words.get(type(value), "a number")


def set_quarantine(eval_set: Path, cases: Collection[str], quarantine: Quarantine) -> None:
    """Put cases of an eval set, by their names, into quarantine. Raises StoreError; then nothing is written."""
    for name, why in _find_positions(eval_set, cases).items():
        raise StoreError(eval_set, place=name, found=why, expected=_STABLE)
    value = {_UNTIL: quarantine.until.isoformat(), **({_REASON: quarantine.reason} if quarantine.reason else {})}
    digests = _digest_cases(eval_set, cases)

    def edit(text: str, entries: Mapping[str, Any]) -> str:
        for case in cases:
            old = entries.get(case)
            old = old if isinstance(old, dict) else {}
            others = {key: each for key, each in old.items() if key not in (_REASON, _MESSAGES)}
            digest = {_MESSAGES: digests[case]} if case in digests else {}
            text = Fragment(text, default=JsonStyle()).set_value((_KEY, case), {**others, **value, **digest})
        return text

    _edit_file(get_sidecar_path(eval_set), edit)


def release_cases(eval_set: Path, cases: Collection[str]) -> list[str]:
    """End the quarantine of cases. Return those that had one. Raises StoreError; then nothing is written."""
    released: list[str] = []

    def edit(text: str, entries: Mapping[str, Any]) -> str:
        released[:] = [case for case in cases if case in entries]
        for case in released:
            text = Fragment(text, default=JsonStyle()).remove((_KEY, case))
        return text

    path = get_sidecar_path(eval_set)
    if path.exists():
        _edit_file(path, edit)
    return released


def rename_quarantines(before: DocumentView, after: DocumentView, eval_set: Path) -> None:
    """Give the quarantines of renamed cases their new names, after the set is saved. Raises StoreError.

    A case is a renamed one if it is new in the set, and the only new one with the messages of a case that is gone.
    """
    old, new = (Counter(entry.eval_id for entry in each.entries) for each in (before, after))
    added = [name for name, count in new.items() if count == 1 and name not in old]

    def edit(text: str, entries: Mapping[str, Any]) -> str:
        gone = [name for name, count in old.items() if count == 1 and name not in new]
        was = _digest_cases(eval_set, gone if entries.keys() & gone else (), before)
        now = _digest_cases(eval_set, [name for name in added if name not in entries], after)
        for name, digest in was.items():
            same = [each for each in now if now[each] == digest]
            entry = entries.get(name)
            stored = entry.get(_MESSAGES) if isinstance(entry, dict) else None
            is_only = len(same) == 1 and list(was.values()).count(digest) == 1
            if name in entries and is_only and stored in (None, digest):
                text = Fragment(text, default=JsonStyle()).rename((_KEY, name), same[0])
        return text

    path = get_sidecar_path(eval_set)
    if added and path.exists():
        _edit_file(path, edit)


def rename_case_of_file(before: Path, eval_set: Path) -> None:
    """Rename the quarantine of a case that is named after its file, after the file was renamed. Raises StoreError."""
    path, old, new = get_sidecar_path(eval_set), derive_set_name(before), derive_set_name(eval_set)
    if not path.exists() or not EvalSetDocument.open(eval_set).is_named_by_file:
        return

    def edit(text: str, entries: Mapping[str, Any]) -> str:
        can_rename = old in entries and new not in entries
        return Fragment(text, default=JsonStyle()).rename((_KEY, old), new) if can_rename else text

    _edit_file(path, edit)


def move_quarantines(changes: Sequence[tuple[DocumentView, DocumentView]]) -> None:
    """Move the quarantines of cases that were moved to another set, after all sets are saved.

    `changes` has each set before and after. A case was moved if one set lost it, and exactly one other set got a case
    with its id and messages, or only its messages if it was renamed as well. An entry stays where it is if the other
    set already has one for this id, or if a file cannot be read or written: each run reports it.
    """
    ids = [tuple(Counter(entry.eval_id for entry in each.entries) for each in change) for change in changes]

    @cache
    def list_new_cases() -> list[tuple[Path, str, str]]:
        """List the cases that are new in their set, with their names and digests."""
        found: list[tuple[Path, str, str]] = []
        for (_, after), (old, new) in zip(changes, ids, strict=True):
            added = [name for name, count in new.items() if count == 1 and name not in old]
            found += [(after.path, *each) for each in _digest_cases(after.path, added, after).items()]
        return found

    for (before, after), (old, new) in zip(changes, ids, strict=True):
        path = get_sidecar_path(after.path)
        if not path.exists():
            continue
        with suppress(StoreError):
            entries = _find_entries(_read_file(path))
            gone = [name for name, count in old.items() if count == 1 and name not in new]
            digests = _digest_cases(before.path, gone if entries.keys() & gone else (), before)
            for name, digest in digests.items():
                entry = entries.get(name)
                if not isinstance(entry, dict) or entry.get(_MESSAGES) not in (None, digest):
                    continue
                places = [(where, each) for where, each, said in list_new_cases() if said == digest]
                found = [each for each in places if each[1] == name]
                if not found and list(digests.values()).count(digest) == 1:
                    found = [each for each in places if each[1] not in old]
                if len(found) == 1:
                    (where, new_name), *_ = found
                    with suppress(StoreError):
                        _move_entry((path, name), (get_sidecar_path(where), new_name), entry)


def _move_entry(source: tuple[Path, str], target: tuple[Path, str], entry: Mapping[str, Any]) -> None:
    """Move an entry to another file, and maybe to another name. It is written before it is removed, so that it is
    never lost. If an earlier move could not remove it, it is removed now."""
    (old_path, old), (path, name) = source, target
    is_moved = False

    def add(text: str, entries: Mapping[str, Any]) -> str:
        nonlocal is_moved
        is_moved = entries.get(name, entry) == entry
        return Fragment(text, default=JsonStyle()).set_value((_KEY, name), entry) if name not in entries else text

    def remove(text: str, entries: Mapping[str, Any]) -> str:
        is_same = entries.get(old) == entry
        return Fragment(text, default=JsonStyle()).remove((_KEY, old)) if is_same else text

    _edit_file(path, add)
    if is_moved:
        _edit_file(old_path, remove)
        with suppress(OSError):
            # As this program leaves a file that it wrote itself.
            if not old_path.is_symlink() and old_path.read_bytes() == _EMPTY:
                old_path.unlink()


def _edit_file(path: Path, edit: Callable[[str, Mapping[str, Any]], str]) -> None:
    """Edit the text of a file, or of an empty object if it does not exist yet. Other content stays as it is."""
    for _ in range(_MOST_TRIES):
        try:
            _edit_file_once(path, edit)
        except FileChanged as error:
            changed = error
        else:
            return
    raise changed


def _edit_file_once(path: Path, edit: Callable[[str, Mapping[str, Any]], str]) -> None:
    if not path.exists():
        write_new(path, (edit("{}", {}) + "\n").encode())
        return
    loaded = _read_file(path)
    entries = _find_entries(loaded)
    try:
        text = edit(loaded.text, entries)
    except (WrongPlace, BrokenJson) as error:
        raise StoreError(path, place=_KEY, found=error.found, expected=error.expected) from error
    except UnsafeEdit as error:
        raise StoreError(path, "comments prevent this edit; edit the text of the file", place=_KEY) from error
    if text != loaded.text:
        mark = "\ufeff" if loaded.has_byte_order_mark else ""
        write_atomic(path, (mark + text).encode(), expect=loaded.stamp)


def read_project_quarantines(root: Path, eval_sets: Collection[str]) -> Mapping[str, Quarantines]:
    """Read the quarantines of these sets of a project, and of other datasets in it, as they are today."""
    today = date.today()
    names = [*eval_sets, *find_quarantined_datasets(root, eval_sets)]
    return {name: read_quarantines(root / name).at_day(today) for name in names}


def find_quarantine(found: Mapping[str, Quarantines], case: CaseKey) -> Quarantine | None:
    """Return the quarantine of a case, also an expired one."""
    of_set = found.get(case.eval_set)
    return None if of_set is None else of_set.cases.get(case.name)
