"""Where a case with broken JSON ends: a guess that keeps the cases after it readable.

First the brackets are matched; where they do not match, the case ends before the next thing that looks like the
beginning of a case. Strings end with their line, so one missing quote costs one line.
"""

from __future__ import annotations

import re

from workbench.store.documents.jsontext import skip_space

_TOKEN = re.compile(r'"(?:[^"\\\r\n]|\\[^\r\n])*"?|[\[\]{}]')
_CASE_START = re.compile(r'\{\s*"(?:eval_id|evalId)"\s*:')
_ID = re.compile(r'"(?:eval_id|evalId|name)"\s*:\s*"([^"\\\r\n]+)"')
_CLOSING = {"{": "}", "[": "]"}


def end_of_broken_case(text: str, start: int, *, list_start: int) -> int:
    """The offset at which the broken case that begins at `start` is taken to end; always greater than `start`."""
    end = _end_by_brackets(text, start)
    if end is not None:
        return end
    following = _next_case(text, start, list_start=list_start)
    if following is not None:
        before = text[start:following].rstrip(" \t\r\n,")
        return start + max(len(before), 1)
    return _end_of_list(text, start, list_start=list_start)


def id_of_broken_case(text: str) -> str:
    """The id of a case as far as it can be seen; "" where it cannot."""
    match = _ID.search(text)
    return match.group(1) if match else ""


def _end_by_brackets(text: str, start: int) -> int | None:
    stack: list[str] = []
    for match in _TOKEN.finditer(text, start):
        token = match.group()
        if token in _CLOSING:
            stack.append(_CLOSING[token])
        elif token in ("]", "}"):
            if not stack or stack.pop() != token:
                return None
            if not stack:
                after = skip_space(text, match.end())
                return match.end() if text[after : after + 1] in (",", "]") else None
        if not stack:  # the case is no object at all
            return None
    return None


def _next_case(text: str, start: int, *, list_start: int) -> int | None:
    candidates = [match.start() for match in (_CASE_START.search(text, start + 1),) if match]
    indentation = _indentation_of_items(text, list_start)
    if indentation is not None:
        match = re.compile(rf"\n{re.escape(indentation)}\{{").search(text, start)
        if match:
            candidates.append(match.end() - 1)
    return min(candidates, default=None)


def _indentation_of_items(text: str, list_start: int) -> str | None:
    match = re.compile(r"[^\n]*\n[\s]*?([ \t]*)\S").match(text, list_start + 1)
    return match.group(1) if match else None


def _end_of_list(text: str, start: int, *, list_start: int) -> int:
    """Before the bracket that stands on its own line with less indentation than the cases, else at the end."""
    indentation = _indentation_of_items(text, list_start)
    if indentation:
        shorter = rf"\n[ \t]{{0,{len(indentation) - 1}}}\]"
        match = re.compile(shorter).search(text, start)
        if match:
            return start + max(len(text[start : match.start()].rstrip(" \t\r\n,")), 1)
    return max(len(text.rstrip()), start + 1)
