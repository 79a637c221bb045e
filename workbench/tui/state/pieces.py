"""Text with a meaning: what the state hands to the widgets in place of colours and markup.

A piece is a run of text and its tone; the themes decide what a tone looks like. Text from outside enters through
`safe` and `safe_line`, which make control characters visible; nothing here is ever parsed as markup.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from workbench.model.text import counted, neutralise, one_line

MOST_CHARACTERS = 20_000
"""How much of one text is laid out. What is left out is counted, so that nothing is cut off unseen."""


class Tone(StrEnum):
    """What a piece of text means. Each has a component class `tone--NAME` in the stylesheet."""

    TEXT = "text"
    STRONG = "strong"
    MUTED = "muted"
    HEADING = "heading"
    KEY = "key"
    REMOVED = "removed"
    ADDED = "added"
    REMOVED_WORD = "removed-word"  # what makes the difference in a text of which most stayed the same
    ADDED_WORD = "added-word"
    PASSED = "passed"
    FAILED = "failed"
    ERROR = "error"
    RUNNING = "running"
    WARNING = "warning"
    TAB = "tab"
    MATCH = "match"


class Piece(NamedTuple):
    """A run of text with one tone. It holds no control character except, before layout, line feeds."""

    text: str
    tone: Tone = Tone.TEXT


Line = tuple[Piece, ...]
"""One line of the screen."""


def safe(text: str) -> str:
    """Text from outside, ready to be laid out: control characters visible, tabs as spaces, very long texts shortened.

    A shortened text ends by saying how many characters are not shown.
    """
    hidden = len(text) - MOST_CHARACTERS
    if hidden > 0:
        text = f"{text[:MOST_CHARACTERS]}\n… {counted(hidden, 'more character')} not shown"
    return neutralise(text).expandtabs(4)


def safe_line(text: str, *, width: int = 500) -> str:
    """Text from outside for one line: a name, an id, a short message."""
    return one_line(text[: 4 * width], width=width)


def plural(count: int, noun: str) -> str:
    """A count and its noun: "1 case", "2 cases"."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
