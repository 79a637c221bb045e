"""What panes show, as blocks: lines over the whole width, and expected beside actual."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.tui.state.pieces import Piece, Tone


@dataclass(frozen=True, slots=True)
class Whole:
    """A paragraph over the whole width. Lines after the first are indented by `hang` more than the first."""

    pieces: tuple[Piece, ...]
    indent: int = 0
    hang: int = 0

    @classmethod
    def of(cls, text: str, tone: Tone = Tone.TEXT, *, indent: int = 0, hang: int = 0) -> Whole:
        """A paragraph of one tone; `text` must be safe."""
        return cls((Piece(text, tone),), indent, hang)


@dataclass(frozen=True, slots=True)
class Side:
    """What one side of a comparison has to show."""

    pieces: tuple[Piece, ...]
    indent: int = 0


@dataclass(frozen=True, slots=True)
class Both:
    """Expected beside actual; None where a side has nothing.

    `differs` marks the sides with - and +; `quiet` then leaves out the colours, for a difference that cost nothing.
    """

    expected: Side | None
    actual: Side | None
    differs: bool = False
    quiet: bool = False

    @property
    def is_same(self) -> bool:
        """Whether one line can stand for both sides."""
        return not self.differs and self.expected == self.actual


@dataclass(frozen=True, slots=True)
class Columns:
    """What the two sides are called, above them; in one column, which mark stands for which side."""

    expected: str
    actual: str


Block = Whole | Both | Columns

BLANK = Whole(())
"""An empty line."""


@dataclass(frozen=True, slots=True)
class Heading:
    """What is shown, how it stands, when it ran, why that no longer holds: safe text for one line each; and whether it
    has unsaved edits.
    """

    title: str
    status: str = ""
    ran: str = ""
    is_edited: bool = False
    why_stale: str = ""
