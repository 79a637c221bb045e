"""Contents of the browser: eval sets and their cases, marks, and stale verdicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from itertools import compress
from pathlib import PurePosixPath
from typing import NamedTuple

from workbench.model.evalset import EvalCase, Quarantine
from workbench.model.identity import CaseKey
from workbench.model.trace import get_trajectory
from workbench.store.files import derive_set_name
from workbench.store.history.history_queries import StoredJob
from workbench.tui.state.case_status import ResultLocation
from workbench.tui.state.text_layout import safe_line

# Rows, and the eval sets that they come from.


class RowKind(StrEnum):
    """Kind of a row."""

    TARGET = "target"
    EVAL_SET = "eval_set"
    CASE = "case"


_DEPTHS = {RowKind.TARGET: 0, RowKind.EVAL_SET: 1, RowKind.CASE: 2}

RowKey = tuple[str, str, CaseKey | None]
"""Identity of a row: target, eval set (empty for a target) and case (None for a target or set)."""


@dataclass(frozen=True, slots=True)
class BrowserRow:
    """One row. `label` and `problem` are safe to show; `problem` is empty if nothing is wrong.

    A row is identified by target, eval set and case. `eval_set` is empty for a target, `case` is None for a target or
    set. `quarantine` says until when a case is in quarantine, and why; empty for others.
    """

    kind: RowKind
    label: str
    target: str
    eval_set: str = ""
    case: CaseKey | None = None
    problem: str = ""
    quarantine: str = ""

    @property
    def depth(self) -> int:
        return _DEPTHS[self.kind]

    @property
    def key(self) -> RowKey:
        return self.target, self.eval_set, self.case

    def has_key(self, key: RowKey) -> bool:
        target, eval_set, case = key
        if case is None or self.case is None:
            return self.case is case and (self.target, self.eval_set) == (target, eval_set)
        # Comparing keys is slow by the ten thousand, comparing ids is not.
        return self.case is case or (self.case.eval_id == case.eval_id and self.case == case)

    def is_sibling(self, other: BrowserRow) -> bool:
        """True if both are cases of one set, or sets of one agent."""
        if self.kind is not other.kind or self.kind is RowKind.TARGET:
            return False
        return self.target == other.target and (self.case is None or self.eval_set == other.eval_set)

    def contains(self, other: BrowserRow) -> bool:
        """True if the other row is this one or below it."""
        if self.case is not None:
            return self.key == other.key
        return self.target == other.target and self.eval_set in ("", other.eval_set)


NOT_READ, READING, FETCHING = "not read", "reading", "fetching"
"""States of sets whose cases are not known yet and that have no problem."""

HISTORY_READ_ONLY = "stored results cannot be edited or run here; EvalTask or `workbench score` scores the rows again"
"""Why a dataset that only the history has cannot be run, edited or accepted."""


@dataclass(frozen=True, slots=True)
class HistoryRun:
    """Newest run of a dataset that the project has no target for. `command` is the command that started it."""

    run_id: str
    began: datetime
    command: str
    has_ended: bool


@dataclass(frozen=True, slots=True)
class ListedSet:
    """An eval set as far as it was read, or a dataset that only the history has.

    `cases`: None until it is read. `target` is empty if no agent was found; `pairing_problem` then says why.
    `problem` says why the file, or its JSON around the cases, cannot be read. `history_run` is the run whose stored
    results are listed; None for a file. `is_dataset`: its cases are rows of a dataset. `is_address`: the dataset is
    remote and read only on request; `is_being_read`: that request is in progress.
    """

    relative: str
    target: str = ""
    cases: tuple[BrowserRow, ...] | None = None
    problem: str = ""
    pairing_problem: str = ""
    config: str = ""
    history_run: HistoryRun | None = None
    is_dataset: bool = False
    is_address: bool = False
    is_being_read: bool = False

    @property
    def can_be_fetched(self) -> bool:
        """True if it is remote, and its rows are neither read nor being read."""
        return self.is_address and self.cases is None and not self.is_being_read

    @property
    def is_being_fetched(self) -> bool:
        """True if its remote rows are being read."""
        return self.is_address and self.cases is None and self.is_being_read

    @property
    def key(self) -> tuple[str, str]:
        return self.target, self.relative

    @property
    def short_name(self) -> str:
        """Name of the set if no other has the same. A remote address keeps its scheme, so that it does not look like a
        file.
        """
        if self.history_run is not None:
            return self.relative
        path = PurePosixPath(self.relative)
        if self.is_address:
            return f"{self.relative.partition('://')[0]}://…/{path.name}"
        return path.name if self.is_dataset else derive_set_name(path)

    @property
    def case_keys(self) -> list[CaseKey]:
        return [row.case for row in self.cases or () if row.case is not None]

    def count_quarantined(self) -> int:
        """Count its cases in quarantine, whether they have run or not."""
        return sum(1 for row in self.cases or () if row.quarantine)

    @property
    def state(self) -> str:
        """Why it differs from an ordinary set, in one word; empty if it does not."""
        if self.problem:
            return "broken"
        if self.pairing_problem:
            return "no agent"
        if self.cases is not None:
            return ""
        if self.is_address:
            return FETCHING if self.is_being_read else NOT_READ
        return READING


def make_case_row(key: CaseKey, problem: str = "", quarantine: Quarantine | None = None) -> BrowserRow:
    """Make the row of a case. `problem` says why it cannot run; empty if it can."""
    suffix = f" #{key.occurrence + 1}" if key.occurrence else ""
    label = f"{safe_line(key.eval_id) or '(empty id)'}{suffix}"
    in_quarantine = "" if quarantine is None else safe_line(str(quarantine))
    return BrowserRow(
        RowKind.CASE, label, key.target, key.eval_set, key, safe_line(problem) if problem else "", in_quarantine
    )


# Marked cases: a filter does not change them.


class Marks:
    """Marked cases, in the order of marking, and the start of a range of marks."""

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
        self._marked.update(dict.fromkeys(keys))

    def toggle(self, keys: Collection[CaseKey]) -> None:
        """Mark these cases; if all are marked already, unmark them."""
        if all(key in self._marked for key in keys):
            self.remove(keys)
        else:
            self.add(keys)

    def remove(self, keys: Collection[CaseKey]) -> None:
        for key in keys:
            self._marked.pop(key, None)
        if self.anchor is not None and self.anchor in keys:
            self.anchor = None

    def clear(self) -> None:
        self._marked.clear()
        self.anchor = None


# Searchable content of cases, and the hashes that decide whether a verdict is current.

Hashes = tuple[str, str]
"""Execution key (agent input) and scoring key (expectations and criteria), as in plans."""


@dataclass(frozen=True, slots=True)
class CaseContent:
    """Searchable content of a case.

    `text` has the id, the user messages and the tool names; `tools` has the tool names. Both are case-folded.
    `tool_names` are the tool names as written. `hashes` are those of a plan made now; None if no plan can be made.
    `turns`: None for a scenario and a broken case, whose number of turns is unknown.
    """

    key: CaseKey
    text: str
    tools: tuple[str, ...]
    hashes: Hashes | None = None
    turns: int | None = None
    tool_names: tuple[str, ...] = ()


class CaseContents:
    """The contents of the cases that were read, by set: keys of cases hash slowly by the ten thousand."""

    def __init__(self) -> None:
        self._sets: dict[tuple[str, str], dict[tuple[str, int], CaseContent]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[CaseContent]:
        for contents in self._sets.values():
            yield from contents.values()

    def get(self, key: CaseKey) -> CaseContent | None:
        """Return the content of a case; None if it was not read."""
        return self._sets.get((key.target, key.eval_set), {}).get((key.eval_id, key.occurrence))

    def replace(self, content: CaseContent) -> CaseContent | None:
        """Add or replace the content of a case; return the previous one."""
        key = content.key
        contents = self._sets.setdefault((key.target, key.eval_set), {})
        old = contents.get((key.eval_id, key.occurrence))
        contents[key.eval_id, key.occurrence] = content
        self._count += old is None
        return old

    def remove(self, key: CaseKey) -> CaseContent | None:
        """Remove and return the content of a case, if it was read."""
        found = self._sets.get((key.target, key.eval_set), {}).pop((key.eval_id, key.occurrence), None)
        self._count -= found is not None
        return found

    def list_texts(self, place: tuple[str, str], rows: Iterable[BrowserRow]) -> list[str]:
        """List the searchable texts of the rows of a set: of a case that was not read, only its id is known."""
        get = self._sets.get(place, {}).get
        texts = []
        for row in rows:
            content = None if row.case is None else get((row.case.eval_id, row.case.occurrence))
            texts.append(row.label.casefold() if content is None else content.text)
        return texts


class _Found(NamedTuple):
    """Rows with these words in their texts, and the texts."""

    words: tuple[str, ...]
    rows: Sequence[BrowserRow]
    texts: Sequence[str]


class WordSearch:
    """Finds the rows of a set whose texts have all words, of a hundred thousand at every key press.

    A longer word is searched only in the rows that the shorter one found, and what a deleted letter shows again is
    remembered.
    """

    def __init__(self, rows: Sequence[BrowserRow], texts: Sequence[str]) -> None:
        self._found = [_Found((), rows, texts)]

    def find(self, words: tuple[str, ...]) -> Sequence[BrowserRow]:
        """Find the rows with all words in their texts."""
        while not all(any(old in word for word in words) for old in self._found[-1].words):
            self._found.pop()
        before = self._found[-1]
        if before.words == words:
            return before.rows
        rows, texts = before.rows, before.texts
        for word in words:
            has_word = [word in text for text in texts]
            if not all(has_word):
                rows, texts = list(compress(rows, has_word)), list(compress(texts, has_word))
        self._found.append(_Found(words, rows, texts))
        return rows


def index_case(key: CaseKey, case: EvalCase, hashes: Hashes | None = None) -> CaseContent:
    names = tuple(dict.fromkeys(_iterate_tool_names(case)))
    tools = tuple(dict.fromkeys(name.casefold() for name in names))
    text = "\n".join((key.eval_id.casefold(), *(said.casefold() for said in _iterate_user_texts(case)), *tools))
    turns = None if case.conversation_scenario is not None else len(case.conversation or ())
    return CaseContent(key, text, tools, hashes, turns, tools if tools == names else names)


def index_broken_case(key: CaseKey, text: str) -> CaseContent:
    """Make the searchable content of a case that cannot be parsed: its id and its text in the file."""
    return CaseContent(key, f"{key.eval_id}\n{text}".casefold(), ())


def _iterate_user_texts(case: EvalCase) -> Iterator[str]:
    for invocation in case.conversation or ():
        yield invocation.user_content.text()
    if case.conversation_scenario is not None:
        yield case.conversation_scenario.starting_prompt
        yield case.conversation_scenario.conversation_plan


def _iterate_tool_names(case: EvalCase) -> Iterator[str]:
    for invocation in case.conversation or ():
        yield from (call.name for call in get_trajectory(invocation))


# Stale verdicts: the case or its criteria changed after the verdict.


class Freshness:
    """Compares the current hashes of cases with the hashes of their newest verdicts."""

    def __init__(self, note: Callable[[CaseKey, bool], None]) -> None:
        """`note` is called with each case whose verdict becomes stale, or current again."""
        self._note = note
        self._current_hashes: dict[CaseKey, Hashes] = {}
        self._verdict_hashes: dict[CaseKey, Hashes] = {}
        self._judged_in_session: set[CaseKey] = set()
        self._planned_hashes: dict[CaseKey, Hashes] = {}
        self._stale_reasons: dict[CaseKey, Sequence[str]] = {}
        self._is_watched = False
        self._stale: set[CaseKey] = set()
        self._counts: Counter[tuple[str, str]] = Counter()

    def is_stale(self, key: CaseKey) -> bool:
        """True if the case or its criteria changed after its newest verdict; False if that is unknown."""
        return key in self._stale

    @property
    def stale_cases(self) -> Collection[CaseKey]:
        return self._stale

    def find_stale_reasons(self, key: CaseKey) -> Sequence[str]:
        """Return why the newest verdict of a case is stale; empty if it is not."""
        if key in self._stale_reasons:
            return self._stale_reasons[key]
        return ("it or its criteria were edited",) if key in self._stale else ()

    def count_stale(self, target: str, eval_set: str) -> int:
        """Count the stale verdicts of a set, or of all sets of the target if `eval_set` is empty."""
        if eval_set:
            return self._counts[target, eval_set]
        return sum(count for (name, _), count in self._counts.items() if name == target)

    def set_current_hashes(self, key: CaseKey, hashes: Hashes | None) -> None:
        """Set the current hashes of a case; None if they are unknown."""
        if hashes is None:
            self._current_hashes.pop(key, None)
        else:
            self._current_hashes[key] = hashes
        self._compare(key)

    def set_verdict_hashes(self, hashes: Mapping[CaseKey, Hashes]) -> None:
        """Set the hashes of stored verdicts, except for cases that were scored in this session."""
        for key, each in hashes.items():
            if key not in self._judged_in_session:
                self._verdict_hashes[key] = each
                self._compare(key)

    def set_planned_hashes(self, hashes: Mapping[CaseKey, Hashes]) -> None:
        """Set the hashes of a run that begins: verdicts of this run get them."""
        self._planned_hashes.update(hashes)

    def record_verdict(self, key: CaseKey) -> None:
        """Record that the run scored a case."""
        if not self._is_watched:  # a watch reports itself whether the new verdict is current
            self._stale_reasons.pop(key, None)
        if key in self._planned_hashes:
            self._verdict_hashes[key] = self._planned_hashes[key]
            self._judged_in_session.add(key)
        self._compare(key)

    def drop_verdict(self, key: CaseKey) -> None:
        """Record that a run played a case without scoring it: there is no verdict that could be stale."""
        if not self._is_watched:
            self._stale_reasons.pop(key, None)
        self._verdict_hashes.pop(key, None)
        self._judged_in_session.add(key)
        self._compare(key)

    def set_watch_findings(self, stale: Mapping[CaseKey, Sequence[str]]) -> None:
        """Set the stale verdicts that a watch found, with reasons. All others are current."""
        changed = [key for key in {**self._stale_reasons, **stale} if (key in self._stale_reasons) != (key in stale)]
        self._stale_reasons, self._is_watched = dict(stale), True
        for key in changed:
            self._compare(key)

    def set_stale_reasons(self, key: CaseKey, why: Sequence[str]) -> bool:
        """Set the reasons that a check without a watch found; none if the verdict is current.

        Return False if nothing changed.
        """
        if tuple(self._stale_reasons.get(key, ())) == tuple(why):
            return False
        if why:
            self._stale_reasons[key] = why
        else:
            self._stale_reasons.pop(key, None)
        self._compare(key)
        return True

    def mark_current(self, key: CaseKey, hashes: Hashes | None = None) -> None:
        """Record that a stored verdict, with these hashes, is current."""
        self._stale_reasons.pop(key, None)
        if hashes is not None:
            self._verdict_hashes[key] = hashes
        self._compare(key)

    def end_watch(self) -> None:
        self._is_watched = False

    def remove_cases(self, keys: Iterable[CaseKey]) -> None:
        """Remove cases that are no longer listed. Hashes of their verdicts stay, in case they are listed again."""
        for key in keys:
            self._current_hashes.pop(key, None)
            self._stale_reasons.pop(key, None)
            self._compare(key)

    def _compare(self, key: CaseKey) -> None:
        now, judged = self._current_hashes.get(key), self._verdict_hashes.get(key)
        is_stale = key in self._stale_reasons or (now is not None and judged is not None and now != judged)
        if is_stale and key not in self._stale:
            self._stale.add(key)
            self._counts[key.target, key.eval_set] += 1
            self._note(key, True)
        elif not is_stale and key in self._stale:
            self._stale.discard(key)
            self._counts[key.target, key.eval_set] -= 1
            self._note(key, False)


# Checks of shown verdicts against the present code, data and configuration.

VerdictLocations = Mapping[CaseKey, Mapping[int, ResultLocation | None]]
"""Where the shown verdicts are stored, by case and repeat; None if unknown."""


@dataclass(frozen=True, slots=True)
class CurrentVerdict:
    """An earlier stored verdict that is current and replaces the shown one, with its hashes."""

    stored: StoredJob
    hashes: Hashes


@dataclass(frozen=True, slots=True)
class CheckedVerdicts:
    """Outcome of a check of verdicts.

    `stale` gives the reasons for each stale case; `current` has, by repeat, earlier verdicts that are current.
    """

    cases: Sequence[CaseKey]
    stale: Mapping[CaseKey, Sequence[str]]
    current: Mapping[CaseKey, Mapping[int, CurrentVerdict]]
