"""Options of a criterion are read in two styles, `match_type` and `matchType`; the one that is there is kept."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic.alias_generators import to_camel


def spelling_of(option: str, written: Iterable[str]) -> str:
    """The name under which an option stands among those that are written; its own where it does not."""
    camel = to_camel(option)
    return camel if camel in set(written) and camel != option else option
