"""What the browser lists: eval sets and their cases, with marks, and which verdicts are stale."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import PurePosixPath

from workbench.model.evalset import EvalCase
from workbench.model.identity import CaseKey
from workbench.model.trace import get_trajectory
from workbench.store.filetypes import derive_set_name
from workbench.store.history.history_queries import StoredJob
from workbench.tui.state.case_board import ResultPlace
from workbench.tui.state.text_layout import safe_line

# What is listed: the rows, and the eval sets that they come from.


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
        return path.name if self.is_dataset else derive_set_name(path)

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


# The cases that the user has marked: they stay marked whatever is listed.


class Marks:
    """Marked cases, in the order in which they were marked, and where a range of marks begins."""

    def __init__(self) -> None:
        self._marked: dict[CaseKey, None] = {}
        self.anchor: CaseKey | None = None

    def __contains__(self, key: CaseKey) -> bool:
        return key in self._marked

    def __len__(self) -> int:
        return len(self._marked)

    def __iter__(self) -> Iterator[CaseKey]:
        return iter(self._marked)

    def add(self, keys: Collection[CaseKey]) -> None:
        """Mark these cases too."""
        self._marked.update(dict.fromkeys(keys))

    def toggle(self, keys: Collection[CaseKey]) -> None:
        """Mark these cases; where all of them are marked already, unmark them."""
        if all(key in self._marked for key in keys):
            self.forget(keys)
        else:
            self.add(keys)

    def forget(self, keys: Collection[CaseKey]) -> None:
        """Unmark these cases: the user wants it, or they are gone."""
        for key in keys:
            self._marked.pop(key, None)
        if self.anchor is not None and self.anchor in keys:
            self.anchor = None

    def clear(self) -> None:
        """Unmark every case."""
        self._marked.clear()
        self.anchor = None


# What the browser has to know of a case besides its row: what it can be found by, and what verdicts of it hang on.

Hashes = tuple[str, str]
"""Of what reaches the agent, and of what the case is judged by besides, as plans have them."""


@dataclass(frozen=True, slots=True)
class CaseContent:
    """A case as it was read.

    `text` is its id, what the user says and the names of its tools, `tools` these names alone; both are without
    capitals. `hashes` are those that a plan would have now; None where no plan can be made.
    """

    key: CaseKey
    text: str
    tools: tuple[str, ...]
    hashes: Hashes | None = None


def content_of(key: CaseKey, case: EvalCase, hashes: Hashes | None = None) -> CaseContent:
    """What there is to know of a case."""
    tools = tuple(dict.fromkeys(name.casefold() for name in _tools(case)))
    text = "\n".join((key.eval_id.casefold(), *(said.casefold() for said in _said(case)), *tools))
    return CaseContent(key, text, tools, hashes)


def content_of_broken(key: CaseKey, text: str) -> CaseContent:
    """What there is to know of a case that cannot be read: its id and its text as the file has it."""
    return CaseContent(key, f"{key.eval_id}\n{text}".casefold(), ())


def _said(case: EvalCase) -> Iterator[str]:
    for invocation in case.conversation or ():
        yield invocation.user_content.text()
    if case.conversation_scenario is not None:
        yield case.conversation_scenario.starting_prompt
        yield case.conversation_scenario.conversation_plan


def _tools(case: EvalCase) -> Iterator[str]:
    for invocation in case.conversation or ():
        yield from (call.name for call in get_trajectory(invocation))


# Which verdicts are stale: the case or its criteria are no longer what they were when it was judged.


class Freshness:
    """The hashes of cases as they are now, held against those that their newest verdicts were given by."""

    def __init__(self) -> None:
        self._now: dict[CaseKey, Hashes] = {}
        self._judged: dict[CaseKey, Hashes] = {}
        self._of_session: set[CaseKey] = set()
        self._planned: dict[CaseKey, Hashes] = {}
        self._watched: dict[CaseKey, Sequence[str]] = {}
        self._is_watched = False
        self._stale: set[CaseKey] = set()
        self._counts: Counter[tuple[str, str]] = Counter()

    def is_stale(self, key: CaseKey) -> bool:
        """Whether the newest verdict of a case is of another content or other criteria; False where that is unknown."""
        return key in self._stale

    @property
    def stale(self) -> Collection[CaseKey]:
        """The cases whose verdicts are stale."""
        return self._stale

    def why(self, key: CaseKey) -> Sequence[str]:
        """Why the newest verdict of a case is stale, in words; nothing where it is not."""
        if key in self._watched:
            return self._watched[key]
        return ("it or its criteria were edited",) if key in self._stale else ()

    def count(self, target: str, eval_set: str) -> int:
        """How many verdicts of a set are stale; of all sets of the target where `eval_set` is empty."""
        if eval_set:
            return self._counts[target, eval_set]
        return sum(count for (name, _), count in self._counts.items() if name == target)

    def read(self, key: CaseKey, hashes: Hashes | None) -> None:
        """A case is so now; None where that cannot be told."""
        if hashes is None:
            self._now.pop(key, None)
        else:
            self._now[key] = hashes
        self._compare(key)

    def judged(self, hashes: Mapping[CaseKey, Hashes]) -> None:
        """Stored verdicts were given by these; those of cases that have been judged in this session stay."""
        for key, each in hashes.items():
            if key not in self._of_session:
                self._judged[key] = each
                self._compare(key)

    def planned(self, hashes: Mapping[CaseKey, Hashes]) -> None:
        """A run begins that judges by these."""
        self._planned.update(hashes)

    def finished(self, key: CaseKey) -> None:
        """The run has judged a case."""
        if not self._is_watched:  # else the watch will say whether the new verdict holds
            self._watched.pop(key, None)
        if key in self._planned:
            self._judged[key] = self._planned[key]
            self._of_session.add(key)
        self._compare(key)

    def played(self, key: CaseKey) -> None:
        """A run has played a case and judged nothing: what it did last has no verdict that could be stale."""
        if not self._is_watched:
            self._watched.pop(key, None)
        self._judged.pop(key, None)
        self._of_session.add(key)
        self._compare(key)

    def watched(self, stale: Mapping[CaseKey, Sequence[str]]) -> None:
        """A watch says which verdicts do not hold, and why; all others do."""
        changed = [key for key in {**self._watched, **stale} if (key in self._watched) != (key in stale)]
        self._watched, self._is_watched = dict(stale), True
        for key in changed:
            self._compare(key)

    def checked(self, key: CaseKey, why: Sequence[str]) -> bool:
        """It was checked, without a watch, why the verdict of a case does not hold; nothing where it does.

        Return False if the same was known before.
        """
        if tuple(self._watched.get(key, ())) == tuple(why):
            return False
        if why:
            self._watched[key] = why
        else:
            self._watched.pop(key, None)
        self._compare(key)
        return True

    def holds(self, key: CaseKey, hashes: Hashes | None = None) -> None:
        """The watch has a verdict that holds, where it was given earlier by these hashes."""
        self._watched.pop(key, None)
        if hashes is not None:
            self._judged[key] = hashes
        self._compare(key)

    def end_watching(self) -> None:
        """Nobody watches any longer."""
        self._is_watched = False

    def forget(self, keys: Iterable[CaseKey]) -> None:
        """These cases are no longer listed; what they were judged by is kept for when they come back."""
        for key in keys:
            self._now.pop(key, None)
            self._compare(key)

    def _compare(self, key: CaseKey) -> None:
        now, judged = self._now.get(key), self._judged.get(key)
        is_stale = key in self._watched or (now is not None and judged is not None and now != judged)
        if is_stale and key not in self._stale:
            self._stale.add(key)
            self._counts[key.target, key.eval_set] += 1
        elif not is_stale and key in self._stale:
            self._stale.discard(key)
            self._counts[key.target, key.eval_set] -= 1


# Whether verdicts still hold: what is checked, and what came of it.

ShownVerdicts = Mapping[CaseKey, Mapping[int, ResultPlace | None]]
"""The verdicts that the screen shows, by case and repeat: where each is stored, None where that is not known."""


@dataclass(frozen=True, slots=True)
class CurrentVerdict:
    """A stored verdict that holds in place of the one shown, and the hashes it was given by."""

    stored: StoredJob
    hashes: Hashes


@dataclass(frozen=True, slots=True)
class CheckedVerdicts:
    """Some cases whose verdicts were checked.

    `stale` says why the verdicts of a case do not hold; `current` has, by repeat, the earlier ones that do.
    """

    cases: Sequence[CaseKey]
    stale: Mapping[CaseKey, Sequence[str]]
    current: Mapping[CaseKey, Mapping[int, CurrentVerdict]]
