"""What is listed: the rows, and the eval sets that they come from."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import PurePosixPath

from workbench.model.keys import CaseKey
from workbench.store.names import name_of_file
from workbench.tui.state.pieces import safe_line


class RowKind(StrEnum):
    """What a row stands for."""

    TARGET = "target"
    EVAL_SET = "eval_set"
    CASE = "case"


_DEPTHS = {RowKind.TARGET: 0, RowKind.EVAL_SET: 1, RowKind.CASE: 2}


Place = tuple[str, str, CaseKey | None]
"""Target, eval set (empty for a target) and case (None for both): what tells rows apart."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row. `label` is safe to show; `problem` is the safe word for what is wrong with it, empty where nothing is.

    Rows are told apart by target, eval set and case: `eval_set` is empty for a target, `case` None for both.
    """

    kind: RowKind
    label: str
    target: str
    eval_set: str = ""
    case: CaseKey | None = None
    problem: str = ""

    @property
    def depth(self) -> int:
        """How deep it is in the tree."""
        return _DEPTHS[self.kind]

    @property
    def place(self) -> Place:
        """What tells it apart from all other rows."""
        return self.target, self.eval_set, self.case

    def is_at(self, place: Place) -> bool:
        """Whether this is the row of that place."""
        target, eval_set, case = place
        if case is None or self.case is None:
            return self.case is case and (self.target, self.eval_set) == (target, eval_set)
        # Comparing keys is slow by the ten thousand, comparing ids is not.
        return self.case is case or (self.case.eval_id == case.eval_id and self.case == case)

    def is_beside(self, other: Row) -> bool:
        """Whether both are cases of one set, or sets of one agent."""
        if self.kind is not other.kind or self.kind is RowKind.TARGET:
            return False
        return self.target == other.target and (self.case is None or self.eval_set == other.eval_set)

    def contains(self, other: Row) -> bool:
        """Whether another row is below this one, or is this one."""
        if self.case is not None:
            return self.place == other.place
        return self.target == other.target and self.eval_set in ("", other.eval_set)


NOT_READ, READING, FETCHING = "not read", "reading", "fetching"
"""What is said of sets whose cases are not known yet, and of which nothing is wrong."""

KEPT_READ_ONLY = "these are stored results: EvalTask or `workbench score` judges the rows anew, nothing is edited here"
"""Why what is kept of a run is neither run, edited nor accepted."""


@dataclass(frozen=True, slots=True)
class KeptRun:
    """The newest run of a dataset that the project has no target for. `command` is what began it."""

    run_id: str
    began: datetime
    command: str
    has_ended: bool


@dataclass(frozen=True, slots=True)
class ListedSet:
    """An eval set as far as it has been read, or a dataset of which there are only the results of a run.

    `cases` is None while it has not been. `target` is empty for a set that no agent was found for, `unpaired` then
    says why; `problem` says why the file could not be read. `kept` is the run whose results it is; None for a file.
    `is_dataset`: its cases are rows of a dataset, as far as that is known. `is_address`: of one elsewhere, which is
    read when the user wants its rows and not before; `is_being_read`: that goes on.
    """

    relative: str
    target: str = ""
    cases: tuple[Row, ...] | None = None
    problem: str = ""
    unpaired: str = ""
    config: str = ""
    kept: KeptRun | None = None
    is_dataset: bool = False
    is_address: bool = False
    is_being_read: bool = False

    @property
    def is_to_be_read(self) -> bool:
        """Whether its rows are there for whoever wants them read."""
        return self.is_address and self.cases is None and not self.is_being_read

    @property
    def is_being_fetched(self) -> bool:
        """Whether its rows are on their way from elsewhere."""
        return self.is_address and self.cases is None and self.is_being_read

    @property
    def place(self) -> tuple[str, str]:
        """What tells it apart from all other sets."""
        return self.target, self.relative

    @property
    def short_name(self) -> str:
        """What it is called where no other is called so: an address always says that it is none of the files."""
        if self.kept is not None:
            return self.relative
        path = PurePosixPath(self.relative)
        if self.is_address:
            return f"{self.relative.partition('://')[0]}://…/{path.name}"
        return path.name if self.is_dataset else name_of_file(path)

    @property
    def keys(self) -> list[CaseKey]:
        """The keys of its cases."""
        return [row.case for row in self.cases or () if row.case is not None]

    @property
    def state(self) -> str:
        """In a word what keeps it from being an ordinary set; empty where nothing does."""
        if self.problem:
            return "broken"
        if self.unpaired:
            return "no agent"
        if self.cases is not None:
            return ""
        if self.is_address:
            return FETCHING if self.is_being_read else NOT_READ
        return READING


def case_row(key: CaseKey, problem: str = "") -> Row:
    """The row of a case. `problem` says what keeps it from running, empty where nothing does."""
    suffix = f" #{key.occurrence + 1}" if key.occurrence else ""
    label = f"{safe_line(key.eval_id) or '(empty id)'}{suffix}"
    return Row(RowKind.CASE, label, key.target, key.eval_set, key, safe_line(problem))
