"""Where a case with broken JSON ends: a guess that keeps the cases after it readable.

First the brackets are matched; where they do not match, the case ends before the next thing that looks like the
beginning of a case. Strings end with their line, so one missing quote costs one line.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from workbench.store.documents.jsontext import skip_space

_TOKEN = re.compile(r'"(?:[^"\\\r\n]|\\[^\r\n])*"?|[\[\]{}]')
_CASE_START = re.compile(r'\{\s*"(?:eval_id|evalId)"\s*:')
_ID = re.compile(r'"(?:eval_id|evalId|name)"\s*:\s*"([^"\\\r\n]+)"')
_NOT_SPACE = re.compile(r"\S")
_CLOSING = {"{": "}", "[": "]"}


class CaseEnd(NamedTuple):
    """The offset at which a broken case is taken to end. `matched`: where its brackets do, and not by a guess."""

    offset: int
    matched: bool


class CaseEnds:
    """Finds the ends of the broken cases of one text, asked for from its start to its end.

    All of them together cost one pass over the text, however many there are.
    """

    def __init__(self, text: str, *, list_start: int) -> None:
        """`list_start` is the offset of the bracket that opens the list of cases."""
        self._text = text
        self._list_start = list_start
        self._ends: dict[int, int] | None = None  # the end of what each bracket encloses, by its offset
        self._indentation = _indentation_of_items(text, list_start)
        self._next_named = _Search(self._find_named)
        self._next_indented = _Search(self._find_indented)

    def matched_end(self, start: int) -> int | None:
        """The end of the object or list that begins at `start` by its brackets; None if they do not match."""
        if self._ends is None:
            self._ends = _match_brackets(self._text, start)
        return self._ends.get(start)

    def end_of(self, start: int) -> CaseEnd:
        """The end of the broken case that begins at `start`; always greater than `start`."""
        end = self.matched_end(start)
        if end is not None:
            after = skip_space(self._text, end)
            if self._text[after : after + 1] in (",", "]"):
                return CaseEnd(end, matched=True)
        following = self._next_case(start)
        if following is None:
            return CaseEnd(self._end_of_list(start), matched=False)
        before = self._text[start:following].rstrip(" \t\r\n,")
        return CaseEnd(start + max(len(before), 1), matched=False)

    def _next_case(self, start: int) -> int | None:
        found = (self._next_named.first_from(start + 1), self._next_indented.first_from(start + 1))
        return min((offset for offset in found if offset >= 0), default=None)

    def _find_named(self, start: int) -> int:
        """The first object from `start` on that begins with an id, -1 if there is none."""
        match = _CASE_START.search(self._text, start)
        return match.start() if match else -1

    def _find_indented(self, start: int) -> int:
        """The first object from `start` on that begins its line, as far to the right as the first case."""
        if self._indentation is None:
            return -1
        before = f"\n{self._indentation}"
        offset = self._text.find(before + "{", max(start - len(before), 0))
        return offset + len(before) if offset >= 0 else -1

    def _end_of_list(self, start: int) -> int:
        """Before the bracket that stands on its own line with less indentation than the cases, else at the end."""
        if self._indentation:
            shorter = rf"\n[ \t]{{0,{len(self._indentation) - 1}}}\]"
            match = re.compile(shorter).search(self._text, start)
            if match:
                return start + max(len(self._text[start : match.start()].rstrip(" \t\r\n,")), 1)
        return max(len(self._text.rstrip()), start + 1)


class _Search:
    """The first offset that `find` has from another one on, asked with offsets that grow: nothing is searched twice."""

    def __init__(self, find: Callable[[int], int]) -> None:
        """`find` gives the first offset from another one on, -1 if there is none."""
        self._find = find
        self._found: int | None = None  # None before the first search

    def first_from(self, start: int) -> int:
        if self._found is None or 0 <= self._found < start:
            self._found = self._find(start)
        return self._found


def id_of_broken_case(text: str) -> str:
    """The id of a case as far as it can be seen; "" where it cannot."""
    match = _ID.search(text)
    return match.group(1) if match else ""


def _match_brackets(text: str, start: int) -> dict[int, int]:
    """The offset after the closing bracket for each opening one from `start` on whose content is balanced."""
    ends: dict[int, int] = {}
    stack: list[tuple[str, int]] = []
    for match in _TOKEN.finditer(text, start):
        token = match.group()
        if token in _CLOSING:
            stack.append((_CLOSING[token], match.start()))
        elif token in ("]", "}") and stack:
            closing, opened = stack.pop()
            if token == closing:
                ends[opened] = match.end()
            else:
                stack.clear()  # none of what is open here is balanced
    return ends


def _indentation_of_items(text: str, list_start: int) -> str | None:
    """The white space before the first thing on the lines after the bracket of the list; None if there is none."""
    line_end = text.find("\n", list_start + 1)
    match = _NOT_SPACE.search(text, line_end + 1) if line_end >= 0 else None
    if match is None:
        return None
    before = text[line_end + 1 : match.start()]
    return before[len(before.rstrip(" \t")) :]
