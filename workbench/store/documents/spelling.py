"""The spelling of keys: a new value takes over the keys of the one it replaces, and the style of its neighbours."""

from __future__ import annotations

from typing import Any

from workbench.store.documents.alignment import align
from workbench.store.documents.manner import KeyStyle, key_style_of, styled_key
from workbench.store.documents.places import find_key, is_free


def spelt_like(new: Any, old: Any, *, style: KeyStyle | None, free: bool) -> Any:
    """The new value with the keys of the format spelt as in the old one, else in the style of the keys beside them.

    `style` holds where no key shows one. Keys that belong to the user (`free`) stay as they are.
    """
    if free:
        return new
    if isinstance(new, dict):
        return _spelt_object(new, old if isinstance(old, dict) else {}, style=style)
    if isinstance(new, list):
        return _spelt_list(new, old if isinstance(old, list) else [], style=style)
    return new


def _spelt_object(new: dict[str, Any], old: dict[str, Any], *, style: KeyStyle | None) -> dict[str, Any]:
    style = key_style_of(old) or style
    spelt = {}
    for key, value in new.items():
        spelling = find_key(old, key, free=False)
        inner_old = None if spelling is None else old[spelling]
        if spelling is None:
            spelling = styled_key(key, style)
        spelt[spelling] = spelt_like(value, inner_old, style=style, free=is_free(key))
    return spelt


def _spelt_list(new: list[Any], old: list[Any], *, style: KeyStyle | None) -> list[Any]:
    spelt: list[Any] = []
    for block in align(old, new):
        partners = old[block.old_start : block.old_end]
        for offset, value in enumerate(new[block.new_start : block.new_end]):
            partner = partners[offset] if offset < len(partners) else None
            spelt.append(spelt_like(value, partner, style=style, free=False))
    return spelt
