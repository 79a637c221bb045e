"""Edits inside a JSON string: the escapes and characters around the changed ones stay as they were written."""

from __future__ import annotations

import json
import re

from workbench.store.documents.alignment import common_prefix
from workbench.store.documents.manner import write_text

# A character as it is written: a surrogate pair, one \u escape, a short escape, or itself.
_UNIT = re.compile(r"\\u[dD][89abAB]..\\u[dD][c-fC-F]..|\\u....|\\.|[^\\]", re.DOTALL)


def spliced_string(literal: str, new: str, *, only_ascii: bool) -> str:
    """The literal of `new`, made from the `literal` of the old string by replacing its middle only."""
    old: str = json.loads(literal)
    start = common_prefix(old, new)
    end = common_prefix(old[start:][::-1], new[start:][::-1])
    middle = write_text(new[start : len(new) - end], only_ascii=only_ascii)[1:-1]
    content = literal[1:-1]
    if "\\" not in content:
        return f'"{content[:start]}{middle}{content[len(content) - end :]}"'
    offsets = [match.start() for match in _UNIT.finditer(content)]
    offsets.append(len(content))
    return f'"{content[: offsets[start]]}{middle}{content[offsets[len(offsets) - 1 - end] :]}"'
