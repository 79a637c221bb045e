"""Keys of the format are written in two styles, `eval_id` and `evalId`; the one that is there is kept."""

from __future__ import annotations

from collections.abc import Container

from pydantic.alias_generators import to_camel


def spelling_of(written: Container[str], key: str) -> str:
    """The key as it is written there, or as it is given where it is not; of both styles the given one counts."""
    camel = to_camel(key)
    return camel if key not in written and camel in written else key
