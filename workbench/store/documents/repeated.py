"""Duplicate keys in one object: legal for most readers, which take the last, and hardly ever meant."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from workbench.store.documents.jsontext import decode_at, decode_tolerantly, skip_space
from workbench.store.documents.places import Member, Place, members


class RepeatedKey(NamedTuple):
    """A key that occurs more than once in its object; `loses_data`: its values differ, so that readers drop some."""

    place: Place
    loses_data: bool


class _Repeated(Exception):
    """Some key occurs twice."""


def repeated_keys(text: str) -> Iterator[RepeatedKey]:
    """The keys that occur more than once in their object, each once. The text must be JSON, tolerantly read."""
    if _has_none(text):  # most are so, and JSON as it is
        return
    strict = decode_tolerantly(text)[1].text
    if not _has_none(strict):
        yield from _search(strict, skip_space(strict, 0), ())


def _has_none(text: str) -> bool:
    """Whether a text is JSON without such a key."""
    try:
        _DECODER.decode(text)
    except (_Repeated, ValueError):
        return False
    return True


def _refuse_repeated(pairs: list[tuple[str, Any]]) -> None:
    if len({key for key, _ in pairs}) != len(pairs):
        raise _Repeated


_DECODER = json.JSONDecoder(object_pairs_hook=_refuse_repeated)


def _search(text: str, start: int, place: Place) -> Iterator[RepeatedKey]:
    if text[start] not in "{[":
        return
    found: dict[str | int, list[Member]] = {}
    for member in members(text, start)[0]:
        found.setdefault(member.key, []).append(member)
    for key, same in found.items():
        inner = (*place, key)
        if len(same) > 1:
            values = {json.dumps(decode_at(text, member.start).value, sort_keys=True) for member in same}
            yield RepeatedKey(inner, loses_data=len(values) > 1)  # as texts: True equals 1 in Python
        yield from _search(text, same[-1].start, inner)
