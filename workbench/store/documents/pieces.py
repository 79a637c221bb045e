"""The text of an eval-set file cut into pieces: head, cases, gaps between them, tail."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from workbench.store.documents.cases import Head
from workbench.store.documents.frame import DocumentFormat, Frame
from workbench.store.documents.jsontext import BrokenJson, mask
from workbench.store.documents.recovering import id_of_broken_case

BYTE_ORDER_MARK = "\ufeff".encode()


class CasePiece(NamedTuple):
    """One case: its text, what a listing shows of it, and why its JSON is broken (offset from its start)."""

    data: bytes
    head: Head
    broken: BrokenJson | None = None
    strict: bool = True


@dataclass(frozen=True)
class Ends:
    """What stands around the cases, and what is known of the file from there.

    `head` ends with the bracket that opens the list of cases, `tail` begins with the one that closes it; for a list of
    turns, which is one case, they are what stands around it. `header` is what the set says besides its cases; `broken`
    says that the JSON is broken outside of a case.
    """

    head: bytes
    tail: bytes
    format: DocumentFormat
    header: Mapping[str, Any] = field(default_factory=dict)
    broken: bool = False


@dataclass(frozen=True)
class Pieces:
    """A whole file. `gaps[i]` stands before case i, `gaps[len(cases)]` after the last."""

    ends: Ends
    cases: tuple[CasePiece, ...]
    gaps: tuple[bytes, ...]

    @classmethod
    def cut(cls, data: bytes, text: str, frame: Frame) -> Pieces:
        """Cut a file along its frame. `text` is `data` without its byte order mark, decoded."""
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
            strict = not frame.masked.any_between(span.start, span.end)
            data = part(span.start, span.end)
            head = Head(id_of_broken_case(data.decode()), None) if span.head is None else span.head
            cases.append(CasePiece(data, head, broken, strict))
            position = span.end
        gaps.append(part(position, end))
        ends = Ends(mark + part(0, start), part(end, len(text)), frame.format, frame.header, bool(frame.broken))
        return cls(ends, tuple(cases), tuple(gaps))

    @property
    def strict(self) -> bool:
        """Whether there are neither comments, trailing commas nor a byte order mark."""
        if not all(case.strict for case in self.cases) or not _is_bare(self.gaps):
            return False
        skeleton = (self.ends.head + self.ends.tail).decode()
        return not skeleton.startswith("\ufeff") and mask(skeleton).strict

    def __iter__(self) -> Iterator[bytes]:
        """All pieces in order; joined they are the file."""
        yield from self.before_case(len(self.cases))
        yield self.ends.tail

    def sharing(self, others: Iterable[CasePiece]) -> Pieces:
        """The same file, with the very objects of `others` for cases whose text is the same in both."""
        known = {case.data: case for case in others}
        cases = tuple(known[case.data] if known.get(case.data) == case else case for case in self.cases)
        return replace(self, cases=cases)

    def before_case(self, index: int) -> Iterator[bytes]:
        """The pieces before a case."""
        yield self.ends.head
        for gap, case in zip(self.gaps[:index], self.cases[:index], strict=True):
            yield gap
            yield case.data
        yield self.gaps[index]


def _is_bare(gaps: tuple[bytes, ...]) -> bool:
    """Whether nothing stands between the cases but single commas."""
    last = gaps[-1].strip() if len(gaps) > 1 else b""
    return not last and not gaps[0].strip() and all(gap.strip() == b"," for gap in gaps[1:-1])
