"""The text of an eval-set file cut into pieces: head, cases, gaps between them, tail."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from workbench.store.documents.cases import Head
from workbench.store.documents.frame import Frame
from workbench.store.documents.jsontext import BrokenJson

BYTE_ORDER_MARK = "\ufeff".encode()


class CasePiece(NamedTuple):
    """One case: its text, what a listing shows of it, and why its JSON cannot be read (offset from the case's start)."""

    data: bytes
    head: Head
    broken: BrokenJson | None = None


@dataclass
class Pieces:
    """`head` ends with the bracket that opens the list of cases, `tail` begins with the one that closes it.

    `gaps[i]` stands before case i, `gaps[len(cases)]` after the last. For a list of turns, which is one case, head and
    tail are what stands around it.
    """

    head: bytes
    tail: bytes
    cases: list[CasePiece] = field(default_factory=list)
    gaps: list[bytes] = field(default_factory=lambda: [b""])

    @classmethod
    def cut(cls, data: bytes, text: str, frame: Frame, *, list_is_case: bool) -> Pieces:
        """Cut a file along its frame. `text` is `data` without its byte order mark, decoded."""
        mark = BYTE_ORDER_MARK if data.startswith(BYTE_ORDER_MARK) else b""
        source = data if len(text) == len(data) else None

        def part(start: int, end: int) -> bytes:
            return source[start:end] if source is not None else text[start:end].encode()

        start = frame.cases_start if list_is_case else frame.cases_start + 1
        end = frame.spans[-1].end if list_is_case else frame.cases_end
        pieces = cls(head=mark + part(0, start), tail=part(end, len(text)), gaps=[])
        position = start
        for span in frame.spans:
            pieces.gaps.append(part(position, span.start))
            broken = span.broken
            if broken is not None:
                broken = BrokenJson(broken.offset - span.start, found=broken.found, expected=broken.expected)
            pieces.cases.append(CasePiece(part(span.start, span.end), span.head or Head("", None), broken))
            position = span.end
        pieces.gaps.append(part(position, end))
        return pieces

    def __iter__(self) -> Iterator[bytes]:
        """All pieces in order; joined they are the file."""
        yield self.head
        for gap, case in zip(self.gaps, self.cases, strict=False):
            yield gap
            yield case.data
        yield self.gaps[-1]
        yield self.tail

    def before_case(self, index: int) -> Iterator[bytes]:
        """The pieces before a case."""
        yield self.head
        for gap, case in zip(self.gaps[:index], self.cases[:index], strict=True):
            yield gap
            yield case.data
        yield self.gaps[index]
