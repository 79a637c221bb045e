"""Edits of the text of an eval set, and undo."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from workbench.store.evalsets.case_frame import CASES_KEYS, read_frame
from workbench.store.evalsets.case_reader import BYTE_ORDER_MARK, CasePiece, Ends, Pieces
from workbench.store.json.json_edit import Fragment, WrongPlace
from workbench.store.json.json_layout import JsonLayout, JsonStyle, adopt_spelling, detect_style, write_value
from workbench.store.json.json_path import Place
from workbench.store.json.json_text import BrokenJson, decode_tolerantly

# Edits of a document in pieces: each takes pieces and returns new ones with minimal changes

MakePiece = Callable[[bytes], CasePiece]
"""Makes the piece of a case from its text."""


def edit_case(pieces: Pieces, index: int, edit: Callable[[Fragment], str], *, make_piece: MakePiece) -> Pieces:
    """Edit the text of one case. Raises WrongPlace, UnsafeEdit, ValueError."""
    text = pieces.cases[index].data.decode()
    fragment = Fragment(text, indentation=_indentation_of_case(pieces, index), default=detect_document_style(pieces))
    return replace_case(pieces, index, edit(fragment).encode(), make_piece=make_piece)


def replace_case(pieces: Pieces, index: int, data: bytes, *, make_piece: MakePiece) -> Pieces:
    """Replace the text of a case; return the same object if the text is equal."""
    if data == pieces.cases[index].data:
        return pieces
    return replace(pieces, cases=(*pieces.cases[:index], make_piece(data), *pieces.cases[index + 1 :]))


def edit_header(pieces: Pieces, place: Place, edit: Callable[[Fragment], str]) -> Pieces:
    """Edit the text around the cases. Raises BrokenJson, WrongPlace, UnsafeEdit, ValueError."""
    if not place or place[0] in CASES_KEYS:
        raise WrongPlace((), found="the list of cases", expected="a key of the set (cases are edited one by one)")
    text = edit(Fragment(_skeleton(pieces)))
    mark = BYTE_ORDER_MARK if pieces.ends.head.startswith(BYTE_ORDER_MARK) else b""
    start = read_frame(text, read_heads={pieces.ends.format: lambda data: data}).cases_start + 1
    header = {key: value for key, value in decode_tolerantly(text)[0].items() if key not in CASES_KEYS}
    ends = replace(pieces.ends, head=mark + text[:start].encode(), tail=text[start:].encode(), header=header)
    return pieces if ends == pieces.ends else replace(pieces, ends=ends)


def insert_cases(pieces: Pieces, index: int, cases: Sequence[Any], *, make_piece: MakePiece) -> Pieces:
    """Insert cases in the style of the others. Raises ValueError for NaN."""
    json_style = detect_document_style(pieces)
    spelling = json_style.key_style
    if pieces.cases:
        neighbour = min(index, len(pieces.cases) - 1)
        indentation = _indentation_of_case(pieces, neighbour)
        if b"\n" not in pieces.cases[neighbour].data:
            json_style = json_style.on_one_line()
    else:
        indentation = _last_line_indentation(pieces.ends.head) + (json_style.indent or "")
    spelt = (adopt_spelling(data, None, style=spelling, free=False) for data in cases)
    texts = [write_value(data, json_style, indentation=indentation) for data in spelt]
    return _insert_pieces(pieces, index, [make_piece(text.encode()) for text in texts])


def duplicate_case(pieces: Pieces, index: int) -> Pieces:
    """Insert a copy of a case after it, including comments inside it."""
    return _insert_pieces(pieces, index + 1, [pieces.cases[index]])


def remove_cases(pieces: Pieces, indexes: Collection[int]) -> Pieces:
    """Remove cases; comments around them stay."""
    layout = _layout(pieces)
    removed = frozenset(indexes)
    for index in sorted(removed, reverse=True):
        layout.remove(index)
    return _apply_layout(pieces, layout, [case for index, case in enumerate(pieces.cases) if index not in removed])


def move_case(pieces: Pieces, source: int, target: int) -> Pieces:
    """Move a case to the index `target` of the result."""
    layout = _layout(pieces)
    layout.move(source, target)
    cases = list(pieces.cases)
    cases.insert(target, cases.pop(source))
    return _apply_layout(pieces, layout, cases)


def detect_document_style(pieces: Pieces) -> JsonStyle:
    """Detect the style of the first readable case; the rest of the file supplies what it does not show."""
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


def _insert_pieces(pieces: Pieces, index: int, new: Sequence[CasePiece]) -> Pieces:
    json_style = detect_document_style(pieces)
    outer = _last_line_indentation(pieces.ends.head)
    layout = _layout(pieces)
    for place in range(index, index + len(new)):
        layout.insert(
            place,
            "",
            line_break=None if json_style.indent is None else json_style.line_break,
            indentation=outer + (json_style.indent or ""),
            outer=outer,
            space=json_style.comma[1:],
        )
    return _apply_layout(pieces, layout, (*pieces.cases[:index], *new, *pieces.cases[index:]))


def _layout(pieces: Pieces) -> JsonLayout:
    return JsonLayout.from_gaps([gap.decode() for gap in pieces.gaps], [""] * len(pieces.cases))


def _apply_layout(pieces: Pieces, layout: JsonLayout, cases: Sequence[CasePiece]) -> Pieces:
    """Replace cases and gaps; unchanged gaps stay the same objects, for the undo log."""
    known = {gap: gap for gap in pieces.gaps}
    gaps = (gap.encode() for gap in layout.to_gaps())
    return replace(pieces, cases=tuple(cases), gaps=tuple(known.get(gap, gap) for gap in gaps))


def _skeleton(pieces: Pieces) -> str:
    """Return the file as an eval set without cases."""
    return (pieces.ends.head + pieces.ends.tail).decode().removeprefix("\ufeff")


def _indentation_of_case(pieces: Pieces, index: int) -> str:
    gap = pieces.gaps[index]
    if b"\n" in gap:
        return _last_line_indentation(gap)
    return _last_line_indentation(pieces.ends.head) if index == 0 else ""


def _last_line_indentation(data: bytes) -> str:
    line = data[data.rfind(b"\n") + 1 :].decode().removeprefix("\ufeff")
    return line[: len(line) - len(line.lstrip(" \t"))]


# Undo and redo: each step has the pieces before and after an edit


@dataclass(frozen=True)
class _Part:
    """One side of a change."""

    cases: tuple[CasePiece, ...]
    gaps: tuple[bytes, ...]
    ends: Ends


@dataclass(frozen=True)
class EvalSetChange:
    """One change: `old` became `new`, after `cases_before` cases and `gaps_before` gaps that are unchanged."""

    cases_before: int
    gaps_before: int
    old: _Part
    new: _Part

    @classmethod
    def from_versions(cls, old: Pieces, new: Pieces) -> Self:
        """Make the change between two versions; common pieces are not stored."""
        cases_start, cases_end = _count_shared(old.cases, new.cases)
        gaps_start, gaps_end = _count_shared(old.gaps, new.gaps)

        def part(pieces: Pieces) -> _Part:
            return _Part(
                pieces.cases[cases_start : len(pieces.cases) - cases_end],
                pieces.gaps[gaps_start : len(pieces.gaps) - gaps_end],
                pieces.ends,
            )

        return cls(cases_start, gaps_start, part(old), part(new))

    @property
    def renamed_case(self) -> tuple[str, str] | None:
        """The old and the new id of the case whose id it changed; None if it changed no id."""
        if len(self.old.cases) != 1 or len(self.new.cases) != 1:
            return None
        old, new = self.old.cases[0].head.eval_id, self.new.cases[0].head.eval_id
        return (old, new) if old and new and old != new else None

    def redo(self, pieces: Pieces) -> Pieces:
        """Return the document after the change."""
        return self._replace(pieces, self.old, self.new)

    def undo(self, pieces: Pieces) -> Pieces:
        """Return the document before the change."""
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
class UndoStep:
    """One step of undo: the changes of an edit, and its label."""

    label: str
    changes: tuple[EvalSetChange, ...]


class UndoLog:
    """The steps of a document since it was opened, and how many of them are done."""

    def __init__(self) -> None:
        self._steps: list[UndoStep] = []
        self._done = 0
        self._saved: int | None = 0  # the number of steps done at the last save; None: that state is unreachable

    @property
    def is_dirty(self) -> bool:
        """True if the document differs from the last read or written version."""
        return self._saved != self._done

    @property
    def step_count(self) -> int:
        """The number of steps done."""
        return self._done

    @property
    def undo_label(self) -> str | None:
        return self._steps[self._done - 1].label if self._done else None

    @property
    def redo_label(self) -> str | None:
        return self._steps[self._done].label if self._done < len(self._steps) else None

    def list_unsaved_renames(self) -> list[tuple[str, str]]:
        """List the old and the new ids of the cases that were renamed since the last save, in this order."""
        if self._saved is None:
            return []
        first, last = sorted((self._saved, self._done))
        found = [change.renamed_case for step in self._steps[first:last] for change in step.changes]
        renames = [renamed for renamed in found if renamed is not None]
        return renames if self._saved <= self._done else [(old, new) for new, old in reversed(renames)]

    def mark_saved(self) -> None:
        self._saved = self._done

    def add(self, step: UndoStep) -> None:
        """Add a step that was just done; undone steps are dropped."""
        if self._saved is not None and self._saved > self._done:
            self._saved = None
        self._steps[self._done :] = [step]
        self._done += 1

    def undo(self, pieces: Pieces) -> Pieces:
        """Undo the last step, which must exist."""
        self._done -= 1
        for change in reversed(self._steps[self._done].changes):
            pieces = change.undo(pieces)
        return pieces

    def redo(self, pieces: Pieces) -> Pieces:
        """Redo the next step, which must exist."""
        for change in self._steps[self._done].changes:
            pieces = change.redo(pieces)
        self._done += 1
        return pieces


def _count_shared(old: tuple[object, ...], new: tuple[object, ...]) -> tuple[int, int]:
    """Count the items at the beginning and the end that are the same objects in both."""
    most = min(len(old), len(new))
    start = next((index for index in range(most) if old[index] is not new[index]), most)
    most -= start
    end = next((index for index in range(most) if old[-1 - index] is not new[-1 - index]), most)
    return start, end
