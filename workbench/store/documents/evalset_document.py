"""An eval-set file as a document: its cases listed, read on demand and edited in the text of the file.

The text is kept as bytes in pieces (what stands before the cases, each case, what stands between them, the rest), so
that an edit costs as much as the case it touches, whatever the size of the file, and every other byte stays as it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from workbench.model.evalset import EvalCase
from workbench.store.documents.cases import Head, InvalidCase, read_case, read_head, read_legacy_head
from workbench.store.documents.entries import CaseEntry, error_in_case, list_entries
from workbench.store.documents.frame import DocumentFormat, NotAnEvalSet, read_frame
from workbench.store.documents.jsontext import BrokenJson, decode_tolerantly
from workbench.store.documents.names import name_of_file
from workbench.store.documents.pieces import Pieces
from workbench.store.documents.places import Place, find_key, position_of
from workbench.store.errors import StoreError
from workbench.store.files import Stamp, decode_utf8, read_bytes

BYTE_ORDER_MARK = "\ufeff"


class EvalSetDocument:
    """One eval-set file: its text, its cases, and the edits made to it."""

    def __init__(self, path: Path, data: bytes, stamp: Stamp | None) -> None:
        """Use `open`; this takes content already in memory. `stamp` is None for a file that is not there yet."""
        self.path = path
        self._stamp = stamp
        self._load(data)

    @classmethod
    def open(cls, path: Path) -> EvalSetDocument:
        """Open a file. Raises StoreError where it cannot be read, or not even a list of cases can be had."""
        data, stamp = read_bytes(path)
        return cls(path, data, stamp)

    def _load(self, data: bytes) -> None:
        text = decode_utf8(self.path, data).removeprefix(BYTE_ORDER_MARK)
        try:
            frame = read_frame(
                text,
                read_heads={
                    DocumentFormat.CURRENT: read_head,
                    DocumentFormat.LEGACY_EVALS: read_legacy_head,
                    DocumentFormat.LEGACY_TURNS: lambda _: Head(name_of_file(self.path), None),
                },
            )
        except (BrokenJson, NotAnEvalSet) as error:
            position = position_of(text, error.offset)
            raise StoreError(
                self.path, line=position.line, column=position.column, found=error.found, expected=error.expected
            ) from error
        self.format = frame.format
        self.strict = frame.masked.strict
        self._header = frame.header
        self._pieces = Pieces.cut(data, text, frame, list_is_case=frame.format is DocumentFormat.LEGACY_TURNS)
        self._broken = [
            StoreError(self.path, line=line, column=column, found=broken.found, expected=broken.expected)
            for broken in frame.broken
            for line, column in (position_of(text, broken.offset),)
        ]
        self._entries: list[CaseEntry] | None = None

    @property
    def eval_set_id(self) -> str:
        """The id of the set; the name of the file where the file has none."""
        value = self._header_value("eval_set_id")
        return value if isinstance(value, str) and value else name_of_file(self.path)

    @property
    def name(self) -> str | None:
        """The name of the set, where it has one."""
        value = self._header_value("name")
        return value if isinstance(value, str) else None

    @property
    def description(self) -> str | None:
        """The description of the set, where it has one."""
        value = self._header_value("description")
        return value if isinstance(value, str) else None

    @property
    def header(self) -> dict[str, Any]:
        """Everything the set says besides its cases."""
        return dict(self._header)

    def __len__(self) -> int:
        """How many cases there are, broken ones included."""
        return len(self._pieces.cases)

    @property
    def entries(self) -> Sequence[CaseEntry]:
        """One entry for each case in the order of the file."""
        if self._entries is None:
            places = [self.place_of_case(index) for index in range(len(self))]
            self._entries = list_entries(self._pieces, path=self.path, places=places)
        return self._entries

    def place_of_case(self, index: int) -> Place:
        """Where a case is in the data of the file."""
        if self.format is DocumentFormat.CURRENT:
            return ("eval_cases", index)
        return () if self.format is DocumentFormat.LEGACY_TURNS else (index,)

    def case(self, index: int) -> EvalCase:
        """The case, parsed; old formats as migrated. Raises StoreError with the place of the first fault."""
        data = self.raw_case(index)
        try:
            return read_case(data, format=self.format, eval_id=name_of_file(self.path))
        except InvalidCase as invalid:
            raise self._error_in(index, invalid.faults[0]) from invalid

    def raw_case(self, index: int) -> Any:
        """The data of the case as the file has it (a list of turns in that format). Raises StoreError."""
        piece = self._pieces.cases[index]
        if piece.broken is not None:
            raise self._error_in(index, piece.broken)
        return decode_tolerantly(piece.data.decode())[0]

    def case_text(self, index: int) -> str:
        """The text of the case as it stands in the file."""
        return self._pieces.cases[index].data.decode()

    def content(self) -> bytes:
        """The whole file as it would be saved now."""
        return b"".join(self._pieces)

    def _error_in(self, index: int, fault: Any) -> StoreError:
        return error_in_case(self._pieces, index, fault, path=self.path, place=self.place_of_case(index))

    def _header_value(self, key: str) -> Any:
        spelling = find_key(self._header, key, free=False)
        return None if spelling is None else self._header[spelling]
