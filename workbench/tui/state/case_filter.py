"""Filter and order of the browser: their syntax, and the cases that match; and names of new sets and cases."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple

from workbench.model.text import neutralise
from workbench.store.files import EVAL_SET_SUFFIX, EVAL_SET_SUFFIXES, derive_set_name
from workbench.store.settings import FILE_NAME
from workbench.tui.state.browser_list import BrowserRow, CaseContents, Freshness, ListedSet, Marks
from workbench.tui.state.case_status import FAILING_STATES, CaseRecord, CaseState, StatusBoard
from workbench.tui.state.text_layout import safe_line

if TYPE_CHECKING:
    from workbench.store.project_discovery import NewSets

# Syntax of the filter line: words, and terms for states, tools and traits.


class Trait(StrEnum):
    """Values of the term `is:`."""

    FAILING = "failing"
    STALE = "stale"
    DIRTY = "dirty"
    MARKED = "marked"


SYNTAX = (
    'words "a phrase" · in:SET or agent · status:failed or !failed · tool:NAME · is:failing, stale, dirty or marked'
)
"""The help of the filter line."""

_TERM = re.compile(r'(?i)(?P<kind>(?:status|tool|is|in):|!)?(?:"(?P<phrase>[^"]*)"?|(?P<word>[^\s"]\S*))?')
_STATES = {state.value.replace(" ", "-"): state for state in CaseState}
_CYCLE = ("", "is:failing", "!passed", "!not-run", "is:stale", "is:marked")


@dataclass(frozen=True, slots=True)
class Query:
    """A parsed filter line: a case matches if it has every word, every tool, every trait and one of the states, and if
    the path of its set or the name of its agent has every place.

    Words, places and tools are case-folded. `problems` are safe sentences about terms that are not valid; no case then
    matches.
    """

    text: str = ""
    words: tuple[str, ...] = ()
    places: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    states: frozenset[CaseState] | None = None
    traits: frozenset[Trait] = frozenset()
    problems: tuple[str, ...] = ()

    @property
    def matches_all(self) -> bool:
        """True if every case matches."""
        return not (self.words or self.places or self.tools or self.traits or self.problems) and self.states is None

    @property
    def has_only_words(self) -> bool:
        """True if only words decide which cases of a set match, see `covers`."""
        return not (self.tools or self.traits or self.problems) and self.states is None

    def covers(self, target: str, eval_set: str) -> bool:
        """True if cases of this set can match."""
        return not self.places or has_places(self.places, target, eval_set)

    @property
    def needs_contents(self) -> bool:
        """True if the contents of cases are needed to match them."""
        return bool(self.words or self.tools) or Trait.STALE in self.traits

    @property
    def needs_results(self) -> bool:
        """True if results can change which cases match."""
        return self.states is not None or Trait.STALE in self.traits


def has_places(places: Sequence[str], target: str, eval_set: str) -> bool:
    """True if each of these case-folded texts is in the name of the agent or the path of the set."""
    name = f"{target}\n{eval_set}".casefold()
    return all(place in name for place in places)


def parse_query(text: str) -> Query:
    """Parse a filter line. A value may be a prefix, because the filter applies while the user types."""
    words: list[str] = []
    places: list[str] = []
    tools: list[str] = []
    states: set[CaseState] | None = None
    traits: set[Trait] = set()
    problems: list[str] = []
    for term in _parse_terms(text):
        if term.kind == "":
            words.append(term.value)
        elif term.value == "":
            continue  # the user is about to write it
        elif term.kind == "in:":
            places.append(term.value)
        elif term.kind == "tool:":
            tools.append(term.value)
        elif term.kind == "is:" and not (term.value.startswith("f") and Trait.FAILING.startswith(term.value)):
            found = [trait for trait in Trait if trait.startswith(term.value)]
            traits.update(found[:1])
            problems += [] if found else [_describe_unknown_term(term, [trait.value for trait in Trait])]
        else:
            meant = set(FAILING_STATES) if term.kind == "is:" else _match_states(term.value)
            states = meant if states is None else states | meant
            problems += [] if meant else [_describe_unknown_term(term, list(_STATES))]
    return Query(
        text=text.strip(),
        words=tuple(words),
        places=tuple(places),
        tools=tuple(tools),
        states=None if states is None else frozenset(states),
        traits=frozenset(traits),
        problems=tuple(problems),
    )


def cycle_status_filter(text: str) -> str:
    """Replace the status terms of a filter line by the next of a fixed sequence."""
    kept: list[str] = []
    replaced: list[str] = []
    for term in _parse_terms(text):
        (replaced if term.kind in ("status:", "is:", "!") else kept).append(term.written)
    now = " ".join(replaced)
    following = _CYCLE[(_CYCLE.index(now) + 1) % len(_CYCLE)] if now in _CYCLE else ""
    return " ".join(filter(None, (*kept, following)))


class _Term(NamedTuple):
    """A part of a filter line. `kind` is "" for a word or phrase, `value` is case-folded."""

    kind: str
    value: str
    written: str


def _parse_terms(text: str) -> Iterator[_Term]:
    for match in _TERM.finditer(text):
        kind = (match["kind"] or "").lower()
        value = match["phrase"] if match["phrase"] is not None else match["word"] or ""
        if kind or value:
            yield _Term(kind, value.casefold(), match[0])


def _match_states(names: str) -> set[CaseState]:
    """Return the states whose names begin with one of these, separated by commas. An exact name matches only itself."""
    meant: set[CaseState] = set()
    for name in filter(None, names.split(",")):
        exact = _STATES.get(name)
        meant |= {exact} if exact else {each for word, each in _STATES.items() if word.startswith(name)}
    return meant


def _describe_unknown_term(term: _Term, known: list[str]) -> str:
    return f"unknown filter {safe_line(term.written, width=40)}; expected {', '.join(known)}"


# Order of the cases of a set.


class Order(StrEnum):
    """An order of cases; its value is shown to the user."""

    FILE = "file order"
    ID = "by id"
    STATUS = "worst first"
    DURATION = "slowest first"
    NEWEST = "newest first"

    @property
    def needs_results(self) -> bool:
        """True if results can change the order."""
        return self not in (Order.FILE, Order.ID)

    @property
    def next(self) -> Order:
        """The next order in the sequence that one key steps through."""
        orders = list(Order)
        return orders[(orders.index(self) + 1) % len(orders)]


_WORST_FIRST = (
    CaseState.ERROR,
    CaseState.FAILED,
    CaseState.QUARANTINED,
    CaseState.NOT_EVALUATED,
    CaseState.CANCELLED,
    CaseState.RUNNING,
    CaseState.WAITING,
    CaseState.SKIPPED,
    CaseState.NOT_RUN,
    CaseState.PASSED,
)
_RANKS = {state: rank for rank, state in enumerate(_WORST_FIRST)}
_DIGITS = re.compile(r"(\d{1,18})")


def sort_rows(rows: Sequence[BrowserRow], order: Order, board: StatusBoard) -> Sequence[BrowserRow]:
    """Sort the rows of cases. Rows that compare equal stay in file order."""
    if order is Order.FILE:
        return rows
    if order is Order.ID:
        return sorted(rows, key=lambda row: make_natural_key(row.label))
    measure = _MEASURES[order]
    return sorted(rows, key=lambda row: measure(None if row.case is None else board.get_record(row.case)))


def make_natural_key(label: str) -> list[Any]:
    """Make a sort key that puts `case_2` before `case_10`."""
    parts: list[Any] = _DIGITS.split(label.casefold())
    parts[1::2] = map(int, parts[1::2])
    return parts


def _rank_state(record: CaseRecord | None) -> Any:
    return _RANKS[CaseState.NOT_RUN if record is None else record.state]


def _rank_duration(record: CaseRecord | None) -> Any:
    duration = None if record is None else record.agent_seconds
    return 1.0 if duration is None else -duration  # cases without a duration come last


def _rank_age(record: CaseRecord | None) -> Any:
    if record is None:
        return 0, 0.0
    stored_at = record.stored_at
    return -record.result_number, 0.0 if stored_at is None else -stored_at.timestamp()


_MEASURES: dict[Order, Callable[[CaseRecord | None], Any]] = {
    Order.STATUS: _rank_state,
    Order.DURATION: _rank_duration,
    Order.NEWEST: _rank_age,
}


# Matching cases against a query.

Test = Callable[[BrowserRow], bool]


@dataclass(frozen=True)
class QueryContext:
    """Data that a query can ask for. `edited` has the ids of cases with unsaved edits, by eval set."""

    board: StatusBoard
    contents: CaseContents
    marks: Marks
    freshness: Freshness
    edited: Mapping[str, Collection[str]]

    def is_edited(self, row: BrowserRow) -> bool:
        """True if a case has unsaved edits."""
        return row.case is not None and row.case.eval_id in self.edited.get(row.eval_set, ())

    def compile_query(self, query: Query) -> Test | None:
        """Return a function that tests whether a row of a covered set matches; None if all rows do."""
        if query.matches_all:
            return None
        if query.problems:
            return lambda row: False  # noqa: ARG005
        tests = [self._compile_trait(trait) for trait in query.traits]
        if query.states is not None:
            tests.append(self._compile_states(query.states))
        if query.words or query.tools:
            tests.append(self._compile_content(query))
        return tests[0] if len(tests) == 1 else lambda row: all(test(row) for test in tests)  # also without any

    def _compile_trait(self, trait: Trait) -> Test:
        if trait is Trait.DIRTY:
            return self.is_edited
        if trait is Trait.MARKED:
            return lambda row: row.case is not None and row.case in self.marks
        return lambda row: row.case is not None and self.freshness.is_stale(row.case)

    def _compile_states(self, wanted: frozenset[CaseState]) -> Test:
        def test(row: BrowserRow) -> bool:
            record = None if row.case is None else self.board.get_record(row.case)
            return (CaseState.NOT_RUN if record is None else record.state) in wanted

        return test

    def _compile_content(self, query: Query) -> Test:
        words, tools, contents = query.words, query.tools, self.contents

        def test(row: BrowserRow) -> bool:
            content = None if row.case is None else contents.get(row.case)
            if content is None:  # not read yet, or not readable: only its id is known
                label = row.label.casefold()
                return not tools and all(word in label for word in words)
            text = content.text
            if not all(word in text for word in words):
                return False
            return not tools or all(any(tool in name for name in content.tools) for tool in tools)

        return test


# Names of cases and eval sets: checks and proposals.

_NO_ID = re.compile(r"[^a-zA-Z0-9_]+")


def check_case_id(eval_id: str, taken: Collection[str]) -> str | None:
    """Check a new case id against the ids of the set and return the problem; None if it is valid."""
    if not eval_id.strip():
        return "expected an id"
    if eval_id != eval_id.strip():
        return "the id begins or ends with a blank"
    if neutralise(eval_id) != eval_id or "\n" in eval_id:
        return "the id has a control character in it"
    if eval_id in taken:
        return f"duplicate id: the set already has a case {eval_id!r}"
    return None


def check_set_path(path: str, taken: Collection[str]) -> str | None:
    """Return what is wrong with a path for an eval set, relative to the project, given the existing ones; None if it
    is valid.
    """
    if not path.strip():
        return "expected a file name, relative to the project"
    if path != path.strip() or neutralise(path) != path or "\n" in path:
        return "the path begins or ends with a blank, or has a control character in it"
    pure = PurePosixPath(path)
    if pure.is_absolute() or ".." in pure.parts or "\\" in path or re.match(r"[A-Za-z]:", path):
        return "expected a path within the project, with / between folders"
    if any(part.startswith(".") for part in pure.parts) or path.endswith("/"):
        return "eval sets in hidden folders are not found; use names that do not begin with a dot"
    if complete_set_path(path) in taken:
        return f"the eval set {complete_set_path(path)} already exists"
    return None


def complete_set_path(written: str) -> str:
    """Return the path that the user typed, with the suffix of an eval set."""
    path = str(PurePosixPath(written))
    return path if path.endswith(EVAL_SET_SUFFIXES) else f"{path}{EVAL_SET_SUFFIX}"


def derive_set_id(path: str) -> str:
    """Derive the id of a new set from its path: letters, digits and underscores."""
    return _NO_ID.sub("_", derive_set_name(PurePosixPath(path))).strip("_") or "eval_set"


def find_free_name(wanted: str, taken: Collection[str]) -> str:
    """Return the wanted name, with a number appended if it is taken."""
    if wanted not in taken:
        return wanted
    return next(name for number in range(2, len(taken) + 3) if (name := f"{wanted}_{number}") not in taken)


def propose_copy_path(path: str, taken: Collection[str]) -> str:
    ending = next((suffix for suffix in EVAL_SET_SUFFIXES if path.endswith(suffix)), EVAL_SET_SUFFIX)
    stem = path.removesuffix(ending)
    others = {other.removesuffix(ending) for other in taken}
    return f"{find_free_name(f'{stem}_copy', others)}{ending}"


# The path of a new set: a proposal, and checks while it is typed.

_ID = re.compile(r"[A-Za-z0-9_]+")
_NAME = "chats"  # of a new set


def propose_set_name(sets: Sequence[ListedSet], *, target: str, places: NewSets) -> str:
    """Propose an unused path for a new set of the agent: next to one of its sets, else where its settings look for
    sets.

    If no path would belong to the agent, propose one next to its first set.
    """
    taken = {listed.relative for listed in sets}
    stems = {relative.removesuffix(EVAL_SET_SUFFIX) for relative in taken}
    folders = dict.fromkeys(PurePosixPath(listed.relative).parent for listed in sets if listed.target == target)
    beside = [
        f"{find_free_name(str(folder / _NAME), stems)}{EVAL_SET_SUFFIX}" for folder in folders or [PurePosixPath()]
    ]
    names = (_NAME, *(f"{_NAME}_{number}" for number in range(2, len(taken) + 2)))
    elsewhere = (path for name in names for path in places.suggest_paths(target, name=name))
    for path in chain(beside, elsewhere):
        if problem_of_set_name(path, sets=sets) is None and places.pair(path).target == target:
            return path
    return beside[0]


def warning_of_set_name(name: str, *, target: str, places: NewSets) -> str | None:
    """Return a warning if a new set with this path would not belong to the agent; None if it would."""
    pairing = places.pair(name)
    if pairing.target == target:
        return None
    owner = f"the agent {pairing.target}" if pairing.target else "no agent"
    if places.has_listed_sets(target):
        return f"it will belong to {owner}: {FILE_NAME} does not list it under eval_sets of {target}"
    return f"it will belong to {owner}" if pairing.target else f"it will belong to {owner}: {pairing.reason}"


def problem_of_set_name(name: str, *, sets: Sequence[ListedSet]) -> str | None:
    """Check the path of a new set, relative to the project, and return the problem; None if it is valid."""
    if not name.endswith(EVAL_SET_SUFFIXES):
        return "expected a name that ends in .evalset.json or .test.json"
    if name.startswith(("/", "\\")) or ".." in name.split("/"):
        return "expected a path inside the project, relative to it"
    if not _ID.fullmatch(derive_set_name(PurePosixPath(name))):
        return "expected a name of letters, digits and underscores"
    if any(listed.relative == name for listed in sets):
        return "this eval set already exists"
    return None
