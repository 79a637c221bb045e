"""Tolerant JSON: decoding with comments and trailing commas, positions, and recovery from broken cases."""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

# JSON as people write it: if strict decoding fails, comments and trailing commas are masked with spaces

_DECODER = json.JSONDecoder()
_SPACE = re.compile(r"[ \t\n\r]*")
# A string ends at its quote or with its line: a broken string must not swallow the file.
_STRING = r'"(?:[^"\\\r\n]++|\\[^\r\n])*+"?'
_UNTIL_COMMENT = re.compile(rf'(?:[^"/#]++|{_STRING}|/(?![/*]))*+')
_COMMENT = re.compile(r"//[^\r\n]*|\#[^\r\n]*|/\*.*?\*/", re.DOTALL)
_UNTIL_TRAILING_COMMA = re.compile(rf'(?:[^",]++|{_STRING}|,(?![ \t\n\r]*[\]}}]))*+')
_CONSTANT = re.compile(rf"{_STRING}|(-?Infinity|NaN)")
_NOT_BLANK = re.compile(r"[^\r\n\t]")
_TOKEN = re.compile(r'"(?:[^"\\\r\n]|\\.)*"?|[\[\]{},:]|[^\s\[\]{},:"]+|.', re.DOTALL)
_SHOWN_WIDTH = 40

UNCLOSED = "a string without its closing quote"

MOST_LEVELS = 200
"""Maximum nesting of objects and lists; pydantic reads 201 levels (so does google-adk) and writes 255.

The limit does not depend on the stack, so all commands read a file alike.
"""
_LEVEL_CHANGES = {"[": 1, "{": 1, "]": -1, "}": -1}
_STRING_OR_BRACKET = re.compile(rf"{_STRING}|[\[\]{{}}]")

_EXPECTED = {
    "Expecting value": "a value",
    "Expecting property name enclosed in double quotes": "a key in double quotes",
    "Expecting ':' delimiter": "':' after the key",
    "Expecting ',' delimiter": "',' or the closing bracket",
    "Unterminated string starting at": "a closing quote on the same line",
    "Invalid control character at": "a string without raw control characters (a line break is written \\n)",
    "Invalid \\escape": 'an escape that JSON has (\\" \\\\ \\/ \\b \\f \\n \\r \\t \\uXXXX)',
    "Invalid \\uXXXX escape": "four hexadecimal digits after \\u",
    "Illegal trailing comma before end of object": "a key in double quotes",
    "Illegal trailing comma before end of array": "a value",
}


class BrokenJson(Exception):
    """The text is not JSON, even with comments and trailing commas, from `offset` on."""

    def __init__(self, offset: int, *, found: str, expected: str) -> None:
        super().__init__(f"at {offset}: found {found}, expected {expected}")
        self.offset = offset
        self.found = found
        self.expected = expected


class Decoded(NamedTuple):
    """A value and the offset after its last character."""

    value: Any
    end: int


@dataclass(frozen=True)
class Masked:
    """A text whose comments and trailing commas are masked with spaces, with their spans (start, end) and offsets."""

    text: str
    comments: tuple[tuple[int, int], ...] = ()
    trailing_commas: tuple[int, ...] = ()

    @property
    def is_strict(self) -> bool:
        """True if nothing was masked."""
        return not self.comments and not self.trailing_commas

    def has_masked(self, start: int, end: int) -> bool:
        """True if something between two offsets was masked."""
        comment = bisect_left(self.comments, (start, start))
        comma = bisect_left(self.trailing_commas, start)
        return (comment < len(self.comments) and self.comments[comment][0] < end) or (
            comma < len(self.trailing_commas) and self.trailing_commas[comma] < end
        )


def skip_space(text: str, start: int) -> int:
    """Return the offset of the first character from `start` on that is not JSON white space."""
    match = _SPACE.match(text, start)
    return match.end() if match else start


def decode_value(text: str, start: int, *, level: int = 0) -> Decoded:
    """Decode the value that begins exactly at `start`, inside `level` objects and lists. Raises BrokenJson."""
    try:
        decoded = Decoded(*_DECODER.raw_decode(text, start))
    except json.JSONDecodeError as error:
        raise _translate_error(text, error) from error
    except RecursionError:
        raise _make_depth_error(text, start, level) from None
    except ValueError:  # Python refuses to read integers of more than 4300 digits
        raise _make_number_error(text, start) from None
    most = MOST_LEVELS - level
    brackets = text.count("[", start, decoded.end) + text.count("{", start, decoded.end)
    if brackets > most and _has_more_levels(decoded.value, most):
        raise _make_depth_error(text, start, level)
    return decoded


def decode(text: str) -> Any:
    """Decode a whole text. Raises BrokenJson."""
    start = skip_space(text, 0)
    value, end = decode_value(text, start)
    end = skip_space(text, end)
    if end != len(text):
        raise BrokenJson(end, found=describe_found(text, end), expected="the end of the file")
    return value


