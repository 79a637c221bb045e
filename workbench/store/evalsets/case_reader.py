"""Cases of an eval set: reading and checking one case, with unknown keys and invalid values."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError

from workbench.model.evalset import EvalCase
from workbench.store.errors import StoreError
from workbench.store.evalsets.case_frame import (
    DocumentFormat,
    EvalSetFrame,
    convert_eval,
    convert_turns,
    describe_value,
)
from workbench.store.files import decode_utf8, read_bytes
from workbench.store.json.json_path import (
    Locator,
    Place,
    Position,
    find_key,
    find_offset,
    format_place,
    get_position,
    to_snake,
)
from workbench.store.json.json_text import BrokenJson, decode_tolerantly, guess_case_id, mask

# Misspelt keys: an expectation under a misspelt key would silently be dropped, and the case would pass

_ALIKE = 0.85
_CONTENT = ("conversation", "conversation_scenario")


def find_misspelt_keys(case: EvalCase, data: Mapping[str, Any]) -> Iterator[tuple[Place, str]]:
    """Yield the places of misspelt keys in a case that was read from `data`, each with the intended key.

    Only objects with expectations are checked: the case, its turns and their intermediate data.
    """
    yield from _find_misspelt_in_model(case, ())
    for index, turn in enumerate(case.conversation or ()):
        place: Place = ("conversation", index)
        yield from _find_misspelt_in_model(turn, place)
        if turn.intermediate_data is not None:
            key = find_key(data["conversation"][index], "intermediate_data", free=False)
            yield from _find_misspelt_in_model(turn.intermediate_data, (*place, key or "intermediate_data"))


def _find_misspelt_in_model(model: BaseModel, place: Place) -> Iterator[tuple[Place, str]]:
    absent = [field for field in type(model).model_fields if field not in model.model_fields_set]
    for key, meant in _match_keys(model.model_extra or (), absent):
        yield (*place, key), meant


def _match_keys(keys: Iterable[str], fields: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield each key that is almost the name of a field, with that name."""
    for key in keys:
        name = to_snake(key)
        for meant in get_close_matches(name.casefold(), fields, n=1, cutoff=_ALIKE):
            if not name.startswith(f"{meant}_"):  # `conversation_id` is a key of its own
                yield key, meant


# Values that only a file can hold: lone surrogates, which have no UTF-8, and huge integers

LONE_SURROGATE = re.compile("[\ud800-\udfff]")
# Two patterns: searching for either at every position takes five times as long as one after the other.
_SUSPECTS = (re.compile(r"\\u[dD][89a-fA-F]"), re.compile(r"[0-9]{309}"))
_LARGEST = int(1.7976931348623157e308)


class UnusableValue(NamedTuple):
    """An invalid value at a place of the data, with words for a message."""

    place: tuple[str | int, ...]
    found: str
    expected: str


def may_be_unusable(text: str) -> bool:
    """True if the text of a JSON or TOML file may have such values: most have none and are not searched."""
    return any(suspect.search(text) for suspect in _SUSPECTS)


def find_unusable(data: Any, place: tuple[str | int, ...] = ()) -> Iterator[UnusableValue]:
    """Yield such values in the data of a file, in its order."""
    if isinstance(data, str):
        if LONE_SURROGATE.search(data):
            yield UnusableValue(place, "half of a surrogate pair", "whole characters")
    elif isinstance(data, dict):
        for key, value in data.items():
            if LONE_SURROGATE.search(key):
                yield UnusableValue(place, "half of a surrogate pair in a key", "whole characters")
            yield from find_unusable(value, (*place, key))
    elif isinstance(data, list):
        for index, item in enumerate(data):
            yield from find_unusable(item, (*place, index))
    elif isinstance(data, int) and abs(data) > _LARGEST:
        digits = int(math.log10(abs(data) >> 64) + 64 * math.log10(2)) + 1
        yield UnusableValue(place, f"an integer of about {digits} digits", "one of at most 308 digits")


# Cases as data: the head of a case for lists, and the typed case with the places of all faults

_EXPECTED = {
    "missing": "a value for it",
    "string_type": "a text",
    "list_type": "a list",
    "dict_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "float_type": "a number",
    "float_parsing": "a number",
    "int_type": "a whole number",
    "extra_forbidden": "no key of this name",
}

