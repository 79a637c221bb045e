"""Keys that stand twice in one object: legal for most readers, which take the last, and hardly ever meant."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from workbench.store.documents.jsontext import decode_tolerantly, skip_space
from workbench.store.documents.places import Place, members


class _Repeated(Exception):
    """Some key stands twice."""


def repeated_keys(text: str) -> Iterator[Place]:
    """The places of keys that stand twice in their object. The text must be JSON, tolerantly read."""
    strict = decode_tolerantly(text)[1].text
    try:
        _DECODER.decode(strict)
    except _Repeated:
        yield from _search(strict, skip_space(strict, 0), ())


def _refuse_repeated(pairs: list[tuple[str, Any]]) -> None:
    if len({key for key, _ in pairs}) != len(pairs):
        raise _Repeated


_DECODER = json.JSONDecoder(object_pairs_hook=_refuse_repeated)


def _search(text: str, start: int, place: Place) -> Iterator[Place]:
    if text[start] not in "{[":
        return
    seen: set[str | int] = set()
    for member in members(text, start)[0]:
        inner = (*place, member.key)
        if member.key in seen:
            yield inner
        seen.add(member.key)
        yield from _search(text, member.start, inner)
