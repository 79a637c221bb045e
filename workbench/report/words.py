"""Which words of a text were taken away and which were put in: for texts of any length, within a moment.

Words are compared, in scripts without blanks single characters; blanks count only where nothing else differs. Long
texts are compared piece by piece first, so that the cost stays near their length; the price is that a long passage
which was rewritten as a whole is shown as such.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from enum import Enum
from itertools import takewhile
from typing import NamedTuple
from zlib import crc32

_MOST_PAIRS = 1_000_000
"""Words of one side times words of the other that are compared with one another: some tenths of a second at worst."""
_WORDS_IN_A_PIECE = 32
"""How long the pieces of a long text are, about."""

# Blanks belong to the word behind them. From U+2E80 on, and in Thai, Lao, Khmer and Burmese, a word is one character.
_ALONE = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff"
_TOKEN = re.compile(rf"\s*(?:[{_ALONE}]|(?:(?![{_ALONE}])\w)+|[^\w\s])|\s+")
_ENDS = frozenset(".!?。！？")


class Change(Enum):
    """What became of a passage."""

    SAME = "same"
    REMOVED = "removed"
    ADDED = "added"


class Passage(NamedTuple):
    """Adjacent characters of one or both texts."""

    change: Change
    text: str


def word_differences(expected: str, actual: str) -> tuple[Passage, ...]:
    """How one text became the other. Without the added passages it is `expected`, without the removed ones `actual`."""
    if expected == actual:
        return (Passage(Change.SAME, expected),) if expected else ()
    return tuple(_joined(_compare_long(expected, actual)))


def _compare_long(expected: str, actual: str) -> Iterator[Passage]:
    left, right = _tokens(expected), _tokens(actual)
    start = _shared(left, right)
    end = _shared(left[start:][::-1], right[start:][::-1])
    yield from _same(left[:start])
    left_end, right_end = len(left) - end, len(right) - end
    inner, other = left[start:left_end], right[start:right_end]
    if len(inner) * len(other) <= _MOST_PAIRS:
        yield from _compare(inner, other)
    else:
        yield from _compare_pieces(_pieces(inner), _pieces(other))
    yield from _same(left[left_end:])


def _tokens(text: str) -> list[str]:
    # Not `findall`: it holds the interpreter until it has them all, and a screen hears no key while another thread
    # takes a megabyte apart.
    return [match[0] for match in _TOKEN.finditer(text)]


def _pieces(tokens: Sequence[str]) -> list[str]:
    """Sentences, and parts of them: cut behind words that the words themselves choose.

    So a word put in moves no cut but those beside it, however long the text is.
    """
    pieces: list[str] = []
    start = 0
    for index, token in enumerate(tokens, start=1):
        if token[-1] in _ENDS or crc32(token.encode("utf-8", "replace")) % _WORDS_IN_A_PIECE == 0:
            pieces.append("".join(tokens[start:index]))
            start = index
    return [*pieces, "".join(tokens[start:])] if start < len(tokens) else pieces


def _compare_pieces(left: Sequence[str], right: Sequence[str]) -> Iterator[Passage]:
    if len(left) * len(right) > _MOST_PAIRS * _WORDS_IN_A_PIECE:
        yield from _changed(left, right)
        return
    for tag, low, high, start, stop in SequenceMatcher(None, left, right).get_opcodes():
        if tag == "equal":
            yield from _same(left[low:high])
            continue
        inner, other = (_tokens("".join(side)) for side in (left[low:high], right[start:stop]))
        yield from _compare(inner, other) if len(inner) * len(other) <= _MOST_PAIRS else _changed(inner, other)


def _compare(left: Sequence[str], right: Sequence[str]) -> Iterator[Passage]:
    """Words compared without the blanks before them; where only those differ, they are what was changed."""
    keys, others = [token.strip() for token in left], [token.strip() for token in right]
    for tag, low, high, start, stop in SequenceMatcher(None, keys, others, autojunk=False).get_opcodes():
        if tag != "equal":
            yield from _changed(left[low:high], right[start:stop])
            continue
        for one, other, key in zip(left[low:high], right[start:stop], keys[low:high], strict=True):
            if one == other:
                yield Passage(Change.SAME, one)
            elif key:
                yield from _changed([one[: one.index(key)]], [other[: other.index(key)]])
                yield Passage(Change.SAME, key)
            else:
                yield from _changed([one], [other])


def _same(tokens: Sequence[str]) -> Iterator[Passage]:
    yield Passage(Change.SAME, "".join(tokens))


def _changed(left: Sequence[str], right: Sequence[str]) -> Iterator[Passage]:
    yield Passage(Change.REMOVED, "".join(left))
    yield Passage(Change.ADDED, "".join(right))


def _joined(passages: Iterator[Passage]) -> Iterator[Passage]:
    """Neighbours of one kind in one passage; what was removed between two that stayed stands before what was added."""
    texts: dict[Change, list[str]] = {change: [] for change in Change}

    def flush(*changes: Change) -> Iterator[Passage]:
        for change in changes:
            if text := "".join(texts[change]):
                yield Passage(change, text)
            texts[change].clear()

    for change, text in passages:
        if not text:
            continue
        if change is Change.SAME:
            yield from flush(Change.REMOVED, Change.ADDED)
        else:
            yield from flush(Change.SAME)
        texts[change].append(text)
    yield from flush(Change.SAME, Change.REMOVED, Change.ADDED)


def _shared(left: Sequence[str], right: Sequence[str]) -> int:
    """How many items two sequences begin with in common."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(left, right, strict=False)))