Model = TypeVar("Model", bound=BaseModel)


class CaseFault(NamedTuple):
    """A fault in a case; `place` is relative to the case."""

    place: Place
    found: str
    expected: str


class InvalidData(Exception):
    """Data, for example of a case, are invalid. `faults` has at least one fault."""

    def __init__(self, faults: Sequence[CaseFault]) -> None:
        super().__init__("; ".join(f"found {fault.found}, expected {fault.expected}" for fault in faults))
        self.faults = tuple(faults)


class Head(NamedTuple):
    """The entry of a case in lists: its id ("" if missing) and the first fault."""

    eval_id: str
    fault: CaseFault | None


def read_head(data: Any, *, format: DocumentFormat, eval_id: str, may_be_unusable: bool) -> Head:
    """Read the head of a case. This validates the case, which costs about as much as decoding it.

    `may_be_unusable` says that the text may have invalid values: only then they are searched for.
    """
    if format is DocumentFormat.LEGACY_TURNS:
        found: Any = eval_id
    elif not isinstance(data, dict):
        found = None
    elif format is DocumentFormat.LEGACY_EVALS:
        found = data.get("name")
    else:
        found = data.get("eval_id", data.get("evalId"))
    unusable = next(find_unusable(data), None) if may_be_unusable else None
    fault = find_fault(data, format=format, eval_id=eval_id) if unusable is None else CaseFault(*unusable)
    return Head(found if isinstance(found, str) else "", fault)


def find_fault(data: Any, *, format: DocumentFormat, eval_id: str) -> CaseFault | None:
    """Return the first fault of a case; None if it is valid."""
    try:
        read_case(data, format=format, eval_id=eval_id)
    except InvalidData as invalid:
        return invalid.faults[0]
    return None


def read_case(data: Any, *, format: DocumentFormat, eval_id: str) -> EvalCase:
    """Read a case as a type; old formats are migrated. `eval_id` names a list of turns, which has no name itself.

    Raises InvalidData with places in the data of the file.
    """
    if format is DocumentFormat.CURRENT:
        _refuse_wrong_shape(data)
        case = validate_data(EvalCase, data)
        misspelt = [_make_key_fault(place, meant) for place, meant in find_misspelt_keys(case, data)]
        if misspelt:
            raise InvalidData(misspelt)
        return case
    migrated, faults = migrate_case(data, format=format, eval_id=eval_id)
    if faults:
        raise InvalidData(faults)
    return validate_data(EvalCase, migrated)


def read_valid_case(text: bytes, *, format: DocumentFormat, eval_id: str) -> EvalCase:
    """Read the text of a case whose head has no fault: its keys are not searched for misspelt ones again."""
    if format is not DocumentFormat.CURRENT:
        return read_case(decode_tolerantly(text.decode())[0], format=format, eval_id=eval_id)
    try:
        return EvalCase.model_validate_json(text)  # decodes and validates at once, which takes half of the time
    except ValueError:  # it has comments, for example
        return EvalCase.model_validate(decode_tolerantly(text.decode())[0])


def migrate_case(data: Any, *, format: DocumentFormat, eval_id: str) -> tuple[dict[str, Any], list[CaseFault]]:
    """Convert a case of an old format to data of the current one; return them with all faults."""
    faults: list[CaseFault] = []

    def note(place: Place, found: str, expected: str) -> None:
        faults.append(CaseFault(place, found, expected))

    if format is DocumentFormat.LEGACY_TURNS:
        return convert_turns(data, eval_id=eval_id, note=note), faults
    return convert_eval(data, note=note), faults


def _refuse_wrong_shape(data: Any) -> None:
    """Report the most frequent faults in plainer words than the types do."""
    if not isinstance(data, dict):
        raise InvalidData([CaseFault((), describe_value(data), "an eval case (an object)")])
    conversation = data.get("conversation")
    scenario = data.get("conversation_scenario", data.get("conversationScenario"))
    if (conversation is None) == (scenario is None):
        unknown = [key for key in data if to_snake(key) not in EvalCase.model_fields]
        found = _match_keys(unknown, _CONTENT) if conversation is None else ()
        misspelt = [_make_key_fault((key,), meant) for key, meant in found]
        count = "neither" if conversation is None else "both"
        raise InvalidData(misspelt or [CaseFault((), count, "exactly one of conversation and conversation_scenario")])


