"""What the user writes into the filter line: words, and terms for statuses, tools and the like."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from workbench.tui.state.pieces import safe_line
from workbench.tui.state.standing import FALLS_SHORT, Standing


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
