"""What an open document lists: one entry for each case, with its place in the text where something is wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from workbench.store.documents.cases import Fault
from workbench.store.documents.jsontext import BrokenJson, decode_tolerantly
from workbench.store.documents.pieces import Pieces
from workbench.store.documents.places import Place, Position, format_place, locate, position_of
from workbench.store.errors import StoreError


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseEntry:
    """One case of a document. `occurrence` tells cases with the same id apart, 0 for the first.

    `problem` is set where the JSON or the outer shape of the case is wrong; faults deeper inside show when it is read.
    A case without an id is listed as `(case 4)`, counted from 1.
    """

    index: int
    eval_id: str
    occurrence: int
    problem: StoreError | None = None


class Cursor:
    """Runs over pieces of UTF-8 text and knows the line and column it stands at."""

    def __init__(self) -> None:
        self.line = 1
        self._characters = 0  # of the line that it stands in, before it

    def advance(self, pieces: Iterable[bytes]) -> None:
        """Step over pieces."""
        for piece in pieces:
            lines = piece.count(b"\n")
            if lines:
                self.line += lines
                self._characters = 0
                piece = piece[piece.rfind(b"\n") + 1 :]  # noqa: PLW2901 - the rest is behind it
            self._characters += len(piece.decode().removeprefix("\ufeff"))

    def position(self, text: str = "", offset: int = 0) -> Position:
        """The position of an offset in a text that begins here."""
        line, column = position_of(text, offset)
        if line > 1:
            return Position(self.line + line - 1, column)
        return Position(self.line, column + self._characters)


class CaseErrors:
    """Turns faults of cases into errors with line and column, quickest when asked in the order of the file."""

    def __init__(self, pieces: Pieces, *, path: Path, place_of_case: Callable[[int], Place]) -> None:
        self._pieces = pieces
        self._path = path
        self._place_of_case = place_of_case
        self._cursor = Cursor()
        self._at = -1  # the case the cursor stands at

    def error(self, index: int, fault: Fault | BrokenJson) -> StoreError:
        """The error that a fault of a case is."""
        if self._at < 0 or index < self._at:
            self._cursor = Cursor()
            self._cursor.advance(self._pieces.before_case(index))
        else:
            stepped = zip(
                self._pieces.cases[self._at : index], self._pieces.gaps[self._at + 1 : index + 1], strict=True
            )
            for case, gap in stepped:
                self._cursor.advance((case.data, gap))
        self._at = index
        return _placed(self._pieces, index, fault, self._cursor, path=self._path, place=self._place_of_case(index))


def list_entries(pieces: Pieces, errors: CaseErrors) -> list[CaseEntry]:
    """The entries of all cases in one pass over the pieces."""
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


def _placed(
    pieces: Pieces, index: int, fault: Fault | BrokenJson, cursor: Cursor, *, path: Path, place: Place
) -> StoreError:
    if isinstance(fault, BrokenJson):
        text = pieces.cases[index].data.decode()
        position = cursor.position(text, fault.offset)
    else:
        text = pieces.cases[index].data.decode("utf-8")
        position = cursor.position(text, _offset_of(text, fault.place))
        place = (*place, *fault.place)
    return StoreError(
        path,
        place=format_place(place),
        line=position.line,
        column=position.column,
        found=fault.found,
        expected=fault.expected,
    )


def _offset_of(text: str, place: Place) -> int:
    """Where a place is in the text of a case; the start of a case whose JSON is broken."""
    try:
        return locate(decode_tolerantly(text)[1].text, place)
    except BrokenJson:
        return 0