def _make_key_fault(place: Place, meant: str) -> CaseFault:
    return CaseFault(place, f"the unknown key {place[-1]!r}", f"{meant!r} (did you mean that?)")


def validate_data(model: type[Model], data: Any) -> Model:
    """Validate data as a type of the format. Raises InvalidData."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise InvalidData(list(_list_faults(error, data, ()))) from error


def _list_faults(error: ValidationError, data: Any, place: Place) -> Iterator[CaseFault]:
    for item in error.errors(include_url=False):
        here = place + _translate_location(data, item["loc"])
        inner = item.get("ctx", {}).get("error")
        if isinstance(inner, ValidationError):  # a model that our own validator validated
            yield from _list_faults(inner, _get_value(data, here[len(place) :]), here)
        else:
            yield _make_fault(item["type"], item["msg"], item["input"], here, missing=item["loc"][-1:])


def _make_fault(kind: str, message: str, value: Any, place: Place, *, missing: tuple[int | str, ...]) -> CaseFault:
    if kind == "missing":
        return CaseFault(place, "nothing", f"the required key {to_snake(str(missing[0]))}")
    if kind == "value_error":
        expected, _, found = message.removeprefix("Value error, ").removeprefix("expected ").partition(", found ")
        return CaseFault(place, found or describe_value(value), expected)
    return CaseFault(place, describe_value(value), _EXPECTED.get(kind, message.removeprefix("Input should be ")))


def _translate_location(data: Any, location: Sequence[str | int]) -> Place:
    """Translate a location of pydantic to steps that exist in the data, as the data spell them.

    Names of union members, which pydantic adds between the steps, and the key of a missing member are left out.
    """
    place: list[str | int] = []
    for step in location:
        if isinstance(data, dict) and isinstance(step, str):
            key = find_key(data, step, free=False)
            if key is not None:
                place.append(key)
                data = data[key]
        elif isinstance(data, list) and isinstance(step, int) and step < len(data):
            place.append(step)
            data = data[step]
        elif isinstance(data, list) and len(data) == 2 and step == "author":  # the pair [author, parts]
            place.append(0)
            data = data[0]
        elif isinstance(data, list) and len(data) == 2 and step == "parts":
            place.append(1)
            data = data[1]
    return tuple(place)


def _get_value(data: Any, place: Place) -> Any:
    for step in place:
        data = data[step]
    return data


# The text of an eval-set file in pieces: head, cases, gaps between them, tail

BYTE_ORDER_MARK = "\ufeff".encode()


class CasePiece(NamedTuple):
    """The text of a case with its head, and the fault if its JSON is broken (offset from its start)."""

    data: bytes
    head: Head
    broken: BrokenJson | None = None
    strict: bool = True


@dataclass(frozen=True)
class Ends:
    """The text around the cases, and the data that it holds.

    `head` ends with the bracket that opens the list of cases, `tail` begins with the one that closes it. A list of
    turns is one case, and they surround the list. `header` are the keys of the set besides its cases. `broken`: the
    JSON outside of the cases is broken.
    """

    head: bytes
    tail: bytes
    format: DocumentFormat
    header: Mapping[str, Any] = field(default_factory=dict)
    broken: bool = False


@dataclass(frozen=True)
class Pieces:
    """A whole file. `gaps[i]` precedes case i, `gaps[len(cases)]` follows the last."""

    ends: Ends
    cases: tuple[CasePiece, ...]
    gaps: tuple[bytes, ...]

    @classmethod
    def cut(cls, data: bytes, text: str, frame: EvalSetFrame) -> Pieces:
        """Cut a file into pieces. `text` is `data` without its byte order mark, decoded."""
        mark = BYTE_ORDER_MARK if data.startswith(BYTE_ORDER_MARK) else b""
        source = data if len(text) == len(data) else None

        def part(start: int, end: int) -> bytes:
            return source[start:end] if source is not None else text[start:end].encode()

        list_is_case = frame.format is DocumentFormat.LEGACY_TURNS
        start = frame.cases_start if list_is_case else frame.cases_start + 1
        end = frame.spans[-1].end if list_is_case else frame.cases_end
        cases, gaps, position = [], [], start
        for span in frame.spans:
            gaps.append(part(position, span.start))
            broken = span.broken
            if broken is not None:
                broken = BrokenJson(broken.offset - span.start, found=broken.found, expected=broken.expected)
            strict = not frame.masked.has_masked(span.start, span.end)
            data = part(span.start, span.end)
            head = Head(guess_case_id(data.decode()), None) if span.head is None else span.head
            cases.append(CasePiece(data, head, broken, strict))
            position = span.end
        gaps.append(part(position, end))
        ends = Ends(mark + part(0, start), part(end, len(text)), frame.format, frame.header, bool(frame.broken))
        return cls(ends, tuple(cases), tuple(gaps))

    @property
    def strict(self) -> bool:
        """True without comments, trailing commas and byte order mark."""
        if not all(case.strict for case in self.cases) or not _is_bare(self.gaps):
            return False
        skeleton = (self.ends.head + self.ends.tail).decode()
        return not skeleton.startswith("\ufeff") and mask(skeleton).is_strict

    def __iter__(self) -> Iterator[bytes]:
        """Yield all pieces in order; joined they are the file."""
        yield from self.iterate_preceding_pieces(len(self.cases))
        yield self.ends.tail

    def share_cases(self, others: Iterable[CasePiece]) -> Pieces:
        """Return the same file with the objects of `others` for cases with equal text."""
        known = {case.data: case for case in others}
        cases = tuple(known[case.data] if known.get(case.data) == case else case for case in self.cases)
        return replace(self, cases=cases)

    def iterate_preceding_pieces(self, index: int) -> Iterator[bytes]:
        """Yield the pieces before a case."""
        yield self.ends.head
        for gap, case in zip(self.gaps[:index], self.cases[:index], strict=True):
            yield gap
            yield case.data
        yield self.gaps[index]


def _is_bare(gaps: tuple[bytes, ...]) -> bool:
    """True if the cases are separated by single commas only."""
    last = gaps[-1].strip() if len(gaps) > 1 else b""
    return not last and not gaps[0].strip() and all(gap.strip() == b"," for gap in gaps[1:-1])


# Entries of an open document: one for each case, with the position of a fault


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseEntry:
    """One case of a document. `occurrence` separates cases with the same id, 0 for the first.

    `problem` is set if its JSON or structure is invalid. A case without an id is listed as `(case 4)`, counted from 1.
    """

    index: int
    eval_id: str
    occurrence: int
    problem: StoreError | None = None


class Cursor:
    """Moves over pieces of UTF-8 text and tracks line and column."""

    def __init__(self) -> None:
        self.line = 1
        self._characters = 0  # in the current line, before the cursor

    def advance(self, pieces: Iterable[bytes]) -> None:
        """Move over pieces."""
        for piece in pieces:
            lines = piece.count(b"\n")
            if lines:
                self.line += lines
                self._characters = 0
                piece = piece[piece.rfind(b"\n") + 1 :]  # noqa: PLW2901 - the rest is behind it
            self._characters += len(piece.decode().removeprefix("\ufeff"))

    def position(self, within: Position) -> Position:
        """Convert a position in a text that begins here to a position in the file."""
        if within.line > 1:
            return Position(self.line + within.line - 1, within.column)
        return Position(self.line, within.column + self._characters)


class CaseErrors:
    """Converts faults of cases to errors with line and column, fastest in the order of the file."""

    def __init__(self, pieces: Pieces, *, path: Path, place_of_case: Callable[[int], Place]) -> None:
        self._pieces = pieces
        self._path = path
        self._place_of_case = place_of_case
        self._cursor = Cursor()
        self._at = -1  # the case at the cursor
        self._text = _CaseText("")

    def error(self, index: int, fault: CaseFault | BrokenJson) -> StoreError:
        if self._at < 0 or index < self._at:
            self._cursor = Cursor()
            self._cursor.advance(self._pieces.iterate_preceding_pieces(index))
        else:
            stepped = zip(
                self._pieces.cases[self._at : index], self._pieces.gaps[self._at + 1 : index + 1], strict=True
            )
            for case, gap in stepped:
                self._cursor.advance((case.data, gap))
        if index != self._at:
            self._text = _CaseText(self._pieces.cases[index].data.decode())
        self._at = index
        place = self._place_of_case(index)
        if isinstance(fault, CaseFault):
            place = (*place, *fault.place)
        position = self._cursor.position(self._text.get_position(fault))
        return StoreError(
            self._path,
            place=format_place(place),
            line=position.line,
            column=position.column,
            found=fault.found,
            expected=fault.expected,
        )


def list_entries(pieces: Pieces, errors: CaseErrors) -> list[CaseEntry]:
    """List the entries of all cases in one pass over the pieces."""
    entries: list[CaseEntry] = []
    seen: dict[str, int] = {}
    for index, case in enumerate(pieces.cases):
        eval_id = case.head.eval_id or f"(case {index + 1})"
        occurrence = seen.get(eval_id, 0)
        seen[eval_id] = occurrence + 1
        fault = case.broken or case.head.fault
        problem = None if fault is None else errors.error(index, fault)
        entries.append(CaseEntry(index=index, eval_id=eval_id, occurrence=occurrence, problem=problem))
    return entries


class CaseIndex:
    """Finds the entries of a document by name, without a pass over all of them."""

    def __init__(self, entries: Iterable[CaseEntry]) -> None:
        self._first: dict[str, CaseEntry] = {}
        self._later: dict[str, list[CaseEntry]] = {}  # those with an id that an earlier one has
        for entry in entries:
            if self._first.setdefault(entry.eval_id, entry) is not entry:
                self._later.setdefault(entry.eval_id, []).append(entry)

    def find(self, name: str) -> Sequence[CaseEntry]:
        """Find the entries with this name: an id means all with it, `id#2` the second, unless that is an id itself."""
        if name in self._first:
            return self._first[name], *self._later.get(name, ())
        eval_id, _, number = name.rpartition("#")
        return [each for each in self._later.get(eval_id, ()) if str(each.occurrence + 1) == number]


class _CaseText:
    """The text of a case, to find the positions of faults."""

    def __init__(self, text: str) -> None:
        self._text = text

    def get_position(self, fault: CaseFault | BrokenJson) -> Position:
        """Return the position of a fault in the text, or its start if the JSON is broken elsewhere."""
        if isinstance(fault, BrokenJson):
            return get_position(self._text, fault.offset)
        return Position(1, 1) if self._strict is None else self._strict.find_position(fault.place)

    @cached_property
    def _strict(self) -> Locator | None:
        """None if the JSON is broken."""
        try:
            return Locator(decode_tolerantly(self._text)[1].text)
        except BrokenJson:
            return None


# Files of JSON lines that the program writes for itself


class JsonLine(NamedTuple):
    """A line with an object of the requested format. `number` counts lines from 1."""

    path: Path
    number: int
    text: str
    data: dict[str, Any]

    def error(self, place: Place, *, found: str, expected: str) -> StoreError:
        """Make the error of a fault in the line."""
        column = find_offset(self.text, place) + 1
        return StoreError(
            self.path, place=format_place(place), line=self.number, column=column, found=found, expected=expected
        )

    def read(self, model: type[Model]) -> Model:
        """Read the line as a type. Raises StoreError."""
        try:
            return validate_data(model, self.data)
        except InvalidData as invalid:
            fault = invalid.faults[0]
            raise self.error(fault.place, found=fault.found, expected=fault.expected) from None


def read_json_lines(path: Path, *, format: str, what: str) -> Iterator[JsonLine]:
    """Yield the lines of a file except blank ones. Each must be an object with this `format`.

    `what` describes the content of a line for messages. Raises StoreError.
    """
    expected = f"{what} ({format})"
    data, _ = read_bytes(path)
    for number, text in enumerate(
        decode_utf8(path, data).split("\n"), start=1
    ):  # texts may contain other line separators
        if not text.strip():
            continue
        try:
            found = json.loads(text)
        except json.JSONDecodeError as error:
            wrong = f"a line that is not JSON ({error.msg})"
            raise StoreError(path, line=number, column=error.pos + 1, found=wrong, expected=expected) from None
        except RecursionError:
            raise StoreError(path, line=number, found="a line that is nested too deeply", expected=expected) from None
        if not isinstance(found, dict):
            raise StoreError(path, line=number, found=describe_value(found), expected=expected)
        line = JsonLine(path, number, text, found)
        if found.get("format") != format:
            shown = repr(found["format"]) if "format" in found else "nothing"
            raise line.error(
                ("format",) if "format" in found else (), found=shown, expected=f"the format of {expected}"
            )
        yield line
