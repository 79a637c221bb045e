"""The filter and the order of the browser: how they are written, and which cases they select."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from workbench.model.identity import CaseKey
from workbench.model.text import neutralise
from workbench.store.filetypes import EVAL_SET_SUFFIX, EVAL_SET_SUFFIXES, derive_set_name
from workbench.tui.state.browser_list import CaseContent, Freshness, Marks, Row
from workbench.tui.state.case_board import FALLS_SHORT, Board, CaseRecord, Standing
from workbench.tui.state.text_layout import safe_line

# What the user writes into the filter line: words, and terms for statuses, tools and the like.


class Trait(StrEnum):
    """What `is:` asks for."""

    FAILING = "failing"
    STALE = "stale"
    DIRTY = "dirty"
    MARKED = "marked"


SYNTAX = 'words "a phrase" · status:failed or !failed · tool:NAME · is:failing, stale, dirty or marked'
"""The help of the filter line."""

_TERM = re.compile(r'(?i)(?P<kind>(?:status|tool|is):|!)?(?:"(?P<phrase>[^"]*)"?|(?P<word>[^\s"]\S*))?')
_STANDINGS = {standing.value.replace(" ", "-"): standing for standing in Standing}
_CYCLE = ("", "is:failing", "!passed", "!not-run", "is:stale", "is:marked")


@dataclass(frozen=True, slots=True)
class Query:
    """Which cases are to be listed: those that have every word, every tool, one of the standings and every trait.

    Words and tools are without capitals. `problems` says in safe words what of the text means nothing; where there is
    any, no case is meant.
    """

    text: str = ""
    words: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    standings: frozenset[Standing] | None = None
    traits: frozenset[Trait] = frozenset()
    problems: tuple[str, ...] = ()

    @property
    def wants_all(self) -> bool:
        """Whether every case is meant."""
        return not (self.words or self.tools or self.traits or self.problems) and self.standings is None

    @property
    def needs_contents(self) -> bool:
        """Whether the cases have to have been read for it."""
        return bool(self.words or self.tools) or Trait.STALE in self.traits

    @property
    def needs_results(self) -> bool:
        """Whether what a run does may change which cases are meant."""
        return self.standings is not None or Trait.STALE in self.traits


def parse_query(text: str) -> Query:
    """Read a filter line. A value may be the beginning of what is meant: it is read while it is written."""
    words: list[str] = []
    tools: list[str] = []
    standings: set[Standing] | None = None
    traits: set[Trait] = set()
    problems: list[str] = []
    for term in _terms(text):
        if term.kind == "":
            words.append(term.value)
        elif term.value == "":
            continue  # the user is about to write it
        elif term.kind == "tool:":
            tools.append(term.value)
        elif term.kind == "is:" and not (term.value.startswith("f") and Trait.FAILING.startswith(term.value)):
            found = [trait for trait in Trait if trait.startswith(term.value)]
            traits.update(found[:1])
            problems += [] if found else [_unknown(term, [trait.value for trait in Trait])]
        else:
            meant = set(FALLS_SHORT) if term.kind == "is:" else _standings_of(term.value)
            standings = meant if standings is None else standings | meant
            problems += [] if meant else [_unknown(term, list(_STANDINGS))]
    return Query(
        text=text.strip(),
        words=tuple(words),
        tools=tuple(tools),
        standings=None if standings is None else frozenset(standings),
        traits=frozenset(traits),
        problems=tuple(problems),
    )


def next_status_filter(text: str) -> str:
    """The filter line with its terms about status replaced by the next of those that one key goes through."""
    kept: list[str] = []
    replaced: list[str] = []
    for term in _terms(text):
        (replaced if term.kind in ("status:", "is:", "!") else kept).append(term.written)
    now = " ".join(replaced)
    following = _CYCLE[(_CYCLE.index(now) + 1) % len(_CYCLE)] if now in _CYCLE else ""
    return " ".join(filter(None, (*kept, following)))


class _Term(NamedTuple):
    """A part of a filter line: `kind` is "" for a word or phrase, `value` is without capitals."""

    kind: str
    value: str
    written: str


def _terms(text: str) -> Iterator[_Term]:
    for match in _TERM.finditer(text):
        kind = (match["kind"] or "").lower()
        value = match["phrase"] if match["phrase"] is not None else match["word"] or ""
        if kind or value:
            yield _Term(kind, value.casefold(), match[0])


def _standings_of(names: str) -> set[Standing]:
    """The standings that names separated by commas begin: an exact name means only itself."""
    meant: set[Standing] = set()
    for name in filter(None, names.split(",")):
        exact = _STANDINGS.get(name)
        meant |= {exact} if exact else {each for word, each in _STANDINGS.items() if word.startswith(name)}
    return meant


def _unknown(term: _Term, known: list[str]) -> str:
    return f"{safe_line(term.written, width=40)} means nothing; there is {', '.join(known)}"


# In which order the cases of a set are listed.


class Order(StrEnum):
    """An order, by what the user reads of it."""

    FILE = "file order"
    ID = "by id"
    STATUS = "worst first"
    DURATION = "slowest first"
    NEWEST = "newest first"

    @property
    def needs_results(self) -> bool:
        """Whether what a run does may change it."""
        return self not in (Order.FILE, Order.ID)

    @property
    def following(self) -> Order:
        """The order that comes after this one where a key goes through them."""
        orders = list(Order)
        return orders[(orders.index(self) + 1) % len(orders)]


_WORST_FIRST = (
    Standing.ERROR,
    Standing.FAILED,
    Standing.NOT_EVALUATED,
    Standing.CANCELLED,
    Standing.RUNNING,
    Standing.WAITING,
    Standing.SKIPPED,
    Standing.NOT_RUN,
    Standing.PASSED,
)
_RANKS = {standing: rank for rank, standing in enumerate(_WORST_FIRST)}
_DIGITS = re.compile(r"(\d{1,18})")


def in_order(rows: Sequence[Row], order: Order, board: Board) -> Sequence[Row]:
    """The rows of cases in an order; what is the same in it stays in that of the file."""
    if order is Order.FILE:
        return rows
    if order is Order.ID:
        return sorted(rows, key=lambda row: natural(row.label))
    measure = _MEASURES[order]
    return sorted(rows, key=lambda row: measure(None if row.case is None else board.record(row.case)))


def natural(label: str) -> list[Any]:
    """So that `case_2` comes before `case_10`."""
    parts: list[Any] = _DIGITS.split(label.casefold())
    parts[1::2] = map(int, parts[1::2])
    return parts


def _badness(record: CaseRecord | None) -> Any:
    return _RANKS[Standing.NOT_RUN if record is None else record.standing]


def _slowness(record: CaseRecord | None) -> Any:
    duration = None if record is None else record.agent_seconds
    return 1.0 if duration is None else -duration  # those without a time come last


def _age(record: CaseRecord | None) -> Any:
    if record is None:
        return 0, 0.0
    stored_at = record.stored_at
    return -record.ended, 0.0 if stored_at is None else -stored_at.timestamp()


_MEASURES: dict[Order, Callable[[CaseRecord | None], Any]] = {
    Order.STATUS: _badness,
    Order.DURATION: _slowness,
    Order.NEWEST: _age,
}


# Which cases a query means.

Test = Callable[[Row], bool]


@dataclass(frozen=True)
class Knowledge:
    """All that a query may ask about a case. `edited` are the ids of cases with unsaved edits, by eval set."""

    board: Board
    contents: Mapping[CaseKey, CaseContent]
    marks: Marks
    freshness: Freshness
    edited: Mapping[str, Collection[str]]

    def is_edited(self, row: Row) -> bool:
        """Whether a case has unsaved edits."""
        return row.case is not None and row.case.eval_id in self.edited.get(row.eval_set, ())

    def test_of(self, query: Query) -> Test | None:
        """What tells the cases that are meant from the others; None where all are."""
        if query.wants_all:
            return None
        if query.problems:
            return lambda row: False  # noqa: ARG005
        tests = [self._trait(trait) for trait in query.traits]
        if query.standings is not None:
            tests.append(self._standing(query.standings))
        if query.words or query.tools:
            tests.append(self._content(query))
        return tests[0] if len(tests) == 1 else lambda row: all(test(row) for test in tests)

    def _trait(self, trait: Trait) -> Test:
        if trait is Trait.DIRTY:
            return self.is_edited
        if trait is Trait.MARKED:
            return lambda row: row.case is not None and row.case in self.marks
        return lambda row: row.case is not None and self.freshness.is_stale(row.case)

    def _standing(self, wanted: frozenset[Standing]) -> Test:
        def test(row: Row) -> bool:
            record = None if row.case is None else self.board.record(row.case)
            return (Standing.NOT_RUN if record is None else record.standing) in wanted

        return test

    def _content(self, query: Query) -> Test:
        words, tools, contents = query.words, query.tools, self.contents

        def test(row: Row) -> bool:
            content = None if row.case is None else contents.get(row.case)
            if content is None:  # it has not been read yet, or cannot be: there is only its id
                label = row.label.casefold()
                return not tools and all(word in label for word in words)
            text = content.text
            for word in words:  # loops: this is done for ten thousand cases at every key press
                if word not in text:
                    return False
            return not tools or all(any(tool in name for name in content.tools) for tool in tools)

        return test


# Names that the user gives to cases and eval sets: what is wrong with them, and which to propose.

_NO_ID = re.compile(r"[^a-zA-Z0-9_]+")


def case_id_problem(eval_id: str, taken: Collection[str]) -> str | None:
    """What is wrong with the id of a case in a set that has these; None where nothing is."""
    if not eval_id.strip():
        return "an id is expected"
    if eval_id != eval_id.strip():
        return "the id begins or ends with a blank"
    if neutralise(eval_id) != eval_id or "\n" in eval_id:
        return "the id has a control character in it"
    if eval_id in taken:
        return f"the set has a case {eval_id!r} already"
    return None


def set_path_problem(path: str, taken: Collection[str]) -> str | None:
    """What is wrong with the path of an eval set, relative to the project, which has these; None where nothing is."""
    if not path.strip():
        return "a file name is expected, relative to the project"
    if path != path.strip() or neutralise(path) != path or "\n" in path:
        return "the path begins or ends with a blank, or has a control character in it"
    pure = PurePosixPath(path)
    if pure.is_absolute() or ".." in pure.parts or "\\" in path or re.match(r"[A-Za-z]:", path):
        return "the path is expected to be within the project, with / between folders"
    if any(part.startswith(".") for part in pure.parts) or path.endswith("/"):
        return "eval sets in hidden folders, and files that begin with a dot, are not found"
    if set_path(path) in taken:
        return f"there is an eval set {set_path(path)} already"
    return None


def set_path(written: str) -> str:
    """The path of an eval set as the user wrote it, with the ending that makes it one."""
    path = str(PurePosixPath(written))
    return path if path.endswith(EVAL_SET_SUFFIXES) else f"{path}{EVAL_SET_SUFFIX}"


def set_id_of(path: str) -> str:
    """The id for a new set at a path: letters, digits and underscores."""
    return _NO_ID.sub("_", derive_set_name(PurePosixPath(path))).strip("_") or "eval_set"


def free_name(wanted: str, taken: Collection[str]) -> str:
    """A name like the one that is wanted, with a number behind it where it is taken."""
    if wanted not in taken:
        return wanted
    return next(name for number in range(2, len(taken) + 3) if (name := f"{wanted}_{number}") not in taken)


def copied_set_path(path: str, taken: Collection[str]) -> str:
    """The path to propose for a copy of a set."""
    ending = next((suffix for suffix in EVAL_SET_SUFFIXES if path.endswith(suffix)), EVAL_SET_SUFFIX)
    stem = path.removesuffix(ending)
    others = {other.removesuffix(ending) for other in taken}
    return f"{free_name(f'{stem}_copy', others)}{ending}"
