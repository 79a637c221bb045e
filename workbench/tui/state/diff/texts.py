"""Texts and values side by side: what differs in them word by word, made safe, and cut only where that is said."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from workbench.model.text import counted, mask_named, neutralise, redact
from workbench.report.words import Change, Passage, word_differences
from workbench.tui.state.pieces import MOST_CHARACTERS, Piece, Tone

ABSENT = object()
"""A value that one side does not have, which is not null."""

_WORTH_COMPARING = 12
"""Characters of a value from which on its words are compared; shorter ones are read faster as a whole."""


class Texts:
    """Makes pieces of texts from outside, at most `most` characters of each (None: all of it)."""

    def __init__(self, most: int | None = MOST_CHARACTERS) -> None:
        self._most = most

    def of(self, text: str, tone: Tone = Tone.TEXT) -> tuple[Piece, ...]:
        """One text in one tone."""
        return self._pieces([(text, tone)])

    def two(self, expected: str, actual: str) -> tuple[tuple[Piece, ...], tuple[Piece, ...]]:
        """Both sides of a text, the words that differ in tones of their own where others stayed the same."""
        passages = word_differences(expected, actual)
        return self._side(passages, Change.REMOVED), self._side(passages, Change.ADDED)

    def values(self, expected: Any, actual: Any, name: str = "") -> tuple[tuple[Piece, ...], tuple[Piece, ...]]:
        """Both sides of a value as JSON; words are compared in long texts. `name` is the key of the value."""
        wanted, given = json_text(expected, name), json_text(actual, name)
        if isinstance(expected, str) and isinstance(actual, str) and min(len(wanted), len(given)) >= _WORTH_COMPARING:
            return self.two(wanted, given)
        return self.of(wanted), self.of(given)

    def _side(self, passages: Iterable[Passage], own: Change) -> tuple[Piece, ...]:
        shown = [passage for passage in passages if passage.change in (Change.SAME, own)]
        word = Tone.REMOVED_WORD if own is Change.REMOVED else Tone.ADDED_WORD
        if all(passage.change is own for passage in shown):
            word = Tone.TEXT  # where nothing stayed the same, nothing needs to stand out
        return self._pieces([(text, word if change is own else Tone.TEXT) for change, text in shown])

    def _pieces(self, runs: Iterable[tuple[str, Tone]]) -> tuple[Piece, ...]:
        pieces: list[Piece] = []
        left, hidden, differs = self._most, 0, False
        for text, tone in runs:
            kept = text if left is None else text[:left]
            if kept:
                pieces.append(Piece(_safe(kept), tone))
            if left is not None:
                left -= len(kept)
            hidden += len(text) - len(kept)
            differs = differs or (len(kept) < len(text) and tone in (Tone.REMOVED_WORD, Tone.ADDED_WORD))
        if hidden:
            note = ", some of them different" if differs else ""
            pieces.append(Piece(f"\n… {counted(hidden, 'more character')}{note}: W shows all", Tone.MUTED))
        return tuple(pieces)


def json_text(value: Any, name: object = "") -> str:
    """A value as JSON, as it is written in files, without secrets. `name` is its key, which may say that it is one."""
    return redact(json.dumps(mask_named(value, name), ensure_ascii=False, default=repr))


def _safe(text: str) -> str:
    return neutralise(text).replace("\t", "    ")
