"""Words of every script, by the rules of google-adk 2.13 (`evaluation/final_response_match_v1.py`).

The text is normalised (NFKC) and lower-cased. Chinese, Japanese and Korean characters are words by themselves; Thai,
Lao, Khmer and Myanmar ones too, with the marks that follow them; elsewhere a word is a run of letters, digits and
marks. Words of ASCII alone go on to rouge-score's own tokenizer, which may stem them.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from functools import lru_cache

_OWN_WORD = (
    range(0x4E00, 0xA000),  # ideographs
    range(0x3040, 0x30A0),  # hiragana
    range(0x30A0, 0x3100),  # katakana
    range(0xAC00, 0xD7B0),  # hangul syllables
)
_STARTS_WORD = (
    range(0x0E00, 0x0E80),  # Thai
    range(0x0E80, 0x0F00),  # Lao
    range(0x1780, 0x1800),  # Khmer
    range(0x1000, 0x10A0),  # Myanmar
)


def _apart(character: str) -> str:
    """The character with the blanks that make it, in a script without spaces, a word of its own."""
    code = ord(character)
    if any(code in block for block in _OWN_WORD):
        return f" {character} "
    if any(code in block for block in _STARTS_WORD) and not _is_mark(character):
        return f" {character}"
    return character


def _words_only(character: str) -> str:
    """As `_apart`, with a blank for everything that is no part of a word."""
    spaced = _apart(character)
    if spaced != character or character.isalnum() or _is_mark(character):
        return spaced
    return " "


def _is_mark(character: str) -> bool:
    return unicodedata.category(character).startswith("M")


class _Table(dict[int, str]):
    """A table for `str.translate` that is filled as characters come up."""

    def __init__(self, replace: Callable[[str], str]) -> None:
        super().__init__()
        self._replace = replace

    def __missing__(self, code: int) -> str:
        self[code] = replacement = self._replace(chr(code))
        return replacement


_APART, _WORDS_ONLY = _Table(_apart), _Table(_words_only)


class UnicodeTokenizer:
    """A tokenizer as rouge-score wants one; `ascii_words` splits (and stems) a word of ASCII characters."""

    def __init__(self, ascii_words: Callable[[str], list[str]]) -> None:
        self._ascii_words = lru_cache(maxsize=65_536)(lambda word: tuple(ascii_words(word)))

    def tokenize(self, text: str) -> list[str]:
        """The words of a text, in order."""
        words: list[str] = []
        for word in unicodedata.normalize("NFKC", text).lower().translate(_WORDS_ONLY).split():
            if word.isascii():
                words.extend(self._ascii_words(word))
            else:
                words.append(word)
        return words


def split_apart(text: str) -> str:
    """The text with blanks between the characters of scripts that have none; all other text is left as it is."""
    return text.translate(_APART)
