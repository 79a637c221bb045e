"""Recorded tool calls in a file of JSON lines, one for each case and repeat.

Lines are only appended. The last line of a case counts, so that recording it again replaces it and a stopped run loses
nothing.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import Field

from workbench.metrics.case_view import canonical
from workbench.model.facts import Fact
from workbench.model.identity import CaseKey
from workbench.store.errors import make_os_error, shown_path
from workbench.store.evalsets.case_reader import read_json_lines

FORMAT = "workbench-tools-1"


class RecordedCall(Fact):
    """A call and its outcome. `source` is what answered (null: the tool), `unfit` why there is no recorded answer.

    `error` is an exception that the tool raised; `actions` are its side effects, such as changes of session state.
    """

    tool: str
    args: dict[str, Any] = Field(default_factory=dict)
    response: Any = None
    error: dict[str, Any] | None = None
    actions: dict[str, Any] = Field(default_factory=dict)
    unfit: str | None = None
    source: str | None = None


class RecordedCase(Fact):
    """The calls of one repeat of a case, in order."""

    format: str = FORMAT
    eval_set: str
    eval_id: str
    occurrence: int = 0
    repeat: int = 0
    calls: tuple[RecordedCall, ...] = ()

    @property
    def key(self) -> tuple[str, str, int, int]:
        """The case and the repeat."""
        return self.eval_set, self.eval_id, self.occurrence, self.repeat


class ToolRecording:
    """The contents of a file of recorded calls."""

    def __init__(self, path: Path, cases: Mapping[tuple[str, str, int, int], RecordedCase]) -> None:
        """Use `read`."""
        self.path = path
        self._cases = cases

    @classmethod
    def read(cls, path: Path) -> ToolRecording:
        """Read a file. Raises StoreError with the line if the file is no recording."""
        lines = read_json_lines(path, format=FORMAT, what="a recorded case")
        cases = [line.read(RecordedCase) for line in lines]
        return cls(path, {case.key: case for case in cases})

    @property
    def tools(self) -> Sequence[str]:
        """The names of the tools that were called."""
        return list(dict.fromkeys(call.tool for case in self._cases.values() for call in case.calls))

    def find_case(self, case: CaseKey, repeat: int) -> RecordedCase | None:
        """Find the recording of a repeat, or else that of the first repeat; None if the case is not recorded."""
        key = (case.eval_set, case.eval_id, case.occurrence)
        return self._cases.get((*key, repeat)) or self._cases.get((*key, 0))

    def list_repeats(self, case: CaseKey) -> Sequence[RecordedCase]:
        """List the recordings of all repeats of a case."""
        key = (case.eval_set, case.eval_id, case.occurrence)
        return [recorded for found, recorded in sorted(self._cases.items()) if found[:3] == key]


class Replay:
    """Replays the recorded calls of one case: the n-th call of a tool with equal arguments gets the n-th answer."""

    def __init__(self, recording: ToolRecording, case: CaseKey, *, repeat: int) -> None:
        self._file = shown_path(recording.path)
        self._recorded = recording.find_case(case, repeat)
        self._calls: dict[Hashable, list[RecordedCall]] = {}
        for call in self._recorded.calls if self._recorded is not None else ():
            self._calls.setdefault(_key(call.tool, call.args), []).append(call)
        self._made: Counter[Hashable] = Counter()

    def next(self, tool: str, args: Mapping[str, Any]) -> RecordedCall | str:
        """Return the recorded call, or the reason why there is none."""
        key = _key(tool, args)
        known = self._calls.get(key, [])
        number = self._made[key]
        self._made[key] += 1
        shown = f"{tool}({json.dumps(args, ensure_ascii=False)})"
        if self._recorded is None:
            return f"{self._file}: {shown} was called, and of this case nothing is recorded"
        if number >= len(known):
            times = "never" if not known else "once" if len(known) == 1 else f"{len(known)} times"
            return f"{self._file}: {shown} was called {_format_count(number + 1)}, and was recorded {times}"
        call = known[number]
        if call.unfit is not None:
            return f"{self._file}: {shown} was recorded without its answer: {call.unfit}"
        return call


def add_case(path: Path, case: RecordedCase) -> None:
    """Write a line. Raises StoreError."""
    data = {"format": FORMAT, **case.model_dump(mode="json", exclude_defaults=True)}
    try:
        with path.open("a", encoding="utf-8", errors="backslashreplace") as file:
            file.write(f"{json.dumps(data, ensure_ascii=False)}\n")
    except OSError as error:
        raise make_os_error("write", path, error) from error


def _key(tool: str, args: Mapping[str, Any]) -> Hashable:
    return tool, canonical(dict(args))


def _format_count(number: int) -> str:
    return {1: "once", 2: "a second time", 3: "a third time"}.get(number, f"for the {number}th time")
