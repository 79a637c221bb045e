"""Problems: what `validate` and an open document say about a file."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from workbench.model.base import Fact
from workbench.store.errors import StoreError, shown_path

Severity = Literal["error", "warning"]


class Problem(Fact):
    """One thing that is wrong with a file.

    An error keeps the file, or a case of it, from running here or in ADK; a warning says what is probably not meant.
    `rule` is a short name that stays the same between versions; `line` and `column` count characters from 1.
    """

    path: Path | str
    rule: str
    message: str
    severity: Severity = "error"
    place: str = ""
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        where = shown_path(self.path) + (f":{self.line}:{self.column}" if self.line is not None else "")
        return ": ".join(part for part in (where, self.severity, self.place, self.message) if part)

    @classmethod
    def of_error(
        cls, error: StoreError, *, rule: str, severity: Severity = "error", message: str | None = None
    ) -> Problem:
        """The problem that an error is, in its words where `message` has none."""
        return cls(
            path=error.path,
            rule=rule,
            severity=severity,
            place=error.place,
            line=error.line,
            column=error.column,
            message=error.message if message is None else message,
        )
