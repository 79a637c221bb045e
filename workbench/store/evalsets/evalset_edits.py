"""Edits of the text of an eval set, and how they are undone."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from workbench.store.evalsets.case_frame import CASES_KEYS, read_frame
from workbench.store.evalsets.case_reader import BYTE_ORDER_MARK, CasePiece, Ends, Pieces
from workbench.store.json.json_edit import Fragment, WrongPlace
from workbench.store.json.json_layout import JsonStyle, Layout, adopt_spelling, detect_style, write_value
from workbench.store.json.json_path import Place
from workbench.store.json.json_text import BrokenJson, decode_tolerantly

# Edits of a document cut into pieces: each takes the pieces and gives new ones, touching only what it must.

MakePiece = Callable[[bytes], CasePiece]
"""Reads the head of a case from its text."""


def edit_case(pieces: Pieces, index: int, edit: Callable[[Fragment], str], *, make_piece: MakePiece) -> Pieces:
    """The document with the text of one case edited. Raises WrongPlace, UnsafeEdit, ValueError."""
    text = pieces.cases[index].data.decode()
    fragment = Fragment(text, indentation=_indentation_of_case(pieces, index), default=detect_document_style(pieces))
    return replace_case(pieces, index, edit(fragment).encode(), make_piece=make_piece)


def replace_case(pieces: Pieces, index: int, data: bytes, *, make_piece: MakePiece) -> Pieces:
    """The document with another text for a case; the same document where the text is the same."""
    if data == pieces.cases[index].data:
        return pieces
    return replace(pieces, cases=(*pieces.cases[:index], make_piece(data), *pieces.cases[index + 1 :]))


def edit_header(pieces: Pieces, place: Place, edit: Callable[[Fragment], str]) -> Pieces:
    """The document with something edited that the set says of itself. Raises BrokenJson, WrongPlace and the like."""
    if not place or place[0] in CASES_KEYS:
        raise WrongPlace((), found="the list of cases", expected="a key of the set (cases are edited one by one)")
    text = edit(Fragment(_skeleton(pieces)))
    mark = BYTE_ORDER_MARK if pieces.ends.head.startswith(BYTE_ORDER_MARK) else b""
    start = read_frame(text, read_heads={pieces.ends.format: lambda data: data}).cases_start + 1
    header = {key: value for key, value in decode_tolerantly(text)[0].items() if key not in CASES_KEYS}
    ends = replace(pieces.ends, head=mark + text[:start].encode(), tail=text[start:].encode(), header=header)
    return pieces if ends == pieces.ends else replace(pieces, ends=ends)


def insert_case(pieces: Pieces, index: int, data: Any, *, make_piece: MakePiece) -> Pieces:
    """The document with a case inserted, written in the json_style of the others. Raises ValueError for NaN."""
    json_style = detect_document_style(pieces)
    spelt = adopt_spelling(data, None, style=json_style.key_style, free=False)
    if pieces.cases:
        neighbour = min(index, len(pieces.cases) - 1)
        indentation = _indentation_of_case(pieces, neighbour)
        if b"\n" not in pieces.cases[neighbour].data:
            json_style = json_style.on_one_line()
    else:
        indentation = _last_line_indentation(pieces.ends.head) + (json_style.indent or "")
    text = write_value(spelt, json_style, indentation=indentation)
    return _insert_piece(pieces, index, make_piece(text.encode()))


def duplicate_case(pieces: Pieces, index: int) -> Pieces:
    """The document with a case repeated after itself, comments inside it included."""
    return _insert_piece(pieces, index + 1, pieces.cases[index])


def remove_cases(pieces: Pieces, indexes: Collection[int]) -> Pieces:
    """The document without some cases; comments around them stay."""
    layout = _layout(pieces)
    removed = frozenset(indexes)
    for index in sorted(removed, reverse=True):
        layout.remove(index)
    return _apply_layout(pieces, layout, [case for index, case in enumerate(pieces.cases) if index not in removed])


def move_case(pieces: Pieces, source: int, target: int) -> Pieces:
    """The document with a case moved, so that it stands at `target` afterwards."""
    layout = _layout(pieces)
    layout.move(source, target)
    cases = list(pieces.cases)
    cases.insert(target, cases.pop(source))
    return _apply_layout(pieces, layout, cases)


def detect_document_style(pieces: Pieces) -> JsonStyle:
    """The json_style of the first case that can be read; what it does not show is as in the rest of the file."""
    skeleton = _skeleton(pieces)
    try:
        data, masked = decode_tolerantly(skeleton)
        json_style = detect_style(masked.text, data=data)
    except BrokenJson:
        json_style = JsonStyle(indent=None)
    first = next((index for index, case in enumerate(pieces.cases) if case.broken is None), None)
    if first is None:
        return json_style
    data, masked = decode_tolerantly(pieces.cases[first].data.decode())
    return detect_style(masked.text, data=data, indentation=_indentation_of_case(pieces, first), default=json_style)


def _insert_piece(pieces: Pieces, index: int, piece: CasePiece) -> Pieces:
    json_style = detect_document_style(pieces)
    outer = _last_line_indentation(pieces.ends.head)
    layout = _layout(pieces)
    layout.insert(
        index,
        "",
        line_break=None if json_style.indent is None else json_style.line_break,
        indentation=outer + (json_style.indent or ""),
        outer=outer,
        space=json_style.comma[1:],
    )
    return _apply_layout(pieces, layout, (*pieces.cases[:index], piece, *pieces.cases[index:]))


def _layout(pieces: Pieces) -> Layout:
    return Layout.from_gaps([gap.decode() for gap in pieces.gaps], [""] * len(pieces.cases))


def _apply_layout(pieces: Pieces, layout: Layout, cases: Sequence[CasePiece]) -> Pieces:
    """The document with other cases and gaps; gaps that say the same stay the same objects, for the undo log."""
    known = {gap: gap for gap in pieces.gaps}
    gaps = (gap.encode() for gap in layout.to_gaps())
    return replace(pieces, cases=tuple(cases), gaps=tuple(known.get(gap, gap) for gap in gaps))


def _skeleton(pieces: Pieces) -> str:
    """The file without its cases, as an eval set of none."""
    return (pieces.ends.head + pieces.ends.tail).decode().removeprefix("\ufeff")


def _indentation_of_case(pieces: Pieces, index: int) -> str:
    gap = pieces.gaps[index]
    if b"\n" in gap:
        return _last_line_indentation(gap)
    return _last_line_indentation(pieces.ends.head) if index == 0 else ""


def _last_line_indentation(data: bytes) -> str:
    line = data[data.rfind(b"\n") + 1 :].decode().removeprefix("\ufeff")
    return line[: len(line) - len(line.lstrip(" \t"))]


# Undo and redo: each step is the pieces that an edit took out of a document and those it put in.


@dataclass(frozen=True)
class _Part:
    """What a change has on one of its sides."""

    cases: tuple[CasePiece, ...]
    gaps: tuple[bytes, ...]
    ends: Ends


@dataclass(frozen=True)
class Change:
    """One replacement: `old` became `new`, with `before` cases and gaps before it left as they were."""

    cases_before: int
    gaps_before: int
    old: _Part
    new: _Part

    @classmethod
    def from_versions(cls, old: Pieces, new: Pieces) -> Self:
        """The change that made one document of another; what both share is not kept."""
        cases_start, cases_end = _count_shared(old.cases, new.cases)
        gaps_start, gaps_end = _count_shared(old.gaps, new.gaps)

        def part(pieces: Pieces) -> _Part:
            return _Part(
                pieces.cases[cases_start : len(pieces.cases) - cases_end],
                pieces.gaps[gaps_start : len(pieces.gaps) - gaps_end],
                pieces.ends,
            )

        return cls(cases_start, gaps_start, part(old), part(new))

    def redo(self, pieces: Pieces) -> Pieces:
        """The document after the change."""
        return self._replace(pieces, self.old, self.new)

    def undo(self, pieces: Pieces) -> Pieces:
        """The document before the change."""
        return self._replace(pieces, self.new, self.old)

    def _replace(self, pieces: Pieces, out: _Part, into: _Part) -> Pieces:
        cases_after = self.cases_before + len(out.cases)
        gaps_after = self.gaps_before + len(out.gaps)
        return Pieces(
            into.ends,
            pieces.cases[: self.cases_before] + into.cases + pieces.cases[cases_after:],
            pieces.gaps[: self.gaps_before] + into.gaps + pieces.gaps[gaps_after:],
        )


@dataclass(frozen=True)
class Step:
    """What one undo takes back: the changes of one edit, and what to call it."""

    label: str
    changes: tuple[Change, ...]


class UndoLog:
    """The steps of a document since it was opened, and which of them are done now."""

    def __init__(self) -> None:
        self._steps: list[Step] = []
        self._done = 0
        self._saved: int | None = 0  # how many steps were done when the file was written; None: cannot come back

    @property
    def is_dirty(self) -> bool:
        """Whether the document differs from what was last read or written."""
        return self._saved != self._done

    @property
    def step_count(self) -> int:
        """How many steps are done now."""
        return self._done

    @property
    def undo_label(self) -> str | None:
        """What the next undo takes back."""
        return self._steps[self._done - 1].label if self._done else None

    @property
    def redo_label(self) -> str | None:
        """What the next redo does again."""
        return self._steps[self._done].label if self._done < len(self._steps) else None

    def mark_saved(self) -> None:
        """The document is now as on disk."""
        self._saved = self._done

    def add(self, step: Step) -> None:
        """Note a step that was just done; what had been undone is forgotten."""
        if self._saved is not None and self._saved > self._done:
            self._saved = None
        self._steps[self._done :] = [step]
        self._done += 1

    def undo(self, pieces: Pieces) -> Pieces:
        """Take back the last step; there must be one."""
        self._done -= 1
        for change in reversed(self._steps[self._done].changes):
            pieces = change.undo(pieces)
        return pieces

    def redo(self, pieces: Pieces) -> Pieces:
        """Do the next step again; there must be one."""
        for change in self._steps[self._done].changes:
            pieces = change.redo(pieces)
        self._done += 1
        return pieces


def _count_shared(old: tuple[object, ...], new: tuple[object, ...]) -> tuple[int, int]:
    """How many items at the beginning and at the end are the very same objects in both."""
    most = min(len(old), len(new))
    start = next((index for index in range(most) if old[index] is not new[index]), most)
    most -= start
    end = next((index for index in range(most) if old[-1 - index] is not new[-1 - index]), most)
    return start, end
