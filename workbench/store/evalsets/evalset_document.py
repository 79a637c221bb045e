"""`EvalSetDocument`: an eval set that is read, edited, undone and saved."""

from __future__ import annotations

import contextlib
import copy
import itertools
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

from workbench.model.evalset import EvalCase
from workbench.model.facts import LazyValue
from workbench.model.text import shorten
from workbench.store.errors import FileChanged, StoreError
from workbench.store.evalsets import evalset_edits
from workbench.store.evalsets.adk_rules import AdkFinding, FileProblem, check_case, check_keys, check_set
from workbench.store.evalsets.case_frame import (
    CASES_KEYS,
    DocumentFormat,
    FrameCache,
    NotAnEvalSet,
    describe_value,
    read_frame,
)
from workbench.store.evalsets.case_reader import (
    CaseEntry,
    CaseErrors,
    CaseFault,
    CaseIndex,
    CasePiece,
    Head,
    Pieces,
    list_entries,
    may_be_unusable,
    read_head,
    read_valid_case,
)
from workbench.store.evalsets.evalset_edits import EvalSetChange, UndoLog, UndoStep
from workbench.store.files import (
    Stamp,
    decode_utf8,
    derive_set_name,
    has_changed,
    make_folder,
    make_stamp,
    read_bytes,
    write_atomic,
    write_new,
)
from workbench.store.json.json_edit import Fragment, UnsafeEdit, WrongPlace
from workbench.store.json.json_path import Locator, Place, Position, find_key, find_offset, format_place, get_position
from workbench.store.json.json_text import BrokenJson, decode_tolerantly

# Reading: the header of a set, its cases on demand, and its problems

_BYTE_ORDER_MARK = "\ufeff"
_MOST_PLACES = 5
"""Maximum number of cases with the same id that a message names."""
_LONGEST_ID = 100
_REVISIONS = itertools.count(1)


