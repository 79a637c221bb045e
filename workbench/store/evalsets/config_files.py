"""Eval configs and other JSON files beside an eval set."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import Any

from workbench.model.criteria import (
    Criterion,
    EvalConfig,
    InvalidConfig,
    default_config,
    explain_wrong_vendor,
    read_config,
    read_criterion,
)
from workbench.model.evalset import GenerationConfig
from workbench.model.text import suggest_name
from workbench.model.tool_simulation import Environment, SimulatedTool, read_environment
from workbench.store.errors import FileChanged, StoreError, os_errors, shown_path
from workbench.store.evalsets.case_reader import (
    BYTE_ORDER_MARK,
    InvalidData,
    find_unusable,
    may_be_unusable,
    validate_data,
)
from workbench.store.files import Stamp, decode_utf8, read_bytes, write_atomic, write_new
from workbench.store.json.json_edit import Fragment, UnsafeEdit, WrongPlace
from workbench.store.json.json_layout import JsonStyle
from workbench.store.json.json_path import (
    Locator,
    Place,
    Position,
    find_repeated_keys,
    format_place,
    get_position,
    parse_place,
    to_snake,
)
from workbench.store.json.json_text import BrokenJson, Masked, decode_tolerantly

# JSON files that are read as a whole: configurations, scenario files, session inputs

_BYTE_ORDER_MARK = "\ufeff"
_CONFIG_KEYS = ("criteria", "custom_metrics", "judge_metrics", "user_simulator_config", "live_model_config")


@dataclass(frozen=True)
class JsonFile:
    """A JSON file in memory: its data, and its text to find places of the data."""

    path: Path | str
    data: Any
    text: str
    masked: Masked
    stamp: Stamp
    has_byte_order_mark: bool

    @property
    def strict(self) -> bool:
        """True if the file is strict JSON: no comments, trailing commas or byte order mark."""
        return self.masked.is_strict and not self.has_byte_order_mark

    def position(self, place: Place) -> Position:
        """Return the line and column of the value at a place, or of the nearest existing value above it."""
        return self._locator.find_position(place)

    @cached_property
    def _locator(self) -> Locator:
        return Locator(self.masked.text)

    def error(self, place: Place | str, *, found: str, expected: str) -> StoreError:
        """Make the error of a fault at a place, given as steps or written as `criteria.x.threshold`."""
        steps = parse_place(place) if isinstance(place, str) else place
        line, column = self.position(steps)
        written = place if isinstance(place, str) else format_place(place)
        return StoreError(self.path, place=written, line=line, column=column, found=found, expected=expected)


def read_json(path: Path) -> JsonFile:
    """Read a JSON file with optional comments, trailing commas and byte order mark. Raises StoreError."""
    data, stamp = read_bytes(path)
    return parse_json(path, data, stamp)


def parse_json(path: Path | str, data: bytes, stamp: Stamp) -> JsonFile:
    """Parse the content of a JSON file as `read_json` does. Raises StoreError."""
    text = decode_utf8(path, data)
    has_mark = text.startswith(_BYTE_ORDER_MARK)
    text = text.removeprefix(_BYTE_ORDER_MARK)
    try:
        value, masked = decode_tolerantly(text)
    except BrokenJson as broken:
        line, column = get_position(text, broken.offset)
        raise StoreError(path, line=line, column=column, found=broken.found, expected=broken.expected) from broken
    loaded = JsonFile(path, value, text, masked, stamp, has_mark)
    unusable = next(find_unusable(value), None) if may_be_unusable(text) else None
    if unusable is not None:
        raise loaded.error(unusable.place, found=unusable.found, expected=unusable.expected)
    return loaded


def load_config(path: Path) -> EvalConfig:
    """Read an eval config or `test_config.json`. Raises StoreError with the place of a fault.

    Unknown keys are ignored, except misspelt ones and criteria outside of `criteria`: otherwise cases would be scored
    by other criteria than intended.
    """
    return parse_config(read_json(path))


def parse_config(loaded: JsonFile) -> EvalConfig:
    """Parse a configuration file as `load_config` does. Raises StoreError."""
    for place, loses_data in find_repeated_keys(loaded.text):
        if loses_data:
            raise loaded.error(place, found=f"the key {place[-1]!r} twice, with different values", expected="it once")
    if isinstance(loaded.data, Mapping):
        _refuse_misspelt_keys(loaded, loaded.data)
    try:
        return read_config(loaded.data, source=shown_path(loaded.path))
    except InvalidConfig as invalid:
        raise loaded.error(invalid.place, found=invalid.found, expected=invalid.expected) from invalid


def _refuse_misspelt_keys(loaded: JsonFile, data: Mapping[str, Any]) -> None:
    for key, value in data.items():
        name = to_snake(key)
        if name in _CONFIG_KEYS:
            continue
        meant = get_close_matches(name.casefold(), _CONFIG_KEYS, n=1, cutoff=0.75)
        if meant:
            expected = f"{meant[0]!r} (did you mean that?)"
        elif not data.get("criteria") and _looks_like_criterion(value):
            expected = "criteria inside an object 'criteria'"
        elif not data.get("criteria") and name == "eval_cases":
            expected = "'criteria': this is an eval set"
        else:
            continue
        raise loaded.error((key,), found=f"the unknown key {key!r}", expected=expected)


def _looks_like_criterion(value: Any) -> bool:
    if isinstance(value, Mapping):
        return "threshold" in value
    return isinstance(value, int | float) and not isinstance(value, bool)


# A configuration file as a document: its criteria are edited in its text; everything else is unchanged

_CRITERIA = "criteria"


@dataclass(frozen=True)
class _Written:
    """One write: the content before (None: no file), and the stamp after it."""

    before: bytes | None
    stamp: Stamp


class ConfigDocument:
    """One `test_config.json` or eval config, existing or not.

    `write_criteria` writes to disk at once; `undo` restores the previous content.
    """

    def __init__(self, path: Path, loaded: JsonFile | None) -> None:
        """Use `open`. `loaded`: None without a file."""
        self.path = path
        self._loaded = loaded
        self._written: list[_Written] = []

    @classmethod
    def open(cls, path: Path) -> ConfigDocument:
        """Open a file, which may be missing. Raises StoreError if its content is invalid."""
        document = cls(path, None)
        document.reload()
        return document

    def reload(self) -> None:
        """Read the file again; earlier writes can no longer be undone if it has changed."""
        loaded = read_json(self.path) if self.path.exists() else None
        if loaded is not None:
            parse_config(loaded)
        if self._written and (loaded is None or loaded.stamp.digest != self._written[-1].stamp.digest):
            self._written.clear()
        self._loaded = loaded

    @property
    def exists(self) -> bool:
        """True if the file existed when it was last read or written."""
        return self._loaded is not None

    @property
    def config(self) -> EvalConfig:
        """The content of the file; the default criteria without a file."""
        return default_config() if self._loaded is None else parse_config(self._loaded)

    @property
    def can_undo(self) -> bool:
        """True if there is a write to undo."""
        return bool(self._written)

    def write_criteria(self, criteria: Iterable[Criterion]) -> None:
        """Write these criteria into the file, and create it if needed.

        Only differences are written: a criterion with the same meaning keeps its form, and new ones follow the others.
        Raises FileChanged if the file has changed since it was read, StoreError if it cannot be edited.
        """
        criteria = tuple(criteria)
        if self._loaded is None:
            written = {_CRITERIA: {criterion.metric: _to_json(criterion) for criterion in criteria}}
            content = f"{json.dumps(written, indent=2, ensure_ascii=False)}\n".encode()
            self._replace(content, stamp=self._create(content), before=None)
            return
        before = _encode_text(self._loaded, self._loaded.text)
        content = _encode_text(self._loaded, self._edit_criteria(self._loaded, criteria))
        if content != before:
            self._replace(content, stamp=write_atomic(self.path, content, expect=self._loaded.stamp), before=before)

    def undo(self) -> None:
        """Undo the last write, which must exist. Raises FileChanged if the file has changed since."""
        last = self._written[-1]
        if last.before is None:
            self._delete(last.stamp)
            self._loaded = None
        else:
            stamp = write_atomic(self.path, last.before, expect=last.stamp)
            self._loaded = parse_json(self.path, last.before, stamp)
        self._written.pop()
        if self._written and self._loaded is not None:
            self._written[-1] = _Written(self._written[-1].before, self._loaded.stamp)

    def _replace(self, content: bytes, *, stamp: Stamp, before: bytes | None) -> None:
        self._loaded = parse_json(self.path, content, stamp)
        self._written.append(_Written(before, stamp))

    def _create(self, content: bytes) -> Stamp:
        if self.path.exists():
            raise FileChanged(self.path, ours=content, theirs=read_bytes(self.path)[0])
        return write_new(self.path, content)

    def _delete(self, stamp: Stamp) -> None:
        if not self.path.exists():
            return
        content, found = read_bytes(self.path)
        if found.digest != stamp.digest:
            raise FileChanged(self.path, ours=b"", theirs=content)
        with os_errors("delete", self.path):
            self.path.unlink()

    def _edit_criteria(self, loaded: JsonFile, criteria: Iterable[Criterion]) -> str:
        found = loaded.data.get(_CRITERIA)
        old = found if isinstance(found, Mapping) else {}
        new = {criterion.metric: _to_json(criterion, old.get(criterion.metric)) for criterion in criteria}
        try:
            return Fragment(loaded.text, default=JsonStyle()).set_value((_CRITERIA,), new)
        except (WrongPlace, BrokenJson) as error:
            raise StoreError(self.path, place=_CRITERIA, found=error.found, expected=error.expected) from error
        except UnsafeEdit as error:
            message = "the comments around the criteria prevent this edit; edit the text of the file"
            raise StoreError(self.path, message, place=_CRITERIA) from error
        except ValueError as error:
            raise StoreError(self.path, found="NaN or an infinite number", expected="a finite number") from error


def _encode_text(loaded: JsonFile, text: str) -> bytes:
    """Encode a text as the content of the file."""
    return (BYTE_ORDER_MARK if loaded.has_byte_order_mark else b"") + text.encode()


def _to_json(criterion: Criterion, old: Any = None) -> Any:
    """Return the old value if it has the same meaning, else a number, or an object for a criterion with options."""
    if old is not None and _has_same_meaning(old, criterion):
        return old
    if not criterion.options and not isinstance(old, Mapping):
        return criterion.threshold
    threshold = {} if criterion.threshold is None else {"threshold": criterion.threshold}
    return {**threshold, **criterion.options}


def _has_same_meaning(old: Any, criterion: Criterion) -> bool:
    try:
        return read_criterion(criterion.metric, old) == criterion
    except InvalidConfig:
        return False


# Configuration files of simulated tools, with the place of every mistake


def load_environment(path: Path) -> tuple[Environment, tuple[StoreError, ...]]:
    """Read a file of simulated tools with all mistakes: with any, it must not be used.

    Raises StoreError if the file cannot be read at all.
    """
    loaded = read_json(path)
    environment, mistakes = read_environment(loaded.data, source=shown_path(path))
    problems = [loaded.error(each.place, found=each.found, expected=each.expected) for each in mistakes]
    if problems:
        return environment, tuple(problems)
    return environment.model_copy(update={"tools": tuple(_add_places(environment, loaded))}), ()


def _add_places(environment: Environment, loaded: JsonFile) -> Iterator[SimulatedTool]:
    """Add places to the tools, for faults that only show when the agent runs."""
    listed = next(key for key in ("tool_simulation_configs", "toolSimulationConfigs") if key in loaded.data)
    for index, tool in enumerate(environment.tools):
        name = next(key for key in ("tool_name", "toolName") if key in loaded.data[listed][index])
        place = (listed, index, name)
        line, column = loaded.position(place)
        where = f"{environment.source}:{line}:{column}: {format_place(place)}"
        yield tool.model_copy(update={"place": where})


# Configuration files of generated scenarios, as for ADK's `--user_simulation_config_file`


def load_generation(path: Path) -> GenerationConfig:
    """Read the file. Raises StoreError with the place of a fault, including unknown keys."""
    loaded = read_json(path)
    try:
        config = validate_data(GenerationConfig, loaded.data)
    except InvalidData as invalid:
        fault = invalid.faults[0]
        raise loaded.error(fault.place, found=fault.found, expected=fault.expected) from invalid
    known = tuple(GenerationConfig.model_fields)
    for key in loaded.data:
        if to_snake(key) not in known:
            expected = f"one of {', '.join(known)}{suggest_name(to_snake(key), known)}"
            raise loaded.error((key,), found=f"the unknown key {key!r}", expected=expected)
    expected_name = None if config.model_name is None else explain_wrong_vendor(config.model_name)
    if expected_name is not None:
        place = ("modelName",) if "modelName" in loaded.data else ("model_name",)
        raise loaded.error(place, found=repr(config.model_name), expected=expected_name)
    return config
