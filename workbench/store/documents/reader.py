"""JSON files that are read whole: configurations, scenario files, session inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import Any

from workbench.model.criteria import EvalConfig, InvalidConfig, read_config
from workbench.store.documents.jsontext import BrokenJson, Masked, decode_tolerantly
from workbench.store.documents.places import Locator, Place, Position, format_place, parse_place, position_of, to_snake
from workbench.store.documents.repeated import repeated_keys
from workbench.store.errors import StoreError, shown_path
from workbench.store.files import Stamp, decode_utf8, read_bytes
from workbench.store.unusable_values import find_unusable, may_be_unusable

_BYTE_ORDER_MARK = "\ufeff"
_CONFIG_KEYS = ("criteria", "custom_metrics", "judge_metrics", "user_simulator_config", "live_model_config")


@dataclass(frozen=True)
class Loaded:
    """A JSON file in memory: its data, and its text to find a place of the data in."""

    path: Path | str
    data: Any
    text: str
    masked: Masked
    stamp: Stamp
    has_byte_order_mark: bool

    @property
    def strict(self) -> bool:
        """Whether the file is JSON as the standard has it: no comments, no trailing commas, no byte order mark."""
        return self.masked.strict and not self.has_byte_order_mark

    def position(self, place: Place) -> Position:
        """The line and column of the value at a place, or of the nearest value above it that is there."""
        return self._locator.position_of(place)

    @cached_property
    def _locator(self) -> Locator:
        return Locator(self.masked.text)

    def error(self, place: Place | str, *, found: str, expected: str) -> StoreError:
        """The error that says what is wrong at a place (given as steps, or written as `criteria.x.threshold`)."""
        steps = parse_place(place) if isinstance(place, str) else place
        line, column = self.position(steps)
        written = place if isinstance(place, str) else format_place(place)
        return StoreError(self.path, place=written, line=line, column=column, found=found, expected=expected)


def read_json(path: Path) -> Loaded:
    """Read a JSON file; comments, trailing commas and a byte order mark are allowed. Raises StoreError."""
    data, stamp = read_bytes(path)
    return json_in(path, data, stamp)


def json_in(path: Path | str, data: bytes, stamp: Stamp) -> Loaded:
    """The content of a JSON file, as `read_json` reads it. Raises StoreError."""
    text = decode_utf8(path, data)
    has_mark = text.startswith(_BYTE_ORDER_MARK)
    text = text.removeprefix(_BYTE_ORDER_MARK)
    try:
        value, masked = decode_tolerantly(text)
    except BrokenJson as broken:
        line, column = position_of(text, broken.offset)
        raise StoreError(path, line=line, column=column, found=broken.found, expected=broken.expected) from broken
    loaded = Loaded(path, value, text, masked, stamp, has_mark)
    unusable = next(find_unusable(value), None) if may_be_unusable(text) else None
    if unusable is not None:
        raise loaded.error(unusable.place, found=unusable.found, expected=unusable.expected)
    return loaded


def load_config(path: Path) -> EvalConfig:
    """Read an eval config or `test_config.json`. Raises StoreError with the place of what cannot be used.

    Keys that are not ours are left to whoever put them there, but not those that are all but ours, nor criteria that
    stand where `criteria` should: cases would be judged by others than the file means.
    """
    return config_in(read_json(path))


def config_in(loaded: Loaded) -> EvalConfig:
    """What a configuration file says, as `load_config` reads it. Raises StoreError."""
    for place, loses_data in repeated_keys(loaded.text):
        if loses_data:
            raise loaded.error(place, found=f"the key {place[-1]!r} twice, with different values", expected="it once")
    if isinstance(loaded.data, Mapping):
        _refuse_misspelt_keys(loaded, loaded.data)
    try:
        return read_config(loaded.data, source=shown_path(loaded.path))
    except InvalidConfig as invalid:
        raise loaded.error(invalid.place, found=invalid.found, expected=invalid.expected) from invalid


def _refuse_misspelt_keys(loaded: Loaded, data: Mapping[str, Any]) -> None:
    for key, value in data.items():
        name = to_snake(key)
        if name in _CONFIG_KEYS:
            continue
        meant = get_close_matches(name.casefold(), _CONFIG_KEYS, n=1, cutoff=0.75)
        if meant:
            expected = f"{meant[0]!r} (did you mean that?)"
        elif not data.get("criteria") and _looks_like_criterion(value):
            expected = "criteria to stand inside an object 'criteria'"
        else:
            continue
        raise loaded.error((key,), found=f"the unknown key {key!r}", expected=expected)


def _looks_like_criterion(value: Any) -> bool:
    if isinstance(value, Mapping):
        return "threshold" in value
    return isinstance(value, int | float) and not isinstance(value, bool)
