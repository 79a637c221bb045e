"""An eval set as it is read: what the set says, its cases listed and read on demand, what is wrong with it.

The text is kept as bytes in pieces (what stands before the cases, each case, what stands between them, the rest), so
that memory is about the size of the file and an edit costs as much as the case it touches.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from workbench.model.evalset import EvalCase
from workbench.model.remade import Recipe
from workbench.model.text import shorten
from workbench.store.documents.adk_rules import Finding, check_case, check_keys, check_set
from workbench.store.documents.cases import Fault, Head, read_case, read_head
from workbench.store.documents.entries import CaseEntry, CaseErrors, list_entries
from workbench.store.documents.frame import CASES_KEYS, DocumentFormat, NotAnEvalSet, kind_of, read_frame
from workbench.store.documents.jsontext import BrokenJson, decode_tolerantly
from workbench.store.documents.pieces import CasePiece, Pieces
from workbench.store.documents.places import Locator, Place, Position, find_key, format_place, locate, position_of
from workbench.store.documents.problems import Problem
from workbench.store.errors import StoreError
from workbench.store.files import decode_utf8
from workbench.store.names import name_of_file
from workbench.store.unusable_values import may_be_unusable

_BYTE_ORDER_MARK = "\ufeff"
_MOST_PLACES = 5
"""How many of the cases with one id a message names."""
_LONGEST_ID = 100
_REVISIONS = itertools.count(1)


class DocumentView:
    """The content of an eval-set file, to look at."""

    _pieces: Pieces
    _entries: Sequence[CaseEntry] | None
    _problems: Sequence[Problem] | None
    _adk_problems: Sequence[Problem] | None
    _strict: bool | None
    _header_places: _HeaderPlaces | None
    _revision: int

    def __init__(self, path: Path, data: bytes) -> None:
        """Raises StoreError where not even a list of cases can be had."""
        self.path = path
        self._findings: dict[bytes, tuple[Finding, ...]] = {}  # by the text of a case
        self._show(self._read(data))

    @property
    def format(self) -> DocumentFormat:
        """The format of the file."""
        return self._pieces.ends.format

    @property
    def named_by_file(self) -> bool:
        """Whether what it lists has its name from the file: a list of turns is one case without a name of its own."""
        return self.format is DocumentFormat.LEGACY_TURNS

    @property
    def revision(self) -> int:
        """Another number whenever the content may be another: no two contents share one, in whichever document."""
        return self._revision

    @property
    def strict(self) -> bool:
        """Whether the file is JSON without comments, trailing commas and byte order mark."""
        if self._strict is None:
            self._strict = self._pieces.strict
        return self._strict

    @property
    def eval_set_id(self) -> str:
        """The id of the set; the name of the file where the file has none."""
        return self._header_text("eval_set_id") or name_of_file(self.path)

    @property
    def name(self) -> str | None:
        """The name of the set, where it has one."""
        return self._header_text("name")

    @property
    def description(self) -> str | None:
        """The description of the set, where it has one."""
        return self._header_text("description")

    @property
    def header(self) -> dict[str, Any]:
        """Everything the set says besides its cases."""
        return dict(self._pieces.ends.header)

    @property
    def cases_key(self) -> str:
        """The key of the list of cases as the file spells it."""
        head = self._pieces.ends.head.decode()
        return max(CASES_KEYS, key=lambda key: head.rfind(f'"{key}"'))

    @property
    def problems(self) -> Sequence[Problem]:
        """What is wrong with the set as a whole: broken JSON between cases, ids that occur twice, no id of the set.

        What is wrong with one case is the `problem` of its entry.
        """
        if self._problems is None:
            self._problems = [*self._broken_between_cases(), *self._wrong_header(), *self._duplicate_ids()]
        return self._problems

    @property
    def adk_problems(self) -> Sequence[Problem]:
        """What ADK would refuse (errors) or drop (warnings) of the cases and the header, though it can run here."""
        if self._adk_problems is None:
            self.check_cases()
            self._adk_problems = [*self._adk_problems_of_cases(), *self._adk_problems_of_header()]
        return self._adk_problems

    @property
    def errors(self) -> Sequence[Problem]:
        """Every error of the file: the one list that validation, runs, tests, the watch and the screen report."""
        return [*self.errors_here, *(problem for problem in self.adk_problems if problem.severity == "error")]

    @property
    def errors_here(self) -> Sequence[Problem]:
        """The errors that keep cases from running here, without what only ADK would refuse."""
        broken = (
            Problem.of_error(
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
        """Raise StoreError if the JSON around the cases is broken: some of them may be missing here."""
        if self._pieces.ends.broken:
            raise next(self._errors_between_cases())

    def check_cases(self, at_most: int | None = None) -> bool:
        """Check cases against the rules of ADK, as `adk_problems` will, `at_most` so many of those not checked yet.

        Returns whether all have been checked. 10,000 cases take seconds: a caller that others wait for can do it bit by
        bit. Edited cases alone are checked again.
        """
        cases = self._pieces.cases
        missing = [index for index, case in enumerate(cases) if case.data not in self._findings]
        if at_most is None or not missing:
            current = {case.data for case in cases}
            self._findings = {data: found for data, found in self._findings.items() if data in current}
        for index in missing[:at_most]:
            self._findings[cases[index].data] = self._check_case(index)
        return at_most is None or len(missing) <= at_most

    def __len__(self) -> int:
        """How many cases there are, broken ones included."""
        return len(self._pieces.cases)

    @property
    def entries(self) -> Sequence[CaseEntry]:
        """One entry for each case in the order of the file."""
        if self._entries is None:
            self._entries = list_entries(self._pieces, self.case_errors())
        return self._entries

    def place_of_case(self, index: int) -> Place:
        """Where a case is in the data of the file."""
        if self.format is DocumentFormat.CURRENT:
            return ("eval_cases", index)
        return () if self.format is DocumentFormat.LEGACY_TURNS else (index,)

    def case(self, index: int) -> EvalCase:
        """The case, parsed; old formats as migrated. Raises StoreError with the place of the first fault."""
        data = self.raw_case(index)
        if self._pieces.cases[index].head.fault is not None:
            raise self._listed_problem(index)
        return read_case(data, format=self.format, eval_id=name_of_file(self.path))

    def case_recipe(self, index: int) -> Recipe[EvalCase]:
        """What parses the case again as it is now, whatever becomes of the document. It has no fault."""
        return Recipe(_parse_case, (self._pieces.cases[index].data, self.format, self.path))

    def raw_case(self, index: int) -> Any:
        """The data of the case as the file has it (a list of turns in that format). Raises StoreError."""
        piece = self._pieces.cases[index]
        if piece.broken is not None:
            raise self._listed_problem(index)
        return decode_tolerantly(piece.data.decode())[0]

    def case_text(self, index: int) -> str:
        """The text of the case as it stands in the file."""
        return self._pieces.cases[index].data.decode()

    def fault_of(self, data: Any) -> Fault | None:
        """What would be wrong with a case if it had this data; None where it could run."""
        head = read_head(data, format=self.format, eval_id=name_of_file(self.path), may_be_unusable=True)
        return head.fault

    def index_of(self, eval_id: str, *, occurrence: int = 0) -> int:
        """Where a case is by its id. Raises StoreError where there is no such case."""
        for entry in self.entries:
            if entry.eval_id == eval_id and entry.occurrence == occurrence:
                return entry.index
        raise StoreError(self.path, f"the case {eval_id} is no longer in the file")

    def fault_in_text(self, text: str) -> str | None:
        """What would be wrong with a case if this were its text, with line and column in it; None where it could run.

        Only the format of the file is looked at, never its content: this may be asked from any thread.
        """
        try:
            fault = self.fault_of(decode_tolerantly(text.strip())[0])
        except BrokenJson as broken:
            offset = len(text) - len(text.lstrip()) + broken.offset
            line, column = position_of(text, offset)
            return f"line {line}, column {column}: found {broken.found}, expected {broken.expected}"
        if fault is None:
            return None
        line, column = position_of(text, locate(decode_tolerantly(text)[1].text, fault.place))
        where = ": ".join(filter(None, [f"line {line}, column {column}", format_place(fault.place)]))
        return f"{where}: found {fault.found}, expected {fault.expected}"

    def fault_in_file(self, text: str) -> str | None:
        """Where the JSON would be broken if this were the text of the file; None where it is whole.

        May be asked from any thread.
        """
        try:
            pieces = self._read(text.encode())
        except UnicodeEncodeError:
            return "half of a surrogate pair cannot be written as UTF-8"
        except StoreError as error:
            return _in_text(error)
        if pieces.ends.broken:
            return "the JSON around the cases is broken"
        errors = CaseErrors(pieces, path=self.path, place_of_case=self.place_of_case)
        broken = (
            errors.error(index, case.broken) for index, case in enumerate(pieces.cases) if case.broken is not None
        )
        return next(map(_in_text, broken), None)

    def text_around_cases(self) -> str:
        """What the set says of itself, as it stands in the file: what is before the cases, and what after them."""
        return (self._pieces.ends.head + self._pieces.ends.tail).decode()

    def error_in(self, index: int, fault: Fault | BrokenJson) -> StoreError:
        """The error that a fault of a case is, with its line and column in the file."""
        return self.case_errors().error(index, fault)

    def _listed_problem(self, index: int) -> StoreError:
        """The problem of a case as it is listed: to find its line anew for each of many cases takes quadratic time."""
        problem = self.entries[index].problem
        assert problem is not None, "the case can be read"
        return problem.with_traceback(None)

    def case_errors(self) -> CaseErrors:
        """What places the faults of many cases at the cost of one pass."""
        return CaseErrors(self._pieces, path=self.path, place_of_case=self.place_of_case)

    def pieces_of_cases(self) -> Sequence[CasePiece]:
        """The texts of the cases with what is known of each."""
        return self._pieces.cases

    def error_in_header(self, fault: Fault) -> StoreError:
        """The error that a fault of what the set says of itself is, with its line and column in the file.

        Where the text around the cases is broken too, only the place is known.
        """
        line: int | None = None
        column: int | None = None
        with contextlib.suppress(BrokenJson):
            line, column = self._position_in_header(fault)
        place = format_place(fault.place)
        return StoreError(self.path, place=place, line=line, column=column, found=fault.found, expected=fault.expected)

    def _position_in_header(self, fault: Fault) -> tuple[int, int]:
        if self._header_places is None:
            parts = self._pieces.ends.head, self._pieces.ends.tail
            head, tail = (part.decode().removeprefix(_BYTE_ORDER_MARK) for part in parts)
            text = self.content().decode().removeprefix(_BYTE_ORDER_MARK)
            strict = decode_tolerantly(head + tail)[1].text
            self._header_places = _HeaderPlaces(Locator(strict), Locator(text), len(head), len(text) - len(strict))
        return self._header_places.position_of(fault.place)

    def content(self) -> bytes:
        """The whole file as it is here."""
        return b"".join(self._pieces)

    def _show(self, pieces: Pieces) -> None:
        """Look at other pieces from now on; what was derived from the old ones is forgotten."""
        self._pieces = pieces
        self._entries = None
        self._problems = None
        self._adk_problems = None
        self._strict = None
        self._header_places = None
        self._revision = next(_REVISIONS)

    def _read(self, data: bytes) -> Pieces:
        text = decode_utf8(self.path, data).removeprefix(_BYTE_ORDER_MARK)
        try:
            return Pieces.cut(data, text, read_frame(text, read_heads=self._read_heads(text)))
        except (BrokenJson, NotAnEvalSet) as error:
            line, column = position_of(text, error.offset)
            raise StoreError(self.path, line=line, column=column, found=error.found, expected=error.expected) from error

    def _read_heads(self, text: str) -> dict[DocumentFormat, partial[Head]]:
        read = partial(read_head, eval_id=name_of_file(self.path), may_be_unusable=may_be_unusable(text))
        return {format: partial(read, format=format) for format in DocumentFormat}

    def _header_text(self, key: str) -> str | None:
        spelling = find_key(self._pieces.ends.header, key, free=False)
        value = None if spelling is None else self._pieces.ends.header[spelling]
        return value if isinstance(value, str) else None

    def _broken_between_cases(self) -> Iterator[Problem]:
        for error in self._errors_between_cases():
            yield Problem.of_error(error, rule="broken-json")

    def _errors_between_cases(self) -> Iterator[StoreError]:
        if not self._pieces.ends.broken:
            return
        text = self.content().decode().removeprefix(_BYTE_ORDER_MARK)
        for broken in read_frame(text, read_heads=self._read_heads(text)).broken:
            line, column = position_of(text, broken.offset)
            yield StoreError(self.path, line=line, column=column, found=broken.found, expected=broken.expected)

    def _wrong_header(self) -> Iterator[Problem]:
        if self.format is not DocumentFormat.CURRENT or self._pieces.ends.broken:
            return
        spelling = find_key(self._pieces.ends.header, "eval_set_id", free=False)
        value = None if spelling is None else self._pieces.ends.header[spelling]
        if not isinstance(value, str):
            found = "none" if spelling is None else kind_of(value)
            error = StoreError(self.path, place="eval_set_id", line=1, column=1, found=found, expected="a text as id")
            yield Problem.of_error(error, rule="set-id")

    def _duplicate_ids(self) -> Iterator[Problem]:
        """One problem for each id that several cases have, at the second of them."""
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
                placed = errors.error(same[1], Fault(("eval_id",), found, "an id only once"))
                yield Problem.of_error(placed, rule="duplicate-id", case=same[1], stops_case=True)

    def _check_case(self, index: int) -> tuple[Finding, ...]:
        case = self._pieces.cases[index]
        if case.broken is not None:
            return ()
        repeated = check_keys(self.case_text(index))
        if case.head.fault is not None:  # which says why ADK refuses the case
            return tuple(repeated)
        return (*repeated, *check_case(self.raw_case(index), self.format))

    def _adk_problems_of_cases(self) -> Iterator[Problem]:
        errors = self.case_errors()
        for index, case in enumerate(self._pieces.cases):
            for finding in self._findings[case.data]:
                yield _problem(finding, errors.error(index, Fault(finding.place, "", "")), case=index)

    def _adk_problems_of_header(self) -> Iterator[Problem]:
        if self.format is DocumentFormat.CURRENT:
            repeated = (
                () if self._pieces.ends.broken else check_keys(self.text_around_cases().removeprefix(_BYTE_ORDER_MARK))
            )
            for finding in (*repeated, *check_set(self.header, self.cases_key)):
                yield _problem(finding, self.error_in_header(Fault(finding.place, "", "")))


class _HeaderPlaces(NamedTuple):
    """Finds places in the text around the cases, which `between` characters separate from `head_length` on."""

    around: Locator
    file: Locator
    head_length: int
    between: int

    def position_of(self, place: Place) -> Position:
        """The line and column in the file."""
        offset = self.around.offset_of(place)
        return self.file.position_at(offset + (self.between if offset > self.head_length else 0))


def _problem(finding: Finding, placed: StoreError, *, case: int | None = None) -> Problem:
    return Problem.of_error(placed, rule=finding.rule, severity=finding.severity, message=finding.message, case=case)


def _in_text(error: StoreError) -> str:
    """The error without the file, for somebody who has the text before their eyes."""
    return error.message if error.line is None else f"line {error.line}, column {error.column}: {error.message}"


def _parse_case(given: tuple[bytes, DocumentFormat, Path]) -> EvalCase:
    data, format, path = given
    return read_case(decode_tolerantly(data.decode())[0], format=format, eval_id=name_of_file(path))