class DocumentView:
    """The content of an eval-set file, read-only."""

    _unchecked: deque[int] | None

    def __init__(self, path: Path, data: bytes) -> None:
        """Raises StoreError if there is no list of cases."""
        self.path = path
        self._findings: dict[bytes, tuple[AdkFinding, ...]] = {}  # by the text of a case
        self._is_first_check = False
        self._show(self._read(data))

    @property
    def format(self) -> DocumentFormat:
        return self._pieces.ends.format

    @property
    def is_named_by_file(self) -> bool:
        """True if its only case is named after the file, as a list of turns has no name."""
        return self.format is DocumentFormat.LEGACY_TURNS

    @property
    def revision(self) -> int:
        """A number that changes with the content: no two contents in any document share one."""
        return self._revision

    @cached_property
    def is_strict(self) -> bool:
        """True if the file is strict JSON without comments, trailing commas and byte order mark."""
        return self._pieces.strict

    @property
    def eval_set_id(self) -> str:
        """The id of the set; without one, the name of the file."""
        return self._header_text("eval_set_id") or derive_set_name(self.path)

    @property
    def name(self) -> str | None:
        """The name of the set, if any."""
        return self._header_text("name")

    @property
    def description(self) -> str | None:
        """The description of the set, if any."""
        return self._header_text("description")

    @property
    def header(self) -> dict[str, Any]:
        """All keys of the set besides its cases."""
        return dict(self._pieces.ends.header)

    @property
    def cases_key(self) -> str:
        """The key of the list of cases, as the file spells it."""
        head = self._pieces.ends.head.decode()
        return max(CASES_KEYS, key=lambda key: head.rfind(f'"{key}"'))

    @cached_property
    def problems(self) -> Sequence[FileProblem]:
        """Problems of the whole set: broken JSON between cases, duplicate ids, no id of the set.

        The problem of one case is the `problem` of its entry.
        """
        broken = (FileProblem.of_error(error, rule="broken-json") for error in self._errors_between_cases())
        return [*broken, *self._wrong_header(), *self._duplicate_ids()]

    @cached_property
    def adk_problems(self) -> Sequence[FileProblem]:
        """What ADK would refuse (errors) or drop (warnings) of cases and header, although it can run here."""
        self.check_cases()
        return [*self._adk_problems_of_cases(), *self._adk_problems_of_header()]

    @property
    def errors(self) -> Sequence[FileProblem]:
        """All errors of the file: the list that validation, runs, tests, the watch and the screen report."""
        return [*self.errors_here, *(problem for problem in self.adk_problems if problem.severity == "error")]

    @property
    def errors_here(self) -> Sequence[FileProblem]:
        """The errors that prevent cases from running here, without those of ADK only."""
        broken = (
            FileProblem.of_error(
                entry.problem,
                rule="schema" if case.broken is None else "broken-json",
                case=entry.index,
                stops_case=True,
            )
            for entry, case in zip(self.entries, self._pieces.cases, strict=True)
            if entry.problem is not None
        )
        return [*self.problems, *broken]

    def refuse_broken_json(self) -> None:
        """Raise StoreError if the JSON around the cases is broken: some cases may be missing."""
        if self._pieces.ends.broken:
            raise next(self._errors_between_cases())

    def check_cases(self, at_most: int | None = None) -> bool:
        """Check cases by the rules of ADK for `adk_problems`, at most `at_most` of those not checked yet.

        Return True if all have been checked. 10,000 cases take seconds: callers that must not block check them in
        parts. After an edit only changed cases are checked again.
        """
        cases = self._pieces.cases
        if self._unchecked is None:
            current = {case.data for case in cases}
            self._is_first_check = not self._findings
            if self._is_first_check and FrameCache().is_approved(self.content()):
                self._findings = dict.fromkeys(current, ())
            self._findings = {data: found for data, found in self._findings.items() if data in current}
            self._unchecked = deque(index for index, case in enumerate(cases) if case.data not in self._findings)
        for _ in range(len(self._unchecked) if at_most is None else min(at_most, len(self._unchecked))):
            index = self._unchecked.popleft()
            self._findings[cases[index].data] = self._check_case(index)
        if self._is_first_check and not self._unchecked:
            self._is_first_check = False
            if not any(self._findings.values()):
                FrameCache().approve(self.content())
        return not self._unchecked

    def __len__(self) -> int:
        """Return the number of cases, including broken ones."""
        return len(self._pieces.cases)

    @cached_property
    def entries(self) -> Sequence[CaseEntry]:
        """One entry for each case, in the order of the file."""
        return list_entries(self._pieces, self.case_errors())

    @cached_property
    def case_index(self) -> CaseIndex:
        """The entries by name."""
        return CaseIndex(self.entries)

    def place_of_case(self, index: int) -> Place:
        """Return the place of a case in the data of the file."""
        if self.format is DocumentFormat.CURRENT:
            return ("eval_cases", index)
        return () if self.format is DocumentFormat.LEGACY_TURNS else (index,)

    def case(self, index: int) -> EvalCase:
        """Return a case as a type; old formats are migrated. Raises StoreError with the place of the first fault."""
        piece = self._pieces.cases[index]
        if piece.broken is not None or piece.head.fault is not None:
            raise self._listed_problem(index)
        return _parse_case((piece.data, self.format, self.path))

    def lazy_case(self, index: int) -> LazyValue[EvalCase]:
        """Return a lazy value of the case as it is now, independent of later edits. The case must have no fault."""
        return LazyValue(_parse_case, (self._pieces.cases[index].data, self.format, self.path))

    def raw_case(self, index: int) -> Any:
        """Return the data of a case as in the file (a list of turns in that format). Raises StoreError."""
        piece = self._pieces.cases[index]
        if piece.broken is not None:
            raise self._listed_problem(index)
        return decode_tolerantly(piece.data.decode())[0]

    def case_text(self, index: int) -> str:
        return self._pieces.cases[index].data.decode()

    def find_fault(self, data: Any) -> CaseFault | None:
        """Return the fault that a case with this data would have; None if it could run."""
        head = read_head(data, format=self.format, eval_id=derive_set_name(self.path), may_be_unusable=True)
        return head.fault

    def find_index(self, eval_id: str, *, occurrence: int = 0) -> int:
        """Return the index of a case by its id. Raises StoreError if it does not exist."""
        for entry in self.entries:
            if entry.eval_id == eval_id and entry.occurrence == occurrence:
                return entry.index
        raise StoreError(self.path, f"the case {eval_id} is no longer in the file")

    def find_fault_in_text(self, text: str) -> str | None:
        """Return the fault that a case with this text would have, with line and column; None if it could run.

        This uses only the format of the file, never its content: any thread may call it.
        """
        try:
            fault = self.find_fault(decode_tolerantly(text.strip())[0])
        except BrokenJson as broken:
            offset = len(text) - len(text.lstrip()) + broken.offset
            line, column = get_position(text, offset)
            return f"line {line}, column {column}: found {broken.found}, expected {broken.expected}"
        if fault is None:
            return None
        line, column = get_position(text, find_offset(decode_tolerantly(text)[1].text, fault.place))
        where = ": ".join(filter(None, [f"line {line}, column {column}", format_place(fault.place)]))
        return f"{where}: found {fault.found}, expected {fault.expected}"

    def find_fault_in_file(self, text: str) -> str | None:
        """Return where the JSON of a file with this text would be broken; None if it is not.

        Any thread may call it.
        """
        try:
            pieces = self._read(text.encode())
        except UnicodeEncodeError:
            return "half of a surrogate pair cannot be written as UTF-8"
        except StoreError as error:
            return _format_without_file(error)
        if pieces.ends.broken:
            return "the JSON around the cases is broken"
        errors = CaseErrors(pieces, path=self.path, place_of_case=self.place_of_case)
        broken = (
            errors.error(index, case.broken) for index, case in enumerate(pieces.cases) if case.broken is not None
        )
        return next(map(_format_without_file, broken), None)

    def text_around_cases(self) -> str:
        """Return the text around the cases as in the file: before and after them."""
        return (self._pieces.ends.head + self._pieces.ends.tail).decode()

    def locate_fault(self, index: int, fault: CaseFault | BrokenJson) -> StoreError:
        """Make the error of a fault in a case, with line and column in the file."""
        return self.case_errors().error(index, fault)

    def _listed_problem(self, index: int) -> StoreError:
        """Return the problem of a listed case: finding its line again for each of many cases takes quadratic time."""
        problem = self.entries[index].problem
        assert problem is not None, "the case can be read"
        return problem.with_traceback(None)

    def case_errors(self) -> CaseErrors:
        """Return an object that locates the faults of many cases in one pass."""
        return CaseErrors(self._pieces, path=self.path, place_of_case=self.place_of_case)

    def pieces_of_cases(self) -> Sequence[CasePiece]:
        return self._pieces.cases

    def locate_header_fault(self, fault: CaseFault) -> StoreError:
        """Make the error of a fault in the header, with line and column in the file.

        If the text around the cases is broken too, only the place is known.
        """
        line: int | None = None
        column: int | None = None
        with contextlib.suppress(BrokenJson):
            line, column = self._header_places.get_position(fault.place)
        place = format_place(fault.place)
        return StoreError(self.path, place=place, line=line, column=column, found=fault.found, expected=fault.expected)

    @cached_property
    def _header_places(self) -> _HeaderPlaces:
        parts = self._pieces.ends.head, self._pieces.ends.tail
        head, tail = (part.decode().removeprefix(_BYTE_ORDER_MARK) for part in parts)
        text = self.content().decode().removeprefix(_BYTE_ORDER_MARK)
        strict = decode_tolerantly(head + tail)[1].text
        return _HeaderPlaces(Locator(strict), Locator(text), len(head), len(text) - len(strict))

    def content(self) -> bytes:
        """Return the content of the whole file."""
        return b"".join(self._pieces)

    def _show(self, pieces: Pieces) -> None:
        """Show other pieces from now on; everything derived from the old ones is dropped."""
        self._pieces = pieces
        for name, value in vars(DocumentView).items():
            if isinstance(value, cached_property):
                vars(self).pop(name, None)
        self._unchecked = None
        self._revision = next(_REVISIONS)

    def _read(self, data: bytes) -> Pieces:
        text = decode_utf8(self.path, data).removeprefix(_BYTE_ORDER_MARK)
        kept = FrameCache()
        frame = kept.load(data, text, make_head=partial(Head, fault=None))
        if frame is not None:
            return Pieces.cut(data, text, frame)
        try:
            frame = read_frame(text, read_heads=self._read_heads(text))
        except (BrokenJson, NotAnEvalSet) as error:
            line, column = get_position(text, error.offset)
            raise StoreError(self.path, line=line, column=column, found=error.found, expected=error.expected) from error
        if all(span.broken is None and span.head.fault is None for span in frame.spans):
            kept.save(data, frame, ids=[span.head.eval_id for span in frame.spans])
        return Pieces.cut(data, text, frame)

    def _read_heads(self, text: str) -> dict[DocumentFormat, partial[Head]]:
        read = partial(read_head, eval_id=derive_set_name(self.path), may_be_unusable=may_be_unusable(text))
        return {format: partial(read, format=format) for format in DocumentFormat}

    def _header_text(self, key: str) -> str | None:
        spelling = find_key(self._pieces.ends.header, key, free=False)
        value = None if spelling is None else self._pieces.ends.header[spelling]
        return value if isinstance(value, str) else None

    def _errors_between_cases(self) -> Iterator[StoreError]:
        if not self._pieces.ends.broken:
            return
        text = self.content().decode().removeprefix(_BYTE_ORDER_MARK)
        for broken in read_frame(text, read_heads=self._read_heads(text)).broken:
            line, column = get_position(text, broken.offset)
            yield StoreError(self.path, line=line, column=column, found=broken.found, expected=broken.expected)

    def _wrong_header(self) -> Iterator[FileProblem]:
        if self.format is not DocumentFormat.CURRENT or self._pieces.ends.broken:
            return
        spelling = find_key(self._pieces.ends.header, "eval_set_id", free=False)
        value = None if spelling is None else self._pieces.ends.header[spelling]
        if not isinstance(value, str):
            found = "none" if spelling is None else describe_value(value)
            error = StoreError(self.path, place="eval_set_id", line=1, column=1, found=found, expected="a text as id")
            yield FileProblem.of_error(error, rule="set-id")

    def _duplicate_ids(self) -> Iterator[FileProblem]:
        """Yield a problem for each duplicate id, at its second case."""
        indexes: dict[str, list[int]] = {}
        for entry in self.entries:
            if not (entry.problem and entry.eval_id.startswith("(case ")):
                indexes.setdefault(entry.eval_id, []).append(entry.index)
        errors = self.case_errors()
        for eval_id, same in sorted(indexes.items(), key=lambda item: item[1][1:2]):
            if len(same) > 1:
                places = ", ".join(format_place(self.place_of_case(index)) for index in same[:_MOST_PLACES])
                places += ", …" if len(same) > _MOST_PLACES else ""
                found = f"{shorten(repr(eval_id), _LONGEST_ID)} {len(same):,} times ({places})"
                placed = errors.error(same[1], CaseFault(("eval_id",), found, "a unique id"))
                yield FileProblem.of_error(placed, rule="duplicate-id", case=same[1], stops_case=True)

    def _check_case(self, index: int) -> tuple[AdkFinding, ...]:
        case = self._pieces.cases[index]
        if case.broken is not None:
            return ()
        repeated = check_keys(self.case_text(index))
        if case.head.fault is not None:  # it also says why ADK refuses the case
            return tuple(repeated)
        return (*repeated, *check_case(self.raw_case(index), self.format))

    def _adk_problems_of_cases(self) -> Iterator[FileProblem]:
        errors = self.case_errors()
        for index, case in enumerate(self._pieces.cases):
            for finding in self._findings[case.data]:
                yield _make_problem(finding, errors.error(index, CaseFault(finding.place, "", "")), case=index)

    def _adk_problems_of_header(self) -> Iterator[FileProblem]:
        if self.format is DocumentFormat.CURRENT:
            repeated = (
                () if self._pieces.ends.broken else check_keys(self.text_around_cases().removeprefix(_BYTE_ORDER_MARK))
            )
            for finding in (*repeated, *check_set(self.header, self.cases_key)):
                yield _make_problem(finding, self.locate_header_fault(CaseFault(finding.place, "", "")))


