"""Problems: what `validate` and an open document say about a file."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

from workbench.model.base import Fact
from workbench.model.text import shorten
from workbench.store.errors import StoreError, shown_path

_MOST_SHOWN = 20
_LONGEST_MESSAGE = 600
"""In characters: messages repeat keys and values of the file."""

Severity = Literal["error", "warning"]


class Problem(Fact):
    """One thing that is wrong with a file.

    An error keeps the file, or a case of it, from running here or in ADK; a warning says what is probably not meant.
    `rule` is a short name that stays the same between versions; `line` and `column` count characters from 1. `case` is
    the index of the case that it is about, None for the file as a whole; `stops_case`: that case cannot run here.
    """

    path: Path | str
    rule: str
    message: str
    severity: Severity = "error"
    place: str = ""
    line: int | None = None
    column: int | None = None
    case: int | None = None
    stops_case: bool = False

    def __str__(self) -> str:
        where = shown_path(self.path) + (f":{self.line}:{self.column}" if self.line is not None else "")
        return ": ".join(part for part in (where, self.severity, self.place, self.message) if part)

    @classmethod
    def of_error(
        cls,
        error: StoreError,
        *,
        rule: str,
        severity: Severity = "error",
        message: str | None = None,
        case: int | None = None,
        stops_case: bool = False,
    ) -> Problem:
        """The problem that an error is, in its words where `message` has none."""
        return cls(
            path=error.path,
            rule=rule,
            severity=severity,
            place=error.place,
            line=error.line,
            column=error.column,
            message=error.message if message is None else shorten(message, _LONGEST_MESSAGE),
            case=case,
            stops_case=stops_case,
        )


def first_of_each_kind(problems: Iterable[Problem]) -> Iterator[str]:
    """A line for each problem, of each kind in a file the first twenty; then how many more of that kind there are."""
    counts: Counter[tuple[Path | str, Severity, str]] = Counter()
    for problem in problems:
        kind = (problem.path, problem.severity, problem.rule)
        counts[kind] += 1
        if counts[kind] <= _MOST_SHOWN:
            yield str(problem)
    for (path, severity, rule), count in counts.items():
        if count > _MOST_SHOWN:
            yield f"{shown_path(path)}: {severity}: and {count - _MOST_SHOWN:,} more of the kind {rule}"


def format_problems(problems: Iterable[Problem]) -> list[str]:
    """A line for each problem of a file: the first twenty, how many more there are, and what lists more of them."""
    found = list(problems)
    lines = [str(problem) for problem in found[:_MOST_SHOWN]]
    more = len(found) - _MOST_SHOWN
    if more > 0:
        name = shown_path(found[0].path)
        lines.append(f"{name}: {more:,} more (`workbench eval-set validate {shlex.quote(name)}` lists more of them)")
    return lines