def decode_tolerantly(text: str) -> tuple[Any, Masked]:
    """Decode a whole text, masking comments and trailing commas only where it is not strict JSON. Raises BrokenJson."""
    try:
        return decode(text), Masked(text)
    except BrokenJson:
        masked = mask(text)
        if masked.is_strict:
            raise
    return decode(masked.text), masked


def mask(text: str) -> Masked:
    """Replace comments (`//`, `#`, `/* */`) and trailing commas outside strings with spaces; line breaks stay."""
    without_comments, comments = _mask_comments(text)
    without_commas, commas = _mask_trailing_commas(without_comments)
    return Masked(without_commas, tuple(comments), tuple(commas))


def find_constants(text: str) -> Iterator[tuple[int, str]]:
    """Yield offsets and names of NaN and infinities in a masked text: Python reads them, the standard does not."""
    for match in _CONSTANT.finditer(text):
        if match.group(1):
            yield match.start(), match.group(1)


def describe_found(text: str, offset: int) -> str:
    """Describe the text at an offset for a message."""
    match = _TOKEN.match(text, offset, offset + 2 * _SHOWN_WIDTH)
    if match is None:
        return "the end of the file"
    token = match.group()
    if len(token) > _SHOWN_WIDTH:
        token = token[: _SHOWN_WIDTH - 1] + "…"
    return token if token.startswith('"') and len(token) > 1 else repr(token)


def _mask_comments(text: str) -> tuple[str, list[tuple[int, int]]]:
    kept: list[str] = []
    comments: list[tuple[int, int]] = []
    position = 0
    while True:
        start = _match_end(_UNTIL_COMMENT, text, position)
        kept.append(text[position:start])
        if start == len(text):
            return "".join(kept), comments
        match = _COMMENT.match(text, start)
        if match is None:  # an unclosed block comment: the decoder reports the following text
            kept.append(text[start:])
            return "".join(kept), comments
        position = match.end()
        kept.append(_NOT_BLANK.sub(" ", match.group()))
        comments.append((start, position))


def _mask_trailing_commas(text: str) -> tuple[str, list[int]]:
    kept: list[str] = []
    commas: list[int] = []
    position = 0
    while True:
        comma = _match_end(_UNTIL_TRAILING_COMMA, text, position)
        kept.append(text[position:comma])
        if comma == len(text):
            return "".join(kept), commas
        position = comma + 1
        if _find_previous_character(text, comma) in ("", "[", "{", ",", ":"):
            kept.append(",")  # it ends no element: the decoder reports it
        else:
            kept.append(" ")
            commas.append(comma)


def _find_previous_character(text: str, offset: int) -> str:
    """Return the last character before `offset` that is not white space, or ""."""
    while offset > 0 and text[offset - 1] in " \t\n\r":
        offset -= 1
    return text[offset - 1 : offset]


def _match_end(pattern: re.Pattern[str], text: str, start: int) -> int:
    match = pattern.match(text, start)
    return match.end() if match else start


def _translate_error(text: str, error: json.JSONDecodeError) -> BrokenJson:
    offset = min(error.pos, len(text))
    message = error.msg.rstrip(":")
    expected = next((words for known, words in _EXPECTED.items() if message.startswith(known)), "JSON")
    if message.startswith("Unterminated string"):
        found = UNCLOSED
    elif message.startswith(
        "Illegal trailing comma"
    ):  # Python 3.13 points at the comma, older versions at the text after it
        offset = skip_space(text, offset + 1)
        found = describe_found(text, offset)
    elif message.startswith("Invalid \\"):
        offset = text.rfind("\\", 0, offset + 1) if text[offset : offset + 1] != "\\" else offset
        found = repr(text[offset : offset + 2])[1:-1].replace("\\\\", "\\")
    else:
        found = describe_found(text, offset)
    return BrokenJson(offset, found=found, expected=expected)


def _has_more_levels(value: Any, most: int) -> bool:
    """True if a value has more than `most` nested objects and lists, counted without recursion."""
    containers = [value] if isinstance(value, dict | list) else []
    levels = 0
    while containers and levels <= most:
        levels += 1
        containers = [
            item
            for container in containers
            for item in (container.values() if type(container) is dict else container)
            if type(item) is dict or type(item) is list
        ]
    return levels > most


def _make_depth_error(text: str, start: int, level: int) -> BrokenJson:
    """Make the error at the first bracket that opens one level too many."""
    offset = start
    for match in _STRING_OR_BRACKET.finditer(text, start):
        offset = match.start()
        level += _LEVEL_CHANGES.get(text[offset], 0)
        if level > MOST_LEVELS:
            break
    found = f"a value nested deeper than {MOST_LEVELS} levels"
    return BrokenJson(offset, found=found, expected=f"at most {MOST_LEVELS} levels")


def _make_number_error(text: str, start: int) -> BrokenJson:
    match = re.compile(r"(?<!\d)\d{4301,}").search(text, start)
    offset, digits = (match.start(), match.end() - match.start()) if match else (start, 0)
    return BrokenJson(offset, found=f"an integer of {digits} digits", expected="at most 4300 digits")


