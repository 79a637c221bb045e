"""A configuration file as a document: its criteria are edited in its text, and everything else in it is left alone."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workbench.model.criteria import Criterion, EvalConfig, InvalidConfig, default_config, read_criterion
from workbench.store.documents.jsontext import BrokenJson
from workbench.store.documents.manner import Manner
from workbench.store.documents.pieces import BYTE_ORDER_MARK
from workbench.store.documents.reader import Loaded, config_in, json_in, read_json
from workbench.store.documents.splice import Fragment, UnsafeEdit, WrongPlace
from workbench.store.errors import FileChanged, StoreError, cannot
from workbench.store.files import Stamp, read_bytes, write_atomic, write_new

_CRITERIA = "criteria"


@dataclass(frozen=True)
class _Written:
    """One write: what the file held before (None: there was none), and which content it has had since."""

    before: bytes | None
    stamp: Stamp


class ConfigDocument:
    """One `test_config.json` or eval config, or the place where one would be.

    What `keep_criteria` writes is on disk at once, and `undo` takes it back from there.
    """

    def __init__(self, path: Path, loaded: Loaded | None) -> None:
        """Use `open`. `loaded` is None where there is no file."""
        self.path = path
        self._loaded = loaded
        self._written: list[_Written] = []

    @classmethod
    def open(cls, path: Path) -> ConfigDocument:
        """Open a file, or the place of one that is not there. Raises StoreError where it says nothing usable."""
        document = cls(path, None)
        document.reload()
        return document

    def reload(self) -> None:
        """Read the file as it is on disk now; what was written before can no longer be undone where it changed."""
        loaded = read_json(self.path) if self.path.exists() else None
        if loaded is not None:
            config_in(loaded)
        if self._written and (loaded is None or loaded.stamp.digest != self._written[-1].stamp.digest):
            self._written.clear()
        self._loaded = loaded

    @property
    def exists(self) -> bool:
        """Whether there was a file when it was last read or written."""
        return self._loaded is not None

    @property
    def config(self) -> EvalConfig:
        """What the file says; the default criteria where there is none."""
        return default_config() if self._loaded is None else config_in(self._loaded)

    @property
    def undoable(self) -> bool:
        """Whether there is a write to take back."""
        return bool(self._written)

    def keep_criteria(self, criteria: Iterable[Criterion]) -> None:
        """Write these criteria into the file, a new one where there is none.

        Only what differs is touched: a criterion that means the same keeps its form, and those that are new follow the
        others. Raises FileChanged where the file is not as it was read, StoreError where it cannot be edited.
        """
        criteria = tuple(criteria)
        if self._loaded is None:
            written = {_CRITERIA: {criterion.metric: _to_json(criterion) for criterion in criteria}}
            content = f"{json.dumps(written, indent=2, ensure_ascii=False)}\n".encode()
            self._replace(content, stamp=self._create(content), before=None)
            return
        before = _content(self._loaded, self._loaded.text)
        content = _content(self._loaded, self._spliced(self._loaded, criteria))
        if content != before:
            self._replace(content, stamp=write_atomic(self.path, content, expect=self._loaded.stamp), before=before)

    def undo(self) -> None:
        """Take the last write back; there must be one. Raises FileChanged where the file has changed since."""
        last = self._written[-1]
        if last.before is None:
            self._delete(last.stamp)
            self._loaded = None
        else:
            stamp = write_atomic(self.path, last.before, expect=last.stamp)
            self._loaded = json_in(self.path, last.before, stamp)
        self._written.pop()
        if self._written and self._loaded is not None:
            self._written[-1] = _Written(self._written[-1].before, self._loaded.stamp)

    def _replace(self, content: bytes, *, stamp: Stamp, before: bytes | None) -> None:
        self._loaded = json_in(self.path, content, stamp)
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
        try:
            self.path.unlink()
        except OSError as error:
            raise cannot("delete", self.path, error) from error

    def _spliced(self, loaded: Loaded, criteria: Iterable[Criterion]) -> str:
        found = loaded.data.get(_CRITERIA)
        old = found if isinstance(found, Mapping) else {}
        new = {criterion.metric: _to_json(criterion, old.get(criterion.metric)) for criterion in criteria}
        try:
            return Fragment(loaded.text, default=Manner()).set_value((_CRITERIA,), new)
        except (WrongPlace, BrokenJson) as error:
            raise StoreError(self.path, place=_CRITERIA, found=error.found, expected=error.expected) from error
        except UnsafeEdit as error:
            message = "the comments around the criteria leave no safe place for the change; edit the text of the file"
            raise StoreError(self.path, message, place=_CRITERIA) from error
        except ValueError as error:
            raise StoreError(self.path, found="NaN or an infinite number", expected="a value that JSON has") from error


def _content(loaded: Loaded, text: str) -> bytes:
    """A text as the bytes of the file."""
    return (BYTE_ORDER_MARK if loaded.has_byte_order_mark else b"") + text.encode()


def _to_json(criterion: Criterion, old: Any = None) -> Any:
    """The criterion as the file has it where it means the same, else a number, or an object where it has options."""
    if old is not None and _means(old, criterion):
        return old
    if not criterion.options and not isinstance(old, Mapping):
        return criterion.threshold
    threshold = {} if criterion.threshold is None else {"threshold": criterion.threshold}
    return {**threshold, **criterion.options}


def _means(old: Any, criterion: Criterion) -> bool:
    try:
        return read_criterion(criterion.metric, old) == criterion
    except InvalidConfig:
        return False
