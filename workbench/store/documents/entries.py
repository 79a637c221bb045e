"""What an open document lists: one entry for each case, with its place in the text where something is wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from workbench.store.documents.cases import Fault
from workbench.store.documents.jsontext import BrokenJson, decode_tolerantly
from workbench.store.documents.pieces import Pieces
from workbench.store.documents.places import Locator, Place, Position, format_place, position_of
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

    def position(self, within: Position) -> Position:
        """The position in the file of one in a text that begins here."""
        if within.line > 1:
            return Position(self.line + within.line - 1, within.column)
        return Position(self.line, within.column + self._characters)


class CaseErrors:
    """Turns faults of cases into errors with line and column, quickest when asked in the order of the file."""

    def __init__(self, pieces: Pieces, *, path: Path, place_of_case: Callable[[int], Place]) -> None:
        self._pieces = pieces
        self._path = path
        self._place_of_case = place_of_case
        self._cursor = Cursor()
        self._at = -1  # the case that the cursor has come to
        self._text = _CaseText("")

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
        if index != self._at:
            self._text = _CaseText(self._pieces.cases[index].data.decode())
        self._at = index
        place = self._place_of_case(index)
        if isinstance(fault, Fault):
            place = (*place, *fault.place)
        position = self._cursor.position(self._text.position_of(fault))
        return StoreError(
            self._path,
            place=format_place(place),
            line=position.line,
            column=position.column,
            found=fault.found,
            expected=fault.expected,
        )


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


class _CaseText:
    """The text of a case, in which faults are placed."""

    def __init__(self, text: str) -> None:
        self._text = text

    def position_of(self, fault: Fault | BrokenJson) -> Position:
        """Where a fault is in the text; at its start if its JSON is broken elsewhere."""
        if isinstance(fault, BrokenJson):
            return position_of(self._text, fault.offset)
        return Position(1, 1) if self._strict is None else self._strict.position_of(fault.place)

    @cached_property
    def _strict(self) -> Locator | None:
        """None where the JSON is broken."""
        try:
            return Locator(decode_tolerantly(self._text)[1].text)
        except BrokenJson:
            return None
