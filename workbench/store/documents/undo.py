"""Undo and redo: each step is the pieces that an edit took out of a document and those it put in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from workbench.store.documents.pieces import CasePiece, Ends, Pieces


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
    def between(cls, old: Pieces, new: Pieces) -> Self:
        """The change that made one document of another; what both share is not kept."""
        cases_start, cases_end = _shared(old.cases, new.cases)
        gaps_start, gaps_end = _shared(old.gaps, new.gaps)

        def part(pieces: Pieces) -> _Part:
            return _Part(
                pieces.cases[cases_start : len(pieces.cases) - cases_end],
                pieces.gaps[gaps_start : len(pieces.gaps) - gaps_end],
                pieces.ends,
            )

        return cls(cases_start, gaps_start, part(old), part(new))

    def redo(self, pieces: Pieces) -> Pieces:
        """The document after the change."""
        return self._replaced(pieces, self.old, self.new)

    def undo(self, pieces: Pieces) -> Pieces:
        """The document before the change."""
        return self._replaced(pieces, self.new, self.old)

    def _replaced(self, pieces: Pieces, out: _Part, into: _Part) -> Pieces:
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
    def dirty(self) -> bool:
        """Whether the document differs from what was last read or written."""
        return self._saved != self._done

    @property
    def done(self) -> int:
        """How many steps are done now."""
        return self._done

    @property
    def undoable(self) -> str | None:
        """What the next undo takes back."""
        return self._steps[self._done - 1].label if self._done else None

    @property
    def redoable(self) -> str | None:
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


def _shared(old: tuple[object, ...], new: tuple[object, ...]) -> tuple[int, int]:
    """How many items at the beginning and at the end are the very same objects in both."""
    most = min(len(old), len(new))
    start = next((index for index in range(most) if old[index] is not new[index]), most)
    most -= start
    end = next((index for index in range(most) if old[-1 - index] is not new[-1 - index]), most)
    return start, end