# The end of a case with broken JSON: a guess that keeps later cases readable

_BRACKET = re.compile(r'"(?:[^"\\\r\n]|\\[^\r\n])*"?|[\[\]{}]')
_CASE_START = re.compile(r'\{\s*"(?:eval_id|evalId)"\s*:')
_ID = re.compile(r'"(?:eval_id|evalId|name)"\s*:\s*"([^"\\\r\n]+)"')
_NOT_SPACE = re.compile(r"\S")
_CLOSING = {"{": "}", "[": "]"}


class CaseEnd(NamedTuple):
    """The offset at which a broken case ends. `matched`: its brackets match, so it is no guess."""

    offset: int
    matched: bool


class CaseEnds:
    """Finds the ends of the broken cases of a text, which must be requested in order.

    All requests together need one pass over the text.
    """

    def __init__(self, text: str, *, list_start: int) -> None:
        """`list_start` is the offset of the bracket that opens the list of cases."""
        self._text = text
        self._list_start = list_start
        self._ends: dict[int, int] | None = None  # the end of each bracket's content, by its offset
        self._indentation = _get_item_indentation(text, list_start)
        self._next_named = _Search(self._find_named)
        self._next_indented = _Search(self._find_indented)

    def find_matched_end(self, start: int) -> int | None:
        """Return the end of the object or list at `start` by its brackets; None if they do not match."""
        if self._ends is None:
            self._ends = _match_brackets(self._text, start)
        return self._ends.get(start)

    def find_end(self, start: int) -> CaseEnd:
        """Return the end of the broken case at `start`; always greater than `start`."""
        end = self.find_matched_end(start)
        if end is not None:
            after = skip_space(self._text, end)
            if self._text[after : after + 1] in (",", "]"):
                return CaseEnd(end, matched=True)
        following = self._find_next_case(start)
        if following is None:
            return CaseEnd(self._find_end_of_list(start), matched=False)
        before = self._text[start:following].rstrip(" \t\r\n,")
        return CaseEnd(start + max(len(before), 1), matched=False)

    def _find_next_case(self, start: int) -> int | None:
        found = (self._next_named.find_next(start + 1), self._next_indented.find_next(start + 1))
        return min((offset for offset in found if offset >= 0), default=None)

    def _find_named(self, start: int) -> int:
        """Find the first object from `start` on that begins with an id; -1 if there is no such object."""
        match = _CASE_START.search(self._text, start)
        return match.start() if match else -1

    def _find_indented(self, start: int) -> int:
        """Find the first object from `start` on that begins its line with the indentation of the first case; -1 if
        missing."""
        if self._indentation is None:
            return -1
        before = f"\n{self._indentation}"
        offset = self._text.find(before + "{", max(start - len(before), 0))
        return offset + len(before) if offset >= 0 else -1

    def _find_end_of_list(self, start: int) -> int:
        """Find the end before a bracket on its own line with less indentation than the cases, else before the end of
        text."""
        if self._indentation:
            shorter = rf"\n[ \t]{{0,{len(self._indentation) - 1}}}\]"
            match = re.compile(shorter).search(self._text, start)
            if match:
                return start + max(len(self._text[start : match.start()].rstrip(" \t\r\n,")), 1)
        return max(len(self._text.rstrip()), start + 1)


class _Search:
    """Caches the results of `find` for growing offsets, so that no text is searched twice."""

    def __init__(self, find: Callable[[int], int]) -> None:
        """`find` returns the first offset from another one on, or -1."""
        self._find = find
        self._found: int | None = None  # None before the first search

    def find_next(self, start: int) -> int:
        if self._found is None or 0 <= self._found < start:
            self._found = self._find(start)
        return self._found


def guess_case_id(text: str) -> str:
    """Return the id of a broken case if it can be found, else ""."""
    match = _ID.search(text)
    return match.group(1) if match else ""


def _match_brackets(text: str, start: int) -> dict[int, int]:
    """Return the offset after the closing bracket for each opening one from `start` on with balanced content."""
    ends: dict[int, int] = {}
    stack: list[tuple[str, int]] = []
    for match in _BRACKET.finditer(text, start):
        token = match.group()
        if token in _CLOSING:
            stack.append((_CLOSING[token], match.start()))
        elif token in ("]", "}") and stack:
            closing, opened = stack.pop()
            if token == closing:
                ends[opened] = match.end()
            else:
                stack.clear()  # no open bracket here is balanced
    return ends


def _get_item_indentation(text: str, list_start: int) -> str | None:
    """Return the indentation of the first line after the bracket of the list; None if there is no such line."""
    line_end = text.find("\n", list_start + 1)
    match = _NOT_SPACE.search(text, line_end + 1) if line_end >= 0 else None
    if match is None:
        return None
    before = text[line_end + 1 : match.start()]
    return before[len(before.rstrip(" \t")) :]