class _HeaderPlaces(NamedTuple):
    """Finds places in the text around the cases; `between` characters separate it at `head_length`."""

    around: Locator
    file: Locator
    head_length: int
    between: int

    def get_position(self, place: Place) -> Position:
        """Return the line and column in the file."""
        offset = self.around.find_offset(place)
        return self.file.get_position(offset + (self.between if offset > self.head_length else 0))


def _make_problem(finding: AdkFinding, placed: StoreError, *, case: int | None = None) -> FileProblem:
    return FileProblem.of_error(
        placed, rule=finding.rule, severity=finding.severity, message=finding.message, case=case
    )


def _format_without_file(error: StoreError) -> str:
    """Format an error without the file, for a user who sees the text."""
    return error.message if error.line is None else f"line {error.line}, column {error.column}: {error.message}"


def _parse_case(given: tuple[bytes, DocumentFormat, Path]) -> EvalCase:
    data, format, path = given
    return read_valid_case(data, format=format, eval_id=derive_set_name(path))


# Editing: each edit is a step of undo, and saving never loses changes of others


class EvalSetDocument(DocumentView):
    """One eval-set file: its text, its cases, and the edits made to it.

    Places are relative to the case if `case` is given, else to the set. Every edit is one step of `undo`. An edit that
    is not possible raises StoreError and changes nothing. Only `save` writes the file.
    """

    def __init__(self, path: Path, data: bytes, stamp: Stamp | None) -> None:
        """Use `open`; this takes content in memory. `stamp`: None for a file that does not exist yet."""
        self._stamp = stamp
        self._log = UndoLog()
        self._group: list[EvalSetChange] | None = None
        super().__init__(path, data)
        self._saved = self._pieces

    @classmethod
    def open(cls, path: Path) -> EvalSetDocument:
        """Open a file. Raises StoreError if it cannot be read or has no list of cases."""
        data, stamp = read_bytes(path)
        return cls(path, data, stamp)

    def make_scratch(self) -> EvalSetDocument:
        """Return a copy to try edits on. It is not saved, and this document does not change with it."""
        scratch = copy.copy(self)
        scratch._log = UndoLog()
        return scratch

    def set_value(self, place: Place, value: Any, *, case: int | None = None) -> None:
        """Replace or add the value at a place. Missing objects above it are added, too.

        A list or object is compared with the existing one, and only differences are written. Keys may have either style
        and are written in that of their neighbours.
        """
        self._edit(f"change {format_place(place)}", case, place, lambda fragment: fragment.set_value(place, value))

    def insert_item(self, place: Place, index: int, value: Any, *, case: int | None = None) -> None:
        """Insert a value into the list at a place."""
        label = f"insert into {format_place(place)}"
        self._edit(label, case, place, lambda fragment: fragment.insert_item(place, index, value))

    def remove_value(self, place: Place, *, case: int | None = None) -> None:
        """Remove the member or item at a place. Comments around it stay."""
        self._edit(f"remove {format_place(place)}", case, place, lambda fragment: fragment.remove(place))

    def move_item(self, place: Place, source: int, target: int, *, case: int | None = None) -> None:
        """Move an item of the list at a place to the index `target` of the result."""
        label = f"move in {format_place(place)}"
        self._edit(label, case, place, lambda fragment: fragment.move_item(place, source, target))

    def rename_key(self, place: Place, key: str, *, case: int | None = None) -> None:
        """Rename the key of the member at a place to an unused key; its position is unchanged."""
        self._edit(f"rename {format_place(place)}", case, place, lambda fragment: fragment.rename(place, key))

    def set_case_text(self, index: int, text: str) -> None:
        """Replace the whole text of a case, broken or not. Raises StoreError, with the place in `text`."""
        text = text.strip()
        try:
            decode_tolerantly(text)
            data = text.encode()
        except BrokenJson as broken:
            line, column = get_position(text, broken.offset)
            message = f"line {line}, column {column} of the case: found {broken.found}, expected {broken.expected}"
            raise StoreError(self.path, message, place=format_place(self.place_of_case(index))) from broken
        except UnicodeEncodeError as error:
            raise self._make_encoding_error() from error
        self._commit(
            f"edit {self.entries[index].eval_id}",
            lambda pieces: evalset_edits.replace_case(pieces, index, data, make_piece=self._make_piece),
        )

    def insert_case(self, index: int, data: Any) -> None:
        """Insert a case, given as data in the format of the file, in the style of the others."""
        self.insert_cases(index, [data])

    def insert_cases(self, index: int, cases: Sequence[Any]) -> None:
        """Insert cases as `insert_case` does, in one edit."""
        self._refuse_unless_cases_can_move(index, len(self))
        self._commit(
            "insert a case",
            lambda pieces: evalset_edits.insert_cases(pieces, index, cases, make_piece=self._make_piece),
        )

    def duplicate_case(self, index: int, *, eval_id: str) -> None:
        """Insert a copy of a case after it, with another id."""
        self._refuse_unless_cases_can_move(index, len(self) - 1)
        self.raw_case(index)
        key = "eval_id" if self.format is DocumentFormat.CURRENT else "name"
        with self.step(f"duplicate {self.entries[index].eval_id}"):
            self._commit("", lambda pieces: evalset_edits.duplicate_case(pieces, index))
            self.set_value((key,), eval_id, case=index + 1)

    def remove_case(self, index: int) -> None:
        """Remove a case. Comments around it stay."""
        self.remove_cases([index])

    def remove_cases(self, indexes: Collection[int]) -> None:
        """Remove cases, as one edit. Comments around them stay."""
        for index in indexes:
            self._refuse_unless_cases_can_move(index, len(self) - 1)
        entries = self.entries
        label = f"remove {', '.join(entries[index].eval_id for index in sorted(indexes)[:3])}"
        self._commit(label, lambda pieces: evalset_edits.remove_cases(pieces, indexes))

    def move_case(self, source: int, target: int) -> None:
        """Move a case to the index `target` of the result."""
        for index in (source, target):
            self._refuse_unless_cases_can_move(index, len(self) - 1)
        label = f"move {self.entries[source].eval_id}"
        self._commit(label, lambda pieces: evalset_edits.move_case(pieces, source, target))

    def replace_content(self, data: bytes, *, label: str) -> None:
        """Replace the whole content, for example by that of a recovery file. It counts as unsaved, even if it is equal.

        Raises StoreError if `data` is no eval set.
        """
        pieces = self._read(data).share_cases(self._pieces.cases)  # a change of one case is then stored as one case
        self._commit(label, lambda _: pieces)

    def recover(self, data: bytes, stamp: Stamp | None) -> None:
        """Recover unsaved edits of an earlier session as one step of undo; `stamp` is the file that they began with.

        Saving then raises FileChanged if the file has changed since. Raises StoreError if `data` is no eval set.
        """
        self.replace_content(data, label="recover unsaved edits")
        self._stamp = stamp

    @contextmanager
    def step(self, label: str) -> Iterator[None]:
        """Make all edits inside one step of undo. If one of them raises, all are dropped."""
        if self._group is not None:
            yield
            return
        before, revision, self._group = self._pieces, self._revision, []
        try:
            yield
        except BaseException:  # also on Ctrl-C: a partial step must not stay
            self._group = None
            self._show(before)
            self._revision = revision  # readers see no change
            raise
        changes, self._group = self._group, None
        if changes:
            self._log.add(UndoStep(label, tuple(changes)))

    def undo(self) -> str | None:
        """Undo the last step; return its label, or None if there is no step."""
        label = self._log.undo_label
        if label is not None:
            self._show(self._log.undo(self._pieces))
        return label

    def redo(self) -> str | None:
        """Redo the last undone step; return its label, or None if there is no step."""
        label = self._log.redo_label
        if label is not None:
            self._show(self._log.redo(self._pieces))
        return label

    @property
    def undo_label(self) -> str | None:
        """The label of the next undo; None if there is no step."""
        return self._log.undo_label

    @property
    def redo_label(self) -> str | None:
        """The label of the next redo; None if there is no step."""
        return self._log.redo_label

    @property
    def steps_done(self) -> int:
        """The number of steps that can be undone."""
        return self._log.step_count

    @property
    def stamp(self) -> Stamp | None:
        """The stamp of the file when it was last read or written; None if it does not exist yet."""
        return self._stamp

    @property
    def is_dirty(self) -> bool:
        """True if there are unsaved edits."""
        return self._log.is_dirty

    def list_changed_cases(self) -> frozenset[str]:
        """Return the ids of cases with unsaved changes; 10,000 cases take milliseconds."""
        if not self.is_dirty:
            return frozenset()
        saved = self._saved.cases
        same = set(map(id, saved))
        others = [index for index, case in enumerate(self._pieces.cases) if id(case) not in same]
        texts = {case.data for case in saved} if others else set()
        return frozenset(self.entries[index].eval_id for index in others if self._pieces.cases[index].data not in texts)

    def list_unsaved_renames(self) -> list[tuple[str, str]]:
        """List the old and the new ids of the cases that were renamed since the last save, in this order."""
        return self._log.list_unsaved_renames()

    def get_saved_version(self) -> EvalSetDocument | None:
        """Return the file that the unsaved edits were made to; None if unknown, as after a recovery."""
        content = b"".join(self._saved)
        if self._stamp is None or make_stamp(content).digest != self._stamp.digest:
            return None
        return EvalSetDocument(self.path, content, self._stamp)

    def has_changed_on_disk(self) -> bool:
        """True if the file has changed since it was read or written."""
        return self._stamp is not None and has_changed(self.path, self._stamp)

    def save(self, *, overwrite: bool = False) -> None:
        """Write the file. Raises FileChanged if it changed on disk, unless the user chose to `overwrite` it."""
        if self._stamp is None and not overwrite:
            self._stamp = write_new(self.path, self.content())
        else:
            self._stamp = write_atomic(self.path, self.content(), expect=None if overwrite else self._stamp)
        self._mark_saved()

    def replace_on_disk(self, theirs: bytes | None) -> None:
        """Write the file over the content `theirs` (None: no file). Raises FileChanged if that has changed, too."""
        if theirs is None:
            make_folder(self.path.parent)
            if self.path.exists():
                raise FileChanged(self.path, ours=self.content(), theirs=read_bytes(self.path)[0])
            self._stamp = write_new(self.path, self.content())
        else:
            self._stamp = write_atomic(self.path, self.content(), expect=make_stamp(theirs))
        self._mark_saved()

    def reload(self) -> None:
        """Load the content on disk; undo restores the previous content. Raises StoreError."""
        data, stamp = read_bytes(self.path)
        self.replace_content(data, label="use the version on disk")
        self._stamp = stamp
        self._mark_saved()

    def _mark_saved(self) -> None:
        self._log.mark_saved()
        self._saved = self._pieces

    def _edit(self, label: str, case: int | None, place: Place, edit: Callable[[Fragment], str]) -> None:
        if case is not None:
            self.raw_case(case)
        above = () if case is None else self.place_of_case(case)
        try:
            if case is None:
                self._commit(label, lambda pieces: evalset_edits.edit_header(pieces, place, edit))
            else:
                self._commit(
                    label,
                    lambda pieces: evalset_edits.edit_case(pieces, case, edit, make_piece=self._make_piece),
                )
        except WrongPlace as wrong:
            where = format_place((*above, *wrong.place))
            raise StoreError(self.path, place=where, found=wrong.found, expected=wrong.expected) from wrong
        except BrokenJson as broken:
            message = f"found {broken.found}, expected {broken.expected}; fix the JSON of the file before editing this"
            raise StoreError(self.path, message) from broken

    def _commit(self, label: str, edit: Callable[[Pieces], Pieces]) -> None:
        """Make an edit, and add it as a step or to the current step."""
        before = self._pieces
        try:
            after = edit(before)
        except UnsafeEdit as unsafe:
            message = f"cannot {label}: the comments around it prevent this edit; edit the text of the case"
            raise StoreError(self.path, message) from unsafe
        except UnicodeEncodeError as error:
            raise self._make_encoding_error() from error
        except ValueError as error:
            raise StoreError(self.path, found="NaN or an infinite number", expected="a finite number") from error
        if after is before:
            return
        self._show(after)
        change = EvalSetChange.from_versions(before, after)
        if self._group is not None:
            self._group.append(change)
        else:
            self._log.add(UndoStep(label, (change,)))

    def _make_encoding_error(self) -> StoreError:
        return StoreError(self.path, found="half of a surrogate pair", expected="text that UTF-8 can encode")

    def _make_piece(self, data: bytes) -> CasePiece:
        text = data.decode()
        value, masked = decode_tolerantly(text)
        head = self._read_heads(text)[self.format](value)
        return CasePiece(data, head, strict=masked.is_strict)

    def _refuse_unless_cases_can_move(self, index: int, last: int) -> None:
        if self.format is DocumentFormat.LEGACY_TURNS:
            raise StoreError(self.path, "a list of turns is one case; migrate the file to add cases")
        if self._pieces.ends.broken:
            raise StoreError(self.path, "the JSON around the cases is broken; fix it before moving cases")
        if not 0 <= index <= last:
            raise StoreError(self.path, found=f"case {index}", expected=f"0 to {last}")
