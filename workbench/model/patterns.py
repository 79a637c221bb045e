"""Regular expressions and patterns of paths that come from files, matched within a time limit.

The syntax is that of Python's `re`, including look-around and back-references, so an expression can need exponential
time. The package `regex` is immune to the common cases, and can be interrupted for the others. It also releases the
interpreter while it matches, so that other threads continue. It reads the same syntax and more, which is escaped.
"""

from __future__ import annotations

import re
import warnings
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import regex

MAX_SECONDS = 0.5
"""The time limit of one match, in seconds of processor time."""

_MAX_LENGTH = 10_000  # Compiling cannot be interrupted.
_MAX_SHOWN = 60

_LITERAL_IN_RE = re.compile(r"(\\N\{|\\.|\{(?:\d+,?\d*|,\d*)\})|\{|(?<=\[):", re.DOTALL)
"""Braces that are no repetition and `[:` are plain text in `re`; in `regex` they are fuzzy matching and POSIX classes.
"""

_POSIX_CLASS = re.compile(
    r"(?<!\\)\[[^\]\\]*(\[:\^?(?:alnum|alpha|ascii|blank|cntrl|digit|graph|lower|print|punct|space|upper|word|xdigit):\])"
)
"""In a set, `re` reads this as single letters, which is never intended."""


class PatternError(ValueError):
    """A text is not a regular expression; the message says why."""


class PatternTooSlow(Exception):
    """A match took longer than the limit; the message names the expression."""


class Pattern:
    """A regular expression from a file. Raises PatternError."""

    def __init__(self, text: str, *, flags: int = 0) -> None:
        """`flags` are those of `re`."""
        self._text = text
        self._compiled = _compile(text, flags)

    def fullmatch(self, subject: str) -> bool:
        """True if the whole subject matches. Raises PatternTooSlow."""
        try:
            return self._compiled.fullmatch(subject, timeout=MAX_SECONDS, concurrent=True) is not None
        except (TimeoutError, MemoryError):
            raise self._too_slow(subject) from None

    def search(self, subject: str) -> regex.Match[str] | None:
        """The first match in the subject. Raises PatternTooSlow."""
        try:
            return self._compiled.search(subject, timeout=MAX_SECONDS, concurrent=True)
        except (TimeoutError, MemoryError):
            raise self._too_slow(subject) from None

    def replace(self, subject: str, replacement: str) -> str:
        """Replace every match in the subject by a text. Raises PatternTooSlow."""
        try:
            replaced: str = self._compiled.sub(lambda _: replacement, subject, timeout=MAX_SECONDS, concurrent=True)
        except (TimeoutError, MemoryError):
            raise self._too_slow(subject) from None
        return replaced

    def _too_slow(self, subject: str) -> PatternTooSlow:
        shown = self._text if len(self._text) <= _MAX_SHOWN else f"{self._text[:_MAX_SHOWN]}…"
        return PatternTooSlow(
            f"the regular expression {shown!r} needs more than {MAX_SECONDS:g} s for a text of {len(subject):,} "
            "characters; avoid repetitions within repetitions"
        )


def _compile(text: str, flags: int) -> regex.Pattern[str]:
    import regex

    if len(text) > _MAX_LENGTH:
        raise PatternError(f"longer than {_MAX_LENGTH:,} characters")
    if ":]" in text and (posix := _POSIX_CLASS.search(text)):
        raise PatternError(f"has the class {posix[1]}, which Python does not know; write its characters, such as a-z")
    try:
        with warnings.catch_warnings():  # about sets whose meaning may change in Python
            warnings.simplefilter("ignore", FutureWarning)
            re.compile(text, flags)  # `regex` accepts more than `re`; keep to what is documented.
            return regex.compile(_LITERAL_IN_RE.sub(lambda found: found[1] or f"\\{found[0]}", text), flags)
    except (re.error, regex.error, RecursionError, OverflowError) as error:
        raise PatternError("too deeply nested" if isinstance(error, RecursionError) else str(error)) from None


_IN_NAME = "[^/]*"  # the expression for `*` in patterns of paths

MAX_FOLDER_WILDCARDS = 4
"""Maximum number of `**` in a pattern of paths. Each one multiplies the time of a match."""


def remove_backtracking(expression: str) -> str:
    """Rewrite the expression of a pattern of paths so that it matches in linear time for any number of `*`.

    The first match of the text after a `*` is sufficient if another `*` follows in the same name.
    """
    head, *chunks = expression.split(_IN_NAME)
    pieces = [head]
    for index, chunk in enumerate(chunks):
        is_last = index == len(chunks) - 1
        if is_last or "(" in chunk or ".*" in chunk:  # the rest has a variable length
            pieces.append(_IN_NAME + chunk)
        elif chunk:  # several `*` in a row are like one
            pieces.append(f"(?>{_IN_NAME}?{chunk})")
    return "".join(pieces)
